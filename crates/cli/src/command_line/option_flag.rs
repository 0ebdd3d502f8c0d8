//! One option of the command line: its names, what it takes, what it changes. Values that options take are read here.

use std::time::Duration;

use cinnabar_tls::client_options::ClientOptions;

use crate::options::{ClusterOptions, KeySelection, Mode, ScriptStepping};
use crate::reply_format::OutputFormat;
use crate::transport::IpVersion;

/// A message for the user; the program ends with status 1.
#[derive(Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

/// Options as gathered, before defaults that depend on one another are resolved.
#[derive(Debug, Default)]
pub struct Draft {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub unix_path: Option<String>,
    pub user: Option<Vec<u8>>,
    pub password: Option<Vec<u8>>,
    pub password_in_arguments: bool,
    pub hide_password_warning: bool,
    pub database: i64,
    pub resp2: bool,
    pub resp3: bool,
    pub repeat: Option<i64>,
    pub interval: Duration,
    pub last_from_stdin: bool,
    pub tag_from_stdin: Option<Vec<u8>>,
    pub quoted_input: bool,
    pub output: Option<OutputFormat>,
    pub element_delimiter: Option<Vec<u8>>,
    pub reply_delimiter: Option<Vec<u8>>,
    pub errors_are_fatal: bool,
    pub show_pushes: Option<bool>,
    pub book: bool,
    pub mode: Option<Mode>,
    pub keys: KeySelection,
    pub memory_samples: Option<u64>,
    pub cursor: Option<u64>,
    pub top_keys: Option<usize>,
    pub hot_keys: Option<usize>,
    pub stepping: Option<ScriptStepping>,
    pub multipath: bool,
    /// `--top` without a number.
    pub full_screen: bool,
    pub pipe_timeout: Option<Duration>,
    pub connect_timeout: Option<Duration>,
    pub preferred_ip: Option<IpVersion>,
    pub follow_redirects: bool,
    pub ask_password: bool,
    pub verbose: bool,
    pub cluster: ClusterOptions,
    pub tls: ClientOptions,
}

pub enum Apply {
    Switch(fn(&mut Draft)),
    /// Takes the next argument, shown in the help by this name.
    Value(&'static str, fn(&mut Draft, &[u8]) -> Result<(), UsageError>),
    /// Takes some of the arguments that follow, and returns how many.
    Words(&'static str, fn(&mut Draft, &[Vec<u8>]) -> Result<usize, UsageError>),
    Help,
    Version,
}

pub struct Flag {
    pub names: &'static [&'static str],
    pub apply: Apply,
    pub help: &'static str,
}

pub const fn switch(names: &'static [&'static str], help: &'static str, set: fn(&mut Draft)) -> Flag {
    Flag { names, apply: Apply::Switch(set), help }
}

pub const fn value(
    names: &'static [&'static str],
    operand: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &[u8]) -> Result<(), UsageError>,
) -> Flag {
    Flag { names, apply: Apply::Value(operand, set), help }
}

pub const fn words(
    names: &'static [&'static str],
    operand: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &[Vec<u8>]) -> Result<usize, UsageError>,
) -> Flag {
    Flag { names, apply: Apply::Words(operand, set), help }
}

pub fn utf8(text: &[u8], what: &str) -> Result<String, UsageError> {
    String::from_utf8(text.to_vec()).map_err(|_| error(&format!("Invalid {what}.")))
}

pub fn integer(text: &[u8], what: &str) -> Result<i64, UsageError> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| error(&format!("Invalid {what}.")))
}

pub fn port(text: &[u8]) -> Result<u16, UsageError> {
    let number = integer(text, "server port")?;
    u16::try_from(number).map_err(|_| error("Invalid server port."))
}

pub fn natural(text: &[u8], option: &str) -> Result<u64, UsageError> {
    let number = integer(text, &format!("number for {option}"))?;
    u64::try_from(number).map_err(|_| error(&format!("Invalid number for {option}.")))
}

pub fn seconds(text: &[u8], what: &str) -> Result<Duration, UsageError> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    let duration = number.and_then(|number| Duration::try_from_secs_f64(number).ok());
    duration.ok_or_else(|| error(&format!("Invalid {what}.")))
}

pub fn unrecognized(name: &[u8]) -> UsageError {
    error(&format!("Unrecognized option or bad number of args for: '{}'", String::from_utf8_lossy(name)))
}

pub fn error(text: &str) -> UsageError {
    UsageError(text.to_owned())
}
