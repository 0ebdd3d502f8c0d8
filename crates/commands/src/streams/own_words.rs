//! Commands of the change log for state that only streams of this server have, as `stream_records` writes them.

use crate::core::args::Args;
use crate::core::context::Context;
use crate::streams::claim::no_key_or_group;
use crate::streams::stream::parse_id;
use crate::streams::stream_records::came_at;
use engine::Error;
use persistence::dump;
use resp::number::parse_i64;
use structures::stream::{Pending, ProducerMemory, Stream};

/// Runs an XACK of such state.
pub(crate) fn take(cx: &mut Context<'_>, args: &Args<'_>) -> Result<(), Error> {
    let (now, engine) = (cx.now_ms().0, cx.engine);
    let mut edit = cx.keys.edit(cx.key(args, 1));
    if edit.collection::<Stream>()?.is_none() {
        cx.reply.int(0);
        return Ok(());
    }
    let is_taken = edit.with(|stream: &mut Stream| match (&args[3], args.len()) {
        (b"IDMP", 7) => {
            let entry = parse_id(&args[6], 0)?;
            stream.idempotency_mut().remember(&args[4], args[5].into(), entry, came_at(engine, entry, now));
            Ok(true)
        }
        (b"IDMP-DURATION", 7) => {
            let number = |at: usize| parse_i64(&args[at]).and_then(|number| u32::try_from(number).ok());
            let (seconds, messages) = (number(4).ok_or(Error::Syntax)?, number(6).ok_or(Error::Syntax)?);
            stream.idempotency_mut().set_memory(ProducerMemory { seconds, max_messages: messages.max(1) });
            Ok(true)
        }
        (b"STATE", 5) => Ok(dump::restore_stream_state(stream, &args[4])),
        _ => Ok(false),
    })??;
    if is_taken {
        edit.commit_silently(1);
    } else {
        edit.unchanged();
    }
    cx.reply.int(0);
    Ok(())
}

/// Runs an XCLAIM of an entry that was given back.
pub(crate) fn give_back(cx: &mut Context<'_>, args: &Args<'_>) -> Result<(), Error> {
    let (id, deliveries) = (parse_id(&args[5], 0)?, u64::try_from(args.int(9)?).map_err(|_| Error::NotPositive)?);
    let mut edit = cx.keys.edit(cx.key(args, 1));
    if edit.collection::<Stream>()?.is_none_or(|stream| stream.group(&args[2]).is_none()) {
        return Err(no_key_or_group(&args[1], &args[2]));
    }
    edit.with(|stream: &mut Stream| {
        if let Some(group) = stream.group_mut(&args[2]) {
            group.assign(id, Pending { delivered_at: 0, deliveries, consumer: None });
        }
    })?;
    edit.commit_silently(1);
    cx.reply.array(0);
    Ok(())
}
