//! MIGRATESLOTS, CANCELSLOTMIGRATIONS, GETSLOTMIGRATIONS, and SYNCSLOTS, by which nodes negotiate slots that move.
//!
//! The node ([`cluster::migration`]) decides the effect of each. A client that sends SYNCSLOTS ESTABLISH becomes the
//! source of slots: its connection leaves the worker, and a thread that serves these reads from it.

use super::bus_orders::by;
use super::node_access::{ask, must_be_clustered, tell, visit};
use crate::core::args::Args;
use crate::core::context::{Context, Flow};
use crate::transactions::cluster_handle::defer_reply;
use cluster::Millis;
use cluster::bus::Bus;
use cluster::migration::{Job, RequestError, SyncWord};
use engine::keyspace::caller::Caller;
use engine::{Error, Word};

fn words_from<'a>(args: &'a Args<'_>, first: usize) -> Vec<&'a [u8]> {
    args.iter().skip(first).collect()
}

fn order<R>(cx: &mut Context<'_>, order: impl FnOnce(&mut Bus, Millis) -> Result<R, RequestError>) -> Result<R, Error> {
    tell(cx, order)?.map_err(|error| Error::ClusterOrder(Word::of(error.to_string())))
}

fn reply_ok(cx: &mut Context<'_>, args: &Args<'_>) {
    let start = cx.reply.len();
    cx.reply.ok();
    defer_reply(cx, args, start);
}

pub(super) fn migrate(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let by = by(cx);
    order(cx, |bus, now| bus.migrate_slots(&words_from(args, 2), &by, now))?;
    reply_ok(cx, args);
    Ok(())
}

pub(super) fn cancel(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let by = by(cx);
    order(cx, |bus, now| bus.cancel_migrations(&by, now))?;
    reply_ok(cx, args);
    Ok(())
}

pub(super) fn list(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    let jobs: Vec<Job> = ask(|node| node.jobs().to_vec())?;
    cx.reply.array(jobs.len());
    for job in jobs {
        cx.reply.map(if job.is_tracked { 10 } else { 12 });
        let mut text = |name: &str, value: &[u8]| {
            cx.reply.bulk(name.as_bytes());
            cx.reply.bulk(value);
        };
        text("name", &job.name.0);
        text("operation", if job.is_import { b"IMPORT" } else { b"EXPORT" });
        text("slot_ranges", job.slots.to_string().as_bytes());
        if !job.is_tracked {
            text("target_node", &job.target.0);
            text("source_node", &job.source.0);
        }
        let mut time = |name: &str, at: Millis| {
            cx.reply.bulk(name.as_bytes());
            cx.reply.int(at / 1000);
        };
        time("create_time", job.created);
        time("last_update_time", job.updated);
        time("last_ack_time", job.acked);
        cx.reply.bulk(b"state");
        cx.reply.bulk(job.state.as_str().as_bytes());
        cx.reply.bulk(b"message");
        cx.reply.bulk(job.message.unwrap_or_default().as_bytes());
        for (name, value) in [("cow_size", 0), ("remaining_repl_size", job.unsent as i64)] {
            cx.reply.bulk(name.as_bytes());
            cx.reply.int(value);
        }
    }
    Ok(())
}

pub(super) fn sync(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    match &*args[2].to_ascii_lowercase() {
        b"establish" => establish(cx, args),
        b"finish" => finish(cx, args),
        // A word from the source to its target reaches the target's replicas, too.
        _ if cx.session.caller == Caller::Primary => Ok(()),
        _ => match SyncWord::parse(&args[2]) {
            Some(SyncWord::Capa) => Ok(()),
            Some(word) => {
                let text = format!("CLUSTER SYNCSLOTS {} should only be used by slot migration clients", word.as_str());
                Err(Error::ClusterOrder(Word::of(text)))
            }
            None => Err(Error::Syntax),
        },
    }
}

/// Records in a replica's own log a word that its primary has sent.
fn record(cx: &Context<'_>, args: &Args<'_>) {
    if cx.session.caller == Caller::Primary {
        cx.engine.record_apart(args.iter());
    }
}

fn establish(cx: &mut Context<'_>, args: &Args<'_>) -> Result<(), Error> {
    let is_tracked = cx.session.caller.is_obeyed();
    if !is_tracked && visit(|bus, _| bus.has_keys_to_remove())? {
        cx.flow = Flow::RetryLater;
        return Ok(());
    }
    let job = order(cx, |bus, now| bus.establish_import(&words_from(args, 3), is_tracked, now))?;
    record(cx, args);
    cx.reply.ok();
    if !is_tracked {
        cx.session.info.go_on_with("cluster|syncslots");
        cx.session.import = Some(Box::new(job));
        cx.flow = Flow::Replicate;
    }
    Ok(())
}

fn finish(cx: &mut Context<'_>, args: &Args<'_>) -> Result<(), Error> {
    let is_replayed = cx.session.caller == Caller::Replay;
    order(cx, |bus, now| bus.finish_import(&words_from(args, 3), is_replayed, now))?;
    record(cx, args);
    reply_ok(cx, args);
    Ok(())
}
