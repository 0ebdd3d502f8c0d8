//! A time of day that goes back by an hour: what measures a span does not notice. `clock_back.c` plays the clock.

use crate::dialogue::ask;
use crate::harness::{Server, bytes_of, eventually, send};
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

fn server_with_clock(options: &[&str]) -> Server {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/black_box/clock_back.c");
    let made = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("clock_back-{}.so", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&made).arg(source);
    assert!(compiler.status().expect("a C compiler").success());
    let library = made.to_str().expect("a name in UTF-8");
    let environment = [("LD_PRELOAD", library), ("CLOCK_BACK", "back")];
    Server::start_in(&environment.map(|(name, value)| (name.to_owned(), value.to_owned())), 2, options)
}

/// A replica that says nothing after this.
fn follow(server: &Server, request: &str, before: usize) -> TcpStream {
    let mut socket = server.socket();
    send(&mut socket, request.as_bytes());
    let is_there = || online(server) == before + 1;
    assert!(eventually(is_there), "{request}");
    socket
}

fn online(server: &Server) -> usize {
    ask(&mut server.client(), "INFO replication").matches("state=online").count()
}

/// In seconds.
fn time_of_day(server: &Server) -> u64 {
    let reply = ask(&mut server.client(), "TIME");
    reply.split('"').nth(1).and_then(|seconds| seconds.parse().ok()).unwrap_or_else(|| panic!("TIME: {reply}"))
}

/// Reads up to the next PING of the stream.
fn await_ping(stream: &mut TcpStream) {
    let mut last = Vec::new();
    while !last.ends_with(b"PING\r\n") {
        last.extend(bytes_of(stream, 1));
    }
}

#[test]
fn a_primary_pings_its_replicas_and_drops_silent_ones_when_the_clock_has_gone_back() {
    let spans = ["--repl-ping-replica-period", "1", "--repl-timeout", "3", "--repl-diskless-sync", "no"];
    let server = server_with_clock(&spans);
    let mut patient = follow(&server, "SYNC\r\n", 0);
    await_ping(&mut patient);
    let _silent = follow(&server, "PSYNC ? -1\r\n", 1);
    let before = time_of_day(&server);
    fs::write(server.folder.path().join("back"), "").expect("a file");
    assert!(time_of_day(&server) < before);
    (0..2).for_each(|_| await_ping(&mut patient));
    assert!(eventually(|| online(&server) == 1), "a replica that acknowledges nothing is dropped");
    assert!(server.stop().success());
}
