//! Configuration text to values, at start.
//!
//! The file, standard input and the options of the command line are one text, read line by line: a directive and its
//! words, `#` before a comment. The first mistake ends it, and the report quotes the line.

use std::io;

use super::command_line::CommandLine;
use super::directive::Directive;
use super::directive_entry::{DirectiveEntry, DirectiveKind};
use super::directive_table;
use super::directive_value::{DirectiveValue, SavePoint};
use super::store::Config;
use resp::words;

/// Files, folders and tables that loading reads.
pub trait ConfigFiles {
    /// Reads the whole file at `path`.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    fn read_file(&self, path: &[u8]) -> io::Result<Vec<u8>>;
    /// Reads all of standard input, up to its end.
    ///
    /// # Errors
    /// It cannot be read.
    fn read_stdin(&self) -> io::Result<Vec<u8>>;

    /// Returns the paths that match a shell pattern, sorted; none is no error.
    fn glob(&self, pattern: &[u8]) -> Vec<Vec<u8>>;

    /// Changes the working directory and returns its absolute path.
    ///
    /// # Errors
    /// The folder is missing or may not be entered.
    fn change_dir(&self, path: &[u8]) -> io::Result<Vec<u8>>;

    /// Checks that the log file can be opened for appending.
    ///
    /// # Errors
    /// The file cannot be opened.
    fn can_append(&self, path: &[u8]) -> io::Result<()>;

    /// Whether there is a command of this name, which `rename-command` asks.
    fn command_exists(&self, name: &[u8]) -> bool;

    /// Checks a `user` line, given as words; `earlier`: the ones before it.
    ///
    /// # Errors
    /// The line is refused: the position of the word at fault, and what is wrong with it.
    fn check_user(&self, words: &[Vec<u8>], earlier: &[Vec<Vec<u8>>]) -> Result<(), (usize, String)>;
}

/// A configuration, and the lines of its text that are no directives.
#[derive(Clone, Debug, Default)]
pub struct LoadedConfig {
    /// The values of all directives.
    pub config: Config,
    /// `rename-command`: old and new name, in order; an empty new name removes the command.
    pub renames: Vec<(Vec<u8>, Vec<u8>)>,
    /// `user` lines as words, the first is `user`.
    pub users: Vec<Vec<Vec<u8>>>,
    /// `loadmodule` lines as words without the first.
    pub modules: Vec<Vec<Vec<u8>>>,
    /// Settings of modules (names with a dot) and their values.
    pub module_settings: Vec<(Vec<u8>, Vec<u8>)>,
    /// `sentinel` lines; without a Sentinel there are none.
    pub sentinel: Vec<SentinelStatement>,
}

/// A `sentinel` line.
#[derive(Clone, Debug, Default)]
pub struct SentinelStatement {
    /// Number of its line in the text.
    pub number: usize,
    /// The line as it is written.
    pub line: Vec<u8>,
    /// Its words without the first.
    pub words: Vec<Vec<u8>>,
}

/// Why the server must not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// A mistake in the text.
    Text {
        /// Number and content of the line; None for a mistake of the whole.
        line: Option<(usize, Vec<u8>)>,
        /// Message for the operator.
        message: String,
    },
    /// A line of the log: a file that cannot be read.
    File {
        /// The line of the log, which names the file.
        message: String,
    },
}

impl LoadError {
    /// Returns the text for standard error; a [`LoadError::File`] goes to the log instead, as it is.
    pub fn report(&self, version: &str) -> Vec<u8> {
        match self {
            LoadError::File { message } => message.clone().into_bytes(),
            LoadError::Text { line, message } => {
                let mut report = format!("\n*** FATAL CONFIG FILE ERROR (Version {version}) ***\n").into_bytes();
                if let Some((number, text)) = line {
                    report.extend(format!("Reading the configuration file, at line {number}\n>>> '").into_bytes());
                    report.extend_from_slice(text);
                    report.extend_from_slice(b"'\n");
                }
                report.extend_from_slice(message.as_bytes());
                report.push(b'\n');
                report
            }
        }
    }
}

/// Depth at which files that include one another are refused.
const INCLUDE_DEPTH_MAX: usize = 100;

/// Obsolete directives: ignored, with one value.
const FORGOTTEN: [&[u8]; 6] = [
    b"dynamic-hz",
    b"io-threads-do-reads",
    b"list-max-ziplist-entries",
    b"list-max-ziplist-value",
    b"lua-replicate-commands",
    b"sanitize-dump-payload",
];

/// Reads the whole configuration that the command line asks for.
///
/// # Errors
/// A file that cannot be read, or the first line that is no valid directive: the server must not start.
pub fn load(command_line: &CommandLine, host: &dyn ConfigFiles) -> Result<LoadedConfig, LoadError> {
    let sentinel = command_line.sentinel;
    let loaded = LoadedConfig::default();
    let mut loader = Loader { host, loaded, sentinel, save_seen: false, threads_seen: [false; 2], depth: 0 };
    if sentinel {
        // Clients that ask a Sentinel for a primary come from other machines, without a password.
        loader.loaded.config.replace(Directive::PORT, DirectiveValue::Integer(SENTINEL_PORT));
        loader.loaded.config.replace(Directive::PROTECTED_MODE, DirectiveValue::Flag(false));
    }
    if let Ok(path) = host.change_dir(b".") {
        loader.loaded.config.replace(Directive::DIR, DirectiveValue::Text(Some(path.into())));
    }
    let mut text = match &command_line.config_file {
        Some(path) => loader.read(path)?,
        None => Vec::new(),
    };
    if command_line.read_stdin {
        let stdin = host.read_stdin().map_err(|error| LoadError::File {
            message: format!("Fatal error, can't read the configuration from stdin: {}", os_message(&error)),
        })?;
        text.extend_from_slice(&stdin);
    }
    if !command_line.options.is_empty() {
        text.push(b'\n');
        text.extend_from_slice(&command_line.options);
    }
    loader.text(&text)?;
    loader.finish()
}

/// Port of a Sentinel, if no line sets another.
const SENTINEL_PORT: i64 = 26379;

struct Loader<'h> {
    host: &'h dyn ConfigFiles,
    loaded: LoadedConfig,
    /// Whether a Sentinel is asked for.
    sentinel: bool,
    /// Whether a `save` line was seen: the first one replaces the defaults, the others add.
    save_seen: bool,
    /// Whether `io-threads` and `threads` lines were seen.
    threads_seen: [bool; 2],
    depth: usize,
}

impl Loader<'_> {
    /// Reads a file, or all files that a pattern matches, one after the other.
    fn read(&self, path: &[u8]) -> Result<Vec<u8>, LoadError> {
        let paths = if path.iter().any(|c| b"*?[".contains(c)) { self.host.glob(path) } else { vec![path.to_vec()] };
        let mut text = Vec::new();
        for path in paths {
            let content = self.host.read_file(&path).map_err(|error| {
                let path = String::from_utf8_lossy(&path);
                let message = format!("Fatal error, can't open config file '{path}': {}", os_message(&error));
                LoadError::File { message }
            })?;
            text.extend_from_slice(&content);
        }
        Ok(text)
    }

    fn text(&mut self, text: &[u8]) -> Result<(), LoadError> {
        for (at, line) in text.split(|&c| c == b'\n').enumerate() {
            let line = trim(line);
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let located = |message: String| LoadError::Text { line: Some((at + 1, line.to_vec())), message };
            let Some(mut words) = words::split(line) else {
                return Err(located("Unbalanced quotes in configuration line".to_string()));
            };
            let Some(name) = words.first_mut() else {
                continue;
            };
            name.make_ascii_lowercase();
            let (is_include, is_sentinel) = (name == b"include", name == b"sentinel");
            if is_include && words.len() == 2 {
                self.include(&words[1], &located)?;
            } else if is_sentinel && words.len() > 1 {
                let words = words.split_off(1);
                self.loaded.sentinel.push(SentinelStatement { number: at + 1, line: line.to_vec(), words });
            } else {
                self.line(&words).map_err(located)?;
            }
        }
        self.check()
    }

    fn include(&mut self, path: &[u8], located: &dyn Fn(String) -> LoadError) -> Result<(), LoadError> {
        if self.depth == INCLUDE_DEPTH_MAX {
            return Err(located("Too many nested includes".to_string()));
        }
        self.depth += 1;
        let text = self.read(path)?;
        self.text(&text)?;
        self.depth -= 1;
        Ok(())
    }

    fn line(&mut self, words: &[Vec<u8>]) -> Result<(), String> {
        let (name, values) = (&words[0], &words[1..]);
        if let Some(found) = directive_table::find(name) {
            return self.directive(found.entry, values);
        }
        if FORGOTTEN.contains(&name.as_slice()) && values.len() == 1 {
            return Ok(());
        }
        match name.as_slice() {
            b"rename-command" if values.len() == 2 => self.rename(&values[0], &values[1]),
            b"user" if !values.is_empty() => {
                self.host.check_user(words, &self.loaded.users).map_err(|(at, text)| {
                    let word = words.get(at).map(|word| String::from_utf8_lossy(word)).unwrap_or_default();
                    format!("Error in user declaration '{word}': {text}")
                })?;
                self.loaded.users.push(words.to_vec());
                Ok(())
            }
            b"loadmodule" if !values.is_empty() => {
                self.loaded.modules.push(values.to_vec());
                Ok(())
            }
            name if name.contains(&b'.') => {
                if values.is_empty() {
                    return Err("Module config specified without value".to_string());
                }
                self.loaded.module_settings.push((name.to_vec(), values.join(&b' ')));
                Ok(())
            }
            b"sentinel" => Ok(()),
            _ => Err("Bad directive or wrong number of arguments".to_string()),
        }
    }

    fn directive(&mut self, entry: &'static DirectiveEntry, values: &[Vec<u8>]) -> Result<(), String> {
        // A value that is quoted as a whole may still be several words.
        let split_again = match values {
            [only] if entry.takes_words() && !only.is_empty() => Some(words::split(only).unwrap_or_default()),
            [_] => None,
            _ if !entry.takes_words() => return Err("wrong number of arguments".to_string()),
            _ => None,
        };
        let words: Vec<&[u8]> = split_again.as_deref().unwrap_or(values).iter().map(Vec::as_slice).collect();
        let config = &mut self.loaded.config;
        let mut value = entry.parse(&words, config.value(entry.directive))?;
        if let Some(reason) = entry.refusal(&value) {
            return Err(format!("{}. Remove the line.", reason.trim_end_matches('.')));
        }
        match (entry.kind, &value) {
            (DirectiveKind::Save, DirectiveValue::Save(points)) => {
                if self.save_seen && words != [b"" as &[u8]] {
                    let all: Vec<SavePoint> = config.save_points().iter().chain(points.iter()).copied().collect();
                    value = DirectiveValue::Save(all.into());
                }
                self.save_seen = true;
            }
            (DirectiveKind::Dir, DirectiveValue::Text(Some(path))) => {
                let moved = self.host.change_dir(path).map_err(|error| os_message(&error))?;
                value = DirectiveValue::Text(Some(moved.into()));
            }
            _ => {}
        }
        match entry.directive {
            Directive::IO_THREADS => self.threads_seen[0] = true,
            Directive::THREADS => self.threads_seen[1] = true,
            _ => {}
        }
        config.replace(entry.directive, value);
        Ok(())
    }

    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), String> {
        if !self.command_exists(from) {
            return Err("No such command in rename-command".to_string());
        }
        // Renaming a command to its own name is harmless: it is gone before the new one is looked for.
        self.loaded.renames.push((from.to_vec(), Vec::new()));
        if !to.is_empty() && self.command_exists(to) {
            return Err("Target command name already exists".to_string());
        }
        if let Some(last) = self.loaded.renames.last_mut() {
            last.1 = to.to_vec();
        }
        Ok(())
    }

    /// Whether the name is taken after the renames so far.
    fn command_exists(&self, name: &[u8]) -> bool {
        let last = self.loaded.renames.iter().rev().find_map(|(from, to)| {
            if name.eq_ignore_ascii_case(to) {
                Some(true)
            } else if name.eq_ignore_ascii_case(from) {
                Some(false)
            } else {
                None
            }
        });
        last.unwrap_or_else(|| self.host.command_exists(name))
    }

    /// Checks rules about several lines; called at the end of each file.
    fn check(&self) -> Result<(), LoadError> {
        let config = &self.loaded.config;
        let mistake = |message: String| Err(LoadError::Text { line: None, message });
        let logfile = config.text(Directive::LOGFILE);
        if !logfile.is_empty()
            && let Err(error) = self.host.can_append(logfile)
        {
            return mistake(format!("Can't open the log file: {}", os_message(&error)));
        }
        if config.flag(Directive::CLUSTER_ENABLED) && config.upstream().is_some() {
            return mistake("replicaof directive not allowed in cluster mode".to_string());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<LoadedConfig, LoadError> {
        if !self.sentinel
            && self.loaded.config.int(Directive::SENTINEL_PORT) == 0
            && let Some(SentinelStatement { number, line, .. }) = self.loaded.sentinel.first()
        {
            let message = "sentinel directive while not in sentinel mode".to_string();
            return Err(LoadError::Text { line: Some((*number, line.clone())), message });
        }
        if self.threads_seen == [true, false] {
            let config = &mut self.loaded.config;
            config.replace(Directive::THREADS, config.value(Directive::IO_THREADS).clone());
        }
        self.loaded.config.set_unmet_aside();
        Ok(self.loaded)
    }
}

fn trim(line: &[u8]) -> &[u8] {
    let blank = |c: &u8| b" \t\r\n".contains(c);
    let start = line.iter().position(|c| !blank(c)).unwrap_or(line.len());
    let end = line.iter().rposition(|c| !blank(c)).map_or(start, |at| at + 1);
    &line[start..end]
}

/// Returns the operating system's text alone, without the number that the standard library appends.
pub fn os_message(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_string(),
        None => text,
    }
}
