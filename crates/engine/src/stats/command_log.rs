//! The command log: commands that took long, or had large requests or replies.
//!
//! Three lists of the last entries, one a [`LogReason`]. A threshold is read by every command; the lists behind their
//! locks are touched only by commands that reach it, and by SLOWLOG and COMMANDLOG.

use crate::locks::sync::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Reason for which a command is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogReason {
    /// It ran for a long time.
    Slow,
    /// Its request was large.
    LargeRequest,
    /// Its reply was large.
    LargeReply,
}

/// One command in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCommand {
    /// Number that counts up, one series for each reason.
    pub id: u64,
    /// Unix time in seconds.
    pub at: i64,
    /// Microseconds, or bytes of the request or reply.
    pub value: u64,
    /// Arguments, shortened; secrets are blotted out.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub addr: Box<str>,
    /// The client's name, if it has given itself one.
    pub name: Vec<u8>,
}

struct List {
    /// In nanoseconds or bytes; `u64::MAX`: nothing is logged.
    threshold: AtomicU64,
    max_len: AtomicUsize,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    next_id: u64,
    /// The newest first.
    newest: VecDeque<LoggedCommand>,
}

impl Default for List {
    fn default() -> Self {
        List { threshold: AtomicU64::new(u64::MAX), max_len: AtomicUsize::new(0), entries: Mutex::default() }
    }
}

/// The lists of all reasons.
#[derive(Default)]
pub struct CommandLog([List; 3]);

impl CommandLog {
    fn list(&self, reason: LogReason) -> &List {
        &self.0[reason as usize]
    }

    /// Sets the value from which (nanoseconds or bytes; `None`: never) commands are logged, and the number of entries.
    pub fn configure(&self, reason: LogReason, threshold: Option<u64>, max_len: usize) {
        let list = self.list(reason);
        let threshold = threshold.filter(|_| max_len > 0).unwrap_or(u64::MAX);
        list.threshold.store(threshold, Relaxed);
        list.max_len.store(max_len, Relaxed);
    }

    /// Returns the least value of a command that is to be logged.
    #[inline]
    pub fn threshold(&self, reason: LogReason) -> u64 {
        self.list(reason).threshold.load(Relaxed)
    }

    /// Logs a command; its id is filled in.
    pub fn push(&self, reason: LogReason, mut logged: LoggedCommand) {
        let list = self.list(reason);
        let mut entries = list.entries.lock();
        logged.id = entries.next_id;
        entries.next_id += 1;
        entries.newest.push_front(logged);
        entries.newest.truncate(list.max_len.load(Relaxed));
    }

    /// Returns the newest `count` entries, the newest first.
    pub fn newest(&self, reason: LogReason, count: usize) -> Vec<LoggedCommand> {
        self.list(reason).entries.lock().newest.iter().take(count).cloned().collect()
    }

    /// Returns how many entries there are.
    pub fn len(&self, reason: LogReason) -> usize {
        self.list(reason).entries.lock().newest.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self, reason: LogReason) -> bool {
        self.len(reason) == 0
    }

    /// Removes all entries; ids continue.
    pub fn reset(&self, reason: LogReason) {
        self.list(reason).entries.lock().newest.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entries_are_kept_and_ids_go_on() {
        let log = CommandLog::default();
        assert_eq!(log.threshold(LogReason::Slow), u64::MAX);
        log.configure(LogReason::Slow, Some(5), 2);
        log.configure(LogReason::LargeReply, Some(5), 0);
        assert_eq!((log.threshold(LogReason::Slow), log.threshold(LogReason::LargeReply)), (5, u64::MAX));
        let logged = |value| LoggedCommand { id: 0, at: 1, value, args: Vec::new(), addr: "".into(), name: Vec::new() };
        (7..10).for_each(|value| log.push(LogReason::Slow, logged(value)));
        let shown: Vec<_> = log.newest(LogReason::Slow, 9).iter().map(|entry| (entry.id, entry.value)).collect();
        assert_eq!(shown, [(2, 9), (1, 8)]);
        assert!(log.newest(LogReason::Slow, 1).len() == 1 && log.is_empty(LogReason::LargeRequest));
        log.reset(LogReason::Slow);
        log.push(LogReason::Slow, logged(1));
        assert_eq!((log.len(LogReason::Slow), log.newest(LogReason::Slow, 1)[0].id), (1, 3));
    }
}
