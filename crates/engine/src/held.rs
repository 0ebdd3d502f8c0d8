//! The locks that one command holds, and how long it waits for others.
//!
//! ```text
//!   Held    what the dispatcher took:   Nothing | One | Several | Anything      ways of locks.rs
//!   Locks   what a command has:         index, one lock in place  |  others     one of the two
//! ```
//!
//! Nearly all commands have one lock. It lies apart, so that it is given up in place and not moved to be dropped.

use crate::engine::Engine;
use crate::hash::KeyHash;
use crate::locks::{Escalated, Several};
use crate::shard::Shard;
use crate::sync::MutexGuard;
use smallvec::SmallVec;
use std::cell::Cell;

/// The locks that a command holds; see [`crate::locks`] for the protocol.
pub enum Held<'e> {
    /// None for longer than a step: commands without keys, walks over the keyspace.
    Nothing,
    One(usize, MutexGuard<'e, Shard>),
    Several(Box<Several<'e, Shard>>),
    Anything(Box<Escalated<'e, Shard>>),
}

/// What a command does about a lock that is not free, as long as it has changed nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// It waits, unless a script keeps the server busy.
    #[default]
    Long,
    /// It waits for half a millisecond, and not at all once a script has run for so long, which may have the lock: it is run
    /// again later.
    Short,
}

/// Nanoseconds that who is short of patience waits for a lock, whoever has it: who has it may be in a call that does not
/// look at the clock, or have no processor.
const SHORT_WAIT: u64 = 500_000;

impl Patience {
    /// Whether it is at its end.
    pub fn is_over(self, engine: &Engine) -> bool {
        match self {
            Patience::Long => engine.scripts().is_busy(),
            Patience::Short => engine.scripts().is_long(),
        }
    }

    /// What a wait asks now and then from its beginning on: whether that is over.
    #[inline(always)]
    pub fn from_now(self, engine: &Engine) -> impl Fn() -> bool {
        let since = Cell::new(None);
        move || self.is_over(engine) || self == Patience::Short && has_waited(engine, &since)
    }
}

/// Whether it is long since this was asked for the first time.
#[cold]
fn has_waited(engine: &Engine, since: &Cell<Option<u64>>) -> bool {
    let now = engine.host().nanos();
    let began = since.get().unwrap_or(now);
    since.set(Some(began));
    now.saturating_sub(began) > SHORT_WAIT
}

impl<'e> Held<'e> {
    /// Locks the shards of these keys.
    #[inline(always)]
    pub fn keys(engine: &'e Engine, hashes: impl ExactSizeIterator<Item = KeyHash>) -> Self {
        Held::keys_unless(engine, hashes, || false).unwrap_or(Held::Nothing)
    }

    /// The same; None when that takes more patience.
    #[inline(always)]
    pub fn keys_with(
        engine: &'e Engine,
        hashes: impl ExactSizeIterator<Item = KeyHash>,
        patience: Patience,
    ) -> Option<Self> {
        Held::keys_unless(engine, hashes, patience.from_now(engine))
    }

    #[inline(always)]
    fn keys_unless(
        engine: &'e Engine,
        mut hashes: impl ExactSizeIterator<Item = KeyHash>,
        give_up: impl Fn() -> bool,
    ) -> Option<Self> {
        if hashes.len() <= 1 {
            let Some(only) = hashes.next().map(|hash| hash.shard()) else { return Some(Held::Nothing) };
            return Some(Held::One(only, engine.locks().one_unless(only, give_up)?));
        }
        Held::many(engine, hashes, give_up)
    }

    #[inline(never)]
    fn release(self) {}

    fn many(engine: &'e Engine, hashes: impl Iterator<Item = KeyHash>, give_up: impl Fn() -> bool) -> Option<Self> {
        let mut shards: SmallVec<[usize; 8]> = hashes.map(|hash| hash.shard()).collect();
        Some(match shards[..] {
            [] => Held::Nothing,
            [first, ..] if shards.iter().all(|shard| *shard == first) => {
                Held::One(first, engine.locks().one_unless(first, give_up)?)
            }
            _ => Held::Several(Box::new(engine.locks().several_unless(&mut shards, give_up)?)),
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
