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
const REDACTED: &[u8] = b"(redacted)";

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
pub(crate) fn is_secret(entry: &CommandEntry, args: &Args<'_>, index: usize) -> bool {
    (entry.command.is_secret)(args, index) || (carries_credentials(entry.command) && follows_credential(args, index))
}

/// Returns whether credentials may be among the words of the command, where those of others are keys and values.
fn carries_credentials(command: &Command) -> bool {
    matches!(command.group, Group::Connection | Group::Server | Group::Cluster | Group::Sentinel)
}

/// Returns whether the argument is one of the two after AUTH or AUTH2, or follows the name of a secret.
pub(crate) fn follows_credential(args: &Args<'_>, index: usize) -> bool {
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
pub(crate) fn secret_of_inner(args: &Args<'_>, begin: usize, index: usize) -> bool {
    if index <= begin {
        return false;
    }
    let inner: Args<'_> = args.from(begin).take(LOOKED_AT).collect();
    let known = lookup(&inner).filter(|_| index - begin < LOOKED_AT);
    known.is_none_or(|entry| is_secret(entry, &inner, index - begin))
}

/// Returns the arguments in the log's form.
#[cold]
pub(crate) fn shown_args(entry: &CommandEntry, args: &Args<'_>, kept: Option<&LoggedArgs>) -> Vec<Vec<u8>> {
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

pub(crate) fn shown_arg(entry: &CommandEntry, args: &Args<'_>, index: usize) -> Vec<u8> {
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
pub(crate) fn monitor_line(session: &Session, entry: &CommandEntry, args: &Args<'_>, now: Now) -> Vec<u8> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        crate::install(&[]);
        let args: Args<'_> = line.split(' ').map(str::as_bytes).collect();
        let entry = lookup(&args).expect("a command");
        let show = |index: usize| match shown_arg(entry, &args, index) {
            shown if shown == REDACTED => "*".to_owned(),
            shown => String::from_utf8_lossy(&shown).into_owned(),
        };
        (0..args.len()).map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn secrets_are_known_by_their_places() {
        for (line, expected) in [
            ("AUTH p", "AUTH *"),
            ("AUTH u p", "AUTH * *"),
            ("AUTH u p x", "AUTH * * *"),
            ("HELLO 3 AUTH u p SETNAME x", "HELLO 3 AUTH * * SETNAME x"),
            ("HELLO 3 SETNAME x AUTH auth p", "HELLO 3 SETNAME x AUTH * *"),
            ("HELLO 3 AUTH u p AUTH v q", "HELLO 3 AUTH * * AUTH * *"),
            ("CONFIG SET port 1 requirepass x masterauth y", "CONFIG SET port 1 requirepass * masterauth *"),
            ("CONFIG SET tls-key-file-pass x", "CONFIG SET tls-key-file-pass *"),
            ("CONFIG SET MASTERUSER u otlp-headers k=v", "CONFIG SET MASTERUSER * otlp-headers *"),
            ("MIGRATE h 1 k 0 9 AUTH p", "MIGRATE h 1 k 0 9 AUTH *"),
            ("MIGRATE h 1 k 0 9 COPY AUTH2 u p KEYS a b", "MIGRATE h 1 k 0 9 COPY AUTH2 * * KEYS a b"),
            ("MIGRATE h 1 auth 0 9", "MIGRATE h 1 auth * *"),
            ("SET auth p", "SET auth p"),
            ("SET password p", "SET password p"),
            ("PUBLISH auth p", "PUBLISH auth p"),
            ("EVAL s 1 auth p", "EVAL s 1 auth p"),
            ("CLIENT SETNAME auth", "CLIENT SETNAME auth"),
            ("ACL DRYRUN u", "ACL DRYRUN u"),
            ("ACL DRYRUN u AUTH p", "ACL DRYRUN u AUTH *"),
            ("ACL DRYRUN u SET auth p", "ACL DRYRUN u SET auth *"),
            ("COMMAND GETKEYS MIGRATE h 1 k 0 9 AUTH p", "COMMAND GETKEYS MIGRATE h 1 k 0 9 AUTH *"),
            ("COMMAND GETKEYSANDFLAGS AUTH p", "COMMAND GETKEYSANDFLAGS AUTH *"),
            ("COMMAND GETKEYS ACL SETUSER u >p", "COMMAND GETKEYS ACL SETUSER * *"),
        ] {
            assert_eq!(shown(line), expected);
        }
    }

    #[test]
    fn secrets_of_wrong_commands_are_hidden_too() {
        for (line, expected) in [
            ("HELLO AUTH u p", "HELLO AUTH * *"),
            ("HELLO auth u p SETNAME x", "HELLO auth * * SETNAME x"),
            ("HELLO 3 AUTH u", "HELLO 3 AUTH *"),
            ("HELLO x AUTH u p", "HELLO x AUTH * *"),
            ("HELLO 3 SETNAME AUTH u p", "HELLO 3 SETNAME AUTH * *"),
            ("HELLO 3 SETNAME AUTH AUTH u p", "HELLO 3 SETNAME AUTH * * *"),
            ("HELLO 3 nonsense AUTH u p", "HELLO 3 nonsense AUTH * *"),
            ("HELLO 3 PASSWORD p", "HELLO 3 PASSWORD *"),
            ("FAILOVER TO h 1 AUTH p", "FAILOVER TO h 1 AUTH *"),
            ("FAILOVER AUTH u p TO h 1", "FAILOVER AUTH * * TO h 1"),
            ("REPLCONF auth p", "REPLCONF auth *"),
            ("REPLCONF capa eof masterauth p", "REPLCONF capa eof masterauth *"),
            ("CLUSTER MEET h 1 AUTH p", "CLUSTER MEET h 1 AUTH *"),
            ("CONFIG SET sentinel-pass p", "CONFIG SET sentinel-pass *"),
            ("CONFIG SET auth-pass p", "CONFIG SET auth-pass *"),
            ("CONFIG SET requirepass", "CONFIG SET requirepass"),
            ("CONFIG SET maxmemory requirepass p x", "CONFIG SET maxmemory requirepass * *"),
            ("CONFIG SET requirepas p", "CONFIG SET requirepas *"),
            ("CONFIG SET requirepass of four words", "CONFIG SET requirepass * * *"),
            ("CONFIG SET masterauth masterauth masterauth p", "CONFIG SET masterauth * * *"),
            ("CONFIG GET requirepass p", "CONFIG GET requirepass *"),
            ("MIGRATE h 1 k 0 AUTH p", "MIGRATE h 1 k 0 AUTH *"),
            ("MIGRATE h 1 k 0 9 AUTH u p", "MIGRATE h 1 k 0 9 AUTH * *"),
            ("MIGRATE h 1 k 0 9 AUTH p AUTH2 u q", "MIGRATE h 1 k 0 9 AUTH * * * *"),
            ("MIGRATE h 1 k 0 9 AUTH2 u q COPY AUTH p", "MIGRATE h 1 k 0 9 AUTH2 * * COPY AUTH *"),
            ("MIGRATE h 1 k 0 9 nonsense AUTH p", "MIGRATE h 1 k 0 9 nonsense AUTH *"),
            ("MIGRATE h 1 k 0 9 KEYS a AUTH p", "MIGRATE h 1 k 0 9 KEYS a AUTH *"),
            ("ACL DRYRUN ACL SETUSER u >p", "ACL DRYRUN ACL SETUSER * *"),
            ("ACL DRYRUN u CONFIG SETT requirepass p", "ACL DRYRUN u CONFIG * * *"),
            ("COMMAND GETKEYS nonsense p", "COMMAND GETKEYS nonsense *"),
        ] {
            assert_eq!(shown(line), expected);
        }
    }

    #[test]
    fn every_directive_with_a_secret_is_hidden_wherever_it_stands() {
        for directive in engine::config::directive_table::entries().iter().filter(|entry| entry.sensitive) {
            let name = directive.name;
            assert_eq!(shown(&format!("CONFIG SET {name} p")), format!("CONFIG SET {name} *"));
            assert_eq!(shown(&format!("CONFIG SET port 1 {name} p x")), format!("CONFIG SET port 1 {name} * *"));
            assert_eq!(shown(&format!("CONFIG SET port {name} p")), format!("CONFIG SET port {name} *"));
        }
    }

    #[test]
    fn commands_within_others_are_not_looked_through_without_end() {
        for line in ["ACL DRYRUN u HELLO 3", "COMMAND GETKEYS HELLO 3"] {
            let line = format!("{line}{}", " SETNAME".repeat(10_000));
            let shown = shown(&line);
            let hidden = shown.split(' ').filter(|word| *word == "*").count();
            assert!(shown.starts_with(&line[..100]) && hidden > 9_900, "{hidden} of {line:.40}");
        }
    }
}
