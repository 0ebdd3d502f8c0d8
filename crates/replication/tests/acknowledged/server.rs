//! A virtual server: its data, its memory, and its side of every link.

use replication::ack_gate::AckSettings;
use replication::in_sync_member::{Introduction, Membership};
use replication::in_sync_set::{InSyncSet, MemberId, Term};
use replication::link_event::Position;
use replication::member_record::{Loaded, MemberRecord};
use replication::quorum_ack::AcknowledgingPrimary;
use replication::replica_handshake::Acks;
use replication::replid::{History, ReplicationId};

/// Item of a stream; each counts as one byte.
#[derive(Clone, Debug)]
pub enum Item {
    Write { key: usize, value: u64 },
    Set(InSyncSet),
    Probe,
}

/// Message between servers.
#[derive(Clone, Debug)]
pub enum Message {
    Psync { said: Box<Introduction>, position: Option<Position>, hands_over: bool },
    Refused,
    Continue { id: ReplicationId, term: Term },
    Full { id: ReplicationId, term: Term, items: Vec<Item> },
    Items(Vec<Item>),
    Ack(Acks),
}

/// A planted defect, to check that the test finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    Nothing,
    /// Replicas follow a replaced primary, and do not tell of it.
    AnyTerm,
    /// A new primary acknowledges at once.
    NoGate,
    /// No server checks leases.
    NoLease,
    /// A new primary sends all its data to replicas, whatever data they have.
    AnyClaim,
    /// Reads do not wait for the data that they saw.
    HastyReads,
    /// A server that has lost its data keeps its old name.
    SameName,
    /// The set changes at once.
    OneSet,
    /// Any data on the disk makes a member of the process that finds it.
    AnyDisk,
    /// Heirs are believed whatever they know, and no server checks whether others know a later set.
    OldDisk,
    /// A server that has given up its lead relies on that for good.
    LastLead,
}

/// A reply that is held.
pub struct WaitingReply {
    pub call: usize,
    pub offset: u64,
    pub since: u64,
    pub seen: u64,
}

/// A replica's link at its primary.
pub struct Feed {
    pub link: u64,
    pub member: MemberId,
    pub sent: usize,
}

pub enum Role {
    Primary(Box<AcknowledgingPrimary>),
    Replica { link: Option<u64>, streams: bool },
}

pub struct Server {
    pub up: bool,
    /// Whether the server has no knowledge, lost or not acquired yet.
    pub blank: bool,
    pub stopped_until: u64,
    /// Speed of the clock in thousandths of the true time, and its time at the beginning.
    pub rate: u64,
    pub ahead: u64,
    pub role: Role,
    pub follows: usize,
    pub memory: Membership,
    pub items: Vec<Item>,
    pub history: History,
    /// Offsets up to which the file was written and synced, and how often the file was begun anew.
    pub written: usize,
    pub synced: usize,
    pub disk_count: u64,
    /// Whether the server has an acknowledgement to send.
    pub next_ack: bool,
    pub feeds: Vec<Feed>,
    pub held: Vec<WaitingReply>,
    pub next_contact: u64,
    pub heard: u64,
    pub disk: u64,
    /// Record of the server's knowledge, and snapshot of its data.
    pub record: Option<String>,
    pub snapshot: Option<Image>,
    /// Disk after an earlier clean end.
    pub image: Option<Image>,
    /// Whether the server has restarted with that disk, and has followed no primary since.
    pub is_image: bool,
    /// Hand-over in progress: the server takes no writes, and a replica is to lead in its place.
    pub hands_over: Option<HandOver>,
}

/// Replica that is to lead, deadline of the attempt, and whether the replica is asked already.
#[derive(Clone, Copy)]
pub struct HandOver {
    pub to: usize,
    pub until: u64,
    pub is_asked: bool,
}

/// Contents of a disk.
#[derive(Clone)]
pub struct Image {
    pub record: Option<String>,
    pub items: Vec<Item>,
    pub history: History,
}

/// Number of the directory.
const DIRECTORY: u64 = 7;

impl Server {
    pub fn new(name: u128) -> Server {
        Server {
            up: true,
            blank: false,
            stopped_until: 0,
            rate: 1000,
            ahead: 0,
            role: Role::Replica { link: None, streams: false },
            follows: 0,
            memory: Membership::new(MemberId::of(name, 1)),
            items: Vec::new(),
            history: History::new(ReplicationId::of(name, 2)),
            written: 0,
            synced: 0,
            disk_count: 0,
            next_ack: false,
            feeds: Vec::new(),
            held: Vec::new(),
            next_contact: 0,
            heard: 0,
            disk: 20,
            record: None,
            snapshot: None,
            image: None,
            is_image: false,
            hands_over: None,
        }
    }

    /// Returns the time of the server's clock.
    pub fn clock(&self, now: u64) -> u64 {
        self.ahead + now * self.rate / 1000
    }

    /// Returns the present name of the server's file.
    pub fn disk_name(&self) -> (MemberId, u64) {
        (self.memory.id, self.disk_count)
    }

    pub fn position(&self) -> Position {
        Position { id: self.history.id, offset: self.items.len() as u64 }
    }

    /// Returns the value under a key, and the length of the stream behind the last write of it.
    pub fn read(&self, key: usize) -> (u64, u64) {
        let found = self.items.iter().enumerate().rev().find_map(|(at, item)| match item {
            Item::Write { key: of, value } if *of == key => Some((*value, at as u64 + 1)),
            _ => None,
        });
        found.unwrap_or((0, 0))
    }

    pub fn is_in_sync(&self) -> bool {
        match &self.role {
            Role::Primary(_) => true,
            Role::Replica { .. } => self.memory.is_in_sync(),
        }
    }

    /// Returns whether the server has the data that another one claims.
    pub fn has(&self, position: Option<Position>) -> bool {
        position.is_none_or(|Position { id, offset }| {
            self.history.has(id, offset as i64 + 1) && offset <= self.items.len() as u64
        })
    }

    pub fn introduction(&self) -> Introduction {
        let all = (!self.items.is_empty()).then(|| self.position());
        Introduction::of(&self.memory, all)
    }

    /// Makes the server lead from now on.
    pub fn promote(&mut self, new_name: u128, planted: Planted) {
        if matches!(self.role, Role::Primary(_)) {
            return;
        }
        let position = self.position();
        if planted == Planted::OldDisk {
            self.memory.is_restored = false;
        }
        let primary = match planted {
            Planted::NoGate => AcknowledgingPrimary::forced(&self.memory, position),
            _ => AcknowledgingPrimary::new(&self.memory, position),
        };
        self.history.shift(ReplicationId::of(new_name, 3), position.offset);
        self.role = Role::Primary(Box::new(primary));
        self.hands_over = None;
        self.feeds.clear();
    }

    /// Makes the server follow. Returns the calls whose outcome is open now.
    pub fn follow(&mut self, whom: usize) -> Vec<WaitingReply> {
        if let Role::Primary(primary) = &self.role {
            self.memory = primary.membership();
        }
        self.role = Role::Replica { link: None, streams: false };
        self.hands_over = None;
        (self.follows, self.next_contact) = (whom, 0);
        self.feeds.clear();
        std::mem::take(&mut self.held)
    }

    /// Ends the process, and loses all of its data.
    pub fn crash(&mut self, name: u128, planted: Planted) {
        let fresh = Server::new(name);
        let memory = if planted == Planted::SameName { Membership::new(self.memory.id) } else { fresh.memory.clone() };
        *self = Server { blank: true, memory, follows: self.follows, rate: self.rate, ahead: self.ahead, ..fresh };
    }

    fn knowledge(&self) -> Membership {
        match &self.role {
            Role::Primary(primary) => primary.membership(),
            Role::Replica { .. } => self.memory.clone(),
        }
    }

    /// Writes the server's knowledge to its disk.
    pub fn persist(&mut self) {
        let record = MemberRecord { membership: self.knowledge(), saved: None, logged: None, directory: DIRECTORY };
        self.record = Some(record.to_text());
    }

    /// Writes the server's data to its disk, too.
    pub fn save(&mut self) {
        self.snapshot = Some(Image { record: None, items: self.items.clone(), history: self.history });
    }

    /// Ends the process as SHUTDOWN does, with all data on the disk.
    pub fn shut_down(&mut self) {
        self.save();
        let saved = (!self.items.is_empty()).then(|| self.position());
        let record = MemberRecord { membership: self.knowledge(), saved, logged: None, directory: DIRECTORY };
        self.record = Some(record.to_text());
        if let Some(snapshot) = &self.snapshot {
            self.image = Some(Image { record: self.record.clone(), ..snapshot.clone() });
        }
    }

    /// Starts a process with the disk's contents. Returns whether it has all data of the process before.
    pub fn restart(&mut self, name: u128, planted: Planted) -> bool {
        let (record, snapshot, image) = (self.record.take(), self.snapshot.take(), self.image.take());
        let fresh = Server::new(name);
        let base = Server { follows: self.follows, rate: self.rate, ahead: self.ahead, blank: true, ..fresh };
        *self = Server { image, disk_count: self.disk_count + 1, ..base };
        if let Some(Image { items, history, .. }) = &snapshot {
            (self.items, self.history) = (items.clone(), *history);
        }
        let loaded = (!self.items.is_empty()).then(|| self.position());
        if let Some(mut known) = record.as_ref().and_then(|text| MemberRecord::parse(text.as_bytes())) {
            if planted == Planted::AnyDisk {
                known.saved = loaded;
            }
            self.memory = known.restore(self.memory.id, Loaded::Snapshot(loaded), DIRECTORY);
        }
        (self.record, self.snapshot) = (record, snapshot);
        self.blank = !self.memory.is_restored;
        !self.blank
    }

    /// Appends the words that the server's own stream is to have now.
    pub fn speak(&mut self, now: u64, settings: &AckSettings, planted: Planted) {
        let clock = self.clock(now);
        let Role::Primary(primary) = &mut self.role else { return };
        primary.tick(settings, clock);
        while let Some(word) = primary.next_word() {
            let mut set = InSyncSet::parse(word.as_bytes()).expect("it is a set");
            if planted == Planted::OneSet {
                set.before = None;
            }
            self.items.push(Item::Set(set));
            primary.appended(self.items.len() as u64);
            primary.tick(settings, clock);
        }
    }
}
