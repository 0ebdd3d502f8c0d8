//! A time of day that goes back or forward by an hour: what measures a span does not notice. `clock_jumps.c` plays the
//! clock.

use crate::dialogue::ask;
use crate::harness::{Server, bytes_of, eventually, expect_bytes, read_to_close, send};
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The library that plays the clock, which is made once: a server must not find half of it.
fn clock() -> &'static PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/black_box/clock_jumps.c");
        let made = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("clock_jumps-{}.so", std::process::id()));
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&made).arg(source);
        assert!(compiler.status().expect("a C compiler").success());
        made
    })
}

fn server_with_clock(options: &[&str]) -> Server {
    let library = clock().to_str().expect("a name in UTF-8");
    let environment = [("LD_PRELOAD", library), ("CLOCK_BACK", "back"), ("CLOCK_FORWARD", "forward")];
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

/// Sets the clock back by an hour.
fn set_back(server: &Server) {
    let before = time_of_day(server);
    fs::write(server.folder.path().join("back"), "").expect("a file");
    assert!(time_of_day(server) < before);
}

/// The number in a field of INFO.
fn info(server: &Server, field: &str) -> Option<i64> {
    let text = ask(&mut server.client(), "INFO everything");
    let (_, rest) = text.split_once(&format!("{field}:"))?;
    rest.split(['\r', '\\']).next()?.parse().ok()
}

#[test]
fn clients_that_wait_and_pauses_end_when_the_clock_has_gone_back() {
    let server = server_with_clock(&["--timeout", "0"]);
    let [mut blocked, mut paused] = std::array::from_fn(|_| server.socket());
    send(&mut blocked, b"BLPOP nothing 2\r\n");
    let is_blocked = || info(&server, "blocked_clients") == Some(1);
    assert!(eventually(is_blocked));
    assert_eq!(ask(&mut server.client(), "CLIENT PAUSE 3000 WRITE"), "OK");
    send(&mut paused, b"SET key value\r\n");
    set_back(&server);
    expect_bytes(&mut blocked, b"*-1\r\n");
    expect_bytes(&mut paused, b"+OK\r\n");
    // The timers of a worker still run: a key with a time to live expires in the background, by the new time of day.
    assert_eq!(ask(&mut server.client(), "SET short v PX 20"), "OK");
    assert!(eventually(|| info(&server, "expired_keys") == Some(1)), "keys expire in the background");
}

/// Starts a server whose replica does not acknowledge the last write.
fn server_with_a_replica_behind() -> (Server, TcpStream) {
    let options = ["--repl-timeout", "3600", "--shutdown-timeout", "3", "--repl-diskless-sync", "no"];
    let server = server_with_clock(&options);
    let replica = follow(&server, "REPLCONF listening-port 7\r\nPSYNC ? -1\r\n", 0);
    assert_eq!(ask(&mut server.client(), "SET key value"), "OK");
    (server, replica)
}

#[test]
fn a_failover_ends_in_time_when_the_clock_has_gone_back() {
    let (server, _replica) = server_with_a_replica_behind();
    assert_eq!(ask(&mut server.client(), "FAILOVER TIMEOUT 1500"), "OK");
    set_back(&server);
    let has_ended = || ask(&mut server.client(), "INFO replication").contains("master_failover_state:no-failover");
    assert!(eventually(has_ended), "the replica never caught up");
}

#[test]
fn a_shutdown_ends_in_time_when_the_clock_has_gone_back() {
    let (server, _replica) = server_with_a_replica_behind();
    send(&mut server.socket(), b"SHUTDOWN NOSAVE\r\n");
    assert!(eventually(|| info(&server, "shutdown_in_milliseconds").is_some()), "the replica is waited for");
    set_back(&server);
    assert!(server.wait().success());
}

#[test]
fn a_replica_knows_how_long_its_link_is_down_when_the_clock_has_gone_back() {
    let (server, primary) = (server_with_clock(&[]), Server::start(&["--repl-diskless-sync-delay", "0"]));
    assert_eq!(ask(&mut server.client(), &format!("REPLICAOF 127.0.0.1 {}", primary.port)), "OK");
    assert!(eventually(|| ask(&mut server.client(), "ROLE").contains("\"connected\"")), "the link stands");
    assert!(primary.stop().success());
    let down_for = || info(&server, "master_link_down_since_seconds");
    assert!(eventually(|| down_for().is_some()));
    set_back(&server);
    assert!(eventually(|| down_for().is_some_and(|seconds| seconds >= 1)), "{:?}", down_for());
}

#[test]
fn a_replica_whose_link_never_stood_says_so() {
    let server = Server::start(&["--replicaof", "127.0.0.1", "1"]);
    assert_eq!(info(&server, "master_link_down_since_seconds"), Some(-1));
}

#[test]
fn an_idle_client_is_closed_when_the_clock_has_gone_back() {
    let server = server_with_clock(&["--timeout", "2"]);
    let mut idle = server.socket();
    send(&mut idle, b"PING\r\n");
    expect_bytes(&mut idle, b"+PONG\r\n");
    set_back(&server);
    assert_eq!(read_to_close(&mut idle), "");
}

#[test]
fn a_user_waits_for_its_quota_no_longer_when_the_clock_has_gone_back() {
    let server = server_with_clock(&[]);
    let mut admin = server.client();
    assert_eq!(ask(&mut admin, "ACL SETUSER slow on nopass ~* &* +@all quota:ops=20"), "OK");
    let mut slow = server.socket();
    send(&mut slow, b"AUTH slow x\r\n");
    expect_bytes(&mut slow, b"+OK\r\n");
    // More than may be used in a second: the rest waits.
    send(&mut slow, "PING\r\n".repeat(60).as_bytes());
    expect_bytes(&mut slow, &b"+PONG\r\n".repeat(10));
    set_back(&server);
    expect_bytes(&mut slow, &b"+PONG\r\n".repeat(50));
}

/// A number in the line of CLIENT LIST for this client.
fn listed(server: &Server, client: &str, field: &str) -> Option<i64> {
    let line = ask(&mut server.client(), &format!("CLIENT LIST ID {client}"));
    let (_, rest) = line.split_once(&format!(" {field}="))?;
    rest.split(' ').next()?.parse().ok()
}

#[test]
fn clients_are_as_old_and_as_idle_as_they_are_when_the_clock_has_gone_back() {
    let server = server_with_clock(&["--timeout", "1800"]);
    let mut sockets: Vec<TcpStream> = (0..4).map(|_| server.socket()).collect();
    let mut old = server.client();
    let client = ask(&mut old, "CLIENT ID");
    assert!(eventually(|| listed(&server, &client, "age").is_some_and(|age| age >= 1)));
    fs::write(server.folder.path().join("back"), "").expect("a file");
    // Bytes that arrive before a worker looks at its timers are no older than later ones.
    for _ in 0..20 {
        for socket in &mut sockets {
            send(socket, b"PING\r\n");
            expect_bytes(socket, b"+PONG\r\n");
        }
    }
    let is_idle = || listed(&server, &client, "idle").is_some_and(|idle| idle >= 1);
    assert!(eventually(is_idle), "it is idle for as long as it is");
    assert!(listed(&server, &client, "age").is_some_and(|age| (1..1800).contains(&age)));
    for socket in &mut sockets {
        send(socket, b"PING\r\n");
        expect_bytes(socket, b"+PONG\r\n");
    }
}

#[test]
fn save_points_count_the_seconds_that_pass_when_the_clock_has_gone_back() {
    let server = server_with_clock(&["--save", "1 1"]);
    set_back(&server);
    assert_eq!(ask(&mut server.client(), "SET key value"), "OK");
    assert!(eventually(|| info(&server, "rdb_changes_since_last_save") == Some(0)), "the data set is saved");
    assert!(eventually(|| info(&server, "uptime_in_seconds").is_some_and(|seconds| seconds >= 1)));
}

/// Sets the clock forward by an hour.
fn set_forward(server: &Server) {
    let before = time_of_day(server);
    fs::write(server.folder.path().join("forward"), "").expect("a file");
    assert!(time_of_day(server) >= before + 3600);
}

#[test]
fn links_and_clients_stay_and_keys_expire_when_the_clock_has_gone_forward() {
    let spans = ["--timeout", "1800", "--repl-timeout", "600", "--repl-diskless-sync-delay", "0"];
    let primary = server_with_clock(&spans);
    let address = format!("127.0.0.1 {}", primary.port);
    let replica = server_with_clock(&[&spans[..], &["--replicaof", &address]].concat());
    let is_up = |server: &Server| ask(&mut server.client(), "INFO replication").contains("master_link_status:up");
    assert!(eventually(|| is_up(&replica) && online(&primary) == 1));
    let (mut client, mut reader) = (primary.client(), replica.client());
    for request in ["SET long v EX 7200", "SET short v EX 1800", "HSET hash long v short v", "SET plain v"] {
        assert!(!ask(&mut client, request).starts_with('-'), "{request}");
    }
    assert_eq!(ask(&mut client, "HEXPIRE hash 1800 FIELDS 1 short"), "[1]");
    let [mut blocked, mut idle] = [&primary, &replica].map(Server::socket);
    send(&mut blocked, b"BLPOP list 1800\r\n");
    send(&mut idle, b"PING\r\n");
    expect_bytes(&mut idle, b"+PONG\r\n");
    let counts =
        |server: &Server| ["sync_full", "sync_partial_ok", "sync_partial_err"].map(|field| info(server, field));
    let before = counts(&primary);
    for (number, server) in [(50, &replica), (100, &primary)] {
        let mut write = || ask(&mut client, "INCR count");
        (0..25).for_each(|_| _ = write());
        set_forward(server);
        (0..24).for_each(|_| _ = write());
        assert_eq!(write(), number.to_string());
    }
    assert_eq!([ask(&mut client, "GET short"), ask(&mut client, "GET plain")], ["nil", "\"v\""]);
    assert!(eventually(|| info(&primary, "expired_keys") == Some(1) && ask(&mut client, "HLEN hash") == "1"));
    assert_eq!(ask(&mut client, "WAIT 1 10000"), "1");
    assert!(eventually(|| ask(&mut reader, "DBSIZE") == "4" && ask(&mut reader, "HLEN hash") == "1"));
    let left: i64 = ask(&mut reader, "TTL long").parse().expect("a number");
    assert!((3000..=3600).contains(&left), "{left}");
    assert_eq!(ask(&mut client, "RPUSH list v"), "1");
    expect_bytes(&mut blocked, b"*2\r\n$4\r\nlist\r\n$1\r\nv\r\n");
    send(&mut idle, b"PING\r\n");
    expect_bytes(&mut idle, b"+PONG\r\n");
    assert_eq!((counts(&primary), online(&primary), is_up(&replica)), (before, 1, true), "the link was never dropped");
    assert!(info(&primary, "uptime_in_seconds").is_some_and(|seconds| seconds < 3600));
}
