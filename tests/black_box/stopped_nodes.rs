//! Nodes of a cluster whose processes are stopped for longer than the node timeout, and resume.

use crate::dialogue::ask;
use crate::harness::{Server, bytes_of, eventually, expect_bytes, free_port, is_peer, read_to_close, send};
use std::thread::sleep;
use std::time::Duration;

/// Two nodes, each with half of the slots: `{c}` is the first one's.
pub fn two_nodes() -> [Server; 2] {
    let start = || {
        let bus = free_port().to_string();
        let options = [
            "--cluster-enabled",
            "yes",
            "--cluster-port",
            &bus,
            "--cluster-node-timeout",
            "1000",
            "--enable-debug-command",
            "yes",
            "--appendonly",
            "yes",
        ];
        let partly = ["--cluster-require-full-coverage", "no"];
        (Server::start_with_threads(4, &[&options[..], &partly].concat()), bus)
    };
    let [(first, _), (second, bus)] = [start(), start()];
    let (mut one, mut other) = (first.client(), second.client());
    assert_eq!(ask(&mut one, "CLUSTER ADDSLOTSRANGE 0 8191"), "OK");
    assert_eq!(ask(&mut other, "CLUSTER ADDSLOTSRANGE 8192 16383"), "OK");
    assert_eq!(ask(&mut other, "CLUSTER SET-CONFIG-EPOCH 2"), "OK");
    assert_eq!(ask(&mut one, &format!("CLUSTER MEET 127.0.0.1 {} {bus}", second.port)), "OK");
    for client in [&mut one, &mut other] {
        assert!(eventually(|| {
            let info = ask(client, "CLUSTER INFO");
            info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
        }));
    }
    [first, second]
}

/// Others may have replaced it meanwhile: no worker serves by what was so before.
#[test]
fn a_node_that_was_stopped_serves_nothing_until_it_has_heard_the_others() {
    if is_peer() {
        return;
    }
    let [node, other] = two_nodes();
    let mut client = node.client();
    assert!(eventually(|| ask(&mut client, "SET c 0") == "OK"));
    let mut waiting: Vec<_> = (0..8).map(|_| node.socket()).collect();
    for socket in &mut waiting {
        send(socket, b"*1\r\n$4\r\nPING\r\n");
        expect_bytes(socket, b"+PONG\r\n");
    }
    node.signal("STOP");
    sleep(Duration::from_millis(1500));
    for socket in &mut waiting {
        send(socket, b"*2\r\n$4\r\nINCR\r\n$1\r\nc\r\n*2\r\n$3\r\nGET\r\n$1\r\nc\r\n");
    }
    node.signal("CONT");
    for socket in &mut waiting {
        let down = "-CLUSTERDOWN The cluster is down\r\n".repeat(2);
        let found = bytes_of(socket, down.len());
        assert_eq!(String::from_utf8_lossy(&found), down);
    }
    assert!(eventually(|| ask(&mut client, "GET c") == "\"0\""));
    assert!(node.stop().success() && other.stop().success());
}

/// The script writes, and ends once its node has stood still.
const UNTIL_STOPPED: &str = "redis.call('SET', KEYS[1], 'lost') \
     local function now() local time = redis.call('TIME') return time[1] * 1000000 + time[2] end \
     local last = now() \
     while true do local time = now() if time - last > 1000000 then return 'OK' end last = time end";

/// A replica that leads by then does not have the write.
#[test]
fn a_write_that_ran_before_its_node_was_stopped_is_not_acknowledged_after_that() {
    if is_peer() {
        return;
    }
    let [node, other] = two_nodes();
    let (mut client, mut writer) = (node.client(), node.socket());
    assert_eq!(ask(&mut client, "CONFIG SET busy-reply-threshold 1"), "OK");
    assert!(eventually(|| ask(&mut client, "SET c 0") == "OK"));
    let script = format!("*4\r\n$4\r\nEVAL\r\n${}\r\n{UNTIL_STOPPED}\r\n$1\r\n1\r\n$1\r\nc\r\n", UNTIL_STOPPED.len());
    send(&mut writer, script.as_bytes());
    assert!(eventually(|| ask(&mut client, "GET c").contains("BUSY")));
    node.signal("STOP");
    sleep(Duration::from_millis(1500));
    node.signal("CONT");
    assert_eq!(read_to_close(&mut writer), "");
    assert!(eventually(|| ask(&mut client, "GET c") == "\"lost\""));
    assert!(node.stop().success() && other.stop().success());
}

/// Reads whose replies are more than sockets take.
const GETS: usize = 256;
/// Bytes of a value that they read.
const LEN: usize = 1 << 16;

/// Replies that the socket has not taken before a lapse are not acknowledgements yet.
#[test]
fn a_write_whose_reply_waits_for_its_reader_is_not_acknowledged_after_its_node_was_stopped() {
    if is_peer() {
        return;
    }
    let [node, other] = two_nodes();
    let (mut client, mut writer, mut reader) = (node.client(), node.socket(), node.socket());
    assert!(eventually(|| ask(&mut client, &format!("SET c {}", "x".repeat(LEN))) == "OK"));
    // Both clients read only when the node goes on.
    let much = b"GET c\r\n".repeat(GETS);
    send(&mut reader, &much);
    send(&mut writer, &[&much[..], b"SET {c}last y\r\n"].concat());
    assert!(eventually(|| ask(&mut client, "GET {c}last") == "\"y\""));
    node.signal("STOP");
    sleep(Duration::from_millis(1500));
    node.signal("CONT");
    assert!(!read_to_close(&mut writer).ends_with("+OK\r\n"), "others may have replaced the node by now");
    let len = GETS * (LEN + format!("${LEN}\r\n\r\n").len());
    assert_eq!(bytes_of(&mut reader, len).len(), len, "reads acknowledge nothing");
    assert!(node.stop().success() && other.stop().success());
}

/// Clients that wait or read acknowledge nothing: they hear that the cluster is down, or go on.
#[test]
fn a_client_that_waits_stays_connected_when_its_node_was_stopped() {
    if is_peer() {
        return;
    }
    let [node, other] = two_nodes();
    let (mut client, mut waiting, mut sleeping) = (node.client(), node.socket(), node.socket());
    assert!(eventually(|| ask(&mut client, "SET c 0") == "OK"));
    send(&mut waiting, b"BLPOP c{c} 20\r\n");
    assert!(eventually(|| ask(&mut client, "INFO clients").contains("blocked_clients:1")));
    node.signal("STOP");
    sleep(Duration::from_millis(1500));
    node.signal("CONT");
    expect_bytes(&mut waiting, b"-CLUSTERDOWN The cluster is down\r\n");
    send(&mut waiting, b"PING\r\n");
    expect_bytes(&mut waiting, b"+PONG\r\n");
    send(&mut sleeping, b"DEBUG SLEEP 1.5\r\n");
    expect_bytes(&mut sleeping, b"+OK\r\n");
    assert!(node.stop().success() && other.stop().success());
}

#[test]
fn a_node_that_decides_alone_serves_at_once_when_it_goes_on() {
    if is_peer() {
        return;
    }
    let bus = free_port().to_string();
    let options = ["--cluster-enabled", "yes", "--cluster-single", "yes", "--cluster-port", &bus];
    let node = Server::start_with_threads(2, &[&options[..], &["--cluster-node-timeout", "1000"]].concat());
    let (mut client, mut waiting) = (node.client(), node.socket());
    assert!(eventually(|| ask(&mut client, "SET c 0") == "OK"));
    node.signal("STOP");
    sleep(Duration::from_millis(1500));
    send(&mut waiting, b"*2\r\n$4\r\nINCR\r\n$1\r\nc\r\n");
    node.signal("CONT");
    expect_bytes(&mut waiting, b":1\r\n");
    assert!(node.stop().success());
}
