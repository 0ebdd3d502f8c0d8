//! The busy time of workers, in the terms of a server whose first thread executes and whose others read and write.

use engine::Engine;

/// Returns the field and the busy seconds of each worker.
pub(super) fn all(engine: &Engine) -> impl Iterator<Item = (String, f64)> {
    engine.metrics().iter().take(engine.workers()).enumerate().map(|(index, worker)| {
        let seconds = worker.turn_nanos.get() as f64 / 1e9;
        let name = match index {
            0 => "used_active_time_main_thread".to_owned(),
            _ => format!("used_active_time_io_thread_{index}"),
        };
        (name, seconds)
    })
}

/// Returns whether another worker than the first has something to do at this moment.
pub(super) fn others_work(engine: &Engine) -> bool {
    let now = engine.host().nanos();
    engine.metrics().iter().take(engine.workers()).skip(1).any(|worker| worker.present_turn_nanos(now) > 0)
}
