//! What other threads tell the thread that moves slots.

use crate::connection::socket::SocketStream;
use cluster::migration::{JobName, MigrationEffect};
use crossbeam_channel::{Receiver, Sender, unbounded};
use engine::clients::registry::ClientInfo;
use engine::propagation::log_reader::LogReader;
use mio::Waker;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// A connection from which slots come.
pub struct NewImport {
    pub job: JobName,
    pub stream: SocketStream,
    pub info: Arc<ClientInfo>,
    /// What it has sent behind its order.
    pub input: Vec<u8>,
}

/// What the thread tells that writes the keys of a job.
pub enum SnapshotEvent {
    /// The moment has passed: changes are in the log from where the reader begins, and those of before the snapshot end
    /// at the offset.
    Begun { reader: LogReader, offset: u64 },
    /// All has been handed out.
    Written,
    /// There will be none, or no whole one.
    Failed,
    /// There are too many snapshots: it is tried again.
    Refused,
}

/// What other threads tell it.
pub enum MigrationMessage {
    /// What the node wants done.
    Effect(MigrationEffect),
    /// A source.
    Import(Box<NewImport>),
    /// A source is gone before its connection came.
    ImportLost(JobName),
    /// Something about a snapshot.
    Snapshot(JobName, SnapshotEvent),
    /// All keys have gone at once, when so many jobs had begun.
    Flushed { begun: u64 },
    /// The client's connection is to end.
    Kill(u64),
}

/// The way to that thread.
pub struct MigrationHandle {
    messages: Sender<MigrationMessage>,
    inbox: Receiver<MigrationMessage>,
    waker: OnceLock<Waker>,
    /// The thread sleeps, or is about to: who has something for it wakes it.
    sleeps: AtomicBool,
}

impl Default for MigrationHandle {
    fn default() -> Self {
        let (messages, inbox) = unbounded();
        MigrationHandle { messages, inbox, waker: OnceLock::new(), sleeps: AtomicBool::new(false) }
    }
}

impl MigrationHandle {
    /// Tells the thread something, and wakes it. Nothing is kept where there is no such thread.
    pub fn post(&self, message: MigrationMessage) {
        if self.waker.get().is_some() {
            // The receiver lies beside the sender.
            let _ = self.messages.send(message);
            self.wake();
        }
    }

    /// Wakes the thread if it sleeps: there may be something in the change log.
    #[inline]
    pub fn wake(&self) {
        if self.sleeps.load(SeqCst) && self.sleeps.swap(false, SeqCst) {
            self.waker.get().map(Waker::wake);
        }
    }

    /// Whether there is a message.
    pub fn has_messages(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// The next message, for the thread itself.
    pub fn take(&self) -> Option<MigrationMessage> {
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
