//! The syntax of commands, as a server documents it: COMMAND DOCS' replies of both protocols into trees of arguments.

use resp::Value;
use resp::reply_fields::{field, fields, items, text};

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
    /// Whether the argument may stand several times, its token once or each time.
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
    for (name, docs) in fields(docs) {
        let subcommands = field(docs, "subcommands").map(fields).unwrap_or_default();
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
