//! The append-only file on a slow disk, with changes of the data or the log besides clients' writes: eviction, expiry,
//! slots that move, loads, and directives. A reply is sent when the disk has the changes that it reveals, and is sent.

use crate::failing_disks::expect_silence;
use crate::harness::{Server, eventually, expect_bytes, free_port, is_peer, send};
use crate::slow_disks::{
    DATABASES, KEYS, LIBRARIES, THREADS, Way, act_while_held, contains, content, crash, hold, reply, request, run,
    saved, server_on_slow_disk, ways,
};
use std::net::TcpStream;
use std::time::Duration;

const ALWAYS: [&str; 2] = ["--appendfsync", "always"];
/// Time in which a reply that is sent too early arrives.
const A_WHILE: Duration = Duration::from_millis(20);

/// A client whose server knows that the disk is slow.
fn warm(server: &Server) -> TcpStream {
    let mut socket = server.socket();
    run(&mut socket, &["SET warm 1", "SET warm 2"]);
    socket
}

fn reply_to(socket: &mut TcpStream, line: &str) -> Vec<u8> {
    send(socket, &request(line, &[]));
    reply(socket)
}

/// Expects a key that expires while the disk stands still: a client learns of it when the disk has it.
fn expect_gone_from_disk(prepare: &[&str], begin: &str) {
    for threads in THREADS {
        let mut server = server_on_slow_disk(threads, 2, &ALWAYS);
        let (mut socket, mut reader) = (warm(&server), server.socket());
        run(&mut socket, prepare);
        let before = content(&server).len();
        hold(&server, true);
        send(&mut socket, &request(begin, &[]));
        assert!(eventually(|| contains(&content(&server)[before..], "leaves")), "{begin}");
        send(&mut reader, b"EXISTS leaves\r\n");
        std::thread::sleep(A_WHILE);
        expect_silence(&mut reader);
        hold(&server, false);
        expect_bytes(&mut reader, b":0\r\n");
        assert!(contains(&content(&server)[before..saved(&server.folder)], "leaves"), "{begin}");
        expect_bytes(&mut socket, b"+OK\r\n");
        assert_eq!(reply_to(&mut crash(&mut server), "EXISTS leaves"), b":0\r\n");
    }
}

#[test]
fn an_evicted_key_is_gone_from_the_disk_before_a_reply_tells_of_it() {
    if is_peer() {
        return;
    }
    expect_gone_from_disk(&["SET leaves 1"], "CONFIG SET maxmemory-policy allkeys-random maxmemory 1");
}

#[test]
fn an_expired_key_is_gone_from_the_disk_before_a_reply_tells_of_it() {
    if is_peer() {
        return;
    }
    let prepare = ["DEBUG SET-ACTIVE-EXPIRE 0", "SET leaves 1 PX 1", "DEBUG SLEEP 0.01"];
    expect_gone_from_disk(&prepare, "DEBUG SET-ACTIVE-EXPIRE 1");
}

/// Commands between a write and its reply, and whether the reply need not wait for the disk any more.
const BETWEEN: [(&str, bool); 7] = [
    ("DEBUG RELOAD", false),
    ("DEBUG LOADAOF", false),
    ("BGREWRITEAOF", false),
    ("SWAPDB 1 2", false),
    ("CONFIG SET appendfsync everysec", true),
    ("CONFIG SET appendfsync no", true),
    ("CONFIG SET appendonly no", true),
];

#[test]
fn a_reply_that_waits_comes_whatever_becomes_of_the_log_meanwhile() {
    if is_peer() {
        return;
    }
    for (line, ends) in BETWEEN {
        let mut server = server_on_slow_disk(2, 2, &ALWAYS);
        let (mut socket, mut admin) = (warm(&server), server.socket());
        run(&mut admin, &["SAVE"]);
        let before = content(&server).len();
        hold(&server, true);
        send(&mut socket, b"SET waits 1\r\n");
        assert!(eventually(|| contains(&content(&server)[before..], "waits")));
        send(&mut admin, &request(line, &[]));
        std::thread::sleep(A_WHILE);
        if !ends {
            expect_silence(&mut socket);
        }
        hold(&server, false);
        expect_bytes(&mut socket, b"+OK\r\n");
        let told = reply(&mut admin);
        assert!(told.starts_with(b"+"), "{line}: {}", told.escape_ascii());
        run(&mut admin, &["CONFIG SET appendonly yes", "CONFIG SET appendfsync always"]);
        assert!(eventually(|| reply_to(&mut admin, "EVAL return(1) 0") == b":1\r\n" && is_settled(&mut admin)));
        run(&mut socket, &["SET warm 3", "SET warm 4"]);
        act_while_held(&server, &mut socket, b"SET later 1\r\n", "later", &mut []);
        expect_bytes(&mut socket, b"+OK\r\n");
        send(&mut socket, b"WAITAOF 1 0 0\r\n");
        expect_bytes(&mut socket, b"*2\r\n:1\r\n:0\r\n");
        let mut socket = crash(&mut server);
        assert_eq!(reply_to(&mut socket, "EXISTS waits later"), b":2\r\n", "{line}");
    }
}

/// Whether no new base of the log is being made.
fn is_settled(socket: &mut TcpStream) -> bool {
    let info = reply_to(socket, "INFO persistence");
    contains(&info, "aof_rewrite_in_progress:0") && contains(&info, "aof_rewrite_scheduled:0")
}

#[test]
fn a_reply_waits_for_a_replica_whatever_has_appended() {
    if is_peer() {
        return;
    }
    let asked =
        ["--min-replicas-to-acknowledge", "1", "--acknowledge-timeout", "20000", "--acknowledge-lease", "20000"];
    let server = server_on_slow_disk(2, 0, &[&asked[..], &["--appendfsync", "everysec"]].concat());
    let replica = Server::start(&[]);
    run(&mut replica.socket(), &[&format!("REPLICAOF 127.0.0.1 {}", server.port)]);
    assert!(eventually(|| reply_to(&mut server.socket(), "SET settled 1") == b"+OK\r\n"));
    for way in [ways(&LIBRARIES), ways(&DATABASES), ways(&KEYS)].iter().flatten() {
        let mut socket = server.socket();
        let last = run(&mut socket, way.prepare);
        let before = content(&server).len();
        replica.signal("STOP");
        send(&mut socket, &way.requests(&last));
        assert!(eventually(|| contains(&content(&server)[before..], way.appended)), "{:?}", way.act);
        std::thread::sleep(Duration::from_millis(5));
        expect_no_outcome(&mut socket, way);
        replica.signal("CONT");
        expect_bytes(&mut socket, way.reply.as_bytes());
        send(&mut socket, b"WAIT 1 0\r\n");
        expect_bytes(&mut socket, b":1\r\n");
    }
}

/// Expects that replies before EXEC's reveal nothing about the transaction.
fn expect_no_outcome(socket: &mut TcpStream, way: &Way) {
    socket.set_nonblocking(true).expect("a socket");
    let mut bytes = [0; 256];
    let told = socket.peek(&mut bytes).unwrap_or(0);
    socket.set_nonblocking(false).expect("a socket");
    let told = String::from_utf8_lossy(&bytes[..told]).into_owned();
    assert!(told.len() < way.reply.len(), "{:?} was told of: {told}", way.act);
}

/// Two nodes of a cluster, the first with all slots, one of them on a slow disk.
fn nodes(is_source_slow: bool) -> [Server; 2] {
    let node = |is_slow: bool| {
        let port = free_port().to_string();
        let own = ["--cluster-enabled", "yes", "--cluster-port", &port];
        match is_slow {
            true => server_on_slow_disk(2, 200, &[&own[..], &ALWAYS].concat()),
            false => Server::start_with_threads(2, &own),
        }
    };
    let nodes = [node(is_source_slow), node(!is_source_slow)];
    let mut first = nodes[0].socket();
    run(&mut first, &["CLUSTER ADDSLOTSRANGE 0 16383"]);
    let mut second = nodes[1].socket();
    send(&mut second, b"CONFIG GET cluster-port\r\n");
    let [.., bus] = [(); 3].map(|()| line(&mut second));
    run(&mut first, &[&format!("CLUSTER MEET 127.0.0.1 {} {bus}", nodes[1].port)]);
    for socket in [&mut first, &mut second] {
        assert!(eventually(|| contains(&reply_to(socket, "CLUSTER INFO"), "cluster_state:ok")));
    }
    nodes
}

/// A line without its end; of a bulk string its bytes.
fn line(socket: &mut TcpStream) -> String {
    let bytes = reply(socket);
    String::from_utf8_lossy(&bytes).trim_end().to_owned()
}

/// Moves the slot of `{a}` between nodes of which one needs long for its disk.
fn expect_moved(is_source_slow: bool) {
    let mut nodes = nodes(is_source_slow);
    let [mut source, mut target] = nodes.each_ref().map(Server::socket);
    run(&mut source, &["SET {a}moves 1"]);
    let id = line_of(&mut target, "CLUSTER MYID");
    let slow = usize::from(!is_source_slow);
    run(&mut source, &[&format!("CLUSTER MIGRATESLOTS SLOTSRANGE 15495 15495 NODE {id}")]);
    assert!(eventually(|| line_of(&mut source, "GET {a}moves").starts_with("-MOVED 15495")));
    let (bytes, saved) = (content(&nodes[slow]), saved(&nodes[slow].folder));
    assert!(contains(&bytes[..saved], "{a}moves"), "the disk has it");
    assert!(eventually(|| line_of(&mut target, "GET {a}moves") == "1"));
    assert!(eventually(|| line_of(&mut source, "DBSIZE") == ":0"));
    let mut socket = crash(&mut nodes[slow]);
    let expected = if is_source_slow { ":0" } else { ":1" };
    assert_eq!(line_of(&mut socket, "DBSIZE"), expected);
}

fn line_of(socket: &mut TcpStream, words: &str) -> String {
    send(socket, &request(words, &[]));
    line(socket)
}

#[test]
fn a_slot_is_not_the_targets_before_its_disk_has_the_keys() {
    if !is_peer() {
        expect_moved(false);
    }
}

#[test]
fn a_slot_leaves_a_slow_disk() {
    if !is_peer() {
        expect_moved(true);
    }
}
