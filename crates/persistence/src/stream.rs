//! Streams: their nodes, then counters, then groups with their consumers.
//!
//! ```text
//!  nodes      | count | id, 16 bytes big-endian, as a string | listpack as a string | ...
//!  counters   | entries | last id | first id | greatest deleted id | entries ever added |
//!  groups     | count | name | last id | entries read | pending | consumers | ...
//!  pending    | count | id, 16 bytes | delivered at, 8 bytes | deliveries | ...
//!  consumers  | count | name | seen at, 8 bytes | active at, 8 bytes | count | id, 16 bytes | ...
//! ```
//!
//! The first id and the counters after it are there from the second version of the type on, the time of activity from
//! the third. Redis 8.6 has two more versions, for records of idempotent producers and for entries that were given back
//! and have no consumer:
//!
//! ```text
//!  groups     | ... consumers | count | id of an entry given back, 16 bytes | ...          fifth version
//! producers  | seconds | messages of each | count | name | count | message, entry | ... | messages added | duplicates
//! |
//! ```
//!
//! DUMP writes these where a stream needs them. Other servers are to read a file, so streams in it are of the third
//! version, in which entries given back belong to a consumer without a name, which was never seen. The parts without a
//! place stand before the key in a field ([`STATE`]) that others skip:
//!
//! ```text
//!  | groups with entries given back | name | count | id, 16 bytes | delivered at, 8 bytes | deliveries | ...
//!  | 0, or 1 and producers as above, each entry followed by when its message came, 8 bytes |
//! ```
//!
//! A stream is rebuilt entry by entry, so that it is sound for all bytes; entries that were marked as deleted are left
//! out.

use crate::encode::{Style, put_length, put_string};
use crate::format::kind;
use crate::rdb_reader::{Result, Source};
use std::collections::BTreeSet;
use structures::listpack::{Item, Listpack};
use structures::stream::{
    Consumer, ConsumerGroup, Id, Idempotency, Limits, MAX_BYTES, Node, Pending, ProducerMemory, Stream,
};

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// Appends a stream in the form of the versions that both families read.
pub fn put(out: &mut Vec<u8>, stream: &Stream, style: &Style) {
    put_whole(out, stream, style, style.stream_kind());
}

/// Appends a node: its master's id and its listpack.
pub fn put_node(out: &mut Vec<u8>, id: Id, node: &Node, style: &Style) {
    put_string(out, &raw(id), false);
    put_string(out, &node.listpack(), style.compress);
}

/// The name of the field that comes before a stream with the state that its type has no place for.
pub const STATE: &[u8] = b"cinnabar-stream";

/// Returns the type that has a place for everything in this stream.
pub fn whole_kind(stream: &Stream) -> u8 {
    match stream.groups().any(|(_, group)| given_back(group).next().is_some()) {
        true => kind::REDIS_STREAM_LISTPACKS_5,
        false if stream.idempotency().is_some() => kind::REDIS_STREAM_LISTPACKS_4,
        false => kind::STREAM_LISTPACKS_3,
    }
}

/// Appends a stream as one of the types from the third version on.
pub fn put_whole(out: &mut Vec<u8>, stream: &Stream, style: &Style, kind: u8) {
    let nodes = stream.nodes();
    put_length(out, nodes.len() as u64);
    nodes.for_each(|(id, node)| put_node(out, id, node, style));
    put_rest(out, stream, style, kind);
    if kind >= kind::REDIS_STREAM_LISTPACKS_4 {
        put_idempotency(out, stream.idempotency().unwrap_or(&Idempotency::default()), false);
    }
}

/// Returns the field with the state that the third version of the type has no place for, if there is any.
pub fn state(stream: &Stream) -> Option<Vec<u8>> {
    if whole_kind(stream) == kind::STREAM_LISTPACKS_3 {
        return None;
    }
    let mut out = Vec::new();
    let groups = || stream.groups().filter(|(_, group)| given_back(group).next().is_some());
    put_length(&mut out, groups().count() as u64);
    for (name, group) in groups() {
        put_string(&mut out, name, false);
        put_length(&mut out, given_back(group).count() as u64);
        given_back(group).for_each(|(id, pending)| put_pending(&mut out, id, pending));
    }
    put_length(&mut out, stream.idempotency().is_some().into());
    if let Some(idempotency) = stream.idempotency() {
        put_idempotency(&mut out, idempotency, true);
    }
    Some(out)
}

/// Restores a stream's state from its field.
pub fn restore_state(stream: &mut Stream, field: &[u8]) -> Result<()> {
    let source = &mut Source::of(field);
    for _ in 0..source.length()? {
        let name = source.string()?;
        let Some(group) = stream.group_mut(&name) else { return source.corrupt("Group of entries given back") };
        for _ in 0..source.length()? {
            let (id, pending) = read_pending(source)?;
            let holder = group.pending(id).and_then(|pending| group.consumer(pending.consumer?));
            if holder.is_some_and(|consumer| !consumer.name.is_empty()) {
                return source.corrupt("Entry given back that a consumer has");
            }
            group.assign(id, pending);
        }
        // The consumer without a name was made for readers that look for one.
        let nameless = group.find(b"").and_then(|at| group.consumer(at));
        if nameless.is_some_and(|consumer| consumer.seen_at == 0 && consumer.pending_len() == 0) {
            group.remove(b"");
        }
    }
    if source.length()? > 0 {
        *stream.idempotency_mut() = read_idempotency(source, true)?;
    }
    Ok(())
}

/// Returns the pending entries without a consumer.
fn given_back(group: &ConsumerGroup) -> impl Iterator<Item = (Id, &Pending)> {
    group.pending_range(Id::MIN, Id::MAX).filter(|(_, pending)| pending.consumer.is_none())
}

fn put_idempotency(out: &mut Vec<u8>, idempotency: &Idempotency, with_times: bool) {
    put_length(out, idempotency.memory().seconds.into());
    put_length(out, idempotency.memory().max_messages.into());
    let producers = idempotency.producers();
    put_length(out, producers.len() as u64);
    for (name, count, messages) in producers {
        put_string(out, name, false);
        put_length(out, count as u64);
        for (message, at, entry) in messages {
            put_string(out, message, false);
            put_id(out, entry);
            if with_times {
                out.extend_from_slice(&at.to_le_bytes());
            }
        }
    }
    put_length(out, idempotency.added);
    put_length(out, idempotency.duplicates);
}

/// Reads the producers' messages. Without stated times a message is as old as its entry's id.
fn read_idempotency(source: &mut Source<'_>, with_times: bool) -> Result<Idempotency> {
    let mut idempotency = Idempotency::default();
    let mut number = || Ok(u32::try_from(source.length()?).unwrap_or(u32::MAX).max(1));
    let memory = ProducerMemory { seconds: number()?, max_messages: number()? };
    idempotency.set_memory(memory);
    for _ in 0..source.length()? {
        let name = source.string()?;
        for _ in 0..source.length()? {
            let (message, entry) = (source.string()?, read_id(source)?);
            let told = if with_times { Some(source.milliseconds()?) } else { None };
            let at = told.unwrap_or(i64::try_from(entry.ms).unwrap_or(i64::MAX));
            if !idempotency.recall(&name, message.into(), entry, at) {
                return source.corrupt("Duplicated message of a stream's producer");
            }
        }
    }
    (idempotency.added, idempotency.duplicates) = (source.length()?, source.length()?);
    Ok(idempotency)
}

/// Puts the parts behind the nodes, in the form of the third version of the type.
pub fn put_after_nodes(out: &mut Vec<u8>, stream: &Stream, style: &Style) {
    put_rest(out, stream, style, style.stream_kind());
}

fn put_rest(out: &mut Vec<u8>, stream: &Stream, style: &Style, kind: u8) {
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
        put_group(out, group, style, kind);
    }
}

fn put_pending(out: &mut Vec<u8>, id: Id, pending: &Pending) {
    out.extend_from_slice(&raw(id));
    out.extend_from_slice(&pending.delivered_at.to_le_bytes());
    put_length(out, pending.deliveries);
}

fn put_group(out: &mut Vec<u8>, group: &ConsumerGroup, style: &Style, kind: u8) {
    let with_given_back = kind >= kind::REDIS_STREAM_LISTPACKS_5;
    put_length(out, group.pending_len() as u64);
    group.pending_range(Id::MIN, Id::MAX).for_each(|(id, pending)| put_pending(out, id, pending));
    // Readers of older types look for the consumer of each entry.
    let nobodys: Vec<Id> = if with_given_back { Vec::new() } else { given_back(group).map(|(id, _)| id).collect() };
    let nameless = Consumer::default();
    let added = Some(&nameless).filter(|_| !nobodys.is_empty() && group.find(b"").is_none());
    let consumers = group.consumers().map(|(consumer, _)| consumer).chain(added);
    put_length(out, (group.consumers_len() + usize::from(added.is_some())) as u64);
    for consumer in consumers {
        put_string(out, &consumer.name, style.compress);
        out.extend_from_slice(&consumer.seen_at.to_le_bytes());
        if kind >= kind::STREAM_LISTPACKS_3 {
            out.extend_from_slice(&consumer.active_at.unwrap_or(-1).to_le_bytes());
        }
        let theirs = if consumer.name.is_empty() { &nobodys[..] } else { &[] };
        put_length(out, (consumer.pending_len() + theirs.len()) as u64);
        consumer.pending_from(Id::MIN).chain(theirs.iter().copied()).for_each(|id| out.extend_from_slice(&raw(id)));
    }
    if with_given_back {
        put_length(out, given_back(group).count() as u64);
        given_back(group).for_each(|(id, _)| out.extend_from_slice(&raw(id)));
    }
}

fn raw(id: Id) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}

fn put_id(out: &mut Vec<u8>, id: Id) {
    put_length(out, id.ms);
    put_length(out, id.seq);
}

/// Reads a stream of one of the five types.
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
    if kind >= kind::REDIS_STREAM_LISTPACKS_4 {
        let idempotency = read_idempotency(source, false)?;
        // The fifth version has this part in any case.
        if !idempotency.is_untouched() {
            *stream.idempotency_mut() = idempotency;
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

/// Adds the entries of a node; None if it is corrupt.
fn add_entries(stream: &mut Stream, base: Id, pack: &Listpack, limits: Limits) -> Option<()> {
    let mut items = pack.iter();
    let mut number = || match items.next()? {
        Item::Int(n) => Some(n),
        Item::Bytes(_) => None,
    };
    let (live, deleted) = (u64::try_from(number()?).ok()?, u64::try_from(number()?).ok()?);
    let width = usize::try_from(number()?).ok().filter(|width| *width <= pack.len())?;
    let names: Vec<Item<'_>> = items.by_ref().take(width).map(canonical).collect();
    (names.len() == width && items.next() == Some(Item::Int(0))).then_some(())?;
    let (mut seen_live, mut seen_deleted, mut pairs) = (0, 0, Vec::new());
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
        let mut known = names.iter();
        pairs.clear();
        for _ in 0..fields {
            let name = if same { *known.next()? } else { canonical(items.next()?) };
            pairs.push((name, canonical(items.next()?)));
        }
        let elements = if same { fields + 3 } else { 2 * fields + 4 };
        (items.next() == Some(Item::Int(elements as i64))).then_some(())?;
        if flags & DELETED != 0 {
            seen_deleted += 1;
            continue;
        }
        let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
        (id > stream.last_id && bytes <= MAX_BYTES).then_some(())?;
        stream.append(id, pairs.iter().copied(), limits);
        seen_live += 1;
    }
    (live == seen_live && deleted == seen_deleted && live > 0).then_some(())
}

/// Returns an element in the form of this server: a file may hold digits as a string.
fn canonical(item: Item<'_>) -> Item<'_> {
    if let Item::Bytes(bytes) = item { Item::of(bytes) } else { item }
}

fn read_group(source: &mut Source<'_>, kind: u8) -> Result<ConsumerGroup> {
    let last_id = read_id(source)?;
    let entries_read = match kind {
        kind::STREAM_LISTPACKS => None,
        _ => Some(source.length()?).filter(|count| i64::try_from(*count).is_ok()),
    };
    let mut group = ConsumerGroup::new(last_id, entries_read);
    for _ in 0..source.length()? {
        let (id, pending) = read_pending(source)?;
        if group.pending(id).is_some() {
            return source.corrupt("Duplicated global PEL entry loading stream consumer group");
        }
        group.assign(id, pending);
    }
    for _ in 0..source.length()? {
        read_consumer(source, kind, &mut group)?;
    }
    let mut expected = BTreeSet::new();
    if kind >= kind::REDIS_STREAM_LISTPACKS_5 {
        for _ in 0..source.length()? {
            expected.insert(from_raw(source.array()?));
        }
    }
    if !given_back(&group).map(|(id, _)| id).eq(expected) {
        return source.corrupt("NACK without consumer in a stream consumer group");
    }
    Ok(group)
}

/// Reads a pending entry, without a consumer as yet.
fn read_pending(source: &mut Source<'_>) -> Result<(Id, Pending)> {
    let id = from_raw(source.array()?);
    Ok((id, Pending { delivered_at: source.milliseconds()?, deliveries: source.length()?, consumer: None }))
}

fn read_consumer(source: &mut Source<'_>, kind: u8, group: &mut ConsumerGroup) -> Result<()> {
    let name = source.string()?;
    let seen_at = source.milliseconds()?;
    // Before activity had a time of its own, a consumer that was seen counted as active.
    let active_at = if kind >= kind::STREAM_LISTPACKS_3 { source.milliseconds()? } else { seen_at };
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { bytes: 4096, entries: 100 };

    /// Returns three entries of which a group received two: a consumer has one, the other was given back. A producer is
    /// known.
    fn stream() -> Stream {
        let mut stream = Stream::default();
        for n in 1..=3 {
            stream.append(Id::new(n, 0), [(&b"field"[..], &b"value"[..])].into_iter(), LIMITS);
        }
        let mut group = ConsumerGroup::new(Id::new(2, 0), Some(2));
        let (consumer, _) = group.find_or_add(b"consumer", 5);
        group.assign(Id::new(1, 0), Pending { delivered_at: 5, deliveries: 1, consumer: Some(consumer) });
        group.assign(Id::new(2, 0), Pending { delivered_at: 0, deliveries: 4, consumer: None });
        stream.add_group(b"group", group);
        let idempotency = stream.idempotency_mut();
        idempotency.set_memory(ProducerMemory { seconds: 9, max_messages: 7 });
        idempotency.remember(b"producer", b"message".as_slice().into(), Id::new(3, 0), 8);
        idempotency.duplicates = 2;
        stream
    }

    fn told(stream: &Stream) -> String {
        let idempotency = stream.idempotency().map(|idempotency| {
            let producers = idempotency.producers();
            let told: Vec<_> =
                producers.map(|(name, count, messages)| (name.to_vec(), count, messages.count())).collect();
            (told, idempotency.memory(), idempotency.added, idempotency.duplicates)
        });
        let groups: Vec<_> = stream
            .groups()
            .map(|(_, group)| {
                let pending = group.pending_range(Id::MIN, Id::MAX);
                let told: Vec<_> =
                    pending.map(|(id, p)| (id, p.delivered_at, p.deliveries, p.consumer.is_some())).collect();
                (group.last_id, group.entries_read, told)
            })
            .collect();
        format!("{} {:?} {idempotency:?} {groups:?}", stream.len(), stream.last_id)
    }

    fn read_again(stream: &Stream, kind: u8) -> Stream {
        let mut out = Vec::new();
        put_whole(&mut out, stream, &Style { compress: false, family: crate::format::Family::Redis }, kind);
        let mut bytes = &out[..];
        read(&mut Source::new(&mut bytes, false), kind, LIMITS).expect("what was written")
    }

    #[test]
    fn messages_of_producers_and_returned_entries_are_in_the_newer_types() {
        let mut stream = stream();
        assert_eq!(whole_kind(&stream), kind::REDIS_STREAM_LISTPACKS_5);
        let again = read_again(&stream, kind::REDIS_STREAM_LISTPACKS_5);
        assert_eq!(told(&again), told(&stream));
        stream.group_mut(b"group").unwrap().acknowledge(Id::new(2, 0));
        assert_eq!(whole_kind(&stream), kind::REDIS_STREAM_LISTPACKS_4);
        assert_eq!(told(&read_again(&stream, kind::REDIS_STREAM_LISTPACKS_4)), told(&stream));
    }

    #[test]
    fn state_that_the_older_type_lacks_goes_beside_it() {
        let stream = stream();
        let field = state(&stream).expect("more than the type says");
        let mut again = read_again(&stream, kind::STREAM_LISTPACKS_3);
        assert_ne!(told(&again), told(&stream));
        restore_state(&mut again, &field).expect("what was written");
        assert_eq!(told(&again), told(&stream));
        let message = b"message".as_slice().into();
        assert_eq!(again.idempotency_mut().find(b"producer", &message, 9_007), Some(Id::new(3, 0)));
        assert_eq!(again.idempotency_mut().find(b"producer", &message, 9_008), None);
        restore_state(&mut again, &field).expect("what is given back already");
        assert_eq!(told(&again), told(&stream));
        let group = again.group_mut(b"group").unwrap();
        let (consumer, _) = group.find_or_add(b"consumer", 5);
        group.assign(Id::new(2, 0), Pending { delivered_at: 5, deliveries: 1, consumer: Some(consumer) });
        assert!(restore_state(&mut again, &field).is_err(), "an entry that a consumer has");
        (0..field.len()).for_each(|end| assert!(restore_state(&mut read_again(&stream, 21), &field[..end]).is_err()));
        assert!(state(&Stream::default()).is_none());
    }
}
