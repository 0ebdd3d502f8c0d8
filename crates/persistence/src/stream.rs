//! Streams: their nodes as they lie in memory, then counters, then groups with their consumers.
//!
//! ```text
//!  nodes      | count | id, 16 bytes big-endian, as a string | listpack as a string | ...
//!  counters   | entries | last id | first id | greatest deleted id | entries ever added |
//!  groups     | count | name | last id | entries read | pending | consumers | ...
//!  pending    | count | id, 16 bytes | delivered at, 8 bytes | deliveries | ...
//!  consumers  | count | name | seen at, 8 bytes | active at, 8 bytes | count | id, 16 bytes | ...
//! ```
//!
//! The first id and what comes after it are there from the second version of the type on, the time of activity from the third.
//! What is read is added entry by entry, so that a stream is sound whatever its bytes were; entries that were marked as
//! deleted are left out.

use crate::encode::{Style, put_length, put_string};
use crate::format::kind;
use crate::source::{Result, Source};
use structures::listpack::{Item, Listpack};
use structures::stream::{Group, Id, Limits, MAX_BYTES, Pending, Stream};

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

pub fn put(out: &mut Vec<u8>, stream: &Stream, style: &Style) {
    let nodes = stream.nodes();
    put_length(out, nodes.len() as u64);
    for (id, pack) in nodes {
        put_node(out, id, pack, style);
    }
    put_after_nodes(out, stream, style);
}

pub fn put_node(out: &mut Vec<u8>, id: Id, pack: &Listpack, style: &Style) {
    put_string(out, &raw(id), false);
    put_string(out, pack.as_bytes(), style.compress);
}

/// What follows the nodes.
pub fn put_after_nodes(out: &mut Vec<u8>, stream: &Stream, style: &Style) {
    put_length(out, stream.len());
    put_id(out, stream.last_id);
    put_id(out, stream.first_id().unwrap_or(Id::MIN));
    put_id(out, stream.max_deleted_id);
    put_length(out, stream.entries_added);
    let groups = stream.groups();
    put_length(out, groups.len() as u64);
    for (name, group) in groups {
        put_string(out, name, style.compress);
        put_id(out, group.last_id);
        put_length(out, group.entries_read.unwrap_or(u64::MAX));
        put_group(out, group, style);
    }
}

fn put_group(out: &mut Vec<u8>, group: &Group, style: &Style) {
    // What was given back to nobody has no place in the format: readers look for the consumer of each entry.
    let pending = || group.pending_range(Id::MIN, Id::MAX).filter(|(_, pending)| pending.consumer.is_some());
    put_length(out, pending().count() as u64);
    for (id, pending) in pending() {
        out.extend_from_slice(&raw(id));
        out.extend_from_slice(&pending.delivered_at.to_le_bytes());
        put_length(out, pending.deliveries);
    }
    let consumers = group.consumers();
    put_length(out, consumers.len() as u64);
    for (consumer, _) in consumers {
        put_string(out, &consumer.name, style.compress);
        out.extend_from_slice(&consumer.seen_at.to_le_bytes());
        out.extend_from_slice(&consumer.active_at.unwrap_or(-1).to_le_bytes());
        put_length(out, consumer.pending_len() as u64);
        consumer.pending_from(Id::MIN).for_each(|id| out.extend_from_slice(&raw(id)));
    }
}

fn raw(id: Id) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}

fn put_id(out: &mut Vec<u8>, id: Id) {
    put_length(out, id.ms);
    put_length(out, id.seq);
}

/// Reads a stream of one of the three types.
pub fn read(source: &mut Source<'_>, kind: u8, limits: Limits) -> Result<Stream> {
    let mut stream = Stream::default();
    for _ in 0..source.length()? {
        read_node(source, &mut stream, limits)?;
    }
    let len = source.length()?;
    let last_id = read_id(source)?;
    if stream.len() != len {
        return source.corrupt("Stream length inconsistent with its entries");
    }
    if stream.last_id > last_id {
        return source.corrupt("Stream last id is below that of an entry");
    }
    stream.last_id = last_id;
    if kind != kind::STREAM_LISTPACKS {
        read_id(source)?;
        stream.max_deleted_id = read_id(source)?;
        stream.entries_added = source.length()?;
    }
    for _ in 0..source.length()? {
        let name = source.string()?;
        let mut group = read_group(source, kind)?;
        if kind == kind::STREAM_LISTPACKS {
            group.entries_read = stream.entries_up_to(group.last_id);
        }
        if !stream.add_group(&name, group) {
            return source.corrupt("Duplicated consumer group name");
        }
    }
    Ok(stream)
}

fn read_node(source: &mut Source<'_>, stream: &mut Stream, limits: Limits) -> Result<()> {
    let base = source.string()?;
    let Ok(base) = <[u8; 16]>::try_from(base) else {
        return source.corrupt("Stream node key entry is not the size of a stream ID");
    };
    let bytes = source.string()?;
    let Ok(pack) = Listpack::from_bytes(&bytes) else {
        return source.corrupt("Stream listpack integrity check failed");
    };
    match add_entries(stream, from_raw(base), &pack, limits) {
        Some(()) => Ok(()),
        None => source.corrupt("Stream listpack integrity check failed"),
    }
}

/// Adds what a node holds; None if it is corrupt.
fn add_entries(stream: &mut Stream, base: Id, pack: &Listpack, limits: Limits) -> Option<()> {
    let mut items = pack.iter();
    let mut number = || match items.next()? {
        Item::Int(n) => Some(n),
        Item::Bytes(_) => None,
    };
    let (live, deleted) = (u64::try_from(number()?).ok()?, u64::try_from(number()?).ok()?);
    let width = usize::try_from(number()?).ok().filter(|width| *width <= pack.len())?;
    let names: Vec<Vec<u8>> = items.by_ref().take(width).map(Item::to_vec).collect();
    (names.len() == width && items.next() == Some(Item::Int(0))).then_some(())?;
    let (mut seen_live, mut seen_deleted) = (0, 0);
    while let Some(flags) = items.next() {
        let mut number = || match items.next()? {
            Item::Int(n) => Some(n),
            Item::Bytes(_) => None,
        };
        let Item::Int(flags) = flags else { return None };
        let (ms, seq) = (number()?, number()?);
        let id = Id::new(base.ms.wrapping_add(ms as u64), base.seq.wrapping_add(seq as u64));
        let same = flags & SAME_FIELDS != 0;
        let fields = if same { width } else { usize::try_from(number()?).ok().filter(|n| *n <= pack.len())? };
        let mut pairs = Vec::with_capacity(fields);
        let mut known = names.iter();
        for _ in 0..fields {
            let name = if same { known.next()?.clone() } else { items.next()?.to_vec() };
            pairs.push((name, items.next()?.to_vec()));
        }
        let elements = if same { fields + 3 } else { 2 * fields + 4 };
        (items.next() == Some(Item::Int(elements as i64))).then_some(())?;
        if flags & DELETED != 0 {
            seen_deleted += 1;
            continue;
        }
        let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
        (id > stream.last_id && bytes <= MAX_BYTES).then_some(())?;
        stream.append(id, pairs.iter().map(|(name, value)| (&name[..], &value[..])), limits);
        seen_live += 1;
    }
    (live == seen_live && deleted == seen_deleted && live > 0).then_some(())
}

fn read_group(source: &mut Source<'_>, kind: u8) -> Result<Group> {
    let last_id = read_id(source)?;
    let entries_read = match kind {
        kind::STREAM_LISTPACKS => None,
        _ => Some(source.length()?).filter(|count| i64::try_from(*count).is_ok()),
    };
    let mut group = Group::new(last_id, entries_read);
    for _ in 0..source.length()? {
        let id = from_raw(source.array()?);
        let (delivered_at, deliveries) = (source.milliseconds()?, source.length()?);
        if group.pending(id).is_some() {
            return source.corrupt("Duplicated global PEL entry loading stream consumer group");
        }
        group.assign(id, Pending { delivered_at, deliveries, consumer: None });
    }
    for _ in 0..source.length()? {
        read_consumer(source, kind, &mut group)?;
    }
    if group.pending_range(Id::MIN, Id::MAX).any(|(_, pending)| pending.consumer.is_none()) {
        return source.corrupt("NACK without consumer in a stream consumer group");
    }
    Ok(group)
}

fn read_consumer(source: &mut Source<'_>, kind: u8, group: &mut Group) -> Result<()> {
    let name = source.string()?;
    let seen_at = source.milliseconds()?;
    // Whoever was seen was taken to have been active before activity had a time of its own.
    let active_at = if kind == kind::STREAM_LISTPACKS_3 { source.milliseconds()? } else { seen_at };
    let (at, is_new) = group.find_or_add(&name, seen_at);
    if !is_new {
        return source.corrupt("Duplicate stream consumer detected");
    }
    if let Some(consumer) = group.consumer_mut(at) {
        consumer.active_at = Some(active_at).filter(|at| *at >= 0);
    }
    for _ in 0..source.length()? {
        let id = from_raw(source.array()?);
        let Some(pending) = group.pending(id).copied() else {
            return source.corrupt("Consumer entry not found in group global PEL");
        };
        if pending.consumer.is_some() {
            return source.corrupt("Duplicated consumer PEL entry loading a stream consumer group");
        }
        group.assign(id, Pending { consumer: Some(at), ..pending });
    }
    Ok(())
}

fn from_raw(bytes: [u8; 16]) -> Id {
    let id = u128::from_be_bytes(bytes);
    Id::new((id >> 64) as u64, id as u64)
}

fn read_id(source: &mut Source<'_>) -> Result<Id> {
    Ok(Id::new(source.length()?, source.length()?))
}
