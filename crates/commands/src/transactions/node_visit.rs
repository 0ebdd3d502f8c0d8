//! Visits to the node of a cluster that the process is: it is asked, and given orders; and replies of orders, which
//! wait until what was ordered is kept, without their worker.
//!
//! ```text
//!   order -> node          thread of the bus: the file - the slot map      thread that may wait: all locks passed
//!   reply held, client waits -------------------------------------------------------------------> reply
//! ```
//!
//! Of a transaction and of a script it is the whole reply that waits, when they have ended and given up their locks.
//! What the link to the primary and a file's replay bring is carried out by their own threads.

use crate::core::args::Args;
use crate::core::context::{Blocking, Context, Flow};
use crate::transactions::blocking::Wait;
use cluster::Millis;
use cluster::bus::{Bus, NodeView};
use cluster::packet::Published;
use engine::clients::waiters::Ticket;
use engine::host::threads::Task;
use engine::{Engine, Error};
use std::sync::{Arc, OnceLock};

/// What is to happen when all that a visit led to has been done. It is told why the file could not be written, if so.
pub type CarriedOut = Box<dyn FnOnce(&Engine, Option<&str>) + Send>;

/// The node: orders visit it behind its lock, questions look at its view.
pub trait Desk: Send + Sync {
    /// Lets `visit` give the node an order, and tells what time it is. What that leads to is carried out
    /// later, by another thread. Returns the visit's number.
    fn visit(&self, visit: &mut dyn FnMut(&mut Bus, Millis)) -> u64;

    /// Calls `then` when all that visits up to this one led to has been carried out: it is in the file, and commands
    /// are admitted by it. On whatever thread; it must not wait.
    fn when_done(&self, visit: u64, then: CarriedOut);

    /// Calls `then` when all keys are gone that the node wanted gone at once by what has been carried out: at once if
    /// there are none. On whatever thread; it must not wait.
    fn when_emptied(&self, then: Task<Engine>);

    /// Returns the node as it was lately, and after the last visit: without waiting for it.
    fn view(&self) -> Arc<NodeView>;

    /// Returns how much clients have published since the start.
    fn published(&self) -> Published;

    /// Returns how many bytes of messages wait for the thread that has the links.
    fn messages_waiting(&self) -> u64;

    /// Carries out here and now what visits led to. Waits for the disk.
    fn flush(&self);
}

static DESK: OnceLock<Arc<dyn Desk>> = OnceLock::new();

/// Tells the commands where the node is; once, before the first of them.
pub fn install(desk: Arc<dyn Desk>) {
    // The first one stays.
    let _ = DESK.set(desk);
}

/// Where the node is.
///
/// # Errors
/// There is none.
pub(crate) fn desk() -> Result<&'static dyn Desk, Error> {
    DESK.get().map(|desk| &**desk).ok_or(Error::ClusterDisabled)
}

struct HeldReply {
    ticket: Arc<Ticket>,
    /// The ticket counts as served: nobody else can end it.
    is_served: bool,
    bytes: Vec<u8>,
}

impl HeldReply {
    /// Replies when nothing runs any more that was admitted by what held before. Waits for locks.
    fn go(&self, engine: &Engine) {
        while !engine.pass_locks(&mut 0, || false) {}
        if self.is_served || self.ticket.finish() {
            engine.host().deliver(&self.ticket, self.bytes.clone());
        }
    }
}

/// What was replied from `start` on, which tells of the client's last visit to the node, goes out when that is kept. To
/// be called last.
pub(crate) fn hold_reply(cx: &mut Context<'_>, args: &Args<'_>, start: usize) {
    // Within a transaction or a script it is that which waits.
    if cx.session.node_visit > 0 && cx.blocking != Blocking::Refused {
        hold(cx, args, start);
    }
}

#[cold]
fn hold(cx: &mut Context<'_>, args: &Args<'_>, start: usize) {
    let visit = std::mem::take(&mut cx.session.node_visit);
    let Ok(desk) = desk() else { return };
    if !matches!(cx.flow, Flow::Next) || cx.session.debugs_scripts {
        // The connection ends, or is another thread's from now on.
        return desk.flush();
    }
    let is_served = cx.blocking == Blocking::Waiting;
    let ticket = match is_served {
        true => cx.session.info.ticket(),
        false => {
            cx.wait(args, [], Wait { to_its_end: true, ..Wait::until(None) });
            if let Flow::Wait(ticket) = &cx.flow { Some(Arc::clone(ticket)) } else { None }
        }
    };
    let Some(ticket) = ticket else { return desk.flush() };
    if is_served {
        cx.flow = Flow::RepliesLater;
    }
    let bytes = cx.reply.as_slice()[start..].to_vec();
    cx.reply.truncate(start);
    let held = Arc::new(HeldReply { ticket, is_served, bytes });
    when_kept(desk, visit, Box::new(move |engine| reply(engine, &held)));
}

/// Calls `then` when all that visits up to this one led to has been carried out, and the keys are gone that had to go
/// for it. To be called by those who hold no locks meanwhile.
pub(crate) fn when_kept(desk: &'static dyn Desk, visit: u64, then: Task<Engine>) {
    desk.when_done(visit, Box::new(move |_, _| desk.when_emptied(then)));
}

fn reply(engine: &Engine, held: &Arc<HeldReply>) {
    let waiting = Arc::clone(held);
    if engine.host().abroad(Box::new(move |engine| waiting.go(engine))).is_err() {
        held.go(engine);
    }
}
