//! Moments of the change log whose offset in the stream is wanted, as snapshots begin there.
//!
//! The thread that begins a snapshot records the log's length under all locks. The thread that frames the log stops
//! there before it continues, and records the stream's offset.

use engine::Engine;
use engine::keyspace::record::LogUser;
use engine::locks::sync::Mutex;
use engine::propagation::log_reader::{LogReader, Overflow};
use replication::replid::ReplicationId;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};

/// Such a moment. The stream after it is retained for as long as this is held.
#[derive(Debug)]
pub struct StreamStop {
    log: u64,
    /// History that the stream is of then.
    pub history: ReplicationId,
    offset: OnceLock<u64>,
}

impl StreamStop {
    /// Returns the stream's offset then, once that is known.
    pub fn offset(&self) -> Option<u64> {
        self.offset.get().copied()
    }
}

/// All stops.
#[derive(Default)]
pub struct StreamStops {
    state: Mutex<Stops>,
}

#[derive(Default)]
struct Stops {
    /// Stops ahead, by the log's length.
    ahead: VecDeque<Arc<StreamStop>>,
    passed: Vec<Weak<StreamStop>>,
    /// Reader that was opened in such a moment, as there was none yet.
    reader: Option<LogReader>,
}

impl StreamStops {
    /// Records a snapshot's moment: all locks are held. `opens_reader`: the stream begins with it.
    pub fn note(&self, engine: &Engine, opens_reader: bool) -> Arc<StreamStop> {
        let mut state = self.state.lock();
        let log = engine.change_log();
        if opens_reader && state.reader.is_none() {
            state.reader = Some(log.open(Overflow::Keep));
            engine.set_logging(LogUser::Replicas, true);
        }
        let history = engine.replication().history().id;
        let stop = Arc::new(StreamStop { log: log.appended(), history, offset: OnceLock::new() });
        state.ahead.push_back(Arc::clone(&stop));
        stop
    }

    /// Records the moment if there is a stream already.
    pub fn mark(&self, engine: &Engine) -> Option<Arc<StreamStop>> {
        engine.is_logged_for(LogUser::Replicas).then(|| self.note(engine, false))
    }

    /// Takes the reader that was opened.
    pub fn take_reader(&self) -> Option<LogReader> {
        self.state.lock().reader.take()
    }

    /// Returns the first stop that is at or after `from`, if it is at or before `until`. Earlier ones are dropped.
    pub fn next(&self, from: u64, until: u64) -> Option<u64> {
        let mut state = self.state.lock();
        while state.ahead.pop_front_if(|stop| stop.log < from).is_some() {}
        state.ahead.front().map(|stop| stop.log).filter(|stop| *stop <= until)
    }

    /// Records that the first stop has been reached, at this offset of the stream.
    pub fn pass(&self, offset: u64) {
        let mut state = self.state.lock();
        let Some(stop) = state.ahead.pop_front() else { return };
        // No other call sets it.
        let _ = stop.offset.set(offset);
        state.passed.push(Arc::downgrade(&stop));
    }

    /// Returns the first offset from which a holder of a stop still needs the stream.
    pub fn first_needed(&self) -> Option<u64> {
        let mut state = self.state.lock();
        state.passed.retain(|stop| stop.strong_count() > 0);
        state.passed.iter().filter_map(|stop| stop.upgrade()?.offset()).min()
    }
}
