//! MIGRATE: keys go to another server, and are removed here when that server has confirmed them.
//!
//! The client waits for another machine here, so no other client may: a thread of the host's talks to the target,
//! without a lock, and the client is blocked meanwhile, by a ticket that only the end of the migration serves. Changes
//! made here in between must not be lost, and no client is to wait for the network because of that:
//!
//! ```text
//!   client's worker    are there such keys? +NOKEY - else the client waits
//!   another thread     claim the keys: two migrations of a key do not overlap
//!             +------> under each key's lock: dump it, watch it
//!             |        without: RESTORE ... RESTORE, and the target's answers
//!   worker    |        under the locks, of what the target took:
//!             |          not changed since it was dumped: remove it; the log gets DEL
//!             +--------- changed: send it once more, RESTORE REPLACE, or DEL if it is gone
//!   another thread     the reply
//! ```
//!
//! So a key leaves in the state in which the target has it, whatever was written meanwhile. A key that does not rest is
//! sent a few times, then clients [do not write](engine::status::pause::Pause::hold) until it has gone. When the target
//! fails on the way, the key stays here; the target may have a copy, as after any `-IOERR`. Each key leaves by itself:
//! only those that rest leave at one moment.
//!
//! Each step checks under its locks whether the client's user may still run the command. If the user may not, the
//! migration ends: nothing more is sent, and keys that have not left stay.
//!
//! A command that cannot wait, in a transaction or a script, does everything at once under the held locks: the
//! atomicity is worth more than others' time. A key that is on its way already is refused there.

mod exchange;
mod rounds;

use crate::core::args::Args;
use crate::core::command::{Command, WRITE, key, keyword};
use crate::core::context::Context;
use crate::core::redact::follows_credential;
use engine::host::peer_connections::Address;
use engine::{Engine, Error};
use rounds::Stop;
use std::ops::Range;
use std::time::Duration;

pub const COMMANDS: &[Command] = &[Command {
    name: "migrate",
    since: "2.6.0",
    arity: -6,
    flags: WRITE,
    categories: &["keyspace", "dangerous"],
    keys: &[key(3).rw().access().delete(), keyword("KEYS", -2).to(-1, 1).rw().access().delete().incomplete()],
    syntax: "host port:int (key-selector: key | \"\"=empty-string) destination-db:int timeout:int [COPY]@3.0.0 [REPLACE]@3.0.0 [authentication: AUTH auth=password@4.0.7 | (AUTH2 auth2: username password)@6.0.0] [KEYS keys:key=key]...@3.0.6",
    summary: "Atomically transfers a key from one instance to another.",
    complexity: "This command actually executes a DUMP+DEL in the source instance, and a RESTORE in the target instance. See the pages of these commands for time complexity. Also an O(N) data transfer between the two instances is performed.",
    history: &[
        ("3.0.0", "Added the `COPY` and `REPLACE` options."),
        ("3.0.6", "Added the `KEYS` option."),
        ("4.0.7", "Added the `AUTH` option."),
        ("6.0.0", "Added the `AUTH2` option."),
    ],
    tips: &["nondeterministic_output"],
    keys_of_call: Some(|args, keys| {
        *keys = key_indices(args).map(|index| (index, COMMANDS[0].keys[0].flags)).collect()
    }),
    is_secret: follows_credential,
    run: migrate,
    ..Command::DEFAULT
}];

/// Milliseconds that the target has for each step, if the command names none.
const PATIENCE: i64 = 1000;

/// The target and the options of a migration.
struct Order {
    address: Address,
    /// The target's database; the target refuses a number that it does not have.
    db: i64,
    patience: Duration,
    /// The keys stay here, too.
    copy: bool,
    /// The keys replace those of the target.
    replace: bool,
    /// Their slot may be on its way to the target, which learns that this is known.
    asks: bool,
    /// The words after AUTH; empty: no AUTH is sent.
    auth: Vec<Vec<u8>>,
}

/// A key's name, and how often it was named.
type Named = (Vec<u8>, usize);

fn options(args: &Args<'_>, asks: bool) -> Result<(Order, Range<usize>), Error> {
    let (mut copy, mut replace, mut auth, mut names) = (false, false, Vec::new(), 3..4);
    let words = |range: Range<usize>| range.map(|index| args[index].to_vec()).collect();
    let mut at = 6;
    while at < args.len() {
        let left = args.len() - 1 - at;
        match () {
            () if args.is(at, "copy") => copy = true,
            () if args.is(at, "replace") => replace = true,
            () if args.is(at, "auth") && left >= 1 => {
                auth = words(at + 1..at + 2);
                at += 1;
            }
            () if args.is(at, "auth2") && left >= 2 => {
                auth = words(at + 1..at + 3);
                at += 2;
            }
            () if args.is(at, "keys") && !args[3].is_empty() => return Err(Error::MigrateKeyAndKeys),
            () if args.is(at, "keys") => {
                names = at + 1..args.len();
                break;
            }
            () => return Err(Error::Syntax),
        }
        at += 1;
    }
    let (timeout, db) = (args.int(5)?, args.int(4)?);
    let patience = Duration::from_millis(if timeout <= 0 { PATIENCE } else { timeout } as u64);
    let address = (args[1].to_vec(), args[2].to_vec());
    Ok((Order { address, db, patience, copy, replace, asks, auth }, names))
}

/// Returns the arguments that are keys; none if they contradict each other. The key specifications cannot express it.
fn key_indices(args: &Args<'_>) -> Range<usize> {
    let mut at = 6;
    while at < args.len() {
        at += match () {
            () if args.is(at, "auth") => 2,
            () if args.is(at, "auth2") => 3,
            () if args.is(at, "keys") && at + 1 < args.len() => {
                return if args[3].is_empty() { at + 1..args.len() } else { 0..0 };
            }
            () => 1,
        };
    }
    3..4
}

fn migrate(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (order, names) = options(args, cx.engine.is_clustered())?;
    let (engine, waits) = (cx.engine, cx.may_block());
    if waits {
        // The entry may have named other keys.
        cx.keys.unlock();
        let hashes: Vec<_> = names.clone().map(|index| engine.hasher().hash(&args[index])).collect();
        cx.keys.hold(hashes.into_iter())?;
    }
    let mut named: Vec<Named> = Vec::new();
    for index in names {
        let key = cx.keys.key(&args[index]);
        if cx.keys.find(key).is_some() {
            match named.iter_mut().find(|(name, _)| *name == args[index]) {
                Some((_, times)) => *times += 1,
                None => named.push((args[index].to_vec(), 1)),
            }
        }
    }
    if named.is_empty() {
        cx.reply.simple("NOKEY");
        return Ok(());
    }
    if !waits {
        rounds::at_once(cx, &order, named)?;
        cx.reply.ok();
        return Ok(());
    }
    let db = cx.keys.db_index();
    let Some(waiting) = cx.wait_elsewhere(args) else { return Ok(()) };
    let work = move |engine: &Engine| match rounds::run(engine, &waiting, &order, db, named) {
        Err(Stop::ServerEnds) => {}
        Err(Stop::Failed(error)) => waiting.end(engine, Err(error)),
        Ok(status) => waiting.end(engine, Ok(status)),
    };
    if engine.host().abroad(Box::new(work)).is_err() {
        cx.wait_no_more();
        return Err(Error::PeerUnreachable);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn arguments_are_checked_before_keys() {
        let mut client = Client::new();
        let number = "-ERR value is not an integer or out of range";
        for (line, reply) in [
            ("h 1 k 0 9", "+NOKEY"),
            ("h 1 \"\" 0 9 COPY REPLACE KEYS a b", "+NOKEY"),
            ("h 1 \"\" 0 9 KEYS", "+NOKEY"),
            ("h 1 k x 9", number),
            ("h 1 k 0 x", number),
            ("h 1 k 0 9 AUTH", "-ERR syntax error"),
            ("h 1 k 0 9 AUTH2 u", "-ERR syntax error"),
            ("h 1 k 0 9 AUTH2 u p nope", "-ERR syntax error"),
            (
                "h 1 k 0 9 KEYS a",
                "-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
            ),
        ] {
            client.is(&format!("MIGRATE {line}"), reply);
        }
    }

    #[test]
    fn keys_are_found_wherever_they_are() {
        let mut client = Client::new();
        for (line, keys) in [
            ("h 1 k 0 9", "[k]"),
            ("h 1 k 0 9 COPY REPLACE AUTH keys", "[k]"),
            ("h 1 \"\" 0 9 COPY KEYS a keys b", "[a keys b]"),
            ("h 1 \"\" 0 9 AUTH keys keys a b", "[a b]"),
            ("h 1 \"\" 0 9 KEYS", "[]"),
            ("h 1 k 0 9 KEYS a", "-ERR Invalid arguments specified for command"),
            ("h 1 k 0 9 KEYS", "[k]"),
        ] {
            client.is(&format!("COMMAND GETKEYS MIGRATE {line}"), keys);
        }
        client.is("COMMAND GETKEYSANDFLAGS MIGRATE h 1 k 0 9", "[[k [+RW +access +delete]]]");
    }

    #[test]
    fn keys_stay_where_no_other_server_can_be_reached() {
        let mut client = Client::new();
        client.is("SET k v", "+OK");
        let error = "-IOERR error or timeout connecting to the client";
        client.is("MIGRATE h 1 k 0 9", error).is("MIGRATE h 1 \"\" 0 9 KEYS a k keys b", error);
        client.is("MULTI", "+OK").is("MIGRATE h 1 k 0 9", "+QUEUED").is("EXEC", &format!("[{error}]"));
        let script = "return redis.pcall('MIGRATE', 'h', '1', 'k', '0', '9')";
        assert_eq!(client.run_words(&["EVAL", script, "0"]), error);
        client.is("GET k", "v");
    }
}
