//! LPOS: the position of an element in a list.

use crate::core::args::Args;
use crate::core::command::{Command, Group, READONLY, key};
use crate::core::context::Context;
use crate::lists::list::symmetric;
use engine::Error;
use std::ops::ControlFlow;
use structures::list::List;
use structures::listpack::Item;

pub const COMMANDS: &[Command] = &[Command {
    name: "lpos",
    group: Group::List,
    since: "6.0.6",
    arity: -3,
    flags: READONLY,
    keys: &[key(1).ro().access()],
    syntax: "key element [RANK rank:int] [COUNT num-matches:int] [MAXLEN len:int]",
    summary: "Returns the index of matching elements in a list.",
    complexity: "O(N) where N is the number of elements in the list, for the average case. When searching for elements near the head or the tail of the list, or when the MAXLEN option is provided, the command may run in constant time.",
    run: lpos,
    ..Command::DEFAULT
}];

struct Options {
    /// The first match of interest, from 1; negative: from the end.
    rank: i64,
    /// The number of matches to reply, as an array; 0: all of them. None: one, by itself.
    count: Option<usize>,
    /// Elements that are looked at, at most; 0: all.
    max_len: usize,
}

impl Options {
    fn parse(args: &Args<'_>) -> Result<Options, Error> {
        let mut options = Options { rank: 1, count: None, max_len: 0 };
        let mut index = 3;
        while index < args.len() {
            if index + 1 == args.len() {
                return Err(Error::Syntax);
            }
            let natural = |error| {
                let number = resp::number::parse_i64(&args[index + 1]);
                number.and_then(|number| usize::try_from(number).ok()).ok_or(error)
            };
            if args.is(index, "rank") {
                options.rank = symmetric(args, index + 1)?;
                if options.rank == 0 {
                    return Err(Error::RankZero);
                }
            } else if args.is(index, "count") {
                options.count = Some(natural(Error::NegativeCount)?);
            } else if args.is(index, "maxlen") {
                options.max_len = natural(Error::NegativeMaxlen)?;
            } else {
                return Err(Error::Syntax);
            }
            index += 2;
        }
        Ok(options)
    }
}

fn lpos(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let options = Options::parse(args)?;
    let Some(list) = cx.keys.collection::<List>(cx.key(args, 1))? else {
        match options.count {
            Some(_) => cx.reply.array(0),
            None => cx.reply.null(),
        }
        return Ok(());
    };
    let matches = Matches { list, wanted: Item::of(&args[2]), options: &options };
    match options.count {
        Some(count) => {
            let mark = cx.reply.begin_array();
            let mut found = 0;
            matches.each(|index| {
                cx.reply.int(index as i64);
                found += 1;
                found == count
            });
            cx.reply.end_array(mark, found);
        }
        None => {
            let mut first = None;
            matches.each(|index| {
                first = Some(index);
                true
            });
            match first {
                Some(index) => cx.reply.int(index as i64),
                None => cx.reply.null(),
            }
        }
    }
    Ok(())
}

/// The elements that match, from the one of the wanted rank on.
struct Matches<'l> {
    list: &'l List,
    wanted: Item<'l>,
    options: &'l Options,
}

impl Matches<'_> {
    /// Shows their indices to `is_enough` until that returns true.
    fn each(&self, mut is_enough: impl FnMut(usize) -> bool) {
        let len = self.list.len();
        let looked_at = if self.options.max_len == 0 { len } else { self.options.max_len.min(len) };
        let reverse = self.options.rank < 0;
        let range = if reverse { len - looked_at..len } else { 0..looked_at };
        let (mut passed, mut left_out) = (0, self.options.rank.unsigned_abs() - 1);
        self.list.visit(range, reverse, |item| {
            let index = if reverse { len - 1 - passed } else { passed };
            passed += 1;
            if item != self.wanted {
                return ControlFlow::Continue(());
            }
            if left_out > 0 {
                left_out -= 1;
                return ControlFlow::Continue(());
            }
            if is_enough(index) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn matches_are_counted_from_either_end() {
        let mut client = Client::new();
        client.is("RPUSH l a b c 1 2 3 c c", ":8").is("LPOS l c", ":2").is("LPOS l x", "nil").is("LPOS l 1", ":3");
        client.is("LPOS l c RANK 2", ":6").is("LPOS l c RANK -1", ":7").is("LPOS l c RANK 4", "nil");
        client.is("LPOS l c COUNT 2", "[:2 :6]").is("LPOS l c COUNT 0 RANK -2", "[:6 :2]").is("LPOS l x COUNT 1", "[]");
        client.is("LPOS l c COUNT 0 MAXLEN 3", "[:2]").is("LPOS l c COUNT 0 MAXLEN 2 RANK -1", "[:7 :6]");
        client.is("LPOS l c MAXLEN 2", "nil").is("LPOS none c", "nil").is("LPOS none c COUNT 1", "[]");
        client.is("LPOS l c RANK", "-ERR syntax error").is("LPOS l c JUNK 1", "-ERR syntax error");
        client.is("LPOS l c COUNT -1", "-ERR COUNT can't be negative");
        client.is("LPOS l c MAXLEN x", "-ERR MAXLEN can't be negative");
        assert!(client.run("LPOS l c RANK 0").starts_with("-ERR RANK can't be zero: use 1"));
    }
}
