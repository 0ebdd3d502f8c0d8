//! A node of a cluster whose disk stalls or is full. A pipe in the place of the file that `nodes.conf` is first written
//! to plays a disk that stalls: it can be opened for writing when another process reads from it.

use crate::dialogue::{ask, dialogue};
use crate::failing_disks::{expect_silence, limit_files};
use crate::harness::{Server, eventually, expect_bytes, free_port, is_peer, send};
use redis::{ConnectionLike, cmd};
use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;

/// A node that is alone and has all slots.
fn node(threads: usize, options: &[&str]) -> Server {
    let port = free_port().to_string();
    let own = ["--cluster-enabled", "yes", "--cluster-single", "yes", "--cluster-port", &port];
    let partly = ["--cluster-require-full-coverage", "no"];
    Server::start_with_threads(threads, &[&own[..], &partly, options].concat())
}

/// From now on the disk of `nodes.conf` stalls.
fn stall(server: &Server) -> PathBuf {
    let pipe = server.folder.path().join(format!("nodes.conf.tmp-{}", server.pid()));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    pipe
}

/// Resumes the pipe. Returns the bytes that were written to it.
fn go_on(pipe: &PathBuf) -> String {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let mut reader = OpenOptions::new().read(true).custom_flags(flags).open(pipe).expect("a pipe");
    let (mut text, mut part) = (String::new(), [0; 4096]);
    let has_all = eventually(|| {
        let read = reader.read(&mut part).unwrap_or(0);
        text += &String::from_utf8_lossy(&part[..read]);
        text.contains("lastVoteEpoch")
    });
    assert!(has_all, "it got {text:?}");
    text
}

fn is_unassigned(client: &mut impl ConnectionLike) -> bool {
    let info: String = cmd("CLUSTER").arg("INFO").query(client).expect("CLUSTER INFO");
    info.contains("cluster_slots_assigned:16383")
}

#[test]
fn a_disk_that_stalls_holds_up_orders_and_nobody_else() {
    if is_peer() {
        return;
    }
    for threads in [1, 4] {
        let server = node(threads, &["--cluster-config-save-behavior", "best-effort"]);
        let (mut other, mut published) = (server.client(), server.client());
        // The slot that leaves has no keys: a node that has just started takes responsibility for slots with keys.
        assert!(eventually(|| ask(&mut other, "SET b 1") == "OK"));
        let pipe = stall(&server);
        let mut operator = server.socket();
        // The slot of the key `a`.
        send(&mut operator, b"CLUSTER DELSLOTS 15495\r\nPING\r\n");
        assert!(eventually(|| is_unassigned(&mut other)), "the order is given");
        let mut transaction = server.socket();
        send(&mut transaction, b"MULTI\r\nCLUSTER BUMPEPOCH\r\nSET b 2\r\nEXEC\r\n");
        expect_bytes(&mut transaction, b"+OK\r\n+QUEUED\r\n+QUEUED\r\n");
        let mut script = server.socket();
        send(&mut script, b"EVAL \"redis.call('CLUSTER', 'BUMPEPOCH') return 7\" 0\r\n");
        // Their locks are free, and what the order takes away is in force before it is in the file.
        assert!(eventually(|| ask(&mut other, "GET b") == "\"2\""));
        let refused = "-CLUSTERDOWN Hash slot not served";
        for _ in 0..100 {
            dialogue(&mut other, &[("INCR a", refused), ("GET a", refused), ("MGET b", "[\"2\"]")]);
            dialogue(&mut published, &[("PUBLISH news 1", "0"), ("SPUBLISH news 1", "0"), ("PING", "PONG")]);
        }
        [&mut operator, &mut transaction, &mut script].into_iter().for_each(expect_silence);
        let text = go_on(&pipe);
        assert!(text.contains("0-15494 15496-16383"), "{text}");
        expect_bytes(&mut operator, b"+OK\r\n+PONG\r\n");
        expect_bytes(&mut transaction, b"*2\r\n");
        expect_bytes(&mut script, b":7\r\n");
        dialogue(&mut other, &[("GET a", refused), ("GET b", "\"2\""), ("CLUSTER SAVECONFIG", "OK")]);
        assert!(server.folder.read("nodes.conf").contains("0-15494 15496-16383"));
        assert!(server.stop().success());
    }
}

#[test]
fn clients_that_wait_are_sent_on_before_the_loss_is_in_the_file() {
    if is_peer() {
        return;
    }
    let server = node(2, &["--cluster-config-save-behavior", "best-effort"]);
    let mut client = server.client();
    assert!(eventually(|| ask(&mut client, "SET b 1") == "OK"));
    let (mut waiting, mut operator) = (server.socket(), server.socket());
    send(&mut waiting, b"BLPOP a 0\r\n");
    assert!(eventually(|| ask(&mut client, "INFO clients").contains("blocked_clients:1")));
    let pipe = stall(&server);
    send(&mut operator, b"CLUSTER DELSLOTS 15495\r\n");
    expect_bytes(&mut waiting, b"-CLUSTERDOWN Hash slot not served\r\n");
    expect_silence(&mut operator);
    go_on(&pipe);
    expect_bytes(&mut operator, b"+OK\r\n");
    assert!(server.stop().success());
}

/// Slots that a node gains are in the file before commands are admitted by them, and so is the state of the cluster.
#[test]
fn the_cluster_is_up_when_commands_are_admitted_and_not_before() {
    if is_peer() {
        return;
    }
    let server = node(2, &["--cluster-config-save-behavior", "best-effort"]);
    let mut client = server.client();
    // The slot that leaves has no keys: a node that has just started takes responsibility for slots with keys.
    assert!(eventually(|| ask(&mut client, "SET b 1") == "OK"));
    dialogue(&mut client, &[("CONFIG SET cluster-require-full-coverage yes", "OK"), ("CLUSTER DELSLOTS 15495", "OK")]);
    let is_up = |client: &mut _| ask(client, "CLUSTER INFO").contains("cluster_state:ok");
    assert!(!is_up(&mut client));
    let pipe = stall(&server);
    let mut operator = server.socket();
    send(&mut operator, b"CLUSTER ADDSLOTS 15495\r\n");
    assert!(eventually(|| !is_unassigned(&mut client)), "the order is given");
    for _ in 0..100 {
        assert!(!is_up(&mut client) && ask(&mut client, "GET b").contains("CLUSTERDOWN"));
    }
    go_on(&pipe);
    expect_bytes(&mut operator, b"+OK\r\n");
    assert!(is_up(&mut client));
    dialogue(&mut client, &[("SET a 2", "OK"), ("SET b 2", "OK")]);
    assert!(server.stop().success());
}

#[test]
fn a_client_that_asks_for_the_file_gets_the_error_that_it_cannot_be_written() {
    if is_peer() {
        return;
    }
    let server = node(2, &[]);
    let mut client = server.client();
    let refused = "-ERR error saving the cluster node config: File too large";
    limit_files(&server, Some(0));
    dialogue(&mut client, &[("CLUSTER SAVECONFIG", refused), ("SET a 1", "OK"), ("CLUSTER SAVECONFIG", refused)]);
    let mut transaction = server.socket();
    send(&mut transaction, b"MULTI\r\nCLUSTER SAVECONFIG\r\nEXEC\r\n");
    expect_bytes(&mut transaction, format!("+OK\r\n+QUEUED\r\n*1\r\n{refused}\r\n").as_bytes());
    limit_files(&server, None);
    dialogue(&mut client, &[("CLUSTER SAVECONFIG", "OK"), ("GET a", "\"1\"")]);
    assert!(server.stop().success());
}
