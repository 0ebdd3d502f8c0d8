//! A replica's word to its primary, each second: its offsets, or that it is there.
//!
//! ```text
//!   link's thread    reads - applies ........................ reads      the stream, which may stand still for long
//!   its clock          .       .      ACK      .     ACK      .          each second in which nothing else was sent
//! ```
//!
//! A paused replica, one that waits for a script's locks and one that loads stay replicas of their primary.

use crate::replication::applied;
use crate::replication::durable_marks::DurableMarks;
use crate::replication::link_thread::{LinkThread, Wanted};
use crate::system::log;
use engine::host::peers::Peer;
use engine::locks::sync::{Mutex, unlock_fairly};
use replication::ack_schedule::{PERIOD, ack_command};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Least time between two checks for due words.
const LOOK: Duration = Duration::from_millis(20);

/// The word that a link's clock sends.
#[derive(Clone)]
pub enum Word {
    /// Nothing: the primary has yet to answer.
    None,
    /// An empty line: the replica is there.
    Alive,
    /// The replica's offsets, in memory and in its log.
    Progress(Arc<Mutex<DurableMarks>>),
}

/// A connection to a primary that two threads write to.
pub struct LinkVoice {
    connection: Mutex<Connection>,
    word: Mutex<Word>,
    began: Instant,
    /// Time of the last word, in milliseconds since the beginning.
    spoken: AtomicU64,
    /// Bytes that were said.
    said: AtomicU64,
}

struct Connection {
    peer: Box<dyn Peer>,
    /// Whether half of a word may have been sent: nothing is sent any more.
    is_mute: bool,
}

impl LinkVoice {
    /// Takes over a new connection.
    pub fn new(peer: Box<dyn Peer>) -> LinkVoice {
        let connection = Mutex::new(Connection { peer, is_mute: false });
        LinkVoice {
            connection,
            word: Mutex::new(Word::None),
            began: Instant::now(),
            spoken: AtomicU64::new(0),
            said: AtomicU64::new(0),
        }
    }

    /// Returns the milliseconds since the connection was made.
    pub fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Returns how many bytes were said.
    pub fn said(&self) -> u64 {
        self.said.load(Relaxed)
    }

    /// Changes the clock's word from now on.
    pub fn set_word(&self, word: Word) {
        *self.word.lock() = word;
    }

    /// Lets the link's thread read. The clock, if it waits, is next.
    ///
    /// # Errors
    /// Errors of `work`.
    pub fn with_peer<R>(&self, work: impl FnOnce(&mut dyn Peer) -> io::Result<R>) -> io::Result<R> {
        let mut connection = self.connection.lock();
        let result = work(&mut *connection.peer);
        unlock_fairly(connection);
        result
    }

    /// Sends these bytes, unless the connection has failed. A primary that died has left bytes in the connection that
    /// only this replica may have: so the link ends where reading ends, and no failure to send ends it.
    pub fn say(&self, bytes: &[u8]) {
        let mut connection = self.connection.lock();
        if !connection.is_mute {
            let sent = connection.peer.write_all(bytes).and_then(|()| connection.peer.flush());
            connection.is_mute = sent.is_err();
            self.said.fetch_add(bytes.len() as u64, Relaxed);
        }
        self.spoken.store(self.now(), Relaxed);
    }

    /// Returns for how long the clock need not send anything.
    fn rest(&self) -> Duration {
        Duration::from_millis((self.spoken.load(Relaxed) + PERIOD).saturating_sub(self.now()))
    }
}

impl LinkThread {
    /// Runs the link's work while its clock runs, which no work of the link delays.
    pub(super) fn with_clock<R>(&self, voice: &LinkVoice, wanted: Wanted<'_>, work: impl FnOnce() -> R) -> R {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let run = || self.run_clock(voice, wanted, &is_over);
            let clock = thread::Builder::new().name("replica-clock".to_owned()).spawn_scoped(scope, run);
            if let Err(error) = &clock {
                log::warning(format_args!("Can't start a thread for the link to the primary: {error}"));
            }
            let result = work();
            is_over.store(true, Relaxed);
            if let Ok(clock) = clock {
                clock.thread().unpark();
            }
            result
        })
    }

    fn run_clock(&self, voice: &LinkVoice, wanted: Wanted<'_>, is_over: &AtomicBool) {
        while !is_over.load(Relaxed) {
            thread::park_timeout(voice.rest().max(LOOK));
            // A link that ends waits for its clock, and does not wait for a server that sleeps.
            if voice.rest().is_zero() && !is_over.load(Relaxed) && !self.shared.is_asleep() {
                let word = voice.word.lock().clone();
                if let Some(bytes) = self.bytes_of(&word, wanted) {
                    voice.say(&bytes);
                }
            }
        }
    }

    fn bytes_of(&self, word: &Word, wanted: Wanted<'_>) -> Option<Vec<u8>> {
        match word {
            Word::None => None,
            Word::Alive => Some(b"\n".to_vec()),
            Word::Progress(marks) => {
                let durable = self.durable(marks);
                let offset = self.status().offset();
                // An offset of another history comes after the change of the primary.
                wanted.is_wanted().then(|| ack_command(offset, durable.map(|durable| durable.min(offset))))
            }
        }
    }

    /// Returns the offset up to which the own log has the stream on the disk, if there is a log.
    pub(super) fn durable(&self, marks: &Mutex<DurableMarks>) -> Option<u64> {
        let aof = applied::log_file_of(&self.shared)?;
        Some(marks.lock().advance(aof.journal.synced()))
    }
}
