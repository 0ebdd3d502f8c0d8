//! Help while a user types on a terminal: the hint behind the cursor and completion with Tab; and the user's
//! preferences.
//!
//! Preferences are lines such as `:set nohints`, typed or in a file: the one that VALKEYCLI_RCFILE or REDISCLI_RCFILE
//! names, else `~/.valkeyclirc`.

use std::borrow::Cow;
use std::path::PathBuf;

use resp::words;
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use crate::docs::Docs;
use crate::protocol_client::Client;
use crate::{help_text, hint, next_word};

#[derive(Debug)]
pub struct Completion {
    /// The server's commands; None until the server was asked.
    docs: Option<Docs>,
    shows_hints: bool,
}

impl Completion {
    pub fn new() -> Completion {
        Completion { docs: None, shows_hints: true }
    }

    /// Asks the server for its commands, unless one has answered already.
    pub fn learn(&mut self, client: &mut dyn Client) -> &Docs {
        self.docs.get_or_insert_with(|| learn(client))
    }

    /// Forgets the commands, because the connection goes to another server now.
    pub fn forget(&mut self) {
        self.docs = None;
    }

    /// Executes a line that begins with a colon; `place` stands before complaints. Returns the text to print.
    pub fn set(&mut self, arguments: &[Vec<u8>], place: &str) -> Option<String> {
        let [name, what, ..] = arguments else {
            return Some(unknown(place, arguments.first()));
        };
        match (name.to_ascii_lowercase().as_slice(), what.to_ascii_lowercase().as_slice()) {
            (b":set", b"hints") => self.shows_hints = true,
            (b":set", b"nohints") => self.shows_hints = false,
            (b":set", _) => {
                let what = String::from_utf8_lossy(what);
                return Some(format!("{place}unknown cinnabar-cli preference '{what}'\n"));
            }
            _ => return Some(unknown(place, Some(name))),
        }
        None
    }

    /// Executes the lines of the user's file. Returns the complaints.
    pub fn read_preferences(&mut self) -> String {
        let text = preferences_file().and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n').filter_map(words::split).filter(|words| !words.is_empty());
        lines.filter_map(|words| self.set(&words, ".valkeyclirc: ")).collect()
    }
}

/// Returns the server's commands, as it documents them. Without documentation: its commands that are known here, and
/// the names of its others. Without any reply: all known commands.
pub fn learn(client: &mut dyn Client) -> Docs {
    let told = client.command_docs().map(|reply| Docs::read(&reply)).filter(|docs| !docs.commands.is_empty());
    told.unwrap_or_else(|| match client.command_table() {
        Some(table) => Docs::known().only(&table),
        None => Docs::known(),
    })
}

fn unknown(place: &str, name: Option<&Vec<u8>>) -> String {
    let name = String::from_utf8_lossy(name.map_or(b"", |name| name));
    format!("{place}unknown cinnabar-cli internal command '{name}'\n")
}

fn preferences_file() -> Option<PathBuf> {
    let named = std::env::var_os("VALKEYCLI_RCFILE").or_else(|| std::env::var_os("REDISCLI_RCFILE"));
    let home = || std::env::var_os("HOME").filter(|home| !home.is_empty());
    match named {
        Some(path) => Some(PathBuf::from(path)),
        None => home().map(|home| PathBuf::from(home).join(".valkeyclirc")),
    }
}

/// A hint that is shown, but not typed by the key that accepts hints.
pub struct Shown(String);

impl Hint for Shown {
    fn display(&self) -> &str {
        &self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for Completion {
    type Hint = Shown;

    /// Returns what may follow the whole line, wherever the cursor is.
    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<Shown> {
        let docs = self.docs.as_ref().filter(|_| self.shows_hints)?;
        let hint = hint::hint(docs, line.as_bytes()).filter(|hint| !hint.is_empty())?;
        let blank = if line.ends_with(|last: char| last.is_ascii_whitespace()) { "" } else { " " };
        Some(Shown(format!("{blank}{hint}")))
    }
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let Some(docs) = &self.docs else { return Ok((0, Vec::new())) };
        let (start, names) = help_text::completions(docs, &line[..at]);
        Ok(if names.is_empty() { next_word::completions(docs, &line[..at]) } else { (start, names) })
    }
}

impl Highlighter for Completion {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[0;90;49m{hint}\x1b[0m"))
    }
}

impl Validator for Completion {}
impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_are_set() {
        let mut guide = Completion::new();
        let mut set = |line: &str| guide.set(&words::split(line.as_bytes()).unwrap(), "");
        assert_eq!(set(":SET NoHints"), None);
        assert_eq!(set(":set foo").as_deref(), Some("unknown cinnabar-cli preference 'foo'\n"));
        assert_eq!(set(":set").as_deref(), Some("unknown cinnabar-cli internal command ':set'\n"));
        assert_eq!(set("get a").as_deref(), Some("unknown cinnabar-cli internal command 'get'\n"));
        assert!(!guide.shows_hints);
        assert_eq!(guide.set(&[b":set".to_vec(), b"hints".to_vec()], ""), None);
        assert!(guide.shows_hints);
    }
}
