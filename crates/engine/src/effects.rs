//! What a command does besides replying: collected under the locks, carried out after them.

use crate::expiry::ExpiryIndex;
use crate::shard::Table;
use crate::tracking::Change;
use crate::value::{Object, Value};

/// Something that takes long to free. Dropping it frees it.
pub enum Garbage {
    Object(Object),
    Table(Table, ExpiryIndex),
    /// What somebody was about to do.
    Work(Box<dyn Send>),
}

/// Objects below this many pieces are freed where they are; handing them over would cost more.
const FREE_HERE: usize = 64;

/// Classes of keyspace events, as `notify-keyspace-events` selects them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventClass(pub u32);

impl EventClass {
    pub const GENERIC: EventClass = EventClass(1 << 2);
    pub const STRING: EventClass = EventClass(1 << 3);
    pub const SET: EventClass = EventClass(1 << 5);
    pub const LIST: EventClass = EventClass(1 << 4);
    pub const HASH: EventClass = EventClass(1 << 6);
    pub const SORTED_SET: EventClass = EventClass(1 << 7);
    pub const EXPIRED: EventClass = EventClass(1 << 8);
    pub const EVICTED: EventClass = EventClass(1 << 9);
    pub const STREAM: EventClass = EventClass(1 << 10);
    pub const KEY_MISS: EventClass = EventClass(1 << 11);
    pub const NEW: EventClass = EventClass(1 << 14);
}

/// Something happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub class: EventClass,
    pub name: &'static str,
    pub db: u32,
    pub key: Vec<u8>,
}

/// A key with waiting clients that may be served now: database and name.
pub type ReadyKey = (u32, Vec<u8>);

/// One command for the change log: a name and arguments.
pub type Record = Vec<Vec<u8>>;

/// How a command goes into the change log.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Logged {
    /// As the client sent it.
    #[default]
    Verbatim,
    /// As these commands, which say the same without depending on time, chance or state.
    As(Vec<Record>),
    /// Not at all.
    Nothing,
}

/// The effects of one command.
#[derive(Default)]
pub struct Effects {
    /// How many changes it made (`rdb_changes_since_last_save`); 0 is not logged.
    pub dirty: u64,
    /// What most commands have none of.
    rare: Option<Box<RareEffects>>,
}

/// Effects that most commands do not have.
#[derive(Default)]
pub struct RareEffects {
    pub logged: Logged,
    /// Keys that were found expired and removed: logged as DEL before the command itself.
    pub expired: Vec<(u32, Vec<u8>)>,
    /// Elements of collections that were found expired and removed, as commands that remove them; logged likewise.
    pub expired_elements: Vec<(u32, Record)>,
    pub garbage: Vec<Garbage>,
    pub events: Vec<Event>,
    /// Keys with waiting clients that may be served now.
    pub ready: Vec<ReadyKey>,
    /// Changed keys that somebody may have a copy of.
    pub changes: Vec<Change>,
    /// A database was emptied, so all copies are out of date.
    pub flushed: bool,
}

impl Effects {
    /// Room for rare effects.
    pub fn rare(&mut self) -> &mut RareEffects {
        self.rare.get_or_insert_default()
    }

    /// The rare effects, if there are any.
    #[inline]
    pub fn seen(&self) -> Option<&RareEffects> {
        self.rare.as_deref()
    }

    /// Takes the rare effects out, if there are any.
    #[inline]
    pub fn take_rare(&mut self) -> Option<Box<RareEffects>> {
        self.rare.take()
    }

    /// Adds what another command leaves to be done. What it changed has been logged already.
    pub fn absorb(&mut self, mut other: Effects) {
        let Some(mut theirs) = other.take_rare() else { return };
        let own = self.rare();
        own.garbage.append(&mut theirs.garbage);
        own.events.append(&mut theirs.events);
        own.changes.append(&mut theirs.changes);
        own.flushed |= theirs.flushed;
        for key in theirs.ready {
            if !own.ready.contains(&key) {
                own.ready.push(key);
            }
        }
    }

    /// How the command is to be logged.
    pub fn logged(&self) -> &Logged {
        self.rare.as_ref().map_or(&Logged::Verbatim, |rare| &rare.logged)
    }

    /// Frees `object` here when that is quick, otherwise later in the background.
    pub fn discard(&mut self, object: Object) {
        if object.free_effort() > FREE_HERE {
            self.rare().garbage.push(Garbage::Object(object));
        }
    }

    /// The same for all that a table holds.
    pub fn discard_table(&mut self, table: Table, expiry: ExpiryIndex) {
        let is_large = |value| matches!(value, Value::Payload(object) if object.free_effort() > FREE_HERE);
        if table.len() > FREE_HERE || table.iter().any(|entry| is_large(entry.value())) {
            self.rare().garbage.push(Garbage::Table(table, expiry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::KeyEntry;
    use structures::entry::NewValue;
    use structures::set::{Limits, Set};

    #[test]
    fn a_table_of_few_keys_is_handed_over_if_one_of_them_is_large() {
        const LIMITS: Limits = Limits { intset_entries: 0, listpack_entries: 0, listpack_value: 0 };
        for (members, is_garbage) in [(FREE_HERE as u32, false), (FREE_HERE as u32 + 1, true)] {
            let mut set = Set::big();
            (0..members).for_each(|n| _ = set.insert(&n.to_le_bytes(), &LIMITS));
            let mut table = Table::new();
            let entry = KeyEntry::new(b"key", NewValue::Payload(Object::Set(set)), None, 0);
            table.insert_unique(1 << 60, entry, |_| 1 << 60);
            let mut effects = Effects::default();
            effects.discard_table(table, ExpiryIndex::default());
            assert_eq!(effects.seen().is_some_and(|rare| rare.garbage.len() == 1), is_garbage, "{members}");
        }
    }
}
