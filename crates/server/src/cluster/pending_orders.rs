//! Visits to the node, by number, and the clients that wait until all effects of a visit have been carried out.
//!
//! ```text
//!   visit 7: an order, its reply waits      visit 8: an order
//!   carried out up to 8: the file is written, packets to others are on their way - replies of 7 and 8 go
//! ```
//!
//! Numbers are given under the node's lock, and the effects of visits are taken under it: so the effects are of all
//! visits up to a number.

use commands::transactions::cluster_handle::CarriedOut;
use engine::locks::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Default)]
struct Done {
    /// Last visit of which everything is done.
    up_to: u64,
    /// Last visit whose changes are not in the file, since it could not be written; and why.
    unsaved: Option<(u64, String)>,
    waiting: Vec<(u64, CarriedOut)>,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct PendingOrders {
    begun: AtomicU64,
    done: Mutex<Done>,
}

impl PendingOrders {
    /// Begins a visit and returns its number; the node's lock is held.
    pub fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Relaxed) + 1
    }

    /// Returns the last visit that has begun; the node's lock is held.
    pub fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// Leaves `then` to be called when a visit is done. If the visit is done already, returns `then` with the error of
    /// the file, if there was one.
    pub fn when_done(&self, visit: u64, then: CarriedOut) -> Option<(CarriedOut, Option<String>)> {
        let mut done = self.done.lock();
        if done.up_to < visit {
            done.waiting.push((visit, then));
            return None;
        }
        let unsaved = done.unsaved.as_ref().filter(|(up_to, _)| visit <= *up_to);
        Some((then, unsaved.map(|(_, reason)| reason.clone())))
    }

    /// Records that all visits up to this one are done. `saved`: whether the file was written meanwhile, if it was to
    /// be. Returns the calls that have waited for that.
    pub fn end(&self, up_to: u64, saved: Option<Result<(), String>>) -> Vec<CarriedOut> {
        let mut done = self.done.lock();
        done.up_to = done.up_to.max(up_to);
        match saved {
            Some(Ok(())) => done.unsaved = None,
            Some(Err(reason)) => done.unsaved = Some((up_to, reason)),
            None => {}
        }
        done.waiting.extract_if(.., |(visit, _)| *visit <= up_to).map(|(_, then)| then).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> CarriedOut {
        Box::new(|_, _| ())
    }

    #[test]
    fn each_waits_for_its_own_visit() {
        let visits = PendingOrders::default();
        assert_eq!([visits.begin(), visits.begin(), visits.begin()], [1, 2, 3]);
        assert!([1, 2, 3].into_iter().all(|visit| visits.when_done(visit, nothing()).is_none()));
        assert_eq!(visits.end(0, None).len(), 0);
        assert_eq!(visits.end(2, Some(Ok(()))).len(), 2);
        assert!(visits.when_done(2, nothing()).is_some_and(|(_, unsaved)| unsaved.is_none()));
        assert_eq!((visits.end(visits.begun(), None).len(), visits.end(3, None).len()), (1, 0));
    }

    #[test]
    fn a_late_visit_gets_the_error_of_a_file_that_could_not_be_written() {
        let visits = PendingOrders::default();
        let unsaved = |visit| visits.when_done(visit, nothing()).and_then(|(_, unsaved)| unsaved);
        visits.end(2, Some(Err("full".to_owned())));
        visits.end(3, None);
        assert_eq!((unsaved(1), unsaved(2), unsaved(3)), (Some("full".to_owned()), Some("full".to_owned()), None));
        visits.end(4, Some(Ok(())));
        assert_eq!(unsaved(2), None);
    }
}
