//! Holders of a write: the disk of its node, or replicas. A reply waits for them, and so does a target that is about to
//! take slots.
//!
//! ```text
//!   write -> log -> disk: slow, or failing ------> reply, or PAUSED passed on to the target's node
//!               \-> replicas, which may be late -/
//! ```

use crate::cluster_world::{Flaw, World};
use crate::data::{DataEvent, Imports, Keys};
use crate::writers::{Answer, Request};
use std::collections::{BTreeMap, VecDeque};

/// Condition of a reply, and what a death leaves of a node's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Safety {
    /// No condition. A node that returns has all data that it had applied.
    #[default]
    Applied,
    /// The write is on its node's disk. A node that returns has the data of its disk.
    OnDisk,
    /// So many replicas have the write: all replicas of its shard. So many nodes may have lost their data at a time.
    AtReplicas(usize),
}

/// End of a node's data at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    version: u64,
    history: u64,
    len: usize,
}

/// Parts of a node's data that others, or the disk, have.
#[derive(Default)]
pub struct Kept {
    /// Number of changes of the data since the first start.
    pub version: u64,
    /// Data on the disk, and its version.
    pub disk: (Keys, Imports),
    disk_version: u64,
    is_syncing: bool,
    /// Length of the log that each replica has.
    acknowledged: BTreeMap<usize, usize>,
    /// Replies that wait.
    replies: VecDeque<(Mark, Request)>,
}

impl Kept {
    /// Forgets all waiting replies and acknowledgements: another log begins.
    pub fn begin_log(&mut self) {
        self.acknowledged.clear();
        self.replies.clear();
    }

    /// Records that the disk has all data.
    pub fn all_on_disk(&mut self, keys: &Keys, open: &Imports) {
        (self.disk, self.disk_version) = ((keys.clone(), open.clone()), self.version);
    }

    /// Drops what ends with the process.
    pub fn die(&mut self) {
        self.begin_log();
        self.is_syncing = false;
    }
}

impl World {
    pub fn happens_to_holders(&mut self, event: DataEvent) {
        let lives = |world: &World, node: usize, life: u64| world.life(node) == life && world.is_up(node);
        match event {
            DataEvent::Pull { node, life } if lives(self, node, life) => self.replicate(node),
            DataEvent::Acknowledged { node, life, replica, history, len } if lives(self, node, life) => {
                self.acknowledged(node, replica, history, len);
            }
            DataEvent::LogSynced { node, life, version, disk } if lives(self, node, life) => {
                self.log_synced(node, version, *disk);
            }
            DataEvent::EndWaits { node, life } if lives(self, node, life) => self.end_waits(node),
            _ => {}
        }
    }

    /// Returns the end of a node's data.
    pub fn mark(&self, node: usize) -> Mark {
        let store = &self.data.stores[node];
        Mark { version: store.kept.version, history: store.history, len: store.log.len() }
    }

    /// Returns whether data up to this mark is as safe as a reply requires.
    pub fn is_kept(&self, node: usize, mark: Mark) -> bool {
        let store = &self.data.stores[node];
        match self.data.safety {
            Safety::Applied => true,
            Safety::OnDisk => store.kept.disk_version >= mark.version,
            Safety::AtReplicas(needed) => {
                let have = store.kept.acknowledged.values().filter(|len| **len >= mark.len).count();
                store.history == mark.history && have >= needed
            }
        }
    }

    /// Returns whether a target waits before it takes slots.
    pub fn takes_over_late(&self, node: usize, mark: Mark) -> bool {
        self.flaw() != Flaw::TakesBeforeItIsKept && !self.is_kept(node, mark)
    }

    /// Returns the answer to a write that was applied; None if it waits.
    pub fn reply_when_kept(&mut self, request: Request) -> Option<Answer> {
        let mark = self.mark(request.node);
        if self.flaw() == Flaw::RepliesBeforeItIsKept || self.is_kept(request.node, mark) {
            return Some(Answer::Done);
        }
        self.data.stores[request.node].kept.replies.push_back((mark, request));
        None
    }

    fn release_replies(&mut self, node: usize) {
        while let Some((mark, request)) = self.data.stores[node].kept.replies.front().copied()
            && self.is_kept(node, mark)
        {
            self.data.stores[node].kept.replies.pop_front();
            if self.data.safety == Safety::OnDisk && self.is_unsafe(node, request.key.0) {
                self.give_up(&request);
            }
            let delay = self.random.i64(1..8);
            self.later(delay, DataEvent::Told { request, answer: Answer::Done });
        }
    }

    /// Passes a change of a node's data to its disk, or to its replicas.
    pub fn applied(&mut self, node: usize) {
        match self.data.safety {
            Safety::Applied => {}
            Safety::OnDisk => self.sync_log(node),
            Safety::AtReplicas(_) => {
                let follows = |replica: &usize| self.members[*replica].following == Some(node);
                for replica in (0..self.members.len()).filter(follows).collect::<Vec<_>>() {
                    let (life, delay) = (self.life(replica), self.random.i64(1..10));
                    self.later(delay, DataEvent::Pull { node: replica, life });
                }
            }
        }
    }

    /// Begins to write the log to the disk.
    pub fn sync_log(&mut self, node: usize) {
        let threads = &self.members[node].threads;
        let (fails, most) = (threads.does_log_fail, threads.disk_delay.max(10));
        let store = &mut self.data.stores[node];
        if self.data.safety != Safety::OnDisk || fails || store.kept.is_syncing || self.members[node].bus.is_none() {
            return;
        }
        store.kept.is_syncing = true;
        let (version, disk) = (store.kept.version, Box::new((store.keys.clone(), store.open.clone())));
        let (life, delay) = (self.life(node), self.random.i64(1..most));
        self.later(delay, DataEvent::LogSynced { node, life, version, disk });
    }

    pub fn log_synced(&mut self, node: usize, version: u64, disk: (Keys, Imports)) {
        let kept = &mut self.data.stores[node].kept;
        kept.is_syncing = false;
        if version > kept.disk_version {
            (kept.disk, kept.disk_version) = (disk, version);
        }
        if kept.version > version {
            self.sync_log(node);
        }
        self.release_replies(node);
    }

    /// Sends a primary the length of its log that a replica has.
    pub fn acknowledge(&mut self, replica: usize, node: usize) {
        if let (Safety::AtReplicas(_), Some((history, len))) = (self.data.safety, self.data.stores[replica].followed) {
            let (life, delay) = (self.life(node), self.random.i64(1..8));
            self.later(delay, DataEvent::Acknowledged { node, life, replica, history, len });
        }
    }

    pub fn acknowledged(&mut self, node: usize, replica: usize, history: u64, len: usize) {
        let reaches = self.are_connected(node, replica) && self.members[node].following.is_none();
        let store = &mut self.data.stores[node];
        if reaches && store.history == history {
            let had = store.kept.acknowledged.entry(replica).or_default();
            *had = len.max(*had);
            self.release_replies(node);
        }
    }

    /// Decides on the data of a node that has died.
    pub fn lose_data(&mut self, node: usize) {
        let Safety::AtReplicas(most) = self.data.safety else { return };
        if self.data.lost.len() < most && !self.data.lost.contains(&node) && self.random.bool() {
            self.note(format!("{node} loses its data"));
            self.data.lost.insert(node);
        }
    }
}
