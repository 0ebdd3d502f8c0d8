//! The way to a worker from other threads: a queue and a waker for its poll.
//!
//! | message | how many there can be |
//! |---|---|
//! | connection, handover, reply, kill, task, settle | one for each client that is counted, or that waits for it |
//! | pushes | as many bytes as [`congestion`](crate::workers::congestion) lets through |
//! | pause changed, durable | one: a second one would add nothing to the first |
//! | slots lost | one for each change of the cluster's slots |
//! | sleep, stop | one for each command, which no other client can give meanwhile |

use crate::connection::socket::SocketStream;
use crate::connection::state::Connection as ClientConnection;
use crate::workers::slumber::Slumber;
use crate::workers::wake_state::{Ring, WakeState};
use cluster::slot_set::SlotSet;
use crossbeam_channel::{Receiver, Sender, unbounded};
use engine::Engine;
use engine::acl::users::UserChange;
use engine::clients::pubsub::Push;
use engine::clients::registry::ClientInfo;
use engine::clients::waiters::Ticket;
use engine::host::threads::WorkerTask;
use mio::{Poll, Token, Waker};
use std::io;
use std::mem::discriminant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::AcqRel};

/// The token under which a worker's waker reports.
pub const WAKE: Token = Token(usize::MAX);

/// User of a new client before it has authenticated.
#[derive(Debug)]
pub enum Login {
    /// First existing user of these, whom its certificate names; else the default user.
    Certificate(Vec<Vec<u8>>),
    /// This user, which has authenticated already; without this user there is no client.
    User(Vec<u8>),
}

impl Login {
    /// Logs in as the default user.
    pub fn nobody() -> Login {
        Login::Certificate(Vec::new())
    }
}

/// A message of another thread to a worker.
pub enum WorkerMessage {
    /// A connection that is this worker's from now on, and its user.
    Connection { stream: SocketStream, info: Arc<ClientInfo>, login: Login },
    /// A connection that another worker has served until now.
    ConnectionMigration(Box<ClientConnection>),
    /// The reply that a blocked client of this worker has waited for.
    Reply { ticket: Arc<Ticket>, bytes: Vec<u8> },
    /// This client of this worker's is to be sent its replies, and then closed.
    Close { client: u64 },
    /// CLIENT PAUSE or CLIENT UNPAUSE was called, or the pause has ended.
    PauseChanged,
    /// Users have changed: some connections of theirs end.
    RightsChanged { changes: Arc<[UserChange]> },
    /// Slots are another node's: subscribers of their channels are notified.
    SlotsLost { slots: SlotSet },
    /// All workers stop for a while.
    Sleep(Slumber),
    /// A thread waits until this worker has handled all that has reached it; then the worker takes one off.
    Settle { left: Arc<AtomicUsize> },
    /// A client of this worker is to be disconnected.
    Kill { client: u64 },
    /// Messages and the like for clients of this worker, and the bytes that they count for.
    Pushes { pushes: Vec<Push>, bytes: usize },
    /// The log is durable up to a higher offset: replies may be sent that waited for that.
    Durable,
    /// A task for this worker's thread.
    Task(WorkerTask<Engine>),
    /// The server ends: the worker sends as much as can be sent at once, then stops.
    Stop,
}

/// Messages of which one at a time is enough.
#[derive(Default)]
struct Once {
    pause_changed: AtomicBool,
    durable: AtomicBool,
}

/// The sending side.
#[derive(Clone)]
pub struct Mailbox {
    messages: Sender<WorkerMessage>,
    once: Arc<Once>,
    waker: Arc<Waker>,
    wake_state: Arc<WakeState>,
}

/// The receiving side.
pub struct Inbox {
    messages: Receiver<WorkerMessage>,
    once: Arc<Once>,
    wake_state: Arc<WakeState>,
}

impl Inbox {
    /// Called before messages are taken: for later messages the worker is woken anew.
    pub fn hear(&self) {
        self.wake_state.hear();
    }

    /// Takes the next message, if there is one.
    pub fn take(&self) -> Option<WorkerMessage> {
        let message = self.messages.try_recv().ok()?;
        match &message {
            // A change from here on is posted anew.
            WorkerMessage::PauseChanged => _ = self.once.pause_changed.swap(false, AcqRel),
            WorkerMessage::Durable => _ = self.once.durable.swap(false, AcqRel),
            _ => {}
        }
        Some(message)
    }

    /// Returns whether no message is there.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

/// Messages that a worker has taken and that have to wait until its script has ended.
#[derive(Default)]
pub struct DeferredMessages {
    messages: Vec<WorkerMessage>,
}

impl DeferredMessages {
    /// Retains a message; of equal messages without further content one is retained.
    pub fn add(&mut self, message: WorkerMessage) {
        let is_same = |other: &WorkerMessage| discriminant(other) == discriminant(&message);
        let once = matches!(message, WorkerMessage::PauseChanged | WorkerMessage::Durable);
        if !once || !self.messages.iter().any(is_same) {
            self.messages.push(message);
        }
    }

    /// Returns whether no message is retained.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Takes all, in order.
    pub fn take(&mut self) -> Vec<WorkerMessage> {
        std::mem::take(&mut self.messages)
    }
}

impl Mailbox {
    /// Creates a mailbox that wakes `poll`, of a worker without a thread.
    pub fn new(poll: &Poll) -> io::Result<(Mailbox, Inbox)> {
        let (messages, inbox) = unbounded();
        let wake_state = Arc::new(WakeState::ended());
        let once = Arc::<Once>::default();
        let inbox = Inbox { messages: inbox, once: Arc::clone(&once), wake_state: Arc::clone(&wake_state) };
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        Ok((Mailbox { messages, once, waker, wake_state }, inbox))
    }

    /// Adds a message and wakes the worker, unless the worker posts to itself: it looks into its mailbox in every tick.
    /// True if it has no thread: the caller has to start one.
    #[must_use]
    pub fn post(&self, message: WorkerMessage, to_self: bool) -> bool {
        let lies_there = match &message {
            WorkerMessage::PauseChanged => self.once.pause_changed.swap(true, AcqRel),
            WorkerMessage::Durable => self.once.durable.swap(true, AcqRel),
            _ => false,
        };
        (lies_there || self.messages.send(message).is_ok()) && !to_self && self.wake()
    }

    /// Wakes the worker. True if it has no thread: the caller has to start one.
    #[must_use]
    pub fn wake(&self) -> bool {
        let ring = self.wake_state.ring();
        if ring == Ring::Wake {
            // A waker fails only when its poll is gone, and then no thread waits for the message.
            let _ = self.waker.wake();
        }
        ring == Ring::Start
    }

    /// Returns the number of messages that the worker has not taken.
    pub fn waiting(&self) -> usize {
        self.messages.len()
    }

    /// Returns the state of the worker's thread, which shows whether there is one.
    pub fn wake_state(&self) -> &WakeState {
        &self.wake_state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::Events;
    use std::time::Duration;

    #[test]
    fn a_worker_is_woken_once_until_it_has_heard() {
        let mut poll = Poll::new().unwrap();
        let (mailbox, inbox) = Mailbox::new(&poll).unwrap();
        assert!(mailbox.wake(), "it has no thread yet");
        inbox.hear();
        let mut is_woken = || {
            let mut events = Events::with_capacity(4);
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            !events.is_empty()
        };
        let _ = mailbox.post(WorkerMessage::Kill { client: 1 }, true);
        assert!(!is_woken());
        let _ = mailbox.post(WorkerMessage::Kill { client: 2 }, false);
        assert!(is_woken());
        let _ = mailbox.post(WorkerMessage::Kill { client: 3 }, false);
        assert!(!is_woken());
        inbox.hear();
        let _ = mailbox.post(WorkerMessage::Kill { client: 4 }, false);
        assert!(is_woken());
        assert_eq!(std::iter::from_fn(|| inbox.take()).count(), 4);
    }

    #[test]
    fn messages_that_need_not_be_sent_twice_lie_there_once() {
        let poll = Poll::new().unwrap();
        let (mailbox, inbox) = Mailbox::new(&poll).unwrap();
        for _ in 0..2 {
            for _ in 0..1000 {
                let _ = mailbox.post(WorkerMessage::PauseChanged, false);
                let _ = mailbox.post(WorkerMessage::Durable, false);
            }
            assert!(matches!(inbox.take(), Some(WorkerMessage::PauseChanged)));
            assert!(matches!(inbox.take(), Some(WorkerMessage::Durable)));
            assert!(inbox.is_empty());
        }
    }

    #[test]
    fn deferred_messages_keep_their_order_and_are_not_repeated() {
        let mut deferred = DeferredMessages::default();
        for _ in 0..2 {
            deferred.add(WorkerMessage::Durable);
            deferred.add(WorkerMessage::Kill { client: 1 });
        }
        let kinds: Vec<bool> = deferred.take().iter().map(|it| matches!(it, WorkerMessage::Durable)).collect();
        assert_eq!(kinds, [true, false, false]);
        assert!(deferred.take().is_empty());
    }
}
