//! The DEBUG subcommands that harm the server: they end it, in good order or not, block it, or lose memory.

use crate::core::args::Args;
use crate::core::context::Context;
use crate::persistence::prepare_shutdown::{self, HowToEnd};
use crate::server::config::rewrite_file;
use engine::Error;
use std::alloc::{Layout, handle_alloc_error};
use std::time::Duration;

pub fn assert(_: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    panic!("DEBUG ASSERT: 1 == 2")
}

pub fn panic(_: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    panic!("DEBUG PANIC")
}

pub fn out_of_memory(_: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    handle_alloc_error(Layout::array::<u8>(isize::MAX as usize).unwrap_or(Layout::new::<u8>()))
}

pub fn segfault(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.host().crash();
    Ok(())
}

pub fn leak(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    std::mem::forget(args[2].to_vec());
    cx.reply.ok();
    Ok(())
}

/// Blocks all clients, whichever thread serves them.
pub fn sleep(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let seconds = resp::number::parse_f64_clamped(&args[2]).unwrap_or(0.0).clamp(0.0, 3600.0);
    cx.keys.escalate()?;
    let time = Duration::from_secs_f64(seconds);
    cx.engine.host().sleep(time);
    // Clients that are served after this command are served that much later.
    cx.now.unix_us.0 += time.as_micros() as i64;
    cx.reply.ok();
    Ok(())
}

pub fn crash_and_recover(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    begin_anew(cx, args, false)
}

pub fn restart(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    begin_anew(cx, args, true)
}

/// Restarts the server, after so many milliseconds: in good order, with everything saved, or as after a crash.
fn begin_anew(cx: &mut Context<'_>, args: &Args<'_>, gracefully: bool) -> Result<(), Error> {
    let delay = args.get(2).map(|_| args.int(2)).transpose()?.unwrap_or(0).max(0) as u64;
    let host = cx.engine.host();
    let (has_file, start) = (!host.process().config_file.is_empty(), cx.reply.len());
    let how = HowToEnd { is_now: true, ..HowToEnd::default() };
    let saved =
        !gracefully || (!has_file || rewrite_file(cx, false).is_ok()) && prepare_shutdown::end_server(cx.engine, how);
    if saved {
        std::thread::sleep(Duration::from_millis(delay));
        host.log(&format!("Can't restart: {}", host.restart()));
    }
    cx.reply.truncate(start);
    Err(Error::DebugRestart)
}
