//! The change log's text, a command at a time, for readers that look for commands about some slots.

use crate::core::args::Args;
use crate::core::cluster_routing::slot_of_call;
use crate::core::command_table::accepted;
use engine::Engine;
use engine::per_worker::LINK_PLACE;
use engine::stats::slot_traffic::SlotUse;
use resp::number::parse_i64;
use std::ops::Range;

/// Returns the commands of a text, and their places.
pub(super) fn commands_of(text: &[u8]) -> impl Iterator<Item = (Args<'_>, Range<usize>)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let (args, len) = command(text.get(start..)?)?;
        let range = start..start + len;
        start = range.end;
        Some((args, range))
    })
}

/// Counts the bytes of a text that this many replicas get, for the slots of its commands.
pub fn count_sent(engine: &Engine, text: &[u8], replicas: usize) {
    for (args, range) in commands_of(text) {
        let Some(entry) = accepted(&args) else { continue };
        if let Ok(Some(slot)) = slot_of_call(entry.command, &args) {
            let sent = range.len().saturating_mul(replicas) as u64;
            engine.slot_traffic().add(LINK_PLACE, slot, SlotUse { sent, ..SlotUse::default() });
        }
    }
}

/// Returns the command that a text begins with, and its length.
fn command(text: &[u8]) -> Option<(Args<'_>, usize)> {
    let (count, mut at) = number(text, 0, b'*')?;
    let mut args = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        let (len, start) = number(text, at, b'$')?;
        args.push(text.get(start..start.checked_add(len)?)?);
        at = start + len + 2;
    }
    Some((args.into_iter().collect(), at))
}

/// Returns the number behind a sign, and the end of its line.
fn number(text: &[u8], at: usize, sign: u8) -> Option<(usize, usize)> {
    let line = text.get(at..)?.strip_prefix(&[sign])?;
    let len = line.iter().position(|byte| *byte == b'\r')?;
    let number = usize::try_from(parse_i64(&line[..len])?).ok()?;
    Some((number, at + 1 + len + 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    #[test]
    fn each_replica_counts_for_the_slots_of_what_it_gets() {
        let client = Client::new();
        let mut text = Vec::new();
        for words in [&["SET", "a", "1"][..], &["SELECT", "1"], &["DEL", "a", "b"], &["INCR", "b"]] {
            resp::encode_command(&mut text, words);
        }
        assert_eq!(commands_of(&text).count(), 4);
        assert_eq!(commands_of(&text[..30]).count(), 1, "what is cut off is none");
        count_sent(client.engine(), &text, 2);
        let sent = |key: &[u8]| client.engine().slot_traffic().of(engine::data::slot::slot_of(key)).sent;
        assert_eq!((sent(b"a"), sent(b"b")), (2 * 27, 2 * 21));
    }
}
