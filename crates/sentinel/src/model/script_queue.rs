//! Scripts that run or wait to run, at most so many of each, and their fates.

use crate::model::effect::{Effect, Level, Millis, ScriptId};
use crate::model::effect_queue::EffectQueue;

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

impl Script {
    fn path(&self) -> String {
        String::from_utf8_lossy(self.argv.first().map_or(b"", Vec::as_slice)).into_owned()
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct ScriptQueue {
    scripts: Vec<Script>,
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
    fn start_due(&mut self, now: Millis) -> Vec<(ScriptId, Vec<Vec<u8>>)> {
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

    /// Returns all scripts, the oldest first.
    pub fn all(&self) -> &[Script] {
        &self.scripts
    }

    /// Starts the scripts that are due, and ends those that run for longer than `longest`.
    pub fn tick(&mut self, now: Millis, longest: Millis, out: &mut EffectQueue) {
        for (script, argv) in self.start_due(now) {
            out.push(Effect::RunScript { script, argv });
        }
        for script in self.scripts.iter().filter(|script| script.running && now - script.start > longest) {
            out.event(Level::Warning, "-script-timeout", &format!("{} {}", script.path(), script.pid));
            out.push(Effect::KillScript { script: script.id });
        }
    }

    /// Records that a script runs now, as this process.
    pub fn started(&mut self, id: ScriptId, pid: u32, out: &mut EffectQueue) {
        if let Some(script) = self.get_mut(id) {
            script.pid = pid;
        }
        out.event(Level::Debug, "+script-child", &pid.to_string());
    }

    /// Records that a script could not be started; it is tried again.
    pub fn not_started(&mut self, id: ScriptId, out: &mut EffectQueue) {
        if let Some(script) = self.get_mut(id) {
            script.running = false;
            out.event(Level::Warning, "-script-error", &format!("{} 99 0", script.path()));
        }
    }

    /// Records that a script has ended with this status, or by this signal if it is not 0. `delay`: time until it is
    /// tried again.
    pub fn end(
        &mut self,
        id: ScriptId,
        (status, signal): (i32, i32),
        now: Millis,
        delay: Millis,
        out: &mut EffectQueue,
    ) {
        let pid = self.get_mut(id).map_or(0, |script| script.pid);
        out.event(Level::Debug, "-script-child", &format!("{pid} {status} {signal}"));
        if let Some(over) = self.ended(id, status, signal, now, delay)
            && (status != 0 || signal != 0)
        {
            out.event(Level::Warning, "-script-error", &format!("{} {signal} {status}", over.path()));
        }
    }

    fn get_mut(&mut self, id: ScriptId) -> Option<&mut Script> {
        self.scripts.iter_mut().find(|script| script.id == id)
    }

    /// Records that a script has ended. With status 1 or by a signal it is tried again, each time later; otherwise it
    /// is returned once it has ended for good.
    fn ended(&mut self, id: ScriptId, status: i32, signal: i32, now: Millis, delay: Millis) -> Option<Script> {
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
