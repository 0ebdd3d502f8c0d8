//! [`command::core::redact`] with the commands of the rooms.

use crate::core::args::Args;
use crate::core::command_table::lookup;
use crate::core::redact::*;

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
