//! Long replies that list a collection, written a chunk at a time while other commands change it.
//!
//! A reply of a million elements must be of one moment, and say in its first line how many elements follow. But it
//! takes long to write and longer to send, and neither may hold the shard's lock, nor should there be a copy. So the
//! reader takes the number under the lock, registers itself in the shard ([`StreamedReplies`]), and writes a piece
//! whenever its client can take more. As long as the collection is unchanged that is all, and costs no memory.
//!
//! ```text
//!   InPlace ------ a small form is about to be changed --------------> Written     the rest of the reply, as bytes
//!      |
//!      +---------- it was removed (DEL, overwritten, expired) ------> Owned       the collection itself
//! ```
//!
//! Large collections know of the walks through them and retain for each the old value of an element that is changed
//! ahead of it ([`structures::snapshot_iterator`]): such listings [follow](Lister::begin), and a writer pays only for
//! the element that it changes. If the form of the collection cannot do that, the first command that changes it writes
//! the rest of the reply down, in the shard, and the reader sends that from then on. A command that removes the
//! collection hands it to its readers instead of freeing it. A command that moves it to another name or database takes
//! their registrations along with the new place. Both cost nothing.
//!
//! # Use
//! A command writes the header of its reply, [begins](StreamedReply::begin) a listing with a [`Lister`] of its type,
//! and writes the rest a chunk at a time by [`StreamedReply::piece`]. [`Edit`](crate::keyspace::edit::Edit) and
//! [`removal`](crate::keyspace::removal) do the writers' part.
//!
//! # Locks
//! A listing's own locks are taken after the shard's. Its place changes under the locks of the old and the new shard,
//! so a reader that has locked the shard looks again whether it is the right one. A listing whose client has gone is
//! removed at the next occasion.

use crate::data::value::{Object, Value};
use crate::locks::sync::Mutex;
use resp::{Protocol, Reply};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Position of a listing in a collection of one type, and the form of its elements in the reply.
pub trait Lister: Send {
    /// Begins the listing of this collection. Returns whether later changes do not matter to it: it has begun a walk
    /// for which the collection itself retains old values.
    fn begin(&mut self, _object: &mut Object) -> bool {
        false
    }

    /// Writes about `max` more elements; true when these were the last.
    fn piece(&mut self, object: &Object, max: usize, reply: &mut Reply) -> bool;
}

/// A listing under way.
pub struct StreamedReply {
    place: Mutex<CollectionPlace>,
    protocol: Protocol,
    /// Result of [`Lister::begin`].
    follows: bool,
    state: Mutex<State>,
}

/// Place of the collection.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CollectionPlace {
    pub db: u32,
    pub name: Box<[u8]>,
}

enum State {
    InPlace(Box<dyn Lister>),
    Owned(Box<dyn Lister>, Arc<Object>),
    Written(VecDeque<Reply>),
}

/// Elements that are written before other clients get their turn: some hundred microseconds' worth.
const PIECE: usize = 1000;

impl StreamedReply {
    /// Makes the listing of the collection at this place.
    pub(crate) fn new(place: CollectionPlace, protocol: Protocol, follows: bool, lister: Box<dyn Lister>) -> Arc<Self> {
        let (place, state) = (Mutex::new(place), Mutex::new(State::InPlace(lister)));
        Arc::new(StreamedReply { place, protocol, follows, state })
    }

    /// Returns the place of the collection, the last one if it was removed.
    pub(crate) fn place(&self) -> CollectionPlace {
        self.place.lock().clone()
    }

    /// Whether the collection lies in its key.
    pub(crate) fn is_in_place(&self) -> bool {
        matches!(&*self.state.lock(), State::InPlace(_))
    }

    /// Whether the collection is in no key any more, and is held for its readers.
    pub(crate) fn owns(&self) -> bool {
        matches!(&*self.state.lock(), State::Owned(..))
    }

    /// Writes a piece of the collection where it lies; true when it was the last. None if it does not lie there any
    /// more.
    pub(crate) fn piece_in_place(&self, object: &Object, reply: &mut Reply) -> Option<bool> {
        match &mut *self.state.lock() {
            State::InPlace(lister) => Some(lister.piece(object, PIECE, reply)),
            _ => None,
        }
    }

    /// Writes a piece of a collection that was removed or written down; true when it was the last.
    pub(crate) fn own_piece(&self, reply: &mut Reply) -> bool {
        match &mut *self.state.lock() {
            State::InPlace(_) => false,
            State::Owned(lister, object) => lister.piece(object, PIECE, reply),
            State::Written(rest) => {
                if let Some(chunk) = rest.pop_front() {
                    reply.raw(chunk.as_slice());
                }
                rest.is_empty()
            }
        }
    }

    /// Shows the collection: the object `there`, if it lies in its place. None when it was written down.
    pub(crate) fn see<R>(&self, there: Option<&Object>, see: impl FnOnce(Option<&Object>) -> R) -> R {
        match &*self.state.lock() {
            State::InPlace(_) => see(there),
            State::Owned(_, object) => see(Some(object)),
            State::Written(_) => see(None),
        }
    }

    /// Releases its collection, which is returned if no other listing has it.
    pub(crate) fn close(&self) -> Option<Object> {
        match std::mem::replace(&mut *self.state.lock(), State::Written(VecDeque::new())) {
            State::Owned(_, object) => Arc::into_inner(object),
            _ => None,
        }
    }

    /// Writes down the rest.
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

/// Listings of a value that is on its way.
#[derive(Default)]
#[must_use]
pub struct DetachedReplies(Vec<Arc<StreamedReply>>);

/// The listings of one database in one shard; nearly always none.
#[derive(Default)]
pub struct StreamedReplies {
    notes: Vec<(Box<[u8]>, Weak<StreamedReply>)>,
}

impl StreamedReplies {
    /// Whether no reply lists a collection here.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    pub(crate) fn add(&mut self, name: &[u8], listing: &Arc<StreamedReply>) {
        self.notes.retain(|(_, note)| note.strong_count() > 0);
        self.notes.push((name.into(), Arc::downgrade(listing)));
    }

    pub(crate) fn forget(&mut self, listing: &StreamedReply) {
        self.notes.retain(|(_, note)| note.strong_count() > 0 && !std::ptr::eq(note.as_ptr(), listing));
    }

    /// Takes out the listings of this name, which the caller ends.
    fn end(&mut self, name: &[u8]) -> Vec<Arc<StreamedReply>> {
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

    /// Prepares listings for a change of the value of this name.
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

    /// Takes out the listings of the value of this name, which moves: they go [with it](Self::attach).
    #[cold]
    pub fn detach(&mut self, name: &[u8]) -> DetachedReplies {
        DetachedReplies(self.end(name))
    }

    /// Registers listings at the new name of their value.
    pub fn attach(&mut self, db: u32, name: &[u8], readers: DetachedReplies) {
        for listing in readers.0 {
            *listing.place.lock() = CollectionPlace { db, name: name.into() };
            self.add(name, &listing);
        }
    }

    /// Moves all listings to this database, under their names.
    pub fn all_came(&mut self, db: u32) {
        self.notes.iter().filter_map(|(_, note)| note.upgrade()).for_each(|listing| listing.place.lock().db = db);
    }

    /// Leaves the object, which was removed from this name, to the replies that list it.
    #[cold]
    pub fn adopt(&mut self, name: &[u8], object: &Arc<Object>) {
        self.end(name).iter().for_each(|listing| listing.own(Arc::clone(object)));
    }

    /// Returns the names that are being listed.
    pub fn names(&self) -> Vec<Box<[u8]>> {
        self.notes.iter().map(|(name, _)| name.clone()).collect()
    }
}
