//! WAITAOF: until what the client has written is durable.

use crate::core::args::Args;
use crate::core::context::{Context, Flow};
use crate::transactions::blocking::Wait;
use engine::{Engine, Error};
use persistence::aof::{Aof, State, of};

/// A local copy is all that a server without replicas can promise.
pub fn waitaof(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let local = args.int(1)?;
    if !(0..=1).contains(&local) {
        return Err(Error::NotZeroOrOne);
    }
    let replicas = args.int(2).ok().filter(|count| *count >= 0).ok_or(Error::NotPositive)?;
    let deadline = cx.deadline_ms(&args[3])?;
    let aof = of(cx.engine).filter(|aof| aof.state() != State::Off);
    if local > 0 && aof.is_none() {
        return Err(Error::WaitaofWithoutAof);
    }
    let offset = cx.session.logged_at;
    let durable = aof.is_some_and(|aof| aof.state() == State::On && aof.journal.synced() >= offset);
    if i64::from(durable) >= local && replicas == 0 || !cx.may_block() {
        cx.reply.array(2);
        cx.reply.int(durable.into());
        cx.reply.int(0);
        return Ok(());
    }
    let timed_out: &[u8] = if durable { b"*2\r\n:1\r\n:0\r\n" } else { b"*2\r\n:0\r\n:0\r\n" };
    cx.wait(args, [], Wait { timed_out: Some(timed_out), ..Wait::until(deadline) });
    if let (Flow::Wait(ticket), Some(aof), 1..) = (&cx.flow, aof, local) {
        // Replicas are not there to be waited for, but the log may be turned off.
        aof.wait_for(if replicas == 0 { offset } else { u64::MAX }, ticket);
        // It may have become durable meanwhile.
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
