//! The DEBUG subcommands that change how the server works, until they are called again.

use crate::core::args::Args;
use crate::core::command_table::shown;
use crate::core::context::Context;
use engine::clients::registry::ReplyBuffers;
use engine::config::directive_value::parse_memory;
use engine::{Error, Word};
use std::sync::atomic::Ordering::Relaxed;

/// Returns the number that is the subcommand's argument, 0 if it is none.
pub(super) fn number(args: &Args<'_>) -> i64 {
    resp::number::parse_i64_c(&args[2]).unwrap_or(0)
}

/// Sets the microseconds that the server sleeps before it writes the append-only file.
pub fn aof_flush_sleep(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if let Some(aof) = persistence::aof::of(cx.engine) {
        aof.stats.flush_sleep.store(number(args).max(0) as u64, Relaxed);
    }
    cx.reply.ok();
    Ok(())
}

/// Sets whether replies skip their buffers' first part and go to the lists behind it.
pub fn client_enforce_reply_list(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.clients().reply_buffers.skip_first.store(number(args) != 0, Relaxed);
    cx.reply.ok();
    Ok(())
}

/// Sets whether periodic work is left undone.
pub fn pause_cron(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.pause_timers(number(args) != 0);
    cx.reply.ok();
    Ok(())
}

/// Sets whether the process stops itself when a full synchronization begins, while the snapshot continues.
pub fn pause_after_fork(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.replication().stops_after_fork.store(number(args) != 0, Relaxed);
    cx.reply.ok();
    Ok(())
}

/// Sets the seconds for which the stream behind a snapshot is retained for the connection that is to ask for it.
pub fn delay_rdb_client_free(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.replication().grace.store(number(args), Relaxed);
    cx.reply.ok();
    Ok(())
}

/// Sets whether keys expire in the background.
pub fn set_active_expire(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.pause_expiry(number(args) == 0);
    cx.reply.ok();
    Ok(())
}

/// Sets whether scripts may call the commands that are denied to them.
pub fn set_disable_deny_scripts(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.scripts().allow_all(number(args) != 0);
    cx.reply.ok();
    Ok(())
}

/// Sets whether the checksums of files and dumps are believed.
pub fn set_skip_checksum_validation(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.persistence_status().skip_checksums(number(args) != 0);
    cx.reply.ok();
    Ok(())
}

/// Sets the bytes from which on an element of a list has a node of its own; 0: as usual.
pub fn quicklist_packed_threshold(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let bytes = parse_memory(&args[2]).and_then(|bytes| u32::try_from(bytes).ok());
    let bytes = bytes.ok_or(Error::DebugListpackSize)?;
    cx.engine.encoding_limits().set_large_list_elements(bytes as usize);
    cx.reply.ok();
    Ok(())
}

/// Sets how the buffers follow the size of their clients' replies.
pub fn reply_buffer(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let buffers = &cx.engine.clients().reply_buffers;
    if args.is(2, "peak-reset-time") {
        let time = match () {
            () if args.is(3, "never") => -1,
            () if args.is(3, "reset") => ReplyBuffers::PEAK_RESET_TIME,
            () => args.int(3)?,
        };
        buffers.peak_reset_time.store(time, Relaxed);
    } else if args.is(2, "resizing") {
        buffers.resizing.store(resp::number::parse_i64_c(&args[3]).unwrap_or(0) != 0, Relaxed);
    } else {
        return Err(Error::SubcommandUse(Word::of(shown(&args[1])), "DEBUG"));
    }
    cx.reply.ok();
    Ok(())
}
