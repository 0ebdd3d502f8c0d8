//! Lists: elements in order, pushed and popped at both ends, found by index or by value.
//!
//! Popping is in `list_pop`, moving from list to list in `list_move`, searching in `lpos`, reading a range in `lrange`.
//! This file has the shared parts: the ends by name, and the commit of removed elements.

use crate::core::args::{Arg, Args};
use crate::core::command::{Command, DENY_OOM, FAST, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use engine::Error;
use engine::data::event_class::EventClass;
use engine::keyspace::edit::Edit;
use smallvec::SmallVec;
use std::ops::Range;
use structures::list::List;
use structures::listpack::Item;
use structures::quicklist::End;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "lpush",
        group: Group::List,
        arity: -3,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().insert()],
        syntax: "key element...",
        summary: "Prepends one or more elements to a list. Creates the key if it doesn't exist.",
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        history: &[("2.4.0", "Accepts multiple `element` arguments.")],
        run: lpush,
        ..Command::DEFAULT
    },
    Command {
        name: "rpush",
        group: Group::List,
        arity: -3,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().insert()],
        syntax: "key element...",
        summary: "Appends one or more elements to a list. Creates the key if it doesn't exist.",
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        history: &[("2.4.0", "Accepts multiple `element` arguments.")],
        run: rpush,
        ..Command::DEFAULT
    },
    Command {
        name: "lpushx",
        group: Group::List,
        since: "2.2.0",
        arity: -3,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().insert()],
        syntax: "key element...",
        summary: "Prepends one or more elements to a list only when the list exists.",
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        history: &[("4.0.0", "Accepts multiple `element` arguments.")],
        run: lpushx,
        ..Command::DEFAULT
    },
    Command {
        name: "rpushx",
        group: Group::List,
        since: "2.2.0",
        arity: -3,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().insert()],
        syntax: "key element...",
        summary: "Appends one or more elements to a list only when the list exists.",
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        history: &[("4.0.0", "Accepts multiple `element` arguments.")],
        run: rpushx,
        ..Command::DEFAULT
    },
    Command {
        name: "llen",
        group: Group::List,
        arity: 2,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro()],
        syntax: "key",
        summary: "Returns the length of a list.",
        complexity: "O(1)",
        run: llen,
        ..Command::DEFAULT
    },
    Command {
        name: "lindex",
        group: Group::List,
        arity: 3,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key index:int",
        summary: "Returns an element from a list by its index.",
        complexity: "O(N) where N is the number of elements to traverse to get to the element at index. This makes asking for the first or the last element of the list O(1).",
        run: lindex,
        ..Command::DEFAULT
    },
    Command {
        name: "lset",
        group: Group::List,
        arity: 4,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).rw().update()],
        syntax: "key index:int element",
        summary: "Sets the value of an element in a list by its index.",
        complexity: "O(N) where N is the length of the list. Setting either the first or the last element of the list is O(1).",
        run: lset,
        ..Command::DEFAULT
    },
    Command {
        name: "linsert",
        group: Group::List,
        since: "2.2.0",
        arity: 5,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).rw().insert()],
        syntax: "key (where: BEFORE | AFTER) pivot element",
        summary: "Inserts an element before or after another element in a list.",
        complexity: "O(N) where N is the number of elements to traverse before seeing the value pivot. This means that inserting somewhere on the left end on the list (head) can be considered O(1) and inserting somewhere on the right end (tail) is O(N).",
        run: linsert,
        ..Command::DEFAULT
    },
    Command {
        name: "lrem",
        group: Group::List,
        arity: 4,
        flags: WRITE,
        keys: &[key(1).rw().delete()],
        syntax: "key count:int element",
        summary: "Removes elements from a list. Deletes the list if the last element was removed.",
        complexity: "O(N+M) where N is the length of the list and M is the number of elements removed.",
        run: lrem,
        ..Command::DEFAULT
    },
    Command {
        name: "ltrim",
        group: Group::List,
        arity: 4,
        flags: WRITE,
        keys: &[key(1).rw().delete()],
        syntax: "key start:int stop:int",
        summary: "Removes elements from both ends of a list. Deletes the list if all elements were trimmed.",
        complexity: "O(N) where N is the number of elements to be removed by the operation.",
        run: ltrim,
        ..Command::DEFAULT
    },
];

/// Returns the end that an argument names.
pub(crate) fn end_at(args: &Args<'_>, index: usize) -> Result<End, Error> {
    if args.is(index, "left") {
        Ok(End::Head)
    } else if args.is(index, "right") {
        Ok(End::Tail)
    } else {
        Err(Error::Syntax)
    }
}

/// Returns the event of elements that are pushed at an end.
pub(crate) fn push_event(end: End) -> &'static str {
    if end == End::Head { "lpush" } else { "rpush" }
}

pub(crate) fn pop_event(end: End) -> &'static str {
    if end == End::Head { "lpop" } else { "rpop" }
}

/// Parses an integer of either sign but not the least of all, which has no negative.
pub(crate) fn symmetric(args: &Args<'_>, index: usize) -> Result<i64, Error> {
    let number = args.int(index)?;
    if number == i64::MIN { Err(Error::NotNegatable) } else { Ok(number) }
}

/// Returns the index of a client's index, which counts from the end when negative. None: before the first element.
fn from_start(index: i64, len: usize) -> Option<usize> {
    if index < 0 {
        len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
    } else {
        Some(usize::try_from(index).unwrap_or(usize::MAX))
    }
}

/// Returns the indices from `start` to `stop`, both included; indices beyond the list are left out.
pub(crate) fn range(start: i64, stop: i64, len: usize) -> Range<usize> {
    let from = from_start(start, len).unwrap_or(0).min(len);
    let to = from_start(stop, len).map_or(0, |stop| stop.saturating_add(1)).min(len);
    from..to.max(from)
}

pub(crate) fn reply_item(reply: &mut resp::Reply, item: Item<'_>) {
    match item {
        Item::Bytes(bytes) => reply.bulk(bytes),
        Item::Int(n) => reply.bulk_int(n),
    }
}

/// Commits a change that took elements away, which counts as `changes`.
pub(crate) fn commit_removal(mut edit: Edit<'_>, changes: usize, event: &'static str) {
    if edit.exists() {
        edit.commit_many(changes as u64, EventClass::LIST, event);
    } else {
        edit.event(EventClass::LIST, event);
        edit.commit_many(changes as u64, EventClass::GENERIC, "del");
    }
}

fn lpush(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    push(cx, args, End::Head, false)
}

fn rpush(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    push(cx, args, End::Tail, false)
}

fn lpushx(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    push(cx, args, End::Head, true)
}

fn rpushx(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    push(cx, args, End::Tail, true)
}

/// Elements of this many bytes may become nodes as they are.
const MOVED_FROM: usize = 4096;

fn push(cx: &mut Context<'_>, args: &mut Args<'_>, end: End, only_existing: bool) -> Result<(), Error> {
    let element = args.word(2);
    if args.len() == 3 && element.len() < MOVED_FROM {
        let key = cx.key(args, 1);
        let rules = cx.engine.encoding_limits().list();
        let pushed = cx.keys.update(key, (EventClass::LIST, push_event(end)), |list: &mut List| {
            list.reserve(1, element.len(), &rules);
            list.push(end, Arg::Borrowed(element), &rules);
            Some((1, list.len()))
        });
        if let Some(len) = pushed {
            cx.reply.int(len as i64);
            return Ok(());
        }
    }
    push_any(cx, args, end, only_existing)
}

/// Pushes several elements, large ones, and elements to a key in any state.
#[inline(never)]
fn push_any(cx: &mut Context<'_>, args: &mut Args<'_>, end: End, only_existing: bool) -> Result<(), Error> {
    // Usually there is one element.
    let first = args.take(2);
    let others: SmallVec<[Arg<'_>; 2]> = (3..args.len()).map(|index| args.take(index)).collect();
    let mut edit = cx.keys.edit(cx.key(args, 1));
    if only_existing && !edit.exists() {
        cx.reply.int(0);
        return Ok(());
    }
    let rules = cx.engine.encoding_limits().list();
    let pushed = 1 + others.len();
    let len = edit.with(|list: &mut List| {
        list.reserve(pushed, others.iter().fold(first.len(), |sum, element| sum + element.len()), &rules);
        list.push(end, first, &rules);
        others.into_iter().for_each(|element| list.push(end, element, &rules));
        list.len()
    })?;
    edit.commit_many(pushed as u64, EventClass::LIST, push_event(end));
    cx.reply.int(len as i64);
    Ok(())
}

fn llen(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let list = cx.keys.collection::<List>(cx.key(args, 1))?;
    cx.reply.int(list.map_or(0, List::len) as i64);
    Ok(())
}

fn lindex(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let Some(list) = cx.keys.collection::<List>(cx.key(args, 1))? else {
        cx.reply.null();
        return Ok(());
    };
    let index = from_start(args.int(2)?, list.len()).filter(|index| *index < list.len());
    match index {
        Some(index) => list.each(index..index + 1, false, |item| reply_item(cx.reply, item)),
        None => cx.reply.null(),
    }
    Ok(())
}

fn lset(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let element = args.take(3);
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let len = edit.collection::<List>()?.ok_or(Error::NoSuchKey)?.len();
    let index = from_start(args.int(2)?, len).filter(|index| *index < len);
    let rules = cx.engine.encoding_limits().list();
    edit.with(|list: &mut List| {
        list.reserve(1, element.len(), &rules);
        if let Some(index) = index {
            list.replace(index, element, &rules);
            list.shrunk(&rules);
        }
    })?;
    if index.is_none() {
        // The list may have outgrown its form all the same.
        edit.unchanged();
        return Err(Error::IndexOutOfRange);
    }
    edit.commit(EventClass::LIST, "lset");
    cx.reply.ok();
    Ok(())
}

fn linsert(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let after = match (args.is(2, "after"), args.is(2, "before")) {
        (true, _) => true,
        (_, true) => false,
        _ => return Err(Error::Syntax),
    };
    let element = args.take(4);
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let Some(list) = edit.collection::<List>()? else {
        cx.reply.int(0);
        return Ok(());
    };
    let pivot = list.position(&args[3]);
    let rules = cx.engine.encoding_limits().list();
    let len = edit.with(|list: &mut List| {
        list.reserve(1, element.len(), &rules);
        if let Some(pivot) = pivot {
            list.insert(pivot, after, element, &rules);
        }
        list.len()
    })?;
    if pivot.is_none() {
        // The list may have outgrown its form all the same.
        edit.unchanged();
        cx.reply.int(-1);
        return Ok(());
    }
    edit.commit(EventClass::LIST, "linsert");
    cx.reply.int(len as i64);
    Ok(())
}

fn lrem(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let count = symmetric(args, 2)?;
    let mut edit = cx.keys.edit(cx.key(args, 1));
    if edit.collection::<List>()?.is_none() {
        cx.reply.int(0);
        return Ok(());
    }
    let (limit, from) = match usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) {
        0 => (usize::MAX, End::Head),
        limit => (limit, if count < 0 { End::Tail } else { End::Head }),
    };
    let rules = cx.engine.encoding_limits().list();
    let removed = edit.with(|list: &mut List| {
        let removed = list.remove_equal(&args[3], limit, from);
        if removed > 0 {
            list.shrunk(&rules);
        }
        removed
    })?;
    if removed > 0 {
        commit_removal(edit, removed, "lrem");
    } else {
        edit.unchanged();
    }
    cx.reply.int(removed as i64);
    Ok(())
}

fn ltrim(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (start, stop) = (args.int(2)?, args.int(3)?);
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let Some(len) = edit.collection::<List>()?.map(List::len) else {
        cx.reply.ok();
        return Ok(());
    };
    let kept = range(start, stop, len);
    if kept == (0..len) {
        let rules = cx.engine.encoding_limits().list();
        edit.with(|list: &mut List| list.shrunk(&rules))?;
        // Clients get the event, but watchers of the key see no change.
        edit.event(EventClass::LIST, "ltrim");
        edit.unchanged();
        cx.reply.ok();
        return Ok(());
    }
    if kept.is_empty() {
        // The whole list goes as one, to be freed in the background.
        edit.remove();
    } else {
        let rules = cx.engine.encoding_limits().list();
        edit.with(|list: &mut List| {
            list.remove_range(kept.end..len);
            list.remove_range(0..kept.start);
            list.shrunk(&rules);
        })?;
    }
    commit_removal(edit, len - kept.len(), "ltrim");
    cx.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    #[test]
    fn a_transaction_that_watches_a_list_runs_when_nothing_was_trimmed() {
        let mut client = Client::with_events();
        client.is("RPUSH l a b", ":2").is("WATCH l", "+OK");
        client.events();
        client.is("LTRIM l 0 -1", "+OK").is("MULTI", "+OK").is("EXEC", "[]");
        assert_eq!(client.events(), ["0 ltrim l"]);
        client.is("WATCH l", "+OK").is("LTRIM l 1 -1", "+OK").is("MULTI", "+OK").is("EXEC", "nil");
    }

    #[test]
    fn indices_are_from_either_end_and_ranges_end_with_the_list() {
        for (start, stop, len, expected) in [
            (0, -1, 3, 0..3),
            (-2, 100, 3, 1..3),
            (-100, 0, 3, 0..1),
            (1, 0, 3, 1..1),
            (3, 4, 3, 3..3),
            (0, -4, 3, 0..0),
            (i64::MIN, i64::MAX, 3, 0..3),
            (i64::MAX, i64::MIN, 3, 3..3),
        ] {
            assert_eq!(range(start, stop, len), expected, "{start} {stop}");
        }
    }

    #[test]
    fn lists_grow_at_both_ends() {
        let mut client = Client::new();
        client.is("LPUSHX l a", ":0").is("RPUSHX l a", ":0").is("EXISTS l", ":0");
        client.is("RPUSH l b c", ":2").is("LPUSH l a 0", ":4").is("RPUSHX l d", ":5").is("LPUSHX l -1", ":6");
        client.is("LRANGE l 0 -1", "[-1 0 a b c d]").is("LRANGE l -3 -2", "[b c]").is("LRANGE l 7 9", "[]");
        client.is("LINDEX l 1", "0").is("LINDEX l -1", "d").is("LINDEX l 6", "nil").is("LINDEX none 0", "nil");
        client.is("LLEN l", ":6").is("LLEN none", ":0").is("TYPE l", "+list");
        client.is("LINDEX l x", "-ERR value is not an integer or out of range").is("LINDEX none x", "nil");
        client.is("SET s v", "+OK");
        for command in ["LPUSH s a", "LLEN s", "LINDEX s 0", "LSET s 0 a", "LINSERT s BEFORE a b", "LTRIM s 0 1"] {
            client.is(command, "-WRONGTYPE Operation against a key holding the wrong kind of value");
        }
    }

    #[test]
    fn elements_are_set_inserted_and_removed() {
        let mut client = Client::new();
        client.is("RPUSH l a b a 1 a", ":5").is("LSET l -2 2", "+OK").is("LSET l 5 x", "-ERR index out of range");
        client.is("LSET none 0 x", "-ERR no such key");
        client.is("LINSERT l before b 01", ":6").is("LINSERT l AFTER 01 1", ":7").is("LINSERT l AFTER x 1", ":-1");
        client.is("LINSERT none AFTER x 1", ":0").is("LINSERT l among x 1", "-ERR syntax error");
        client.is("LRANGE l 0 -1", "[a 01 1 b a 2 a]");
        client.is("LREM l -2 a", ":2").is("LREM l 0 x", ":0").is("LREM l 1 1", ":1").is("LREM none 1 1", ":0");
        client.is("LRANGE l 0 -1", "[a 01 b 2]");
        client.is(
            "LREM l -9223372036854775808 a",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        );
        client.is("LTRIM l 1 -2", "+OK").is("LRANGE l 0 -1", "[01 b]").is("LTRIM l 2 1", "+OK").is("EXISTS l", ":0");
        client.is("LTRIM l 0 1", "+OK");
    }

    #[test]
    fn limits_change_the_encoding() {
        let mut client = Client::new();
        client.is("CONFIG SET list-max-listpack-size 3", "+OK").is("RPUSH l a b c", ":3");
        client
            .is("OBJECT ENCODING l", "listpack")
            .is("LINSERT l AFTER x y", ":-1")
            .is("OBJECT ENCODING l", "quicklist");
        client
            .is("LPOP l", "a")
            .is("OBJECT ENCODING l", "quicklist")
            .is("LPOP l", "b")
            .is("OBJECT ENCODING l", "listpack");
    }

    #[test]
    fn events_tell_what_happened_and_when_the_list_went() {
        let mut client = Client::with_events();
        client.is("RPUSH l a b c", ":3").is("LSET l 0 x", "+OK").is("LINSERT l BEFORE x y", ":4");
        client.is("LREM l 1 y", ":1").is("LTRIM l 0 1", "+OK").is("LTRIM l 0 1", "+OK").is("LREM l 0 nothing", ":0");
        client.is("LTRIM l 5 6", "+OK");
        let expected = ["new l", "rpush l", "lset l", "linsert l", "lrem l", "ltrim l", "ltrim l", "ltrim l", "del l"];
        assert_eq!(client.events(), expected.map(|event| format!("0 {event}")));
    }
}
