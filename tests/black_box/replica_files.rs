//! A replica's files and its history, where a snapshot meets a save, is faulty, or breaks off.

use crate::dialogue::{ask, ask_integer};
use crate::harness::{Server, eventually, send};
use crate::replica_links::{ID, follow, line, next_link};
use std::io::{BufReader, Write};
use std::net::TcpListener;
use std::thread;

const AT_ONCE: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

fn start(options: &[&str]) -> Server {
    Server::start(&[&AT_ONCE[..], options].concat())
}

#[test]
fn a_save_under_way_does_not_take_the_place_of_a_snapshot_that_comes() {
    for log in ["yes", "no"] {
        let loads = ["disabled", "swapdb", "flush-before-load"];
        // A log that is begun anew would be as slow as the save.
        for load in if log == "yes" { &loads[..1] } else { &loads } {
            let primary = start(&[]);
            let mut replica = start(&["--appendonly", log, "--repl-diskless-load", load]);
            assert_eq!(ask(&mut primary.client(), "SET new 1"), "OK");
            let mut client = replica.client();
            for line in ["SET old 1", "SET older 1", "CONFIG SET rdb-key-save-delay 2147483647"] {
                assert_eq!(ask(&mut client, line), "OK");
            }
            let begins = || ask(&mut client, "BGSAVE").contains("started");
            assert!(eventually(begins));
            follow(&replica, &primary);
            let info = ask(&mut client, "INFO persistence");
            assert!(info.contains("rdb_bgsave_in_progress:0"), "{load}: {info}");
            assert_eq!(ask(&mut client, "CONFIG SET rdb-key-save-delay 0"), "OK");
            assert!(eventually(
                || ask(&mut client, "INFO persistence").contains("aof_pending_rewrite:0") || log == "no"
            ));
            replica.crash();
            let [old, new] = ["old", "new"].map(|key| ask(&mut replica.client(), &format!("EXISTS {key}")));
            assert_eq!(old, "0", "{log} {load}");
            assert!(new == "1" || *load != "disabled", "{log} {load}");
        }
    }
}

#[test]
fn flushall_with_save_points_gives_up_a_save_of_what_it_removes() {
    let mut server = start(&["--save", "3600 1000000"]);
    let mut client = server.client();
    for line in ["SET old 1", "SET older 1", "CONFIG SET rdb-key-save-delay 2147483647"] {
        assert_eq!(ask(&mut client, line), "OK");
    }
    assert!(ask(&mut client, "BGSAVE").contains("started"));
    assert_eq!(ask(&mut client, "FLUSHALL SYNC"), "OK");
    assert!(eventually(|| ask(&mut client, "INFO persistence").contains("rdb_bgsave_in_progress:0")));
    server.crash();
    assert_eq!(ask(&mut server.client(), "DBSIZE"), "0");
}

/// Starts a primary that sends this snapshot to each replica.
fn primary_with(snapshot: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    thread::spawn(move || {
        loop {
            let (lines, mut replica) = next_link(&listener);
            send(&mut replica, format!("+FULLRESYNC {ID} 1\r\n${}\r\n", snapshot.len()).as_bytes());
            let _ = replica.write_all(snapshot);
            drop(lines);
        }
    });
    port
}

/// A key, and a checksum that is wrong.
const WRONG_SUM: &[u8] = b"REDIS0011\xfe\x00\x00\x01a\x01b\xff12345678";
/// A key, another one of a type that does not exist, and no checksum.
const WRONG_TYPE: &[u8] = b"REDIS0011\xfe\x00\x00\x01a\x01b\xc8\x01c\x01d\xff\0\0\0\0\0\0\0\0";

#[test]
fn a_faulty_snapshot_does_not_take_the_place_of_the_saved_file() {
    for (snapshot, kept) in [(WRONG_SUM, "\"1\""), (WRONG_TYPE, "nil")] {
        let mut replica = start(&[]);
        let mut client = replica.client();
        assert_eq!([ask(&mut client, "SET mine 1"), ask(&mut client, "SAVE")], ["OK", "OK"]);
        assert_eq!(ask(&mut client, &format!("REPLICAOF 127.0.0.1 {}", primary_with(snapshot))), "OK");
        let failed = || replica.folder.read("stdout").contains("Failed trying to load the PRIMARY synchronization DB");
        assert!(eventually(failed), "{}", replica.folder.read("stdout"));
        assert!(eventually(|| ask(&mut client, "REPLICAOF NO ONE") == "OK"));
        assert!(eventually(|| ask(&mut client, "GET mine") == kept), "{snapshot:?}");
        replica.crash();
        assert_eq!(ask(&mut replica.client(), "GET mine"), "\"1\"");
    }
}

#[test]
fn a_replica_that_a_failed_synchronization_emptied_continues_no_history() {
    let primary = start(&[]);
    let [emptied, other, below] = std::array::from_fn(|_| start(&["--repl-diskless-load", "flush-before-load"]));
    follow(&emptied, &primary);
    follow(&other, &primary);
    follow(&below, &emptied);
    assert_eq!(ask(&mut primary.client(), "SET before 1"), "OK");
    for replica in [&emptied, &other, &below] {
        assert!(eventually(|| ask(&mut replica.client(), "GET before") == "\"1\""));
    }
    let mut client = emptied.client();
    assert_eq!(ask(&mut client, &format!("REPLICAOF 127.0.0.1 {}", primary_with(WRONG_TYPE))), "OK");
    let failed = || emptied.folder.read("stdout").contains("Failed trying to load the PRIMARY synchronization DB");
    assert!(eventually(failed));
    assert!(eventually(|| ask(&mut client, "REPLICAOF NO ONE") == "OK"));
    assert_eq!(ask_integer(&mut client, "EXISTS before"), 0);
    assert_eq!(ask(&mut other.client(), &format!("REPLICAOF 127.0.0.1 {}", emptied.port)), "OK");
    assert!(eventually(|| ask(&mut client, "SET after 1") == "OK"));
    for replica in [&other, &below] {
        assert!(eventually(|| ask(&mut replica.client(), "GET after") == "\"1\""));
        assert_eq!(ask(&mut replica.client(), "EXISTS before"), "0");
    }
}

#[test]
fn the_snapshot_knows_better_than_the_word_before_it_which_database_the_stream_is_in() {
    let replica = start(&["--dual-channel-replication-enabled", "yes", "--databases", "16"]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    assert_eq!(ask(&mut replica.client(), &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
    let (mut lines, mut main) = next_link(&listener);
    send(&mut main, b"+DUALCHANNELSYNC\r\n");
    let (mut snapshots, _) = listener.accept().expect("the connection for the snapshot");
    let mut asked = BufReader::new(snapshots.try_clone().expect("the socket"));
    while line(&mut asked) != "replconf" {}
    send(&mut snapshots, format!("+OK\r\n$ENDOFF:100 {ID} 0 77\r\n").as_bytes());
    while line(&mut lines) != "set-rdb-client-id" {}
    send(&mut main, b"+OK\r\n");
    while line(&mut lines) != "psync" {}
    send(&mut main, b"+CONTINUE\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n");
    let fields = [("repl-stream-db", "9"), ("repl-id", ID), ("repl-offset", "100")];
    let mut snapshot = b"REDIS0011".to_vec();
    for (name, value) in fields {
        snapshot.push(0xfa);
        for text in [name, value] {
            snapshot.push(text.len() as u8);
            snapshot.extend_from_slice(text.as_bytes());
        }
    }
    snapshot.extend_from_slice(b"\xff\0\0\0\0\0\0\0\0");
    send(&mut snapshots, &[format!("${}\r\n", snapshot.len()).as_bytes(), &snapshot].concat());
    let in_database = |number: u32| {
        let mut client = replica.client();
        assert_eq!(ask(&mut client, &format!("SELECT {number}")), "OK");
        ask(&mut client, "GET k")
    };
    assert!(eventually(|| in_database(9) == "\"v\""), "{}", replica.folder.read("stdout"));
    assert_eq!(in_database(0), "nil");
}
