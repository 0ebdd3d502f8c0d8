//! Whether a history is linearizable: the search of Wing and Gong, *Testing and Verifying Concurrent Objects* (1993),
//! which remembers visited states as Lowe, *Testing for linearizability* (2017), does.
//!
//! Operations that touch no key of each other are checked apart, as far as possible: each such part of a history has an
//! order of its own (Herlihy and Wing's locality).

use crate::model::Model;
use crate::operation::{Key, Operation, REFUSED};
use std::collections::HashSet;
use std::sync::Arc;

/// One operation of one client.
#[derive(Debug)]
pub struct Call {
    pub operation: Operation,
    /// The client's database.
    pub db: usize,
    /// Times in milliseconds at which it may have run.
    pub times: Vec<i64>,
    /// Moments of the history's clock. A call without a reply may have had its effect, or not.
    pub called: u64,
    pub replied: Option<u64>,
    /// The reply, as bytes.
    pub seen: Vec<u8>,
    /// The log's length after it, if it has logged anything.
    pub logged_at: Option<u64>,
    /// The moment when its reply was ready, sent or not, and the log's length by then.
    pub ran: u64,
    pub log: u64,
    /// The moment from which its client knows that it is durable, and all that it saw.
    pub durable_at: Option<u64>,
}

impl Call {
    /// Returns a call without a reply yet.
    pub fn new(operation: Operation, db: usize, time: i64, called: u64) -> Call {
        let (times, seen) = (vec![time], Vec::new());
        let (ran, log) = (u64::MAX, 0);
        Call { operation, db, times, called, replied: None, seen, logged_at: None, ran, log, durable_at: None }
    }

    /// Returns the call of a snapshot of all keys, some time between two moments.
    pub fn cut(begin: u64, end: u64, found: Found) -> Call {
        let time = found.time;
        let (seen, replied) = (b"+OK\r\n".to_vec(), Some(end));
        Call { replied, seen, ran: end, ..Call::new(Operation::Cut(Arc::new(found)), 0, time, begin) }
    }

    /// Returns whether a write was refused, as the disk takes nothing, or was given up.
    pub fn is_given_up(&self) -> bool {
        let is_broken = matches!(self.operation, Operation::Swap(..)) && self.seen.ends_with(b"*-1\r\n");
        is_broken || self.seen.ends_with(REFUSED.as_bytes())
    }
}

/// The contents of the databases at a time in milliseconds.
#[derive(Debug)]
pub struct Found {
    pub model: Model,
    pub time: i64,
}

/// Returns whether there is an order of all calls in which each lies between its call and its reply, all replies fit,
/// and the contents are the result.
pub fn explained(calls: &[Call], found: &Found) -> bool {
    let alive = found.model.alive(found.time);
    parts(calls).iter().all(|part| {
        let keys: Vec<Key> = part.iter().flat_map(|call| call.operation.keys()).collect();
        let of_part = |model: &Model| {
            let mut model = model.alive(found.time);
            model.0.iter_mut().for_each(|db| db.retain(|key, _| keys.is_empty() || keys.contains(key)));
            model
        };
        let wanted = of_part(&alive);
        search(part, |done, state| {
            let is_done = |(index, call): (usize, &&Call)| call.replied.is_none() || done & (1 << index) != 0;
            part.iter().enumerate().all(is_done) && of_part(state) == wanted
        })
    })
}

/// Returns whether the data after a crash is the result of an order's beginning: one of calls that had begun by that
/// `moment`, and with all that had to survive, as the log was durable up to `synced`.
pub fn survives(calls: &[Call], moment: u64, synced: u64, found: &Found) -> bool {
    let changes = |call: &&Call| call.called < moment && !matches!(call.operation, Operation::Cut(_));
    let begun: Vec<&Call> = calls.iter().filter(changes).collect();
    let must =
        |call: &Call| call.durable_at.is_some_and(|at| at < moment) || call.logged_at.is_some_and(|at| at <= synced);
    let must: u64 = begun.iter().enumerate().filter(|(_, call)| must(call)).map(|(index, _)| 1 << index).sum();
    let wanted = found.model.alive(found.time);
    search(&begun, |done, state| must & !done == 0 && state.alive(found.time) == wanted)
}

/// Returns parts whose calls have no key in common with those of another part.
fn parts(calls: &[Call]) -> Vec<Vec<&Call>> {
    let touched: Vec<Vec<Key>> = calls.iter().map(|call| call.operation.keys()).collect();
    if touched.iter().any(Vec::is_empty) {
        return vec![calls.iter().collect()];
    }
    let mut parts: Vec<(Vec<Key>, Vec<&Call>)> = Vec::new();
    for (call, mut keys) in calls.iter().zip(touched) {
        let mut members = vec![call];
        let (with, without) = parts.into_iter().partition(|(other, _)| other.iter().any(|key| keys.contains(key)));
        parts = without;
        for (other, more) in with {
            keys.extend::<Vec<Key>>(other);
            members.extend::<Vec<&Call>>(more);
        }
        parts.push((keys, members));
    }
    parts.into_iter().map(|(_, members)| members).collect()
}

/// Returns whether some order of some of the calls has the wanted result; no call that is left out had its reply before
/// a call in the order began. At most 64 calls.
fn search(calls: &[&Call], is_wanted: impl Fn(u64, &Model) -> bool) -> bool {
    assert!(calls.len() <= 64, "a set of calls is one word");
    let mut visited = HashSet::new();
    let mut paths = vec![(0u64, Model::default())];
    while let Some((done, state)) = paths.pop() {
        if is_wanted(done, &state) {
            return true;
        }
        let open = || calls.iter().enumerate().filter(|(index, _)| done & (1 << index) == 0);
        let first_reply = open().filter_map(|(_, call)| call.replied).min().unwrap_or(u64::MAX);
        let oldest = open().flat_map(|(_, call)| &call.times).copied().min().unwrap_or(i64::MAX);
        for (index, call) in open().filter(|(_, call)| call.called < first_reply) {
            let seen = call.replied.map(|_| &call.seen[..]);
            for now in &call.times {
                let after = state.after(&call.operation, (call.db, *now), seen, oldest);
                let next = after.into_iter().map(|state| (done | 1 << index, state));
                paths.extend(next.filter(|next| visited.insert(next.clone())));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Content, Kept};
    use crate::operation::Step;

    const KEY: Key = "s0";

    fn call(step: Step, called: u64, replied: u64, seen: &str) -> Call {
        let (replied, logged_at) = (Some(replied), Some(called));
        let blank = Call::new(Operation::Alone(step), 0, called as i64, called);
        Call { replied, seen: seen.as_bytes().to_vec(), logged_at, durable_at: replied, ..blank }
    }

    /// Returns whether there is an order with any result.
    fn explained(calls: &[Call]) -> bool {
        let model = |n: Option<i64>| {
            let mut model = Model::default();
            model.0[0].extend(n.map(|n| (KEY, Kept { content: Content::Number(n), ends: None })));
            model
        };
        let ends = [None, Some(1), Some(2), Some(5)];
        ends.into_iter().any(|n| super::explained(calls, &Found { model: model(n), time: i64::MAX }))
    }

    fn set(called: u64, replied: u64) -> Call {
        call(Step::Set(KEY, 5, None), called, replied, "+OK\r\n")
    }

    #[test]
    fn overlapping_calls_may_go_either_way() {
        for seen in ["$-1\r\n", "$1\r\n5\r\n"] {
            assert!(explained(&[set(0, 3), call(Step::Get(KEY), 1, 2, seen)]), "{seen}");
        }
    }

    #[test]
    fn an_acknowledged_write_stays() {
        assert!(!explained(&[set(0, 1), call(Step::Get(KEY), 2, 3, "$-1\r\n")]));
    }

    #[test]
    fn no_client_may_see_the_past_after_another_saw_the_future() {
        let calls = [set(0, 9), call(Step::Get(KEY), 1, 2, "$1\r\n5\r\n"), call(Step::Get(KEY), 3, 4, "$-1\r\n")];
        assert!(!explained(&calls));
    }

    #[test]
    fn two_increments_are_two() {
        let incr = |called| call(Step::Incr(KEY), called, called + 2, ":1\r\n");
        assert!(!explained(&[incr(0), incr(1)]));
        assert!(explained(&[]));
    }

    #[test]
    fn a_write_without_a_reply_may_have_happened() {
        for seen in ["$-1\r\n", "$1\r\n5\r\n"] {
            let pending = Call { replied: None, ..set(0, 1) };
            assert!(explained(&[pending, call(Step::Get(KEY), 2, 3, seen)]), "{seen}");
        }
    }

    #[test]
    fn a_crash_leaves_what_was_durable_and_maybe_more() {
        let calls = [set(0, 1), call(Step::Set(KEY, 6, None), 2, 5, "+OK\r\n")];
        let found = |n: Option<i64>| {
            let mut found = Found { model: Model::default(), time: 9 };
            found.model.0[0].extend(n.map(|n| (KEY, Kept { content: Content::Number(n), ends: None })));
            found
        };
        let survive = |moment, synced| [None, Some(5), Some(6)].map(|n| survives(&calls, moment, synced, &found(n)));
        assert_eq!(survive(2, 0), [false, true, false], "the second has not begun");
        assert_eq!(survive(3, 0), [false, true, true]);
        assert_eq!(survive(3, 2), [false, false, true], "the second is durable");
        assert_eq!(survive(9, 0), [false, false, true], "the second was told of");
    }

    #[test]
    fn a_key_that_expires_is_there_until_then() {
        let set = || call(Step::Set(KEY, 5, Some(10)), 0, 1, "+OK\r\n");
        assert!(explained(&[set(), call(Step::Get(KEY), 9, 10, "$1\r\n5\r\n")]));
        assert!(!explained(&[set(), call(Step::Get(KEY), 9, 10, "$-1\r\n")]));
        assert!(explained(&[set(), call(Step::Get(KEY), 10, 11, "$-1\r\n")]));
        assert!(!explained(&[set(), call(Step::Get(KEY), 10, 11, "$1\r\n5\r\n")]));
    }
}
