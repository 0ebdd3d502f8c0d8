//! Reading values: every type and encoding that Redis and Valkey have written since version 2.
//!
//! Packed collections are taken over as they are once their bytes have been walked; old encodings become the present
//! ones. A collection above the present limits of packed forms changes its form. A returned value is one that commands
//! could have made: no element twice, no text where a number must be, no collection without elements.

use crate::format::{Family, kind, node};
use crate::rdb_reader::{Fault, Reason, Result, Source};
use crate::ziplist::{from_ziplist, from_zipmap};
use engine::data::value::{KeyEntry, NewString, Object, Value, ValueExt};
use engine::data::value_type::{self, ValueType};
use engine::keyspace::encoding_limits::EncodingLimits;
use foldhash::fast::RandomState;
use rdb::module_value::{self, ModuleReader};
use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::BuildHasher;
use std::ops::Range;
use structures::entry::{MAX_INLINE, NewValue};
use structures::hash::{FieldTtl, Hash, Written};
use structures::intset::Intset;
use structures::list::List;
use structures::listpack::{Elements, Item, Listpack};
use structures::quicklist::{End, Quicklist};
use structures::set::Set;
use structures::sorted_set::SortedSet;

/// A value that was read.
#[derive(Debug)]
pub enum Decoded {
    /// A string that is an integer.
    Int(i64),
    /// Any other string.
    Bytes(Vec<u8>),
    /// A collection.
    Object(Object),
}

impl Decoded {
    /// Returns a string, in the form that SET would give it.
    fn string(bytes: Vec<u8>) -> Decoded {
        match NewString::encode(Cow::Borrowed(&bytes)) {
            NewString::Int(n) => Decoded::Int(n),
            _ => Decoded::Bytes(bytes),
        }
    }

    /// Returns its type.
    pub fn value_type(&self) -> &'static ValueType {
        match self {
            Decoded::Int(_) | Decoded::Bytes(_) => &value_type::STRING,
            Decoded::Object(object) => Value::Payload(object).value_type(),
        }
    }

    /// Returns the value under a key. `expiry`: Unix time in milliseconds; `meta`: its access mark.
    pub fn into_entry(self, key: &[u8], expiry: Option<u64>, meta: u32) -> KeyEntry {
        let value = match &self {
            Decoded::Int(n) => NewValue::Int(*n),
            Decoded::Bytes(bytes) if bytes.len() <= MAX_INLINE => NewValue::Inline(bytes),
            _ => return self.into_large_entry(key, expiry, meta),
        };
        KeyEntry::new(key, value, expiry, meta)
    }

    fn into_large_entry(self, key: &[u8], expiry: Option<u64>, meta: u32) -> KeyEntry {
        let object = match self {
            Decoded::Int(n) => return KeyEntry::new(key, NewValue::Int(n), expiry, meta),
            Decoded::Bytes(bytes) => Object::String(bytes.into()),
            Decoded::Object(object) => object,
        };
        object.keep(|value| KeyEntry::new(key, value, expiry, meta))
    }
}

/// Returns whether a server of the family has written values of this type.
pub fn is_type(kind: u8, family: Family) -> bool {
    match kind {
        kind::STRING..=kind::MODULE_2 | kind::HASH_ZIPMAP..=kind::STREAM_LISTPACKS_3 => true,
        kind::VALKEY_HASH_2 if family == Family::Valkey => true,
        _ => {
            family == Family::Redis
                && (kind::REDIS_HASH_METADATA_PRE_GA..=kind::REDIS_STREAM_LISTPACKS_5).contains(&kind)
        }
    }
}

/// Returns whether values of this type are one string that still has to be decoded.
pub fn is_one_string(kind: u8) -> bool {
    matches!(
        kind,
        kind::ZSET_LISTPACK
            | kind::HASH_LISTPACK
            | kind::SET_LISTPACK
            | kind::ZSET_ZIPLIST
            | kind::HASH_ZIPLIST
            | kind::LIST_ZIPLIST
            | kind::HASH_ZIPMAP
    )
}

/// Reads a value of type `kind`, from an input of a version of `family`. Packed values are searched for duplicates,
/// too.
///
/// # Errors
/// The input ends early, cannot be read, or has an unknown type or an impossible value; a collection without elements
/// is [`Reason::Empty`].
pub fn value(source: &mut Source<'_>, kind: u8, family: Family, limits: &EncodingLimits) -> Result<Decoded> {
    Ok(Decoded::Object(match kind {
        kind::STRING => return Ok(Decoded::string(source.string()?)),
        kind::LIST => list_of_elements(source, limits)?,
        kind::LIST_ZIPLIST => {
            let pack = packed(source, from_ziplist, "Ziplist")?;
            list_of_nodes(source, vec![pack], limits)?
        }
        kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2 => quicklist(source, kind, limits)?,
        kind::SET => set(source, limits)?,
        kind::SET_INTSET => intset(source, limits)?,
        kind::SET_LISTPACK => packed_set(source, limits)?,
        kind::ZSET | kind::ZSET_2 => sorted_set(source, kind, limits)?,
        kind::ZSET_ZIPLIST => {
            let pack = packed(source, from_ziplist, "Zset ziplist")?;
            packed_sorted_set(source, pack.elements(), limits)?
        }
        kind::ZSET_LISTPACK => listpack_sorted_set(source, limits)?,
        kind::HASH => hash(source, ExpiryPlace::None, limits)?,
        kind::HASH_ZIPMAP => {
            let pack = match packed(source, from_zipmap, "Zipmap") {
                // No server has written an empty one.
                Err(Fault { reason: Reason::Empty, .. }) => return source.corrupt("Zipmap integrity check failed"),
                other => other?,
            };
            packed_hash(source, pack, limits)?
        }
        kind::HASH_ZIPLIST => {
            let pack = packed(source, from_ziplist, "Hash ziplist")?;
            packed_hash(source, pack, limits)?
        }
        kind::HASH_LISTPACK => {
            let pack = packed(source, listpack, "Hash listpack")?;
            packed_hash(source, pack, limits)?
        }
        kind::STREAM_LISTPACKS | kind::STREAM_LISTPACKS_2 | kind::STREAM_LISTPACKS_3 => stream(source, kind, limits)?,
        kind::MODULE_2 => typed(source)?,
        kind::MODULE_PRE_GA => {
            let id = source.length()?;
            return Err(foreign(source, id));
        }
        _ => match (family, kind) {
            (Family::Valkey, kind::VALKEY_HASH_2) => hash(source, ExpiryPlace::Behind, limits)?,
            (Family::Redis, kind::REDIS_HASH_METADATA_PRE_GA) => hash(source, ExpiryPlace::Before, limits)?,
            (Family::Redis, kind::REDIS_HASH_METADATA) => {
                let first = source.milliseconds()?;
                hash(source, ExpiryPlace::BeforeFrom(first), limits)?
            }
            (Family::Redis, kind::REDIS_STREAM_LISTPACKS_4 | kind::REDIS_STREAM_LISTPACKS_5) => {
                stream(source, kind, limits)?
            }
            (Family::Redis, kind::REDIS_HASH_LISTPACK_EX_PRE_GA) => packed_timed_hash(source, limits)?,
            (Family::Redis, kind::REDIS_HASH_LISTPACK_EX) => {
                source.milliseconds()?;
                packed_timed_hash(source, limits)?
            }
            _ => return source.corrupt(format!("Unknown RDB encoding type {kind}")),
        },
    }))
}

fn listpack_sorted_set(source: &mut Source<'_>, limits: &EncodingLimits) -> Result<Object> {
    let mut bytes = source.take_room();
    source.string_into(&mut bytes)?;
    let set = match Listpack::check(&bytes) {
        Ok(pack) if pack.is_empty() => return Err(source.fault(Reason::Empty)),
        Ok(pack) => packed_sorted_set(source, pack, limits)?,
        Err(_) => return source.corrupt("Zset listpack integrity check failed"),
    };
    source.give_room(bytes);
    Ok(set)
}

fn stream(source: &mut Source<'_>, kind: u8, limits: &EncodingLimits) -> Result<Object> {
    Ok(Object::Stream(Box::new(crate::stream::read(source, kind, limits.stream())?)))
}

fn listpack(bytes: &[u8]) -> Option<Listpack> {
    Listpack::from_bytes(bytes).ok()
}

/// Reads a packed collection, of at least one element.
fn packed(source: &mut Source<'_>, read: fn(&[u8]) -> Option<Listpack>, what: &str) -> Result<Listpack> {
    let bytes = source.string()?;
    match read(&bytes) {
        Some(pack) if pack.is_empty() => Err(source.fault(Reason::Empty)),
        Some(pack) => Ok(pack),
        None => source.corrupt(format!("{what} integrity check failed")),
    }
}

/// Reads the number of elements of a collection, which has at least one.
fn count(source: &mut Source<'_>) -> Result<u64> {
    match source.length()? {
        0 => Err(source.fault(Reason::Empty)),
        count => Ok(count),
    }
}

fn list_of_elements(source: &mut Source<'_>, limits: &EncodingLimits) -> Result<Object> {
    let (count, rules) = (count(source)?, limits.list());
    let mut quicklist = Quicklist::new(&rules);
    for _ in 0..count {
        quicklist.push(End::Tail, Cow::Owned(source.string()?), &rules);
    }
    Ok(Object::List(List::from_quicklist(quicklist, &rules)))
}

fn list_of_nodes(source: &Source<'_>, nodes: Vec<Listpack>, limits: &EncodingLimits) -> Result<Object> {
    let rules = limits.list();
    let mut quicklist = Quicklist::new(&rules);
    nodes.into_iter().for_each(|pack| quicklist.append_listpack(pack));
    if quicklist.is_empty() {
        return Err(source.fault(Reason::Empty));
    }
    Ok(Object::List(List::from_quicklist(quicklist, &rules)))
}

fn quicklist(source: &mut Source<'_>, kind: u8, limits: &EncodingLimits) -> Result<Object> {
    let (count, rules) = (count(source)?, limits.list());
    let mut quicklist = Quicklist::new(&rules);
    for _ in 0..count {
        let container = if kind == kind::LIST_QUICKLIST_2 { source.length()? } else { node::PACKED };
        let bytes = source.string()?;
        if bytes.is_empty() {
            return source.corrupt("a list's node without content");
        }
        let node = match container {
            node::PLAIN => {
                quicklist.push(End::Tail, Cow::Owned(bytes), &rules);
                continue;
            }
            node::PACKED if kind == kind::LIST_QUICKLIST_2 => listpack(&bytes),
            node::PACKED => from_ziplist(&bytes),
            other => return source.corrupt(format!("unknown container {other} of a list's node")),
        };
        match node {
            Some(node) => quicklist.append_listpack(node),
            None => return source.corrupt("Quicklist node integrity check failed"),
        }
    }
    if quicklist.is_empty() {
        return Err(source.fault(Reason::Empty));
    }
    Ok(Object::List(List::from_quicklist(quicklist, &rules)))
}

fn set(source: &mut Source<'_>, limits: &EncodingLimits) -> Result<Object> {
    let (count, limits) = (count(source)?, limits.set());
    let expected = usize::try_from(count).unwrap_or(usize::MAX);
    let mut members: [Vec<u8>; AT_ONCE] = Default::default();
    source.string_into(&mut members[0])?;
    let mut set = Set::for_members(&members[0], expected, &limits);
    set.reserve_table(expected.min(RESERVED));
    let (mut read, mut inserted) = (1, 0);
    while inserted < count {
        let here = (count - inserted).min(AT_ONCE as u64) as usize;
        for member in &mut members[read..here] {
            source.string_into(member)?;
        }
        set.prefetch(members[..here].iter().map(Vec::as_slice));
        if !members[..here].iter().all(|member| set.insert(member, &limits)) {
            return source.corrupt("Duplicate set members detected");
        }
        inserted += here as u64;
        read = 0;
        if inserted >= RESERVED as u64 || inserted == count {
            set.settle();
        }
    }
    Ok(Object::Set(set))
}

/// Elements that are read before they are inserted, so that their places in memory can be prefetched together.
const AT_ONCE: usize = 16;
/// Elements that room is made for at the word of a count: memory that is not touched until they arrive.
const RESERVED: usize = 1 << 20;

fn intset(source: &mut Source<'_>, limits: &EncodingLimits) -> Result<Object> {
    let bytes = source.string()?;
    let Ok(ints) = Intset::from_bytes(&bytes) else { return source.corrupt("Intset integrity check failed") };
    if ints.is_empty() {
        return Err(source.fault(Reason::Empty));
    }
    let limits = limits.set();
    if ints.len() <= limits.intset_entries {
        return Ok(Object::Set(Set::Ints(ints)));
    }
    let mut set = if ints.len() <= limits.listpack_entries { Set::small() } else { Set::big() };
    for n in &ints {
        set.insert_item(Item::Int(n), &limits);
    }
    Ok(Object::Set(set))
}

fn packed_set(source: &mut Source<'_>, limits: &EncodingLimits) -> Result<Object> {
    let pack = packed(source, listpack, "Set listpack")?;
    if !are_distinct(pack.iter()) {
        return source.corrupt("Set listpack integrity check failed");
    }
    let (limits, len) = (limits.set(), pack.len());
    let longest = pack.iter().map(Item::len).max().unwrap_or(0);
    if len <= limits.listpack_entries && longest <= limits.listpack_value {
        return Ok(Object::Set(Set::Small(pack)));
    }
    let mut set = Set::big();
    for member in &pack {
        if !set.insert_item(member, &limits) {
            return source.corrupt("Set listpack integrity check failed, listpack with dup elements");
        }
    }
    Ok(Object::Set(set))
}

/// Returns whether no item occurs twice.
fn are_distinct<'a>(items: impl Iterator<Item = Item<'a>> + Clone) -> bool {
    /// Items up to this number are each compared with those before it.
    const FEW: usize = 128;
    let state = RandomState::default();
    // Short hashes side by side are compared many at a time.
    let mut hashes = [0u32; FEW];
    let look_distinct = items.clone().enumerate().all(|(at, item)| {
        let Some(slot) = hashes.get_mut(at) else { return false };
        // Digits that are stored as a string equal the number that they stand for.
        let hash = match item {
            Item::Bytes(bytes) => match Item::of(bytes) {
                Item::Int(n) => state.hash_one(n),
                Item::Bytes(bytes) => state.hash_one(bytes),
            },
            Item::Int(n) => state.hash_one(n),
        } as u32;
        *slot = hash;
        !hashes[..at].iter().fold(false, |found, before| found | (*before == hash))
    });
    look_distinct || are_surely_distinct(items)
}

fn are_surely_distinct<'a>(mut items: impl Iterator<Item = Item<'a>>) -> bool {
    let mut numbers = HashSet::with_hasher(RandomState::default());
    let mut texts = HashSet::with_hasher(RandomState::default());
    items.all(|item| match item {
        Item::Int(n) => numbers.insert(n),
        Item::Bytes(bytes) => match Item::of(bytes) {
            Item::Int(n) => numbers.insert(n),
            Item::Bytes(_) => texts.insert(bytes),
        },
    })
}

fn sorted_set(source: &mut Source<'_>, kind: u8, limits: &EncodingLimits) -> Result<Object> {
    let count = count(source)?;
    let mut pairs = Pairs::default();
    let mut member = Vec::new();
    for _ in 0..count {
        source.string_into(&mut member)?;
        let score = if kind == kind::ZSET_2 { source.double()? } else { source.decimal_double()? };
        pairs.add(&member, score);
    }
    pairs.into_set(source, limits)
}

fn packed_sorted_set(source: &Source<'_>, pack: Elements<'_>, limits: &EncodingLimits) -> Result<Object> {
    let mut pairs = Pairs::default();
    pairs.pairs.reserve(pack.len() / 2);
    let mut items = pack.iter();
    while let Some(member) = items.next() {
        let score = match items.next() {
            Some(Item::Int(n)) => Some(n as f64),
            Some(Item::Bytes(text)) => resp::number::parse_f64_c(text),
            None => None,
        };
        let Some(score) = score else { return source.corrupt("Zset listpack integrity check failed") };
        pairs.add(member.bytes(&mut itoa::Buffer::new()), score);
    }
    pairs.into_set(source, limits)
}

/// Members and scores in the order in which they were read.
#[derive(Default)]
struct Pairs {
    /// All members, one after the other.
    text: Vec<u8>,
    pairs: Vec<(Range<usize>, f64)>,
}

impl Pairs {
    fn add(&mut self, member: &[u8], score: f64) {
        let start = self.text.len();
        self.text.extend_from_slice(member);
        self.pairs.push((start..self.text.len(), score));
    }

    fn into_set(mut self, source: &Source<'_>, limits: &EncodingLimits) -> Result<Object> {
        let text = &self.text;
        if self.pairs.iter().any(|(_, score)| score.is_nan()) {
            return source.corrupt("Zset with NAN score detected");
        }
        // Both zeros are the same score.
        let order = |(a, score_a): &(Range<usize>, f64), (b, score_b): &(Range<usize>, f64)| {
            (score_a + 0.0).total_cmp(&(score_b + 0.0)).then_with(|| text[a.clone()].cmp(&text[b.clone()]))
        };
        // Small sets come in order; big ones from the highest down, which makes sorting them a walk.
        if !self.pairs.is_sorted_by(|a, b| order(a, b).is_lt()) {
            self.pairs.reverse();
            self.pairs.sort_by(order);
        }
        let ascending = self.pairs.iter().map(|(member, score)| (&text[member.clone()], *score));
        match SortedSet::from_sorted_unsure(ascending, limits.sorted_set()) {
            (set, true) => Ok(Object::SortedSet(set)),
            (_, false) => source.corrupt("Duplicate zset fields detected"),
        }
    }
}

/// The position of the fields' expiries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpiryPlace {
    None,
    /// After the value, -1 for none.
    Behind,
    /// Before the field, 0 for none.
    Before,
    /// Before the field, relative to this time plus 1; 0 for none.
    BeforeFrom(i64),
}

fn hash(source: &mut Source<'_>, expiries: ExpiryPlace, limits: &EncodingLimits) -> Result<Object> {
    let (count, limits) = (count(source)?, limits.hash());
    let mut hash = Hash::default();
    let expected = usize::try_from(count).unwrap_or(usize::MAX);
    hash.reserve(expected, 0, 0, limits);
    hash.reserve_table(expected.min(RESERVED));
    let (mut field, mut value) = (Vec::new(), Vec::new());
    for n in 0..count {
        let before = match expiries {
            ExpiryPlace::Before => Some(source.length()?).filter(|at| *at != 0),
            ExpiryPlace::BeforeFrom(first) => match source.length()? {
                0 => None,
                later => match u64::try_from(first).ok().and_then(|first| first.checked_add(later - 1)) {
                    Some(at) => Some(at),
                    None => return source.corrupt("invalid expireAt time"),
                },
            },
            _ => None,
        };
        source.string_into(&mut field)?;
        source.string_into(&mut value)?;
        let expiry = match expiries {
            ExpiryPlace::Behind => u64::try_from(source.milliseconds()?).ok(),
            _ => before,
        };
        if expiry.is_some_and(|at| i64::try_from(at).is_err()) {
            return source.corrupt("invalid expireAt time");
        }
        hash.reserve(0, 0, field.len().saturating_add(value.len()), limits);
        let ttl = expiry.map_or(FieldTtl::Clear, FieldTtl::At);
        if hash.set(&field, &value, ttl, 0, limits) != Written::Added {
            return source.corrupt("Duplicate hash fields detected");
        }
        if n + 1 == count || n + 1 == RESERVED as u64 {
            hash.settle();
        }
    }
    Ok(Object::Hash(hash))
}

fn packed_hash(source: &Source<'_>, pack: Listpack, limits: &EncodingLimits) -> Result<Object> {
    let longest = pack.iter().map(Item::len).max().unwrap_or(0);
    if !are_distinct(pack.iter().step_by(2)) {
        return source.corrupt("Hash listpack integrity check failed, listpack with dup elements");
    }
    match Hash::from_listpack(pack) {
        Some(mut hash) => {
            hash.reserve(hash.view().len(), longest, 0, limits.hash());
            Ok(Object::Hash(hash))
        }
        None => source.corrupt("Hash listpack integrity check failed"),
    }
}

/// Reads fields, values and expiries in turns; an expiry of 0 is none.
fn packed_timed_hash(source: &mut Source<'_>, limits: &EncodingLimits) -> Result<Object> {
    let pack = packed(source, listpack, "Hash listpack")?;
    let (mut hash, mut items) = (Hash::default(), pack.iter());
    while let Some(field) = items.next() {
        let ttl = match (items.next(), items.next()) {
            (Some(value), Some(Item::Int(at @ 0..))) => {
                Some((value, if at == 0 { FieldTtl::Clear } else { FieldTtl::At(at as u64) }))
            }
            _ => None,
        };
        let added = ttl.is_some_and(|(value, ttl)| {
            let (mut a, mut b) = (itoa::Buffer::new(), itoa::Buffer::new());
            hash.set(field.bytes(&mut a), value.bytes(&mut b), ttl, 0, limits.hash()) == Written::Added
        });
        if !added {
            return source.corrupt("Hash listpack integrity check failed");
        }
    }
    Ok(Object::Hash(hash))
}

/// Reads a module's value, whose type was installed.
fn typed(source: &mut Source<'_>) -> Result<Object> {
    let id = source.length()?;
    let Some((_, module)) = value_type::of_module(id) else { return Err(foreign(source, id)) };
    let mut reader = ModuleReader::new(source, id);
    let value = (module.read)(&mut reader)?;
    reader.end()?;
    if value.is_empty() { Err(source.fault(Reason::Empty)) } else { Ok(Object::Other(value)) }
}

/// Refuses a module's value, which cannot be stored; the error names the module.
fn foreign(source: &Source<'_>, id: u64) -> Fault {
    let name = module_value::name(id);
    let text = format!("The RDB file contains module data I can't load: no matching module type '{name}'");
    source.fault(Reason::Corrupt(text.into()))
}
