//! Messages of other threads to the thread that serves replicas.

use crate::connection::socket::SocketStream;
use crate::workers::slumber::Slumber;
use crate::workers::snapshot_offsets::StreamStop;
use crate::workers::thread_inbox::ThreadInbox;
use crossbeam_channel::{Sender, bounded};
use engine::Engine;
use engine::clients::registry::ClientInfo;
use engine::host::connections::StepDown;
use engine::host::files::Scratch;
use engine::keyspace::record::LogUser;
use engine::propagation::log_reader::{LogReader, Overflow};
use replication::replica_handshake::SyncRequest;
use replication::replid::ReplicationId;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Time for which a caller waits for the thread.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that becomes a replica's.
pub struct NewReplica {
    pub stream: SocketStream,
    pub info: Arc<ClientInfo>,
    pub request: SyncRequest,
    /// Input that came after PSYNC.
    pub input: Vec<u8>,
}

/// An event of the threads that write a snapshot and send it.
pub enum SyncEvent {
    /// The snapshot has begun, at that length of the change log or of the primary's stream; it is not written before
    /// `proceed` gets the stream's name and offset.
    Begun { sync: u64, at: SnapshotAt, proceed: Sender<(ReplicationId, u64)> },
    /// All of the snapshot is in a file, of so many bytes.
    InFile { sync: u64, file: Arc<std::sync::Mutex<Box<dyn Scratch>>>, len: u64 },
    /// There will be no snapshot, or no complete one.
    Failed { sync: u64, reason: String },
    /// A replica has the snapshot, or not; its connection is given back.
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

/// A message to the thread.
pub enum ReplicationMessage {
    /// A connection that sent PSYNC.
    Replica(Box<NewReplica>),
    /// An event of a snapshot for replicas.
    Sync(SyncEvent),
    /// The server follows another one from this offset on, and its status has the history already. The backlog is of no
    /// use, unless the stream `goes_on` there.
    Follow { offset: u64, goes_on: bool },
    /// Bytes of the primary's stream, which were applied: replicas get them as they are.
    Feed(Vec<u8>),
    /// The server follows no other one any more: its own change log is the stream from now on. The reader begins where
    /// the server's own changes do.
    Lead { reader: LogReader },
    /// The data set that was read when the server started is of a history, up to this offset. The reader begins with
    /// changes that were not read: keys that had expired.
    Resume { reader: LogReader, offset: u64 },
    /// A snapshot's name and offset are wanted.
    Where { stop: Arc<StreamStop>, answer: Sender<Option<(ReplicationId, u64)>> },
    /// The client's connection is to end.
    Kill(u64),
    /// Replies wait for replicas from now on: changes are in the log from where the reader begins.
    Acknowledge { reader: LogReader },
    /// A client waits for replicas.
    AskReplicas,
    /// The thread is to sleep for a while.
    Sleep(Slumber),
    /// All changes so far are to become part of the stream, and the stream's length is then returned.
    FrameChanges(Arc<OnceLock<u64>>),
    /// A command that replicas are to get.
    Tell(Vec<Vec<u8>>),
    /// The server is to follow another one.
    StepDown(Arc<StepDown>),
    /// A failover was asked for, or taken back.
    FailoverChanged,
    /// The server ends, and no worker is left that might wait for the result of its orders.
    End,
}

/// Bytes of the change log that become part of the stream at once, though the thread gathers changes.
pub const MUCH: u64 = 128 << 10;

impl ThreadInbox<ReplicationMessage> {
    /// To be called by a worker when its commands have run: has their changes in the log sent to replicas.
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

    /// Makes the server's own changes the stream from now on: it follows no other server any more, and its history has
    /// a new name already. To be called while no client can write.
    pub fn lead(&self, engine: &Engine) {
        let reader = engine.change_log().open(Overflow::Keep);
        engine.set_logging(LogUser::Replicas, true);
        self.post(ReplicationMessage::Lead { reader });
    }

    /// Returns the history's name and its length at the stop.
    pub fn position_of(&self, stop: &Arc<StreamStop>) -> Option<(ReplicationId, u64)> {
        let (answer, answered) = bounded(1);
        self.post(ReplicationMessage::Where { stop: Arc::clone(stop), answer });
        // The thread does not wait for anything, but it may have ended with the server.
        answered.recv_timeout(PATIENCE).ok().flatten()
    }
}
