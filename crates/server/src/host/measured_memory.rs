//! Memory as it was measured last. The allocator adds up its numbers for each measure, and the kernel its own in a
//! file, which takes longer than all else that INFO shows.

use crate::host::lazy_free::LazyFree;
use crate::system::{allocator, clock, proc};
use crate::workers::shared::{Shared, own_worker};
use engine::host::memory::MemoryStats;
use engine::locks::sync::Mutex;
use engine::time::Nanos;

/// Nanoseconds for which a measure holds: short enough that nobody sees the difference.
const HOLDS: u64 = 10_000_000;
/// Bytes up to which workers' own counts are added to a measure. A worker counts at the end of its turn: its bytes may
/// be in the measure already, and are then added once more.
const FEW: u64 = 1 << 20;

/// The last measure.
#[derive(Default)]
pub struct MeasuredMemory(Mutex<Option<Measure>>);

struct Measure {
    at: Nanos,
    stats: MemoryStats,
    /// Bytes that workers had allocated more than they had freed. Wraps around at zero.
    counted: u64,
    /// Pieces of garbage that waited, and that had been freed in the background.
    garbage: (usize, usize),
}

impl MeasuredMemory {
    /// Returns the numbers of the allocator and the process. Bytes that workers have allocated or freed since the
    /// measure are added if they are few; otherwise memory is measured anew.
    pub fn stats(&self, shared: Option<&Shared>, lazy_free: &LazyFree) -> MemoryStats {
        let Some(shared) = shared else { return measure() };
        let (now, counted) = (clock::nanos(), counted(shared));
        let garbage = (lazy_free.pending(), lazy_free.freed());
        let mut last = self.0.lock();
        let since = |it: &Measure| counted.wrapping_sub(it.counted) as i64;
        let holds =
            |it: &&Measure| now.since(it.at) < HOLDS && it.garbage == garbage && since(it).unsigned_abs() <= FEW;
        if let Some(last) = last.as_ref().filter(holds) {
            let allocated = last.stats.allocated.saturating_add_signed(since(last));
            let active = last.stats.active.max(allocated);
            let resident = last.stats.resident.max(active);
            return MemoryStats { allocated, active, resident, ..last.stats.clone() };
        }
        let stats = measure();
        *last = Some(Measure { at: now, stats: stats.clone(), counted, garbage });
        stats
    }

    /// Forgets the measure, after pages were given back.
    pub fn forget(&self) {
        *self.0.lock() = None;
    }
}

fn measure() -> MemoryStats {
    MemoryStats { rss: proc::rss(), ..allocator::stats() }
}

/// Returns the bytes that workers have allocated more than they have freed: others as of their last turns.
fn counted(shared: &Shared) -> u64 {
    let own = own_worker();
    let of = |(index, worker): (usize, &engine::stats::metrics::WorkerMetrics)| match own == Some(index) {
        true => allocator::own_allocated(),
        false => worker.allocated.get(),
    };
    shared.engine.metrics().iter().enumerate().map(of).fold(0, u64::wrapping_add)
}
