//! The slot of a cluster that a command's time and bytes count for, while CLUSTER SLOT-STATS wants it.
//!
//! EXEC and scripts count as a whole, for the slot of their commands; a command across slots counts for none.

use crate::core::args::Args;
use crate::core::cluster_routing::slot_of_call;
use crate::core::command::{CommandEntry, RUNS_QUEUED};
use crate::core::session::{InnerSlot, Session, SlotOfCall, Took};
use engine::Engine;
use engine::keyspace::caller::Caller;
use engine::stats::slot_traffic::SlotUse;

/// Bytes of `MULTI`, whose slot is not known in advance.
const MULTI: usize = b"*1\r\n$5\r\nmulti\r\n".len();

fn add_slot(inner: &mut InnerSlot, entry: &CommandEntry, args: &Args<'_>) {
    match slot_of_call(entry.command, args) {
        Ok(None) => {}
        Ok(Some(slot)) => inner.is_across |= *inner.slot.get_or_insert(slot) != slot,
        Err(_) => inner.is_across = true,
    }
}

/// Adds a command within another one that has ended.
pub fn join(engine: &Engine, session: &mut Session, entry: &CommandEntry, args: &Args<'_>) {
    if engine.slot_traffic().is_on() {
        let is_queued = !session.in_script;
        let inner = session.inner_slot.get_or_insert_default();
        add_slot(inner, entry, args);
        inner.request += if is_queued { args.text().len() } else { 0 };
    }
}

/// Returns the slot of a command that has run or begins to wait, and is no part of another one.
pub fn of_call(engine: &Engine, session: &mut Session, entry: &CommandEntry, args: &Args<'_>) -> Option<SlotOfCall> {
    let inner = session.inner_slot.take();
    if !engine.slot_traffic().is_on() {
        return None;
    }
    let mut inner = inner.map(|inner| *inner).unwrap_or_default();
    add_slot(&mut inner, entry, args);
    let slot = inner.slot.filter(|_| !inner.is_across)?;
    let queued = inner.request + if entry.command.flags.has(RUNS_QUEUED) { MULTI } else { 0 };
    Some(SlotOfCall { slot, queued, is_answered: session.caller != Caller::Primary })
}

/// Counts a command that has ended.
pub fn count(engine: &Engine, worker: usize, call: Option<SlotOfCall>, nanos: u64, took: &Took) {
    let Some(SlotOfCall { slot, queued, is_answered }) = call.filter(|_| engine.slot_traffic().is_on()) else { return };
    let sent = if is_answered { took.answer as u64 } else { 0 };
    engine.slot_traffic().add(worker, slot, SlotUse { nanos, received: (took.request + queued) as u64, sent });
}
