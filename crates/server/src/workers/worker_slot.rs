//! What others know of one worker, whether it has a thread or not.

use crate::workers::mailbox::{Inbox, Mailbox};
use engine::locks::sync::Mutex;
use mio::Poll;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// The place of one worker.
#[derive(Default)]
pub struct WorkerSlot {
    /// From the first time on that there is such a worker.
    pub mailbox: OnceLock<Mailbox>,
    /// What its thread needs, while it has none.
    parts: Mutex<Option<(Poll, Inbox)>>,
    /// Its connections, for spreading new ones.
    pub load: AtomicUsize,
    /// Whether it keeps replies until the log is durable; it writes that itself.
    pub awaits_durability: AtomicBool,
}

impl WorkerSlot {
    /// Whether a thread is there, or is about to be.
    pub fn is_running(&self) -> bool {
        self.mailbox.get().is_some_and(|mailbox| !mailbox.wake_state().has_ended())
    }

    /// Keeps what a thread for the worker needs.
    pub fn put(&self, poll: Poll, inbox: Inbox) {
        *self.parts.lock() = Some((poll, inbox));
    }

    /// Takes what a thread for the worker needs.
    pub fn take(&self) -> Option<(Poll, Inbox)> {
        self.parts.lock().take()
    }

    /// A thread has nothing to do any more: puts down what it has, if there is nothing for the worker. Otherwise it
    /// gets it back and goes on.
    pub fn detach(&self, poll: Poll, inbox: Inbox) -> Option<(Poll, Inbox)> {
        self.put(poll, inbox);
        if self.mailbox.get().is_some_and(|mailbox| mailbox.wake_state().detach()) {
            return None;
        }
        self.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::mailbox::WorkerMessage;

    #[test]
    fn a_thread_that_leaves_lets_nothing_lie() {
        let slot = WorkerSlot::default();
        assert!(!slot.is_running());
        let poll = Poll::new().unwrap();
        let (mailbox, inbox) = Mailbox::new(&poll).unwrap();
        slot.put(poll, inbox);
        assert!(slot.mailbox.set(mailbox).is_ok());
        let mailbox = slot.mailbox.get().unwrap();
        assert!(!slot.is_running());
        assert!(mailbox.post(WorkerMessage::PauseChanged, false), "a thread is wanted");
        assert!(!mailbox.post(WorkerMessage::Durable, false) && slot.is_running());
        let (poll, inbox) = slot.take().unwrap();
        assert!(slot.take().is_none());
        inbox.hear();
        assert_eq!(std::iter::from_fn(|| inbox.take()).count(), 2);
        assert!(!mailbox.post(WorkerMessage::Durable, false));
        let (poll, inbox) = slot.detach(poll, inbox).expect("something has come");
        inbox.hear();
        assert!(inbox.take().is_some());
        assert!(slot.detach(poll, inbox).is_none() && !slot.is_running());
        assert!(mailbox.wake() && slot.take().is_some());
    }
}
