//! Slots that come to a node from a source which a test plays.

use crate::dialogue::ask;
use crate::harness::{Server, eventually, expect_bytes, free_port, send};
use resp::encode_command;
use std::net::TcpStream;

/// A key of slot 0.
const KEY: &str = "{06S}k";

fn node() -> (Server, u16) {
    let bus = free_port();
    let port = bus.to_string();
    (Server::start(&["--cluster-enabled", "yes", "--cluster-port", &port]), bus)
}

fn encode(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    lines.iter().for_each(|line| encode_command(&mut bytes, &line.split(' ').collect::<Vec<_>>()));
    bytes
}

/// Waits for a word of the target's.
fn expect_word(source: &mut TcpStream, word: &str) {
    expect_bytes(source, &encode(&[&format!("CLUSTER SYNCSLOTS {word}")]));
}

#[test]
fn keys_that_the_source_removes_at_its_end_stay_at_the_target() {
    let ((owner, bus), (target, _)) = (node(), node());
    let (mut owner_admin, mut admin) = (owner.client(), target.client());
    assert_eq!(ask(&mut owner_admin, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    assert_eq!(ask(&mut admin, &format!("CLUSTER MEET 127.0.0.1 {} {bus}", owner.port)), "OK");
    assert!(eventually(|| ask(&mut admin, "CLUSTER NODES").contains(" 0-16383")));
    let id = ask(&mut owner_admin, "CLUSTER MYID").trim_matches('"').to_owned();
    let mut source = target.socket();
    let establish = format!("CLUSTER SYNCSLOTS ESTABLISH SOURCE {id} NAME {:040} SLOTSRANGE 0 0", 1);
    send(&mut source, &encode(&[&establish]));
    expect_bytes(&mut source, b"+OK\r\n");
    let snapshot =
        encode(&["CLUSTER SYNCSLOTS ACK", "SELECT 0", &format!("SET {KEY} v"), "CLUSTER SYNCSLOTS SNAPSHOT-EOF"]);
    send(&mut source, &snapshot);
    expect_word(&mut source, "REQUEST-PAUSE");
    send(&mut source, &encode(&["CLUSTER SYNCSLOTS PAUSED"]));
    expect_word(&mut source, "REQUEST-FAILOVER");
    // A source that has given the slots up removes its keys.
    send(&mut source, &encode(&["CLUSTER SYNCSLOTS FAILOVER-GRANTED", "SELECT 0", &format!("UNLINK {KEY}")]));
    assert!(eventually(|| ask(&mut admin, "CLUSTER GETSLOTMIGRATIONS").contains("success")));
    assert!(eventually(|| ask(&mut admin, "CLUSTER INFO").contains("cluster_state:ok")));
    assert_eq!(ask(&mut admin, &format!("GET {KEY}")), "\"v\"");
    assert!(owner.stop().success() && target.stop().success());
}
