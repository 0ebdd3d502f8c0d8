//! Sorted sets: members with scores, in order of (score, member).
//!
//! Reading is by member (ZSCORE, ZRANK) or by range. A range is given by rank, score or member; all
//! three become ranks first, in O(log n), and the pairs at these ranks are what is replied.

use crate::args::Args;
use crate::cx::Cx;
use crate::row::{Command, DENY_OOM, FAST, Group, READONLY, ROW, WRITE, key};
use engine::Error;
use engine::effects::EventClass;
use resp::{Protocol, Reply};
use smallvec::SmallVec;
use std::ops::Range;
use structures::sorted_set::{Inserted, SortedSet};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "zadd",
        group: Group::SortedSet,
        since: "1.2.0",
        arity: -4,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().update()],
        syntax: "key [condition: NX | XX]@3.0.2 [comparison: GT | LT]@6.2.0 [CH=change]@3.0.2 [INCR=increment]@3.0.2 (data: score:double member)...",
        summary: "Adds one or more members to a sorted set, or updates their scores. Creates the key if it doesn't exist.",
        complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
        history: &[
            ("2.4.0", "Accepts multiple elements."),
            ("3.0.2", "Added the `XX`, `NX`, `CH` and `INCR` options."),
            ("6.2.0", "Added the `GT` and `LT` options."),
        ],
        run: zadd,
        ..ROW
    },
    Command {
        name: "zincrby",
        group: Group::SortedSet,
        since: "1.2.0",
        arity: 4,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().access().update()],
        syntax: "key increment:int member",
        summary: "Increments the score of a member in a sorted set.",
        complexity: "O(log(N)) where N is the number of elements in the sorted set.",
        run: zincrby,
        ..ROW
    },
    Command {
        name: "zrem",
        group: Group::SortedSet,
        since: "1.2.0",
        arity: -3,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().delete()],
        syntax: "key member...",
        summary: "Removes one or more members from a sorted set. Deletes the sorted set if all members were removed.",
        complexity: "O(M*log(N)) with N being the number of elements in the sorted set and M the number of elements to be removed.",
        history: &[("2.4.0", "Accepts multiple elements.")],
        run: zrem,
        ..ROW
    },
    Command {
        name: "zscore",
        group: Group::SortedSet,
        since: "1.2.0",
        arity: 3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        syntax: "key member",
        summary: "Returns the score of a member in a sorted set.",
        complexity: "O(1)",
        run: zscore,
        ..ROW
    },
    Command {
        name: "zmscore",
        group: Group::SortedSet,
        since: "6.2.0",
        arity: -3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        syntax: "key member...",
        summary: "Returns the score of one or more members in a sorted set.",
        complexity: "O(N) where N is the number of members being requested.",
        run: zmscore,
        ..ROW
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
        ..ROW
    },
    Command {
        name: "zrank",
        group: Group::SortedSet,
        since: "2.0.0",
        arity: -3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        syntax: "key member [WITHSCORE]",
        summary: "Returns the index of a member in a sorted set ordered by ascending scores.",
        complexity: "O(log(N))",
        history: &[("7.2.0", "Added the optional `WITHSCORE` argument.")],
        run: zrank,
        ..ROW
    },
    Command {
        name: "zrevrank",
        group: Group::SortedSet,
        since: "2.0.0",
        arity: -3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        syntax: "key member [WITHSCORE]",
        summary: "Returns the index of a member in a sorted set ordered by descending scores.",
        complexity: "O(log(N))",
        history: &[("7.2.0", "Added the optional `WITHSCORE` argument.")],
        run: zrevrank,
        ..ROW
    },
    Command {
        name: "zrange",
        group: Group::SortedSet,
        since: "1.2.0",
        arity: -4,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key start stop [sortby: BYSCORE | BYLEX]@6.2.0 [REV]@6.2.0 [LIMIT limit: offset:int count:int]@6.2.0 [WITHSCORES]",
        summary: "Returns members in a sorted set within a range of indexes.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.",
        history: &[("6.2.0", "Added the `REV`, `BYSCORE`, `BYLEX` and `LIMIT` options.")],
        run: zrange,
        ..ROW
    },
];

const NX_AND_XX: Error = Error::text("ERR XX and NX options at the same time are not compatible");
const GT_LT_AND_NX: Error = Error::text("ERR GT, LT, and/or NX options at the same time are not compatible");
const INCR_ONE_PAIR: Error = Error::text("ERR INCR option supports a single increment-element pair");
const SUM_IS_NAN: Error = Error::text("ERR resulting score is not a number (NaN)");
const LIMIT_BY_RANK: Error =
    Error::text("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
const SCORES_BY_LEX: Error = Error::text("ERR syntax error, WITHSCORES not supported in combination with BYLEX");
const NOT_A_LEX_BOUND: Error = Error::text("ERR min or max not valid string range item");

/// The options of ZADD.
#[derive(Clone, Copy, Default)]
struct AddOptions {
    /// Only members that are missing.
    nx: bool,
    /// Only members that are there.
    xx: bool,
    /// Only to a greater score; members that are missing are added all the same.
    gt: bool,
    /// Only to a lower score, likewise.
    lt: bool,
    /// The reply counts changed scores too.
    ch: bool,
    /// The score is added to the present one, and the reply is the sum.
    incr: bool,
}

impl AddOptions {
    /// The options, and the index of the first argument after them.
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
            return Err(NX_AND_XX);
        }
        if [self.gt, self.lt, self.nx].into_iter().filter(|given| *given).count() > 1 {
            return Err(GT_LT_AND_NX);
        }
        if self.incr && pairs > 1 {
            return Err(INCR_ONE_PAIR);
        }
        Ok(())
    }

    /// The score that a member gets which has the score `old` or is missing; None if the options forbid it.
    fn new_score(self, old: Option<f64>, given: f64) -> Result<Option<f64>, Error> {
        let Some(old) = old else {
            return Ok((!self.xx).then_some(given));
        };
        if self.nx {
            return Ok(None);
        }
        let new = if self.incr { old + given } else { given };
        if new.is_nan() {
            return Err(SUM_IS_NAN);
        }
        let forbidden = (self.gt && new <= old) || (self.lt && new >= old);
        Ok((!forbidden).then_some(new))
    }
}

fn zadd(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    add(cx, args, false)
}

fn zincrby(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    add(cx, args, true)
}

fn add(cx: &mut Cx<'_>, args: &Args<'_>, incr: bool) -> Result<(), Error> {
    let (options, first) = AddOptions::parse(args, incr);
    let rest = args.len() - first;
    if rest == 0 || rest % 2 == 1 {
        return Err(Error::SYNTAX);
    }
    options.check(rest / 2)?;
    let score_at = |index| resp::number::parse_f64(&args[index]).ok_or(Error::NOT_A_FLOAT);
    let scores = (first..args.len()).step_by(2).map(score_at).collect::<Result<SmallVec<[f64; 8]>, Error>>()?;
    let pairs = || scores.iter().zip((first + 1..args.len()).step_by(2).map(|index| &args[index]));

    let mut edit = cx.keys.edit(cx.key(args, 1));
    let (mut changes, mut sum) = (false, None);
    {
        let set = edit.collection::<SortedSet>()?;
        for (given, member) in pairs() {
            let old = set.and_then(|set| set.score(member));
            sum = options.new_score(old, *given)?;
            // The first pair that changes something ends this: it decides that the key is written.
            changes = sum.is_some() && sum != old;
            if changes {
                break;
            }
        }
    }
    let (mut added, mut moved) = (0, 0);
    let longest = pairs().map(|(_, member)| member.len()).max().unwrap_or(0);
    if changes {
        (added, moved) = edit.with(|set: &mut SortedSet| {
            set.expect_insertions(scores.len(), longest);
            insert_all(set, options, pairs())
        })?;
        edit.commit_many((added + moved) as u64, EventClass::SORTED_SET, if options.incr { "zincr" } else { "zadd" });
    } else if edit.exists() {
        // A command that could have made the set outgrow its encoding does so even if it adds nothing, as in Valkey.
        edit.with(|set: &mut SortedSet| set.expect_insertions(scores.len(), longest))?;
        edit.leave();
    }
    match (options.incr, sum) {
        (true, Some(sum)) => cx.reply.double(sum),
        (true, None) => cx.reply.null(),
        (false, _) => cx.reply.int(if options.ch { added + moved } else { added }),
    }
    Ok(())
}

/// How many members were added and how many got another score.
fn insert_all<'a>(
    set: &mut SortedSet,
    options: AddOptions,
    pairs: impl Iterator<Item = (&'a f64, &'a [u8])>,
) -> (i64, i64) {
    let (mut added, mut moved) = (0, 0);
    let conditional = options.nx || options.xx || options.gt || options.lt || options.incr;
    for (given, member) in pairs {
        let score = if conditional {
            // A sum that is no number was refused before: it comes with one pair only.
            options.new_score(set.score(member), *given).unwrap_or(None)
        } else {
            Some(*given)
        };
        match score.map(|score| set.insert(member, score)) {
            Some(Inserted::Added) => added += 1,
            Some(Inserted::Moved) => moved += 1,
            Some(Inserted::Same) | None => {}
        }
    }
    (added, moved)
}

fn zrem(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let present = match edit.collection::<SortedSet>()? {
        Some(set) => args.from(2).any(|member| set.score(member).is_some()),
        None => false,
    };
    let mut removed = 0;
    if present {
        removed =
            edit.with(|set: &mut SortedSet| args.from(2).filter(|member| set.remove(member).is_some()).count())?;
        if edit.exists() {
            edit.commit_many(removed as u64, EventClass::SORTED_SET, "zrem");
        } else {
            edit.event(EventClass::SORTED_SET, "zrem");
            edit.commit_many(removed as u64, EventClass::GENERIC, "del");
        }
    }
    cx.reply.int(removed as i64);
    Ok(())
}

fn zscore(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let set = cx.keys.collection::<SortedSet>(cx.key(args, 1))?;
    reply_score(cx.reply, set.and_then(|set| set.score(&args[2])));
    Ok(())
}

fn zmscore(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
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

fn zcard(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let set = cx.keys.collection::<SortedSet>(cx.key(args, 1))?;
    cx.reply.int(set.map_or(0, SortedSet::len) as i64);
    Ok(())
}

fn zrank(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    rank(cx, args, false)
}

fn zrevrank(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    rank(cx, args, true)
}

fn rank(cx: &mut Cx<'_>, args: &Args<'_>, reverse: bool) -> Result<(), Error> {
    if args.len() > 4 {
        return Err(Error::wrong_arity(cx.row.name));
    }
    let with_score = args.len() == 4;
    if with_score && !args.is(3, "withscore") {
        return Err(Error::SYNTAX);
    }
    let member = &args[2];
    let set = cx.keys.collection::<SortedSet>(cx.key(args, 1))?;
    let found = set.and_then(|set| Some((set, set.rank(member)?, set.score(member)?)));
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

fn zrange(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = RangeOptions::parse(args)?;
    let query = Query::parse(args, &options)?;
    let set = cx.keys.collection::<SortedSet>(cx.key(args, 1))?;
    match set {
        Some(set) => reply_pairs(cx.reply, set, query.ranks(set, &options), options.reverse, options.with_scores),
        None => cx.reply.array(0),
    }
    Ok(())
}

/// What the bounds of a range are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

struct RangeOptions {
    by: By,
    reverse: bool,
    with_scores: bool,
    offset: i64,
    /// Negative: all.
    count: i64,
}

impl RangeOptions {
    fn parse(args: &Args<'_>) -> Result<RangeOptions, Error> {
        let mut options = RangeOptions { by: By::Rank, reverse: false, with_scores: false, offset: 0, count: -1 };
        let mut index = 4;
        while index < args.len() {
            if args.is(index, "withscores") {
                options.with_scores = true;
            } else if args.is(index, "limit") && index + 2 < args.len() {
                options.offset = args.int(index + 1)?;
                options.count = args.int(index + 2)?;
                index += 2;
            } else if args.is(index, "rev") && !options.reverse {
                options.reverse = true;
            } else if args.is(index, "bylex") && options.by == By::Rank {
                options.by = By::Lex;
            } else if args.is(index, "byscore") && options.by == By::Rank {
                options.by = By::Score;
            } else {
                return Err(Error::SYNTAX);
            }
            index += 1;
        }
        // LIMIT with a count of -1 says nothing, and passes.
        if options.count != -1 && options.by == By::Rank {
            return Err(LIMIT_BY_RANK);
        }
        if options.with_scores && options.by == By::Lex {
            return Err(SCORES_BY_LEX);
        }
        Ok(options)
    }
}

/// The bounds of a range, the lower one first.
enum Query<'a> {
    /// From the end that the range is listed from; negative ones from the other end.
    Ranks(i64, i64),
    Scores(ScoreBound, ScoreBound),
    Members(LexBound<'a>, LexBound<'a>),
}

#[derive(Clone, Copy)]
struct ScoreBound {
    score: f64,
    exclusive: bool,
}

#[derive(Clone, Copy)]
enum LexBound<'a> {
    Lowest,
    Highest,
    Inclusive(&'a [u8]),
    Exclusive(&'a [u8]),
}

impl<'a> Query<'a> {
    fn parse(args: &'a Args<'_>, options: &RangeOptions) -> Result<Query<'a>, Error> {
        let swapped = options.reverse && options.by != By::Rank;
        let (min, max) = if swapped { (3, 2) } else { (2, 3) };
        Ok(match options.by {
            By::Rank => Query::Ranks(args.int(2)?, args.int(3)?),
            By::Score => Query::Scores(ScoreBound::parse(&args[min])?, ScoreBound::parse(&args[max])?),
            By::Lex => Query::Members(LexBound::parse(&args[min])?, LexBound::parse(&args[max])?),
        })
    }

    /// The ranks, in ascending order, of the members that are asked for.
    fn ranks(&self, set: &SortedSet, options: &RangeOptions) -> Range<usize> {
        match self {
            Query::Ranks(start, stop) => {
                let ranks = clamp_ranks(*start, *stop, set.len());
                if options.reverse { set.len() - ranks.end..set.len() - ranks.start } else { ranks }
            }
            Query::Scores(min, max) => {
                let (start, end) = (min.ranks(set), max.ranks(set));
                let start = if min.exclusive { start.end } else { start.start };
                let end = if max.exclusive { end.start } else { end.end };
                limit(start..end.max(start), set, options)
            }
            Query::Members(min, max) => {
                let start = min.lower(set);
                limit(start..max.upper(set).max(start), set, options)
            }
        }
    }
}

impl ScoreBound {
    fn parse(text: &[u8]) -> Result<ScoreBound, Error> {
        let (exclusive, text) = match text {
            [b'(', score @ ..] => (true, score),
            score => (false, score),
        };
        // A C string ends at a zero byte, and an empty one is 0.
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let score = if text.is_empty() { Some(0.0) } else { resp::number::parse_f64_c(text) };
        match score {
            Some(score) if !score.is_nan() => Ok(ScoreBound { score, exclusive }),
            _ => Err(Error::MIN_OR_MAX_NOT_A_FLOAT),
        }
    }

    fn ranks(self, set: &SortedSet) -> Range<usize> {
        set.ranks_of_score(self.score)
    }
}

impl<'a> LexBound<'a> {
    fn parse(text: &'a [u8]) -> Result<LexBound<'a>, Error> {
        match text {
            b"-" => Ok(LexBound::Lowest),
            b"+" => Ok(LexBound::Highest),
            [b'[', member @ ..] => Ok(LexBound::Inclusive(member)),
            [b'(', member @ ..] => Ok(LexBound::Exclusive(member)),
            _ => Err(NOT_A_LEX_BOUND),
        }
    }

    /// How many members come before a range that begins here.
    fn lower(self, set: &SortedSet) -> usize {
        match self {
            LexBound::Lowest => 0,
            LexBound::Highest => set.len(),
            LexBound::Inclusive(member) => ranks_of_member(set, member).start,
            LexBound::Exclusive(member) => ranks_of_member(set, member).end,
        }
    }

    /// How many members come before the end of a range that ends here.
    fn upper(self, set: &SortedSet) -> usize {
        match self {
            LexBound::Lowest => 0,
            LexBound::Highest => set.len(),
            LexBound::Inclusive(member) => ranks_of_member(set, member).end,
            LexBound::Exclusive(member) => ranks_of_member(set, member).start,
        }
    }
}

/// Where a member is or would be in a set that is in order of members, because all scores are the same.
fn ranks_of_member(set: &SortedSet, member: &[u8]) -> Range<usize> {
    let Some((_, score)) = set.range(0..1).next() else { return 0..0 };
    let start = set.rank_of_bound(score, member);
    let present = set.range(start..start + 1).next().is_some_and(|(found, _)| found == member);
    start..start + usize::from(present)
}

/// Ranks from `start` to `stop`, both included and negative from the end, as a range within `len`.
fn clamp_ranks(start: i64, stop: i64, len: usize) -> Range<usize> {
    let from_front = |rank: i64| if rank < 0 { rank.saturating_add(len as i64) } else { rank };
    let (start, stop) = (from_front(start).max(0), from_front(stop).min(len as i64 - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

/// LIMIT: skips from the end that is listed first, then keeps some.
fn limit(ranks: Range<usize>, set: &SortedSet, options: &RangeOptions) -> Range<usize> {
    let offset = match options.offset {
        offset if offset >= 0 => offset as u64,
        // Valkey counts a negative offset from the other end in one encoding, and finds nothing in the other.
        offset if set.encoding() == "skiplist" => match (ranks.len() as u64).checked_sub(offset.unsigned_abs()) {
            Some(offset) => offset,
            None => return 0..0,
        },
        _ => return 0..0,
    };
    let skipped = offset.min(ranks.len() as u64) as usize;
    let left = ranks.len() - skipped;
    let kept = if options.count < 0 { left } else { (options.count as u64).min(left as u64) as usize };
    let start = if options.reverse { ranks.end - skipped - kept } else { ranks.start + skipped };
    start..start + kept
}

/// Replies the members at these ranks, with their scores if asked: pairs in RESP3, in turn otherwise.
fn reply_pairs(reply: &mut Reply, set: &SortedSet, ranks: Range<usize>, reverse: bool, with_scores: bool) {
    let paired = with_scores && reply.protocol() == Protocol::Resp3;
    let items = if with_scores && !paired { ranks.len() * 2 } else { ranks.len() };
    reply.array(items);
    let write = |(member, score): (&[u8], f64)| {
        if paired {
            reply.array(2);
        }
        reply.bulk(member);
        if with_scores {
            reply.double(score);
        }
    };
    if reverse { set.range(ranks).rev().for_each(write) } else { set.range(ranks).for_each(write) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::Now;
    use crate::dispatch;
    use crate::session::Session;
    use engine::host::Alone;
    use engine::{Engine, Options};
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
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let engine = Engine::new(&Options::default(), Arc::new(Alone));
            let mut session = Session::local();
            let mut reply = Reply::new(Vec::new(), protocol);
            for (command, resp2, resp3) in DIALOGUE {
                let mut args = command.split(' ').map(str::as_bytes).collect();
                dispatch::execute(&engine, &mut session, &mut args, Now { unix_us: 1 }, &mut reply);
                let replied = String::from_utf8(reply.take()).unwrap().replace("\r\n", " ");
                let expected = if protocol == Protocol::Resp3 { resp3.unwrap_or(resp2) } else { resp2 };
                assert_eq!(replied.trim_end(), expected.trim_end(), "{command}");
            }
        }
    }

    #[test]
    fn a_negative_offset_counts_from_the_end_of_the_range_in_a_skiplist_only() {
        let mut set = SortedSet::default();
        for (member, score) in [("a", 1.0), ("b", 2.0), ("c", 3.0)] {
            set.insert(member.as_bytes(), score);
        }
        let options = |offset, reverse| RangeOptions { by: By::Score, reverse, with_scores: false, offset, count: 5 };
        assert!(limit(0..3, &set, &options(-1, false)).is_empty());
        set.expect_insertions(1000, 1);
        assert_eq!(limit(0..3, &set, &options(-1, false)), 2..3);
        assert_eq!(limit(0..3, &set, &options(-2, true)), 0..2);
        assert!(limit(0..3, &set, &options(-4, false)).is_empty());
        assert!(limit(0..3, &set, &options(i64::MIN, true)).is_empty());
    }
}
