//! COMMAND DOCS: the descriptions of commands for people and their tools, read off the entries.
//!
//! ```text
//! name -> summary, since, group, complexity, doc_flags, deprecated_since, replaced_by, history, arguments, subcommands
//! ```
//!
//! Empty fields are left out. A container's subcommands are a map of the same kind, by full name. The fixture holds
//! Valkey's replies, one command a line; the stage `clients` of CI compares with a running Valkey as well.

use crate::core::args::Args;
use crate::core::command::CommandEntry;
use crate::core::command::SYSTEM;
use crate::core::command_table::CommandTable;
use crate::core::context::Context;
use crate::server::command::by_name;
use crate::server::command::syntax::{parse, write_texts};
use engine::Error;
use resp::Reply;

/// Handles COMMAND DOCS. Unknown names are skipped.
pub fn docs(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.len() == 2 {
        cx.reply.map(CommandTable::get().len());
        CommandTable::get().iter().for_each(|entry| write_pair(cx.reply, entry));
        return Ok(());
    }
    let entries: Vec<&CommandEntry> = args.from(2).filter_map(by_name).collect();
    cx.reply.map(entries.len());
    entries.into_iter().for_each(|entry| write_pair(cx.reply, entry));
    Ok(())
}

fn write_pair(reply: &mut Reply, entry: &CommandEntry) {
    reply.bulk(entry.full_name.as_bytes());
    write(reply, entry);
}

fn write(reply: &mut Reply, entry: &CommandEntry) {
    let command = entry.command;
    // A test checks that every entry's syntax can be read.
    let arguments = parse(command.syntax).unwrap_or_default();
    let texts = [
        ("summary", Some(command.summary)),
        ("since", Some(command.since)),
        ("group", Some(command.group.words().docs)),
        ("complexity", Some(command.complexity).filter(|text| !text.is_empty())),
    ];
    let deprecation = [
        ("deprecated_since", command.deprecated.map(|(since, _)| since)),
        ("replaced_by", command.deprecated.map(|(_, replacement)| replacement)),
    ];
    let flags = [("deprecated", command.deprecated.is_some()), ("syscmd", command.flags.has(SYSTEM))];
    let set = flags.iter().filter(|(_, set)| *set).count();
    let lists = [set, command.history.len(), arguments.len(), entry.subcommands.len()];
    let fields = texts.iter().chain(&deprecation).filter(|(_, text)| text.is_some()).count();
    reply.map(fields + lists.iter().filter(|len| **len > 0).count());
    write_texts(reply, &texts);
    if set > 0 {
        reply.bulk(b"doc_flags");
        reply.set(set);
        flags.iter().filter(|(_, set)| *set).for_each(|(name, _)| reply.simple(name));
    }
    write_texts(reply, &deprecation);
    if !command.history.is_empty() {
        reply.bulk(b"history");
        reply.set(command.history.len());
        for (version, change) in command.history {
            reply.array(2);
            reply.bulk(version.as_bytes());
            reply.bulk(change.as_bytes());
        }
    }
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        reply.array(arguments.len());
        arguments.iter().for_each(|argument| argument.write(reply));
    }
    if !entry.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(entry.subcommands.len());
        entry.subcommands.iter().for_each(|sub| write_pair(reply, sub));
    }
}

/// Full names of commands that no Valkey has, so that there is nothing to compare their entries with.
#[cfg(test)]
pub(super) const OWN: &[&str] = &[
    "client|acknowledge",
    "client|strike",
    "delpattern",
    "delprefix",
    "hotkeys",
    "hotkeys|get",
    "hotkeys|help",
    "hotkeys|reset",
    "hotkeys|start",
    "hotkeys|stop",
];

/// Returns advice about a command that the fixtures do not have.
#[cfg(test)]
pub(super) fn unknown_to_valkey(name: &str) -> String {
    format!("{name} is no command of Valkey: mend its name, or put it into OWN of server/command/command_docs.rs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;
    use resp::Protocol;
    use resp::reply_value::{Decoder, Value};
    use std::collections::HashMap;

    /// Every command's name, its syntax in the notation of the entries, and the reply of Valkey 9.1.2 (Redis 8 for
    /// commands that it lacks) to COMMAND DOCS, without subcommands, as JSON.
    const REFERENCE: &str = include_str!("fixtures/docs.tsv");

    fn json(value: &Value) -> String {
        match value {
            Value::Bulk(text) | Value::Simple(text) => {
                let text = std::str::from_utf8(text).unwrap();
                format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
            Value::Int(n) => n.to_string(),
            Value::Array(items) | Value::Set(items) => {
                format!("[{}]", items.iter().map(json).collect::<Vec<_>>().join(","))
            }
            Value::Map(pairs) => {
                let pairs = pairs.iter().filter(|(key, _)| *key != Value::Bulk(b"subcommands".to_vec()));
                let pairs = pairs.map(|(key, value)| format!("{}:{}", json(key), json(value)));
                format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
            }
            other => panic!("{other:?}"),
        }
    }

    fn docs_of(entry: &CommandEntry) -> String {
        let mut reply = Reply::new(Vec::new(), Protocol::Resp3);
        write(&mut reply, entry);
        json(&Decoder::new().decode(&reply.take()).unwrap().unwrap().0)
    }

    #[test]
    fn every_command_says_what_valkey_says() {
        crate::install(&[]);
        let rows = REFERENCE.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        let reference: HashMap<&str, Vec<&str>> = rows.map(|fields| (fields[0], fields)).collect();
        let mut wrong = Vec::new();
        for entry in CommandTable::get().iter().flat_map(|entry| std::iter::once(entry).chain(&entry.subcommands)) {
            let (name, ours) = (&entry.full_name, docs_of(entry));
            if let Err(error) = parse(entry.command.syntax) {
                wrong.push(format!("{name}: its syntax cannot be read from byte {} on", error.0));
            }
            match reference.get(name.as_str()) {
                Some(fields) if fields[2] == ours => {}
                Some(fields) => {
                    wrong.push(format!("{name}\n  ours    {ours}\n  theirs  {}\n  syntax  {}", fields[2], fields[1]))
                }
                None if OWN.contains(&name.as_str()) => {}
                None => wrong.push(unknown_to_valkey(name)),
            }
        }
        assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn commands_are_picked_by_name() {
        let mut client = Client::new();
        client.is(
            "COMMAND DOCS get nope client|id",
            "[get [summary Returns the string value of a key. since 1.0.0 group string complexity O(1) arguments \
             [[name key type key display_text key key_spec_index :0]]] client|id [summary Returns the unique client ID of \
             the connection. since 5.0.0 group connection complexity O(1)]]",
        );
        client.is("COMMAND DOCS nope", "[]");
        let Value::Array(all) = client.value("COMMAND DOCS") else { panic!("an array") };
        assert_eq!(all.len(), 2 * CommandTable::get().len());
    }
}
