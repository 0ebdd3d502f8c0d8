//! INFO replication: the server's primary, its replicas, and the name of its history.

use super::section_text::{Source, Text};
use crate::replication::good_replicas;
use engine::config::Directive;
use engine::status::acknowledgement::MissingMember;
use engine::status::replication_status::{LinkState, PrimaryAddress};
use replication::in_sync_set::Term;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

pub(super) fn replication(text: &mut Text, source: &Source<'_>) {
    let status = source.engine.replication();
    text.field("role", if status.is_replica() { "slave" } else { "master" });
    if let Some(primary) = status.primary() {
        link(text, source, &primary);
    }
    let replicas = status.replicas();
    text.field("connected_slaves", replicas.len());
    if good_replicas::are_wanted(&source.config) {
        text.field("min_slaves_good_slaves", good_replicas::count(source.engine, &source.config));
    }
    for (index, replica) in replicas.iter().enumerate() {
        let lag = if replica.is_online() { replica.lag(source.engine.host().nanos().ms()) } else { 0 };
        let _ = write!(
            text.0,
            "slave{index}:ip={},port={},state={},offset={},lag={lag},type={}\r\n",
            replica.ip,
            replica.port,
            replica.state().as_str(),
            replica.acked.load(Relaxed),
            replica.kind(),
        );
    }
    text.field("replicas_waiting_psync", status.waiting_psync());
    text.field("master_failover_state", status.failover.lock().state().as_str());
    let (history, backlog) = (status.history(), status.backlog());
    text.field("master_replid", history.id);
    text.field("master_replid2", history.second);
    text.field("master_repl_offset", status.offset());
    text.field("second_repl_offset", history.second_offset);
    text.field("repl_backlog_active", i32::from(backlog.is_active));
    text.field("repl_backlog_size", source.config.bytes(Directive::REPL_BACKLOG_SIZE));
    text.field("repl_backlog_first_byte_offset", backlog.first);
    text.field("repl_backlog_histlen", backlog.len);
    in_sync_set(text, source);
}

/// Writes the server's record of the in-sync set, if there is one.
fn in_sync_set(text: &mut Text, source: &Source<'_>) {
    let status = source.engine.replication();
    let known = status.acknowledgement.membership();
    if known.term == Term::NONE && !status.acknowledgement.is_asked() {
        return;
    }
    let state = match status.is_replica() {
        true if known.is_in_sync() => "in-sync",
        true => "out-of-sync",
        false => status.acknowledgement.state(),
    };
    text.field("in_sync_state", state);
    text.field("in_sync_id", known.id);
    text.field("in_sync_term", known.term.number);
    if let Some(set) = known.set {
        let members: Vec<String> = set.quorum.members.iter().map(ToString::to_string).collect();
        text.field("in_sync_epoch", set.epoch);
        text.field("in_sync_needed", set.quorum.needed);
        text.field("in_sync_members", members.join(","));
    }
    // Words of a term in which the server leads in vain do not count.
    let offset = status.data_offset();
    text.field("in_sync_offset", known.claim.map_or(offset, |claim| claim.offset.min(offset)));
    if status.is_replica() {
        return;
    }
    text.field("in_sync_promoted", i32::from(status.acknowledgement.was_promoted()));
    text.field("in_sync_handed_over", i32::from(status.acknowledgement.is_handed_over()));
    let now = source.engine.host().nanos().0 / 1_000_000;
    let (missing, untold) = (status.acknowledgement.missing(), status.acknowledgement.untold());
    for (name, members) in [("in_sync_missing", missing), ("in_sync_untold", untold)] {
        for (index, member) in members.iter().enumerate() {
            let MissingMember { id, address, since } = member;
            let (seconds, address) = (now.saturating_sub(*since) / 1000, address.as_deref().unwrap_or("unknown"));
            let _ = write!(text.0, "{name}{index}:id={id},addr={address},seconds={seconds}\r\n");
        }
    }
}

/// Writes the fields about the link to the primary.
fn link(text: &mut Text, source: &Source<'_>, primary: &PrimaryAddress) {
    let (status, now) = (source.engine.replication(), source.engine.host().steady_ms(source.now_us));
    let link = status.link();
    let is_up = link.state == LinkState::Connected;
    text.field("master_host", String::from_utf8_lossy(&primary.host));
    text.field("master_port", primary.port);
    text.field("master_link_status", if is_up { "up" } else { "down" });
    text.field("master_last_io_seconds_ago", if is_up { now.since(link.last_io) / 1000 } else { -1 });
    text.field("master_sync_in_progress", i32::from(link.state == LinkState::Sync));
    text.field("slave_read_repl_offset", link.read_offset);
    text.field("slave_repl_offset", status.data_offset());
    text.field("replicas_repl_buffer_size", link.buffered);
    text.field("replicas_repl_buffer_peak", link.buffered_peak);
    if link.state == LinkState::Sync {
        let total = link.sync_total.map_or(0, |total| total as i64);
        let left = link.sync_total.map_or(0, |total| total.saturating_sub(link.sync_read) as i64);
        let percent = if total == 0 { 0.0 } else { link.sync_read as f64 * 100.0 / total as f64 };
        text.field("master_sync_total_bytes", total);
        text.field("master_sync_read_bytes", link.sync_read);
        text.field("master_sync_left_bytes", left);
        text.field("master_sync_perc", format_args!("{percent:.2}"));
        text.field("master_sync_last_io_seconds_ago", now.since(link.last_io) / 1000);
    }
    if !is_up {
        let never = link.down_since.0 == 0;
        text.field("master_link_down_since_seconds", if never { -1 } else { now.since(link.down_since) / 1000 });
    }
    // A Sentinel promotes no replica of priority 0.
    let may_lead = status.acknowledgement.is_in_sync() || source.config.flag(Directive::REPLICA_MAY_LOSE_ACKNOWLEDGED);
    text.field("slave_priority", if may_lead { source.config.int(Directive::REPLICA_PRIORITY) } else { 0 });
    text.field("slave_read_only", i32::from(source.engine.persistence_status().deny_reasons().is_read_only_replica()));
    text.field("replica_announced", i32::from(source.config.flag(Directive::REPLICA_ANNOUNCED)));
}
