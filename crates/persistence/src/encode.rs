//! Writing values: a byte for the type, then that type's content.
//!
//! Packed collections go to disk as they lie in memory; a packed sorted set, whose memory has another form, as the
//! listpack that it would be. All functions append to a vector, so they cannot fail.

use crate::format::{Family, VERSION_COMMON, VERSION_OLDER, VERSION_REDIS, VERSION_VALKEY, kind, node};
use engine::data::typed_value::{Place, TypedValue};
use engine::data::value::{Object, Str, Value};
use rdb::module_value::ModuleWriter;
use rdb::write::put_compressed;
pub use rdb::write::{put_length, put_string};
use resp::format_by_digits;
use structures::hash::Hash;
use structures::list::List;
use structures::listpack::{Builder, Item, Listpack};
use structures::quicklist::NodeView;
use structures::set::Set;
use structures::sorted_set::SortedSet;

/// The form of values where there is a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Long strings are compressed (`rdbcompression`).
    pub compress: bool,
    /// The family whose form hashes with fields that have expiries are written in (`rdb-version-compat`). With
    /// [`Family::Common`] fields have no expiries, and the rest is as Redis 7.0 reads it, too.
    pub family: Family,
}

impl Style {
    /// Returns the version that states the needs of such a value.
    pub fn version(&self, value: &Value<'_>) -> u16 {
        if has_field_expiries(value) { self.newest_version() } else { VERSION_COMMON }
    }

    pub(crate) fn is_oldest(&self) -> bool {
        self.family == Family::Common
    }

    pub(crate) fn stream_kind(&self) -> u8 {
        if self.is_oldest() { kind::STREAM_LISTPACKS_2 } else { kind::STREAM_LISTPACKS_3 }
    }

    /// Returns the version for files without such hashes.
    pub fn common_version(&self) -> u16 {
        if self.is_oldest() { VERSION_OLDER } else { VERSION_COMMON }
    }

    /// Returns the version for files that have hashes with expiries in them.
    pub fn newest_version(&self) -> u16 {
        if self.family == Family::Redis { VERSION_REDIS } else { VERSION_VALKEY }
    }
}

fn has_field_expiries(value: &Value<'_>) -> bool {
    matches!(value, Value::Payload(Object::Hash(hash)) if hash.view().volatile_len() > 0)
}

/// Appends the type of a value.
pub fn put_kind(out: &mut Vec<u8>, value: &Value<'_>, style: &Style) {
    out.push(kind_of(value, style));
}

pub(crate) fn kind_of(value: &Value<'_>, style: &Style) -> u8 {
    let object = match value {
        Value::Payload(object) => object,
        Value::Packed(_) => return kind::HASH_LISTPACK,
        Value::Int(_) | Value::Inline(_) => return kind::STRING,
    };
    match object {
        Object::String(_) => kind::STRING,
        Object::List(_) => kind::LIST_QUICKLIST_2,
        Object::Set(Set::Ints(_)) => kind::SET_INTSET,
        Object::Set(Set::Small(_)) if style.is_oldest() => kind::SET,
        Object::Set(Set::Small(_)) => kind::SET_LISTPACK,
        Object::Set(Set::Big(_)) => kind::SET,
        Object::Hash(hash) if hash.view().volatile_len() > 0 => match style.family {
            Family::Redis => kind::REDIS_HASH_METADATA,
            _ => kind::VALKEY_HASH_2,
        },
        Object::Hash(hash) if hash.as_listpack().is_some() => kind::HASH_LISTPACK,
        Object::Hash(_) => kind::HASH,
        Object::SortedSet(set) if set.encoding() == "listpack" => kind::ZSET_LISTPACK,
        Object::SortedSet(_) => kind::ZSET_2,
        Object::Stream(_) => style.stream_kind(),
        Object::Other(_) => kind::MODULE_2,
    }
}

/// Appends a value without its type.
pub fn put_value(out: &mut Vec<u8>, value: &Value<'_>, style: &Style) {
    match value {
        Value::Int(n) => put_string(out, Str::Int(*n).bytes(&mut itoa::Buffer::new()), style.compress),
        Value::Inline(bytes) => put_string(out, bytes, style.compress),
        Value::Packed(body) => put_string(out, Listpack::from_body(body).as_bytes(), style.compress),
        Value::Payload(object) => put_object(out, object, style),
    }
}

fn put_object(out: &mut Vec<u8>, object: &Object, style: &Style) {
    match object {
        Object::String(bytes) => put_string(out, bytes, style.compress),
        Object::List(list) => put_list(out, list, style),
        Object::Set(Set::Ints(ints)) => put_string(out, ints.as_bytes(), style.compress),
        Object::Set(set @ Set::Small(_)) if style.is_oldest() => put_members(out, set, style),
        Object::Set(Set::Small(pack)) => put_string(out, pack.as_bytes(), style.compress),
        Object::Set(set @ Set::Big(_)) => put_members(out, set, style),
        Object::Hash(hash) => put_hash(out, hash, style),
        Object::SortedSet(set) => put_sorted_set(out, set, style),
        Object::Stream(stream) => crate::stream::put(out, stream, style),
        Object::Other(value) => put_typed(out, &**value, style),
    }
}

fn put_typed(out: &mut Vec<u8>, value: &dyn TypedValue, style: &Style) {
    put_module_id(out, value);
    let mut from = Some(Place::START);
    while let Some(place) = from {
        from = value.write(&mut ModuleWriter::new(out, style.compress), place, usize::MAX);
    }
    ModuleWriter::new(out, style.compress).end();
}

/// Appends the id of the value's type.
pub(crate) fn put_module_id(out: &mut Vec<u8>, value: &dyn TypedValue) {
    put_length(out, value.value_type().module.as_ref().map_or(0, |module| module.id));
}

/// Appends the members of any set one by one.
pub(crate) fn put_members(out: &mut Vec<u8>, set: &Set, style: &Style) {
    put_length(out, set.len() as u64);
    set.iter().for_each(|member| put_item(out, member, style));
}

fn put_list(out: &mut Vec<u8>, list: &List, style: &Style) {
    match list {
        List::Small(pack) => {
            put_length(out, 1);
            put_node(out, NodeView { is_plain: false, bytes: pack.as_bytes(), compressed_from: None }, style);
        }
        List::Quick(quicklist) => {
            let nodes = quicklist.nodes();
            put_length(out, nodes.len() as u64);
            nodes.for_each(|node| put_node(out, node, style));
        }
    }
}

pub(crate) fn put_node(out: &mut Vec<u8>, node: NodeView<'_>, style: &Style) {
    put_length(out, if node.is_plain { node::PLAIN } else { node::PACKED });
    match node.compressed_from {
        Some(len) => put_compressed(out, node.bytes, len),
        None => put_string(out, node.bytes, style.compress),
    }
}

fn put_hash(out: &mut Vec<u8>, hash: &Hash, style: &Style) {
    if let Some(pack) = hash.as_listpack() {
        return put_string(out, pack.as_bytes(), style.compress);
    }
    let hash = hash.view();
    let timed = hash.volatile_len() > 0;
    // Redis counts expiries from this one; 0 stands for none, so the first is 1.
    let first = hash.next_expiry().unwrap_or(0);
    if timed && style.family == Family::Redis {
        out.extend_from_slice(&first.to_le_bytes());
    }
    put_length(out, hash.len() as u64);
    hash.visit_all(|field, value, expiry| {
        put_expiry_before(out, expiry, timed, first, style);
        put_item(out, field, style);
        put_item(out, value, style);
        put_expiry_after(out, expiry, timed, style);
    });
}

/// Puts a field's expiry, where it comes before the field. `timed`: fields of this hash have expiries, the earliest
/// `first`.
pub(crate) fn put_expiry_before(out: &mut Vec<u8>, expiry: Option<u64>, timed: bool, first: u64, style: &Style) {
    if timed && style.family == Family::Redis {
        put_length(out, expiry.map_or(0, |at| at - first + 1));
    }
}

/// Puts a field's expiry, where it comes after the value.
pub(crate) fn put_expiry_after(out: &mut Vec<u8>, expiry: Option<u64>, timed: bool, style: &Style) {
    if timed && style.family != Family::Redis {
        out.extend_from_slice(&expiry.map_or(-1, |at| at as i64).to_le_bytes());
    }
}

fn put_sorted_set(out: &mut Vec<u8>, set: &SortedSet, style: &Style) {
    if set.encoding() == "listpack" {
        let mut pack = Builder::with_room(set.len() * PAIR_BYTES);
        let mut digits = Vec::new();
        for (member, score) in set {
            pack.push(Item::of(member));
            match whole(score) {
                Some(n) => pack.push(Item::Int(n)),
                None if put_fraction(score, &mut digits) => pack.push(Item::Bytes(&digits)),
                None => pack.push(Item::of(&format_by_digits(score))),
            }
        }
        return put_string(out, &pack.finish(), style.compress);
    }
    put_length(out, set.len() as u64);
    // The order is from the highest down: a reader with a linked structure then always inserts at its head.
    set.iter().rev().for_each(|(member, score)| put_scored(out, member, score, style));
}

pub(crate) fn put_scored(out: &mut Vec<u8>, member: &[u8], score: f64, style: &Style) {
    put_string(out, member, style.compress);
    out.extend_from_slice(&score.to_le_bytes());
}

/// Bytes of a short member with its score.
const PAIR_BYTES: usize = 32;

/// Replaces `digits` by those of a score with one to three of them behind the point; false if it has others.
fn put_fraction(score: f64, digits: &mut Vec<u8>) -> bool {
    const LARGEST: f64 = 1e12;
    let scales = [(10.0, 1), (100.0, 2), (1000.0, 3)];
    let scaled = |scale: f64| (score * scale + 0.5f64.copysign(score)) as i64;
    let Some((scale, places)) = scales.into_iter().find(|(scale, _)| scaled(*scale) as f64 / scale == score) else {
        return false;
    };
    if score.abs() > LARGEST {
        return false;
    }
    digits.clear();
    if score < 0.0 {
        digits.push(b'-');
    }
    let mut buffer = itoa::Buffer::new();
    let all = buffer.format(scaled(scale).unsigned_abs()).as_bytes();
    let before = all.len().saturating_sub(places);
    digits.extend_from_slice(if before == 0 { b"0" } else { &all[..before] });
    digits.push(b'.');
    digits.extend(std::iter::repeat_n(b'0', places.saturating_sub(all.len())));
    digits.extend_from_slice(&all[before..]);
    true
}

/// Returns the score, if it is an integer that doubles distinguish from its neighbours.
fn whole(score: f64) -> Option<i64> {
    const EXACT: f64 = (1u64 << 52) as f64;
    (score.abs() <= EXACT && score.trunc() == score && !(score == 0.0 && score.is_sign_negative()))
        .then_some(score as i64)
}

pub(crate) fn put_item(out: &mut Vec<u8>, item: Item<'_>, style: &Style) {
    put_string(out, item.bytes(&mut itoa::Buffer::new()), style.compress);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fractions_read_back(n in -20_000_000i64..20_000_000, places in 0..6) {
            let score = n as f64 / 10f64.powi(places);
            prop_assume!(score.fract() != 0.0);
            let mut digits = b"other".to_vec();
            if put_fraction(score, &mut digits) {
                let text = String::from_utf8(digits).unwrap();
                prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), score.to_bits());
            } else {
                prop_assert!(places > 3);
            }
        }
    }
}
