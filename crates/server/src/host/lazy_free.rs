//! Background threads that free large objects: big collections, flushed tables.

use crate::system::affinity;
use crossbeam_channel::{Sender, unbounded};
use engine::config::{Config, Directive};
use engine::propagation::effects::Garbage;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread;

/// The way to the freeing threads.
#[derive(Clone)]
pub struct LazyFree {
    queue: Sender<Garbage>,
    pending: Arc<AtomicUsize>,
    freed: Arc<AtomicUsize>,
}

/// Pieces that are freed before other threads get a chance to run.
const STEP: usize = 512;

impl LazyFree {
    pub fn start(threads: usize, config: &Arc<Config>) -> std::io::Result<LazyFree> {
        let (queue, garbage) = unbounded::<Garbage>();
        let (pending, freed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for n in 0..threads {
            let (garbage, pending, freed) = (garbage.clone(), Arc::clone(&pending), Arc::clone(&freed));
            let config = Arc::clone(config);
            thread::Builder::new().name(format!("lazy-free-{n}")).spawn(move || {
                affinity::pin(&config, Directive::BIO_CPULIST);
                drop(config);
                step_back();
                for mut item in garbage {
                    let objects = item.objects();
                    // The object is freed in steps, so that this thread does not hold a core for long that a worker
                    // needs.
                    while !item.drain_step(STEP) {
                        thread::yield_now();
                    }
                    drop(item);
                    // A thread that sees nothing pending sees all freed objects.
                    freed.fetch_add(objects, Relaxed);
                    pending.fetch_sub(objects, Release);
                }
            })?;
        }
        Ok(LazyFree { queue, pending, freed })
    }

    pub fn take(&self, garbage: Vec<Garbage>) {
        for item in garbage {
            self.pending.fetch_add(item.objects(), Relaxed);
            // A send fails only when the threads are gone, at the end of the process; then the object is freed here.
            let _ = self.queue.send(item);
        }
    }

    /// Returns the number of objects that wait to be freed (`lazyfree_pending_objects`).
    pub fn pending(&self) -> usize {
        self.pending.load(Acquire)
    }

    /// Returns the number of objects that were freed (`lazyfreed_objects`).
    pub fn freed(&self) -> usize {
        self.freed.load(Relaxed)
    }

    pub fn reset_freed(&self) {
        self.freed.store(0, Relaxed);
    }
}

/// Makes this thread yield to all others: where every core has a worker, freeing would delay one for a time slice.
/// Freeing works without it, too.
fn step_back() {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), LEAST_PRIORITY);
}

/// The lowest priority that ordinary threads have.
const LEAST_PRIORITY: i32 = 19;
