//! Writes that the server itself holds back for a while.

use crate::engine::Engine;
use crate::locks::sync::Mutex;
use crate::status::pause::Hold;

/// No command that may write begins until this is dropped. One that was admitted before has ended when all locks
/// [have been passed](crate::keyspace::Keyspace::pass_locks).
#[must_use]
pub struct HeldWrites<'e> {
    engine: &'e Engine,
    hold: Hold,
}

impl HeldWrites<'_> {
    /// From now on.
    pub fn begin(engine: &Engine, hold: Hold) -> HeldWrites<'_> {
        engine.hold_writes(hold);
        engine.host().pause_changed();
        HeldWrites { engine, hold }
    }
}

impl Drop for HeldWrites<'_> {
    fn drop(&mut self) {
        self.engine.release_writes(self.hold);
        self.engine.host().pause_changed();
    }
}

/// Bytes of the change log that may wait for the thread that makes the stream of it.
pub(super) const UNFRAMED_MAX: u64 = 8 << 20;

impl Engine {
    /// Bytes of the change log that are to become part of the stream for replicas.
    #[inline]
    pub fn unframed(&self) -> u64 {
        self.replication().framed().map_or(0, |framed| self.change_log().appended().saturating_sub(framed))
    }

    /// Holds writes back while too much of the change log waits to become part of the stream, and lets them go on after
    /// that. To be called when some of it has become that.
    pub fn regulate_stream(&self) {
        self.stream_hold.regulate(self, || self.unframed());
    }

    /// The same when the log has grown.
    #[inline]
    pub fn hold_for_stream(&self) {
        if self.unframed() > self.stream_hold.most() {
            self.regulate_stream();
        }
    }
}

/// Writes that are held back while a reader of the change log is too far behind.
pub struct LagHold {
    hold: Hold,
    /// Bytes that may wait. Writes that were held back go on when there are at most half as many.
    most: u64,
    holds: Mutex<bool>,
}

impl LagHold {
    /// For a reader that may be so many bytes behind.
    pub fn new(hold: Hold, most: u64) -> LagHold {
        LagHold { hold, most, holds: Mutex::new(false) }
    }

    /// Bytes that the reader may be behind.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Holds writes back, or lets them go on. To be called when the log has grown and when it has been read; `behind`
    /// looks how many bytes wait.
    pub fn regulate(&self, engine: &Engine, behind: impl FnOnce() -> u64) {
        let mut holds = self.holds.lock();
        let wanted = behind() > if *holds { self.most / 2 } else { self.most };
        if wanted == *holds {
            return;
        }
        *holds = wanted;
        match wanted {
            true => engine.hold_writes(self.hold),
            false => engine.release_writes(self.hold),
        }
        engine.host().pause_changed();
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::status::deny_reasons::Paused;
    use crate::{NullHost, Options};
    use std::sync::Arc;

    #[test]
    fn writes_wait_for_a_stream_that_is_far_behind() {
        let options = Options { shards: 1, databases: 1, hash_seed: 1, workers: 1 };
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
