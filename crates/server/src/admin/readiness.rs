//! Whether the server is to be sent clients: `/readyz`.
//!
//! A lack of other nodes, as of a primary's replicas or of a cluster's primaries, is no reason: an orchestrator that
//! takes a server out of its names until others follow it keeps these from finding it.

use crate::workers::shared::Shared;
use engine::config::Directive;
use engine::status::replication_status::LinkState;
use engine::time::SteadyMs;
use std::sync::atomic::Ordering::Relaxed;

/// All reasons, with their meaning.
pub const REASONS: [&str; 7] = [
    // The data set is being loaded.
    "loading",
    // The server is about to end.
    "shutdown",
    // A replica has no link to its primary.
    "primary-link",
    // Nothing has come over the link for `admin-ready-max-lag` seconds.
    "primary-lag",
    // There is more data than there may be, and nothing is evicted.
    "memory",
    // Writes are refused, since the last snapshot could not be saved.
    "save",
    // Writes are refused, since the append-only file cannot be written.
    "log",
];

/// Returns the reasons that hold.
pub fn reasons(shared: &Shared, now: SteadyMs) -> Vec<&'static str> {
    let engine = &*shared.engine;
    let (config, status) = (engine.config().snapshot(), engine.persistence_status());
    let deny = status.deny_reasons();
    let follows = engine.replication().is_replica();
    let link = engine.replication().link();
    let is_linked = link.state == LinkState::Connected;
    let max_lag = config.int(Directive::ADMIN_READY_MAX_LAG);
    let ends = shared.stopping.load(Relaxed) || status.is_end_wanted() || status.shutdown.waiting_until().is_some();
    let limit = engine.memory_limit().limit();
    let used = || engine.host().allocated().saturating_sub(engine.not_counted());
    let keeps_all = config.choice(Directive::MAXMEMORY_POLICY) == "noeviction";
    let holds = [
        deny.is_loading(),
        ends,
        follows && !is_linked,
        follows && is_linked && max_lag > 0 && now.since(link.last_io) / 1000 >= max_lag,
        limit < u64::MAX && keeps_all && used() > limit,
        deny.is_failed(),
        deny.is_unlogged(),
    ];
    REASONS.into_iter().zip(holds).filter(|(_, holds)| *holds).map(|(reason, _)| reason).collect()
}
