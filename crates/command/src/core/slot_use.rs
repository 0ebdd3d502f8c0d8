//! The slot of a cluster that a command's time and bytes count for, while CLUSTER SLOT-STATS wants it.
//!
//! EXEC and scripts count as a whole, for the slot of their commands; a command across slots counts for none.

use crate::core::args::Args;
use crate::core::cluster_routing::slot_of_call;
use crate::core::command::{CommandEntry, RUNS_QUEUED};
use crate::core::session::{InnerSlot, Session, SlotOfCall, Took};
use engine::Engine;
use engine::keyspace::origin::Asker;
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
pub(crate) fn join(engine: &Engine, session: &mut Session, entry: &CommandEntry, args: &Args<'_>) {
    if engine.slot_traffic().is_on() {
        let is_queued = !session.in_script;
        let inner = session.inner_slot.get_or_insert_default();
        add_slot(inner, entry, args);
        inner.request += if is_queued { args.text().len() } else { 0 };
    }
}

/// Returns the slot of a command that has run or begins to wait, and is no part of another one.
pub(crate) fn of_call(
    engine: &Engine,
    session: &mut Session,
    entry: &CommandEntry,
    args: &Args<'_>,
) -> Option<SlotOfCall> {
    let inner = session.inner_slot.take();
    if !engine.slot_traffic().is_on() {
        return None;
    }
    let mut inner = inner.map(|inner| *inner).unwrap_or_default();
    add_slot(&mut inner, entry, args);
    let slot = inner.slot.filter(|_| !inner.is_across)?;
    let queued = inner.request + if entry.command.flags.has(RUNS_QUEUED) { MULTI } else { 0 };
    Some(SlotOfCall { slot, queued, is_answered: session.asker != Asker::Primary })
}

/// Counts a command that has ended.
pub(crate) fn count(engine: &Engine, worker: usize, call: Option<SlotOfCall>, nanos: u64, took: &Took) {
    let Some(SlotOfCall { slot, queued, is_answered }) = call.filter(|_| engine.slot_traffic().is_on()) else { return };
    let sent = if is_answered { took.answer as u64 } else { 0 };
    engine.slot_traffic().add(worker, slot, SlotUse { nanos, received: (took.request + queued) as u64, sent });
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;
    use engine::stats::slot_traffic::SlotUse;

    #[test]
    fn transactions_and_scripts_count_as_a_whole() {
        let mut client = Client::new();
        client.engine().count_by_slot(true);
        let slot = engine::data::slot::slot_of(b"a");
        let taken = |client: &mut Client| {
            let SlotUse { nanos: _, received, sent } = client.engine().slot_traffic().of(slot);
            client.engine().slot_traffic().reset(|_| true);
            (received, sent)
        };
        client.is("SET a 1", "+OK");
        assert_eq!(taken(&mut client).1, 5);
        client.is("MULTI", "+OK").is("SET a 1", "+QUEUED").is("GET a", "+QUEUED");
        assert_eq!(taken(&mut client), (0, 0));
        client.is("EXEC", "[+OK 1]");
        let (received, sent) = taken(&mut client);
        assert_eq!(sent, 4 + 5 + 7);
        assert!(received > 15 + 27 + 20, "MULTI, and all that was queued");
        client.is("EVAL redis.call('set','a',1) 0", "nil");
        assert!(taken(&mut client).0 > 0);
        client.is("MULTI", "+OK").is("SET a 1", "+QUEUED").is("GET b", "+QUEUED").is("EXEC", "[+OK nil]");
        client.is("MGET a b", "[1 nil]").is("PING", "+PONG");
        assert_eq!(taken(&mut client), (0, 0), "what goes across slots counts for none");
    }
}
