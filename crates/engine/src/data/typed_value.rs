//! Values of types that the program [installs](crate::data::value_type::install).
//!
//! A type implements what no default can know: its parts in a file, its copy, its size. Any other answer has a default
//! that is right for each type, if not the best.

use crate::data::value_type::ValueType;
use rdb::module_value::ModuleWriter;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A value of an installed type.
pub trait TypedValue: Any + fmt::Debug + Send + Sync {
    /// Returns its type.
    fn value_type(&self) -> &'static ValueType;

    /// Returns the number of its elements.
    fn len(&self) -> usize;

    /// Appends about `max` bytes of its parts, and returns the place to continue from; None: these were the last. One
    /// loop over it serves files, dumps and snapshots; the end's marker is the caller's.
    fn write(&self, out: &mut ModuleWriter<'_>, from: Place, max: usize) -> Option<Place>;

    /// Makes a copy; `each` is called for each element that is copied by itself.
    fn copy(&self, each: &dyn Fn()) -> Box<dyn TypedValue>;

    /// Returns the bytes on the heap, if need be by the size of `samples` elements.
    fn memory_usage(&self, samples: usize) -> usize;

    /// Returns the name that OBJECT ENCODING replies.
    fn encoding(&self) -> &'static str {
        "raw"
    }

    /// Whether its key is to be removed because nothing is left of it.
    fn is_empty(&self) -> bool {
        false
    }

    /// Returns how many pieces freeing it takes.
    fn free_effort(&self) -> usize {
        1
    }

    /// Frees about so many pieces of a value that nobody uses any more; returns whether nothing is left.
    fn drain_step(&mut self, _max: usize) -> bool {
        true
    }

    /// Returns how many elements it has that are copied one by one.
    fn elements_to_copy(&self) -> usize {
        self.len()
    }

    /// Returns the earliest expiry of an element.
    fn next_expiry(&self) -> Option<u64> {
        None
    }

    /// Removes the element that expired first and passes its name to `removed`; false if no element has expired.
    fn pop_due(&mut self, _now: u64, _removed: &mut dyn FnMut(&[u8])) -> bool {
        false
    }

    /// Prepares for the first change since a snapshot wrote the parts before `from`: returns the writer of all parts
    /// from there on, as they are now. None: they are written before the change.
    fn begin_sweep(&mut self, _from: Place) -> Option<Box<dyn RestOfValue>> {
        None
    }

    /// Passes the commands that make the value to `put`, for logs that consist of commands; false: the log gets a
    /// RESTORE of its dump.
    fn rewrite(&self, _key: &[u8], _put: &mut dyn FnMut(&[&[u8]])) -> bool {
        false
    }

    /// Adds its content to a digest, in which equal values are equal.
    fn digest(&self, digest: &mut dyn DigestSink) {
        digest.mix(&parts(&mut |writer, from| self.write(writer, from, usize::MAX)));
    }

    /// Returns the value with a lock of its own, for a command that reads for long and holds no shard's lock meanwhile;
    /// None: it cannot be shared.
    fn share(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }
}

impl dyn TypedValue {
    /// Returns all of its parts.
    pub fn parts(&self) -> Vec<u8> {
        parts(&mut |writer, from| self.write(writer, from, usize::MAX))
    }

    /// Returns the value, if it is of this type.
    pub fn downcast<T: TypedValue>(&self) -> Option<&T> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }

    /// Returns the value to change it, if it is of this type.
    pub fn downcast_mut<T: TypedValue>(&mut self) -> Option<&mut T> {
        let any: &mut dyn Any = self;
        any.downcast_mut()
    }
}

/// Collects what `write` appends from the first place to the last.
fn parts(write: &mut dyn FnMut(&mut ModuleWriter<'_>, Place) -> Option<Place>) -> Vec<u8> {
    let (mut out, mut from) = (Vec::new(), Place::START);
    while let Some(next) = write(&mut ModuleWriter::new(&mut out, false), from) {
        from = next;
    }
    out
}

impl Clone for Box<dyn TypedValue> {
    fn clone(&self) -> Self {
        self.copy(&|| {})
    }
}

/// A place between two parts of a value, as its type numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub u64);

impl Place {
    /// The place before the first part.
    pub const START: Place = Place(0);
}

/// The rest of a value as it was, while the value changes.
pub trait RestOfValue: Send + Sync {
    /// Appends about `max` bytes more, and returns whether these were the last.
    fn write(&mut self, out: &mut ModuleWriter<'_>, max: usize) -> bool;
}

/// A digest that takes in a value.
pub trait DigestSink {
    /// Takes in bytes whose order does not matter.
    fn add(&mut self, bytes: &[u8]);
    /// Takes in bytes in their order.
    fn mix(&mut self, bytes: &[u8]);
}
