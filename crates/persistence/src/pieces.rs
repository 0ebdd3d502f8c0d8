//! Large values, written a piece at a time, so that nobody waits for the whole.
//!
//! A value stays as it is from its first piece to its last: a number says how far it is written. Bytes are those of
//! [`encode`](crate::encode), but for long strings, which are not compressed: that would take them as a whole.

use crate::encode::{
    Style, kind_of, put_deadline_after, put_deadline_before, put_item, put_length, put_node, put_scored,
};
use engine::value::{Object, Value};
use structures::list::List;
use structures::set::Set;

/// Elements, or nodes, above which a collection is large: some hundred microseconds' worth.
const LARGE_ELEMENTS: usize = 4096;
const LARGE_NODES: usize = 64;
/// Bytes above which a string is.
const LARGE_STRING: usize = 1 << 20;

/// Whether writing the value takes so long that it is done in pieces.
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
    }
}

/// How far a large value is written.
pub struct Pieces {
    style: Style,
    /// Bytes of a string, elements of a sorted set, nodes of a list or stream, or a place in a table.
    at: u64,
    /// The earliest deadline of a field.
    first: u64,
}

impl Pieces {
    /// Appends what comes before the elements.
    pub fn begin(out: &mut Vec<u8>, value: &Value<'_>, style: Style) -> Pieces {
        let mut pieces = Pieces { style, at: 0, first: 0 };
        let Value::Payload(object) = value else { return pieces };
        match object {
            Object::String(bytes) => put_length(out, bytes.len() as u64),
            Object::List(List::Quick(list)) => put_length(out, list.node_count() as u64),
            Object::List(List::Small(_)) => put_length(out, 1),
            Object::Set(set) => put_length(out, set.len() as u64),
            Object::Hash(hash) => {
                pieces.first = hash.next_deadline().unwrap_or(0);
                if kind_of(value, &style) == crate::format::kind::REDIS_HASH_METADATA {
                    out.extend_from_slice(&pieces.first.to_le_bytes());
                }
                put_length(out, hash.view().len() as u64);
            }
            Object::SortedSet(set) => {
                put_length(out, set.len() as u64);
                pieces.at = set.len() as u64;
            }
            Object::Stream(stream) => put_length(out, stream.node_count() as u64),
        }
        pieces
    }

    /// Appends about `max` bytes more; whether these were the last.
    pub fn piece(&mut self, out: &mut Vec<u8>, value: &Value<'_>, max: usize) -> bool {
        let end = out.len().saturating_add(max);
        let style = self.style;
        let Value::Payload(object) = value else { return true };
        match object {
            Object::String(bytes) => {
                let left = bytes.get(self.at as usize..).unwrap_or_default();
                let piece = &left[..left.len().min(max)];
                out.extend_from_slice(piece);
                self.at += piece.len() as u64;
                piece.len() == left.len()
            }
            Object::List(List::Quick(list)) => {
                let mut nodes = list.nodes().skip(self.at as usize);
                while out.len() < end {
                    let Some(node) = nodes.next() else { return true };
                    put_node(out, node, &style);
                    self.at += 1;
                }
                self.at == list.node_count() as u64
            }
            Object::List(List::Small(_)) => true,
            Object::Set(set) => {
                self.table(out, end, |at, out| set.scan(at, at, |member| put_item(out, member, &style)))
            }
            Object::Hash(hash) => {
                let (first, timed) = (self.first, hash.view().volatile_len() > 0);
                self.table(out, end, |at, out| {
                    hash.view().scan_all(at, |field, value, deadline| {
                        put_deadline_before(out, deadline, timed, first, &style);
                        put_item(out, field, &style);
                        put_item(out, value, &style);
                        put_deadline_after(out, deadline, timed, &style);
                    })
                })
            }
            Object::SortedSet(set) => {
                while out.len() < end && self.at > 0 {
                    let from = self.at.saturating_sub(64);
                    let some = set.range(from as usize..self.at as usize);
                    some.rev().for_each(|(member, score)| put_scored(out, member, score, &style));
                    self.at = from;
                }
                self.at == 0
            }
            Object::Stream(stream) => {
                let mut nodes = stream.nodes().skip(self.at as usize);
                while out.len() < end {
                    let Some((id, node)) = nodes.next() else {
                        crate::stream::put_after_nodes(out, stream, &style);
                        return true;
                    };
                    crate::stream::put_node(out, id, node, &style);
                    self.at += 1;
                }
                false
            }
        }
    }

    /// A table, by places on its line of hashes; `scan` writes what is at one and tells the next.
    fn table(&mut self, out: &mut Vec<u8>, end: usize, mut scan: impl FnMut(u64, &mut Vec<u8>) -> Option<u64>) -> bool {
        while out.len() < end {
            match scan(self.at, out) {
                Some(next) => self.at = next,
                None => return true,
            }
        }
        false
    }
}
