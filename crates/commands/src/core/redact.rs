//! How the command log and monitors show a command: long arguments cut, `(redacted)` in the place of
//! [secrets](crate::core::command::Command::is_secret).

use crate::core::args::Args;
use crate::core::command::CommandEntry;
use crate::core::command_table::lookup;
use crate::core::context::Now;
use crate::core::session::{LoggedArgs, Session};
use resp::words::quote;

/// What is shown in the place of a secret.
const REDACTED: &[u8] = b"(redacted)";

/// Arguments that a log entry has, and bytes of each.
const LOGGED_ARGS: usize = 32;
const LOGGED_BYTES: usize = 128;

/// Arguments that are looked at for secrets. More options than these are none that a command takes: all are hidden.
const LOOKED_AT: usize = 64;

/// Whether the argument follows an option whose words are secret. Options begin at `begin`; `words` returns how many
/// words the option at an index has and whether they are secret, None where the options have ended. An option that is
/// cut short counts, too.
pub(crate) fn secret_among(begin: usize, index: usize, words: impl Fn(usize) -> Option<(usize, bool)>) -> bool {
    let mut at = begin;
    while at < index {
        if at - begin >= LOOKED_AT {
            return true;
        }
        let Some((count, is_secret)) = words(at) else { return false };
        if index <= at + count {
            return is_secret;
        }
        at += 1 + count;
    }
    false
}

/// Whether the argument is a secret of the command that the words from `begin` on are.
pub(crate) fn secret_of_inner(args: &Args<'_>, begin: usize, index: usize) -> bool {
    if index <= begin {
        return false;
    }
    let inner: Args<'_> = args.from(begin).take(LOOKED_AT).collect();
    match lookup(&inner) {
        Some(entry) => index - begin >= LOOKED_AT || (entry.command.is_secret)(&inner, index - begin),
        None => false,
    }
}

/// The arguments as the log has them.
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
    if (entry.command.is_secret)(args, index) {
        return REDACTED.to_vec();
    }
    let arg = &args[index];
    let mut shown = arg[..arg.len().min(LOGGED_BYTES)].to_vec();
    if arg.len() > LOGGED_BYTES {
        shown.extend_from_slice(format!("... ({} more bytes)", arg.len() - LOGGED_BYTES).as_bytes());
    }
    shown
}

/// The line for a command that a client has run, or a script for it.
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
        let secret = (entry.command.is_secret)(args, index);
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
            ("HELLO 3 SETNAME AUTH auth u p", "HELLO 3 SETNAME AUTH auth * *"),
            ("HELLO 3 AUTH u", "HELLO 3 AUTH *"),
            ("HELLO 3 AUTH u p AUTH v q", "HELLO 3 AUTH * * AUTH * *"),
            ("HELLO 3 SETNAME x nonsense AUTH u p", "HELLO 3 SETNAME x nonsense AUTH * *"),
            ("CONFIG SET port 1 requirepass x masterauth y", "CONFIG SET port 1 requirepass * masterauth *"),
            ("MIGRATE h 1 k 0 9 AUTH p", "MIGRATE h 1 k 0 9 AUTH *"),
            ("MIGRATE h 1 k 0 9 COPY AUTH2 u p", "MIGRATE h 1 k 0 9 COPY AUTH2 * *"),
            ("MIGRATE h 1 k 0 9 KEYS auth x", "MIGRATE h 1 k 0 9 KEYS auth x"),
            ("MIGRATE h 1 k 0 9 AUTH p AUTH2 u q", "MIGRATE h 1 k 0 9 AUTH * AUTH2 * *"),
            ("MIGRATE h 1 k 0 9 AUTH2 u q COPY AUTH p KEYS auth", "MIGRATE h 1 k 0 9 AUTH2 * * COPY AUTH * KEYS auth"),
            ("MIGRATE h 1 k 0 9 AUTH p AUTH q", "MIGRATE h 1 k 0 9 AUTH * AUTH *"),
            ("MIGRATE h 1 k 0 9 AUTH keys AUTH2 p", "MIGRATE h 1 k 0 9 AUTH * AUTH2 *"),
            ("MIGRATE h 1 k 0 9 nonsense AUTH p", "MIGRATE h 1 k 0 9 nonsense AUTH *"),
            ("SET auth p", "SET auth p"),
            ("ACL DRYRUN u AUTH p", "ACL DRYRUN u AUTH *"),
            ("ACL DRYRUN u", "ACL DRYRUN u"),
            ("COMMAND GETKEYS MIGRATE h 1 k 0 9 AUTH p", "COMMAND GETKEYS MIGRATE h 1 k 0 9 AUTH *"),
            ("COMMAND GETKEYSANDFLAGS AUTH p", "COMMAND GETKEYSANDFLAGS AUTH *"),
            ("CONFIG SET tls-key-file-pass x", "CONFIG SET tls-key-file-pass *"),
            ("CONFIG SET MASTERUSER u otlp-headers k=v", "CONFIG SET MASTERUSER * otlp-headers *"),
        ] {
            assert_eq!(shown(line), expected);
        }
    }

    #[test]
    fn options_without_end_are_not_looked_through_again_and_again() {
        crate::install(&[]);
        for line in ["HELLO 3", "MIGRATE h 1 k 0 9", "ACL DRYRUN u MIGRATE h 1 k 0 9", "COMMAND GETKEYS HELLO 3"] {
            let line = format!("{line}{}", " SETNAME".repeat(10_000));
            let args: Args<'_> = line.split(' ').map(str::as_bytes).collect();
            let entry = lookup(&args).expect("a command");
            assert_eq!(shown_arg(entry, &args, 10), b"SETNAME");
            assert!((200..args.len()).all(|index| (entry.command.is_secret)(&args, index)), "{line:.40}");
        }
    }
}
