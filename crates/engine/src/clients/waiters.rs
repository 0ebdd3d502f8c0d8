//! Clients that wait for keys, in the order of arrival.
//!
//! A blocking command that finds nothing leaves a [`Ticket`] at each of its keys, in the key's shard and database,
//! under the locks that it ran with. `engine/serving.rs` explains how tickets are served.

use crate::Error;
use crate::clients::registry::ClientInfo;
use crate::data::key_hash::KeyHash;
use crate::data::value_type::ValueType;
use crate::locks::sync::{AtomicU8, spin};
use crate::time::SteadyMs;
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Request of a blocked client, as the code sees it that waits with the client or ends its wait.
pub trait WaitRequest: Any + Send + Sync {
    /// Whether another attempt is worth its while when one of the keys has a value of this type, or none.
    fn wants(&self, kind: Option<&'static ValueType>) -> bool;

    /// Returns the log's length after the change that it made when it was served; 0 if there was none.
    fn logged_at(&self) -> u64 {
        0
    }

    /// Records the log's length after its change.
    fn note_logged(&self, _length: u64) {}

    /// Whether its command may write.
    fn writes(&self) -> bool {
        true
    }

    /// Whether its reply may tell of keys, or of changes to them.
    fn tells_of_data(&self) -> bool {
        true
    }

    /// Bytes of its command's arguments, which are kept for as long as it waits.
    fn argument_bytes(&self) -> usize {
        0
    }

    /// Whether other clients cannot end it (CLIENT UNBLOCK).
    fn lasts(&self) -> bool {
        false
    }

    /// Returns the reply when the wait times out, in the client's protocol.
    fn timeout_reply(&self) -> Vec<u8>;

    /// Returns an error, in the client's protocol.
    fn error_reply(&self, error: &Error) -> Vec<u8>;
}

/// Sender of the replies that blocked clients wait for.
pub trait Delivery: Send + Sync {
    /// Sends a client the reply that it waited for; its worker takes the ticket out of the queues.
    fn deliver(&self, _ticket: &Arc<Ticket>, _reply: Vec<u8>) {}
}

/// A key that is waited for.
#[derive(Clone, Debug)]
pub struct AwaitedKey {
    /// The number of its database.
    pub db: u32,
    /// Its name.
    pub name: Box<[u8]>,
    /// The hash of its name.
    pub hash: KeyHash,
}

/// A client, and the keys that it waits for.
pub struct WaitingClient {
    /// The client that waits.
    pub client: Arc<ClientInfo>,
    /// The token of its connection at its worker.
    pub token: usize,
    /// None: it waits for good.
    pub deadline: Option<SteadyMs>,
    /// Keys that it waits for. Without any the wait ends by [`Ticket::finish`] only.
    pub keys: Box<[AwaitedKey]>,
    /// Hashes of all keys of the command, waited for or not: an attempt needs their locks.
    pub hashes: Box<[KeyHash]>,
}

/// One blocked command of one client.
pub struct Ticket {
    /// The client that waits.
    pub client: Arc<ClientInfo>,
    /// The token of its connection at its worker.
    pub token: usize,
    /// None: it waits for good.
    pub deadline: Option<SteadyMs>,
    /// Position among the tickets of a key.
    pub arrival: u64,
    keys: Box<[AwaitedKey]>,
    /// Hashes of all keys of the command: an attempt needs their locks.
    hashes: Box<[KeyHash]>,
    request: Box<dyn WaitRequest>,
    state: AtomicU8,
}

const WAITING: u8 = 0;
const SERVING: u8 = 1;
const SERVED: u8 = 2;
const FINISHED: u8 = 3;

impl Ticket {
    /// Makes a ticket that waits at none of its keys yet.
    pub(crate) fn new(blocked: WaitingClient, arrival: u64, request: Box<dyn WaitRequest>) -> Arc<Ticket> {
        let WaitingClient { client, token, deadline, keys, hashes } = blocked;
        let state = AtomicU8::new(WAITING);
        let ticket = Arc::new(Ticket { client, token, deadline, arrival, keys, hashes, request, state });
        ticket.client.set_ticket(Some(&ticket));
        ticket
    }

    /// Returns the keys that the client waits for, in the order of its command.
    pub fn keys(&self) -> &[AwaitedKey] {
        &self.keys
    }

    pub(crate) fn hashes(&self) -> &[KeyHash] {
        &self.hashes
    }

    /// Returns the request that is tried when one of them is ready.
    pub fn request(&self) -> &dyn WaitRequest {
        &*self.request
    }

    /// Begins to serve it, so that no other thread can end it; false if it was ended, or is served already. Only under
    /// the locks of all its keys.
    pub(crate) fn begin_serving(&self) -> bool {
        self.state.compare_exchange(WAITING, SERVING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Ends the serving that [`begin_serving`](Self::begin_serving) began: it has been served, or waits again.
    pub(crate) fn end_serving(&self, served: bool) {
        self.state.store(if served { SERVED } else { WAITING }, Ordering::Release);
    }

    /// Whether it was ended without being served.
    pub(crate) fn is_finished(&self) -> bool {
        self.state.load(Ordering::Acquire) == FINISHED
    }

    /// Whether it was neither served nor ended, and is not being served.
    pub fn is_waiting(&self) -> bool {
        self.state.load(Ordering::Acquire) == WAITING
    }

    /// Ends the wait without serving it; true for exactly one caller, which owes the client its reply. False when it
    /// has been served or ended already.
    pub fn finish(&self) -> bool {
        loop {
            match self.state.compare_exchange(WAITING, FINISHED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.client.set_ticket(None);
                    return true;
                }
                Err(SERVING) => spin(),
                Err(_) => return false,
            }
        }
    }
}

/// The waiting clients of one database in one shard.
#[derive(Default)]
pub struct WaitQueues {
    by_key: HashMap<Box<[u8]>, VecDeque<Arc<Ticket>>>,
}

impl WaitQueues {
    /// Puts the newest ticket at the end of the key's queue.
    pub fn wait(&mut self, key: &[u8], ticket: &Arc<Ticket>) {
        let queue = self.by_key.entry(key.into()).or_default();
        if queue.back().is_none_or(|last| last.arrival < ticket.arrival) {
            queue.push_back(Arc::clone(ticket));
        }
    }

    /// Removes the ticket of this arrival from this key, if it is there.
    pub fn remove(&mut self, key: &[u8], arrival: u64) {
        let Some(queue) = self.by_key.get_mut(key) else { return };
        if let Ok(at) = queue.binary_search_by_key(&arrival, |ticket| ticket.arrival) {
            queue.remove(at);
        }
        if queue.is_empty() {
            self.by_key.remove(key);
        }
    }

    /// Returns the tickets of a key that arrived after this arrival, the oldest first.
    pub(crate) fn after(&self, key: &[u8], arrival: u64) -> impl Iterator<Item = &Arc<Ticket>> {
        self.by_key.get(key).into_iter().flat_map(move |queue| {
            let first = queue.partition_point(|ticket| ticket.arrival <= arrival);
            queue.range(first..)
        })
    }

    /// Whether a client waits for this key.
    #[inline]
    pub fn is_waited_for(&self, key: &[u8]) -> bool {
        !self.by_key.is_empty() && self.by_key.contains_key(key)
    }

    /// Returns the keys that clients wait for.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.by_key.keys().map(|key| &**key)
    }

    /// Returns how many keys have a waiting client that is notified of their removal.
    pub fn awaited_gone(&self) -> usize {
        self.by_key.values().filter(|queue| queue.iter().any(|ticket| ticket.request.wants(None))).count()
    }

    /// Returns the number of keys with waiters.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether no client waits.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}
