//! The locks that one command holds, and how long it waits for others.
//!
//! ```text
//!   Held    what the dispatcher took:   Nothing | One | Several | Anything      ways of locks.rs
//!   Locks   what a command has:         index, one lock in place  |  others     one of the two
//! ```
//!
//! Nearly all commands have one lock. It lies apart, so that it is given up in place and not moved to be dropped.

use crate::data::key_hash::KeyHash;
use crate::engine::Engine;
use crate::keyspace::shard::Shard;
use crate::locks::protocol::{Escalated, Several};
use crate::locks::sync::MutexGuard;
use smallvec::SmallVec;
use std::cell::Cell;

/// The locks that a command holds; see [`crate::locks::protocol`] for the protocol.
pub enum Held<'e> {
    /// None for longer than a step: commands without keys, walks over the keyspace.
    Nothing,
    One(usize, MutexGuard<'e, Shard>),
    Several(Box<Several<'e, Shard>>),
    Anything(Box<Escalated<'e, Shard>>),
}

/// What a command does about a lock that is not free, as long as it has changed nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockTimeout {
    /// It waits, unless a script keeps the server busy.
    #[default]
    Long,
    /// It waits for half a millisecond for each, and not at all once a script has run for so long, which may have the lock:
    /// it is run again later.
    Short,
    /// It has been run so often in vain, and wants to be through in the end: of several locks it waits longer for each.
    Tried(u8),
    /// As [`Short`](Self::Short), while another one of the same thread has waited already: it hardly waits.
    None,
}

/// Nanoseconds that who is short of patience waits for a lock, whoever has it: who has it may be in a call that does not
/// look at the clock, or have no processor.
const SHORT_WAIT: u64 = 500_000;
/// As often that time doubles: up to what it takes until one who has a lock and no processor has one again. In others of
/// so many tries it stays as it is: who has the lock then is in a long call, and the thread has others to serve.
const DOUBLINGS: u8 = 4;
const TRIES: u8 = 16;

impl LockTimeout {
    /// Whether it is at its end.
    pub fn is_over(self, engine: &Engine) -> bool {
        match self {
            LockTimeout::Long => engine.scripts().is_busy(),
            _ => engine.scripts().is_long(),
        }
    }

    /// That of the next try, after one in vain. `first`: no other of the same thread is to be tried before.
    pub fn after_failure(self, first: bool) -> LockTimeout {
        match self {
            LockTimeout::Long => LockTimeout::Long,
            LockTimeout::Tried(tries) if first => LockTimeout::Tried((tries + 1) % TRIES),
            _ if first => LockTimeout::Tried(1),
            _ => LockTimeout::None,
        }
    }

    /// What a wait for one lock asks now and then from its beginning on: whether that is over.
    #[inline(always)]
    pub fn from_now(self, engine: &Engine) -> impl Fn() -> bool {
        self.wait(engine, SHORT_WAIT)
    }

    /// The same of who wants more than this lock, and gives those back that it has.
    pub fn among_several(self, engine: &Engine) -> impl Fn() -> bool {
        self.wait(engine, self.nanos_among_several())
    }

    fn nanos_among_several(self) -> u64 {
        let doublings = if let LockTimeout::Tried(tries @ ..=DOUBLINGS) = self { tries } else { 0 };
        SHORT_WAIT << doublings
    }

    #[inline(always)]
    fn wait(self, engine: &Engine, nanos: u64) -> impl Fn() -> bool {
        let since = Cell::new(None);
        move || self.is_over(engine) || self != LockTimeout::Long && self.has_waited(engine, nanos, &since)
    }

    /// Whether this was asked for the first time so long ago.
    #[cold]
    fn has_waited(self, engine: &Engine, nanos: u64, since: &Cell<Option<u64>>) -> bool {
        if self == LockTimeout::None {
            return true;
        }
        let now = engine.host().nanos();
        let began = since.get().unwrap_or(now);
        since.set(Some(began));
        now.saturating_sub(began) > nanos
    }
}

impl<'e> Held<'e> {
    /// Locks the shards of these keys.
    #[inline(always)]
    pub fn keys(engine: &'e Engine, hashes: impl ExactSizeIterator<Item = KeyHash>) -> Self {
        Held::keys_unless(engine, hashes, |_| || false).unwrap_or(Held::Nothing)
    }

    /// The same; None when that takes more patience.
    #[inline(always)]
    pub fn keys_with(
        engine: &'e Engine,
        hashes: impl ExactSizeIterator<Item = KeyHash>,
        patience: LockTimeout,
    ) -> Option<Self> {
        Held::keys_unless(engine, hashes, |several| {
            let nanos = if several { patience.nanos_among_several() } else { SHORT_WAIT };
            patience.wait(engine, nanos)
        })
    }

    /// `begin`: begins the wait for a lock, which may be one of several; what it gives is asked whether that is over.
    #[inline(always)]
    fn keys_unless<G: Fn() -> bool>(
        engine: &'e Engine,
        mut hashes: impl ExactSizeIterator<Item = KeyHash>,
        begin: impl Fn(bool) -> G,
    ) -> Option<Self> {
        if hashes.len() <= 1 {
            let Some(only) = hashes.next().map(|hash| hash.shard()) else { return Some(Held::Nothing) };
            return Some(Held::One(only, engine.locks().one_unless(only, begin(false))?));
        }
        Held::many(engine, hashes, begin)
    }

    #[inline(never)]
    fn release(self) {}

    fn many<G: Fn() -> bool>(
        engine: &'e Engine,
        hashes: impl Iterator<Item = KeyHash>,
        begin: impl Fn(bool) -> G,
    ) -> Option<Self> {
        let mut shards: SmallVec<[usize; 8]> = hashes.map(|hash| hash.shard()).collect();
        Some(match shards[..] {
            [] => Held::Nothing,
            [first, ..] if shards.iter().all(|shard| *shard == first) => {
                Held::One(first, engine.locks().one_unless(first, begin(false))?)
            }
            _ => Held::Several(Box::new(engine.locks().several_unless(&mut shards, || begin(true))?)),
        })
    }
}

/// The same as a command has them.
pub(crate) struct Locks<'e> {
    index: usize,
    one: Option<MutexGuard<'e, Shard>>,
    /// Not [`Held::One`], and nothing where there is `one`.
    others: Held<'e>,
}

impl<'e> Locks<'e> {
    #[inline(always)]
    pub fn of(held: Held<'e>) -> Self {
        match held {
            Held::One(index, guard) => Locks { index, one: Some(guard), others: Held::Nothing },
            others => Locks { index: 0, one: None, others },
        }
    }

    /// Takes all of them out.
    pub fn take(&mut self) -> Held<'e> {
        let others = std::mem::replace(&mut self.others, Held::Nothing);
        self.one.take().map_or(others, |guard| Held::One(self.index, guard))
    }

    #[inline(always)]
    pub fn release(&mut self) {
        self.one = None;
        if !matches!(self.others, Held::Nothing) {
            std::mem::replace(&mut self.others, Held::Nothing).release();
        }
    }

    pub fn is_nothing(&self) -> bool {
        self.one.is_none() && matches!(self.others, Held::Nothing)
    }

    /// Takes this lock, of whoever holds none.
    #[inline(always)]
    pub fn begin(&mut self, index: usize, guard: MutexGuard<'e, Shard>) {
        (self.index, self.one) = (index, Some(guard));
    }

    /// Gives up the lock that is held alone; whether there was one.
    pub fn give_up_only(&mut self) -> bool {
        self.one.take().is_some()
    }

    /// The shard, if its lock is the only one.
    #[inline(always)]
    pub fn only(&mut self, index: usize) -> Option<&mut Shard> {
        self.one.as_deref_mut().filter(|_| self.index == index)
    }

    /// The shard, which is one that the command may touch.
    #[inline(always)]
    pub fn get(&mut self, index: usize) -> &mut Shard {
        if let Some(guard) = &mut self.one {
            assert!(self.index == index, "a command touches declared keys only");
            return guard;
        }
        Self::among(&mut self.others, index)
    }

    #[inline(never)]
    fn among<'h>(others: &'h mut Held<'e>, index: usize) -> &'h mut Shard {
        match others {
            Held::Several(several) => several.get(index),
            Held::Anything(any) => any.get(index),
            Held::One(..) | Held::Nothing => panic!("a command touches declared keys only"),
        }
    }

    /// The shard, if it is locked already.
    pub fn look(&self, index: usize) -> Option<&Shard> {
        match (&self.one, &self.others) {
            (Some(guard), _) => Some(&**guard).filter(|_| self.index == index),
            (None, Held::Several(several)) => several.held(index),
            (None, Held::Anything(any)) => any.held(index),
            (None, _) => None,
        }
    }

    /// The shard, if it is locked or the command has the right to any.
    pub fn reach(&mut self, index: usize) -> Option<&mut Shard> {
        match (&mut self.one, &mut self.others) {
            (Some(guard), _) => Some(&mut **guard).filter(|_| self.index == index),
            (None, Held::Several(several)) => several.held_mut(index),
            (None, Held::Anything(any)) => Some(any.get(index)),
            (None, _) => None,
        }
    }

    /// Whether the shard may be touched.
    #[inline]
    pub fn reaches(&self, index: usize) -> bool {
        match &self.others {
            Held::Several(several) => several.held(index).is_some(),
            Held::Anything(_) => true,
            _ => self.one.is_some() && self.index == index,
        }
    }

    /// Whether any shard may be touched.
    pub fn reaches_all(&self) -> bool {
        matches!(self.others, Held::Anything(_))
    }

    /// The right to any shard, of whoever has it.
    pub fn any(&mut self) -> Option<&mut Escalated<'e, Shard>> {
        match &mut self.others {
            Held::Anything(any) => Some(any),
            _ => None,
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::host::clock::Clock;

    use crate::{Host, Options};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::sync::{Arc, Mutex, OnceLock};

    /// Its clock is read by those who wait: a third of a millisecond passes each time, and a lock becomes free.
    #[derive(Default)]
    struct Slow {
        clock: AtomicU64,
        frees: OnceLock<Mutex<(SyncSender<()>, Receiver<()>)>>,
    }

    impl Clock for Slow {
        fn nanos(&self) -> u64 {
            if let Some(frees) = self.frees.get() {
                let (ask, done) = &*frees.lock().expect("no test panics here");
                if ask.send(()).is_ok() {
                    done.recv().expect("an answer");
                }
            }
            self.clock.fetch_add(300_000, Relaxed)
        }
    }

    crate::host_defaults!(Slow: Memory, Files, Threads, Peers, Process, Log, Connections, Delivery, EffectSink);

    fn engine() -> (Engine, Arc<Slow>, Vec<KeyHash>) {
        let host = Arc::new(Slow::default());
        let options = Options { shards: 8, databases: 1, hash_seed: 7, workers: 1 };
        let engine = Engine::new(&options, Arc::clone(&host) as Arc<dyn Host>);
        let mut hashes = vec![];
        for n in 0.. {
            let hash = engine.hasher().hash(format!("{n}").as_bytes());
            if !hashes.iter().any(|other: &KeyHash| other.shard() == hash.shard()) {
                hashes.push(hash);
            }
            if hashes.len() == 8 {
                break;
            }
        }
        (engine, host, hashes)
    }

    #[test]
    fn each_of_many_locks_is_waited_for_by_itself() {
        let (engine, host, hashes) = engine();
        let ((ask, asked), (done, wait)) = (sync_channel(0), sync_channel(0));
        let (locked, begin) = sync_channel(0);
        std::thread::scope(|scope| {
            let engine = &engine;
            scope.spawn(move || {
                let guards: Vec<_> = (0..8).map(|index| engine.locks().one(index)).collect();
                locked.send(()).expect("a receiver");
                for guard in guards {
                    let Ok(()) = asked.recv() else { return };
                    drop(guard);
                    done.send(()).expect("a receiver");
                }
            });
            begin.recv().expect("all are locked");
            assert!(host.frees.set(Mutex::new((ask, wait))).is_ok());
            let held = Held::keys_with(engine, hashes.into_iter(), LockTimeout::Short);
            assert!(matches!(held, Some(Held::Several(_))), "all became free in time");
        });
    }

    #[test]
    fn who_fails_waits_longer_for_several_locks_but_not_for_one() {
        let (engine, host, hashes) = engine();
        let _held = engine.locks().one(hashes[0].shard());
        let looks = |count: usize, patience| {
            let before = host.clock.load(Relaxed);
            assert!(Held::keys_with(&engine, hashes[..count].iter().copied(), patience).is_none());
            (host.clock.load(Relaxed) - before) / 300_000
        };
        let mut patience = LockTimeout::Short;
        let mut seen = vec![];
        for _ in 0..7 {
            seen.push((looks(8, patience), looks(1, patience)));
            patience = patience.after_failure(true);
        }
        assert_eq!(seen, [(3, 3), (5, 3), (8, 3), (15, 3), (28, 3), (3, 3), (3, 3)]);
        assert_eq!((looks(8, patience.after_failure(false)), looks(1, LockTimeout::None)), (0, 0));
        assert_eq!(LockTimeout::None.after_failure(true), LockTimeout::Tried(1));
        assert_eq!(LockTimeout::Long.after_failure(true), LockTimeout::Long);
        assert_eq!(LockTimeout::Tried(TRIES - 1).after_failure(true), LockTimeout::Tried(0));
    }
}
