//! Orders of operators: slots, nodes, epochs, failovers.

use super::keys_in_slot::slot_at;
use super::node_access::{ask, must_be_clustered, order, tell, visit};
use crate::core::args::Args;
use crate::core::context::Context;
use crate::transactions::cluster_handle::{defer_reply, handle};
use cluster::bus::{DebugSettings, FailoverMode};
use engine::{Engine, Error, Word};
use std::sync::mpsc;

/// Returns the client that gives an order, for the log.
pub(super) fn by(cx: &Context<'_>) -> String {
    let info = &cx.session.info;
    format!("id={} addr={} laddr={}", info.id, info.addr, info.laddr)
}

/// Whether there is any key.
fn has_keys(cx: &mut Context<'_>) -> Result<bool, Error> {
    let (selected, mut has_keys) = (cx.keys.db_index(), false);
    for db in 0..cx.engine.databases() as u32 {
        cx.keys.select(db);
        for shard in 0..cx.engine.locks().len() {
            has_keys |= cx.keys.shard_len(shard)? > 0;
        }
    }
    cx.keys.select(selected);
    Ok(has_keys)
}

fn single_slots(args: &Args<'_>) -> Result<Vec<(u16, u16)>, Error> {
    (2..args.len()).map(|index| slot_at(args, index).map(|slot| (slot, slot))).collect()
}

fn slot_ranges(cx: &Context<'_>, args: &Args<'_>) -> Result<Vec<(u16, u16)>, Error> {
    if args.len() % 2 == 1 {
        return Err(Error::WrongArity(Word::of(format!("cluster|{}", cx.command.name))));
    }
    (2..args.len()).step_by(2).map(|index| Ok((slot_at(args, index)?, slot_at(args, index + 1)?))).collect()
}

pub(super) fn add_slots(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let slots = single_slots(args)?;
    order(cx, args, |bus, now| bus.add_slots(&slots, now))
}

pub(super) fn add_slots_range(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let slots = slot_ranges(cx, args)?;
    order(cx, args, |bus, now| bus.add_slots(&slots, now))
}

pub(super) fn del_slots(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let slots = single_slots(args)?;
    order(cx, args, |bus, now| bus.del_slots(&slots, now))
}

pub(super) fn del_slots_range(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let slots = slot_ranges(cx, args)?;
    order(cx, args, |bus, now| bus.del_slots(&slots, now))
}

pub(super) fn flush_slots(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let has_keys = has_keys(cx)?;
    order(cx, args, |bus, now| bus.flush_slots(has_keys, now))
}

pub(super) fn set_config_epoch(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let epoch = args.int(2)?;
    order(cx, args, |bus, now| bus.set_config_epoch(epoch, now))
}

pub(super) fn bump_epoch(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let start = cx.reply.len();
    let (is_new, epoch) = tell(cx, |bus, now| bus.bump_epoch(now))?;
    cx.reply.simple(format!("{} {epoch}", if is_new { "BUMPED" } else { "STILL" }));
    defer_reply(cx, args, start);
    Ok(())
}

pub(super) fn save_config(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    tell(cx, |bus, _| bus.save_config())?;
    reply_when_saved(cx, args)
}

/// Replies whether the file was saved for the client's last order. Within a transaction or a script the command waits
/// for it at once: the outcome is a part of the reply.
fn reply_when_saved(cx: &mut Context<'_>, args: &Args<'_>) -> Result<(), Error> {
    let (handle, visit) = (handle()?, cx.session.cluster_handle);
    let unsaved = |reason: &str| {
        let text = format!("error saving the cluster node config: {reason}");
        Error::ClusterOrder(Word::of(text))
    };
    if let Some(client) = cx.wait_elsewhere(args) {
        let tell = move |engine: &Engine, failure: Option<&str>| {
            client.end(engine, failure.map_or(Ok("OK"), |reason| Err(unsaved(reason))));
        };
        handle.when_done(visit, Box::new(tell));
        cx.session.cluster_handle = 0;
        return Ok(());
    }
    let (told, outcome) = mpsc::channel();
    // The receiver lives until it has received.
    handle.when_done(visit, Box::new(move |_, failure| _ = told.send(failure.map(unsaved))));
    handle.flush();
    if let Ok(Some(error)) = outcome.recv() {
        return Err(error);
    }
    cx.reply.ok();
    Ok(())
}

pub(super) fn meet(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    const PORTS: std::ops::RangeInclusive<i64> = 1..=65535;
    if args.len() > 5 {
        return Err(Error::SubcommandUse(Word::of(&args[1]), "CLUSTER"));
    }
    let port = args.int(3).map_err(|_| Error::InvalidBasePort(Word::of(&args[3])))?;
    if !PORTS.contains(&port) {
        return Err(Error::PortOutOfRange);
    }
    let bus_port = match args.len() {
        5 => args.int(4).map_err(|_| Error::InvalidBusPort(Word::of(&args[4])))?,
        _ => port + 10_000,
    };
    if !PORTS.contains(&bus_port) {
        return Err(Error::BusPortOutOfRange);
    }
    let by = by(cx);
    order(cx, args, |bus, now| bus.meet(&args[2], port as u16, bus_port as u16, &by, now))
}

pub(super) fn forget(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let by = by(cx);
    order(cx, args, |bus, now| bus.forget(&args[2], &by, now))
}

pub(super) fn replicate(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    match args.len() {
        3 => {
            let has_keys = has_keys(cx)?;
            order(cx, args, |bus, now| bus.replicate(&args[2], has_keys, now))
        }
        4 if args.is(2, "no") && args.is(3, "one") => {
            let by = by(cx);
            order(cx, args, |bus, now| {
                bus.replicate_no_one(&by, now);
                Ok(())
            })
        }
        _ => Err(Error::SubcommandUse(Word::of(&args[1]), "CLUSTER")),
    }
}

pub(super) fn failover(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let by_primary = cx.keys.origin().caller.is_obeyed();
    let (mut mode, mut index) = (FailoverMode::Agreed, 2);
    while index < args.len() {
        match () {
            () if args.is(index, "takeover") => mode = FailoverMode::Takeover,
            () if args.is(index, "force") && mode == FailoverMode::Agreed => mode = FailoverMode::Force,
            () if args.is(index, "force") => {}
            // A primary that shuts down names its successor.
            () if by_primary && args.is(index, "replicaid") && index + 1 < args.len() => {
                index += 1;
                let id = args[index].to_vec();
                if ask(|node| node.nodes().my_id().as_str().as_bytes() != id)? {
                    cx.reply.ok();
                    return Ok(());
                }
            }
            () => return Err(Error::Syntax),
        }
        index += 1;
    }
    let by = by(cx);
    order(cx, args, |bus, now| bus.failover(mode, &by, by_primary, now))
}

pub(super) fn reset(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let hard = match args.len() {
        2 => false,
        3 if args.is(2, "hard") => true,
        3 if args.is(2, "soft") => false,
        3 => return Err(Error::Syntax),
        _ => return Err(Error::SubcommandUse(Word::of(&args[1]), "CLUSTER")),
    };
    let (has_keys, by) = (has_keys(cx)?, by(cx));
    order(cx, args, |bus, now| bus.reset(hard, has_keys, &by, now))
}

/// Changes the settings of DEBUG.
pub(crate) fn change_debug(change: impl FnOnce(&mut DebugSettings)) -> Result<(), Error> {
    visit(|bus, _| {
        let mut debug = bus.debug();
        change(&mut debug);
        bus.set_debug(debug);
    })
}

/// DEBUG CLUSTERLINK KILL: closes connections to a node, from it or both.
pub(crate) fn kill_links(cx: &mut Context<'_>, args: &Args<'_>) -> Result<(), Error> {
    let (to, from) = (args.is(3, "to") || args.is(3, "all"), args.is(3, "from") || args.is(3, "all"));
    visit(|bus, now| {
        let node = bus.nodes().named(&args[4]).ok_or_else(|| Error::UnknownNode(Word::of(&args[4])))?;
        if node.is_myself() {
            return Err(Error::LinksToMyself);
        }
        let id = node.id;
        bus.kill_links(&id, to, from, now);
        Ok(())
    })??;
    if !to && !from {
        return Err(Error::UnknownDirection(Word::of(&args[3])));
    }
    cx.reply.ok();
    Ok(())
}
