//! What other threads tell the thread that serves replicas.

use crate::connection::socket::SocketStream;
use crate::workers::slumber::Slumber;
use crate::workers::stream_stops::StreamStop;
use crate::workers::thread_inbox::ThreadInbox;
use crossbeam_channel::{Sender, bounded};
use engine::Engine;
use engine::clients::registry::ClientInfo;
use engine::host::connections::StepDown;
use engine::host::files::Scratch;
use engine::keyspace::record::LogUser;
use engine::propagation::log_reader::{LogReader, Overflow};
use replication::follower::SyncRequest;
use replication::ids::ReplicationId;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

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
    /// The history and its length, and the database that the stream has selected, of a server that follows another one.
    Stream(ReplicationId, u64, u32),
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
    /// Nothing is to be done for a while.
    Sleep(Slumber),
    /// All that was written is to become part of the stream, and how long that is then is told.
    FrameChanges(Arc<OnceLock<u64>>),
    /// A command that replicas are to get.
    Tell(Vec<Vec<u8>>),
    /// The server is to follow another one.
    StepDown(Arc<StepDown>),
    /// A failover was asked for, or taken back.
    FailoverChanged,
    /// The server ends, and no worker is left that might wait for what it has ordered.
    End,
}

/// Bytes of the change log that become part of the stream at once, though it gathers.
pub const MUCH: u64 = 128 << 10;

impl ThreadInbox<ReplicationMessage> {
    /// To be called by a worker when its commands have run: what they have put into the change log is sent to replicas.
    #[inline]
    pub fn note_growth(&self, engine: &Engine) {
        if !engine.is_logged_for(LogUser::Replicas) {
            return;
        }
        match engine.replication().framed().map(|_| engine.unframed()) {
            Some(0) => {}
            None | Some(..MUCH) => self.wake(),
            Some(MUCH..) => {
                engine.hold_for_stream();
                self.rouse();
            }
        }
    }

    /// The server follows nobody any more, and its history has a new name already: its own changes are the stream from
    /// now on. To be called while nobody can write.
    pub fn lead(&self, engine: &Engine) {
        let reader = engine.change_log().open(Overflow::Keep);
        engine.set_logging(LogUser::Replicas, true);
        self.post(ReplicationMessage::Lead { reader });
    }

    /// The history's name and its length there.
    pub fn position_of(&self, stop: &Arc<StreamStop>) -> Option<(ReplicationId, u64)> {
        let (answer, answered) = bounded(1);
        self.post(ReplicationMessage::Where { stop: Arc::clone(stop), answer });
        // The thread waits for nothing, but it may have ended with the server.
        answered.recv_timeout(PATIENCE).ok().flatten()
    }
}
