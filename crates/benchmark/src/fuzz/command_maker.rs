//! Random commands that keep to their syntax: optional arguments at random, numbers that announce what follows, keys
//! named after the type that the command is of.

use super::docs_reader::{self as syntax, Argument, CommandSyntax};
use super::fuzz_options::FuzzMode;
use crate::options::Options;
use crate::setup;
use fastrand::Rng;
use resp::reply_fields;

/// A command of words.
pub type Words = Vec<Vec<u8>>;

/// The server's commands, and words that fit in them.
#[derive(Debug, Default)]
pub struct Vocabulary {
    commands: Vec<CommandSyntax>,
    categories: Vec<String>,
    directives: Vec<(String, String)>,
}

/// Commands that are not sent, by their first words: see the module above.
const LEFT_OUT: [&str; 29] = [
    "ASKING",
    "BGREWRITEAOF",
    "BGSAVE",
    "CLUSTER",
    "CLUSTERSCAN",
    "DEBUG",
    "FAILOVER",
    "FLUSHALL",
    "FLUSHDB",
    "MONITOR",
    "PFSELFTEST",
    "PSYNC",
    "REPLICAOF",
    "SAVE",
    "SENTINEL",
    "SHUTDOWN",
    "SLAVEOF",
    "SYNC",
    "CLIENT ACKNOWLEDGE",
    "CLIENT PAUSE",
    "CLIENT REPLY",
    "CLIENT STRIKE",
    "CONFIG REWRITE",
    "CONFIG SET",
    "ACL LOAD",
    "ACL SAVE",
    "MODULE LOAD",
    "MODULE LOADEX",
    "SCRIPT DEBUG",
];

/// Beginnings of directives that are not set: the server could not be reached, would take no writes, or would write
/// elsewhere.
const DIRECTIVES_LEFT_OUT: [&str; 20] = [
    "bind",
    "port",
    "tls",
    "unix",
    "protected",
    "requirepass",
    "max",
    "min",
    "in-sync",
    "ack",
    "dir",
    "dbfilename",
    "append",
    "log",
    "user",
    "acl",
    "primary",
    "master",
    "replica",
    "save",
];

const TYPES: [&str; 9] = ["string", "list", "hash", "set", "zset", "stream", "geo", "hll", "bitmap"];
const USERS: [&str; 5] = ["alice", "bob", "charlie", "dave", "eve"];
const VALUE_MAX: usize = 512;
/// Elements at most of an argument that repeats.
const TIMES_MAX: usize = 5;
/// Depth of commands within scripts and containers.
const DEPTH_MAX: usize = 2;

impl Vocabulary {
    /// Asks the server.
    ///
    /// # Errors
    ///
    /// A text for the user.
    pub fn ask(options: &Options) -> Result<Vocabulary, String> {
        let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Words>();
        let answers = setup::ask(options, &["COMMAND DOCS", "ACL CAT", "CONFIG GET *"].map(words))?;
        let [docs, categories, directives] = &answers[..] else { return Err("Failed to init fuzzer.".into()) };
        if let resp::Value::Error(text) = docs {
            let text = String::from_utf8_lossy(text);
            return Err(format!("Error: Failed to execute COMMAND DOCS. {text}\nFailed to init fuzzer."));
        }
        let is_sent = |command: &CommandSyntax| {
            let name = command.name.join(" ");
            !LEFT_OUT.iter().any(|left_out| name == *left_out || command.name.first().is_some_and(|n| n == left_out))
        };
        let commands: Vec<_> = syntax::commands(docs).into_iter().filter(is_sent).collect();
        if commands.is_empty() {
            return Err("Failed to init fuzzer.".into());
        }
        let pair = |(name, value)| Some((reply_fields::text(name)?, reply_fields::text(value)?));
        let may_be_set =
            |(name, _): &(String, String)| !DIRECTIVES_LEFT_OUT.iter().any(|start| name.starts_with(start));
        Ok(Vocabulary {
            commands,
            categories: reply_fields::items(categories).iter().filter_map(reply_fields::text).collect(),
            directives: if options.fuzz.modes.contains(&FuzzMode::Directives) {
                reply_fields::fields(directives).into_iter().filter_map(pair).filter(may_be_set).collect()
            } else {
                Vec::new()
            },
        })
    }

    /// Returns a random command.
    pub fn command(&self, rng: &mut Rng) -> Words {
        const DIRECTIVE_EVERY: usize = 50;
        if !self.directives.is_empty() && rng.usize(..DIRECTIVE_EVERY) == 0 {
            return self.directive(rng);
        }
        self.within(rng, DEPTH_MAX)
    }

    /// Returns a random command of the connection itself, for a connection that receives messages.
    pub fn command_while_subscribed(&self, rng: &mut Rng) -> Words {
        let leaves = ["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "RESET", "PING"];
        vec![leaves[rng.usize(..leaves.len())].into()]
    }

    fn within(&self, rng: &mut Rng, depth: usize) -> Words {
        let command = &self.commands[rng.usize(..self.commands.len())];
        let mut made = Made { vocabulary: self, rng, words: Vec::new(), announced: None, group: &command.group, depth };
        command.name.iter().for_each(|word| made.put(word));
        match command.name[0].as_str() {
            "EVAL" | "EVAL_RO" => made.script(),
            _ => made.all(&command.arguments),
        }
        made.words
    }

    /// Returns CONFIG SET of a directive, with a value of its kind.
    fn directive(&self, rng: &mut Rng) -> Words {
        let (name, value) = &self.directives[rng.usize(..self.directives.len())];
        let value = match value.as_str() {
            "yes" | "no" => ["yes", "no"][rng.usize(..2)].to_owned(),
            number => match number.parse::<u64>() {
                Ok(number) => rng.u64(..=number.saturating_mul(2).max(1)).to_string(),
                Err(_) if value.is_empty() => format!("random-string-{}", rng.usize(..1000)),
                Err(_) => value.clone(),
            },
        };
        ["CONFIG", "SET", name, &value].map(|word| word.as_bytes().to_vec()).to_vec()
    }
}

/// A command that is being made.
struct Made<'v> {
    vocabulary: &'v Vocabulary,
    rng: &'v mut Rng,
    words: Words,
    /// Elements that a number has announced.
    announced: Option<usize>,
    group: &'v str,
    depth: usize,
}

impl Made<'_> {
    fn put(&mut self, word: &str) {
        self.words.push(word.as_bytes().to_vec());
    }

    fn all(&mut self, arguments: &[Argument]) {
        for argument in arguments {
            if !argument.is_optional || self.rng.bool() {
                self.one(argument);
            }
        }
    }

    fn one(&mut self, argument: &Argument) {
        let times = match self.announced.take_if(|_| argument.repeats && argument.kind != "oneof") {
            Some(announced) => announced,
            None if argument.repeats && !self.has_streams() => self.rng.usize(1..=TIMES_MAX),
            None => 1,
        };
        if argument.kind == "oneof" {
            if let Some(token) = &argument.token {
                self.put(token);
            }
            let choice = &argument.parts[self.rng.usize(..argument.parts.len().max(1))];
            return self.one(choice);
        }
        for time in 0..times {
            if let Some(token) = argument.token.as_ref().filter(|_| time == 0 || argument.repeats_token) {
                self.put(token);
            }
            match argument.kind.as_str() {
                "pure-token" => {}
                "block" => self.all(&argument.parts),
                kind => {
                    let word = self.word(kind, &argument.name);
                    self.put(&word);
                }
            }
        }
    }

    /// Streams are followed by as many ids.
    fn has_streams(&self) -> bool {
        self.words.iter().any(|word| word == b"STREAMS")
    }

    fn word(&mut self, kind: &str, name: &str) -> String {
        match kind {
            "key" => {
                let number = self.rng.usize(..5);
                format!("{}:{number}", self.type_of_key())
            }
            "integer" if name.starts_with("num") => {
                let announced = self.rng.usize(1..=TIMES_MAX);
                self.announced = Some(announced);
                announced.to_string()
            }
            // Waits are short.
            "integer" if name == "timeout" || name == "milliseconds" => self.rng.usize(1..50).to_string(),
            "integer" => self.rng.usize(..50).to_string(),
            "double" if name == "timeout" => format!("{:.6}", self.rng.f64().max(0.001)),
            "double" => format!("{:.6}", self.rng.f64() * 50.0),
            "unix-time" => (1_900_000_000u64 + self.rng.u64(..100)).to_string(),
            "pattern" => "*".to_owned(),
            _ => self.string(name),
        }
    }

    fn type_of_key(&mut self) -> &'static str {
        match self.group {
            "string" => "string",
            "list" => "list",
            "hash" => "hash",
            "set" => "set",
            "sorted-set" | "sorted_set" => "zset",
            "stream" => "stream",
            "geo" => "geo",
            "hyperloglog" => "hll",
            "bitmap" => "bitmap",
            _ => TYPES[self.rng.usize(..TYPES.len())],
        }
    }

    fn string(&mut self, name: &str) -> String {
        let number = self.rng.usize(..50);
        let small = number % 10;
        match name {
            "value" | "data" => "x".repeat(self.rng.usize(1..=VALUE_MAX)),
            "field" => format!("field:{}", number % 20),
            "member" | "member1" | "member2" if self.group != "list" => format!("member:{number}"),
            "element" | "pivot" => format!("elem-{}", number % 30),
            "channel" | "shardchannel" => format!("channel:{}", number % 2),
            "group" | "groupname" => format!("group-{small}"),
            "consumer" | "consumername" | "consumer-name" => format!("consumer-{}", number % 15),
            "id" | "ID" | "start-id" | "last-id" => self.stream_id(number),
            "start" | "end" | "min" | "max" if self.group == "stream" => ["-", "+", "0-1"][number % 3].to_owned(),
            "min" | "max" => format!("{}a{number}", ["[", "("][number % 2]),
            "encoding" => format!("{}{}", ["i", "u"][number % 2], [1, 2, 8, 16, 32][number % 5]),
            "offset" => format!("{}{number}", ["", "#"][number % 2]),
            "username" => USERS[number % USERS.len()].to_owned(),
            "password" => format!("pass{number}"),
            "host" => "127.0.0.1".to_owned(),
            "sha1" => (0..40).map(|_| self.rng.digit(16)).collect(),
            "script" => "return 1".to_owned(),
            "library-name" | "library-name-pattern" => format!("lib{}", number % 5),
            "function-code" => format!(
                "#!lua name=lib{}\nserver.register_function('f{small}', function() return {number} end)",
                number % 5
            ),
            "function" => format!("f{small}"),
            "categoryname" | "category" if !self.vocabulary.categories.is_empty() => {
                self.vocabulary.categories[number % self.vocabulary.categories.len()].clone()
            }
            "command" | "command-name" => {
                let commands = &self.vocabulary.commands;
                commands[self.rng.usize(..commands.len())].name[0].clone()
            }
            "serialized-value" | "serialized-payload" => String::new(),
            "message" => format!("message-{number}"),
            "arg" => format!("arg{small}"),
            "event" => ["command", "evicted", "fork"][number % 3].to_owned(),
            "connection-name" | "clientname" => format!("conn-{number}"),
            _ => format!("str-{name}-{number}"),
        }
    }

    fn stream_id(&mut self, number: usize) -> String {
        match self.words.first().map(Vec::as_slice) {
            Some(b"XADD") => "*".to_owned(),
            Some(b"XREADGROUP") => ">".to_owned(),
            _ => format!("{}-{number}", self.rng.usize(..1000)),
        }
    }

    /// Puts a script that calls a command, and no keys.
    fn script(&mut self) {
        let inner = match self.depth.checked_sub(1) {
            Some(depth) => self.vocabulary.within(self.rng, depth),
            None => vec![b"PING".to_vec()],
        };
        let quoted: Vec<String> = inner.iter().map(|word| quoted(word)).collect();
        self.put(&format!("local result = {{}} result[1] = redis.call({}) return result", quoted.join(",")));
        self.put("0");
    }
}

/// Returns the word as a string of Lua.
fn quoted(word: &[u8]) -> String {
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    let escaped = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("\\{byte:03}") };
    format!("\"{}\"", word.iter().map(|byte| escaped(*byte)).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(name: &str, kind: &str) -> Argument {
        Argument { name: name.into(), kind: kind.into(), ..Argument::default() }
    }

    fn vocabulary(name: &str, group: &str, arguments: Vec<Argument>) -> Vocabulary {
        let name = name.split(' ').map(str::to_owned).collect();
        Vocabulary { commands: vec![CommandSyntax { name, group: group.into(), arguments }], ..Vocabulary::default() }
    }

    #[test]
    fn a_number_announces_as_many_keys() {
        let mut keys = argument("key", "key");
        keys.repeats = true;
        let vocabulary = vocabulary("ZUNION", "sorted-set", vec![argument("numkeys", "integer"), keys]);
        let mut rng = Rng::with_seed(3);
        for _ in 0..100 {
            let words = vocabulary.command(&mut rng);
            let announced = String::from_utf8_lossy(&words[1]).parse::<usize>().unwrap();
            assert_eq!(words.len(), 2 + announced);
            assert!(words[2..].iter().all(|key| key.starts_with(b"zset:")));
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_commands() {
        let made = |seed| {
            let vocabulary = vocabulary("SET", "string", vec![argument("key", "key"), argument("value", "string")]);
            let mut rng = Rng::with_seed(seed);
            (0..20).map(|_| vocabulary.command(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(made(5), made(5));
        assert_ne!(made(5), made(6));
    }

    #[test]
    fn words_are_quoted_for_scripts() {
        assert_eq!(quoted(b"a\"b\\\n\xff"), "\"a\\034b\\092\\010\\255\"");
    }
}
