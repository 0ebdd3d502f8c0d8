//! The DEBUG subcommands about the bus of a cluster. A server that is no node has no bus for them to change.

use super::switches::number;
use crate::cluster::{change_debug, kill_links};
use crate::core::args::Args;
use crate::core::command_table::shown;
use crate::core::context::Context;
use cluster::bus::DebugSettings;
use engine::{Error, Word};

fn change(cx: &mut Context<'_>, change: impl FnOnce(&mut DebugSettings)) -> Result<(), Error> {
    if cx.engine.is_clustered() {
        change_debug(change)?;
    }
    cx.reply.ok();
    Ok(())
}

/// Sets the type of the packets that are not taken: -1 for none, -2 for all.
pub fn drop_packet_filter(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let filter = args.int(2)?;
    change(cx, |debug| debug.drop_packet_filter = filter)
}

/// Sets whether a packet that is not taken closes its link.
pub fn close_link_on_packet_drop(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let is_on = number(args) != 0;
    change(cx, |debug| debug.close_link_on_drop = is_on)
}

/// Sets whether nodes get a PING only when it is due.
pub fn disable_random_ping(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let is_on = number(args) != 0;
    change(cx, |debug| debug.disable_random_ping = is_on)
}

/// Sets whether lost links stay lost.
pub fn disable_reconnection(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let is_on = number(args) != 0;
    change(cx, |debug| debug.disable_reconnection = is_on)
}

/// Prevents a step of migrations of slots.
pub fn slot_migration(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let is_on = resp::number::parse_i64(&args[3]).is_some_and(|number| number != 0);
    match () {
        () if args.is(2, "prevent-pause") => change(cx, |debug| debug.prevents_migration_pause = is_on),
        () if args.is(2, "prevent-failover") => change(cx, |debug| debug.prevents_migration_takeover = is_on),
        () => Err(Error::SubcommandUse(Word::of(shown(&args[1])), "DEBUG")),
    }
}

/// Closes links to a node, from it, or both.
pub fn cluster_link(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if !args.is(2, "kill") {
        return Err(Error::SubcommandUse(Word::of(shown(&args[1])), "DEBUG"));
    }
    if !cx.engine.is_clustered() {
        return Err(Error::DebugOfClusters);
    }
    kill_links(cx, args)
}
