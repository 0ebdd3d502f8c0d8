//! Keys as such, whatever they hold: DEL, EXISTS, TYPE, RENAME, COPY, MOVE and their kin.
//!
//! A key's shard depends on its name alone. So MOVE, and COPY to another database, find both databases under
//! the one lock of the name, and RENAME needs the locks of two names at most.

use crate::core::acl_check::databases_at;
use crate::core::args::Args;
use crate::core::cluster_proxy::routing_policy::{Merge, Routing};
use crate::core::command::{Command, DENY_OOM, FAST, Group, READONLY, WRITE, key};
use crate::core::context::Context;
use engine::Error;
use engine::config::Directive;
use engine::data::event_class::EventClass;
use engine::data::value::{Object, ValueExt};
use engine::keyspace::edit::{copied, renamed};

const DEL_COMPLEXITY: &str = "O(N) where N is the number of keys that will be removed. When a key to remove holds a value other than a string, the individual complexity for this key is O(M) where M is the number of elements in the list, set, sorted set or hash. Removing a single key that holds a string value is O(1).";
const UNLINK_COMPLEXITY: &str = "O(1) for each key removed regardless of its size. Then the command does O(N) work in a different thread in order to reclaim memory, where N is the number of allocations the deleted objects where composed of.";
/// A cluster's client sends each key to its node and adds up the answers.
const SUMMED: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];

const GENERIC: Command = Command { group: Group::Generic, categories: &["keyspace"], ..Command::DEFAULT };

pub const COMMANDS: &[Command] = &[
    Command {
        name: "copy",
        since: "6.2.0",
        arity: -3,
        flags: WRITE.and(DENY_OOM),
        keys: &[key(1).ro().access(), key(2).ow().update()],
        syntax: "source:key destination:key [DB destination-db:int] [REPLACE]",
        summary: "Copies the value of a key to a new key.",
        complexity: "O(N) worst case for collections, where N is the number of nested items. O(1) for string values.",
        dbs_of_call: Some(databases_of_copy),
        run: copy,
        ..GENERIC
    },
    Command {
        name: "del",
        since: "1.0.0",
        arity: -2,
        flags: WRITE,
        keys: &[key(1).to(-1, 1).rm().delete()],
        syntax: "key...",
        summary: "Deletes one or more keys.",
        complexity: DEL_COMPLEXITY,
        tips: SUMMED,
        routing: Routing::EachKey { words: 1, merge: Merge::Sum },
        lazy_free: Some(Directive::LAZYFREE_LAZY_USER_DEL),
        run: del,
        ..GENERIC
    },
    Command {
        name: "unlink",
        since: "4.0.0",
        arity: -2,
        flags: WRITE.and(FAST),
        keys: &[key(1).to(-1, 1).rm().delete()],
        syntax: "key...",
        summary: "Asynchronously deletes one or more keys.",
        complexity: UNLINK_COMPLEXITY,
        tips: SUMMED,
        routing: Routing::EachKey { words: 1, merge: Merge::Sum },
        lazy_free: None,
        run: del,
        ..GENERIC
    },
    Command {
        name: "exists",
        since: "1.0.0",
        arity: -2,
        flags: READONLY.and(FAST),
        keys: &[key(1).to(-1, 1).ro()],
        syntax: "key...",
        summary: "Determines whether one or more keys exist.",
        complexity: "O(N) where N is the number of keys to check.",
        tips: SUMMED,
        routing: Routing::EachKey { words: 1, merge: Merge::Sum },
        history: &[("3.0.3", "Accepts multiple `key` arguments.")],
        run: exists,
        ..GENERIC
    },
    Command {
        name: "touch",
        since: "3.2.1",
        arity: -2,
        flags: READONLY.and(FAST),
        keys: &[key(1).to(-1, 1).ro()],
        syntax: "key...",
        summary: "Returns the number of existing keys out of those specified after updating the time they were last accessed.",
        complexity: "O(N) where N is the number of keys that will be touched.",
        tips: SUMMED,
        routing: Routing::EachKey { words: 1, merge: Merge::Sum },
        run: touch,
        ..GENERIC
    },
    Command {
        name: "type",
        since: "1.0.0",
        arity: 2,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro()],
        syntax: "key",
        summary: "Determines the type of value stored at a key.",
        complexity: "O(1)",
        run: kind,
        ..GENERIC
    },
    Command {
        name: "rename",
        since: "1.0.0",
        arity: 3,
        flags: WRITE,
        keys: &[key(1).rw().access().delete(), key(2).ow().update()],
        syntax: "key newkey:key",
        summary: "Renames a key and overwrites the destination.",
        complexity: "O(1)",
        run: rename,
        ..GENERIC
    },
    Command {
        name: "renamenx",
        since: "1.0.0",
        arity: 3,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().access().delete(), key(2).ow().insert()],
        syntax: "key newkey:key",
        summary: "Renames a key only when the target key name doesn't exist.",
        complexity: "O(1)",
        history: &[("3.2.0", "The command no longer returns an error when source and destination names are the same.")],
        run: renamenx,
        ..GENERIC
    },
    Command {
        name: "move",
        since: "1.0.0",
        arity: 3,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().access().update()],
        syntax: "key db:int",
        summary: "Moves a key to another database.",
        complexity: "O(1)",
        dbs_of_call: Some(|args| databases_at(args, [2])),
        run: move_key,
        ..GENERIC
    },
];

fn del(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut removed = 0;
    for index in 1..args.len() {
        let key = cx.key(args, index);
        let mut edit = cx.keys.edit(key);
        if edit.remove() {
            edit.commit(EventClass::GENERIC, "del");
            removed += 1;
        }
    }
    cx.reply.int(removed);
    Ok(())
}

fn exists(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let found = (1..args.len()).filter(|index| cx.keys.lookup_no_touch(cx.key(args, *index)).is_some()).count();
    cx.reply.int(found as i64);
    Ok(())
}

/// Marks an access even for a client whose other reads do not.
fn touch(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.keys.set_no_touch(false);
    let found = (1..args.len()).filter(|index| cx.keys.find(cx.key(args, *index)).is_some()).count();
    cx.keys.set_no_touch(cx.session.no_touch);
    cx.reply.int(found as i64);
    Ok(())
}

fn kind(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let key = cx.key(args, 1);
    let name = cx.keys.lookup_no_touch(key).map_or("none", |found| found.value().value_type().name);
    cx.reply.simple(name);
    Ok(())
}

fn rename(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    rename_key(cx, args, false)?;
    cx.reply.ok();
    Ok(())
}

fn renamenx(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let renamed = rename_key(cx, args, true)?;
    cx.reply.int(renamed.into());
    Ok(())
}

/// Renames a key; false if the name stays as it is: it is the same, or it is taken and may not be replaced.
fn rename_key(cx: &mut Context<'_>, args: &Args<'_>, keep_target: bool) -> Result<bool, Error> {
    let (from, to) = (cx.key(args, 1), cx.key(args, 2));
    if !cx.keys.edit(from).exists() {
        return Err(Error::NoSuchKey);
    }
    if from.name == to.name || (keep_target && cx.keys.edit(to).exists()) {
        return Ok(false);
    }
    let mut source = cx.keys.edit(from);
    let (entry, readers) = source.take().ok_or(Error::NoSuchKey)?;
    source.commit_silently(0);
    let mut target = cx.keys.edit(to);
    target.put_with(renamed(entry, to.name), readers);
    target.commit_silently(1);
    cx.keys.notify(EventClass::GENERIC, "rename_from", from.name);
    cx.keys.notify(EventClass::GENERIC, "rename_to", to.name);
    Ok(true)
}

/// Returns the databases that COPY's options name, if they are options.
fn databases_of_copy(args: &Args<'_>) -> Vec<(usize, i64)> {
    let (mut at, mut found) = (3, Vec::new());
    while at < args.len() {
        if args.is(at, "replace") {
            at += 1;
        } else if args.is(at, "db") && at + 1 < args.len() {
            found.push(at + 1);
            at += 2;
        } else {
            return Vec::new();
        }
    }
    databases_at(args, found)
}

fn copy(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let source_db = cx.keys.db_index();
    let (mut target_db, mut replace) = (source_db, false);
    let mut index = 3;
    while index < args.len() {
        if args.is(index, "replace") {
            replace = true;
        } else if args.is(index, "db") && index + 1 < args.len() {
            index += 1;
            target_db = database(cx, args, index)?;
        } else {
            return Err(Error::Syntax);
        }
        index += 1;
    }
    let (from, to) = (cx.key(args, 1), cx.key(args, 2));
    if target_db == source_db && from.name == to.name {
        return Err(Error::SameObject);
    }
    let mark = cx.engine.access_clock(cx.now_ms()).fresh();
    let yielding = cx.yielding(cx.elements(from, Object::elements_to_copy))?;
    let copy = cx.keys.find(from).map(|entry| copied(&entry, to.name, mark, &|| yielding.step()));
    cx.keys.select(target_db);
    let done = copy.is_some_and(|copy| {
        let mut target = cx.keys.edit(to);
        let free = replace || !target.exists();
        if free {
            target.put(copy);
            target.commit(EventClass::GENERIC, "copy_to");
        }
        free
    });
    cx.keys.select(source_db);
    cx.reply.int(done.into());
    Ok(())
}

fn move_key(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let source_db = cx.keys.db_index();
    let target_db = database(cx, args, 2)?;
    if target_db == source_db {
        return Err(Error::SameObject);
    }
    let key = cx.key(args, 1);
    // An expired key in the other database is removed only if a value is to take its place.
    let taken = cx.keys.edit(key).exists() && {
        cx.keys.select(target_db);
        let taken = cx.keys.edit(key).exists();
        cx.keys.select(source_db);
        taken
    };
    let mut source = cx.keys.edit(key);
    let moving = if taken { None } else { source.take() };
    let Some((entry, readers)) = moving else {
        cx.reply.int(0);
        return Ok(());
    };
    source.commit_silently(0);
    cx.keys.select(target_db);
    let mut target = cx.keys.edit(key);
    target.put_with(entry, readers);
    target.commit_silently(1);
    cx.keys.select(source_db);
    cx.keys.notify(EventClass::GENERIC, "move_from", key.name);
    cx.keys.select(target_db);
    cx.keys.notify(EventClass::GENERIC, "move_to", key.name);
    cx.keys.select(source_db);
    cx.reply.int(1);
    Ok(())
}

/// Returns the database that the argument names.
fn database(cx: &Context<'_>, args: &Args<'_>, index: usize) -> Result<u32, Error> {
    let number = i32::try_from(args.int(index)?).map_err(|_| Error::NotAnInt32)?;
    u32::try_from(number).ok().filter(|db| (*db as usize) < cx.engine.databases()).ok_or(Error::DbIndex)
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn keys_are_counted_as_often_as_they_are_named() {
        let mut client = Client::new();
        client.is("SET a 1", "+OK").is("SET b 2", "+OK");
        client.is("EXISTS a a missing b", ":3").is("TOUCH a a missing", ":2");
        client.is("DEL a a missing", ":1").is("UNLINK b", ":1").is("EXISTS a b", ":0");
        client.is("DEL", "-ERR wrong number of arguments for 'del' command");
    }

    #[test]
    fn types_have_names() {
        let mut client = Client::new();
        client.is("SET s v", "+OK").is("ZADD z 1 a", ":1");
        client.is("TYPE s", "+string").is("TYPE z", "+zset").is("TYPE missing", "+none");
    }

    #[test]
    fn a_renamed_key_keeps_value_and_expiry() {
        let mut client = Client::new();
        client.is("ZADD a 1 m", ":1").is("EXPIRE a 100", ":1").is("SET b old", "+OK");
        client.is("RENAME a b", "+OK").is("EXISTS a", ":0").is("TYPE b", "+zset").is("TTL b", ":100");
        client.is("RENAME a b", "-ERR no such key").is("RENAMENX b b", ":0").is("RENAME b b", "+OK");
        client.is("SET c v", "+OK").is("RENAMENX c b", ":0").is("RENAMENX c d", ":1").is("GET d", "v");
        assert_eq!(client.engine().summary(0, client.now_ms()).expires, 1);
    }

    #[test]
    fn a_copy_is_independent_of_its_source() {
        let mut client = Client::new();
        client.is("ZADD a 1 m", ":1").is("EXPIRE a 100", ":1");
        client.is("COPY a b", ":1").is("ZADD b 2 n", ":1").is("ZCARD a", ":1").is("TTL b", ":100");
        client.is("COPY a b", ":0").is("COPY a b REPLACE", ":1").is("ZCARD b", ":1");
        client.is("COPY a a", "-ERR source and destination objects are the same");
        client.is("COPY a a DB 1", ":1").is("COPY missing c", ":0");
        client.is("COPY a b DB 16", "-ERR DB index is out of range").is("COPY a b DB", "-ERR syntax error");
        assert_eq!(client.engine().summary(1, client.now_ms()).expires, 1);
    }

    #[test]
    fn a_key_moves_to_another_database() {
        let mut client = Client::new();
        client.is("SET a 1 EX 100", "+OK").is("MOVE a 1", ":1").is("EXISTS a", ":0").is("MOVE a 1", ":0");
        client.select(1).is("TTL a", ":100").select(0);
        client.is("SET a 2", "+OK").is("MOVE a 1", ":0").is("GET a", "2");
        client.is("MOVE a 0", "-ERR source and destination objects are the same");
        client.is("MOVE a -1", "-ERR DB index is out of range");
        client.is("MOVE a x", "-ERR value is not an integer or out of range");
        client.is("MOVE a 3000000000", "-ERR value is out of range, value must between -2147483648 and 2147483647");
    }

    #[test]
    fn events_come_in_the_order_of_the_peer() {
        let mut client = Client::with_events();
        client.is("SET a 1", "+OK").is("SET b 1", "+OK");
        client.events();
        client.is("RENAME a b", "+OK").is("COPY b c", ":1").is("MOVE b 1", ":1").is("DEL c", ":1");
        let expected = [
            "0 new b",
            "0 rename_from a",
            "0 rename_to b",
            "0 new c",
            "0 copy_to c",
            "1 new b",
            "0 move_from b",
            "1 move_to b",
            "0 del c",
        ];
        assert_eq!(client.events(), expected);
    }
}
