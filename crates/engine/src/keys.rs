//! The keyspace as one command sees it: the shards that it has locked, and what it does there.
//!
//! Reading goes through [`Keys::find`], writing through an [`Edit`](crate::edit::Edit), walking over
//! everything through [`Keys::each_shard`]. All three work the same whether the command has one shard
//! locked, several, or may take any.

use crate::Error;
use crate::access::{self, AccessClock};
use crate::blocked::{Blocked, Ticket};
use crate::edit::{self, Edit};
use crate::effects::{Effects, Event, EventClass};
use crate::engine::Engine;
use crate::hash::KeyHash;
use crate::locks::{Claim, Escalated, Several};
use crate::shard::Shard;
use crate::sync::MutexGuard;
use crate::value::{Collection, KeyEntry, Str, Value, ValueExt};
use smallvec::SmallVec;
use std::sync::Arc;
use structures::hashtable::{Ref, Spot};

/// A key's name and its hash.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    pub name: &'a [u8],
    pub hash: KeyHash,
}

/// A key's entry, as readers see it.
pub type Found<'a> = Ref<'a, KeyEntry>;

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
    /// It waits, unless a script has run for a while, which may have the lock: it is run again later.
    Short,
}

impl Patience {
    /// Whether it is at its end.
    pub fn is_over(self, engine: &Engine) -> bool {
        match self {
            Patience::Long => engine.scripts().is_busy(),
            Patience::Short => engine.scripts().is_long(),
        }
    }
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
        Held::keys_unless(engine, hashes, || patience.is_over(engine))
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

/// The same as a command has them: the one lock of most commands lies apart, so that it is given up in place.
struct Locks<'e> {
    index: usize,
    one: Option<MutexGuard<'e, Shard>>,
    /// Not [`Held::One`], and nothing where there is `one`.
    others: Held<'e>,
}

impl<'e> Locks<'e> {
    #[inline(always)]
    fn of(held: Held<'e>) -> Self {
        match held {
            Held::One(index, guard) => Locks { index, one: Some(guard), others: Held::Nothing },
            others => Locks { index: 0, one: None, others },
        }
    }

    /// Takes all of them out.
    fn take(&mut self) -> Held<'e> {
        let others = std::mem::replace(&mut self.others, Held::Nothing);
        self.one.take().map_or(others, |guard| Held::One(self.index, guard))
    }

    #[inline(always)]
    fn release(&mut self) {
        self.one = None;
        if !matches!(self.others, Held::Nothing) {
            std::mem::replace(&mut self.others, Held::Nothing).release();
        }
    }

    fn is_nothing(&self) -> bool {
        self.one.is_none() && matches!(self.others, Held::Nothing)
    }
}

/// A time before all deadlines.
const NO_TIME: i64 = -1;

/// One command's access to the keyspace.
pub struct Keys<'e> {
    engine: &'e Engine,
    held: Locks<'e>,
    db: u32,
    now: i64,
    /// The seconds of [`AccessClock::Recency`] at `now`.
    seconds: u32,
    /// Reads leave the access clock alone (CLIENT NO-TOUCH).
    no_touch: bool,
    patience: Patience,
    pub effects: Effects,
}

impl<'e> Keys<'e> {
    /// `now`: Unix time in milliseconds; it stands still for the command.
    #[inline(always)]
    pub fn new(engine: &'e Engine, held: Held<'e>, db: u32, now: i64) -> Self {
        Keys {
            engine,
            held: Locks::of(held),
            db,
            now,
            seconds: (now / 1000) as u32 & structures::entry::MAX_META,
            no_touch: false,
            patience: Patience::Long,
            effects: Effects::default(),
        }
    }

    /// Begins anew for the next command of the same client, with the lock of its one key's shard. Only after
    /// [`unlock`](Self::unlock), with the effects dealt with.
    #[inline(always)]
    pub fn begin_with(&mut self, shard: usize, guard: MutexGuard<'e, Shard>, db: u32) {
        self.held.index = shard;
        self.held.one = Some(guard);
        self.db = db;
        self.effects.dirty = 0;
    }

    pub fn engine(&self) -> &'e Engine {
        self.engine
    }

    /// Unix time in milliseconds.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Nothing is over and nothing is marked as accessed: for commands of the past, at whose time there was what they found, and
    /// for those who bring them.
    pub fn stop_time(&mut self) {
        (self.now, self.no_touch) = (NO_TIME, true);
    }

    pub fn set_no_touch(&mut self, no_touch: bool) {
        self.no_touch = no_touch;
    }

    pub fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// The database that keys are looked up in from now on.
    pub fn select(&mut self, db: u32) {
        self.db = db;
    }

    pub fn db_index(&self) -> u32 {
        self.db
    }

    /// Hashes a name that the command row did not tell of.
    pub fn key<'k>(&self, name: &'k [u8]) -> Key<'k> {
        Key { name, hash: self.engine.hasher().hash(name) }
    }

    /// The key's entry; counts a hit or a miss and marks the access. An expired key is removed and not found.
    #[inline(always)]
    pub fn find(&mut self, key: Key<'_>) -> Option<Found<'_>> {
        let clock = if self.no_touch { None } else { Some(self.engine.access_clock(self.now)) };
        self.lookup(key, clock, true)
    }

    /// As [`find`](Self::find), but the access is not marked: for commands that ask about a key, not for its
    /// value (TYPE, TTL).
    pub fn look(&mut self, key: Key<'_>) -> Option<Found<'_>> {
        self.lookup(key, None, true)
    }

    /// As [`look`](Self::look), but nobody is told of a miss: for commands that ask how a key is kept (OBJECT).
    pub fn inspect(&mut self, key: Key<'_>) -> Option<Found<'_>> {
        self.lookup(key, None, false)
    }

    /// Not inlined: handlers are small and this is not.
    #[inline(never)]
    fn lookup(&mut self, key: Key<'_>, clock: Option<AccessClock>, tells: bool) -> Option<Found<'_>> {
        let (index, local) = place(key);
        let shard = Self::shard_of(&mut self.held, index);
        let db = self.db as usize;
        let table = &shard.dbs[db].table;
        let mut deadline = None;
        let spot = table.spot(local, |entry| {
            let same = entry.has_key(key.name);
            if same {
                deadline = entry.deadline();
            }
            same
        });
        let Some(spot) = spot else {
            shard.stats.misses += 1;
            if tells {
                notify(self.engine, &mut self.effects, self.db, EventClass::KEY_MISS, "keymiss", key.name);
            }
            return None;
        };
        if deadline.is_some_and(|deadline| access::is_due(deadline, self.now)) {
            shard.stats.misses += 1;
            if !self.engine.keeps_expired() {
                access::expire(self.engine, shard, &mut self.effects, self.db, local, key.name);
            }
            if tells {
                notify(self.engine, &mut self.effects, self.db, EventClass::KEY_MISS, "keymiss", key.name);
            }
            return None;
        }
        shard.stats.hits += 1;
        let found = shard.dbs[db].table.at(spot)?;
        if let Some(clock) = clock {
            mark(&found, clock);
        }
        Some(found)
    }

    /// What `then` makes of the key's entry, which is looked up as [`find`](Self::find) does.
    #[inline(always)]
    pub fn read<R>(&mut self, key: Key<'_>, then: impl FnOnce(Option<&Found<'_>>) -> R) -> R {
        let (index, local) = place(key);
        if let Some(guard) = &mut self.held.one
            && self.held.index == index
            && !self.no_touch
        {
            let shard: &mut Shard = guard;
            let found = shard.dbs[self.db as usize].table.find(local, |entry| entry.has_key(key.name));
            let lives = |found: &Found<'_>| found.deadline().is_none_or(|at| !access::is_due(at, self.now));
            if let Some(found) = found.filter(lives) {
                shard.stats.hits += 1;
                if found.meta() != self.seconds || self.engine.counts_frequency() {
                    mark(&found, self.engine.access_clock(self.now));
                }
                return then(Some(&found));
            }
        }
        then(self.find(key).as_ref())
    }

    /// The key's entry, without leaving a trace of the look: no statistics, no access clock.
    pub fn peek(&mut self, key: Key<'_>) -> Option<Found<'_>> {
        let (index, local) = place(key);
        let shard = Self::shard_of(&mut self.held, index);
        if self.engine.keeps_expired() {
            let found = shard.dbs[self.db as usize].table.find(local, |entry| entry.key() == key.name)?;
            let due = found.deadline().is_some_and(|deadline| access::is_due(deadline, self.now));
            return (!due).then_some(found);
        }
        let spot = live_spot(self.engine, shard, &mut self.effects, self.db, local, key.name, self.now)?;
        shard.dbs[self.db as usize].table.at(spot)
    }

    /// As [`peek`](Self::peek), of a key whose time is over too.
    pub fn peek_stale(&mut self, key: Key<'_>) -> Option<Found<'_>> {
        let (index, local) = place(key);
        let shard = Self::shard_of(&mut self.held, index);
        shard.dbs[self.db as usize].table.find(local, |entry| entry.key() == key.name)
    }

    /// The value of a key that this command has [found](Self::find) before, without another trace: for commands that
    /// read several keys at the same time. What has expired since is still there.
    pub fn together(&self, key: Key<'_>) -> Option<Value<'_>> {
        let (index, local) = place(key);
        let shard: &Shard = match (&self.held.one, &self.held.others) {
            (Some(guard), _) => Some(&**guard).filter(|_| self.held.index == index),
            (None, Held::Several(several)) => several.held(index),
            (None, Held::Anything(any)) => any.held(index),
            (None, _) => None,
        }?;
        let found = shard.dbs[self.db as usize].table.find(local, |entry| entry.key() == key.name)?;
        Some(found.value())
    }

    /// The key's value, or None.
    #[inline(always)]
    pub fn value(&mut self, key: Key<'_>) -> Option<Value<'_>> {
        self.find(key).map(|found| found.value())
    }

    /// The key's string, or None.
    #[inline(always)]
    pub fn string(&mut self, key: Key<'_>) -> Result<Option<Str<'_>>, Error> {
        self.value(key).map(|value| value.as_string()).transpose()
    }

    /// The key's collection, or None.
    #[inline(always)]
    pub fn collection<C: Collection>(&mut self, key: Key<'_>) -> Result<Option<C::Ref<'_>>, Error> {
        self.value(key).map(|value| value.as_collection::<C>()).transpose()
    }

    /// The right to change a key; nothing happens until something is changed and committed.
    #[inline]
    pub fn edit<'k>(&'k mut self, key: Key<'k>) -> Edit<'k> {
        let (index, local) = place(key);
        let shard = Self::shard_of(&mut self.held, index);
        let spot = live_spot(self.engine, shard, &mut self.effects, self.db, local, key.name, self.now);
        Edit::new(self.engine, shard, &mut self.effects, self.db, key, local, spot, self.now)
    }

    /// The same for whoever takes the key away without a look at whether its time is over: that is a removal like others.
    pub fn edit_stale<'k>(&'k mut self, key: Key<'k>) -> Edit<'k> {
        let (index, local) = place(key);
        let shard = Self::shard_of(&mut self.held, index);
        let spot = shard.dbs[self.db as usize].table.spot(local, |entry| entry.key() == key.name);
        Edit::new(self.engine, shard, &mut self.effects, self.db, key, local, spot, self.now)
    }

    /// The right to put a result in the place of whatever the key holds, or, where it `is_empty`, to take that away.
    pub fn edit_for_result<'k>(&'k mut self, key: Key<'k>, is_empty: bool) -> Edit<'k> {
        if is_empty { self.edit_stale(key) } else { self.edit(key) }
    }

    /// [`edit::update_int`] of a key whose shard's lock is the only one.
    #[inline(always)]
    pub fn update_int(
        &mut self,
        key: Key<'_>,
        class: EventClass,
        change: impl FnOnce(i64) -> Result<i64, Error>,
    ) -> Option<Result<i64, Error>> {
        let (index, local) = place(key);
        let shard = self.held.one.as_deref_mut().filter(|_| self.held.index == index)?;
        edit::update_int(self.engine, shard, &mut self.effects, self.db, key, local, self.now, class, change)
    }

    /// [`edit::update_collection`] of a key whose shard's lock is the only one.
    #[inline(always)]
    pub fn update<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        class: EventClass,
        change: impl FnOnce(&mut C) -> Option<(u64, R)>,
    ) -> Option<R> {
        let (index, local) = place(key);
        let shard = self.held.one.as_deref_mut().filter(|_| self.held.index == index)?;
        edit::update_collection(self.engine, shard, &mut self.effects, self.db, key, local, self.now, class, change)
    }

    /// Something happened to a key that no edit covers.
    pub fn notify(&mut self, class: EventClass, name: &'static str, key: &[u8]) {
        notify(self.engine, &mut self.effects, self.db, class, name, key);
    }

    /// Visits every shard, one at a time. Locks that are not held already are held for the visit only,
    /// unless the command may take anything: then they stay, and the whole walk is atomic.
    ///
    /// # Errors
    /// [`Error::NOT_NOW`]: not all were visited.
    pub fn each_shard(&mut self, mut visit: impl FnMut(usize, &mut Shard, &mut Effects)) -> Result<(), Error> {
        (0..self.engine.locks().len())
            .try_for_each(|index| self.with_shard(index, |shard, effects| visit(index, shard, effects)))
    }

    /// One shard, locked for the call if it is not held already. Only for commands without declared keys:
    /// who holds a few locks must not wait for another.
    ///
    /// # Errors
    /// [`Error::NOT_NOW`]
    pub fn with_shard<R>(
        &mut self,
        index: usize,
        visit: impl FnOnce(&mut Shard, &mut Effects) -> R,
    ) -> Result<R, Error> {
        let held = match (&mut self.held.one, &mut self.held.others) {
            (Some(guard), _) => Some(&mut **guard).filter(|_| self.held.index == index),
            (None, Held::Anything(any)) => Some(any.get(index)),
            (None, Held::Several(several)) => several.held_mut(index),
            (None, _) => None,
        };
        if let Some(shard) = held {
            return Ok(visit(shard, &mut self.effects));
        }
        let (engine, patience) = (self.engine, self.patience);
        let guard = engine.locks().one_unless(index, || patience.is_over(engine));
        let mut guard = guard.ok_or(Error::NOT_NOW)?;
        Ok(visit(&mut guard, &mut self.effects))
    }

    /// Locks the shards of these keys for a command whose row does not name them. Only for commands that hold nothing.
    ///
    /// # Errors
    /// [`Error::NOT_NOW`]
    pub fn hold(&mut self, hashes: impl ExactSizeIterator<Item = KeyHash>) -> Result<(), Error> {
        if self.held.is_nothing() {
            self.held = Locks::of(Held::keys_with(self.engine, hashes, self.patience).ok_or(Error::NOT_NOW)?);
        }
        Ok(())
    }

    /// The ticket waits at all of its keys, whose locks must be held.
    pub fn wait(&mut self, ticket: &Arc<Ticket>) {
        for key in ticket.keys() {
            self.blocked(key.db, key.hash).wait(&key.name, ticket);
        }
    }

    /// The queues that a key of this hash is in.
    pub(crate) fn blocked(&mut self, db: u32, hash: KeyHash) -> &mut Blocked {
        &mut self.shard_at(hash).dbs[db as usize].blocked
    }

    /// The shard of a key whose lock is held.
    pub fn shard_at(&mut self, hash: KeyHash) -> &mut Shard {
        Self::shard_of(&mut self.held, hash.shard())
    }

    /// The shard of this key, locked for the call if the command holds nothing.
    ///
    /// # Errors
    /// [`Error::NOT_NOW`]
    pub fn with_shard_of<R>(
        &mut self,
        key: Key<'_>,
        visit: impl FnOnce(&mut Shard, &mut Effects) -> R,
    ) -> Result<R, Error> {
        let (index, _) = place(key);
        if self.held.is_nothing() {
            return self.with_shard(index, visit);
        }
        Ok(visit(Self::shard_of(&mut self.held, index), &mut self.effects))
    }

    /// Locks everything, for as long as the command runs. Only for commands that hold nothing.
    ///
    /// # Errors
    /// [`Error::NOT_NOW`]
    pub fn escalate(&mut self) -> Result<(), Error> {
        if !self.held.is_nothing() {
            return Ok(());
        }
        let (engine, patience) = (self.engine, self.patience);
        let mut any = engine.locks().escalated_unless(|| patience.is_over(engine)).ok_or(Error::NOT_NOW)?;
        if !(0..engine.locks().len()).all(|index| any.take(index, || patience.is_over(engine))) {
            return Err(Error::NOT_NOW);
        }
        self.held = Locks::of(Held::Anything(Box::new(any)));
        Ok(())
    }

    /// Everything in the place of the locks that the row asked for. Only before anything was looked at: others
    /// may come in between. Who runs inside of another command has the locks that it needs.
    ///
    /// # Errors
    /// [`Error::NOT_NOW`]
    pub fn broaden(&mut self) -> Result<(), Error> {
        if self.held.one.take().is_some() {
            self.escalate()?;
        }
        Ok(())
    }

    /// The shards of these keys in the place of the lock that the row asked for; as [`broaden`](Self::broaden).
    ///
    /// # Errors
    /// [`Error::NOT_NOW`]
    pub fn hold_instead(&mut self, hashes: impl ExactSizeIterator<Item = KeyHash>) -> Result<(), Error> {
        if self.held.one.take().is_some() {
            self.hold(hashes)?;
        }
        Ok(())
    }

    /// Gives up what is held for the right to any shard; each is locked when it is [reached](Self::reach_soon) for. Others may
    /// come in between.
    ///
    /// # Errors
    /// [`Error::NOT_NOW`]
    pub fn escalate_anew(&mut self) -> Result<(), Error> {
        if !self.reaches_all() {
            self.held.release();
            let (engine, patience) = (self.engine, self.patience);
            let any = engine.locks().escalated_unless(|| patience.is_over(engine)).ok_or(Error::NOT_NOW)?;
            self.held = Locks::of(Held::Anything(Box::new(any)));
        }
        Ok(())
    }

    /// Locks a shard, for who has the right to any; false if that takes more patience.
    pub fn take(&mut self, index: usize) -> bool {
        let (engine, patience) = (self.engine, self.patience);
        match &mut self.held.others {
            Held::Anything(any) => any.take(index, || patience.is_over(engine)),
            _ => false,
        }
    }

    /// Adds a shard to those that are locked, without giving any of them up, for who has claimed that or has the right to any.
    /// Calls `meanwhile` now and then while it waits.
    pub fn add(&mut self, claim: Option<&Claim<'_>>, index: usize, mut meanwhile: impl FnMut()) {
        let locks = self.engine.locks();
        let mut several = match (self.held.take(), claim) {
            (Held::Anything(mut any), _) => {
                while !any.take(index, || true) {
                    meanwhile();
                }
                self.held = Locks::of(Held::Anything(any));
                return;
            }
            (Held::Several(several), Some(_)) => several,
            (Held::One(held, guard), Some(claim)) => Box::new(locks.joined(claim, held, guard)),
            (other, _) => {
                self.held = Locks::of(other);
                return;
            }
        };
        if let Some(claim) = claim {
            several.add(locks, claim, index, meanwhile);
        }
        self.held = Locks::of(Held::Several(several));
    }

    /// Gives up the locks. What is left to do without them is in the effects.
    #[inline(always)]
    pub fn release(mut self) -> Effects {
        self.unlock();
        self.effects
    }

    /// The same, for those who go on, with other locks or without.
    #[inline(always)]
    pub fn unlock(&mut self) {
        self.held.release();
    }

    /// Whether the shard of a key of this hash may be touched.
    #[inline]
    pub fn reaches(&self, hash: KeyHash) -> bool {
        match &self.held.others {
            Held::Several(several) => several.held(hash.shard()).is_some(),
            Held::Anything(_) => true,
            _ => self.held.one.is_some() && self.held.index == hash.shard(),
        }
    }

    /// Whether any shard may be touched.
    pub fn reaches_all(&self) -> bool {
        matches!(self.held.others, Held::Anything(_))
    }

    #[inline(always)]
    fn shard_of<'h>(held: &'h mut Locks<'e>, index: usize) -> &'h mut Shard {
        if let Some(guard) = &mut held.one {
            assert!(held.index == index, "a command touches declared keys only");
            return guard;
        }
        Self::shard_among(&mut held.others, index)
    }

    #[inline(never)]
    fn shard_among<'h>(held: &'h mut Held<'e>, index: usize) -> &'h mut Shard {
        match held {
            Held::Several(several) => several.get(index),
            Held::Anything(any) => any.get(index),
            Held::One(..) | Held::Nothing => panic!("a command touches declared keys only"),
        }
    }
}

/// Written only when the mark changes, which by the second is rare.
#[inline(always)]
fn mark(found: &Found<'_>, clock: AccessClock) {
    let meta = found.meta();
    let accessed = clock.accessed(meta);
    if accessed != meta {
        found.mark(accessed);
    }
}

#[inline]
fn notify(engine: &Engine, effects: &mut Effects, db: u32, class: EventClass, name: &'static str, key: &[u8]) {
    if engine.wants_event(class) {
        effects.rare().events.push(Event { class, name, db, key: key.to_vec() });
    }
}

/// The key's shard, and its hash there.
#[inline(always)]
fn place(key: Key<'_>) -> (usize, u64) {
    (key.hash.shard(), key.hash.local())
}

/// Where the key's entry lies. One whose time has come is removed first.
#[inline]
fn live_spot(
    engine: &Engine,
    shard: &mut Shard,
    effects: &mut Effects,
    db: u32,
    local: u64,
    name: &[u8],
    now: i64,
) -> Option<Spot> {
    let table = &shard.dbs[db as usize].table;
    let mut deadline = None;
    let spot = table.spot(local, |entry| {
        let same = entry.has_key(name);
        if same {
            deadline = entry.deadline();
        }
        same
    })?;
    if deadline.is_some_and(|deadline| access::is_due(deadline, now)) {
        access::expire(engine, shard, effects, db, local, name);
        return None;
    }
    Some(spot)
}
