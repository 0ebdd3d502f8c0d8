//! WAITAOF: waits until the client's writes are durable.

use crate::blocking::{TimedOut, Wait};
use crate::core::args::Args;
use crate::core::context::{Context, Flow};
use engine::status::replication_status::{AckedEnd, ReplicaWait};
use engine::{Engine, Error, Word};
use persistence::aof::{Aof, State, of};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

pub fn waitaof(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let local = args.int(1)?;
    if !(0..=1).contains(&local) {
        return Err(Error::NotZeroOrOne);
    }
    let replicas = args.int(2).ok().filter(|count| *count >= 0).ok_or(Error::NotPositive)?;
    let deadline = cx.deadline_ms(&args[3])?;
    let status = cx.engine.replication();
    if status.is_replica() {
        let text = "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are \
                    just local and are not propagated.";
        return Err(Error::Verbatim(Word::of(text.as_bytes())));
    }
    let aof = of(cx.engine).filter(|aof| aof.state() != State::Off);
    if local > 0 && aof.is_none() {
        return Err(Error::WaitaofWithoutAof);
    }
    let offset = cx.session.appended_to();
    let durable = aof.is_some_and(|aof| aof.state() == State::On && aof.journal.synced() >= offset);
    let synced = status.count_acked(offset, true) as i64;
    if i64::from(durable) >= local && synced >= replicas || !cx.may_block() {
        cx.reply.array(2);
        cx.reply.int(durable.into());
        cx.reply.int(synced);
        return Ok(());
    }
    let acked = Arc::new(AtomicI64::new(synced));
    let timed_out = Some(TimedOut::Durable(durable, Arc::clone(&acked)));
    cx.wait(args, [], Wait { timed_out, ..Wait::until(deadline) });
    let Flow::Wait(ticket) = &cx.flow else { return Ok(()) };
    if replicas > 0 {
        let (replicas, ticket) = (usize::try_from(replicas).unwrap_or(usize::MAX), Arc::clone(ticket));
        let durable = Some(local > 0);
        status.add_wait(ReplicaWait { offset, replicas, durable, acked, end: AckedEnd::Reply, ticket });
        cx.engine.host().ask_replicas();
    }
    if let (Some(aof), 1..) = (aof, local) {
        // While replicas are waited for, too, the log may still be turned off.
        aof.wait_for(if replicas == 0 { offset } else { u64::MAX }, ticket);
        // The log may have become durable meanwhile.
        end_waits(cx.engine, aof);
    }
    Ok(())
}

/// Replies to clients whose wait has ended.
pub fn end_waits(engine: &Engine, aof: &Aof) {
    match aof.state() {
        State::Off => aof.end_waits(|ticket| {
            let error = ticket.request().error_reply(&Error::WaitaofWithoutAof);
            engine.host().deliver(ticket, error);
        }),
        State::On => aof.end_waits(|ticket| engine.host().deliver(ticket, b"*2\r\n:1\r\n:0\r\n".to_vec())),
        State::Waiting => {}
    }
}
