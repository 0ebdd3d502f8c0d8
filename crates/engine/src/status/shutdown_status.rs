//! The server's shutdown while it is on its way: replicas get the changes that they lack first, for a while.

use crate::locks::sync::Mutex;
use crate::time::SteadyMs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Phase of a shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The server does not end.
    #[default]
    None,
    /// Replicas are waited for, until this time at most.
    Waiting(SteadyMs),
    /// The rest of the work is being done.
    Ending,
    /// All is done.
    Ended,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct ShutdownStatus {
    /// Number of shutdowns that have begun, and the phase of the last one.
    state: Mutex<(u64, Phase)>,
    /// Whether the present shutdown saves nothing any more.
    saves_nothing: AtomicBool,
}

/// The right to end the server, which one thread has at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownTurn(u64);

impl ShutdownStatus {
    /// Begins a shutdown that waits until then at most.
    ///
    /// # Errors
    ///
    /// The turn of the present shutdown, done or not.
    pub fn begin(&self, until: SteadyMs) -> Result<ShutdownTurn, ShutdownTurn> {
        let mut state = self.state.lock();
        if state.1 != Phase::None {
            return Err(ShutdownTurn(state.0));
        }
        *state = (state.0 + 1, Phase::Waiting(until));
        self.saves_nothing.store(false, Relaxed);
        Ok(ShutdownTurn(state.0))
    }

    /// Makes the present shutdown end without a last save, which waits for a script that does not end.
    pub fn give_up_save(&self) {
        self.saves_nothing.store(true, Relaxed);
    }

    /// Returns whether the last save was given up.
    pub fn saves_nothing(&self) -> bool {
        self.saves_nothing.load(Relaxed)
    }

    /// Whether it still waits, and was not cancelled.
    pub fn waits(&self, turn: ShutdownTurn) -> bool {
        let state = self.state.lock();
        state.0 == turn.0 && matches!(state.1, Phase::Waiting(_))
    }

    /// Ends its wait; false if it was cancelled before.
    #[must_use]
    pub fn go_on(&self, turn: ShutdownTurn) -> bool {
        let mut state = self.state.lock();
        let waits = state.0 == turn.0 && matches!(state.1, Phase::Waiting(_));
        if waits {
            state.1 = Phase::Ending;
        }
        waits
    }

    /// Records that it has failed.
    pub fn fail(&self, turn: ShutdownTurn) {
        let mut state = self.state.lock();
        if state.0 == turn.0 {
            state.1 = Phase::None;
        }
    }

    /// Records that everything is done.
    pub fn finish(&self, turn: ShutdownTurn) {
        let mut state = self.state.lock();
        if state.0 == turn.0 {
            state.1 = Phase::Ended;
        }
    }

    /// Whether everything is done.
    pub fn has_ended(&self) -> bool {
        self.state.lock().1 == Phase::Ended
    }

    /// Cancels it, if it waits.
    pub fn abort(&self) -> bool {
        let mut state = self.state.lock();
        let waits = matches!(state.1, Phase::Waiting(_));
        if waits {
            state.1 = Phase::None;
        }
        waits
    }

    /// Returns the shutdown that is on its way and not done.
    pub fn present(&self) -> Option<ShutdownTurn> {
        let state = self.state.lock();
        (!matches!(state.1, Phase::None | Phase::Ended)).then_some(ShutdownTurn(state.0))
    }

    /// Returns the moment up to which it waits, if it does.
    pub fn waiting_until(&self) -> Option<SteadyMs> {
        match self.state.lock().1 {
            Phase::Waiting(until) => Some(until),
            Phase::None | Phase::Ending | Phase::Ended => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_end_at_a_time_is_taken_back_or_goes_on() {
        let status = ShutdownStatus::default();
        let first = status.begin(SteadyMs(5)).unwrap();
        assert!(status.begin(SteadyMs(9)) == Err(first) && status.waits(first));
        assert_eq!((status.waiting_until(), status.present()), (Some(SteadyMs(5)), Some(first)));
        assert!(status.abort() && !status.abort() && !status.waits(first) && !status.go_on(first));
        let second = status.begin(SteadyMs(9)).unwrap();
        status.fail(first);
        assert!(!status.waits(first) && status.go_on(second) && !status.abort());
        assert_eq!((status.waiting_until(), status.present()), (None, Some(second)));
        status.fail(second);
        assert_eq!(status.present(), None);
        let third = status.begin(SteadyMs(9)).unwrap();
        assert!(status.go_on(third) && !status.has_ended());
        status.finish(third);
        assert!(status.has_ended() && status.present().is_none() && status.begin(SteadyMs(9)) == Err(third));
    }
}
