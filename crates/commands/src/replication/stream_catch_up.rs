//! Waiting, for a moment, until the stream's offset counts what was written before: who was replied to a write and then
//! asks how long the stream is finds the write in it.

use crate::core::context::{Blocking, Context};
use engine::Engine;
use engine::keyspace::record::LogUser;
use engine::time::Nanos;

/// How long it waits at most, in nanoseconds, for a thread that cannot be had.
const PATIENCE: u64 = 50_000_000;

/// See the module's documentation.
pub(crate) struct StreamCatchUp {
    log: u64,
    began: Nanos,
}

impl StreamCatchUp {
    /// None: there is nothing to wait for, or the command must not wait.
    pub fn begin(cx: &Context<'_>) -> Option<StreamCatchUp> {
        let engine = cx.engine;
        let log = engine.change_log().appended();
        let is_behind = engine.is_logged_for(LogUser::Replicas) && !engine.replication().counts(log);
        (is_behind && cx.blocking == Blocking::Allowed).then(|| StreamCatchUp { log, began: engine.host().nanos() })
    }

    /// Whether there is nothing to wait for any more.
    pub fn is_done(&self, engine: &Engine) -> bool {
        engine.replication().counts(self.log) || engine.host().nanos().since(self.began) > PATIENCE
    }
}
