//! Taking the lowest or highest members out of sorted sets: ZPOPMIN, ZPOPMAX, ZMPOP, and the forms that wait for
//! members.
//!
//! ```text
//!                        several keys   waits   reply
//!   ZPOPMIN, ZPOPMAX     no             no      member, score, ...
//!   BZPOPMIN, BZPOPMAX   yes            yes     key, member, score
//!   ZMPOP, BZMPOP        yes            BZMPOP  key, ((member, score), ...)
//! ```
//! The first of several keys that holds a sorted set counts. The change log gets ZPOPMIN or ZPOPMAX in every case.

use crate::blocking::Wait;
use crate::core::args::Args;
use crate::core::chunked_reply;
use crate::core::command::{BLOCKING, Command, FAST, Group, KeySpec, WRITE, key};
use crate::core::context::Context;
use crate::keys::pop_several::PopSeveral;
use crate::sorted_sets::range::Pairs;
use crate::sorted_sets::sorted_set::{commit_removal, reply_pair};
use engine::Error;
use engine::data::value::Object;
use engine::data::value_type::SORTED_SET;
use engine::keyspace::edit::Edit;
use engine::keyspace::keys::Key;
use resp::Protocol;
use std::ops::Range;
use std::sync::Arc;
use structures::sorted_set::SortedSet;

const POPPED: KeySpec = key(1).rw().access().delete();

const POP: Command = Command {
    group: Group::SortedSet,
    since: "5.0.0",
    arity: -2,
    flags: WRITE.and(FAST),
    keys: &[POPPED],
    syntax: "key [count:int]",
    complexity: "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.",
    ..Command::DEFAULT
};

const BLOCKING_POP: Command = Command {
    arity: -3,
    flags: WRITE.and(BLOCKING).and(FAST),
    keys: &[POPPED.to(-2, 1)],
    syntax: "key... timeout:double",
    complexity: "O(log(N)) with N being the number of elements in the sorted set.",
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    ..POP
};

const POP_SEVERAL: Command = Command {
    since: "7.0.0",
    complexity: "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the sorted set, and M being the number of elements popped.",
    ..POP
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "zpopmin",
        summary: "Returns the lowest-scoring members from a sorted set after removing them. Deletes the sorted set if the last member was popped.",
        run: |cx, args| pop_one(cx, args, End::Min),
        ..POP
    },
    Command {
        name: "zpopmax",
        summary: "Returns the highest-scoring members from a sorted set after removing them. Deletes the sorted set if the last member was popped.",
        run: |cx, args| pop_one(cx, args, End::Max),
        ..POP
    },
    Command {
        name: "bzpopmin",
        summary: "Removes and returns the member with the lowest score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped.",
        run: |cx, args| pop_or_wait(cx, args, End::Min),
        ..BLOCKING_POP
    },
    Command {
        name: "bzpopmax",
        summary: "Removes and returns the member with the highest score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped.",
        run: |cx, args| pop_or_wait(cx, args, End::Max),
        ..BLOCKING_POP
    },
    Command {
        name: "zmpop",
        arity: -4,
        flags: WRITE,
        keys: &[POPPED.counted(0, 1, 1)],
        syntax: "numkeys:int key... (where: MIN | MAX) [COUNT count:int]",
        summary: "Returns the highest- or lowest-scoring members from one or more sorted sets after removing them. Deletes the sorted set if the last member was popped.",
        run: zmpop,
        ..POP_SEVERAL
    },
    Command {
        name: "bzmpop",
        arity: -5,
        flags: WRITE.and(BLOCKING),
        keys: &[KeySpec { begin: crate::core::command::Begin::Index(2), ..POPPED.counted(0, 1, 1) }],
        syntax: "timeout:double numkeys:int key... (where: MIN | MAX) [COUNT count:int]",
        summary: "Removes and returns a member by score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped.",
        run: bzmpop,
        ..POP_SEVERAL
    },
];

/// The end of the set that is popped first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Min,
    Max,
}

impl End {
    /// Returns the event, which is the name of the command in the log as well.
    fn event(self) -> &'static str {
        match self {
            End::Min => "zpopmin",
            End::Max => "zpopmax",
        }
    }

    /// Returns the ranks of the `count` first of `len` members.
    fn ranks(self, len: usize, count: usize) -> Range<usize> {
        let count = count.min(len);
        match self {
            End::Min => 0..count,
            End::Max => len - count..len,
        }
    }
}

/// Members that were taken out, in the order in which they are replied.
enum Popped {
    Few(Vec<(Vec<u8>, f64)>),
    /// Members at these ranks of a set that belongs to no key any more.
    Many(Arc<Object>, Range<usize>),
}

impl Popped {
    fn len(&self) -> usize {
        match self {
            Popped::Few(pairs) => pairs.len(),
            Popped::Many(_, ranks) => ranks.len(),
        }
    }

    /// Replies the pairs, each as an array of two or not, behind the header.
    fn reply(self, cx: &mut Context<'_>, end: End, paired: bool) {
        match self {
            Popped::Few(pairs) => {
                for (member, score) in &pairs {
                    reply_pair(cx.reply, member, *score, true, paired);
                }
            }
            Popped::Many(set, ranks) => chunked_reply::list_removed(cx, set, Pairs::of(ranks, end == End::Max, paired)),
        }
    }
}

/// Takes up to `count` members out; none when there is no such key. `says_count`: the log gets the count, even if that
/// is one.
fn pop(cx: &mut Context<'_>, key: Key<'_>, end: End, count: usize, says_count: bool) -> Result<Option<Popped>, Error> {
    let mut edit = cx.keys.edit(key);
    let Some(len) = edit.collection::<SortedSet>()?.map(SortedSet::len) else { return Ok(None) };
    let ranks = end.ranks(len, count);
    if ranks.is_empty() {
        return Ok(None);
    }
    let popped = take(&mut edit, end, ranks, len)?;
    edit.log_as(|| {
        let mut record = vec![end.event().to_ascii_uppercase().into_bytes(), key.name.to_vec()];
        if popped.len() > 1 || says_count {
            record.push(popped.len().to_string().into_bytes());
        }
        vec![record]
    });
    commit_removal(edit, popped.len(), end.event());
    Ok(Some(popped))
}

/// Takes the members at these ranks out of a set of `len`.
fn take(edit: &mut Edit<'_>, end: End, ranks: Range<usize>, len: usize) -> Result<Popped, Error> {
    if ranks.len() > chunked_reply::AT_ONCE {
        let set = if ranks.len() == len {
            edit.remove_shared()
        } else {
            let parted = edit.with(|set: &mut SortedSet| set.part_with(ranks.clone()))?;
            parted.map(|set| edit.share(Object::SortedSet(set)))
        };
        if let Some(set) = set {
            return Ok(Popped::Many(set, ranks));
        }
    }
    let mut pairs = Vec::with_capacity(ranks.len());
    edit.with(|set: &mut SortedSet| set.remove_range(ranks, |member, score| pairs.push((member.to_vec(), score))))?;
    if end == End::Max {
        pairs.reverse();
    }
    Ok(Popped::Few(pairs))
}

fn pop_one(cx: &mut Context<'_>, args: &mut Args<'_>, end: End) -> Result<(), Error> {
    if args.len() > 3 {
        return Err(Error::Syntax);
    }
    let count = args.get(2).map(|text| parse_count(text).ok_or(Error::NotPositive)).transpose()?;
    let Some(popped) = pop(cx, cx.key(args, 1), end, count.unwrap_or(1), false)? else {
        cx.reply.array(0);
        return Ok(());
    };
    let paired = count.is_some() && cx.reply.protocol() == Protocol::Resp3;
    cx.reply.array(if paired { popped.len() } else { popped.len() * 2 });
    popped.reply(cx, end, paired);
    Ok(())
}

fn pop_or_wait(cx: &mut Context<'_>, args: &mut Args<'_>, end: End) -> Result<(), Error> {
    let last = args.len() - 1;
    let deadline = cx.deadline(&args[last])?;
    for index in 1..last {
        if let Some(popped) = pop(cx, cx.key(args, index), end, 1, false)? {
            cx.reply.array(3);
            cx.reply.bulk(&args[index]);
            popped.reply(cx, end, false);
            return Ok(());
        }
    }
    cx.wait(args, 1..last, Wait { kind: Some(&SORTED_SET), ..Wait::until(deadline) });
    Ok(())
}

fn zmpop(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let request = PopSeveral::parse(args, 1, end_at)?;
    if !pop_several(&request, cx, args)? {
        cx.reply.null_array();
    }
    Ok(())
}

fn bzmpop(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let request = PopSeveral::parse(args, 2, end_at)?;
    let deadline = cx.deadline(&args[1])?;
    if !pop_several(&request, cx, args)? {
        cx.wait(args, request.keys, Wait { kind: Some(&SORTED_SET), ..Wait::until(deadline) });
    }
    Ok(())
}

/// Reads the end at an argument.
fn end_at(args: &Args<'_>, index: usize) -> Result<End, Error> {
    match () {
        () if args.is(index, "min") => Ok(End::Min),
        () if args.is(index, "max") => Ok(End::Max),
        () => Err(Error::Syntax),
    }
}

/// Replies members of the first key that has some; false when there is none.
fn pop_several(request: &PopSeveral<End>, cx: &mut Context<'_>, args: &Args<'_>) -> Result<bool, Error> {
    for index in request.keys.clone() {
        let Some(popped) = pop(cx, cx.key(args, index), request.end, request.count, true)? else { continue };
        cx.reply.array(2);
        cx.reply.bulk(&args[index]);
        cx.reply.array(popped.len());
        popped.reply(cx, request.end, true);
        return Ok(true);
    }
    Ok(false)
}

fn parse_count(text: &[u8]) -> Option<usize> {
    resp::number::parse_i64(text).and_then(|n| usize::try_from(n).ok())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn the_lowest_or_highest_members_go() {
        let mut client = Client::with_events();
        let log = client.log();
        client.is("ZADD z 1 a 2 b 3 c 4 d 5 e", ":5").is("ZPOPMIN z", "[a 1]").is("ZPOPMAX z 2", "[e 5 d 4]");
        client
            .is("ZPOPMIN z 0", "[]")
            .is("ZPOPMIN none", "[]")
            .is("ZPOPMIN z -1", "-ERR value is out of range, must be positive");
        client.is("ZPOPMIN z 9", "[b 2 c 3]").is("EXISTS z", ":0");
        assert_eq!(client.events()[1..], ["0 zadd z", "0 zpopmin z", "0 zpopmax z", "0 zpopmin z", "0 del z"]);
        let logged: Vec<String> =
            log.take().iter().map(|(_, record)| String::from_utf8(record.join(&b' ')).unwrap()).collect();
        assert_eq!(logged[1..], ["ZPOPMIN z", "ZPOPMAX z 2", "ZPOPMIN z 2"]);
        client
            .is("SET s v", "+OK")
            .is("ZPOPMAX s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value");
        client.is("ZPOPMIN z 1 2", "-ERR syntax error");
    }

    #[test]
    fn the_first_key_with_members_counts() {
        let mut client = Client::new();
        client.is("ZADD y 1 a 2 b 3 c", ":3").is("ZMPOP 2 x y MIN", "[y [[a 1]]]");
        client
            .is("BZPOPMAX x y 0", "[y c 3]")
            .is("BZMPOP 0 2 x y MAX COUNT 5", "[y [[b 2]]]")
            .is("ZMPOP 1 y MIN", "nil");
        for (line, error) in [
            ("ZMPOP 0 a MIN", "-ERR numkeys should be greater than 0"),
            ("ZMPOP 2 a MIN", "-ERR syntax error"),
            ("ZMPOP 1 a MIN COUNT 0", "-ERR count should be greater than 0"),
            ("ZMPOP 1 a MIN COUNT 0 junk", "-ERR count should be greater than 0"),
            ("ZMPOP 1 a MIN COUNT 1 COUNT 1", "-ERR syntax error"),
            ("BZMPOP -1 1 a MIN", "-ERR timeout is negative"),
            ("BZPOPMIN a 1e400", "-ERR timeout is out of range"),
            ("BZPOPMIN a -1e400", "-ERR timeout is negative"),
            ("BZMPOP x 0 a MIN", "-ERR numkeys should be greater than 0"),
            ("BZPOPMIN a x", "-ERR timeout is not a float or out of range"),
            ("BZPOPMIN a 1e300", "-ERR timeout is out of range"),
        ] {
            client.is(line, error);
        }
    }
}
