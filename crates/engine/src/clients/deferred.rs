//! Work that needs a lock that a long script holds, or the end of a pause, and can be done later, so that no client
//! waits for it.
//!
//! A client that stops watching or waiting leaves its marks in the shards; nothing reads them any more. Clients that
//! wait for a key are served a little later. Workers look [now and then](crate::Engine::run_deferred) while there is
//! such work.

use crate::clients::waiters::{AwaitedKey, Ticket};
use crate::clients::watch::WatchFlag;
use crate::locks::sync::Mutex;
use crate::propagation::effects::ReadyKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Something that is to be done later.
pub(crate) enum DeferredWork {
    /// A mark at a watched key is to be taken off.
    Watch(AwaitedKey, Arc<WatchFlag>),
    /// A finished ticket is to leave its queues.
    Ticket(Arc<Ticket>),
    /// A client may wait for the key.
    Ready(ReadyKey),
}

/// All that is to be done later.
#[derive(Default)]
pub(crate) struct Deferred {
    any: AtomicBool,
    list: Mutex<Vec<DeferredWork>>,
}

impl Deferred {
    pub fn add(&self, work: DeferredWork) {
        self.list.lock().push(work);
        self.any.store(true, Relaxed);
    }

    #[inline]
    pub fn has_some(&self) -> bool {
        self.any.load(Relaxed)
    }

    pub fn take(&self) -> Vec<DeferredWork> {
        self.any.store(false, Relaxed);
        std::mem::take(&mut *self.list.lock())
    }
}
