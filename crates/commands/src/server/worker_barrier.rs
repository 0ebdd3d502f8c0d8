//! Waiting until all workers have handled all that had reached them: for commands that show clients' actions, some of
//! whose commands may still be on their way to another worker.

use engine::Engine;
use engine::time::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire};

/// Nanoseconds that a command waits at most: one of the workers may run a long script.
const PATIENCE: u64 = 100_000_000;

/// The other workers, as of the moment of the request.
pub struct Others {
    left: Arc<AtomicUsize>,
    until: Nanos,
}

impl Others {
    pub fn ask(engine: &Engine) -> Others {
        // A worker with a long script makes no progress, and that may be the calling one.
        if engine.scripts().is_long() {
            return Others::none();
        }
        let left = Arc::new(AtomicUsize::new(0));
        engine.host().after_all_workers(&left);
        Others { left, until: engine.host().nanos().after(PATIENCE) }
    }

    /// Returns an empty set: for commands that must not wait.
    pub fn none() -> Others {
        Others { left: Arc::default(), until: Nanos(0) }
    }

    /// Returns whether all of them are done, or have taken too long; yields to them if not.
    pub fn are_done(&self, engine: &Engine) -> bool {
        let done = self.left.load(Acquire) == 0 || engine.host().nanos() >= self.until;
        if !done {
            std::thread::yield_now();
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{NullHost, Options};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_lone_worker_waits_for_no_other() {
        let engine = Engine::new(&Options::default(), Arc::new(NullHost));
        assert!(Others::ask(&engine).are_done(&engine) && Others::none().are_done(&engine));
        let others = Others { left: Arc::new(AtomicUsize::new(1)), until: Nanos(u64::MAX) };
        assert!(!others.are_done(&engine));
        others.left.store(0, Relaxed);
        assert!(others.are_done(&engine));
        assert!(Others { left: Arc::new(AtomicUsize::new(1)), until: Nanos(0) }.are_done(&engine), "too long");
    }
}
