//! Memory that waits for replicas: it is no data, and it has a limit.

use crate::dialogue::ask;
use crate::harness::{Server, eventually, expect_bytes, send};
use std::net::TcpStream;
use std::thread;

const VALUE: usize = 10_000;
const KEYS: usize = 100;
const WRITERS: usize = 2;
/// Batches of [`KEYS`] values that each writer sends.
const BATCHES: usize = 40;

fn field(server: &Server, name: &str) -> u64 {
    let info = ask(&mut server.client(), "INFO everything");
    let line = info.split("\\r\\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no number {name}"))
}

/// A replica that reads nothing.
fn silent_replica(server: &Server) -> TcpStream {
    let mut socket = server.socket();
    send(&mut socket, b"SYNC\r\n");
    assert!(eventually(|| ask(&mut server.client(), "INFO replication").contains("state=online")), "it follows");
    socket
}

/// Writes the same keys again and again.
fn write(mut socket: TcpStream, writer: usize) {
    let set =
        |key: usize| format!("*3\r\n$3\r\nSET\r\n$5\r\n{writer}-{key:03}\r\n${VALUE}\r\n{}\r\n", "v".repeat(VALUE));
    let batch: String = (0..KEYS).map(set).collect();
    let replies = "+OK\r\n".repeat(KEYS);
    for _ in 0..BATCHES {
        send(&mut socket, batch.as_bytes());
        expect_bytes(&mut socket, replies.as_bytes());
    }
}

#[test]
fn keys_stay_and_writes_succeed_while_replicas_lag() {
    let written = (WRITERS * BATCHES * KEYS * VALUE) as u64;
    for policy in ["allkeys-lru", "noeviction"] {
        let limits = ["--maxmemory", "40mb", "--maxmemory-policy", policy, "--repl-diskless-sync-delay", "0"];
        let options = [&limits[..], &["--client-output-buffer-limit", "replica 0 0 0"]].concat();
        let server = Server::start_with_threads(2, &options);
        let replica = silent_replica(&server);
        let sockets: Vec<TcpStream> = (0..WRITERS).map(|_| server.socket()).collect();
        thread::scope(|scope| {
            sockets.into_iter().enumerate().for_each(|(writer, socket)| _ = scope.spawn(move || write(socket, writer)));
        });
        let keys = ask(&mut server.client(), "DBSIZE");
        assert_eq!((keys, field(&server, "evicted_keys")), ((WRITERS * KEYS).to_string(), 0), "{policy}");
        let kept =
            || field(&server, "mem_clients_slaves") + field(&server, "mem_replication_backlog") > written * 9 / 10;
        assert!(eventually(kept), "what the replica has not read is shown");
        assert!(field(&server, "mem_not_counted_for_evict") > written * 8 / 10);
        drop(replica);
        assert!(eventually(|| field(&server, "mem_not_counted_for_evict") < 1 << 20), "it goes with the replica");
        assert!(server.stop().success());
    }
}

#[test]
fn a_replica_that_reads_too_slowly_is_counted_among_the_clients_that_were_disconnected_for_it() {
    let limits = ["--client-output-buffer-limit", "replica 1mb 0 0", "--repl-backlog-size", "16kb"];
    let server = Server::start(&[&limits[..], &["--repl-diskless-sync-delay", "0"]].concat());
    let replica = silent_replica(&server);
    write(server.socket(), 0);
    let is_counted = || field(&server, "client_output_buffer_limit_disconnections") == 1;
    assert!(eventually(is_counted), "it is counted");
    assert_eq!(field(&server, "connected_slaves"), 0);
    drop(replica);
    assert_eq!(ask(&mut server.client(), "CONFIG RESETSTAT"), "OK");
    assert_eq!(field(&server, "client_output_buffer_limit_disconnections"), 0);
}
