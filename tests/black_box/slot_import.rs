//! Slots that arrive at a node from a source which a test plays.

use crate::dialogue::ask;
use crate::ended_connections::{owner_and_target, owner_and_target_with};
use crate::failing_disks::limit_files;
use crate::harness::{Server, eventually, expect_bytes, is_peer, send};
use resp::encode_command;
use std::collections::BTreeSet;
use std::io::Read;
use std::net::TcpStream;

/// A key of slot 0.
const KEY: &str = "{06S}k";

fn encode(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    lines.iter().for_each(|line| encode_command(&mut bytes, &line.split(' ').collect::<Vec<_>>()));
    bytes
}

/// Waits for a word of the target's, which says ACK from time to time.
fn expect_word(source: &mut TcpStream, word: &str) {
    let (ack, wanted) = (encode(&["CLUSTER SYNCSLOTS ACK"]), encode(&[&format!("CLUSTER SYNCSLOTS {word}")]));
    let mut found = vec![0; ack.len()];
    source.read_exact(&mut found).expect("a word");
    while found == ack {
        source.read_exact(&mut found).expect("a word");
    }
    found.resize(wanted.len(), 0);
    source.read_exact(&mut found[ack.len()..]).expect("the rest of the word");
    assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(&wanted));
}

/// Plays a source that has sent its keys and has paused.
fn paused_source(target: &Server, id: &str) -> TcpStream {
    let mut source = target.socket();
    let establish = format!("CLUSTER SYNCSLOTS ESTABLISH SOURCE {id} NAME {:040} SLOTSRANGE 0 0", 1);
    send(&mut source, &encode(&[&establish]));
    expect_bytes(&mut source, b"+OK\r\n");
    let snapshot =
        encode(&["CLUSTER SYNCSLOTS ACK", "SELECT 0", &format!("SET {KEY} v"), "CLUSTER SYNCSLOTS SNAPSHOT-EOF"]);
    send(&mut source, &snapshot);
    expect_word(&mut source, "REQUEST-PAUSE");
    send(&mut source, &encode(&["CLUSTER SYNCSLOTS PAUSED"]));
    source
}

#[test]
fn slots_are_taken_when_as_many_have_the_keys_as_a_reply_waits_for() {
    if is_peer() {
        return;
    }
    let (owner, target, id) = owner_and_target();
    let mut admin = target.client();
    assert_eq!(ask(&mut admin, "CONFIG SET min-replicas-to-acknowledge 1"), "OK");
    let mut source = paused_source(&target, &id);
    for _ in 0..20 {
        send(&mut source, &encode(&["CLUSTER SYNCSLOTS ACK"]));
        assert!(ask(&mut admin, "CLUSTER GETSLOTMIGRATIONS").contains("waiting-for-paused"), "no replica has the keys");
    }
    assert_eq!(ask(&mut admin, "CONFIG SET min-replicas-to-acknowledge 0"), "OK");
    expect_word(&mut source, "REQUEST-FAILOVER");
    drop(source);
    assert!(eventually(|| ask(&mut admin, "CLUSTER GETSLOTMIGRATIONS").contains("failed")));
    assert_eq!(ask(&mut admin, "CONFIG SET min-replicas-to-acknowledge 1"), "OK");
    // A source that goes while it is waited ends the job.
    drop(paused_source(&target, &id));
    let is_over = |admin: &mut _| !ask(admin, "CLUSTER GETSLOTMIGRATIONS").contains("waiting-for-paused");
    assert!(eventually(|| is_over(&mut admin)));
    assert!(owner.stop().success() && target.stop().success());
}

#[test]
fn slots_are_not_taken_when_the_log_has_failed() {
    if is_peer() {
        return;
    }
    // A node whose own file cannot be written ends, unless a directive prevents that.
    let goes_on = ["--cluster-config-save-behavior", "best-effort"];
    let options = [&["--appendonly", "yes", "--appendfsync", "always"][..], &goes_on].concat();
    let (owner, target, id) = owner_and_target_with(&options);
    let mut admin = target.client();
    limit_files(&target, Some(0));
    let mut source = paused_source(&target, &id);
    for _ in 0..20 {
        send(&mut source, &encode(&["CLUSTER SYNCSLOTS ACK"]));
        assert!(ask(&mut admin, "CLUSTER GETSLOTMIGRATIONS").contains("waiting-for-paused"), "the disk lacks the keys");
    }
    limit_files(&target, None);
    expect_word(&mut source, "REQUEST-FAILOVER");
    assert!(owner.stop().success() && target.stop().success());
}

#[test]
fn jobs_wait_in_line_for_their_snapshots() {
    if is_peer() {
        return;
    }
    let (owner, target, _) = owner_and_target();
    let (mut admin, mut there) = (owner.client(), target.client());
    let id = ask(&mut there, "CLUSTER MYID").trim_matches('"').to_owned();
    assert!(eventually(|| ask(&mut admin, "CLUSTER NODES").contains(&id)));
    assert!(eventually(|| ask(&mut admin, "SET k v") == "OK"));
    assert_eq!(ask(&mut admin, "CONFIG SET rdb-key-save-delay 300000"), "OK");
    let (mut slots, mut order) = (BTreeSet::new(), "CLUSTER MIGRATESLOTS".to_owned());
    for name in (0..).map(|number| format!("k{number}")) {
        let slot = ask(&mut admin, &format!("CLUSTER KEYSLOT {name}"));
        if slots.len() < 20 && slots.insert(slot.clone()) {
            assert_eq!(ask(&mut admin, &format!("SET {name} v")), "OK");
            order += &format!(" SLOTSRANGE {slot} {slot} NODE {id}");
        }
        if slots.len() == 20 {
            break;
        }
    }
    assert_eq!(ask(&mut admin, &order), "OK");
    // How a job ends is left open: writes are not paused for ever, and a slow machine may take longer.
    let have_begun = |admin: &mut _| {
        let jobs = ask(admin, "CLUSTER GETSLOTMIGRATIONS");
        assert!(!jobs.contains("Failed to perform snapshot"), "{jobs}");
        !["connecting", "reading-", "waiting-to-snapshot"].iter().any(|state| jobs.contains(state))
    };
    assert!(eventually(|| have_begun(&mut admin)));
    assert!(owner.stop().success() && target.stop().success());
}

#[test]
fn keys_that_the_source_removes_at_its_end_stay_at_the_target() {
    let (owner, target, id) = owner_and_target();
    let mut admin = target.client();
    let mut source = paused_source(&target, &id);
    expect_word(&mut source, "REQUEST-FAILOVER");
    // A source that has given the slots up removes its keys.
    send(&mut source, &encode(&["CLUSTER SYNCSLOTS FAILOVER-GRANTED", "SELECT 0", &format!("UNLINK {KEY}")]));
    assert!(eventually(|| ask(&mut admin, "CLUSTER GETSLOTMIGRATIONS").contains("success")));
    assert!(eventually(|| ask(&mut admin, &format!("GET {KEY}")) == "\"v\""));
    assert!(owner.stop().success() && target.stop().success());
}
