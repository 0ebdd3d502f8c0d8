//! The state of one worker that others see, whether it has a thread or not.

use crate::workers::mailbox::{Inbox, Mailbox};
use engine::locks::sync::Mutex;
use mio::Poll;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// The slot of one worker.
#[derive(Default)]
pub struct WorkerSlot {
    /// Mailbox, from the first time on that there is such a worker.
    pub mailbox: OnceLock<Mailbox>,
    /// Poll and inbox for its thread, while it has none.
    parts: Mutex<Option<(Poll, Inbox)>>,
    /// Number of its connections, for spreading new ones.
    pub load: AtomicUsize,
    /// Whether it holds replies until the log is durable; the worker sets that itself.
    pub awaits_durability: AtomicBool,
}

impl WorkerSlot {
    /// Returns whether a thread is there, or is about to be.
    pub fn is_running(&self) -> bool {
        self.mailbox.get().is_some_and(|mailbox| !mailbox.wake_state().has_ended())
    }

    /// Stores the parts for the worker's next thread.
    pub fn put(&self, poll: Poll, inbox: Inbox) {
        *self.parts.lock() = Some((poll, inbox));
    }

    /// Takes the parts for the worker's next thread.
    pub fn take(&self) -> Option<(Poll, Inbox)> {
        self.parts.lock().take()
    }

    /// Stores the parts of a thread that has nothing to do any more, if there is nothing for the worker. Otherwise the
    /// thread gets them back and continues.
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
