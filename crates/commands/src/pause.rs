//! Whose commands wait while clients are paused (CLIENT PAUSE).

use crate::dispatch::Prepared;
use crate::row::{Flags, MAY_REPLICATE, WRITE};
use crate::session::Session;
use engine::Engine;
use engine::pause::Paused;

/// What other servers would hear of.
const TOLD: Flags = WRITE.and(MAY_REPLICATE);

/// Whether the command has to wait for the end of the pause that is on. What will be refused is refused at once.
#[cold]
pub fn postpones(engine: &Engine, session: &Session, prepared: &Prepared) -> bool {
    let Some(entry) = prepared.entry() else { return false };
    match engine.pause().paused() {
        Paused::Nothing => false,
        Paused::All => true,
        Paused::Writes => {
            let queued = session.queued_flags().filter(|_| entry.full_name == "exec");
            entry.command.flags.has(TOLD) || queued.is_some_and(|flags| flags.has(TOLD))
        }
    }
}
