//! COMMAND: the server's descriptions of its commands, all of them read off their entries.
//!
//! The container, INFO, LIST and GETKEYS are here; `command_docs.rs` answers DOCS, `syntax.rs` reads the notation of
//! arguments in the entries. In: the table of commands. Out: replies. Valkey's replies are in `fixtures/`, and tests
//! compare every entry with them.

pub(crate) mod command_docs;
mod encoded_commands;
#[cfg(test)]
mod known_docs_tests;
#[cfg(test)]
mod random_calls_tests;
pub(crate) mod syntax;

use crate::core::acl_catalog::{categories, category_named};
use crate::core::args::Args;
use crate::core::command::CallKeys;
use crate::core::command::CommandEntry;
use crate::core::command::{
    ALL_DBS, Begin, Command, FLAG_NAMES, FindKeys, Flags, Group, KeyFlags, KeySpec, LOADING, MAY_REPLICATE,
    MOVABLE_KEYS_NAME, PROTECTED, STALE, TOUCHES_ARBITRARY_KEYS,
};
use crate::core::command_table::CommandTable;
use crate::core::context::Context;
use crate::core::help::HELP;
use crate::core::key_spec;
use crate::core::redact::secret_of_inner;
use crate::server::command::command_docs::docs;
use engine::{Error, glob};
use resp::Reply;
use std::ops::Range;

const COMMON: Flags = LOADING.and(STALE);

pub(crate) const COMMANDS: &[Command] = &[Command {
    name: "command",
    since: "2.8.13",
    arity: -1,
    summary: "Returns detailed information about all commands.",
    subcommands: SUBCOMMANDS,
    complexity: "O(N) where N is the total number of commands",
    run: all,
    ..SUB
}];

const SUB: Command = Command {
    group: Group::Server,
    flags: COMMON,
    categories: &["connection"],
    complexity: "O(N) where N is the number of commands",
    tips: &["nondeterministic_output_order"],
    ..Command::DEFAULT
};
const KEYS: Command = Command {
    complexity: "O(N) where N is the number of arguments to the command",
    arity: -3,
    tips: &[],
    is_secret: |args, index| secret_of_inner(args, 2, index),
    ..SUB
};

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "count",
        since: "2.8.13",
        arity: 2,
        summary: "Returns a count of commands.",
        complexity: "O(1)",
        run: count,
        tips: &[],
        ..SUB
    },
    Command {
        name: "docs",
        since: "7.0.0",
        arity: -2,
        complexity: "O(N) where N is the number of commands to look up",
        syntax: "[command-name]...",
        summary: "Returns documentary information about one, multiple or all commands.",
        run: docs,
        ..SUB
    },
    Command {
        name: "getkeys",
        since: "2.8.13",
        syntax: "command [arg]...",
        summary: "Extracts the key names from an arbitrary command.",
        run: get_keys,
        ..KEYS
    },
    Command {
        name: "getkeysandflags",
        since: "7.0.0",
        syntax: "command [arg]...",
        summary: "Extracts the key names and access flags for an arbitrary command.",
        run: get_keys_and_flags,
        ..KEYS
    },
    Command { group: Group::Server, since: "5.0.0", categories: &["connection"], ..HELP },
    Command {
        name: "info",
        since: "2.8.13",
        arity: -2,
        syntax: "[command-name]...",
        summary: "Returns information about one, multiple or all commands.",
        history: &[("7.0.0", "Allowed to be called with no argument to get info on all commands.")],
        complexity: "O(N) where N is the number of commands to look up",
        run: info,
        ..SUB
    },
    Command {
        name: "list",
        since: "7.0.0",
        arity: -2,
        syntax: "[FILTERBY filterby: MODULE module-name | ACLCAT category | PATTERN pattern:pattern]",
        summary: "Returns a list of command names.",
        complexity: "O(N) where N is the total number of commands",
        run: list,
        ..SUB
    },
];

fn all(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.array(CommandTable::get().len());
    encoded_commands::all(cx.reply);
    Ok(())
}

fn count(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.int(CommandTable::get().len() as i64);
    Ok(())
}

fn info(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.len() == 2 {
        return all(cx, args);
    }
    cx.reply.array(args.len() - 2);
    for name in args.from(2) {
        match by_name(name) {
            Some(entry) => encoded_commands::one(cx.reply, entry),
            None => cx.reply.null(),
        }
    }
    Ok(())
}

/// Returns the command of a name, which may be a subcommand's: `config|get`.
pub(crate) fn by_name(name: &[u8]) -> Option<&'static CommandEntry> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let entry = CommandTable::get().find(parts.next()?)?;
    match parts.next() {
        None => Some(entry),
        Some(sub) => entry.subcommand(sub),
    }
}

/// Flags that servers do not show.
const NOT_SHOWN: Flags = PROTECTED.and(ALL_DBS).and(TOUCHES_ARBITRARY_KEYS).and(MAY_REPLICATE);

/// Writes one element of COMMAND INFO. `wrote`: called with the entry, and each of its subcommands, and its place.
fn describe(reply: &mut Reply, entry: &CommandEntry, wrote: &mut dyn FnMut(&CommandEntry, Range<usize>)) {
    let (command, start) = (entry.command, reply.len());
    let legacy = Legacy::of(command);
    reply.array(10);
    reply.bulk(entry.full_name.as_bytes());
    reply.int(command.arity.into());
    let shown = |flag: Flags| command.flags.has(flag) && !NOT_SHOWN.has(flag);
    let mut flags: Vec<&str> = FLAG_NAMES.iter().filter(|(flag, _)| shown(*flag)).map(|(_, name)| *name).collect();
    if legacy.movable {
        flags.push(MOVABLE_KEYS_NAME);
    }
    reply_statuses(reply, &flags);
    for number in [legacy.first, legacy.last, legacy.step] {
        reply.int(number);
    }
    let names: Vec<String> = categories(command).map(|name| format!("@{name}")).collect();
    reply_statuses(reply, &names);
    reply.set(command.tips.len());
    for tip in command.tips {
        reply.bulk(tip.as_bytes());
    }
    reply.set(command.keys.len());
    for spec in command.keys {
        describe_keys(reply, spec);
    }
    reply.array(entry.subcommands.len());
    entry.subcommands.iter().for_each(|sub| describe(reply, sub, wrote));
    wrote(entry, start..reply.len());
}

fn reply_statuses(reply: &mut Reply, words: &[impl AsRef<str>]) {
    reply.set(words.len());
    for word in words {
        reply.simple(word.as_ref());
    }
}

fn reply_key_flags(reply: &mut Reply, flags: KeyFlags) {
    let names: Vec<&str> = KeyFlags::NAMES.iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, name)| *name).collect();
    reply_statuses(reply, &names);
}

fn describe_keys(reply: &mut Reply, spec: &KeySpec) {
    reply.map(3 + usize::from(spec.notes.is_some()));
    if let Some(notes) = spec.notes {
        reply.bulk(b"notes");
        reply.bulk(notes.as_bytes());
    }
    reply.bulk(b"flags");
    reply_key_flags(reply, spec.flags);
    reply.bulk(b"begin_search");
    match spec.begin {
        Begin::Index(index) => reply_typed(reply, "index", &[("index", index as i64)]),
        Begin::Keyword { word, from } => {
            reply.map(2);
            reply.bulk(b"type");
            reply.bulk(b"keyword");
            reply.bulk(b"spec");
            reply.map(2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            reply.bulk(b"startfrom");
            reply.int(from.into());
        }
        Begin::Unknown => reply_typed(reply, "unknown", &[]),
    }
    reply.bulk(b"find_keys");
    match spec.find {
        FindKeys::Range { last, step, limit } => {
            let fields = [("lastkey", last.into()), ("keystep", step as i64), ("limit", limit as i64)];
            reply_typed(reply, "range", &fields);
        }
        FindKeys::Counted { count, first, step } => {
            let fields = [("keynumidx", count as i64), ("firstkey", first as i64), ("keystep", step as i64)];
            reply_typed(reply, "keynum", &fields);
        }
        FindKeys::Unknown => reply_typed(reply, "unknown", &[]),
    }
}

fn reply_typed(reply: &mut Reply, kind: &str, fields: &[(&str, i64)]) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(fields.len());
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        reply.int(*value);
    }
}

/// Keys in the form from before there were key specifications: one range, and whether it is all there is.
#[derive(Debug, Default, PartialEq, Eq)]
struct Legacy {
    first: i64,
    last: i64,
    step: i64,
    movable: bool,
}

impl Legacy {
    fn of(command: &Command) -> Legacy {
        let mut legacy = Legacy::default();
        for spec in command.keys {
            match (spec.begin, spec.find) {
                (Begin::Index(index), FindKeys::Range { last, step, .. }) => {
                    let plain = step == 1 || command.keys.len() == 1;
                    legacy.add(index as i64, last.into(), step as i64, plain);
                    legacy.movable |= spec.flags.has(KeyFlags::INCOMPLETE);
                }
                _ => legacy.movable = true,
            }
        }
        legacy
    }

    /// Joins a range that continues the last one; others cannot be expressed in this form.
    fn add(&mut self, first: i64, last: i64, step: i64, plain: bool) {
        if !plain || (self.first != 0 && self.last + 1 != first) {
            self.movable = true;
            return;
        }
        if self.first == 0 {
            self.first = first;
        }
        self.last = if last < 0 { last } else { first + last };
        self.step = step;
    }
}

fn list(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let admits: Box<dyn Fn(&CommandEntry) -> bool> = match args.len() {
        2 => Box::new(|_| true),
        5 if args.is(2, "filterby") => filter(args)?,
        _ => return Err(Error::Syntax),
    };
    let entries = CommandTable::get().iter().flat_map(|entry| std::iter::once(entry).chain(&entry.subcommands));
    let names: Vec<&str> = entries.filter(|entry| admits(entry)).map(|entry| entry.full_name.as_str()).collect();
    if args.len() == 2 {
        cx.reply.set(names.len())
    } else {
        cx.reply.array(names.len())
    }
    for name in names {
        cx.reply.bulk(name.as_bytes());
    }
    Ok(())
}

type Admits = Box<dyn Fn(&CommandEntry) -> bool>;

fn filter(args: &Args<'_>) -> Result<Admits, Error> {
    let value = args[4].to_vec();
    Ok(match () {
        () if args.is(3, "module") => Box::new(move |entry| {
            let module = entry.command.group.value_type().and_then(|of| of.module.as_ref());
            module.is_some_and(|module| module.module.as_bytes().eq_ignore_ascii_case(&value))
        }),
        () if args.is(3, "aclcat") => {
            let category = category_named(&value);
            Box::new(move |entry| category.is_some_and(|wanted| categories(entry.command).any(|name| name == wanted)))
        }
        () if args.is(3, "pattern") => {
            Box::new(move |entry| glob::matches_ignoring_case(&value, entry.full_name.as_bytes()))
        }
        () => return Err(Error::Syntax),
    })
}

/// Returns the keys of the command that begins at argument 2, each with its specification.
fn keys_of(args: &Args<'_>) -> Result<(Args<'static>, CallKeys), Error> {
    let inner: Args<'_> = args.from(2).collect();
    let inner = inner.into_owned();
    let mut entry = CommandTable::get().find(&inner[0]).ok_or(Error::InvalidCommand)?;
    if !entry.subcommands.is_empty() && inner.len() > 1 {
        entry = entry.subcommand(&inner[1]).ok_or(Error::InvalidCommand)?;
    }
    let command = entry.command;
    if command.keys.iter().all(|spec| spec.flags.has(KeyFlags::NOT_KEY)) {
        return Err(Error::CommandHasNoKeys);
    }
    if !command.accepts_arity(inner.len()) {
        return Err(Error::CommandArity);
    }
    let found = key_spec::keys_and_flags(command, &inner).map_err(|_| Error::CommandArguments)?;
    Ok((inner, found))
}

fn get_keys(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (inner, found) = keys_of(args)?;
    cx.reply.array(found.len());
    for (index, _) in found {
        cx.reply.bulk(&inner[index]);
    }
    Ok(())
}

fn get_keys_and_flags(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let (inner, found) = keys_of(args)?;
    cx.reply.array(found.len());
    for (index, flags) in found {
        cx.reply.array(2);
        cx.reply.bulk(&inner[index]);
        reply_key_flags(cx.reply, flags);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::command::command_docs::{OWN, unknown_to_valkey};
    use crate::testing::Client;
    use std::collections::{BTreeSet, HashMap};

    /// Name, arity, flags, categories and key specifications of every command of Valkey 9 and Redis 8.
    const REFERENCE: &str = include_str!("fixtures/commands.tsv");

    fn words(text: &str, between: char) -> BTreeSet<String> {
        text.split(between).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    }

    /// Returns a specification as the reference has it, but for the order of its flags.
    fn spec_text(spec: &KeySpec) -> (BTreeSet<String>, String) {
        let flags = KeyFlags::NAMES.iter().filter(|(flag, _)| spec.flags.has(*flag));
        let begin = match spec.begin {
            Begin::Index(index) => format!(r#"{{"index":{{"pos":{index}}}}}"#),
            Begin::Keyword { word, from } => {
                format!(r#"{{"keyword":{{"keyword":"{word}","startfrom":{from}}}}}"#)
            }
            Begin::Unknown => r#"{"unknown":null}"#.to_owned(),
        };
        let find = match spec.find {
            FindKeys::Range { last, step, limit } => {
                format!(r#"{{"range":{{"lastkey":{last},"step":{step},"limit":{limit}}}}}"#)
            }
            FindKeys::Counted { count, first, step } => {
                format!(r#"{{"keynum":{{"keynumidx":{count},"firstkey":{first},"step":{step}}}}}"#)
            }
            FindKeys::Unknown => r#"{"unknown":null}"#.to_owned(),
        };
        (flags.map(|(_, name)| name.to_lowercase()).collect(), format!("{begin} {find}"))
    }

    fn check(entry: &CommandEntry, reference: &HashMap<&str, Vec<&str>>, wrong: &mut Vec<String>) {
        entry.subcommands.iter().for_each(|sub| check(sub, reference, wrong));
        let (name, command) = (entry.full_name.as_str(), entry.command);
        let Some(fields) = reference.get(name) else {
            if !OWN.contains(&name) {
                wrong.push(unknown_to_valkey(name));
            }
            return;
        };
        let mut compare = |what: &str, ours: String, theirs: String| {
            if ours != theirs {
                wrong.push(format!("{name} {what}: {ours}, not {theirs}"));
            }
        };
        compare("arity", command.arity.to_string(), fields[1].to_owned());
        let flags = FLAG_NAMES.iter().filter(|(flag, _)| command.flags.has(*flag)).map(|(_, name)| *name);
        let flags: Vec<&str> = flags.collect();
        compare("flags", format!("{:?}", words(&flags.join(","), ',')), format!("{:?}", words(fields[2], ',')));
        let ours: Vec<&str> = categories(command).collect();
        compare("categories", format!("{:?}", words(&ours.join(","), ',')), format!("{:?}", words(fields[3], ',')));
        let theirs: Vec<(BTreeSet<String>, String)> = fields[4]
            .split(" ; ")
            .filter(|text| !text.is_empty())
            .map(|text| text.split_once(' ').unwrap_or((text, "")))
            .map(|(flags, search)| (words(flags, '/'), search.to_owned()))
            .collect();
        let ours: Vec<_> = command.keys.iter().map(spec_text).collect();
        compare("keys", format!("{ours:?}"), format!("{theirs:?}"));
    }

    #[test]
    fn every_command_agrees_with_the_reference() {
        crate::install(&[]);
        let rows = REFERENCE.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        let reference: HashMap<&str, Vec<&str>> = rows.map(|fields| (fields[0], fields)).collect();
        let mut wrong = Vec::new();
        CommandTable::get().iter().for_each(|entry| check(entry, &reference, &mut wrong));
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn a_command_is_described_as_clients_expect_it() {
        let mut client = Client::new();
        client.is(
            "COMMAND INFO get nope",
            "[[get :2 [+readonly +fast] :1 :1 :1 [+@read +@string +@fast] [] [[flags [+RO +access] begin_search \
             [type index spec [index :1]] find_keys [type range spec [lastkey :0 keystep :1 limit :0]]]] []] nil]",
        );
        client.is(
            "COMMAND INFO client|id",
            "[[client|id :2 [+noscript +loading +stale +allow_busy] :0 :0 :0 [+@slow +@connection] [] [] []]]",
        );
        assert!(client.run("COMMAND INFO debug").starts_with("[[debug :-2 [+admin +noscript +loading +stale] "));
        client.is("COMMAND COUNT", &format!(":{}", CommandTable::get().len()));
    }

    #[test]
    fn ranges_that_follow_each_other_are_one_legacy_range() {
        let legacy = |keys: &'static [KeySpec]| {
            let Legacy { first, last, step, movable } = Legacy::of(&Command { keys, ..Command::DEFAULT });
            (first, last, step, movable)
        };
        use crate::core::command::{key, keyword};
        assert_eq!(legacy(&[]), (0, 0, 0, false));
        assert_eq!(legacy(const { &[key(1).to(-1, 2)] }), (1, -1, 2, false));
        assert_eq!(legacy(const { &[key(1), key(2)] }), (1, 2, 1, false));
        assert_eq!(legacy(const { &[key(1), key(2).to(-1, 1)] }), (1, -1, 1, false));
        assert_eq!(legacy(const { &[key(1), key(3)] }), (1, 1, 1, true));
        assert_eq!(legacy(const { &[key(1), key(2).counted(0, 1, 1)] }), (1, 1, 1, true));
        assert_eq!(legacy(const { &[keyword("STREAMS", 1)] }), (0, 0, 0, true));
    }

    #[test]
    fn keys_of_whole_commands() {
        let mut client = Client::new();
        client.is("COMMAND GETKEYS get a", "[a]").is("COMMAND GETKEYS mset a 1 b 2", "[a b]");
        client.is("COMMAND GETKEYSANDFLAGS set a 1", "[[a [+OW +update]]]");
        client.is("COMMAND GETKEYSANDFLAGS set a 1 GET", "[[a [+RW +access +update]]]");
        client.is("COMMAND GETKEYS object encoding a", "[a]");
        client.is(
            "COMMAND GETKEYSANDFLAGS sort a STORE x GET # LIMIT 0 store BY store STORE b",
            "[[a [+RO +access]] [b [+OW +update]]]",
        );
        client.is("COMMAND GETKEYS sort a STORE", "[a]");
        client.is("COMMAND GETKEYS zunionstore d 0 a", "-ERR Invalid arguments specified for command");
        client.is("COMMAND GETKEYS eval x 9 a", "[]").is("COMMAND GETKEYS eval x nine a", "[]");
        client.is("COMMAND GETKEYS ping", "-ERR The command has no key arguments");
        client.is("COMMAND GETKEYS nope", "-ERR Invalid command specified");
        client.is("COMMAND GETKEYS get", "-ERR Invalid number of arguments specified for command");
        client.is("COMMAND GETKEYS client id", "-ERR The command has no key arguments");
    }

    #[test]
    fn lists_are_filtered_by_one_filter() {
        let mut client = Client::new();
        client.is("COMMAND LIST FILTERBY PATTERN client|I?", "[client|id]");
        client.is("COMMAND LIST FILTERBY MODULE any", "[]").is("COMMAND LIST FILTERBY ACLCAT nope", "[]");
        assert!(client.run("COMMAND LIST FILTERBY aclcat admin").contains("config|set"));
        assert!(client.run("COMMAND LIST").contains("config|set"));
        client.is("COMMAND LIST FILTERBY nope x", "-ERR syntax error").is("COMMAND LIST x", "-ERR syntax error");
        client.is("COMMAND NOPE", "-ERR unknown subcommand 'NOPE'. Try COMMAND HELP.");
    }
}
