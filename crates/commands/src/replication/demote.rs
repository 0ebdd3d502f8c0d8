//! A primary that begins to follow another server.
//!
//! ```text
//!   writes are held - all locks are passed - the log is framed to its end - the server follows - writes resume
//! ```
//!
//! So the history's offset is that of all writes, and no write is in no history: former replicas, and the new primary,
//! can resume from there. The thread that frames the log runs the order from the second step on, even if the client
//! that gave it disconnects.

use crate::core::admission::Settle;
use crate::core::context::{Context, Resumable};
use crate::replication::follow::{Waits, follow_patiently};
use engine::Engine;
use engine::host::connections::StepDown;
use engine::status::pause::Hold;
use engine::status::replication_status::PrimaryAddress;
use replication::failover_state::Target;
use std::sync::Arc;
use std::time::Duration;

/// Gives the order, which is run soon.
pub(crate) fn begin(cx: &mut Context<'_>, primary: Target) -> Arc<StepDown> {
    let is_quiet = cx.keys.reaches_all();
    // A transaction that began on a replica, which leads by now, may hold the lock. The order takes it.
    cx.applying = None;
    cx.engine.hold_writes(Hold::StepDown);
    if is_quiet {
        cx.keys.enter_epoch();
    }
    let order = Arc::new(StepDown::new(primary, is_quiet));
    if !cx.engine.host().demote(&order) {
        finish(cx.engine, &order);
    }
    order
}

/// Runs the order, when no thread writes any more and all writes are part of the stream. Two clients may have given
/// one: the later order finds a replica, and is as good as run right before the earlier one. (The replica's link may
/// apply a stream already, and wait for the locks of the transaction that waits for the order.)
pub fn finish(engine: &Engine, order: &StepDown) {
    let Target { host, port } = order.primary.clone();
    let primary = PrimaryAddress { host, port };
    while !engine.replication().is_replica() && !follow_patiently(engine, Some(primary.clone()), Waits::End) {}
    engine.release_writes(Hold::StepDown);
    engine.host().pause_changed();
    order.set_done();
}

/// Time between two looks at the order.
const LOOK: Duration = Duration::from_micros(50);

/// Replies when the order is done, and no command runs any more that a primary has admitted.
pub(crate) struct Await {
    order: Arc<StepDown>,
    /// Line for the log at that time.
    notice: Option<String>,
    settle: Settle,
}

impl Await {
    /// Returns the wait for `order`. `notice`: line for the log at its end.
    pub fn new(order: Arc<StepDown>, notice: String) -> Await {
        Await { order, notice: Some(notice), settle: Settle::new() }
    }
}

impl Resumable for Await {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.order.is_done() {
            cx.engine.host().rest(LOOK);
            return false;
        }
        if let Some(notice) = self.notice.take() {
            cx.engine.host().notice(&notice);
        }
        self.settle.step(cx)
    }

    fn outlasts_rights(&self) -> bool {
        true
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::{begin, finish};
    use crate::core::dispatch;
    use crate::testing::Client;
    use engine::host::connections::StepDown;
    use engine::locks::sync::unlock_fairly;
    use engine::status::pause::Hold;
    use replication::failover_state::Target;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn an_order_is_carried_out_beside_savers_that_take_the_lock_in_turn() {
        let client = Client::new();
        let engine = client.engine();
        let (is_over, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
        let save = || {
            while !is_over.load(Relaxed) && rounds.fetch_add(1, Relaxed) < 600 {
                let applying = engine.replication().applying.lock();
                thread::sleep(Duration::from_millis(5));
                unlock_fairly(applying);
                thread::sleep(Duration::from_millis(1));
            }
        };
        thread::scope(|scope| {
            (0..3).for_each(|_| _ = scope.spawn(save));
            while rounds.load(Relaxed) < 6 {
                thread::yield_now();
            }
            engine.hold_writes(Hold::StepDown);
            finish(engine, &StepDown::new(Target { host: b"host".to_vec(), port: 1 }, true));
            is_over.store(true, Relaxed);
        });
        assert!(rounds.load(Relaxed) < 600, "it has waited until they ended");
        assert!(engine.replication().is_replica());
    }

    #[test]
    fn a_transaction_that_gives_an_order_releases_the_lock_which_it_needs() {
        let client = Client::new();
        let (engine, now) = (client.engine(), client.now());
        let result = dispatch::internal(engine, now, |cx| {
            cx.applying = Some(cx.engine.replication().applying.lock());
            let order = begin(cx, Target { host: b"host".to_vec(), port: 1 });
            assert!(order.is_done() && cx.applying.is_none());
            Ok(())
        });
        assert!(result.is_ok() && engine.replication().is_replica());
    }
}
