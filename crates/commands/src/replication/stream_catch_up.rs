//! A short wait until the stream's offset counts earlier writes: a client that got the reply to a write and then asks
//! for the stream's length finds the write in it.

use crate::core::context::{Blocking, Context};
use engine::Engine;
use engine::keyspace::record::LogUser;
use engine::time::Nanos;

/// Maximum of the wait, in nanoseconds, for a thread that does not get to run.
const PATIENCE: u64 = 50_000_000;

/// See the module's documentation.
pub(crate) struct StreamCatchUp {
    log: u64,
    began: Nanos,
}

impl StreamCatchUp {
    /// Begins the wait. None: there is nothing to wait for, or the command must not wait.
    pub fn begin(cx: &Context<'_>) -> Option<StreamCatchUp> {
        let engine = cx.engine;
        let log = engine.change_log().appended();
        let is_behind = engine.is_logged_for(LogUser::Replicas) && !engine.replication().counts(log);
        (is_behind && cx.blocking == Blocking::Allowed).then(|| StreamCatchUp { log, began: engine.host().nanos() })
    }

    /// Whether the wait has ended.
    pub fn is_done(&self, engine: &Engine) -> bool {
        engine.replication().counts(self.log) || engine.host().nanos().since(self.began) > PATIENCE
    }
}
