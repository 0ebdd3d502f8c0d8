//! Changes of streams as the change log has them.
//!
//! State that streams have here alone is in words that every server accepts:
//!
//! ```text
//!   XACK key GROUP IDMP producer message entry                  a producer's message has become this entry
//!   XACK key GROUP IDMP-DURATION seconds IDMP-MAXSIZE number    for how long messages are remembered, and how many
//!   XACK key GROUP STATE bytes                                  all of that, and what groups were given back
//!   XCLAIM key group "" -1 id TIME 0 RETRYCOUNT number FORCE JUSTID     an entry was given back to its group
//! ```
//!
//! A server that has no such group looks no further than at its name, so XACK changes nothing there; what is
//! acknowledged otherwise is ids alone. An entry that was given back is claimable at once by anyone: other servers have
//! it with a consumer without a name since 1970. They log 0 as the time that an entry was idle, so -1 says that nobody
//! has it. Words of clients are never taken for these (`own_words`).

use crate::core::args::Args;
use engine::Engine;
use engine::keyspace::origin::Asker;
use engine::propagation::effects::Record;
use engine::propagation::logged_words::{OWN_GROUP, record, record_of};
use structures::stream::{ConsumerGroup, Id, Pending, ProducerMemory};

/// Takes pending entries from a group, as the change log says it.
pub(crate) fn acknowledged_record(key: &[u8], group: &[u8], ids: &[Id]) -> Record {
    record_of(&[b"XACK", key, group], ids.iter().map(|id| id.to_vec()))
}

/// Gives a pending entry to a consumer, as the change log says it.
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

/// How far a group has read, as the change log says it.
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

/// Deletes entries, as the change log says it.
pub(crate) fn deleted_record(key: &[u8], ids: &[Id]) -> Record {
    record_of(&[b"XDEL", key], ids.iter().map(|id| id.to_vec()))
}

/// A message that has become an entry.
pub(crate) fn message(key: &[u8], producer: &[u8], message: &[u8], entry: Id) -> Record {
    record(&[b"XACK", key, OWN_GROUP, b"IDMP", producer, message, &entry.to_vec()])
}

/// How long and how many messages are remembered.
pub(crate) fn memory(key: &[u8], memory: ProducerMemory) -> Record {
    let (seconds, messages) = (memory.seconds.to_string(), memory.max_messages.to_string());
    let limits: [&[u8]; 4] = [b"IDMP-DURATION", seconds.as_bytes(), b"IDMP-MAXSIZE", messages.as_bytes()];
    record(&[&[&b"XACK"[..], key, OWN_GROUP], &limits[..]].concat())
}

/// When a message came that became this entry: what a log is read from came when its entry was added.
pub(crate) fn came_at(engine: &Engine, entry: Id, now: i64) -> i64 {
    let is_loading = engine.persistence_status().deny_reasons().is_loading();
    if is_loading { i64::try_from(entry.ms).unwrap_or(now).min(now) } else { now }
}

/// Whether this XACK is of state that streams have here alone.
pub(crate) fn are_acknowledged(args: &Args<'_>, asker: Asker) -> bool {
    args[2] == *OWN_GROUP && matches!(&args[3], b"IDMP" | b"IDMP-DURATION" | b"STATE") && asker.is_obeyed()
}

/// Whether this XCLAIM is of an entry that was given back.
pub(crate) fn are_claimed(args: &Args<'_>, asker: Asker) -> bool {
    args[3].is_empty() && args[4] == *b"-1" && args.len() == 12 && asker.is_obeyed()
}
