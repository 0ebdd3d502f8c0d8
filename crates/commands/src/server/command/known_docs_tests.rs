//! The reply that cinnabar-cli has at hand without a server, compared with the table.

use super::command_docs::OWN;
use crate::core::command_table::CommandTable;
use crate::testing::Client;
use resp::reply_value::{Decoder, Value};
use std::collections::BTreeMap;

/// The reply of Valkey 9.1.2 to COMMAND DOCS, without fields that no hint shows.
const KNOWN: &[u8] = include_bytes!("../../../../cli/src/docs.resp");
/// Commands that Redis has and Valkey has not.
const OF_REDIS: [&str; 11] = [
    "blmovem",
    "delex",
    "digest",
    "increx",
    "lmovem",
    "sdiffcard",
    "sunioncard",
    "xackdel",
    "xcfgset",
    "xdelex",
    "xnack",
];
/// Fields of a command that hints show.
const OF_COMMAND: [&str; 4] = ["summary", "since", "group", "arguments"];
/// Fields of an argument that hints show.
const OF_ARGUMENT: [&str; 5] = ["name", "type", "token", "flags", "arguments"];

fn word(value: &Value) -> String {
    match value {
        Value::Bulk(text) | Value::Simple(text) => String::from_utf8(text.clone()).unwrap(),
        Value::Int(number) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Returns the fields of a map, in either protocol.
fn pairs(value: &Value) -> Vec<(String, &Value)> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(name, value)| (word(name), value)).collect(),
        Value::Array(items) => items.chunks(2).map(|pair| (word(&pair[0]), &pair[1])).collect(),
        other => panic!("{other:?}"),
    }
}

fn is_argument(value: &Value) -> bool {
    matches!(value, Value::Map(_) | Value::Array(_))
}

/// Adds the text of each command, its subcommands behind it, by its name.
fn describe(reply: &Value, into: &mut BTreeMap<String, String>) {
    for (name, docs) in pairs(reply) {
        into.insert(name, fields(docs, &OF_COMMAND));
        for (_, subcommands) in pairs(docs).into_iter().filter(|(field, _)| field == "subcommands") {
            describe(subcommands, into);
        }
    }
}

/// Returns the text of these fields. People are shown the name of an argument, or another text in its place.
fn fields(docs: &Value, shown: &[&str]) -> String {
    let mut texts: BTreeMap<String, String> = pairs(docs)
        .into_iter()
        .filter(|(name, _)| name != "subcommands" && name != "history")
        .map(|(name, value)| (name, text(value)))
        .collect();
    if let Some(text) = texts.remove("display_text") {
        texts.insert("name".to_owned(), text);
    }
    texts.retain(|name, _| shown.contains(&name.as_str()));
    format!("{texts:?}")
}

fn text(value: &Value) -> String {
    match value {
        Value::Array(items) | Value::Set(items) => {
            let item = |item: &Value| if is_argument(item) { fields(item, &OF_ARGUMENT) } else { word(item) };
            items.iter().map(item).collect::<Vec<_>>().join(", ")
        }
        value => word(value),
    }
}

#[test]
fn hints_without_a_server_are_those_of_the_table() {
    let (mut known, mut ours) = (BTreeMap::new(), BTreeMap::new());
    describe(&Decoder::new().decode(KNOWN).unwrap().unwrap().0, &mut known);
    let mut client = Client::new();
    describe(&client.value("COMMAND DOCS"), &mut ours);
    let table = CommandTable::get();
    let entries = table.iter().flat_map(|entry| std::iter::once(entry).chain(&entry.subcommands));
    let mut wrong: Vec<String> = Vec::new();
    for name in entries.map(|entry| entry.full_name.as_str()) {
        match known.remove(name) {
            Some(docs) if docs == ours[name] => {}
            Some(docs) => wrong.push(format!("{name}\n  table  {}\n  hints  {docs}", ours[name])),
            None if OWN.contains(&name) || OF_REDIS.contains(&name) => {}
            None => wrong.push(format!("{name}: hints lack it")),
        }
    }
    wrong.extend(known.into_keys().map(|name| format!("{name}: the table lacks it")));
    assert!(wrong.is_empty(), "{} commands differ:\n{}", wrong.len(), wrong.join("\n"));
}
