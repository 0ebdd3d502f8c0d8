//! The book protocol: the bytes of the tutorials' servers, pipelines and fragments, what closes a connection, and one
//! keyspace with RESP.

use crate::dialogue::{ask as ask_in_resp, dialogue};
use crate::harness::{Server, eventually, expect_bytes, free_port, is_peer, owned, read_to_close, send, socket_to};
use resp::book::{BookValue, decode_reply, encode_request};
use std::cell::Cell;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Requests and replies as captured, in an order in which they follow from each other.
const CAPTURED: &[(&str, &str)] = &[
    // keys; get nokey; set k v; get k
    ("0c 00 00 00 01 00 00 00 04 00 00 00 6b 65 79 73", "05 00 00 00 05 00 00 00 00"),
    ("14 00 00 00 02 00 00 00 03 00 00 00 67 65 74 05 00 00 00 6e 6f 6b 65 79", "01 00 00 00 00"),
    ("15 00 00 00 03 00 00 00 03 00 00 00 73 65 74 01 00 00 00 6b 01 00 00 00 76", "01 00 00 00 00"),
    ("10 00 00 00 02 00 00 00 03 00 00 00 67 65 74 01 00 00 00 6b", "06 00 00 00 02 01 00 00 00 76"),
    // pttl k; pttl nokey; pexpire k 50000; pexpire k -1; pttl k; pexpire k x; del k
    ("11 00 00 00 02 00 00 00 04 00 00 00 70 74 74 6c 01 00 00 00 6b", "09 00 00 00 03 ff ff ff ff ff ff ff ff"),
    (
        "15 00 00 00 02 00 00 00 04 00 00 00 70 74 74 6c 05 00 00 00 6e 6f 6b 65 79",
        "09 00 00 00 03 fe ff ff ff ff ff ff ff",
    ),
    (
        "1d 00 00 00 03 00 00 00 07 00 00 00 70 65 78 70 69 72 65 01 00 00 00 6b 05 00 00 00 35 30 30 30 30",
        "09 00 00 00 03 01 00 00 00 00 00 00 00",
    ),
    (
        "1a 00 00 00 03 00 00 00 07 00 00 00 70 65 78 70 69 72 65 01 00 00 00 6b 02 00 00 00 2d 31",
        "09 00 00 00 03 01 00 00 00 00 00 00 00",
    ),
    ("11 00 00 00 02 00 00 00 04 00 00 00 70 74 74 6c 01 00 00 00 6b", "09 00 00 00 03 ff ff ff ff ff ff ff ff"),
    (
        "19 00 00 00 03 00 00 00 07 00 00 00 70 65 78 70 69 72 65 01 00 00 00 6b 01 00 00 00 78",
        "15 00 00 00 01 04 00 00 00 0c 00 00 00 65 78 70 65 63 74 20 69 6e 74 36 34",
    ),
    ("10 00 00 00 02 00 00 00 03 00 00 00 64 65 6c 01 00 00 00 6b", "09 00 00 00 03 01 00 00 00 00 00 00 00"),
    // zadd z 1 n1; zadd z 1.1 n1; zscore z n1; zscore z nope; zadd z abc n
    (
        "1c 00 00 00 04 00 00 00 04 00 00 00 7a 61 64 64 01 00 00 00 7a 01 00 00 00 31 02 00 00 00 6e 31",
        "09 00 00 00 03 01 00 00 00 00 00 00 00",
    ),
    (
        "1e 00 00 00 04 00 00 00 04 00 00 00 7a 61 64 64 01 00 00 00 7a 03 00 00 00 31 2e 31 02 00 00 00 6e 31",
        "09 00 00 00 03 00 00 00 00 00 00 00 00",
    ),
    (
        "19 00 00 00 03 00 00 00 06 00 00 00 7a 73 63 6f 72 65 01 00 00 00 7a 02 00 00 00 6e 31",
        "09 00 00 00 04 9a 99 99 99 99 99 f1 3f",
    ),
    ("1b 00 00 00 03 00 00 00 06 00 00 00 7a 73 63 6f 72 65 01 00 00 00 7a 04 00 00 00 6e 6f 70 65", "01 00 00 00 00"),
    (
        "1d 00 00 00 04 00 00 00 04 00 00 00 7a 61 64 64 01 00 00 00 7a 03 00 00 00 61 62 63 01 00 00 00 6e",
        "15 00 00 00 01 04 00 00 00 0c 00 00 00 65 78 70 65 63 74 20 66 6c 6f 61 74",
    ),
    // zquery z x "" 0 10; zquery z 1 "" x 10; zquery z 1 "" 0 0; get z; set z v
    (
        "27 00 00 00 06 00 00 00 06 00 00 00 7a 71 75 65 72 79 01 00 00 00 7a 01 00 00 00 78 00 00 00 00 01 00 00 00 30 \
         02 00 00 00 31 30",
        "19 00 00 00 01 04 00 00 00 10 00 00 00 65 78 70 65 63 74 20 66 70 20 6e 75 6d 62 65 72",
    ),
    (
        "27 00 00 00 06 00 00 00 06 00 00 00 7a 71 75 65 72 79 01 00 00 00 7a 01 00 00 00 31 00 00 00 00 01 00 00 00 78 \
         02 00 00 00 31 30",
        "13 00 00 00 01 04 00 00 00 0a 00 00 00 65 78 70 65 63 74 20 69 6e 74",
    ),
    (
        "26 00 00 00 06 00 00 00 06 00 00 00 7a 71 75 65 72 79 01 00 00 00 7a 01 00 00 00 31 00 00 00 00 01 00 00 00 30 \
         01 00 00 00 30",
        "05 00 00 00 05 00 00 00 00",
    ),
    (
        "10 00 00 00 02 00 00 00 03 00 00 00 67 65 74 01 00 00 00 7a",
        "1b 00 00 00 01 03 00 00 00 12 00 00 00 6e 6f 74 20 61 20 73 74 72 69 6e 67 20 76 61 6c 75 65",
    ),
    (
        "15 00 00 00 03 00 00 00 03 00 00 00 73 65 74 01 00 00 00 7a 01 00 00 00 76",
        "22 00 00 00 01 03 00 00 00 19 00 00 00 61 20 6e 6f 6e 2d 73 74 72 69 6e 67 20 76 61 6c 75 65 20 65 78 69 73 74 \
         73",
    ),
];

/// With members a 1, b 2, c 2, d 3.5: zquery z 2 c 0 100; zquery z 1 "" 0 3.
const CAPTURED_QUERIES: &[(&str, &str)] = &[
    (
        "29 00 00 00 06 00 00 00 06 00 00 00 7a 71 75 65 72 79 01 00 00 00 7a 01 00 00 00 32 01 00 00 00 63 01 00 00 00 \
         30 03 00 00 00 31 30 30",
        "23 00 00 00 05 04 00 00 00 02 01 00 00 00 63 04 00 00 00 00 00 00 00 40 02 01 00 00 00 64 04 00 00 00 00 00 00 \
         0c 40",
    ),
    (
        "26 00 00 00 06 00 00 00 06 00 00 00 7a 71 75 65 72 79 01 00 00 00 7a 01 00 00 00 31 00 00 00 00 01 00 00 00 30 \
         01 00 00 00 33",
        "23 00 00 00 05 04 00 00 00 02 01 00 00 00 61 04 00 00 00 00 00 00 f0 3f 02 01 00 00 00 62 04 00 00 00 00 00 00 \
         00 40",
    ),
];

#[test]
fn captured_bytes() {
    on_each_thread_count(&[], |server, book| {
        let mut socket = socket_to(book);
        for (request, reply) in CAPTURED {
            send(&mut socket, &unhex(request));
            expect_bytes(&mut socket, &unhex(reply));
        }
        dialogue(&mut server.client(), &[("DEL z", "1"), ("ZADD z 1 a 2 b 2 c 3.5 d", "4")]);
        for (request, reply) in CAPTURED_QUERIES {
            send(&mut socket, &unhex(request));
            expect_bytes(&mut socket, &unhex(reply));
        }
    });
}

/// All of [`CAPTURED`] at once leaves only z behind, so a second time differs where it is there already.
#[test]
fn a_pipeline_arrives_in_any_two_fragments() {
    on_each_thread_count(&[], |server, book| {
        let requests = CAPTURED.iter().flat_map(|(request, _)| unhex(request)).collect::<Vec<_>>();
        let replies = CAPTURED.iter().flat_map(|(_, reply)| unhex(reply)).collect::<Vec<_>>();
        let mut socket = socket_to(book);
        let mut client = server.client();
        for cut in (0..=requests.len()).step_by(3) {
            send(&mut socket, &requests[..cut]);
            // Lets the server read the first part by itself, most of the time.
            std::thread::sleep(Duration::from_micros(500));
            send(&mut socket, &requests[cut..]);
            expect_bytes(&mut socket, &replies);
            dialogue(&mut client, &[("DEL z", "1")]);
        }
        for byte in &requests {
            send(&mut socket, &[*byte]);
        }
        expect_bytes(&mut socket, &replies);
    });
}

#[test]
fn a_deep_pipeline_keeps_the_order() {
    on_each_thread_count(&[], |_, book| {
        let mut socket = socket_to(book);
        let mut requests = Vec::new();
        for i in 0..5000 {
            let (key, value) = (format!("k{}", i % 10), i.to_string());
            encode_request(&mut requests, &["set", &key, &value]).expect("a short request");
            encode_request(&mut requests, &["get", &key]).expect("a short request");
        }
        send(&mut socket, &requests);
        for i in 0..5000 {
            assert_eq!(receive(&mut socket), BookValue::Nil);
            assert_eq!(receive(&mut socket), text(&i.to_string()));
        }
    });
}

#[test]
fn both_protocols_see_the_same_keys() {
    on_each_thread_count(&[], |server, book| {
        let mut socket = socket_to(book);
        let mut client = server.client();
        assert_eq!(ask(&mut socket, &["set", "k", "from the book"]), BookValue::Nil);
        dialogue(&mut client, &[("GET k", "\"from the book\""), ("PEXPIRE k 100000", "1")]);
        assert!(matches!(ask(&mut socket, &["pttl", "k"]), BookValue::Int(1..=100_000)));
        // A TTL that is there stays.
        assert_eq!(ask(&mut socket, &["set", "k", "again"]), BookValue::Nil);
        assert!(matches!(ask(&mut socket, &["pttl", "k"]), BookValue::Int(1..=100_000)));
        assert_eq!(ask(&mut socket, &["pexpire", "k", "-1"]), BookValue::Int(1));
        dialogue(&mut client, &[("TTL k", "-1"), ("SET s 5", "OK"), ("ZADD z 2 m", "1")]);
        assert_eq!(ask(&mut socket, &["get", "s"]), text("5"));
        assert_eq!(ask(&mut socket, &["zadd", "s", "1", "n"]), error(3, "expect zset"));
        assert_eq!(ask(&mut socket, &["zscore", "z", "m"]), BookValue::Dbl(2.0));
        assert_eq!(ask(&mut socket, &["zrem", "z", "m"]), BookValue::Int(1));
        dialogue(&mut client, &[("EXISTS z", "0"), ("DBSIZE", "2")]);
        let BookValue::Arr(mut keys) = ask(&mut socket, &["keys"]) else { panic!("keys are an array") };
        keys.sort_by_key(|key| format!("{key:?}"));
        assert_eq!(keys, [text("k"), text("s")]);
    });
}

#[test]
fn errors_leave_the_connection_as_it_is() {
    on_each_thread_count(&[], |server, book| {
        let mut socket = socket_to(book);
        let none: [&str; 0] = [];
        for unknown in [&["GET", "k"][..], &["get"], &["get", "k", "k"], &["nosuch"], &[""], &none] {
            assert_eq!(ask(&mut socket, unknown), error(1, "Unknown cmd"), "{unknown:?}");
        }
        dialogue(&mut server.client(), &[("SETRANGE long 4999 x", "5000")]);
        assert_eq!(ask(&mut socket, &["get", "long"]), error(2, "response is too big"));
        assert_eq!(ask(&mut socket, &["del", "long"]), BookValue::Int(1));
        // The longest request: beside the value, the number of strings, three lengths, and the letters of "set" and
        // "k".
        let value = "v".repeat(resp::book::REQUEST_MAX - 4 - 3 * 4 - 4);
        assert_eq!(ask(&mut socket, &["set", "k", &value]), BookValue::Nil);
        assert_eq!(ask(&mut socket, &["get", "k"]), text(&value));
    });
}

#[test]
fn a_malformed_request_closes_its_own_connection_only() {
    on_each_thread_count(&[], |server, book| {
        let mut other = socket_to(book);
        let malformed: [&[u8]; 6] = [
            b"\x03\0\0\0\0\0\0",
            b"\x01\x10\0\0",
            b"\xff\xff\xff\xff",
            b"\x04\0\0\0\x41\x0d\x03\0",
            b"\x0b\0\0\0\x01\0\0\0\x04\0\0\0key",
            b"\x0d\0\0\0\x01\0\0\0\x04\0\0\0keys!",
        ];
        for bytes in malformed {
            let mut socket = socket_to(book);
            let mut requests = Vec::new();
            encode_request(&mut requests, &["get", "nokey"]).expect("a short request");
            requests.extend_from_slice(bytes);
            encode_request(&mut requests, &["set", "never", "run"]).expect("a short request");
            send(&mut socket, &requests);
            expect_bytes(&mut socket, b"\x01\0\0\0\0");
            assert_eq!(read_to_close(&mut socket), "", "{bytes:?}");
            assert_eq!(ask(&mut other, &["get", "never"]), BookValue::Nil);
        }
        dialogue(&mut server.client(), &[("PING", "PONG"), ("EXISTS never", "0")]);
    });
}

#[test]
fn idle_connections_are_closed() {
    on_each_thread_count(&["--book-idle-timeout", "1"], |server, book| {
        let mut of_resp = server.client();
        let mut silent = socket_to(book);
        let mut half = socket_to(book);
        send(&mut half, &CAPTURED_HALF);
        let mut answered = socket_to(book);
        assert_eq!(ask(&mut answered, &["get", "k"]), BookValue::Nil);
        for socket in [&mut silent, &mut half, &mut answered] {
            assert_eq!(read_to_close(socket), "");
        }
        dialogue(&mut of_resp, &[("PING", "PONG")]);
    });
}

#[test]
fn a_wait_for_a_key_that_a_script_has_delays_no_other_client() {
    if is_peer() {
        return;
    }
    let (server, book) = start("4", &["--busy-reply-threshold", "3600000"]);
    let mut script = server.socket();
    send(&mut script, &redis::cmd("EVAL").arg("while true do end").arg(1).arg("k").get_packed_command());
    // On every worker.
    let mut others: Vec<_> = (0..8).map(|_| server.client()).collect();
    assert!(eventually(|| ask_in_resp(&mut others[0], "CLIENT LIST").contains("cmd=eval")));
    let mut books: Vec<_> = (0..4).map(|_| socket_to(book)).collect();
    for socket in &mut books {
        let mut requests = Vec::new();
        for words in [&["get", "k"][..], &["pttl", "k"], &["del", "k"], &["keys"]] {
            encode_request(&mut requests, words).expect("a short request");
        }
        send(socket, &requests);
    }
    for _ in 0..3 {
        others.iter_mut().for_each(|client| dialogue(client, &[("PING", "PONG")]));
    }
    // The client of the script's own worker is served when the script has ended.
    let mut sockets: Vec<_> = (0..4).map(|_| server.socket()).collect();
    sockets.iter_mut().for_each(|socket| send(socket, b"CONFIG SET busy-reply-threshold 1\r\n"));
    assert!(eventually(|| ask_in_resp(&mut others[0], "SCRIPT KILL") == "OK"));
    for socket in &mut books {
        let replies: Vec<_> = (0..4).map(|_| receive(socket)).collect();
        let expected = [BookValue::Nil, BookValue::Int(-2), BookValue::Int(0), BookValue::Arr(vec![])];
        for (reply, expected) in replies.into_iter().zip(expected) {
            // A request that was tried while the server was busy got the error for that.
            assert!(reply == expected || matches!(&reply, BookValue::Err(_, text) if is_busy(text)), "{reply:?}");
        }
    }
    assert!(server.stop().success());
}

fn is_busy(text: &[u8]) -> bool {
    text.starts_with(b"BUSY")
}

/// The beginning of a request.
const CAPTURED_HALF: [u8; 6] = [0x14, 0, 0, 0, 2, 0];

/// Starts servers with a book port as well, and ends them. No other server has one.
fn on_each_thread_count(options: &[&str], test: impl Fn(&Server, SocketAddr)) {
    if is_peer() {
        return;
    }
    for threads in ["1", "4"] {
        let (server, book) = start(threads, options);
        test(&server, book);
        assert!(server.stop().success());
    }
}

fn start(threads: &str, options: &[&str]) -> (Server, SocketAddr) {
    let book = Cell::new(0);
    let server = Server::start_with(|_, port| {
        book.set(free_port());
        let (port, book) = (port.to_string(), book.get().to_string());
        let mut arguments = owned(&["--port", &port, "--book-port", &book, "--threads", threads, "--save", ""]);
        arguments.extend(owned(options));
        arguments
    });
    (server, SocketAddr::from(([127, 0, 0, 1], book.get())))
}

fn ask(socket: &mut TcpStream, words: &[&str]) -> BookValue {
    let mut request = Vec::new();
    encode_request(&mut request, words).expect("a request that is not too long");
    send(socket, &request);
    receive(socket)
}

fn receive(socket: &mut TcpStream) -> BookValue {
    let mut reply = vec![0; 4];
    socket.read_exact(&mut reply).expect("a length");
    let total = u32::from_le_bytes([reply[0], reply[1], reply[2], reply[3]]) as usize;
    assert!(total <= resp::book::REPLY_MAX, "a reply of {total} bytes");
    reply.resize(4 + total, 0);
    socket.read_exact(&mut reply[4..]).expect("a value");
    let (value, taken) = decode_reply(&reply).expect("a value that is well formed").expect("all of it");
    assert_eq!(taken, reply.len());
    value
}

fn text(text: &str) -> BookValue {
    BookValue::Str(text.into())
}

fn error(code: i32, text: &str) -> BookValue {
    BookValue::Err(code, text.into())
}

fn unhex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("two digits")).collect()
}
