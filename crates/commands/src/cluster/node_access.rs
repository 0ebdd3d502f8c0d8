//! Access to the node of the process: questions and orders.

use crate::core::args::Args;
use crate::core::context::Context;
use crate::transactions::cluster_handle::{defer_reply, handle};
use cluster::Millis;
use cluster::bus::{Bus, NodeView, OrderError};
use engine::{Engine, Error, Word};

/// Refuses commands that only a node of a cluster has.
pub(super) fn must_be_clustered(engine: &Engine) -> Result<(), Error> {
    if engine.is_clustered() { Ok(()) } else { Err(Error::ClusterDisabled) }
}

/// Runs an order of which nothing is to be saved, or a question that only the node itself can answer.
///
/// # Errors
/// `ClusterDisabled`: the process has no node.
pub(super) fn visit<R>(order: impl FnOnce(&mut Bus, Millis) -> R) -> Result<R, Error> {
    numbered(order).map(|(answer, _)| answer)
}

fn numbered<R>(visit: impl FnOnce(&mut Bus, Millis) -> R) -> Result<(R, u64), Error> {
    let (mut visit, mut answer) = (Some(visit), None);
    let number = handle()?.visit(&mut |bus, now| answer = visit.take().map(|visit| visit(bus, now)));
    answer.map(|answer| (answer, number)).ok_or(Error::ClusterDisabled)
}

/// Answers a question from the node's view.
///
/// # Errors
/// `ClusterDisabled`: the process has no node.
pub(super) fn ask<R>(question: impl FnOnce(&NodeView) -> R) -> Result<R, Error> {
    Ok(question(&handle()?.view()))
}

/// Gives the node an order. The caller [holds](defer_reply) the reply until the order is saved. An order of an obeyed
/// server is saved when this returns.
///
/// # Errors
/// `ClusterDisabled`: the process has no node.
pub(super) fn tell<R>(cx: &mut Context<'_>, order: impl FnOnce(&mut Bus, Millis) -> R) -> Result<R, Error> {
    let (answer, number) = numbered(order)?;
    match cx.keys.origin().caller.is_obeyed() {
        true => handle()?.flush(),
        false => cx.session.cluster_handle = number,
    }
    Ok(answer)
}

/// Gives the node an order, and replies when it is saved, and no command runs any more that was admitted by the state
/// before.
pub(super) fn order(
    cx: &mut Context<'_>,
    args: &Args<'_>,
    order: impl FnOnce(&mut Bus, Millis) -> Result<(), OrderError>,
) -> Result<(), Error> {
    let start = cx.reply.len();
    tell(cx, order)?.map_err(|reason| Error::ClusterOrder(Word::of(reason.to_string())))?;
    cx.reply.ok();
    defer_reply(cx, args, start);
    Ok(())
}
