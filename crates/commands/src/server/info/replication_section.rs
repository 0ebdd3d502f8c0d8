//! INFO replication: the server's primary, its replicas, and the name of its history.

use crate::replication::min_replicas;
use crate::server::info::field::{Field, Put, Value, field, many};
use crate::server::info::info_source::Source;
use engine::config::Directive;
use engine::status::acknowledgement::{Acknowledgement, MissingMember};
use engine::status::replication_status::{LinkState, LinkStatus, SyncTotal};
use replication::in_sync_member::Membership;
use std::sync::atomic::Ordering::Relaxed;

pub(super) const REPLICATION: &[Field] = &[
    field("role", |s| if s.engine.replication().is_replica() { "slave" } else { "master" }.into()),
    field("master_host", |s| {
        Value::of(s.engine.replication().primary(), |primary| {
            String::from_utf8_lossy(&primary.host).into_owned().into()
        })
    }),
    field("master_port", |s| Value::of(s.engine.replication().primary(), |primary| primary.port.into())),
    field("master_link_status", |s| Value::of(s.primary_link(), |link| Value::State(is_up(link), ["down", "up"]))),
    field("master_last_io_seconds_ago", |s| {
        Value::of(s.primary_link(), |link| if is_up(link) { s.now().since(link.last_io) / 1000 } else { -1 }.into())
    }),
    field("master_sync_in_progress", |s| Value::of(s.primary_link(), |link| (link.state == LinkState::Sync).into())),
    field("slave_read_repl_offset", |s| Value::of(s.primary_link(), |link| link.read_offset.into())),
    field("slave_repl_offset", |s| Value::of(s.primary_link(), |_| s.engine.replication().data_offset().into())),
    field("replicas_repl_buffer_size", |s| Value::of(s.primary_link(), |link| link.buffered.into()))
        .gauge("replicas_repl_buffer_size_bytes", "The primary's stream that waits for the end of its snapshot."),
    field("replicas_repl_buffer_peak", |s| Value::of(s.primary_link(), |link| link.buffered_peak.into()))
        .gauge("replicas_repl_buffer_peak_bytes", "The most of it that there was."),
    field("master_sync_total_bytes", |s| Value::of(syncing(s), |link| sync_total(link).into())),
    field("master_sync_read_bytes", |s| Value::of(syncing(s), |link| link.sync_read.into())),
    field("master_sync_left_bytes", |s| {
        Value::of(syncing(s), |link| (sync_total(link) - link.sync_read as i64).into())
    }),
    field("master_sync_perc", |s| Value::of(syncing(s), synced_percent)),
    field("master_sync_last_io_seconds_ago", |s| {
        Value::of(syncing(s), |link| (s.now().since(link.last_io) / 1000).into())
    }),
    field("master_link_down_since_seconds", down_since),
    field("slave_priority", |s| Value::of(s.primary_link(), |_| priority(s).into()))
        .gauge("slave_priority", "How much a replica is wanted as a primary; 0 is never."),
    field("slave_read_only", |s| {
        Value::of(s.primary_link(), |_| s.engine.persistence_status().deny_reasons().is_read_only_replica().into())
    }),
    field("replica_announced", |s| Value::of(s.primary_link(), |_| s.config.flag(Directive::REPLICA_ANNOUNCED).into())),
    field("connected_slaves", |s| s.engine.replication().replicas().len().into())
        .gauge("connected_slaves", "Replicas that follow."),
    field("min_slaves_good_slaves", |s| {
        Value::when(min_replicas::are_wanted(&s.config), || min_replicas::count(s.engine, &s.config).into())
    }),
    many("slave", replicas),
    field("replicas_waiting_psync", |s| s.engine.replication().waiting_psync().into())
        .gauge("replicas_waiting_psync", "Replicas with a snapshot that have not asked for the stream behind it."),
    field("master_failover_state", |s| s.engine.replication().failover.lock().state().as_str().into()),
    field("master_replid", |s| s.engine.replication().history().id.to_string().into()),
    field("master_replid2", |s| s.engine.replication().history().second.to_string().into()),
    field("master_repl_offset", |s| s.engine.replication().offset().into())
        .gauge("master_repl_offset", "The stream's offset."),
    field("second_repl_offset", |s| s.engine.replication().history().second_offset.into())
        .gauge("second_repl_offset", "The offset up to which the history is also that of another primary."),
    field("repl_backlog_active", |s| s.engine.replication().backlog().is_active.into())
        .gauge("repl_backlog_is_active", "Whether there is a backlog."),
    field("repl_backlog_size", |s| s.config.bytes(Directive::REPL_BACKLOG_SIZE).into())
        .gauge("replication_backlog_bytes", "The wanted size of the backlog."),
    field("repl_backlog_first_byte_offset", |s| s.engine.replication().backlog().first.into())
        .gauge("repl_backlog_first_byte_offset", "The stream's offset at which the backlog begins."),
    field("repl_backlog_histlen", |s| s.engine.replication().backlog().len.into())
        .gauge("repl_backlog_history_bytes", "Bytes in the backlog."),
    // The server's record of the in-sync set, if there is one.
    field("in_sync_state", |s| Value::of(s.membership(), |known| state(s, known).into())),
    field("in_sync_id", |s| Value::of(s.membership(), |known| known.id.to_string().into())),
    field("in_sync_term", |s| Value::of(s.membership(), |known| known.term.number.into())),
    field("in_sync_epoch", |s| {
        Value::of(s.membership(), |known| known.set.as_ref().map_or(Value::None, |set| set.epoch.into()))
    }),
    field("in_sync_needed", |s| {
        Value::of(s.membership(), |known| known.set.as_ref().map_or(Value::None, |set| set.quorum.needed.into()))
    }),
    field("in_sync_members", |s| {
        Value::of(s.membership(), |known| {
            known.set.as_ref().map_or(Value::None, |set| members(&set.quorum.members).into())
        })
    }),
    field("in_sync_offset", |s| Value::of(s.membership(), |known| claimed_offset(s, known).into())),
    field("in_sync_promoted", |s| Value::of(acknowledging_primary(s), |status| status.was_promoted().into())),
    field("in_sync_handed_over", |s| Value::of(acknowledging_primary(s), |status| status.is_handed_over().into())),
    many("in_sync_missing", |s, put| absent_members(s, put, "in_sync_missing", Acknowledgement::missing)),
    many("in_sync_untold", |s, put| absent_members(s, put, "in_sync_untold", Acknowledgement::untold)),
];

fn is_up(link: &LinkStatus) -> bool {
    link.state == LinkState::Connected
}

/// Returns the link to the primary while a snapshot comes over it.
fn syncing<'s>(s: &'s Source<'_>) -> Option<&'s LinkStatus> {
    s.primary_link().filter(|link| link.state == LinkState::Sync)
}

/// Returns the length of the snapshot: 0 if the primary does not tell it, -1 before it has told anything.
fn sync_total(link: &LinkStatus) -> i64 {
    match link.sync_total {
        SyncTotal::Awaited => -1,
        SyncTotal::Unknown => 0,
        SyncTotal::Known(total) => total as i64,
    }
}

/// Returns the part of the snapshot that has come: -0.00 before it begins, as elsewhere.
fn synced_percent(link: &LinkStatus) -> Value {
    let total = sync_total(link) as f64;
    Value::Decimal(if total == 0.0 { 0.0 } else { link.sync_read as f64 * 100.0 / total }, 2)
}

fn down_since(s: &Source<'_>) -> Value {
    Value::of(s.primary_link().filter(|link| !is_up(link)), |link| match link.down_since.0 {
        0 => Value::Int(-1),
        _ => (s.now().since(link.down_since) / 1000).into(),
    })
}

/// Returns the priority of a replica for Sentinels, which promote none of priority 0.
fn priority(s: &Source<'_>) -> i64 {
    let is_in_sync = s.engine.replication().acknowledgement.is_in_sync();
    let may_lead = is_in_sync || s.config.flag(Directive::REPLICA_MAY_LOSE_ACKNOWLEDGED);
    if may_lead { s.config.int(Directive::REPLICA_PRIORITY) } else { 0 }
}

/// `slave0:ip=::1,port=6380,state=online,offset=9,lag=1,type=replica`
fn replicas(s: &Source<'_>, put: Put<'_>) {
    for (index, replica) in s.engine.replication().replicas().iter().enumerate() {
        let lag = if replica.is_online() { replica.lag(s.engine.host().nanos().ms()) } else { 0 };
        put(
            &format!("slave{index}"),
            Value::Parts(vec![
                ("ip", replica.ip.to_string().into()),
                ("port", replica.port.into()),
                ("state", replica.state().as_str().into()),
                ("offset", replica.acked.load(Relaxed).into()),
                ("lag", lag.into()),
                ("type", replica.kind().to_string().into()),
            ]),
        );
    }
}

fn state(s: &Source<'_>, known: &Membership) -> &'static str {
    match s.engine.replication().is_replica() {
        true if known.is_in_sync() => "in-sync",
        true => "out-of-sync",
        false => s.engine.replication().acknowledgement.state(),
    }
}

fn members(all: &[impl ToString]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Returns the offset that the server has of the set. Words of a term in which the server leads in vain do not count.
fn claimed_offset(s: &Source<'_>, known: &Membership) -> u64 {
    let offset = s.engine.replication().data_offset();
    known.claim.map_or(offset, |claim| claim.offset.min(offset))
}

/// Returns the state of acknowledged writes of a primary with an in-sync set.
fn acknowledging_primary<'s>(s: &'s Source<'_>) -> Option<&'s Acknowledgement> {
    let status = s.engine.replication();
    s.membership().filter(|_| !status.is_replica()).map(|_| &status.acknowledgement)
}

/// `in_sync_missing0:id=ab,addr=::1:6380,seconds=7`
fn absent_members(s: &Source<'_>, put: Put<'_>, name: &str, all: fn(&Acknowledgement) -> Vec<MissingMember>) {
    let Some(status) = acknowledging_primary(s) else { return };
    let now = s.engine.host().nanos().0 / 1_000_000;
    for (index, MissingMember { id, address, since }) in all(status).into_iter().enumerate() {
        let seconds = now.saturating_sub(since) / 1000;
        put(
            &format!("{name}{index}"),
            Value::Parts(vec![
                ("id", id.to_string().into()),
                ("addr", address.map_or("unknown".into(), |address| address.to_string().into())),
                ("seconds", seconds.into()),
            ]),
        );
    }
}
