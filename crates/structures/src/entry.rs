//! A key and its value in one allocation.
//!
//! The keyspace holds millions of these, so a byte here is a megabyte there. An [`Entry`] is one thin
//! pointer (it fits the 48-bit slots of the hash table) to a block that begins with an 8-byte header
//! and grows only by the parts that it has:
//!
//! ```text
//!  0        8           16          24
//!  +--------+-----------+-----------+--------------+------------+----------------+
//!  | header | expiry? | key len?  | int or P?    | key bytes  | value bytes?   |
//!  +--------+-----------+-----------+--------------+------------+----------------+
//!             if EXPIRY  if LONG     if Int/Payload              if Inline/Packed
//! ```
//!
//! The header is one little word:
//!
//! ```text
//!  bit  0..2   kind of the value: 0 inline bytes, 1 an i64, 2 a payload P, 3 packed bytes
//!       2      EXPIRY: an 8-byte expiry follows
//!       3      LONG: the key has 2^20 bytes or more, its length follows as 8 bytes
//!       8..32  24 bits of the owner's (access clock or frequency)
//!       32..52 key length (0 when LONG)
//!       52..64 length of the value's bytes (0 when it has none here)
//! ```
//!
//! Every 8-byte part lies before the key, so that all of them are aligned; the key and the inline value
//! are bytes and need no alignment. A 16-byte key with a 64-byte value is 8 + 16 + 64 = 88 bytes, which
//! the allocator serves from its class of 96; with an expiry it is 96 exactly.
//!
//! Packed bytes are inline bytes that stand for something else than a string: a payload that is small enough to be
//! stored like this. Their meaning is the owner's business.
//!
//! Values longer than [`MAX_INLINE`] and everything that is not a string or an integer live in the
//! payload `P`, which the owner chooses (an enum of boxes, at most 8-byte aligned).
//!
//! A block is always allocated with a size rounded up by [`rounded`]; a value that changes its length
//! within the rounded size is written in place, without the allocator.

use crate::hashtable::Ref;
use crate::tagged_pointer::TaggedPointer;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::{align_of, size_of};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The longest value that is kept inside the entry, in bytes.
pub const MAX_INLINE: usize = 1024;
/// The largest number that [`Entry::set_meta`] takes.
pub const MAX_META: u32 = (1 << 24) - 1;

/// Bytes of an entry beside its key, its value and its expiry.
pub const HEADER: usize = 8;
const KIND_MASK: u64 = 0b11;
const KIND_INLINE: u64 = 0;
const KIND_INT: u64 = 1;
const KIND_PAYLOAD: u64 = 2;
const KIND_PACKED: u64 = 3;
const EXPIRY: u64 = 1 << 2;
const LONG: u64 = 1 << 3;
const META_SHIFT: u32 = 8;
const KEY_SHIFT: u32 = 32;
const KEY_BITS: u32 = 20;
const VALUE_SHIFT: u32 = 52;

const _: () = assert!(MAX_INLINE < 1 << (64 - VALUE_SHIFT));

/// A value to be put into an entry.
#[derive(Debug)]
pub enum NewValue<'a, P> {
    /// At most [`MAX_INLINE`] bytes.
    Inline(&'a [u8]),
    /// An integer, which takes eight bytes of the block.
    Int(i64),
    /// An object that the owner allocates.
    Payload(P),
    /// At most [`MAX_INLINE`] bytes.
    Packed(&'a [u8]),
}

impl<P> NewValue<'_, P> {
    /// Returns the kind, and how many bytes follow the key.
    fn kind_and_len(&self) -> (u64, usize) {
        let (kind, len) = match self {
            NewValue::Inline(bytes) => (KIND_INLINE, bytes.len()),
            NewValue::Int(_) => (KIND_INT, 0),
            NewValue::Payload(_) => (KIND_PAYLOAD, 0),
            NewValue::Packed(bytes) => (KIND_PACKED, bytes.len()),
        };
        assert!(len <= MAX_INLINE, "an inline value is too long");
        (kind, len)
    }
}

/// A value as an entry shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueRef<'a, P> {
    /// A string.
    Inline(&'a [u8]),
    /// An integer.
    Int(i64),
    /// An object that the owner allocates.
    Payload(&'a P),
    /// The bytes of a small collection.
    Packed(&'a [u8]),
}

/// A key with its value, owned through one thin pointer.
pub struct Entry<P> {
    block: NonNull<u8>,
    owns: PhantomData<P>,
}

// SAFETY: an entry owns its block and the payload in it alone, so it may move to another thread when
// the payload may; shared references to it only give out shared references to the payload.
unsafe impl<P: Send> Send for Entry<P> {}
// SAFETY: as above; of the methods of `&Entry` only `mark` writes, to the header, which is read and written atomically
// there.
unsafe impl<P: Sync> Sync for Entry<P> {}

/// Places of the parts of a block; computed from the header (and the long key length) alone.
#[derive(Clone, Copy)]
struct Shape {
    head: u64,
    key_len: usize,
    value_len: usize,
}

impl Shape {
    fn new(kind: u64, meta: u32, key_len: usize, value_len: usize, expiry: bool) -> Self {
        let long = key_len >= 1 << KEY_BITS;
        let mut head = kind | u64::from(meta) << META_SHIFT | (value_len as u64) << VALUE_SHIFT;
        if expiry {
            head |= EXPIRY;
        }
        head |= if long { LONG } else { (key_len as u64) << KEY_SHIFT };
        Shape { head, key_len, value_len }
    }

    fn long_at(self) -> usize {
        HEADER + if self.head & EXPIRY != 0 { 8 } else { 0 }
    }
    fn word_at(self) -> usize {
        self.long_at() + if self.head & LONG != 0 { 8 } else { 0 }
    }
    fn key_at<P>(self) -> usize {
        Entry::<P>::key_at(self.head)
    }
    fn value_at<P>(self) -> usize {
        self.key_at::<P>() + self.key_len
    }
    fn size<P>(self) -> usize {
        rounded(self.value_at::<P>() + self.value_len)
    }
    fn layout<P>(self) -> Layout {
        Layout::from_size_align(self.size::<P>(), 8).expect("an entry is shorter than isize::MAX")
    }
}

/// Returns the size that is allocated for `len` bytes: jemalloc's classes, so that nothing is wasted twice.
pub fn rounded(len: usize) -> usize {
    if len <= 16 {
        return if len <= 8 { 8 } else { 16 };
    }
    if len <= 128 {
        return len.next_multiple_of(16);
    }
    // Four classes to a doubling.
    let step = (1usize << (usize::BITS - 1 - (len - 1).leading_zeros())) / 4;
    len.next_multiple_of(step)
}

impl<P> Entry<P> {
    const ALIGNED: () = assert!(align_of::<P>() <= 8);
    /// Place of the key, by the header's lowest four bits.
    const KEY_AT: [u8; 16] = {
        let mut table = [0; 16];
        let mut low = 0;
        while low < 16 {
            let bits = low as u64;
            let words = 1 + (bits & EXPIRY != 0) as usize + (bits & LONG != 0) as usize;
            let value = match bits & KIND_MASK {
                KIND_INT => 8,
                KIND_PAYLOAD => size_of::<P>().next_multiple_of(8),
                _ => 0,
            };
            assert!(8 * words + value < 256);
            table[low] = (8 * words + value) as u8;
            low += 1;
        }
        table
    };

    #[inline(always)]
    fn key_at(head: u64) -> usize {
        usize::from(Self::KEY_AT[(head & 15) as usize])
    }

    /// Makes a new entry. `expiry` is whatever the owner counts time in.
    ///
    /// # Panics
    /// When an inline value is longer than [`MAX_INLINE`].
    pub fn new(key: &[u8], value: NewValue<'_, P>, expiry: Option<u64>, meta: u32) -> Self {
        let () = Self::ALIGNED;
        let (kind, value_len) = value.kind_and_len();
        let shape = Shape::new(kind, meta & MAX_META, key.len(), value_len, expiry.is_some());
        let mut entry = Self::allocate(shape);
        if let Some(at) = expiry {
            entry.write_word(HEADER, at);
        }
        // SAFETY: the block has `key_len` bytes at `key_at`, as its shape says, and is no part of `key`.
        unsafe {
            let to = entry.block.as_ptr().add(shape.key_at::<P>());
            to.copy_from_nonoverlapping(key.as_ptr(), key.len());
        }
        entry.write_value(shape, value);
        entry
    }

    /// Returns the key's bytes.
    pub fn key(&self) -> &[u8] {
        let shape = self.shape();
        // SAFETY: the shape was read from this block, whose key bytes were written when it was made.
        unsafe { self.bytes(shape.key_at::<P>(), shape.key_len) }
    }

    /// Whether this is the key.
    #[inline(always)]
    pub fn has_key(&self, name: &[u8]) -> bool {
        let head = self.head();
        if head & LONG != 0 {
            return self.key() == name;
        }
        let len = (head >> KEY_SHIFT) as usize & ((1 << KEY_BITS) - 1);
        // SAFETY: without LONG the header has the key's length, and the key's bytes were written when the block was
        // made.
        len == name.len() && same(unsafe { self.bytes(Self::key_at(head), len) }, name)
    }

    /// Returns the value, by reference.
    #[inline]
    pub fn value(&self) -> ValueRef<'_, P> {
        let shape = self.shape();
        match shape.head & KIND_MASK {
            // SAFETY: the shape was read from this block, whose value bytes were written with it.
            KIND_INLINE => ValueRef::Inline(unsafe { self.bytes(shape.value_at::<P>(), shape.value_len) }),
            // SAFETY: as above.
            KIND_PACKED => ValueRef::Packed(unsafe { self.bytes(shape.value_at::<P>(), shape.value_len) }),
            KIND_INT => ValueRef::Int(self.read_word(shape.word_at()) as i64),
            // SAFETY: a block of kind payload holds an initialized, aligned `P` at `word_at`.
            _ => ValueRef::Payload(unsafe { &*self.block.as_ptr().add(shape.word_at()).cast::<P>() }),
        }
    }

    /// Returns the payload, when the value is one.
    pub fn payload_mut(&mut self) -> Option<&mut P> {
        let shape = self.shape();
        if shape.head & KIND_MASK != KIND_PAYLOAD {
            return None;
        }
        // SAFETY: as in `value`; `&mut self` makes the reference the only one.
        Some(unsafe { &mut *self.block.as_ptr().add(shape.word_at()).cast::<P>() })
    }

    fn bytes_mut(&mut self, kind: u64) -> Option<&mut [u8]> {
        let shape = self.shape();
        if shape.head & KIND_MASK != kind {
            return None;
        }
        // SAFETY: as in `value`; `&mut self` makes the slice the only one.
        Some(unsafe {
            let from = self.block.as_ptr().add(shape.value_at::<P>());
            std::slice::from_raw_parts_mut(from, shape.value_len)
        })
    }

    /// Returns when it expires, in the owner's unit of time.
    #[inline]
    pub fn expiry(&self) -> Option<u64> {
        (self.head() & EXPIRY != 0).then(|| self.read_word(HEADER))
    }

    /// Returns the owner's 24 bits.
    pub fn meta(&self) -> u32 {
        (self.head() >> META_SHIFT) as u32 & MAX_META
    }

    /// Sets the owner's 24 bits.
    pub fn set_meta(&mut self, meta: u32) {
        self.mark(meta);
    }

    /// Sets the owner's bits through a shared reference: of marks that are made at the same time one stays.
    #[inline]
    pub fn mark(&self, meta: u32) {
        self.head_word().store(with_meta(self.head(), meta), Relaxed);
    }

    /// Puts another value in the place of the present one and returns the payload that was there.
    /// The key, the expiry and the owner's bits stay.
    pub fn set_value(&mut self, value: NewValue<'_, P>) -> Option<P> {
        if self.overwrite(&value) {
            return None;
        }
        let old = self.shape();
        let (kind, value_len) = value.kind_and_len();
        let new = Shape::new(kind, self.meta(), old.key_len, value_len, old.head & EXPIRY != 0);
        let payload = self.take_payload();
        if new.key_at::<P>() != old.key_at::<P>() || new.size::<P>() != old.size::<P>() {
            self.reshape(old, new);
        } else {
            self.write_word(0, new.head);
        }
        self.write_value(new, value);
        payload
    }

    /// Writes a value over one of the same kind and length, as SET and INCR mostly do. False, and nothing is done,
    /// where the present value is another.
    #[inline]
    pub fn overwrite(&mut self, value: &NewValue<'_, P>) -> bool {
        match (value, self.head() & KIND_MASK) {
            (NewValue::Inline(bytes), kind @ KIND_INLINE) | (NewValue::Packed(bytes), kind @ KIND_PACKED) => {
                match self.bytes_mut(kind) {
                    Some(present) if present.len() == bytes.len() => {
                        present.copy_from_slice(bytes);
                        true
                    }
                    _ => false,
                }
            }
            (NewValue::Int(n), KIND_INT) => {
                self.write_word(self.shape().word_at(), *n as u64);
                true
            }
            _ => false,
        }
    }

    /// Returns the integer, when the value is one.
    #[inline]
    pub fn int(&self) -> Option<i64> {
        let head = self.head();
        (head & KIND_MASK == KIND_INT)
            .then(|| self.read_word(Shape { head, key_len: 0, value_len: 0 }.word_at()) as i64)
    }

    /// Sets or removes the expiry.
    pub fn set_expiry(&mut self, expiry: Option<u64>) {
        let old = self.shape();
        if expiry.is_some() != (old.head & EXPIRY != 0) {
            let new = Shape { head: old.head ^ EXPIRY, ..old };
            self.reshape(old, new);
            // The words and bytes behind the expiry keep their order: one copy moves them all.
        }
        if let Some(at) = expiry {
            self.write_word(HEADER, at);
        }
    }

    /// Returns the payload, when the value is one; the rest of the entry is freed.
    pub fn into_payload(mut self) -> Option<P> {
        self.take_payload()
    }

    /// Returns the bytes that the allocator was asked for (the payload's own allocations are not counted).
    pub fn allocated(&self) -> usize {
        self.shape().size::<P>()
    }

    /// Returns the bytes by which an inline value may grow where it is.
    pub fn room(&self) -> usize {
        let shape = self.shape();
        shape.size::<P>() - shape.value_at::<P>() - shape.value_len
    }

    fn allocate(shape: Shape) -> Self {
        let layout = shape.layout::<P>();
        // SAFETY: the size is at least HEADER.
        let block = unsafe { alloc(layout) };
        let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
        let mut entry = Entry { block, owns: PhantomData };
        entry.write_word(0, shape.head);
        if shape.head & LONG != 0 {
            entry.write_word(shape.long_at(), shape.key_len as u64);
        }
        entry
    }

    /// Moves to a block of another shape: key, expiry and (where both have one of the same kind and
    /// length) the value are taken along. The payload must have been taken out, or be kept by `new`.
    fn reshape(&mut self, old: Shape, new: Shape) {
        let mut to = Self::allocate(new);
        if old.head & new.head & EXPIRY != 0 {
            to.write_word(HEADER, self.read_word(HEADER));
        }
        let same_value = old.head & KIND_MASK == new.head & KIND_MASK && old.value_len == new.value_len;
        let (from_at, to_at, len) = if same_value {
            (old.word_at(), new.word_at(), old.value_at::<P>() + old.value_len - old.word_at())
        } else {
            (old.key_at::<P>(), new.key_at::<P>(), old.key_len)
        };
        // SAFETY: both blocks hold `len` bytes from there on by their shapes, and are distinct. A payload
        // that moves along is not dropped here: the old block is freed as bytes below.
        unsafe {
            let from = self.block.as_ptr().add(from_at);
            to.block.as_ptr().add(to_at).copy_from_nonoverlapping(from, len);
        }
        std::mem::swap(&mut self.block, &mut to.block);
        let block = to.block;
        std::mem::forget(to);
        // SAFETY: `block` is the old block, allocated with the layout of the old shape, and no longer ours.
        unsafe { dealloc(block.as_ptr(), old.layout::<P>()) };
    }

    /// Moves the payload out and leaves an integer-less inline kind in the header, so that no later read takes it for a
    /// payload; the shape must be written anew afterwards or the entry freed.
    fn take_payload(&mut self) -> Option<P> {
        let shape = self.shape();
        if shape.head & KIND_MASK != KIND_PAYLOAD {
            return None;
        }
        // SAFETY: the block holds an initialized `P` there; the mark in the header below makes this the
        // only time that it is read out.
        let payload = unsafe { self.block.as_ptr().add(shape.word_at()).cast::<P>().read() };
        self.write_word(0, shape.head | TAKEN);
        Some(payload)
    }

    fn write_value(&mut self, shape: Shape, value: NewValue<'_, P>) {
        match value {
            // SAFETY: the shape reserves these bytes in this block; `bytes` is borrowed from elsewhere.
            NewValue::Inline(bytes) | NewValue::Packed(bytes) => unsafe {
                let to = self.block.as_ptr().add(shape.value_at::<P>());
                to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            },
            NewValue::Int(n) => self.write_word(shape.word_at(), n as u64),
            // SAFETY: the shape reserves an aligned place for `P`, which holds nothing to be dropped now.
            NewValue::Payload(payload) => unsafe {
                self.block.as_ptr().add(shape.word_at()).cast::<P>().write(payload);
            },
        }
    }

    #[inline(always)]
    fn head(&self) -> u64 {
        self.head_word().load(Relaxed)
    }

    /// Returns the header, which [`mark`](Self::mark) changes through shared references.
    #[inline(always)]
    fn head_word(&self) -> &AtomicU64 {
        // SAFETY: every block begins with an aligned word, which lives as long as the entry; it is only written through
        // this or through `&mut self`.
        unsafe { AtomicU64::from_ptr(self.block.as_ptr().cast()) }
    }

    #[inline(always)]
    fn shape(&self) -> Shape {
        let head = self.head();
        let mut shape = Shape {
            head,
            key_len: (head >> KEY_SHIFT) as usize & ((1 << KEY_BITS) - 1),
            value_len: (head >> VALUE_SHIFT) as usize,
        };
        if head & LONG != 0 {
            shape.key_len = self.read_word(shape.long_at()) as usize;
        }
        shape
    }

    fn read_word(&self, at: usize) -> u64 {
        // SAFETY: callers pass the offset of a word that the block's shape has; it is 8-byte aligned.
        unsafe { self.block.as_ptr().add(at).cast::<u64>().read() }
    }

    fn write_word(&mut self, at: usize, word: u64) {
        // SAFETY: as in `read_word`, and `&mut self` makes it the only access.
        unsafe { self.block.as_ptr().add(at).cast::<u64>().write(word) }
    }

    /// # Safety
    /// `at..at + len` must be initialized bytes of this block.
    unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        // SAFETY: the caller's promise; the borrow of `self` keeps the block alive and unwritten.
        unsafe { std::slice::from_raw_parts(self.block.as_ptr().add(at), len) }
    }
}

/// A part of an entry in a table lives as long as the table is borrowed, not only as long as the `Ref`.
impl<'a, P> Ref<'a, Entry<P>> {
    /// Returns the key's bytes, for as long as the table is borrowed.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        let entry: &Entry<P> = self;
        // SAFETY: the bytes lie in the entry's block, which the table owns and neither frees nor changes
        // while it is borrowed for 'a; the handle in this `Ref` is only a copy of the pointer to it.
        unsafe { std::mem::transmute::<&[u8], &'a [u8]>(entry.key()) }
    }

    /// Returns the value, for as long as the table is borrowed.
    #[inline]
    pub fn value(&self) -> ValueRef<'a, P> {
        let entry: &Entry<P> = self;
        // SAFETY: as in `key`.
        unsafe { std::mem::transmute::<ValueRef<'_, P>, ValueRef<'a, P>>(entry.value()) }
    }
}

/// Returns the header with these bits of the owner's.
#[inline(always)]
fn with_meta(head: u64, meta: u32) -> u64 {
    head & !(u64::from(MAX_META) << META_SHIFT) | u64::from(meta & MAX_META) << META_SHIFT
}

/// Whether two strings of one length are equal. Strings of 8 to 32 bytes, as most keys are, are compared as two words
/// that may overlap, without a call.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    match (a.first_chunk::<16>(), b.first_chunk::<16>()) {
        (Some(from), Some(to)) if a.len() <= 32 => from == to && a.last_chunk::<16>() == b.last_chunk::<16>(),
        (None, None) if a.len() >= 8 => {
            a.first_chunk::<8>() == b.first_chunk::<8>() && a.last_chunk::<8>() == b.last_chunk::<8>()
        }
        _ => a == b,
    }
}

/// Set in a header between taking the payload out and writing the next value.
const TAKEN: u64 = 1 << 4;

impl<P> Drop for Entry<P> {
    fn drop(&mut self) {
        let shape = self.shape();
        if shape.head & KIND_MASK == KIND_PAYLOAD && shape.head & TAKEN == 0 {
            // SAFETY: an untaken payload is initialized and aligned, and is dropped only here.
            unsafe { self.block.as_ptr().add(shape.word_at()).cast::<P>().drop_in_place() };
        }
        // SAFETY: the block was allocated with the layout of this shape (TAKEN does not change it).
        unsafe { dealloc(self.block.as_ptr(), shape.layout::<P>()) };
    }
}

// SAFETY: `into_bits` gives the block's address, which is not null and below 2^48 for user space on the
// supported 64-bit targets (asserted), and `from_bits` makes the same entry of it again.
unsafe impl<P> TaggedPointer for Entry<P> {
    #[inline]
    fn into_bits(self) -> u64 {
        let bits = self.block.as_ptr().expose_provenance() as u64;
        debug_assert!(bits < 1 << 48);
        std::mem::forget(self);
        bits
    }

    #[inline]
    unsafe fn from_bits(bits: u64) -> Self {
        let block = std::ptr::with_exposed_provenance_mut(bits as usize);
        // SAFETY: the caller passes bits that `into_bits` gave, which are never null.
        Entry { block: unsafe { NonNull::new_unchecked(block) }, owns: PhantomData }
    }

    #[inline]
    fn prefetch(bits: u64) {
        // The header with the key, and the line where a short value ends.
        let block = crate::tagged_pointer::bits_to_address::<u8>(bits);
        crate::tagged_pointer::prefetch(block);
        crate::tagged_pointer::prefetch(block.wrapping_add(64));
    }

    #[inline]
    fn prefetch_head(bits: u64) {
        crate::tagged_pointer::prefetch(crate::tagged_pointer::bits_to_address::<u8>(bits));
    }
}

impl<P: std::fmt::Debug> std::fmt::Debug for Entry<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key())
            .field("value", &self.value())
            .field("expiry", &self.expiry())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::rc::Rc;

    type Shared = Box<Rc<Vec<u8>>>;

    #[derive(Debug, Clone)]
    enum Op {
        Inline(Vec<u8>),
        Packed(Vec<u8>),
        Int(i64),
        Payload(Vec<u8>),
        Expiry(Option<u64>),
        Meta(u32),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300).prop_map(Op::Inline),
            proptest::collection::vec(any::<u8>(), 0..300).prop_map(Op::Packed),
            any::<i64>().prop_map(Op::Int),
            proptest::collection::vec(any::<u8>(), 0..9).prop_map(Op::Payload),
            any::<Option<u64>>().prop_map(Op::Expiry),
            (0..=MAX_META).prop_map(Op::Meta),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_a_plain_struct(
            key in proptest::collection::vec(any::<u8>(), 0..200),
            ops in proptest::collection::vec(op(), 0..40),
        ) {
            let mut entry: Entry<Shared> = Entry::new(&key, NewValue::Inline(b""), None, 0);
            let (mut value, mut expiry, mut meta) = (Op::Inline(vec![]), None, 0);
            let payloads: Vec<Rc<Vec<u8>>> = ops.iter().filter_map(|op| match op {
                Op::Payload(bytes) => Some(Rc::new(bytes.clone())),
                _ => None,
            }).collect();
            let mut next = payloads.iter();
            for op in &ops {
                match op {
                    Op::Inline(bytes) => { entry.set_value(NewValue::Inline(bytes)); value = op.clone(); }
                    Op::Packed(bytes) => { entry.set_value(NewValue::Packed(bytes)); value = op.clone(); }
                    Op::Int(n) => { entry.set_value(NewValue::Int(*n)); value = op.clone(); }
                    Op::Payload(_) => {
                        let shared = Rc::clone(next.next().unwrap());
                        entry.set_value(NewValue::Payload(Box::new(shared)));
                        value = op.clone();
                    }
                    Op::Expiry(at) => { entry.set_expiry(*at); expiry = *at; }
                    Op::Meta(bits) => { entry.mark(*bits); meta = *bits; }
                }
                prop_assert_eq!(entry.key(), &key[..]);
                prop_assert!(entry.has_key(&key) && !entry.has_key(&[&key[..], b"x"].concat()));
                for at in 0..key.len() {
                    let mut other = key.clone();
                    other[at] ^= 1 << (at % 8);
                    prop_assert!(!entry.has_key(&other));
                }
                prop_assert_eq!(entry.expiry(), expiry);
                prop_assert_eq!(entry.meta(), meta);
                prop_assert_eq!(entry.int(), if let Op::Int(n) = &value { Some(*n) } else { None });
                match (&value, entry.value()) {
                    (Op::Inline(bytes), ValueRef::Inline(seen)) => prop_assert_eq!(&bytes[..], seen),
                    (Op::Packed(bytes), ValueRef::Packed(seen)) => prop_assert_eq!(&bytes[..], seen),
                    (Op::Int(n), ValueRef::Int(seen)) => prop_assert_eq!(*n, seen),
                    (Op::Payload(bytes), ValueRef::Payload(seen)) => prop_assert_eq!(bytes, &***seen),
                    other => prop_assert!(false, "{:?}", other),
                }
                // SAFETY: the bits come from `into_bits` one line before, once.
                entry = unsafe { Entry::from_bits(entry.into_bits()) };
            }
            drop(entry);
            prop_assert!(payloads.iter().all(|shared| Rc::strong_count(shared) == 1));
        }
    }

    #[test]
    fn a_key_of_many_megabytes_keeps_its_length() {
        for len in [(1 << KEY_BITS) - 1, 1 << KEY_BITS, 5 << KEY_BITS] {
            let key = vec![7u8; len];
            let mut entry: Entry<Shared> = Entry::new(&key, NewValue::Int(-1), Some(9), 1);
            entry.set_expiry(None);
            entry.set_value(NewValue::Inline(b"v"));
            assert_eq!(entry.key().len(), len);
            assert_eq!(entry.value(), ValueRef::Inline(b"v"));
        }
    }

    #[test]
    fn sizes_are_the_allocator_classes() {
        let classes = [8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640];
        for len in 1..=640 {
            let class = classes.iter().copied().find(|class| *class >= len).unwrap();
            assert_eq!(rounded(len), class, "{len}");
        }
        let entry: Entry<Shared> = Entry::new(&[1; 16], NewValue::Inline(&[2; 64]), Some(1), 0);
        assert_eq!(entry.allocated(), 96);
    }

    #[test]
    fn the_payload_comes_out_once() {
        let shared = Rc::new(vec![1]);
        let entry: Entry<Shared> = Entry::new(b"k", NewValue::Payload(Box::new(Rc::clone(&shared))), None, 0);
        assert_eq!(Rc::strong_count(&shared), 2);
        let payload = entry.into_payload();
        assert_eq!(Rc::strong_count(&shared), 2);
        drop(payload);
        assert_eq!(Rc::strong_count(&shared), 1);
    }
}
