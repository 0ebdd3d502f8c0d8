//! CLUSTERSCAN: SCAN over a cluster, from node to node.
//!
//! A cursor is `place-{tag}-position`. The tag has the slot that comes next, so that a client sends the call to its
//! owner; `place` says whose position it is, since another node's order is another, and is `0` where a node has only
//! named the next slot. A call goes through the slots from there on that have the same owner.

use super::bus_desk::must_be_clustered;
use super::keys_in_slot::slot_at;
use crate::core::args::Args;
use crate::core::context::{Context, Flow, Piecewise};
use crate::keys::key_walk::{Filter, KeyWalk, PIECE};
use crate::keys::scan_words::{ScanWords, Scanned};
use engine::Error;
use engine::data::slot::{SLOTS, slot_of, slot_of_pattern};
use engine::data::value::KeyEntry;
use engine::keyspace::Keyspace;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// The last slot.
const LAST: u16 = (SLOTS - 1) as u16;

/// What tags are made of, in the order in which they are tried.
const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// For each slot the shortest word that has it, and of these the first.
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

/// The cursor that a slot is begun with, at whatever node.
fn beginning(slot: u16) -> String {
    format!("0-{{{}}}-0", TAGS[usize::from(slot)])
}

/// Six digits that say in which order this node keeps its keys.
fn fingerprint(keyspace: &Keyspace) -> String {
    // Few bits of a hash: they tell whether its seed is the same, and no more of it.
    format!("{:06x}", keyspace.hasher().local_of(b"fingerprint") >> 32 & 0xFF_FFFF)
}

/// The slot of a cursor, and the position in it if it is this node's.
fn parse(cursor: &[u8], fingerprint: &str) -> Option<(u16, u64)> {
    let mut parts = cursor.splitn(3, |byte| *byte == b'-');
    let (place, tag, position) = (parts.next()?, parts.next()?, parts.next()?);
    let position = std::str::from_utf8(position).ok()?.parse().ok()?;
    Some((slot_of(tag), if place == fingerprint.as_bytes() { position } else { 0 }))
}

/// One call under way.
struct SlotScan {
    walk: KeyWalk,
    filter: Filter,
    /// Entries that are still to be visited.
    left: usize,
    names: Vec<Vec<u8>>,
    slots: RangeInclusive<u16>,
    /// The scan goes on with the slot after these.
    goes_on: bool,
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
            Some(_) => {
                let hasher = cx.engine.hasher();
                let first = hasher.slots_of(walk.shard).start as u16;
                let slot = TAGS[usize::from(first.max(*self.slots.start()))].as_str();
                format!("{}-{{{slot}}}-{}", fingerprint(cx.engine), walk.position)
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

impl Piecewise for SlotScan {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        let done = self.piece(cx);
        cx.ends(done)
    }
}

/// The words after the cursor, without SLOT, and what that says.
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
            // What MATCH is told may be this word, too.
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
    // Then no slot has what is wanted.
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
    let (slot, position) = parse(&args[1], &fingerprint(cx.engine)).ok_or(Error::ClusterScanCursor)?;
    if wanted.is_some_and(|wanted| wanted != slot) {
        return Err(Error::ScanSlotMismatch);
    }
    if let Some(matched) = matched.filter(|matched| *matched != slot) {
        let is_ahead = !is_void && matched > slot;
        return named(if is_ahead { beginning(matched) } else { "0".to_owned() }, cx);
    }
    let is_single = wanted.or(matched).is_some();
    let map = cx.engine.cluster().map();
    let owner_of = |slot: u16| map.owners.get(usize::from(slot)).copied().flatten();
    let mut last = slot;
    while !is_single && last < LAST && owner_of(last + 1) == owner_of(slot) {
        last += 1;
    }
    let slots = slot..=last;
    let walk = KeyWalk::of_slots(&cx.keys, &slots, position);
    let filter = Filter {
        pattern: words.pattern.map(<[u8]>::to_vec),
        kind: words.kind,
        slots: Some(slots.clone()),
        ..Filter::default()
    };
    let mut scan = SlotScan { walk, filter, left: words.count, names: Vec::new(), slots, goes_on: !is_single };
    if !scan.piece(cx)? {
        cx.flow = Flow::more(scan);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_the_tag_that_valkey_gives_it() {
        assert!((0..SLOTS).all(|slot| usize::from(slot_of(TAGS[slot].as_bytes())) == slot));
        assert_eq!([0, 1, 2, 9, 16383].map(|slot: usize| TAGS[slot].as_str()), ["06S", "Qi", "5L5", "ru", "6ZJ"]);
    }
}
