//! Changes of streams in the change log's form.
//!
//! State that only streams of this server have is in words that every server accepts:
//!
//! ```text
//!   XACK key GROUP IDMP producer message entry                  a producer's message has become this entry
//!   XACK key GROUP IDMP-DURATION seconds IDMP-MAXSIZE number    for how long messages are remembered, and how many
//!   XACK key GROUP STATE bytes                                  all of that, and what groups were given back
//!   XCLAIM key group "" -1 id TIME 0 RETRYCOUNT number FORCE JUSTID     an entry was given back to its group
//! ```
//!
//! A server that has no such group looks no further than at its name, so XACK changes nothing there; a real
//! acknowledgement has ids alone. An entry that was given back is claimable at once by anyone: other servers have it
//! with a consumer without a name since 1970. They log 0 as the time that an entry was idle, so -1 means that no
//! consumer has it. Words of clients are never taken for these (`own_words`).

use crate::core::args::Args;
use engine::Engine;
use engine::keyspace::caller::Caller;
use engine::propagation::effects::Record;
use engine::propagation::logged_words::{OWN_GROUP, record, record_of};
use structures::stream::{ConsumerGroup, Id, Pending, ProducerMemory};

/// Returns the record that takes pending entries from a group.
pub(crate) fn acknowledged_record(key: &[u8], group: &[u8], ids: &[Id]) -> Record {
    record_of(&[b"XACK", key, group], ids.iter().map(|id| id.to_vec()))
}

/// Returns the record that gives a pending entry to a consumer.
pub(crate) fn claim_record(
    key: &[u8],
    group: &[u8],
    consumer: Vec<u8>,
    id: Id,
    pending: &Pending,
    last_id: Id,
) -> Record {
    vec![
        b"XCLAIM".to_vec(),
        key.to_vec(),
        group.to_vec(),
        consumer,
        b"0".to_vec(),
        id.to_vec(),
        b"TIME".to_vec(),
        pending.delivered_at.to_string().into_bytes(),
        b"RETRYCOUNT".to_vec(),
        pending.deliveries.to_string().into_bytes(),
        b"FORCE".to_vec(),
        b"JUSTID".to_vec(),
        b"LASTID".to_vec(),
        last_id.to_vec(),
    ]
}

/// Returns the record of a group's position.
pub(crate) fn position_record(key: &[u8], name: &[u8], group: &ConsumerGroup) -> Record {
    vec![
        b"XGROUP".to_vec(),
        b"SETID".to_vec(),
        key.to_vec(),
        name.to_vec(),
        group.last_id.to_vec(),
        b"ENTRIESREAD".to_vec(),
        group.entries_read.map_or(-1, |read| read as i64).to_string().into_bytes(),
    ]
}

/// Returns the record that deletes entries.
pub(crate) fn deleted_record(key: &[u8], ids: &[Id]) -> Record {
    record_of(&[b"XDEL", key], ids.iter().map(|id| id.to_vec()))
}

/// Returns the record of a message that has become an entry.
pub(crate) fn message(key: &[u8], producer: &[u8], message: &[u8], entry: Id) -> Record {
    record(&[b"XACK", key, OWN_GROUP, b"IDMP", producer, message, &entry.to_vec()])
}

/// Returns the record of how long and how many messages are remembered.
pub(crate) fn memory(key: &[u8], memory: ProducerMemory) -> Record {
    let (seconds, messages) = (memory.seconds.to_string(), memory.max_messages.to_string());
    let limits: [&[u8]; 4] = [b"IDMP-DURATION", seconds.as_bytes(), b"IDMP-MAXSIZE", messages.as_bytes()];
    record(&[&[&b"XACK"[..], key, OWN_GROUP], &limits[..]].concat())
}

/// Returns the time of the message that became this entry: a message from a log that is loaded came when its entry was
/// added.
pub(crate) fn came_at(engine: &Engine, entry: Id, now: i64) -> i64 {
    let is_loading = engine.persistence_status().deny_reasons().is_loading();
    if is_loading { i64::try_from(entry.ms).unwrap_or(now).min(now) } else { now }
}

/// Returns whether this XACK is of state that only streams of this server have.
pub(crate) fn are_acknowledged(args: &Args<'_>, caller: Caller) -> bool {
    args[2] == *OWN_GROUP && matches!(&args[3], b"IDMP" | b"IDMP-DURATION" | b"STATE") && caller.is_obeyed()
}

/// Returns whether this XCLAIM is of an entry that was given back.
pub(crate) fn are_claimed(args: &Args<'_>, caller: Caller) -> bool {
    args[3].is_empty() && args[4] == *b"-1" && args.len() == 12 && caller.is_obeyed()
}
