//! A stream: entries with ids that only grow, and groups of consumers that read them.
//!
//! ```text
//! nodes    id of its first entry -> Node of entries (see `node`)          an ordered tree
//! groups   name -> Group (see `group`)                                    an ordered tree
//! ```
//!
//! A node is closed when it has as many bytes, in the form of dumps, or entries as the [`Limits`] allow; only the last
//! one is added to. Trimming takes whole nodes away from the front; an entry within a node is marked as deleted and
//! stays in its bytes.
//!
//! # Invariants (asserted by the property test against a map)
//! - Every node has a live entry; `len` is their number in all nodes.
//! - Ids ascend, within nodes and from node to node; none is above `last_id`.

mod cursor;
mod group;
mod id;
mod idempotency;
mod node;
#[cfg(test)]
mod tests;

pub use cursor::Cursor;
pub use group::{Consumer, ConsumerGroup, ConsumerRef, Pending};
pub use id::Id;
pub use idempotency::{Idempotency, MessageId, ProducerMemory};
pub use node::{Node, StreamWord};

use node::Fate;
use std::collections::BTreeMap;

/// Limits at which a node is closed; 0: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a node.
    pub bytes: usize,
    /// Entries of a node.
    pub entries: u64,
}

/// Bytes that names and values of an entry may have together; no node is longer.
pub const MAX_BYTES: usize = 1 << 30;

/// End of trimming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// So many entries are left.
    MaxLen(u64),
    /// No entry is left below this id.
    MinId(Id),
}

/// Treatment of references to an entry in groups' lists when it is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// They stay, and refer to nothing.
    #[default]
    Keep,
    /// They are deleted as well.
    Delete,
    /// An entry that a group still needs is not deleted.
    Acknowledged,
}

/// Result of deleting an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// There was no such entry.
    Missing,
    /// The entry is deleted.
    Done,
    /// A group still needs it.
    Needed,
}

/// Entries that trimming has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Number of entries that went.
    pub removed: u64,
    /// Entries among them that lay behind one that stays.
    pub behind: Vec<Id>,
    /// Entries that were pending in groups and are no longer, with the groups' names.
    pub acknowledged: Vec<(Box<[u8]>, Vec<Id>)>,
}

/// A stream.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    nodes: BTreeMap<Id, Node>,
    len: u64,
    /// Id of the first entry, while there is one.
    first_id: Id,
    /// The greatest id that there ever was.
    pub last_id: Id,
    /// The greatest id of an entry that was deleted by its id.
    pub max_deleted_id: Id,
    /// Entries that were ever added.
    pub entries_added: u64,
    groups: BTreeMap<Box<[u8]>, ConsumerGroup>,
    /// Messages of producers, where these want them to be remembered.
    idempotency: Option<Box<Idempotency>>,
}

/// Reading.
impl Stream {
    /// Returns the number of entries.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the entries between two ids, both included.
    pub fn range(&self, start: Id, end: Id) -> Cursor<'_> {
        Cursor::new(self, start, end, false)
    }

    /// Returns the entries between two ids, both included, from the end.
    pub fn range_back(&self, start: Id, end: Id) -> Cursor<'_> {
        Cursor::new(self, start, end, true)
    }

    /// Whether there is an entry of this id.
    pub fn contains(&self, id: Id) -> bool {
        self.range(id, id).next().is_some()
    }

    /// Returns the id of the first entry.
    pub fn first_id(&self) -> Option<Id> {
        (self.len > 0).then_some(self.first_id)
    }

    /// Finds the first entry after the front was cut off, or may have been.
    fn find_first(&mut self) {
        self.first_id = self.range(Id::MIN, Id::MAX).next().unwrap_or_default();
    }

    /// Returns the id of the last entry that is there.
    pub fn last_live_id(&self) -> Option<Id> {
        self.range_back(Id::MIN, Id::MAX).next()
    }

    /// Returns how many entries lie between two ids, both included; counted up to `max`.
    pub fn count(&self, start: Id, end: Id, max: u64) -> u64 {
        if start > end {
            return 0;
        }
        let mut sum = 0;
        let mut nodes = self.nodes.range(self.node_of(start)..=end).peekable();
        while let Some((base, node)) = nodes.next() {
            let whole = *base >= start && nodes.peek().is_some_and(|(next, _)| **next <= end);
            if whole {
                sum += node.live();
            } else {
                // Entries of this node are below the next one's.
                let last = nodes.peek().and_then(|(next, _)| next.prev()).unwrap_or(Id::MAX).min(end);
                let mut cursor = self.range(start.max(*base), last);
                while sum < max && cursor.next().is_some() {
                    sum += 1;
                }
            }
            if sum >= max {
                return max;
            }
        }
        sum
    }

    /// Returns the beginning of the node that an entry of this id is in.
    fn node_of(&self, id: Id) -> Id {
        self.nodes.range(..=id).next_back().map_or(id, |(base, _)| *base)
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the nodes with the ids that they count from.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (Id, &Node)> {
        self.nodes.iter().map(|(base, node)| (*base, node))
    }

    /// Returns the nodes after one.
    pub fn nodes_after(&self, id: Option<Id>) -> impl Iterator<Item = (Id, &Node)> {
        let from = id.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.nodes.range((from, std::ops::Bound::Unbounded)).map(|(base, node)| (*base, node))
    }

    /// Returns how many nodes and pending entries there are to free.
    pub fn free_effort(&self) -> usize {
        1 + self.nodes.len() + self.groups.values().map(|group| group.pending_len() / 8 + 1).sum::<usize>()
    }

    /// Frees about so many nodes; returns whether nothing is left.
    pub fn drain_step(&mut self, max: usize) -> bool {
        for _ in 0..max {
            if self.nodes.pop_first().is_none() && self.groups.pop_first().is_none() {
                return true;
            }
        }
        false
    }

    /// Returns the bytes on the heap, about.
    pub fn memory_usage(&self) -> usize {
        let nodes: usize = self.nodes.values().map(|node| node.memory_usage() + 40).sum();
        let groups: usize = self.groups.iter().map(|(name, group)| name.len() + 200 + group.memory_usage()).sum();
        size_of::<Stream>() + nodes + groups
    }
}

/// Groups.
impl Stream {
    /// Returns the group of this name.
    pub fn group(&self, name: &[u8]) -> Option<&ConsumerGroup> {
        self.groups.get(name)
    }

    /// Returns the group of this name, to be changed.
    pub fn group_mut(&mut self, name: &[u8]) -> Option<&mut ConsumerGroup> {
        self.groups.get_mut(name)
    }

    /// Returns the groups by name.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &ConsumerGroup)> {
        self.groups.iter().map(|(name, group)| (&**name, group))
    }

    /// Adds a group; false if there is one of this name.
    pub fn add_group(&mut self, name: &[u8], group: ConsumerGroup) -> bool {
        if self.groups.contains_key(name) {
            return false;
        }
        self.groups.insert(name.into(), group);
        true
    }

    /// Takes out the group of this name.
    pub fn remove_group(&mut self, name: &[u8]) -> Option<ConsumerGroup> {
        self.groups.remove(name)
    }

    /// Whether a group has delivered this entry to a consumer that has not acknowledged it.
    pub fn pending_in_groups(&self, id: Id) -> bool {
        self.groups.values().any(|group| group.pending(id).is_some())
    }

    /// Returns the messages of producers, if any is remembered.
    pub fn idempotency(&self) -> Option<&Idempotency> {
        self.idempotency.as_deref()
    }

    /// Returns the messages of producers, to be changed; from then on there is a record.
    pub fn idempotency_mut(&mut self) -> &mut Idempotency {
        self.idempotency.get_or_insert_default()
    }

    /// Calls `change` with a group, and with the stream, in which the group is empty meanwhile.
    pub fn with_group<R>(&mut self, name: &[u8], change: impl FnOnce(&Stream, &mut ConsumerGroup) -> R) -> Option<R> {
        let mut group = std::mem::take(self.groups.get_mut(name)?);
        let result = change(self, &mut group);
        *self.groups.get_mut(name)? = group;
        Some(result)
    }

    /// Counts that the group's next entry was read. Its count of read entries stays as long as it can be computed.
    pub fn count_read(&self, group: &mut ConsumerGroup, id: Id) {
        if id <= group.last_id {
            return;
        }
        let counts = self.first_id().is_some_and(|first| group.last_id >= first) && !self.has_gaps_from(group.last_id);
        group.entries_read = match group.entries_read {
            Some(read) if counts => Some(read + 1),
            read if self.entries_added == 0 => read,
            _ => self.entries_up_to(id),
        };
        group.last_id = id;
    }

    /// Returns how many entries were ever added up to this id, when that can be computed.
    pub fn entries_up_to(&self, id: Id) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        if self.is_empty() && id <= self.last_id {
            return Some(self.entries_added);
        }
        if id != Id::MIN && id < self.max_deleted_id {
            return None;
        }
        match id.cmp(&self.last_id) {
            std::cmp::Ordering::Equal => return Some(self.entries_added),
            std::cmp::Ordering::Greater => return None,
            std::cmp::Ordering::Less => {}
        }
        let first = self.first_id().unwrap_or_default();
        if self.max_deleted_id != Id::MIN && self.max_deleted_id >= first {
            return None;
        }
        let before_first = self.entries_added.saturating_sub(self.len);
        match id.cmp(&first) {
            std::cmp::Ordering::Less => Some(before_first),
            std::cmp::Ordering::Equal => Some(before_first + 1),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// Whether an entry at or above this id may have been deleted.
    pub fn has_gaps_from(&self, id: Id) -> bool {
        !self.is_empty() && self.max_deleted_id != Id::MIN && id <= self.max_deleted_id
    }

    /// Returns how many entries a group has yet to read, when that can be computed.
    pub fn lag(&self, group: &ConsumerGroup) -> Option<i64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        let read = match group.entries_read {
            Some(read) if !self.has_gaps_from(group.last_id) => Some(read),
            _ => self.entries_up_to(group.last_id),
        };
        read.map(|read| (self.entries_added as i64).wrapping_sub(read as i64))
    }
}

/// Entries.
impl Stream {
    /// Returns the id for an entry that is added at this time.
    pub fn next_id(&self, now_ms: u64) -> Option<Id> {
        if now_ms > self.last_id.ms { Some(Id::new(now_ms, 0)) } else { self.last_id.next() }
    }

    /// Adds an entry of at most [`MAX_BYTES`], whose id must be above `last_id`.
    pub fn append<'a, W: StreamWord<'a>>(
        &mut self,
        id: Id,
        pairs: impl Iterator<Item = (W, W)> + Clone,
        limits: Limits,
    ) {
        let bytes: usize = pairs.clone().map(|(name, value)| name.byte_len() + value.byte_len()).sum();
        let max_bytes = if limits.bytes == 0 { MAX_BYTES } else { limits.bytes.min(MAX_BYTES) };
        let open = self.nodes.last_entry().filter(|last| {
            let node = last.get();
            node.listpack_len() + bytes < max_bytes
                && (limits.entries == 0 || node.live() + node.deleted() < limits.entries)
        });
        match open {
            Some(mut last) => {
                let base = *last.key();
                last.get_mut().append(base, id, pairs);
            }
            None => {
                self.nodes.insert(id, Node::first(id, pairs));
            }
        }
        if self.len == 0 {
            self.first_id = id;
        }
        self.len += 1;
        self.entries_added += 1;
        self.last_id = id;
    }

    /// Deletes an entry; returns whether it was there.
    pub fn delete(&mut self, id: Id) -> bool {
        if !self.mark_deleted(id) {
            return false;
        }
        self.max_deleted_id = self.max_deleted_id.max(id);
        if id == self.first_id {
            self.find_first();
        }
        true
    }

    /// Deletes an entry as [`References`] say. A group needs an entry that it has yet to read, even if there is no such
    /// entry.
    pub fn delete_with(&mut self, id: Id, references: References) -> Deletion {
        let referenced = self.groups.values().any(|group| group.needs(id));
        if references == References::Acknowledged && referenced {
            return Deletion::Needed;
        }
        if references == References::Delete {
            self.groups.values_mut().for_each(|group| {
                group.acknowledge(id);
            });
        }
        if self.delete(id) { Deletion::Done } else { Deletion::Missing }
    }

    fn mark_deleted(&mut self, id: Id) -> bool {
        let Some((base, node)) = self.nodes.range_mut(..=id).next_back() else { return false };
        let base = *base;
        let marked = node.delete_while(base, |other| match other.cmp(&id) {
            std::cmp::Ordering::Less => Fate::Keep,
            std::cmp::Ordering::Equal => Fate::Delete,
            std::cmp::Ordering::Greater => Fate::Stop,
        });
        if node.live() == 0 {
            self.nodes.remove(&base);
        }
        self.len -= marked;
        marked > 0
    }

    /// Removes entries from the front until the bound is met. Not exactly: only whole nodes. Not more than
    /// `limit` entries (0: any number).
    pub fn trim(&mut self, bound: Bound, exactly: bool, limit: u64, references: References) -> Trimmed {
        let mut trimmed = if self.groups.is_empty() || references != References::Acknowledged {
            Trimmed { removed: self.trim_front(bound, exactly, limit), ..Trimmed::default() }
        } else {
            self.trim_acknowledged(bound, exactly, limit)
        };
        if trimmed.removed > 0 {
            self.find_first();
        }
        if trimmed.removed > 0 && references == References::Delete {
            let kept = self.first_id().or_else(|| self.last_id.next()).unwrap_or(Id::MAX);
            let groups = self.groups.iter_mut().map(|(name, group)| (name.clone(), group.acknowledge_below(kept)));
            trimmed.acknowledged = groups.filter(|(_, ids)| !ids.is_empty()).collect();
        }
        trimmed
    }

    /// Removes entries that no group needs, until the bound is met. Entries that go from behind one that stays leave a
    /// gap, as deleted ones do.
    fn trim_acknowledged(&mut self, bound: Bound, exactly: bool, limit: u64) -> Trimmed {
        let (mut removed, mut any_stays, mut behind) = (0, false, Vec::new());
        let mut from = Id::MIN;
        while let Some((base, node)) = self.nodes.range_mut(from..).next() {
            let (base, live) = (*base, node.live());
            if matches!(bound, Bound::MaxLen(max) if self.len <= max) || (limit > 0 && removed + live > limit) {
                break;
            }
            let (groups, mut left) = (&self.groups, self.len);
            let marked = if exactly || node.all_live(base, |id| fate_of(bound, &mut left, groups, id) == Fate::Delete) {
                left = self.len;
                node.delete_while(base, |id| {
                    let fate = fate_of(bound, &mut left, groups, id);
                    any_stays |= fate == Fate::Keep;
                    behind.extend(Some(id).filter(|_| any_stays && fate == Fate::Delete));
                    fate
                })
            } else {
                any_stays = true;
                0
            };
            if node.live() == 0 {
                self.nodes.remove(&base);
            }
            self.len -= marked;
            removed += marked;
            let Some(next) = base.next() else { break };
            from = next;
        }
        self.max_deleted_id = behind.last().map_or(self.max_deleted_id, |last| self.max_deleted_id.max(*last));
        Trimmed { removed, behind, ..Trimmed::default() }
    }

    fn trim_front(&mut self, bound: Bound, exactly: bool, limit: u64) -> u64 {
        let mut removed = 0;
        while let Some(mut entry) = self.nodes.first_entry() {
            let base = *entry.key();
            if matches!(bound, Bound::MaxLen(max) if self.len <= max) {
                break;
            }
            let live = entry.get().live();
            if limit > 0 && removed + live > limit {
                break;
            }
            let whole = match bound {
                Bound::MaxLen(max) => self.len - live >= max,
                Bound::MinId(min) => entry.get().last_id(base).is_none_or(|last| last < min),
            };
            if whole {
                entry.remove();
                self.len -= live;
                removed += live;
                continue;
            }
            if exactly {
                let mut left = self.len;
                let marked = entry.get_mut().delete_while(base, |id| {
                    let stop = match bound {
                        Bound::MaxLen(max) => left <= max,
                        Bound::MinId(min) => id >= min,
                    };
                    if stop {
                        return Fate::Stop;
                    }
                    left -= 1;
                    Fate::Delete
                });
                if entry.get().live() == 0 {
                    entry.remove();
                }
                self.len -= marked;
                removed += marked;
            }
            break;
        }
        removed
    }
}

/// Decides over an entry in trimming when `left` entries are left; one that goes is subtracted.
fn fate_of(bound: Bound, left: &mut u64, groups: &BTreeMap<Box<[u8]>, ConsumerGroup>, id: Id) -> Fate {
    let met = match bound {
        Bound::MaxLen(max) => *left <= max,
        Bound::MinId(min) => id >= min,
    };
    if met {
        return Fate::Stop;
    }
    if groups.values().any(|group| group.needs(id)) {
        return Fate::Keep;
    }
    *left -= 1;
    Fate::Delete
}
