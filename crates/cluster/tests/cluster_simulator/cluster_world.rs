//! Nodes, the network between them, and time. One seed decides everything.

use crate::data::{Data, DataEvent};
use crate::executor::{Lane, Threads};
use crate::holders::Safety;
use crate::member::{Member, ip, node_at};
use crate::messages::Mail;
use crate::network::Network;
use cluster::bus::{Bus, Effect, Level, Settings, TICK};
use cluster::link_id::LinkId;
use cluster::migration::{Job, JobState};
use cluster::node_id::NodeId;
use cluster::packet::{Body, Header, MessageFlags, MessageType, decode, encode, message_type};
use cluster::slot_set::SlotSet;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// Beginning of time.
pub const START: i64 = 1_700_000_000_000;
const DELAYS: (i64, i64) = (1, 20);

/// A planted mistake, which the test must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// The file does not have the epoch of the last vote.
    ForgetsVotes,
    /// Votes arrive twice.
    DoublesVotes,
    /// All nodes announce a config epoch of 1.
    HidesEpochs,
    /// No node learns that a slot has another owner.
    IgnoresClaims,
    /// A source accepts writes after it has announced its pause.
    WritesOnWhenPaused,
    /// A source does not send writes that happen while its snapshot is sent.
    ForgetsChanges,
    /// A target retains the keys of slots that it does not get.
    KeepsWhatCameInVain,
    /// Keys of lost slots are removed before the slot map with the loss is in force.
    RemovesBeforeMap,
    /// A loss of slots or role is in force only when the node's file is written.
    SavesBeforeLosses,
    /// A node that was stopped resumes as if it had not been.
    ServesWhenStoodStill,
    /// A replica stands for election, whether or not it was ever synchronized with its primary.
    HasNoHistory,
    /// A node that starts takes the data of its files for that of its last synchronization.
    TrustsFiles,
    /// A target takes slots before their keys are as safe as a reply requires.
    TakesBeforeItIsKept,
    /// A reply to a write does not wait for the disk, or for replicas.
    RepliesBeforeItIsKept,
    /// Publishers go on, whatever waits.
    PublishersAreNotHeld,
    /// Messages are given to links that have enough waiting.
    LinksTakeAll,
    /// Publishers wait for a node that has failed.
    WaitsForTheDead,
    /// Changes of role, and clients that wait, are behind removals of keys.
    HasOneLane,
    /// A target hears no claim of a former source, whatever its epoch.
    IgnoresFormerSource,
    /// A source passes over a change of several slots.
    PassesOverSeveralSlots,
    /// A job that finds no place for its snapshot fails.
    FailsWithoutPlace,
    /// A node that is reset looks for keys before it is empty.
    LooksBeforeItIsEmpty,
    /// Packets of a node wait behind its clients' messages.
    PacketsWaitForMessages,
    /// A primary announces its pause for a failover although slots are granted.
    AnnouncesPauseWhileGranted,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    Tick(usize, u64),
    Arrive(u64),
    Bytes(u64, usize, Arc<[u8]>),
    Lost(usize, LinkId),
    /// An event of the data.
    Data(u64),
    /// A turn of a node's publishers and subscribers.
    Mail(usize),
}

pub struct World {
    pub members: Vec<Member>,
    pub settings: Settings,
    pub network: Network,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    sequence: u64,
    /// Starts of each node: ticks from before a restart do not count.
    pub lives: Vec<u64>,
    pub now: i64,
    pub random: fastrand::Rng,
    pub seed: u64,
    flaw: Flaw,
    /// Candidate of each vote, by voter and epoch.
    votes: BTreeMap<(NodeId, u64), NodeId>,
    pub violations: Vec<String>,
    history: Vec<String>,
    keeps_history: bool,
    /// Whether a node may die between two effects.
    pub dies_in_between: bool,
    pub data: Data,
    pub mail: Mail,
}

impl World {
    pub fn new(seed: u64, nodes: usize, settings: Settings, flaw: Flaw) -> World {
        let members = (0..nodes).map(|node| Member::new(&settings, seed * 7919 + node as u64, START)).collect();
        let mut world = World {
            members,
            settings,
            network: Network::default(),
            events: BinaryHeap::new(),
            sequence: 0,
            lives: vec![0; nodes],
            now: START,
            random: fastrand::Rng::with_seed(seed),
            seed,
            flaw,
            votes: BTreeMap::new(),
            violations: Vec::new(),
            history: Vec::new(),
            keeps_history: nodes <= 64,
            dies_in_between: false,
            data: Data::default(),
            mail: Mail::default(),
        };
        for node in 0..nodes {
            let first = world.random.i64(0..TICK);
            world.at(first, Event::Tick(node, 0));
        }
        world
    }

    pub fn at(&mut self, delay: i64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((self.now + delay, self.sequence, event)));
    }

    pub fn at_data(&mut self, delay: i64, id: u64) {
        self.at(delay, Event::Data(id));
    }

    pub fn is_up(&self, node: usize) -> bool {
        self.members[node].bus.is_some()
    }

    pub fn life(&self, node: usize) -> u64 {
        self.lives[node]
    }

    pub fn flaw(&self) -> Flaw {
        self.flaw
    }

    pub fn note(&mut self, text: String) {
        if self.keeps_history {
            self.history.push(format!("{} {text}", self.now - START));
        }
    }

    pub fn history(&self) -> String {
        let skip = self.history.len().saturating_sub(4000);
        self.history[skip..].join("\n")
    }

    pub fn violate(&mut self, what: String) {
        self.note(what.clone());
        self.violations.push(what);
    }

    // Time.
    pub fn run(&mut self, millis: i64) {
        let end = self.now + millis;
        while let Some(Reverse((time, _, _))) = self.events.peek()
            && *time <= end
        {
            let Some(Reverse((time, _, event))) = self.events.pop() else {
                break;
            };
            self.now = time;
            self.happen(event);
        }
        self.now = end;
    }

    pub fn happen(&mut self, event: Event) {
        if self.data.is_on && self.waits(&event) {
            return;
        }
        match event {
            Event::Tick(node, life) if self.lives[node] == life => {
                self.replicate(node);
                self.ticks(node);
                self.at(TICK, Event::Tick(node, life));
            }
            Event::Tick(..) => {}
            Event::Arrive(id) => self.arrive(id),
            Event::Bytes(id, end, bytes) => self.deliver(id, end, bytes),
            Event::Lost(node, link) => self.tell(node, |bus, now| bus.link_lost(link, now)),
            Event::Data(id) => self.happens_to_data(id),
            Event::Mail(node) => self.turn_of_mail(node),
        }
    }

    /// Returns whether a node cannot take the event now.
    fn waits(&mut self, event: &Event) -> bool {
        let ends = |id: u64| self.network.connections.get(&id).map(|connection| &connection.ends);
        let (nodes, by_bus) = match event {
            Event::Tick(node, life) if self.lives[*node] != *life => return false,
            Event::Mail(_) => return false,
            Event::Tick(node, _) | Event::Lost(node, _) => (vec![*node], true),
            Event::Arrive(id) => (ends(*id).into_iter().flatten().map(|end| end.node).collect(), true),
            Event::Bytes(id, end, _) => (ends(*id).into_iter().map(|ends| ends[*end].node).collect(), true),
            Event::Data(id) => (self.node_of_data(*id).into_iter().collect(), self.comes_before_it_is_hidden(*id)),
        };
        nodes.into_iter().any(|node| self.has_to_wait(node, event, by_bus))
    }

    /// Passes an input to a node, and carries out the effects.
    pub fn tell(&mut self, node: usize, input: impl FnOnce(&mut Bus, i64)) {
        if self.is_stopped(node) {
            return;
        }
        let member = &mut self.members[node];
        let now = self.now + member.clock;
        let mut facts = member.facts();
        if self.flaw == Flaw::HasNoHistory && facts.is_following {
            (facts.has_history, facts.is_linked) = (true, true);
        }
        facts.is_unsaved &= self.flaw != Flaw::TrustsFiles;
        if let Some(store) = self.data.stores.get(node) {
            facts.are_writes_paused = store.is_failing_over;
            let is_member = matches!(self.data.safety, Safety::AtReplicas(_)) && !self.data.lost.contains(&node);
            facts.is_in_sync = facts.is_following && is_member;
        }
        let Some(bus) = member.bus.as_mut() else {
            return;
        };
        bus.set_facts(facts, now);
        self.inform(node);
        let Some(bus) = self.members[node].bus.as_mut() else {
            return;
        };
        input(bus, now);
        if self.data.is_on {
            self.note_gained(node);
        }
        self.execute(node);
    }

    /// Returns whether nodes save when they die: in large clusters that takes long, and is not tested there.
    pub fn saves(&self) -> bool {
        self.keeps_history
    }

    pub fn perform(&mut self, node: usize, effect: Effect) {
        match effect {
            Effect::Connect { link, ip, .. } => {
                let to = node_at(&ip).filter(|to| *to < self.members.len());
                match to {
                    Some(to) => {
                        let id = self.network.open(node, link, to);
                        let delay = self.random.i64(DELAYS.0..DELAYS.1);
                        self.at(delay, Event::Arrive(id));
                    }
                    None => self.at(1, Event::Lost(node, link)),
                }
            }
            Effect::Send { link, bytes } => self.send(node, link, bytes, false),
            Effect::SendMessages { link, bytes } => self.send(node, link, bytes, true),
            Effect::Deliver { message, .. } if self.mail.is_on => self.take_message(node, &message),
            Effect::Close { link } => {
                if let Some((id, end)) = self.network.of(node, link) {
                    self.close(id, Some(end));
                }
            }
            Effect::Follow { ip, needs_full_sync, .. } if self.data.is_on => {
                let (life, from) = (self.life(node), node_at(&ip));
                self.duty(node, Lane::Roles, DataEvent::Follow { node, life, from, needs_full_sync });
            }
            Effect::Lead { .. } if self.data.is_on => {
                let life = self.life(node);
                self.duty(node, Lane::Roles, DataEvent::Lead { node, life });
            }
            Effect::Follow { ip, needs_full_sync, .. } => {
                let member = &mut self.members[node];
                member.following = node_at(&ip);
                member.heard = self.now;
                member.has_history &= !needs_full_sync;
                member.bus.iter_mut().for_each(Bus::followed);
            }
            Effect::Lead { .. } => _ = self.members[node].following.take(),
            Effect::Log { level, text } if level >= Level::Notice => {
                if text.starts_with("Write loss risk!") {
                    self.data_is_at_risk(node);
                }
                // A repeated line is not recorded.
                if !text.starts_with("Mismatch in topology") {
                    self.note(format!("{node}: {text}"));
                }
            }
            effect if self.data.is_on => self.perform_on_data(node, effect),
            _ => {}
        }
    }

    fn save(&mut self, node: usize) {
        self.members[node].disk = self.conf(node);
    }

    pub fn conf(&self, node: usize) -> Vec<u8> {
        let mut conf = self.members[node].bus().conf();
        if self.flaw == Flaw::ForgetsVotes {
            let text = String::from_utf8_lossy(&conf).into_owned();
            let (before, _) = text.rsplit_once("lastVoteEpoch").expect("the last line");
            conf = format!("{before}lastVoteEpoch 0\n").into_bytes();
        }
        conf
    }

    // The network.
    pub fn are_connected(&self, one: usize, other: usize) -> bool {
        self.members[one].side == self.members[other].side
    }

    fn arrive(&mut self, id: u64) {
        let Some(connection) = self.network.connections.get(&id) else {
            return;
        };
        let (from, to) = (connection.ends[0].node, connection.ends[1].node);
        let link = connection.ends[0].link.expect("who makes it knows it");
        if !self.are_connected(from, to) {
            // A connection without an answer stays as it is.
            self.broken(id);
            return;
        }
        if self.members[to].bus.is_none() {
            self.network.close(id);
            self.tell(from, |bus, now| bus.link_lost(link, now));
            return;
        }
        let mut accepted = None;
        let (from_ip, to_ip) = (ip(from), ip(to));
        self.tell(to, |bus, now| accepted = Some(bus.link_accepted(&from_ip, &to_ip, now)));
        if let Some(accepted) = accepted.filter(|_| self.members[to].bus.is_some()) {
            self.network.accepted(id, accepted);
            self.tell(from, |bus, now| bus.link_connected(link, &from_ip, now));
        }
    }

    fn broken(&mut self, id: u64) {
        if let Some(connection) = self.network.connections.get_mut(&id) {
            connection.is_broken = true;
        }
    }

    fn send(&mut self, node: usize, link: LinkId, bytes: Arc<[u8]>, are_messages: bool) {
        self.members[node].bytes_sent += bytes.len() as u64;
        if self.mail.is_on {
            if let Some((id, end)) = self.network.of(node, link) {
                self.give_to_link(id, end, bytes, are_messages);
            }
            return;
        }
        if let Some(bus) = self.members[node].bus.as_mut() {
            bus.link_written(link, bytes.len());
        }
        let Some((id, end)) = self.network.of(node, link) else {
            return;
        };
        let message = message_type(&bytes);
        let bytes = self.spoil(node, id, end, message, bytes);
        let copies = if self.flaw == Flaw::DoublesVotes && message == MessageType::Vote as u16 { 2 } else { 1 };
        let delay = self.random.i64(DELAYS.0..DELAYS.1);
        let Some(connection) = self.network.connections.get_mut(&id) else {
            return;
        };
        let to = &mut connection.ends[1 - end];
        // Bytes that are sent before the connection is established leave then.
        let arrival =
            (self.now + delay).max(to.last_arrival + 1).max(self.now + if to.link.is_none() { 21 } else { 0 });
        to.last_arrival = arrival;
        for _ in 0..copies {
            self.at(arrival - self.now, Event::Bytes(id, 1 - end, bytes.clone()));
        }
    }

    /// Damages the bytes that are sent, if that is the planted mistake.
    fn spoil(&mut self, node: usize, id: u64, end: usize, message: u16, bytes: Arc<[u8]>) -> Arc<[u8]> {
        if message == MessageType::Vote as u16 {
            let to = self.network.connections.get(&id).map(|connection| connection.ends[1 - end].node);
            self.count_vote(node, to, &bytes);
        }
        let announces_pause = self.flaw == Flaw::AnnouncesPauseWhileGranted
            && self.data.stores.get(node).is_some_and(|store| store.is_failing_over);
        if !announces_pause && self.flaw != Flaw::HidesEpochs && self.flaw != Flaw::IgnoresClaims {
            return bytes;
        }
        let mut packet = decode(&bytes).expect("nodes send packets");
        let Some(header) = packet.header.as_mut() else {
            return bytes;
        };
        if self.flaw == Flaw::HidesEpochs {
            header.config_epoch = 1;
        }
        if announces_pause {
            header.message_flags.0 |= MessageFlags::PAUSED;
        }
        if self.flaw == Flaw::IgnoresClaims && matches!(packet.body, Body::Gossip { .. }) {
            header.slots = Default::default();
        }
        encode(header, &packet.body).into()
    }

    fn count_vote(&mut self, voter: usize, to: Option<usize>, bytes: &[u8]) {
        let Some(header) = decode(bytes).ok().and_then(|packet| packet.header) else {
            return;
        };
        let candidate = to.and_then(|to| self.members[to].bus.as_ref()).map(|bus| bus.nodes().my_id());
        let (Some(voter_id), Some(candidate)) = (header.sender, candidate) else {
            return;
        };
        let epoch = header.current_epoch;
        let earlier = self.votes.insert((voter_id, epoch), candidate);
        if earlier.is_some_and(|earlier| earlier != candidate) {
            self.violate(format!("{voter} voted twice in {epoch}"));
        }
    }

    /// Returns the votes that were given: voter, epoch, candidate.
    pub fn votes(&self) -> Vec<(NodeId, u64, NodeId)> {
        self.votes.iter().map(|((voter, epoch), candidate)| (*voter, *epoch, *candidate)).collect()
    }

    fn deliver(&mut self, id: u64, end: usize, bytes: Arc<[u8]>) {
        let Some(connection) = self.network.connections.get(&id) else {
            return;
        };
        let (node, from) = (connection.ends[end].node, connection.ends[1 - end].node);
        if connection.is_broken || !self.are_connected(node, from) {
            self.broken(id);
            return;
        }
        let bytes = if self.flaw == Flaw::IgnoresFormerSource { self.without_claims(node, from, bytes) } else { bytes };
        let bytes = if self.mail.is_on { self.comes_by_line(id, end, node, bytes) } else { Some(bytes) };
        if let Some(bytes) = bytes {
            self.take_bytes(id, end, &bytes);
        }
    }

    /// Returns a packet without its sender's claim of slots that the receiver took from it once.
    fn without_claims(&self, node: usize, from: usize, bytes: Arc<[u8]>) -> Arc<[u8]> {
        let (Some(to), Some(source)) = (&self.members[node].bus, &self.members[from].bus) else { return bytes };
        let source = source.nodes().my_id();
        let is_taken = |job: &&Job| job.is_import && job.state == JobState::Success && job.source == source;
        let taken = to.migrations().jobs().filter(is_taken);
        let taken = taken.fold(SlotSet::none(), |all, job| all.union(&job.slots.to_set()));
        let packet = decode(&bytes).ok();
        let Some((mut header, body)) = packet.and_then(|packet| Some((packet.header?, packet.body))) else {
            return bytes;
        };
        header.slots = header.slots.without(&taken);
        encode(&header, &body).into()
    }

    /// Passes bytes of a connection to the bus.
    pub fn take_bytes(&mut self, id: u64, end: usize, bytes: &[u8]) {
        let Some(connection) = self.network.connections.get(&id) else { return };
        let (node, link) = (connection.ends[end].node, connection.ends[end].link);
        if let Some(link) = link {
            let mut brings_messages = false;
            self.tell(node, |bus, now| brings_messages = bus.received(link, bytes, now));
            self.brings_messages(id, end, brings_messages);
        }
    }

    /// Closes a connection. The other end learns of it, if it can.
    pub fn close(&mut self, id: u64, by: Option<usize>) {
        let Some(connection) = self.network.close(id) else {
            return;
        };
        self.line_ends(id);
        let reaches = self.are_connected(connection.ends[0].node, connection.ends[1].node);
        for (number, end) in connection.ends.iter().enumerate() {
            if let Some(link) = end.link.filter(|_| by != Some(number) && (reaches || by.is_none())) {
                let delay = self.random.i64(DELAYS.0..DELAYS.1).max(end.last_arrival - self.now);
                self.at(delay, Event::Lost(end.node, link));
            }
        }
    }

    // Data.
    pub fn replicate(&mut self, node: usize) {
        let Some(from) = self.members[node].following else {
            if self.members[node].bus.is_some() && !self.data.is_on {
                self.members[node].offset += 10;
            }
            return;
        };
        if self.members[node].is_kept_waiting {
            return;
        }
        if self.data.is_on {
            return self.replicate_data(node);
        }
        if from < self.members.len() && self.members[from].bus.is_some() && self.are_connected(node, from) {
            let offset = self.members[from].offset;
            let member = &mut self.members[node];
            member.synchronizations += u64::from(!member.is_linked);
            (member.heard, member.offset, member.has_history, member.is_linked) = (self.now, offset, true, true);
        }
    }

    // Failures.
    pub fn crash(&mut self, node: usize) {
        self.note(format!("{node} dies"));
        if !self.keeps_history {
            self.save(node);
        }
        if self.data.is_on {
            self.note_unled(node);
            self.note_grants(node);
        }
        self.members[node].bus = None;
        self.members[node].threads = Threads::default();
        self.lives[node] += 1;
        if self.data.is_on {
            self.data_dies(node);
        }
        self.mail_dies(node);
        for id in self.network.of_node(node) {
            let end = self.network.connections[&id].ends.iter().position(|end| end.node == node);
            self.close(id, end);
        }
    }

    pub fn restart(&mut self, node: usize) {
        if self.members[node].bus.is_some() {
            return;
        }
        self.note(format!("{node} is back"));
        let seed = self.random.u64(..);
        let (settings, now) = (self.settings.clone(), self.now);
        self.members[node].restart(&settings, seed, now);
        let life = self.lives[node];
        self.at(1, Event::Tick(node, life));
        if self.data.is_on {
            self.data_returns(node);
        }
    }

    /// Splits the network: nodes of different sides do not reach each other.
    pub fn split(&mut self, side: impl Fn(usize) -> u8) {
        for node in 0..self.members.len() {
            self.members[node].side = side(node);
        }
        let sides: Vec<u8> = self.members.iter().map(|member| member.side).collect();
        self.note(format!("the network falls apart: {sides:?}"));
    }

    pub fn heal(&mut self) {
        self.note("the network heals".to_string());
        self.members.iter_mut().for_each(|member| member.side = 0);
        let broken = self.network.connections.iter().filter(|(_, connection)| connection.is_broken);
        for id in broken.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close(id, None);
        }
        self.heal_job_links();
    }

    /// Plants this mistake from now on.
    pub fn make(&mut self, flaw: Flaw) {
        self.flaw = flaw;
    }

    /// Kills the voters, and restarts them at once. Then a late request of a rival arrives.
    pub fn restart_voters(&mut self) {
        let node_of = |world: &World, id: NodeId| {
            (0..world.members.len())
                .find(|node| world.members[*node].bus.as_ref().is_some_and(|bus| bus.nodes().my_id() == id))
        };
        for (voter, epoch, candidate) in self.votes() {
            let (Some(voter), Some(candidate)) = (node_of(self, voter), node_of(self, candidate)) else {
                continue;
            };
            let shard = self.me(candidate).shard_id;
            let mut rivals = (0..self.members.len()).filter(|node| self.members[*node].bus.is_some());
            let Some(rival) = rivals.find(|node| *node != candidate && self.me(*node).shard_id == shard) else {
                continue;
            };
            self.crash(voter);
            self.restart(voter);
            self.run(4000);
            self.ask_again(rival, voter, epoch);
            self.run(100);
        }
    }

    /// Sends the rival's request as it would have been sent then.
    fn ask_again(&mut self, rival: usize, voter: usize, epoch: u64) {
        let link = self.members[rival].bus().nodes().get(&self.id(voter)).and_then(|node| node.link);
        let Some((id, end)) = link.and_then(|link| self.network.of(rival, link)) else {
            return;
        };
        let me = self.me(rival);
        let owner = self.members[rival].bus().nodes().get(&me.primary.unwrap_or(me.id)).expect("known");
        let header = Header {
            sender: Some(me.id),
            current_epoch: epoch,
            config_epoch: 1 << 23,
            offset: 1,
            slots: owner.slots.clone(),
            is_replica: true,
            primary: me.primary,
            ip: String::new(),
            port: 6379,
            other_port: 0,
            bus_port: crate::member::BUS_PORT,
            flags: me.flags.0,
            is_down: false,
            message_flags: MessageFlags(MessageFlags::FORCE_VOTE),
        };
        let bytes = encode(&header, &Body::VoteRequest);
        self.deliver(id, 1 - end, bytes.into());
    }
}
