//! Passwords: where users say them, and all the places that others read, none of which has them.

use crate::dialogue::ask;
use crate::harness::{Server, eventually, free_port, is_peer, send};
use redis::Connection;
use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

/// Part of every secret, so that one search finds any.
const SECRET: &str = "s3cr3t";

/// Each command with a secret, in order, and wrong ones too; nothing listens at `<port>`.
const SAID: &[&str] = &[
    "AUTH s3cr3t-1",
    "AUTH default s3cr3t-2",
    "AUTH nobody s3cr3t-3",
    "AUTH nobody s3cr3t-4 more",
    "HELLO 3 AUTH default s3cr3t-5 SETNAME me",
    "HELLO 9 AUTH default s3cr3t-6",
    "HELLO 2 SETNAME me AUTH nobody s3cr3t-7",
    "HELLO 2",
    "ACL SETUSER u on >s3cr3t-8 >s3cr3t-9 ~* +@all",
    "ACL SETUSER u <s3cr3t-9",
    "ACL SETUSER u <s3cr3t-10",
    "ACL SETUSER u >s3cr3t-11 nonsense",
    "ACL DRYRUN u AUTH s3cr3t-12",
    "CONFIG SET primaryauth s3cr3t-13",
    "CONFIG SET masterauth s3cr3t-14",
    "CONFIG SET tls-key-file-pass s3cr3t-15",
    "CONFIG SET tls-client-key-file-pass s3cr3t-16",
    "CONFIG SET requirepass s3cr3t-17 nonsense 1",
    "CONFIG SET maxmemory 0 requirepass s3cr3t-18",
    "AUTH s3cr3t-18",
    "HELLO 3 AUTH default s3cr3t-18",
    "HELLO 2",
    "MULTI",
    "CONFIG SET requirepass s3cr3t-19",
    "ACL SETUSER u >s3cr3t-20",
    "AUTH u s3cr3t-20",
    "EXEC",
    "MIGRATE 127.0.0.1 <port> k 0 100 AUTH s3cr3t-21",
    "MIGRATE 127.0.0.1 <port> k 0 100 COPY REPLACE AUTH2 u s3cr3t-22",
    "MIGRATE 127.0.0.1 <port> k 0 100 AUTH2 u s3cr3t-23 nonsense",
    "MIGRATE 127.0.0.1 <port> k 0 100 AUTH s3cr3t-24 AUTH2 u s3cr3t-25",
    "MIGRATE 127.0.0.1 <port> k 0 100 AUTH2 u s3cr3t-26 COPY AUTH s3cr3t-27 AUTH s3cr3t-28",
    "MIGRATE 127.0.0.1 <port> k 0 100 AUTH2 s3cr3t-29",
    "HELLO 2 nonsense AUTH u s3cr3t-30",
    "HELLO 2 AUTH nobody s3cr3t-31 AUTH nobody s3cr3t-32",
    "COMMAND GETKEYS MIGRATE 127.0.0.1 1 k 0 100 AUTH s3cr3t-33",
    "COMMAND GETKEYSANDFLAGS AUTH u s3cr3t-34",
    "HELLO AUTH u s3cr3t-35",
    "HELLO 2 SETNAME AUTH u s3cr3t-36",
    "FAILOVER TO 127.0.0.1 <port> AUTH s3cr3t-37",
    "REPLCONF auth s3cr3t-38",
    "CONFIG SET sentinel-pass s3cr3t-39",
    "CONFIG SET maxmemory requirepass s3cr3t-40 0",
    "CONFIG SET otlp-headers k=s3cr3t-41",
    "MIGRATE 127.0.0.1 <port> k 0 AUTH s3cr3t-42",
    "MIGRATE 127.0.0.1 <port> k 0 100 AUTH u s3cr3t-43",
    "MIGRATE 127.0.0.1 <port> k 0 100 KEYS a AUTH s3cr3t-44",
    "ACL DRYRUN ACL SETUSER u >s3cr3t-45",
    "CONFIG SET requirepas s3cr3t-46",
    "CONFIG SET requirepass a s3cr3t-47 s3cr3t-48",
    "AUTH u s3cr3t-8",
];

#[track_caller]
fn has_none(place: &str, text: &str) {
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(SECRET)).collect();
    assert!(lines.is_empty(), "{place}: {lines:#?}");
}

fn say(connection: &mut Connection, port: &str) {
    for line in SAID {
        // Some are refused: that must not give them away either.
        let reply = ask(connection, &line.replace("<port>", port));
        assert!(reply != "-NOAUTH Authentication required." && !reply.starts_with("-NOPERM"), "{line}: {reply}");
    }
}

/// Returns the lines of a monitor.
fn heard(monitor: &mut TcpStream) -> String {
    monitor.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&text).contains("the-end") {
        match monitor.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => text.extend_from_slice(&buffer[..read]),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Valkey shows monitors the words of AUTH beyond the password, and of HELLO with a version that it does not know.
fn tell(end: &str) {
    if is_peer() {
        return;
    }
    let server =
        Server::start(&["--loglevel", "debug", "--enable-debug-command", "yes", "--latency-monitor-threshold", "1"]);
    let mut admin = server.client();
    for kind in ["execution-slower", "request-larger", "reply-larger"] {
        assert_eq!(ask(&mut admin, &format!("CONFIG SET commandlog-{kind}-than 0")), "OK");
    }
    assert_eq!(ask(&mut admin, "SET k v"), "OK");
    let mut monitor = server.socket();
    send(&mut monitor, b"MONITOR\r\n");
    assert!(eventually(|| ask(&mut admin, "CLIENT LIST").contains("cmd=monitor")));
    let mut client = server.client();
    say(&mut client, &free_port().to_string());
    assert_eq!(ask(&mut admin, "ECHO the-end"), "\"the-end\"");
    let heard = heard(&mut monitor);
    assert!(heard.contains("(redacted)") && heard.contains("the-end"), "{heard}");
    has_none("MONITOR", &heard);
    for place in [
        "COMMANDLOG GET -1 slow",
        "COMMANDLOG GET -1 large-request",
        "COMMANDLOG GET -1 large-reply",
        "SLOWLOG GET -1",
        "ACL LOG",
        "ACL LIST",
        "CLIENT LIST",
        "INFO everything",
        "LATENCY LATEST",
        "LATENCY DOCTOR",
        "MEMORY DOCTOR",
    ] {
        has_none(place, &ask(&mut admin, place));
    }
    assert!(ask(&mut admin, "SLOWLOG GET -1").contains("(redacted)"));
    send(&mut server.socket(), b"AUTH u s3cr3t-8\r\n");
    send(&mut server.socket(), format!("AUTH u s3cr3t-8\r\n{end}\r\n").as_bytes());
    assert!(eventually(|| server.folder.read("stdout").contains("BUG REPORT END")));
    has_none("the log", &server.folder.read("stdout"));
    has_none("stderr", &server.folder.read("stderr"));
    assert!(!server.wait().success());
}

#[test]
fn no_secret_is_readable_when_a_signal_ends_the_server() {
    tell("DEBUG SEGFAULT");
}

#[test]
fn no_secret_is_readable_when_a_panic_ends_the_server() {
    tell("DEBUG PANIC");
}
