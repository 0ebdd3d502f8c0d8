//! Moments of the change log whose offset in the stream is wanted, as snapshots begin there.
//!
//! Who begins a snapshot notes the log's length under all locks. The thread that frames the log stops there before it
//! goes on, and notes the stream's offset.

use engine::Engine;
use engine::keyspace::record::LogUser;
use engine::locks::sync::Mutex;
use engine::propagation::log_reader::{LogReader, Overflow};
use replication::ids::ReplicationId;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};

/// Such a moment. What the stream has after it is kept for as long as this is held.
#[derive(Debug)]
pub struct StreamStop {
    log: u64,
    /// The history that the stream is of then.
    pub history: ReplicationId,
    /// A replica begins here: the stream selects the database anew.
    selects: bool,
    /// The stream's offset and its database.
    place: OnceLock<(u64, u32)>,
}

impl StreamStop {
    /// The stream's offset then, once that is known.
    pub fn offset(&self) -> Option<u64> {
        self.place.get().map(|(offset, _)| *offset)
    }

    /// The database that is selected then.
    pub fn db(&self) -> u32 {
        self.place.get().map_or(0, |(_, db)| *db)
    }
}

/// All of them.
#[derive(Default)]
pub struct StreamStops {
    state: Mutex<Stops>,
}

#[derive(Default)]
struct Stops {
    /// To come, by the log's length.
    ahead: VecDeque<Arc<StreamStop>>,
    passed: Vec<Weak<StreamStop>>,
    /// One that was opened in such a moment, as there was none yet.
    reader: Option<LogReader>,
}

impl StreamStops {
    /// A replica's snapshot is of this moment: all locks are held. `opens_reader`: the stream begins with it.
    pub fn note(&self, engine: &Engine, opens_reader: bool) -> Arc<StreamStop> {
        self.add(engine, opens_reader, true)
    }

    fn add(&self, engine: &Engine, opens_reader: bool, selects: bool) -> Arc<StreamStop> {
        let mut state = self.state.lock();
        let log = engine.change_log();
        if opens_reader && state.reader.is_none() {
            state.reader = Some(log.open(Overflow::Keep));
            engine.set_logging(LogUser::Replicas, true);
        }
        let history = engine.replication().history().id;
        let stop = Arc::new(StreamStop { log: log.appended(), history, selects, place: OnceLock::new() });
        state.ahead.push_back(Arc::clone(&stop));
        stop
    }

    /// A file is of this moment, in which there is a stream already.
    pub fn mark(&self, engine: &Engine) -> Option<Arc<StreamStop>> {
        engine.is_logged_for(LogUser::Replicas).then(|| self.add(engine, false, false))
    }

    /// The reader that was opened.
    pub fn take_reader(&self) -> Option<LogReader> {
        self.state.lock().reader.take()
    }

    /// The first stop that is at or after `from`, if it is at or before `until`. Those before are forgotten.
    pub fn next(&self, from: u64, until: u64) -> Option<u64> {
        let mut state = self.state.lock();
        while state.ahead.pop_front_if(|stop| stop.log < from).is_some() {}
        state.ahead.front().map(|stop| stop.log).filter(|stop| *stop <= until)
    }

    /// The first one has been reached, at this offset of the stream and in this database. Returns whether the stream
    /// selects the database anew.
    pub fn pass(&self, offset: u64, db: u32) -> bool {
        let mut state = self.state.lock();
        let Some(stop) = state.ahead.pop_front() else { return false };
        // Nobody else sets it.
        let _ = stop.place.set((offset, if stop.selects { 0 } else { db }));
        state.passed.push(Arc::downgrade(&stop));
        stop.selects
    }

    /// The first offset that is still needed by a holder of a stop the stream from.
    pub fn first_needed(&self) -> Option<u64> {
        let mut state = self.state.lock();
        state.passed.retain(|stop| stop.strong_count() > 0);
        state.passed.iter().filter_map(|stop| stop.upgrade()?.offset()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{NullHost, Options};

    #[test]
    fn the_stream_goes_on_in_its_database_behind_a_file_and_selects_one_behind_a_replicas_snapshot() {
        let engine = Engine::new(&Options::default(), Arc::new(NullHost));
        let stops = StreamStops::default();
        assert!(stops.mark(&engine).is_none(), "there is no stream yet");
        let snapshot = stops.note(&engine, true);
        let file = stops.mark(&engine).expect("there is a stream");
        assert!(stops.pass(10, 9));
        assert!(!stops.pass(10, 9));
        assert_eq!((snapshot.offset(), snapshot.db()), (Some(10), 0));
        assert_eq!((file.offset(), file.db()), (Some(10), 9));
        assert!(!stops.pass(11, 9), "no more are ahead");
    }
}
