//! Whether a worker waits, has been woken, or has no thread.
//!
//! ```text
//!              ring: wake its poll              ring: start a thread
//!   LISTENS ------------------------> WOKEN <------------------------ ENDED
//!      ^                                |                               ^
//!      +-------- hear, then look -------+        LISTENS --- detach ----+
//! ```
//!
//! A message is put in before its ring. A thread that wants to end hears, looks whether it has anything to do, and
//! detaches only if no other thread has rung since: so each message is seen by the worker's thread or starts another
//! one, and one of several threads that ring for a worker without a thread starts it.

use std::sync::atomic::{AtomicU8, Ordering::AcqRel, Ordering::Acquire};

const LISTENS: u8 = 0;
const WOKEN: u8 = 1;
const ENDED: u8 = 2;

/// The task of a thread that rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// Nothing: the worker has not looked since it was woken.
    Woken,
    /// Wake the worker's poll.
    Wake,
    /// Start a thread for the worker.
    Start,
}

/// The state of one worker.
#[derive(Debug)]
pub struct WakeState(AtomicU8);

impl WakeState {
    /// Creates the state of a worker without a thread.
    pub fn ended() -> WakeState {
        WakeState(AtomicU8::new(ENDED))
    }

    /// Rings for the worker, which has something to do.
    pub fn ring(&self) -> Ring {
        match self.0.swap(WOKEN, AcqRel) {
            LISTENS => Ring::Wake,
            ENDED => Ring::Start,
            _ => Ring::Woken,
        }
    }

    /// Called by the worker before it looks: for later work it is woken anew.
    pub fn hear(&self) {
        self.0.swap(LISTENS, AcqRel);
    }

    /// Detaches the thread of a worker that has looked and has nothing to do. True if no other thread has rung since it
    /// heard: the thread is to end.
    pub fn detach(&self) -> bool {
        self.0.compare_exchange(LISTENS, ENDED, AcqRel, Acquire).is_ok()
    }

    /// Records that no thread could be started: the next ring retries it.
    pub fn fail(&self) {
        self.0.swap(ENDED, AcqRel);
    }

    /// Returns whether the worker has no thread.
    pub fn has_ended(&self) -> bool {
        self.0.load(Acquire) == ENDED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    #[test]
    fn a_worker_is_woken_once_and_started_once() {
        let state = WakeState::ended();
        assert!(state.has_ended());
        assert_eq!([state.ring(), state.ring()], [Ring::Start, Ring::Woken]);
        state.hear();
        assert_eq!([state.ring(), state.ring()], [Ring::Wake, Ring::Woken]);
        assert!(!state.detach(), "it has been woken and has not looked");
        state.hear();
        assert!(state.detach() && state.has_ended());
        assert_eq!(state.ring(), Ring::Start);
        state.fail();
        assert_eq!(state.ring(), Ring::Start);
    }

    /// Takes work until there is none for a moment, then leaves.
    fn work(state: &WakeState, queue: &AtomicUsize, taken: &AtomicUsize) {
        loop {
            state.hear();
            taken.fetch_add(queue.swap(0, SeqCst), SeqCst);
            if state.detach() {
                return;
            }
        }
    }

    #[test]
    fn nothing_is_left_with_a_worker_that_has_ended() {
        let (state, queue, taken) = (WakeState::ended(), AtomicUsize::new(0), AtomicUsize::new(0));
        let all = Arc::new((state, queue, taken));
        let start = |_| {
            let all = Arc::clone(&all);
            thread::spawn(move || {
                for _ in 0..5000 {
                    all.1.fetch_add(1, SeqCst);
                    if all.0.ring() == Ring::Start {
                        work(&all.0, &all.1, &all.2);
                    }
                }
            })
        };
        let threads: Vec<_> = (0..3).map(start).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((all.1.load(SeqCst), all.2.load(SeqCst)), (0, 15_000));
        assert!(all.0.has_ended());
    }

    /// The next step of a worker's thread.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Step {
        Hear,
        Look,
        Detach,
        Ended,
    }

    /// Threads that send a message each, and threads of the worker: all steps that they take, one at a time.
    struct Interleaving {
        state: WakeState,
        waiting: usize,
        taken: usize,
        /// Number of the two steps of sending that each has done.
        senders: Vec<usize>,
        threads: Vec<Step>,
    }

    impl Clone for Interleaving {
        fn clone(&self) -> Self {
            let Interleaving { state, senders, threads, .. } = self;
            let state = WakeState(AtomicU8::new(state.0.load(Acquire)));
            Interleaving { state, senders: senders.clone(), threads: threads.clone(), ..*self }
        }
    }

    impl Interleaving {
        fn send(&mut self, sender: usize) {
            if self.senders[sender] == 0 {
                self.waiting += 1;
            } else if self.state.ring() == Ring::Start {
                self.threads.push(Step::Hear);
            }
            self.senders[sender] += 1;
        }

        fn go_on(&mut self, thread: usize) {
            self.threads[thread] = match self.threads[thread] {
                Step::Hear => {
                    self.state.hear();
                    Step::Look
                }
                Step::Look if self.waiting > 0 => {
                    self.taken += std::mem::take(&mut self.waiting);
                    Step::Hear
                }
                Step::Look => Step::Detach,
                Step::Detach if self.state.detach() => Step::Ended,
                Step::Detach => Step::Hear,
                Step::Ended => unreachable!("it takes no more steps"),
            };
        }

        /// Goes through all orders of the steps that are left; returns how many there are.
        fn explore(self) -> usize {
            let running = self.threads.iter().filter(|step| **step != Step::Ended).count();
            assert!(running <= 1, "a worker has one thread");
            let (mut ways, mut ends) = (0, true);
            for sender in (0..self.senders.len()).filter(|sender| self.senders[*sender] < 2) {
                let mut next = self.clone();
                next.send(sender);
                (ways, ends) = (ways + next.explore(), false);
            }
            for thread in (0..self.threads.len()).filter(|thread| self.threads[*thread] != Step::Ended) {
                let mut next = self.clone();
                next.go_on(thread);
                (ways, ends) = (ways + next.explore(), false);
            }
            if ends {
                assert!(self.waiting == 0 && self.taken == self.senders.len() && self.state.has_ended());
            }
            ways + usize::from(ends)
        }
    }

    #[test]
    fn no_order_of_steps_leaves_a_message_behind_or_starts_two_threads() {
        let state = WakeState::ended();
        let all = Interleaving { state, waiting: 0, taken: 0, senders: vec![0; 3], threads: Vec::new() };
        assert!(all.explore() > 1000);
    }
}
