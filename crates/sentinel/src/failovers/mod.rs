//! A failover's steps up to the promotion of a replica. Only the elected Sentinel goes beyond the first. The steps
//! after it are in `reconfiguration.rs`; `info_refresh.rs` sees the promotion in a replica's answer to INFO.
//!
//! In: the time, answers to INFO, an order to fail over. Out: orders to servers, and instances in their next state. The
//! room decides nothing about votes, which the [voter](crate::voter) counts.

mod info_refresh;
mod reconfiguration;
mod select_replica;

pub(crate) use select_replica::select_replica;

use crate::model::effect::{Level, Millis};
use crate::model::instance::{FailoverState, Flags, InstanceId, OwnFailover, Role};
use crate::voter::Voter;
use crate::watch::Watch;
use reconfiguration::{reconfigure_replicas, switch_to_promoted};

/// Two Sentinels that request votes at the same moment both miss a majority if few others vote. So each waits for those
/// that come before it; it votes for them then, and does not begin.
const RANK_DELAY: Millis = 100;
/// The time that a primary has to hand over, and to pause its clients for that, in a failover that is forced; and the
/// time until INFO reports it.
const PATIENCE: Millis = 2000;
const NEWS: Millis = 1000;

/// A failure that SENTINEL SIMULATE-FAILURE requested.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SimulatedFailures {
    /// This Sentinel was elected.
    pub after_election: bool,
    /// A replica was promoted.
    pub after_promotion: bool,
}

/// The failovers of all primaries. Their states are the primaries' own.
#[derive(Debug, Default)]
pub(crate) struct Failovers {
    simulated: SimulatedFailures,
}

impl Failovers {
    /// Returns the failures to simulate.
    pub fn simulated(&self) -> SimulatedFailures {
        self.simulated
    }

    /// Sets the failures to simulate.
    pub fn simulate(&mut self, failures: SimulatedFailures) {
        self.simulated = failures;
    }

    /// Takes the next step, if it is possible.
    pub fn step(&self, voter: &mut Voter, watch: &mut Watch, primary: InstanceId) {
        if !watch[primary].flags.has(Flags::FAILOVER_IN_PROGRESS) {
            return;
        }
        match watch.group(primary).failover.state {
            FailoverState::WaitStart => self.wait_for_election(voter, watch, primary),
            FailoverState::SelectReplica => select(watch, primary),
            FailoverState::SendReplicaOfNoOne => promote(watch, primary),
            FailoverState::WaitPromotion => wait_for_promotion(watch, primary),
            FailoverState::ReconfigureReplicas => reconfigure_replicas(watch, primary),
            FailoverState::None | FailoverState::UpdateConfig => {}
        }
    }

    /// Makes the promoted replica the primary, once the failover is at its end.
    pub fn finish(&self, voter: &mut Voter, watch: &mut Watch, primary: InstanceId) {
        if watch.group(primary).failover.state == FailoverState::UpdateConfig {
            switch_to_promoted(voter, watch, primary);
        }
    }

    fn wait_for_election(&self, voter: &mut Voter, watch: &mut Watch, primary: InstanceId) {
        let epoch = watch.group(primary).failover.epoch;
        let leader = voter.elected(watch, primary, epoch);
        let elected = leader.is_some_and(|leader| leader.eq_ignore_ascii_case(voter.my_id()));
        if !elected && !watch[primary].flags.has(Flags::FORCE_FAILOVER) {
            let group = watch.group(primary);
            if watch.now() - group.failover.started > watch.periods().election.min(group.failover_timeout) {
                watch.event_of(Level::Warning, "-failover-abort-not-elected", primary, "");
                watch.abort_failover(primary);
            }
            return;
        }
        watch.event_of(Level::Warning, "+elected-leader", primary, "");
        if self.simulated.after_election {
            simulate_crash(watch);
        }
        watch.enter(primary, FailoverState::SelectReplica);
        watch.event_of(Level::Warning, "+failover-state-select-slave", primary, "");
    }
}

/// Begins a failover in a new epoch.
pub(crate) fn start_failover(voter: &mut Voter, watch: &mut Watch, primary: InstanceId) {
    let epoch = voter.begin_epoch();
    watch.enter(primary, FailoverState::WaitStart);
    watch[primary].flags.insert(Flags::FAILOVER_IN_PROGRESS);
    watch.group_mut(primary).failover.epoch = epoch;
    watch.event_text(Level::Warning, "+new-epoch", Some(primary), &epoch.to_string());
    watch.event_of(Level::Warning, "+try-failover", primary, "");
    let started = watch.now() + voter.desynchronization();
    watch.group_mut(primary).failover.started = started;
}

/// Begins a failover if the primary is down and the last attempt, by any Sentinel, is long enough ago.
pub(crate) fn start_failover_if_needed(voter: &mut Voter, watch: &mut Watch, primary: InstanceId) -> bool {
    let flags = watch[primary].flags;
    if !flags.has(Flags::O_DOWN) || flags.has(Flags::FAILOVER_IN_PROGRESS) {
        return false;
    }
    let now = watch.now();
    if now - watch[primary].o_down_since < rank(voter, watch, primary) * RANK_DELAY {
        return false;
    }
    let group = watch.group_mut(primary);
    let wait = group.failover_timeout * 2;
    let failover = &mut group.failover;
    if now - failover.started < wait {
        if failover.delay_logged != failover.started {
            failover.delay_logged = failover.started;
            let seconds = (failover.started + wait - now) / 1000;
            let text = format!("Next failover delay: no failover is started before {seconds} seconds have passed");
            watch.log(Level::Notice, text);
        }
        return false;
    }
    start_failover(voter, watch, primary);
    true
}

/// Returns how many of the connected Sentinels come before this one, by their ids.
fn rank(voter: &Voter, watch: &Watch, primary: InstanceId) -> Millis {
    let before = watch.group(primary).sentinels.iter().filter(|&&id| {
        let sentinel = &watch[id];
        !sentinel.flags.has(Flags::S_DOWN)
            && !watch.link(id).disconnected
            && sentinel.run_id.as_ref().is_some_and(|id| id.as_str() < voter.my_id())
    });
    before.count() as Millis
}

fn select(watch: &mut Watch, primary: InstanceId) {
    let Some(replica) = select_replica(watch, primary) else {
        watch.event_of(Level::Warning, "-failover-abort-no-good-slave", primary, "");
        watch.abort_failover(primary);
        return;
    };
    watch.event_of(Level::Warning, "+selected-slave", replica, "");
    watch[replica].flags.insert(Flags::PROMOTED);
    watch.group_mut(primary).failover.promoted = Some(replica);
    watch.enter(primary, FailoverState::SendReplicaOfNoOne);
    watch.event_of(Level::Notice, "+failover-state-send-slaveof-noone", replica, "");
}

/// Continues a forced failover without its primary, if the primary is not reached any more, or has not handed over
/// in its time. Returns whether the failover has begun to.
fn goes_on_alone(watch: &mut Watch, primary: InstanceId) -> bool {
    let group = watch.group(primary);
    let is_late = group.failover.state == FailoverState::WaitPromotion
        && watch.now() - group.failover.state_since > PATIENCE + NEWS;
    let flags = watch[primary].flags;
    let is_both = flags.has(Flags::COORDINATED_FAILOVER) && flags.has(Flags::FORCE_FAILOVER);
    let is_alone = is_both && (is_late || watch.link(primary).disconnected);
    if is_alone {
        watch[primary].flags.remove(Flags::COORDINATED_FAILOVER);
    }
    is_alone
}

/// Gives up a coordinated failover whose primary is down: nothing holds back the failover that its replicas need.
/// Returns whether it did.
fn gives_up_on_primary(watch: &mut Watch, primary: InstanceId) -> bool {
    let flags = watch[primary].flags;
    let is_given_up = flags.has(Flags::COORDINATED_FAILOVER) && flags.has(Flags::S_DOWN);
    if is_given_up {
        watch.event_of(Level::Warning, "-failover-abort-master-timeout", primary, "");
        watch.abort_failover(primary);
        watch.group_mut(primary).failover.started = 0;
    }
    is_given_up
}

fn promote(watch: &mut Watch, primary: InstanceId) {
    goes_on_alone(watch, primary);
    if gives_up_on_primary(watch, primary) {
        return;
    }
    let coordinated = watch[primary].flags.has(Flags::COORDINATED_FAILOVER);
    let group = watch.group(primary);
    let passed = watch.now() - group.failover.state_since;
    let left = group.failover_timeout - passed;
    let Some(promoted) = group.failover.promoted else {
        // The replica was removed meanwhile.
        watch.event_of(Level::Warning, "-failover-abort-slave-timeout", primary, "");
        watch.abort_failover(primary);
        return;
    };
    let (asked, late, why) = if coordinated {
        (primary, left < 1000, "-failover-abort-master-timeout")
    } else {
        (promoted, left < 0, "-failover-abort-slave-timeout")
    };
    let disconnected = watch.link(asked).disconnected;
    if late && (coordinated || disconnected) {
        watch.event_of(Level::Warning, why, primary, "");
        watch.abort_failover(primary);
        return;
    }
    if disconnected {
        return;
    }
    let sent = if coordinated {
        let address = watch[promoted].address.clone();
        let is_forced = watch[primary].flags.has(Flags::FORCE_FAILOVER);
        let time = if is_forced { left.min(PATIENCE) } else { left };
        watch.send_failover_to(primary, &address, time)
    } else {
        watch[promoted].reconf_sent = watch.now();
        watch.send_replica_of(promoted, None)
    };
    if sent {
        watch.group_mut(primary).failover.accepted = None;
        watch.event_of(Level::Notice, "+failover-state-wait-promotion", promoted, "");
        watch.enter(primary, FailoverState::WaitPromotion);
    }
}

/// Waits until the replica's INFO shows its promotion.
fn wait_for_promotion(watch: &mut Watch, primary: InstanceId) {
    if goes_on_alone(watch, primary) {
        return watch.enter(primary, FailoverState::SendReplicaOfNoOne);
    }
    if gives_up_on_primary(watch, primary) {
        return;
    }
    let group = watch.group(primary);
    if watch.now() - group.failover.state_since > group.failover_timeout {
        watch.event_of(Level::Warning, "-failover-abort-slave-timeout", primary, "");
        watch.abort_failover(primary);
        return;
    }
    let promoted = group.failover.promoted;
    let is_coordinated = watch[primary].flags.has(Flags::COORDINATED_FAILOVER);
    if is_coordinated && has_kept_its_role(watch, primary) {
        return watch.refused_to_hand_over(primary);
    }
    if let Some(promoted) = promoted.filter(|_| !is_coordinated) {
        promote_again(watch, promoted);
    }
}

/// Returns whether a primary that was about to hand over leads after all: its target refused, or lacked data for too
/// long.
fn has_kept_its_role(watch: &Watch, primary: InstanceId) -> bool {
    let (instance, accepted) = (&watch[primary], watch.group(primary).failover.accepted);
    let reported = &instance.reported;
    accepted.is_some_and(|accepted| instance.info_refresh > accepted)
        && reported.role == Some(Role::Primary)
        && reported.own_failover == OwnFailover::Idle
}

/// Repeats the order to lead if the connection has ended since: the order may have been lost with it.
fn promote_again(watch: &mut Watch, promoted: InstanceId) {
    let (instance, link) = (&watch[promoted], watch.link(promoted));
    let is_new = link.command.as_ref().is_some_and(|connection| connection.since > instance.reconf_sent);
    // The server has answered on the new connection, and reported to be a replica still.
    let has_reported = instance.info_refresh > instance.reconf_sent && link.open_ping == 0;
    if is_new && has_reported && !link.disconnected && instance.reported.role == Some(Role::Replica) {
        watch[promoted].reconf_sent = watch.now();
        watch.send_replica_of(promoted, None);
    }
}

/// Ends the process as SENTINEL SIMULATE-FAILURE requested.
fn simulate_crash(watch: &mut Watch) {
    watch.log(Level::Warning, "Sentinel CRASH because of SENTINEL simulate-failure".to_string());
    watch.exit(99);
}
