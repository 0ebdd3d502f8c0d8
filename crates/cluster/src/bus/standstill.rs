//! A node that stood still for a node timeout or longer, stopped or starved: others may have replaced it meanwhile.
//!
//! ```text
//!   serves -- stood still --> serves nothing, pings all on new links -- most voters have answered, and a primary has
//!     ^                                                               waited as one that was cut off does --+
//!     +-----------------------------------------------------------------------------------------------------+
//! ```
//!
//! Packets that wait in the old links are taken, as they may announce a successor, but are no answers: they may have
//! been sent before the node stopped. Slots that were granted to the node are not taken any more, and slots that it
//! took without having served them [go back](super::takeovers). Slots that it served so shortly before that no node can
//! have learned of it, with an epoch that no election agreed to, are not claimed yet: such an epoch would win back all
//! slots that a successor got by votes.

use super::cluster_bus::Bus;
use super::model::bus_effect::Level;
use super::model::health::DownReason;
use crate::Millis;
use crate::node::Node;
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;

/// Node timeouts within which a replica may be elected that had not heard of a takeover.
const ELECTION_TIMEOUTS: Millis = 2;
/// Least lease: threads of a busy machine are delayed by less.
const LEAST_LEASE: Millis = 1000;

impl Bus {
    /// Records that this node did nothing for a node timeout or longer.
    pub fn stood_still(&mut self, now: Millis) {
        self.now = now;
        let text = "This node stood still for longer than the node timeout: it serves nothing until most primaries \
                    have answered.";
        self.log(Level::Warning, text.to_string());
        // Replicas may be voters by now.
        let others = self.nodes.iter().filter(|node| !node.is_myself());
        self.health.unheard = Some(others.map(|node| node.id).collect());
        for link in self.nodes.iter().filter_map(|node| node.link).collect::<Vec<_>>() {
            self.close_link(link);
        }
        // The silence was this node's own.
        self.nodes.iter_mut().for_each(|node| node.ping_sent = 0);
        self.give_pending_back();
        self.takeovers.withhold(self.ticks);
        self.todo.slot_map_changed();
        self.todo.update_state();
        self.settle();
    }

    /// Returns whether the node has stood still, and most voters have not answered since.
    pub(super) fn is_resuming(&self) -> bool {
        self.health.unheard.is_some()
    }

    /// Returns whether others may have taken this node's place without its knowledge.
    pub(super) fn may_be_replaced(&self) -> bool {
        let is_down = !self.health.is_up && self.health.down_reason != Some(DownReason::NotFullCoverage);
        self.is_resuming() || is_down
    }

    /// Returns for how long this node's slot map stays valid if the node does nothing from now on: no replica replaces
    /// it sooner. None if no replica can without its vote.
    pub fn map_lease(&self) -> Option<Millis> {
        let myself = self.nodes.myself();
        let decides_alone = myself.has_vote() && self.nodes.iter().all(|node| node.is_myself() || !node.has_vote());
        (!decides_alone).then(|| self.settings.node_timeout.max(LEAST_LEASE))
    }

    /// Records an answer on a link that was made since this node stood still.
    pub(super) fn has_answered(&mut self, id: NodeId) {
        if self.health.unheard.as_mut().is_some_and(|unheard| unheard.remove(&id)) {
            self.todo.update_state();
        }
    }

    /// Resumes: most voters have answered, and a replica with their votes has had the time to announce it.
    pub(super) fn resume(&mut self) {
        if self.health.unheard.take().is_some() && self.takeovers.announce() {
            self.todo.broadcast();
        }
    }

    /// Forgets takeovers once no replica can have been elected without knowledge of their epochs: this node would have
    /// heard of that.
    pub(super) fn forget_said(&mut self) {
        let longest = self.settings.node_timeout.saturating_mul(ELECTION_TIMEOUTS);
        if !self.may_be_replaced() && self.now - self.health.among_minority > longest {
            self.takeovers.forget_before(self.now - longest);
        }
    }

    /// Returns the epoch and the slots that this node announces for a primary: itself, or its own primary.
    pub(super) fn told_claim(&self, owner: &Node) -> (u64, SlotSet) {
        match self.takeovers.told_epoch().filter(|_| owner.is_myself()) {
            Some(epoch) => (epoch, owner.slots.without(&self.takeovers.withheld())),
            None => (owner.config_epoch, owner.slots.clone()),
        }
    }

    /// Returns the owner of a slot, and the owner's epoch, as this node announces them; None if it withholds the slot.
    pub(super) fn told_owner(&self, slot: u16) -> Option<(NodeId, u64)> {
        let owner = self.nodes.owner_node(slot)?;
        let is_withheld = owner.is_myself() && self.takeovers.withheld().contains(slot);
        Some((owner.id, self.epoch_of_slot(slot)?)).filter(|_| !is_withheld)
    }

    /// Returns the epoch by which the owner of a slot owns it.
    pub(super) fn epoch_of_slot(&self, slot: u16) -> Option<u64> {
        let owner = self.nodes.owner_node(slot)?;
        let told = owner.is_myself().then(|| self.takeovers.epoch_before(slot, true)).flatten();
        Some(told.unwrap_or(owner.config_epoch))
    }

    /// Returns the epoch that a node of this node's shard must exceed to own a slot.
    pub(super) fn epoch_for_successor(&self, slot: u16) -> Option<u64> {
        let is_mine = self.nodes.owner(slot) == Some(self.nodes.my_id());
        let before = is_mine.then(|| self.takeovers.epoch_before(slot, false)).flatten();
        before.or_else(|| self.epoch_of_slot(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::model::bus_effect::Effect;
    use crate::bus::test_bus::{add_primary, bus};
    use crate::link_id::LinkId;
    use crate::node::Flags;
    use crate::packet::{Body, Header, MessageType, decode, encode};

    /// Returns a node with slots 0 to 9, and three others that have one each.
    fn node() -> (Bus, Vec<NodeId>) {
        let mut bus = bus();
        bus.settings.require_full_coverage = false;
        bus.nodes.myself_mut().config_epoch = 1;
        bus.current_epoch = 1;
        let myself = bus.nodes.my_id();
        (0..10).for_each(|slot| _ = bus.nodes.set_owner(slot, Some(myself)));
        let others: Vec<NodeId> = (10..13)
            .map(|slot| {
                let other = add_primary(&mut bus);
                bus.nodes.set_owner(slot, Some(other));
                bus.nodes.get_mut(&other).expect("there").config_epoch = 1;
                other
            })
            .collect();
        (1..60).for_each(|tick| bus.tick(tick * 100));
        assert!(bus.is_up());
        bus.take_effects();
        (bus, others)
    }

    /// Makes a new link to each node, and the first `answering` nodes answer on it.
    fn answered(bus: &mut Bus, others: &[NodeId], answering: usize, now: Millis) {
        for (number, other) in others.iter().enumerate() {
            let link = bus.nodes.get(other).and_then(|node| node.link).expect("it is made again");
            bus.link_connected(link, "10.0.0.1", now);
            if number < answering {
                pong(bus, *other, link, now);
            }
        }
    }

    fn pong(bus: &mut Bus, from: NodeId, link: LinkId, now: Millis) {
        let slots = bus.nodes.get(&from).expect("there").slots.clone();
        claim(bus, from, link, slots, now);
    }

    fn claim(bus: &mut Bus, from: NodeId, link: LinkId, slots: SlotSet, now: Millis) {
        let header = Header { sender: Some(from), slots, config_epoch: 1, primary: None, ..bus.header(0) };
        let body = Body::Gossip { message: MessageType::Pong, entries: Vec::new(), extensions: Vec::new() };
        bus.received(link, &encode(&header, &body), now);
    }

    #[test]
    fn a_node_that_stood_still_serves_when_most_have_answered_on_new_links() {
        let (mut bus, others) = node();
        let old = bus.nodes.get(&others[0]).and_then(|node| node.link).expect("a link");
        bus.stood_still(20_000);
        assert!(!bus.is_up() && bus.take_effects().contains(&Effect::Close { link: old }));
        pong(&mut bus, others[0], old, 20_001);
        bus.tick(20_010);
        answered(&mut bus, &others, 1, 20_020);
        bus.tick(25_900);
        assert!(!bus.is_up(), "two of four");
        let link = bus.nodes.get(&others[1]).and_then(|node| node.link).expect("a link");
        pong(&mut bus, others[1], link, 25_950);
        bus.tick(26_000);
        assert!(!bus.is_up(), "who has its votes by now tells it soon");
        bus.tick(31_000);
        assert!(bus.is_up() && !bus.is_resuming());
    }

    /// The packet that announces it was waiting in an old link.
    #[test]
    fn a_replica_that_has_become_a_voter_meanwhile_has_not_answered_yet() {
        let (mut bus, others) = node();
        let replica = add_primary(&mut bus);
        bus.nodes.get_mut(&replica).expect("there").flags = Flags(Flags::REPLICA);
        bus.nodes.set_primary(replica, Some(others[0]));
        bus.stood_still(20_000);
        bus.set_as_primary(replica);
        bus.take_claim(replica, 9, &SlotSet::of([10..=10]));
        bus.tick(20_010);
        answered(&mut bus, &others[1..2], 1, 20_020);
        bus.tick(26_000);
        bus.tick(31_000);
        assert!(bus.nodes.get(&replica).is_some_and(Node::has_vote) && !bus.is_up(), "two of four");
        answered(&mut bus, &[replica], 1, 31_010);
        bus.tick(31_100);
        bus.tick(37_000);
        assert!(bus.is_up());
    }

    #[test]
    fn a_node_that_stood_still_suspects_nobody_for_that() {
        let (mut bus, others) = node();
        answered(&mut bus, &others, 0, 6000);
        assert!(others.iter().all(|id| bus.nodes.get(id).is_some_and(|node| node.ping_sent > 0)));
        bus.stood_still(60_000);
        bus.tick(60_010);
        assert!(others.iter().all(|id| bus.nodes.get(id).is_some_and(|node| !node.is_suspected())));
    }

    fn claims(bus: &mut Bus) -> Vec<(u64, SlotSet)> {
        let sent = bus.take_effects().into_iter().filter_map(|effect| match effect {
            Effect::Send { bytes, .. } => decode(&bytes).ok()?.header,
            _ => None,
        });
        sent.map(|header| (header.config_epoch, header.slots)).collect()
    }

    /// The node took slot 10, and stood still before another learned of it. A replica got its place by votes meanwhile.
    #[test]
    fn slots_that_were_taken_before_it_stood_still_win_nothing_back() {
        for was_said in [false, true] {
            let (mut bus, others) = node();
            let ten = SlotSet::of([10..=10]);
            bus.current_epoch = 2;
            bus.claim_slots(&ten);
            bus.map_in_force(&bus.slot_map(), 6000);
            bus.settle();
            if was_said {
                (60..64).for_each(|tick| bus.tick(tick * 100));
            }
            bus.take_effects();
            assert_eq!(bus.nodes.myself().config_epoch, 3);
            bus.stood_still(20_000);
            bus.tick(20_010);
            answered(&mut bus, &others, 0, 20_020);
            let (told, now) = (claims(&mut bus), bus.nodes.myself().slots.clone());
            let expected = if was_said { (3, now.clone()) } else { (1, SlotSet::of([0..=9])) };
            assert!(!told.is_empty() && told.iter().all(|claim| *claim == expected), "{told:?}");
            let successor = add_primary(&mut bus);
            bus.take_claim(successor, 2, &SlotSet::of([0..=9]));
            assert_eq!(bus.nodes.myself().slots, if was_said { now } else { ten.clone() });
            answered(&mut bus, &others, 3, 20_030);
            bus.tick(26_000);
            assert!(bus.is_up());
            bus.take_effects();
            bus.tick(40_000);
            let told = claims(&mut bus);
            assert!(!told.is_empty() && told.iter().all(|(epoch, slots)| *epoch == 3 && slots.contains(10)));
        }
    }

    /// The source of slot 10 still claims it, and another node claims slots that this one has had for long.
    #[test]
    fn no_message_has_a_claim_that_is_withheld() {
        let (mut bus, others) = node();
        bus.current_epoch = 2;
        bus.claim_slots(&SlotSet::of([10..=10]));
        bus.map_in_force(&bus.slot_map(), 6000);
        bus.settle();
        bus.stood_still(20_000);
        bus.tick(20_010);
        answered(&mut bus, &others, 0, 20_020);
        let link = |bus: &Bus, id: &NodeId| bus.nodes.get(id).and_then(|node| node.link).expect("a link");
        bus.take_effects();
        let from_source = link(&bus, &others[0]);
        claim(&mut bus, others[0], from_source, SlotSet::of([10..=10]), 20_030);
        assert_eq!(updates(&mut bus), []);
        let from_other = link(&bus, &others[1]);
        claim(&mut bus, others[1], from_other, SlotSet::of([9..=11]), 20_040);
        bus.send_update(others[0], bus.nodes.my_id());
        assert_eq!(updates(&mut bus), [(1, SlotSet::of([0..=9]))]);
        bus.resume();
        bus.send_update(others[0], bus.nodes.my_id());
        assert_eq!(updates(&mut bus), [(3, SlotSet::of([0..=10]))]);
    }

    fn updates(bus: &mut Bus) -> Vec<(u64, SlotSet)> {
        let sent = bus.take_effects().into_iter().filter_map(|effect| match effect {
            Effect::Send { bytes, .. } => Some(decode(&bytes).ok()?.body),
            _ => None,
        });
        let updates = sent.filter_map(|body| match body {
            Body::Update { config_epoch, slots, .. } => Some((config_epoch, slots)),
            _ => None,
        });
        updates.collect()
    }

    #[test]
    fn a_map_holds_for_a_node_timeout_unless_nobody_else_votes() {
        let (mut bus, others) = node();
        assert_eq!(bus.map_lease(), Some(bus.settings.node_timeout));
        bus.settings.node_timeout = 1;
        assert_eq!(bus.map_lease(), Some(LEAST_LEASE));
        let myself = bus.nodes.my_id();
        (10..13).for_each(|slot| _ = bus.nodes.set_owner(slot, Some(myself)));
        assert_eq!((bus.map_lease(), others.len()), (None, 3));
    }
}
