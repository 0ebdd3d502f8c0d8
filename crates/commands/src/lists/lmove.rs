//! Moving an element from a list to a list: LMOVE, RPOPLPUSH, and BLMOVE, BRPOPLPUSH, which wait for it.

use crate::blocking::{Nil, Wait};
use crate::core::args::Args;
use crate::core::command::{BLOCKING, Command, DENY_OOM, Group, WRITE, key};
use crate::core::context::Context;
use crate::lists::list::{commit_removal, end_at, pop_event, push_event, reply_item};
use engine::Error;
use engine::data::event_class::EventClass;
use engine::data::value_type::LIST;
use engine::keyspace::edit::Edit;
use engine::time::SteadyMs;
use std::borrow::Cow;
use structures::list::List;
use structures::listpack::Item;
use structures::quicklist::{End, Rules};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "lmove",
        group: Group::List,
        since: "6.2.0",
        arity: 5,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).rw().access().delete(), key(2).rw().insert()],
        syntax: "source:key destination:key (wherefrom: LEFT | RIGHT) (whereto: LEFT | RIGHT)",
        summary: "Returns an element after popping it from one list and pushing it to another. Deletes the list if the last element was moved.",
        complexity: "O(1)",
        run: lmove,
        ..Command::DEFAULT
    },
    Command {
        name: "rpoplpush",
        group: Group::List,
        since: "1.2.0",
        arity: 3,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).rw().access().delete(), key(2).rw().insert()],
        syntax: "source:key destination:key",
        summary: "Returns the last element of a list after removing and pushing it to another list. Deletes the list if the last element was popped.",
        complexity: "O(1)",
        run: rpoplpush,
        ..Command::DEFAULT
    },
    Command {
        name: "blmove",
        group: Group::List,
        since: "6.2.0",
        arity: 6,
        flags: WRITE.and(DENY_OOM).and(BLOCKING),
        keys: &[key(1).rw().access().delete(), key(2).rw().insert()],
        syntax: "source:key destination:key (wherefrom: LEFT | RIGHT) (whereto: LEFT | RIGHT) timeout:double",
        summary: "Pops an element from a list, pushes it to another list and returns it. Blocks until an element is available otherwise. Deletes the list if the last element was moved.",
        complexity: "O(1)",
        run: blmove,
        ..Command::DEFAULT
    },
    Command {
        name: "brpoplpush",
        group: Group::List,
        since: "2.2.0",
        arity: 4,
        flags: WRITE.and(DENY_OOM).and(BLOCKING),
        keys: &[key(1).rw().access().delete(), key(2).rw().insert()],
        syntax: "source:key destination:key timeout:double",
        summary: "Pops an element from a list, pushes it to another list and returns it. Blocks until an element is available otherwise. Deletes the list if the last element was popped.",
        complexity: "O(1)",
        history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
        run: brpoplpush,
        ..Command::DEFAULT
    },
];

fn lmove(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (from, to) = (end_at(args, 3)?, end_at(args, 4)?);
    if !move_element(cx, args, from, to, None)? {
        cx.reply.null();
    }
    Ok(())
}

fn rpoplpush(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if !move_element(cx, args, End::Tail, End::Head, None)? {
        cx.reply.null();
    }
    Ok(())
}

fn blmove(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (from, to) = (end_at(args, 3)?, end_at(args, 4)?);
    let deadline = cx.deadline(&args[5])?;
    move_or_wait(cx, args, from, to, deadline, &[b"LMOVE", &args[1], &args[2], &args[3], &args[4]])
}

fn brpoplpush(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let deadline = cx.deadline(&args[3])?;
    move_or_wait(cx, args, End::Tail, End::Head, deadline, &[b"RPOPLPUSH", &args[1], &args[2]])
}

fn move_or_wait(
    cx: &mut Context<'_>,
    args: &Args<'_>,
    from: End,
    to: End,
    deadline: Option<SteadyMs>,
    logged: &[&[u8]],
) -> Result<(), Error> {
    if !move_element(cx, args, from, to, Some(logged))? {
        cx.wait(args, [1], Wait { kind: Some(&LIST), refused: Nil::Null, ..Wait::until(deadline) });
    }
    Ok(())
}

/// Moves an element and replies it; false if there is none. `logged`: the change log's form of the command.
fn move_element(
    cx: &mut Context<'_>,
    args: &Args<'_>,
    from: End,
    to: End,
    logged: Option<&[&[u8]]>,
) -> Result<bool, Error> {
    let (source, target) = (cx.key(args, 1), cx.key(args, 2));
    if cx.keys.edit(source).collection::<List>()?.is_none() {
        return Ok(false);
    }
    cx.keys.edit(target).collection::<List>()?;
    let rules = cx.engine.encoding_limits().list();
    let edit = cx.keys.edit(source);
    let Some(item) = edit.collection::<List>()?.and_then(|list| list.edge(from)) else { return Ok(false) };
    reply_item(cx.reply, item);
    let element = Element::of(item);
    if source.name == target.name {
        rotate(edit, from, to, &element, logged, &rules)?;
        return Ok(true);
    }
    drop(edit);
    let mut edit = cx.keys.edit(target);
    edit.with(|list: &mut List| element.push(list, to, &rules))?;
    edit.commit_many(0, EventClass::LIST, push_event(to));
    let mut edit = cx.keys.edit(source);
    edit.with(|list: &mut List| {
        list.pop(from);
        list.shrunk(&rules);
    })?;
    log(&mut edit, logged);
    commit_removal(edit, 1, pop_event(from));
    Ok(true)
}

/// Moves an element within one list.
fn rotate(
    mut edit: Edit<'_>,
    from: End,
    to: End,
    element: &Element,
    logged: Option<&[&[u8]]>,
    rules: &Rules,
) -> Result<(), Error> {
    edit.with(|list: &mut List| {
        list.pop(from);
        element.push(list, to, rules);
        list.shrunk(rules);
    })?;
    log(&mut edit, logged);
    edit.event(EventClass::LIST, push_event(to));
    commit_removal(edit, 1, pop_event(from));
    Ok(())
}

fn log(edit: &mut Edit<'_>, logged: Option<&[&[u8]]>) {
    if let Some(words) = logged {
        edit.log_as(|| vec![words.iter().map(|word| word.to_vec()).collect()]);
    }
}

/// An element between two lists.
pub(crate) struct Element {
    bytes: Vec<u8>,
    /// An integer does not count when the receiving list is checked for outgrowing its form, as in Valkey.
    is_int: bool,
}

impl Element {
    pub fn of(item: Item<'_>) -> Self {
        Element { bytes: item.to_vec(), is_int: matches!(item, Item::Int(_)) }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn push(&self, list: &mut List, end: End, rules: &Rules) {
        list.reserve(1, if self.is_int { 0 } else { self.bytes.len() }, rules);
        list.push(end, Cow::Borrowed(&self.bytes), rules);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn elements_move_between_ends_and_lists() {
        let mut client = Client::with_events();
        client.is("RPUSH a 1 2 3", ":3").is("LMOVE a b LEFT RIGHT", "1").is("RPOPLPUSH a b", "3");
        client.is("LRANGE b 0 -1", "[3 1]").is("LMOVE b b LEFT RIGHT", "3").is("LRANGE b 0 -1", "[1 3]");
        client.events();
        client.is("LMOVE a b RIGHT LEFT", "2").is("EXISTS a", ":0").is("LMOVE a b RIGHT LEFT", "nil");
        assert_eq!(client.events(), ["0 lpush b", "0 rpop a", "0 del a"]);
        client.is("RPUSH a 1", ":1").is("LMOVE a a LEFT LEFT", "1");
        assert_eq!(client.events(), ["0 new a", "0 rpush a", "0 lpush a", "0 lpop a"]);
    }

    #[test]
    fn nothing_moves_to_what_is_no_list() {
        let mut client = Client::new();
        client.is("SET s v", "+OK").is("LMOVE none s LEFT LEFT", "nil").is("RPUSH a 1", ":1");
        client.is("LMOVE a s LEFT LEFT", "-WRONGTYPE Operation against a key holding the wrong kind of value");
        client.is("LRANGE a 0 -1", "[1]").is("LMOVE a b LEFT UP", "-ERR syntax error");
    }

    #[test]
    fn a_blocking_move_that_need_not_wait_is_logged_as_a_plain_one() {
        let mut client = Client::new();
        let log = client.log();
        client.is("RPUSH a 1 2", ":2").is("BLMOVE a b left RIGHT 0", "1").is("BRPOPLPUSH a b 0", "2");
        let logged: Vec<_> = log.take().iter().map(|(_, words)| words.join(&b' ')).collect();
        assert_eq!(logged, [&b"RPUSH a 1 2"[..], b"LMOVE a b left RIGHT", b"RPOPLPUSH a b"]);
    }
}
