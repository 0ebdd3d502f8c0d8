//! Strings compared with a client's copy, the value or its digest: DIGEST, DELEX, DELIFEQ, and the conditions of SET.

use crate::core::args::Args;
use crate::core::command::{Command, FAST, Group, KeyFlags, READONLY, WRITE, key};
use crate::core::context::Context;
use engine::data::event_class::EventClass;
use engine::data::value::Str;
use engine::keyspace::edit::Edit;
use engine::{Error, Word};
use std::io::Write as _;
use xxhash_rust::xxh3::xxh3_64;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "delex",
        group: Group::String,
        since: "8.4.0",
        arity: -2,
        flags: WRITE.and(FAST),
        keys: &[key(1).rw().delete().variable()],
        syntax: "key [condition: IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest]",
        summary: "Conditionally removes the specified key based on value or digest comparison.",
        complexity: "O(1) for IFEQ/IFNE, O(N) for IFDEQ/IFDNE where N is the length of the string value.",
        keys_of_call: Some(|args, keys| {
            if args.len() == 2 {
                keys.iter_mut().for_each(|(_, flags)| *flags = KeyFlags(KeyFlags::RM.0 | KeyFlags::DELETE.0));
            }
        }),
        run: delex,
        ..Command::DEFAULT
    },
    Command {
        name: "delifeq",
        group: Group::String,
        since: "9.0.0",
        arity: 3,
        flags: WRITE.and(FAST),
        keys: &[key(1).rm().delete()],
        syntax: "key value",
        summary: "Delete key if value matches string.",
        complexity: "O(1)",
        run: delifeq,
        ..Command::DEFAULT
    },
    Command {
        name: "digest",
        group: Group::String,
        since: "8.4.0",
        arity: 2,
        flags: READONLY.and(FAST),
        keys: &[key(1).ro().access()],
        syntax: "key",
        summary: "Returns the XXH3 hash of a string value.",
        complexity: "O(N) where N is the length of the string value.",
        run: digest,
        ..Command::DEFAULT
    },
];

/// Hexadecimal digits of a digest.
const DIGITS: usize = 16;

/// Returns the digest of a value: its 64-bit XXH3, in small letters.
fn digest_of(value: &[u8]) -> [u8; DIGITS] {
    let mut digits = [0; DIGITS];
    // The room is just enough.
    let _ = write!(&mut digits[..], "{:016x}", xxh3_64(value));
    digits
}

/// The object of a comparison, and the wanted result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// IFEQ
    Equal,
    /// IFNE
    Different,
    /// IFDEQ
    DigestEqual,
    /// IFDNE
    DigestDifferent,
}

impl Comparison {
    /// Returns the comparison that the word at `index` names.
    pub fn named(args: &Args<'_>, index: usize) -> Option<Comparison> {
        const NAMES: [(&str, Comparison); 4] = [
            ("ifeq", Comparison::Equal),
            ("ifne", Comparison::Different),
            ("ifdeq", Comparison::DigestEqual),
            ("ifdne", Comparison::DigestDifferent),
        ];
        NAMES.into_iter().find(|(name, _)| args.is(index, name)).map(|(_, comparison)| comparison)
    }

    /// Returns whether the comparison holds. A missing value differs from everything, and its digest does, too.
    pub fn holds(self, value: Option<Str<'_>>, operand: &[u8]) -> Result<bool, Error> {
        let wants_equal = matches!(self, Comparison::Equal | Comparison::DigestEqual);
        let Some(value) = value else { return Ok(!wants_equal) };
        let mut digits = itoa::Buffer::new();
        let value = value.bytes(&mut digits);
        let equal = match self {
            Comparison::Equal | Comparison::Different => value == operand,
            _ if operand.len() != DIGITS => return Err(Error::DigestLength),
            _ => digest_of(value).eq_ignore_ascii_case(operand),
        };
        Ok(equal == wants_equal)
    }
}

fn digest(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    match cx.keys.string(cx.key(args, 1))? {
        Some(value) => cx.reply.bulk(&digest_of(value.bytes(&mut itoa::Buffer::new()))),
        None => cx.reply.null(),
    }
    Ok(())
}

fn delex(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.len() != 2 && args.len() != 4 {
        return Err(Error::WrongArity(Word::of(cx.command.name)));
    }
    let edit = cx.keys.edit(cx.key(args, 1));
    let wanted = match edit.string() {
        _ if !edit.exists() => false,
        _ if args.len() == 2 => true,
        Err(_) => return Err(Error::DelexNotAString),
        Ok(value) => Comparison::named(args, 2).ok_or(Error::DelexCondition)?.holds(value, &args[3])?,
    };
    if wanted {
        delete(edit, &args[1]);
    }
    cx.reply.int(i64::from(wanted));
    Ok(())
}

fn delifeq(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let edit = cx.keys.edit(cx.key(args, 1));
    let equal = Comparison::Equal.holds(edit.string()?, &args[2])?;
    if equal {
        delete(edit, &args[1]);
    }
    cx.reply.int(i64::from(equal));
    Ok(())
}

/// Deletes a key whose condition holds; the log's form has no condition.
fn delete(mut edit: Edit<'_>, key: &[u8]) {
    edit.remove();
    edit.log_as(|| vec![vec![b"DEL".to_vec(), key.to_vec()]]);
    edit.commit(EventClass::GENERIC, "del");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    #[test]
    fn digests_are_those_of_other_servers() {
        let mut client = Client::new();
        client.run_words(&["SET", "k", "Hello world"]);
        client.is("DIGEST k", "b6acb9d84a38ff74").is("DIGEST none", "nil");
        let zeros = "v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd";
        client.is(&format!("SET k {zeros}"), "+OK").is("DIGEST k", "00006c38adf31777");
        client.is("SET n 17", "+OK").is("SET s x", "+OK").is("SETRANGE s 0 17", ":2");
        let number = client.run("DIGEST n");
        client.is("DIGEST s", &number).is("ZADD z 1 m", ":1").is("DIGEST z", &format!("-{}", Error::WrongType));
    }

    #[test]
    fn keys_are_deleted_on_conditions() {
        let mut client = Client::with_events();
        let log = client.log();
        let not_16 = "-ERR must be exactly 16 hexadecimal characters";
        for (command, reply) in [
            ("DELEX none", ":0"),
            ("DELEX none WHAT x", ":0"),
            ("DELEX none IFDNE 1", ":0"),
            ("DELEX none IFEQ", "-ERR wrong number of arguments for 'delex' command"),
            ("DELEX none IFEQ x x", "-ERR wrong number of arguments for 'delex' command"),
            ("SET k test", "+OK"),
            ("DELEX k WHAT x", "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"),
            ("DELEX k IFEQ x", ":0"),
            ("DELEX k IFNE test", ":0"),
            ("DELEX k IFDEQ 9ec9f7918d7dfc4", not_16),
            ("DELEX k IFDNE 9ec9f7918d7dfc400", not_16),
            ("DELEX k IFDNE 9EC9F7918D7DFC40", ":0"),
            ("DELEX k IFDEQ 9ec9f7918d7dfc41", ":0"),
            ("DELEX k IFDEQ 9ec9f7918d7dfc40", ":1"),
            ("SET k 5", "+OK"),
            ("DELEX k ifne 6", ":1"),
            ("ZADD z 1 m", ":1"),
            ("DELEX z IFEQ m", "-ERR Key should be of string type if conditions are specified"),
            ("DELEX z", ":1"),
        ] {
            client.is(command, reply);
        }
        let logged: Vec<_> = log.take().into_iter().map(|(_, words)| words.join(&b' ')).collect();
        assert_eq!(logged.iter().filter(|line| line.starts_with(b"DEL ")).count(), 3);
        assert!(!logged.iter().any(|line| line.starts_with(b"DELEX")));
        assert_eq!(client.events().iter().filter(|event| event.starts_with("0 del ")).count(), 3);
    }
}
