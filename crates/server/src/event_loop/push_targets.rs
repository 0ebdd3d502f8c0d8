//! Connections that got pushes in this tick. Another connection may have a token by the time that it is looked up.

/// A worker's connections that got pushes.
#[derive(Debug, Default)]
pub struct PushTargets {
    /// Connections with pushes in their output that no write was tried for.
    unsent: Vec<usize>,
    /// Connections that got more than they may have to read, with their clients' numbers.
    over_limit: Vec<(usize, u64)>,
}

impl PushTargets {
    /// Adds a connection that is to be written to at the end of the tick.
    pub fn add(&mut self, token: usize) {
        self.unsent.push(token);
    }

    /// Adds a connection that got more than it may have to read.
    pub fn add_over_limit(&mut self, token: usize, client: u64) {
        self.over_limit.push((token, client));
    }

    /// Takes the connections that are to be written to.
    pub fn take_unsent(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.unsent)
    }

    /// Takes the connections that got too much, with their clients' numbers.
    pub fn take_over_limit(&mut self) -> Vec<(usize, u64)> {
        std::mem::take(&mut self.over_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_taken_once() {
        let mut targets = PushTargets::default();
        targets.add(3);
        targets.add(5);
        targets.add_over_limit(5, 77);
        assert_eq!((targets.take_unsent(), targets.take_over_limit()), (vec![3, 5], vec![(5, 77)]));
        assert!(targets.take_unsent().is_empty() && targets.take_over_limit().is_empty());
    }
}
