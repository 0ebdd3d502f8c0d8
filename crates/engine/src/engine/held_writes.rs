//! Writes that the server itself holds back for a while.

use crate::engine::Engine;
use crate::status::pause::Hold;

/// No command that may write begins until this is dropped. One that was admitted before has ended when all locks
/// [have been passed](crate::keyspace::Keyspace::pass_locks).
#[must_use]
pub struct HeldWrites<'e> {
    engine: &'e Engine,
    hold: Hold,
}

impl HeldWrites<'_> {
    /// From now on.
    pub fn begin(engine: &Engine, hold: Hold) -> HeldWrites<'_> {
        engine.hold_writes(hold);
        engine.host().pause_changed();
        HeldWrites { engine, hold }
    }
}

impl Drop for HeldWrites<'_> {
    fn drop(&mut self) {
        self.engine.release_writes(self.hold);
        self.engine.host().pause_changed();
    }
}
