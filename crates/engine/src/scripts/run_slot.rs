//! The run of a script on one thread, as other threads see and end it.
//!
//! One word says when the run began, of which kind it is and how it can end: a run that has changed something cannot
//! be killed, and a run that was killed can change nothing any more. Whichever comes first forbids the other. The time
//! of its beginning tells a run from the next one of its thread.

use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The run of one thread, if there is one.
#[derive(Debug, Default)]
pub struct RunSlot(CachePadded<AtomicU64>);

const KILLED: u64 = 1;
const WROTE: u64 = 2;
const FUNCTION: u64 = 4;
/// Bits below the time.
const KIND_BITS: u32 = 3;

/// A run of a script or a function.
#[derive(Clone, Debug)]
pub struct Run {
    slot: Arc<RunSlot>,
    /// The slot's word when the run began.
    begun: u64,
}

impl PartialEq for Run {
    fn eq(&self, other: &Run) -> bool {
        Arc::ptr_eq(&self.slot, &other.slot) && self.begun == other.begun
    }
}

impl RunSlot {
    /// Begins a run of a script or of a function.
    #[inline]
    pub fn begin(self: &Arc<Self>, now: Nanos, is_function: bool) -> Run {
        let begun = now.0 << KIND_BITS | if is_function { FUNCTION } else { 0 };
        self.0.store(begun, Relaxed);
        Run { slot: Arc::clone(self), begun }
    }

    /// Returns the present run.
    pub fn run(self: Arc<Self>) -> Option<Run> {
        let word = self.0.load(Relaxed);
        (word != 0).then_some(Run { begun: word & !(KILLED | WROTE), slot: self })
    }
}

impl Run {
    /// Whether it is a function of a library.
    pub fn is_function(&self) -> bool {
        self.begun & FUNCTION != 0
    }

    /// Returns the host's clock when it began.
    pub fn began(&self) -> Nanos {
        Nanos(self.begun >> KIND_BITS)
    }

    /// Marks before the run's first change that it cannot be killed any more. False: it has been killed.
    #[must_use]
    pub fn note_write(&self) -> bool {
        self.slot.0.compare_exchange(self.begun, self.begun | WROTE, Relaxed, Relaxed).is_ok() || !self.is_killed()
    }

    /// Asks it to end, if it has changed nothing; it sees that when it next looks at the clock. False: it has changed
    /// something.
    #[must_use]
    pub fn kill(&self) -> bool {
        self.slot.0.compare_exchange(self.begun, self.begun | KILLED, Relaxed, Relaxed) != Err(self.begun | WROTE)
    }

    /// Asks it to end, whatever it has changed.
    pub fn end_anyway(&self) {
        let killed = |word: u64| (word & !(KILLED | WROTE) == self.begun).then_some(word | KILLED);
        _ = self.slot.0.fetch_update(Relaxed, Relaxed, killed);
    }

    /// Whether it was asked to end.
    #[inline]
    pub fn is_killed(&self) -> bool {
        self.slot.0.load(Relaxed) & KILLED != 0
    }

    /// Ends the run. Returns whether it was asked to end.
    #[inline]
    pub fn end(self) -> bool {
        self.slot.0.swap(0, Relaxed) & KILLED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_either_killed_or_changes_something() {
        let slot = Arc::new(RunSlot::default());
        let run = slot.begin(Nanos(7), false);
        assert!(run.note_write() && run.note_write() && !run.kill() && !run.is_killed());
        run.end_anyway();
        assert!(run.is_killed());
        let run = slot.begin(Nanos(8), true);
        assert!(run.kill() && run.kill() && run.is_killed() && !run.note_write());
        assert!(run.is_function() && run.began() == Nanos(8));
        assert!(run.end() && slot.run().is_none());
    }

    #[test]
    fn a_kill_that_comes_late_does_not_meet_the_next_run() {
        let slot = Arc::new(RunSlot::default());
        drop(slot.begin(Nanos(7), false));
        let late = Arc::clone(&slot).run().expect("a run");
        let next = slot.begin(Nanos(8), false);
        assert!(late.kill() && !next.is_killed());
        late.end_anyway();
        assert!(!next.is_killed() && next.note_write());
    }
}
