//! The state of replication: the primary of the server, the name and the length of its data set's history, and its
//! replicas. For INFO, ROLE, WAIT and admission; the threads that replicate write it.

use crate::clients::waiters::Ticket;
use crate::error::{Error, Word};
use crate::locks::sync::Mutex;
use crate::status::acknowledgement::Acknowledgement;
use crate::status::saved_data_set::SavedDataSet;
use crate::time::SteadyMs;
use replication::failover_state::Failover;
use replication::replica_handshake::Handshake;
use replication::replid::{History, ReplicationId};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// The server that this one follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryAddress {
    /// Name or address.
    pub host: Vec<u8>,
    /// Its port.
    pub port: u16,
}

impl PrimaryAddress {
    /// Returns the error for clients that follow redirections.
    pub fn redirect(&self) -> Error {
        Error::Redirect(Word::of(&self.host), Word::of(self.port.to_string()))
    }
}

/// State of the link to the primary, as ROLE names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// There is no primary.
    #[default]
    None,
    /// It has to be connected.
    Connect,
    /// The connection is under way.
    Connecting,
    /// Both sides introduce themselves.
    Handshake,
    /// The snapshot arrives.
    Sync,
    /// Changes arrive.
    Connected,
}

impl LinkState {
    /// As ROLE shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            LinkState::None => "none",
            LinkState::Connect => "connect",
            LinkState::Connecting => "connecting",
            LinkState::Handshake => "handshake",
            LinkState::Sync => "sync",
            LinkState::Connected => "connected",
        }
    }
}

/// Length of the snapshot that comes from the primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncTotal {
    /// The primary has not begun to send it.
    #[default]
    Awaited,
    /// The primary does not know it.
    Unknown,
    /// So many bytes.
    Known(u64),
}

/// The link to the primary, in numbers.
#[derive(Clone, Debug, Default)]
pub struct LinkStatus {
    /// Its state.
    pub state: LinkState,
    /// Unix time in milliseconds of the last bytes from the primary.
    pub last_io: SteadyMs,
    /// Unix time in milliseconds since which it is down.
    pub down_since: SteadyMs,
    /// Number of times that the link came up: the data set was the primary's then.
    pub synchronizations: u64,
    /// Whether the data set is the history's, up to its offset, so that the stream can be resumed.
    pub can_resume: bool,
    /// The database that the stream has selected.
    pub stream_db: u32,
    /// Bytes of the primary's stream that have arrived, applied or not.
    pub read_offset: u64,
    /// Bytes of the snapshot that is coming: all, and the ones that have arrived.
    pub sync_total: SyncTotal,
    /// See above.
    pub sync_read: u64,
    /// Bytes of the stream that wait for the end of the snapshot, and the most that there were.
    pub buffered: u64,
    /// See above.
    pub buffered_peak: u64,
}

/// Seconds for which a snapshot's connection stays listed, and the stream behind it retained, for a replica that has
/// got the snapshot and does not ask for the stream.
const GRACE: i64 = 5;

/// Snapshots for replicas that are being written.
#[derive(Debug, Default)]
pub struct ReplicaSnapshots {
    running: AtomicU64,
    /// The moment since which there have been some, if there are.
    since: AtomicI64,
}

impl ReplicaSnapshots {
    /// Records that one begins.
    pub fn begin(&self, now: SteadyMs) {
        if self.running.fetch_add(1, Relaxed) == 0 {
            self.since.store(now.0.max(1), Relaxed);
        }
    }

    /// Records that one ends.
    pub fn end(&self) {
        self.running.fetch_sub(1, Relaxed);
    }

    /// Returns the moment since which there have been some; None without any.
    pub fn since(&self) -> Option<SteadyMs> {
        (self.running.load(Relaxed) > 0).then(|| SteadyMs(self.since.load(Relaxed)))
    }
}

/// State of a replica, as INFO names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReplicaState {
    /// The replica waits for a snapshot.
    WaitBgsave,
    /// The replica gets a snapshot.
    SendBulk,
    /// The replica gets changes, and a snapshot before them over another connection.
    BgTransfer,
    /// The replica got a snapshot for another connection.
    RdbTransmitted,
    /// The replica gets changes.
    Online,
}

impl ReplicaState {
    /// As INFO shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            ReplicaState::WaitBgsave => "wait_bgsave",
            ReplicaState::SendBulk => "send_bulk",
            ReplicaState::BgTransfer => "bg_transfer",
            ReplicaState::RdbTransmitted => "rdb_transmitted",
            ReplicaState::Online => "online",
        }
    }
}

/// A replica of this server, as INFO and ROLE show it.
#[derive(Debug)]
pub struct ReplicaInfo {
    /// Its client's number.
    pub client: u64,
    /// Its address.
    pub ip: String,
    /// The port that it announced; 0 without.
    pub port: u16,
    /// Whether its snapshot is for another connection.
    pub is_rdb_channel: bool,
    /// Whether that one has not asked yet for the stream behind it, which is retained for it.
    pub awaits_psync: AtomicBool,
    /// Whether it has asked for a snapshot alone.
    pub wants_only_rdb: bool,
    /// Its version, as a number for each part, if it announced one.
    pub version: Option<[u32; 3]>,
    /// The name of its node, in a cluster.
    pub node: Option<String>,
    state: AtomicU8,
    /// The stream's offset that it has acknowledged, and synced in its log.
    pub acked: AtomicU64,
    /// See above.
    pub synced: AtomicU64,
    /// The acknowledged and the synced offset as lengths of the change log.
    pub acked_log: AtomicU64,
    /// See above.
    pub synced_log: AtomicU64,
    /// Time of its last message, by the clock that never goes back, in milliseconds.
    pub acked_at: AtomicI64,
    /// Bytes of the stream that it has still to be sent.
    pub pending: AtomicU64,
}

impl ReplicaInfo {
    /// Makes a replica that waits for a snapshot.
    pub fn new(client: u64, ip: String, said: &Handshake, now: SteadyMs) -> Self {
        ReplicaInfo {
            client,
            ip,
            port: said.port,
            is_rdb_channel: said.rdb_channel,
            awaits_psync: AtomicBool::new(false),
            wants_only_rdb: said.rdb_only,
            version: said.version,
            node: said.node.clone(),
            state: AtomicU8::new(ReplicaState::WaitBgsave as u8),
            acked: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            acked_log: AtomicU64::new(0),
            synced_log: AtomicU64::new(0),
            acked_at: AtomicI64::new(now.0),
            pending: AtomicU64::new(0),
        }
    }

    /// Returns its state.
    pub fn state(&self) -> ReplicaState {
        match self.state.load(Relaxed) {
            0 => ReplicaState::WaitBgsave,
            1 => ReplicaState::SendBulk,
            2 => ReplicaState::BgTransfer,
            3 => ReplicaState::RdbTransmitted,
            _ => ReplicaState::Online,
        }
    }

    /// As INFO names the connection.
    pub fn kind(&self) -> &'static str {
        match self.state() {
            _ if self.is_rdb_channel => "rdb-channel",
            ReplicaState::BgTransfer => "main-channel",
            _ => "replica",
        }
    }

    /// Sets its state.
    pub fn set_state(&self, state: ReplicaState) {
        self.state.store(state as u8, Relaxed);
    }

    /// Whether it gets changes.
    pub fn is_online(&self) -> bool {
        self.state() == ReplicaState::Online
    }

    /// Whether it carries out CLUSTER SETSLOT: versions up to 7.2 refuse it.
    pub fn takes_slot_orders(&self) -> bool {
        self.version.is_some_and(|version| version > [7, 2, 255])
    }

    /// Returns the seconds since its last message.
    pub fn lag(&self, now: SteadyMs) -> i64 {
        now.since(SteadyMs(self.acked_at.load(Relaxed))) / 1000
    }
}

/// A client that waits until so many replicas have its writes.
pub struct ReplicaWait {
    /// The change log's length after its last write.
    pub offset: u64,
    /// How many replicas.
    pub replicas: usize,
    /// Whether they must have synced it (WAITAOF), and the own log too if this is true.
    pub durable: Option<bool>,
    /// Replicas that have it by now.
    pub acked: Arc<AtomicI64>,
    /// Action when they have it.
    pub end: AckedEnd,
    /// Ticket of the waiting client.
    pub ticket: Arc<Ticket>,
}

/// Result that a client gets when enough replicas have its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckedEnd {
    /// The number of replicas.
    Reply,
    /// Its command runs again.
    RunAgain,
}

/// Numbers of the backlog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BacklogStatus {
    /// Whether there is a backlog.
    pub is_active: bool,
    /// The number of its first byte; the stream's first byte is 1.
    pub first: u64,
    /// Bytes in it.
    pub len: u64,
    /// All bytes that are retained of the stream, for the backlog and for replicas that are behind.
    pub memory: u64,
}

/// Counts of synchronizations, by kind, and bytes that were moved to other servers and from them.
#[derive(Debug, Default)]
pub struct SyncCounts {
    /// With a snapshot.
    pub full: AtomicU64,
    /// From the backlog.
    pub partial_ok: AtomicU64,
    /// With a snapshot although the replica asked for less.
    pub partial_err: AtomicU64,
    /// Bytes that were sent to replicas.
    pub output_bytes: AtomicU64,
    /// Bytes that came from the primary.
    pub input_bytes: AtomicU64,
    /// Bytes that came from nodes that move slots to this one.
    pub slot_import_bytes: AtomicU64,
    /// Bytes that were sent to nodes that slots move to.
    pub slot_export_bytes: AtomicU64,
}

impl SyncCounts {
    /// Resets the counts.
    pub fn reset(&self) {
        let syncs = [&self.full, &self.partial_ok, &self.partial_err];
        let bytes = [&self.output_bytes, &self.input_bytes, &self.slot_import_bytes, &self.slot_export_bytes];
        syncs.iter().chain(&bytes).for_each(|count| count.store(0, Relaxed));
    }
}

/// See the module's documentation.
pub struct ReplicationStatus {
    history: Mutex<History>,
    /// Bytes of the stream so far.
    offset: AtomicU64,
    /// The change log's length up to which the stream has it, where it is the stream's source.
    framed: AtomicU64,
    /// Whether a thread makes it of the change log now.
    is_framing: AtomicBool,
    primary: Mutex<Option<PrimaryAddress>>,
    is_replica: AtomicBool,
    /// How often the primary was changed.
    generation: AtomicU64,
    link: Mutex<LinkStatus>,
    replicas: Mutex<Vec<Arc<ReplicaInfo>>>,
    backlog: Mutex<BacklogStatus>,
    /// Bytes that the stream takes up beyond the wanted size of the backlog, for replicas that are behind.
    for_replicas: AtomicU64,
    waits: Mutex<Vec<ReplicaWait>>,
    /// The failover to a replica. A thread that changes the primary because of it holds this lock, and takes
    /// [`applying`](Self::applying) after it.
    pub failover: Mutex<Failover>,
    /// Held while a part of the primary's stream is applied and counted, and while a snapshot begins: so the snapshot
    /// is of the offset.
    pub applying: Mutex<()>,
    /// Data sets of primaries that came, and those in files.
    pub data_sets: SavedDataSet,
    /// How often replicas were synchronized.
    pub counts: SyncCounts,
    /// Snapshots for replicas that are being written.
    pub snapshots: ReplicaSnapshots,
    /// Unix time in milliseconds of the last warning that the primary's commands are applied though the disk fails.
    pub disk_told_at: AtomicI64,
    /// Whether the process stops itself beside a snapshot for replicas that has begun, and before it asks for the
    /// stream behind one that arrives over another connection (DEBUG PAUSE-AFTER-FORK).
    pub stops_after_fork: AtomicBool,
    /// Seconds for which the stream behind a snapshot is retained for the connection that is to ask for it.
    pub grace: AtomicI64,
    /// State of acknowledged writes.
    pub acknowledgement: Acknowledgement,
}

impl Default for ReplicationStatus {
    fn default() -> Self {
        ReplicationStatus {
            history: Mutex::new(History::new(new_id())),
            offset: AtomicU64::new(0),
            framed: AtomicU64::new(0),
            is_framing: AtomicBool::new(false),
            primary: Mutex::new(None),
            is_replica: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            link: Mutex::default(),
            replicas: Mutex::default(),
            backlog: Mutex::default(),
            for_replicas: AtomicU64::new(0),
            waits: Mutex::default(),
            failover: Mutex::default(),
            applying: Mutex::default(),
            data_sets: SavedDataSet::default(),
            counts: SyncCounts::default(),
            snapshots: ReplicaSnapshots::default(),
            disk_told_at: AtomicI64::new(0),
            stops_after_fork: AtomicBool::new(false),
            grace: AtomicI64::new(GRACE),
            acknowledgement: Acknowledgement::new(new_id()),
        }
    }
}

/// Returns a new name for a history.
pub fn new_id() -> ReplicationId {
    ReplicationId::of(fastrand::u128(..), fastrand::u32(..))
}

impl ReplicationStatus {
    /// Returns the names of the data set's history.
    pub fn history(&self) -> History {
        *self.history.lock()
    }

    /// Changes the names of the history.
    pub fn update_history(&self, change: impl FnOnce(&mut History)) {
        change(&mut self.history.lock());
    }

    /// Returns the bytes of the stream so far: made by this primary, or applied by this replica.
    pub fn offset(&self) -> u64 {
        self.offset.load(Relaxed)
    }

    /// Returns the offset of the data set: 0 while a replica has no data of its primary's yet.
    pub fn data_offset(&self) -> u64 {
        let has_data = !self.is_replica() || {
            let link = self.link();
            link.state == LinkState::Connected || link.can_resume
        };
        if has_data { self.offset() } else { 0 }
    }

    /// Whether a replica has data of a history that other servers know. A replica that was started without any, and was
    /// never synchronized, has not.
    pub fn has_history(&self) -> bool {
        let link = self.link();
        let was_synchronized = link.down_since.0 != 0 || self.offset() > 0;
        self.is_replica() && (link.state == LinkState::Connected || link.can_resume && was_synchronized)
    }

    /// Sets the length of the stream.
    pub fn set_offset(&self, offset: u64) {
        self.offset.store(offset, Relaxed);
    }

    /// Sets the length of a stream that is made of the change log, and the length `framed` of the log that it contains.
    pub fn set_framed(&self, offset: u64, framed: u64) {
        self.offset.store(offset, Relaxed);
        self.framed.store(framed, Release);
        self.is_framing.store(true, Release);
    }

    /// Records that the stream is not made of the change log, or that there is none.
    pub fn end_framing(&self) {
        self.is_framing.store(false, Release);
    }

    /// Returns the length up to which the stream has the change log, while it is made of it.
    pub fn framed(&self) -> Option<u64> {
        self.is_framing.load(Acquire).then(|| self.framed.load(Acquire))
    }

    /// Whether the stream's offset includes the first `log` bytes of the change log.
    pub fn counts(&self, log: u64) -> bool {
        self.framed.load(Acquire) >= log
    }

    /// Whether the server follows another one.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Relaxed)
    }

    /// Returns the server that this one follows.
    pub fn primary(&self) -> Option<PrimaryAddress> {
        self.primary.lock().clone()
    }

    /// Sets the server that this one follows, or none. The admission of commands is left to the caller.
    pub fn set_primary(&self, primary: Option<PrimaryAddress>) {
        let mut held = self.primary.lock();
        self.is_replica.store(primary.is_some(), Relaxed);
        *held = primary;
        self.generation.fetch_add(1, Release);
    }

    /// Returns how often [`set_primary`](Self::set_primary) was called: whether a link is still the wanted one. The
    /// number stays the same for as long as the caller holds [`applying`](Self::applying).
    pub fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// Returns the state of the link to the primary.
    pub fn link(&self) -> LinkStatus {
        self.link.lock().clone()
    }

    /// Changes the state of the link.
    pub fn update_link(&self, change: impl FnOnce(&mut LinkStatus)) {
        change(&mut self.link.lock());
    }

    /// Returns the replicas of this server, in the order in which they came.
    pub fn replicas(&self) -> Vec<Arc<ReplicaInfo>> {
        self.replicas.lock().clone()
    }

    /// Adds a replica.
    pub fn add_replica(&self, replica: &Arc<ReplicaInfo>) {
        self.replicas.lock().push(Arc::clone(replica));
    }

    /// Removes a replica.
    pub fn remove_replica(&self, client: u64) {
        self.replicas.lock().retain(|replica| replica.client != client);
    }

    /// Whether this client gets a snapshot for another connection that has not asked for the stream behind it yet.
    pub fn awaits_psync(&self, client: u64) -> bool {
        let replicas = self.replicas.lock();
        replicas.iter().any(|replica| replica.client == client && replica.awaits_psync.load(Relaxed))
    }

    /// Returns how many such clients there are.
    pub fn waiting_psync(&self) -> usize {
        self.replicas.lock().iter().filter(|replica| replica.awaits_psync.load(Relaxed)).count()
    }

    /// Returns the number of replicas that get changes and whose last message is at most so many seconds old; any age
    /// if there is no limit.
    pub fn min_replicas(&self, max_lag: i64, now: SteadyMs) -> usize {
        let is_good = |replica: &&Arc<ReplicaInfo>| replica.is_online() && replica.lag(now) <= max_lag;
        self.replicas.lock().iter().filter(is_good).count()
    }

    /// Returns the number of replicas that have the change log up to an offset; `durable`: on their disks.
    pub fn count_acked(&self, offset: u64, durable: bool) -> usize {
        let acked = |replica: &ReplicaInfo| match durable {
            true => replica.synced_log.load(Relaxed),
            false => replica.acked_log.load(Relaxed),
        };
        self.replicas.lock().iter().filter(|replica| replica.is_online() && acked(replica) >= offset).count()
    }

    /// Returns the numbers of the backlog.
    pub fn backlog(&self) -> BacklogStatus {
        *self.backlog.lock()
    }

    /// Sets the numbers of the backlog. `size`: how many bytes are wanted.
    pub fn set_backlog(&self, backlog: BacklogStatus, size: u64) {
        let for_replicas = if self.replicas.lock().is_empty() { 0 } else { backlog.memory.saturating_sub(size) };
        self.for_replicas.store(for_replicas, Relaxed);
        *self.backlog.lock() = backlog;
    }

    /// Returns the bytes that the stream takes up beyond the wanted size of the backlog, for replicas that are behind.
    pub fn kept_for_replicas(&self) -> u64 {
        self.for_replicas.load(Relaxed)
    }

    /// Adds a client that waits for replicas. Waits of disconnected clients are removed.
    pub fn add_wait(&self, wait: ReplicaWait) {
        let mut waits = self.waits.lock();
        waits.retain(|wait| wait.ticket.is_waiting());
        waits.push(wait);
    }

    /// Whether any client waits for replicas.
    pub fn has_waits(&self) -> bool {
        !self.waits.lock().is_empty()
    }

    /// Takes out the waits that have ended.
    pub fn take_waits(&self, has_ended: impl FnMut(&mut ReplicaWait) -> bool) -> Vec<ReplicaWait> {
        self.waits.lock().extract_if(.., has_ended).collect()
    }
}
