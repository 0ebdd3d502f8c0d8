//! The distance of the log, of replicas and of the server itself as one from the executed commands.

use cinnabar_admin::family::{Family, Kind};
use engine::Engine;
use persistence::aof::{self, State};
use std::sync::atomic::Ordering::Relaxed;

/// Adds metrics of lags. The log's is there while there is a log.
pub fn add(families: &mut Vec<Family>, engine: &Engine) {
    log(families, engine);
    let status = engine.replication();
    let end = status.offset();
    let help = "Bytes of the stream that a replica has not acknowledged.";
    let mut unacknowledged = Family::new("cinnabar_replica_unacknowledged_bytes", Kind::Gauge, help);
    let help = "Bytes of the stream that a replica has not been sent.";
    let mut unsent = Family::new("cinnabar_replica_unsent_bytes", Kind::Gauge, help);
    for replica in status.replicas() {
        let labels = || vec![("replica_ip", replica.ip.clone()), ("replica_port", replica.port.to_string())];
        unacknowledged.add(labels(), end.saturating_sub(replica.acked.load(Relaxed)) as f64);
        unsent.add(labels(), replica.pending.load(Relaxed) as f64);
    }
    families.extend([unacknowledged, unsent]);
    if status.is_replica() {
        let behind = status.link().read_offset.saturating_sub(end);
        let help = "Bytes of the primary's stream that have come and are not applied.";
        families.push(Family::number("cinnabar_primary_unapplied_bytes", Kind::Gauge, help, behind as f64));
    }
}

fn log(families: &mut Vec<Family>, engine: &Engine) {
    let Some(aof) = aof::of(engine).filter(|aof| aof.state() != State::Off) else { return };
    let help = "Bytes of the log that no file has.";
    families.push(Family::number("cinnabar_log_unwritten_bytes", Kind::Gauge, help, aof.journal.waiting() as f64));
    let unsynced = aof.journal.appended().saturating_sub(aof.journal.synced());
    let help = "Bytes of the log that a loss of power would lose.";
    families.push(Family::number("cinnabar_log_unsynced_bytes", Kind::Gauge, help, unsynced as f64));
}
