//! The list of clients: the record that CLIENT LIST and INFO show of every client, whichever thread serves it.
//!
//! The thread that serves a connection writes its record, any thread may read it. The list names that thread: a worker,
//! or the thread of replicas, of the link to the primary, of slots that move.
//!
//! ```text
//!   a connection moves      under the list's lock: the new thread is stored   -> message to it -> taken in -> ended?
//!   a connection is ended   under the list's lock: taken off, marked as ended -> message to the thread that is stored
//! ```
//!
//! Neither can miss the other: a message that comes before the connection was taken in is of a client that is marked
//! by then.

use crate::acl::user::User;
use crate::clients::waiters::Ticket;
use crate::clients::watch::WatchFlag;
use crate::locks::sync::Mutex;
use crate::time::UnixMs;
use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire,
    Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, OnceLock};

/// One connected client. Its worker writes here with every command, so no line of it is another client's too.
#[repr(align(64))]
pub struct ClientInfo {
    /// Counts up; no two clients of a server have the same.
    pub id: u64,
    /// Address of the peer, as `ip:port` or the path of the Unix socket followed by `:0`.
    pub addr: Box<str>,
    /// Address at this end, likewise.
    pub laddr: Box<str>,
    /// Whether it comes from this machine.
    local: bool,
    /// The number of its socket; -1 without one.
    pub fd: i32,
    /// The worker that serves it, or that it is on its way to. Changed under the list's lock.
    pub worker: AtomicUsize,
    /// Whether it was taken off the list.
    ended: AtomicBool,
    /// The command by which it gets or gives data without an end, as a replica or a source of slots.
    lasting_command: OnceLock<&'static str>,
    /// The token of its connection at its worker.
    pub token: AtomicUsize,
    /// Unix time in milliseconds, by the clock as it was set last.
    pub connected_at: AtomicI64,
    /// Unix time in milliseconds of the last bytes that were read.
    pub active_at: AtomicI64,
    /// The database that it has selected.
    pub db: AtomicU32,
    /// 2 or 3.
    pub resp: AtomicU8,
    /// CLIENT NO-TOUCH: its reads do not count as uses of the keys.
    pub no_touch: AtomicBool,
    /// CLIENT NO-EVICT: it is not disconnected when clients take too much memory.
    pub no_evict: AtomicBool,
    /// Whether it is a replica, which belongs to the thread of replicas and to no worker.
    pub is_replica: AtomicBool,
    /// Whether its connection has TLS.
    pub is_tls: AtomicBool,
    /// Whether it sent READONLY.
    pub read_only: AtomicBool,
    /// Whether it is the server that this one follows.
    pub is_primary: AtomicBool,
    /// Whether it is the other end of a migration of slots.
    pub migration: MigrationEnd,
    /// CLIENT CAPA REDIRECT: it follows a redirection to another server.
    pub redirects: AtomicBool,
    /// CLIENT CAPA MOVED: it turns to the right node by itself, and no node is to ask for it.
    pub wants_moved: AtomicBool,
    /// CLIENT IMPORT-SOURCE: it brings the data of another server.
    pub import_source: AtomicBool,
    /// Sizes of its connection's buffers.
    pub buffers: ClientBuffers,
    /// All memory that is held for it, in bytes.
    pub memory: AtomicUsize,
    /// Bytes of the names that it subscribes to.
    pub subscription_bytes: AtomicUsize,
    /// Bytes of the prefixes that it tracks.
    pub prefix_bytes: AtomicUsize,
    /// Bytes that the keys that it watches take up.
    pub watched_bytes: AtomicUsize,
    /// Names that it subscribes to: channels, patterns, shard channels.
    pub subscriptions: [AtomicU32; 3],
    /// Whether it gets a line of every command.
    pub monitor: AtomicBool,
    /// CLIENT TRACKING is on.
    pub tracks: AtomicBool,
    /// Whether it tracks in broadcast mode.
    pub broadcasts: AtomicBool,
    /// Whether the client that its invalidations went to is gone.
    pub redirection_broken: AtomicBool,
    /// Id of the client that gets its invalidations; 0: itself, -1: it does not track.
    pub redirection: AtomicI64,
    /// Commands that it has run.
    pub commands: AtomicU64,
    /// Id of the last command in the command table, plus one; 0 before the first.
    pub last_command: AtomicUsize,
    /// Bytes that were read from it.
    pub input_bytes: AtomicU64,
    /// Bytes that were written to it.
    pub output_bytes: AtomicU64,
    /// Whether it is between MULTI and EXEC.
    pub in_multi: AtomicBool,
    /// Commands that are queued for EXEC; -1 before its first MULTI or WATCH.
    pub queued: AtomicI32,
    /// Bytes that its queued commands take up.
    pub queued_bytes: AtomicUsize,
    /// Keys that it watches.
    pub watched: AtomicU32,
    /// Whether its command waits for the end of a CLIENT PAUSE.
    pub postponed: AtomicBool,
    details: Mutex<Details>,
    waits: Mutex<Waits>,
}

/// Whether a client is the other end of a migration of slots.
#[derive(Default)]
pub struct MigrationEnd {
    /// Whether slots come from it.
    pub is_source: AtomicBool,
    /// Whether slots go to it.
    pub is_target: AtomicBool,
    /// Whether a command of a source has failed here.
    pub has_failed: AtomicBool,
}

/// Declares the sizes once: as numbers that are shown to others, and as plain numbers.
macro_rules! buffer_sizes {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// Sizes of a connection's buffers in bytes, as its worker last showed them.
        #[derive(Default)]
        pub struct ClientBuffers {
            $($field: AtomicUsize,)*
        }

        /// Sizes of a connection's buffers in bytes, of one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct BufferSizes {
            $($(#[$doc])* pub $field: usize,)*
        }

        impl ClientBuffers {
            /// Publishes the sizes. Only the client's worker calls this.
            pub fn show(&self, sizes: BufferSizes) {
                $(self.$field.store(sizes.$field, Relaxed);)*
            }

            /// Returns the sizes as they are now.
            pub fn sizes(&self) -> BufferSizes {
                BufferSizes { $($field: self.$field.load(Relaxed),)* }
            }
        }
    };
}

buffer_sizes! {
    /// Input that is not a whole command yet.
    query,
    /// Room that is retained for more of it.
    query_free,
    /// Arguments of the command that is arriving or that waits.
    args,
    /// Room of the first reply buffer.
    reply_room,
    /// The most that was in use of it lately.
    reply_peak,
    /// Unsent bytes in the first reply buffer.
    reply_first,
    /// How many further reply buffers there are.
    reply_chunks,
    /// Bytes in these.
    reply_bytes,
}

/// Waits of a client: for keys, or for a change of watched keys.
#[derive(Default)]
struct Waits {
    ticket: Option<Arc<Ticket>>,
    watch: Option<Arc<WatchFlag>>,
}

/// Name, library and user of a client.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// The user that it logged in as, at that moment; None: the default one.
    pub user: Option<Arc<User>>,
    /// CLIENT SETNAME; empty without.
    pub name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME; empty without.
    pub lib_name: Vec<u8>,
    /// CLIENT SETINFO LIB-VER; empty without.
    pub lib_ver: Vec<u8>,
}

impl std::fmt::Debug for ClientInfo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClientInfo").field("id", &self.id).field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl ClientInfo {
    /// Makes a client that connects at `now`, Unix time in milliseconds.
    pub fn new(id: u64, addr: &str, laddr: &str, fd: i32, worker: usize, now: UnixMs) -> Self {
        ClientInfo {
            id,
            addr: addr.into(),
            laddr: laddr.into(),
            local: addr.is_empty() || addr.ends_with(":0") || addr.starts_with("127.") || addr.starts_with("[::1]"),
            fd,
            worker: AtomicUsize::new(worker),
            ended: AtomicBool::new(false),
            lasting_command: OnceLock::new(),
            token: AtomicUsize::new(0),
            connected_at: AtomicI64::new(now.0),
            active_at: AtomicI64::new(now.0),
            db: AtomicU32::new(0),
            resp: AtomicU8::new(2),
            no_touch: AtomicBool::new(false),
            no_evict: AtomicBool::new(false),
            is_replica: AtomicBool::new(false),
            is_tls: AtomicBool::new(false),
            read_only: AtomicBool::new(false),
            is_primary: AtomicBool::new(false),
            migration: MigrationEnd::default(),
            redirects: AtomicBool::new(false),
            wants_moved: AtomicBool::new(false),
            import_source: AtomicBool::new(false),
            buffers: ClientBuffers::default(),
            memory: AtomicUsize::new(0),
            subscription_bytes: AtomicUsize::new(0),
            prefix_bytes: AtomicUsize::new(0),
            watched_bytes: AtomicUsize::new(0),
            subscriptions: Default::default(),
            monitor: AtomicBool::new(false),
            tracks: AtomicBool::new(false),
            broadcasts: AtomicBool::new(false),
            redirection_broken: AtomicBool::new(false),
            redirection: AtomicI64::new(-1),
            commands: AtomicU64::new(0),
            last_command: AtomicUsize::new(0),
            input_bytes: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            in_multi: AtomicBool::new(false),
            queued: AtomicI32::new(-1),
            queued_bytes: AtomicUsize::new(0),
            watched: AtomicU32::new(0),
            postponed: AtomicBool::new(false),
            details: Mutex::new(Details::default()),
            waits: Mutex::new(Waits::default()),
        }
    }

    /// Sets whether the client is on this machine; behind a proxy, only a caller that has both addresses can tell.
    #[must_use]
    pub fn with_local(mut self, local: bool) -> Self {
        self.local = local;
        self
    }

    /// Whether it is connected over a Unix socket or the loopback address, or not at all.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// Whether it is connected over a Unix socket: no port of a peer is 0.
    pub fn is_unix(&self) -> bool {
        self.addr.ends_with(":0")
    }

    /// Whether it is off the list: the thread that serves it lets go of it. To be asked after the thread has taken the
    /// connection in.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Acquire)
    }

    /// Whether it is another server, which no worker serves.
    pub fn is_server(&self) -> bool {
        let MigrationEnd { is_source, is_target, .. } = &self.migration;
        [&self.is_replica, &self.is_primary, is_source, is_target].iter().any(|is_it| is_it.load(Relaxed))
    }

    /// Sets the command by which it gets or gives data from now on, without an end. It needs the right to it for as
    /// long.
    pub fn go_on_with(&self, full_name: &'static str) {
        // A connection never becomes another kind of server's.
        let _ = self.lasting_command.set(full_name);
    }

    /// Returns the command by which it gets or gives data without an end, if it is another server that has sent one.
    pub fn lasting_command(&self) -> Option<&'static str> {
        self.lasting_command.get().copied()
    }

    /// Returns the user that it logged in as; None: the default one.
    pub fn user(&self) -> Option<Arc<User>> {
        self.details.lock().user.clone()
    }

    /// Counts one more command. Only the worker that serves the client calls this.
    #[inline]
    pub fn count_command(&self) {
        self.commands.store(self.commands.load(Relaxed) + 1, Relaxed);
    }

    /// Counts bytes that were read. Only the client's worker calls this.
    #[inline]
    pub fn count_input(&self, bytes: usize) {
        self.input_bytes.store(self.input_bytes.load(Relaxed) + bytes as u64, Relaxed);
    }

    /// Counts bytes of replies. Only the client's worker calls this.
    #[inline]
    pub fn count_output(&self, bytes: usize) {
        self.output_bytes.store(self.output_bytes.load(Relaxed) + bytes as u64, Relaxed);
    }

    /// Returns a copy of its details.
    pub fn details(&self) -> Details {
        self.details.lock().clone()
    }

    /// Returns the ticket of the blocking command that it waits in.
    pub fn ticket(&self) -> Option<Arc<Ticket>> {
        self.waits.lock().ticket.clone()
    }

    pub(crate) fn set_ticket(&self, ticket: Option<&Arc<Ticket>>) {
        self.waits.lock().ticket = ticket.cloned();
    }

    /// Whether it is blocked, by a command or by a pause.
    pub fn is_blocked(&self) -> bool {
        self.postponed.load(Relaxed) || self.waits.lock().ticket.is_some()
    }

    /// Whether a key that it watches has changed, so that its next EXEC does nothing.
    pub fn is_watch_broken(&self) -> bool {
        self.waits.lock().watch.as_ref().is_some_and(|flag| flag.is_raised())
    }

    /// Sets the flag that says whether a key that it watches has changed.
    pub fn set_watch(&self, flag: Option<&Arc<WatchFlag>>) {
        self.waits.lock().watch = flag.cloned();
    }

    /// Reads or changes its details, under their lock.
    pub fn edit_details<R>(&self, edit: impl FnOnce(&mut Details) -> R) -> R {
        edit(&mut self.details.lock())
    }
}

/// All connected clients.
#[derive(Default)]
pub struct Clients {
    last_id: AtomicU64,
    by_id: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
    /// How reply buffers behave.
    pub reply_buffers: ReplyBuffers,
    /// Clients that were disconnected because they had too much to read, replicas and the like included.
    pub slow_readers: AtomicU64,
}

/// Settings of reply buffers that DEBUG can change.
#[derive(Debug)]
pub struct ReplyBuffers {
    /// Milliseconds after which a buffer's peak is measured anew; negative: never.
    pub peak_reset_time: AtomicI64,
    /// Whether they are made larger and smaller, as their clients' replies are.
    pub resizing: AtomicBool,
    /// Whether replies leave out the first buffer.
    pub skip_first: AtomicBool,
}

impl ReplyBuffers {
    /// The default of `DEBUG REPLYBUFFER PEAK-RESET-TIME`, in milliseconds.
    pub const PEAK_RESET_TIME: i64 = 5000;
}

impl Default for ReplyBuffers {
    fn default() -> Self {
        ReplyBuffers {
            peak_reset_time: AtomicI64::new(Self::PEAK_RESET_TIME),
            resizing: AtomicBool::new(true),
            skip_first: AtomicBool::new(false),
        }
    }
}

impl Clients {
    /// Returns the id of the next client; ids begin with 1 and are never used again.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Relaxed) + 1
    }

    /// Puts a client that has connected on the list.
    pub fn add(&self, client: &Arc<ClientInfo>) {
        self.by_id.lock().insert(client.id, Arc::clone(client));
    }

    /// Takes the client off the list. Returns the worker that serves it and is to end its connection; None if it was
    /// not there any more.
    pub fn end(&self, id: u64) -> Option<usize> {
        let mut by_id = self.by_id.lock();
        let client = by_id.remove(&id)?;
        client.ended.store(true, Release);
        Some(client.worker.load(Relaxed))
    }

    /// Hands the client to this worker. False if the client was ended before. The worker asks [`ClientInfo::has_ended`]
    /// when it has taken the connection in.
    pub fn assign(&self, client: &ClientInfo, worker: usize) -> bool {
        let by_id = self.by_id.lock();
        client.worker.store(worker, Relaxed);
        by_id.contains_key(&client.id)
    }

    /// Returns the client with this id, if it is connected.
    pub fn get(&self, id: u64) -> Option<Arc<ClientInfo>> {
        self.by_id.lock().get(&id).cloned()
    }

    /// Returns all clients, by rising id.
    pub fn all(&self) -> Vec<Arc<ClientInfo>> {
        self.by_id.lock().values().cloned().collect()
    }

    /// Returns how many clients are connected.
    pub fn len(&self) -> usize {
        self.by_id.lock().len()
    }

    /// Whether none is connected.
    pub fn is_empty(&self) -> bool {
        self.by_id.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_listed_by_id_until_they_leave() {
        let clients = Clients::default();
        for _ in 0..3 {
            clients.add(&Arc::new(ClientInfo::new(clients.next_id(), "a", "b", 0, 0, UnixMs(0))));
        }
        assert_eq!((clients.end(2), clients.end(2)), (Some(0), None));
        assert_eq!(clients.all().iter().map(|client| client.id).collect::<Vec<_>>(), [1, 3]);
        clients.get(3).unwrap().edit_details(|details| details.name = b"x".to_vec());
        assert_eq!(clients.get(3).unwrap().details().name, b"x");
        assert_eq!(clients.next_id(), 4);
    }

    /// A connection that goes from worker 0 to worker 1 while another thread ends it, step by step.
    #[derive(Default)]
    struct Move {
        clients: Clients,
        /// Messages of worker 1: the connection, or the order to end it.
        inbox: Vec<bool>,
        is_taken_in: bool,
        is_closed: bool,
    }

    impl Move {
        fn receive(&mut self, client: &ClientInfo) {
            if self.inbox.is_empty() {
                return;
            }
            let is_connection = self.inbox.remove(0);
            self.is_taken_in |= is_connection;
            self.is_closed |= self.is_taken_in && (!is_connection || client.has_ended());
        }
    }

    #[test]
    fn a_client_that_is_ended_while_it_moves_is_ended_in_every_order_of_the_steps() {
        // Two steps of the mover, two of the ender, two looks of the new worker: each order of the six.
        let orders = (0..3_u32.pow(6)).map(|n| (0..6).map(|at| n / 3_u32.pow(at) % 3).collect::<Vec<u32>>());
        let is_fair = |order: &Vec<u32>| (0..3).all(|actor| order.iter().filter(|it| **it == actor).count() == 2);
        let mut tried = 0;
        for order in orders.filter(is_fair) {
            let client = Arc::new(ClientInfo::new(1, "", "", 0, 0, UnixMs(0)));
            let mut state = Move::default();
            state.clients.add(&client);
            let (mut is_there, mut told, mut steps) = (false, None, [0; 3]);
            for actor in &order {
                let step = std::mem::replace(&mut steps[*actor as usize], 1);
                match (actor, step) {
                    (0, 0) => is_there = state.clients.assign(&client, 1),
                    (0, _) if is_there => state.inbox.push(true),
                    (0, _) => state.is_closed = true,
                    (1, 0) => told = state.clients.end(1),
                    (1, _) if told == Some(1) => state.inbox.push(false),
                    // Worker 0 has let go of it, or looks when it does.
                    (1, _) => {}
                    _ => state.receive(&client),
                }
            }
            (0..2).for_each(|_| state.receive(&client));
            assert!(state.is_closed, "{order:?}");
            tried += 1;
        }
        assert_eq!(tried, 90);
    }
}
