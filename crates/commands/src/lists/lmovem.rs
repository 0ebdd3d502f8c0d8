//! Moving several elements from a list to a list: LMOVEM, and BLMOVEM, which waits for them.
//!
//! ```text
//!   source 1 2 3 4, LEFT, COUNT 3        BULK: in the order of the source        OBO: one by one
//!   to the LEFT of x                     1 2 3 x                                 3 2 1 x
//!   to the RIGHT of x                    x 1 2 3                                 x 1 2 3
//! ```

use crate::blocking::Wait;
use crate::core::args::Args;
use crate::core::command::{BLOCKING, Command, DENY_OOM, Group, WRITE, key};
use crate::core::context::Context;
use crate::lists::list::{commit_removal, end_at, pop_event, push_event};
use crate::lists::lmove::Element;
use crate::lists::pop::pop_word;
use engine::Error;
use engine::data::event_class::EventClass;
use engine::data::value_type::LIST;
use engine::keyspace::edit::Edit;
use engine::propagation::effects::Record;
use engine::propagation::logged_words::{record, record_of};
use structures::list::List;
use structures::quicklist::End;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "lmovem",
        arity: -5,
        flags: WRITE.and(DENY_OOM),
        syntax: "source:key destination:key (wherefrom: LEFT | RIGHT) (whereto: LEFT | RIGHT) [how-many: (selector: COUNT count:int | EXACTLY exactly:int) (ordering: OBO | BULK)]",
        summary: "Moves up to (or exactly) a number of elements from one list to another and returns them. Deletes the source list if it becomes empty.",
        run: lmovem,
        ..MOVE
    },
    Command {
        name: "blmovem",
        arity: -6,
        flags: WRITE.and(DENY_OOM).and(BLOCKING),
        syntax: "source:key destination:key (wherefrom: LEFT | RIGHT) (whereto: LEFT | RIGHT) timeout:double [how-many: (selector: COUNT count:int | EXACTLY exactly:int) (ordering: OBO | BULK)]",
        summary: "Moves up to (or exactly) a number of elements from one list to another and returns them. Blocks until the elements are available otherwise. Deletes the source list if it becomes empty.",
        run: blmovem,
        ..MOVE
    },
];

/// The common parts of this family's entries.
const MOVE: Command = Command {
    group: Group::List,
    since: "8.10.0",
    keys: &[key(1).rw().access().delete(), key(2).rw().insert()],
    complexity: "O(N) where N is the number of elements moved.",
    ..Command::DEFAULT
};

/// The elements to move, and the manner.
struct Move {
    from: End,
    to: End,
    count: usize,
    /// Whether fewer elements are not moved.
    exactly: bool,
    /// Whether each element goes to the very end, so that those pushed at the head come in reverse.
    one_by_one: bool,
}

impl Move {
    /// Parses the arguments whose last block, if there is one, begins at `at`.
    fn parse(args: &Args<'_>, at: usize) -> Result<Move, Error> {
        let (from, to) = (end_at(args, 3)?, end_at(args, 4)?);
        if args.len() == at {
            return Ok(Move { from, to, count: 1, exactly: false, one_by_one: true });
        }
        if args.len() != at + 3 {
            return Err(Error::Syntax);
        }
        let exactly = args.is(at, "exactly");
        let one_by_one = args.is(at + 2, "obo");
        if !(exactly || args.is(at, "count")) || !(one_by_one || args.is(at + 2, "bulk")) {
            return Err(Error::Syntax);
        }
        let count = resp::number::parse_i64(&args[at + 1]).and_then(|count| usize::try_from(count).ok());
        let count = count.filter(|count| *count > 0).ok_or(Error::CountNotAboveZero)?;
        Ok(Move { from, to, count, exactly, one_by_one })
    }

    /// Returns the commands that push these elements, in their new order, and pop as many. A list that all its elements
    /// leave is another list afterwards, without expiry, so a list that stays gets elements first.
    fn logged(&self, source: &[u8], target: &[u8], moved: &[Element], takes_all: bool) -> Vec<Record> {
        let count = moved.len().to_string();
        let pop = |end: End| record(&[&pop_word(end), source, count.as_bytes()]);
        let push = |end: End| match end {
            End::Head => record_of(&[b"LPUSH", target], moved.iter().rev().map(Element::bytes)),
            End::Tail => record_of(&[b"RPUSH", target], moved.iter().map(Element::bytes)),
        };
        let in_place = source == target && self.from == self.to;
        match () {
            () if in_place && !self.one_by_one => Vec::new(),
            () if in_place && takes_all => {
                let other = if self.from == End::Head { End::Tail } else { End::Head };
                vec![push(other), pop(self.from)]
            }
            () if in_place => vec![pop(self.from), push(self.to)],
            () => vec![push(self.to), pop(self.from)],
        }
    }
}

fn lmovem(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let wanted = Move::parse(args, 5)?;
    if !move_elements(cx, args, &wanted)? {
        cx.reply.null_array();
    }
    Ok(())
}

fn blmovem(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let wanted = Move::parse(args, 6)?;
    let deadline = cx.deadline(&args[5])?;
    if !move_elements(cx, args, &wanted)? {
        cx.wait(args, [1], Wait { kind: Some(&LIST), ..Wait::until(deadline) });
    }
    Ok(())
}

/// Moves the elements and replies them in their new order; false if there are none, or too few.
fn move_elements(cx: &mut Context<'_>, args: &Args<'_>, wanted: &Move) -> Result<bool, Error> {
    let (source, target) = (cx.key(args, 1), cx.key(args, 2));
    let Some(len) = cx.keys.edit(source).collection::<List>()?.map(List::len) else { return Ok(false) };
    cx.keys.edit(target).collection::<List>()?;
    if wanted.exactly && len < wanted.count {
        return Ok(false);
    }
    let count = wanted.count.min(len);
    let rules = cx.engine.encoding_limits().list();
    let yielding = cx.yielding(count)?;
    let taken = if wanted.from == End::Head { 0..count } else { len - count..len };
    let mut elements = Vec::with_capacity(count);
    if let Some(list) = cx.keys.edit(source).collection::<List>()? {
        list.each(taken.clone(), wanted.one_by_one && wanted.from == wanted.to, |item| {
            yielding.step();
            elements.push(Element::of(item));
        });
    }
    let push = |list: &mut List| {
        for index in 0..count {
            yielding.step();
            let index = if wanted.to == End::Head { count - 1 - index } else { index };
            elements[index].push(list, wanted.to, &rules);
        }
    };
    if source.name == target.name {
        let mut edit = cx.keys.edit(source);
        edit.with(|list: &mut List| {
            list.remove_range(taken);
            push(list);
            list.shrunk(&rules);
        })?;
        edit.event(EventClass::LIST, push_event(wanted.to));
        finish(edit, [source.name, target.name], wanted, &elements, len);
    } else {
        let mut edit = cx.keys.edit(target);
        edit.with(push)?;
        edit.commit_many(0, EventClass::LIST, push_event(wanted.to));
        let mut edit = cx.keys.edit(source);
        edit.with(|list: &mut List| {
            list.remove_range(taken);
            list.shrunk(&rules);
        })?;
        finish(edit, [source.name, target.name], wanted, &elements, len);
    }
    cx.reply.array(count);
    elements.iter().for_each(|element| cx.reply.bulk(element.bytes()));
    Ok(true)
}

/// Ends the change, at the source.
fn finish(mut edit: Edit<'_>, [source, target]: [&[u8]; 2], wanted: &Move, moved: &[Element], len: usize) {
    edit.log_as(|| wanted.logged(source, target, moved, moved.len() == len));
    commit_removal(edit, moved.len(), pop_event(wanted.from));
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn elements_keep_their_order_or_are_moved_one_by_one() {
        for (how, reply, source) in [
            ("LEFT LEFT COUNT 3 OBO", "[3 2 1]", "[4 5]"),
            ("LEFT LEFT COUNT 3 BULK", "[1 2 3]", "[4 5]"),
            ("LEFT RIGHT COUNT 3 OBO", "[1 2 3]", "[4 5]"),
            ("LEFT RIGHT EXACTLY 3 BULK", "[1 2 3]", "[4 5]"),
            ("RIGHT RIGHT COUNT 3 OBO", "[5 4 3]", "[1 2]"),
            ("RIGHT RIGHT COUNT 3 BULK", "[3 4 5]", "[1 2]"),
            ("RIGHT LEFT COUNT 3 OBO", "[3 4 5]", "[1 2]"),
            ("RIGHT LEFT COUNT 9 BULK", "[1 2 3 4 5]", "[]"),
            ("right left", "[5]", "[1 2 3 4]"),
        ] {
            let mut client = Client::new();
            client.is("RPUSH a 1 2 3 4 5", ":5").is("RPUSH b x", ":1");
            client.is(&format!("LMOVEM a b {how}"), reply).is("LRANGE a 0 -1", source);
            let moved = &reply[1..reply.len() - 1];
            let to_head = how.to_uppercase().split(' ').nth(1) == Some("LEFT");
            let target = if to_head { format!("[{moved} x]") } else { format!("[x {moved}]") };
            client.is("LRANGE b 0 -1", &target);
        }
        let mut client = Client::with_events();
        client
            .is("RPUSH a 1 2 3", ":3")
            .is("LMOVEM a a LEFT RIGHT COUNT 2 BULK", "[1 2]")
            .is("LRANGE a 0 -1", "[3 1 2]");
        client.is("LMOVEM a a LEFT LEFT COUNT 9 OBO", "[2 1 3]").is("LRANGE a 0 -1", "[2 1 3]");
        client.events();
        client.is("LMOVEM a b LEFT RIGHT COUNT 9 BULK", "[2 1 3]");
        assert_eq!(client.events(), ["0 new b", "0 rpush b", "0 lpop a", "0 del a"]);
    }

    #[test]
    fn elements_that_cannot_be_moved_stay() {
        let mut client = Client::new();
        client.is("RPUSH a 1 2", ":2").is("SET s v", "+OK");
        for (command, reply) in [
            ("LMOVEM a b LEFT RIGHT EXACTLY 3 BULK", "nil"),
            ("LMOVEM none b LEFT RIGHT", "nil"),
            ("LMOVEM a b LEFT RIGHT COUNT 0 BULK", "-ERR count should be greater than 0"),
            ("LMOVEM a b LEFT RIGHT EXACTLY x BULK", "-ERR count should be greater than 0"),
            ("LMOVEM a b LEFT RIGHT COUNT 1", "-ERR syntax error"),
            ("LMOVEM a b LEFT RIGHT COUNT 1 UP", "-ERR syntax error"),
            ("LMOVEM a b LEFT RIGHT COUNT 1 OBO x", "-ERR syntax error"),
            ("LMOVEM a b LEFT UP", "-ERR syntax error"),
            ("LMOVEM a b LEFT", "-ERR wrong number of arguments for 'lmovem' command"),
            ("LMOVEM a s LEFT RIGHT", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("LRANGE a 0 -1", "[1 2]"),
            ("EXISTS b", ":0"),
            ("MULTI", "+OK"),
            ("BLMOVEM a b LEFT RIGHT 0 EXACTLY 3 BULK", "+QUEUED"),
            ("EXEC", "[nil]"),
        ] {
            client.is(command, reply);
        }
    }

    #[test]
    fn moves_are_logged_as_pushes_and_pops() {
        let mut client = Client::new();
        let log = client.log();
        client.is("RPUSH a 1 2 3", ":3").is("BLMOVEM a b LEFT RIGHT 0 COUNT 2 BULK", "[1 2]");
        client.is("BLMOVEM a b LEFT RIGHT 0", "[3]").is("LMOVEM b a LEFT LEFT COUNT 9 OBO", "[3 2 1]");
        let both = |push: &str, pop: &str| ["MULTI", push, pop, "EXEC"].map(str::to_owned);
        let expected =
            [both("RPUSH b 1 2", "LPOP a 2"), both("RPUSH b 3", "LPOP a 1"), both("LPUSH a 1 2 3", "LPOP b 3")];
        assert_eq!(log.lines()[1..], expected.concat());
    }

    #[test]
    fn replays_of_moves_within_a_list_keep_its_order_and_expiry() {
        for from in ["LEFT", "RIGHT"] {
            for to in ["LEFT", "RIGHT"] {
                for how in ["COUNT 2 OBO", "COUNT 2 BULK", "COUNT 9 OBO", "COUNT 9 BULK"] {
                    let (mut client, mut replica) = (Client::new(), Client::new());
                    let log = client.log();
                    client.is("RPUSH a 1 2 3 4 5", ":5").is("EXPIRE a 100", ":1");
                    client.run(&format!("LMOVEM a a {from} {to} {how}"));
                    let order = client.run("LRANGE a 0 -1");
                    replica.replay(&log).is("LRANGE a 0 -1", &order).is("TTL a", ":100");
                }
            }
        }
    }
}
