//! Errors of commands that were accepted once, by the log's writer or by the primary: the data may not be what it was
//! there.

use engine::Engine;
use engine::config::Directive;
use engine::keyspace::origin::Asker;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of an error that the log shows.
const SHOWN: usize = 4096;

/// The command called `name`, which is obeyed, has replied this error. `propagation-error-behavior` may end the server.
#[cold]
pub(crate) fn tell_unexpected(engine: &Engine, asker: Asker, name: &str, error: &[u8]) {
    let config = engine.config().snapshot();
    let behavior = config.choice(Directive::PROPAGATION_ERROR_BEHAVIOR);
    let (who, whom, is_fatal) = match asker {
        Asker::Primary => ("replica", "primary", behavior != "ignore" && config.flag(Directive::REPLICA_READ_ONLY)),
        _ => ("server", "AOF-loading-client", behavior == "panic"),
    };
    engine.persistence_status().loading.errors.fetch_add(1, Relaxed);
    let text = String::from_utf8_lossy(&error[..error.len().min(SHOWN)]);
    engine.host().log(&format!(
        "== CRITICAL == This {who} is sending an error to its {whom}: '-{text}' after processing the command '{name}'"
    ));
    assert!(!is_fatal, "This {who} panicked sending an error to its {whom} after processing the command '{name}'");
}
