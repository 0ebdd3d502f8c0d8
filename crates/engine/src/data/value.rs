//! Values that a key can hold.
//!
//! Short strings and integers live inside of the key's [`Entry`], and so do small hashes, packed
//! ([`Collection::packed`]); everything else is an [`Object`] that the entry points to. Readers get a [`Value`], a view
//! of all of them.

use crate::Error;
use crate::data::typed_value::TypedValue;
use crate::data::value_type::{self, ExpiryEvents, ValueType};
use structures::entry::{Entry, MAX_INLINE, NewValue, ValueRef};
use structures::hash::{Hash, View};
use structures::list::List;
use structures::long_string::LongString;
use structures::set::Set;
use structures::sorted_set::SortedSet;
use structures::stream::Stream;

/// A key and its value.
pub type KeyEntry = Entry<Object>;

/// A borrowed value.
pub type Value<'a> = ValueRef<'a, Object>;

/// A value that does not fit into its entry.
#[derive(Debug, Clone)]
pub enum Object {
    /// Strings that are long, or that were edited in place (APPEND, SETRANGE, SETBIT) and may be again.
    String(LongString),
    /// A set.
    Set(Set),
    /// A list.
    List(List),
    /// A hash.
    Hash(Hash),
    /// A sorted set.
    SortedSet(SortedSet),
    /// A stream.
    Stream(Box<Stream>),
    /// A value of an installed type.
    Other(Box<dyn TypedValue>),
}

// An entry holds its object, so that each of these bytes is one of every key with an object.
const _: () = assert!(size_of::<Object>() == 24 && size_of::<KeyEntry>() == 8);

/// Strings up to this many bytes are called embstr by OBJECT ENCODING, longer ones raw.
const EMBEDDED_MAX: usize = 44;

/// Questions of readers to a value, whatever holds it.
pub trait ValueExt<'a> {
    /// Returns its type.
    fn value_type(&self) -> &'static ValueType;
    /// Returns its length, as the type's command counts it: bytes of a string, elements of a collection.
    fn length(&self) -> usize;
    /// Returns the name that OBJECT ENCODING replies.
    fn encoding(&self) -> &'static str;
    /// Returns the string, if the value is one.
    ///
    /// # Errors
    /// [`Error::WrongType`]: the value is a collection.
    fn as_string(&self) -> Result<Str<'a>, Error>;
    /// Returns the collection, if the value is of its type.
    ///
    /// # Errors
    /// [`Error::WrongType`]: the value is of another type.
    fn as_collection<C: Collection>(&self) -> Result<C::Ref<'a>, Error>;
}

/// A type of value that has elements: no key holds an empty one, but for streams.
pub trait Collection: Default {
    /// View that readers get.
    type Ref<'a>
    where
        Self: 'a;
    /// Returns the collection that lies there, if it is of this type.
    fn read<'a>(value: &Value<'a>) -> Option<Self::Ref<'a>>;
    /// Returns the collection, if the object is of this type.
    fn of(object: &Object) -> Option<&Self>;
    /// Returns the collection to change it, if the object is of this type.
    fn of_mut(object: &mut Object) -> Option<&mut Self>;
    /// Returns the object as which a key holds it.
    fn into_object(self) -> Object;
    /// Whether it has no elements.
    fn is_empty(&self) -> bool;
    /// Returns the earliest expiry of an element.
    #[inline]
    fn next_expiry(&self) -> Option<u64> {
        None
    }
    /// Returns the bytes that the entry may hold instead of an object.
    #[inline]
    fn packed(&self) -> Option<&[u8]> {
        None
    }
    /// Returns the collection that was packed into these bytes, if it is of this type.
    fn unpacked(_packed: &[u8]) -> Option<Self> {
        None
    }
}

/// Returns the object of a type that is never packed.
fn payload<'a>(value: &Value<'a>) -> Option<&'a Object> {
    if let Value::Payload(object) = value { Some(object) } else { None }
}

impl Collection for Set {
    type Ref<'a> = &'a Self;
    #[inline]
    fn read<'a>(value: &Value<'a>) -> Option<&'a Self> {
        payload(value).and_then(Self::of)
    }
    fn of(object: &Object) -> Option<&Self> {
        if let Object::Set(set) = object { Some(set) } else { None }
    }
    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::Set(set) = object { Some(set) } else { None }
    }
    fn into_object(self) -> Object {
        Object::Set(self)
    }
    fn is_empty(&self) -> bool {
        Set::is_empty(self)
    }
}

impl Collection for List {
    type Ref<'a> = &'a Self;
    #[inline]
    fn read<'a>(value: &Value<'a>) -> Option<&'a Self> {
        payload(value).and_then(Self::of)
    }
    fn of(object: &Object) -> Option<&Self> {
        if let Object::List(list) = object { Some(list) } else { None }
    }
    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::List(list) = object { Some(list) } else { None }
    }
    fn into_object(self) -> Object {
        Object::List(self)
    }
    fn is_empty(&self) -> bool {
        List::is_empty(self)
    }
}

impl Collection for Hash {
    type Ref<'a> = View<'a>;
    #[inline]
    fn read<'a>(value: &Value<'a>) -> Option<View<'a>> {
        match value {
            Value::Packed(bytes) => Some(View::packed(bytes)),
            Value::Payload(Object::Hash(hash)) => Some(hash.view()),
            _ => None,
        }
    }
    fn of(object: &Object) -> Option<&Self> {
        if let Object::Hash(hash) = object { Some(hash) } else { None }
    }
    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::Hash(hash) = object { Some(hash) } else { None }
    }
    fn into_object(self) -> Object {
        Object::Hash(self)
    }
    fn is_empty(&self) -> bool {
        self.view().is_empty()
    }
    #[inline]
    fn next_expiry(&self) -> Option<u64> {
        Hash::next_expiry(self)
    }
    #[inline]
    fn packed(&self) -> Option<&[u8]> {
        Hash::packed(self, MAX_INLINE)
    }
    fn unpacked(packed: &[u8]) -> Option<Self> {
        Some(Hash::unpacked(packed))
    }
}

impl Collection for SortedSet {
    type Ref<'a> = &'a Self;
    #[inline]
    fn read<'a>(value: &Value<'a>) -> Option<&'a Self> {
        payload(value).and_then(Self::of)
    }
    fn of(object: &Object) -> Option<&Self> {
        if let Object::SortedSet(set) = object { Some(set) } else { None }
    }
    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::SortedSet(set) = object { Some(set) } else { None }
    }
    fn into_object(self) -> Object {
        Object::SortedSet(self)
    }
    fn is_empty(&self) -> bool {
        SortedSet::is_empty(self)
    }
}

impl Collection for Stream {
    type Ref<'a> = &'a Self;
    #[inline]
    fn read<'a>(value: &Value<'a>) -> Option<&'a Self> {
        payload(value).and_then(Self::of)
    }
    fn of(object: &Object) -> Option<&Self> {
        if let Object::Stream(stream) = object { Some(stream) } else { None }
    }
    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::Stream(stream) = object { Some(stream) } else { None }
    }
    fn into_object(self) -> Object {
        Object::Stream(Box::new(self))
    }
    /// False: a stream without entries stays, since it has an id to continue from, and groups.
    fn is_empty(&self) -> bool {
        false
    }
}

impl<T: TypedValue + Default> Collection for T {
    type Ref<'a> = &'a Self;
    fn read<'a>(value: &Value<'a>) -> Option<&'a Self> {
        payload(value).and_then(Self::of)
    }
    fn of(object: &Object) -> Option<&Self> {
        if let Object::Other(value) = object { value.downcast() } else { None }
    }
    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::Other(value) = object { value.downcast_mut() } else { None }
    }
    fn into_object(self) -> Object {
        Object::Other(Box::new(self))
    }
    fn is_empty(&self) -> bool {
        TypedValue::is_empty(self)
    }
    fn next_expiry(&self) -> Option<u64> {
        TypedValue::next_expiry(self)
    }
}

impl<'a> ValueExt<'a> for Value<'a> {
    fn value_type(&self) -> &'static ValueType {
        match self {
            Value::Payload(Object::Set(_)) => &value_type::SET,
            Value::Payload(Object::List(_)) => &value_type::LIST,
            Value::Packed(_) | Value::Payload(Object::Hash(_)) => &value_type::HASH,
            Value::Payload(Object::SortedSet(_)) => &value_type::SORTED_SET,
            Value::Payload(Object::Stream(_)) => &value_type::STREAM,
            Value::Payload(Object::Other(value)) => value.value_type(),
            Value::Inline(_) | Value::Int(_) | Value::Payload(Object::String(_)) => &value_type::STRING,
        }
    }

    fn length(&self) -> usize {
        match self {
            Value::Int(n) => Str::Int(*n).len(),
            Value::Inline(bytes) => bytes.len(),
            Value::Payload(Object::String(bytes)) => bytes.len(),
            Value::Payload(Object::Set(set)) => set.len(),
            Value::Payload(Object::List(list)) => list.len(),
            Value::Payload(Object::Hash(hash)) => hash.view().len(),
            Value::Packed(bytes) => View::packed(bytes).len(),
            Value::Payload(Object::SortedSet(set)) => set.len(),
            Value::Payload(Object::Stream(stream)) => stream.len() as usize,
            Value::Payload(Object::Other(value)) => value.len(),
        }
    }

    fn encoding(&self) -> &'static str {
        match self {
            Value::Int(_) => "int",
            Value::Inline(bytes) if bytes.len() <= EMBEDDED_MAX => "embstr",
            Value::Inline(_) | Value::Payload(Object::String(_)) => "raw",
            Value::Payload(Object::Set(set)) => set.encoding(),
            Value::Payload(Object::List(list)) => list.encoding(),
            Value::Payload(Object::Hash(hash)) => hash.view().encoding(),
            Value::Packed(bytes) => View::packed(bytes).encoding(),
            Value::Payload(Object::SortedSet(set)) => set.encoding(),
            Value::Payload(Object::Stream(_)) => "stream",
            Value::Payload(Object::Other(value)) => value.encoding(),
        }
    }

    fn as_string(&self) -> Result<Str<'a>, Error> {
        match self {
            Value::Int(n) => Ok(Str::Int(*n)),
            Value::Inline(bytes) => Ok(Str::Bytes(bytes)),
            Value::Payload(Object::String(bytes)) => Ok(Str::Bytes(bytes)),
            Value::Payload(_) | Value::Packed(_) => Err(Error::WrongType),
        }
    }

    #[inline]
    fn as_collection<C: Collection>(&self) -> Result<C::Ref<'a>, Error> {
        C::read(self).ok_or(Error::WrongType)
    }
}

/// A string value: bytes, or an integer that stands for its decimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Str<'a> {
    /// Bytes as they are stored.
    Bytes(&'a [u8]),
    /// Stands for its decimal digits.
    Int(i64),
}

impl<'a> Str<'a> {
    /// Returns the bytes; those of an integer are written into `digits`.
    pub fn bytes<'b>(self, digits: &'b mut itoa::Buffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Str::Bytes(bytes) => bytes,
            Str::Int(n) => digits.format(n).as_bytes(),
        }
    }

    /// Returns the length in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> usize {
        self.bytes(&mut itoa::Buffer::new()).len()
    }

    /// Returns a copy of the bytes.
    pub fn to_vec(self) -> Vec<u8> {
        self.bytes(&mut itoa::Buffer::new()).to_vec()
    }
}

impl Object {
    /// Returns how many elements it has that are copied one by one.
    pub fn elements_to_copy(&self) -> usize {
        match self {
            Object::Set(set) => set.len(),
            Object::SortedSet(set) => set.len(),
            Object::Hash(hash) => hash.view().len(),
            Object::Other(value) => value.elements_to_copy(),
            Object::String(_) | Object::List(_) | Object::Stream(_) => 0,
        }
    }

    /// Makes a copy; `each` is called for each element that is copied by itself.
    pub fn copy(&self, each: &dyn Fn()) -> Object {
        match self {
            Object::Set(set) => Object::Set(set.copy(each)),
            Object::SortedSet(set) => Object::SortedSet(set.copy(each)),
            Object::Hash(hash) => Object::Hash(hash.copy(each)),
            Object::Other(value) => Object::Other(value.copy(each)),
            other => other.clone(),
        }
    }

    /// Prepares the object for an entry: `keep` gets the bytes if it can be packed.
    pub fn keep<R>(self, keep: impl FnOnce(NewValue<'_, Object>) -> R) -> R {
        match self {
            Object::Hash(hash) => match Collection::packed(&hash) {
                Some(bytes) => keep(NewValue::Packed(bytes)),
                None => keep(NewValue::Payload(Object::Hash(hash))),
            },
            other => keep(NewValue::Payload(other)),
        }
    }

    /// Returns how many pieces freeing it takes; expensive values go to a background thread.
    pub fn free_effort(&self) -> usize {
        match self {
            Object::String(bytes) => 1 + bytes.capacity() / (64 << 10),
            Object::Set(set) => set.free_effort(),
            Object::List(list) => list.free_effort(),
            Object::Hash(hash) => hash.free_effort(),
            Object::SortedSet(set) => set.free_effort(),
            Object::Stream(stream) => stream.free_effort(),
            Object::Other(value) => value.free_effort(),
        }
    }

    /// Asks for the memory that lookups of these elements will read.
    pub fn prefetch<'a>(&self, elements: impl Iterator<Item = &'a [u8]>) {
        match self {
            Object::Set(set) => set.prefetch(elements),
            Object::Hash(hash) => hash.prefetch(elements),
            Object::SortedSet(set) => set.prefetch(elements),
            _ => {}
        }
    }

    /// Frees about so many pieces of an object that nobody uses any more; returns whether nothing is left.
    pub fn drain_step(&mut self, max: usize) -> bool {
        match self {
            Object::String(_) => true,
            Object::Set(set) => set.drain_step(max),
            Object::List(list) => list.drain_step(max),
            Object::Hash(hash) => hash.drain_step(max),
            Object::SortedSet(set) => set.drain_step(max),
            Object::Stream(stream) => stream.drain_step(max),
            Object::Other(value) => value.drain_step(max),
        }
    }

    /// Returns the bytes on the heap; of types whose elements have blocks of their own, by the size of `samples` of
    /// them.
    pub fn memory_usage(&self, samples: usize) -> usize {
        match self {
            Object::String(bytes) => bytes.capacity(),
            Object::Set(set) => set.memory_usage(),
            Object::List(list) => list.memory_usage(),
            Object::Hash(hash) => hash.memory_usage(samples),
            Object::SortedSet(set) => set.memory_usage(),
            Object::Stream(stream) => stream.memory_usage(),
            Object::Other(value) => size_of_val(&**value) + value.memory_usage(samples),
        }
    }

    /// Returns the earliest expiry of an element of a collection.
    #[inline]
    pub fn next_expiry(&self) -> Option<u64> {
        match self {
            Object::Hash(hash) => hash.next_expiry(),
            Object::Other(value) => value.next_expiry(),
            _ => None,
        }
    }

    /// Removes the element that expired first and passes its name to `removed`; false if no element has expired.
    pub fn pop_due(&mut self, now: u64, removed: impl FnOnce(&[u8])) -> bool {
        match self {
            Object::Hash(hash) => hash.pop_due(now, removed),
            Object::Other(value) => {
                let mut removed = Some(removed);
                value.pop_due(now, &mut |element| _ = removed.take().map(|removed| removed(element)))
            }
            _ => false,
        }
    }

    /// Returns the event and the command that announce expired elements.
    pub fn element_words(&self) -> ExpiryEvents {
        Value::Payload(self).value_type().element_expiry
    }

    /// Whether it is a collection without elements.
    pub fn is_empty(&self) -> bool {
        match self {
            Object::Hash(hash) => hash.view().is_empty(),
            Object::Other(value) => value.is_empty(),
            _ => false,
        }
    }
}

/// A value on its way into an entry.
pub enum NewString<'a> {
    /// An integer in its canonical digits.
    Int(i64),
    /// Bytes, which are copied.
    Bytes(&'a [u8]),
    /// Bytes, which the entry takes over if they do not fit inside of it.
    Owned(Vec<u8>),
}

impl<'a> NewString<'a> {
    /// Encodes bytes for a SET: an integer as such when its digits are canonical, short ones inline.
    pub fn encode(bytes: std::borrow::Cow<'a, [u8]>) -> Self {
        if bytes.len() <= 20
            && let Some(n) = resp::number::parse_i64(&bytes)
        {
            return NewString::Int(n);
        }
        match bytes {
            std::borrow::Cow::Borrowed(bytes) => NewString::Bytes(bytes),
            std::borrow::Cow::Owned(bytes) => NewString::Owned(bytes),
        }
    }

    pub(crate) fn into_value(self) -> NewValue<'a, Object> {
        match self {
            NewString::Int(n) => NewValue::Int(n),
            NewString::Bytes(bytes) if bytes.len() <= structures::entry::MAX_INLINE => NewValue::Inline(bytes),
            NewString::Bytes(bytes) => NewValue::Payload(Object::String(bytes.to_vec().into())),
            NewString::Owned(bytes) => NewValue::Payload(Object::String(bytes.into())),
        }
    }
}
