//! What other threads tell the thread that serves replicas.

#![expect(dead_code, reason = "the thread that serves replicas comes next")]

use crossbeam_channel::{Receiver, Sender, unbounded};
use mio::Waker;
use replication::ids::History;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// What other threads tell it.
pub enum ReplicationMessage {
    /// The server follows another one, whose history this is, from this offset on: who follows this server begins anew,
    /// unless `goes_on`, and what is in the backlog is of no use then.
    Follow { history: History, offset: u64, goes_on: bool },
    /// Bytes of the primary's stream, which were applied: replicas get them as they are.
    Feed(Vec<u8>),
    /// The server follows nobody any more: its own change log is the stream from now on, by this name.
    Lead { history: History },
    /// The client's connection is to end.
    Kill(u64),
    /// A client waits for replicas.
    AskReplicas,
}

/// The way to that thread.
pub struct ReplicationHandle {
    messages: Sender<ReplicationMessage>,
    inbox: Receiver<ReplicationMessage>,
    waker: OnceLock<Waker>,
    /// The thread sleeps, or is about to: who has something for it wakes it.
    sleeps: AtomicBool,
}

impl Default for ReplicationHandle {
    fn default() -> Self {
        let (messages, inbox) = unbounded();
        ReplicationHandle { messages, inbox, waker: OnceLock::new(), sleeps: AtomicBool::new(false) }
    }
}

impl ReplicationHandle {
    /// Tells the thread something, and wakes it.
    pub fn post(&self, message: ReplicationMessage) {
        // The receiver lies beside the sender.
        let _ = self.messages.send(message);
        self.wake();
    }

    /// Wakes the thread if it sleeps: there may be something in the change log.
    #[inline]
    pub fn wake(&self) {
        if self.sleeps.load(SeqCst) && self.sleeps.swap(false, SeqCst) {
            self.waker.get().map(Waker::wake);
        }
    }

    /// The next message, for the thread itself.
    pub fn take(&self) -> Option<ReplicationMessage> {
        self.inbox.try_recv().ok()
    }

    /// The thread's own waker; once.
    pub fn set_waker(&self, waker: Waker) {
        assert!(self.waker.set(waker).is_ok(), "the waker is set once");
    }

    /// The thread is about to sleep, and looks once more for work after this.
    pub fn begin_sleep(&self) {
        self.sleeps.store(true, SeqCst);
    }

    /// It is awake.
    pub fn end_sleep(&self) {
        self.sleeps.store(false, SeqCst);
    }
}
