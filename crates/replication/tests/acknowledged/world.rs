//! The servers, their network, their clients, and the promotions. One seed decides all.

use crate::checker::Call;
use crate::server::{Feed, HandOver, Item, Message, Planted, Role, Server, WaitingReply};
use replication::ack_gate::{AckSettings, Gate};
use replication::in_sync_member::Introduction;
use replication::in_sync_set::{InSyncSet, MemberId, Term};
use replication::link_event::Position;
use replication::quorum_ack::AcknowledgingPrimary;
use replication::replica_handshake::Acks;
use replication::replid::History;
use std::collections::{BTreeMap, BTreeSet};

/// Number of registers.
pub const KEYS: usize = 2;
/// Longest time for which a reply is held.
const PATIENCE: u64 = 2000;
/// Longest silence of a link.
const SILENCE: u64 = 1500;

enum Event {
    Told { to: usize, from: usize, link: u64, message: Message },
    Asked { to: usize, call: usize },
    Synced { server: usize, name: (MemberId, u64), length: usize },
}

pub struct World {
    pub servers: Vec<Server>,
    pub calls: Vec<(usize, Call)>,
    pub settings: AckSettings,
    pub durable: bool,
    now: u64,
    random: fastrand::Rng,
    planted: Planted,
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
    cut: BTreeSet<(usize, usize)>,
    /// Arrival of the last message in each direction of a link: messages do not overtake each other.
    arrivals: BTreeMap<(u64, usize), u64>,
    pub answered: usize,
    /// Whether replicas serve replicas, and roles are handed over.
    pub chains: bool,
    /// Whether a replica continues with its data if it can.
    pub continues: bool,
}

impl World {
    pub fn new(seed: u64, servers: usize, replicas: usize, durable: bool, planted: Planted) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut all: Vec<Server> = (0..servers).map(|_| Server::new(random.u128(..))).collect();
        for server in &mut all {
            // A server whose clock is fast by a twentieth takes over from one whose clock is slow.
            (server.rate, server.ahead) = (random.u64(960..=1040), random.u64(0..1 << 40));
        }
        let first = &mut all[0];
        first.role = Role::Primary(Box::new(AcknowledgingPrimary::new(&first.memory, first.position())));
        let settings = AckSettings { replicas, lease: 400, silence: 1000 };
        let (events, cut, arrivals) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        let (calls, now, count, answered) = (Vec::new(), 1, 0, 0);
        let servers = all;
        let (chains, continues) = (false, false);
        World {
            servers,
            calls,
            settings,
            durable,
            now,
            random,
            planted,
            events,
            count,
            cut,
            arrivals,
            answered,
            chains,
            continues,
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.count += 1;
        self.events.insert((time, self.count), event);
    }

    fn send(&mut self, from: usize, to: usize, link: u64, message: Message) {
        let delay = if self.random.u8(..) < 8 { self.random.u64(1..300) } else { self.random.u64(1..6) };
        let arrives = self.arrivals.entry((link, to)).or_default();
        *arrives = (*arrives).max(self.now + delay);
        let time = *arrives;
        self.at(time, Event::Told { to, from, link, message });
    }

    fn reaches(&self, a: usize, b: usize) -> bool {
        !self.cut.contains(&(a.min(b), a.max(b)))
    }

    /// Runs the world for so many milliseconds.
    pub fn run(&mut self, time: u64) {
        let end = self.now + time;
        while self.now < end {
            self.now += 1;
            while self.events.first_key_value().is_some_and(|((time, _), _)| *time <= self.now) {
                if let Some((_, event)) = self.events.pop_first() {
                    self.take(event);
                }
            }
            if self.random.u8(..) < 12 {
                self.call();
            }
            for server in 0..self.servers.len() {
                self.serve(server);
            }
        }
    }

    fn is_awake(&self, server: usize) -> bool {
        self.servers[server].up && self.servers[server].stopped_until <= self.now
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Told { to, .. } | Event::Asked { to, .. } if !self.is_awake(to) => {
                // A server that stands still gets the event later; a server that is down does not.
                if self.servers[to].up {
                    let later = self.servers[to].stopped_until;
                    self.at(later, event);
                }
            }
            Event::Told { to, from, .. } if !self.reaches(from, to) => {}
            Event::Told { to, from, link, message } => self.hear(to, from, link, message),
            Event::Asked { to, call } => self.ask(to, call),
            Event::Synced { server, name, length } => {
                let server = &mut self.servers[server];
                if server.disk_name() == name {
                    server.synced = server.synced.max(length.min(server.items.len()));
                    server.next_ack = true;
                }
            }
        }
    }

    fn call(&mut self) {
        let to = self.random.usize(..self.servers.len());
        let key = self.random.usize(..KEYS);
        let call = self.calls.len();
        let write = self.random.bool().then_some(call as u64 + 1);
        self.calls.push((key, Call { write, called: self.now, replied: None, seen: 0 }));
        let time = self.now + self.random.u64(0..5);
        self.at(time, Event::Asked { to, call });
    }

    /// Runs a client's command.
    fn ask(&mut self, to: usize, call: usize) {
        let (key, Call { write, .. }) = self.calls[call];
        let server = &mut self.servers[to];
        if !matches!(server.role, Role::Primary(_)) || write.is_some() && server.hands_over.is_some() {
            return;
        }
        let (seen, mut offset) = match write {
            Some(value) => {
                server.items.push(Item::Write { key, value });
                (0, server.items.len() as u64)
            }
            None => server.read(key),
        };
        if write.is_none() && self.planted == Planted::HastyReads {
            offset = 0;
        }
        server.held.push(WaitingReply { call, offset, since: self.now, seen });
    }

    fn hear(&mut self, to: usize, from: usize, link: u64, message: Message) {
        if let Message::Psync { said, position, hands_over } = message {
            if hands_over {
                self.take_over(to, position);
            }
            return match self.servers[to].role {
                Role::Primary(_) => self.admit(to, from, link, &said, position),
                Role::Replica { streams, .. } => self.chain(to, from, link, (&said, position), streams && !hands_over),
            };
        }
        self.hear_on_link(to, link, message);
    }

    /// Takes a message of a replica or a primary on an existing link.
    fn hear_on_link(&mut self, to: usize, link: u64, message: Message) {
        let (now, any_term) = (self.now, self.planted == Planted::AnyTerm);
        let is_planted = self.planted != Planted::Nothing;
        let planted = self.planted;
        let server = &mut self.servers[to];
        let clock = server.clock(now);
        match (&mut server.role, message) {
            (Role::Primary(primary), Message::Ack(acks)) => {
                if let Some(feed) = server.feeds.iter().find(|feed| feed.link == link) {
                    primary.acknowledged(feed.member, acks, clock);
                }
            }
            (Role::Replica { link: Some(own), streams }, message) if *own == link => {
                server.heard = now;
                match message {
                    Message::Continue { id, term } => {
                        if server.memory.meet(Some(term)).is_err() && !any_term {
                            server.role = Role::Replica { link: None, streams: false };
                            return;
                        }
                        *streams = true;
                        (server.is_image, server.hands_over) = (false, None);
                        if id != server.history.id {
                            let length = server.items.len() as u64;
                            server.history.shift(id, length);
                            self.close_feeds(to);
                        }
                    }
                    Message::Full { id, term, items } => {
                        if server.memory.meet(Some(term)).is_err() && !any_term {
                            server.role = Role::Replica { link: None, streams: false };
                            return;
                        }
                        *streams = true;
                        (server.blank, server.is_image, server.hands_over) = (false, false, None);
                        (server.items, server.history, server.synced) = (items, History::new(id), 0);
                        server.memory.replace();
                        server.disk_count += 1;
                        server.written = 0;
                        server.next_ack = true;
                        self.close_feeds(to);
                    }
                    Message::Items(items) if *streams => {
                        server.blank = false;
                        let gave_up = planted == Planted::LastLead && server.memory.gave_up;
                        for item in items {
                            // Runs with a defect lose the link there: the seeds that find the defects depend on it.
                            let is_lost = |set: &InSyncSet| is_planted && set.term.number < server.memory.term.number;
                            if let Item::Set(set) = &item
                                && (is_lost(set) || server.memory.take(set.clone()).is_err())
                                && !any_term
                            {
                                server.role = Role::Replica { link: None, streams: false };
                                return;
                            }
                            server.items.push(item);
                        }
                        server.memory.gave_up |= gave_up;
                        server.next_ack = true;
                    }
                    _ => server.role = Role::Replica { link: None, streams: false },
                }
            }
            _ => {}
        }
    }

    /// Takes a replica's request for the data that it lacks.
    fn admit(&mut self, to: usize, from: usize, link: u64, said: &Introduction, position: Option<Position>) {
        let server = &mut self.servers[to];
        let clock = server.clock(self.now);
        // A replica names the history that it has now, too. Runs with a defect do without: their seeds depend on it.
        let is_asked = self.continues || self.planted == Planted::Nothing;
        let asked = position.filter(|_| is_asked).map(|position| position.id);
        let has_all = said.is_within(&server.history, server.items.len() as u64, asked);
        let can_continue = position.is_some() && server.has(position);
        let own = server.position();
        let Role::Primary(primary) = &mut server.role else { return };
        let may = primary.may_follow(said, has_all, own) || self.planted == Planted::AnyClaim;
        server.feeds.retain(|feed| feed.link != link && feed.member != said.id);
        primary.left(said.id, clock);
        if !may {
            return self.send(to, from, link, Message::Refused);
        }
        let (id, term) = (server.history.id, primary.set().term);
        primary.joined(said);
        let (message, sent) = match position.filter(|_| can_continue && (self.random.u8(..) < 200 || self.continues)) {
            Some(position) => (Message::Continue { id, term }, position.offset as usize),
            None => (Message::Full { id, term, items: server.items.clone() }, server.items.len()),
        };
        server.feeds.push(Feed { link, member: said.id, sent });
        self.send(to, from, link, message);
    }

    /// Takes a server's own steps.
    fn serve(&mut self, number: usize) {
        if !self.is_awake(number) {
            return;
        }
        let (now, settings) = (self.now, self.settings);
        let server = &mut self.servers[number];
        let clock = server.clock(now);
        server.speak(now, &settings, self.planted);
        if matches!(server.role, Role::Primary(_)) {
            server.persist();
        }
        if self.random.u16(..) < 60 && !server.items.is_empty() {
            server.save();
        }
        if server.written < server.items.len() {
            server.written = server.items.len();
            let (name, length, delay) = (server.disk_name(), server.written, self.random.u64(0..=server.disk));
            self.at(now + delay, Event::Synced { server: number, name, length });
        }
        match &self.servers[number].role {
            Role::Primary(_) => {
                let server = &mut self.servers[number];
                if clock >= server.next_contact {
                    server.next_contact = clock + settings.lease / 4;
                    server.items.push(Item::Probe);
                }
                let length = server.items.len() as u64;
                let Role::Primary(primary) = &mut server.role else { return };
                primary.note_sent(length, clock);
                self.feed(number);
                self.release(number);
                self.go_on_handing_over(number);
            }
            Role::Replica { link, .. } => {
                let (is_lost, follows) = (link.is_none(), self.servers[number].follows);
                let server = &mut self.servers[number];
                if follows != number && (is_lost || now - server.heard > SILENCE) && now >= server.next_contact {
                    server.next_contact = now + 300;
                    server.heard = now;
                    self.count += 1;
                    // The number of a link names its owner.
                    let link = self.count * 16 + number as u64;
                    let server = &mut self.servers[number];
                    server.role = Role::Replica { link: Some(link), streams: false };
                    let position = (!server.items.is_empty()).then(|| server.position());
                    let hands_over = server.hands_over.is_some_and(|it| it.is_asked);
                    let mut said = server.introduction();
                    if self.planted == Planted::AnyTerm {
                        said.term = Term::NONE;
                    }
                    self.send(number, follows, link, Message::Psync { said: Box::new(said), position, hands_over });
                } else if let Role::Replica { link: Some(link), streams: true } = server.role
                    && std::mem::take(&mut server.next_ack)
                {
                    server.persist();
                    let acks = Acks { applied: server.items.len() as u64, synced: server.synced as u64 };
                    self.send(number, follows, link, Message::Ack(acks));
                }
                self.feed(number);
                self.go_on_handing_over(number);
            }
        }
    }

    /// Sends followers of a server the data that they lack.
    fn feed(&mut self, number: usize) {
        let server = &mut self.servers[number];
        let (length, mut messages) = (server.items.len(), Vec::new());
        for feed in server.feeds.iter_mut().filter(|feed| feed.sent < length) {
            messages.push((feed.link, server.items[feed.sent..].to_vec()));
            feed.sent = length;
        }
        for (link, items) in messages {
            self.send(number, (link % 16) as usize, link, Message::Items(items));
        }
    }

    /// Closes the links of a server's followers.
    fn close_feeds(&mut self, number: usize) {
        for feed in std::mem::take(&mut self.servers[number].feeds) {
            self.send(number, (feed.link % 16) as usize, feed.link, Message::Refused);
        }
    }

    /// Sends a replica of a replica its stream, which is another server's.
    fn chain(&mut self, to: usize, from: usize, link: u64, asked: (&Introduction, Option<Position>), may: bool) {
        if !self.chains {
            return;
        }
        let (said, position) = asked;
        let server = &mut self.servers[to];
        server.feeds.retain(|feed| feed.link != link && feed.member != said.id);
        let has_all = server.has(said.claim) || said.term == Term::NONE;
        if !may || !has_all || server.items.is_empty() {
            return self.send(to, from, link, Message::Refused);
        }
        let (id, term) = (server.history.id, server.memory.term);
        let (message, sent) = match position.filter(|_| server.has(position)) {
            Some(position) => (Message::Continue { id, term }, position.offset as usize),
            None => (Message::Full { id, term, items: server.items.clone() }, server.items.len()),
        };
        server.feeds.push(Feed { link, member: said.id, sent });
        self.send(to, from, link, message);
    }

    /// Makes a primary that acknowledges hand its role to a replica within this time, as FAILOVER does. Returns both.
    pub fn hand_over(&mut self, patience: u64) -> Option<(usize, usize)> {
        let leads = |number: &usize| self.is_awake(*number) && self.acknowledging().contains(number);
        let number = (0..self.servers.len()).find(leads)?;
        let follows = |other: &usize| {
            let member = self.servers[*other].memory.id;
            self.is_awake(*other) && self.servers[number].feeds.iter().any(|feed| feed.member == member)
        };
        let replicas: Vec<usize> = (0..self.servers.len()).filter(follows).collect();
        let to = *replicas.get(self.random.usize(..replicas.len().max(1)))?;
        self.servers[number].hands_over = Some(HandOver { to, until: self.now + patience, is_asked: false });
        Some((number, to))
    }

    fn go_on_handing_over(&mut self, number: usize) {
        let Some(order) = self.servers[number].hands_over else { return };
        let (from, to) = (&self.servers[number], &self.servers[order.to]);
        let is_late = self.now >= order.until;
        if order.is_asked && is_late {
            self.take_back(number);
        } else if is_late {
            self.servers[number].hands_over = None;
        } else if !order.is_asked
            && matches!(to.role, Role::Replica { streams: true, .. })
            && to.items.len() == from.items.len()
            && from.feeds.iter().any(|feed| feed.member == to.memory.id)
        {
            self.become_replica(number, order.to);
            self.servers[number].hands_over = Some(HandOver { is_asked: true, ..order });
        }
    }

    /// Makes a server follow. Its own followers stay.
    fn become_replica(&mut self, number: usize, whom: usize) {
        let feeds = std::mem::take(&mut self.servers[number].feeds);
        self.servers[number].follow(whom);
        self.servers[number].feeds = feeds;
    }

    /// Makes a server that was to follow its replica lead again.
    pub fn take_back(&mut self, number: usize) {
        self.close_feeds(number);
        let name = self.random.u128(..);
        self.servers[number].promote(name, self.planted);
    }

    /// Makes a replica take over by its primary's request.
    fn take_over(&mut self, number: usize, position: Option<Position>) {
        let name = self.random.u128(..);
        let server = &mut self.servers[number];
        let has_all = |Position { id, offset }| id == server.history.id && offset <= server.items.len() as u64;
        if matches!(server.role, Role::Replica { .. }) && position.is_some_and(has_all) {
            self.close_feeds(number);
            self.servers[number].promote(name, self.planted);
        }
    }

    /// Releases the replies that are due.
    fn release(&mut self, number: usize) {
        let (now, settings, planted) = (self.now, self.settings, self.planted);
        let server = &mut self.servers[number];
        let clock = server.clock(now);
        let Role::Primary(primary) = &mut server.role else { return };
        let held = primary.held(settings.replicas, self.durable, &[]);
        let is_leased = planted == Planted::NoLease || clock < primary.leased_until(&settings);
        let (calls, random) = (&mut self.calls, &mut self.random);
        let mut answered = 0;
        server.held.retain(|reply| {
            if is_leased && held.is_some_and(|held| held >= reply.offset) {
                let call = &mut calls[reply.call].1;
                (call.replied, call.seen) = (Some(now + random.u64(0..5)), reply.seen);
                answered += 1;
                return false;
            }
            now - reply.since < PATIENCE
        });
        self.answered += answered;
    }

    /// Makes something fail, or promotes a server.
    pub fn trouble(&mut self) {
        let number = self.random.usize(..self.servers.len());
        match self.random.u8(..16) {
            0 | 1 => self.crash(number),
            12 | 13 => self.restart(number, true),
            14 => self.restart(number, false),
            15 => self.roll_back(number),
            2 | 3 => self.servers[number].stopped_until = self.now + self.random.u64(1..4000),
            4 | 5 => {
                let other = self.random.usize(..self.servers.len());
                self.cut.insert((number.min(other), number.max(other)));
            }
            6 => self.cut_off(number),
            7 => self.cut.clear(),
            8 => self.servers[number].disk = self.random.u64(1..1500),
            // The promotion's effect is open: the server may be the wrong one.
            9 => self.promote(number),
            _ => _ = self.fail_over(),
        }
    }

    /// Cuts a server off from all others.
    pub fn cut_off(&mut self, number: usize) {
        (0..self.servers.len()).for_each(|other| _ = self.cut.insert((number.min(other), number.max(other))));
    }

    /// Restarts a server's process without its data. One at a time: data that two servers have lost may have no copy.
    fn crash(&mut self, number: usize) {
        let was_primary = matches!(self.servers[number].role, Role::Primary(_));
        if !self.others_know(number) {
            return;
        }
        let name = self.random.u128(..);
        self.servers[number].crash(name, self.planted);
        let server = &mut self.servers[number];
        if was_primary && self.random.bool() {
            // The configuration makes the server a primary.
            let primary = AcknowledgingPrimary::new(&server.memory, server.position());
            server.role = Role::Primary(Box::new(primary));
        } else {
            server.stopped_until = self.now + 200;
        }
    }

    /// Ends a process, by SHUTDOWN or by a kill, and restarts it with its disk. A killed process loses the data that
    /// was not saved: one at a time.
    fn restart(&mut self, number: usize, is_clean: bool) {
        if !self.is_awake(number) || !(is_clean || self.others_know(number)) {
            return;
        }
        let (name, shifted) = (self.random.u128(..), self.random.u128(..));
        let server = &mut self.servers[number];
        let was_primary = matches!(server.role, Role::Primary(_));
        if is_clean {
            server.shut_down();
        }
        server.restart(name, self.planted);
        self.come_back(number, was_primary, shifted);
    }

    /// Kills a process, and starts it at once as a primary, with what its disk has.
    pub fn kill_and_lead(&mut self, number: usize) {
        let (name, shifted) = (self.random.u128(..), self.random.u128(..));
        self.servers[number].restart(name, self.planted);
        self.servers[number].promote(shifted, self.planted);
    }

    /// Restarts a server with the disk of an earlier clean end.
    fn roll_back(&mut self, number: usize) {
        let Some(image) = self.servers[number].image.clone() else { return };
        if !self.is_awake(number) || !self.others_know(number) {
            return;
        }
        let name = self.random.u128(..);
        let server = &mut self.servers[number];
        (server.record, server.snapshot) = (image.record.clone(), Some(image));
        server.restart(name, self.planted);
        (server.blank, server.is_image) = (true, true);
        self.come_back(number, false, 0);
    }

    fn come_back(&mut self, number: usize, was_primary: bool, shifted: u128) {
        if was_primary && self.random.bool() {
            self.servers[number].promote(shifted, self.planted);
        } else {
            self.servers[number].stopped_until = self.now + self.random.u64(1..1000);
        }
    }

    fn others_know(&self, number: usize) -> bool {
        let is_blank = |(other, server): (usize, &Server)| other != number && (server.blank || !server.up);
        !self.servers.iter().enumerate().any(is_blank)
    }

    /// Fails over as Sentinels do: of the reachable members of the set the one with the most data is promoted, and the
    /// other reachable servers follow it.
    pub fn fail_over(&mut self) -> Option<usize> {
        let seen = |server: &usize| self.is_awake(*server) && self.reaches_most(*server);
        let candidates = (0..self.servers.len()).filter(seen).filter(|number| {
            let server = &self.servers[*number];
            matches!(server.role, Role::Replica { .. }) && server.is_in_sync() && !server.items.is_empty()
        });
        let best = candidates.max_by_key(|number| self.servers[*number].items.len());
        if let Some(best) = best {
            self.promote(best);
        }
        best
    }

    fn reaches_most(&self, server: usize) -> bool {
        let reached = (0..self.servers.len()).filter(|other| *other != server && self.reaches(server, *other));
        reached.count() * 2 >= self.servers.len() - 1
    }

    fn promote(&mut self, number: usize) {
        if !self.is_awake(number) || self.servers[number].items.is_empty() {
            return;
        }
        let name = self.random.u128(..);
        // Other servers recognise an old disk by their later sets: a server with one is promoted only while all are
        // reachable.
        let is_image = self.servers[number].is_image;
        let others = (0..self.servers.len()).filter(|other| *other != number);
        if is_image && !others.clone().all(|other| self.is_awake(other) && self.reaches(other, number)) {
            return;
        }
        self.servers[number].promote(name, self.planted);
        for other in others.collect::<Vec<_>>() {
            if self.is_awake(other) && (is_image || self.random.u8(..) < 220) {
                self.servers[other].follow(number);
            }
        }
    }

    /// Repairs all failures: every server follows this one.
    pub fn heal(&mut self, number: usize) {
        self.cut.clear();
        let now = self.now;
        for server in self.servers.iter_mut().filter(|server| server.up) {
            (server.stopped_until, server.disk) = (now, 10);
        }
        let name = self.random.u128(..);
        self.servers[number].promote(name, self.planted);
        (0..self.servers.len()).filter(|other| *other != number).for_each(|other| {
            if self.servers[other].follows != number || matches!(self.servers[other].role, Role::Primary(_)) {
                self.servers[other].follow(number);
            }
        });
    }

    /// Returns the servers whose clients are answered.
    pub fn acknowledging(&self) -> Vec<usize> {
        let may = |server: &Server| match &server.role {
            Role::Primary(primary) => primary.gate() == Gate::Open,
            Role::Replica { .. } => false,
        };
        (0..self.servers.len()).filter(|number| may(&self.servers[*number])).collect()
    }

    pub fn some_time(&mut self) -> u64 {
        self.random.u64(50..3000)
    }
}
