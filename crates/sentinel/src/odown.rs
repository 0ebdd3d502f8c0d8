//! Instances that are down: in this Sentinel's own view, and in that of enough of them.

use crate::model::effect::{Level, Millis};
use crate::model::instance::{Acknowledging, FailoverState, Flags, InstanceId, Kind, Role};
use crate::model::instance_transport::ReplyTo;
use crate::voter::Voter;
use crate::watch::Watch;
use resp::reply_value::Value;

/// Checks whether this Sentinel cannot reach an instance, or a primary is none any more.
pub(crate) fn check_subjectively_down(watch: &mut Watch, id: InstanceId) {
    close_stale(watch, id);
    let silent = silence(watch, id);
    let instance = &watch[id];
    let primary = instance.kind == Kind::Primary;
    let no_primary_since = watch.now() - instance.reported.role_since;
    let demoted = primary
        && instance.reported.role == Some(Role::Replica)
        && no_primary_since > instance.down_after + watch.periods().info * 2;
    let rebooted = primary && instance.flags.has(Flags::PRIMARY_REBOOT) && {
        let group = watch.group(id);
        watch.now() - group.reboot_since > group.reboot_down_after
    };
    // Such a primary answers, but serves no client: it may lack writes acknowledged before its start.
    let unconfirmed = primary
        && instance.reported.acknowledges == Some(Acknowledging::Unconfirmed)
        && watch.now() - instance.reported.acknowledges_since > instance.down_after;
    let down = silent > instance.down_after || demoted || rebooted || unconfirmed;
    let was_down = instance.flags.has(Flags::S_DOWN);
    if down && !was_down {
        watch.event_of(Level::Warning, "+sdown", id, "");
        watch[id].s_down_since = watch.now();
        watch[id].flags.insert(Flags::S_DOWN);
    } else if !down && was_down {
        watch.event_of(Level::Warning, "-sdown", id, "");
        watch[id].flags.remove(Flags::S_DOWN.and(Flags::SCRIPT_KILL_SENT));
    }
}

/// Returns for how long an instance has not answered.
pub(crate) fn silence(watch: &Watch, id: InstanceId) -> Millis {
    let link = watch.link(id);
    if link.open_ping != 0 {
        watch.now() - link.open_ping
    } else if link.disconnected {
        watch.now() - link.last_available
    } else {
        0
    }
}

/// Closes a silent connection, which may be dead: a new one shows whether the server is.
fn close_stale(watch: &mut Watch, id: InstanceId) {
    let instance = &watch[id];
    let half = instance.down_after / 2;
    let (now, oldest) = (watch.now(), watch.periods().min_link_reconnect);
    let state = watch.link(id);
    let command = state.command.as_ref().is_some_and(|command| now - command.since > oldest)
        && state.open_ping != 0
        && now - state.open_ping > half
        && now - state.last_pong > half;
    let pubsub = state.pubsub.as_ref().is_some_and(|pubsub| now - pubsub.since > oldest)
        && now - state.pubsub_activity > watch.periods().publish * 3;
    if command {
        watch.close_one_of(id, false);
    }
    if pubsub {
        watch.close_one_of(id, true);
    }
}

/// Checks whether enough Sentinels report the primary as down.
pub(crate) fn check_objectively_down(watch: &mut Watch, primary: InstanceId) {
    let group = watch.group(primary);
    let agreeing = group.sentinels.iter().filter(|&&id| watch[id].flags.has(Flags::PRIMARY_DOWN)).count();
    let (votes, quorum) = (agreeing as i64 + 1, group.quorum);
    let flags = watch[primary].flags;
    let down = flags.has(Flags::S_DOWN) && votes >= quorum;
    if down && !flags.has(Flags::O_DOWN) {
        watch.event_of(Level::Warning, "+odown", primary, &format!(" #quorum {votes}/{quorum}"));
        watch[primary].flags.insert(Flags::O_DOWN);
        watch[primary].o_down_since = watch.now();
    } else if !down && flags.has(Flags::O_DOWN) {
        watch.event_of(Level::Warning, "-odown", primary, "");
        watch[primary].flags.remove(Flags::O_DOWN);
    }
}

/// Asks the others whether the primary is down and, while a failover waits for it, for their vote.
pub(crate) fn ask_other_sentinels(voter: &Voter, watch: &mut Watch, primary: InstanceId, at_once: bool) {
    if !watch[primary].flags.has(Flags::S_DOWN) {
        return;
    }
    let address = &watch[primary].address;
    let (host, port) = (watch.announced(address).to_string(), address.port.to_string());
    // Votes are requested in the epoch in which the failover was begun, whatever came since.
    let (epoch, candidate) = match failover_epoch(watch, primary) {
        Some(epoch) => (epoch.to_string(), voter.my_id().to_string()),
        None => (voter.current_epoch().to_string(), "*".to_string()),
    };
    for id in watch.group(primary).sentinels.clone() {
        let silent = watch.now() - watch[id].last_down_reply;
        if silent > watch.periods().ask * 5 {
            let sentinel = &mut watch[id];
            sentinel.flags.remove(Flags::PRIMARY_DOWN);
            sentinel.leader = None;
        }
        if watch.link(id).disconnected || (!at_once && silent < watch.periods().ask) {
            continue;
        }
        let question: [&[u8]; 6] = [
            b"SENTINEL",
            b"is-master-down-by-addr",
            host.as_bytes(),
            port.as_bytes(),
            epoch.as_bytes(),
            candidate.as_bytes(),
        ];
        watch.send(id, ReplyTo::DownQuestion, &question);
    }
}

/// Returns the epoch of a failover that waits for votes or is under way.
fn failover_epoch(watch: &Watch, primary: InstanceId) -> Option<u64> {
    let failover = &watch.group(primary).failover;
    (failover.state > FailoverState::None).then_some(failover.epoch)
}

/// Takes another Sentinel's view of the primary, and its vote.
pub(crate) fn down_reply(watch: &mut Watch, id: InstanceId, value: &Value) {
    let Value::Array(items) = value else {
        return;
    };
    let [Value::Int(down), Value::Bulk(leader), Value::Int(epoch)] = items.as_slice() else {
        return;
    };
    let leader = String::from_utf8_lossy(leader).into_owned();
    let epoch = epoch.cast_unsigned();
    let now = watch.now();
    let sentinel = &mut watch[id];
    sentinel.last_down_reply = now;
    if *down == 1 {
        sentinel.flags.insert(Flags::PRIMARY_DOWN);
    } else {
        sentinel.flags.remove(Flags::PRIMARY_DOWN);
    }
    if leader == "*" {
        return;
    }
    let news = (sentinel.leader_epoch != epoch).then(|| format!("{} voted for {leader} {epoch}", sentinel.name));
    sentinel.leader = Some(leader);
    sentinel.leader_epoch = epoch;
    if let Some(text) = news {
        watch.log(Level::Notice, text);
    }
}
