//! Sorted sets, by member: ZADD, ZINCRBY, ZREM, ZSCORE, ZRANK and their kin.
//!
//! Ranges are in `range.rs`, unions and intersections in `algebra.rs`, the rest of the family in
//! `scan.rs`, `random.rs` and `pop.rs`.

use crate::core::args::Args;
use crate::core::command::{Command, DENY_OOM, FAST, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use engine::data::event_class::EventClass;
use engine::data::value::Object;
use engine::keyspace::edit::{Edit, Ttl};
use engine::propagation::effects::Record;
use engine::propagation::logged_words::{record, record_of};
use engine::{Error, Word};
use resp::{Protocol, Reply};
use smallvec::SmallVec;
use structures::sorted_set::{Inserted, Limits, SortedSet};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "zadd",
        group: Group::SortedSet,
        since: "1.2.0",
        arity: -4,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().update()],
        element: 3,
        syntax: "key [condition: NX | XX]@3.0.2 [comparison: GT | LT]@6.2.0 [CH=change]@3.0.2 [INCR=increment]@3.0.2 (data: score:double member)...",
        summary: "Adds one or more members to a sorted set, or updates their scores. Creates the key if it doesn't exist.",
        complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
        history: &[
            ("2.4.0", "Accepts multiple elements."),
            ("3.0.2", "Added the `XX`, `NX`, `CH` and `INCR` options."),
            ("6.2.0", "Added the `GT` and `LT` options."),
        ],
        run: zadd,
        ..Command::DEFAULT
    },
    Command {
        name: "zincrby",
        group: Group::SortedSet,
        since: "1.2.0",
        arity: 4,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().access().update()],
        element: 3,
        syntax: "key increment:int member",
        summary: "Increments the score of a member in a sorted set.",
        complexity: "O(log(N)) where N is the number of elements in the sorted set.",
        run: zincrby,
        ..Command::DEFAULT
    },
    Command {
        name: "zrem",
        group: Group::SortedSet,
        since: "1.2.0",
        arity: -3,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().delete()],
        element: 2,
        syntax: "key member...",
        summary: "Removes one or more members from a sorted set. Deletes the sorted set if all members were removed.",
        complexity: "O(M*log(N)) with N being the number of elements in the sorted set and M the number of elements to be removed.",
        history: &[("2.4.0", "Accepts multiple elements.")],
        run: zrem,
        ..Command::DEFAULT
    },
    Command {
        name: "zscore",
        group: Group::SortedSet,
        since: "1.2.0",
        arity: 3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        element: 2,
        syntax: "key member",
        summary: "Returns the score of a member in a sorted set.",
        complexity: "O(1)",
        run: zscore,
        ..Command::DEFAULT
    },
    Command {
        name: "zmscore",
        group: Group::SortedSet,
        since: "6.2.0",
        arity: -3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        element: 2,
        syntax: "key member...",
        summary: "Returns the score of one or more members in a sorted set.",
        complexity: "O(N) where N is the number of members being requested.",
        run: zmscore,
        ..Command::DEFAULT
    },
    Command {
        name: "zcard",
        group: Group::SortedSet,
        since: "1.2.0",
        arity: 2,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro()],
        syntax: "key",
        summary: "Returns the number of members in a sorted set.",
        complexity: "O(1)",
        run: zcard,
        ..Command::DEFAULT
    },
    Command {
        name: "zrank",
        group: Group::SortedSet,
        since: "2.0.0",
        arity: -3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        element: 2,
        syntax: "key member [WITHSCORE]",
        summary: "Returns the index of a member in a sorted set ordered by ascending scores.",
        complexity: "O(log(N))",
        history: &[("7.2.0", "Added the optional `WITHSCORE` argument.")],
        run: zrank,
        ..Command::DEFAULT
    },
    Command {
        name: "zrevrank",
        group: Group::SortedSet,
        since: "2.0.0",
        arity: -3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        element: 2,
        syntax: "key member [WITHSCORE]",
        summary: "Returns the index of a member in a sorted set ordered by descending scores.",
        complexity: "O(log(N))",
        history: &[("7.2.0", "Added the optional `WITHSCORE` argument.")],
        run: zrevrank,
        ..Command::DEFAULT
    },
];

/// The options of ZADD.
#[derive(Clone, Copy, Default)]
pub(crate) struct AddOptions {
    /// Only missing members are added.
    pub nx: bool,
    /// Only present members are changed.
    pub xx: bool,
    /// A score only grows; missing members are added all the same.
    gt: bool,
    /// A score only shrinks, likewise.
    lt: bool,
    /// The reply counts changed scores too.
    pub ch: bool,
    /// The score is added to the present one, and the reply is the sum.
    incr: bool,
}

impl AddOptions {
    /// Returns the name of the event of a change.
    fn event(&self) -> &'static str {
        if self.incr { "zincr" } else { "zadd" }
    }

    /// Parses the options, and returns the index of the first argument after them.
    fn parse(args: &Args<'_>, incr: bool) -> (AddOptions, usize) {
        let mut options = AddOptions { incr, ..AddOptions::default() };
        let mut index = 2;
        while index < args.len() {
            let option = match args[index].to_ascii_lowercase().as_slice() {
                b"nx" => &mut options.nx,
                b"xx" => &mut options.xx,
                b"gt" => &mut options.gt,
                b"lt" => &mut options.lt,
                b"ch" => &mut options.ch,
                b"incr" => &mut options.incr,
                _ => break,
            };
            *option = true;
            index += 1;
        }
        (options, index)
    }

    fn check(self, pairs: usize) -> Result<(), Error> {
        if self.nx && self.xx {
            return Err(Error::ZaddNxAndXx);
        }
        if [self.gt, self.lt, self.nx].into_iter().filter(|given| *given).count() > 1 {
            return Err(Error::ZaddGtLtAndNx);
        }
        if self.incr && pairs > 1 {
            return Err(Error::ZaddIncrManyPairs);
        }
        Ok(())
    }

    /// Returns the new score of a member which has the score `old` or is missing; None if the options forbid it.
    fn new_score(self, old: Option<f64>, given: f64) -> Result<Option<f64>, Error> {
        let Some(old) = old else {
            return Ok((!self.xx).then_some(given));
        };
        if self.nx {
            return Ok(None);
        }
        let new = if self.incr { old + given } else { given };
        if new.is_nan() {
            return Err(Error::ScoreNan);
        }
        let forbidden = (self.gt && new <= old) || (self.lt && new >= old);
        Ok((!forbidden).then_some(new))
    }

    /// Returns whether the outcome for a member depends on its present score.
    fn is_conditional(self) -> bool {
        self.nx || self.xx || self.gt || self.lt || self.incr
    }

    fn insert<'a>(
        self,
        set: &mut SortedSet,
        pairs: impl Iterator<Item = (&'a f64, &'a [u8])>,
        limits: Limits,
    ) -> Added {
        let mut done = Added::default();
        for (given, member) in pairs {
            done.last =
                if self.is_conditional() { self.new_score(set.score(member), *given) } else { Ok(Some(*given)) };
            if let Ok(Some(score)) = done.last {
                match set.insert(member, score, limits) {
                    Inserted::Added => done.added += 1,
                    Inserted::Moved => done.moved += 1,
                    Inserted::Same => {}
                }
            }
        }
        done
    }
}

fn zadd(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    add(cx, args, false)
}

fn zincrby(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    add(cx, args, true)
}

fn add(cx: &mut Context<'_>, args: &Args<'_>, incr: bool) -> Result<(), Error> {
    let (options, first) = AddOptions::parse(args, incr);
    let rest = args.len() - first;
    if rest == 0 || rest % 2 == 1 {
        return Err(Error::Syntax);
    }
    options.check(rest / 2)?;
    let score_at = |index| resp::number::parse_f64(&args[index]).ok_or(Error::NotAFloat);
    let scores = (first..args.len()).step_by(2).map(score_at).collect::<Result<SmallVec<[f64; 8]>, Error>>()?;
    add_scores(cx, args, options, &scores, (first + 1..args.len()).step_by(2))
}

/// Adds the members at these arguments with these scores to the key at argument 1, and replies in the form of the
/// options.
pub(crate) fn add_scores(
    cx: &mut Context<'_>,
    args: &Args<'_>,
    options: AddOptions,
    scores: &[f64],
    members: impl Iterator<Item = usize> + Clone,
) -> Result<(), Error> {
    let pairs = || scores.iter().zip(members.clone().map(|index| &args[index]));
    let yielding = cx.yielding(scores.len())?;
    let (key, limits) = (cx.key(args, 1), cx.engine.encoding_limits().sorted_set());
    let insert = |set: &mut SortedSet| {
        // A command that could have made the set outgrow its encoding does so even if it adds nothing, as in Valkey.
        let longest = pairs().map(|(_, member)| member.len()).max().unwrap_or(0);
        set.reserve(scores.len(), longest, limits);
        options.insert(set, yielding.over(pairs()), limits)
    };
    let at_once = cx.keys.update(key, (EventClass::SORTED_SET, options.event()), |set| {
        let done = insert(set);
        Some((done.changes(), done))
    });
    let done = match at_once {
        Some(done) => done,
        None => add_to_any(cx.keys.edit(key), options, insert)?,
    };
    match (options.incr, done.last) {
        (false, _) => cx.reply.int(if options.ch { done.added + done.moved } else { done.added }),
        (true, Ok(Some(sum))) => cx.reply.double(sum),
        (true, Ok(None)) => cx.reply.null(),
        (true, Err(error)) => return Err(error),
    }
    Ok(())
}

/// Lets `insert` access the key's sorted set, whatever the encoding or state of the key.
#[inline(never)]
fn add_to_any(
    mut edit: Edit<'_>,
    options: AddOptions,
    insert: impl FnOnce(&mut SortedSet) -> Added,
) -> Result<Added, Error> {
    // Without the key, XX leaves nothing to be done; otherwise each pair adds a member, and the set will not be empty.
    if edit.collection::<SortedSet>()?.is_none() && options.xx {
        return Ok(Added::default());
    }
    let done = edit.with(insert)?;
    if done.changes() > 0 {
        edit.commit_many(done.changes(), EventClass::SORTED_SET, options.event());
    } else {
        edit.unchanged();
    }
    Ok(done)
}

/// The result of a ZADD.
struct Added {
    added: i64,
    moved: i64,
    /// The score of the last pair; None if the options forbade it.
    last: Result<Option<f64>, Error>,
}

impl Added {
    fn changes(&self) -> u64 {
        (self.added + self.moved) as u64
    }
}

impl Default for Added {
    fn default() -> Self {
        Added { added: 0, moved: 0, last: Ok(None) }
    }
}

fn zrem(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let yielding = cx.yielding(args.len())?;
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let present = match edit.collection::<SortedSet>()? {
        Some(set) => args.from(2).any(|member| set.score(member).is_some()),
        None => false,
    };
    let mut removed = 0;
    if present {
        removed = edit.with(|set: &mut SortedSet| {
            yielding.over(args.from(2)).filter(|member| set.remove(member).is_some()).count()
        })?;
        commit_removal(edit, removed, "zrem");
    }
    cx.reply.int(removed as i64);
    Ok(())
}

/// Commits the removal of members, perhaps of the last one and the key with it.
pub(crate) fn commit_removal(mut edit: Edit<'_>, removed: usize, event: &'static str) {
    if edit.exists() {
        edit.commit_many(removed as u64, EventClass::SORTED_SET, event);
    } else {
        edit.event(EventClass::SORTED_SET, event);
        edit.commit_many(removed as u64, EventClass::GENERIC, "del");
    }
}

fn zscore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let set = cx.keys.collection::<SortedSet>(cx.key(args, 1))?;
    reply_score(cx.reply, set.and_then(|set| set.score(&args[2])));
    Ok(())
}

fn zmscore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let set = cx.keys.collection::<SortedSet>(cx.key(args, 1))?;
    cx.reply.array(args.len() - 2);
    for member in args.from(2) {
        reply_score(cx.reply, set.and_then(|set| set.score(member)));
    }
    Ok(())
}

fn reply_score(reply: &mut Reply, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

/// Replies members, with their scores if asked: pairs in RESP3, in turn otherwise.
pub(crate) fn reply_pairs<'a>(
    reply: &mut Reply,
    pairs: impl ExactSizeIterator<Item = (&'a [u8], f64)>,
    with_scores: bool,
) {
    let paired = begin_pairs(reply, pairs.len(), with_scores);
    for (member, score) in pairs {
        reply_pair(reply, member, score, with_scores, paired);
    }
}

/// Writes the header of a list of pairs; returns whether each has one of its own.
pub(crate) fn begin_pairs(reply: &mut Reply, pairs: usize, with_scores: bool) -> bool {
    let paired = with_scores && reply.protocol() == Protocol::Resp3;
    reply.array(if with_scores && !paired { pairs.saturating_mul(2) } else { pairs });
    paired
}

#[inline]
pub(crate) fn reply_pair(reply: &mut Reply, member: &[u8], score: f64, with_score: bool, paired: bool) {
    if paired {
        reply.array(2);
    }
    reply.bulk(member);
    if with_score {
        reply.double(score);
    }
}

/// Puts a result in the place of the value of the key at argument 1, and replies its length; an empty one removes the
/// key.
pub(crate) fn store(cx: &mut Context<'_>, args: &Args<'_>, result: SortedSet, event: &'static str) {
    let len = result.len();
    let mut edit = cx.keys.edit_for_result(cx.key(args, 1), len == 0);
    if len > 0 {
        edit.set_object(Object::SortedSet(result), Ttl::Clear);
        edit.commit(EventClass::SORTED_SET, event);
    } else if edit.remove() {
        edit.commit(EventClass::GENERIC, "del");
    }
    cx.reply.int(len as i64);
}

/// Returns the commands that make a key a sorted set of these members alone, whatever it was.
pub(crate) fn logged_result<'m>(key: &[u8], members: impl Iterator<Item = (&'m [u8], f64)>) -> Vec<Record> {
    let pairs = members.flat_map(|(member, score)| [score.to_string().into_bytes(), member.to_vec()]);
    let added = record_of(&[b"ZADD", key], pairs);
    let removed = record(&[b"DEL", key]);
    if added.len() > 2 { vec![removed, added] } else { vec![removed] }
}

fn zcard(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let set = cx.keys.collection::<SortedSet>(cx.key(args, 1))?;
    cx.reply.int(set.map_or(0, SortedSet::len) as i64);
    Ok(())
}

fn zrank(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    rank(cx, args, false)
}

fn zrevrank(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    rank(cx, args, true)
}

fn rank(cx: &mut Context<'_>, args: &Args<'_>, reverse: bool) -> Result<(), Error> {
    if args.len() > 4 {
        return Err(Error::WrongArity(Word::of(cx.command.name)));
    }
    let with_score = args.len() == 4;
    if with_score && !args.is(3, "withscore") {
        return Err(Error::Syntax);
    }
    let member = &args[2];
    let set = cx.keys.collection::<SortedSet>(cx.key(args, 1))?;
    let found = set.and_then(|set| set.rank_and_score(member).map(|(rank, score)| (set, rank, score)));
    match found {
        Some((set, rank, score)) => {
            let rank = if reverse { set.len() - 1 - rank } else { rank };
            if with_score {
                cx.reply.array(2);
            }
            cx.reply.int(rank as i64);
            if with_score {
                cx.reply.double(score);
            }
        }
        None if with_score => cx.reply.null_array(),
        None => cx.reply.null(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::context::Now;
    use crate::core::dispatch;
    use crate::core::session::Session;
    use engine::time::UnixUs;
    use engine::{Engine, NullHost, Options};
    use std::sync::Arc;

    /// A dialogue with Valkey 8.1.1: commands, replies in RESP2, replies in RESP3 where they differ. A blank stands for
    /// a line end.
    #[rustfmt::skip]
    const DIALOGUE: &[(&str, &str, Option<&str>)] = &[
        ("ZADD z 1 a 2 b 3 c", ":3", None),
        ("ZADD z NX XX 1 a", "-ERR XX and NX options at the same time are not compatible", None),
        ("ZADD z NX GT 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible", None),
        ("ZADD z GT LT 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible", None),
        ("ZADD z INCR 1 a 2 b", "-ERR INCR option supports a single increment-element pair", None),
        ("ZADD z INCR 1", "-ERR syntax error", None),
        ("ZADD z 1 a 2", "-ERR syntax error", None),
        ("ZADD z nan a", "-ERR value is not a valid float", None),
        ("ZADD z 5 a x b", "-ERR value is not a valid float", None),
        ("ZADD z CH 5 a 6 a 7 new", ":3", None),
        ("ZADD z GT CH 4 a", ":0", None),
        ("ZADD z LT CH 4 a", ":1", None),
        ("ZADD z XX CH 9 nope 1 a", ":1", None),
        ("ZADD z NX 9 a 8 d", ":1", None),
        ("ZADD z INCR 1.5 b", "$3 3.5", Some(",3.5")),
        ("ZADD z NX INCR 1.5 b", "$-1", Some("_")),
        ("ZADD z GT INCR 0 b", "$-1", Some("_")),
        ("ZADD z inf i", ":1", None),
        ("ZADD z INCR -inf i", "-ERR resulting score is not a number (NaN)", None),
        ("ZINCRBY z -inf i", "-ERR resulting score is not a number (NaN)", None),
        ("ZINCRBY z abc i", "-ERR value is not a valid float", None),
        ("ZINCRBY z 0.1 new", "$3 7.1", Some(",7.1")),
        ("ZADD nokey XX 1 a", ":0", None),
        ("ZADD nokey XX INCR 1 a", "$-1", Some("_")),
        ("SET s 1", "+OK", None),
        ("ZADD s x a", "-ERR value is not a valid float", None),
        ("ZADD s 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value", None),
        ("ZRANGE s 0 x", "-ERR value is not an integer or out of range", None),
        ("ZRANGE s 0 1", "-WRONGTYPE Operation against a key holding the wrong kind of value", None),
        ("ZCARD s", "-WRONGTYPE Operation against a key holding the wrong kind of value", None),
        ("ZREM s a", "-WRONGTYPE Operation against a key holding the wrong kind of value", None),
        ("ZCARD z", ":6", None),
        ("ZCARD nokey", ":0", None),
        ("ZSCORE z a", "$1 1", Some(",1")),
        ("ZSCORE z nope", "$-1", Some("_")),
        ("ZMSCORE z a nope", "*2 $1 1 $-1", Some("*2 ,1 _")),
        ("ZRANK z b", ":2", None),
        ("ZREVRANK z b WITHSCORE", "*2 :3 $3 3.5", Some("*2 :3 ,3.5")),
        ("ZRANK z nope", "$-1", Some("_")),
        ("ZRANK z nope WITHSCORE", "*-1", Some("_")),
        ("ZRANK z b foo", "-ERR syntax error", None),
        ("ZRANK z b WITHSCORE x", "-ERR wrong number of arguments for 'zrank' command", None),
        ("ZRANGE z 0 1", "*2 $1 a $1 c", None),
        ("ZRANGE z 0 1 REV WITHSCORES", "*4 $1 i $3 inf $1 d $1 8", Some("*2 *2 $1 i ,inf *2 $1 d ,8")),
        ("ZRANGE z -2 -1", "*2 $1 d $1 i", None),
        ("ZRANGE z 5 2", "*0", None),
        ("ZRANGE nokey 0 -1", "*0", None),
        ("ZRANGE z 1 (3.5 BYSCORE", "*2 $1 a $1 c", None),
        ("ZRANGE z +inf 7 BYSCORE REV LIMIT 1 1 WITHSCORES", "*2 $1 d $1 8", Some("*1 *2 $1 d ,8")),
        ("ZRANGE z x 3 BYSCORE", "-ERR min or max is not a float", None),
        ("ZRANGE z 0 1 LIMIT 0 -1", "*2 $1 a $1 c", None),
        ("ZRANGE z 0 1 LIMIT 0 1", "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX", None),
        ("ZRANGE z - + BYLEX WITHSCORES", "-ERR syntax error, WITHSCORES not supported in combination with BYLEX", None),
        ("ZRANGE z - x BYLEX", "-ERR min or max not valid string range item", None),
        ("ZREM z a a nope", ":1", None),
        ("ZREM z b c d i new", ":5", None),
        ("GET z", "$-1", Some("_")),
        ("ZADD l 0 a 0 b 0 c", ":3", None),
        ("ZRANGE l [a (c BYLEX", "*2 $1 a $1 b", None),
        ("ZRANGE l + (a BYLEX REV LIMIT 0 1", "*1 $1 c", None),
        ("ZRANGE l (c - BYLEX", "*0", None),
    ];

    #[test]
    fn replies_are_those_of_valkey() {
        crate::install(&[]);
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let engine = Engine::new(&Options::default(), Arc::new(NullHost));
            let mut session = Session::local();
            let mut reply = Reply::new(Vec::new(), protocol);
            for (command, resp2, resp3) in DIALOGUE {
                let mut args = command.split(' ').map(str::as_bytes).collect();
                dispatch::execute(&engine, &mut session, &mut args, Now { unix_us: UnixUs(1) }, &mut reply);
                let replied = String::from_utf8(reply.take()).unwrap().replace("\r\n", " ");
                let expected = if protocol == Protocol::Resp3 { resp3.unwrap_or(resp2) } else { resp2 };
                assert_eq!(replied.trim_end(), expected.trim_end(), "{command}");
            }
        }
    }
}
