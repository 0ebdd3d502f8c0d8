//! Who waits for which key, in the order of arrival, and how they are served.
//!
//! A blocking command that finds nothing leaves a [`Ticket`] at each of its keys, in the key's shard and database,
//! under the locks that it ran with. Whoever makes a key ready calls [`serve`] when its command has ended and its locks
//! are given up, and before the next command of its own connection:
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
//! **One reply.** The deadline, CLIENT UNBLOCK and the end of the connection take no lock: they
//! [`finish`](Ticket::finish) the ticket, which succeeds for exactly one of all who try, an attempt that got something
//! among them. Who comes while the ticket is being served waits for the end of the attempt, which itself waits for
//! nothing. A finished ticket is passed over until its owner takes it out of the queues.

use crate::Error;
use crate::clients::registry::ClientInfo;
use crate::clients::tracking::Author;
use crate::data::key_hash::KeyHash;
use crate::data::value::Type;
use crate::engine::Engine;
use crate::host::threads::Server;
use crate::keyspace::held_locks::{Held, LockTimeout};
use crate::keyspace::keys::Keys;
use crate::keyspace::shard::{Db, Shard};
use crate::locks::deferred::DeferredWork;
use crate::locks::sync::{AtomicU8, MutexGuard, spin};
use crate::propagation::effects::{Effects, ReadyKey};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a blocked client asked for.
pub trait Request: Send + Sync {
    /// Whether another attempt is worth its while when one of the keys has a value of this type, or none.
    fn wants(&self, kind: Option<Type>) -> bool;

    /// Runs the command once more, if `candidate` can still be [taken](Candidate::take). While its locks are held the change
    /// goes into the log, and the claim is told if the command got what it waits for.
    fn attempt(&self, engine: &Engine, candidate: Candidate<'_>, server: Server) -> Attempt;

    /// The log's length after what it changed when it was served; 0 if that was nothing.
    fn logged_at(&self) -> u64 {
        0
    }

    /// Whether other clients cannot end it (CLIENT UNBLOCK).
    fn lasts(&self) -> bool {
        false
    }

    /// The reply when the time is over, in the client's protocol.
    fn timeout_reply(&self) -> Vec<u8>;

    /// An error, in the client's protocol.
    fn error_reply(&self, error: &Error) -> Vec<u8>;
}

/// Who sends clients that were blocked what they waited for.
pub trait Delivery: Send + Sync {
    /// Sends a client the reply that it waited for; its worker takes the ticket out of the queues.
    fn deliver(&self, _ticket: &Arc<Ticket>, _reply: Vec<u8>) {}
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
    /// All keys of the command: an attempt needs their locks.
    hashes: Box<[KeyHash]>,
    request: Box<dyn Request>,
    state: AtomicU8,
}

const WAITING: u8 = 0;
const SERVING: u8 = 1;
const SERVED: u8 = 2;
const FINISHED: u8 = 3;

impl Ticket {
    /// A ticket that waits at none of `keys` yet; [`Keys::wait`] puts it there. Without keys it ends by
    /// [`finish`](Self::finish) only. `hashes`: those of all keys of the command, waited for or not.
    pub fn new(
        engine: &Engine,
        client: &Arc<ClientInfo>,
        token: usize,
        deadline: i64,
        keys: Vec<AwaitedKey>,
        hashes: Vec<KeyHash>,
        request: Box<dyn Request>,
    ) -> Arc<Ticket> {
        let ticket = Arc::new(Ticket {
            client: Arc::clone(client),
            token,
            deadline,
            arrival: engine.next_arrival(),
            keys: keys.into(),
            hashes: hashes.into(),
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
pub struct Candidate<'t> {
    ticket: &'t Ticket,
    guard: Option<(usize, MutexGuard<'t, Shard>)>,
}

impl<'t> Candidate<'t> {
    /// Locks the shards of all keys and claims the ticket; None when it is done meanwhile, or that has to be done
    /// later.
    pub fn take<'e>(self, engine: &'e Engine) -> Option<(Claim<'t>, Held<'e>)>
    where
        't: 'e,
    {
        let held = match self.guard {
            Some((index, guard)) => Held::One(index, guard),
            None => {
                let hashes = self.ticket.hashes.iter().copied();
                let Some(held) = Held::keys_with(engine, hashes, LockTimeout::Short) else {
                    for key in &self.ticket.keys {
                        engine.leave_for_later(DeferredWork::Ready((key.db, key.name.to_vec())));
                    }
                    return None;
                };
                held
            }
        };
        let state = &self.ticket.state;
        let claimed = state.compare_exchange(WAITING, SERVING, Ordering::AcqRel, Ordering::Acquire);
        // A claim that is dropped gives the ticket back, so there must be none without the right to it.
        claimed.is_ok().then(|| (Claim { ticket: self.ticket, served: false }, held))
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
            let Some(guard) = engine.locks().one_unless(hash.shard(), || engine.scripts().is_long()) else {
                engine.leave_for_later(DeferredWork::Ready((db, name)));
                break;
            };
            let Some(ticket) = next(&guard.dbs[db], &name, hash, tried, server) else { break };
            tried = ticket.arrival;
            let candidate = candidate(&ticket, guard, hash);
            let Attempt { reply, mut effects } = ticket.request.attempt(engine, candidate, server);
            if let Some(reply) = reply {
                engine.host().deliver(&ticket, reply);
            }
            let author = Author { worker: server.worker, client: ticket.client.id };
            queue.extend(engine.publish(&mut effects, author));
        }
    }
}

/// The oldest ticket of a key after those that were tried, if the key is of use to it.
fn next(db: &Db, name: &[u8], hash: KeyHash, tried: u64, server: Server) -> Option<Arc<Ticket>> {
    if !db.blocked.is_waited_for(name) {
        return None;
    }
    let kind = db.kind(hash.local(), name, server.now_us / 1000);
    let ticket = db.blocked.after(name, tried).find(|ticket| ticket.is_waiting() && ticket.request.wants(kind))?;
    Some(Arc::clone(ticket))
}

/// The ticket with the lock that is held, if all its keys are under it.
fn candidate<'t>(ticket: &'t Ticket, guard: MutexGuard<'t, Shard>, hash: KeyHash) -> Candidate<'t> {
    let alone = ticket.hashes.iter().all(|other| other.shard() == hash.shard());
    Candidate { ticket, guard: alone.then_some((hash.shard(), guard)) }
}

/// Takes a ticket that has been finished out of the queues; one that was served is out of them. No lock may be held.
pub fn leave(engine: &Engine, ticket: &Arc<Ticket>) {
    if ticket.state.load(Ordering::Acquire) != FINISHED {
        return;
    }
    for key in &ticket.keys {
        match engine.locks().one_unless(key.hash.shard(), || engine.scripts().is_long()) {
            Some(mut shard) => shard.dbs[key.db].blocked.leave(&key.name, ticket.arrival),
            None => return engine.leave_for_later(DeferredWork::Ticket(Arc::clone(ticket))),
        }
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

    /// Keys that somebody waits for who wants to know when they go.
    pub fn awaited_gone(&self) -> usize {
        self.by_key.values().filter(|queue| queue.iter().any(|ticket| ticket.request.wants(None))).count()
    }

    /// Keys with waiters.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

#[cfg(test)]
mod testing {
    //! A pop that waits, on strings: each byte is an element.

    use super::*;
    use crate::data::event_class::EventClass;
    use crate::keyspace::origin::Origin;
    use crate::locks::sync::Mutex;

    use crate::{Host, Options};

    /// Remembers what was delivered.
    #[derive(Default)]
    pub struct Post {
        pub delivered: Mutex<Vec<(u64, Vec<u8>)>>,
    }

    impl Delivery for Post {
        fn deliver(&self, ticket: &Arc<Ticket>, reply: Vec<u8>) {
            self.delivered.lock().push((ticket.arrival, reply));
        }
    }

    crate::host_defaults!(Post: Clock, Memory, Files, Threads, Peers, Process, Log, Connections, EffectSink);

    pub const SERVER: Server = Server { worker: 0, now_us: 1000 };

    pub fn engine(post: &Arc<Post>) -> Engine {
        let options = Options { shards: 4, databases: 1, hash_seed: 1, workers: 1 };
        Engine::new(&options, Arc::clone(post) as Arc<dyn Host>)
    }

    pub fn hold<'e>(engine: &'e Engine, names: &[&'static [u8]]) -> Keys<'e> {
        let hashes: Vec<KeyHash> = names.iter().map(|name| engine.hasher().hash(name)).collect();
        Keys::new(engine, Held::keys(engine, hashes.into_iter()), 0, Origin::client(1))
    }

    fn finish(engine: &Engine, mut keys: Keys<'_>) {
        keys.unlock();
        let ready = engine.publish(&mut keys.effects, Author { worker: 0, client: 0 });
        serve(engine, ready, SERVER);
    }

    fn append(keys: &mut Keys<'_>, name: &[u8], element: u8) {
        let mut edit = keys.edit(keys.key(name));
        edit.with_bytes(0, |bytes| bytes.push(element)).unwrap();
        edit.commit(EventClass::STRING, "append");
    }

    pub fn push(engine: &Engine, name: &'static [u8], element: u8) {
        let mut keys = hold(engine, &[name]);
        append(&mut keys, name, element);
        finish(engine, keys);
    }

    /// Takes the oldest element of the first key that has one.
    fn pop(keys: &mut Keys<'_>, names: &[&'static [u8]]) -> Option<u8> {
        for name in names {
            let mut edit = keys.edit(keys.key(name));
            if edit.exists() {
                let (element, empty) = edit.with_bytes(0, |bytes| (bytes.remove(0), bytes.is_empty())).unwrap();
                if empty {
                    edit.remove();
                }
                edit.commit(EventClass::STRING, "pop");
                return Some(element);
            }
        }
        None
    }

    struct Pop {
        names: Vec<&'static [u8]>,
        /// Where the element goes, if not to the client alone.
        to: Option<&'static [u8]>,
    }

    impl Pop {
        fn run(&self, keys: &mut Keys<'_>) -> Option<u8> {
            let element = pop(keys, &self.names)?;
            if let Some(to) = self.to {
                append(keys, to, element);
            }
            Some(element)
        }
    }

    impl Request for Pop {
        fn wants(&self, kind: Option<Type>) -> bool {
            kind == Some(Type::String)
        }

        fn attempt(&self, engine: &Engine, candidate: Candidate<'_>, server: Server) -> Attempt {
            let Some((claim, held)) = candidate.take(engine) else { return Attempt::default() };
            let mut keys = Keys::new(engine, held, 0, Origin::client(server.now_us / 1000));
            let element = self.run(&mut keys);
            match element {
                Some(_) => claim.served(&mut keys),
                None => drop(claim),
            }
            keys.unlock();
            Attempt { reply: element.map(|element| vec![element]), effects: std::mem::take(&mut keys.effects) }
        }

        fn timeout_reply(&self) -> Vec<u8> {
            Vec::new()
        }

        fn error_reply(&self, error: &Error) -> Vec<u8> {
            error.to_string().into()
        }
    }

    /// Pops, or waits at these keys; the element, if there is one, is also pushed to `to`.
    pub fn pop_or_wait(
        engine: &Engine,
        client: u64,
        names: &[&'static [u8]],
        to: Option<&'static [u8]>,
    ) -> Result<u8, Arc<Ticket>> {
        let all: Vec<&'static [u8]> = names.iter().copied().chain(to).collect();
        let mut keys = hold(engine, &all);
        let request = Pop { names: names.to_vec(), to };
        match request.run(&mut keys) {
            Some(element) => {
                finish(engine, keys);
                Ok(element)
            }
            None => {
                let awaited =
                    |name: &&'static [u8]| AwaitedKey { db: 0, name: (*name).into(), hash: keys.key(name).hash };
                let client = Arc::new(ClientInfo::new(client, "", "", 0, 0, 0));
                let hashes = all.iter().map(|name| keys.key(name).hash).collect();
                let ticket =
                    Ticket::new(engine, &client, 0, 0, names.iter().map(awaited).collect(), hashes, Box::new(request));
                keys.wait(&ticket);
                Err(ticket)
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::testing::{Post, engine, hold, pop_or_wait, push};
    use super::*;

    fn waiting(engine: &Engine) -> usize {
        (0..engine.locks().len()).map(|index| engine.locks().one(index).dbs[0].blocked.len()).sum()
    }

    #[test]
    fn first_come_first_served() {
        let post = Arc::new(Post::default());
        let engine = engine(&post);
        let tickets: Vec<_> = (0..3).map(|client| pop_or_wait(&engine, client, &[b"k"], None).unwrap_err()).collect();
        assert!(tickets[1].client.is_blocked() && tickets[1].finish() && !tickets[1].finish());
        assert!(!tickets[1].client.is_blocked());
        push(&engine, b"k", 1);
        push(&engine, b"k", 2);
        let arrivals = [tickets[0].arrival, tickets[2].arrival];
        assert_eq!(*post.delivered.lock(), [(arrivals[0], vec![1]), (arrivals[1], vec![2])]);
        assert!(!tickets[0].finish() && !tickets[0].is_waiting() && !tickets[0].client.is_blocked());
        assert_eq!(waiting(&engine), 1, "who was finished stays until its owner comes");
        leave(&engine, &tickets[1]);
        assert_eq!(waiting(&engine), 0);
        assert_eq!(pop_or_wait(&engine, 9, &[b"k"], None).ok(), None, "nothing was left");
    }

    #[test]
    fn a_client_at_several_keys_is_served_once_and_leaves_all() {
        let post = Arc::new(Post::default());
        let engine = engine(&post);
        let ticket = pop_or_wait(&engine, 1, &[b"a", b"b", b"a", b"c"], None).unwrap_err();
        push(&engine, b"b", 1);
        push(&engine, b"a", 2);
        assert_eq!(*post.delivered.lock(), [(ticket.arrival, vec![1])]);
        assert_eq!(waiting(&engine), 0);
        let key = hold(&engine, &[b"a"]).key(b"a");
        assert!(hold(&engine, &[b"a"]).find(key).is_some(), "the second push stayed");
    }

    #[test]
    fn elements_are_handed_on_until_nobody_waits_for_them() {
        let post = Arc::new(Post::default());
        let engine = engine(&post);
        let last = pop_or_wait(&engine, 1, &[b"c"], None).unwrap_err();
        let second = pop_or_wait(&engine, 2, &[b"b"], Some(b"c")).unwrap_err();
        let first = pop_or_wait(&engine, 3, &[b"a"], Some(b"b")).unwrap_err();
        push(&engine, b"a", 7);
        let order = [first.arrival, second.arrival, last.arrival].map(|arrival| (arrival, vec![7]));
        assert_eq!(*post.delivered.lock(), order);
        assert_eq!(waiting(&engine), 0);
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod interleavings {
    use super::testing::{Post, engine, hold, pop_or_wait, push};
    use super::*;
    use shuttle::thread;

    const KEYS: [&[u8]; 2] = [b"a", b"b"];

    /// Pushers, clients that wait at one key or at both or hand on from one to the other, and clients that give up.
    fn protocol() {
        let post = Arc::new(Post::default());
        let engine = Arc::new(engine(&post));
        let mut clients = Vec::new();
        for client in 0..3u64 {
            let engine = Arc::clone(&engine);
            clients.push(thread::spawn(move || {
                let first = &KEYS[client as usize % 2..][..1];
                let waited = match client {
                    0 => pop_or_wait(&engine, client, &KEYS, None),
                    1 => pop_or_wait(&engine, client, first, None),
                    _ => pop_or_wait(&engine, client, first, Some(KEYS[1])),
                };
                let gives_up = client == 1;
                match waited {
                    Ok(_) => (None, usize::from(client != 2)),
                    Err(ticket) if gives_up && ticket.finish() => {
                        leave(&engine, &ticket);
                        (None, 0)
                    }
                    Err(ticket) => (Some(ticket), 0),
                }
            }));
        }
        let pushers: Vec<_> = (0..2u8)
            .map(|n| {
                let engine = Arc::clone(&engine);
                thread::spawn(move || push(&engine, KEYS[usize::from(n)], n))
            })
            .collect();
        pushers.into_iter().for_each(|thread| thread.join().unwrap());
        let ended: Vec<_> = clients.into_iter().map(|thread| thread.join().unwrap()).collect();

        let delivered = post.delivered.lock();
        let mut taken = ended.iter().map(|(_, taken)| taken).sum::<usize>();
        for ticket in ended.iter().filter_map(|(ticket, _)| ticket.as_ref()) {
            let replies = delivered.iter().filter(|(arrival, _)| *arrival == ticket.arrival).count();
            assert_eq!(replies, usize::from(!ticket.is_waiting()), "one reply to who was served, none to who waits");
            // Who hands on takes nothing away.
            taken += if ticket.client.id == 2 { 0 } else { replies };
        }
        let mut left = 0;
        for name in KEYS {
            let mut keys = hold(&engine, &[name]);
            let key = keys.key(name);
            let elements = keys.string(key).unwrap().map_or(0, |value| value.to_vec().len());
            left += elements;
            let waits =
                |ticket: &&Arc<Ticket>| ticket.is_waiting() && ticket.keys().iter().any(|key| *key.name == *name);
            let waiting = ended.iter().filter_map(|(ticket, _)| ticket.as_ref()).filter(waits).count();
            assert!(elements == 0 || waiting == 0, "somebody waits for what is there");
        }
        assert_eq!(taken + left, 2, "an element was lost or taken twice");
    }

    #[test]
    fn random_schedules_lose_no_element_and_no_wake_up() {
        shuttle::check_random(protocol, 10_000);
    }

    #[test]
    fn adversarial_schedules_lose_no_element_and_no_wake_up() {
        shuttle::check_pct(protocol, 10_000, 4);
    }
}
