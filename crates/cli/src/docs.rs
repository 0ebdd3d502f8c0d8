//! Commands and their arguments: the server's reply to COMMAND DOCS, as the program holds it.
//!
//! A server knows best which commands it has, so it is asked. Where there is none, or it does not answer, `docs.resp`
//! takes its place: the same reply as bytes, of Valkey 9.1.2; names, summaries, versions, groups and arguments only.
//! Both are read by [`Docs::read`], which leaves out anything unknown: a hint is no reason to fail.

use resp::Value;
use resp::reply_value::Decoder;

use resp::reply_fields::{field, fields, items, text, text_field};

/// The reply that is at hand without a server.
const KNOWN: &[u8] = include_bytes!("docs.resp");

/// All commands, sorted by name, and the groups that they are in, sorted too.
#[derive(Debug, Default)]
pub struct Docs {
    pub commands: Vec<CommandDocs>,
    pub groups: Vec<String>,
}

#[derive(Debug, Default)]
pub struct CommandDocs {
    /// Name in capitals, after its container's: `CONFIG SET`.
    pub name: String,
    pub summary: String,
    pub since: String,
    pub group: String,
    pub arguments: Vec<DocumentedArgument>,
}

/// One node of a command's syntax.
#[derive(Debug, Default)]
pub struct DocumentedArgument {
    /// Text that people are shown in its place.
    pub name: String,
    /// A word to be typed before it, or in its place.
    pub token: Option<String>,
    pub kind: ArgumentKind,
    pub optional: bool,
    pub repeats: bool,
    /// Whether a repetition has the token again.
    pub repeats_token: bool,
}

#[derive(Debug, Default)]
pub enum ArgumentKind {
    #[default]
    Text,
    Integer,
    Double,
    /// The token alone.
    Token,
    Block(Vec<DocumentedArgument>),
    OneOf(Vec<DocumentedArgument>),
}

impl Docs {
    /// Returns the commands that are known without a server.
    pub fn known() -> Docs {
        let reply = Decoder::new().decode(KNOWN).ok().flatten();
        reply.map(|(value, _)| Docs::read(&value)).unwrap_or_default()
    }

    /// Reads the reply to COMMAND DOCS, in either protocol.
    pub fn read(reply: &Value) -> Docs {
        let mut commands = Vec::new();
        read_commands(reply, &mut commands);
        commands.sort_by(|a, b| a.name.cmp(&b.name));
        let mut groups: Vec<String> = commands.iter().map(|command| command.group.clone()).collect();
        groups.sort();
        groups.dedup();
        Docs { commands, groups }
    }

    /// Keeps the commands that the reply to COMMAND names, and adds the names of its others; keeps all if the reply
    /// names none.
    pub fn only(mut self, table: &Value) -> Docs {
        let names: Vec<String> =
            items(table).iter().filter_map(|row| Some(text(items(row).first()?)?.to_uppercase())).collect();
        if names.is_empty() {
            return self;
        }
        let container = |command: &CommandDocs| command.name.split(' ').next().unwrap_or_default().to_owned();
        self.commands.retain(|command| names.contains(&container(command)));
        for name in names {
            if !self.commands.iter().any(|command| container(command) == name) {
                self.commands.push(CommandDocs { name, ..CommandDocs::default() });
            }
        }
        self.commands.sort_by(|a, b| a.name.cmp(&b.name));
        self
    }

    /// Returns the command that the first words name, the longest if several do, and how many words its name has.
    pub fn find(&self, words: &[Vec<u8>]) -> Option<(&CommandDocs, usize)> {
        let named = self.commands.iter().filter_map(|command| {
            let count = command.name.split(' ').count();
            let is_named = count <= words.len() && command.starts_with(&words[..count]);
            is_named.then_some((command, count))
        });
        named.max_by_key(|(_, count)| *count)
    }
}

impl CommandDocs {
    /// Returns whether its name begins with these words.
    pub fn starts_with(&self, words: &[Vec<u8>]) -> bool {
        let mut name = self.name.split(' ');
        words.iter().all(|word| name.next().is_some_and(|part| part.as_bytes().eq_ignore_ascii_case(word)))
    }
}

fn read_commands(reply: &Value, into: &mut Vec<CommandDocs>) {
    for (name, docs) in fields(reply) {
        let (Some(name), Some(summary)) = (text(name), text_field(docs, "summary")) else { continue };
        into.push(CommandDocs {
            name: name.replace('|', " ").to_uppercase(),
            summary,
            since: text_field(docs, "since").unwrap_or_default(),
            group: text_field(docs, "group").unwrap_or_default(),
            arguments: field(docs, "arguments").map(read_arguments).unwrap_or_default(),
        });
        if let Some(subcommands) = field(docs, "subcommands") {
            read_commands(subcommands, into);
        }
    }
}

fn read_arguments(value: &Value) -> Vec<DocumentedArgument> {
    items(value).iter().filter_map(read_argument).collect()
}

fn read_argument(value: &Value) -> Option<DocumentedArgument> {
    let children = || field(value, "arguments").map(read_arguments).unwrap_or_default();
    let kind = match text_field(value, "type")?.as_str() {
        "integer" | "unix-time" => ArgumentKind::Integer,
        "double" => ArgumentKind::Double,
        "pure-token" => ArgumentKind::Token,
        "block" => ArgumentKind::Block(children()),
        "oneof" => ArgumentKind::OneOf(children()),
        _ => ArgumentKind::Text,
    };
    let flags: Vec<String> = field(value, "flags").map(items).unwrap_or_default().iter().filter_map(text).collect();
    let has = |name: &str| flags.iter().any(|flag| flag == name);
    Some(DocumentedArgument {
        name: text_field(value, "display_text").or_else(|| text_field(value, "name"))?,
        token: text_field(value, "token"),
        kind,
        optional: has("optional"),
        repeats: has("multiple"),
        repeats_token: has("multiple_token"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_at_hand_without_a_server() {
        let docs = Docs::known();
        assert!(docs.commands.len() > 390 && docs.groups.contains(&"sorted-set".to_owned()));
        let words = |line: &str| resp::words::split(line.as_bytes()).unwrap();
        let found = |line: &str| docs.find(&words(line)).map(|(command, count)| (command.name.as_str(), count));
        assert_eq!(found("get key"), Some(("GET", 1)));
        assert_eq!(found("Config sEt a b"), Some(("CONFIG SET", 2)));
        assert_eq!(found("config nope"), Some(("CONFIG", 1)));
        assert_eq!(found("nope"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn commands_that_a_server_lacks_are_left_out() {
        let row = |name: &str| Value::Array(vec![Value::Bulk(name.into()), Value::Int(2)]);
        let docs = Docs::known().only(&Value::Array(vec![row("get"), row("config"), row("mod.do")]));
        let names: Vec<_> = docs.commands.iter().map(|command| command.name.as_str()).collect();
        assert!(names.starts_with(&["CONFIG", "CONFIG GET"]) && names.ends_with(&["GET", "MOD.DO"]), "{names:?}");
        assert!(!names.contains(&"SET"));
        assert!(Docs::known().only(&Value::Null).commands.len() > 390);
    }

    #[test]
    fn both_protocols_and_nonsense_are_read() {
        let decode = |bytes: &str| Decoder::new().decode(bytes.as_bytes()).unwrap().unwrap().0;
        let argument = "*1\r\n*6\r\n+name\r\n+n\r\n+type\r\n+integer\r\n+flags\r\n*1\r\n+optional\r\n";
        let reply = format!("*2\r\n$1\r\nx\r\n*4\r\n+summary\r\n+S.\r\n+arguments\r\n{argument}");
        let docs = Docs::read(&decode(&reply));
        let [command] = &docs.commands[..] else { panic!("{docs:?}") };
        assert_eq!((command.name.as_str(), command.summary.as_str()), ("X", "S."));
        assert!(matches!(
            &command.arguments[..],
            [DocumentedArgument { kind: ArgumentKind::Integer, optional: true, .. }]
        ));
        for nonsense in ["*3\r\n:1\r\n:2\r\n:3\r\n", "%1\r\n+a\r\n:1\r\n", "+OK\r\n", "-ERR\r\n"] {
            assert!(Docs::read(&decode(nonsense)).commands.is_empty());
        }
    }
}
