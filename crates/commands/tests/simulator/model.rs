//! The effects of operations: two databases of a few keys, as plain data.

use crate::operation::{End, Key, Operation, REFUSED, Step, Wait};
use crate::streams::Stream;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    Number(i64),
    List(Vec<i64>),
    Hash(BTreeMap<i64, i64>),
    Set(BTreeSet<i64>),
    /// The score of each member.
    Sorted(BTreeMap<i64, i64>),
    Stream(Stream),
}

/// A key's value, and the time in milliseconds at which it expires.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kept {
    pub content: Content,
    pub ends: Option<i64>,
}

/// All keys of both databases, some of which may have expired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Model(pub [BTreeMap<Key, Kept>; 2]);

impl Model {
    /// Returns the keys that have not expired by then.
    pub fn alive(&self, now: i64) -> Model {
        let mut alive = self.clone();
        alive.0.iter_mut().for_each(|db| db.retain(|_, kept| kept.ends.is_none_or(|ends| ends > now)));
        alive
    }

    /// Returns whether a client in that database would get the key that it waits for.
    pub fn has(&self, wait: &Wait, db: usize, now: i64) -> bool {
        View { model: &mut self.clone(), db, now }.wait(wait).is_some()
    }

    /// Returns keys that have expired by then.
    fn expired(&self, now: i64) -> Vec<(usize, Key)> {
        let expired = |kept: &Kept| kept.ends.is_some_and(|ends| ends <= now);
        let of = |db: usize| self.0[db].iter().filter(move |(_, kept)| expired(kept)).map(move |(key, _)| (db, *key));
        of(0).chain(of(1)).collect()
    }

    /// Returns the states after an operation of a client in database `db` at time `now`, if its reply can be `seen`;
    /// None for `seen`: with any reply. An operation that touches an expired key may remove it or not, which only an
    /// operation with an older time can see; `oldest`: no time is older from here on.
    pub fn after(
        &self,
        operation: &Operation,
        (db, now): (usize, i64),
        seen: Option<&[u8]>,
        oldest: i64,
    ) -> Vec<Model> {
        let fits = |reply: &str| seen.is_none_or(|seen| seen == reply.as_bytes());
        let mut states = Vec::new();
        for refused in refusals(operation, seen) {
            let mut after = self.clone();
            if fits(&View { model: &mut after, db, now }.operation(operation, refused)) {
                states.push(after);
            }
        }
        // A transaction that was given up changes nothing, and neither does a wait that has ended: that may happen at
        // any time at which the keys are missing.
        let mut same = self.clone();
        if (View { model: &mut same, db, now }).given_up(operation).iter().any(|reply| fits(reply)) {
            states.push(same);
        }
        states.into_iter().flat_map(|state| state.alive(oldest).with_and_without_expired(now)).collect()
    }

    fn with_and_without_expired(self, now: i64) -> Vec<Model> {
        let mut states = vec![self];
        for (db, key) in states[0].expired(now) {
            let without: Vec<Model> = states
                .iter()
                .cloned()
                .map(|mut state| {
                    state.0[db].remove(key);
                    state
                })
                .collect();
            states.extend(without);
        }
        states
    }
}

/// Returns the sets of steps that may have been refused, as bits: each step of a script is by itself.
fn refusals(operation: &Operation, seen: Option<&[u8]>) -> std::ops::Range<u32> {
    let is_refused = || seen.is_some_and(|seen| String::from_utf8_lossy(seen).contains(REFUSED));
    match operation {
        Operation::Script(_, _, steps) if is_refused() => 0..1 << steps.len(),
        _ => 0..1,
    }
}

/// The keys as one operation sees them.
pub struct View<'m> {
    model: &'m mut Model,
    db: usize,
    now: i64,
}

impl View<'_> {
    fn find(&self, key: Key) -> Option<&Kept> {
        self.model.0[self.db].get(key).filter(|kept| kept.ends.is_none_or(|ends| ends > self.now))
    }

    fn take(&mut self, key: Key) -> Option<Kept> {
        self.find(key)?;
        self.model.0[self.db].remove(key)
    }

    fn put(&mut self, key: Key, content: Content) {
        self.model.0[self.db].insert(key, Kept { content, ends: None });
    }

    pub fn stream<R>(&mut self, key: Key, change: impl FnOnce(&mut Stream) -> R) -> R {
        self.edit(key, Content::Stream(Stream::default()), |content| match content {
            Content::Stream(stream) => change(stream),
            other => panic!("{key} is a stream: {other:?}"),
        })
    }

    /// Changes the value, which is `empty` when there is none, and is removed if it is so afterwards.
    fn edit<R>(&mut self, key: Key, empty: Content, change: impl FnOnce(&mut Content) -> R) -> R {
        let expired = if self.find(key).is_none() { self.model.0[self.db].remove(key) } else { None };
        let kept = self.model.0[self.db].entry(key).or_insert(Kept { content: empty.clone(), ends: None });
        let result = change(&mut kept.content);
        if kept.content == empty {
            self.model.0[self.db].remove(key);
            // An operation that only looked has not removed it.
            self.model.0[self.db].extend(expired.map(|kept| (key, kept)));
        }
        result
    }

    fn list<R>(&mut self, key: Key, change: impl FnOnce(&mut Vec<i64>) -> R) -> R {
        self.edit(key, Content::List(Vec::new()), |content| match content {
            Content::List(list) => change(list),
            other => panic!("{key} is a list: {other:?}"),
        })
    }

    fn hash<R>(&mut self, key: Key, change: impl FnOnce(&mut BTreeMap<i64, i64>) -> R) -> R {
        self.edit(key, Content::Hash(BTreeMap::new()), |content| match content {
            Content::Hash(fields) => change(fields),
            other => panic!("{key} is a hash: {other:?}"),
        })
    }

    fn set<R>(&mut self, key: Key, change: impl FnOnce(&mut BTreeSet<i64>) -> R) -> R {
        self.edit(key, Content::Set(BTreeSet::new()), |content| match content {
            Content::Set(members) => change(members),
            other => panic!("{key} is a set: {other:?}"),
        })
    }

    fn sorted<R>(&mut self, key: Key, change: impl FnOnce(&mut BTreeMap<i64, i64>) -> R) -> R {
        self.edit(key, Content::Sorted(BTreeMap::new()), |content| match content {
            Content::Sorted(scores) => change(scores),
            other => panic!("{key} is a sorted set: {other:?}"),
        })
    }

    fn number(&self, key: Key) -> Option<i64> {
        match self.find(key).map(|kept| &kept.content) {
            Some(Content::Number(n)) => Some(*n),
            None => None,
            Some(other) => panic!("{key} is a number: {other:?}"),
        }
    }

    fn pop(&mut self, key: Key, end: End) -> Option<i64> {
        self.list(key, |list| match end {
            _ if list.is_empty() => None,
            End::Left => Some(list.remove(0)),
            End::Right => list.pop(),
        })
    }

    fn push(&mut self, key: Key, end: End, n: i64) -> usize {
        self.list(key, |list| {
            list.insert(if end == End::Left { 0 } else { list.len() }, n);
            list.len()
        })
    }

    fn shift(&mut self, (from, to): (Key, Key), (out, into): (End, End)) -> Option<i64> {
        let n = if from == to {
            // The key stays, with its expiry, when its only element is rotated.
            self.list(from, |list| {
                match out {
                    _ if list.is_empty() => None,
                    End::Left => Some(list.remove(0)),
                    End::Right => list.pop(),
                }
                .inspect(|n| list.insert(if into == End::Left { 0 } else { list.len() }, *n))
            })?
        } else {
            let n = self.pop(from, out)?;
            self.push(to, into, n);
            n
        };
        Some(n)
    }

    /// Removes the lowest member, with its score.
    fn zpop(&mut self, key: Key) -> Option<(i64, i64)> {
        self.sorted(key, |scores| {
            let (member, score) =
                scores.iter().map(|(member, score)| (*member, *score)).min_by_key(|(m, s)| (*s, *m))?;
            scores.remove(&member);
            Some((member, score))
        })
    }

    /// Changes the state; returns the reply. `refused`: the refused steps.
    fn operation(&mut self, operation: &Operation, refused: u32) -> String {
        match operation {
            Operation::Alone(step) => self.step(step),
            Operation::Exec(steps) | Operation::Script(_, _, steps) => {
                let is_refused = |index: usize, step: &Step| refused & (1 << index) != 0 && step.may_write();
                let steps = steps.iter().enumerate();
                let reply = |(index, step)| if is_refused(index, step) { REFUSED.to_owned() } else { self.step(step) };
                let replies = array(steps.map(reply).collect());
                // Lua has one value for both nulls.
                let is_script = matches!(operation, Operation::Script(..));
                if is_script { replies.replace("*-1\r\n", "$-1\r\n") } else { replies }
            }
            Operation::Swap(key, n) => {
                let before = self.step(&Step::Get(key));
                before + &array(vec![self.step(&Step::Set(key, *n, None))])
            }
            Operation::Block(wait, _) => self.wait(wait).unwrap_or_default(),
            Operation::Beside(_) => String::new(),
            Operation::Cut(found) => {
                let is_it = self.model.alive(found.time) == found.model.alive(found.time);
                if is_it { ok() } else { String::new() }
            }
        }
    }

    /// Returns the replies of an operation that changes nothing, because it was given up or refused.
    fn given_up(&mut self, operation: &Operation) -> Vec<String> {
        let mut replies = Vec::new();
        match operation {
            Operation::Swap(key, _) => {
                let before = self.step(&Step::Get(key));
                replies.extend([format!("{before}*-1\r\n"), before + REFUSED]);
            }
            Operation::Block(wait, _) => {
                let is_there = View { model: &mut self.model.clone(), ..*self }.wait(wait).is_some();
                replies.extend((!is_there).then(|| "*-1\r\n".to_owned()));
            }
            _ => {}
        }
        replies.extend(operation.may_write().then(|| REFUSED.to_owned()));
        replies
    }

    fn wait(&mut self, wait: &Wait) -> Option<String> {
        match wait {
            Wait::Pop(keys, end) => keys.iter().find_map(|key| {
                let n = self.pop(key, *end)?;
                Some(array(vec![text(key), bulk(Some(n))]))
            }),
            Wait::Shift(from, to, out, into) => self.shift((from, to), (*out, *into)).map(|n| bulk(Some(n))),
            Wait::ZPop(keys) => keys.iter().find_map(|key| {
                let (member, score) = self.zpop(key)?;
                Some(array(vec![text(key), bulk(Some(member)), bulk(Some(score))]))
            }),
            Wait::XRead(keys, after) => self.xread(keys, *after),
            Wait::XReadGroup(keys, consumer) => self.xreadgroup(keys, consumer, 1),
        }
    }

    fn step(&mut self, step: &Step) -> String {
        match step {
            Step::Get(key) => bulk(self.number(key)),
            Step::Set(key, n, life) => {
                let ends = life.map(|life| self.now + life);
                self.model.0[self.db].insert(key, Kept { content: Content::Number(*n), ends });
                ok()
            }
            Step::Incr(key) => self.edit(key, Content::Number(i64::MIN), |content| {
                let Content::Number(n) = content else { panic!("{key} is a number") };
                *n = if *n == i64::MIN { 1 } else { *n + 1 };
                int(*n)
            }),
            Step::GetDel(key) => {
                let n = self.number(key);
                self.take(key);
                bulk(n)
            }
            Step::MGet(keys) => array(keys.iter().map(|key| bulk(self.number(key))).collect()),
            Step::MSet(pairs) => {
                pairs.iter().for_each(|(key, n)| self.put(key, Content::Number(*n)));
                ok()
            }
            Step::Push(..) | Step::Pop(..) | Step::Range(_) | Step::Shift(..) => self.step_on_list(step),
            Step::HSet(..) | Step::HIncr(..) | Step::HDel(..) | Step::HGet(..) => self.step_on_hash(step),
            Step::SAdd(..) | Step::SRem(..) | Step::SMove(..) | Step::SCard(_) => self.step_on_set(step),
            Step::ZAdd(..) | Step::ZIncr(..) | Step::ZPop(_) | Step::ZRange(_) => self.step_on_sorted(step),
            Step::XAdd(key, _) | Step::XDel(key, _) | Step::XTrim(key, _) | Step::XRange(key) | Step::XGroup(key) => {
                self.step_on_stream(key, step)
            }
            Step::XReadGroup(key, ..) | Step::XPending(key, _) | Step::XAck(key, _) | Step::XClaim(key, ..) => {
                self.step_on_stream(key, step)
            }
            _ => self.step_on_any(step),
        }
    }

    fn step_on_list(&mut self, step: &Step) -> String {
        match step {
            Step::Push(key, end, n) => int(self.push(key, *end, *n) as i64),
            Step::Pop(key, end) => bulk(self.pop(key, *end)),
            Step::Range(key) => self.list(key, |list| array(list.iter().map(|n| bulk(Some(*n))).collect())),
            Step::Shift(from, to, out, into) => bulk(self.shift((from, to), (*out, *into))),
            other => panic!("{other:?} is on a list"),
        }
    }

    fn step_on_hash(&mut self, step: &Step) -> String {
        match step {
            Step::HSet(key, field, n) => self.hash(key, |fields| int(fields.insert(*field, *n).is_none().into())),
            Step::HIncr(key, field, n) => self.hash(key, |fields| {
                let value = fields.entry(*field).or_default();
                *value += n;
                int(*value)
            }),
            Step::HDel(key, field) => self.hash(key, |fields| int(fields.remove(field).is_some().into())),
            Step::HGet(key, field) => self.hash(key, |fields| bulk(fields.get(field).copied())),
            other => panic!("{other:?} is on a hash"),
        }
    }

    fn step_on_set(&mut self, step: &Step) -> String {
        match step {
            Step::SAdd(key, member) => self.set(key, |members| int(members.insert(*member).into())),
            Step::SRem(key, member) => self.set(key, |members| int(members.remove(member).into())),
            Step::SMove(from, to, member) if from == to => {
                self.set(from, |members| int(members.contains(member).into()))
            }
            Step::SMove(from, to, member) => {
                let moved = self.set(from, |members| members.remove(member));
                if moved {
                    self.set(to, |members| members.insert(*member));
                }
                int(moved.into())
            }
            Step::SCard(key) => self.set(key, |members| int(members.len() as i64)),
            other => panic!("{other:?} is on a set"),
        }
    }

    fn step_on_sorted(&mut self, step: &Step) -> String {
        match step {
            Step::ZAdd(key, score, member) => {
                self.sorted(key, |scores| int(scores.insert(*member, *score).is_none().into()))
            }
            Step::ZIncr(key, score, member) => self.sorted(key, |scores| {
                let value = scores.entry(*member).or_default();
                *value += score;
                bulk(Some(*value))
            }),
            Step::ZPop(key) => match self.zpop(key) {
                Some((member, score)) => array(vec![bulk(Some(member)), bulk(Some(score))]),
                None => array(Vec::new()),
            },
            Step::ZRange(key) => self.sorted(key, |scores| {
                let mut members: Vec<_> = scores.iter().map(|(member, score)| (*score, *member)).collect();
                members.sort_unstable();
                let words = members.into_iter().flat_map(|(score, member)| [bulk(Some(member)), bulk(Some(score))]);
                array(words.collect())
            }),
            other => panic!("{other:?} is on a sorted set"),
        }
    }

    fn step_on_any(&mut self, step: &Step) -> String {
        match step {
            Step::Del(keys) => int(keys.iter().filter(|key| self.take(key).is_some()).count() as i64),
            Step::Rename(from, to) => match self.take(from) {
                None => "-ERR no such key\r\n".to_owned(),
                Some(kept) => {
                    self.model.0[self.db].insert(to, kept);
                    ok()
                }
            },
            Step::Copy(from, to) => match self.find(from).cloned() {
                None => int(0),
                Some(kept) => {
                    self.model.0[self.db].insert(to, kept);
                    int(1)
                }
            },
            Step::Expire(key, life) => int(self.expire(key, Some(self.now + life)).is_some().into()),
            Step::Persist(key) => int(self.expire(key, None).flatten().is_some().into()),
            Step::ExpireTime(key) => int(self.find(key).map_or(-2, |kept| kept.ends.unwrap_or(-1))),
            Step::FlushDb => {
                self.model.0[self.db].clear();
                ok()
            }
            Step::SwapDb => {
                self.model.0.swap(0, 1);
                ok()
            }
            other => panic!("{other:?} is on keys of one type"),
        }
    }

    /// Sets the key's expiry, and returns the old one, if there is such a key.
    fn expire(&mut self, key: Key, ends: Option<i64>) -> Option<Option<i64>> {
        self.find(key)?;
        let kept = self.model.0[self.db].get_mut(key)?;
        Some(std::mem::replace(&mut kept.ends, ends))
    }
}

pub fn ok() -> String {
    "+OK\r\n".into()
}

pub fn int(n: i64) -> String {
    format!(":{n}\r\n")
}

pub fn text(word: &str) -> String {
    format!("${}\r\n{word}\r\n", word.len())
}

pub fn bulk(value: Option<i64>) -> String {
    value.map_or("$-1\r\n".into(), |n| text(&n.to_string()))
}

pub fn array(items: Vec<String>) -> String {
    format!("*{}\r\n", items.len()) + &items.concat()
}
