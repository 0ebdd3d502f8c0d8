//! OBJECT: attributes of a value besides its contents.

use crate::core::args::Args;
use crate::core::command::{Command, Group, READONLY, key};
use crate::core::context::Context;
use crate::core::help::HELP;
use engine::Error;
use engine::data::value::ValueExt;

const ABOUT_A_KEY: Command = Command {
    group: Group::Generic,
    arity: 3,
    flags: READONLY,
    categories: &["keyspace"],
    keys: &[key(2).ro()],
    syntax: "key",
    complexity: "O(1)",
    tips: &["nondeterministic_output"],
    ..Command::DEFAULT
};

pub const COMMANDS: &[Command] = &[Command {
    name: "object",
    group: Group::Generic,
    since: "2.2.3",
    arity: -2,
    summary: "A container for object introspection commands.",
    complexity: "Depends on subcommand.",
    subcommands: &[
        Command {
            name: "encoding",
            since: "2.2.3",
            summary: "Returns the internal encoding of an object.",
            run: encoding,
            ..ABOUT_A_KEY
        },
        Command {
            name: "freq",
            since: "4.0.0",
            summary: "Returns the logarithmic access frequency counter of an object.",
            run: freq,
            ..ABOUT_A_KEY
        },
        Command { group: Group::Generic, since: "6.2.0", categories: &["keyspace"], ..HELP },
        Command {
            name: "idletime",
            since: "2.2.3",
            summary: "Returns the time since the last access to an object.",
            run: idletime,
            ..ABOUT_A_KEY
        },
        Command {
            name: "refcount",
            since: "2.2.3",
            summary: "Returns the reference count of a value of a key.",
            run: refcount,
            ..ABOUT_A_KEY
        },
    ],
    ..Command::DEFAULT
}];

fn encoding(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let key = cx.key(args, 2);
    match cx.keys.lookup_no_notify(key) {
        Some(entry) => cx.reply.bulk(entry.value().encoding().as_bytes()),
        None => cx.reply.null(),
    }
    Ok(())
}

/// Replies the number of a value's owners, which is one.
fn refcount(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let key = cx.key(args, 2);
    match cx.keys.lookup_no_notify(key) {
        Some(_) => cx.reply.int(1),
        None => cx.reply.null(),
    }
    Ok(())
}

fn freq(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let Some(mark) = access_mark(cx, args) else { return Ok(()) };
    if !cx.engine.counts_frequency() {
        return Err(Error::LfuNotSelected);
    }
    cx.reply.int(cx.engine.access_clock(cx.now_ms()).frequency(mark).into());
    Ok(())
}

fn idletime(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let Some(mark) = access_mark(cx, args) else { return Ok(()) };
    if cx.engine.counts_frequency() {
        return Err(Error::LfuSelected);
    }
    cx.reply.int(cx.engine.access_clock(cx.now_ms()).idle_seconds(mark).into());
    Ok(())
}

/// Returns the key's access mark; replies for a missing key.
fn access_mark(cx: &mut Context<'_>, args: &Args<'_>) -> Option<u32> {
    let key = cx.key(args, 2);
    let mark = cx.keys.lookup_no_notify(key).map(|entry| entry.meta());
    if mark.is_none() {
        cx.reply.null();
    }
    mark
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn encodings_have_the_names_that_clients_know() {
        let mut client = Client::new();
        client.is("SET i 12", "+OK").is("SET e abc", "+OK");
        client.is("OBJECT ENCODING i", "int").is("OBJECT ENCODING e", "embstr");
        client.is("OBJECT ENCODING missing", "nil").is("object refcount i", ":1").is("OBJECT REFCOUNT missing", "nil");
        client.is("OBJECT nope i", "-ERR unknown subcommand 'nope'. Try OBJECT HELP.");
        client.is("OBJECT FREQ", "-ERR wrong number of arguments for 'object|freq' command");
    }

    #[test]
    fn idle_time_passes_until_an_access() {
        let mut client = Client::new();
        client.is("SET a 1", "+OK").later(10_500);
        client.is("TTL a", ":-1").is("TYPE a", "+string").is("EXISTS a", ":1");
        client.is("OBJECT IDLETIME a", ":10").is("TOUCH a", ":1").is("OBJECT IDLETIME a", ":0");
        client.later(5000).is("GET a", "1").is("OBJECT IDLETIME a", ":0").is("OBJECT IDLETIME missing", "nil");
        // A command that changes a key, or would, is a use of it too.
        client.is("RPUSH list a b", ":2");
        for write in ["SET a 2", "INCR a", "APPEND a 3", "EXPIRE a 100", "SETNX a 1"] {
            client.later(5000).run(write);
            client.is("OBJECT IDLETIME a", ":0");
        }
        for write in ["RPUSH list c", "LPOP list", "LINSERT list BEFORE none x", "SADD list x"] {
            client.later(5000).run(write);
            client.is("OBJECT IDLETIME list", ":0");
        }
        client.later(5000).is("RENAME a b", "+OK").is("OBJECT IDLETIME b", ":0");
        client.later(5000).is("MOVE b 1", ":1").select(1).is("OBJECT IDLETIME b", ":0").is("SET a 1", "+OK");
        client.is(
            "OBJECT FREQ a",
            "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
        );
    }

    #[test]
    fn frequency_is_told_when_it_is_counted() {
        let mut client = Client::new();
        client.engine().set_access_policy(true, 1, 0);
        client.is("SET a 1", "+OK").is("OBJECT FREQ a", ":5").is("GET a", "1").is("OBJECT FREQ a", ":6");
        client.is("OBJECT FREQ missing", "nil");
        client.is(
            "OBJECT IDLETIME a",
            "-ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
        );
    }
}
