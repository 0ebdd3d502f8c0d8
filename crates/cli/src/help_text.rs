//! `help`: the words that the program takes, and descriptions of commands and groups.
//!
//! Texts and colors are valkey-cli's, with its ends of lines (`\r\n`).

use crate::docs::{CommandDocs, Docs};
use crate::hint::syntax;

const GENERAL: &str = "\
To get help about commands type:
      \"help @<group>\" to get a list of commands in <group>
      \"help <command>\" for help on <command>
      \"help <tab>\" to get a list of possible help topics
      \"quit\" to exit

Some lines are for cinnabar-cli itself:
      N <command>           send the command N times
      connect <host> <port> go to another server
      clear                 clear the screen

To set cinnabar-cli preferences:
      \":set hints\" enable online hints
      \":set nohints\" disable online hints
Set your preferences in ~/.valkeyclirc
";

/// Returns the answer to `help` with these words behind it.
pub fn help(docs: &Docs, topic: &[Vec<u8>]) -> String {
    let mut out = String::new();
    match topic.first().map(|word| &word[..]) {
        None => return format!("cinnabar-cli {}\n{GENERAL}", resp::served_version::NAMES),
        Some([b'@', group @ ..]) => {
            let members = docs.commands.iter().filter(|command| command.group.as_bytes().eq_ignore_ascii_case(group));
            members.for_each(|command| describe(&mut out, command, false));
        }
        Some(_) => {
            let named = docs.commands.iter().filter(|command| command.starts_with(topic));
            named.for_each(|command| describe(&mut out, command, true));
        }
    }
    out + "\r\n"
}

fn describe(out: &mut String, command: &CommandDocs, with_group: bool) {
    out.push_str(&format!("\r\n  \x1b[1m{}\x1b[0m \x1b[90m{}\x1b[0m\r\n", command.name, syntax(&command.arguments)));
    out.push_str(&format!("  \x1b[33msummary:\x1b[0m {}\r\n", command.summary));
    out.push_str(&format!("  \x1b[33msince:\x1b[0m {}\r\n", command.since));
    if with_group {
        out.push_str(&format!("  \x1b[33mgroup:\x1b[0m {}\r\n", command.group));
    }
}

/// Returns completions of the line, and the byte at which they start: names of commands; behind `help ` also groups.
pub fn completions(docs: &Docs, line: &str) -> (usize, Vec<String>) {
    let topic = line.get(..5).filter(|start| start.eq_ignore_ascii_case("help ")).map(|_| line[5..].trim_start());
    let typed = topic.unwrap_or(line);
    let groups = docs.groups.iter().filter(|_| topic.is_some()).map(|group| format!("@{group}"));
    let names = groups.chain(docs.commands.iter().map(|command| command.name.clone()));
    let begins = |name: &String| name.get(..typed.len()).is_some_and(|start| start.eq_ignore_ascii_case(typed));
    (line.len() - typed.len(), names.filter(begins).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_described() {
        let docs = Docs::known();
        let of = |topic: &str| help(&docs, &resp::words::split(topic.as_bytes()).unwrap());
        let get = "\r\n  \x1b[1mGET\x1b[0m \x1b[90mkey\x1b[0m\r\n  \x1b[33msummary:\x1b[0m Returns the string value of a key.\r\n  \
            \x1b[33msince:\x1b[0m 1.0.0\r\n  \x1b[33mgroup:\x1b[0m string\r\n\r\n";
        assert_eq!(of("get"), get);
        assert_eq!(of("nope"), "\r\n");
        assert!(of("@STRING").contains("MSETNX") && !of("@string").contains("group:"));
        assert_eq!(of("config").matches("since:").count(), 6);
        assert!(of("").starts_with("cinnabar-cli "));
    }

    #[test]
    fn names_are_completed() {
        let docs = Docs::known();
        assert_eq!(completions(&docs, "lra"), (0, vec!["LRANGE".to_owned()]));
        assert_eq!(completions(&docs, "config rese"), (0, vec!["CONFIG RESETSTAT".to_owned()]));
        assert_eq!(completions(&docs, "help  @stri"), (6, vec!["@string".to_owned()]));
        assert_eq!(completions(&docs, "help bitop"), (5, vec!["BITOP".to_owned()]));
        assert_eq!(completions(&docs, "é").1, Vec::<String>::new());
    }
}
