//! Taking elements from the ends of lists: LPOP, RPOP, LMPOP, and BLPOP, BRPOP, BLMPOP, which wait for them.
//!
//! A command that names several lists takes from the first that exists. Commands that wait, and LMPOP, go into the
//! change log as the resulting LPOP or RPOP.

use crate::blocking::Wait;
use crate::core::args::Args;
use crate::core::command::{BLOCKING, Command, FAST, Group, WRITE, key};
use crate::core::context::{Context, Flow};
use crate::keys::pop_several::PopSeveral;
use crate::lists::list::{commit_removal, end_at, pop_event, reply_item};
use crate::lists::lrange::reply_range;
use engine::data::event_class::EventClass;
use engine::data::value_type::LIST;
use engine::keyspace::edit::Edit;
use engine::{Error, Word};
use resp::Reply;
use structures::list::List;
use structures::quicklist::{End, Rules};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "lpop",
        group: Group::List,
        arity: -2,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().access().delete()],
        syntax: "key [count:int]@6.2.0",
        summary: "Returns and removes one or more elements from the beginning of a list. Deletes the list if the last element was popped.",
        complexity: "O(N) where N is the number of elements returned",
        history: &[("6.2.0", "Added the `count` argument.")],
        run: lpop,
        ..Command::DEFAULT
    },
    Command {
        name: "rpop",
        group: Group::List,
        arity: -2,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().access().delete()],
        syntax: "key [count:int]@6.2.0",
        summary: "Returns and removes one or more elements from the end of a list. Deletes the list if the last element was popped.",
        complexity: "O(N) where N is the number of elements returned",
        history: &[("6.2.0", "Added the `count` argument.")],
        run: rpop,
        ..Command::DEFAULT
    },
    Command {
        name: "lmpop",
        group: Group::List,
        since: "7.0.0",
        arity: -4,
        flags: WRITE,
        keys: &[key(1).counted(0, 1, 1).rw().access().delete()],
        syntax: "numkeys:int key... (where: LEFT | RIGHT) [COUNT count:int]",
        summary: "Returns multiple elements from a list after removing them. Deletes the list if the last element was popped.",
        complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
        run: lmpop,
        ..Command::DEFAULT
    },
    Command {
        name: "blpop",
        group: Group::List,
        since: "2.0.0",
        arity: -3,
        flags: WRITE.and(BLOCKING),
        keys: &[key(1).to(-2, 1).rw().access().delete()],
        syntax: "key... timeout:double",
        summary: "Removes and returns the first element in a list. Blocks until an element is available otherwise. Deletes the list if the last element was popped.",
        complexity: "O(N) where N is the number of provided keys.",
        history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
        run: blpop,
        ..Command::DEFAULT
    },
    Command {
        name: "brpop",
        group: Group::List,
        since: "2.0.0",
        arity: -3,
        flags: WRITE.and(BLOCKING),
        keys: &[key(1).to(-2, 1).rw().access().delete()],
        syntax: "key... timeout:double",
        summary: "Removes and returns the last element in a list. Blocks until an element is available otherwise. Deletes the list if the last element was popped.",
        complexity: "O(N) where N is the number of provided keys.",
        history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
        run: brpop,
        ..Command::DEFAULT
    },
    Command {
        name: "blmpop",
        group: Group::List,
        since: "7.0.0",
        arity: -5,
        flags: WRITE.and(BLOCKING),
        keys: &[key(2).counted(0, 1, 1).rw().access().delete()],
        syntax: "timeout:double numkeys:int key... (where: LEFT | RIGHT) [COUNT count:int]",
        summary: "Pops the first element from one of multiple lists. Blocks until an element is available otherwise. Deletes the list if the last element was popped.",
        complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
        run: blmpop,
        ..Command::DEFAULT
    },
];

fn lpop(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    pop(cx, args, End::Head)
}

fn rpop(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    pop(cx, args, End::Tail)
}

fn pop(cx: &mut Context<'_>, args: &Args<'_>, end: End) -> Result<(), Error> {
    let count = match args.len() {
        2 => None,
        3 => {
            let count = resp::number::parse_i64(&args[2]).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or(Error::NotPositive)?)
        }
        _ => return Err(Error::WrongArity(Word::of(cx.command.name))),
    };
    let (key, rules) = (cx.key(args, 1), cx.engine.encoding_limits().list());
    let reply = &mut *cx.reply;
    let popped = cx.keys.update(key, (EventClass::LIST, pop_event(end)), |list: &mut List| {
        // The last element is removed with its key.
        (count.is_none() && list.len() > 1).then(|| (take_one(list, end, reply, &rules) as u64, ()))
    });
    if popped.is_some() {
        return Ok(());
    }
    let mut edit = cx.keys.edit(key);
    if edit.collection::<List>()?.is_none() {
        match count {
            Some(_) => cx.reply.null_array(),
            None => cx.reply.null(),
        }
        return Ok(());
    }
    let removed = match count {
        Some(0) => {
            cx.reply.array(0);
            return Ok(());
        }
        Some(count) => take(&mut edit, end, count, cx.reply, &mut cx.flow, &rules)?,
        None => edit.with(|list: &mut List| take_one(list, end, cx.reply, &rules))?,
    };
    commit_removal(edit, removed, pop_event(end));
    Ok(())
}

/// Replies and removes the element at an end.
fn take_one(list: &mut List, end: End, reply: &mut Reply, rules: &Rules) -> usize {
    if let Some(item) = list.edge(end) {
        reply_item(reply, item);
    }
    list.pop(end);
    list.shrunk(rules);
    1
}

/// Takes up to `count` elements out of the existing list, and replies them; returns how many.
fn take(
    edit: &mut Edit<'_>,
    end: End,
    count: usize,
    reply: &mut Reply,
    flow: &mut Flow,
    rules: &Rules,
) -> Result<usize, Error> {
    let Some(list) = edit.collection::<List>()? else { return Ok(0) };
    let len = list.len();
    let count = count.min(len);
    let taken = if end == End::Head { 0..count } else { len - count..len };
    *flow = reply_range(list, taken.clone(), end == End::Tail, reply);
    if count == len {
        edit.remove();
    } else {
        edit.with(|list: &mut List| {
            list.remove_range(taken);
            list.shrunk(rules);
        })?;
    }
    Ok(count)
}

/// Takes from the first list that exists; false if there is none.
fn take_several(several: &PopSeveral<End>, cx: &mut Context<'_>, args: &Args<'_>) -> Result<bool, Error> {
    let rules = cx.engine.encoding_limits().list();
    for index in several.keys.clone() {
        let key = cx.key(args, index);
        let mut edit = cx.keys.edit(key);
        if edit.collection::<List>()?.is_none() {
            continue;
        }
        cx.reply.array(2);
        cx.reply.bulk(key.name);
        let removed = take(&mut edit, several.end, several.count, cx.reply, &mut cx.flow, &rules)?;
        edit.log_as(|| vec![vec![pop_word(several.end), key.name.to_vec(), removed.to_string().into_bytes()]]);
        commit_removal(edit, removed, pop_event(several.end));
        return Ok(true);
    }
    Ok(false)
}

pub(crate) fn pop_word(end: End) -> Vec<u8> {
    pop_event(end).to_ascii_uppercase().into_bytes()
}

fn lmpop(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let several = PopSeveral::parse(args, 1, end_at)?;
    if !take_several(&several, cx, args)? {
        cx.reply.null_array();
    }
    Ok(())
}

fn blmpop(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let several = PopSeveral::parse(args, 2, end_at)?;
    let deadline = cx.deadline(&args[1])?;
    if !take_several(&several, cx, args)? {
        cx.wait(args, several.keys, Wait { kind: Some(&LIST), ..Wait::until(deadline) });
    }
    Ok(())
}

fn blpop(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    blocking_pop(cx, args, End::Head)
}

fn brpop(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    blocking_pop(cx, args, End::Tail)
}

fn blocking_pop(cx: &mut Context<'_>, args: &Args<'_>, end: End) -> Result<(), Error> {
    let keys = 1..args.len() - 1;
    let deadline = cx.deadline(&args[keys.end])?;
    let rules = cx.engine.encoding_limits().list();
    for index in keys.clone() {
        let key = cx.key(args, index);
        let mut edit = cx.keys.edit(key);
        if edit.collection::<List>()?.is_none() {
            continue;
        }
        cx.reply.array(2);
        cx.reply.bulk(key.name);
        let removed = edit.with(|list: &mut List| take_one(list, end, cx.reply, &rules))?;
        edit.log_as(|| vec![vec![pop_word(end), key.name.to_vec()]]);
        commit_removal(edit, removed, pop_event(end));
        return Ok(());
    }
    cx.wait(args, keys, Wait { kind: Some(&LIST), ..Wait::until(deadline) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn elements_are_popped_from_both_ends() {
        let mut client = Client::new();
        client.is("RPUSH l 1 b c d e", ":5").is("LPOP l", "1").is("RPOP l", "e").is("LPOP l 0", "[]");
        client.is("RPOP l 2", "[d c]").is("LPOP l 9", "[b]").is("LPOP l", "nil").is("LPOP l 1", "nil");
        client.is("LPOP l -1", "-ERR value is out of range, must be positive");
        client.is("LPOP l x", "-ERR value is out of range, must be positive");
        client.is("RPOP l 1 2", "-ERR wrong number of arguments for 'rpop' command");
    }

    #[test]
    fn the_first_list_of_several_gives() {
        let mut client = Client::with_events();
        let log = client.log();
        client.is("RPUSH b 1 2 3", ":3").is("LMPOP 2 a b LEFT", "[b [1]]").is("LMPOP 2 a b right COUNT 9", "[b [3 2]]");
        client.is("LMPOP 2 a b LEFT", "nil").is("EXISTS b", ":0");
        assert_eq!(client.events(), ["0 new b", "0 rpush b", "0 lpop b", "0 rpop b", "0 del b"]);
        let logged: Vec<_> = log.take().iter().map(|(_, words)| words.join(&b' ')).collect();
        assert_eq!(logged, [&b"RPUSH b 1 2 3"[..], b"LPOP b 1", b"RPOP b 2"]);
    }

    #[test]
    fn options_are_checked() {
        let mut client = Client::new();
        client.is("LMPOP 0 a LEFT", "-ERR numkeys should be greater than 0");
        client.is("LMPOP x a LEFT", "-ERR numkeys should be greater than 0");
        client.is("LMPOP 9223372036854775807 a LEFT", "-ERR syntax error").is("LMPOP 2 a LEFT", "-ERR syntax error");
        client.is("LMPOP 1 a UP", "-ERR syntax error").is("LMPOP 1 a LEFT COUNT", "-ERR syntax error");
        client.is("LMPOP 1 a LEFT COUNT 0", "-ERR count should be greater than 0");
        client.is("LMPOP 1 a LEFT COUNT 1 COUNT 1", "-ERR syntax error");
        client.is("BLMPOP x 0 a LEFT", "-ERR numkeys should be greater than 0");
        client.is("BLMPOP x 1 a LEFT", "-ERR timeout is not a float or out of range");
        client.is("BLMPOP 0x7FFFFFFFFFFFFF 1 a LEFT", "-ERR timeout is out of range");
        client.is("BLMPOP -0x1 1 a LEFT", "-ERR timeout is negative");
        client.is("BLPOP a -1", "-ERR timeout is negative");
    }

    #[test]
    fn a_blocking_pop_that_need_not_wait_is_logged_as_a_plain_one() {
        let mut client = Client::new();
        let log = client.log();
        client.is("RPUSH b 1 2 3 4", ":4").is("BLPOP a b 0", "[b 1]").is("BRPOP b a 0", "[b 4]");
        client.is("BLMPOP 0 2 a b LEFT COUNT 9", "[b [2 3]]");
        let logged: Vec<_> = log.take().iter().map(|(_, words)| words.join(&b' ')).collect();
        assert_eq!(logged, [&b"RPUSH b 1 2 3 4"[..], b"LPOP b", b"RPOP b", b"LPOP b 2"]);
    }
}
