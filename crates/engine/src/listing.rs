//! Long replies that list a collection, written in pieces while others go on writing to it.
//!
//! A reply of a million elements must be of one moment, and say in its first line how many elements follow. But it takes
//! long to write and longer to send, and neither may hold the shard's lock, nor should there be a copy. So the reader
//! takes the number under the lock, leaves a note of itself in the shard ([`Listings`]), and writes a piece whenever its
//! client can take more. While nobody changes the collection that is all, and costs no memory.
//!
//! ```text
//!   InPlace ------ a small form is about to be changed; it moves ---------> Written     the rest of the reply, as bytes
//!      |
//!      +---------- it was removed (DEL, overwritten, expired) -----------> Owned       the collection itself
//! ```
//!
//! Large collections know of the walks through them and keep for each, of an element that is changed ahead of it, what it was
//! ([`structures::walk`]): such listings [follow](Lister::begin), and a writer pays for his element only. Where the form of the collection
//! cannot do that, whoever changes it first writes the rest of the reply down, in the shard, and the reader sends that from
//! then on; the same when a listed collection moves to another name or database. Who removes it gives it to its readers
//! instead of freeing it, so that costs nothing.
//!
//! # Asking for it
//! A command writes the header of its reply, [begins](Listing::begin) a listing with a [`Lister`] of its type, and goes on
//! in pieces by [`Listing::piece`]. [`Edit`](crate::edit::Edit) and [`access`](crate::access) do the writers' part.
//!
//! # Locks
//! A listing's own lock is taken after the shard's. A listing whose client has gone is forgotten at the next occasion.

use crate::Error;
use crate::keys::{Key, Keys};
use crate::shard::Table;
use crate::sync::Mutex;
use crate::value::{Object, Value};
use resp::{Protocol, Reply};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Where a listing stands in a collection of one type, and what it writes of each element.
pub trait Lister: Send {
    /// The listing begins now, of this collection. Whether what is changed later does not matter to it: it has begun a walk that
    /// the collection itself keeps true.
    fn begin(&mut self, _object: &mut Object) -> bool {
        false
    }

    /// Writes about `max` more elements; true when these were the last.
    fn piece(&mut self, object: &Object, max: usize, reply: &mut Reply) -> bool;
}

/// A listing under way.
pub struct Listing {
    db: u32,
    protocol: Protocol,
    /// What [`Lister::begin`] said.
    follows: bool,
    state: Mutex<State>,
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
            let slot = &mut shard.dbs[db as usize];
            let mut found = slot.table.find_mut(local, |entry| entry.key() == key.name)?;
            let follows = found.update(|entry| entry.payload_mut().is_some_and(|object| lister.begin(object)));
            let listing = Arc::new(Listing { db, protocol, follows, state: Mutex::new(State::InPlace(lister)) });
            slot.listings.add(key.name, &listing);
            Some(listing)
        })
        .ok()?
    }

    /// Writes one piece; true when it was the last.
    pub fn piece(&self, keys: &mut Keys<'_>, name: &[u8], reply: &mut Reply) -> bool {
        let key = keys.key(name);
        let local = key.hash.local();
        let in_place = matches!(&*self.state.lock(), State::InPlace(_));
        if !in_place {
            return self.own_piece(keys, name, reply);
        }
        let done = keys.with_shard_of(key, |shard, _| {
            let slot = &mut shard.dbs[self.db as usize];
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
    /// [`Error::NOT_NOW`]
    pub fn look<R>(
        &self,
        keys: &mut Keys<'_>,
        name: &[u8],
        see: impl FnOnce(Option<&Object>) -> R,
    ) -> Result<R, Error> {
        let key = keys.key(name);
        let local = key.hash.local();
        keys.with_shard_of(key, |shard, _| match &*self.state.lock() {
            State::InPlace(_) => {
                let found = shard.dbs[self.db as usize].table.find(local, |entry| entry.key() == name);
                see(found
                    .and_then(|entry| if let Value::Payload(object) = entry.value() { Some(object) } else { None }))
            }
            State::Owned(_, object) => see(Some(object)),
            State::Written(_) => see(None),
        })
    }

    /// Gives up what it lists.
    pub fn end(&self, keys: &mut Keys<'_>, name: &[u8]) {
        let key = keys.key(name);
        // The shard forgets it some time in any case.
        let _ = keys.with_shard_of(key, |shard, _| shard.dbs[self.db as usize].listings.forget(self));
        let state = std::mem::replace(&mut *self.state.lock(), State::Written(VecDeque::new()));
        if let State::Owned(_, object) = state
            && let Some(object) = Arc::into_inner(object)
        {
            keys.effects.discard(object);
        }
    }

    fn own_piece(&self, keys: &mut Keys<'_>, name: &[u8], reply: &mut Reply) -> bool {
        let mut state = self.state.lock();
        match &mut *state {
            State::InPlace(_) => false,
            State::Owned(lister, object) => {
                let done = lister.piece(object, PIECE, reply);
                if done {
                    drop(state);
                    self.end(keys, name);
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
        if self.notes.iter().any(|(listed, note)| **listed == *name && note.upgrade().is_some_and(|note| !note.follows))
        {
            self.before_move(name, value);
        }
    }

    /// The value of this name is about to go elsewhere.
    #[cold]
    pub fn before_move(&mut self, name: &[u8], value: &Value<'_>) {
        if let Value::Payload(object) = value {
            self.end(name).iter().for_each(|listing| listing.write_rest(object));
        }
    }

    /// The same for all of them.
    pub fn before_swap(&mut self, table: &Table, hash: impl Fn(&[u8]) -> u64) {
        for name in self.names() {
            if let Some(entry) = table.find(hash(&name), |entry| *entry.key() == *name) {
                self.before_move(&name, &entry.value());
            }
        }
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
