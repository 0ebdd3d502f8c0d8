//! The rounds of a migration; see the [module above](super).

use super::exchange::{PeerAnswers, exchange};
use super::{Named, Order};
use crate::blocking::{Elsewhere, Permit};
use crate::core::context::Context;
use crate::persistence::write_options::style;
use engine::clients::waiters::Ticket;
use engine::clients::watch::WatchFlag;
use engine::data::event_class::EventClass;
use engine::data::key_hash::KeyHash;
use engine::held_writes::HeldWrites;
use engine::host::threads::Server;
use engine::keyspace::caller::ExecContext;
use engine::keyspace::caller::is_due;
use engine::keyspace::held_locks::{HeldLocks, LockTimeout};
use engine::keyspace::keys::Keys;
use engine::propagation::effects::Author;
use engine::propagation::effects::{Logged, Record};
use engine::propagation::log_batch::put_command;
use engine::status::pause::Hold;
use engine::time::{UnixMs, UnixUs};
use engine::{Engine, Error};
use persistence::dump::{ChunkedDump, dump_widely};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// Rounds in which everybody may write to the keys, and rounds after that.
const FREE_ROUNDS: usize = 4;
const HELD_ROUNDS: usize = 8;

/// Pause before a lock is tried again that a script holds.
const RETRY: Duration = Duration::from_millis(1);

/// Bytes of a large value that are dumped under one hold of its lock.
const PIECE: usize = 32 << 10;

/// A key that was sent.
struct Sent {
    named: Named,
    hash: KeyHash,
    /// Flag that a change of the key raises; None for one that is gone already.
    flag: Option<Arc<WatchFlag>>,
}

/// Keys that were sent, and whether the target has each.
type Answered = Vec<(Sent, bool)>;

/// Commands for the target, one after the other.
#[derive(Default)]
struct Parcel {
    bytes: Vec<u8>,
    count: usize,
    sent: Vec<Sent>,
}

/// The reason that a migration ends early.
pub enum Stop {
    ServerEnds,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

/// Sends keys of this database away, and removes them.
///
/// # Errors
/// The server ends, or the error for the client.
pub fn run(
    engine: &Engine,
    waiting: &Elsewhere,
    order: &Order,
    db: u32,
    named: Vec<Named>,
) -> Result<&'static str, Stop> {
    let permit = &**waiting.permit();
    if order.copy {
        let parcel = permitted(engine, permit, db, &named, |keys| pack(keys, order, named.clone(), false))?;
        return Ok(outcome(&parcel, send(engine, order, &parcel).error)?);
    }
    let _claim = engine.links().claim(named.iter().map(|(name, _)| (db, name.clone())).collect());
    let parcel = pack_and_watch(engine, permit, db, order, named, false)?;
    let answers = send(engine, order, &parcel);
    let first = outcome(&parcel, answers.error);
    let mut changed = settle(engine, waiting, db, parcel.sent, &answers.done)?;
    let mut hold = None;
    for round in 1..FREE_ROUNDS + HELD_ROUNDS {
        if changed.is_empty() {
            return Ok(first?);
        }
        if round == FREE_ROUNDS {
            hold = HeldWrites::begin_settled(engine, Hold::Migrate, || false);
        }
        let parcel = pack_and_watch(engine, permit, db, order, changed, true)?;
        let answers = send(engine, order, &parcel);
        changed = settle(engine, waiting, db, parcel.sent, &answers.done)?;
        if let Some(error) = answers.error {
            return Err(first.err().unwrap_or(error).into());
        }
    }
    drop(hold);
    let status = first?;
    if changed.is_empty() { Ok(status) } else { Err(Error::MigratedKeyChanges.into()) }
}

/// Sends keys away and removes them for a caller that holds the locks, and cannot wait.
pub fn at_once(cx: &mut Context<'_>, order: &Order, named: Vec<Named>) -> Result<(), Error> {
    let (engine, db) = (cx.engine, cx.keys.db_index());
    if !order.copy && named.iter().any(|(name, _)| engine.links().is_moving(db, name)) {
        return Err(Error::MigratingAlready);
    }
    let parcel = pack(&mut cx.keys, order, named, false);
    let answers = send(engine, order, &parcel);
    if !order.copy {
        let taken = parcel.sent.into_iter().zip(&answers.done).filter(|(_, done)| **done);
        remove(&mut cx.keys, taken.map(|(sent, _)| sent.named));
    }
    answers.error.map_or(Ok(()), Err)
}

fn outcome(parcel: &Parcel, error: Option<Error>) -> Result<&'static str, Error> {
    match error {
        Some(error) => Err(error),
        None if parcel.sent.is_empty() => Ok("NOKEY"),
        None => Ok("OK"),
    }
}

/// Runs work under the locks of these keys.
fn locked<R>(engine: &Engine, db: u32, named: &[Named], work: impl FnOnce(&mut Keys<'_>) -> R) -> R {
    let hashes: Vec<KeyHash> = named.iter().map(|(name, _)| engine.hasher().hash(name)).collect();
    let now = engine.host().unix_us(UnixUs(0)).ms();
    let mut keys = Keys::new(engine, HeldLocks::keys(engine, hashes.into_iter()), db, ExecContext::client(now));
    let result = work(&mut keys);
    keys.unlock();
    result
}

/// Runs work under the locks of these keys, if the client's user may run the command.
fn permitted<R>(
    engine: &Engine,
    permit: &Permit,
    db: u32,
    named: &[Named],
    work: impl FnOnce(&mut Keys<'_>) -> R,
) -> Result<R, Error> {
    locked(engine, db, named, |keys| permit.check(engine).map(|()| work(keys)))
}

/// Ends the watch of these keys.
fn forget(engine: &Engine, db: u32, sent: Vec<Sent>) {
    for Sent { named, hash, flag } in sent {
        let Some(flag) = flag else { continue };
        locked(engine, db, std::slice::from_ref(&named), |keys| {
            keys.shard_at(hash).dbs[db].clients.unwatch(&named.0, &flag);
        });
    }
}

/// Returns commands that give the target these keys as they are. `again`: the target has a former state of them, also
/// of keys that are gone.
fn pack(keys: &mut Keys<'_>, order: &Order, named: Vec<Named>, again: bool) -> Parcel {
    let keyspace = keys.keyspace();
    let style = style(&keyspace.config().snapshot());
    let now = keyspace.clock().unix_us(keys.origin().now.us()).ms();
    let mut parcel = Parcel::default();
    for (name, times) in named {
        let key = keys.key(&name);
        let hash = key.hash;
        let entry = keys.lookup_no_expire(key);
        let there = entry.filter(|entry| !entry.expiry().is_some_and(|at| is_due(at, now)));
        let Some(entry) = there else {
            if again {
                // The slot may be on its way there.
                if order.asks {
                    put_command(&mut parcel.bytes, [&b"ASKING"[..]].into_iter());
                }
                put_command(&mut parcel.bytes, [&b"DEL"[..], &name].into_iter());
                let answers = 1 + usize::from(order.asks);
                parcel.count += answers;
                parcel.sent.push(Sent { named: (name, answers), hash, flag: None });
            }
            continue;
        };
        let (expiry, payload) = (entry.expiry(), dump_widely(&entry.value(), &style));
        put_restore(&mut parcel, order, (&name, if again { 1 } else { times }), expiry, now, &payload, again);
        parcel.sent.push(Sent { named: (name, if again { 1 } else { times }), hash, flag: None });
    }
    parcel
}

/// Adds RESTORE, as often as the key was named.
fn put_restore(
    parcel: &mut Parcel,
    order: &Order,
    (name, times): (&[u8], usize),
    expiry: Option<u64>,
    now: UnixMs,
    payload: &[u8],
    again: bool,
) {
    let left = expiry.map_or(0, |at| (at as i64 - now.0).max(1)).to_string();
    let restore = if order.asks { &b"RESTORE-ASKING"[..] } else { b"RESTORE" };
    let words = [restore, name, left.as_bytes(), payload, b"REPLACE"];
    let words = &words[..if order.replace || again { 5 } else { 4 }];
    for _ in 0..times {
        put_command(&mut parcel.bytes, words.iter().copied());
    }
    parcel.count += times;
}

/// Packs a large value, a piece under a hold of its lock; None if the value is small, or was changed meanwhile.
fn pack_in_pieces(
    engine: &Engine,
    permit: &Permit,
    db: u32,
    order: &Order,
    one: &Named,
    again: bool,
) -> Result<Option<Parcel>, Error> {
    let style = style(&engine.config().snapshot());
    let only = std::slice::from_ref(one);
    let begun = permitted(engine, permit, db, only, |keys| {
        let key = keys.key(&one.0);
        let entry = keys.lookup_no_expire(key)?;
        let gradual = ChunkedDump::begin(&entry.value(), &style)?;
        let mut sent = Sent { named: (one.0.clone(), if again { 1 } else { one.1 }), hash: key.hash, flag: None };
        watch(keys, db, &mut sent);
        Some((gradual, sent))
    })?;
    let Some((mut gradual, sent)) = begun else { return Ok(None) };
    // A key without a flag has expired.
    let Some(flag) = sent.flag.clone() else { return Ok(None) };
    let expiry = loop {
        let step = permitted(engine, permit, db, only, |keys| {
            let entry = keys.lookup_no_expire(keys.key(&one.0)).filter(|_| !flag.is_raised());
            let Some(entry) = entry else { return Some(None) };
            gradual.step(&entry.value(), PIECE).then(|| Some(entry.expiry()))
        });
        match step {
            Ok(None) => {}
            Ok(Some(Some(expiry))) => break expiry,
            Ok(Some(None)) => {
                forget(engine, db, vec![sent]);
                return Ok(None);
            }
            Err(error) => {
                forget(engine, db, vec![sent]);
                return Err(error);
            }
        }
    };
    let (mut parcel, now) = (Parcel::default(), engine.host().unix_us(UnixUs(0)).ms());
    put_restore(&mut parcel, order, (&one.0, sent.named.1), expiry, now, &gradual.finish(), again);
    parcel.sent.push(sent);
    Ok(Some(parcel))
}

/// Packs each key under its own lock: later changes raise its flag, so the keys need not be of one moment.
fn pack_and_watch(
    engine: &Engine,
    permit: &Permit,
    db: u32,
    order: &Order,
    named: Vec<Named>,
    again: bool,
) -> Result<Parcel, Error> {
    let mut all = Parcel::default();
    for one in named {
        let at_once = || {
            permitted(engine, permit, db, std::slice::from_ref(&one), |keys| {
                let mut parcel = pack(keys, order, vec![one.clone()], again);
                parcel.sent.iter_mut().for_each(|sent| watch(keys, db, sent));
                parcel
            })
        };
        let packed = pack_in_pieces(engine, permit, db, order, &one, again);
        match packed.and_then(|parcel| parcel.map_or_else(at_once, Ok)) {
            Ok(mut parcel) => {
                all.bytes.append(&mut parcel.bytes);
                all.count += parcel.count;
                all.sent.append(&mut parcel.sent);
            }
            Err(error) => {
                forget(engine, db, all.sent);
                return Err(error);
            }
        }
    }
    Ok(all)
}

/// Watches a packed key from now on.
fn watch(keys: &mut Keys<'_>, db: u32, sent: &mut Sent) {
    let (now, name) = (keys.expiry_now(), &sent.named.0);
    let slot = &mut keys.shard_at(sent.hash).dbs[db];
    if slot.value_type(sent.hash.local(), name, now).is_some() {
        let flag = Arc::new(WatchFlag::default());
        slot.clients.watch(name, &flag, false);
        sent.flag = Some(flag);
    }
}

/// Returns the target's result for each key: it has a key that it has accepted once.
fn send(engine: &Engine, order: &Order, parcel: &Parcel) -> PeerAnswers {
    if parcel.count == 0 {
        return PeerAnswers::default();
    }
    let PeerAnswers { done, error } = exchange(engine, order, &parcel.bytes, parcel.count);
    let mut answers = done.into_iter();
    let done = parcel.sent.iter().map(|sent| answers.by_ref().take(sent.named.1).fold(false, |any, one| any | one));
    PeerAnswers { done: done.collect(), error }
}

/// Removes the keys that the target has, if they are as they were sent, and returns those that are not.
fn settle(engine: &Engine, waiting: &Elsewhere, db: u32, sent: Vec<Sent>, done: &[bool]) -> Result<Vec<Named>, Stop> {
    let mut parcel: Answered = sent.into_iter().zip(done.iter().copied()).collect();
    loop {
        let (tell, told) = mpsc::sync_channel(1);
        let (ticket, permit) = (Arc::clone(waiting.ticket()), Arc::clone(waiting.permit()));
        let work = move |engine: &Engine, server: Server| {
            _ = tell.send(try_settle(engine, server, (&ticket, &permit), db, parcel));
        };
        engine.host().on_worker(waiting.worker(), Box::new(work));
        match told.recv().map_err(|_| Stop::ServerEnds)? {
            Ok(changed) => return Ok(changed?),
            Err(back) => parcel = back,
        }
        engine.host().rest(RETRY);
    }
}

/// Attempts the removal, and returns everything if it has to be made later. The error is for a client whose user may
/// not run the command any more.
fn try_settle(
    engine: &Engine,
    server: Server,
    (ticket, permit): (&Ticket, &Permit),
    db: u32,
    parcel: Answered,
) -> Result<Result<Vec<Named>, Error>, Answered> {
    let hashes: Vec<KeyHash> = parcel.iter().map(|(sent, _)| sent.hash).collect();
    let Some(held) = HeldLocks::keys_with(engine, hashes.into_iter(), LockTimeout::Short) else { return Err(parcel) };
    // Under the locks: a thread that has paused and passed all locks knows that nothing is written.
    if engine.pause().is_strict() {
        return Err(parcel);
    }
    let permitted = permit.check(engine);
    let mut keys = Keys::new(engine, held, db, ExecContext::client(server.now_us.ms()));
    let (mut changed, mut resting) = (Vec::new(), Vec::new());
    for (sent, done) in parcel {
        let Some(flag) = sent.flag else { continue };
        keys.shard_at(sent.hash).dbs[db].clients.unwatch(&sent.named.0, &flag);
        match (done && permitted.is_ok(), flag.is_raised()) {
            (true, false) => resting.push(sent.named),
            (true, true) => changed.push(sent.named),
            (false, _) => {}
        }
    }
    remove(&mut keys, resting.into_iter());
    keys.record(db, || (&[]).into());
    ticket.request().note_logged(keys.take_own_records().changed_to);
    let mut effects = keys.release();
    // The client may be gone, and gets no invalidation in any case: it need not forget by itself the keys that it
    // moves.
    let ready = engine.publish(&mut effects, Author { worker: server.worker, client: 0 });
    engine.serve(ready, server);
    Ok(permitted.map(|()| changed))
}

fn remove(keys: &mut Keys<'_>, named: impl Iterator<Item = Named>) {
    let mut record: Record = vec![b"DEL".to_vec()];
    for (name, _) in named {
        let mut edit = keys.edit_stale(keys.key(&name));
        if edit.remove() {
            edit.commit(EventClass::GENERIC, "del");
            record.push(name);
        }
    }
    if record.len() > 1 && keys.keyspace().has_log() {
        keys.effects.rare().logged = Logged::As(vec![record]);
    }
}
