//! Description of a sender in a ping, a pong or a meet: its name, its address, its role, its slots.

use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::Level;
use crate::link_id::LinkId;
use crate::node::Flags;
use crate::node_id::NodeId;
use crate::packet::{Extension, GossipEntry, Header, MessageType};

impl Bus {
    /// Takes all information of a ping, a pong or a meet. `before`: the sender's flags until now.
    pub(in crate::bus) fn take_news(
        &mut self,
        link: LinkId,
        header: &Header,
        message: MessageType,
        sender: Option<NodeId>,
        before: Flags,
        (entries, extensions): (&[GossipEntry], &[Extension]),
    ) {
        if let Some(sender) = sender {
            self.end_meet(sender);
        }
        if !self.take_name(link, header, sender) {
            return;
        }
        // A sender that has just named itself is known from now on: the rest of the packet counts, as the node might
        // not be pinged again soon.
        let sender =
            sender.or(header.sender.filter(|id| self.nodes.get(id).is_some_and(|node| node.link == Some(link))));
        if before == Flags::default()
            && let Some(sender) = sender
        {
            self.note_sender(sender, link, header);
        }
        if let Some(sender) = sender {
            self.take_no_failover(sender, header.flags);
            let is_known = self.nodes.get(&sender).is_some_and(|node| !node.is_in_handshake());
            if message == MessageType::Ping && is_known {
                self.take_address_of(sender, link, header);
            }
        }
        if message == MessageType::Pong {
            self.take_pong(link);
        }
        let Some(sender) = sender.filter(|id| *id != self.nodes.my_id()) else {
            return;
        };
        if !self.take_role(sender, header, before) {
            return;
        }
        if !header.is_replica {
            self.take_slots(sender, header, before);
            self.coming.note_offset(self.nodes.myself().primary == Some(sender), header.offset);
        }
        let is_primary = self.nodes.get(&sender).is_some_and(|node| node.is_primary());
        let myself = self.nodes.myself();
        if is_primary && myself.is_primary() && header.config_epoch == myself.config_epoch {
            self.handle_epoch_collision(sender);
        }
        self.take_gossip(entries, Some(sender));
        self.take_extensions(extensions, sender);
    }

    /// Ends the introduction of this node: the sender has answered, and knows it.
    fn end_meet(&mut self, sender: NodeId) {
        if let Some(node) = self.nodes.get_mut(&sender).filter(|node| node.flags.has(Flags::MEET)) {
            node.flags.set(Flags::MEET, false);
            let name = self.human_name(sender);
            self.log(Level::Notice, format!("Successfully completed handshake with {sender} ({name})"));
        }
    }

    /// Checks the sender's name on a link from here: it must be the expected one; a handshake learns it. Returns
    /// whether the rest of the packet is to be taken.
    fn take_name(&mut self, link: LinkId, header: &Header, sender: Option<NodeId>) -> bool {
        let Some(transport) = self.links.get(link) else {
            return false;
        };
        let Some(node) = transport.node.filter(|_| !transport.is_inbound).and_then(|id| self.nodes.get(&id)) else {
            return true;
        };
        let id = node.id;
        if !node.is_in_handshake() {
            let is_same = Some(id) == header.sender;
            if !is_same {
                self.lost_identity(id, link);
            }
            return is_same;
        }
        match (sender, header.sender) {
            (Some(known), _) => {
                let name = self.human_name(known);
                let text = format!("Handshake: we already know node {known} ({name}), updating the address if needed.");
                self.log(Level::Verbose, text);
                self.take_address_of(known, link, header);
                self.remove_node(id);
                false
            }
            (None, None) => {
                self.remove_node(id);
                false
            }
            (None, Some(name)) => {
                self.nodes.rename(id, name);
                self.rename_on_links(name);
                if let Some(node) = self.nodes.get_mut(&name) {
                    node.flags.set(Flags::HANDSHAKE, false);
                    node.flags.set(header.flags & (Flags::PRIMARY | Flags::REPLICA), true);
                }
                self.log(Level::Debug, format!("Handshake with node {name} completed."));
                self.todo.save(false);
                true
            }
        }
    }

    /// Records that another node has the address of one, which will not return under its name.
    fn lost_identity(&mut self, id: NodeId, link: LinkId) {
        let named = self.named_in_shard(id);
        let text = format!("PONG contains mismatching sender ID. About node {named}");
        self.log(Level::Notice, text);
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        node.flags.set(Flags::NOADDR, true);
        let address = &mut node.address;
        address.ip.clear();
        (address.tcp_port, address.tls_port, address.bus_port) = (0, 0, 0);
        let had_failed = node.has_failed();
        self.close_link(link);
        if !had_failed {
            self.mark_as_failing(id);
            self.send_fail(id);
        }
        self.todo.save(false);
        self.todo.update_state();
    }

    /// Records whether the sender takes over, as it announces.
    fn take_no_failover(&mut self, sender: NodeId, told: u16) {
        let Some(node) = self.nodes.get_mut(&sender).filter(|node| !node.is_myself()) else {
            return;
        };
        let takes_over_not = told & Flags::NOFAILOVER != 0;
        if node.flags.has(Flags::NOFAILOVER) != takes_over_not {
            node.flags.set(Flags::NOFAILOVER, takes_over_not);
            self.todo.save(false);
        }
    }

    /// Records the sender's address: the announced one, or that of its packets. Only links from elsewhere show the
    /// latter.
    fn take_address_of(&mut self, id: NodeId, link: LinkId, header: &Header) {
        let (tcp_port, tls_port) = self.ports_from_told(header.port, header.other_port);
        let (Some(node), Some(transport)) = (self.nodes.get_mut(&id), self.links.get(link)) else {
            return;
        };
        let ip = if header.ip.is_empty() { &transport.remote_ip } else { &header.ip };
        let address = &mut node.address;
        let ports = (tcp_port, tls_port, header.bus_port);
        let is_same = (address.tcp_port, address.tls_port, address.bus_port) == ports && address.ip == *ip;
        if node.link == Some(link) || node.flags.has(Flags::MYSELF) || ip.is_empty() || is_same {
            return;
        }
        address.ip.clone_from(ip);
        (address.tcp_port, address.tls_port, address.bus_port) = ports;
        node.flags.set(Flags::NOADDR, false);
        self.address_changed(id);
        self.todo.save(false);
        self.todo.update_state();
    }

    /// Records an answer of a node to this one.
    fn take_pong(&mut self, link: LinkId) {
        let now = self.now;
        let Some(transport) = self.links.get(link).filter(|link| !link.is_inbound) else {
            return;
        };
        let Some(node) = transport.node.and_then(|id| self.nodes.get_mut(&id)) else {
            return;
        };
        node.pong_received = now;
        node.ping_sent = 0;
        let id = node.id;
        self.has_answered(id);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.is_suspected() {
            node.flags.set(Flags::PFAIL, false);
            self.todo.save(false);
            self.todo.update_state();
        } else if node.has_failed() {
            self.clear_failure_if_needed(id);
        }
    }

    /// Takes a primary's slots, if they differ from the known ones. If another node claims some with a greater epoch,
    /// this node informs the sender: it may have been absent when it lost them.
    fn take_slots(&mut self, sender: NodeId, header: &Header, before: Flags) {
        self.migrations.claims(sender, header.config_epoch, &header.slots);
        let Some(node) = self.nodes.get(&sender) else {
            return;
        };
        if !before.has(Flags::REPLICA) && node.slots == header.slots {
            self.nodes.claims_all(&header.slots);
            return;
        }
        let named = self.named_in_shard(sender);
        self.log(Level::Notice, format!("Mismatch in topology information for sender node {named}"));
        self.take_claim(sender, header.config_epoch, &header.slots);
        let contested = header.slots.iter().filter(|slot| !self.nodes.is_unclaimed(*slot));
        let mut owners = contested.filter_map(|slot| self.told_owner(slot));
        let newer = owners.find(|(owner, epoch)| *owner != sender && *epoch > header.config_epoch);
        if let Some((owner, _)) = newer {
            self.tell_newer_owner(sender, owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::test_bus::{add_primary, bus};
    use crate::slot_set::SlotSet;

    /// The primary has got slots just now: a message that it had sent before is taken after them.
    #[test]
    fn an_older_message_takes_no_slot_from_a_later_failover() {
        let mut bus = bus();
        let primary = add_primary(&mut bus);
        let myself = bus.nodes.my_id();
        bus.nodes.get_mut(&myself).expect("there").flags = Flags(Flags::MYSELF | Flags::REPLICA);
        bus.nodes.set_primary(myself, Some(primary));
        let (before, now) = (SlotSet::of([0..=7]), SlotSet::of([0..=8]));
        for slot in now.iter() {
            bus.nodes.set_owner(slot, Some(primary));
        }
        let mut header = bus.header(0);
        (header.sender, header.is_replica, header.slots) = (Some(primary), false, before);
        bus.take_slots(primary, &header, Flags(Flags::PRIMARY));
        assert!(bus.nodes.is_unclaimed(8));
        header.slots = now.clone();
        bus.take_slots(primary, &header, Flags(Flags::PRIMARY));
        assert!(!bus.nodes.is_unclaimed(8));
        bus.replace_my_primary();
        assert_eq!(bus.nodes.myself().slots, now);
    }

    /// The primary has given a slot to a node that has failed since, and that this node does not know as the owner.
    #[test]
    fn slots_that_a_primary_does_not_claim_are_not_taken_with_its_place() {
        let mut bus = bus();
        let primary = add_primary(&mut bus);
        let myself = bus.nodes.my_id();
        bus.nodes.get_mut(&myself).expect("there").flags = Flags(Flags::MYSELF | Flags::REPLICA);
        bus.nodes.set_primary(myself, Some(primary));
        (0..=8).for_each(|slot| _ = bus.nodes.set_owner(slot, Some(primary)));
        bus.take_claim(primary, 2, &SlotSet::of([0..=7]));
        bus.replace_my_primary();
        assert_eq!(bus.nodes.myself().slots, SlotSet::of([0..=7]));
    }
}
