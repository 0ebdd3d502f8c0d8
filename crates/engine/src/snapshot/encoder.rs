//! How a cut's keys are written down: what a walk and a writer that comes before it ask of the format.

use crate::data::value::{KeyEntry, Object};
use crate::snapshot::before_images::SharedImages;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a large value that are written at once.
pub(crate) const PIECE_BYTES: usize = 16 << 10;

/// How keys are written down. Called under their shards' locks.
pub trait Encoder: Any + Send + Sync {
    /// Appends a key with its value.
    fn put(&self, out: &mut Vec<u8>, entry: &KeyEntry);

    /// Whether the other one [keeps](Self::keep) every key in the same bytes: then these are made once for both.
    fn keeps_like(&self, _other: &dyn Encoder) -> bool {
        false
    }

    /// The same in the way that is fastest: a client waits.
    fn keep(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
        self.put(out, entry);
    }

    /// Whether the value is so large that it is not to be written under one hold of a lock. Such a value is an object.
    fn is_large(&self, _entry: &KeyEntry) -> bool {
        false
    }

    /// Appends the beginning of a large one, and goes on from there.
    fn begin(&self, out: &mut Vec<u8>, entry: &KeyEntry) -> Box<dyn ValueCursor> {
        self.put(out, entry);
        Box::new(Nothing)
    }
}

/// What is left to be written of a large value.
pub trait ValueCursor: Send + Sync {
    /// Appends about `max` bytes more; whether these were the last.
    fn put(&mut self, out: &mut Vec<u8>, object: &Object, max: usize) -> bool;

    /// The value is about to be changed for the first time since it was begun. From now on what is ahead goes to `kept`
    /// before it is changed, or all of it does now.
    fn follow(&mut self, object: &mut Object, kept: &SharedImages) {
        self.put_all(object, kept);
    }

    /// These bytes of a string are about to change, and perhaps more come behind the last. Keeps them as they are;
    /// false if it cannot: then it is to [follow](Self::follow).
    fn keep_bytes(&mut self, _object: &Object, _bytes: &Range<usize>) -> bool {
        false
    }

    /// Has all that is left written down.
    fn put_all(&mut self, object: &Object, kept: &SharedImages) {
        while !kept.append(|out| self.put(out, object, PIECE_BYTES)) {}
    }

    /// Appends what is to come after all, without a lock.
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

/// How a save writes keys, shared by all who write for it.
pub type Encode = Arc<dyn Encoder>;
