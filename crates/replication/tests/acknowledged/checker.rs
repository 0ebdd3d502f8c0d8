//! Whether clients have seen one register in an order: each operation takes effect at one moment between its call and
//! its reply, and a read returns the last write.

use std::collections::HashSet;

/// A client's operation, and its reply.
#[derive(Clone, Debug)]
pub struct Call {
    /// Value that the operation wrote; None: it was a read.
    pub write: Option<u64>,
    pub called: u64,
    /// Time of the reply; None: the outcome is open.
    pub replied: Option<u64>,
    /// Value that was read; 0: none.
    pub seen: u64,
}

/// Returns whether such an order exists. Calls whose effect no client has seen are left out.
pub fn has_order(calls: &[Call]) -> bool {
    let read: HashSet<u64> = calls.iter().filter(|call| call.replied.is_some()).map(|call| call.seen).collect();
    let counts = |call: &&Call| call.replied.is_some() || call.write.is_some_and(|value| read.contains(&value));
    let mut calls: Vec<&Call> = calls.iter().filter(counts).collect();
    calls.sort_by_key(|call| call.called);
    Search { done: vec![false; calls.len()], calls, tried: HashSet::new() }.go(0, 0)
}

struct Search<'c> {
    calls: Vec<&'c Call>,
    done: Vec<bool>,
    /// States without a solution: all calls before an index are done, and these behind it, and the register holds a
    /// value.
    tried: HashSet<(usize, Vec<usize>, u64)>,
}

impl Search<'_> {
    /// Returns whether the other calls have an order, where all before `first` are done and the register holds `value`.
    fn go(&mut self, mut first: usize, value: u64) -> bool {
        while self.done.get(first) == Some(&true) {
            first += 1;
        }
        let rest = first..self.calls.len();
        let left = rest.clone().filter(|index| !self.done[*index]);
        let Some(until) = left.filter_map(|index| self.calls[index].replied).min() else { return true };
        let ahead = rest.clone().filter(|index| self.done[*index]).collect();
        if !self.tried.insert((first, ahead, value)) {
            return false;
        }
        let begun = rest.take_while(|index| self.calls[*index].called <= until);
        let open: Vec<usize> = begun.filter(|index| !self.done[*index]).collect();
        // A read of the register's value comes first: it changes nothing.
        let fits = |index: &usize| self.calls[*index].write.is_none() && self.calls[*index].seen == value;
        if let Some(index) = open.iter().copied().find(fits) {
            return self.goes_after(index, first, value);
        }
        let writes = open.into_iter().filter_map(|index| Some((index, self.calls[index].write?)));
        let writes: Vec<(usize, u64)> = writes.collect();
        writes.into_iter().any(|(index, written)| self.goes_after(index, first, written))
    }

    /// Returns whether an order begins with this call.
    fn goes_after(&mut self, index: usize, first: usize, value: u64) -> bool {
        self.done[index] = true;
        let found = self.go(first, value);
        self.done[index] = false;
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(value: u64, called: u64, replied: Option<u64>) -> Call {
        Call { write: Some(value), called, replied, seen: 0 }
    }

    fn read(seen: u64, called: u64, replied: u64) -> Call {
        Call { write: None, called, replied: Some(replied), seen }
    }

    #[test]
    fn a_written_value_is_read_until_another_is_written() {
        assert!(has_order(&[write(1, 0, Some(5)), read(1, 6, 7), write(2, 8, None), read(1, 9, 10), read(2, 11, 12)]));
        assert!(!has_order(&[write(1, 0, Some(5)), read(0, 6, 7)]), "it is lost");
        assert!(!has_order(&[write(1, 0, Some(5)), write(2, 6, None), read(2, 7, 8), read(1, 9, 10)]), "it comes back");
        assert!(has_order(&[write(1, 0, Some(9)), write(2, 0, Some(9)), read(1, 3, 4), read(2, 5, 6)]));
        assert!(has_order(&[write(1, 0, None), read(0, 6, 7), read(1, 8, 9)]), "it may come late");
    }
}
