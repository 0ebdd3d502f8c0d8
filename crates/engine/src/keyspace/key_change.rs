//! The announcement of a change: the one place from which others learn of it.
//!
//! Commits of edits, edits in place, removals, expiring elements and loads announce a key that they have changed while
//! they hold the lock of its shard; flushes, SWAPDB and exchanged data sets announce a database's part in a shard that
//! gets another table. An announcement raises the flags of clients that watch the key, collects the clients that hold a
//! copy of it or wait for it, records the event, and notes the change for observers. Everything but the flags is
//! carried out once the locks are released ([`Engine::publish`](crate::Engine::publish)).
//!
//! Slots that arrive or go are announced key by key, as they are loaded and removed. A slot that is hidden or shown
//! changes no key.

use crate::clients::key_clients::ShardListeners;
use crate::clients::watch::Presence;
use crate::data::event_class::EventClass;
use crate::data::table::Table;
use crate::keyspace::Keyspace;
use crate::keyspace::caller::is_due;
use crate::keyspace::shard::Db;
use crate::propagation::change_observer::{By, Change, ChangeNote, ChangeNotes, ChangeObserver, Extent};
use crate::propagation::effects::{Effects, Event};
use crate::time::UnixMs;
use std::sync::Arc;

/// Event of a change: the class by which `notify-keyspace-events` selects it, and its name.
pub type KeyEvent = (EventClass, &'static str);

/// A read that found no key.
pub(crate) const KEY_MISS: KeyEvent = (EventClass::KEY_MISS, "keymiss");
/// No event, for changes that publish theirs apart.
pub(crate) const SILENT: KeyEvent = (EventClass(0), "");

/// The database of a shard in which a change was made, with the shard's lock held.
pub struct ChangedDb<'s> {
    /// The keyspace.
    pub keyspace: &'s Keyspace,
    /// The shard's number.
    pub shard: usize,
    /// The database's number.
    pub number: u32,
    /// The database's part in the shard.
    pub db: &'s mut Db,
    /// The shard's listeners.
    pub listeners: &'s mut ShardListeners,
    /// Effects of the command.
    pub effects: &'s mut Effects,
}

/// Announces a change of a key to all who listen.
#[inline(always)]
pub(crate) fn announce(db: ChangedDb<'_>, key: &[u8], change: Change, by: By, event: KeyEvent) {
    if db.keyspace.listeners().concerns(db.db.clients.word(), event.0) {
        announce_to_listeners(db, key, change, by, event);
    }
}

#[cold]
#[inline(never)]
fn announce_to_listeners(mut at: ChangedDb<'_>, key: &[u8], change: Change, by: By, event: KeyEvent) {
    if change != Change::Beside {
        at.db.clients.touch(key, change == Change::Written);
        if at.keyspace.tracking().is_on() {
            at.keyspace.tracking().changed(&mut at.listeners.tracked, at.effects, key, by != By::Command);
        }
    }
    // Some clients wait for a key's removal.
    if at.db.clients.wait_queues().is_waited_for(key) {
        at.effects.rare().ready.push((at.number, key.to_vec()));
    }
    publish_event(at.keyspace, at.effects, at.number, key, event);
    if at.keyspace.observers().iter().any(|observer| observer.wants(at.number, key)) {
        at.note(Extent::Key { name: key.into(), change, by });
    }
}

impl ChangedDb<'_> {
    /// Notes a change for observers.
    fn note(&mut self, extent: Extent) {
        let version = self.listeners.next_version();
        self.effects.rare().notes.add(ChangeNote { shard: self.shard, db: self.number, version, extent });
    }

    /// Wakes all clients that wait for keys: some wait for a removal.
    fn wake_all(&mut self) {
        let queues = self.db.clients.wait_queues();
        if !queues.is_empty() {
            self.effects.rare().ready.extend(queues.keys().map(|key| (self.number, key.to_vec())));
        }
    }

    /// Announces that the database's part in the shard gets this table instead of its own.
    pub fn announce_table(&mut self, new: &Table, now: UnixMs) {
        self.wake_all();
        let seen = |table: &Table, key: &[u8]| presence(self.keyspace, table, key, now);
        let Db { table, clients, .. } = &mut *self.db;
        clients.touch_all(|key| (seen(table, key), seen(new, key)));
        let is_empty = self.db.table.is_empty() && new.is_empty();
        if self.keyspace.listeners().has_observers() && !is_empty {
            self.note(if new.is_empty() { Extent::Emptied } else { Extent::Replaced });
        }
    }
}

/// Announces that two databases' parts in a shard, which are given with their numbers, change places.
pub fn announce_swap(
    keyspace: &Keyspace,
    (shard, listeners): (usize, &mut ShardListeners),
    effects: &mut Effects,
    one: (u32, &mut Db),
    two: (u32, &mut Db),
    now: UnixMs,
) {
    let seen = |table: &Table, key: &[u8]| presence(keyspace, table, key, now);
    let ((one, first), (two, second)) = (one, two);
    first.clients.touch_all(|key| (seen(&first.table, key), seen(&second.table, key)));
    second.clients.touch_all(|key| (seen(&second.table, key), seen(&first.table, key)));
    let is_empty = first.table.is_empty() && second.table.is_empty();
    for (number, db, other) in [(one, first, two), (two, second, one)] {
        let mut at = ChangedDb { keyspace, shard, number, db, listeners: &mut *listeners, effects: &mut *effects };
        at.wake_all();
        if keyspace.listeners().has_observers() && !is_empty {
            at.note(Extent::Swapped(other));
        }
    }
}

/// Announces that all clients' copies of a shard's keys are out of date.
pub fn announce_flush(keyspace: &Keyspace, listeners: &mut ShardListeners, effects: &mut Effects) {
    if keyspace.tracking().is_on() {
        effects.rare().flushed = true;
    }
    keyspace.tracking().clear(&mut listeners.tracked);
}

impl Keyspace {
    /// Adds an observer of all changes from this moment on, in which nothing runs.
    pub fn install_observer(&self, observer: Arc<dyn ChangeObserver>) {
        let all = self.locks().escalated();
        self.observers().add(observer);
        self.listeners().set_observers();
        drop(all);
    }

    /// Hands the changes among these effects to the observers. No lock may be held.
    /// [`Engine::publish`](crate::Engine::publish) does so with the other effects; a load has none.
    pub fn inform_observers(&self, effects: &mut Effects) {
        if effects.seen().is_some() {
            self.hand_to_observers(&mut effects.rare().notes);
        }
    }

    /// Hands changes to the observers. No lock may be held.
    pub(crate) fn hand_to_observers(&self, notes: &mut ChangeNotes) {
        let notes = notes.take();
        if !notes.is_empty() {
            self.observers().iter().for_each(|observer| observer.observe(&notes));
        }
    }
}

/// Returns the presence of a key in a table.
fn presence(keyspace: &Keyspace, table: &Table, key: &[u8], now: UnixMs) -> Presence {
    match table.find(keyspace.hasher().local_of(key), |entry| entry.key() == key) {
        None => Presence::Missing,
        Some(entry) if entry.expiry().is_some_and(|expiry| is_due(expiry, now)) => Presence::Stale,
        Some(_) => Presence::Live,
    }
}

/// Publishes an event of a key, if its class is wanted.
#[inline]
pub(crate) fn publish_event(keyspace: &Keyspace, effects: &mut Effects, db: u32, key: &[u8], event: KeyEvent) {
    if keyspace.wants_event(event.0) {
        record_event(effects, db, key, event);
    }
}

#[cold]
fn record_event(effects: &mut Effects, db: u32, key: &[u8], (class, name): KeyEvent) {
    effects.rare().events.push(Event { class, name, db, key: key.to_vec() });
}
