//! Votes: a primary with slots gives one for each epoch, to a replica whose primary has failed and whose knowledge of
//! the slots is not older than the voter's. A vote is on the disk before it is sent. The primary itself votes for the
//! replica that asks it for its place, unless it does not know whether slots that it granted were taken.

use crate::Millis;
use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::Level;
use crate::node_id::NodeId;
use crate::packet::{Header, MessageFlags};

impl Bus {
    /// Takes a node's request for a vote.
    pub(in crate::bus) fn vote_if_right(&mut self, candidate: NodeId, request: &Header) {
        if !self.nodes.myself().has_vote() {
            return;
        }
        let name = self.human_name(candidate);
        if let Err(why) = self.check_candidate(candidate, request) {
            self.log(Level::Warning, format!("Failover auth denied to {candidate} ({name}){why}"));
            return;
        }
        if let Some((slot, owner, epoch)) = self.newer_owner(request) {
            let asked = request.config_epoch;
            let text = format!(
                "Failover auth denied to {candidate} ({name}): slot {slot} epoch ({epoch}) > reqConfigEpoch ({asked})"
            );
            self.log(Level::Warning, text);
            self.tell_newer_owner(candidate, owner);
            return;
        }
        let epoch = self.current_epoch;
        self.last_vote_epoch = epoch;
        if self.is_primary_of(candidate) {
            self.voted_for_replica = Some(self.now);
        }
        self.todo.save(true);
        self.send_vote(candidate);
        self.log(Level::Notice, format!("Failover auth granted to {candidate} ({name}) for epoch {epoch}"));
    }

    fn check_candidate(&self, candidate: NodeId, request: &Header) -> Result<(), String> {
        let asked = request.current_epoch;
        if !self.health.is_safe_to_join {
            return Err(": it is not safe to vote in this moment)".to_string());
        }
        if asked < self.current_epoch {
            return Err(format!(": reqEpoch ({asked}) < curEpoch({})", self.current_epoch));
        }
        if self.last_vote_epoch == self.current_epoch {
            return Err(format!(": already voted for epoch {}", self.current_epoch));
        }
        let node = self.nodes.get(&candidate);
        if node.is_none_or(|node| node.is_primary()) {
            return Err(format!(" for epoch {asked}: it is a primary node"));
        }
        let Some(primary) = node.and_then(|node| self.nodes.get(&node.primary?)) else {
            return Err(format!(" for epoch {asked}: I don't know its primary"));
        };
        let has_failed = primary.has_failed() || primary.is_myself() && self.is_to_be_replaced();
        if !has_failed && !request.message_flags.has(MessageFlags::FORCE_VOTE) {
            return Err(format!(" for epoch {asked}: its primary is up"));
        }
        // The replica takes all slots that it knows this node to own, including slots that others may be about to take.
        if primary.is_myself() && self.migrations.has_granted() {
            return Err(format!(" for epoch {asked}: slots of mine are granted to another node"));
        }
        Ok(())
    }

    fn is_primary_of(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.primary == Some(self.nodes.my_id()))
    }

    /// Returns whether a replica takes this node's place: it has asked for a pause, or may win an election with this
    /// node's vote.
    pub(in crate::bus) fn is_failing_over(&self) -> bool {
        let may_win = |voted: Millis| self.now - voted <= self.election_timeout();
        self.manual.replica.is_some() || self.voted_for_replica.is_some_and(may_win)
    }

    /// Returns a slot that the candidate would take from an owner that it does not know.
    fn newer_owner(&self, request: &Header) -> Option<(u16, NodeId, u64)> {
        let claimed = request.slots.iter().filter(|slot| !self.nodes.is_unclaimed(*slot));
        let mut owners = claimed.filter_map(|slot| Some((slot, self.nodes.owner(slot)?, self.epoch_of_slot(slot)?)));
        owners.find(|(_, _, epoch)| *epoch > request.config_epoch)
    }

    /// Sends a slot's newer owner to a node with an old map.
    pub(in crate::bus) fn tell_newer_owner(&mut self, to: NodeId, owner: NodeId) {
        let text = format!(
            "Node {to} ({}) has old slots configuration, sending an UPDATE message about {owner} ({})",
            self.human_name(to),
            self.human_name(owner)
        );
        self.log(Level::Verbose, text);
        self.send_update(to, owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::test_bus::{add_primary, bus};
    use crate::node::Flags;

    /// Returns a primary with slots that knows another one, which has failed, and that one's replica.
    fn voter() -> (Bus, NodeId) {
        let mut bus = bus();
        bus.add_slots(&[(0, 9)], 1).expect("free");
        let failed = add_primary(&mut bus);
        bus.nodes.set_owner(10, Some(failed));
        bus.nodes.get_mut(&failed).expect("there").flags.set(Flags::FAIL, true);
        let replica = add_primary(&mut bus);
        bus.nodes.get_mut(&replica).expect("there").flags = Flags(Flags::REPLICA);
        bus.nodes.set_primary(replica, Some(failed));
        bus.health.is_safe_to_join = true;
        bus.current_epoch = 3;
        (bus, replica)
    }

    fn request(bus: &Bus, candidate: NodeId) -> Header {
        let primary = bus.nodes.get(&candidate).and_then(|node| node.primary);
        let mut header = bus.header(0);
        (header.sender, header.primary, header.is_replica) = (Some(candidate), primary, true);
        header.slots = [10].into_iter().collect();
        header
    }

    #[test]
    fn a_vote_is_given_once_an_epoch() {
        let (mut bus, replica) = voter();
        let asked = request(&bus, replica);
        bus.vote_if_right(replica, &asked);
        assert_eq!(bus.last_vote_epoch(), 3);
        assert!(bus.check_candidate(replica, &asked).is_err_and(|why| why.contains("already voted for epoch 3")));
        bus.current_epoch = 4;
        assert!(bus.check_candidate(replica, &asked).is_err_and(|why| why.contains("reqEpoch (3) < curEpoch(4)")));
    }

    #[test]
    fn votes_are_for_replicas_of_failed_primaries() {
        let (mut bus, replica) = voter();
        let primary = bus.nodes.get(&replica).and_then(|node| node.primary).expect("it has one");
        let mut asked = request(&bus, replica);
        assert_eq!(bus.check_candidate(replica, &asked), Ok(()));
        assert!(bus.check_candidate(primary, &asked).is_err_and(|why| why.ends_with("it is a primary node")));
        bus.nodes.get_mut(&primary).expect("there").flags.set(Flags::FAIL, false);
        assert!(bus.check_candidate(replica, &asked).is_err_and(|why| why.ends_with("its primary is up")));
        asked.message_flags = MessageFlags(MessageFlags::FORCE_VOTE);
        assert_eq!(bus.check_candidate(replica, &asked), Ok(()));
        bus.health.is_safe_to_join = false;
        assert!(bus.check_candidate(replica, &asked).is_err());
    }

    #[test]
    fn an_old_idea_of_the_slots_gets_no_vote() {
        let (mut bus, replica) = voter();
        let asked = request(&bus, replica);
        let owner = bus.nodes.owner(10).expect("it has one");
        bus.nodes.get_mut(&owner).expect("there").config_epoch = 2;
        bus.vote_if_right(replica, &asked);
        assert_eq!(bus.last_vote_epoch(), 0);
        bus.nodes.set_unclaimed(10, true);
        bus.vote_if_right(replica, &asked);
        assert_eq!(bus.last_vote_epoch(), 3, "what its owner does not claim is nobody's");
    }
}
