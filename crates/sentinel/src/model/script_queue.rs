//! Scripts that run or wait to run, at most so many of each.

use crate::model::effect::{Millis, ScriptId};

const QUEUE_MAX: usize = 256;
const RUNNING_MAX: usize = 16;
/// Times that a script is tried.
const TRIES_MAX: u32 = 10;

/// A script with its arguments.
#[derive(Debug)]
pub(crate) struct Script {
    pub id: ScriptId,
    pub argv: Vec<Vec<u8>>,
    pub running: bool,
    pub tries: u32,
    /// Start time if it runs; else the earliest time to start.
    pub start: Millis,
    pub pid: u32,
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct ScriptQueue {
    pub scripts: Vec<Script>,
    last: u64,
}

impl ScriptQueue {
    /// Queues a script. The oldest that does not run is dropped if there are too many.
    pub fn push(&mut self, argv: Vec<Vec<u8>>) {
        self.last += 1;
        self.scripts.push(Script { id: ScriptId(self.last), argv, running: false, tries: 0, start: 0, pid: 0 });
        if self.scripts.len() > QUEUE_MAX
            && let Some(oldest) = self.scripts.iter().position(|script| !script.running)
        {
            self.scripts.remove(oldest);
        }
    }

    /// Returns the number of running scripts.
    pub fn running(&self) -> usize {
        self.scripts.iter().filter(|script| script.running).count()
    }

    /// Returns the scripts that are due now; they count as running.
    pub fn start_due(&mut self, now: Millis) -> Vec<(ScriptId, Vec<Vec<u8>>)> {
        let room = RUNNING_MAX.saturating_sub(self.running());
        let due = self.scripts.iter_mut().filter(|script| !script.running && script.start <= now).take(room);
        due.map(|script| {
            script.running = true;
            script.start = now;
            script.tries += 1;
            (script.id, script.argv.clone())
        })
        .collect()
    }

    /// Returns the script with that number.
    pub fn get_mut(&mut self, id: ScriptId) -> Option<&mut Script> {
        self.scripts.iter_mut().find(|script| script.id == id)
    }

    /// Records that a script has ended. With status 1 or by a signal it is tried again, each time later; otherwise it
    /// is returned once it has ended for good.
    pub fn ended(&mut self, id: ScriptId, status: i32, signal: i32, now: Millis, delay: Millis) -> Option<Script> {
        let at = self.scripts.iter().position(|script| script.id == id)?;
        let script = &mut self.scripts[at];
        if (signal != 0 || status == 1) && script.tries < TRIES_MAX {
            script.running = false;
            script.pid = 0;
            script.start = now + (delay << (script.tries.max(1) - 1));
            return None;
        }
        Some(self.scripts.remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_fails_is_tried_ten_times() {
        let mut queue = ScriptQueue::default();
        queue.push(vec![b"/x".to_vec()]);
        let mut now = 1;
        for _ in 0..9 {
            let due = queue.start_due(now);
            assert_eq!(due.len(), 1);
            assert!(queue.ended(due[0].0, 1, 0, now, 10).is_none());
            assert!(queue.start_due(now).is_empty(), "not at once");
            now = queue.scripts[0].start;
        }
        let due = queue.start_due(now);
        assert!(queue.ended(due[0].0, 1, 0, now, 10).is_some());
        assert!(queue.scripts.is_empty());
    }

    #[test]
    fn sixteen_run_and_the_oldest_that_wait_go() {
        let mut queue = ScriptQueue::default();
        (0..300).for_each(|n: u32| queue.push(vec![n.to_string().into_bytes()]));
        assert_eq!(queue.scripts.len(), 256);
        assert_eq!(queue.scripts[0].argv[0], b"44");
        assert_eq!(queue.start_due(1).len(), 16);
        assert!(queue.start_due(1).is_empty());
    }
}
