//! Connections that have something to do: in this tick, in the next, or after all others.
//!
//! ```text
//!   enqueue -> ready ---------> the tick: all of them -> served
//!           -> deprioritized -> the tick: one, the next ... until its slice of time is used up
//!   chunked commands ---------> the tick: one step each, likewise
//! ```
//!
//! Tokens may be of connections that are gone, or of others that have them by now: they are looked up with care.

use std::collections::VecDeque;

/// A worker's connections by when they are served.
#[derive(Debug, Default)]
pub struct RunQueue {
    /// Connections that are served in the next tick, all of them.
    ready: Vec<usize>,
    /// Connections that are served after the others, one after the other.
    deprioritized: VecDeque<usize>,
    /// Connections that are served in this tick.
    in_tick: Vec<usize>,
    /// Connections with a chunked command to continue.
    chunked: Vec<usize>,
}

impl RunQueue {
    /// Returns whether no connection has anything to do.
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.deprioritized.is_empty() && self.chunked.is_empty()
    }

    /// Returns whether no connection is left to be served after others.
    pub fn all_served(&self) -> bool {
        self.deprioritized.is_empty()
    }

    /// Adds a connection that has something to do.
    pub fn add(&mut self, token: usize, is_deprioritized: bool) {
        if is_deprioritized {
            self.deprioritized.push_back(token);
        } else {
            self.ready.push(token);
        }
    }

    /// Begins a tick: returns the connections that it serves, and puts the connections that `is_deprioritized` behind
    /// the others.
    pub fn begin_tick(&mut self, is_deprioritized: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut ready = std::mem::take(&mut self.ready);
        ready.retain(|&token| {
            let is_light = !is_deprioritized(token);
            if !is_light {
                self.deprioritized.push_back(token);
            }
            is_light
        });
        self.in_tick.clear();
        self.in_tick.extend_from_slice(&ready);
        ready
    }

    /// Ends the tick that served these.
    pub fn end_tick(&mut self, mut served: Vec<usize>) {
        if self.ready.is_empty() {
            // Keeps the list's memory.
            served.clear();
            self.ready = served;
        }
    }

    /// Takes the next connection that is served after others, and serves it in this tick.
    pub fn next_deprioritized(&mut self) -> Option<usize> {
        let token = self.deprioritized.pop_front()?;
        self.in_tick.push(token);
        Some(token)
    }

    /// Returns whether the present tick serves the connection.
    pub fn is_in_tick(&self, token: usize) -> bool {
        self.in_tick.contains(&token)
    }

    /// Ends the present tick early but for `token`: returns the other connections that it serves.
    pub fn end_tick_but_for(&mut self, token: usize) -> Vec<usize> {
        let mut others = std::mem::replace(&mut self.in_tick, vec![token]);
        others.retain(|other| *other != token);
        others
    }

    /// Makes the connection wait for the next tick.
    pub fn put_back(&mut self, token: usize) {
        self.ready.push(token);
    }

    /// Takes all connections that have something to do but continue a chunked command, in the order in which they are
    /// served.
    pub fn take_all(&mut self) -> Vec<usize> {
        let mut all = std::mem::take(&mut self.ready);
        all.extend(std::mem::take(&mut self.deprioritized));
        all
    }

    /// Adds a connection whose chunked command is to continue.
    pub fn add_chunked(&mut self, token: usize) {
        self.chunked.push(token);
    }

    /// Returns whether a chunked command is to continue.
    pub fn has_chunked(&self) -> bool {
        !self.chunked.is_empty()
    }

    /// Takes all connections whose chunked commands are to continue.
    pub fn take_chunked(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.chunked)
    }

    /// Puts connections that there was no time for before the ones that have had a step.
    pub fn put_chunked_first(&mut self, tokens: impl Iterator<Item = usize>) {
        self.chunked.splice(0..0, tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_serves_all_that_are_ready_and_then_the_others_one_by_one() {
        let mut queue = RunQueue::default();
        assert!(queue.is_idle());
        for (token, is_deprioritized) in [(1, false), (2, true), (3, false), (4, false)] {
            queue.add(token, is_deprioritized);
        }
        let served = queue.begin_tick(|token| token == 3);
        assert_eq!(served, [1, 4]);
        assert!(queue.is_in_tick(4) && !queue.is_in_tick(3));
        assert_eq!(queue.next_deprioritized(), Some(2));
        assert!(queue.is_in_tick(2) && !queue.all_served());
        queue.end_tick(served);
        assert!(!queue.is_idle(), "one is left for the next tick");
        assert!(queue.begin_tick(|_| false).is_empty() && !queue.is_in_tick(4));
        assert_eq!((queue.next_deprioritized(), queue.next_deprioritized()), (Some(3), None));
        assert!(queue.is_idle());
    }

    #[test]
    fn connections_that_got_ready_in_a_tick_are_not_lost() {
        let mut queue = RunQueue::default();
        queue.add(1, false);
        let served = queue.begin_tick(|_| false);
        queue.add(2, false);
        queue.end_tick(served);
        assert_eq!(queue.begin_tick(|_| false), [2]);
    }

    #[test]
    fn a_tick_within_a_tick_leaves_one_connection_alone() {
        let mut queue = RunQueue::default();
        [5, 6, 7].into_iter().for_each(|token| queue.add(token, false));
        queue.begin_tick(|_| false);
        assert_eq!(queue.end_tick_but_for(6), [5, 7]);
        assert!(queue.is_in_tick(6) && !queue.is_in_tick(5));
        queue.add(8, true);
        queue.put_back(5);
        assert_eq!(queue.take_all(), [5, 8]);
        assert!(queue.is_idle());
    }

    #[test]
    fn chunked_commands_take_turns() {
        let mut queue = RunQueue::default();
        (1..=3).for_each(|token| queue.add_chunked(token));
        assert!(queue.has_chunked() && !queue.is_idle());
        let mut tokens = queue.take_chunked().into_iter();
        queue.add_chunked(tokens.next().unwrap());
        queue.put_chunked_first(tokens);
        assert_eq!(queue.take_chunked(), [2, 3, 1]);
    }
}
