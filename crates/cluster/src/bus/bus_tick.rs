//! Work that is done ten times a second: links are made again, nodes are pinged, silent nodes are suspected, failovers
//! proceed.

use super::cluster_bus::{Bus, TICK};
use super::model::bus_effect::Level;
use crate::Millis;
use crate::link_id::LinkId;
use crate::node::{Flags, Node};
use crate::node_id::NodeId;
use crate::packet::MessageType;

/// Number of attempts to connect to a node in half a timeout.
const TRIES: Millis = 10;
/// Ticks after which one node is pinged, whether or not it is due.
const RANDOM_PING_TICKS: u64 = 10;
/// Number of nodes that are drawn; the one that was silent for longest is pinged.
const DRAWN: usize = 5;

/// Message that is due to a node.
enum Due {
    Ping(LinkId),
    /// The node has not answered for too long.
    Suspect,
}

impl Bus {
    /// Does the work that is due. The driver calls it each [`TICK`].
    pub fn tick(&mut self, now: Millis) {
        self.now = now;
        self.ticks += 1;
        self.forget_said();
        self.close_links_over_limit();
        let reachable = self.nodes.iter().filter(|node| !node.flags.has(Flags::MYSELF | Flags::NOADDR));
        let (mut suspected, mut unlinked) = (0, Vec::new());
        for node in reachable {
            suspected += usize::from(node.is_suspected());
            let is_late = node.is_in_handshake() && self.exceeds_handshake(node);
            if is_late || node.link.is_none() || self.is_unknown_there(node) {
                unlinked.push(node.id);
            }
        }
        self.suspected = suspected;
        if !self.debug.disable_reconnection {
            let mut tries = self.tries_per_tick();
            unlinked.into_iter().for_each(|id| self.look_after_link(id, &mut tries));
        }
        if self.ticks.is_multiple_of(RANDOM_PING_TICKS) && !self.debug.disable_random_ping {
            self.ping_random_node();
        }
        let is_news = self.ask_and_suspect();
        self.give_up_if_right();
        self.follow_again();
        self.check_manual_failover_timeout();
        if self.nodes.myself().is_replica() {
            self.go_on_with_manual_failover();
            if self.settings.allow_replica_migration {
                self.consider_migration();
            }
        }
        if is_news || !self.health.is_up {
            self.update_state();
        }
        self.remove_retained();
        self.tick_migrations();
        self.settle();
    }

    /// Returns how many links may be tried besides those that are due: all nodes within half a timeout, several times
    /// over.
    fn tries_per_tick(&self) -> Millis {
        let interval = self.settings.node_timeout / 2;
        if interval <= 0 { 0 } else { self.nodes.len() as Millis * TICK / interval * TRIES }
    }

    fn close_links_over_limit(&mut self) {
        let limit = self.settings.link_sendbuf_limit;
        if limit == 0 {
            return;
        }
        let links = self.nodes.iter().flat_map(|node| [node.link, node.inbound_link]).flatten();
        let is_over = |link: &LinkId| self.links.get(*link).is_some_and(|link| link.queued > limit);
        for link in links.filter(is_over).collect::<Vec<_>>() {
            let Some((transport, id)) = self.links.get(link).and_then(|link| Some((link, link.node?))) else {
                continue;
            };
            let (direction, queued) = (if transport.is_inbound { "from" } else { "to" }, transport.queued);
            let name = self.human_name(id);
            let text = format!(
                "Freeing cluster link({direction} node {id} ({name}), used memory: {queued}) due to exceeding send \
                 buffer memory limit."
            );
            self.log(Level::Warning, text);
            self.close_link(link);
            self.counters.links_over_limit += 1;
        }
    }

    fn look_after_link(&mut self, id: NodeId, tries: &mut Millis) {
        let Some(node) = self.nodes.get(&id) else {
            return;
        };
        if node.is_in_handshake() && self.exceeds_handshake(node) {
            let text = format!("Clusterbus handshake timeout {}:{}", node.address.ip, node.address.bus_port);
            self.log(Level::Warning, text);
            self.remove_node(id);
            return;
        }
        match node.link {
            Some(link) if self.is_unknown_there(node) => self.meet_again(id, link),
            Some(_) => {}
            None => {
                let pause = self.settings.node_timeout / 2 / TRIES;
                let was_tried = self.now - node.connect_tried < pause;
                if node.inbound_link.is_none() && was_tried && *tries == 0 {
                    return;
                }
                *tries -= 1;
                let now = self.now;
                if let Some(node) = self.nodes.get_mut(&id) {
                    node.connect_tried = now;
                }
                self.connect(id);
            }
        }
    }

    /// Returns whether a node does not know this one: it never connects to this node.
    fn is_unknown_there(&self, node: &Node) -> bool {
        let timeout = self.handshake_timeout();
        !node.flags.has(Flags::HANDSHAKE | Flags::MEET | Flags::PFAIL | Flags::FAIL)
            && node.flags.has(Flags::LIGHT_MODULE)
            && node.inbound_link.is_none()
            && self.now - node.inbound_lost > timeout
            && self.now - node.meet_sent > timeout
    }

    fn meet_again(&mut self, id: NodeId, link: LinkId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.flags.set(Flags::MEET, true);
        }
        let name = self.human_name(id);
        let text = format!("Sending MEET packet to node {id} ({name}) because there is no inbound link for it");
        self.log(Level::Notice, text);
        self.send_ping(link, MessageType::Meet);
    }

    fn ping_random_node(&mut self) {
        let names = self.nodes.names();
        let drawn: Vec<NodeId> = (0..DRAWN).map(|_| names[self.random.usize(..names.len())]).collect();
        let drawn = drawn.iter().filter_map(|id| self.nodes.get(id));
        let may_be_asked =
            drawn.filter(|node| node.ping_sent == 0 && !node.flags.has(Flags::MYSELF | Flags::HANDSHAKE));
        let linked = may_be_asked.filter_map(|node| Some((node.pong_received, node.link?)));
        if let Some((_, link)) = linked.min_by_key(|(pong, _)| *pong) {
            self.send_ping(link, MessageType::Ping);
        }
    }

    /// Pings nodes that were silent for a while, and suspects nodes that were silent for too long. Returns whether
    /// there are suspects.
    fn ask_and_suspect(&mut self) -> bool {
        let others = self.nodes.iter().filter(|node| !node.flags.has(Flags::MYSELF | Flags::HANDSHAKE));
        let silent = others.clone().filter(|node| self.is_link_silent(node)).filter_map(|node| node.link);
        let silent: Vec<LinkId> = silent.collect();
        let due: Vec<(NodeId, Due)> = others.filter_map(|node| Some((node.id, self.due(node, &silent)?))).collect();
        silent.into_iter().for_each(|link| self.close_link(link));
        let mut is_news = false;
        for (id, due) in due {
            match due {
                Due::Ping(link) => self.send_ping(link, MessageType::Ping),
                Due::Suspect => {
                    self.suspect(id);
                    is_news = true;
                }
            }
        }
        is_news
    }

    fn suspect(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.flags.set(Flags::PFAIL, true);
        }
        self.todo.slot_map_changed();
        if self.nodes.myself().has_vote() {
            self.mark_as_failing_if_majority(id);
        } else {
            let name = self.human_name(id);
            self.log(Level::Notice, format!("NODE {id} ({name}) possibly failing."));
        }
    }

    /// Returns whether the node was pinged and nothing arrived for half a timeout: the link may be broken while the
    /// node works. A node that sends on its own link, but leaves the ping unanswered for a timeout, may not get this
    /// node's packets: messages would wait on the link without end.
    fn is_link_silent(&self, node: &Node) -> bool {
        let (now, timeout) = (self.now, self.settings.node_timeout);
        let unanswered = if node.ping_sent == 0 { 0 } else { now - node.ping_sent };
        let is_silent = unanswered > timeout / 2 && now - node.data_received > timeout / 2;
        let created = || node.link.and_then(|link| self.links.get(link)).map(|link| link.created);
        (is_silent || unanswered > timeout) && created().is_some_and(|created| now - created > timeout)
    }

    fn due(&self, node: &Node, closed: &[LinkId]) -> Option<Due> {
        if node.flags.has(Flags::NOADDR) {
            return None;
        }
        let (now, timeout) = (self.now, self.settings.node_timeout);
        let interval = if self.settings.ping_interval > 0 { self.settings.ping_interval } else { timeout / 2 };
        if let Some(link) = node.link.filter(|link| !closed.contains(link)) {
            let is_due = node.ping_sent == 0 && now - node.pong_received > interval;
            let waits_for_offset =
                self.manual.end != 0 && self.manual.replica == Some(node.id) && self.nodes.myself().is_primary();
            if is_due || waits_for_offset {
                return Some(Due::Ping(link));
            }
        }
        let silence = (now - node.ping_sent).min(now - node.data_received);
        let is_judged = node.flags.has(Flags::PFAIL | Flags::FAIL);
        (node.ping_sent != 0 && silence > timeout && !is_judged).then_some(Due::Suspect)
    }

    /// Makes a replica follow its primary if it does not replicate although the primary's address is known.
    fn follow_again(&mut self) {
        let myself = self.nodes.myself();
        if !myself.is_replica() || self.facts.is_following || self.follows > 0 {
            return;
        }
        let primary = myself.primary.and_then(|id| self.nodes.get(&id));
        if let Some(id) = primary.filter(|node| !node.flags.has(Flags::NOADDR)).map(|node| node.id) {
            self.follow(id, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::bus::Effect;
    use crate::bus::test_bus::{add_primary, bus};

    /// The packets to a node are lost on their way, while the node's own packets arrive on another link.
    #[test]
    fn a_link_on_which_no_ping_is_answered_is_made_again_though_the_node_sends() {
        let mut bus = bus();
        let node = add_primary(&mut bus);
        bus.connect(node);
        let link = bus.nodes.get(&node).and_then(|node| node.link).expect("a link");
        bus.link_connected(link, "10.0.0.1", 10);
        let timeout = bus.settings.node_timeout;
        let is_closed = |bus: &mut super::Bus| bus.take_effects().contains(&Effect::Close { link });
        for now in (100..timeout).step_by(100) {
            bus.nodes.get_mut(&node).expect("there").data_received = now;
            bus.tick(now);
            assert!(!is_closed(&mut bus), "{now}");
        }
        let now = timeout + 200;
        bus.nodes.get_mut(&node).expect("there").data_received = now;
        bus.tick(now);
        assert!(is_closed(&mut bus));
        bus.tick(now + 100);
        let node = bus.nodes.get(&node).expect("there");
        assert!(node.link.is_some_and(|new| new != link) && !node.is_suspected(), "it works, and is reached again");
    }
}
