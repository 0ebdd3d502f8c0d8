//! Log lines in Valkey's format:
//!
//! ```text
//! 1234:M 21 Nov 2026 05:26:01.123 * Ready to accept connections tcp
//! ```

use jiff::Zoned;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::OnceLock;

/// How important a line is; the sign is part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    Verbose,
    Notice,
    Warning,
}

impl Level {
    fn sign(self) -> char {
        match self {
            Level::Debug => '.',
            Level::Verbose => '-',
            Level::Notice => '*',
            Level::Warning => '#',
        }
    }

    /// The level that the `loglevel` directive names; None for `nothing`.
    pub fn named(name: &str) -> Option<Level> {
        match name {
            "debug" => Some(Level::Debug),
            "verbose" => Some(Level::Verbose),
            "notice" => Some(Level::Notice),
            "warning" => Some(Level::Warning),
            _ => None,
        }
    }
}

/// Where lines go, and which.
#[derive(Debug)]
struct Sink {
    /// None: standard output.
    file: Option<String>,
    least: Option<Level>,
}

static SINK: OnceLock<Sink> = OnceLock::new();

/// Sets the file (empty: standard output) and the least level, once.
pub fn configure(file: &str, least: Option<Level>) {
    let file = (!file.is_empty()).then(|| file.to_owned());
    // A second call would come from a second server in the process; the first one's log goes on.
    let _ = SINK.set(Sink { file, least });
}

/// Writes text as it is, whatever the level.
pub fn raw(text: &str) {
    write(SINK.get().and_then(|sink| sink.file.as_deref()), text);
}

/// Writes a line. A log that cannot be written is no reason to stop serving.
pub fn log(level: Level, text: impl Display) {
    let (file, least) = match SINK.get() {
        Some(sink) => (sink.file.as_deref(), sink.least),
        None => (None, Some(Level::Notice)),
    };
    if least.is_none_or(|least| level < least) {
        return;
    }
    let time = Zoned::now().strftime("%d %b %Y %H:%M:%S%.3f").to_string();
    let line = format!("{}:M {time} {} {text}\n", std::process::id(), level.sign());
    write(file, &line);
}

fn write(file: Option<&str>, text: &str) {
    let _ = match file {
        // Opened for each line, so that it can be rotated at any time.
        Some(path) => {
            OpenOptions::new().append(true).create(true).open(path).and_then(|mut f| f.write_all(text.as_bytes()))
        }
        None => std::io::stdout().lock().write_all(text.as_bytes()),
    };
}

pub fn notice(text: impl Display) {
    log(Level::Notice, text);
}

pub fn warning(text: impl Display) {
    log(Level::Warning, text);
}
