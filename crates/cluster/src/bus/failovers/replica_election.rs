//! A replica whose primary has failed asks the primaries for their votes, and takes over with those of the majority.
//!
//! The replica waits a little first: until the failure is widely known, longer if other replicas have more data, and
//! longer if other primaries have failed, too, so that elections do not take votes from each other.

use crate::Millis;
use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::Level;
use crate::bus::model::takeover_state::CannotFailover;
use crate::data_history::DataHistory;
use crate::node::{Flags, Node};
use crate::node_id::NodeId;

/// Least time in which votes must arrive.
const LEAST_AUTH_TIMEOUT: Millis = 2000;
/// Greatest fixed delay before an election.
const LONGEST_DELAY: Millis = 500;
/// Additional delay of a replica that has no data yet.
const EMPTY_DELAY: Millis = 500;
/// Time after which the same reason is logged again.
const RELOG_PERIOD: Millis = 1000;

impl Bus {
    /// Proceeds with the replacement of this node's primary, if there is a reason.
    pub(in crate::bus) fn handle_failover(&mut self) {
        let now = self.now;
        let is_manual = self.manual.end != 0 && self.manual.can_start;
        let mut age = now - self.election.start;
        let auth_timeout = self.election_timeout();
        let Some(primary) = self.primary_to_replace(is_manual) else {
            self.election.reason = None;
            return;
        };
        if !self.has_history() {
            self.log_cannot_failover(CannotFailover::NoHistory);
            return;
        }
        // With this node as the primary the shard would answer no client, and servers with acknowledged writes could
        // not follow it.
        if !is_manual && self.facts.may_lack_acknowledged {
            self.log_cannot_failover(CannotFailover::OutOfSync);
            return;
        }
        if !is_manual && self.is_data_too_old() {
            self.log_cannot_failover(CannotFailover::DataAge);
            return;
        }
        if age > auth_timeout.saturating_mul(2) {
            self.schedule_election(primary);
            if now < self.election.start {
                return;
            }
            if self.election.start == now {
                age = 0;
            }
        }
        if !self.election.is_asked && self.manual.end == 0 && self.election.start != now {
            self.correct_schedule(primary);
        }
        if now < self.election.start {
            self.log_cannot_failover(CannotFailover::WaitingDelay);
        } else if age > auth_timeout {
            self.log_cannot_failover(CannotFailover::Expired);
        } else if !self.election.is_asked {
            self.ask_for_votes();
        } else if self.election.votes >= self.quorum() {
            self.win_election();
        } else {
            self.log_cannot_failover(CannotFailover::WaitingVotes);
        }
    }

    /// Returns the time in which votes must arrive.
    pub(in crate::bus) fn election_timeout(&self) -> Millis {
        self.settings.node_timeout.saturating_mul(2).max(LEAST_AUTH_TIMEOUT)
    }

    /// Returns this node's primary, if it is to be replaced and this node may do that.
    fn primary_to_replace(&self, is_manual: bool) -> Option<NodeId> {
        let myself = self.nodes.myself();
        if myself.is_primary() || self.settings.replica_no_failover && !is_manual {
            return None;
        }
        let primary = self.nodes.get(&myself.primary?)?;
        (primary.has_failed() || is_manual).then_some(primary.id)
    }

    /// Returns whether this replica has data of its primary. The node's data is of another history until replication
    /// follows the node's present primary. A node that led itself may have refused a successor that had forgotten
    /// acknowledged writes.
    pub(in crate::bus) fn has_history(&self) -> bool {
        let is_shared = match self.history {
            DataHistory::Primary => true,
            DataHistory::Own => self.facts.is_in_sync,
            DataHistory::Other => false,
        };
        self.facts.has_history && self.follows == 0 && is_shared
    }

    /// Returns whether the data is too old: for how long the primary may have been absent without this node. The time
    /// until its failure was detected does not count.
    fn is_data_too_old(&self) -> bool {
        let (timeout, factor) = (self.settings.node_timeout, self.settings.replica_validity_factor);
        let mut age = self.now - self.facts.heard_from_primary;
        if age > timeout {
            age -= timeout;
        }
        // A node with all acknowledged writes may have refused a primary that had forgotten them.
        let is_limited = factor != 0 && !self.facts.is_in_sync;
        is_limited
            && age > timeout.saturating_mul(factor).saturating_add(self.settings.repl_ping_period.saturating_mul(1000))
    }

    fn delay(&self) -> Millis {
        (self.settings.node_timeout / 30).min(LONGEST_DELAY)
    }

    fn schedule_election(&mut self, primary: NodeId) {
        let (now, delay) = (self.now, self.delay());
        let is_manual = self.manual.end != 0;
        self.election.votes = 0;
        self.election.is_asked = false;
        self.election.rank = self.replica_rank(primary);
        self.election.failed_primary_rank = self.failed_primary_rank();
        let random = if delay > 0 { self.random.i64(0..delay) } else { 0 };
        let empty = if self.told_offset() == 0 { EMPTY_DELAY } else { 0 };
        let ranks = self.election.rank * delay * 2 + self.election.failed_primary_rank * delay;
        self.election.start = now + delay + random + ranks + empty;
        if is_manual {
            self.election.start = now;
            self.election.rank = 0;
            self.election.failed_primary_rank = 0;
        } else if self.is_best_replica(primary) {
            self.election.start = now;
            let text = "This is the best ranked replica and can initiate the election immediately.";
            self.log(Level::Notice, text.to_string());
        }
        let text = format!(
            "Start of election delayed for {} milliseconds (rank #{}, primary rank #{}, offset {}).",
            self.election.start - now,
            self.election.rank,
            self.election.failed_primary_rank,
            self.told_offset()
        );
        self.log(Level::Notice, text);
        // The other replicas learn whether they have more data.
        self.pong_to_shard();
    }

    /// Corrects the election's time: others may have announced their offsets since, and primaries may be back.
    fn correct_schedule(&mut self, primary: NodeId) {
        let delay = self.delay();
        let rank = self.replica_rank(primary);
        if rank != self.election.rank {
            let added = (rank - self.election.rank) * delay * 2;
            self.election.start += added;
            self.election.rank = rank;
            let text = format!("Replica rank updated to #{rank}, added {added} milliseconds of delay.");
            self.log(Level::Notice, text);
        }
        let rank = self.failed_primary_rank();
        if rank != self.election.failed_primary_rank {
            let added = (rank - self.election.failed_primary_rank) * delay;
            self.election.start += added;
            self.election.failed_primary_rank = rank;
            let text = format!("Failed primary rank updated to #{rank}, added {added} milliseconds of delay.");
            self.log(Level::Notice, text);
        }
        if self.is_best_replica(primary) {
            self.election.start = self.now;
            let text = "Myself become the best ranked replica, initiate the election immediately.";
            self.log(Level::Notice, text.to_string());
        }
    }

    fn ask_for_votes(&mut self) {
        self.current_epoch = self.current_epoch.saturating_add(1);
        self.election.epoch = self.current_epoch;
        let mine = self.nodes.epoch_of(self.nodes.myself());
        let text =
            format!("Starting a failover election for epoch {}, node config epoch is {mine}", self.current_epoch);
        self.log(Level::Notice, text);
        let primary = self.nodes.myself().primary;
        let is_best = self.manual.end == 0 && primary.is_some_and(|primary| self.is_best_replica(primary));
        self.request_votes(self.manual.end != 0 || is_best);
        self.election.is_asked = true;
        self.todo.save(true);
        self.todo.update_state();
    }

    fn win_election(&mut self) {
        self.log(Level::Notice, "Failover election won: I'm the new primary.".to_string());
        let epoch = self.election.epoch;
        if self.nodes.myself().config_epoch < epoch {
            self.nodes.myself_mut().config_epoch = epoch;
            self.todo.save(true);
            self.todo.broadcast();
            self.log(Level::Notice, format!("configEpoch set to {epoch} after successful failover"));
        }
        self.replace_my_primary();
    }

    /// Takes a vote of a primary.
    pub(in crate::bus) fn take_vote(&mut self, voter: NodeId, epoch: u64) {
        if self.nodes.get(&voter).is_some_and(Node::has_vote) && epoch >= self.election.epoch {
            self.election.votes += 1;
            self.todo.handle_failover();
        }
    }

    /// Begins the election anew: another primary has an epoch that this election cannot reach any more.
    pub(in crate::bus) fn give_up_election_for(&mut self, other: NodeId, epoch: u64) {
        if self.election.start == 0 || !self.election.is_asked || epoch < self.election.epoch {
            return;
        }
        self.election.start = 0;
        let text = format!(
            "Failover election in progress for epoch {}, but received a claim from node {other} ({}) with an equal or \
             higher epoch {epoch}. Resetting the election since we cannot win an election in the past.",
            self.election.epoch,
            self.human_name(other)
        );
        self.log(Level::Warning, text);
        self.todo.handle_failover();
    }

    /// Returns the offset by which replicas are ranked, and at which a primary pauses.
    pub(in crate::bus) fn told_offset(&self) -> i64 {
        let facts = &self.facts;
        if self.nodes.myself().is_replica() { facts.claimed_offset } else { facts.replication_offset }
    }

    /// Returns how many replicas of the primary have more data than this one, or as much and a smaller name.
    fn replica_rank(&self, primary: NodeId) -> i64 {
        let (mine, my_id) = (self.told_offset(), self.nodes.my_id());
        let others = self.nodes.replicas(primary).filter(|node| node.id != my_id);
        let better = others
            .filter(|node| !node.flags.has(Flags::NOFAILOVER))
            .filter(|node| node.replication_offset > mine || node.replication_offset == mine && node.id < my_id);
        better.count() as i64
    }

    /// Returns how many other primaries failed lately, have replicas, and precede this node's primary.
    fn failed_primary_rank(&self) -> i64 {
        let factor = self.settings.replica_validity_factor;
        let longest = self.settings.node_timeout.saturating_mul(factor);
        let shard_id = self.nodes.myself().shard_id;
        let failed = self.nodes.iter().filter(|node| node.has_failed() && node.has_vote());
        let lately = failed.filter(|node| factor == 0 || self.now - node.failed_at <= longest);
        let before = lately.filter(|node| node.shard_id < shard_id);
        before.filter(|node| self.nodes.iter().any(|other| other.primary == Some(node.id))).count() as i64
    }

    /// Returns whether no other replica can have more: all have announced their offsets since the primary failed.
    fn is_best_replica(&self, primary: NodeId) -> bool {
        self.told_offset() != 0
            && self.election.rank == 0
            && self.election.failed_primary_rank == 0
            && self.nodes.replicas(primary).all(|node| node.flags.has(Flags::MY_PRIMARY_FAIL))
    }

    fn log_cannot_failover(&mut self, reason: CannotFailover) {
        let is_same = self.election.reason == Some(reason);
        let period = match reason {
            CannotFailover::DataAge | CannotFailover::NoHistory | CannotFailover::OutOfSync => 10 * RELOG_PERIOD,
            CannotFailover::WaitingDelay | CannotFailover::Expired | CannotFailover::WaitingVotes => RELOG_PERIOD,
        };
        if is_same && self.now - self.election.reason_logged < period {
            return;
        }
        self.election.reason = Some(reason);
        self.election.reason_logged = self.now;
        let why = match reason {
            CannotFailover::NoHistory => "Nothing of the primary's data has come to this replica yet.",
            CannotFailover::OutOfSync => {
                "Acknowledged writes may be missing here. Please check the 'replica-may-lose-acknowledged' \
                 configuration option."
            }
            CannotFailover::DataAge => {
                "Disconnected from primary for longer than allowed. Please check the \
                 'cluster-replica-validity-factor' configuration option."
            }
            CannotFailover::WaitingDelay => "Waiting the delay before I can start a new failover.",
            CannotFailover::Expired => "Failover attempt expired.",
            CannotFailover::WaitingVotes => "Waiting for votes, but majority still not reached.",
        };
        self.log(Level::Notice, format!("Currently unable to failover: {why}"));
        if matches!(reason, CannotFailover::Expired | CannotFailover::WaitingVotes) {
            let (quorum, votes) = (self.quorum(), self.election.votes);
            let text = format!("Needed quorum: {quorum}. Number of votes received so far: {votes}");
            self.log(Level::Notice, text);
        }
    }
}
