//! Streams of the model: entries 0-1, 0-2 and so on, with a field `v` each, and one group of consumers.

use crate::model::{View, array, int, ok, text};
use crate::operation::{Consumer, Key, Step};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stream {
    pub entries: BTreeMap<u64, i64>,
    /// The greatest id that there ever was.
    pub last: u64,
    pub group: Option<Group>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Group {
    /// The last id that it was given.
    pub last: u64,
    /// Consumers of entries that are not acknowledged.
    pub pending: BTreeMap<u64, Consumer>,
}

impl Stream {
    /// Returns entries after this one, in the form of replies.
    fn after(&self, id: u64, most: usize) -> Vec<(u64, String)> {
        self.entries.range(id + 1..).take(most).map(|(id, n)| (*id, entry(*id, *n))).collect()
    }

    /// Gives the consumer entries that no consumer of the group has received.
    fn give(&mut self, consumer: Consumer, most: usize) -> Vec<String> {
        let given = self.after(self.group.as_ref().map_or(0, |group| group.last), most);
        if let (Some(group), Some((last, _))) = (&mut self.group, given.last()) {
            group.last = *last;
            group.pending.extend(given.iter().map(|(id, _)| (*id, consumer)));
        }
        given.into_iter().map(|(_, entry)| entry).collect()
    }

    /// Returns the entries that the consumer has received and not acknowledged.
    fn pending(&self, consumer: Consumer) -> Vec<String> {
        let pending = self.group.iter().flat_map(|group| &group.pending);
        let own = pending.filter(|(_, owner)| **owner == consumer);
        own.map(|(id, _)| match self.entries.get(id) {
            Some(n) => entry(*id, *n),
            None => array(vec![name(*id), "*-1\r\n".to_owned()]),
        })
        .collect()
    }

    /// Claims an entry that is not acknowledged for the consumer. A deleted entry has no consumer.
    fn claim(&mut self, consumer: Consumer, id: u64) -> Vec<String> {
        let is_there = self.entries.contains_key(&id);
        let pending = self.group.as_mut().map(|group| group.pending.entry(id));
        match pending {
            Some(Entry::Occupied(owner)) if !is_there => {
                owner.remove();
                Vec::new()
            }
            Some(Entry::Occupied(mut owner)) => {
                owner.insert(consumer);
                vec![name(id)]
            }
            _ => Vec::new(),
        }
    }

    fn remove(&mut self, id: u64) -> usize {
        self.entries.remove(&id).map_or(0, |_| 1)
    }
}

fn name(id: u64) -> String {
    text(&format!("0-{id}"))
}

fn entry(id: u64, n: i64) -> String {
    array(vec![name(id), array(vec![text("v"), text(&n.to_string())])])
}

fn one_stream(key: Key, entries: Vec<String>) -> String {
    array(vec![text(key), array(entries)])
}

impl View<'_> {
    pub fn step_on_stream(&mut self, key: Key, step: &Step) -> String {
        let count = |count: usize| int(count as i64);
        match step {
            Step::XAdd(_, n) => self.stream(key, |stream| {
                stream.last += 1;
                stream.entries.insert(stream.last, *n);
                name(stream.last)
            }),
            Step::XDel(_, id) => self.stream(key, |stream| count(stream.remove(*id))),
            Step::XTrim(_, most) => self.stream(key, |stream| {
                let surplus = stream.entries.len().saturating_sub(*most);
                (0..surplus).for_each(|_| _ = stream.entries.pop_first());
                count(surplus)
            }),
            Step::XRange(_) => self
                .stream(key, |stream| array(stream.after(0, usize::MAX).into_iter().map(|(_, entry)| entry).collect())),
            Step::XGroup(_) => self.stream(key, |stream| match stream.group {
                Some(_) => "-BUSYGROUP Consumer Group name already exists\r\n".to_owned(),
                None => {
                    stream.group = Some(Group::default());
                    ok()
                }
            }),
            Step::XAck(_, id) => self.stream(key, |stream| {
                count(stream.group.as_mut().and_then(|group| group.pending.remove(id)).map_or(0, |_| 1))
            }),
            Step::XReadGroup(_, consumer, most) => {
                self.xreadgroup(&[key], consumer, *most).unwrap_or_else(|| "*-1\r\n".to_owned())
            }
            Step::XPending(_, consumer) => self.stream(key, |stream| match stream.group {
                None => no_group(key, " in XREADGROUP with GROUP option"),
                Some(_) => array(vec![one_stream(key, stream.pending(consumer))]),
            }),
            Step::XClaim(_, consumer, id) => self.stream(key, |stream| match stream.group {
                None => no_group(key, ""),
                Some(_) => array(stream.claim(consumer, *id)),
            }),
            other => panic!("{other:?} is on a stream"),
        }
    }

    /// Reads entries; None: there are none.
    pub fn xread(&mut self, keys: &[Key], after: u64) -> Option<String> {
        let mut found = Vec::new();
        for key in keys {
            let entries = self.stream(key, |stream| stream.after(after, usize::MAX));
            if !entries.is_empty() {
                found.push(one_stream(key, entries.into_iter().map(|(_, entry)| entry).collect()));
            }
        }
        (!found.is_empty()).then(|| array(found))
    }

    /// Reads entries of the group; None: there are none. If the group or the stream is missing, there never will be.
    pub fn xreadgroup(&mut self, keys: &[Key], consumer: Consumer, most: usize) -> Option<String> {
        if let Some(key) = keys.iter().find(|key| self.stream(key, |stream| stream.group.is_none())) {
            return Some(no_group(key, " in XREADGROUP with GROUP option"));
        }
        let mut found = Vec::new();
        for key in keys {
            let entries = self.stream(key, |stream| stream.give(consumer, most));
            if !entries.is_empty() {
                found.push(one_stream(key, entries));
            }
        }
        (!found.is_empty()).then(|| array(found))
    }
}

fn no_group(key: Key, place: &str) -> String {
    format!("-NOGROUP No such key '{key}' or consumer group 'g'{place}\r\n")
}
