//! CLUSTERSCAN: SCAN over a cluster, from node to node.
//!
//! A cursor is `place-{tag}-position`. The tag has the slot that is scanned next, so that a client sends the call to
//! its owner; `place` identifies the node of the position, since each node has its own order, and is `0` where a node
//! has only named the next slot. A call walks the slots from there on that have the same owner. It stops where the call
//! before has stopped: a position belongs to these slots only, and `place` has the last of them, too.

use super::keys_in_slot::slot_at;
use super::node_access::must_be_clustered;
use crate::core::args::Args;
use crate::core::context::{Context, Flow, Resumable};
use crate::keys::key_walk::{Filter, KeyWalk, PIECE};
use crate::keys::scan_options::{ScanWords, Scanned};
use engine::data::slot::{SLOTS, slot_of, slot_of_pattern};
use engine::data::value::KeyEntry;
use engine::keyspace::Keyspace;
use engine::{Engine, Error};
use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// The last slot.
const LAST: u16 = (SLOTS - 1) as u16;

/// Letters of tags, in the order in which they are tried.
const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// For each slot the shortest word that hashes to it, and among these the first.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut tags = vec![String::new(); SLOTS];
    let mut words = vec![String::new()];
    while tags.iter().any(String::is_empty) {
        let longer = |word: &String| LETTERS.iter().map(|letter| format!("{word}{}", char::from(*letter))).collect();
        words = words.iter().flat_map(|word| -> Vec<String> { longer(word) }).collect();
        for word in &words {
            let tag = &mut tags[usize::from(slot_of(word.as_bytes()))];
            if tag.is_empty() {
                tag.clone_from(word);
            }
        }
    }
    tags
});

/// Returns the cursor that begins a slot, at any node.
fn beginning(slot: u16) -> String {
    format!("0-{{{}}}-0", TAGS[usize::from(slot)])
}

/// Returns six digits that identify the order in which this node keeps its keys.
fn fingerprint(keyspace: &Keyspace) -> String {
    // The digits are few bits of a hash: they show whether its seed is the same, and no more of it.
    format!("{:06x}", keyspace.hasher().local_of(b"fingerprint") >> 32 & 0xFF_FFFF)
}

/// Returns the slot of a cursor, and if it is this node's the last slot with it and the position in these.
fn parse(cursor: &[u8], fingerprint: &str) -> Option<(u16, u16, u64)> {
    let mut parts = cursor.splitn(3, |byte| *byte == b'-');
    let (place, tag, position) = (parts.next()?, parts.next()?, parts.next()?);
    let position = std::str::from_utf8(position).ok()?.parse().ok()?;
    let slot = slot_of(tag);
    let last = place.strip_prefix(fingerprint.as_bytes());
    let last = last.and_then(|last| u16::from_str_radix(std::str::from_utf8(last).ok()?, 16).ok());
    Some(match last.filter(|last| (slot..=LAST).contains(last)) {
        Some(last) => (slot, last, position),
        None => (slot, LAST, 0),
    })
}

/// Whether this node owns all of these slots.
fn are_own(engine: &Engine, slots: &RangeInclusive<u16>) -> bool {
    let map = engine.cluster().map();
    slots.clone().all(|slot| map.is_own(slot))
}

/// Returns the last of the slots from this one on that have the same owner.
fn last_of_owner(engine: &Engine, slot: u16) -> u16 {
    let map = engine.cluster().map();
    let owner_of = |slot: u16| map.owners.get(usize::from(slot)).copied().flatten();
    (slot..LAST).find(|last| owner_of(*last + 1) != owner_of(slot)).unwrap_or(LAST)
}

/// One call.
struct SlotScan {
    walk: KeyWalk,
    filter: Filter,
    /// Entries that are still to be visited.
    left: usize,
    names: Vec<Vec<u8>>,
    slots: RangeInclusive<u16>,
    /// The scan continues with the slot after these.
    goes_on: bool,
    /// Cursor of the call.
    cursor: Vec<u8>,
    /// The node owned the slots when the call began.
    were_own: bool,
}

impl SlotScan {
    fn piece(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        let SlotScan { walk, filter, left, names, .. } = self;
        let shown = |entry: &KeyEntry| names.push(entry.key().to_vec());
        let used = walk.piece(&mut cx.keys, (*left).min(PIECE), filter, shown)?;
        *left = left.saturating_sub(used.unwrap_or(0));
        if used.is_some() && *left > 0 {
            return Ok(false);
        }
        let cursor = match used {
            // Keys of a slot that has left since may have been removed before they were seen.
            _ if self.were_own && !are_own(cx.engine, &self.slots) => {
                String::from_utf8_lossy(&self.cursor).into_owned()
            }
            Some(_) => {
                let hasher = cx.engine.hasher();
                let first = hasher.slots_of(walk.shard).start as u16;
                let slot = TAGS[usize::from(first.max(*self.slots.start()))].as_str();
                // Other slots of the shard are walked from their beginning.
                let last = (hasher.slots_of(walk.shard).end as u16 - 1).min(*self.slots.end());
                format!("{}{last:04x}-{{{slot}}}-{}", fingerprint(cx.engine), walk.position)
            }
            None if self.goes_on && *self.slots.end() < LAST => beginning(*self.slots.end() + 1),
            None => "0".to_owned(),
        };
        cx.reply.array(2);
        cx.reply.bulk(cursor.as_bytes());
        cx.reply.array(self.names.len());
        self.names.iter().for_each(|name| cx.reply.bulk(name));
        Ok(true)
    }
}

impl Resumable for SlotScan {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let done = self.piece(cx);
        cx.ends(done)
    }
}

/// Returns the words after the cursor without SLOT, and the slot behind that.
fn split_slot<'a>(args: &'a Args<'_>) -> Result<(Args<'a>, Option<u16>), Error> {
    let (mut others, mut slot, mut at) = (Vec::new(), None, 0);
    while at < args.len() {
        if at >= 2 && args.is(at, "slot") && at + 1 < args.len() {
            if slot.is_some() {
                return Err(Error::ScanSlotTwice);
            }
            slot = Some(slot_at(args, at + 1)?);
            at += 1;
        } else {
            others.push(&args[at]);
            // The pattern of MATCH may be this word, too.
            if at >= 2 && at + 1 < args.len() && ["match", "count", "type"].iter().any(|word| args.is(at, word)) {
                at += 1;
                others.push(&args[at]);
            }
        }
        at += 1;
    }
    Ok((others.into_iter().collect(), slot))
}

/// CLUSTERSCAN.
pub(super) fn cluster_scan(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let (args, wanted) = split_slot(args)?;
    let words = ScanWords::parse(&args, 2, Scanned::Keys)?;
    let matched = words.pattern.and_then(slot_of_pattern);
    // No slot is left if the pattern is about another slot than SLOT.
    let is_void = wanted.is_some() && matched.is_some() && wanted != matched;
    let named = |cursor: String, cx: &mut Context<'_>| {
        cx.reply.array(2);
        cx.reply.bulk(cursor.as_bytes());
        cx.reply.array(0);
        Ok(())
    };
    if &args[1] == b"0" {
        let first = wanted.or(matched).unwrap_or(0);
        return named(if is_void { "0".to_owned() } else { beginning(first) }, cx);
    }
    let (slot, last, position) = parse(&args[1], &fingerprint(cx.engine)).ok_or(Error::ClusterScanCursor)?;
    if wanted.is_some_and(|wanted| wanted != slot) {
        return Err(Error::ScanSlotMismatch);
    }
    if let Some(matched) = matched.filter(|matched| *matched != slot) {
        let is_ahead = !is_void && matched > slot;
        return named(if is_ahead { beginning(matched) } else { "0".to_owned() }, cx);
    }
    let is_single = wanted.or(matched).is_some();
    let last = if is_single { slot } else { last.min(last_of_owner(cx.engine, slot)) };
    let slots = slot..=last;
    let walk = KeyWalk::of_slots(&cx.keys, &slots, position);
    let filter = Filter {
        pattern: words.pattern.map(<[u8]>::to_vec),
        kind: words.kind,
        slots: Some(slots.clone()),
        ..Filter::default()
    };
    let (were_own, cursor) = (are_own(cx.engine, &slots), args[1].to_vec());
    let (left, names, goes_on) = (words.count, Vec::new(), !is_single);
    let mut scan = SlotScan { walk, filter, left, names, slots, goes_on, cursor, were_own };
    if !scan.piece(cx)? {
        cx.flow = Flow::more(scan);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;
    use cluster::slot_map::SlotMap;
    use std::ops::Range;

    #[test]
    fn every_slot_has_the_tag_that_valkey_gives_it() {
        assert!((0..SLOTS).all(|slot| usize::from(slot_of(TAGS[slot].as_bytes())) == slot));
        assert_eq!([0, 1, 2, 9, 16383].map(|slot: usize| TAGS[slot].as_str()), ["06S", "Qi", "5L5", "ru", "6ZJ"]);
    }

    /// Returns a client of a node's engine that has these slots of a cluster.
    fn client(own: Range<usize>) -> Client {
        let client = Client::new();
        client.engine().persistence_status().set_clustered(true);
        set_own(&client, own);
        client
    }

    fn set_own(client: &Client, own: Range<usize>) {
        let owners = (0..SLOTS).map(|slot| Some(u16::from(!own.contains(&slot)))).collect();
        client.engine().set_slot_map(SlotMap { is_up: true, serving: Some(0), owners, ..SlotMap::default() });
    }

    /// Returns the cursor of a reply, and the names.
    fn call(client: &mut Client, cursor: &str, count: usize) -> (String, Vec<String>) {
        let reply = client.run(&format!("CLUSTERSCAN {cursor} COUNT {count}"));
        let words = reply.split(['[', ']', ',', ' ', '"']).filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(str::to_owned).collect();
        (words[0].clone(), words[1..].to_vec())
    }

    #[test]
    fn a_slot_that_arrives_in_the_middle_is_walked_from_its_beginning() {
        let mut client = client(0..8);
        let key = |slot: usize, number: usize| format!("{{{}}}{number}", TAGS[slot]);
        for number in 0..300 {
            client.run(&format!("SET {} v", key(7, number)));
        }
        let (mut cursor, mut found) = call(&mut client, &beginning(7), 200);
        assert!((1..300).contains(&found.len()), "the walk is in the middle: {}", found.len());
        // The next slot has keys at all places of the shard.
        set_own(&client, 0..9);
        for number in 0..300 {
            client.run(&format!("SET {} v", key(8, number)));
        }
        while cursor != beginning(9) {
            let (next, names) = call(&mut client, &cursor, 200);
            assert_ne!(next, cursor);
            found.extend(names);
            cursor = next;
        }
        for (slot, number) in [7, 8].into_iter().flat_map(|slot| (0..300).map(move |number| (slot, number))) {
            assert!(found.contains(&key(slot, number)), "key {number} of slot {slot}");
        }
    }
}
