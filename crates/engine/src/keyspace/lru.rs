//! What happens to an entry when it is looked at: the access clock, and the end of its time.

use crate::clients::tracking;
use crate::data::event_class::EventClass;
use crate::data::table::element_deadline;
use crate::data::value::KeyEntry;
use crate::engine::Engine;
use crate::keyspace::shard::{Db, Shard};
use crate::propagation::effects::{Effects, Event};

/// How accesses are counted in an entry's 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessClock {
    /// Seconds, modulo 2^24.
    Recency(u32),
    /// Minutes (16 bits) above a logarithmic counter (8 bits).
    Frequency { minutes: u32, decay: u32, log_factor: u32, random: u32 },
}

/// The counter of a new key: high enough not to be the first to go.
const LFU_INIT: u32 = 5;

impl AccessClock {
    /// The 24 bits of an entry that is written now.
    pub fn fresh(self) -> u32 {
        match self {
            AccessClock::Recency(seconds) => seconds,
            AccessClock::Frequency { minutes, .. } => minutes << 8 | LFU_INIT,
        }
    }

    /// The 24 bits after one more access. The counter is Redis's: it decays by one every `decay` minutes and
    /// grows by one with a probability of 1 / (its value * factor + 1).
    pub fn accessed(self, meta: u32) -> u32 {
        match self {
            AccessClock::Recency(seconds) => seconds,
            AccessClock::Frequency { minutes, log_factor, random, .. } => {
                let counter = self.frequency(meta);
                let odds = u64::from(counter.saturating_sub(LFU_INIT)) * u64::from(log_factor) + 1;
                let grows = counter < 255 && u64::from(random).saturating_mul(odds) < 1 << 32;
                minutes << 8 | (counter + u32::from(grows))
            }
        }
    }

    /// The 24 bits of an entry that was last used so many seconds ago, or is used so often.
    pub fn marked(self, idle: Option<u64>, frequency: Option<u8>) -> u32 {
        match (self, idle, frequency) {
            (AccessClock::Recency(seconds), Some(idle), _) => {
                seconds.wrapping_sub(idle.min(structures::entry::MAX_META.into()) as u32) & structures::entry::MAX_META
            }
            (AccessClock::Frequency { minutes, .. }, _, Some(frequency)) => minutes << 8 | u32::from(frequency),
            _ => self.fresh(),
        }
    }

    /// The access counter as it has decayed by now (OBJECT FREQ).
    pub fn frequency(self, meta: u32) -> u32 {
        match self {
            AccessClock::Recency(_) => 0,
            AccessClock::Frequency { minutes, decay, .. } => {
                let elapsed = minutes.wrapping_sub(meta >> 8) & 0xFFFF;
                (meta & 0xFF).saturating_sub(elapsed.checked_div(decay).unwrap_or(0))
            }
        }
    }

    /// Seconds since the last access (OBJECT IDLETIME).
    pub fn idle_seconds(self, meta: u32) -> u32 {
        match self {
            AccessClock::Recency(seconds) => seconds.wrapping_sub(meta) & structures::entry::MAX_META,
            AccessClock::Frequency { .. } => 0,
        }
    }
}

/// A use of keys at one time.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    now: i64,
    /// Those of [`AccessClock::Recency`].
    seconds: u32,
}

impl Used {
    /// `now`: Unix time in milliseconds.
    #[inline]
    pub fn at(now: i64) -> Self {
        Used { now, seconds: (now / 1000) as u32 & structures::entry::MAX_META }
    }

    /// Writes only where the mark changes, which by the second is rare.
    #[inline(always)]
    pub fn mark(self, engine: &Engine, entry: &KeyEntry) {
        let meta = entry.meta();
        if meta != self.seconds || engine.counts_frequency() {
            let accessed = engine.access_clock(self.now).accessed(meta);
            if accessed != meta {
                entry.mark(accessed);
            }
        }
    }
}

/// A key lives up to its deadline and not through it.
#[inline]
pub fn is_due(deadline: u64, now: i64) -> bool {
    (deadline as i64) < now.saturating_add(1)
}

/// Removes an entry whose time has come; everything that its end causes happens here.
#[cold]
pub fn expire(engine: &Engine, shard: &mut Shard, effects: &mut Effects, db: u32, local: u64, name: &[u8]) {
    let removed = {
        let hasher = |entry: &KeyEntry| engine.hasher().local_of(entry.key());
        shard.dbs[db].table.remove(local, |entry| entry.key() == name, hasher)
    };
    if let Some(entry) = removed {
        expired(engine, shard, effects, db, local, entry);
    }
}

/// Why a key goes that nobody asked to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Expired,
    Evicted,
}

/// The same for an entry that was taken out already.
pub fn expired(engine: &Engine, shard: &mut Shard, effects: &mut Effects, db: u32, local: u64, entry: KeyEntry) {
    if engine.has_log() {
        effects.rare().expired.push((db, entry.key().to_vec()));
    }
    removed(engine, shard, effects, db, local, entry, Cause::Expired);
}

/// Everything but the log's part of the end of an entry that was taken out.
pub fn removed(
    engine: &Engine,
    shard: &mut Shard,
    effects: &mut Effects,
    db: u32,
    local: u64,
    entry: KeyEntry,
    cause: Cause,
) {
    let slot = &mut shard.dbs[db];
    slot.cut.removed(&slot.table, engine.hasher(), local, &entry);
    if let Some(deadline) = entry.deadline() {
        slot.expiry.keys.remove(deadline, local);
    }
    if let Some(first) = element_deadline(&entry) {
        slot.expiry.elements.remove(first, local);
    }
    let (class, event) = match cause {
        Cause::Expired => {
            shard.stats.expired += 1;
            (EventClass::EXPIRED, "expired")
        }
        Cause::Evicted => {
            shard.stats.evicted += 1;
            (EventClass::EVICTED, "evicted")
        }
    };
    slot.watchers.touch(entry.key(), false);
    if engine.tracking().is_on() {
        tracking::changed(engine, &mut shard.tracked, effects, entry.key(), true);
    }
    if slot.blocked.is_waited_for(entry.key()) {
        effects.rare().ready.push((db, entry.key().to_vec()));
    }
    if engine.wants_event(class) {
        let key = entry.key().to_vec();
        effects.rare().events.push(Event { class, name: event, db, key });
    }
    discard(slot, effects, entry);
}

/// Frees the value of an entry that was taken out, or leaves it to those who are reading it.
fn discard(slot: &mut Db, effects: &mut Effects, entry: KeyEntry) {
    let is_read = !slot.listings.is_empty() || slot.cut.has_large();
    let name = if is_read { entry.key().to_vec() } else { Vec::new() };
    let Some(object) = entry.into_payload() else { return };
    let left = if is_read { slot.leave_behind(&name, object) } else { Some(object) };
    if let Some(object) = left {
        effects.discard_outlived(object);
    }
}

/// Removes up to `max` elements of a collection whose time has come, and the key with the last one. Returns how many
/// were removed.
#[expect(clippy::too_many_arguments, reason = "where, when and how much")]
pub fn expire_elements(
    engine: &Engine,
    shard: &mut Shard,
    effects: &mut Effects,
    db: u32,
    local: u64,
    name: &[u8],
    now: i64,
    max: usize,
) -> usize {
    let slot = &mut shard.dbs[db];
    if !slot.listings.is_empty()
        && let Some(entry) = slot.table.find(local, |entry| entry.key() == name)
    {
        slot.listings.before_change(name, &entry.value());
    }
    slot.cut.touch(&slot.table, engine.hasher(), local);
    let Some(mut found) = slot.table.find_mut(local, |entry| entry.key() == name) else { return 0 };
    let mut removed: Vec<Vec<u8>> = Vec::new();
    let cut = &mut slot.cut;
    let change = found.update(|entry| {
        if cut.has_large() {
            cut.follow(entry, None);
        }
        let object = entry.payload_mut()?;
        let old = object.next_deadline();
        while removed.len() < max && object.pop_due(now.max(0) as u64, |element| removed.push(element.to_vec())) {}
        Some((old, object.next_deadline(), object.is_empty(), object.element_words()))
    });
    let Some((old, new, empty, words)) = change else { return 0 };
    slot.expiry.elements.change(old, new, local);
    let count = removed.len();
    if count == 0 {
        return 0;
    }
    shard.stats.expired_elements += count as u64;
    slot.watchers.touch(name, !empty);
    if engine.tracking().is_on() {
        tracking::changed(engine, &mut shard.tracked, effects, name, true);
    }
    if slot.blocked.is_waited_for(name) {
        effects.rare().ready.push((db, name.to_vec()));
    }
    let mut tell = |class: EventClass, event: &'static str| {
        if engine.wants_event(class) {
            effects.rare().events.push(Event { class, name: event, db, key: name.to_vec() });
        }
    };
    tell(words.class, words.expired);
    if empty {
        tell(EventClass::GENERIC, "del");
        let hasher = |entry: &KeyEntry| engine.hasher().local_of(entry.key());
        if let Some(entry) = slot.table.remove(local, |entry| entry.key() == name, hasher) {
            if let Some(deadline) = entry.deadline() {
                slot.expiry.keys.remove(deadline, local);
            }
            discard(slot, effects, entry);
        }
    }
    if engine.has_log() {
        let record = [words.removal.to_vec(), name.to_vec()].into_iter().chain(removed).collect();
        effects.rare().expired_elements.push((db, record));
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(decay: u32, log_factor: u32, random: u32) -> AccessClock {
        AccessClock::Frequency { minutes: 0xFFFF, decay, log_factor, random }
    }

    #[test]
    fn counters_grow_by_chance() {
        let grown =
            |counter: u32, log_factor, random| clock(1, log_factor, random).accessed(0xFFFF << 8 | counter) & 0xFF;
        assert_eq!([0, 5].map(|counter| grown(counter, 10, u32::MAX)), [1, 6], "new keys always do");
        let one_in_eleven = u32::MAX / 11;
        assert_eq!([one_in_eleven, one_in_eleven + 1].map(|random| grown(6, 10, random)), [7, 6]);
        assert_eq!([0, 1].map(|random| grown(254, 0, random)), [255, 255]);
        assert_eq!(grown(255, 0, 0), 255);
    }

    #[test]
    fn directives_at_their_limits() {
        for log_factor in [i32::MAX as u32, u32::MAX] {
            for counter in 6..=255 {
                let mark = 0xFFFF << 8 | counter;
                for random in [2, u32::MAX] {
                    assert_eq!(clock(1, log_factor, random).accessed(mark), mark);
                }
                assert_eq!(clock(1, log_factor, 0).accessed(mark) & 0xFF, (counter + 1).min(255));
            }
        }
        assert_eq!([0, 1, u32::MAX].map(|decay| clock(decay, 1, 1).frequency(200)), [200, 0, 200]);
    }
}
