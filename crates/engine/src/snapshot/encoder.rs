//! The encoding of a cut's keys, as a walk and a writer that comes before it call the format.

use crate::data::value::{KeyEntry, Object};
use crate::snapshot::before_images::SharedImages;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a large value that are written at once.
pub(crate) const PIECE_BYTES: usize = 16 << 10;

/// The encoding of keys. Called under their shards' locks.
pub trait Encoder: Any + Send + Sync {
    /// Appends a key with its value.
    fn put(&self, out: &mut Vec<u8>, entry: &KeyEntry);

    /// Whether the other one [keeps](Self::keep) every key in the same bytes: then these are made once for both.
    fn keeps_like(&self, _other: &dyn Encoder) -> bool {
        false
    }

    /// Appends a key with its value in the fastest way: a client waits.
    fn keep(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
        self.put(out, entry);
    }

    /// Whether the value is so large that it is not to be written under one hold of a lock. Such a value is an object.
    fn is_large(&self, _entry: &KeyEntry) -> bool {
        false
    }

    /// Appends the beginning of a large value, and returns the writer of its rest.
    fn begin(&self, out: &mut Vec<u8>, entry: &KeyEntry) -> Box<dyn ValueCursor> {
        self.put(out, entry);
        Box::new(Nothing)
    }
}

/// The rest of a large value that is still to be written.
pub trait ValueCursor: Send + Sync {
    /// Appends about `max` bytes more; returns whether these were the last.
    fn put(&mut self, out: &mut Vec<u8>, object: &Object, max: usize) -> bool;

    /// Prepares for the first change of the value since it was begun. From now on the rest goes to `kept` before it is
    /// changed, or all of it does now.
    fn follow(&mut self, object: &mut Object, kept: &SharedImages) {
        self.put_all(object, kept);
    }

    /// Writes down these bytes of a string, which are about to change; perhaps more come behind the last. False if it
    /// cannot: then it is to [follow](Self::follow).
    fn keep_bytes(&mut self, _object: &Object, _bytes: &Range<usize>) -> bool {
        false
    }

    /// Writes down all that is left.
    fn put_all(&mut self, object: &Object, kept: &SharedImages) {
        while !kept.append(|out| self.put(out, object, PIECE_BYTES)) {}
    }

    /// Appends the end, after all pieces and without a lock.
    fn finish(self: Box<Self>, _out: &mut Vec<u8>) {}
}

struct Nothing;

impl ValueCursor for Nothing {
    fn put(&mut self, _: &mut Vec<u8>, _: &Object, _: usize) -> bool {
        true
    }
}

impl<F: Fn(&mut Vec<u8>, &KeyEntry) + Send + Sync + 'static> Encoder for F {
    fn put(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
        self(out, entry);
    }
}

/// The way in which a save writes keys, shared by all threads that write for it.
pub type Encode = Arc<dyn Encoder>;
