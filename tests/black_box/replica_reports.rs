//! Reports about replication: what INFO and waiting clients learn of a synchronization and of a change of the primary.

use crate::dialogue::ask;
use crate::harness::{Server, bytes_of, eventually, is_peer, send};
use crate::replica_links::{ID, next_link};
use redis::Connection;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;

const AT_ONCE: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

/// A field of a section of INFO.
fn field(client: &mut Connection, section: &str, name: &str) -> Option<String> {
    let info: String = redis::cmd("INFO").arg(section).query(client).expect("INFO");
    info.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned()))
}

#[test]
fn a_snapshot_for_replicas_has_a_duration() {
    let primary = Server::start(&[&AT_ONCE[..], &["--rdb-key-save-delay", "20000"]].concat());
    let mut client = primary.client();
    for key in 0..100 {
        ask(&mut client, &format!("SET key{key} value"));
    }
    let current = |client: &mut Connection| field(client, "persistence", "rdb_current_bgsave_time_sec");
    assert_eq!(current(&mut client).as_deref(), Some("-1"));
    let mut replica = primary.socket();
    send(&mut replica, b"PSYNC ? -1\r\n");
    assert!(eventually(|| field(&mut client, "persistence", "rdb_bgsave_in_progress").as_deref() == Some("1")));
    assert!(eventually(|| current(&mut client).is_some_and(|seconds| seconds == "1")), "the time goes on");
    assert!(eventually(|| current(&mut client).as_deref() == Some("-1")), "and ends");
    let last = field(&mut client, "persistence", "rdb_last_bgsave_time_sec").expect("the field");
    assert!(last.parse::<i64>().expect("seconds") >= 1, "{last}");
}

#[test]
fn a_snapshot_that_has_not_begun_has_no_length() {
    let replica = Server::start(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let mut client = replica.client();
    assert_eq!(ask(&mut client, &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
    let mut numbers = || {
        let names = ["in_progress", "total_bytes", "read_bytes", "left_bytes", "perc"];
        names.map(|name| field(&mut client, "replication", &format!("master_sync_{name}")).unwrap_or_default())
    };
    let (_lines, mut link) = next_link(&listener);
    assert_eq!(numbers(), ["0", "", "", "", ""]);
    send(&mut link, format!("+FULLRESYNC {ID} 100\r\n").as_bytes());
    assert!(eventually(|| numbers() == ["1", "-1", "0", "-1", "-0.00"]), "{:?}", numbers());
    send(&mut link, b"$1000\r\n");
    assert!(eventually(|| numbers() == ["1", "1000", "0", "1000", "0.00"]), "{:?}", numbers());
}

#[test]
fn a_client_that_waits_on_a_replica_learns_that_it_follows_another_primary() {
    let [first, second, replica] = std::array::from_fn(|_| Server::start(&AT_ONCE));
    let mut client = replica.client();
    let follow =
        |client: &mut Connection, primary: &Server| ask(client, &format!("REPLICAOF 127.0.0.1 {}", primary.port));
    assert_eq!(follow(&mut client, &first), "OK");
    assert!(eventually(|| ask(&mut client, "ROLE").contains("\"connected\"")));
    let mut waiting = replica.socket();
    send(&mut waiting, b"XREAD BLOCK 0 STREAMS x $\r\n");
    assert!(eventually(|| field(&mut client, "clients", "blocked_clients").as_deref() == Some("1")));
    assert_eq!(follow(&mut client, &first), "OK Already connected to specified master");
    assert_eq!(field(&mut client, "clients", "blocked_clients").as_deref(), Some("1"));
    assert_eq!(follow(&mut client, &second), "OK");
    let mut reply = String::new();
    BufReader::new(waiting).read_line(&mut reply).expect("a reply");
    assert!(reply.starts_with("-UNBLOCKED force unblock from blocking operation, instance state changed"), "{reply}");
}

#[test]
fn nothing_is_acknowledged_before_the_record_of_the_set_is_on_the_disk() {
    if is_peer() {
        return;
    }
    let options = [&AT_ONCE[..], &["--acknowledge-timeout", "400", "--acknowledge-lease", "300"]].concat();
    let [primary, replica] = std::array::from_fn(|_| Server::start(&options));
    // The server cannot create its file where a directory is.
    let obstacle = primary.folder.path().join("in-sync.record.new");
    std::fs::create_dir(&obstacle).expect("a directory");
    let mut client = primary.client();
    assert_eq!(ask(&mut client, "CONFIG SET min-replicas-to-acknowledge 1"), "OK");
    assert_eq!(ask(&mut replica.client(), &format!("REPLICAOF 127.0.0.1 {}", primary.port)), "OK");
    assert!(eventually(|| ask(&mut replica.client(), "ROLE").contains("\"connected\"")));
    let state = |client: &mut Connection| field(client, "replication", "in_sync_state").unwrap_or_default();
    assert!(eventually(|| state(&mut client) == "blocked"), "{}", state(&mut client));
    for _ in 0..3 {
        let mut socket = primary.socket();
        send(&mut socket, b"SET key 1\r\n");
        let reply = bytes_of(&mut socket, 15);
        assert!(reply.starts_with(b"-UNACKNOWLEDGED"), "{}", String::from_utf8_lossy(&reply));
    }
    let log = primary.folder.read("stdout");
    assert_eq!(log.matches("The record of the in-sync set cannot be written").count(), 1, "{log}");
    std::fs::remove_dir(&obstacle).expect("the directory");
    assert!(eventually(|| state(&mut client) == "open"), "{}", state(&mut client));
    assert!(eventually(|| ask(&mut client, "SET key 2") == "OK"));
}
