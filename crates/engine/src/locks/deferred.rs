//! What needs a lock that a long script has, and can be done later: nobody is to wait for it in silence.
//!
//! A client that stops watching or waiting leaves its marks in the shards; nothing looks at them any more. Clients that
//! wait for a key are served a little later. Workers look [now and then](Engine::do_leftovers) while there is
//! something.

use crate::clients::waiters::{self, AwaitedKey, Ticket};
use crate::clients::watch::WatchFlag;
use crate::engine::Engine;
use crate::host::threads::Server;
use crate::keyspace::held_locks::LockTimeout;
use crate::locks::sync::Mutex;
use crate::propagation::effects::ReadyKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub(crate) enum DeferredWork {
    /// A mark at a watched key.
    Watch(AwaitedKey, Arc<WatchFlag>),
    /// A finished ticket in its queues.
    Ticket(Arc<Ticket>),
    /// Somebody may wait for the key.
    Ready(ReadyKey),
}

#[derive(Default)]
pub(crate) struct Deferred {
    any: AtomicBool,
    list: Mutex<Vec<DeferredWork>>,
}

impl Engine {
    pub(crate) fn leave_for_later(&self, leftover: DeferredWork) {
        self.deferred.list.lock().push(leftover);
        self.deferred.any.store(true, Relaxed);
    }

    #[inline]
    pub fn has_leftovers(&self) -> bool {
        self.deferred.any.load(Relaxed)
    }

    /// Does what was left and can be done by now. No lock may be held.
    #[cold]
    pub fn do_leftovers(&self, server: Server) {
        self.deferred.any.store(false, Relaxed);
        let list = std::mem::take(&mut *self.deferred.list.lock());
        let mut ready = Vec::new();
        for leftover in list {
            match leftover {
                DeferredWork::Watch(key, flag) => self.unwatch(key, &flag),
                DeferredWork::Ticket(ticket) => waiters::leave(self, &ticket),
                DeferredWork::Ready(key) => ready.push(key),
            }
        }
        waiters::serve(self, ready, server);
    }

    /// Takes a mark off a key, whose lock may not be held; later, if a script has that for long.
    pub fn unwatch(&self, key: AwaitedKey, flag: &Arc<WatchFlag>) {
        match self.locks().one_unless(key.hash.shard(), LockTimeout::Short.from_now(self)) {
            Some(mut shard) => shard.dbs[key.db].watchers.unwatch(&key.name, flag),
            None => self.leave_for_later(DeferredWork::Watch(key, Arc::clone(flag))),
        }
    }
}
