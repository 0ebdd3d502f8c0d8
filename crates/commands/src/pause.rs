//! CLIENT PAUSE and CLIENT UNPAUSE, and whose commands wait in between.
//!
//! A command that has to wait goes back to the front of its connection's queue, and is tried again when the pause is over
//! or was lifted. What will be refused is refused at once. The pause itself is the engine's ([`engine::pause`]).

use crate::args::Args;
use crate::cx::Cx;
use crate::dispatch::Prepared;
use crate::row::{Flags, MAY_REPLICATE, WRITE};
use crate::session::Session;
use engine::pause::Paused;
use engine::{Engine, Error};

/// What other servers would hear of.
const TOLD: [Flags; 2] = [WRITE, MAY_REPLICATE];

/// Whether the command has to wait for the end of the pause that is on.
#[cold]
pub fn postpones(engine: &Engine, session: &Session, prepared: &Prepared) -> bool {
    let Some(entry) = prepared.entry() else { return false };
    match engine.pause().paused() {
        Paused::Nothing => false,
        Paused::All => true,
        Paused::Writes => {
            let queued = session.queued_flags().filter(|_| entry.full_name == "exec").unwrap_or(Flags::NONE);
            TOLD.iter().any(|flag| entry.command.flags.has(*flag) || queued.has(*flag))
        }
    }
}

pub(crate) fn pause(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let paused = match args.len() {
        3 => Paused::All,
        4 if args.is(3, "write") => Paused::Writes,
        4 if args.is(3, "all") => Paused::All,
        4 => return Err(Error::text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(Error::SYNTAX),
    };
    let until = match cx.deadline_ms(&args[2])? {
        0 => cx.now_ms(),
        until => until,
    };
    cx.engine.pause().begin(paused, until, cx.now_ms());
    cx.engine.host().pause_changed();
    cx.reply.ok();
    Ok(())
}

pub(crate) fn unpause(cx: &mut Cx<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.pause().end();
    cx.engine.host().pause_changed();
    cx.reply.ok();
    Ok(())
}
