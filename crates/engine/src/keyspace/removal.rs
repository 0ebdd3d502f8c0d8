//! The removal of a key that no client asked for: it has expired, or it is evicted. Likewise of elements of
//! collections.

use crate::data::event_class::EventClass;
use crate::data::table::element_expiry;
use crate::data::value::KeyEntry;
use crate::keyspace::Keyspace;
use crate::keyspace::caller::is_due;
use crate::keyspace::key_change::{ChangedDb, announce, publish_event};
use crate::keyspace::shard::{Db, Shard};
use crate::propagation::change_observer::{By, Change};
use crate::propagation::effects::Effects;
use crate::time::UnixMs;

/// Removes an expired entry, and announces it.
#[cold]
pub fn expire(keyspace: &Keyspace, shard: &mut Shard, effects: &mut Effects, db: u32, local: u64, name: &[u8]) {
    let removed = {
        let hasher = |entry: &KeyEntry| keyspace.hasher().local_of(entry.key());
        shard.dbs[db].table.remove(local, |entry| entry.key() == name, hasher)
    };
    if let Some(entry) = removed {
        expired(keyspace, shard, effects, db, local, entry);
    }
}

/// Announces the removal of an expired entry that was taken out already.
pub fn expired(keyspace: &Keyspace, shard: &mut Shard, effects: &mut Effects, db: u32, local: u64, entry: KeyEntry) {
    if keyspace.has_log() {
        effects.rare().expired.push((db, entry.key().to_vec()));
    }
    removed(keyspace, shard, effects, db, local, entry, By::Expiry);
}

/// Announces the removal of an entry that was taken out, except to the log.
pub fn removed(
    keyspace: &Keyspace,
    shard: &mut Shard,
    effects: &mut Effects,
    db: u32,
    local: u64,
    entry: KeyEntry,
    by: By,
) {
    let index = shard.index();
    keyspace.key_went(index, db, entry.key());
    let slot = &mut shard.dbs[db];
    keyspace.resizes(index, slot);
    slot.captures.removed(&slot.table, keyspace.hasher(), local, &entry);
    if let Some(expiry) = entry.expiry() {
        slot.expiry.keys.remove(expiry, local);
    }
    if let Some(first) = element_expiry(&entry) {
        slot.expiry.elements.remove(first, local);
    }
    let event = match by {
        By::Eviction => {
            shard.stats.evicted += 1;
            (EventClass::EVICTED, "evicted")
        }
        By::Expiry | By::Command => {
            shard.stats.expired += 1;
            (EventClass::EXPIRED, "expired")
        }
    };
    let listeners = &mut shard.listeners;
    let changed = ChangedDb { keyspace, shard: index, number: db, db: slot, listeners, effects };
    announce(changed, entry.key(), Change::Removed, by, event);
    discard(slot, effects, entry);
}

/// Frees the value of an entry that was taken out, or leaves it to the replies that are reading it.
fn discard(slot: &mut Db, effects: &mut Effects, entry: KeyEntry) {
    let is_read = !slot.streamed_replies.is_empty() || slot.captures.has_large();
    let name = if is_read { entry.key().to_vec() } else { Vec::new() };
    let Some(object) = entry.into_payload() else { return };
    let left = if is_read { slot.leave_behind(&name, object) } else { Some(object) };
    if let Some(object) = left {
        effects.discard_outlived(object);
    }
}

/// Removes up to `max` expired elements of a collection, and the key with the last one. Returns how many were removed.
#[expect(clippy::too_many_arguments, reason = "where, when and how much")]
pub fn expire_elements(
    keyspace: &Keyspace,
    shard: &mut Shard,
    effects: &mut Effects,
    db: u32,
    local: u64,
    name: &[u8],
    now: UnixMs,
    max: usize,
) -> usize {
    let index = shard.index();
    let slot = &mut shard.dbs[db];
    if !slot.streamed_replies.is_empty()
        && let Some(entry) = slot.table.find(local, |entry| entry.key() == name)
    {
        slot.streamed_replies.before_change(name, &entry.value());
    }
    slot.captures.touch(&slot.table, keyspace.hasher(), name, local);
    let Some(mut found) = slot.table.find_mut(local, |entry| entry.key() == name) else { return 0 };
    let mut removed: Vec<Vec<u8>> = Vec::new();
    let captures = &mut slot.captures;
    let change = found.update(|entry| {
        if captures.has_large() {
            captures.follow(entry, None);
        }
        let object = entry.payload_mut()?;
        let old = object.next_expiry();
        while removed.len() < max && object.pop_due(now.0.max(0) as u64, |element| removed.push(element.to_vec())) {}
        Some((old, object.next_expiry(), object.is_empty(), object.element_words()))
    });
    let Some((old, new, empty, words)) = change else { return 0 };
    slot.expiry.elements.change(old, new, local);
    keyspace.expires_at(index, new);
    let count = removed.len();
    if count == 0 {
        return 0;
    }
    shard.stats.expired_elements += count as u64;
    let change = if empty { Change::Removed } else { Change::Written };
    let listeners = &mut shard.listeners;
    let changed = ChangedDb { keyspace, shard: index, number: db, db: slot, listeners, effects };
    announce(changed, name, change, By::Expiry, (words.class, words.expired));
    if empty {
        publish_event(keyspace, effects, db, name, (EventClass::GENERIC, "del"));
        let hasher = |entry: &KeyEntry| keyspace.hasher().local_of(entry.key());
        if let Some(entry) = slot.table.remove(local, |entry| entry.key() == name, hasher) {
            keyspace.key_went(index, db, name);
            keyspace.resizes(index, slot);
            if let Some(expiry) = entry.expiry() {
                slot.expiry.keys.remove(expiry, local);
            }
            discard(slot, effects, entry);
        }
    }
    if keyspace.has_log() {
        let record = [words.removal.to_vec(), name.to_vec()].into_iter().chain(removed).collect();
        effects.rare().expired_elements.push((db, record));
    }
    count
}

impl Keyspace {
    /// Removes the expired ones of these keys of one shard, for walks that come upon them, unless such keys
    /// [stay](Self::keeps_expired) now.
    pub fn remove_expired(&self, shard: &mut Shard, effects: &mut Effects, db: u32, names: &[Vec<u8>], now: UnixMs) {
        if self.keeps_expired() {
            return;
        }
        for name in names {
            let local = self.hasher().local_of(name);
            let found = shard.dbs[db].table.find(local, |entry| entry.key() == name);
            if found.and_then(|entry| entry.expiry()).is_some_and(|at| is_due(at, now)) {
                expire(self, shard, effects, db, local, name);
            }
        }
    }
}
