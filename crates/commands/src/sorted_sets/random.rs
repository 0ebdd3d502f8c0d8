//! ZRANDMEMBER: members of a sorted set by chance.

use crate::core::args::Args;
use crate::core::chunked_reply;
use crate::core::command::{Command, Group, READONLY, key};
use crate::core::context::Context;
use crate::sorted_sets::sorted_set::{begin_pairs, reply_pair, reply_pairs};
use engine::Error;
use engine::data::value::{Collection, Object};
use foldhash::fast::RandomState;
use std::collections::HashSet;
use structures::sorted_set::SortedSet;

pub const COMMANDS: &[Command] = &[Command {
    name: "zrandmember",
    group: Group::SortedSet,
    since: "6.2.0",
    arity: -2,
    flags: READONLY,
    keys: &[key(1).ro().access()],
    syntax: "key [options: count:int [WITHSCORES]]",
    summary: "Returns one or more random members from a sorted set.",
    complexity: "O(N) where N is the number of members returned",
    tips: &["nondeterministic_output"],
    run: zrandmember,
    ..Command::DEFAULT
}];

fn zrandmember(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let Some(count) = args.get(2).map(|_| args.int(2)).transpose()? else {
        match cx.keys.collection::<SortedSet>(cx.key(args, 1))? {
            Some(set) => {
                let rank = fastrand::usize(..set.len());
                set.range(rank..rank + 1).for_each(|(member, _)| cx.reply.bulk(member));
            }
            None => cx.reply.null(),
        }
        return Ok(());
    };
    if count == i64::MIN {
        return Err(Error::NotNegatable);
    }
    if args.len() > 4 || (args.len() == 4 && !args.is(3, "withscores")) {
        return Err(Error::Syntax);
    }
    let with_scores = args.len() == 4;
    if with_scores && !(-(i64::MAX / 2)..=i64::MAX / 2).contains(&count) {
        return Err(Error::OutOfRange);
    }
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let members = |object: &Object| SortedSet::of(object).map_or(0, SortedSet::len);
    let yielding = cx.yielding_to_draw(cx.key(args, 1), wanted, members)?;
    let Some(set) = cx.keys.collection::<SortedSet>(cx.key(args, 1))? else {
        cx.reply.array(0);
        return Ok(());
    };
    let len = set.len();
    if count < 0 && wanted > chunked_reply::DRAWS_AT_ONCE.max(len) {
        let items: Vec<_> = yielding.over(set.iter()).map(|(member, score)| (member.to_vec(), score)).collect();
        let paired = begin_pairs(cx.reply, wanted, with_scores);
        chunked_reply::draw(cx, items, wanted, move |reply, (member, score)| {
            reply_pair(reply, member, *score, with_scores, paired);
        });
        return Ok(());
    }
    let at = |rank: usize| {
        yielding.step();
        set.range(rank..rank + 1).next().unwrap_or_default()
    };
    if count < 0 {
        let picks = Picks { left: wanted, len };
        reply_pairs(cx.reply, picks.map(at), with_scores);
    } else if wanted >= len {
        reply_pairs(cx.reply, set.iter(), with_scores);
    } else {
        reply_pairs(cx.reply, distinct(wanted, len).into_iter().map(at), with_scores);
    }
    Ok(())
}

/// Ranks below `len`, with repetitions.
struct Picks {
    left: usize,
    len: usize,
}

impl Iterator for Picks {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        Some(fastrand::usize(..self.len))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Picks {}

/// Returns `count` distinct ranks below `len`, each as likely as another, in no particular order (R. Floyd's sampling,
/// in Bentley, "Programming Pearls: a sample of brilliance", 1987).
fn distinct(count: usize, len: usize) -> Vec<usize> {
    let mut taken = HashSet::<usize, RandomState>::default();
    for last in len - count..len {
        let pick = fastrand::usize(..=last);
        if !taken.insert(pick) {
            taken.insert(last);
        }
    }
    taken.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::distinct;
    use crate::testing::Client;
    use std::collections::BTreeSet;

    #[test]
    fn random_members() {
        let mut client = Client::new();
        for (command, reply) in [
            ("ZADD z 1 a 2 b 3 c", ":3"),
            ("ZADD one 1.5 a", ":1"),
            ("SET s 1", "+OK"),
            ("ZRANDMEMBER none", "nil"),
            ("ZRANDMEMBER none 1", "[]"),
            ("ZRANDMEMBER one", "a"),
            ("ZRANDMEMBER one 5 WITHSCORES", "[a 1.5]"),
            ("ZRANDMEMBER one -2 withscores", "[a 1.5 a 1.5]"),
            ("ZRANDMEMBER z 0", "[]"),
            ("ZRANDMEMBER z 3", "[a b c]"),
            ("ZRANDMEMBER z x", "-ERR value is not an integer or out of range"),
            (
                "ZRANDMEMBER z -9223372036854775808",
                "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ),
            ("ZRANDMEMBER z 9223372036854775807 WITHSCORES", "-ERR value is out of range"),
            ("ZRANDMEMBER z 1 junk", "-ERR syntax error"),
            ("ZRANDMEMBER z 1 WITHSCORES junk", "-ERR syntax error"),
            ("ZRANDMEMBER s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ] {
            client.is(command, reply);
        }
    }

    #[test]
    fn every_sample_is_drawn() {
        fastrand::seed(1);
        let mut seen = BTreeSet::new();
        for _ in 0..200 {
            let mut sample = distinct(2, 4);
            sample.sort_unstable();
            assert!(sample.len() == 2 && sample[0] < sample[1] && sample[1] < 4);
            seen.insert(sample);
        }
        assert_eq!(seen.len(), 6);
    }
}
