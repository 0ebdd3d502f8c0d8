//! Where the node of the process is asked.

use crate::core::admission::Settle;
use crate::core::context::Context;
use cluster::Millis;
use cluster::bus::{Bus, OrderError};
use engine::{Engine, Error, Word};
use std::sync::{Arc, OnceLock};

/// The node behind its lock.
pub trait Desk: Send + Sync {
    /// Lets `visit` ask the node or give it an order, and tells what time it is. When this returns the order is in the
    /// file, and commands are admitted by what it changed.
    fn visit(&self, visit: &mut dyn FnMut(&mut Bus, Millis));
}

static DESK: OnceLock<Arc<dyn Desk>> = OnceLock::new();

/// Tells the commands where the node is; once, before the first of them.
pub fn install(desk: Arc<dyn Desk>) {
    // The first one stays.
    let _ = DESK.set(desk);
}

/// For commands that only a node of a cluster has.
pub(super) fn must_be_clustered(engine: &Engine) -> Result<(), Error> {
    if engine.is_clustered() { Ok(()) } else { Err(Error::ClusterDisabled) }
}

/// Asks the node.
///
/// # Errors
/// There is none.
pub(super) fn ask<R>(question: impl FnOnce(&mut Bus, Millis) -> R) -> Result<R, Error> {
    let desk = DESK.get().ok_or(Error::ClusterDisabled)?;
    let (mut question, mut answer) = (Some(question), None);
    desk.visit(&mut |bus, now| answer = question.take().map(|question| question(bus, now)));
    answer.ok_or(Error::ClusterDisabled)
}

/// Gives the node an order, and replies when nothing runs any more that was admitted by what held before.
pub(super) fn order(
    cx: &mut Context<'_>,
    order: impl FnOnce(&mut Bus, Millis) -> Result<(), OrderError>,
) -> Result<(), Error> {
    ask(order)?.map_err(|reason| Error::ClusterOrder(Word::of(reason.to_string())))?;
    Settle::then_ok(cx);
    Ok(())
}
