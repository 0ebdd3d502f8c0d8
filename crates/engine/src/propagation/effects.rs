//! Effects of a command besides its reply: collected under the locks, carried out after them.

use crate::data::event_class::EventClass;
use crate::data::table::{ExpiryIndex, Table};
use crate::data::value::Object;
use crate::propagation::change_observer::ChangeNotes;
use crate::scripts::function_libraries::Libraries;
use crate::scripts::script_cache::Script;
use smallvec::SmallVec;
use std::sync::Arc;

/// Something that takes long to free. Dropping it frees it.
pub enum Garbage {
    /// The value of a removed key.
    Object(Object),
    /// A whole database, with the index of its expiries.
    Table(Table, ExpiryIndex),
    /// Libraries of functions that were replaced.
    Libraries(Arc<Libraries>),
    /// Scripts that were flushed.
    Scripts(Vec<Arc<Script>>),
    /// Commands of a primary's stream that have arrived and will not be applied.
    Stream(Vec<u8>),
    /// Work that will not be done any more.
    Work(Box<dyn Send>),
}

impl Garbage {
    /// Returns the number of objects, as `lazyfreed_objects` counts them.
    pub fn objects(&self) -> usize {
        match self {
            Garbage::Object(_) | Garbage::Stream(_) => 1,
            Garbage::Work(_) => 0,
            Garbage::Table(table, _) => table.len(),
            Garbage::Libraries(libraries) => libraries.functions(),
            Garbage::Scripts(scripts) => scripts.len(),
        }
    }

    /// Frees some of its pieces; true when nothing is left to free.
    pub fn drain_step(&mut self, pieces: usize) -> bool {
        match self {
            Garbage::Object(object) => object.drain_step(pieces),
            Garbage::Table(table, _) => table.drain_step(pieces),
            Garbage::Libraries(_) | Garbage::Scripts(_) | Garbage::Stream(_) | Garbage::Work(_) => true,
        }
    }
}

/// Objects below this many pieces are freed where they are; handing them over would cost more.
const FREE_HERE: usize = 64;

/// An event of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Class by which `notify-keyspace-events` selects it.
    pub class: EventClass,
    /// The event's name, as subscribers get it.
    pub name: &'static str,
    /// The number of the database.
    pub db: u32,
    /// The key's name.
    pub key: Vec<u8>,
}

/// Receiver of the effects of commands when their locks are released. Called without locks held.
pub trait EffectSink: Send + Sync {
    /// Frees garbage, preferably on another thread.
    fn free(&self, garbage: Vec<Garbage>) {
        drop(garbage);
    }

    /// Publishes events of keys that `notify-keyspace-events` selects.
    fn events(&self, _events: Vec<Event>) {}
}

/// A key with waiting clients that may be served now: database and name.
pub type ReadyKey = (u32, Vec<u8>);

/// Ids of clients, ascending.
pub type ClientIds = SmallVec<[u64; 2]>;

/// A changed key: readers of it are notified when the locks are released.
#[derive(Debug)]
pub struct TrackedChange {
    /// Its name.
    pub key: Box<[u8]>,
    /// Clients that have a copy of it.
    pub readers: ClientIds,
    /// Whether it had expired; otherwise a client's command changed it.
    pub expired: bool,
}

/// The client that made a change.
#[derive(Clone, Copy, Debug)]
pub struct Author {
    /// The worker that runs the command.
    pub worker: usize,
    /// Id of the client whose command runs; 0 if there is none.
    pub client: u64,
}

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
    /// Number of its changes (`rdb_changes_since_last_save`); 0 is not logged.
    pub dirty: u64,
    /// Effects that most commands do not have.
    rare: Option<Box<RareEffects>>,
}

/// Effects that most commands do not have.
#[derive(Default)]
pub struct RareEffects {
    /// Form in which the command is logged.
    pub logged: Logged,
    /// Keys that were found expired and removed: logged as DEL before the command itself.
    pub expired: Vec<(u32, Vec<u8>)>,
    /// Elements of collections that were found expired and removed, as commands that remove them; logged likewise.
    pub expired_elements: Vec<(u32, Record)>,
    /// A command that is sent to replicas though it changes nothing.
    pub told: Option<(u32, Record)>,
    /// Removed values that are expensive to free.
    pub garbage: Vec<Garbage>,
    /// Values of keys that were found expired or were evicted.
    pub outlived: Vec<Garbage>,
    /// Garbage to be freed before the reply.
    pub foreground: Vec<Garbage>,
    /// Events to be published.
    pub events: Vec<Event>,
    /// Keys with waiting clients that may be served now.
    pub ready: Vec<ReadyKey>,
    /// Changed keys that clients may hold copies of.
    pub changes: Vec<TrackedChange>,
    /// Changes that observers have not seen yet.
    pub notes: ChangeNotes,
    /// Whether a database was emptied, so that all copies are out of date.
    pub flushed: bool,
}

impl Effects {
    /// Returns the rare effects, for which room is made.
    pub fn rare(&mut self) -> &mut RareEffects {
        self.rare.get_or_insert_default()
    }

    /// Returns the rare effects, if there are any.
    #[inline]
    pub fn seen(&self) -> Option<&RareEffects> {
        self.rare.as_deref()
    }

    /// Takes the rare effects out, if there are any.
    #[inline]
    pub fn take_rare(&mut self) -> Option<Box<RareEffects>> {
        self.rare.take()
    }

    /// Adds the effects of another command, whose changes have been logged already.
    pub fn absorb(&mut self, mut other: Effects) {
        let Some(mut theirs) = other.take_rare() else { return };
        let own = self.rare();
        own.garbage.append(&mut theirs.garbage);
        own.outlived.append(&mut theirs.outlived);
        own.foreground.append(&mut theirs.foreground);
        own.events.append(&mut theirs.events);
        own.changes.append(&mut theirs.changes);
        own.notes.append(&mut theirs.notes);
        own.flushed |= theirs.flushed;
        for key in theirs.ready {
            if !own.ready.contains(&key) {
                own.ready.push(key);
            }
        }
    }

    /// Drops the keyspace events.
    pub fn drop_events(&mut self) {
        self.rare.iter_mut().for_each(|rare| rare.events.clear());
    }

    /// Returns the form in which the command is to be logged.
    pub fn logged(&self) -> &Logged {
        self.rare.as_ref().map_or(&Logged::Verbatim, |rare| &rare.logged)
    }

    /// Frees `object` here when that is quick, otherwise later in the background.
    pub fn discard(&mut self, object: Object) {
        if object.free_effort() > FREE_HERE {
            self.rare().garbage.push(Garbage::Object(object));
        }
    }

    /// Frees the value of an expired or evicted key here when that is quick, otherwise later.
    pub fn discard_outlived(&mut self, object: Object) {
        if object.free_effort() > FREE_HERE {
            self.rare().outlived.push(Garbage::Object(object));
        }
    }

    /// Decides which garbage is freed before the reply, and which in the background: of the values so far, the ones of
    /// expired or evicted keys, and all others.
    pub fn settle(&mut self, outlived_is_lazy: impl FnOnce() -> bool, else_is_lazy: impl FnOnce() -> bool) {
        let Some(rare) = &mut self.rare else { return };
        if !rare.garbage.is_empty() && !else_is_lazy() {
            rare.foreground.append(&mut rare.garbage);
        }
        if !rare.outlived.is_empty() {
            let to = if outlived_is_lazy() { &mut rare.garbage } else { &mut rare.foreground };
            to.append(&mut rare.outlived);
        }
    }

    /// Takes the garbage to be freed before the reply.
    pub fn take_foreground(&mut self) -> Vec<Garbage> {
        self.rare.as_mut().map(|rare| std::mem::take(&mut rare.foreground)).unwrap_or_default()
    }

    /// Frees the contents of a table in the background.
    pub fn discard_table(&mut self, table: Table, expiry: ExpiryIndex) {
        if !table.is_empty() {
            self.rare().garbage.push(Garbage::Table(table, expiry));
        }
    }

    /// Frees libraries of functions, in the background if there are many.
    pub fn discard_libraries(&mut self, libraries: Arc<Libraries>) {
        if libraries.functions() > FREE_HERE {
            self.rare().garbage.push(Garbage::Libraries(libraries));
        }
    }

    /// Frees scripts, likewise.
    pub fn discard_scripts(&mut self, scripts: Vec<Arc<Script>>) {
        if scripts.len() > FREE_HERE {
            self.rare().garbage.push(Garbage::Scripts(scripts));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use structures::set::{Limits, Set};

    fn large() -> Object {
        const LIMITS: Limits = Limits { intset_entries: 0, listpack_entries: 0, listpack_value: 0 };
        let mut set = Set::big();
        (0..=FREE_HERE as u32).for_each(|n| _ = set.insert(&n.to_le_bytes(), &LIMITS));
        Object::Set(set)
    }

    #[test]
    fn values_are_freed_before_the_reply_depending_on_why_they_go() {
        for (outlived_is_lazy, else_is_lazy) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut effects = Effects::default();
            effects.discard(large());
            effects.discard_outlived(large());
            effects.discard_outlived(large());
            effects.settle(|| outlived_is_lazy, || else_is_lazy);
            let expected = usize::from(!else_is_lazy) + 2 * usize::from(!outlived_is_lazy);
            assert_eq!(effects.take_foreground().len(), expected);
            assert_eq!(effects.seen().map(|rare| rare.garbage.len()), Some(3 - expected));
        }
    }
}
