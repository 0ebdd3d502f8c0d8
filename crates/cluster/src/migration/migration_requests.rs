//! Arguments of MIGRATESLOTS and of SYNCSLOTS ESTABLISH and FINISH, checked against the owners of slots.

use super::job::JobName;
use super::slot_ranges::SlotRanges;
use crate::SLOTS;
use crate::node_id::{NAME_LEN, NodeId};
use crate::node_table::NodeTable;
use resp::number::parse_i64;
use std::fmt;

/// Reason for which an order is refused. Shown as the error's text without `-ERR `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError(pub String);

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RequestError {}

pub(super) fn refused<T>(text: impl Into<String>) -> Result<T, RequestError> {
    Err(RequestError(text.into()))
}

pub(super) fn syntax<T>() -> Result<T, RequestError> {
    refused("syntax error")
}

fn slot(text: &[u8]) -> Result<u16, RequestError> {
    let slot = parse_i64(text).and_then(|slot| u16::try_from(slot).ok()).filter(|slot| usize::from(*slot) < SLOTS);
    slot.ok_or_else(|| RequestError("Invalid or out of range slot".to_owned()))
}

/// Returns the ranges at the beginning of `args`, the number of arguments that they take, and the owner of all their
/// slots, which is looked up only where it matters.
pub(super) fn slot_ranges(
    args: &[&[u8]],
    nodes: Option<&NodeTable>,
) -> Result<(SlotRanges, usize, Option<NodeId>), RequestError> {
    let (mut ranges, mut owner, mut at) = (SlotRanges::default(), None, 0);
    while let Some(first) = args.get(at).filter(|first| parse_i64(first).is_some()) {
        let start = slot(first)?;
        let Some(last) = args.get(at + 1) else { return refused("No end slot for final slot range") };
        let end = slot(last)?;
        if start > end {
            return refused(format!("Start slot number {start} is greater than end slot number {end}."));
        }
        for (slot, nodes) in nodes.iter().flat_map(|nodes| (start..=end).map(move |slot| (slot, nodes))) {
            match nodes.owner(slot) {
                None => return refused(format!("Slot {slot} has no node served.")),
                Some(found) if *owner.get_or_insert(found) != found => {
                    return refused("Requested slots span multiple shards");
                }
                Some(_) => {}
            }
        }
        if let Some((before, after)) = ranges.overlapping((start, end)) {
            return refused(format!("Slot range {start}-{end} overlaps with previous range {before}-{after}."));
        }
        ranges.0.push((start, end));
        at += 2;
    }
    if ranges.0.is_empty() { refused("No slot ranges specified") } else { Ok((ranges, at, owner)) }
}

/// Returns the name of 40 bytes behind a word.
fn name_after<'a>(args: &[&'a [u8]], at: usize) -> Result<&'a [u8], RequestError> {
    match args.get(at + 1) {
        Some(name) if name.len() == NAME_LEN => Ok(name),
        _ => syntax(),
    }
}

/// Arguments of ESTABLISH.
pub(super) struct Establish {
    pub name: JobName,
    /// Unknown if the job is only tracked.
    pub source: Option<NodeId>,
    pub slots: SlotRanges,
}

/// Reads the arguments of ESTABLISH. `is_tracked`: the source does not matter. `is_importing`: whether another import
/// has a slot.
pub(super) fn establish(
    args: &[&[u8]],
    nodes: &NodeTable,
    is_tracked: bool,
    is_importing: impl Fn(u16) -> bool,
) -> Result<Establish, RequestError> {
    let (mut name, mut source, mut slots, mut owner, mut at) = (None, None, None, None, 0);
    while let Some(word) = args.get(at) {
        match () {
            () if word.eq_ignore_ascii_case(b"source") && source.is_none() => {
                let text = name_after(args, at)?;
                at += 2;
                if is_tracked {
                    continue;
                }
                let Some(node) = nodes.named(text) else {
                    return refused("Target node does not know the source node");
                };
                if node.is_myself() {
                    return refused("Source node is target node itself");
                }
                source = Some(node.id);
            }
            () if word.eq_ignore_ascii_case(b"name") && name.is_none() => {
                name = JobName::parse(name_after(args, at)?);
                at += 2;
            }
            () if word.eq_ignore_ascii_case(b"slotsrange") && slots.is_none() => {
                let (ranges, taken, found) = slot_ranges(&args[at + 1..], (!is_tracked).then_some(nodes))?;
                at += 1 + taken;
                if ranges.iter().any(&is_importing) {
                    return refused("Slot is already being imported on the target by a different migration");
                }
                (slots, owner) = (Some(ranges), found);
            }
            () => return syntax(),
        }
    }
    let (Some(name), Some(slots)) = (name, slots) else { return syntax() };
    if !is_tracked && source.is_none() {
        return syntax();
    }
    if source.is_some() && source != owner {
        return refused("Target node does not agree about current slot ownership");
    }
    Ok(Establish { name, source, slots })
}

/// Arguments of FINISH.
pub(super) struct Finish {
    pub name: JobName,
    pub state: Vec<u8>,
    pub message: Option<String>,
}

/// Reads the arguments of FINISH.
pub(super) fn finish(args: &[&[u8]]) -> Result<Finish, RequestError> {
    let (mut name, mut state, mut message, mut at) = (None, None, None, 0);
    while let Some(word) = args.get(at) {
        let Some(value) = args.get(at + 1) else { return syntax() };
        match () {
            () if word.eq_ignore_ascii_case(b"state") && state.is_none() => state = Some(value.to_vec()),
            () if word.eq_ignore_ascii_case(b"name") && name.is_none() => {
                name = JobName::parse(name_after(args, at)?);
            }
            () if word.eq_ignore_ascii_case(b"message") && message.is_none() => {
                message = Some(String::from_utf8_lossy(value).into_owned());
            }
            () => return syntax(),
        }
        at += 2;
    }
    match (name, state) {
        (Some(name), Some(state)) => Ok(Finish { name, state, message }),
        _ => syntax(),
    }
}
