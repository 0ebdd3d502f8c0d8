//! Sets: members without order, each there once.
//!
//! Commands on several sets are in `algebra.rs`, random choices of members in `random.rs`.

use crate::core::args::Args;
use crate::core::chunked_reply;
use crate::core::command::{Command, DENY_OOM, FAST, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use crate::keys::scan_options::{ScanWords, Scanned, parse_cursor, reply_elements, reply_nothing};
use engine::Error;
use engine::data::event_class::EventClass;
use engine::data::value::{Collection, Object, ValueExt};
use engine::keyspace::edit::Edit;
use engine::keyspace::keys::Key;
use engine::snapshot::streamed_reply::Lister;
use resp::Reply;
use std::sync::Arc;
use structures::listpack::Item;
use structures::set::Set;
use structures::snapshot_iterator::TableSnapshotIterator;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "sadd",
        group: Group::Set,
        since: "1.0.0",
        arity: -3,
        flags: WRITE.and(DENY_OOM).and(FAST),
        keys: &[key(1).rw().insert()],
        element: 2,
        syntax: "key member...",
        summary: "Adds one or more members to a set. Creates the key if it doesn't exist.",
        complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        history: &[("2.4.0", "Accepts multiple `member` arguments.")],
        run: sadd,
        ..Command::DEFAULT
    },
    Command {
        name: "srem",
        group: Group::Set,
        since: "1.0.0",
        arity: -3,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().delete()],
        element: 2,
        syntax: "key member...",
        summary: "Removes one or more members from a set. Deletes the set if the last member was removed.",
        complexity: "O(N) where N is the number of members to be removed.",
        history: &[("2.4.0", "Accepts multiple `member` arguments.")],
        run: srem,
        ..Command::DEFAULT
    },
    Command {
        name: "smove",
        group: Group::Set,
        since: "1.0.0",
        arity: 4,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().access().delete(), key(2).rw().insert()],
        syntax: "source:key destination:key member",
        summary: "Moves a member from one set to another.",
        complexity: "O(1)",
        run: smove,
        ..Command::DEFAULT
    },
    Command {
        name: "sismember",
        group: Group::Set,
        since: "1.0.0",
        arity: 3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro()],
        element: 2,
        syntax: "key member",
        summary: "Determines whether a member belongs to a set.",
        complexity: "O(1)",
        run: sismember,
        ..Command::DEFAULT
    },
    Command {
        name: "smismember",
        group: Group::Set,
        since: "6.2.0",
        arity: -3,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        element: 2,
        syntax: "key member...",
        summary: "Determines whether multiple members belong to a set.",
        complexity: "O(N) where N is the number of elements being checked for membership",
        run: smismember,
        ..Command::DEFAULT
    },
    Command {
        name: "scard",
        group: Group::Set,
        since: "1.0.0",
        arity: 2,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro()],
        syntax: "key",
        summary: "Returns the number of members in a set.",
        complexity: "O(1)",
        run: scard,
        ..Command::DEFAULT
    },
    Command {
        name: "smembers",
        group: Group::Set,
        since: "1.0.0",
        arity: 2,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key",
        summary: "Returns all members of a set.",
        complexity: "O(N) where N is the set cardinality.",
        tips: &["nondeterministic_output_order"],
        run: smembers,
        ..Command::DEFAULT
    },
    Command {
        name: "sscan",
        group: Group::Set,
        since: "2.8.0",
        arity: -3,
        flags: READONLY,
        keys: &[key(1).ro().access()],
        syntax: "key cursor:int [MATCH pattern:pattern] [COUNT count:int]",
        summary: "Iterates over members of a set.",
        complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
        tips: &["nondeterministic_output"],
        run: sscan,
        ..Command::DEFAULT
    },
];

fn sadd(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (limits, yielding) = (cx.engine.encoding_limits().set(), cx.yielding(args.len())?);
    let (key, members) = (cx.key(args, 1), args.len() - 2);
    let add = |set: &mut Set| {
        if set.is_empty() {
            *set = Set::for_members(&args[2], members, &limits);
        } else {
            // Clients see that the set outgrows its form even if it has all of these already.
            set.reserve(members, &limits);
        }
        yielding.over(args.from(2)).filter(|member| set.insert(member, &limits)).count()
    };
    let at_once = cx.keys.update(key, (EventClass::SET, "sadd"), |set| {
        let added = add(set);
        Some((added as u64, added))
    });
    let added = match at_once {
        Some(added) => added,
        None => add_to_any(cx.keys.edit(key), add)?,
    };
    cx.reply.int(added as i64);
    Ok(())
}

/// Adds to the key's set by `add`, whatever the encoding or state of the key; returns the number of added members.
#[inline(never)]
fn add_to_any(mut edit: Edit<'_>, add: impl FnOnce(&mut Set) -> usize) -> Result<usize, Error> {
    let added = edit.with(add)?;
    if added > 0 {
        edit.commit_many(added as u64, EventClass::SET, "sadd");
    } else {
        edit.unchanged();
    }
    Ok(added)
}

fn srem(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let yielding = cx.yielding(args.len())?;
    let mut edit = cx.keys.edit(cx.key(args, 1));
    let mut removed = 0;
    if edit.exists() {
        removed = edit.with(|set: &mut Set| yielding.over(args.from(2)).filter(|member| set.remove(member)).count())?;
        commit_removal(edit, removed, "srem");
    }
    cx.reply.int(removed as i64);
    Ok(())
}

/// Commits the removal of members, perhaps of the last one and the key with it.
pub(crate) fn commit_removal(mut edit: Edit<'_>, removed: usize, event: &'static str) {
    if removed == 0 {
        edit.unchanged();
    } else if edit.exists() {
        edit.commit_many(removed as u64, EventClass::SET, event);
    } else {
        edit.event(EventClass::SET, event);
        edit.commit_many(removed as u64, EventClass::GENERIC, "del");
    }
}

fn smove(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let limits = cx.engine.encoding_limits().set();
    let (from, to, member) = (cx.key(args, 1), cx.key(args, 2), &args[3]);
    // Both keys are looked up before the reply, so that expired ones are removed.
    let present = cx.keys.edit(from).collection::<Set>().map(|set| set.map(|set| set.contains(member)));
    let doubled = cx.keys.edit(to).collection::<Set>().map(|set| set.is_some_and(|set| set.contains(member)));
    let Some(present) = present? else {
        // The type of the other key does not matter then.
        cx.reply.int(0);
        return Ok(());
    };
    let doubled = doubled?;
    cx.reply.int(present.into());
    if !present || from.name == to.name {
        return Ok(());
    }
    let mut edit = cx.keys.edit(from);
    edit.with(|set: &mut Set| set.remove(member))?;
    commit_removal(edit, 1, "srem");
    if !doubled {
        let mut edit = cx.keys.edit(to);
        edit.with(|set: &mut Set| {
            if set.is_empty() {
                *set = Set::for_members(member, 1, &limits);
            }
            set.insert(member, &limits)
        })?;
        edit.commit(EventClass::SET, "sadd");
    }
    Ok(())
}

fn sismember(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let set = cx.keys.collection::<Set>(cx.key(args, 1))?;
    cx.reply.int(set.is_some_and(|set| set.contains(&args[2])).into());
    Ok(())
}

fn smismember(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let yielding = cx.yielding(args.len())?;
    let set = cx.keys.collection::<Set>(cx.key(args, 1))?;
    cx.reply.array(args.len() - 2);
    for member in yielding.over(args.from(2)) {
        cx.reply.int(set.is_some_and(|set| set.contains(member)).into());
    }
    Ok(())
}

fn scard(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let set = cx.keys.collection::<Set>(cx.key(args, 1))?;
    cx.reply.int(set.map_or(0, Set::len) as i64);
    Ok(())
}

/// Replies a member.
pub(crate) fn reply_member(reply: &mut Reply, member: Item<'_>) {
    match member {
        Item::Bytes(bytes) => reply.bulk(bytes),
        Item::Int(n) => reply.bulk_int(n),
    }
}

fn smembers(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    list(cx, cx.key(args, 1))
}

/// Replies all members of the set at a key, in chunks if they are many.
fn list(cx: &mut Context<'_>, key: Key<'_>) -> Result<(), Error> {
    cx.keys.collection::<Set>(key)?;
    list_found(cx, key)
}

/// Replies all members of the set at a key that this command has [found](engine::keyspace::keys::Keys::find) before.
pub(crate) fn list_found(cx: &mut Context<'_>, key: Key<'_>) -> Result<(), Error> {
    match cx.keys.together(key).map(|value| value.as_collection::<Set>()).transpose()? {
        Some(set @ Set::Big(_)) => {
            let count = set.len();
            cx.reply.set(count);
            chunked_reply::list(cx, key, count, MembersReply::default());
        }
        Some(set) => {
            cx.reply.set(set.len());
            set.iter().for_each(|member| reply_member(cx.reply, member));
        }
        None => cx.reply.set(0),
    }
    Ok(())
}

/// Lists all members.
#[derive(Default)]
pub(crate) struct MembersReply {
    /// Members before this position are written.
    at: u64,
    walk: Option<Arc<TableSnapshotIterator>>,
}

impl Lister for MembersReply {
    fn begin(&mut self, object: &mut Object) -> bool {
        self.walk = Set::of_mut(object).and_then(Set::begin_walk);
        self.walk.is_some()
    }

    fn piece(&mut self, object: &Object, max: usize, reply: &mut Reply) -> bool {
        let Some(set) = Set::of(object) else { return true };
        if let Some(walk) = &self.walk {
            return set.walk_piece(walk, max, |member| reply_member(reply, member));
        }
        let mut written = 0;
        while written < max {
            let next = set.scan(self.at, self.at, |member| {
                reply_member(reply, member);
                written += 1;
            });
            match next {
                Some(next) => self.at = next,
                None => return true,
            }
        }
        false
    }
}

fn sscan(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let cursor = parse_cursor(&args[2])?;
    // Without the key no further argument is checked.
    let Some(set) = cx.keys.collection::<Set>(cx.key(args, 1))? else {
        reply_nothing(cx.reply);
        return Ok(());
    };
    let words = ScanWords::parse(args, 3, Scanned::Set)?;
    reply_elements(cx.reply, cursor, words.count, |position, found| {
        set.scan(position, 0, |member| {
            found.seen += 1;
            if words.show(member.bytes(&mut itoa::Buffer::new())) {
                reply_member(&mut found.items, member);
                found.shown += 1;
            }
        })
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;
    use resp::reply_value::Value;
    use std::collections::BTreeSet;

    #[test]
    fn members_come_and_go() {
        let mut client = Client::with_events();
        for (command, reply) in [
            ("SADD s a b a", ":2"),
            ("SADD s a", ":0"),
            ("SCARD s", ":2"),
            ("SISMEMBER s a", ":1"),
            ("SISMEMBER s x", ":0"),
            ("SMISMEMBER s x b a", "[:0 :1 :1]"),
            ("SMEMBERS s", "[a b]"),
            ("SREM s x", ":0"),
            ("SREM s a a b", ":2"),
            ("EXISTS s", ":0"),
            ("SREM s a", ":0"),
            ("SCARD s", ":0"),
            ("SMEMBERS s", "[]"),
            ("SISMEMBER s a", ":0"),
            ("SMISMEMBER s a", "[:0]"),
            ("TYPE s", "+none"),
            ("SADD s 1", ":1"),
            ("TYPE s", "+set"),
        ] {
            client.is(command, reply);
        }
        let events = ["0 new s", "0 sadd s", "0 srem s", "0 del s", "0 new s", "0 sadd s"];
        assert_eq!(client.events(), events);
    }

    #[test]
    fn a_member_moves() {
        let mut client = Client::with_events();
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        for (command, reply) in [
            ("SADD from a b", ":2"),
            ("SADD to b", ":1"),
            ("SET str x", "+OK"),
            ("SMOVE missing str a", ":0"),
            ("SMOVE from str a", wrong),
            ("SMOVE str to a", wrong),
            ("SMOVE from from a", ":1"),
            ("SMOVE from from x", ":0"),
            ("SMOVE from to x", ":0"),
            ("SMOVE from to a", ":1"),
            ("SMOVE from to b", ":1"),
            ("EXISTS from", ":0"),
            ("SMEMBERS to", "[b a]"),
        ] {
            client.is(command, reply);
        }
        let events = client.events();
        assert_eq!(events[6..], ["0 srem from", "0 sadd to", "0 srem from", "0 del from"]);
    }

    #[test]
    fn the_form_is_told_and_follows_the_configuration() {
        let mut client = Client::new();
        client.is("SADD i 1 2 3", ":3").is("OBJECT ENCODING i", "intset");
        client.is("SADD i x", ":1").is("OBJECT ENCODING i", "listpack");
        client.is("CONFIG SET set-max-listpack-entries 3", "+OK");
        client.is("SADD i y", ":1").is("OBJECT ENCODING i", "hashtable");
        client.is("SADD n a b c d", ":4").is("OBJECT ENCODING n", "hashtable");
        client.is("SADD l a b c", ":3").is("OBJECT ENCODING l", "listpack");
        // The possibility that the set outgrows its form is enough.
        client.is("SADD l a a a a", ":0").is("OBJECT ENCODING l", "hashtable");
        client.is("COPY l m", ":1").is("OBJECT ENCODING m", "hashtable");
    }

    #[test]
    fn a_chunked_reply_has_the_members_as_they_were() {
        let mut client = Client::new();
        for n in 0..3000 {
            client.run(&format!("SADD s m{n}"));
        }
        let Value::Array(members) = client.value("SMEMBERS s") else { panic!("an array") };
        let distinct: BTreeSet<_> = members.iter().map(|member| format!("{member:?}")).collect();
        assert_eq!((members.len(), distinct.len()), (3000, 3000));
    }

    #[test]
    fn a_scan_tells_every_member() {
        let mut client = Client::new();
        client
            .is("SADD s 1 2 12 x", ":4")
            .is("SSCAN s 0 MATCH 1*", "[0 [1 12]]")
            .is("SSCAN s 7 COUNT 1", "[0 [1 2 12 x]]");
        client.is("SSCAN missing 0 junk", "[0 []]").is("SSCAN missing x", "-ERR invalid cursor");
        for options in ["COUNT 0", "COUNT", "junk", "TYPE set", "COUNT 1 MATCH"] {
            client.is(&format!("SSCAN s 0 {options}"), "-ERR syntax error");
        }
        client.is("SSCAN s 0 NOVALUES", "-ERR NOVALUES option can only be used in HSCAN");
        client.is("SSCAN s 0 NOSCORES", "-ERR NOSCORES option can only be used in ZSCAN");
        for n in 0..2000 {
            client.run(&format!("SADD big m{n}"));
        }
        let (mut cursor, mut seen, mut calls) = ("0".to_owned(), BTreeSet::new(), 0);
        loop {
            let Value::Array(reply) = client.value(&format!("SSCAN big {cursor} COUNT 50")) else { panic!("an array") };
            let [Value::Bulk(next), Value::Array(items)] = &reply[..] else { panic!("a cursor and members") };
            assert!(items.len() < 150);
            seen.extend(items.iter().map(|item| format!("{item:?}")));
            calls += 1;
            cursor = String::from_utf8(next.clone()).unwrap();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen.len(), 2000);
        assert!((20..80).contains(&calls), "{calls}");
    }
}
