//! Access to this process's node of a cluster: questions and orders; and replies to orders, which wait until the node's
//! file has the result, without blocking their worker.
//!
//! ```text
//!   order -> node          thread of the bus: the file - the slot map      thread that may wait: all locks passed
//!   reply held, client waits -------------------------------------------------------------------> reply
//! ```
//!
//! The whole reply of a transaction or a script waits, once it has ended and released its locks. Orders from the link
//! to the primary and from a file's replay are carried out by their own threads.

use crate::blocking::Wait;
use crate::core::args::Args;
use crate::core::context::{Blocking, Context, Flow};
use cluster::Millis;
use cluster::bus::{Bus, NodeView};
use cluster::packet::Published;
use engine::clients::waiters::Ticket;
use engine::host::threads::Task;
use engine::{Engine, Error};
use std::sync::{Arc, OnceLock};

/// A function that runs once all effects of a visit are carried out. Its argument is the error of the file's write, if
/// any.
pub type CarriedOut = Box<dyn FnOnce(&Engine, Option<&str>) + Send>;

/// The node: orders visit it behind its lock, questions look at its view.
pub trait ClusterHandle: Send + Sync {
    /// Lets `visit` give the node an order, with the present time. Another thread carries out the effects later.
    /// Returns the visit's number.
    fn visit(&self, visit: &mut dyn FnMut(&mut Bus, Millis)) -> u64;

    /// Calls `then` when all effects of visits up to this one are carried out: they are in the file, and commands are
    /// admitted by them. On any thread; it must not wait.
    fn when_done(&self, visit: u64, then: CarriedOut);

    /// Calls `then` when all keys are gone that the node wanted removed at once by the effects carried out so far: at
    /// once if there are none. On any thread; it must not wait.
    fn when_emptied(&self, then: Task<Engine>);

    /// Returns the latest view of the node, after the last visit: without waiting for it.
    fn view(&self) -> Arc<NodeView>;

    /// Returns how much clients have published since the start.
    fn published(&self) -> Published;

    /// Returns how many bytes of messages wait for the thread that has the links.
    fn messages_waiting(&self) -> u64;

    /// Carries out the effects of visits here and now. Waits for the disk.
    fn flush(&self);
}

static HANDLE: OnceLock<Arc<dyn ClusterHandle>> = OnceLock::new();

/// Installs the node for the commands; once, before the first of them.
pub fn install(handle: Arc<dyn ClusterHandle>) {
    // The first node stays.
    let _ = HANDLE.set(handle);
}

/// Returns the node.
///
/// # Errors
/// [`Error::ClusterDisabled`].
pub(crate) fn handle() -> Result<&'static dyn ClusterHandle, Error> {
    HANDLE.get().map(|handle| &**handle).ok_or(Error::ClusterDisabled)
}

struct HeldReply {
    ticket: Arc<Ticket>,
    /// The ticket counts as served: no other thread can end it.
    is_served: bool,
    bytes: Vec<u8>,
}

impl HeldReply {
    /// Replies when no command is running any more that was admitted by the former state. Waits for locks.
    fn go(&self, engine: &Engine) {
        while !engine.pass_locks(&mut 0, || false) {}
        if self.is_served || self.ticket.finish() {
            engine.host().deliver(&self.ticket, self.bytes.clone());
        }
    }
}

/// Holds the reply from `start` on, which reports the client's last visit to the node, until the result is in the file.
/// To be called last.
pub(crate) fn defer_reply(cx: &mut Context<'_>, args: &Args<'_>, start: usize) {
    // Within a transaction or a script its whole reply waits.
    if cx.session.cluster_handle > 0 && cx.blocking != Blocking::Refused {
        hold(cx, args, start);
    }
}

#[cold]
fn hold(cx: &mut Context<'_>, args: &Args<'_>, start: usize) {
    let visit = std::mem::take(&mut cx.session.cluster_handle);
    let Ok(handle) = handle() else { return };
    if !matches!(cx.flow, Flow::Next) || cx.session.debugs_scripts {
        // The connection ends, or is another thread's from now on.
        return handle.flush();
    }
    let is_served = cx.blocking == Blocking::Waiting;
    let ticket = match is_served {
        true => cx.session.info.ticket(),
        false => {
            cx.wait(args, [], Wait { to_its_end: true, ..Wait::until(None) });
            if let Flow::Wait(ticket) = &cx.flow { Some(Arc::clone(ticket)) } else { None }
        }
    };
    let Some(ticket) = ticket else { return handle.flush() };
    if is_served {
        cx.flow = Flow::ReplyDeferred;
    }
    let bytes = cx.reply.as_slice()[start..].to_vec();
    cx.reply.truncate(start);
    let held = Arc::new(HeldReply { ticket, is_served, bytes });
    when_kept(handle, visit, Box::new(move |engine| reply(engine, &held)));
}

/// Calls `then` when all effects of visits up to this one are carried out, and the keys are gone that had to be removed
/// for them. The caller must hold no locks meanwhile.
pub(crate) fn when_kept(handle: &'static dyn ClusterHandle, visit: u64, then: Task<Engine>) {
    handle.when_done(visit, Box::new(move |_, _| handle.when_emptied(then)));
}

fn reply(engine: &Engine, held: &Arc<HeldReply>) {
    let waiting = Arc::clone(held);
    if engine.host().abroad(Box::new(move |engine| waiting.go(engine))).is_err() {
        held.go(engine);
    }
}
