//! The form of a command in the command log and for monitors: long arguments cut, `(redacted)` in the place of
//! [secrets](is_secret).
//!
//! A secret is known by the word before it, not by the command's use of it: a command that is wrong carries the same
//! credentials as the right one. An additional word may be hidden, but a secret is never shown.

use crate::core::args::Args;
use crate::core::command::{Command, CommandEntry, Group};
use crate::core::command_table::lookup;
use crate::core::context::Now;
use crate::core::session::{LoggedArgs, Session};
use engine::config::is_sensitive;
use resp::words::quote;

/// The text shown in the place of a secret.
/// Text in the place of a secret.
pub const REDACTED: &[u8] = b"(redacted)";

/// Arguments that a log entry has, and bytes of each.
const LOGGED_ARGS: usize = 32;
const LOGGED_BYTES: usize = 128;

/// Arguments of a command within another that are looked at; all beyond are hidden.
const LOOKED_AT: usize = 64;

/// Bytes of the longest word that is taken for the name of a directive or an option.
const LONGEST_NAME: usize = 64;

/// Ends of the names of directives and options with secret values, of other servers and versions, too.
const SECRET_ENDS: [&[u8]; 6] = [b"auth", b"pass", b"password", b"passwd", b"secret", b"token"];

/// Returns whether the argument is shown as `(redacted)`: its command's entry demands it, or it follows a word that
/// credentials follow, whether or not the command understands the word there.
pub fn is_secret(entry: &CommandEntry, args: &Args<'_>, index: usize) -> bool {
    (entry.command.is_secret)(args, index) || (carries_credentials(entry.command) && follows_credential(args, index))
}

/// Returns whether credentials may be among the words of the command, where those of others are keys and values.
fn carries_credentials(command: &Command) -> bool {
    matches!(command.group, Group::Connection | Group::Server | Group::Cluster | Group::Sentinel)
}

/// Returns whether the argument is one of the two after AUTH or AUTH2, or follows the name of a secret.
pub fn follows_credential(args: &Args<'_>, index: usize) -> bool {
    let is_auth = |at: usize| args.is(at, "auth") || args.is(at, "auth2");
    (index > 1 && (is_auth(index - 1) || names_secret(&args[index - 1]))) || (index > 2 && is_auth(index - 2))
}

/// Returns whether a word is the name of a directive or an option whose value is a secret.
fn names_secret(word: &[u8]) -> bool {
    let ends_with = |end: &&[u8]| word.len() >= end.len() && word[word.len() - end.len()..].eq_ignore_ascii_case(end);
    word.len() <= LONGEST_NAME && (SECRET_ENDS.iter().any(ends_with) || is_sensitive(word))
}

/// Returns whether the argument is a secret of the command that the words from `begin` on are. All arguments of an
/// unknown one are.
pub fn secret_of_inner(args: &Args<'_>, begin: usize, index: usize) -> bool {
    if index <= begin {
        return false;
    }
    let inner: Args<'_> = args.from(begin).take(LOOKED_AT).collect();
    let known = lookup(&inner).filter(|_| index - begin < LOOKED_AT);
    known.is_none_or(|entry| is_secret(entry, &inner, index - begin))
}

/// Returns the arguments in the log's form.
#[cold]
pub fn shown_args(entry: &CommandEntry, args: &Args<'_>, kept: Option<&LoggedArgs>) -> Vec<Vec<u8>> {
    let count = args.len();
    let whole = if count > LOGGED_ARGS { LOGGED_ARGS - 1 } else { count };
    let kept = |index| kept.and_then(|kept| kept.shown.iter().find(|(at, _)| *at == index));
    let mut shown: Vec<Vec<u8>> = (0..whole)
        .map(|index| kept(index).map_or_else(|| shown_arg(entry, args, index), |(_, text)| text.clone()))
        .collect();
    if count > whole {
        shown.push(format!("... ({} more arguments)", count - whole).into_bytes());
    }
    shown
}

/// Returns an argument as logs and monitors show it: a secret is hidden.
pub fn shown_arg(entry: &CommandEntry, args: &Args<'_>, index: usize) -> Vec<u8> {
    if is_secret(entry, args, index) {
        return REDACTED.to_vec();
    }
    let arg = &args[index];
    let mut shown = arg[..arg.len().min(LOGGED_BYTES)].to_vec();
    if arg.len() > LOGGED_BYTES {
        shown.extend_from_slice(format!("... ({} more bytes)", arg.len() - LOGGED_BYTES).as_bytes());
    }
    shown
}

/// Returns the line for a command that a client has run, or a script for it.
pub fn monitor_line(session: &Session, entry: &CommandEntry, args: &Args<'_>, now: Now) -> Vec<u8> {
    let (seconds, micros) = (now.unix_us.seconds(), now.unix_us.0 % 1_000_000);
    let (db, addr) = (session.db, &session.info.addr);
    let from = match addr.strip_suffix(":0") {
        _ if session.in_script => "lua".to_owned(),
        Some(path) => format!("unix:{path}"),
        None => addr.to_string(),
    };
    let mut line = format!("+{seconds}.{micros:06} [{db} {from}]").into_bytes();
    for index in 0..args.len() {
        line.push(b' ');
        let secret = is_secret(entry, args, index);
        quote(&mut line, if secret { REDACTED } else { &args[index] });
    }
    line.extend_from_slice(b"\r\n");
    line
}
