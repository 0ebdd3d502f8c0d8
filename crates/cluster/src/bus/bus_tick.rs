//! What is done ten times a second: links are made again, nodes are asked, those that do not answer are suspected,
//! failovers go on.

use super::cluster_bus::{Bus, TICK};
use super::model::bus_effect::Level;
use crate::Millis;
use crate::link_id::LinkId;
use crate::node::{Flags, Node};
use crate::node_id::NodeId;
use crate::packet::MessageType;

/// A node is tried so often in half a timeout while there is no link to it.
const TRIES: Millis = 10;
/// One node is asked each so many ticks, whether or not it is due.
const RANDOM_PING_TICKS: u64 = 10;
/// Of so many drawn the one that was silent for longest.
const DRAWN: usize = 5;

/// What a node is to be told.
enum Due {
    Ping(LinkId),
    Nothing,
    /// It has not answered for too long.
    Suspect,
}

impl Bus {
    /// Does what is due. To be called each [`TICK`].
    pub fn tick(&mut self, now: Millis) {
        self.now = now;
        self.ticks += 1;
        self.suspected = 0;
        let ids: Vec<NodeId> = self.nodes.iter().map(|node| node.id).collect();
        let mut tries = self.tries_per_tick();
        for id in &ids {
            self.close_links_over_limit(*id);
            if !self.debug.disable_reconnection {
                self.look_after_link(*id, &mut tries);
            }
        }
        if self.ticks.is_multiple_of(RANDOM_PING_TICKS) && !self.debug.disable_random_ping {
            self.ping_random_node();
        }
        let mut is_news = false;
        for id in ids {
            is_news |= self.ask_or_suspect(id);
        }
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
        self.settle();
    }

    /// How many links may be tried beside those that are due: all nodes within half a timeout, some times over.
    fn tries_per_tick(&self) -> Millis {
        let interval = self.settings.node_timeout / 2;
        if interval <= 0 { 0 } else { self.nodes.len() as Millis * TICK / interval * TRIES }
    }

    fn close_links_over_limit(&mut self, id: NodeId) {
        let limit = self.settings.link_sendbuf_limit;
        let Some(node) = self.nodes.get(&id).filter(|_| limit > 0) else {
            return;
        };
        for link in [node.link, node.inbound_link].into_iter().flatten() {
            let Some(transport) = self.links.get(link).filter(|link| link.queued > limit) else {
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
        let Some(node) = self.nodes.get(&id).filter(|node| !node.flags.has(Flags::MYSELF | Flags::NOADDR)) else {
            return;
        };
        self.suspected += usize::from(node.is_suspected());
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

    /// A node that never makes a link to here does not know this one.
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

    /// Asks a node that was silent for a while; suspects one that was so for too long. Answers whether it does.
    fn ask_or_suspect(&mut self, id: NodeId) -> bool {
        self.close_silent_link(id);
        match self.due(id) {
            Due::Nothing => false,
            Due::Ping(link) => {
                self.send_ping(link, MessageType::Ping);
                false
            }
            Due::Suspect => {
                if let Some(node) = self.nodes.get_mut(&id) {
                    node.flags.set(Flags::PFAIL, true);
                }
                if self.nodes.myself().has_vote() {
                    self.mark_as_failing_if_majority(id);
                } else {
                    let name = self.human_name(id);
                    self.log(Level::Notice, format!("NODE {id} ({name}) possibly failing."));
                }
                true
            }
        }
    }

    /// Nothing came for half a timeout though the node was asked: the link may be broken while the node works.
    fn close_silent_link(&mut self, id: NodeId) {
        let (now, timeout) = (self.now, self.settings.node_timeout);
        let Some(node) = self.nodes.get(&id).filter(|node| !node.flags.has(Flags::MYSELF | Flags::HANDSHAKE)) else {
            return;
        };
        let created = node.link.and_then(|link| self.links.get(link)).map(|link| link.created);
        let is_old = created.is_some_and(|created| now - created > timeout);
        let is_silent = now - node.ping_sent > timeout / 2 && now - node.data_received > timeout / 2;
        if let Some(link) = node.link.filter(|_| is_old && node.ping_sent != 0 && is_silent) {
            self.close_link(link);
        }
    }

    fn due(&self, id: NodeId) -> Due {
        let (now, timeout) = (self.now, self.settings.node_timeout);
        let unasked = Flags::MYSELF | Flags::NOADDR | Flags::HANDSHAKE;
        let Some(node) = self.nodes.get(&id).filter(|node| !node.flags.has(unasked)) else {
            return Due::Nothing;
        };
        let interval = if self.settings.ping_interval > 0 { self.settings.ping_interval } else { timeout / 2 };
        if let Some(link) = node.link {
            let is_due = node.ping_sent == 0 && now - node.pong_received > interval;
            let waits_for_offset =
                self.manual.end != 0 && self.nodes.myself().is_primary() && self.manual.replica == Some(id);
            if is_due || waits_for_offset {
                return Due::Ping(link);
            }
        }
        let silence = (now - node.ping_sent).min(now - node.data_received);
        let is_judged = node.flags.has(Flags::PFAIL | Flags::FAIL);
        if node.ping_sent != 0 && silence > timeout && !is_judged { Due::Suspect } else { Due::Nothing }
    }

    /// A replica that does not replicate, though it is known where its primary is, begins to.
    fn follow_again(&mut self) {
        let myself = self.nodes.myself();
        if !myself.is_replica() || self.facts.is_following {
            return;
        }
        let primary = myself.primary.and_then(|id| self.nodes.get(&id));
        if let Some(id) = primary.filter(|node| !node.flags.has(Flags::NOADDR)).map(|node| node.id) {
            self.follow(id, false);
        }
    }
}
