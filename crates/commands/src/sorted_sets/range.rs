//! Ranges of sorted sets: listed, counted, stored, removed.
//!
//! The bounds are those of `bounds.rs`. ZRANGE's options select their kind and the end from which the range is listed;
//! the older commands do so by their names, and are otherwise the same.

use crate::core::args::Args;
use crate::core::chunked_reply;
use crate::core::command::{Command, DENY_OOM, FAST, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use crate::sorted_sets::bounds::{Bounds, By};
use crate::sorted_sets::sorted_set::{begin_pairs, commit_removal, reply_pair, store};
use engine::Error;
use engine::data::value::{Collection, Object};
use engine::snapshot::streamed_reply::Lister;
use resp::Reply;
use std::ops::Range;
use std::sync::Arc;
use structures::snapshot_iterator::RankedSnapshotIterator;
use structures::sorted_set::{Limits, SortedSet};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "zcount",
        group: Group::SortedSet,
        since: "2.0.0",
        arity: 4,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        syntax: "key min:double max:double",
        summary: "Returns the count of members in a sorted set that have scores within a range.",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        run: zcount,
        ..Command::DEFAULT
    },
    Command {
        name: "zlexcount",
        group: Group::SortedSet,
        since: "2.8.9",
        arity: 4,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        syntax: "key min max",
        summary: "Returns the number of members in a sorted set within a lexicographical range.",
        complexity: "O(log(N)) with N being the number of elements in the sorted set.",
        run: zlexcount,
        ..Command::DEFAULT
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
        ..Command::DEFAULT
    },
    Command {
        name: "zrangestore",
        group: Group::SortedSet,
        since: "6.2.0",
        arity: -5,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ow().update(), key(2).ro().access()],
        syntax: "dst:key src:key min max [sortby: BYSCORE | BYLEX] [REV] [LIMIT limit: offset:int count:int]",
        summary: "Stores a range of members from sorted set in a key.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements stored into the destination key.",
        run: zrangestore,
        ..Command::DEFAULT
    },
    Command {
        name: "zrangebyscore",
        group: Group::SortedSet,
        since: "1.0.5",
        arity: -4,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key min:double max:double [WITHSCORES]@2.0.0 [LIMIT limit: offset:int count:int]",
        summary: "Returns members in a sorted set within a range of scores.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
        history: &[("2.0.0", "Added the `WITHSCORES` modifier.")],
        run: zrangebyscore,
        ..Command::DEFAULT
    },
    Command {
        name: "zrevrangebyscore",
        group: Group::SortedSet,
        since: "2.2.0",
        arity: -4,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key max:double min:double [WITHSCORES] [LIMIT limit: offset:int count:int]",
        summary: "Returns members in a sorted set within a range of scores in reverse order.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
        history: &[("2.1.6", "`min` and `max` can be exclusive.")],
        run: zrevrangebyscore,
        ..Command::DEFAULT
    },
    Command {
        name: "zrangebylex",
        group: Group::SortedSet,
        since: "2.8.9",
        arity: -4,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key min max [LIMIT limit: offset:int count:int]",
        summary: "Returns members in a sorted set within a lexicographical range.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
        run: zrangebylex,
        ..Command::DEFAULT
    },
    Command {
        name: "zrevrangebylex",
        group: Group::SortedSet,
        since: "2.8.9",
        arity: -4,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key max min [LIMIT limit: offset:int count:int]",
        summary: "Returns members in a sorted set within a lexicographical range in reverse order.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).",
        run: zrevrangebylex,
        ..Command::DEFAULT
    },
    Command {
        name: "zrevrange",
        group: Group::SortedSet,
        since: "1.2.0",
        arity: -4,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key start:int stop:int [WITHSCORES]",
        summary: "Returns members in a sorted set within a range of indexes in reverse order.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.",
        run: zrevrange,
        ..Command::DEFAULT
    },
    Command {
        name: "zremrangebyrank",
        group: Group::SortedSet,
        since: "2.0.0",
        arity: 4,
        flags: WRITE,
        keys: &[key(1).rw().delete()],
        syntax: "key start:int stop:int",
        summary: "Removes members in a sorted set within a range of indexes. Deletes the sorted set if all members were removed.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
        run: zremrangebyrank,
        ..Command::DEFAULT
    },
    Command {
        name: "zremrangebyscore",
        group: Group::SortedSet,
        since: "1.2.0",
        arity: 4,
        flags: WRITE,
        keys: &[key(1).rw().delete()],
        syntax: "key min:double max:double",
        summary: "Removes members in a sorted set within a range of scores. Deletes the sorted set if all members were removed.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
        run: zremrangebyscore,
        ..Command::DEFAULT
    },
    Command {
        name: "zremrangebylex",
        group: Group::SortedSet,
        since: "2.8.9",
        arity: 4,
        flags: WRITE,
        keys: &[key(1).rw().delete()],
        syntax: "key min max",
        summary: "Removes members in a sorted set within a lexicographical range. Deletes the sorted set if all members were removed.",
        complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
        run: zremrangebylex,
        ..Command::DEFAULT
    },
];

/// The options of a listing besides its bounds.
struct RangeOptions {
    by: By,
    reverse: bool,
    with_scores: bool,
    offset: i64,
    /// The count of LIMIT; negative: all.
    count: i64,
}

/// The choices that the name of a command leaves to its options.
#[derive(Clone, Copy)]
struct Asked {
    /// The kind of bounds; None: options select it, and ranks are the default.
    by: Option<By>,
    /// The direction; None: an option selects it.
    reverse: Option<bool>,
    scores: bool,
}

/// The choices of ZRANGE.
const ANYTHING: Asked = Asked { by: None, reverse: None, scores: true };

impl RangeOptions {
    /// Parses the options from argument `index` on.
    fn parse(args: &Args<'_>, mut index: usize, asked: Asked) -> Result<RangeOptions, Error> {
        let (mut by, mut reverse) = (asked.by, asked.reverse);
        let (mut with_scores, mut offset, mut count) = (false, 0, -1);
        while index < args.len() {
            if asked.scores && args.is(index, "withscores") {
                with_scores = true;
            } else if args.is(index, "limit") && index + 2 < args.len() {
                offset = args.int(index + 1)?;
                count = args.int(index + 2)?;
                index += 2;
            } else if reverse.is_none() && args.is(index, "rev") {
                reverse = Some(true);
            } else if by.is_none() && args.is(index, "bylex") {
                by = Some(By::Lex);
            } else if by.is_none() && args.is(index, "byscore") {
                by = Some(By::Score);
            } else {
                return Err(Error::Syntax);
            }
            index += 1;
        }
        let by = by.unwrap_or(By::Rank);
        // LIMIT with a count of -1 has no effect, and is accepted.
        if count != -1 && by == By::Rank {
            return Err(Error::LimitWithoutBy);
        }
        if with_scores && by == By::Lex {
            return Err(Error::WithscoresByLex);
        }
        Ok(RangeOptions { by, reverse: reverse.unwrap_or(false), with_scores, offset, count })
    }

    /// Parses the bounds at argument `index`.
    fn bounds<'a>(&self, args: &'a Args<'_>, index: usize) -> Result<Bounds<'a>, Error> {
        Bounds::parse(args, index, self.by, self.reverse && self.by != By::Rank)
    }

    /// Returns the ranks, in ascending order, of the members to be listed.
    fn ranks(&self, set: &SortedSet, bounds: &Bounds<'_>) -> Range<usize> {
        let ranks = bounds.ranks(set, self.reverse);
        if self.by == By::Rank { ranks } else { limit(ranks, set, self) }
    }
}

/// Applies LIMIT: skips from the end that is listed first, then takes some.
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

fn zrange(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    list(cx, args, ANYTHING)
}

fn zrevrange(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    list(cx, args, Asked { by: Some(By::Rank), reverse: Some(true), scores: true })
}

fn zrangebyscore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    list(cx, args, Asked { by: Some(By::Score), reverse: Some(false), scores: true })
}

fn zrevrangebyscore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    list(cx, args, Asked { by: Some(By::Score), reverse: Some(true), scores: true })
}

fn zrangebylex(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    list(cx, args, Asked { by: Some(By::Lex), reverse: Some(false), scores: true })
}

fn zrevrangebylex(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    list(cx, args, Asked { by: Some(By::Lex), reverse: Some(true), scores: true })
}

fn list(cx: &mut Context<'_>, args: &Args<'_>, asked: Asked) -> Result<(), Error> {
    let options = RangeOptions::parse(args, 4, asked)?;
    let bounds = options.bounds(args, 2)?;
    let key = cx.key(args, 1);
    let Some(set) = cx.keys.collection::<SortedSet>(key)? else {
        cx.reply.array(0);
        return Ok(());
    };
    let ranks = options.ranks(set, &bounds);
    let (count, reverse, with_scores) = (ranks.len(), options.reverse, options.with_scores);
    let paired = begin_pairs(cx.reply, count, with_scores);
    let mut pairs = Pairs { ranks, reverse, with_scores, paired, walk: None };
    if count <= AT_ONCE {
        pairs.write(set, count, cx.reply);
    } else {
        chunked_reply::list(cx, key, count, pairs);
    }
    Ok(())
}

/// Lists up to this many pairs are written while the set is at hand.
const AT_ONCE: usize = 256;

/// The pairs of a range that are still to be listed.
pub(crate) struct Pairs {
    ranks: Range<usize>,
    reverse: bool,
    with_scores: bool,
    paired: bool,
    walk: Option<Arc<RankedSnapshotIterator>>,
}

impl Pairs {
    /// Returns the pairs of a set that does not change any more, with their scores.
    pub(crate) fn of(ranks: Range<usize>, reverse: bool, paired: bool) -> Self {
        Pairs { ranks, reverse, with_scores: true, paired, walk: None }
    }

    /// Writes up to `max` pairs; true at the end.
    fn write(&mut self, set: &SortedSet, max: usize, reply: &mut Reply) -> bool {
        let Range { start, end } = self.ranks;
        let count = max.min(self.ranks.len());
        let mut pair = |(member, score)| reply_pair(reply, member, score, self.with_scores, self.paired);
        if self.reverse {
            set.range(end - count..end).rev().for_each(&mut pair);
            self.ranks.end -= count;
        } else {
            set.range(start..start + count).for_each(&mut pair);
            self.ranks.start += count;
        }
        self.ranks.is_empty()
    }
}

impl Lister for Pairs {
    fn begin(&mut self, object: &mut Object) -> bool {
        let begin = |set: &mut SortedSet| set.begin_walk(self.ranks.clone(), self.reverse);
        self.walk = SortedSet::of_mut(object).and_then(begin);
        self.walk.is_some()
    }

    fn piece(&mut self, object: &Object, max: usize, reply: &mut Reply) -> bool {
        let Some(set) = SortedSet::of(object) else { return true };
        let Some(walk) = &self.walk else { return self.write(set, max, reply) };
        set.walk_piece(walk, max, |member, score| reply_pair(reply, member, score, self.with_scores, self.paired))
    }
}

fn zrangestore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = RangeOptions::parse(args, 5, Asked { scores: false, ..ANYTHING })?;
    let bounds = options.bounds(args, 3)?;
    let limits = cx.engine.encoding_limits().sorted_set();
    let chosen = |object: &Object| SortedSet::of(object).map_or(0, |set| options.ranks(set, &bounds).len());
    let yielding = cx.yielding(cx.elements(cx.key(args, 2), chosen))?;
    let result = match cx.keys.collection::<SortedSet>(cx.key(args, 2))? {
        Some(set) => {
            stored(set.range(options.ranks(set, &bounds)).inspect(|_| yielding.step()), options.reverse, limits)
        }
        None => SortedSet::default(),
    };
    store(cx, args, result, "zrangestore");
    Ok(())
}

/// Returns the result as if the pairs had been added one by one in the requested order: a score of -0 keeps its sign
/// only when the set was no longer packed by then.
fn stored<'a>(
    pairs: impl DoubleEndedIterator<Item = (&'a [u8], f64)> + ExactSizeIterator + Clone,
    reverse: bool,
    limits: Limits,
) -> SortedSet {
    let long = |(member, _): (&[u8], f64)| member.len() > limits.bytes;
    let len = pairs.len();
    let packed = match pairs.clone() {
        _ if len > limits.members => 0..0,
        mut pairs if reverse => pairs.rposition(long).map_or(0, |last| last + 1)..len,
        mut pairs => 0..pairs.position(long).unwrap_or(len),
    };
    let pairs = pairs.enumerate().map(|(at, (member, score))| {
        let score = if packed.contains(&at) { score + 0.0 } else { score };
        (member, score)
    });
    SortedSet::from_sorted(pairs, limits)
}

fn zcount(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    count(cx, args, By::Score)
}

fn zlexcount(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    count(cx, args, By::Lex)
}

fn count(cx: &mut Context<'_>, args: &Args<'_>, by: By) -> Result<(), Error> {
    let bounds = Bounds::parse(args, 2, by, false)?;
    let set = cx.keys.collection::<SortedSet>(cx.key(args, 1))?;
    cx.reply.int(set.map_or(0, |set| bounds.ranks(set, false).len()) as i64);
    Ok(())
}

fn zremrangebyrank(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    remove(cx, args, By::Rank, "zremrangebyrank")
}

fn zremrangebyscore(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    remove(cx, args, By::Score, "zremrangebyscore")
}

fn zremrangebylex(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    remove(cx, args, By::Lex, "zremrangebylex")
}

fn remove(cx: &mut Context<'_>, args: &Args<'_>, by: By, event: &'static str) -> Result<(), Error> {
    let bounds = Bounds::parse(args, 2, by, false)?;
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let ranks = edit.collection::<SortedSet>()?.map_or(0..0, |set| bounds.ranks(set, false));
    let removed = ranks.len();
    if removed > 0 {
        if edit.collection::<SortedSet>()?.map(SortedSet::len) == Some(removed) {
            edit.remove();
        } else {
            let parted = edit.with(|set: &mut SortedSet| {
                let parted = set.part_with(ranks.clone());
                if parted.is_none() {
                    set.remove_range(ranks, |_, _| {});
                }
                parted
            })?;
            if let Some(parted) = parted {
                edit.discard(Object::SortedSet(parted));
            }
        }
        commit_removal(edit, removed, event);
    }
    cx.reply.int(removed as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    #[test]
    fn ranges_are_those_of_valkey() {
        let mut client = Client::new();
        for (command, reply) in [
            ("ZADD z 1 a 2 b 3 c 4 d", ":4"),
            ("ZRANGE z 0 1", "[a b]"),
            ("ZRANGE z 0 1 REV WITHSCORES", "[d 4 c 3]"),
            ("ZRANGE z -2 -1", "[c d]"),
            ("ZRANGE z 5 2", "[]"),
            ("ZRANGE none 0 -1", "[]"),
            ("ZRANGE z (1 3 BYSCORE", "[b c]"),
            ("ZRANGE z +inf 2 BYSCORE REV LIMIT 1 1 WITHSCORES", "[c 3]"),
            ("ZRANGE z x 3 BYSCORE", "-ERR min or max is not a float"),
            ("ZRANGE z 0 1 LIMIT 0 -1", "[a b]"),
            ("ZRANGE z 0 1 REV REV", "-ERR syntax error"),
            ("ZRANGE z 0 1 BYLEX BYSCORE", "-ERR syntax error"),
            (
                "ZRANGE z 0 1 LIMIT 0 1",
                "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ),
            ("ZRANGE z - + BYLEX WITHSCORES", "-ERR syntax error, WITHSCORES not supported in combination with BYLEX"),
            ("ZRANGE z - x BYLEX", "-ERR min or max not valid string range item"),
            ("ZREVRANGE z 0 1 WITHSCORES", "[d 4 c 3]"),
            ("ZREVRANGE z 0 1 REV", "-ERR syntax error"),
            ("ZRANGEBYSCORE z 2 3", "[b c]"),
            ("ZRANGEBYSCORE z 2 3 BYSCORE", "-ERR syntax error"),
            ("ZREVRANGEBYSCORE z 3 -inf LIMIT 1 -1 WITHSCORES", "[b 2 a 1]"),
            ("ZCOUNT z (1 +inf", ":3"),
            ("ZCOUNT z 1 x", "-ERR min or max is not a float"),
            ("ZREMRANGEBYRANK z 0 x", "-ERR value is not an integer or out of range"),
            ("ZREMRANGEBYRANK z 9 10", ":0"),
            ("ZADD l 0 a 0 b 0 c 0 d", ":4"),
            ("ZRANGEBYLEX l [b +", "[b c d]"),
            ("ZREVRANGEBYLEX l (d - LIMIT 1 5", "[b a]"),
            ("ZRANGE l + (a BYLEX REV LIMIT 0 1", "[d]"),
            ("ZRANGE l (c - BYLEX", "[]"),
            ("ZLEXCOUNT l - (c", ":2"),
            // Names ascend, and so do scores.
            ("ZRANGE z [b [c BYLEX", "[b c]"),
            ("ZRANGE z [c [b BYLEX REV", "[c b]"),
            ("ZLEXCOUNT l a c", "-ERR min or max not valid string range item"),
        ] {
            client.is(command, reply);
        }
    }

    #[test]
    fn a_stored_range_keeps_the_sign_of_zero_after_a_long_member() {
        let mut client = Client::new();
        let long = "l".repeat(65);
        client.is(&format!("ZADD z -1 {long} -0 a 1 b"), ":3");
        client.is("ZRANGESTORE up z 0 -1", ":3");
        client.is("ZSCORE up a", "-0");
        client.is("ZRANGESTORE down z 0 -1 REV", ":3");
        client.is("ZSCORE down a", "0");
    }

    #[test]
    fn long_lists_are_those_of_short_ones() {
        let mut client = Client::new();
        (0..3000).for_each(|n| _ = client.is(&format!("ZADD z {n} {n:04}"), ":1"));
        let all: Vec<String> = (0..3000).map(|n| format!("{n:04}")).collect();
        client.is("ZRANGE z 0 -1", &format!("[{}]", all.join(" ")));
        let reversed: Vec<String> = (0..2999).rev().map(|n| format!("{n:04} {n}")).collect();
        client.is("ZREVRANGE z 1 -1 WITHSCORES", &format!("[{}]", reversed.join(" ")));
        client.is("ZRANGEBYSCORE z 100 2899", &format!("[{}]", all[100..2900].join(" ")));
    }

    #[test]
    fn removals_and_stores_tell_what_they_did() {
        let mut client = Client::with_events();
        client.is("ZADD z 1 a 2 b 3 c 4 d", ":4").is("SET s 1", "+OK").is("EXPIRE s 100", ":1");
        client.events();
        client.is("ZRANGESTORE s z 1 2", ":2").is("ZRANGE s 0 -1 WITHSCORES", "[b 2 c 3]").is("TTL s", ":-1");
        client.is("ZRANGESTORE s z 2 3 WITHSCORES", "-ERR syntax error");
        client.is("ZRANGESTORE s none 0 -1", ":0").is("EXISTS s", ":0").is("ZRANGESTORE s none 0 -1", ":0");
        client.is("ZRANGESTORE z z 3 (1 BYSCORE REV", ":2").is("ZRANGE z 0 -1", "[b c]");
        client.is("ZREMRANGEBYSCORE z 3 3", ":1").is("ZREMRANGEBYRANK z 0 0", ":1").is("EXISTS z", ":0");
        let expected =
            ["0 zrangestore s", "0 del s", "0 zrangestore z", "0 zremrangebyscore z", "0 zremrangebyrank z", "0 del z"];
        assert_eq!(client.events(), expected);
        client.is("ZADD l 0 a 0 b", ":2").is("ZREMRANGEBYLEX l - +", ":2").is("EXISTS l", ":0");
        client.is("SET s 1", "+OK").is("ZADD z 1 a", ":1");
        client.is("ZRANGESTORE z s 0 -1", "-WRONGTYPE Operation against a key holding the wrong kind of value");
        client.is("ZRANGESTORE s z 0 -1", ":1").is("TYPE s", "+zset");
    }

    #[test]
    fn a_negative_offset_counts_from_the_end_of_the_range_in_a_skiplist_only() {
        let (mut set, limits) = (SortedSet::default(), Limits::default());
        for (member, score) in [("a", 1.0), ("b", 2.0), ("c", 3.0)] {
            set.insert(member.as_bytes(), score, limits);
        }
        let options = |offset, reverse| RangeOptions { by: By::Score, reverse, with_scores: false, offset, count: 5 };
        assert!(limit(0..3, &set, &options(-1, false)).is_empty());
        set.reserve(1000, 1, limits);
        assert_eq!(limit(0..3, &set, &options(-1, false)), 2..3);
        assert_eq!(limit(0..3, &set, &options(-2, true)), 0..2);
        assert!(limit(0..3, &set, &options(-4, false)).is_empty());
        assert!(limit(0..3, &set, &options(i64::MIN, true)).is_empty());
    }
}
