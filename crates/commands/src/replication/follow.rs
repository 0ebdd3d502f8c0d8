//! The primary that the server follows: the change from one to another, or to none, and the admission of commands by
//! then.
//!
//! A thread that changes it holds the right to apply the primary's stream for the moment
//! ([`applying`](engine::status::replication_status::ReplicationStatus::applying)), so that nothing of a former
//! primary's is applied any more afterwards. A primary that becomes a replica first makes all writes part of its stream
//! ([`demote`](crate::replication::demote)).

use super::min_replicas;
use crate::persistence::aof;
use engine::config::{Config, Directive, Upstream};
use engine::locks::sync::{MutexGuard, lock_soon};
use engine::status::replication_status::{LinkState, PrimaryAddress, new_id};
use engine::time::SteadyMs;
use engine::{Engine, Error};
use replication::replid::{History, ReplicationId};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Treatment of clients that wait for a primary's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Their waits end with an error, also on a replica that follows another primary from now on.
    End,
    /// Their waits continue: the server may not stay a replica.
    Keep,
}

/// Makes the server follow this primary from now on, or none. False: the stream is being applied, and the caller
/// retries a little later. Commands that were admitted before may still run when this returns.
pub(crate) fn follow(engine: &Engine, primary: Option<PrimaryAddress>, waits: Waits) -> bool {
    let Some(applying) = lock_soon(&engine.replication().applying) else { return false };
    change(engine, &applying, primary);
    drop(applying);
    follow_up(engine, waits);
    true
}

/// Time that a thread without locks waits in the queue of the lock under which the stream is applied: longer than
/// savers hold it, which take it in turn.
const PATIENCE: Duration = Duration::from_secs(1);

/// Like `follow`, for a thread that holds no lock which others may wait for. False: the lock was not free for long.
pub(crate) fn follow_patiently(engine: &Engine, primary: Option<PrimaryAddress>, waits: Waits) -> bool {
    let Some(applying) = engine.replication().applying.try_lock_for(PATIENCE) else { return false };
    change(engine, &applying, primary);
    drop(applying);
    follow_up(engine, waits);
    true
}

/// Like `follow`, for a transaction that has the lock under which the stream is applied, and keeps it.
pub(crate) fn follow_locked(
    engine: &Engine,
    applying: &MutexGuard<'_, ()>,
    primary: Option<PrimaryAddress>,
    waits: Waits,
) {
    change(engine, applying, primary);
    follow_up(engine, waits);
}

/// Changes the primary.
fn change(engine: &Engine, _: &MutexGuard<'_, ()>, primary: Option<PrimaryAddress>) {
    let status = engine.replication();
    let was = status.primary();
    status.set_primary(primary.clone());
    let now = engine.steady_now();
    status.update_link(|link| {
        let was_up = link.state == LinkState::Connected || link.down_since.0 != 0;
        link.state = if primary.is_some() { LinkState::Connect } else { LinkState::None };
        // A primary's data is of its own history.
        if was.is_none() {
            (link.can_resume, link.stream_db) = (true, 0);
        }
        link.down_since = if was_up && was.is_some() && primary.is_some() { now } else { SteadyMs(0) };
    });
    if was.is_some() && primary.is_none() {
        // The data from the former primary's history continues under a name of its own. A server that a failed
        // synchronization has emptied has none of that data.
        let goes_on = status.link().can_resume;
        status.update_history(|history| match goes_on {
            true => history.shift(new_id(), status.offset()),
            false => *history = History::new(new_id()),
        });
    }
    engine.set_following(primary.is_some());
    let upstream = primary.map(|primary| Upstream { host: primary.host.as_slice().into(), port: primary.port });
    engine.config().update(|config| config.set_upstream(upstream));
}

/// Informs all that depends on the role of the change.
fn follow_up(engine: &Engine, waits: Waits) {
    let status = engine.replication();
    if let Some(aof) = ::persistence::aof::of(engine) {
        aof::regulate(engine, aof);
    }
    if !status.is_replica() {
        // The stream is the server's own before clients may write.
        engine.host().primary_changed();
    }
    settle(engine);
    if status.is_replica() && waits == Waits::End {
        end_waits(engine);
    }
    if status.is_replica() {
        engine.host().primary_changed();
    }
}

/// Updates the admission of commands after the server's role or its link has changed.
pub fn settle(engine: &Engine) {
    engine.config().settled(|config| refresh(engine, config));
}

/// Updates the admission of commands by the server's role, its link and these directives: under
/// [`settled`](engine::config::ConfigStore::settled), or while the configuration changes.
pub(crate) fn refresh(engine: &Engine, config: &Config) {
    let status = engine.replication();
    let is_replica = status.is_replica();
    let is_up = status.link().state == LinkState::Connected;
    let reasons = engine.persistence_status();
    // A server that leads from now on asks for replicas before it takes the first write.
    min_replicas::refresh(engine, config);
    reasons.set_follows(is_replica);
    reasons.set_read_only_replica(is_replica && config.flag(Directive::REPLICA_READ_ONLY));
    reasons.set_stale(is_replica && !is_up && !config.flag(Directive::REPLICA_SERVE_STALE_DATA));
}

/// Follows the primary that the configuration names, at the start, before there are clients. Returns whether there is
/// one.
pub fn begin(engine: &Engine) -> bool {
    let config = engine.config().snapshot();
    let Some(Upstream { host, port }) = config.upstream() else { return false };
    let status = engine.replication();
    status.set_primary(Some(PrimaryAddress { host: host.to_vec(), port: *port }));
    status.update_link(|link| link.state = LinkState::Connect);
    engine.set_following(true);
    settle(engine);
    true
}

/// Adopts the history, up to this offset, of the data that was read at the start: a replica resumes it, and a primary
/// continues it under another name.
pub fn adopt(engine: &Engine, (id, offset, db): (ReplicationId, u64, u32)) {
    let status = engine.replication();
    status.set_offset(offset);
    if status.is_replica() {
        status.update_history(|known| *known = History::new(id));
        status.update_link(|link| (link.can_resume, link.stream_db) = (true, db));
    } else {
        status.update_history(|known| {
            let own = known.id;
            *known = History::new(id);
            known.shift(own, offset);
        });
    }
}

/// Ends waits for keys of a primary that is a replica now, except those of clients that only read from replicas.
/// Clients that follow redirections get the place to wait, the others get an error and lose their connections. In a
/// cluster the slots decide where a client waits, and a change of their owners ends its wait.
pub(crate) fn end_waits(engine: &Engine) {
    if engine.is_clustered() {
        return;
    }
    let Some(primary) = engine.replication().primary() else { return };
    for client in engine.clients().all() {
        let Some(ticket) = client.ticket() else { continue };
        let request = ticket.request();
        let reads_replicas = client.read_only.load(Relaxed) && !request.writes();
        if request.lasts() || reads_replicas || !ticket.finish() {
            continue;
        }
        let is_sent_on = client.redirects.load(Relaxed) && !ticket.keys().is_empty();
        let error = if is_sent_on { primary.redirect() } else { Error::UnblockedByRole };
        engine.host().deliver(&ticket, request.error_reply(&error));
        if !is_sent_on {
            engine.host().close(client.worker.load(Relaxed), client.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;
    use std::sync::Arc;

    #[test]
    fn a_replica_without_its_data_is_promoted_to_a_history_of_its_own() {
        for keeps_data in [true, false] {
            let mut client = Client::new();
            let engine = Arc::clone(client.shared_engine());
            let status = engine.replication();
            client.is("REPLICAOF 127.0.0.1 1", "+OK");
            let former = status.history().id;
            status.update_link(|link| link.can_resume = keeps_data);
            client.is("REPLICAOF NO ONE", "+OK");
            assert_eq!(status.history().has(former, 1), keeps_data);
        }
    }
}
