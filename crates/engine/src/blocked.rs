//! Who waits for which key, in the order of arrival, and how they are served.
//!
//! A blocking command that finds nothing leaves a [`Ticket`] at each of its keys, in the key's shard and database, under
//! the locks that it ran with. Whoever makes a key ready calls [`serve`] when its command has ended and its locks are
//! given up, and before the next command of its own connection:
//!
//! ```text
//!   for each ready key, in the order in which they became ready:
//!     for each ticket of the key, the oldest first, while the key is of use to it:
//!       lock the shards of all the ticket's keys
//!       claim the ticket                            WAITING -> SERVING
//!       run its command again
//!       it got something: leave the queues          SERVING -> SERVED
//!       it did not:       it keeps its place        SERVING -> WAITING
//!       unlock, deliver the reply; keys that this made ready are served after the others
//! ```
//!
//! **No wake-up is lost.** A ticket is `SERVING` only while the locks of all its keys are held, so whoever holds the
//! lock of a key sees each ticket there as either waiting or done. A push happens under that lock: either before an
//! attempt, which then sees the element, or after it, and then the ticket waits again and is found.
//!
//! **One reply.** The deadline, CLIENT UNBLOCK and the end of the connection take no lock: they [`finish`](Ticket::finish)
//! the ticket, which succeeds for exactly one of all who try, an attempt that got something among them. Who comes while
//! the ticket is being served waits for the end of the attempt, which itself waits for nothing. A finished ticket is
//! passed over until its owner takes it out of the queues.

use crate::clients::ClientInfo;
use crate::effects::{Effects, ReadyKey};
use crate::engine::Engine;
use crate::hash::KeyHash;
use crate::keys::{Held, Keys};
use crate::shard::{Db, Shard};
use crate::sync::{AtomicU8, MutexGuard, spin};
use crate::value::Type;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Whoever serves: its place in [`Engine::metrics`] and its time.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    pub worker: usize,
    /// Unix time in microseconds.
    pub now_us: i64,
}

/// What a blocked client asked for.
pub trait Request: Send + Sync {
    /// Whether another attempt is worth its while when one of the keys has a value of this type, or none.
    fn wants(&self, kind: Option<Type>) -> bool;

    /// Runs the command once more, if `chance` can still be [taken](Chance::take). While its locks are held the change
    /// goes into the log, and the claim is told if the command got what it waits for.
    fn attempt(&self, engine: &Engine, chance: Chance<'_>, server: Server) -> Attempt;

    /// The reply when the time is over, in the client's protocol.
    fn timeout_reply(&self) -> Vec<u8>;

    /// An error, in the client's protocol.
    fn error_reply(&self, text: &str) -> Vec<u8>;
}

/// What came of an attempt, to be carried out without locks.
#[derive(Default)]
pub struct Attempt {
    /// None: the client goes on waiting.
    pub reply: Option<Vec<u8>>,
    pub effects: Effects,
}

/// A key that is waited for.
#[derive(Clone, Debug)]
pub struct AwaitedKey {
    pub db: u32,
    pub name: Box<[u8]>,
    pub hash: KeyHash,
}

/// One blocked command of one client.
pub struct Ticket {
    /// Who waits.
    pub client: Arc<ClientInfo>,
    /// What the client's worker knows its connection by.
    pub token: usize,
    /// Unix time in milliseconds; 0: it waits for good.
    pub deadline: i64,
    /// Tickets of a key lie in the order of these.
    pub arrival: u64,
    keys: Box<[AwaitedKey]>,
    request: Box<dyn Request>,
    state: AtomicU8,
}

const WAITING: u8 = 0;
const SERVING: u8 = 1;
const SERVED: u8 = 2;
const FINISHED: u8 = 3;

impl Ticket {
    /// A ticket that waits at no key yet; [`Keys::wait`] puts it there. Without keys it ends by
    /// [`finish`](Self::finish) only.
    pub fn new(
        engine: &Engine,
        client: &Arc<ClientInfo>,
        token: usize,
        deadline: i64,
        keys: Vec<AwaitedKey>,
        request: Box<dyn Request>,
    ) -> Arc<Ticket> {
        let ticket = Arc::new(Ticket {
            client: Arc::clone(client),
            token,
            deadline,
            arrival: engine.next_arrival(),
            keys: keys.into(),
            request,
            state: AtomicU8::new(WAITING),
        });
        client.set_ticket(Some(&ticket));
        ticket
    }

    pub fn keys(&self) -> &[AwaitedKey] {
        &self.keys
    }

    pub fn request(&self) -> &dyn Request {
        &*self.request
    }

    pub fn is_waiting(&self) -> bool {
        self.state.load(Ordering::Acquire) == WAITING
    }

    /// Ends the wait without serving it; true for exactly one caller, who owes the client its reply. False when it has
    /// been served or ended already.
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

/// A ticket that may be served, and the lock of its shard if one is enough.
pub struct Chance<'t> {
    ticket: &'t Ticket,
    guard: Option<(usize, MutexGuard<'t, Shard>)>,
}

impl<'t> Chance<'t> {
    /// Locks the shards of all keys and claims the ticket; None when it is done meanwhile.
    pub fn take<'e>(self, engine: &'e Engine) -> Option<(Claim<'t>, Held<'e>)>
    where
        't: 'e,
    {
        let held = match self.guard {
            Some((index, guard)) => Held::One(index, guard),
            None => {
                let hashes: Vec<KeyHash> = self.ticket.keys.iter().map(|key| key.hash).collect();
                Held::keys(engine, hashes.into_iter())
            }
        };
        let state = &self.ticket.state;
        let claimed = state.compare_exchange(WAITING, SERVING, Ordering::AcqRel, Ordering::Acquire);
        claimed.is_ok().then_some((Claim { ticket: self.ticket, served: false }, held))
    }
}

/// A ticket that is being served. It waits again when this is dropped, unless [`served`](Self::served) was called.
pub struct Claim<'t> {
    ticket: &'t Ticket,
    served: bool,
}

impl Claim<'_> {
    /// The command got what it waited for: the ticket leaves the queues. To be called before the locks are given up.
    pub fn served(mut self, keys: &mut Keys<'_>) {
        for key in &self.ticket.keys {
            keys.blocked(key.db, key.hash).leave(&key.name, self.ticket.arrival);
        }
        self.ticket.client.set_ticket(None);
        self.served = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.ticket.state.store(if self.served { SERVED } else { WAITING }, Ordering::Release);
    }
}

/// Serves those who wait for these keys, and for keys that become ready by that. No lock may be held.
pub fn serve(engine: &Engine, ready: Vec<ReadyKey>, server: Server) {
    if ready.is_empty() {
        return;
    }
    // What made the keys ready may have taken its time.
    let server = Server { now_us: engine.host().unix_us(server.now_us), ..server };
    let mut queue = VecDeque::from(ready);
    while let Some((db, name)) = queue.pop_front() {
        let hash = engine.hasher().hash(&name);
        // Each ticket is tried once, so that one that finds nothing cannot keep this going.
        let mut tried = 0;
        loop {
            let guard = engine.locks().one(engine.hasher().shard(hash));
            let Some(ticket) = next(engine, &guard.dbs[db as usize], &name, hash, tried, server) else { break };
            tried = ticket.arrival;
            let chance = chance(engine, &ticket, guard, hash);
            let Attempt { reply, mut effects } = ticket.request.attempt(engine, chance, server);
            if let Some(reply) = reply {
                engine.host().deliver(&ticket, reply);
            }
            queue.extend(engine.carry_out(&mut effects));
        }
    }
}

/// The oldest ticket of a key after those that were tried, if the key is of use to it.
fn next(engine: &Engine, db: &Db, name: &[u8], hash: KeyHash, tried: u64, server: Server) -> Option<Arc<Ticket>> {
    if !db.blocked.is_waited_for(name) {
        return None;
    }
    let kind = db.kind(engine.hasher().local(hash), name, server.now_us / 1000);
    let ticket = db.blocked.after(name, tried).find(|ticket| ticket.is_waiting() && ticket.request.wants(kind))?;
    Some(Arc::clone(ticket))
}

/// The ticket with the lock that is held, if all its keys are under it.
fn chance<'t>(engine: &Engine, ticket: &'t Ticket, guard: MutexGuard<'t, Shard>, hash: KeyHash) -> Chance<'t> {
    let shard = |hash| engine.hasher().shard(hash);
    let alone = ticket.keys.iter().all(|key| shard(key.hash) == shard(hash));
    Chance { ticket, guard: alone.then_some((shard(hash), guard)) }
}

/// Takes a ticket that has been finished out of the queues; one that was served is out of them. No lock may be held.
pub fn leave(engine: &Engine, ticket: &Ticket) {
    if ticket.state.load(Ordering::Acquire) != FINISHED {
        return;
    }
    for key in &ticket.keys {
        let mut shard = engine.locks().one(engine.hasher().shard(key.hash));
        shard.dbs[key.db as usize].blocked.leave(&key.name, ticket.arrival);
    }
}

/// The waiting clients of one database in one shard.
#[derive(Default)]
pub struct Blocked {
    by_key: HashMap<Box<[u8]>, VecDeque<Arc<Ticket>>>,
}

impl Blocked {
    /// The newest ticket comes to the end of the key's queue.
    pub fn wait(&mut self, key: &[u8], ticket: &Arc<Ticket>) {
        let queue = self.by_key.entry(key.into()).or_default();
        if queue.back().is_none_or(|last| last.arrival < ticket.arrival) {
            queue.push_back(Arc::clone(ticket));
        }
    }

    /// The ticket of this arrival is gone from this key, whatever became of it.
    pub fn leave(&mut self, key: &[u8], arrival: u64) {
        let Some(queue) = self.by_key.get_mut(key) else { return };
        if let Ok(at) = queue.binary_search_by_key(&arrival, |ticket| ticket.arrival) {
            queue.remove(at);
        }
        if queue.is_empty() {
            self.by_key.remove(key);
        }
    }

    /// The tickets of a key that arrived after this arrival, the oldest first.
    fn after(&self, key: &[u8], arrival: u64) -> impl Iterator<Item = &Arc<Ticket>> {
        self.by_key.get(key).into_iter().flat_map(move |queue| {
            let first = queue.partition_point(|ticket| ticket.arrival <= arrival);
            queue.range(first..)
        })
    }

    #[inline]
    pub fn is_waited_for(&self, key: &[u8]) -> bool {
        !self.by_key.is_empty() && self.by_key.contains_key(key)
    }

    /// The keys that somebody waits for.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.by_key.keys().map(|key| &**key)
    }

    /// Keys with waiters.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}
