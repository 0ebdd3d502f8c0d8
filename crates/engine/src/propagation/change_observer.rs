//! Observers of changes: indexes, streams of changes, audit.
//!
//! An observer never runs under a shard's lock. The announcement of a change notes which key has changed, how, and the
//! shard's version then; the observer works on the notes once the command's locks are released, and before its reply.
//!
//! ```text
//!   under the lock                       without a lock
//!     announce -> note in the effects      publish -> observe(notes) -> lock, read the key and the version, unlock
//! ```
//!
//! **States, not commands.** Observers of two commands may work in another order than the commands ran in. So an
//! observer reads the key's present state with the shard's present version, and drops a state whose version is below
//! one that it has for the key: versions of a shard only grow, and each noted change has one of its own. Keys of slots
//! that are hidden from clients are observed, too; a reader of an index looks hits up again.

use std::any::Any;
use std::sync::{Arc, OnceLock};

/// Effect of a change on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key is new, or has another value or expiry.
    Written,
    /// The key is gone.
    Removed,
    /// Data beside the value was changed, such as a stream's groups: the key counts as unchanged for clients that watch
    /// it or hold a copy of it.
    Beside,
}

/// Originator of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A command, or a file that is loaded.
    Command,
    /// Time: the key or elements of it have expired.
    Expiry,
    /// The limit to memory.
    Eviction,
}

/// A change that observers work on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeNote {
    /// The shard's number.
    pub shard: usize,
    /// The database's number.
    pub db: u32,
    /// The shard's version right after the change.
    pub version: u64,
    /// Extent of the change.
    pub extent: Extent,
}

/// Extent of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One key.
    Key {
        /// Its name.
        name: Box<[u8]>,
        /// Effect of the change.
        change: Change,
        /// Originator of the change.
        by: By,
    },
    /// The database's part in the shard has no keys any more.
    Emptied,
    /// The database's part in the shard has the keys of another data set.
    Replaced,
    /// The database's part in the shard has changed places with that of the database of this number.
    Swapped(u32),
}

/// An observer of changes.
pub trait ChangeObserver: Any + Send + Sync {
    /// Whether changes of a key of this name matter. Runs under the shard's lock: it looks at the name and at nothing
    /// that another lock guards.
    fn wants(&self, _db: u32, _name: &[u8]) -> bool {
        true
    }

    /// Works on changes, those of one shard in their order. No lock is held. Changes that only other observers want may
    /// be among them.
    fn observe(&self, changes: &[ChangeNote]);
}

/// Observers of a keyspace, at most.
const MOST: usize = 4;

/// The observers of a keyspace, in the order of their coming.
#[derive(Default)]
pub(crate) struct Observers([OnceLock<Arc<dyn ChangeObserver>>; MOST]);

impl Observers {
    /// Adds an observer.
    pub(crate) fn add(&self, mut observer: Arc<dyn ChangeObserver>) {
        for place in &self.0 {
            match place.set(observer) {
                Ok(()) => return,
                Err(refused) => observer = refused,
            }
        }
        panic!("there are more than {MOST} observers");
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn ChangeObserver> {
        self.0.iter().map_while(|place| place.get().map(|observer| &**observer))
    }
}

/// Changes that no observer has seen yet. They may not be lost: observers see every change.
#[derive(Debug, Default)]
pub struct ChangeNotes(Vec<ChangeNote>);

impl ChangeNotes {
    pub(crate) fn add(&mut self, note: ChangeNote) {
        self.0.push(note);
    }

    /// Adds those of another command.
    pub(crate) fn append(&mut self, other: &mut ChangeNotes) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn take(&mut self) -> Vec<ChangeNote> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for ChangeNotes {
    fn drop(&mut self) {
        debug_assert!(self.0.is_empty() || std::thread::panicking(), "observers miss changes: {:?}", self.0);
    }
}
