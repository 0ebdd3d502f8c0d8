//! SINTERCARD, SUNIONCARD, SDIFFCARD: the number of members in an intersection, a union or a difference of sets,
//! without listing them.

use crate::core::args::Args;
use crate::core::command::{Command, Group, READONLY, key};
use crate::core::context::Context;
use crate::sets::algebra::{Names, borrow, look_up, yielding};
use crate::sets::set_operations::{Difference, intersect, unite};
use engine::Error;
use std::ops::ControlFlow;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "sintercard",
        since: "7.0.0",
        syntax: "numkeys:int key... [LIMIT limit:int]",
        summary: "Returns the number of members of the intersect of multiple sets.",
        complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
        run: sintercard,
        ..CARDINALITY
    },
    Command {
        name: "sunioncard",
        syntax: "numkeys:int key... [APPROX] [LIMIT limit:int]",
        summary: "Returns the number of members of the union of multiple sets.",
        run: sunioncard,
        ..CARDINALITY
    },
    Command {
        name: "sdiffcard",
        syntax: "numkeys:int key... [LIMIT limit:int]",
        summary: "Returns the number of members of the difference between the first set and all successive sets.",
        run: sdiffcard,
        ..CARDINALITY
    },
];

/// The common parts of this family's entries.
const CARDINALITY: Command = Command {
    group: Group::Set,
    since: "8.10.0",
    arity: -3,
    flags: READONLY,
    keys: &[key(1).ro().access().counted(0, 1, 1)],
    complexity: "O(N) where N is the total number of elements in all given sets.",
    ..Command::DEFAULT
};

/// Members, counted up to a limit.
struct Count {
    found: usize,
    /// The limit; 0: none.
    limit: usize,
}

impl Count {
    fn add(&mut self) -> ControlFlow<()> {
        self.found += 1;
        if self.found == self.limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Parses the sets, and returns a count with the given limit. `approx`: whether an estimate may be requested.
fn parse<'a>(cx: &mut Context<'_>, args: &'a Args<'_>, approx: bool) -> Result<(Names<'a>, Count), Error> {
    let keys =
        args.int(1).ok().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0).ok_or(Error::NoKeysNumbered)?;
    if keys > args.len() - 2 {
        return Err(Error::MoreKeysThanArguments);
    }
    let (mut limit, mut index) = (0, 2 + keys);
    while index < args.len() {
        if approx && args.is(index, "approx") {
            index += 1;
            continue;
        }
        if !args.is(index, "limit") || index + 1 == args.len() {
            return Err(Error::Syntax);
        }
        limit = args.int(index + 1).ok().and_then(|n| usize::try_from(n).ok()).ok_or(Error::NegativeLimit)?;
        index += 2;
    }
    Ok((look_up(cx, args, 2..2 + keys)?, Count { found: 0, limit }))
}

fn sintercard(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (names, mut count) = parse(cx, args, false)?;
    let yielding = yielding(cx, &names)?;
    intersect(borrow(&cx.keys, &names), &yielding, |_, _| count.add());
    cx.reply.int(count.found as i64);
    Ok(())
}

/// Replies the exact number of members, which is a good estimate, too: members are looked at where they lie, and not
/// copied.
fn sunioncard(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (names, mut count) = parse(cx, args, true)?;
    let yielding = yielding(cx, &names)?;
    unite(borrow(&cx.keys, &names), |_| {
        yielding.step();
        count.add()
    });
    cx.reply.int(count.found as i64);
    Ok(())
}

fn sdiffcard(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (names, mut count) = parse(cx, args, false)?;
    let yielding = yielding(cx, &names)?;
    if let Some(difference) = Difference::of(&borrow(&cx.keys, &names)) {
        difference.visit(&yielding, |_| count.add());
    }
    cx.reply.int(count.found as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn members_are_counted_up_to_a_limit() {
        let mut client = Client::new();
        client.is("SADD a 1 2 3 x", ":4").is("SADD b 3 4 x y", ":4").is("SADD c 5", ":1").is("SET s v", "+OK");
        for (command, reply) in [
            ("SINTERCARD 2 a b", ":2"),
            ("SINTERCARD 2 a b LIMIT 1", ":1"),
            ("SINTERCARD 2 a none", ":0"),
            ("SUNIONCARD 2 a b", ":6"),
            ("SUNIONCARD 4 a b c none", ":7"),
            ("SUNIONCARD 2 a a LIMIT 0", ":4"),
            ("SUNIONCARD 2 a b LIMIT 5", ":5"),
            ("SUNIONCARD 2 a b LIMIT 2 APPROX", ":2"),
            ("SUNIONCARD 1 none", ":0"),
            ("SDIFFCARD 2 a b", ":2"),
            ("SDIFFCARD 2 a b LIMIT 1", ":1"),
            ("SDIFFCARD 2 a a", ":0"),
            ("SDIFFCARD 2 none a", ":0"),
            ("SDIFFCARD 1 a", ":4"),
            ("SDIFFCARD 2 a b APPROX", "-ERR syntax error"),
            ("SUNIONCARD 0 a", "-ERR numkeys should be greater than 0"),
            ("SDIFFCARD 3 a b", "-ERR Number of keys can't be greater than number of args"),
            ("SUNIONCARD 1 a LIMIT -1", "-ERR LIMIT can't be negative"),
            ("SUNIONCARD 1 a LIMIT", "-ERR syntax error"),
        ] {
            client.is(command, reply);
        }
        client.is("SUNIONCARD 2 a s", &format!("-{}", engine::Error::WrongType));
        client.is("SDIFFCARD 2 a s", &format!("-{}", engine::Error::WrongType));
    }
}
