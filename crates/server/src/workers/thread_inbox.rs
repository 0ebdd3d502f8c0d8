//! Messages of other threads to a thread that waits in a poll.
//!
//! The thread sets that it is about to sleep and then looks once more for work; a thread with work posts it first and
//! then looks whether the thread sleeps. So no work is missed, and a thread that is awake costs the other one a look.

use crossbeam_channel::{Receiver, Sender, unbounded};
use mio::Waker;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

/// States: whether the thread is to be woken, and for which work.
const AWAKE: u8 = 0;
/// The thread is woken for messages, and for work that cannot wait.
const RESTS: u8 = 1;
/// The thread is woken for any work.
const SLEEPS: u8 = 2;

/// The way to that thread, and the thread's end of it.
pub struct ThreadInbox<M> {
    messages: Sender<M>,
    inbox: Receiver<M>,
    waker: OnceLock<Waker>,
    /// Whether the thread sleeps or rests, or is about to.
    state: AtomicU8,
}

impl<M> Default for ThreadInbox<M> {
    fn default() -> Self {
        let (messages, inbox) = unbounded();
        ThreadInbox { messages, inbox, waker: OnceLock::new(), state: AtomicU8::new(AWAKE) }
    }
}

impl<M> ThreadInbox<M> {
    /// Sends the thread a message, and wakes it.
    pub fn post(&self, message: M) {
        // The receiver is in the same struct as the sender.
        let _ = self.messages.send(message);
        self.rouse();
    }

    /// Wakes the thread if it sleeps: there may be something in the change log.
    #[inline]
    pub fn wake(&self) {
        if self.state.load(SeqCst) == SLEEPS {
            self.rouse();
        }
    }

    /// Wakes the thread if it sleeps or rests.
    #[inline]
    pub fn rouse(&self) {
        if self.state.load(SeqCst) != AWAKE && self.state.swap(AWAKE, SeqCst) != AWAKE {
            self.waker.get().map(Waker::wake);
        }
    }

    /// Returns whether there is a message.
    pub fn has_messages(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Takes the next message, for the thread itself.
    pub fn take(&self) -> Option<M> {
        self.inbox.try_recv().ok()
    }

    /// Sets the thread's own waker; once.
    pub fn set_waker(&self, waker: Waker) {
        assert!(self.waker.set(waker).is_ok(), "the waker is set once");
    }

    /// Marks the thread as about to sleep; it looks once more for work after this.
    pub fn begin_sleep(&self) {
        self.state.store(SLEEPS, SeqCst);
    }

    /// Marks the thread as about to rest: work that can wait does not end the rest.
    pub fn begin_rest(&self) {
        self.state.store(RESTS, SeqCst);
    }

    /// Marks the thread as awake.
    pub fn end_sleep(&self) {
        self.state.store(AWAKE, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll, Token};
    use std::time::Duration;

    /// Number of messages that a thread counts, which wakes up for each, or for none.
    const MESSAGES: u32 = 20_000;

    #[test]
    fn a_thread_that_rests_is_woken_by_what_cannot_wait() {
        let (inbox, mut poll) = (ThreadInbox::default(), Poll::new().expect("a poll"));
        inbox.set_waker(Waker::new(poll.registry(), Token(0)).expect("a waker"));
        let mut events = Events::with_capacity(1);
        let mut is_woken = || {
            poll.poll(&mut events, Some(Duration::ZERO)).expect("to wait");
            !events.is_empty()
        };
        inbox.begin_rest();
        inbox.wake();
        assert!(!is_woken());
        inbox.rouse();
        inbox.rouse();
        assert!(is_woken());
        inbox.begin_rest();
        inbox.post(1);
        assert!(is_woken() && inbox.take() == Some(1));
        inbox.begin_sleep();
        inbox.wake();
        assert!(is_woken());
        inbox.rouse();
        assert!(!is_woken(), "it is awake");
    }

    #[test]
    fn no_message_is_left_with_a_thread_that_sleeps() {
        let (inbox, mut poll) = (ThreadInbox::default(), Poll::new().expect("a poll"));
        inbox.set_waker(Waker::new(poll.registry(), Token(0)).expect("a waker"));
        std::thread::scope(|scope| {
            let posts = scope.spawn(|| (0..MESSAGES).for_each(|number| inbox.post(number)));
            let (mut events, mut next) = (Events::with_capacity(1), 0);
            while next < MESSAGES {
                inbox.begin_sleep();
                if !inbox.has_messages() {
                    // The time is far longer than a wake-up takes: the thread that posts has to wake the other one.
                    poll.poll(&mut events, Some(Duration::from_secs(20))).expect("to wait");
                    assert!(!events.is_empty(), "nobody has woken it");
                }
                inbox.end_sleep();
                while let Some(number) = inbox.take() {
                    assert_eq!(number, next);
                    next += 1;
                }
            }
            posts.join().expect("all were posted");
        });
    }
}
