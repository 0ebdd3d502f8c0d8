//! Operations of clients: single commands, and several that are one step for observers.

use crate::beside::Beside;
use crate::checker::Found;
use fastrand::Rng;
use std::sync::Arc;

/// A key's name. Its first letter, after a tag, is its type: string, list, hash, set, sorted set, stream (`x`).
pub type Key = &'static str;

/// Keys of each type; those with a tag are of one slot.
pub const STRINGS: [Key; 4] = ["s0", "s1", "{t}s2", "{t}s3"];
pub const LISTS: [Key; 3] = ["l0", "{t}l1", "{t}l2"];
pub const HASHES: [Key; 2] = ["h0", "{t}h1"];
pub const SETS: [Key; 2] = ["t0", "{t}t1"];
pub const SORTED: [Key; 2] = ["z0", "{t}z1"];
pub const STREAMS: [Key; 2] = ["x0", "{t}x1"];

/// A consumer of the one group that streams have.
pub type Consumer = &'static str;

pub const CONSUMERS: [Consumer; 2] = ["a", "b"];

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Left,
    Right,
}

impl End {
    fn word(self) -> &'static str {
        if self == End::Left { "LEFT" } else { "RIGHT" }
    }

    fn letter(self) -> &'static str {
        &self.word()[..1]
    }
}

/// One command that does not wait and contains no others. Times are in milliseconds.
#[derive(Clone, Debug)]
pub enum Step {
    Get(Key),
    Set(Key, i64, Option<i64>),
    Incr(Key),
    GetDel(Key),
    MGet(Vec<Key>),
    MSet(Vec<(Key, i64)>),
    Del(Vec<Key>),
    Rename(Key, Key),
    Copy(Key, Key),
    Expire(Key, i64),
    Persist(Key),
    ExpireTime(Key),
    Push(Key, End, i64),
    Pop(Key, End),
    Range(Key),
    Shift(Key, Key, End, End),
    HSet(Key, i64, i64),
    HIncr(Key, i64, i64),
    HDel(Key, i64),
    HGet(Key, i64),
    SAdd(Key, i64),
    SRem(Key, i64),
    SMove(Key, Key, i64),
    SCard(Key),
    ZAdd(Key, i64, i64),
    ZIncr(Key, i64, i64),
    ZPop(Key),
    ZRange(Key),
    /// An entry with the id after the last, which are 0-1, 0-2 and so on.
    XAdd(Key, i64),
    XDel(Key, u64),
    XTrim(Key, usize),
    XRange(Key),
    /// The group, which begins with the first entry. The key is made if there is none.
    XGroup(Key),
    /// Reads so many entries that no consumer of the group has received.
    XReadGroup(Key, Consumer, usize),
    /// Reads the entries that the consumer has received and not acknowledged.
    XPending(Key, Consumer),
    XAck(Key, u64),
    XClaim(Key, Consumer, u64),
    FlushDb,
    SwapDb,
}

/// The form of a script's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Eval,
    Sha,
    Function,
}

/// A command that waits until its key is there.
#[derive(Clone, Debug)]
pub enum Wait {
    Pop(Vec<Key>, End),
    Shift(Key, Key, End, End),
    ZPop(Vec<Key>),
    /// Waits for entries after this one.
    XRead(Vec<Key>, u64),
    XReadGroup(Vec<Key>, Consumer),
}

/// One step for observers.
#[derive(Clone, Debug)]
pub enum Operation {
    Alone(Step),
    /// A transaction.
    Exec(Vec<Step>),
    /// A script, and whether it declares all keys that it will touch, or the first of them only.
    Script(Way, bool, Vec<Step>),
    /// WATCH, GET, and a transaction that sets: one step if it succeeds, a GET if not.
    Swap(Key, i64),
    /// A command that waits, and for how long at most; 0: without a limit.
    Block(Wait, i64),
    /// A command that changes no key.
    Beside(Beside),
    /// A snapshot, which saw all keys of one moment.
    Cut(Arc<Found>),
}

pub fn one<T: Copy>(random: &mut Rng, of: &[T]) -> T {
    of[random.usize(..of.len())]
}

/// Returns two different ones.
fn two(random: &mut Rng, of: &[Key]) -> (Key, Key) {
    let chosen = random.choose_multiple(0..of.len(), 2);
    (of[chosen[0]], of[chosen[1]])
}

fn some(random: &mut Rng, of: &[Key], most: usize) -> Vec<Key> {
    let count = random.usize(1..=most.min(of.len()));
    random.choose_multiple(0..of.len(), count).into_iter().map(|index| of[index]).collect()
}

fn end(random: &mut Rng) -> End {
    one(random, &[End::Left, End::Right])
}

impl Step {
    pub fn random(random: &mut Rng) -> Step {
        match random.u8(0..24) {
            0..8 => Step::on_strings(random),
            8..13 => Step::on_lists(random),
            13..18 => Step::on_members(random),
            18..22 => Step::on_streams(random),
            _ => Step::on_any(random),
        }
    }

    fn on_strings(random: &mut Rng) -> Step {
        let (key, n) = (one(random, &STRINGS), random.i64(0..10));
        match random.u8(0..10) {
            0 | 1 => Step::Get(key),
            2 | 3 => Step::Incr(key),
            4 => Step::Set(key, n, None),
            5 => Step::Set(key, n, Some(one(random, &[1, 4, 9]))),
            6 => Step::GetDel(key),
            7 => Step::MGet(some(random, &STRINGS, 4)),
            8 => Step::MGet(vec!["{t}s2", "{t}s3"]),
            _ => {
                let keys = some(random, &STRINGS, 4);
                Step::MSet(keys.into_iter().map(|key| (key, random.i64(0..10))).collect())
            }
        }
    }

    pub fn on_lists(random: &mut Rng) -> Step {
        let (key, n) = (one(random, &LISTS), random.i64(0..10));
        match random.u8(0..8) {
            0..4 => Step::Push(key, end(random), n),
            4 | 5 => Step::Pop(key, end(random)),
            6 => Step::Range(key),
            _ => Step::Shift(key, one(random, &LISTS), end(random), end(random)),
        }
    }

    fn on_members(random: &mut Rng) -> Step {
        let (member, n) = (random.i64(0..3), random.i64(0..10));
        match random.u8(0..12) {
            0 => Step::HSet(one(random, &HASHES), member, n),
            1 => Step::HIncr(one(random, &HASHES), member, n),
            2 => Step::HDel(one(random, &HASHES), member),
            3 => Step::HGet(one(random, &HASHES), member),
            4 => Step::SAdd(one(random, &SETS), member),
            5 => Step::SRem(one(random, &SETS), member),
            6 => Step::SMove(one(random, &SETS), one(random, &SETS), member),
            7 => Step::SCard(one(random, &SETS)),
            8 => Step::ZAdd(one(random, &SORTED), n, member),
            9 => Step::ZIncr(one(random, &SORTED), n, member),
            10 => Step::ZPop(one(random, &SORTED)),
            _ => Step::ZRange(one(random, &SORTED)),
        }
    }

    pub fn on_streams(random: &mut Rng) -> Step {
        let (key, consumer, id) = (one(random, &STREAMS), one(random, &CONSUMERS), random.u64(1..4));
        match random.u8(0..16) {
            0..4 => Step::XAdd(key, random.i64(0..10)),
            4 => Step::XDel(key, id),
            5 => Step::XTrim(key, random.usize(0..3)),
            6 => Step::XRange(key),
            7..10 => Step::XGroup(key),
            10..13 => Step::XReadGroup(key, consumer, random.usize(1..3)),
            13 => Step::XPending(key, consumer),
            14 => Step::XAck(key, id),
            _ => Step::XClaim(key, consumer, id),
        }
    }

    fn on_any(random: &mut Rng) -> Step {
        let kind = one(random, &[&STRINGS[..], &LISTS, &HASHES, &SETS, &SORTED, &STREAMS]);
        let (key, (from, to)) = (one(random, kind), two(random, kind));
        match random.u8(0..16) {
            0 | 1 => Step::Del(some(random, kind, 3)),
            2..5 => Step::Rename(from, to),
            5..8 => Step::Copy(from, to),
            8..11 => Step::Expire(key, one(random, &[2, 7])),
            11 => Step::Persist(key),
            12 | 13 => Step::ExpireTime(key),
            14 => Step::FlushDb,
            _ => Step::SwapDb,
        }
    }

    /// Returns the keys that it touches; none if it touches all.
    pub fn keys(&self) -> Vec<Key> {
        match self {
            Step::Get(key) | Step::Set(key, ..) | Step::Incr(key) | Step::GetDel(key) | Step::Expire(key, _) => {
                vec![key]
            }
            Step::Persist(key) | Step::ExpireTime(key) | Step::Push(key, ..) | Step::Pop(key, _) => vec![key],
            Step::Range(key) | Step::HSet(key, ..) | Step::HIncr(key, ..) | Step::HDel(key, _) => vec![key],
            Step::HGet(key, _) | Step::SAdd(key, _) | Step::SRem(key, _) | Step::SCard(key) => vec![key],
            Step::ZAdd(key, ..) | Step::ZIncr(key, ..) | Step::ZPop(key) | Step::ZRange(key) => vec![key],
            Step::XAdd(key, _) | Step::XDel(key, _) | Step::XTrim(key, _) | Step::XRange(key) => vec![key],
            Step::XGroup(key) | Step::XReadGroup(key, ..) | Step::XPending(key, _) => vec![key],
            Step::XAck(key, _) | Step::XClaim(key, ..) => vec![key],
            Step::MGet(keys) | Step::Del(keys) => keys.clone(),
            Step::MSet(pairs) => pairs.iter().map(|(key, _)| *key).collect(),
            Step::Rename(from, to) | Step::Copy(from, to) => vec![from, to],
            Step::Shift(from, to, ..) | Step::SMove(from, to, _) => vec![from, to],
            Step::FlushDb | Step::SwapDb => Vec::new(),
        }
    }

    /// Returns whether it is a command that may write.
    pub fn may_write(&self) -> bool {
        let reads = match self {
            Step::Get(_) | Step::MGet(_) | Step::ExpireTime(_) | Step::Range(_) | Step::HGet(..) => true,
            other => matches!(other, Step::SCard(_) | Step::ZRange(_) | Step::XRange(_)),
        };
        !reads
    }

    /// Returns the command.
    pub fn words(&self) -> Vec<String> {
        let line = match self {
            Step::Get(key) => format!("GET {key}"),
            Step::Set(key, n, None) => format!("SET {key} {n}"),
            Step::Set(key, n, Some(life)) => format!("SET {key} {n} PX {life}"),
            Step::Incr(key) => format!("INCR {key}"),
            Step::GetDel(key) => format!("GETDEL {key}"),
            Step::MGet(keys) => format!("MGET {}", keys.join(" ")),
            Step::MSet(pairs) => pairs.iter().fold("MSET".to_owned(), |line, (key, n)| format!("{line} {key} {n}")),
            Step::Del(keys) => format!("DEL {}", keys.join(" ")),
            Step::Rename(from, to) => format!("RENAME {from} {to}"),
            Step::Copy(from, to) => format!("COPY {from} {to} REPLACE"),
            Step::Expire(key, life) => format!("PEXPIRE {key} {life}"),
            Step::Persist(key) => format!("PERSIST {key}"),
            Step::ExpireTime(key) => format!("PEXPIRETIME {key}"),
            Step::Push(key, end, n) => format!("{}PUSH {key} {n}", end.letter()),
            Step::Pop(key, end) => format!("{}POP {key}", end.letter()),
            Step::Range(key) => format!("LRANGE {key} 0 -1"),
            Step::Shift(from, to, out, into) => format!("LMOVE {from} {to} {} {}", out.word(), into.word()),
            Step::HSet(key, field, n) => format!("HSET {key} {field} {n}"),
            Step::HIncr(key, field, n) => format!("HINCRBY {key} {field} {n}"),
            Step::HDel(key, field) => format!("HDEL {key} {field}"),
            Step::HGet(key, field) => format!("HGET {key} {field}"),
            Step::SAdd(key, member) => format!("SADD {key} {member}"),
            Step::SRem(key, member) => format!("SREM {key} {member}"),
            Step::SMove(from, to, member) => format!("SMOVE {from} {to} {member}"),
            Step::SCard(key) => format!("SCARD {key}"),
            Step::ZAdd(key, score, member) => format!("ZADD {key} {score} {member}"),
            Step::ZIncr(key, score, member) => format!("ZINCRBY {key} {score} {member}"),
            Step::ZPop(key) => format!("ZPOPMIN {key}"),
            Step::ZRange(key) => format!("ZRANGE {key} 0 -1 WITHSCORES"),
            Step::XAdd(key, n) => format!("XADD {key} 0-* v {n}"),
            Step::XDel(key, id) => format!("XDEL {key} 0-{id}"),
            Step::XTrim(key, most) => format!("XTRIM {key} MAXLEN = {most}"),
            Step::XRange(key) => format!("XRANGE {key} - +"),
            Step::XGroup(key) => format!("XGROUP CREATE {key} g 0 MKSTREAM"),
            Step::XReadGroup(key, consumer, most) => {
                format!("XREADGROUP GROUP g {consumer} COUNT {most} STREAMS {key} >")
            }
            Step::XPending(key, consumer) => format!("XREADGROUP GROUP g {consumer} STREAMS {key} 0"),
            Step::XAck(key, id) => format!("XACK {key} g 0-{id}"),
            Step::XClaim(key, consumer, id) => format!("XCLAIM {key} g {consumer} 0 0-{id} JUSTID"),
            Step::FlushDb => "FLUSHDB".to_owned(),
            Step::SwapDb => "SWAPDB 0 1".to_owned(),
        };
        line.split(' ').map(str::to_owned).collect()
    }
}

impl Wait {
    fn random(random: &mut Rng) -> Wait {
        match random.u8(0..9) {
            0..3 => Wait::Pop(some(random, &LISTS, 2), end(random)),
            3 | 4 => Wait::Shift(one(random, &LISTS), one(random, &LISTS), end(random), end(random)),
            5 => Wait::ZPop(some(random, &SORTED, 2)),
            6 => Wait::XRead(some(random, &STREAMS, 2), random.u64(0..3)),
            _ => Wait::XReadGroup(some(random, &STREAMS, 2), one(random, &CONSUMERS)),
        }
    }

    /// Returns the keys of which one must be there.
    pub fn awaited(&self) -> &[Key] {
        match self {
            Wait::Pop(keys, _) | Wait::ZPop(keys) | Wait::XRead(keys, _) | Wait::XReadGroup(keys, _) => keys,
            Wait::Shift(from, ..) => std::slice::from_ref(from),
        }
    }

    fn words(&self, timeout: i64) -> Vec<String> {
        let seconds = timeout as f64 / 1000.0;
        let line = match self {
            Wait::Pop(keys, end) => format!("B{}POP {} {seconds}", end.letter(), keys.join(" ")),
            Wait::Shift(from, to, out, into) => {
                format!("BLMOVE {from} {to} {} {} {seconds}", out.word(), into.word())
            }
            Wait::ZPop(keys) => format!("BZPOPMIN {} {seconds}", keys.join(" ")),
            Wait::XRead(keys, after) => {
                let ids = vec![format!("0-{after}"); keys.len()].join(" ");
                format!("XREAD BLOCK {timeout} STREAMS {} {ids}", keys.join(" "))
            }
            Wait::XReadGroup(keys, consumer) => {
                let ids = vec![">"; keys.len()].join(" ");
                format!("XREADGROUP GROUP g {consumer} COUNT 1 BLOCK {timeout} STREAMS {} {ids}", keys.join(" "))
            }
        };
        line.split(' ').map(str::to_owned).collect()
    }
}

/// The body of all scripts: each command comes with the number of its words before them.
pub const SCRIPT: &str = "local replies, at = {}, 1
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  replies[#replies + 1] = redis.pcall(unpack(ARGV, at + 1, at + count))
  at = at + count + 1
end
return replies";

/// Returns the text of a script. Scripts that declare all their keys have another text than those that do not, as the
/// server remembers the keys that a script has touched.
pub fn script(declares: bool) -> String {
    format!("{SCRIPT} -- {declares}")
}

/// The scripts as functions.
pub const LIBRARY: &str = "#!lua name=simulated
local function steps(KEYS, ARGV)
  local replies, at = {}, 1
  while at <= #ARGV do
    local count = tonumber(ARGV[at])
    replies[#replies + 1] = redis.pcall(unpack(ARGV, at + 1, at + count))
    at = at + count + 1
  end
  return replies
end
redis.register_function('ftrue', steps)
redis.register_function('ffalse', function(KEYS, ARGV) return steps(KEYS, ARGV) end)";

impl Operation {
    pub fn random(random: &mut Rng) -> Operation {
        let steps = |random: &mut Rng| (0..random.usize(1..4)).map(|_| Step::random(random)).collect();
        match random.u8(0..24) {
            0..3 => Operation::Exec(steps(random)),
            3..7 => {
                let way = one(random, &[Way::Eval, Way::Sha, Way::Function]);
                Operation::Script(way, random.bool(), steps(random))
            }
            7 => Operation::Swap(one(random, &STRINGS), random.i64(0..10)),
            8..11 => Operation::Block(Wait::random(random), one(random, &[0, 0, 3, 8])),
            11..14 => Operation::Alone(Step::on_lists(random)),
            14..16 => Operation::Alone(Step::on_streams(random)),
            16 | 17 => Operation::Beside(Beside::random(random)),
            _ => Operation::Alone(Step::random(random)),
        }
    }

    /// Returns the keys that it touches; none if it may touch all.
    pub fn keys(&self) -> Vec<Key> {
        match self {
            Operation::Alone(step) => step.keys(),
            Operation::Exec(steps) | Operation::Script(_, _, steps) => {
                let mut keys = Vec::new();
                for step in steps {
                    match &step.keys()[..] {
                        [] => return Vec::new(),
                        more => keys.extend_from_slice(more),
                    }
                }
                keys
            }
            Operation::Swap(key, _) => vec![key],
            Operation::Block(Wait::Shift(from, to, ..), _) => vec![from, to],
            Operation::Block(wait, _) => wait.awaited().to_vec(),
            Operation::Beside(_) | Operation::Cut(_) => Vec::new(),
        }
    }

    /// Returns whether its commands need not run at one time.
    pub fn lasts(&self) -> bool {
        matches!(self, Operation::Swap(..) | Operation::Block(..))
    }

    /// Returns whether one of its commands may write, as far as is known before it runs.
    pub fn may_write(&self) -> bool {
        match self {
            Operation::Alone(step) => step.may_write(),
            Operation::Exec(steps) => steps.iter().any(Step::may_write),
            Operation::Script(..) | Operation::Swap(..) => true,
            Operation::Block(wait, _) => !matches!(wait, Wait::XRead(..)),
            Operation::Beside(_) | Operation::Cut(_) => false,
        }
    }

    /// Returns the commands, in order. `shas`: digests of the scripts that declare their keys, and of those that do
    /// not.
    pub fn commands(&self, shas: &[String; 2]) -> Vec<Vec<String>> {
        let word = |word: &str| vec![word.to_owned()];
        match self {
            Operation::Alone(step) => vec![step.words()],
            Operation::Exec(steps) => {
                let queued = steps.iter().map(Step::words);
                [word("MULTI")].into_iter().chain(queued).chain([word("EXEC")]).collect()
            }
            Operation::Script(way, declares, steps) => {
                let mut keys: Vec<Key> = steps.iter().flat_map(Step::keys).collect();
                keys.sort_unstable();
                keys.dedup();
                keys.truncate(if *declares { usize::MAX } else { 1 });
                let head = match way {
                    Way::Eval => ["EVAL".to_owned(), script(*declares)],
                    Way::Sha => ["EVALSHA".to_owned(), shas[usize::from(!*declares)].clone()],
                    Way::Function => ["FCALL".to_owned(), format!("f{declares}")],
                };
                let mut words = [&head[..], &[keys.len().to_string()]].concat();
                words.extend(keys.into_iter().map(str::to_owned));
                for step in steps {
                    let step = step.words();
                    words.push(step.len().to_string());
                    words.extend(step);
                }
                vec![words]
            }
            Operation::Swap(key, n) => {
                let (watch, multi) = (vec!["WATCH".to_owned(), (*key).to_owned()], word("MULTI"));
                vec![watch, Step::Get(key).words(), multi, Step::Set(key, *n, None).words(), word("EXEC")]
            }
            Operation::Block(wait, timeout) => vec![wait.words(*timeout)],
            Operation::Beside(beside) => vec![beside.words()],
            Operation::Cut(_) => Vec::new(),
        }
    }

    /// Returns the significant part of the replies to its commands.
    pub fn seen(&self, mut replies: Vec<Vec<u8>>) -> Vec<u8> {
        let last = replies.pop().unwrap_or_default();
        match self {
            Operation::Swap(..) => [&replies[1][..], &last].concat(),
            _ => last,
        }
    }
}

/// The refusal of a write that the disk does not take.
pub const REFUSED: &str = "-MISCONF\r\n";

/// Returns the replies, with all refusals of writes alike.
pub fn with_plain_refusals(seen: &[u8]) -> Vec<u8> {
    let seen = String::from_utf8_lossy(seen);
    let is_refusal = |line: &str| line.starts_with("-MISCONF ") || line.starts_with("-EXECABORT ");
    seen.split_inclusive("\r\n")
        .map(|line| if is_refusal(line) { REFUSED } else { line })
        .collect::<String>()
        .into_bytes()
}
