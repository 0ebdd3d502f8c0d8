//! Writes that the server itself holds back for a while.

use crate::engine::Engine;
use crate::status::lag_hold::LagHold;
use crate::status::pause::Hold;

/// No command that may write begins until this is dropped. One that was admitted before has ended when all locks
/// [have been passed](crate::keyspace::Keyspace::pass_locks).
#[must_use]
pub struct HeldWrites<'e> {
    engine: &'e Engine,
    hold: Hold,
}

impl HeldWrites<'_> {
    /// Holds writes from now on.
    pub fn begin(engine: &Engine, hold: Hold) -> HeldWrites<'_> {
        engine.hold_writes(hold);
        engine.host().pause_changed();
        HeldWrites { engine, hold }
    }

    /// Holds writes, and waits for those that were admitted before. None: `gives_up` returned true while a lock was not
    /// free.
    pub fn begin_settled(engine: &Engine, hold: Hold, gives_up: impl Fn() -> bool) -> Option<HeldWrites<'_>> {
        let held = HeldWrites::begin(engine, hold);
        let mut next = 0;
        while !engine.pass_locks(&mut next, &gives_up) {
            if gives_up() {
                return None;
            }
        }
        Some(held)
    }
}

impl Drop for HeldWrites<'_> {
    fn drop(&mut self) {
        self.engine.release_writes(self.hold);
        self.engine.host().pause_changed();
    }
}

impl Engine {
    /// Returns the bytes of the change log that are to become part of the stream for replicas.
    #[inline]
    pub fn unframed(&self) -> u64 {
        self.replication().framed().map_or(0, |framed| self.change_log().appended().saturating_sub(framed))
    }

    /// Holds writes back while too much of the change log waits to become part of the stream, and releases them after
    /// that. To be called when some of it has become part of the stream.
    pub fn regulate_stream(&self) {
        self.regulate_writes(self.stream_hold(), || self.unframed());
    }

    /// Holds writes back while a reader of the change log is too far behind, and releases them after that.
    pub fn regulate_writes(&self, lag: &LagHold, behind: impl FnOnce() -> u64) {
        if lag.regulate(self.pause(), self.persistence_status(), behind) {
            self.host().pause_changed();
        }
    }

    /// Holds writes back if the change log has grown too far ahead of the stream.
    #[inline]
    pub fn hold_for_stream(&self) {
        if self.unframed() > self.stream_hold().most() {
            self.regulate_stream();
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::status::deny_reasons::Paused;
    use crate::status::lag_hold::UNFRAMED_MAX;
    use crate::{NullHost, Options};
    use std::sync::Arc;

    #[test]
    fn writes_wait_for_a_stream_that_is_far_behind() {
        let options = Options { shards: 1, databases: 1, hash_seed: 1, workers: 1, counts_slots: true };
        let engine = Engine::new(&options, Arc::new(NullHost));
        let log = Arc::clone(engine.change_log());
        let _reader = log.open(crate::propagation::log_reader::Overflow::Keep);
        let append = |bytes: u64| {
            let head = crate::propagation::change_log::RecordHead::command(0, None);
            log.append(head, &vec![b'x'; bytes as usize]);
            engine.hold_for_stream();
            engine.persistence_status().deny_reasons().paused() == Paused::Writes
        };
        assert!(!append(UNFRAMED_MAX + 1) && engine.unframed() == 0, "there is no stream");
        let framed = |offset: u64| {
            engine.replication().set_framed(offset, offset);
            engine.regulate_stream();
            engine.persistence_status().deny_reasons().paused() == Paused::Writes
        };
        assert!(!framed(log.appended()) && !append(UNFRAMED_MAX) && append(1));
        assert_eq!((engine.unframed(), engine.pause().held()), (UNFRAMED_MAX + 1, Some(Hold::Stream)));
        assert!(framed(log.appended() - UNFRAMED_MAX / 2 - 1), "half of it is still to come");
        assert!(!framed(log.appended() - UNFRAMED_MAX / 2));
        assert!(append(UNFRAMED_MAX));
        engine.replication().end_framing();
        engine.regulate_stream();
        assert_eq!(engine.pause().held(), None);
    }
}
