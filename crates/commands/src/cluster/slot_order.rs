//! CLUSTER SETSLOT: replicas get it before it is run, so that a replica that takes over has it.

use super::keys_in_slot::{has_keys_in, slot_at};
use super::node_access::{must_be_clustered, order, visit};
use crate::blocking::{TimedOut, Wait};
use crate::core::args::Args;
use crate::core::context::{Blocking, Context, Flow};
use cluster::bus::{OrderError, SlotAction};
use engine::status::replication_status::{AckedEnd, ReplicaInfo, ReplicaWait};
use engine::time::SteadyMs;
use engine::{Error, Word};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

/// Time limit of the wait for replicas, unless the client sets one.
const PATIENCE_MS: i64 = 2000;

pub(super) fn set_slot(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let from_primary = cx.keys.origin().caller.is_obeyed();
    let slot = slot_at(args, 2)?;
    let names_node = ["migrating", "importing", "node"].iter().any(|word| args.is(3, word)) && args.len() >= 5;
    let action = match () {
        () if names_node && args.is(3, "migrating") => SlotAction::Migrating(&args[4]),
        () if names_node && args.is(3, "importing") => SlotAction::Importing(&args[4]),
        () if names_node => SlotAction::Node(&args[4]),
        () if args.is(3, "stable") => SlotAction::Stable,
        () => return Err(Error::SetSlotWords),
    };
    let deadline = deadline(cx, args, if names_node { 5 } else { 4 })?;
    let has_keys = matches!(action, SlotAction::Node(_)) && has_keys_in(cx, slot)?;
    if cx.blocking != Blocking::Waiting {
        let refused = |reason: OrderError| Error::ClusterOrder(Word::of(reason.to_string()));
        visit(|bus, _| bus.check_set_slot(slot, action, has_keys, from_primary))?.map_err(refused)?;
        if tell_replicas(cx, args, deadline) {
            return Ok(());
        }
    }
    order(cx, args, |bus, now| bus.set_slot(slot, action, has_keys, from_primary, now))
}

/// Returns the end of the wait for replicas; None: the wait has no end.
/// The last time limit counts; other words are ignored.
fn deadline(cx: &Context<'_>, args: &Args<'_>, options: usize) -> Result<Option<SteadyMs>, Error> {
    let mut deadline = Some(cx.steady_now().after(PATIENCE_MS));
    for index in (options..args.len()).filter(|index| args.is(*index, "timeout")) {
        if index + 1 == args.len() {
            return Err(Error::MissingTimeout);
        }
        deadline = cx.deadline_ms(&args[index + 1])?;
    }
    Ok(deadline)
}

/// Sends the order to replicas, if there is one that accepts it. True: the client waits, and the command runs again
/// when all of these have the order.
fn tell_replicas(cx: &mut Context<'_>, args: &Args<'_>, deadline: Option<SteadyMs>) -> bool {
    let status = cx.engine.replication();
    let takes = |replica: &&Arc<ReplicaInfo>| replica.is_online() && replica.takes_slot_orders();
    let replicas = status.replicas().iter().filter(takes).count();
    if replicas == 0 {
        return false;
    }
    let Some(offset) = cx.keys.tell_replicas_now(args.iter()) else { return false };
    if !cx.may_block() {
        return false;
    }
    let timed_out = Some(TimedOut::Bytes(b"-NOREPLICAS Not enough good replicas to write.\r\n"));
    cx.wait(args, [], Wait { timed_out, ..Wait::until(deadline) });
    if let Flow::Wait(ticket) = &cx.flow {
        let (acked, ticket) = (Arc::new(AtomicI64::new(0)), Arc::clone(ticket));
        status.add_wait(ReplicaWait { offset, replicas, durable: None, acked, end: AckedEnd::RunAgain, ticket });
        cx.engine.host().ask_replicas();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::dispatch;
    use crate::testing::Client;

    #[test]
    fn words_that_are_no_time_limit_are_ignored() {
        let client = Client::new();
        let limit = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let options = if words[3] == "STABLE" { 4 } else { 5 };
            let args = words.iter().map(|word| word.as_bytes()).collect();
            let mut limit = None;
            dispatch::internal(client.engine(), client.now(), |cx| {
                limit = Some(deadline(cx, &args, options));
                Ok(())
            })
            .expect("nothing waits");
            limit.expect("it was run")
        };
        let default = limit("CLUSTER SETSLOT 5 STABLE").expect("a limit");
        assert_eq!(limit("CLUSTER SETSLOT 5 STABLE a b"), Ok(default));
        assert_eq!(limit("CLUSTER SETSLOT 5 NODE timeout a"), Ok(default));
        assert_eq!(limit("CLUSTER SETSLOT 5 STABLE a timeout 0"), Ok(None));
        assert_eq!(limit("CLUSTER SETSLOT 5 STABLE timeout 0 timeout 2000 a"), Ok(default));
        assert_eq!(limit("CLUSTER SETSLOT 5 NODE n a TIMEOUT"), Err(Error::MissingTimeout));
        assert!(limit("CLUSTER SETSLOT 5 NODE n a TIMEOUT x").is_err());
    }
}
