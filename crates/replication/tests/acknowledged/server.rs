//! A virtual server: its data, what it remembers, and its side of every link.

use replication::acknowledging::{AckSettings, AcknowledgingPrimary};
use replication::arrived::Position;
use replication::follower::Acks;
use replication::ids::{History, ReplicationId};
use replication::in_sync_member::{Introduction, Membership};
use replication::in_sync_set::{InSyncSet, MemberId, Term};
use replication::member_record::{Loaded, MemberRecord};

/// What a stream consists of; each counts as one byte.
#[derive(Clone, Debug)]
pub enum Item {
    Write { key: usize, value: u64 },
    Set(InSyncSet),
    Probe,
}

/// What servers say to each other.
#[derive(Clone, Debug)]
pub enum Message {
    Psync { said: Box<Introduction>, position: Option<Position>, hands_over: bool },
    Refused,
    Continue { id: ReplicationId, term: Term },
    Full { id: ReplicationId, term: Term, items: Vec<Item> },
    Items(Vec<Item>),
    Ack(Acks),
}

/// A defect that is planted to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    Nothing,
    /// Replicas follow who was replaced, and do not tell of it.
    AnyTerm,
    /// Who takes over acknowledges at once.
    NoGate,
    /// Nobody looks at leases.
    NoLease,
    /// Who takes over gives all its data, whatever they have.
    AnyClaim,
    /// Reads do not wait for what they saw.
    HastyReads,
    /// Who has lost its data goes by its old name.
    SameName,
    /// The set changes at once.
    OneSet,
    /// Whatever is on the disk makes a member of the process that finds it.
    AnyDisk,
    /// Heirs are believed whatever they know, and no server looks at what others know later.
    OldDisk,
    /// A server that has given up its lead counts on that for good.
    LastLead,
}

/// A reply that waits.
pub struct WaitingReply {
    pub call: usize,
    pub offset: u64,
    pub since: u64,
    pub seen: u64,
}

/// A replica at its primary.
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
    /// It knows nothing any more, nor yet.
    pub blank: bool,
    pub stopped_until: u64,
    /// Its clock goes by so many thousandths of the true one, from here.
    pub rate: u64,
    pub ahead: u64,
    pub role: Role,
    pub follows: usize,
    pub memory: Membership,
    pub items: Vec<Item>,
    pub history: History,
    /// Up to where it was written and synced, and how often the file was begun anew.
    pub written: usize,
    pub synced: usize,
    pub disk_count: u64,
    /// It has something to acknowledge.
    pub next_ack: bool,
    pub feeds: Vec<Feed>,
    pub held: Vec<WaitingReply>,
    pub next_contact: u64,
    pub heard: u64,
    pub disk: u64,
    /// The record of its knowledge, and a snapshot of its data.
    pub record: Option<String>,
    pub snapshot: Option<Image>,
    /// Its disk after a clean end, some time ago.
    pub image: Option<Image>,
    /// It has come back with that, and has followed nobody since.
    pub is_image: bool,
    /// It takes no writes, and a replica is to lead in its place.
    pub hands_over: Option<HandOver>,
}

/// The replica that is to lead, until when that is tried, and whether it is asked already.
#[derive(Clone, Copy)]
pub struct HandOver {
    pub to: usize,
    pub until: u64,
    pub is_asked: bool,
}

/// A disk.
#[derive(Clone)]
pub struct Image {
    pub record: Option<String>,
    pub items: Vec<Item>,
    pub history: History,
}

/// The number of the directory.
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

    /// What its clock shows.
    pub fn clock(&self, now: u64) -> u64 {
        self.ahead + now * self.rate / 1000
    }

    /// What its file is called now.
    pub fn disk_name(&self) -> (MemberId, u64) {
        (self.memory.id, self.disk_count)
    }

    pub fn position(&self) -> Position {
        Position { id: self.history.id, offset: self.items.len() as u64 }
    }

    /// What it holds under a key, and the length of the stream behind the last write of it.
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

    /// Whether it has what another one claims.
    pub fn has(&self, position: Option<Position>) -> bool {
        position.is_none_or(|Position { id, offset }| {
            self.history.has(id, offset as i64 + 1) && offset <= self.items.len() as u64
        })
    }

    pub fn introduction(&self) -> Introduction {
        let all = (!self.items.is_empty()).then(|| self.position());
        Introduction::of(&self.memory, all)
    }

    /// It leads from now on.
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

    /// It follows. Returns the calls whose outcome is open now.
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

    /// It has lost everything.
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

    /// Its knowledge is on its disk.
    pub fn persist(&mut self) {
        let record = MemberRecord { membership: self.knowledge(), saved: None, logged: None, directory: DIRECTORY };
        self.record = Some(record.to_text());
    }

    /// Its data is on its disk, too.
    pub fn save(&mut self) {
        self.snapshot = Some(Image { record: None, items: self.items.clone(), history: self.history });
    }

    /// It ends as SHUTDOWN does, and all is on its disk.
    pub fn shut_down(&mut self) {
        self.save();
        let saved = (!self.items.is_empty()).then(|| self.position());
        let record = MemberRecord { membership: self.knowledge(), saved, logged: None, directory: DIRECTORY };
        self.record = Some(record.to_text());
        if let Some(snapshot) = &self.snapshot {
            self.image = Some(Image { record: self.record.clone(), ..snapshot.clone() });
        }
    }

    /// A process comes up with what is on the disk. Returns whether it has all that it had.
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

    /// The words of its own that its stream is to have now.
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
