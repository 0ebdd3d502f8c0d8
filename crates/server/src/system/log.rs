//! The log: one line an event, in the formats that Valkey has.
//!
//! ```text
//! legacy   1234:M 21 Nov 2026 05:26:01.123 * Ready to accept connections tcp
//! logfmt   pid=1234 role=primary timestamp="21 Nov 2026 05:26:01.123" level=notice message="Ready to ..."
//! json     {"pid":1234,"role":"primary","timestamp":"21 Nov 2026 05:26:01.123","level":"notice","message":"..."}
//! ```
//!
//! The file is opened for each line, so that it can be moved away at any time. With `syslog-enabled` a line goes to the
//! system's log as well, without what the system adds itself.

use engine::config::{Config, Directive};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use nix::syslog::{Facility, LogFlags, Severity, openlog, syslog};
use std::ffi::CString;
use std::fmt::{Display, Write as _};
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LazyLock, PoisonError, RwLock};

pub use engine::host::log::Level;

/// The sign of a line of this level, in the form that Valkey has.
fn sign(level: Level) -> char {
    match level {
        Level::Debug => '.',
        Level::Verbose => '-',
        Level::Notice => '*',
        Level::Warning => '#',
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug",
        Level::Verbose => "info",
        Level::Notice => "notice",
        Level::Warning => "warning",
    }
}

fn severity(level: Level) -> Severity {
    match level {
        Level::Debug => Severity::LOG_DEBUG,
        Level::Verbose => Severity::LOG_INFO,
        Level::Notice => Severity::LOG_NOTICE,
        Level::Warning => Severity::LOG_WARNING,
    }
}

/// Returns the level that the `loglevel` directive names; None for `nothing`.
fn level_named(name: &str) -> Option<Level> {
    match name {
        "debug" => Some(Level::Debug),
        "verbose" => Some(Level::Verbose),
        "notice" => Some(Level::Notice),
        "warning" => Some(Level::Warning),
        _ => None,
    }
}

/// The letter and the word of each role of a process: a primary, like all that follow no server, a replica, a Sentinel.
const PRIMARY: (char, &str) = ('M', "primary");
const REPLICA: (char, &str) = ('S', "replica");
const SENTINEL: (char, &str) = ('X', "sentinel");

/// Whether the server follows another one.
static FOLLOWS: AtomicBool = AtomicBool::new(false);

/// Sets whether the server follows another one.
pub fn set_follows(follows: bool) {
    FOLLOWS.store(follows, Relaxed);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Legacy,
    Logfmt,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stamp {
    Legacy,
    Iso8601,
    Milliseconds,
}

/// File, levels and format of lines.
#[derive(Clone, Debug)]
struct Style {
    /// File of the log; None: standard output.
    file: Option<String>,
    syslog: bool,
    least: Option<Level>,
    format: Format,
    stamp: Stamp,
}

static STYLE: RwLock<Style> = RwLock::new(Style {
    file: None,
    syslog: false,
    least: Some(Level::Notice),
    format: Format::Legacy,
    stamp: Stamp::Legacy,
});

/// Time zone, read once: the environment that may name it is gone when the process has a title of its own.
static ZONE: LazyLock<TimeZone> = LazyLock::new(TimeZone::system);

/// Takes all settings from the configuration, at the start.
pub fn open(config: &Config) {
    LazyLock::force(&ZONE);
    if config.flag(Directive::SYSLOG_ENABLED) {
        open_syslog(config);
    }
    follow(config);
}

/// Takes the settings that may change while the server runs.
pub fn follow(config: &Config) {
    let file = config.text(Directive::LOGFILE);
    let style = Style {
        file: (!file.is_empty()).then(|| String::from_utf8_lossy(file).into_owned()),
        syslog: config.flag(Directive::SYSLOG_ENABLED),
        least: level_named(config.choice(Directive::LOGLEVEL)),
        format: match config.choice(Directive::LOG_FORMAT) {
            "logfmt" => Format::Logfmt,
            "json" => Format::Json,
            _ => Format::Legacy,
        },
        stamp: match config.choice(Directive::LOG_TIMESTAMP_FORMAT) {
            "iso8601" => Stamp::Iso8601,
            "milliseconds" => Stamp::Milliseconds,
            _ => Stamp::Legacy,
        },
    };
    *STYLE.write().unwrap_or_else(PoisonError::into_inner) = style;
}

fn open_syslog(config: &Config) {
    let facility = match config.choice(Directive::SYSLOG_FACILITY) {
        "user" => Facility::LOG_USER,
        "local1" => Facility::LOG_LOCAL1,
        "local2" => Facility::LOG_LOCAL2,
        "local3" => Facility::LOG_LOCAL3,
        "local4" => Facility::LOG_LOCAL4,
        "local5" => Facility::LOG_LOCAL5,
        "local6" => Facility::LOG_LOCAL6,
        "local7" => Facility::LOG_LOCAL7,
        _ => Facility::LOG_LOCAL0,
    };
    // The system keeps the pointer, so the name lives as long as the process.
    let ident = CString::new(config.text(Directive::SYSLOG_IDENT)).unwrap_or_default();
    let ident: &'static CString = Box::leak(Box::new(ident));
    // A system without a log is no reason not to start.
    let _ = openlog(Some(ident), LogFlags::LOG_PID | LogFlags::LOG_NDELAY, facility);
}

/// Returns whether lines of this level are written.
pub fn shows(level: Level) -> bool {
    STYLE.read().unwrap_or_else(PoisonError::into_inner).least.is_some_and(|least| level >= least)
}

/// Writes a line. A log that cannot be written is no reason to stop serving.
pub fn log(level: Level, text: impl Display) {
    let style = STYLE.read().unwrap_or_else(PoisonError::into_inner).clone();
    if style.least.is_none_or(|least| level < least) {
        return;
    }
    let text = text.to_string();
    let time = stamp(Timestamp::now().to_zoned(ZONE.clone()), style.stamp);
    write(style.file.as_deref(), &line(style.format, std::process::id(), role(), &time, level, &text));
    if style.syslog {
        let _ = syslog(severity(level), &text);
    }
}

fn role() -> (char, &'static str) {
    match FOLLOWS.load(Relaxed) {
        _ if commands::core::mode::is_sentinel() => SENTINEL,
        true => REPLICA,
        false => PRIMARY,
    }
}

/// Writes text as it is, whatever the level.
pub fn raw(text: &str) {
    let file = STYLE.read().unwrap_or_else(PoisonError::into_inner).file.clone();
    write(file.as_deref(), text);
}

fn write(file: Option<&str>, text: &str) {
    let _ = match file {
        Some(path) => {
            OpenOptions::new().append(true).create(true).open(path).and_then(|mut f| f.write_all(text.as_bytes()))
        }
        None => std::io::stdout().lock().write_all(text.as_bytes()),
    };
}

fn stamp(time: Zoned, stamp: Stamp) -> String {
    match stamp {
        Stamp::Legacy => time.strftime("%d %b %Y %H:%M:%S%.3f").to_string(),
        Stamp::Iso8601 => time.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string(),
        Stamp::Milliseconds => time.timestamp().as_millisecond().to_string(),
    }
}

fn line(format: Format, pid: u32, role: (char, &str), time: &str, level: Level, text: &str) -> String {
    let ((message, role_name), level_name) = (role, name(level));
    match format {
        Format::Legacy => format!("{pid}:{message} {time} {} {text}\n", sign(level)),
        Format::Logfmt => {
            let text = text.replace('"', "'").replace(['\r', '\n'], " ");
            format!("pid={pid} role={role_name} timestamp=\"{time}\" level={level_name} message=\"{text}\"\n")
        }
        Format::Json => {
            let text = json(text);
            format!(
                "{{\"pid\":{pid},\"role\":\"{role_name}\",\"timestamp\":\"{time}\",\"level\":\"{level_name}\",\"message\":\"{text}\"}}\n"
            )
        }
    }
}

/// Returns the inside of a JSON string (RFC 8259).
fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_control() => write!(out, "\\u{:04x}", c as u32).expect("a String takes everything"),
            c => out.push(c),
        }
    }
    out
}

pub fn verbose(text: impl Display) {
    log(Level::Verbose, text);
}

pub fn notice(text: impl Display) {
    log(Level::Notice, text);
}

pub fn warning(text: impl Display) {
    log(Level::Warning, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_every_format() {
        let made = |format| line(format, 7, PRIMARY, "now", Level::Verbose, "a \"b\\c\"\n\td");
        let escaped = json("\u{8}\u{c}\u{b}");
        assert_eq!(made(Format::Legacy), "7:M now - a \"b\\c\"\n\td\n");
        assert_eq!(line(Format::Legacy, 7, REPLICA, "now", Level::Warning, "a"), "7:S now # a\n");
        assert_eq!(made(Format::Logfmt), "pid=7 role=primary timestamp=\"now\" level=info message=\"a 'b\\c' \td\"\n");
        assert_eq!(
            made(Format::Json),
            "{\"pid\":7,\"role\":\"primary\",\"timestamp\":\"now\",\"level\":\"info\",\"message\":\"a \\\"b\\\\c\\\"\\n\\td\"}\n"
        );
        assert_eq!(escaped, "\\b\\f\\u000b");
    }

    #[test]
    fn times_in_every_format() {
        let zone = TimeZone::fixed(jiff::tz::Offset::from_seconds(-12600).expect("an offset"));
        let time = Timestamp::from_millisecond(1_795_251_262_044).expect("a time").to_zoned(zone);
        assert_eq!(stamp(time.clone(), Stamp::Legacy), "21 Nov 2026 05:24:22.044");
        assert_eq!(stamp(time.clone(), Stamp::Iso8601), "2026-11-21T05:24:22.044-03:30");
        assert_eq!(stamp(time, Stamp::Milliseconds), "1795251262044");
    }
}
