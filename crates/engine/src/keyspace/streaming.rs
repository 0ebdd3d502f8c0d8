//! Long replies, for the commands that list a collection piece by piece: see [`crate::snapshot::streamed_reply`].

use crate::Error;
use crate::data::value::{KeyEntry, Object, Value};
use crate::keyspace::keys::{Key, Keys};
use crate::keyspace::shard::Db;
use crate::snapshot::streamed_reply::{CollectionPlace, Lister, StreamedReply};
use resp::{Protocol, Reply};
use std::sync::Arc;

impl StreamedReply {
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
            let listing = StreamedReply::new(CollectionPlace { db, name: key.name.into() }, protocol, follows, lister);
            slot.streamed_replies.add(key.name, &listing);
            Some(listing)
        })
        .ok()?
    }

    /// Writes one piece; true when it was the last.
    pub fn piece(&self, keys: &mut Keys<'_>, reply: &mut Reply) -> bool {
        if !self.is_in_place() {
            let done = self.own_piece(reply);
            if done && self.owns() {
                self.end(keys);
            }
            return done;
        }
        let done = self.at_place(keys, |slot, local, name| {
            let found = slot.table.find(local, |entry| entry.key() == name)?;
            // Another command may have come in between.
            let done = self.piece_in_place(object_of(&found)?, reply)?;
            if done {
                slot.streamed_replies.forget(self);
            }
            Some(done)
        });
        // If the lock was not free, the next piece may get it.
        done.ok().flatten().unwrap_or(false)
    }

    /// Shows the present collection to a command that needs more than a list; None when it was written down.
    /// down.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn with<R>(&self, keys: &mut Keys<'_>, see: impl FnOnce(Option<&Object>) -> R) -> Result<R, Error> {
        self.at_place(keys, |slot, local, name| {
            let found = slot.table.find(local, |entry| entry.key() == name);
            self.see(found.as_ref().and_then(|found| object_of(found)), see)
        })
    }

    /// Releases the listed collection.
    pub fn end(&self, keys: &mut Keys<'_>) {
        // The shard forgets it some time in any case.
        let _ = self.at_place(keys, |slot, _, _| slot.streamed_replies.forget(self));
        if let Some(object) = self.close() {
            keys.effects.discard(object);
        }
    }

    /// Shows the database in the shard where the collection lies, or lay last, with the key's hash there and its name.
    fn at_place<R>(&self, keys: &mut Keys<'_>, see: impl FnOnce(&mut Db, u64, &[u8]) -> R) -> Result<R, Error> {
        let mut see = Some(see);
        loop {
            let place = self.place();
            let key = keys.key(&place.name);
            let local = key.hash.local();
            let seen = keys.with_shard_of(key, |shard, _| {
                // It may have moved before the shard was locked.
                let see = see.take_if(|_| self.place() == place);
                see.map(|see| see(&mut shard.dbs[place.db], local, &place.name))
            })?;
            if let Some(seen) = seen {
                return Ok(seen);
            }
        }
    }
}

fn object_of(entry: &KeyEntry) -> Option<&Object> {
    match entry.value() {
        Value::Payload(object) => Some(object),
        _ => None,
    }
}
