//! Slots that come to a node from a source which a test plays.

use crate::dialogue::ask;
use crate::ended_connections::owner_and_target;
use crate::harness::{eventually, expect_bytes, send};
use resp::encode_command;
use std::net::TcpStream;

/// A key of slot 0.
const KEY: &str = "{06S}k";

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
    let (owner, target, id) = owner_and_target();
    let mut admin = target.client();
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
