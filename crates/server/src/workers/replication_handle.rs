//! What other threads tell the thread that serves replicas.

use crate::connection::socket::SocketStream;
use crate::workers::stream_stops::{StreamStop, StreamStops};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use engine::Engine;
use engine::clients::registry::ClientInfo;
use engine::host::connections::StepDown;
use engine::host::files::Scratch;
use engine::keyspace::record::LogUser;
use engine::propagation::log_reader::{LogReader, Overflow};
use mio::Waker;
use replication::follower::SyncRequest;
use replication::ids::ReplicationId;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long the thread is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that becomes a replica's.
pub struct NewReplica {
    pub stream: SocketStream,
    pub info: Arc<ClientInfo>,
    pub request: SyncRequest,
    /// What it has sent after PSYNC.
    pub input: Vec<u8>,
}

/// What the threads tell that write a snapshot and send it.
pub enum SyncEvent {
    /// The snapshot has begun, when the change log was that long, or the primary's stream; it is not written before it
    /// is told the stream's name and offset.
    Begun { sync: u64, at: SnapshotAt, proceed: Sender<(ReplicationId, u64)> },
    /// It is all in a file, of so many bytes.
    InFile { sync: u64, file: Arc<std::sync::Mutex<Box<dyn Scratch>>>, len: u64 },
    /// There will be none, or no whole one.
    Failed { sync: u64, reason: String },
    /// A replica has it, or not; its connection is given back.
    Sent { token: usize, client: u64, stream: Option<SocketStream>, result: std::io::Result<u64> },
}

/// The moment of a snapshot.
#[derive(Debug)]
pub enum SnapshotAt {
    /// A length of the change log.
    Log(Arc<StreamStop>),
    /// The stream's length and the database that it has selected, of a server that follows another one.
    Stream(u64, u32),
}

/// What other threads tell it.
pub enum ReplicationMessage {
    /// A connection that said PSYNC.
    Replica(Box<NewReplica>),
    /// Something about a snapshot for replicas.
    Sync(SyncEvent),
    /// The server follows another one from this offset on, and its status has the history already. What is in the
    /// backlog is of no use, unless the stream `goes_on` there.
    Follow { offset: u64, goes_on: bool },
    /// Bytes of the primary's stream, which were applied: replicas get them as they are.
    Feed(Vec<u8>),
    /// The server follows nobody any more: its own change log is the stream from now on.
    /// The reader begins where the server's own changes do.
    Lead { reader: LogReader },
    /// The data set that was read when the server started is of a history, up to this offset. The reader begins with
    /// what was not read, as it had expired.
    Resume { reader: LogReader, offset: u64 },
    /// A snapshot's name and offset are wanted.
    Where { stop: Arc<StreamStop>, answer: Sender<Option<(ReplicationId, u64)>> },
    /// The client's connection is to end.
    Kill(u64),
    /// Replies wait for replicas from now on: changes are in the log from where the reader begins.
    Acknowledge { reader: LogReader },
    /// A client waits for replicas.
    AskReplicas,
    /// Nothing is to be done before (DEBUG SLEEP).
    Sleep { until: Instant },
    /// All that was written is to become part of the stream, and how long that is then is told.
    FrameChanges(Arc<OnceLock<u64>>),
    /// A command that replicas are to get.
    Tell(Vec<Vec<u8>>),
    /// The server is to follow another one.
    StepDown(Arc<StepDown>),
    /// A failover was asked for, or taken back.
    FailoverChanged,
}

/// The way to that thread.
pub struct ReplicationHandle {
    messages: Sender<ReplicationMessage>,
    inbox: Receiver<ReplicationMessage>,
    waker: OnceLock<Waker>,
    /// The thread sleeps, or is about to: who has something for it wakes it.
    sleeps: AtomicBool,
    /// Where snapshots have begun.
    pub stops: StreamStops,
}

impl Default for ReplicationHandle {
    fn default() -> Self {
        let (messages, inbox) = unbounded();
        ReplicationHandle {
            messages,
            inbox,
            waker: OnceLock::new(),
            sleeps: AtomicBool::new(false),
            stops: StreamStops::default(),
        }
    }
}

impl ReplicationHandle {
    /// Tells the thread something, and wakes it.
    pub fn post(&self, message: ReplicationMessage) {
        // The receiver lies beside the sender.
        let _ = self.messages.send(message);
        self.wake();
    }

    /// The server follows nobody any more, and its history has a new name already: its own changes are the stream from
    /// now on. To be called while nobody can write.
    pub fn lead(&self, engine: &Engine) {
        let reader = engine.change_log().open(Overflow::Keep);
        engine.set_logging(LogUser::Replicas, true);
        self.post(ReplicationMessage::Lead { reader });
    }

    /// Notes the stream's place of this moment, of a snapshot, if there is a stream. All locks are held.
    pub fn mark(&self, engine: &Engine) -> Option<Arc<StreamStop>> {
        engine.is_logged_for(LogUser::Replicas).then(|| self.stops.note(engine, false))
    }

    /// The history's name and its length there.
    pub fn position_of(&self, stop: &Arc<StreamStop>) -> Option<(ReplicationId, u64)> {
        let (answer, answered) = bounded(1);
        self.post(ReplicationMessage::Where { stop: Arc::clone(stop), answer });
        // The thread waits for nothing, but it may have ended with the server.
        answered.recv_timeout(PATIENCE).ok().flatten()
    }

    /// Wakes the thread if it sleeps: there may be something in the change log.
    #[inline]
    pub fn wake(&self) {
        if self.sleeps.load(SeqCst) && self.sleeps.swap(false, SeqCst) {
            self.waker.get().map(Waker::wake);
        }
    }

    /// Whether there is a message.
    pub fn has_messages(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// The next message, for the thread itself.
    pub fn take(&self) -> Option<ReplicationMessage> {
        self.inbox.try_recv().ok()
    }

    /// The thread's own waker; once.
    pub fn set_waker(&self, waker: Waker) {
        assert!(self.waker.set(waker).is_ok(), "the waker is set once");
    }

    /// The thread is about to sleep, and looks once more for work after this.
    pub fn begin_sleep(&self) {
        self.sleeps.store(true, SeqCst);
    }

    /// It is awake.
    pub fn end_sleep(&self) {
        self.sleeps.store(false, SeqCst);
    }
}
