//! The keyspace as one command sees it: the shards that it has locked, and its work there.
//!
//! Reading goes through [`Keys::find`], writing through an [`Edit`], walking over
//! everything through [`Keys::each_shard`]. All three work the same whether the command has one shard
//! locked, several, or may take any.

use crate::Error;
use crate::clients::key_clients::KeyClients;
use crate::clients::waiters::Ticket;
use crate::data::event_class::EventClass;
use crate::data::key_hash::KeyHash;
use crate::data::value::{Collection, KeyEntry, Str, Value, ValueExt};
use crate::keyspace::Keyspace;
use crate::keyspace::caller::{Caller, ExecContext, is_due};
use crate::keyspace::edit::Edit;
use crate::keyspace::held_locks::{HeldLocks, LockTimeout, Locks};
use crate::keyspace::in_place_edit::InPlaceEdit;
use crate::keyspace::key_change::{KEY_MISS, KeyEvent, publish_event};
use crate::keyspace::lru::Used;
use crate::keyspace::removal;
use crate::keyspace::shard::Shard;
use crate::locks::protocol::GrowRight;
use crate::locks::sync::MutexGuard;
use crate::propagation::change_log::OwnRecords;
use crate::propagation::effects::Effects;
use crate::scripts::function_libraries::{Libraries, LibraryChange};
use crate::scripts::script_cache::SeenLibraries;
use crate::status::deny_reasons::Epoch;
use crate::time::UnixMs;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use structures::hashtable::{Ref, SlotRef};

/// A key's name and its hash.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The hash of its name.
    pub hash: KeyHash,
}

/// A key's entry, as readers see it.
pub type Found<'a> = Ref<'a, KeyEntry>;

/// One command's access to the keyspace.
pub struct Keys<'e> {
    pub(super) keyspace: &'e Keyspace,
    pub(super) held: Locks<'e>,
    db: u32,
    origin: ExecContext,
    /// [`ExecContext::expiry_now`]
    now: UnixMs,
    used: Used,
    /// Whether reads and changes do not mark keys as used (CLIENT NO-TOUCH).
    no_touch: bool,
    patience: LockTimeout,
    /// Epoch in which the command was admitted.
    admitted: Epoch,
    /// [`logged_to`](Self::logged_to) beyond the shards that are locked now: of locks that were released since, of
    /// libraries, and of records that the command has logged itself.
    pub(super) seen_to: u64,
    pub(super) own: OwnRecords,
    /// Whether it has changed libraries, which other commands see when that is in the log.
    pub(super) changed_libraries: bool,
    /// Effects of the command besides its reply.
    pub effects: Effects,
}

impl<'e> Keys<'e> {
    /// Makes the access of a command. An origin that sees expired data does not mark keys as used: that was done when
    /// the command ran first.
    #[inline(always)]
    pub fn new(keyspace: &'e Keyspace, held: HeldLocks<'e>, db: u32, origin: ExecContext) -> Self {
        Keys {
            keyspace,
            held: Locks::of(held),
            db,
            origin,
            now: origin.expiry_now(),
            used: Used::at(origin.now),
            no_touch: origin.caller.sees_expired(),
            patience: LockTimeout::Long,
            admitted: Epoch::LAST,
            seen_to: 0,
            own: OwnRecords::default(),
            changed_libraries: false,
            effects: Effects::default(),
        }
    }

    /// Begins anew for the next command of the same client, with the lock of its one key's shard. Only after
    /// [`unlock`](Self::unlock), with the effects dealt with.
    #[inline(always)]
    pub fn begin_with(&mut self, shard: usize, guard: MutexGuard<'e, Shard>, db: u32) {
        self.held.begin(shard, guard);
        self.db = db;
        self.effects.dirty = 0;
    }

    /// Returns all shards.
    pub fn keyspace(&self) -> &'e Keyspace {
        self.keyspace
    }

    /// Returns the time that expiries are compared with, Unix time in milliseconds.
    #[inline(always)]
    pub fn expiry_now(&self) -> UnixMs {
        self.now
    }

    /// As [`Edit::is_past`](super::edit::Edit::is_past), of an expiry that a command is to write.
    pub fn is_over(&self, expiry: UnixMs) -> bool {
        self.keyspace.is_past(expiry, self.now)
    }

    /// Returns the caller, and the time.
    pub fn origin(&self) -> ExecContext {
        self.origin
    }

    /// Sets whether a script runs its client's commands.
    pub fn in_script(&mut self, on: bool) {
        self.origin.caller = match (self.origin.caller, on) {
            (Caller::Client, true) => Caller::Script,
            (Caller::Script, false) => Caller::Client,
            (other, _) => other,
        };
    }

    /// Returns how a use of a key is marked, if it is.
    #[inline(always)]
    fn used(&self) -> Option<Used> {
        if self.no_touch { None } else { Some(self.used) }
    }

    /// Sets whether reads leave the access clock alone (CLIENT NO-TOUCH).
    pub fn set_no_touch(&mut self, no_touch: bool) {
        self.no_touch = no_touch || self.origin.caller.sees_expired();
    }

    /// Sets how long the command waits for a lock.
    pub fn set_patience(&mut self, patience: LockTimeout) {
        self.patience = patience;
    }

    /// Returns how long the command waits for a lock.
    pub fn patience(&self) -> LockTimeout {
        self.patience
    }

    /// Sets the epoch in which the command was admitted; without one, it needed no admission.
    pub fn set_admitted(&mut self, epoch: Epoch) {
        self.admitted = epoch;
    }

    /// Whether the command was admitted in the present epoch.
    pub fn is_admitted(&self) -> bool {
        self.keyspace.epoch() <= self.admitted
    }

    /// Takes these locks over, unless the command must not run any more under them.
    fn hold_admitted(&mut self, held: HeldLocks<'e>) -> Result<(), Error> {
        if !held.admit(self.keyspace, self.admitted) {
            return Err(Error::WouldBlock);
        }
        self.held = Locks::of(held);
        Ok(())
    }

    /// Enters the present epoch: commands that were admitted before do not run in the shards that are locked.
    pub fn enter_epoch(&mut self) {
        let epoch = self.keyspace.epoch();
        self.held.each_mut(|shard| shard.enter(epoch));
    }

    /// Selects the database that keys are looked up in.
    pub fn select(&mut self, db: u32) {
        self.db = db;
    }

    /// Returns the number of the database that the command works in.
    pub fn db_index(&self) -> u32 {
        self.db
    }

    /// Hashes a name that the command's row did not declare.
    pub fn key<'k>(&self, name: &'k [u8]) -> Key<'k> {
        Key { name, hash: self.keyspace.hasher().hash(name) }
    }

    /// Returns the key's entry; counts a hit or a miss and marks the access. An expired key is removed and not found.
    #[inline(always)]
    pub fn find(&mut self, key: Key<'_>) -> Option<Found<'_>> {
        self.lookup(key, self.used(), true)
    }

    /// As [`find`](Self::find), but the access is not marked: for commands that ask about a key, not for its
    /// value (TYPE, TTL).
    pub fn lookup_no_touch(&mut self, key: Key<'_>) -> Option<Found<'_>> {
        self.lookup(key, None, true)
    }

    /// As [`lookup_no_touch`](Self::lookup_no_touch), but a miss has no event: for commands that ask how a key is
    /// stored (OBJECT).
    pub fn lookup_no_notify(&mut self, key: Key<'_>) -> Option<Found<'_>> {
        self.lookup(key, None, false)
    }

    /// Looks a key up. Not inlined: handlers are small and this is not.
    #[inline(never)]
    fn lookup(&mut self, key: Key<'_>, used: Option<Used>, tells: bool) -> Option<Found<'_>> {
        let (index, local) = place(key);
        let shard = self.held.get(index);
        let db = self.db;
        let table = &shard.dbs[db].table;
        let mut expiry = None;
        let slot_ref = table.slot_ref(local, |entry| {
            let same = entry.has_key(key.name);
            if same {
                expiry = entry.expiry();
            }
            same
        });
        let Some(slot_ref) = slot_ref else {
            shard.stats.misses += 1;
            if tells {
                publish_event(self.keyspace, &mut self.effects, self.db, key.name, KEY_MISS);
            }
            return None;
        };
        if expiry.is_some_and(|expiry| is_due(expiry, self.now)) {
            shard.stats.misses += 1;
            if !self.keyspace.keeps_expired() {
                removal::expire(self.keyspace, shard, &mut self.effects, self.db, local, key.name);
            }
            if tells {
                publish_event(self.keyspace, &mut self.effects, self.db, key.name, KEY_MISS);
            }
            return None;
        }
        shard.stats.hits += 1;
        let found = shard.dbs[db].table.at(slot_ref)?;
        if let Some(used) = used {
            used.mark(self.keyspace.access(), &found);
        }
        Some(found)
    }

    /// Returns the key's entry, without a trace of the look: no statistics, no access clock.
    pub fn lookup_no_stats(&mut self, key: Key<'_>) -> Option<Found<'_>> {
        let (index, local) = place(key);
        let shard = self.held.get(index);
        if self.keyspace.keeps_expired() {
            let found = shard.dbs[self.db].table.find(local, |entry| entry.key() == key.name)?;
            let due = found.expiry().is_some_and(|expiry| is_due(expiry, self.now));
            return (!due).then_some(found);
        }
        let slot_ref = live_slot_ref(self.keyspace, shard, &mut self.effects, self.db, local, key.name, self.now)?;
        shard.dbs[self.db].table.at(slot_ref)
    }

    /// As [`lookup_no_stats`](Self::lookup_no_stats), but finds expired keys, too.
    pub fn lookup_no_expire(&mut self, key: Key<'_>) -> Option<Found<'_>> {
        let (index, local) = place(key);
        let shard = self.held.get(index);
        shard.dbs[self.db].table.find(local, |entry| entry.key() == key.name)
    }

    /// Returns the value of a key that this command has [found](Self::find) before, without another trace: for commands
    /// that read several keys at the same time. A key that has expired since is still there.
    pub fn together(&self, key: Key<'_>) -> Option<Value<'_>> {
        let (index, local) = place(key);
        let found = self.held.shared(index)?.dbs[self.db].table.find(local, |entry| entry.key() == key.name)?;
        Some(found.value())
    }

    /// Returns the key's value, or None.
    #[inline(always)]
    pub fn value(&mut self, key: Key<'_>) -> Option<Value<'_>> {
        self.find(key).map(|found| found.value())
    }

    /// Returns the key's string, or None.
    ///
    /// # Errors
    /// [`Error::WrongType`].
    #[inline(always)]
    pub fn string(&mut self, key: Key<'_>) -> Result<Option<Str<'_>>, Error> {
        self.value(key).map(|value| value.as_string()).transpose()
    }

    /// Returns the key's collection, or None.
    ///
    /// # Errors
    /// [`Error::WrongType`].
    #[inline(always)]
    pub fn collection<C: Collection>(&mut self, key: Key<'_>) -> Result<Option<C::Ref<'_>>, Error> {
        self.value(key).map(|value| value.as_collection::<C>()).transpose()
    }

    /// Returns the right to change a key, which is marked as used; nothing else happens until something is changed and
    /// committed.
    #[inline]
    pub fn edit<'k>(&'k mut self, key: Key<'k>) -> Edit<'k> {
        let (index, local) = place(key);
        let shard = self.held.get(index);
        let slot_ref = live_slot_ref(self.keyspace, shard, &mut self.effects, self.db, local, key.name, self.now);
        if let Some(found) =
            slot_ref.filter(|_| !self.no_touch).and_then(|slot_ref| shard.dbs[self.db].table.at(slot_ref))
        {
            self.used.mark(self.keyspace.access(), &found);
        }
        Edit::new(self.keyspace, shard, &mut self.effects, self.db, key, local, slot_ref, self.origin)
    }

    /// Returns the right to change a key, expired or not, for a command that removes it: that is a removal like others.
    pub fn edit_stale<'k>(&'k mut self, key: Key<'k>) -> Edit<'k> {
        let (index, local) = place(key);
        let shard = self.held.get(index);
        let slot_ref = shard.dbs[self.db].table.slot_ref(local, |entry| entry.key() == key.name);
        Edit::new(self.keyspace, shard, &mut self.effects, self.db, key, local, slot_ref, self.origin)
    }

    /// Returns the right to replace whatever the key holds by a result, or, where it `is_empty`, to remove it.
    pub fn edit_for_result<'k>(&'k mut self, key: Key<'k>, is_empty: bool) -> Edit<'k> {
        if is_empty { self.edit_stale(key) } else { self.edit(key) }
    }

    /// Returns an edit that is one step, where the key's shard is the only one that is locked.
    #[inline(always)]
    fn in_place_edit<'k>(&'k mut self, key: Key<'k>) -> Option<InPlaceEdit<'k>> {
        let used = self.used();
        let shard = self.held.only(key.hash.shard())?;
        Some(InPlaceEdit {
            keyspace: self.keyspace,
            shard,
            effects: &mut self.effects,
            db: self.db,
            key,
            now: self.now,
            used,
        })
    }

    /// See [`InPlaceEdit::int`].
    #[inline(always)]
    pub fn update_int(
        &mut self,
        key: Key<'_>,
        event: KeyEvent,
        change: impl FnOnce(i64) -> Result<i64, Error>,
    ) -> Option<Result<i64, Error>> {
        self.in_place_edit(key)?.int(event, change)
    }

    /// See [`InPlaceEdit::collection`].
    #[inline(always)]
    pub fn update<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        event: KeyEvent,
        change: impl FnOnce(&mut C) -> Option<(u64, R)>,
    ) -> Option<R> {
        self.in_place_edit(key)?.collection(event, change)
    }

    /// Publishes an event of a key that no edit covers.
    pub fn notify(&mut self, class: EventClass, name: &'static str, key: &[u8]) {
        publish_event(self.keyspace, &mut self.effects, self.db, key, (class, name));
    }

    /// Visits every shard, one at a time. Locks that are not held already are held for the visit only,
    /// unless the command may take anything: then they stay, and the whole walk is atomic.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]: not all were visited.
    pub fn each_shard(&mut self, mut visit: impl FnMut(usize, &mut Shard, &mut Effects)) -> Result<(), Error> {
        (0..self.keyspace.locks().len())
            .try_for_each(|index| self.with_shard(index, |shard, effects| visit(index, shard, effects)))
    }

    /// Visits one shard, locked for the call if it is not held already. Only for commands without declared keys: a
    /// command that holds a few locks must not wait for another.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn with_shard<R>(
        &mut self,
        index: usize,
        visit: impl FnOnce(&mut Shard, &mut Effects) -> R,
    ) -> Result<R, Error> {
        if let Some(shard) = self.held.reach(index) {
            let before = shard.logged_to;
            let result = visit(shard, &mut self.effects);
            let after = shard.logged_to;
            self.note_visit(before, after);
            return Ok(result);
        }
        let (keyspace, patience) = (self.keyspace, self.patience);
        let guard = keyspace.locks().one_unless(index, patience.from_now(keyspace));
        let mut guard = guard.filter(|shard| shard.admits(self.admitted)).ok_or(Error::WouldBlock)?;
        let before = guard.logged_to;
        let result = visit(&mut guard, &mut self.effects);
        keyspace.settle_lengths(index, &guard);
        // The lock is released here, and expired keys must be in the log before another command's change to them.
        keyspace.record_expired(&mut guard, &mut self.effects);
        let after = guard.logged_to;
        drop(guard);
        self.seen_to = self.seen_to.max(after);
        self.note_visit(before, after);
        Ok(result)
    }

    /// Looks at a shard that is not held already, under its lock for the call. Returns false instead for a command that
    /// may take any shard: it holds this one from now on, too. `may_wait`: for a lock that is not free.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn look_at(&mut self, index: usize, may_wait: bool, look: impl FnOnce(&Shard)) -> Result<bool, Error> {
        if self.held.reach(index).is_some() {
            return Ok(false);
        }
        let (keyspace, patience) = (self.keyspace, self.patience);
        let guard = match may_wait {
            true => keyspace.locks().one_unless(index, patience.from_now(keyspace)),
            false => keyspace.locks().try_one(index),
        };
        let shard = guard.filter(|shard| shard.admits(self.admitted)).ok_or(Error::WouldBlock)?;
        look(&shard);
        let logged_to = shard.logged_to;
        drop(shard);
        self.seen_to = self.seen_to.max(logged_to);
        Ok(true)
    }

    /// Returns a shard that is held.
    pub(super) fn held_shard(&self, index: usize) -> Option<&Shard> {
        self.held.shared(index)
    }

    /// Whether a shard is held.
    pub(super) fn holds(&self, index: usize) -> bool {
        self.held.shared(index).is_some()
    }

    /// Returns the keys of the command's database in a shard, which is locked only where it alone has the number.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn shard_len(&mut self, index: usize) -> Result<usize, Error> {
        let db = self.db;
        match self.keyspace.shard_len(index, db).filter(|_| self.held.shared(index).is_none()) {
            Some(keys) => Ok(keys),
            None => self.with_shard(index, |shard, _| shard.dbs[db].table.len()),
        }
    }

    /// Locks the shards of these keys for a command whose row does not name them. Only for commands that hold nothing.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn hold(&mut self, hashes: impl ExactSizeIterator<Item = KeyHash>) -> Result<(), Error> {
        if self.held.is_nothing() {
            let held = HeldLocks::keys_with(self.keyspace, hashes, self.patience).ok_or(Error::WouldBlock)?;
            self.hold_admitted(held)?;
        }
        Ok(())
    }

    /// Puts the ticket at all of its keys, whose locks must be held.
    pub fn wait(&mut self, ticket: &Arc<Ticket>) {
        for key in ticket.keys() {
            self.key_clients(key.db, key.hash).wait(&key.name, ticket);
        }
    }

    /// Returns the clients that watch keys of this hash's shard or wait for some.
    pub(crate) fn key_clients(&mut self, db: u32, hash: KeyHash) -> &mut KeyClients {
        &mut self.shard_at(hash).dbs[db].clients
    }

    /// Returns the shard of a key whose lock is held.
    pub fn shard_at(&mut self, hash: KeyHash) -> &mut Shard {
        self.held.get(hash.shard())
    }

    /// Visits the shard of this key, locked for the call if the command holds nothing.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn with_shard_of<R>(
        &mut self,
        key: Key<'_>,
        visit: impl FnOnce(&mut Shard, &mut Effects) -> R,
    ) -> Result<R, Error> {
        let (index, _) = place(key);
        if self.held.is_nothing() {
            return self.with_shard(index, visit);
        }
        Ok(visit(self.held.get(index), &mut self.effects))
    }

    /// Locks everything, for as long as the command runs. Only for commands that hold nothing.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn escalate(&mut self) -> Result<(), Error> {
        if !self.held.is_nothing() {
            return Ok(());
        }
        let (keyspace, patience) = (self.keyspace, self.patience);
        let mut any =
            keyspace.locks().escalated_unless(|| patience.among_several(keyspace)).ok_or(Error::WouldBlock)?;
        if !any.take_all(|| patience.among_several(keyspace)) {
            return Err(Error::WouldBlock);
        }
        self.hold_admitted(HeldLocks::Anything(Box::new(any)))
    }

    /// Locks everything in the place of the locks that the row asked for. Only before anything was looked at: other
    /// commands may come in between. A command that runs inside of another one has the locks that it needs.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn broaden(&mut self) -> Result<(), Error> {
        if self.held.give_up_only() {
            self.escalate()?;
        }
        Ok(())
    }

    /// Locks the shards of these keys in the place of the lock that the row asked for; as [`broaden`](Self::broaden).
    ///
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn hold_instead(&mut self, hashes: impl ExactSizeIterator<Item = KeyHash>) -> Result<(), Error> {
        if self.held.give_up_only() {
            self.hold(hashes)?;
        }
        Ok(())
    }

    /// Releases all locks for the right to any shard; each is locked when it is [taken](Self::take) or reached for.
    /// Other commands may come in between.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn escalate_anew(&mut self) -> Result<(), Error> {
        if !self.reaches_all() {
            self.seen_to = self.logged_to().unwrap_or(self.seen_to);
            self.held.release();
            let (keyspace, patience) = (self.keyspace, self.patience);
            let any =
                keyspace.locks().escalated_unless(|| patience.among_several(keyspace)).ok_or(Error::WouldBlock)?;
            self.hold_admitted(HeldLocks::Anything(Box::new(any)))?;
        }
        Ok(())
    }

    /// Returns the libraries of functions as the command sees them.
    #[inline]
    pub fn libraries(&self) -> SeenLibraries<'e> {
        self.keyspace.scripts().libraries_seen(self.changed_libraries)
    }

    /// Makes the change of the libraries that `plan` finds to be possible, with the right to any lock, which stays with
    /// the command until it has been logged. Other commands see it from then on. It counts as one change. Only for
    /// commands that hold nothing, or hold all that they may need.
    ///
    /// # Errors
    /// The error of `plan`; [`Error::WouldBlock`].
    pub fn change_libraries(
        &mut self,
        plan: impl FnOnce(&Libraries) -> Result<LibraryChange, Error>,
    ) -> Result<(), Error> {
        if self.held.is_nothing() {
            self.escalate_anew()?;
        }
        self.keyspace.scripts().change_libraries(plan)?;
        self.effects.dirty += 1;
        self.changed_libraries = true;
        self.keyspace.persistence_status().elsewhere.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Locks a shard, for a command with the right to any; false if it times out.
    pub fn take(&mut self, index: usize) -> bool {
        let (keyspace, patience) = (self.keyspace, self.patience);
        self.held.any().is_some_and(|any| any.take(index, patience.among_several(keyspace)))
    }

    /// Adds a shard to the locked ones, without releasing any of them, for a command that has claimed that or has the
    /// right to any. Calls `meanwhile` now and then while it waits.
    pub fn add(&mut self, claim: Option<&GrowRight<'_>>, index: usize, mut meanwhile: impl FnMut()) {
        let locks = self.keyspace.locks();
        let mut several = match (self.held.take(), claim) {
            (HeldLocks::Anything(mut any), _) => {
                while !any.take(index, || true) {
                    meanwhile();
                }
                self.held = Locks::of(HeldLocks::Anything(any));
                return;
            }
            (HeldLocks::Several(several), Some(_)) => several,
            (HeldLocks::One(held, guard), Some(claim)) => Box::new(locks.joined(claim, held, guard)),
            (other, _) => {
                self.held = Locks::of(other);
                return;
            }
        };
        if let Some(claim) = claim {
            several.add(locks, claim, index, meanwhile);
        }
        self.held = Locks::of(HeldLocks::Several(several));
    }

    /// Releases the locks. Returns the effects, which are carried out without locks.
    #[inline(always)]
    pub fn release(mut self) -> Effects {
        self.unlock();
        self.effects
    }

    /// Releases the locks of a command that continues, with other locks or without. Every change ends in this function
    /// or in [`release`](Self::release): from then on removed keys are not [counted](crate::keyspace::shard_counters)
    /// any more.
    #[inline(always)]
    pub fn unlock(&mut self) {
        match self.held.single() {
            Some((index, shard)) => self.keyspace.settle_lengths(index, shard),
            None => self.settle_others(),
        }
        self.held.release();
    }

    /// Ends changes under other locks than one.
    #[inline(never)]
    fn settle_others(&mut self) {
        self.held.each_other(|index, shard| self.keyspace.settle_lengths(index, shard));
        if std::mem::take(&mut self.changed_libraries) {
            self.keyspace.scripts().publish_libraries();
        }
    }

    /// Whether the shard of a key of this hash may be touched.
    #[inline]
    pub fn reaches(&self, hash: KeyHash) -> bool {
        self.held.reaches(hash.shard())
    }

    /// Whether any shard may be touched.
    pub fn reaches_all(&self) -> bool {
        self.held.reaches_all()
    }

    /// Whether the command holds no lock.
    #[inline]
    pub fn holds_nothing(&self) -> bool {
        self.held.is_nothing()
    }
}

/// Returns the key's shard, and its hash there.
#[inline(always)]
fn place(key: Key<'_>) -> (usize, u64) {
    (key.hash.shard(), key.hash.local())
}

/// Returns the place of the key's entry. An expired one is removed first.
#[inline]
fn live_slot_ref(
    keyspace: &Keyspace,
    shard: &mut Shard,
    effects: &mut Effects,
    db: u32,
    local: u64,
    name: &[u8],
    now: UnixMs,
) -> Option<SlotRef> {
    let table = &shard.dbs[db].table;
    let mut expiry = None;
    let slot_ref = table.slot_ref(local, |entry| {
        let same = entry.has_key(name);
        if same {
            expiry = entry.expiry();
        }
        same
    })?;
    if expiry.is_some_and(|expiry| is_due(expiry, now)) {
        removal::expire(keyspace, shard, effects, db, local, name);
        return None;
    }
    Some(slot_ref)
}
