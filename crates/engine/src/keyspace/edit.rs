//! The edit guard: the one way to change a key.
//!
//! A handler asks for an [`Edit`], looks, changes, and commits. The commit announces the change to the rest of the
//! system, so that no command does it by hand: the dirty count (which puts the command into the change log), watchers
//! and waiters of the key, the keyspace event. The changes themselves update the expiry index and send values that are
//! expensive to free to the background.
//!
//! A handler that changes something and does not commit is defective; debug builds report it.

use crate::Error;
use crate::clients::key_clients::ShardListeners;
use crate::data::event_class::EventClass;
use crate::data::table::element_expiry;
use crate::data::value::{Collection, KeyEntry, NewString, Object, Str, Value, ValueExt};
use crate::data::value_type::ValueType;
use crate::keyspace::Keyspace;
use crate::keyspace::caller::ExecContext;
use crate::keyspace::key_change::{ChangedDb, KEY_MISS, KeyEvent, SILENT, announce, publish_event};
use crate::keyspace::keys::Key;
use crate::keyspace::shard::{Db, Shard, ShardStats};
use crate::propagation::change_observer::{By, Change};
use crate::propagation::effects::{Effects, Logged, Record};
use crate::snapshot::streamed_reply::DetachedReplies;
use crate::time::UnixMs;
use std::ops::Range;
use std::sync::Arc;
use structures::entry::{MAX_INLINE, NewValue};
use structures::hashtable::SlotRef;

/// Treatment of the expiry when a value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// It stays as it is.
    Keep,
    /// The key loses it.
    Clear,
    /// The key expires then.
    At(UnixMs),
}

/// The right to change one key.
pub struct Edit<'k> {
    keyspace: &'k Keyspace,
    db: &'k mut Db,
    stats: &'k mut ShardStats,
    listeners: &'k mut ShardListeners,
    effects: &'k mut Effects,
    db_index: u32,
    key: Key<'k>,
    local: u64,
    origin: ExecContext,
    /// Place of the entry, while there is one. Only this edit moves it.
    slot_ref: Option<SlotRef>,
    /// Whether this edit has put an entry in whose place is not known yet.
    fresh: bool,
    changed: bool,
}

impl<'k> Edit<'k> {
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the fields of Keys, borrowed apart")]
    pub(crate) fn new(
        keyspace: &'k Keyspace,
        shard: &'k mut Shard,
        effects: &'k mut Effects,
        db_index: u32,
        key: Key<'k>,
        local: u64,
        slot_ref: Option<SlotRef>,
        origin: ExecContext,
    ) -> Self {
        let db = &mut shard.dbs[db_index];
        Edit {
            keyspace,
            db,
            stats: &mut shard.stats,
            listeners: &mut shard.listeners,
            effects,
            db_index,
            key,
            local,
            origin,
            slot_ref,
            fresh: false,
            changed: false,
        }
    }

    /// Whether the key is there, as the edit has left it so far.
    pub fn exists(&self) -> bool {
        self.fresh || self.slot_ref.is_some()
    }

    /// Counts a hit or a miss, as a read does: for commands that also reply the old value.
    pub fn count_read(&mut self) {
        match self.slot_ref {
            Some(_) => self.stats.hits += 1,
            None => {
                self.stats.misses += 1;
                publish_event(self.keyspace, self.effects, self.db_index, self.key.name, KEY_MISS);
            }
        }
    }

    /// Returns the value as it is now.
    #[inline]
    pub fn value(&self) -> Option<Value<'_>> {
        self.db.table.at(self.slot_ref()?).map(|found| found.value())
    }

    /// Returns the type of that value.
    pub fn value_type(&self) -> Option<&'static ValueType> {
        self.value().map(|value| value.value_type())
    }

    /// Returns the string as it is now; None when the key is missing.
    ///
    /// # Errors
    /// [`Error::WrongType`].
    #[inline]
    pub fn string(&self) -> Result<Option<Str<'_>>, Error> {
        self.value().map(|value| value.as_string()).transpose()
    }

    /// Returns the key's expiry.
    pub fn expiry(&self) -> Option<UnixMs> {
        self.db.table.at(self.slot_ref()?)?.expiry().map(|at| UnixMs(at as i64))
    }

    /// Whether an expiry has passed, so that a key that would get it is removed instead. While another server's data is
    /// being imported, that server decides.
    pub fn is_past(&self, expiry: UnixMs) -> bool {
        self.keyspace.is_past(expiry, self.origin.expiry_now())
    }

    /// Makes the key a string. An expiry in the past is stored all the same: the command decides beforehand whether the
    /// key is to be deleted instead.
    #[inline]
    pub fn set_string(&mut self, value: NewString<'_>, ttl: Ttl) {
        match &value {
            // Arguments that waited own their bytes; short ones belong into the entry all the same.
            NewString::Owned(bytes) if bytes.len() <= MAX_INLINE => self.set_value(NewValue::Inline(bytes), ttl),
            _ => self.set_value(value.into_value(), ttl),
        }
    }

    /// Makes the key an object.
    pub fn set_object(&mut self, object: Object, ttl: Ttl) {
        object.keep(|value| self.set_value(value, ttl));
    }

    /// Gives `change` the string's bytes to work on, at least `min_len` of them: zero bytes are added to a
    /// shorter or missing one. The value counts as edited in place from now on and is encoded raw.
    ///
    /// # Errors
    /// [`Error::WrongType`]; nothing was changed.
    pub fn with_bytes<R>(&mut self, min_len: usize, change: impl FnOnce(&mut Vec<u8>) -> R) -> Result<R, Error> {
        self.with_bytes_at(0..usize::MAX, min_len, change)
    }

    /// Gives `change` the string's bytes like [`with_bytes`](Self::with_bytes), of which it changes only these and
    /// removes none.
    ///
    /// # Errors
    /// [`Error::WrongType`]; nothing was changed.
    pub fn with_bytes_at<R>(
        &mut self,
        changed: Range<usize>,
        min_len: usize,
        change: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<R, Error> {
        if let Some(value) = self.value() {
            value.as_string()?;
        }
        self.changed = true;
        if !self.exists() {
            self.set_object(Object::String(Vec::new().into()), Ttl::Clear);
        }
        let result = self.with_entry_at(Some(&changed), |entry| {
            if !matches!(entry.value(), Value::Payload(_)) {
                let bytes = entry.value().as_string().map(Str::to_vec).unwrap_or_default();
                entry.set_value(NewValue::Payload(Object::String(bytes.into())));
            }
            match entry.payload_mut() {
                Some(Object::String(string)) => {
                    string.lengthen(min_len);
                    Ok(change(string.bytes_mut()))
                }
                _ => Err(Error::WrongType),
            }
        });
        result.unwrap_or(Err(Error::WrongType))
    }

    /// Gives `change` the collection, a new one when the key is missing. A collection that is empty
    /// afterwards goes, and the key with it.
    ///
    /// # Errors
    /// [`Error::WrongType`]; nothing was changed.
    pub fn with<C: Collection, R>(&mut self, change: impl FnOnce(&mut C) -> R) -> Result<R, Error> {
        match self.value() {
            None => {
                let mut collection = C::default();
                self.changed = true;
                let result = change(&mut collection);
                if !collection.is_empty() {
                    self.set_object(collection.into_object(), Ttl::Clear);
                }
                return Ok(result);
            }
            Some(Value::Packed(bytes)) => {
                let collection = C::unpacked(bytes).ok_or(Error::WrongType)?;
                self.changed = true;
                return Ok(self.with_unpacked(collection, change));
            }
            Some(value) => _ = value.as_collection::<C>()?,
        }
        self.changed = true;
        self.before_change();
        let result = self.with_entry(|entry| match entry.payload_mut().and_then(C::of_mut) {
            Some(collection) => {
                let old_first = collection.next_expiry();
                let result = change(collection);
                Ok((result, collection.is_empty(), old_first, collection.next_expiry()))
            }
            None => Err(Error::WrongType),
        });
        let (result, empty, old_first, new_first) = result.unwrap_or(Err(Error::WrongType))?;
        self.elements_due(old_first, new_first);
        if empty {
            self.remove();
        }
        Ok(result)
    }

    /// Puts a changed collection in the place of the packed one that it was made of.
    fn with_unpacked<C: Collection, R>(&mut self, mut collection: C, change: impl FnOnce(&mut C) -> R) -> R {
        let result = change(&mut collection);
        if collection.is_empty() {
            self.remove();
            return result;
        }
        let first = collection.next_expiry();
        // The key retains its expiry and its access mark.
        self.with_entry(|entry| match collection.packed() {
            Some(bytes) => entry.set_value(NewValue::Packed(bytes)),
            None => entry.set_value(NewValue::Payload(collection.into_object())),
        });
        self.elements_due(None, first);
        result
    }

    /// Returns the collection as it is; None when the key is missing.
    ///
    /// # Errors
    /// [`Error::WrongType`].
    pub fn collection<C: Collection>(&self) -> Result<Option<C::Ref<'_>>, Error> {
        self.value().map(|value| value.as_collection::<C>()).transpose()
    }

    /// Sets or takes away the expiry of an existing key.
    pub fn set_expiry(&mut self, expiry: Option<UnixMs>) {
        let new = expiry.map(|at| at.0.max(0) as u64);
        let old = self.with_head(|entry| {
            let old = entry.expiry();
            entry.set_expiry(new);
            old
        });
        if let Some(old) = old {
            self.changed = true;
            self.key_due(old, new);
        }
    }

    /// Removes the key; false when there is none.
    pub fn remove(&mut self) -> bool {
        match self.take_entry() {
            Some(entry) => {
                if let Some(object) = entry.into_payload() {
                    self.discard(object);
                }
                true
            }
            None => false,
        }
    }

    /// Removes the key and returns its value, for a chunked reply of it. None if it is no object.
    pub fn remove_shared(&mut self) -> Option<Arc<Object>> {
        let object = self.take_entry()?.into_payload()?;
        Some(self.share(object))
    }

    /// Removes the key and returns it with its value and expiry, and the replies that list it.
    pub fn take(&mut self) -> Option<(KeyEntry, DetachedReplies)> {
        let entry = self.take_entry()?;
        self.db.captures.write_down(&entry);
        let streamed_replies = &mut self.db.streamed_replies;
        let readers = if streamed_replies.is_empty() {
            DetachedReplies::default()
        } else {
            streamed_replies.detach(self.key.name)
        };
        Some((entry, readers))
    }

    fn take_entry(&mut self) -> Option<KeyEntry> {
        let (keyspace, name) = (self.keyspace, self.key.name);
        let hasher = |entry: &KeyEntry| keyspace.hasher().local_of(entry.key());
        let entry = self.db.table.remove(self.local, |entry| entry.key() == name, hasher)?;
        keyspace.key_went(self.key.hash.shard(), self.db_index, name);
        keyspace.resizes(self.key.hash.shard(), self.db);
        self.db.captures.removed(&self.db.table, keyspace.hasher(), self.local, &entry);
        if let Some(expiry) = entry.expiry() {
            self.db.expiry.keys.remove(expiry, self.local);
        }
        if let Some(first) = element_expiry(&entry) {
            self.db.expiry.elements.remove(first, self.local);
        }
        self.slot_ref = None;
        self.fresh = false;
        self.changed = true;
        Some(entry)
    }

    /// Puts an entry of this key's name here, with its value, expiry and access mark, in the place of the present one.
    /// [`take`](Self::take) and [`renamed`] return such an entry.
    pub fn put(&mut self, entry: KeyEntry) {
        assert!(entry.key() == self.key.name, "an entry is put under its own name");
        if self.exists() {
            self.remove();
        }
        let (keyspace, expiry, first) = (self.keyspace, entry.expiry(), element_expiry(&entry));
        self.db.captures.touch(&self.db.table, keyspace.hasher(), self.key.name, self.local);
        self.db.table.insert_unique(self.local, entry, |entry| keyspace.hasher().local_of(entry.key()));
        self.came(expiry, first);
        self.changed = true;
        self.event(EventClass::NEW, "new");
    }

    /// As [`put`](Self::put), for an entry that comes from another name or database, with the replies that list its
    /// value. Eviction treats it as new.
    pub fn put_with(&mut self, mut entry: KeyEntry, readers: DetachedReplies) {
        entry.set_meta(self.keyspace.access_clock(self.origin.now).fresh());
        self.put(entry);
        self.db.streamed_replies.attach(self.db_index, self.key.name, readers);
    }

    /// Removes the key at once, which was given an expiry that has passed, and counts it as expired. This is the whole
    /// change; the log gets the removal.
    pub fn expire_at_once(mut self) {
        if self.remove() {
            self.stats.expired += 1;
            let (keyspace, name) = (self.keyspace, self.key.name);
            self.log_as(|| vec![vec![keyspace.removal_word().to_vec(), name.to_vec()]]);
            self.commit(EventClass::EXPIRED, "expired");
        }
    }

    /// Puts these commands into the change log instead of the client's. The closure runs only when there is a log.
    pub fn log_as(&mut self, records: impl FnOnce() -> Vec<Record>) {
        if self.keyspace.has_log() {
            self.effects.rare().logged = Logged::As(records());
        }
    }

    /// Completes the change: counts one change, and publishes `name` to listeners of `class`.
    #[inline]
    pub fn commit(self, class: EventClass, name: &'static str) {
        self.commit_many(1, class, name);
    }

    /// Completes a change that counts as `changes`.
    #[inline]
    pub fn commit_many(mut self, changes: u64, class: EventClass, name: &'static str) {
        let change = self.change();
        self.announce(changes, change, (class, name));
    }

    /// Counts elements as expired that were given an expiry that has passed, and were removed.
    pub fn count_expired_elements(&mut self, count: usize) {
        self.stats.expired_elements += count as u64;
    }

    /// Counts elements of the collection that had expired when it was changed, and publishes their event before the
    /// change's.
    pub fn elements_expired(&mut self, count: usize) {
        if count > 0 {
            self.count_expired_elements(count);
            if let Some(Value::Payload(object)) = self.value() {
                let words = object.element_words();
                self.event(words.class, words.expired);
            }
        }
    }

    /// Publishes one of several events of a change that is committed afterwards.
    #[inline]
    pub fn event(&mut self, class: EventClass, name: &'static str) {
        publish_event(self.keyspace, self.effects, self.db_index, self.key.name, (class, name));
    }

    /// Completes a change of data beside the value, such as a stream's groups: clients that wait for the key are woken,
    /// clients that watch it or have a copy of it are not notified.
    pub fn commit_beside(mut self, changes: u64, event: Option<KeyEvent>) {
        let change = if self.fresh { Change::Written } else { Change::Beside };
        self.announce(changes, change, event.unwrap_or(SILENT));
    }

    /// Completes a change and notifies watchers alone: for changes that have no event of their own.
    pub fn commit_silently(mut self, changes: u64) {
        let change = self.change();
        self.announce(changes, change, SILENT);
    }

    /// Returns the value, if it is a long string, for a reply that is to contain it. The string stays where it is.
    pub fn shared_string(self) -> Option<Arc<Vec<u8>>> {
        let slot_ref = self.slot_ref()?;
        self.db.table.at_mut(slot_ref)?.update(|entry| match entry.payload_mut() {
            Some(Object::String(string)) => Some(string.share()),
            _ => None,
        })
    }

    /// Marks that the key is as it was before: there is nothing to commit.
    pub fn unchanged(mut self) {
        self.changed = false;
    }

    /// Returns the effect of the edit so far on its key.
    #[inline(always)]
    fn change(&self) -> Change {
        if self.exists() { Change::Written } else { Change::Removed }
    }

    /// Completes the change: counts it, and announces it.
    #[inline(always)]
    fn announce(&mut self, changes: u64, change: Change, event: KeyEvent) {
        self.changed = false;
        self.stats.dirty += changes;
        self.effects.dirty += changes;
        if self.keyspace.listeners().concerns(self.db.clients.word(), event.0) {
            self.announce_to_listeners(change, event);
        }
    }

    #[cold]
    #[inline(never)]
    fn announce_to_listeners(&mut self, change: Change, event: KeyEvent) {
        let Edit { keyspace, db, listeners, effects, db_index, key, .. } = self;
        let db = ChangedDb { keyspace, shard: key.hash.shard(), number: *db_index, db, listeners, effects };
        announce(db, key.name, change, By::Command, event);
    }

    #[inline]
    fn set_value(&mut self, value: NewValue<'_, Object>, ttl: Ttl) {
        self.changed = true;
        if !self.overwrite(&value, ttl) {
            self.set_any_value(value, ttl);
        }
    }

    /// Writes the value over one of the same kind and length, if that changes nothing else; false if it would.
    #[inline]
    fn overwrite(&mut self, value: &NewValue<'_, Object>, ttl: Ttl) -> bool {
        let Some(slot_ref) = self.slot_ref.filter(|_| !self.db.captures.is_open()) else { return false };
        let Some(mut entry) = self.db.table.at_mut(slot_ref) else { return false };
        entry.update(|entry| {
            let stays = ttl == Ttl::Keep || ttl == Ttl::Clear && entry.expiry().is_none();
            stays && entry.overwrite(value)
        })
    }

    fn set_any_value(&mut self, value: NewValue<'_, Object>, ttl: Ttl) {
        let (keyspace, local, name) = (self.keyspace, self.local, self.key.name);
        let new_expiry = match ttl {
            Ttl::At(at) => Some(at.0.max(0) as u64),
            Ttl::Keep | Ttl::Clear => None,
        };
        let new_first = if let NewValue::Payload(object) = &value { object.next_expiry() } else { None };
        if !self.exists() {
            let entry = KeyEntry::new(name, value, new_expiry, keyspace.access_clock(self.origin.now).fresh());
            self.db.captures.touch(&self.db.table, keyspace.hasher(), name, local);
            self.db.table.insert_unique(local, entry, |entry| keyspace.hasher().local_of(entry.key()));
            self.came(new_expiry, new_first);
            self.event(EventClass::NEW, "new");
            return;
        }
        let done = self.with_head(|entry| {
            let (old, new) = match ttl {
                Ttl::Keep => (entry.expiry(), entry.expiry()),
                _ => (entry.expiry(), new_expiry),
            };
            let replaced = entry.set_value(value);
            if old != new {
                entry.set_expiry(new);
            }
            (old, new, replaced)
        });
        if let Some((old, new, replaced)) = done {
            self.key_due(old, new);
            let old_first = replaced.as_ref().and_then(Object::next_expiry);
            self.elements_due(old_first, new_first);
            if let Some(object) = replaced {
                self.discard(object);
            }
        }
    }

    /// Lets replies that list the value read the rest of it before it changes.
    #[inline]
    fn before_change(&mut self) {
        if !self.db.streamed_replies.is_empty()
            && let Some(entry) = self.slot_ref().and_then(|slot_ref| self.db.table.at(slot_ref))
        {
            self.db.streamed_replies.before_change(self.key.name, &entry.value());
        }
    }

    /// Frees an object that was taken out of the key, or leaves it to the replies that are reading it.
    pub fn discard(&mut self, object: Object) {
        if let Some(object) = self.db.leave_behind(self.key.name, object) {
            self.effects.discard(object);
        }
    }

    /// Leaves an object that was taken out of the key to the replies that are reading it, the caller among them.
    pub fn share(&mut self, object: Object) -> Arc<Object> {
        let object = Arc::new(object);
        self.db.share(self.key.name, &object);
        object
    }

    /// Counts an entry that was put in, with its expiry and the earliest of its elements.
    #[inline]
    fn came(&mut self, expiry: Option<u64>, first: Option<u64>) {
        let shard = self.key.hash.shard();
        self.keyspace.keys_came(shard, self.db_index, 1);
        if self.keyspace.slot_counts().is_on() {
            self.keyspace.slot_counts().key_came(self.key.hash.slot(), self.db_index);
        }
        self.keyspace.resizes(shard, self.db);
        self.key_due(None, expiry);
        self.elements_due(None, first);
        self.fresh = true;
    }

    /// Updates the index for a changed expiry of the key.
    #[inline]
    fn key_due(&mut self, old: Option<u64>, new: Option<u64>) {
        self.db.expiry.keys.change(old, new, self.local);
        self.keyspace.expires_at(self.key.hash.shard(), new);
        if let Some(expiry) = new.filter(|_| self.keyspace.is_following() && self.origin.caller.is_client()) {
            self.keyspace.replica_keys().remember(self.db_index, self.key.name, expiry);
        }
    }

    /// Updates the index for a changed earliest expiry of the key's elements.
    #[inline]
    fn elements_due(&mut self, old: Option<u64>, new: Option<u64>) {
        self.db.expiry.elements.change(old, new, self.local);
        self.keyspace.expires_at(self.key.hash.shard(), new);
    }

    /// Returns the place of the entry, if there is one.
    #[inline]
    fn slot_ref(&self) -> Option<SlotRef> {
        if self.fresh { self.fresh_slot_ref() } else { self.slot_ref }
    }

    #[inline(never)]
    fn fresh_slot_ref(&self) -> Option<SlotRef> {
        self.db.table.slot_ref(self.local, |entry| entry.has_key(self.key.name))
    }

    fn with_entry<R>(&mut self, change: impl FnOnce(&mut KeyEntry) -> R) -> Option<R> {
        self.with_entry_at(None, change)
    }

    /// Changes data that a key has beside its value, or replaces its value; the old value is [discarded](Self::discard)
    /// as it was.
    fn with_head<R>(&mut self, change: impl FnOnce(&mut KeyEntry) -> R) -> Option<R> {
        let slot_ref = self.slot_ref()?;
        let Db { table, captures, .. } = &mut *self.db;
        if captures.is_open() {
            captures.touch(table, self.keyspace.hasher(), self.key.name, self.local);
            if let Some(found) = table.at(slot_ref) {
                captures.begin(&found);
            }
        }
        Some(table.at_mut(slot_ref)?.update(change))
    }

    /// Changes the entry. `bytes`: the bytes of a string that change.
    fn with_entry_at<R>(&mut self, bytes: Option<&Range<usize>>, change: impl FnOnce(&mut KeyEntry) -> R) -> Option<R> {
        let slot_ref = self.slot_ref()?;
        let Db { table, captures, .. } = &mut *self.db;
        if captures.is_open() {
            captures.touch(table, self.keyspace.hasher(), self.key.name, self.local);
            if captures.has_large() {
                table.at_mut(slot_ref)?.update(|entry| captures.follow(entry, bytes));
            }
        }
        Some(table.at_mut(slot_ref)?.update(change))
    }
}

/// Returns the entry under another name.
pub fn renamed(entry: KeyEntry, name: &[u8]) -> KeyEntry {
    let (expiry, meta) = (entry.expiry(), entry.meta());
    let value = match entry.value() {
        Value::Inline(bytes) => NewValue::Inline(bytes),
        Value::Packed(bytes) => NewValue::Packed(bytes),
        Value::Int(n) => NewValue::Int(n),
        Value::Payload(_) => {
            let object = entry.into_payload().expect("the value was a payload");
            return KeyEntry::new(name, NewValue::Payload(object), expiry, meta);
        }
    };
    KeyEntry::new(name, value, expiry, meta)
}

/// Returns a copy of the entry under another name, with an access mark of its own.
pub fn copied(entry: &KeyEntry, name: &[u8], meta: u32, each: &dyn Fn()) -> KeyEntry {
    let value = match entry.value() {
        Value::Inline(bytes) => NewValue::Inline(bytes),
        Value::Packed(bytes) => NewValue::Packed(bytes),
        Value::Int(n) => NewValue::Int(n),
        Value::Payload(object) => {
            return object.copy(each).keep(|value| KeyEntry::new(name, value, entry.expiry(), meta));
        }
    };
    KeyEntry::new(name, value, entry.expiry(), meta)
}

impl Drop for Edit<'_> {
    fn drop(&mut self) {
        debug_assert!(!self.changed || std::thread::panicking(), "a change was not committed");
    }
}
