//! Large values, written a piece at a time, so that no client waits for the whole.
//!
//! While a value stays as it is from its first piece to its last, a number says how far it is written. A value that is
//! about to change is [followed](ValueCursor::follow) from then on:
//!
//! | type | what its changes cost | order in the file |
//! | --- | --- | --- |
//! | set, hash, sorted set | a [cell](structures::snapshot_sweep) of elements, written down before | any |
//! | list | the nodes are shared with it, so a copy of the node that is changed | as ever |
//! | string of more than 4 MiB | the blocks that it changes are copied, up to 16 MiB of them | as ever |
//! | other strings, stream | what is left of it is written down | as ever |
//! | installed types | the same, or what the type's `begin_sweep` keeps | as ever |
//!
//! Bytes are those of [`encode`](crate::encode), but for strings of more than [`COMPRESSED_MAX`], which are not
//! compressed: that would take them as a whole.

use crate::encode::{
    Style, kind_of, put_expiry_after, put_expiry_before, put_item, put_length, put_module_id, put_node, put_scored,
    put_string,
};
use engine::data::typed_value::{Place, RestOfValue};
use engine::data::value::{Object, Value};
use engine::snapshot::before_images::SharedImages;
use engine::snapshot::encoder::ValueCursor;
use rdb::module_value::ModuleWriter;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use structures::list::List;
use structures::listpack::Item;
use structures::quicklist::NodesLeft;
use structures::set::Set;
use structures::snapshot_iterator::Seen;
use structures::snapshot_sweep::SnapshotSweep;
use structures::stream::Id;

/// Elements, or nodes, above which a collection is large: some hundred microseconds' worth.
const LARGE_ELEMENTS: usize = 4096;
const LARGE_NODES: usize = 64;
/// Bytes above which a string is large.
const LARGE_STRING: usize = 64 << 10;
/// Elements by whose size that of an installed type's value is judged.
const SAMPLES: usize = 5;
/// Longer strings are not compressed.
const COMPRESSED_MAX: usize = 4 << 20;

/// Returns whether writing the value takes so long that it is done a piece at a time.
pub fn is_large(value: &Value<'_>) -> bool {
    let Value::Payload(object) = value else { return false };
    match object {
        Object::String(bytes) => bytes.len() > LARGE_STRING,
        Object::List(List::Quick(list)) => list.node_count() > LARGE_NODES,
        Object::List(List::Small(_)) => false,
        Object::Set(set) => matches!(set, Set::Big(_)) && set.len() > LARGE_ELEMENTS,
        Object::Hash(hash) => hash.as_listpack().is_none() && hash.view().len() > LARGE_ELEMENTS,
        Object::SortedSet(set) => set.encoding() != "listpack" && set.len() > LARGE_ELEMENTS,
        Object::Stream(stream) => stream.node_count() > LARGE_NODES,
        Object::Other(value) => value.len() > LARGE_ELEMENTS || value.memory_usage(SAMPLES) > LARGE_STRING,
    }
}

/// The progress of writing a large value.
pub struct ChunkedWriter {
    how: How,
    state: State,
    /// Bytes of a string, elements of a sorted set, nodes of a list, or a place in a table.
    at: u64,
    /// The last node of a stream that was written.
    last_node: Option<Id>,
}

/// The form of elements.
#[derive(Clone, Copy)]
struct How {
    style: Style,
    /// The earliest expiry of a field.
    first: u64,
    /// Whether fields have expiries.
    timed: bool,
}

enum State {
    /// The value is as it was.
    InPlace,
    /// A string, which is compressed when it is complete.
    Collected(Vec<u8>),
    /// A string some of whose bytes were changed.
    Patched(Patched),
    Swept(Swept),
    Nodes(NodesLeft),
    /// The rest of an installed type's value.
    Rest(Box<dyn RestOfValue>),
    /// The whole value is written down.
    Done,
}

impl ChunkedWriter {
    /// Appends the head before the elements.
    pub fn begin(out: &mut Vec<u8>, value: &Value<'_>, style: Style) -> ChunkedWriter {
        let how = How { style, first: 0, timed: false };
        let mut pieces = ChunkedWriter { how, state: State::InPlace, at: 0, last_node: None };
        let Value::Payload(object) = value else { return pieces };
        match object {
            Object::String(bytes) if style.compress && bytes.len() <= COMPRESSED_MAX => {
                pieces.state = State::Collected(Vec::with_capacity(bytes.len()));
            }
            Object::String(bytes) => put_length(out, bytes.len() as u64),
            Object::List(List::Quick(list)) => put_length(out, list.node_count() as u64),
            Object::List(List::Small(_)) => put_length(out, 1),
            Object::Set(set) => put_length(out, set.len() as u64),
            Object::Hash(hash) => {
                pieces.how.first = hash.next_expiry().unwrap_or(0);
                pieces.how.timed = hash.view().volatile_len() > 0;
                if kind_of(value, &style) == crate::format::kind::REDIS_HASH_METADATA {
                    out.extend_from_slice(&pieces.how.first.to_le_bytes());
                }
                put_length(out, hash.view().len() as u64);
            }
            Object::SortedSet(set) => {
                put_length(out, set.len() as u64);
                pieces.at = set.len() as u64;
            }
            Object::Stream(stream) => put_length(out, stream.node_count() as u64),
            Object::Other(value) => put_module_id(out, &**value),
        }
        pieces
    }

    /// Appends about `max` bytes more of an unchanged value, and returns whether these were the last.
    fn piece(&mut self, out: &mut Vec<u8>, object: &Object, max: usize) -> bool {
        let end = out.len().saturating_add(max);
        let how = self.how;
        match object {
            Object::String(bytes) => {
                let left = bytes.get(self.at as usize..).unwrap_or_default();
                let piece = &left[..left.len().min(max)];
                let to = if let State::Collected(all) = &mut self.state { all } else { out };
                to.extend_from_slice(piece);
                self.at += piece.len() as u64;
                piece.len() == left.len()
            }
            Object::List(List::Quick(list)) => {
                let mut nodes = list.nodes_from(self.at as usize);
                while out.len() < end {
                    let Some(node) = nodes.next() else { return true };
                    put_node(out, node, &how.style);
                    self.at += 1;
                }
                self.at == list.node_count() as u64
            }
            Object::List(List::Small(_)) => true,
            Object::Set(set) => self.table(out, end, |at, out| set.scan(at, at, |member| how.member(out, member))),
            Object::Hash(hash) => self.table(out, end, |at, out| {
                hash.view().scan_all(at, |field, value, expiry| how.field(out, field, value, expiry))
            }),
            Object::SortedSet(set) => {
                while out.len() < end && self.at > 0 {
                    let from = self.at.saturating_sub(64);
                    let some = set.range(from as usize..self.at as usize);
                    some.rev().for_each(|(member, score)| put_scored(out, member, score, &how.style));
                    self.at = from;
                }
                self.at == 0
            }
            Object::Stream(stream) => {
                let mut nodes = stream.nodes_after(self.last_node);
                while out.len() < end {
                    let Some((id, pack)) = nodes.next() else {
                        crate::stream::put_after_nodes(out, stream, &how.style);
                        return true;
                    };
                    crate::stream::put_node(out, id, pack, &how.style);
                    self.last_node = Some(id);
                }
                false
            }
            Object::Other(value) => {
                let mut writer = ModuleWriter::new(out, how.style.compress);
                match value.write(&mut writer, Place(self.at), max) {
                    Some(place) => {
                        self.at = place.0;
                        false
                    }
                    None => {
                        writer.end();
                        true
                    }
                }
            }
        }
    }

    /// Writes a table, by places on its line of hashes; `scan` writes the elements at one place and returns the next.
    fn table(&mut self, out: &mut Vec<u8>, end: usize, mut scan: impl FnMut(u64, &mut Vec<u8>) -> Option<u64>) -> bool {
        while out.len() < end {
            match scan(self.at, out) {
                Some(next) => self.at = next,
                None => return true,
            }
        }
        false
    }

    /// Begins a sweep over the rest of a collection in a table.
    fn sweep(&self, object: &mut Object, kept: &SharedImages) -> Option<Swept> {
        let (how, kept) = (self.how.quick(), kept.clone());
        match object {
            Object::Set(set) => {
                let sink = move |seen: Seen<'_>| kept.append(|out| how.member(out, Item::Bytes(seen.name)));
                set.begin_snapshot_sweep(self.at, Box::new(sink)).map(|sweep| Swept { sweep, below: None })
            }
            Object::Hash(hash) => {
                let sink = move |seen: Seen<'_>| kept.append(|out| how.seen_field(out, seen));
                hash.begin_snapshot_sweep(self.at, Box::new(sink)).map(|sweep| Swept { sweep, below: None })
            }
            Object::SortedSet(set) => {
                let at = self.at as usize;
                let lowest = set.range(at..at + 1).next().map(|(member, score)| Arc::new((score, member.into())));
                let below: Option<Arc<Pair>> = lowest;
                let limit = below.clone();
                let sink = move |seen: Seen<'_>| kept.append(|out| how.pair(out, seen, limit.as_deref()));
                set.begin_snapshot_sweep(Box::new(sink)).map(|sweep| Swept { sweep, below })
            }
            _ => None,
        }
    }
}

impl ChunkedWriter {
    fn rest(&self, object: &mut Object) -> Option<Box<dyn RestOfValue>> {
        if let Object::Other(value) = object { value.begin_sweep(Place(self.at)) } else { None }
    }
}

impl ValueCursor for ChunkedWriter {
    fn put(&mut self, out: &mut Vec<u8>, object: &Object, max: usize) -> bool {
        match &mut self.state {
            State::InPlace | State::Collected(_) => self.piece(out, object, max),
            State::Patched(patched) => patched.piece(out, object, &mut self.at, max),
            State::Swept(swept) => swept.step(out, object, max, self.how),
            State::Nodes(nodes) => {
                let end = out.len().saturating_add(max);
                while out.len() < end && nodes.next(|node| put_node(out, node, &self.how.style)) {}
                nodes.is_empty()
            }
            State::Rest(rest) => {
                let mut writer = ModuleWriter::new(out, self.how.style.compress);
                let is_last = rest.write(&mut writer, max);
                if is_last {
                    writer.end();
                }
                is_last
            }
            State::Done => true,
        }
    }

    fn keep_bytes(&mut self, object: &Object, bytes: &Range<usize>) -> bool {
        let Object::String(string) = object else { return false };
        if matches!(self.state, State::InPlace) {
            self.state = State::Patched(Patched { len: string.len(), blocks: BTreeMap::new() });
        }
        let State::Patched(patched) = &mut self.state else { return false };
        patched.keep(string, bytes, self.at as usize)
    }

    fn follow(&mut self, object: &mut Object, kept: &SharedImages) {
        if let Object::List(List::Quick(list)) = object {
            self.state = State::Nodes(list.nodes_left(self.at as usize));
        } else if let Some(rest) = self.rest(object) {
            self.state = State::Rest(rest);
        } else if let Some(swept) = self.sweep(object, kept) {
            self.state = State::Swept(swept);
        } else {
            self.put_all(object, kept);
        }
    }

    fn put_all(&mut self, object: &Object, kept: &SharedImages) {
        self.how = self.how.quick();
        // The bytes of one piece match the room for them.
        while !kept.append(|out| self.put(out, object, AT_ONCE)) {}
        match self.state {
            // The string is put together at the end; its later changes do not matter.
            State::Collected(_) => self.at = u64::MAX,
            _ => self.state = State::Done,
        }
    }

    fn finish(self: Box<Self>, out: &mut Vec<u8>) {
        if let State::Collected(bytes) = &self.state {
            put_string(out, bytes, self.how.style.compress);
        }
    }
}

/// Bytes of a value that are written at once because it is about to change.
const AT_ONCE: usize = 48 << 10;

/// A string as it was, whose bytes are changed and become more.
struct Patched {
    len: usize,
    /// Old blocks of the changed bytes, by number.
    blocks: BTreeMap<usize, Box<[u8]>>,
}

/// Bytes of a block, and blocks above which the whole is written down.
const BLOCK: usize = 16 << 10;
const BLOCKS_MAX: usize = 1024;

impl Patched {
    /// Keeps the blocks of these bytes, but for those before `written`.
    fn keep(&mut self, string: &[u8], bytes: &Range<usize>, written: usize) -> bool {
        let (start, end) = (bytes.start.max(written), bytes.end.min(self.len));
        if start >= end {
            return true;
        }
        let blocks = start / BLOCK..=(end - 1) / BLOCK;
        if self.blocks.len() + blocks.clone().count() > BLOCKS_MAX {
            return false;
        }
        for block in blocks {
            let from = block * BLOCK;
            self.blocks.entry(block).or_insert_with(|| string[from..self.len.min(from + BLOCK)].into());
        }
        true
    }

    fn piece(&mut self, out: &mut Vec<u8>, object: &Object, at: &mut u64, max: usize) -> bool {
        let Object::String(string) = object else { return true };
        let (mut from, stop) = (*at as usize, self.len.min((*at as usize).saturating_add(max)));
        while from < stop {
            let (block, start) = (from / BLOCK, from % BLOCK);
            let to = stop.min((block + 1) * BLOCK);
            match self.blocks.get(&block) {
                Some(bytes) => out.extend_from_slice(&bytes[start..start + to - from]),
                None => out.extend_from_slice(&string[from..to]),
            }
            if to % BLOCK == 0 {
                self.blocks.remove(&block);
            }
            from = to;
        }
        *at = from as u64;
        from == self.len
    }
}

/// A pair of a sorted set.
type Pair = (f64, Box<[u8]>);

/// A collection that is swept.
struct Swept {
    sweep: Arc<SnapshotSweep>,
    /// The lowest pair of a sorted set that was written before.
    below: Option<Arc<Pair>>,
}

impl Swept {
    fn step(&self, out: &mut Vec<u8>, object: &Object, max: usize, how: How) -> bool {
        let end = out.len().saturating_add(max);
        let mut done = false;
        while !done && out.len() < end {
            done = match object {
                Object::Set(set) => set.sweep_step(&self.sweep, |seen| how.member(out, Item::Bytes(seen.name))),
                Object::Hash(hash) => hash.sweep_step(&self.sweep, |seen| how.seen_field(out, seen)),
                Object::SortedSet(set) => {
                    set.sweep_step(&self.sweep, |seen| how.pair(out, seen, self.below.as_deref()))
                }
                _ => true,
            };
        }
        done
    }
}

impl How {
    /// Returns the form that is quickest to write: a client waits.
    fn quick(self) -> How {
        How { style: Style { compress: false, ..self.style }, ..self }
    }

    fn member(&self, out: &mut Vec<u8>, member: Item<'_>) {
        put_item(out, member, &self.style);
    }

    fn field(&self, out: &mut Vec<u8>, field: Item<'_>, value: Item<'_>, expiry: Option<u64>) {
        put_expiry_before(out, expiry, self.timed, self.first, &self.style);
        put_item(out, field, &self.style);
        put_item(out, value, &self.style);
        put_expiry_after(out, expiry, self.timed, &self.style);
    }

    fn seen_field(&self, out: &mut Vec<u8>, seen: Seen<'_>) {
        self.field(out, Item::Bytes(seen.name), Item::Bytes(seen.value), seen.expiry);
    }

    /// Puts a pair, if it is lower than `below`.
    fn pair(&self, out: &mut Vec<u8>, seen: Seen<'_>, below: Option<&Pair>) {
        let Ok(score) = seen.value.try_into().map(f64::from_le_bytes) else { return };
        // Scores are never NaN; -0.0 and 0.0 are one to the order.
        let is_below = |(limit, member): &Pair| score < *limit || score == *limit && *seen.name < **member;
        if below.is_none_or(is_below) {
            put_scored(out, seen.name, score, &self.style);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Family;
    use engine::data::value::Value;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_string_that_is_changed_in_places_is_written_as_it_was(
            len in LARGE_STRING..LARGE_STRING * 4,
            steps in proptest::collection::vec((0..3u8, 0..LARGE_STRING * 5, 0..BLOCK * 3), 0..60),
        ) {
            let was: Vec<u8> = (0..len).map(|n| (n / 7) as u8).collect();
            let mut object = Object::String(was.clone().into());
            let style = Style { compress: false, family: Family::Valkey };
            let (mut out, mut head) = (Vec::new(), Vec::new());
            let mut pieces = ChunkedWriter::begin(&mut out, &Value::Payload(&object), style);
            put_length(&mut head, len as u64);
            let mut done = false;
            for (how, at, count) in steps {
                let Object::String(bytes) = &object else { unreachable!() };
                let (start, end) = (at.min(bytes.len()), at.saturating_add(count).min(bytes.len()));
                match how {
                    0 => done = pieces.put(&mut out, &object, 1 + count),
                    // Bytes behind those at the beginning may change without notice.
                    1 => {
                        prop_assert!(pieces.keep_bytes(&object, &(start..start + count)));
                        let Object::String(string) = &mut object else { unreachable!() };
                        let bytes = string.bytes_mut();
                        bytes.resize(bytes.len().max(start + count), 1);
                        bytes[start..start + count].fill(2);
                    }
                    _ => {
                        prop_assert!(pieces.keep_bytes(&object, &(start..end)));
                        let Object::String(string) = &mut object else { unreachable!() };
                        string.bytes_mut()[start..end].fill(3);
                    }
                }
            }
            while !done {
                done = pieces.put(&mut out, &object, PIECE_MAX);
            }
            prop_assert!(out == [head, was].concat());
        }
    }

    const PIECE_MAX: usize = 16 << 10;
}
