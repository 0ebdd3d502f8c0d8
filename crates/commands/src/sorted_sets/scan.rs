//! ZSCAN: a sorted set in steps that clients ask for one by one.
//!
//! A small set is replied in one step, a big one by places in its table of members, as SCAN walks over keys: a cursor
//! means the same when the table grows, so a member that is there all the time is replied.

use crate::core::args::Args;
use crate::core::command::{Command, Group, READONLY, key};
use crate::core::context::Context;
use crate::keys::scan_options::{ScanWords, Scanned, parse_cursor, reply_elements, reply_nothing};
use engine::Error;
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
    ..Command::DEFAULT
}];

fn zscan(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let cursor = parse_cursor(&args[2])?;
    // Without the key no further argument is checked.
    let Some(set) = cx.keys.collection::<SortedSet>(cx.key(args, 1))? else {
        reply_nothing(cx.reply);
        return Ok(());
    };
    let words = ScanWords::parse(args, 3, Scanned::SortedSet)?;
    let packed = set.encoding() == "listpack";
    reply_elements(cx.reply, cursor, words.count, |position, found| {
        set.scan(position, |member, score| {
            found.seen += 1;
            if words.show(member) {
                found.items.bulk(member);
                found.shown += 1;
                if !words.names_only {
                    write_score(&mut found.items, score, packed);
                    found.shown += 1;
                }
            }
        })
    });
    Ok(())
}

/// Writes a score in the form of other servers here, a string in RESP3 too: as in other replies while they store it in
/// a listpack, with 17 digits otherwise.
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
    use resp::reply_value::Value;
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
