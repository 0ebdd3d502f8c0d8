//! The choice of the next worker when several could run: by a seed alone.

use fastrand::Rng;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Approximate steps of a run: those at which priorities change are among so many.
const STEPS: usize = 1500;
/// Steps after which any thread may run: threads that try locks in turn might otherwise miss each other forever by
/// priorities.
const PRIORITIES_END: usize = 20 * STEPS;
/// Lowered priorities come after all others.
const LOWERED: u64 = 1 << 32;

/// A seed, and the verdict on its run, which is the last one then.
pub type Judged = Arc<Mutex<Option<(u64, String)>>>;

/// One run for each seed: half of them continue with any thread at each step, the others with the one of the highest
/// priority, which changes a few times (Burckhardt et al., *A Randomized Scheduler with Probabilistic Guarantees of
/// Finding Bugs*, 2010).
pub struct SeededSchedule {
    seeds: Range<u64>,
    /// The seed of the present run.
    current: Arc<AtomicU64>,
    judged: Judged,
    random: Rng,
    priorities: Option<Priorities>,
}

#[derive(Default)]
struct Priorities {
    /// The least goes first.
    of: HashMap<TaskId, u64>,
    /// Number of lowered priorities.
    lowered: u64,
    changes: Vec<usize>,
    step: usize,
}

impl SeededSchedule {
    pub fn new(seeds: Range<u64>, current: Arc<AtomicU64>, judged: Judged) -> SeededSchedule {
        SeededSchedule { seeds, current, judged, random: Rng::with_seed(0), priorities: None }
    }
}

impl Scheduler for SeededSchedule {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.judged.lock().expect("nobody panics here").is_some() {
            return None;
        }
        let seed = self.seeds.next()?;
        self.current.store(seed, Relaxed);
        self.random = Rng::with_seed(seed);
        self.priorities = self.random.bool().then(|| Priorities {
            changes: (0..self.random.usize(1..6)).map(|_| self.random.usize(1..STEPS)).collect(),
            ..Priorities::default()
        });
        Some(Schedule::new(seed))
    }

    fn next_task(&mut self, ready: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        let Some(priorities) = self.priorities.as_mut().filter(|priorities| priorities.step < PRIORITIES_END) else {
            return Some(ready[self.random.usize(..ready.len())].id());
        };
        priorities.step += 1;
        if let Some(current) = current.filter(|_| is_yielding || priorities.changes.contains(&priorities.step)) {
            priorities.lowered += 1;
            priorities.of.insert(current, LOWERED + priorities.lowered);
        }
        let random = &mut self.random;
        let mut rank = |task: TaskId| *priorities.of.entry(task).or_insert_with(|| random.u64(..LOWERED));
        ready.iter().map(|task| task.id()).min_by_key(|task| rank(*task))
    }

    fn next_u64(&mut self) -> u64 {
        self.random.u64(..)
    }
}
