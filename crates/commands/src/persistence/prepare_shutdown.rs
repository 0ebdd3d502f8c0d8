//! The server's end: replicas get the rest of the stream, the data set is saved, and then the process may end.
//!
//! ```text
//!   SHUTDOWN, a signal -> writes are held back, replicas catch up -> the log, the last save -> the process ends
//!                          ^ SHUTDOWN ABORT: it goes on              ^ fails: it goes on
//! ```
//!
//! Waiting is for a thread of its own, and no worker's. A caller that wants the end while there is one on its way waits
//! for the outcome of that.

use crate::core::mode;
use crate::persistence::aof;
use crate::persistence::save::save_now;
use crate::persistence::shutdown_failover::hand_over;
use engine::Engine;
use engine::config::Directive;
use engine::held_writes::HeldWrites;
use engine::status::deny_reasons::Paused;
use engine::status::pause::Hold;
use engine::status::replication_status::ReplicaInfo;
use engine::status::shutdown_status::ShutdownTurn;
use engine::time::SteadyMs;
use std::io::ErrorKind;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Whether the data set is saved before the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastSave {
    /// The data set is saved if there are save points.
    #[default]
    Usual,
    /// The data set is saved whether there are save points or not.
    Always,
    /// The data set is not saved.
    Never,
}

/// The manner of the server's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HowToEnd {
    /// Whether the data set is saved.
    pub saves: LastSave,
    /// Replicas are not waited for.
    pub is_now: bool,
    /// The server ends even if a step before fails.
    pub is_forced: bool,
    /// The server does not end where that may stop a cluster from serving.
    pub is_safe: bool,
    /// A node of a cluster lets one of its replicas take over.
    pub hands_over: bool,
}

/// Interval of the checks of replicas.
const LOOK: Duration = Duration::from_millis(10);

/// Wait of an end that hands over without waiting for replicas, for writes under way.
const LAST_WRITES: i64 = 1000;

/// The server's end, as a caller that wants it has found it.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// The end begins with this caller, and waits for replicas until then at most.
    Begun(ShutdownTurn, SteadyMs),
    /// The end is on its way.
    Awaited(ShutdownTurn),
}

impl End {
    /// Begins the end, or joins the one that is on its way: SHUTDOWN ABORT from now on is for this one, too.
    pub fn join(engine: &Engine) -> End {
        let seconds = engine.config().snapshot().int(Directive::SHUTDOWN_TIMEOUT).max(0);
        let until = now(engine).after(seconds.saturating_mul(1000));
        match engine.persistence_status().shutdown.begin(until) {
            Ok(turn) => End::Begun(turn, until),
            Err(turn) => End::Awaited(turn),
        }
    }

    /// Returns whether it takes longer than its last save: others are waited for.
    pub fn waits(self, engine: &Engine, how: HowToEnd) -> bool {
        matches!(self, End::Awaited(_)) || holds_writes(engine, how)
    }

    /// Gives up an end that no thread can perform.
    pub fn fail(self, engine: &Engine) {
        if let End::Begun(turn, _) = self {
            engine.persistence_status().shutdown.fail(turn);
        }
    }

    /// Performs all steps before the end. `caller`: the client that wants it, in words. False: the server continues.
    pub fn perform(self, engine: &Engine, how: HowToEnd, caller: Option<&str>) -> bool {
        match self {
            End::Begun(turn, until) => end_in_turn(engine, turn, until, how, caller),
            End::Awaited(turn) => await_other(engine, turn),
        }
    }
}

/// Returns whether nothing is written from the beginning of the end on: replicas are to get all of it.
fn holds_writes(engine: &Engine, how: HowToEnd) -> bool {
    // A script that keeps the server busy has locks for an unlimited time.
    let hands_over = how.hands_over && !engine.replication().replicas().is_empty() && !engine.scripts().is_busy();
    hands_over || waits_for_replicas(engine, how)
}

fn waits_for_replicas(engine: &Engine, how: HowToEnd) -> bool {
    let has_time = engine.config().snapshot().int(Directive::SHUTDOWN_TIMEOUT) > 0;
    // A script that keeps the server busy has locks for an unlimited time.
    !how.is_now && has_time && !engine.replication().replicas().is_empty() && !engine.scripts().is_busy()
}

fn now(engine: &Engine) -> SteadyMs {
    engine.steady_now()
}

/// Ends the server, or joins the caller that does, as far as its process: see [`End::perform`].
pub fn end_server(engine: &Engine, how: HowToEnd) -> bool {
    End::join(engine).perform(engine, how, None)
}

fn end_in_turn(engine: &Engine, turn: ShutdownTurn, until: SteadyMs, how: HowToEnd, caller: Option<&str>) -> bool {
    let status = &engine.persistence_status().shutdown;
    let caller = caller.map_or(String::new(), |client| format!(" (user request from '{client}')"));
    engine.host().notice(&format!("User requested shutdown...{caller}"));
    let (held, end) = match holds_writes(engine, how) {
        true => await_replicas(engine, turn, if waits_for_replicas(engine, how) { until } else { SteadyMs(0) }),
        false => (None, None),
    };
    if !status.go_on(turn) {
        return false;
    }
    tell_lagging(engine, end.unwrap_or(engine.replication().offset()));
    if !is_safe(engine, how) || !before_end(engine, how.saves, how.is_forced) {
        status.fail(turn);
        return false;
    }
    // The scripts end even if they have written, and nothing of that is logged: there is no other way past them.
    engine.scripts().busy().iter().for_each(|running| running.run.end_anyway());
    leave_cluster(engine, how.hands_over, end);
    status.finish(turn);
    // Writes stay held until the process ends.
    std::mem::forget(held);
    true
}

/// Waits for the outcome of the end that is on its way.
fn await_other(engine: &Engine, turn: ShutdownTurn) -> bool {
    let status = &engine.persistence_status().shutdown;
    while status.present() == Some(turn) {
        engine.host().rest(LOOK);
    }
    status.has_ended()
}

/// Stops all writes from now on, and waits until replicas have the rest. Returns the length of the stream, if that is
/// known.
fn await_replicas(engine: &Engine, turn: ShutdownTurn, until: SteadyMs) -> (Option<HeldWrites<'_>>, Option<u64>) {
    let (shutdown, host) = (&engine.persistence_status().shutdown, engine.host());
    let writes_until = until.max(now(engine).after(LAST_WRITES));
    let ends = || shutdown.waits(turn) && now(engine) < writes_until;
    let waits = || shutdown.waits(turn) && now(engine) < until;
    let held = HeldWrites::begin(engine, Hold::Shutdown);
    let mut next = 0;
    while ends() && !engine.pass_locks(&mut next, || !ends()) {}
    let offset = Arc::new(OnceLock::new());
    host.frame_changes(&offset);
    while ends() && offset.get().is_none() {
        host.rest(LOOK);
    }
    let mut is_told = false;
    while waits() {
        let end = offset.get().copied().unwrap_or(u64::MAX);
        if !engine.replication().replicas().iter().any(|replica| lags(replica, end)) {
            break;
        }
        if offset.get().is_some() && !std::mem::replace(&mut is_told, true) {
            host.notice("Waiting for replicas before shutting down.");
        }
        host.rest(LOOK);
    }
    (Some(held), offset.get().copied())
}

/// Returns whether the end is safe: a primary with slots may be missing in its cluster.
fn is_safe(engine: &Engine, how: HowToEnd) -> bool {
    if !how.is_safe || !engine.host().own_node().is_some_and(|node| node.has_vote) {
        return true;
    }
    let then = if how.is_forced { "Exit anyway." } else { "Can't exit." };
    let warning = "This is a voting primary. Shutting down may cause the cluster to go down.";
    engine.host().log(&format!("{warning} {then}"));
    if !how.is_forced {
        engine.host().log(FAILED);
    }
    how.is_forced
}

/// Takes the last steps of a node of a cluster. `end`: the length of the stream, if there is one and it grows no more.
fn leave_cluster(engine: &Engine, hands_over: bool, end: Option<u64>) {
    if !engine.is_clustered() {
        return;
    }
    if hands_over {
        // The order is in the stream: a server that gives its place away is behind it.
        engine.replication().acknowledgement.set_ending(false);
        hand_over(engine, end);
    }
    engine.host().notice("Saving the cluster configuration file before exiting.");
    engine.host().save_node();
}

fn lags(replica: &ReplicaInfo, end: u64) -> bool {
    replica.acked.load(Relaxed) < end
}

fn tell_lagging(engine: &Engine, end: u64) {
    let (host, replicas) = (engine.host(), engine.replication().replicas());
    let lagging = || replicas.iter().filter(|replica| lags(replica, end));
    for replica in lagging() {
        let behind = end.saturating_sub(replica.acked.load(Relaxed));
        host.notice(&format!(
            "Lagging replica {}:{} reported offset {behind} behind master, lag={}, state={}.",
            replica.ip,
            replica.port,
            if replica.is_online() { replica.lag(host.nanos().ms()) } else { 0 },
            replica.state().as_str()
        ));
    }
    if !replicas.is_empty() {
        let synced = replicas.len() - lagging().count();
        host.notice(&format!("{synced} of {} replicas are in sync when shutting down.", replicas.len()));
    }
}

/// Saves before the server ends, if it is to; a save in the background is given up. False if that failed and the end is
/// not `forced`: then the server continues.
fn before_end(engine: &Engine, saves: LastSave, forced: bool) -> bool {
    // A second caller would take the save of the first away.
    let mut ended = engine.persistence_status().end_turn();
    if *ended {
        return true;
    }
    engine.replication().acknowledgement.set_ending(true);
    let stopped = aof::stop_at_end(engine, forced);
    let held = if stopped { aof::mark_end(engine) } else { None };
    let saved = stopped && save_at_end(engine, saves, forced);
    if !saved {
        engine.replication().acknowledgement.set_ending(false);
    }
    if !saved && !forced {
        engine.host().log(FAILED);
    }
    *ended = saved || forced;
    if *ended {
        // Writes stay held until the process ends.
        std::mem::forget(held);
    }
    *ended
}

fn save_at_end(engine: &Engine, saves: LastSave, forced: bool) -> bool {
    let wanted = match saves {
        LastSave::Always => true,
        LastSave::Never => false,
        LastSave::Usual if mode::is_sentinel() => false,
        LastSave::Usual => !engine.config().snapshot().save_points().is_empty(),
    };
    if engine.persistence_status().is_running_in_background() {
        engine.host().log("There is a child saving an .rdb. Killing it!");
    }
    engine.persistence_status().cancel();
    // A data set that is not completely loaded must not replace the saved one.
    if !wanted || engine.persistence_status().deny_reasons().is_loading() {
        return true;
    }
    engine.host().notice("Saving the final RDB snapshot before exiting.");
    // Changes after the last snapshot would be lost, also those of commands admitted before.
    let now = now(engine);
    engine.begin_pause(Paused::Writes, now.after(ENDING_MAX), now);
    engine.host().pause_changed();
    // SHUTDOWN NOSAVE is the only way past a script that has written and does not end.
    let saves_nothing = || engine.persistence_status().shutdown.saves_nothing();
    while !engine.pass_locks(&mut 0, saves_nothing) {
        if saves_nothing() {
            return true;
        }
    }
    let saved = save_last(engine);
    if !saved {
        let then = if forced { ". Exit anyway." } else { ", can't exit." };
        engine.host().log(&format!("Error trying to save the DB{then}"));
        engine.end_pause();
        engine.host().pause_changed();
    }
    saved
}

const FAILED: &str = "Errors trying to shut down the server. Check the logs for more information.";

/// Milliseconds for which clients may not write because the server ends: until it has ended.
const ENDING_MAX: i64 = 24 * 3600 * 1000;

/// Saves as soon as no other thread does.
fn save_last(engine: &Engine) -> bool {
    loop {
        match save_now(engine, None) {
            Ok(()) => return true,
            Err(error)
                if matches!(error.kind(), ErrorKind::ResourceBusy) && engine.persistence_status().is_running() =>
            {
                engine.persistence_status().cancel();
                engine.host().rest(Duration::from_millis(1));
            }
            // The data set is being replaced, and what there is of the new one must not replace the saved one.
            Err(error)
                if matches!(error.kind(), ErrorKind::ResourceBusy)
                    && engine.persistence_status().deny_reasons().is_loading() =>
            {
                return true;
            }
            Err(error) if matches!(error.kind(), ErrorKind::ResourceBusy) => {
                engine.host().rest(Duration::from_millis(1));
            }
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{End, HowToEnd};
    use crate::testing::Client;

    #[test]
    fn an_abort_is_for_all_who_had_joined() {
        let client = Client::new();
        let engine = client.engine();
        let (first, second) = (End::join(engine), End::join(engine));
        assert!(matches!((first, second), (End::Begun(..), End::Awaited(_))));
        assert!(engine.persistence_status().shutdown.abort());
        assert!(!first.perform(engine, HowToEnd::default(), None));
        assert!(!second.perform(engine, HowToEnd::default(), None));
        assert!(!engine.persistence_status().shutdown.has_ended());
    }
}
