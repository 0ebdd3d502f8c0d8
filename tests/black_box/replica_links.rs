//! The link between a replica and its primary: a replica is heard whatever holds it up, and takes no more memory than
//! it needs.

use crate::dialogue::{ask, ask_integer};
use crate::harness::{Server, eventually, send};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

pub const ID: &str = "0123456789012345678901234567890123456789";
/// No keys and no checksum.
const EMPTY: &[u8] = b"REDIS0011\xff\0\0\0\0\0\0\0\0";
/// Longer than any machine of the tests stands still.
pub const LONG: Duration = Duration::from_secs(60);

/// The next line, without its end.
pub fn line(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    assert!(lines.read_line(&mut line).expect("a line") > 0, "the link stands");
    line.trim_end().to_ascii_lowercase()
}

/// A primary's side of the next link, whose replica waits for the reply to PSYNC.
pub fn next_link(listener: &TcpListener) -> (BufReader<TcpStream>, TcpStream) {
    let (mut link, _) = listener.accept().expect("the replica");
    link.set_read_timeout(Some(LONG)).expect("a time");
    let mut lines = BufReader::new(link.try_clone().expect("the socket"));
    loop {
        match line(&mut lines).as_str() {
            "ping" => send(&mut link, b"+PONG\r\n"),
            "replconf" => send(&mut link, b"+OK\r\n"),
            "psync" => return (lines, link),
            _ => {}
        }
    }
}

/// A primary's side of a link, whose replica has an empty snapshot and waits for the stream.
fn take_replica(replica: &Server, listener: &TcpListener) -> (BufReader<TcpStream>, TcpStream) {
    let port = listener.local_addr().expect("its address").port();
    assert_eq!(ask(&mut replica.client(), &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
    let (mut lines, mut link) = next_link(listener);
    send(&mut link, format!("+FULLRESYNC {ID} 100\r\n${}\r\n", EMPTY.len()).as_bytes());
    send(&mut link, EMPTY);
    assert_eq!(next_ack(&mut lines), "100");
    (lines, link)
}

/// The offset of the next acknowledgement.
fn next_ack(lines: &mut impl BufRead) -> String {
    while line(lines) != "ack" {}
    line(lines);
    line(lines)
}

#[test]
fn a_replica_whose_stream_stands_still_says_how_far_it_is() {
    for threads in [1, 3] {
        for is_script in [false, true] {
            let replica = Server::start_with_threads(threads, &["--busy-reply-threshold", "1"]);
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let (mut lines, mut link) = take_replica(&replica, &listener);
            let mut client = replica.client();
            let mut script = replica.socket();
            if is_script {
                send(&mut script, b"EVAL \"server.call('GET', KEYS[1]) while true do end\" 1 k\r\n");
                assert!(eventually(|| ask(&mut client, "GET k").contains("BUSY")), "the script runs");
            } else {
                assert_eq!(ask(&mut client, "CLIENT PAUSE 100000 WRITE"), "OK");
            }
            send(&mut link, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n");
            // One may have been on its way, and one is due to the clock of the thread that reads.
            let acked: Vec<String> = (0..3).map(|_| next_ack(&mut lines)).collect();
            assert_eq!(acked, ["100", "100", "100"], "threads {threads}, script {is_script}");
            assert_ne!(ask(&mut client, "GET k"), "\"v\"");
            assert_eq!(ask(&mut client, if is_script { "SCRIPT KILL" } else { "CLIENT UNPAUSE" }), "OK");
            while next_ack(&mut lines) != "127" {}
            assert_eq!(ask(&mut client, "GET k"), "\"v\"");
        }
    }
}

#[test]
fn a_replica_whose_link_ends_again_and_again_rests_between_two_attempts() {
    const NAME: &str = "0000000000000000000000000000000000000001";
    let replica = Server::start(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    drop(take_replica(&replica, &listener));
    // The stream continues each time, and the link ends, or the stream is of a primary that is not to be followed.
    let set = format!("*2\r\n$4\r\nPING\r\n$95\r\nin-sync 0:{NAME} 0 1/{NAME}\r\n");
    for (ends, attempts) in [("", 8), (&set, 3)] {
        let begun = Instant::now();
        for _ in 0..attempts {
            let (mut lines, mut link) = next_link(&listener);
            send(&mut link, format!("+CONTINUE\r\n{ends}").as_bytes());
            if !ends.is_empty() {
                while lines.read_line(&mut String::new()).is_ok_and(|len| len > 0) {}
            }
        }
        let least = Duration::from_millis((attempts - 2) * 100);
        assert!(begun.elapsed() > least, "{:?}, {}", begun.elapsed(), replica.folder.read("stdout"));
    }
}

/// Returns how much of its log a replica reports to have on its disk, in its next acknowledgement that reports it.
fn next_durable(lines: &mut impl BufRead) -> String {
    while line(lines) != "fack" {}
    line(lines);
    line(lines)
}

#[test]
fn a_replica_that_comes_back_says_what_it_has_on_its_disk_before_its_primary_says_anything() {
    let replica = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (mut lines, mut link) = take_replica(&replica, &listener);
    send(&mut link, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n");
    while next_durable(&mut lines) != "127" {}
    drop((lines, link));
    let (mut lines, mut link) = next_link(&listener);
    send(&mut link, b"+CONTINUE\r\n");
    let told: Vec<String> = (0..3).map(|_| next_durable(&mut lines)).collect();
    assert_eq!(told.last().map(String::as_str), Some("127"), "{told:?}");
}

#[test]
fn a_replica_that_cannot_apply_reads_no_more_than_a_little() {
    const MOST: u64 = 4 << 20;
    let replica = Server::start(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (_lines, mut link) = take_replica(&replica, &listener);
    let mut client = replica.client();
    assert_eq!(ask(&mut client, "CLIENT PAUSE 100000 WRITE"), "OK");
    let value = "v".repeat(100_000);
    let command = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len());
    link.set_write_timeout(Some(Duration::from_secs(1))).expect("a time");
    // As much as the two sockets take.
    let sent: usize = (0..1000).map_while(|_| link.write(command.as_bytes()).ok()).sum();
    assert!(sent < command.len() * 1000, "the replica reads on");
    let offset = |client: &mut redis::Connection, field: &str| {
        let info: String = redis::cmd("INFO").arg("replication").query(client).expect("INFO");
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.parse::<u64>().ok());
        value.unwrap_or_else(|| panic!("{field} in {info}"))
    };
    let (read, applied) = (offset(&mut client, "slave_read_repl_offset"), offset(&mut client, "slave_repl_offset"));
    assert!(applied == 100 && read > applied && read < applied + MOST, "{read}, {applied}, {sent}");
    assert_eq!(ask(&mut client, "CLIENT UNPAUSE"), "OK");
    assert!(eventually(|| ask_integer(&mut replica.client(), "STRLEN k") == value.len() as i64));
}

#[test]
fn a_large_value_leaves_nothing_in_a_replica_but_itself() {
    const LARGE: usize = 48 << 20;
    let [primary, replica] = std::array::from_fn(|_| Server::start(&["--repl-diskless-sync-delay", "0"]));
    follow(&replica, &primary);
    let memory = |field: &str| {
        let info = ask(&mut replica.client(), "INFO memory");
        let value = info.split(field).nth(1).and_then(|rest| rest.split(['\r', '\\', '\n']).next());
        value.and_then(|value| value.parse::<usize>().ok()).unwrap_or_else(|| panic!("{field} in {info}"))
    };
    let before = memory("used_memory:");
    redis::cmd("SET").arg("large").arg(vec![b'x'; LARGE]).exec(&mut primary.client()).expect("OK");
    assert!(eventually(|| ask_integer(&mut replica.client(), "STRLEN large") == LARGE as i64));
    assert!(eventually(|| memory("used_memory:") < before + LARGE + LARGE / 2), "{}", memory("used_memory:"));
    let peak = memory("used_memory_peak:");
    assert!(peak < before + LARGE * 5 / 2 + (16 << 20), "{peak}");
}

pub fn follow(replica: &Server, primary: &Server) {
    assert_eq!(ask(&mut replica.client(), &format!("REPLICAOF 127.0.0.1 {}", primary.port)), "OK");
    assert!(eventually(|| ask(&mut replica.client(), "ROLE").contains("\"connected\"")), "the link stands");
}

#[test]
fn fields_with_expiries_come_over_whichever_connection_the_snapshot_takes() {
    for diskless in ["yes", "no"] {
        let options = ["--dual-channel-replication-enabled", "yes", "--repl-diskless-sync", diskless];
        let options = [&options[..], &["--repl-diskless-sync-delay", "0"]].concat();
        let [primary, replica] = std::array::from_fn(|_| Server::start(&options));
        let mut writer = primary.client();
        assert_eq!(ask(&mut writer, "HSETEX h EX 1000 FIELDS 1 f v"), "1");
        follow(&replica, &primary);
        let mut reader = replica.client();
        assert_eq!(ask(&mut reader, "HGET h f"), "\"v\"");
        assert_ne!(ask(&mut reader, "HTTL h FIELDS 1 f"), "[-1]");
        let log = primary.folder.read("stdout");
        assert_eq!(log.contains("Dual channel capability ignored"), diskless == "no", "{log}");
    }
}

#[test]
fn a_replica_that_was_told_to_get_its_snapshot_elsewhere_and_does_not_is_dropped() {
    let options = ["--dual-channel-replication-enabled", "yes", "--repl-diskless-sync-delay", "0"];
    let primary = Server::start(&[&options[..], &["--repl-timeout", "1"]].concat());
    let mut link = primary.socket();
    link.set_read_timeout(Some(LONG)).expect("a time");
    send(&mut link, b"REPLCONF capa eof capa psync2 capa dual-channel\r\nPSYNC ? -1\r\n");
    let mut said = String::new();
    link.read_to_string(&mut said).expect("the end of the link");
    assert_eq!(said, "+OK\r\n+DUALCHANNELSYNC\r\n");
}

#[test]
fn writes_that_a_replica_had_before_its_log_began_are_durable_with_the_log() {
    // Nothing but the write itself is in the stream.
    let primary = Server::start(&["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "3600"]);
    let mut writer = primary.client();
    for number in 0..100 {
        assert_eq!(ask(&mut writer, &format!("SET {number} 1")), "OK");
    }
    let slow_base =
        ["--appendonly", "yes", "--repl-diskless-load", "flush-before-load", "--rdb-key-save-delay", "20000"];
    for (options, order) in [(&slow_base[..], "PING"), (&[], "CONFIG SET appendonly yes")] {
        let replica = Server::start(options);
        follow(&replica, &primary);
        assert_eq!(ask(&mut writer, "INCR counter"), if order == "PING" { "1" } else { "2" });
        assert_eq!(ask(&mut writer, "WAIT 1 60000"), "1");
        ask(&mut replica.client(), order);
        assert_eq!(ask(&mut writer, "WAITAOF 0 1 60000"), "[0, 1]");
    }
}
