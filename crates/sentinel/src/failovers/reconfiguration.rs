//! A failover's steps after the promotion: the other replicas follow, then the promoted one is the primary.

use crate::model::effect::Level;
use crate::model::instance::{Acknowledging, FailoverState, Flags, InstanceId};
use crate::voter::Voter;
use crate::watch::Watch;

/// Turns replicas to the promoted one, as many at a time as the configuration allows.
pub(super) fn reconfigure_replicas(watch: &mut Watch, primary: InstanceId) {
    let group = watch.group(primary);
    let (replicas, limit) = (group.replicas.clone(), group.parallel_syncs);
    let Some(promoted) = group.failover.promoted else {
        return;
    };
    let busy = Flags::RECONF_SENT.and(Flags::RECONF_IN_PROGRESS);
    let mut in_progress = replicas.iter().filter(|&&id| watch[id].flags.has(busy)).count() as i64;
    for id in replicas {
        if in_progress >= limit {
            break;
        }
        in_progress += i64::from(reconfigure(watch, id, promoted));
    }
    detect_end(watch, primary, promoted);
}

fn reconfigure(watch: &mut Watch, id: InstanceId, promoted: InstanceId) -> bool {
    let flags = watch[id].flags;
    if flags.has(Flags::PROMOTED.and(Flags::RECONF_DONE)) {
        return false;
    }
    let waited = watch.now() - watch[id].reconf_sent;
    if flags.has(Flags::RECONF_SENT) && waited > watch.periods().replica_reconfiguration {
        // A Sentinel that sees it later will correct it.
        watch.event_of(Level::Notice, "-slave-reconf-sent-timeout", id, "");
        let flags = &mut watch[id].flags;
        flags.remove(Flags::RECONF_SENT);
        flags.insert(Flags::RECONF_DONE);
    }
    let busy = Flags::RECONF_SENT.and(Flags::RECONF_IN_PROGRESS);
    if watch[id].flags.has(busy) || watch.link(id).disconnected {
        return false;
    }
    let address = watch[promoted].address.clone();
    let sent = watch.send_replica_of(id, Some(&address));
    if sent {
        let now = watch.now();
        watch[id].flags.insert(Flags::RECONF_SENT);
        watch[id].reconf_sent = now;
        watch.event_of(Level::Notice, "+slave-reconf-sent", id, "");
    }
    sent
}

fn detect_end(watch: &mut Watch, primary: InstanceId, promoted: InstanceId) {
    if watch[promoted].flags.has(Flags::S_DOWN) {
        return;
    }
    let group = watch.group(primary);
    let (replicas, since) = (group.replicas.clone(), group.failover.state_since);
    let late = watch.now() - since > group.failover_timeout;
    // A promoted server that was started again may confirm nothing: no replica follows it, but another may lead.
    let reported = &watch[promoted].reported;
    let forgot = reported.acknowledges == Some(Acknowledging::Unconfirmed)
        && watch.now() - reported.acknowledges_since > watch[promoted].down_after;
    let done = Flags::PROMOTED.and(Flags::RECONF_DONE).and(Flags::S_DOWN);
    let open = replicas.iter().any(|&id| !watch[id].flags.has(done));
    if late {
        watch.event_of(Level::Warning, "+failover-end-for-timeout", primary, "");
    }
    if late || forgot || !open {
        watch.event_of(Level::Warning, "+failover-end", primary, "");
        watch.enter(primary, FailoverState::UpdateConfig);
    }
    if !late {
        return;
    }
    let told = Flags::PROMOTED.and(Flags::RECONF_DONE).and(Flags::RECONF_SENT);
    let address = watch[promoted].address.clone();
    for id in replicas {
        if !watch[id].flags.has(told) && !watch.link(id).disconnected && watch.send_replica_of(id, Some(&address)) {
            watch.event_of(Level::Notice, "+slave-reconf-sent-be", id, "");
            watch[id].flags.insert(Flags::RECONF_SENT);
        }
    }
}

/// Makes the promoted replica the primary from now on.
pub(super) fn switch_to_promoted(voter: &mut Voter, watch: &mut Watch, primary: InstanceId) {
    let new = watch.group(primary).failover.promoted.unwrap_or(primary);
    let (from, to) = (watch[primary].address.clone(), watch[new].address.clone());
    let name = &watch[primary].name;
    let text = format!("{name} {} {} {} {}", watch.announced(&from), from.port, watch.announced(&to), to.port);
    watch.event_text(Level::Warning, "+switch-master", Some(primary), &text);
    voter.change_primary_address(watch, primary, &to.hostname, i64::from(to.port));
}
