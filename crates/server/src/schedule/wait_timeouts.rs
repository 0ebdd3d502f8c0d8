//! The timeouts of blocked clients: the deadlines of a worker's tickets, in order.

use engine::clients::waiters::Ticket;
use engine::time::SteadyMs;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

/// End of a wait: the earliest is the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitTimeout {
    deadline: SteadyMs,
    /// Arrival of the ticket: another wait of the connection, or of another one with its token, has another.
    arrival: u64,
    token: usize,
}

impl WaitTimeout {
    /// Returns the end of the ticket's wait; None: it waits for good.
    pub fn of(ticket: &Ticket) -> Option<WaitTimeout> {
        let token = ticket.client.token.load(Relaxed);
        ticket.deadline.map(|deadline| WaitTimeout { deadline, arrival: ticket.arrival, token })
    }
}

/// The timeouts of all waiting connections of a worker.
#[derive(Debug, Default)]
pub struct WaitTimeouts {
    timeouts: BTreeSet<WaitTimeout>,
}

impl WaitTimeouts {
    /// Adds the timeout of a wait that begins; None: for good.
    pub fn add(&mut self, timeout: Option<WaitTimeout>) {
        self.timeouts.extend(timeout);
    }

    /// Removes the timeout of a wait that has ended.
    pub fn remove(&mut self, timeout: Option<WaitTimeout>) {
        timeout.inspect(|timeout| _ = self.timeouts.remove(timeout));
    }

    /// Returns the earliest deadline.
    pub fn next(&self) -> Option<SteadyMs> {
        self.timeouts.first().map(|timeout| timeout.deadline)
    }

    /// Takes the connection and the ticket's arrival of a wait whose time has come.
    pub fn take_due(&mut self, now: SteadyMs) -> Option<(usize, u64)> {
        let timeout = self.timeouts.first().copied().filter(|timeout| timeout.deadline <= now)?;
        self.timeouts.remove(&timeout);
        Some((timeout.token, timeout.arrival))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end_in_the_order_of_their_deadlines() {
        let timeout = |ms, arrival, token| Some(WaitTimeout { deadline: SteadyMs(ms), arrival, token });
        let last = SteadyMs(i64::MAX);
        let mut timeouts = WaitTimeouts::default();
        assert_eq!((timeouts.next(), timeouts.take_due(last)), (None, None));
        for (deadline, arrival, token) in [(30, 1, 5), (10, 2, 6), (10, 3, 4), (20, 5, 8)] {
            timeouts.add(timeout(deadline, arrival, token));
        }
        timeouts.remove(timeout(20, 5, 8));
        assert_eq!((timeouts.next(), timeouts.take_due(SteadyMs(9))), (Some(SteadyMs(10)), None));
        assert_eq!((timeouts.take_due(SteadyMs(10)), timeouts.take_due(SteadyMs(10))), (Some((6, 2)), Some((4, 3))));
        assert_eq!((timeouts.take_due(SteadyMs(29)), timeouts.next()), (None, Some(SteadyMs(30))));
        assert_eq!((timeouts.take_due(SteadyMs(31)), timeouts.take_due(last)), (Some((5, 1)), None));
    }
}
