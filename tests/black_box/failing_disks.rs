//! The append-only file on disks that are full or slow. Files that may not grow play a full disk.

use crate::harness::{Server, eventually, expect_bytes, is_peer, send};
use redis::{ConnectionLike, Value, cmd};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;

const THREADS: [usize; 2] = [1, 4];

/// The server's files may have so many bytes from now on.
pub fn limit_files(server: &Server, bytes: Option<u64>) {
    let pid = Pid::from_raw(server.pid().try_into().expect("a process id"));
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).expect("to set a limit");
}

fn run(client: &mut impl ConnectionLike, line: &str) -> Value {
    let words: Vec<_> = line.split(' ').collect();
    cmd(words[0]).arg(&words[1..]).query(client).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// A number in INFO, or what stands in its place.
fn told(client: &mut impl ConnectionLike, field: &str) -> String {
    let info: String = cmd("INFO").arg("persistence").query(client).expect("INFO");
    let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.expect("a field").to_owned()
}

/// A disk gets full while a client writes, which waits for its reply.
fn fill_disk(server: &Server, command: &[u8]) -> TcpStream {
    let mut writer = server.socket();
    send(&mut writer, b"CLIENT SETNAME writer\r\n");
    expect_bytes(&mut writer, b"+OK\r\n");
    limit_files(server, Some(0));
    send(&mut writer, command);
    let mut client = server.client();
    assert!(eventually(|| told(&mut client, "aof_last_write_status") == "err"));
    writer
}

#[track_caller]
pub fn expect_silence(socket: &mut TcpStream) {
    socket.set_nonblocking(true).expect("an option");
    let found = socket.read(&mut [0; 100]);
    assert!(found.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it got a reply");
    socket.set_nonblocking(false).expect("an option");
}

#[test]
fn reads_are_answered_while_nothing_can_be_written() {
    if is_peer() {
        return;
    }
    for threads in THREADS {
        let options = ["--appendonly", "yes", "--appendfsync", "always"];
        let mut server = Server::start_with_threads(threads, &options);
        let mut clients: Vec<_> = (0..4).map(|_| server.client()).collect();
        for key in 0..40 {
            run(&mut clients[0], &format!("SET key:{key} v PX {}", 2000 + key * 5));
        }
        run(&mut clients[0], "SET stays v");
        let mut writer = fill_disk(&server, b"SET last 1\r\n");
        let length = told(&mut clients[0], "aof_buffer_length");
        for client in &mut clients {
            assert!(eventually(|| run(client, "GET key:39") == Value::Nil));
            run(client, "SCAN 0 COUNT 100");
            assert_eq!(run(client, "GET stays"), Value::BulkString(b"v".to_vec()));
            assert_eq!(run(client, "DBSIZE"), Value::Int(42), "what has expired is only hidden");
            assert_eq!(told(client, "aof_buffer_length"), length);
        }
        expect_silence(&mut writer);
        limit_files(&server, None);
        expect_bytes(&mut writer, b"+OK\r\n");
        assert!(eventually(|| run(&mut clients[0], "DBSIZE") == Value::Int(2)));
        run(&mut clients[0], "SET after 1");
        server.crash();
        assert_eq!(run(&mut server.client(), "EXISTS stays last after"), Value::Int(3));
    }
}

#[test]
fn replies_wait_no_longer_than_the_log_is_waited_for() {
    if is_peer() {
        return;
    }
    for threads in THREADS {
        for change in ["CONFIG SET appendonly no", "CONFIG SET appendfsync everysec"] {
            let server = Server::start_with_threads(threads, &["--appendonly", "yes", "--appendfsync", "always"]);
            let mut writer = fill_disk(&server, b"SET last 1\r\nWAITAOF 1 0 0\r\n");
            let mut client = server.client();
            // Others do not wait for what that one has written.
            run(&mut client, "WAITAOF 1 0 0");
            run(&mut client, change);
            expect_bytes(&mut writer, b"+OK\r\n");
            if change.ends_with("no") {
                let error = "WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
                expect_bytes(&mut writer, format!("-ERR {error}\r\n").as_bytes());
                run(&mut client, "SET after 1");
                assert!(server.stop().success());
            } else {
                limit_files(&server, None);
                expect_bytes(&mut writer, b"*2\r\n:1\r\n:0\r\n");
            }
        }
    }
}

#[test]
fn replies_that_wait_for_the_log_count_as_output_of_their_client() {
    if is_peer() {
        return;
    }
    let server = Server::start_with_threads(1, &["--appendonly", "yes", "--appendfsync", "always"]);
    let mut client = server.client();
    cmd("SET").arg("large").arg(vec![b'v'; 100_000]).query::<()>(&mut client).expect("OK");
    let mut writer = fill_disk(&server, b"SET last 1\r\n");
    send(&mut writer, &b"GET large\r\n".repeat(50));
    let mut output = || {
        let list: String = cmd("CLIENT").arg("LIST").query(&mut client).expect("a list");
        let line = list.lines().find(|line| line.contains("name=writer")).expect("the client");
        let field = line.split(' ').find_map(|field| field.strip_prefix("omem="));
        field.and_then(|bytes| bytes.parse::<usize>().ok()).expect("a number")
    };
    assert!(eventually(|| output() > 250_000));
    assert!(output() < 1_000_000, "it runs no more before these have gone");
    limit_files(&server, None);
    expect_bytes(&mut writer, b"+OK\r\n");
    let reply = [&b"$100000\r\n"[..], &[b'v'; 100_000], b"\r\n"].concat();
    (0..50).for_each(|_| expect_bytes(&mut writer, &reply));
}

#[test]
fn a_log_that_is_slow_holds_writers_back() {
    if is_peer() {
        return;
    }
    for threads in THREADS {
        let options = ["--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"];
        let server = Server::start_with_threads(threads, &options);
        let mut client = server.client();
        run(&mut client, "DEBUG AOF-FLUSH-SLEEP 400000");
        let mut writers = [server.socket(), server.socket()];
        send(&mut writers[0], b"CLIENT REPLY OFF\r\n");
        let value = "v".repeat(1 << 20);
        let sending = writers.map(|mut writer| {
            let value = value.clone();
            std::thread::spawn(move || {
                for number in 0..50 {
                    send(
                        &mut writer,
                        format!("*3\r\n$6\r\nAPPEND\r\n$6\r\nkey:{:02}\r\n$1048576\r\n{value}\r\n", number % 8)
                            .as_bytes(),
                    );
                    send(&mut writer, b"INCR count\r\n");
                }
                writer
            })
        });
        let mut most = 0;
        assert!(eventually(|| {
            most = most.max(told(&mut client, "aof_buffer_length").parse::<u64>().expect("a number"));
            run(&mut client, "GET count") == Value::BulkString(b"100".to_vec())
        }));
        assert!(most < 48 << 20, "{most} bytes were in memory");
        let _writers = sending.map(|sending| sending.join().expect("all was sent"));
        client.set_read_timeout(Some(Duration::from_secs(60))).expect("an option");
        run(&mut client, "DEBUG AOF-FLUSH-SLEEP 0");
        assert!(server.stop().success());
    }
}
