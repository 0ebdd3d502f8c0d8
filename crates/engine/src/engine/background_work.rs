//! Periodic work of workers, step by step: keys expire, and readers are forgotten where there are too many.

use crate::engine::Engine;
use crate::expiry::background::{Expired, STEP, expire_replica_key, expire_step};
use crate::host::threads::Server;
use crate::propagation::effects::{Author, Effects};
use std::ops::Range;

impl Engine {
    /// Removes up to `budget` keys and elements of these shards whose expiry has passed; true when more may be due.
    /// Locks are released every few of them, so no command waits for the whole budget.
    pub fn expire_due(&self, shards: Range<usize>, server: Server, budget: usize) -> bool {
        if self.expiry_is_paused() {
            return false;
        }
        let mut left = budget;
        for index in shards {
            while self.is_due(index, server.now_us.ms()) {
                if left == 0 {
                    return true;
                }
                let step = expire_step(self, self.latency(), index, server.now_us.ms(), left.min(STEP));
                let Expired { mut effects, count, more } = step;
                let ready = self.publish(&mut effects, Author { worker: server.worker, client: 0 });
                self.serve(ready, server);
                left = left.saturating_sub(count);
                if !more {
                    break;
                }
            }
        }
        false
    }

    /// Removes up to `budget` expired keys to which clients of a writable replica have given an expiry; true when more
    /// may be due. A server that follows none has no such keys.
    pub fn expire_replica_keys(&self, server: Server, budget: usize) -> bool {
        if self.replica_keys().is_empty() || self.expiry_stands() {
            return false;
        }
        if !self.is_following() {
            self.replica_keys().clear();
            return false;
        }
        for _ in 0..budget {
            let now = server.now_us.ms();
            let Some((db, name)) = self.replica_keys().pop_due(now) else { return false };
            let mut effects = Effects::default();
            if !expire_replica_key(self, &mut effects, (db, &name), now) {
                self.replica_keys().remember(db, &name, now.0.max(0) as u64);
                return false;
            }
            let ready = self.publish(&mut effects, Author { worker: server.worker, client: 0 });
            self.serve(ready, server);
        }
        true
    }

    /// Forgets keys that clients have read, and notifies these, until there are no more than there
    /// [may be](crate::clients::tracking::Tracking::is_over), but at most `budget` of them. No lock may be held.
    #[cold]
    pub fn trim_tracking(&self, worker: usize, budget: usize) {
        let shards = self.locks().len();
        for _ in 0..budget {
            let start = fastrand::usize(..shards);
            let mut found = None;
            for index in (start..shards).chain(0..start) {
                if !self.tracking().is_over() {
                    return;
                }
                let shard = self.locks().one_unless(index, || self.scripts().is_long());
                found = shard.and_then(|mut shard| {
                    self.note_change(index);
                    shard.listeners.tracked.forget_any(fastrand::usize(..))
                });
                if found.is_some() {
                    break;
                }
            }
            let Some((key, readers)) = found else { return };
            self.tracking().tell_forgotten(self.pubsub(), worker, key, &readers);
        }
    }
}
