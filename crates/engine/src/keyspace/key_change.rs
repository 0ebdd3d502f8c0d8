//! The announcement of a change: the one place from which others learn of it.
//!
//! Commits of edits, edits in place, removals and exchanged tables announce what they have changed while they hold the
//! lock of the shard. The announcement raises the flags of clients that watch the key, collects the clients that hold a
//! copy of it or wait for it, and records the event. Everything but the flags is carried out once the locks are
//! released ([`Engine::publish`](crate::Engine::publish)).

use crate::clients::tracking::Tracked;
use crate::data::event_class::EventClass;
use crate::keyspace::Keyspace;
use crate::keyspace::shard::Db;
use crate::propagation::effects::{Effects, Event};

/// Event of a change: the class by which `notify-keyspace-events` selects it, and its name.
pub type KeyEvent = (EventClass, &'static str);

/// A read that found no key.
pub(crate) const KEY_MISS: KeyEvent = (EventClass::KEY_MISS, "keymiss");
/// No event, for changes that publish theirs apart.
pub(crate) const SILENT: KeyEvent = (EventClass(0), "");

/// Effect of a change on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key is new, or has another value or expiry.
    Written,
    /// The key is gone.
    Removed,
    /// Data beside the value was changed, such as a stream's groups: the key counts as unchanged for clients that watch
    /// it or hold a copy of it.
    Beside,
}

/// Originator of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A command.
    Command,
    /// Time: the key or elements of it have expired.
    Expiry,
    /// The limit to memory.
    Eviction,
}

/// The database of a shard in which a change was made, with the shard's lock held.
pub(crate) struct ChangedDb<'s> {
    pub keyspace: &'s Keyspace,
    pub db: &'s mut Db,
    pub tracked: &'s mut Tracked,
    pub effects: &'s mut Effects,
    pub number: u32,
}

/// Announces a change of a key to everybody who listens.
#[inline(always)]
pub(crate) fn announce(db: ChangedDb<'_>, key: &[u8], change: Change, by: By, event: KeyEvent) {
    if db.keyspace.listeners().concerns(&db.db.clients, event.0) {
        announce_to_listeners(db, key, change, by, event);
    }
}

#[cold]
#[inline(never)]
fn announce_to_listeners(at: ChangedDb<'_>, key: &[u8], change: Change, by: By, event: KeyEvent) {
    let ChangedDb { keyspace, db, tracked, effects, number } = at;
    if change != Change::Beside {
        db.clients.touch(key, change == Change::Written);
        if keyspace.tracking().is_on() {
            keyspace.tracking().changed(tracked, effects, key, by != By::Command);
        }
    }
    // Some clients wait for a key's removal.
    if db.clients.wait_queues().is_waited_for(key) {
        effects.rare().ready.push((number, key.to_vec()));
    }
    publish_event(keyspace, effects, number, key, event);
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
