//! All open snapshots together: their number, and the memory of their old values.

use crate::propagation::change_log::ChangeLog;
use crate::scripts::function_libraries::Libraries;
use crate::snapshot::before_images::{Copies, ImageMemory};
use cluster::slot_set::SlotSet;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Purpose of a snapshot, which decides how it is ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A save; [`cancel`](crate::status::persistence_status::PersistenceStatus::cancel) ends it.
    Save,
    /// A new base of the log; [`cancel_rewrite`](crate::status::persistence_status::PersistenceStatus::cancel_rewrite)
    /// ends it.
    Rewrite,
    /// A replica. It ends when no thread takes the written bytes any more.
    Transfer,
    /// Slots that go to another node. It ends likewise.
    Slots,
}

/// Snapshots for replicas that may be open at once, and as many again of slots. Saves and rewrites have their own
/// rules, and are never refused because of these.
pub const TRANSFERS_MAX: usize = 16;

/// The open snapshots of an engine.
#[derive(Default)]
pub struct OpenSnapshots {
    last: AtomicU64,
    open: AtomicUsize,
    transfers: AtomicUsize,
    slots: AtomicUsize,
    /// Memory of the old values of all together.
    pub(crate) memory: Arc<ImageMemory>,
}

/// The right to a snapshot, which ends with it.
pub(crate) struct Seat<'s> {
    all: &'s OpenSnapshots,
    pub number: u64,
    pub purpose: Purpose,
}

impl OpenSnapshots {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the right to one more; None if there are too many.
    pub(crate) fn enter(&self, purpose: Purpose) -> Option<Seat<'_>> {
        if let Some(seats) = self.seats(purpose) {
            let more = |open| Some(open + 1).filter(|more| *more <= TRANSFERS_MAX);
            seats.fetch_update(Relaxed, Relaxed, more).ok()?;
        }
        self.open.fetch_add(1, Relaxed);
        Some(Seat { all: self, number: self.last.fetch_add(1, Relaxed) + 1, purpose })
    }

    /// Returns the number of snapshots for the purpose, where it has a limit.
    fn seats(&self, purpose: Purpose) -> Option<&AtomicUsize> {
        match purpose {
            Purpose::Save | Purpose::Rewrite => None,
            Purpose::Transfer => Some(&self.transfers),
            Purpose::Slots => Some(&self.slots),
        }
    }

    /// Whether one more may be opened for the purpose.
    pub fn has_room(&self, purpose: Purpose) -> bool {
        self.seats(purpose).is_none_or(|open| open.load(Relaxed) < TRANSFERS_MAX)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.all.open.fetch_sub(1, Relaxed);
        if let Some(seats) = self.all.seats(self.purpose) {
            seats.fetch_sub(1, Relaxed);
        }
    }
}

/// State at the moment at which a snapshot began.
#[derive(Clone, Debug)]
pub struct BegunSnapshot {
    /// Whether there are collections whose elements have expiries.
    pub timed: bool,
    /// Number of keys; about, where only some slots of a shard are read.
    pub keys: u64,
    /// Keys of each database that has any, and how many of them have expiries; about, likewise.
    pub databases: BTreeMap<u32, (u64, u64)>,
    /// The libraries of functions of that moment; None if it is not of all slots.
    pub libraries: Option<Arc<Libraries>>,
    /// Slots that were on their way here, by the name of their migration.
    pub hidden: Vec<([u8; 40], SlotSet)>,
    /// Memory of its before-images.
    pub copies: Arc<Copies>,
    /// Length of the change log: the snapshot has all changes of its slots before that, and none after it.
    pub offset: u64,
}

impl BegunSnapshot {
    pub(crate) fn new(log: &ChangeLog, libraries: Option<Arc<Libraries>>, copies: Arc<Copies>) -> Self {
        BegunSnapshot {
            timed: false,
            keys: 0,
            databases: BTreeMap::new(),
            libraries,
            hidden: Vec::new(),
            copies,
            offset: log.appended(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_save_is_not_refused_because_of_transfers() {
        let open = OpenSnapshots::default();
        let mut seats: Vec<_> = (0..TRANSFERS_MAX).map(|_| open.enter(Purpose::Transfer).expect("a seat")).collect();
        assert!(open.enter(Purpose::Transfer).is_none() && !open.has_room(Purpose::Transfer));
        assert!(open.has_room(Purpose::Slots) && open.enter(Purpose::Slots).is_some());
        let save = open.enter(Purpose::Save).expect("a save");
        assert!(open.enter(Purpose::Rewrite).is_some_and(|rewrite| rewrite.number > save.number));
        seats.pop();
        seats.push(open.enter(Purpose::Transfer).expect("one has gone"));
        assert_eq!(open.len(), TRANSFERS_MAX + 1);
        drop((seats, save));
        assert!(open.is_empty());
    }
}
