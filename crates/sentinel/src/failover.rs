//! A failover's steps up to the promotion of a replica. Only the elected Sentinel goes beyond the first.

use crate::model::effect::{Level, Millis};
use crate::model::instance::{FailoverState, Flags, InstanceId, Role};
use crate::sentinel::{DESYNC_MAX, Sentinel};

/// Two Sentinels that request votes at the same moment both miss a majority if few others vote. So each waits for those
/// that come before it; it votes for them then, and does not begin.
const RANK_DELAY: Millis = 100;
/// The time that a primary has to hand over, and to pause its clients for that, in a failover that is forced; and the
/// time until INFO reports it.
const PATIENCE: Millis = 2000;
const NEWS: Millis = 1000;

impl Sentinel {
    /// Returns the epoch of a failover that waits for votes or is under way.
    pub(crate) fn failover_epoch(&self, primary: InstanceId) -> Option<u64> {
        let failover = &self.instances.group(primary).failover;
        (failover.state > FailoverState::None).then_some(failover.epoch)
    }

    pub(crate) fn enter(&mut self, primary: InstanceId, state: FailoverState) {
        let now = self.now;
        let failover = &mut self.instances.group_mut(primary).failover;
        failover.state = state;
        failover.state_since = now;
    }

    /// Begins a failover in a new epoch.
    pub(crate) fn start_failover(&mut self, primary: InstanceId) {
        self.current_epoch += 1;
        let epoch = self.current_epoch;
        self.enter(primary, FailoverState::WaitStart);
        self.instances[primary].flags.insert(Flags::FAILOVER_IN_PROGRESS);
        self.instances.group_mut(primary).failover.epoch = epoch;
        self.event_text(Level::Warning, "+new-epoch", Some(primary), &epoch.to_string());
        self.event_of(Level::Warning, "+try-failover", primary, "");
        let started = self.now + self.random.i64(0..DESYNC_MAX);
        self.instances.group_mut(primary).failover.started = started;
    }

    /// Begins a failover if the primary is down and the last attempt, by any Sentinel, is long enough ago.
    pub(crate) fn start_failover_if_needed(&mut self, primary: InstanceId) -> bool {
        let flags = self.instances[primary].flags;
        if !flags.has(Flags::O_DOWN) || flags.has(Flags::FAILOVER_IN_PROGRESS) {
            return false;
        }
        let now = self.now;
        if now - self.instances[primary].o_down_since < self.rank(primary) * RANK_DELAY {
            return false;
        }
        let group = self.instances.group_mut(primary);
        let wait = group.failover_timeout * 2;
        let failover = &mut group.failover;
        if now - failover.started < wait {
            if failover.delay_logged != failover.started {
                failover.delay_logged = failover.started;
                let seconds = (failover.started + wait - now) / 1000;
                let text = format!("Next failover delay: no failover is started before {seconds} seconds have passed");
                self.log(Level::Notice, text);
            }
            return false;
        }
        self.start_failover(primary);
        true
    }

    /// Returns how many of the connected Sentinels come before this one, by their ids.
    fn rank(&self, primary: InstanceId) -> Millis {
        let sentinels = self.instances.group(primary).sentinels.iter().map(|&id| &self.instances[id]);
        let before = sentinels.filter(|sentinel| {
            !sentinel.flags.has(Flags::S_DOWN)
                && !self.links[sentinel.link].disconnected
                && sentinel.run_id.as_ref().is_some_and(|id| *id < self.my_id)
        });
        before.count() as Millis
    }

    /// Takes the next step, if it is possible.
    pub(crate) fn go_on_with_failover(&mut self, primary: InstanceId) {
        if !self.instances[primary].flags.has(Flags::FAILOVER_IN_PROGRESS) {
            return;
        }
        match self.instances.group(primary).failover.state {
            FailoverState::WaitStart => self.wait_for_election(primary),
            FailoverState::SelectReplica => self.select(primary),
            FailoverState::SendReplicaOfNoOne => self.promote(primary),
            FailoverState::WaitPromotion => self.wait_for_promotion(primary),
            FailoverState::ReconfigureReplicas => self.reconfigure_replicas(primary),
            FailoverState::None | FailoverState::UpdateConfig => {}
        }
    }

    fn wait_for_election(&mut self, primary: InstanceId) {
        let epoch = self.instances.group(primary).failover.epoch;
        let leader = self.elected(primary, epoch);
        let elected = leader.is_some_and(|leader| leader.eq_ignore_ascii_case(&self.my_id));
        if !elected && !self.instances[primary].flags.has(Flags::FORCE_FAILOVER) {
            let group = self.instances.group(primary);
            if self.now - group.failover.started > self.periods.election.min(group.failover_timeout) {
                self.event_of(Level::Warning, "-failover-abort-not-elected", primary, "");
                self.abort_failover(primary);
            }
            return;
        }
        self.event_of(Level::Warning, "+elected-leader", primary, "");
        if self.simulated.after_election {
            self.simulate_crash();
        }
        self.enter(primary, FailoverState::SelectReplica);
        self.event_of(Level::Warning, "+failover-state-select-slave", primary, "");
    }

    fn select(&mut self, primary: InstanceId) {
        let Some(replica) = self.select_replica(primary) else {
            self.event_of(Level::Warning, "-failover-abort-no-good-slave", primary, "");
            self.abort_failover(primary);
            return;
        };
        self.event_of(Level::Warning, "+selected-slave", replica, "");
        self.instances[replica].flags.insert(Flags::PROMOTED);
        self.instances.group_mut(primary).failover.promoted = Some(replica);
        self.enter(primary, FailoverState::SendReplicaOfNoOne);
        self.event_of(Level::Notice, "+failover-state-send-slaveof-noone", replica, "");
    }

    /// Continues a forced failover without its primary, if the primary is not reached any more, or has not handed over
    /// in its time. Returns whether the failover has begun to.
    fn goes_on_alone(&mut self, primary: InstanceId) -> bool {
        let group = self.instances.group(primary);
        let is_late = group.failover.state == FailoverState::WaitPromotion
            && self.now - group.failover.state_since > PATIENCE + NEWS;
        let instance = &mut self.instances[primary];
        let is_both = instance.flags.has(Flags::COORDINATED_FAILOVER) && instance.flags.has(Flags::FORCE_FAILOVER);
        let is_alone = is_both && (is_late || self.links[instance.link].disconnected);
        if is_alone {
            instance.flags.remove(Flags::COORDINATED_FAILOVER);
        }
        is_alone
    }

    /// Gives up a coordinated failover whose primary is down: nothing holds back the failover that its replicas need.
    /// Returns whether it did.
    fn gives_up_on_primary(&mut self, primary: InstanceId) -> bool {
        let flags = self.instances[primary].flags;
        let is_given_up = flags.has(Flags::COORDINATED_FAILOVER) && flags.has(Flags::S_DOWN);
        if is_given_up {
            self.event_of(Level::Warning, "-failover-abort-master-timeout", primary, "");
            self.abort_failover(primary);
            self.instances.group_mut(primary).failover.started = 0;
        }
        is_given_up
    }

    fn promote(&mut self, primary: InstanceId) {
        self.goes_on_alone(primary);
        if self.gives_up_on_primary(primary) {
            return;
        }
        let coordinated = self.instances[primary].flags.has(Flags::COORDINATED_FAILOVER);
        let group = self.instances.group(primary);
        let passed = self.now - group.failover.state_since;
        let left = group.failover_timeout - passed;
        let Some(promoted) = group.failover.promoted else {
            // The replica was removed meanwhile.
            self.event_of(Level::Warning, "-failover-abort-slave-timeout", primary, "");
            self.abort_failover(primary);
            return;
        };
        let (asked, late, why) = if coordinated {
            (primary, left < 1000, "-failover-abort-master-timeout")
        } else {
            (promoted, left < 0, "-failover-abort-slave-timeout")
        };
        let disconnected = self.links[self.instances[asked].link].disconnected;
        if late && (coordinated || disconnected) {
            self.event_of(Level::Warning, why, primary, "");
            self.abort_failover(primary);
            return;
        }
        if disconnected {
            return;
        }
        let sent = if coordinated {
            let address = self.instances[promoted].address.clone();
            let is_forced = self.instances[primary].flags.has(Flags::FORCE_FAILOVER);
            let time = if is_forced { left.min(PATIENCE) } else { left };
            self.send_failover_to(primary, &address, time)
        } else {
            self.instances[promoted].reconf_sent = self.now;
            self.send_replica_of(promoted, None)
        };
        if sent {
            self.event_of(Level::Notice, "+failover-state-wait-promotion", promoted, "");
            self.enter(primary, FailoverState::WaitPromotion);
        }
    }

    /// Waits until the replica's INFO shows its promotion.
    fn wait_for_promotion(&mut self, primary: InstanceId) {
        if self.goes_on_alone(primary) {
            return self.enter(primary, FailoverState::SendReplicaOfNoOne);
        }
        if self.gives_up_on_primary(primary) {
            return;
        }
        let group = self.instances.group(primary);
        if self.now - group.failover.state_since > group.failover_timeout {
            self.event_of(Level::Warning, "-failover-abort-slave-timeout", primary, "");
            self.abort_failover(primary);
            return;
        }
        let promoted = group.failover.promoted;
        let is_coordinated = self.instances[primary].flags.has(Flags::COORDINATED_FAILOVER);
        if let Some(promoted) = promoted.filter(|_| !is_coordinated) {
            self.promote_again(promoted);
        }
    }

    /// Repeats the order to lead if the connection has ended since: the order may have been lost with it.
    fn promote_again(&mut self, promoted: InstanceId) {
        let instance = &self.instances[promoted];
        let link = &self.links[instance.link];
        let is_new = link.command.as_ref().is_some_and(|connection| connection.since > instance.reconf_sent);
        // The server has answered on the new connection, and reported to be a replica still.
        let has_reported = instance.info_refresh > instance.reconf_sent && link.open_ping == 0;
        if is_new && has_reported && !link.disconnected && instance.reported.role == Some(Role::Replica) {
            self.instances[promoted].reconf_sent = self.now;
            self.send_replica_of(promoted, None);
        }
    }

    /// Gives way to another Sentinel with a configuration of this epoch. A failover of an earlier epoch ends, even if
    /// the later one has ended at the primary that this one is to replace.
    pub(crate) fn give_way(&mut self, primary: InstanceId, epoch: u64) {
        let is_earlier = self.instances.group(primary).failover.epoch < epoch;
        if !self.instances[primary].flags.has(Flags::FAILOVER_IN_PROGRESS) || !is_earlier {
            return;
        }
        self.event_of(Level::Warning, "-failover-abort-newer-config", primary, "");
        self.abort_failover(primary);
        let told = Flags::RECONF_SENT.and(Flags::RECONF_IN_PROGRESS).and(Flags::RECONF_DONE);
        for id in self.instances.group(primary).replicas.clone() {
            self.instances[id].flags.remove(told);
        }
    }

    pub(crate) fn abort_failover(&mut self, primary: InstanceId) {
        let flags = Flags::FAILOVER_IN_PROGRESS.and(Flags::FORCE_FAILOVER).and(Flags::COORDINATED_FAILOVER);
        self.instances[primary].flags.remove(flags);
        self.enter(primary, FailoverState::None);
        if let Some(promoted) = self.instances.group_mut(primary).failover.promoted.take() {
            self.instances[promoted].flags.remove(Flags::PROMOTED);
        }
    }
}
