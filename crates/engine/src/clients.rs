//! Who is connected: what CLIENT LIST and INFO tell of every client, whichever worker serves it.
//!
//! The worker that owns a connection writes its record, anybody may read it.

use crate::blocked::Ticket;
use crate::sync::Mutex;
use crate::watch::WatchFlag;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// One connected client.
pub struct ClientInfo {
    pub id: u64,
    /// Address of the peer, as `ip:port` or the path of the Unix socket followed by `:0`.
    pub addr: Box<str>,
    /// Address at this end, likewise.
    pub laddr: Box<str>,
    pub fd: i32,
    pub worker: usize,
    /// Unix time in milliseconds.
    pub connected_at: i64,
    /// Unix time in milliseconds of the last bytes that were read.
    pub active_at: AtomicI64,
    pub db: AtomicU32,
    /// 2 or 3.
    pub resp: AtomicU8,
    /// CLIENT NO-TOUCH, CLIENT NO-EVICT.
    pub no_touch: AtomicBool,
    pub no_evict: AtomicBool,
    /// CLIENT CAPA REDIRECT: it follows a redirection to another server.
    pub redirects: AtomicBool,
    /// Bytes of unfinished requests and of replies not yet sent.
    pub query_bytes: AtomicUsize,
    pub reply_bytes: AtomicUsize,
    /// Names that it subscribes to: channels, patterns, shard channels.
    pub subscriptions: [AtomicU32; 3],
    /// It gets a line of every command.
    pub monitor: AtomicBool,
    pub commands: AtomicU64,
    /// Id of the last command in the command table, plus one; 0 before the first.
    pub last_command: AtomicUsize,
    pub input_bytes: AtomicU64,
    pub output_bytes: AtomicU64,
    /// Commands that are queued for EXEC, and their bytes; -1 outside of a transaction.
    pub queued: AtomicI32,
    pub queued_bytes: AtomicUsize,
    /// Keys that it watches.
    pub watched: AtomicU32,
    /// Its command waits for the end of a CLIENT PAUSE.
    pub postponed: AtomicBool,
    details: Mutex<Details>,
    waits: Mutex<Waits>,
}

/// What a client waits for.
#[derive(Default)]
struct Waits {
    ticket: Option<Arc<Ticket>>,
    watch: Option<Arc<WatchFlag>>,
}

/// What a client says of itself.
#[derive(Clone, Debug, Default)]
pub struct Details {
    pub name: Vec<u8>,
    pub lib_name: Vec<u8>,
    pub lib_ver: Vec<u8>,
}

impl std::fmt::Debug for ClientInfo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClientInfo").field("id", &self.id).field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl ClientInfo {
    pub fn new(id: u64, addr: &str, laddr: &str, fd: i32, worker: usize, now: i64) -> Self {
        ClientInfo {
            id,
            addr: addr.into(),
            laddr: laddr.into(),
            fd,
            worker,
            connected_at: now,
            active_at: AtomicI64::new(now),
            db: AtomicU32::new(0),
            resp: AtomicU8::new(2),
            no_touch: AtomicBool::new(false),
            no_evict: AtomicBool::new(false),
            redirects: AtomicBool::new(false),
            query_bytes: AtomicUsize::new(0),
            reply_bytes: AtomicUsize::new(0),
            subscriptions: Default::default(),
            monitor: AtomicBool::new(false),
            commands: AtomicU64::new(0),
            last_command: AtomicUsize::new(0),
            input_bytes: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            queued: AtomicI32::new(-1),
            queued_bytes: AtomicUsize::new(0),
            watched: AtomicU32::new(0),
            postponed: AtomicBool::new(false),
            details: Mutex::new(Details::default()),
            waits: Mutex::new(Waits::default()),
        }
    }

    /// Connected over a Unix socket or the loopback address, or not at all.
    pub fn is_local(&self) -> bool {
        self.addr.is_empty() || self.is_unix() || self.addr.starts_with("127.") || self.addr.starts_with("[::1]")
    }

    /// No port of a peer is 0.
    pub fn is_unix(&self) -> bool {
        self.addr.ends_with(":0")
    }

    /// One more command has ended. Only the worker that serves the client counts.
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

    /// A copy of what the client said.
    pub fn details(&self) -> Details {
        self.details.lock().clone()
    }

    /// The ticket of the blocking command that it waits in.
    pub fn ticket(&self) -> Option<Arc<Ticket>> {
        self.waits.lock().ticket.clone()
    }

    pub(crate) fn set_ticket(&self, ticket: Option<&Arc<Ticket>>) {
        self.waits.lock().ticket = ticket.cloned();
    }

    /// Blocked, be it in a command or by a pause.
    pub fn is_blocked(&self) -> bool {
        self.postponed.load(Relaxed) || self.waits.lock().ticket.is_some()
    }

    /// A key that it watches has changed, so its next EXEC does nothing.
    pub fn is_watch_broken(&self) -> bool {
        self.waits.lock().watch.as_ref().is_some_and(|flag| flag.is_raised())
    }

    /// From now on `flag` tells whether something that it watches has changed.
    pub fn set_watch(&self, flag: Option<&Arc<WatchFlag>>) {
        self.waits.lock().watch = flag.cloned();
    }

    pub fn edit_details<R>(&self, edit: impl FnOnce(&mut Details) -> R) -> R {
        edit(&mut self.details.lock())
    }
}

/// All connected clients.
#[derive(Default)]
pub struct Clients {
    last_id: AtomicU64,
    by_id: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
}

impl Clients {
    /// The id of the next client; ids begin with 1 and are never used again.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Relaxed) + 1
    }

    pub fn add(&self, client: &Arc<ClientInfo>) {
        self.by_id.lock().insert(client.id, Arc::clone(client));
    }

    pub fn remove(&self, id: u64) {
        self.by_id.lock().remove(&id);
    }

    pub fn get(&self, id: u64) -> Option<Arc<ClientInfo>> {
        self.by_id.lock().get(&id).cloned()
    }

    /// Everybody, by rising id.
    pub fn all(&self) -> Vec<Arc<ClientInfo>> {
        self.by_id.lock().values().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.by_id.lock().len()
    }

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
            clients.add(&Arc::new(ClientInfo::new(clients.next_id(), "a", "b", 0, 0, 0)));
        }
        clients.remove(2);
        assert_eq!(clients.all().iter().map(|client| client.id).collect::<Vec<_>>(), [1, 3]);
        clients.get(3).unwrap().edit_details(|details| details.name = b"x".to_vec());
        assert_eq!(clients.get(3).unwrap().details().name, b"x");
        assert_eq!(clients.next_id(), 4);
    }
}
