//! The syntax of commands, as a server documents it: COMMAND DOCS' replies of both protocols into trees of arguments.

use resp::Value;

/// A command, or a subcommand with the name of its container.
#[derive(Debug, Clone)]
pub struct CommandSyntax {
    /// The words of its name, in capitals.
    pub name: Vec<String>,
    pub group: String,
    pub arguments: Vec<Argument>,
}

/// An argument.
#[derive(Debug, Clone, Default)]
pub struct Argument {
    pub name: String,
    pub kind: String,
    /// A word before it, or the word that it is.
    pub token: Option<String>,
    pub is_optional: bool,
    /// It may stand several times, its token once or each time.
    pub repeats: bool,
    pub repeats_token: bool,
    /// Parts of a block; choices.
    pub parts: Vec<Argument>,
}

/// Depth of blocks within blocks that is followed.
const DEPTH_MAX: usize = 16;

/// Returns the commands of COMMAND DOCS' reply; containers are left out, for their subcommands.
pub fn commands(docs: &Value) -> Vec<CommandSyntax> {
    let mut found = Vec::new();
    for (name, docs) in pairs(docs) {
        let subcommands = field(docs, "subcommands").map(pairs).unwrap_or_default();
        if subcommands.is_empty() {
            found.extend(command(name, docs));
        }
        found.extend(subcommands.into_iter().filter_map(|(name, docs)| command(name, docs)));
    }
    found
}

fn command(name: &Value, docs: &Value) -> Option<CommandSyntax> {
    let name = text(name)?.to_uppercase().split('|').map(str::to_owned).collect();
    let arguments = field(docs, "arguments").map(|value| arguments(value, DEPTH_MAX)).unwrap_or_default();
    Some(CommandSyntax { name, group: field(docs, "group").and_then(text).unwrap_or_default(), arguments })
}

fn arguments(value: &Value, depth: usize) -> Vec<Argument> {
    if depth == 0 { Vec::new() } else { items(value).iter().map(|value| argument(value, depth - 1)).collect() }
}

fn argument(value: &Value, depth: usize) -> Argument {
    let word = |name: &str| field(value, name).and_then(text);
    let flags: Vec<String> = field(value, "flags").map(items).unwrap_or_default().iter().filter_map(text).collect();
    let has = |flag: &str| flags.iter().any(|known| known == flag);
    Argument {
        name: word("name").unwrap_or_default(),
        kind: word("type").unwrap_or_default(),
        token: word("token"),
        is_optional: has("optional"),
        repeats: has("multiple"),
        repeats_token: has("multiple_token"),
        parts: field(value, "arguments").map(|value| arguments(value, depth)).unwrap_or_default(),
    }
}

/// Returns the field of a map, in either protocol's form.
pub fn field<'v>(map: &'v Value, name: &str) -> Option<&'v Value> {
    pairs(map).into_iter().find_map(|(key, value)| (text(key).as_deref() == Some(name)).then_some(value))
}

/// Returns the pairs of a map.
pub fn pairs(map: &Value) -> Vec<(&Value, &Value)> {
    match map {
        Value::Map(pairs) => pairs.iter().map(|(key, value)| (key, value)).collect(),
        Value::Array(items) => items.as_chunks::<2>().0.iter().map(|[key, value]| (key, value)).collect(),
        _ => Vec::new(),
    }
}

/// Returns the elements of an array or a set.
pub fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        _ => &[],
    }
}

/// Returns a string's text.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::Bulk(bytes) | Value::Simple(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}
