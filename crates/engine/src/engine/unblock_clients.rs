//! How clients that wait for keys are served.
//!
//! A thread that makes a key ready calls [`Engine::serve`] when its command has ended and its locks are released, and
//! before the next command of its own connection:
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
//! **No wake-up is lost.** A ticket is `SERVING` only while the locks of all its keys are held, so a thread that holds
//! the lock of a key sees each ticket there as either waiting or done. A push happens under that lock: either before an
//! attempt, which then sees the element, or after it, and then the ticket waits again and is found.
//!
//! **One reply.** The deadline, CLIENT UNBLOCK and the end of the connection take no lock: they
//! [`finish`](Ticket::finish) the ticket, which succeeds for exactly one of all threads that try, an attempt that got
//! something among them. A thread that comes while the ticket is being served waits for the end of the attempt, which
//! itself waits for nothing. A finished ticket is passed over until its owner takes it out of the queues.
//!
//! Work that needs a lock that a long script holds is [deferred](Engine::defer): no client is to wait for it in
//! silence. Work in a pause is deferred up to its end.

use crate::Error;
use crate::clients::deferred::DeferredWork;
use crate::clients::waiters::{AwaitedKey, Ticket, WaitRequest, WaitingClient};
use crate::clients::watch::WatchFlag;
use crate::data::key_hash::KeyHash;
use crate::data::value_type::ValueType;
use crate::engine::Engine;
use crate::host::threads::Server;
use crate::keyspace::held_locks::{HeldLocks, LockTimeout};
use crate::keyspace::keys::Keys;
use crate::keyspace::shard::{Db, Shard};
use crate::locks::sync::MutexGuard;
use crate::propagation::effects::{Author, Effects, ReadyKey};
use crate::status::deny_reasons::{Epoch, Paused};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// A request that can be run again.
pub trait BlockedCommand: WaitRequest {
    /// Runs the command once more, if `candidate` can still be [taken](Candidate::take). While its locks are held the
    /// change goes into the log, and the claim learns whether the command got its element.
    fn attempt(&self, engine: &Engine, candidate: Candidate<'_>, server: Server) -> RetryOutcome;
}

/// Request of a ticket that can be served.
struct Retriable(Box<dyn BlockedCommand>);

impl WaitRequest for Retriable {
    fn wants(&self, kind: Option<&'static ValueType>) -> bool {
        self.0.wants(kind)
    }

    fn logged_at(&self) -> u64 {
        self.0.logged_at()
    }

    fn note_logged(&self, length: u64) {
        self.0.note_logged(length);
    }

    fn writes(&self) -> bool {
        self.0.writes()
    }

    fn tells_of_data(&self) -> bool {
        self.0.tells_of_data()
    }

    fn argument_bytes(&self) -> usize {
        self.0.argument_bytes()
    }

    fn lasts(&self) -> bool {
        self.0.lasts()
    }

    fn timeout_reply(&self) -> Vec<u8> {
        self.0.timeout_reply()
    }

    fn error_reply(&self, error: &Error) -> Vec<u8> {
        self.0.error_reply(error)
    }
}

/// Returns the request to run again for a ticket.
fn retriable(ticket: &Ticket) -> Option<&dyn BlockedCommand> {
    let request: &dyn Any = ticket.request();
    request.downcast_ref().map(|Retriable(request)| &**request)
}

/// Result of an attempt, to be carried out without locks.
#[derive(Default)]
pub struct RetryOutcome {
    /// The reply; None: the client goes on waiting.
    pub reply: Option<Vec<u8>>,
    /// Its effects, besides the reply.
    pub effects: Effects,
}

/// A ticket that may be served, and the lock of its shard if one is enough.
pub struct Candidate<'t> {
    ticket: &'t Ticket,
    guard: Option<(usize, MutexGuard<'t, Shard>)>,
    /// When it was decided that clients may be served.
    admitted: Epoch,
}

impl<'t> Candidate<'t> {
    /// Locks the shards of all keys and claims the ticket; None when it is done meanwhile, or has to be served later.
    pub fn take<'e>(self, engine: &'e Engine) -> Option<(Claim<'t>, HeldLocks<'e>)>
    where
        't: 'e,
    {
        let held = match self.guard {
            Some((index, guard)) => HeldLocks::One(index, guard),
            None => {
                let hashes = self.ticket.hashes().iter().copied();
                let held = HeldLocks::keys_with(engine, hashes, LockTimeout::Short);
                let Some(held) = held.filter(|held| held.admit(engine, self.admitted)) else {
                    for key in self.ticket.keys() {
                        engine.defer(DeferredWork::Ready((key.db, key.name.to_vec())));
                    }
                    return None;
                };
                held
            }
        };
        // A claim that is dropped gives the ticket back, so it is made only if it has the right to it.
        self.ticket.begin_serving().then(|| (Claim { ticket: self.ticket, served: false }, held))
    }
}

/// A ticket that is being served. It waits again when this is dropped, unless [`served`](Self::served) was called.
pub struct Claim<'t> {
    ticket: &'t Ticket,
    served: bool,
}

impl Claim<'_> {
    /// Marks that the command got its element: the ticket leaves the queues. To be called before the locks are
    /// released.
    pub fn served(mut self, keys: &mut Keys<'_>) {
        for key in self.ticket.keys() {
            keys.key_clients(key.db, key.hash).end_wait(&key.name, self.ticket.arrival);
        }
        self.ticket.client.set_ticket(None);
        self.served = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.ticket.end_serving(self.served);
    }
}

impl Engine {
    /// Makes a ticket that waits at none of its keys yet; [`Keys::wait`] puts it there.
    pub fn ticket(&self, blocked: WaitingClient, request: Box<dyn BlockedCommand>) -> Arc<Ticket> {
        Ticket::new(blocked, self.next_arrival(), Box::new(Retriable(request)))
    }

    /// Serves the clients that wait for these keys, and for keys that become ready by that. No lock may be held.
    pub fn serve(&self, ready: Vec<ReadyKey>, server: Server) {
        if ready.is_empty() {
            return;
        }
        // The command that made the keys ready may have taken its time.
        let server = Server { now_us: self.host().unix_us(server.now_us), ..server };
        let mut queue = VecDeque::from(ready);
        while let Some((db, name)) = queue.pop_front() {
            let hash = self.hasher().hash(&name);
            // Each ticket is tried once, so that one that finds nothing cannot keep this going.
            let mut tried = 0;
            loop {
                // The command that made the key ready may have ended before a pause began: its waiters wait for the end
                // of the pause, too.
                let state = self.persistence_status().deny_reasons();
                let guard = self.locks().one_unless(hash.shard(), || self.scripts().is_long());
                let may_serve = |shard: &_| state.paused() == Paused::Nothing && Shard::admits(shard, state.epoch());
                let Some(guard) = guard.filter(|shard| may_serve(shard)) else {
                    self.defer(DeferredWork::Ready((db, name)));
                    break;
                };
                let Some(ticket) = next(&guard.dbs[db], &name, hash, tried, server) else { break };
                tried = ticket.arrival;
                let candidate = candidate(&ticket, guard, hash, state.epoch());
                queue.extend(self.attempt(&ticket, candidate, server));
            }
        }
    }

    /// Serves a client that waits at no key, if it still waits. No lock may be held.
    pub fn serve_one(&self, ticket: &Arc<Ticket>, server: Server) {
        let admitted = self.persistence_status().deny_reasons().epoch();
        let ready = self.attempt(ticket, Candidate { ticket, guard: None, admitted }, server);
        self.serve(ready, server);
    }

    /// Runs a ticket's command again. Returns the keys that became ready by it.
    fn attempt(&self, ticket: &Arc<Ticket>, candidate: Candidate<'_>, server: Server) -> Vec<ReadyKey> {
        let Some(request) = retriable(ticket) else { return Vec::new() };
        let RetryOutcome { reply, mut effects } = request.attempt(self, candidate, server);
        if let Some(reply) = reply {
            self.host().deliver(ticket, reply);
        }
        self.publish(&mut effects, Author { worker: server.worker, client: ticket.client.id })
    }

    /// Takes a ticket that has been finished out of the queues; one that was served is out of them. No lock may be
    /// held.
    pub fn cancel_wait(&self, ticket: &Arc<Ticket>) {
        if !ticket.is_finished() {
            return;
        }
        for key in ticket.keys() {
            match self.locks().one_unless(key.hash.shard(), || self.scripts().is_long()) {
                Some(mut shard) => {
                    self.note_change(key.hash.shard());
                    shard.dbs[key.db].clients.end_wait(&key.name, ticket.arrival);
                }
                None => return self.defer(DeferredWork::Ticket(Arc::clone(ticket))),
            }
        }
    }

    /// Leaves work for [later](Self::run_deferred).
    pub(crate) fn defer(&self, work: DeferredWork) {
        self.deferred.add(work);
    }

    /// Whether something was deferred.
    #[inline]
    pub fn has_deferred(&self) -> bool {
        self.deferred.has_some()
    }

    /// Does the deferred work that is possible by now. No lock may be held.
    #[cold]
    pub fn run_deferred(&self, server: Server) {
        let mut ready = Vec::new();
        for work in self.deferred.take() {
            match work {
                DeferredWork::Watch(key, flag) => self.unwatch(key, &flag),
                DeferredWork::Ticket(ticket) => self.cancel_wait(&ticket),
                DeferredWork::Ready(key) => ready.push(key),
            }
        }
        self.serve(ready, server);
    }

    /// Takes a mark off a key, whose lock may not be held; later, if a script holds that for long.
    pub fn unwatch(&self, key: AwaitedKey, flag: &Arc<WatchFlag>) {
        match self.locks().one_unless(key.hash.shard(), LockTimeout::Short.from_now(self)) {
            Some(mut shard) => {
                self.note_change(key.hash.shard());
                shard.dbs[key.db].clients.unwatch(&key.name, flag);
            }
            None => self.defer(DeferredWork::Watch(key, Arc::clone(flag))),
        }
    }
}

/// Returns the oldest ticket of a key after those that were tried, if the key is of use to it.
fn next(db: &Db, name: &[u8], hash: KeyHash, tried: u64, server: Server) -> Option<Arc<Ticket>> {
    let queues = db.clients.wait_queues();
    if !queues.is_waited_for(name) {
        return None;
    }
    let kind = db.value_type(hash.local(), name, server.now_us.ms());
    let ticket = queues.after(name, tried).find(|ticket| ticket.is_waiting() && ticket.request().wants(kind))?;
    Some(Arc::clone(ticket))
}

/// Returns the ticket with the lock that is held, if all its keys are under it.
fn candidate<'t>(ticket: &'t Ticket, guard: MutexGuard<'t, Shard>, hash: KeyHash, admitted: Epoch) -> Candidate<'t> {
    let alone = ticket.hashes().iter().all(|other| other.shard() == hash.shard());
    Candidate { ticket, guard: alone.then_some((hash.shard(), guard)), admitted }
}

#[cfg(test)]
mod testing {
    //! A pop that waits, on strings: each byte is an element.

    use super::*;
    use crate::clients::registry::ClientInfo;
    use crate::clients::waiters::Delivery;
    use crate::data::event_class::EventClass;
    use crate::data::value_type::STRING;
    use crate::keyspace::caller::ExecContext;
    use crate::locks::sync::Mutex;
    use crate::time::{UnixMs, UnixUs};

    use crate::{Host, Options};

    /// Remembers the delivered replies.
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

    pub const SERVER: Server = Server { worker: 0, now_us: UnixUs(1000) };

    pub fn engine(post: &Arc<Post>) -> Engine {
        let options = Options { shards: 4, databases: 1, hash_seed: 1, workers: 1, counts_slots: true };
        Engine::new(&options, Arc::clone(post) as Arc<dyn Host>)
    }

    pub fn hold<'e>(engine: &'e Engine, names: &[&'static [u8]]) -> Keys<'e> {
        let hashes: Vec<KeyHash> = names.iter().map(|name| engine.hasher().hash(name)).collect();
        Keys::new(engine, HeldLocks::keys(engine, hashes.into_iter()), 0, ExecContext::client(UnixMs(1)))
    }

    fn finish(engine: &Engine, mut keys: Keys<'_>) {
        keys.unlock();
        let ready = engine.publish(&mut keys.effects, Author { worker: 0, client: 0 });
        engine.serve(ready, SERVER);
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
        /// Key that the element goes to, if not to the client alone.
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

    impl WaitRequest for Pop {
        fn wants(&self, kind: Option<&'static ValueType>) -> bool {
            kind == Some(&STRING)
        }

        fn timeout_reply(&self) -> Vec<u8> {
            Vec::new()
        }

        fn error_reply(&self, error: &Error) -> Vec<u8> {
            error.to_string().into()
        }
    }

    impl BlockedCommand for Pop {
        fn attempt(&self, engine: &Engine, candidate: Candidate<'_>, server: Server) -> RetryOutcome {
            let Some((claim, held)) = candidate.take(engine) else { return RetryOutcome::default() };
            let mut keys = Keys::new(engine, held, 0, ExecContext::client(server.now_us.ms()));
            let element = self.run(&mut keys);
            match element {
                Some(_) => claim.served(&mut keys),
                None => drop(claim),
            }
            keys.unlock();
            RetryOutcome { reply: element.map(|element| vec![element]), effects: std::mem::take(&mut keys.effects) }
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
                let client = Arc::new(ClientInfo::new(client, "", "", 0, 0, UnixMs(0)));
                let blocked = WaitingClient {
                    client,
                    token: 0,
                    deadline: None,
                    keys: names.iter().map(awaited).collect(),
                    hashes: all.iter().map(|name| keys.key(name).hash).collect(),
                };
                let ticket = engine.ticket(blocked, Box::new(request));
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
        (0..engine.locks().len()).map(|index| engine.locks().one(index).dbs[0].clients.wait_queues().len()).sum()
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
        engine.cancel_wait(&tickets[1]);
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
    use super::testing::{Post, SERVER, engine, hold, pop_or_wait, push};
    use super::*;
    use crate::time::SteadyMs;
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
                        engine.cancel_wait(&ticket);
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
            // A client that hands on takes nothing away.
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
            assert!(elements == 0 || waiting == 0, "a client waits for what is there");
        }
        assert_eq!(taken + left, 2, "an element was lost or taken twice");
    }

    /// A client that waits, one that pushes, and a pause: an element that the client does not get before comes after
    /// it.
    fn paused() {
        let post = Arc::new(Post::default());
        let engine = Arc::new(engine(&post));
        let waits = pop_or_wait(&engine, 0, &KEYS, None).unwrap_err();
        let pusher = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || push(&engine, KEYS[0], 1))
        };
        engine.begin_pause(Paused::All, SteadyMs(i64::MAX), SteadyMs(0));
        let mut next = 0;
        while !engine.pass_locks(&mut next, || false) {}
        let before = post.delivered.lock().len();
        let is_served = !waits.is_waiting();
        pusher.join().unwrap();
        assert_eq!(!waits.is_waiting(), is_served, "a client was served in a pause");
        engine.end_pause();
        engine.run_deferred(SERVER);
        assert!(before <= usize::from(is_served) && !waits.is_waiting() && post.delivered.lock().len() == 1);
    }

    #[test]
    fn no_client_is_served_in_a_pause_and_all_are_after_it() {
        shuttle::check_random(paused, 10_000);
        shuttle::check_pct(paused, 10_000, 4);
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
