//! Which arguments of a command are secrets. The command log and monitors show `(redacted)` in their place.

use crate::core::args::Args;
use engine::config::is_sensitive;
use std::ops::Range;

/// What is shown in the place of a secret.
pub const REDACTED: &[u8] = b"(redacted)";

/// Whether argument `index` of this command is a secret.
pub fn is_secret(full_name: &str, args: &Args<'_>, index: usize) -> bool {
    let count = args.len();
    match full_name {
        "auth" => index > 0 && count <= 3,
        "acl|setuser" | "acl|getuser" | "acl|deluser" => index > 1,
        "config|set" => index > 2 && index % 2 == 1 && is_sensitive(&args[index - 1]),
        "hello" => hello_secrets(args).contains(&index),
        "migrate" => migrate_secrets(args).contains(&index),
        _ => false,
    }
}

/// User and password after AUTH.
fn hello_secrets(args: &Args<'_>) -> Range<usize> {
    let mut index = 2;
    while index < args.len() {
        let left = args.len() - 1 - index;
        match () {
            () if args.is(index, "auth") && left >= 2 => return index + 1..index + 3,
            () if args.is(index, "setname") && left >= 1 => index += 2,
            () => break,
        }
    }
    0..0
}

/// What follows AUTH and AUTH2 among the options, which end with KEYS.
fn migrate_secrets(args: &Args<'_>) -> Range<usize> {
    for index in 6..args.len() {
        let left = args.len() - 1 - index;
        match () {
            () if args.is(index, "auth") && left >= 1 => return index + 1..index + 2,
            () if args.is(index, "auth2") && left >= 2 => return index + 1..index + 3,
            () if args.is(index, "keys") => break,
            () => {}
        }
    }
    0..0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, line: &str) -> String {
        let args: Args<'_> = line.split(' ').map(str::as_bytes).collect();
        let show = |index: usize| {
            if is_secret(name, &args, index) { "*".into() } else { String::from_utf8_lossy(&args[index]) }
        };
        (0..args.len()).map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn secrets_are_known_by_their_places() {
        for (name, line, expected) in [
            ("auth", "AUTH p", "AUTH *"),
            ("auth", "AUTH u p", "AUTH * *"),
            ("auth", "AUTH u p x", "AUTH u p x"),
            ("hello", "HELLO 3 AUTH u p SETNAME x", "HELLO 3 AUTH * * SETNAME x"),
            ("hello", "HELLO 3 SETNAME AUTH auth u p", "HELLO 3 SETNAME AUTH auth * *"),
            ("hello", "HELLO 3 AUTH u", "HELLO 3 AUTH u"),
            ("acl|setuser", "ACL SETUSER u on >p", "ACL SETUSER * * *"),
            ("acl|whoami", "ACL WHOAMI", "ACL WHOAMI"),
            (
                "config|set",
                "CONFIG SET port 1 requirepass x masterauth y",
                "CONFIG SET port 1 requirepass * masterauth *",
            ),
            ("migrate", "MIGRATE h 1 k 0 9 AUTH p", "MIGRATE h 1 k 0 9 AUTH *"),
            ("migrate", "MIGRATE h 1 k 0 9 COPY AUTH2 u p", "MIGRATE h 1 k 0 9 COPY AUTH2 * *"),
            ("migrate", "MIGRATE h 1 k 0 9 KEYS auth x", "MIGRATE h 1 k 0 9 KEYS auth x"),
            ("set", "SET auth p", "SET auth p"),
        ] {
            assert_eq!(shown(name, line), expected);
        }
    }
}
