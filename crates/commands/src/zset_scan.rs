//! ZSCAN: a sorted set in steps that clients ask for one by one.
//!
//! A small set is told in one step, a big one by places in its table of members, as SCAN walks over keys: what a cursor
//! means does not change when the table grows, so a member that is there all the time is told.

use crate::args::Args;
use crate::cx::Cx;
use crate::row::{Command, Group, READONLY, ROW, key};
use crate::scan::parse_cursor;
use engine::{Error, glob};
use resp::{Reply, format_17_digits, format_double};
use structures::sorted_set::SortedSet;

pub const COMMANDS: &[Command] = &[Command {
    name: "zscan",
    group: Group::SortedSet,
    since: "2.8.0",
    arity: -3,
    flags: READONLY,
    keys: &[key(1).ro().access()],
    syntax: "key cursor:int [MATCH pattern:pattern] [COUNT count:int] [NOSCORES]",
    summary: "Iterates over members and scores of a sorted set.",
    complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
    history: &[("8.0.0", "Added noscores option.")],
    tips: &["nondeterministic_output"],
    run: zscan,
    ..ROW
}];

/// Places of the table that are looked at for each member that is asked for; one that was emptied has few members in many.
const PLACES_PER_MEMBER: usize = 10;

fn zscan(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let cursor = parse_cursor(&args[2])?;
    // Without the key nothing more is looked at.
    let Some(set) = cx.keys.collection::<SortedSet>(cx.key(args, 1))? else {
        cx.reply.array(2);
        cx.reply.bulk(b"0");
        cx.reply.array(0);
        return Ok(());
    };
    let (mut pattern, mut count, mut scores) = (None, 10, true);
    let mut index = 3;
    while index < args.len() {
        let more = index + 1 < args.len();
        if more && args.is(index, "count") {
            count = usize::try_from(args.int(index + 1)?).ok().filter(|n| *n > 0).ok_or(Error::SYNTAX)?;
            index += 1;
        } else if more && args.is(index, "match") {
            pattern = Some(&args[index + 1]).filter(|pattern| *pattern != b"*");
            index += 1;
        } else if args.is(index, "noscores") {
            scores = false;
        } else if args.is(index, "novalues") {
            return Err(Error::NOVALUES_WITHOUT_HASH);
        } else {
            return Err(Error::SYNTAX);
        }
        index += 1;
    }
    let packed = set.encoding() == "listpack";
    let (reply, mut seen, mut told, mut places) = (&mut *cx.reply, 0, 0, 0);
    let mut items = Reply::new(Vec::new(), reply.protocol());
    let mut at = Some(cursor);
    while let Some(position) = at
        && seen < count
        && places < count.saturating_mul(PLACES_PER_MEMBER)
    {
        places += 1;
        at = set.scan(position, |member, score| {
            seen += 1;
            if pattern.is_none_or(|pattern| glob::matches(pattern, member)) {
                items.bulk(member);
                told += 1;
                if scores {
                    write_score(&mut items, score, packed);
                    told += 1;
                }
            }
        });
    }
    reply.array(2);
    reply.bulk(at.unwrap_or(0).to_string().as_bytes());
    reply.array(told);
    reply.raw(items.as_slice());
    Ok(())
}

/// A score as other servers tell it here, a string in RESP3 too: as in other replies while they keep it in a listpack, with
/// 17 digits otherwise.
fn write_score(reply: &mut Reply, score: f64, packed: bool) {
    if packed {
        reply.bulk(&format_double(score));
    } else {
        reply.bulk(format_17_digits(score).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;
    use resp::value::Value;
    use std::collections::BTreeSet;

    #[test]
    fn a_small_set_is_told_at_once() {
        let mut client = Client::new();
        for (command, reply) in [
            ("ZADD z 1 a 2.5 b 3 ab", ":3"),
            ("ZSCAN z 0", "[0 [a 1 b 2.5 ab 3]]"),
            ("ZSCAN z 0 NOSCORES MATCH a* COUNT 1", "[0 [a ab]]"),
            ("ZSCAN none 0", "[0 []]"),
            ("ZSCAN none 0 junk", "[0 []]"),
            ("ZSCAN z x", "-ERR invalid cursor"),
            ("ZSCAN z 0 COUNT 0", "-ERR syntax error"),
            ("ZSCAN z 0 COUNT", "-ERR syntax error"),
            ("ZSCAN z 0 COUNT x", "-ERR value is not an integer or out of range"),
            ("ZSCAN z 0 NOVALUES", "-ERR NOVALUES option can only be used in HSCAN"),
            ("SET s 1", "+OK"),
            ("ZSCAN s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ] {
            client.is(command, reply);
        }
    }

    #[test]
    fn a_big_set_is_told_whole() {
        let mut client = Client::new();
        (0..3000).for_each(|n| _ = client.is(&format!("ZADD z {n} m:{n}"), ":1"));
        let (mut cursor, mut seen, mut calls) = ("0".to_owned(), BTreeSet::new(), 0);
        loop {
            let Value::Array(reply) = client.value(&format!("ZSCAN z {cursor} COUNT 50")) else { panic!("an array") };
            let [Value::Bulk(next), Value::Array(items)] = &reply[..] else { panic!("a cursor and members") };
            assert!(items.len() < 300);
            for pair in items.chunks(2) {
                let [Value::Bulk(member), Value::Bulk(score)] = pair else { panic!("a member and its score") };
                assert_eq!(member[2..], score[..]);
                seen.insert(member.clone());
            }
            calls += 1;
            cursor = String::from_utf8(next.clone()).unwrap();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen.len(), 3000);
        assert!((30..100).contains(&calls), "{calls}");
    }
}
