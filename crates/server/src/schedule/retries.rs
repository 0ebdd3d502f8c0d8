//! Connections whose command wants a lock that another thread has for long: the command is retried every half a
//! millisecond.

use engine::time::Nanos;

/// Nanoseconds between two retries.
pub const RETRY: u64 = 500_000;

/// Connections of a worker with a command to retry.
#[derive(Debug, Default)]
pub struct Retries {
    tokens: Vec<usize>,
    /// Time of the next retry, by the host's clock.
    next: Nanos,
}

impl Retries {
    /// Returns whether no connection has a command to retry.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Adds a connection whose command is to be retried.
    pub fn add(&mut self, token: usize) {
        self.tokens.push(token);
    }

    /// Takes all connections, when it is time; then the next time is set, also when there are none.
    pub fn take_due(&mut self, clock: Nanos) -> Option<Vec<usize>> {
        if clock < self.next {
            return None;
        }
        self.next = clock.after(RETRY);
        Some(std::mem::take(&mut self.tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_half_a_millisecond_apart() {
        let mut retries = Retries::default();
        retries.add(3);
        retries.add(1);
        assert_eq!(retries.take_due(Nanos(7)), Some(vec![3, 1]));
        retries.add(2);
        assert_eq!(retries.take_due(Nanos(6 + RETRY)), None);
        assert!(!retries.is_empty());
        assert_eq!(retries.take_due(Nanos(7 + RETRY)), Some(vec![2]));
        assert!(retries.is_empty());
        assert_eq!(retries.take_due(Nanos(7 + 2 * RETRY)), Some(vec![]));
    }
}
