//! Long replies that list a collection, written in pieces while others go on writing to it.
//!
//! A reply of a million elements must be of one moment, and say in its first line how many elements follow. But it
//! takes long to write and longer to send, and neither may hold the shard's lock, nor should there be a copy. So the
//! reader takes the number under the lock, leaves a note of itself in the shard ([`Listings`]), and writes a piece
//! whenever its client can take more. While nobody changes the collection that is all, and costs no memory.
//!
//! ```text
//!   InPlace ------ a small form is about to be changed -------------------> Written     the rest of the reply, as bytes
//!      |
//!      +---------- it was removed (DEL, overwritten, expired) -----------> Owned       the collection itself
//! ```
//!
//! Large collections know of the walks through them and keep for each, of an element that is changed ahead of it, what
//! it was ([`structures::snapshot_iterator`]): such listings [follow](Lister::begin), and a writer pays for his element only. Where
//! the form of the collection cannot do that, whoever changes it first writes the rest of the reply down, in the shard,
//! and the reader sends that from then on. Who removes it gives it to its readers instead of freeing it, and who moves
//! it to another name or database takes their notes along and tells them the new place, so that both cost nothing.
//!
//! # Asking for it
//! A command writes the header of its reply, [begins](Listing::begin) a listing with a [`Lister`] of its type, and goes
//! on in pieces by [`Listing::piece`]. [`Edit`](crate::keyspace::edit::Edit) and [`access`](crate::keyspace::lru) do the writers' part.
//!
//! # Locks
//! A listing's own locks are taken after the shard's. Its place changes under the locks of the old and the new shard,
//! so a reader that has locked the shard looks again whether it is the right one. A listing whose client has gone is
//! forgotten at the next occasion.

use crate::Error;
use crate::data::value::{Object, Value};
use crate::keyspace::keys::{Key, Keys};
use crate::keyspace::shard::Db;
use crate::locks::sync::Mutex;
use resp::{Protocol, Reply};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Where a listing stands in a collection of one type, and what it writes of each element.
pub trait Lister: Send {
    /// The listing begins now, of this collection. Whether what is changed later does not matter to it: it has begun a
    /// walk that the collection itself keeps true.
    fn begin(&mut self, _object: &mut Object) -> bool {
        false
    }

    /// Writes about `max` more elements; true when these were the last.
    fn piece(&mut self, object: &Object, max: usize, reply: &mut Reply) -> bool;
}

/// A listing under way.
pub struct Listing {
    place: Mutex<Place>,
    protocol: Protocol,
    /// What [`Lister::begin`] said.
    follows: bool,
    state: Mutex<State>,
}

/// Where the collection lies.
#[derive(Clone, PartialEq, Eq)]
struct Place {
    db: u32,
    name: Box<[u8]>,
}

enum State {
    InPlace(Box<dyn Lister>),
    Owned(Box<dyn Lister>, Arc<Object>),
    Written(VecDeque<Reply>),
}

/// Elements that are written before others get their turn: some hundred microseconds' worth.
const PIECE: usize = 1000;

impl Listing {
    /// Begins to list the collection that this key holds now. None if it holds none.
    pub fn begin(
        keys: &mut Keys<'_>,
        key: Key<'_>,
        protocol: Protocol,
        mut lister: Box<dyn Lister>,
    ) -> Option<Arc<Self>> {
        let db = keys.db_index();
        let local = key.hash.local();
        keys.with_shard_of(key, |shard, _| {
            let slot = &mut shard.dbs[db];
            let mut found = slot.table.find_mut(local, |entry| entry.key() == key.name)?;
            let follows = found.update(|entry| entry.payload_mut().is_some_and(|object| lister.begin(object)));
            let place = Mutex::new(Place { db, name: key.name.into() });
            let listing = Arc::new(Listing { place, protocol, follows, state: Mutex::new(State::InPlace(lister)) });
            slot.listings.add(key.name, &listing);
            Some(listing)
        })
        .ok()?
    }

    /// Writes one piece; true when it was the last.
    pub fn piece(&self, keys: &mut Keys<'_>, reply: &mut Reply) -> bool {
        let in_place = matches!(&*self.state.lock(), State::InPlace(_));
        if !in_place {
            return self.own_piece(keys, reply);
        }
        let done = self.at_place(keys, |slot, local, name| {
            // Somebody may have come in between.
            let State::InPlace(lister) = &mut *self.state.lock() else { return None };
            let found = slot.table.find(local, |entry| entry.key() == name)?;
            let Value::Payload(object) = found.value() else { return None };
            let done = lister.piece(object, PIECE, reply);
            if done {
                slot.listings.forget(self);
            }
            Some(done)
        });
        // Where the lock was not to be had, the next piece may be luckier.
        done.ok().flatten().unwrap_or(false)
    }

    /// Shows the collection as it lies now, for who asks more of it than a list; None when it was written down.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn look<R>(&self, keys: &mut Keys<'_>, see: impl FnOnce(Option<&Object>) -> R) -> Result<R, Error> {
        self.at_place(keys, |slot, local, name| match &*self.state.lock() {
            State::InPlace(_) => {
                let found = slot.table.find(local, |entry| entry.key() == name);
                see(found
                    .and_then(|entry| if let Value::Payload(object) = entry.value() { Some(object) } else { None }))
            }
            State::Owned(_, object) => see(Some(object)),
            State::Written(_) => see(None),
        })
    }

    /// Gives up what it lists.
    pub fn end(&self, keys: &mut Keys<'_>) {
        // The shard forgets it some time in any case.
        let _ = self.at_place(keys, |slot, _, _| slot.listings.forget(self));
        let state = std::mem::replace(&mut *self.state.lock(), State::Written(VecDeque::new()));
        if let State::Owned(_, object) = state
            && let Some(object) = Arc::into_inner(object)
        {
            keys.effects.discard(object);
        }
    }

    /// Shows the database in the shard where the collection lies, or lay at last, with the key's hash there and its
    /// name.
    fn at_place<R>(&self, keys: &mut Keys<'_>, see: impl FnOnce(&mut Db, u64, &[u8]) -> R) -> Result<R, Error> {
        let mut see = Some(see);
        loop {
            let place = self.place.lock().clone();
            let key = keys.key(&place.name);
            let local = key.hash.local();
            let seen = keys.with_shard_of(key, |shard, _| {
                // It may have moved before the shard was locked.
                let see = see.take_if(|_| *self.place.lock() == place);
                see.map(|see| see(&mut shard.dbs[place.db], local, &place.name))
            })?;
            if let Some(seen) = seen {
                return Ok(seen);
            }
        }
    }

    fn own_piece(&self, keys: &mut Keys<'_>, reply: &mut Reply) -> bool {
        let mut state = self.state.lock();
        match &mut *state {
            State::InPlace(_) => false,
            State::Owned(lister, object) => {
                let done = lister.piece(object, PIECE, reply);
                if done {
                    drop(state);
                    self.end(keys);
                }
                done
            }
            State::Written(rest) => {
                if let Some(chunk) = rest.pop_front() {
                    reply.raw(chunk.as_slice());
                }
                rest.is_empty()
            }
        }
    }

    /// Writes down what is left.
    fn write_rest(&self, object: &Object) {
        let mut state = self.state.lock();
        if let State::InPlace(lister) = &mut *state {
            let mut rest = VecDeque::new();
            loop {
                let mut chunk = Reply::new(Vec::new(), self.protocol);
                let done = lister.piece(object, PIECE, &mut chunk);
                rest.push_back(chunk);
                if done {
                    break;
                }
            }
            *state = State::Written(rest);
        }
    }

    fn own(&self, object: Arc<Object>) {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut *state, State::Written(VecDeque::new()));
        *state = match before {
            State::InPlace(lister) => State::Owned(lister, object),
            other => other,
        };
    }
}

/// Those who list a value that is on its way.
#[derive(Default)]
#[must_use]
pub struct Readers(Vec<Arc<Listing>>);

/// The listings of one database in one shard; nearly always none.
#[derive(Default)]
pub struct Listings {
    notes: Vec<(Box<[u8]>, Weak<Listing>)>,
}

impl Listings {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    fn add(&mut self, name: &[u8], listing: &Arc<Listing>) {
        self.notes.retain(|(_, note)| note.strong_count() > 0);
        self.notes.push((name.into(), Arc::downgrade(listing)));
    }

    fn forget(&mut self, listing: &Listing) {
        self.notes.retain(|(_, note)| note.strong_count() > 0 && !std::ptr::eq(note.as_ptr(), listing));
    }

    /// The listings of this name, which the caller ends.
    fn end(&mut self, name: &[u8]) -> Vec<Arc<Listing>> {
        let mut ended = Vec::new();
        self.notes.retain(|(listed, note)| {
            let same = **listed == *name;
            if same {
                ended.extend(note.upgrade());
            }
            !same && note.strong_count() > 0
        });
        ended
    }

    /// The value of this name is about to be changed.
    #[cold]
    pub fn before_change(&mut self, name: &[u8], value: &Value<'_>) {
        self.notes.retain(|(_, note)| note.strong_count() > 0);
        if let Value::Payload(object) = value
            && self
                .notes
                .iter()
                .any(|(listed, note)| **listed == *name && note.upgrade().is_some_and(|note| !note.follows))
        {
            self.end(name).iter().for_each(|listing| listing.write_rest(object));
        }
    }

    /// The value of this name is about to go elsewhere: who lists it goes [with it](Self::come).
    #[cold]
    pub fn leave(&mut self, name: &[u8]) -> Readers {
        Readers(self.end(name))
    }

    /// The value that these list has come to this name.
    pub fn come(&mut self, db: u32, name: &[u8], readers: Readers) {
        for listing in readers.0 {
            *listing.place.lock() = Place { db, name: name.into() };
            self.add(name, &listing);
        }
    }

    /// All values have come to this database, under their names.
    pub fn all_came(&mut self, db: u32) {
        self.notes.iter().filter_map(|(_, note)| note.upgrade()).for_each(|listing| listing.place.lock().db = db);
    }

    /// The object was removed from this name: whoever lists it gets it.
    #[cold]
    pub fn adopt(&mut self, name: &[u8], object: &Arc<Object>) {
        self.end(name).iter().for_each(|listing| listing.own(Arc::clone(object)));
    }

    /// The names that are being listed.
    pub fn names(&self) -> Vec<Box<[u8]>> {
        self.notes.iter().map(|(name, _)| name.clone()).collect()
    }
}
