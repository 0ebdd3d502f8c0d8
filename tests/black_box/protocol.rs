//! Requests as bytes: fragments, pipelines, sizes, inline commands, and requests that no client should send.

use crate::dialogue::{ask, dialogue};
use crate::harness::{Server, bytes_of, expect_bytes, on_each_thread_count, read_to_close, send};
use std::io::Write;
use std::time::Duration;

const PIPELINE: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n\
    *-1\r\n*0\r\n\r\nset q \"x y\"\r\n*2\r\n$4\r\nECHO\r\n$0\r\n\r\n*1\r\n$6\r\nNOSUCH\r\n*2\r\n$3\r\nget\r\n$1\r\nq\r\n";
const REPLIES: &[u8] = b"+OK\r\n+PONG\r\n$4\r\na\r\nb\r\n+OK\r\n$0\r\n\r\n\
    -ERR unknown command 'NOSUCH', with args beginning with: \r\n$3\r\nx y\r\n";

#[test]
fn requests_arrive_in_any_two_fragments() {
    on_each_thread_count(&[], |server| {
        let mut socket = server.socket();
        for cut in 0..=PIPELINE.len() {
            send(&mut socket, &PIPELINE[..cut]);
            // Lets the server read the first part by itself, most of the time.
            std::thread::sleep(Duration::from_micros(500));
            send(&mut socket, &PIPELINE[cut..]);
            expect_bytes(&mut socket, REPLIES);
        }
    });
}

#[test]
fn requests_arrive_byte_by_byte() {
    on_each_thread_count(&[], |server| {
        let mut socket = server.socket();
        for byte in PIPELINE {
            send(&mut socket, &[*byte]);
            std::thread::sleep(Duration::from_micros(200));
        }
        expect_bytes(&mut socket, REPLIES);
    });
}

#[test]
fn replies_of_a_deep_pipeline_keep_the_order() {
    on_each_thread_count(&[], |server| {
        const COMMANDS: usize = 10_000;
        let mut pipeline = redis::pipe();
        for i in 0..COMMANDS {
            pipeline.cmd("SET").arg(format!("k{}", i % 100)).arg(i).ignore();
            pipeline.cmd("GET").arg(format!("k{}", i % 100));
        }
        let replies: Vec<usize> = pipeline.query(&mut server.client()).expect("replies");
        assert!(replies.into_iter().eq(0..COMMANDS));
    });
}

/// Bytes of a string that replies share.
const LONG: usize = 300_000;

#[test]
fn values_from_nothing_to_64_mib() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        for size in [0, 1, 43, 44, 45, 16 << 10, (32 << 10) - 1, 32 << 10, (32 << 10) + 1, 1 << 20, 64 << 20] {
            let value: Vec<u8> = (0..size).map(|i: usize| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
            let () = redis::cmd("SET").arg("k").arg(&value[..]).query(&mut client).expect("OK");
            let found: Vec<u8> = redis::cmd("GET").arg("k").query(&mut client).expect("the value");
            assert!(found == value, "a value of {size} bytes came back as another of {}", found.len());
            let tail: Vec<u8> = redis::cmd("GETRANGE").arg("k").arg(-7).arg(-1).query(&mut client).expect("its end");
            assert_eq!(tail, value[size.saturating_sub(7)..]);
        }
    });
}

#[test]
fn long_strings_are_replied_in_order_in_transactions_and_to_scripts() {
    on_each_thread_count(&[], |server| {
        let (mut client, mut socket) = (server.client(), server.socket());
        let values = [b'a', b'b'].map(|byte| vec![byte; LONG]);
        for (key, value) in ["k", "other"].into_iter().zip(&values) {
            let () = redis::cmd("SET").arg(key).arg(&value[..]).query(&mut client).expect("OK");
        }
        let [one, two] = values.map(|value| [format!("${LONG}\r\n").as_bytes(), &value, b"\r\n"].concat());
        let exchanges: [(&str, &[&[u8]]); 8] = [
            ("GET k\r\nGET other\r\n", &[&one, &two]),
            ("STRLEN k\r\nGET k\r\nSTRLEN k\r\n", &[b":300000\r\n", &one, b":300000\r\n"]),
            ("MGET k none other\r\n", &[b"*3\r\n", &one, b"$-1\r\n", &two]),
            ("CLIENT REPLY SKIP\r\nGET k\r\nGET other\r\n", &[&two]),
            ("MULTI\r\nGET k\r\n", &[b"+OK\r\n+QUEUED\r\n"]),
            ("EXEC\r\nGET other\r\n", &[b"*1\r\n", &one, &two]),
            ("EVAL \"return redis.call('GET', 'k')\" 0\r\nGET other\r\n", &[&one, &two]),
            ("GETDEL k\r\nGET k\r\nGET other\r\n", &[&one, b"$-1\r\n", &two]),
        ];
        for (request, replies) in exchanges {
            send(&mut socket, request.as_bytes());
            expect_bytes(&mut socket, &replies.concat());
        }
    });
}

#[test]
fn a_long_string_on_its_way_out_is_that_of_one_moment() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        let mut fill = |byte: u8| {
            let _: u64 =
                redis::cmd("SETRANGE").arg("k").arg(0).arg(&[byte; LONG]).query(&mut client).expect("a length");
        };
        fill(b'a');
        let mut sockets = [server.socket(), server.socket(), server.socket()];
        sockets.iter_mut().for_each(|socket| send(socket, "GET k\r\n".repeat(40).as_bytes()));
        for round in 0..40 {
            fill(b'a' + round);
            for socket in &mut sockets {
                let reply = bytes_of(socket, LONG + 11);
                let byte = reply[9];
                assert!(reply[9..reply.len() - 2].iter().all(|other| *other == byte), "two moments in one reply");
            }
        }
    });
}

#[test]
fn keys_and_values_are_any_bytes() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        let keys: Vec<Vec<u8>> =
            (0..=255u8).map(|byte| vec![byte]).chain([vec![], (0..=255).collect(), b"\r\n$1\r\n".to_vec()]).collect();
        for key in &keys {
            let value = [key, &b"\0v"[..]].concat();
            let () = redis::cmd("SET").arg(&key[..]).arg(&value[..]).query(&mut client).expect("OK");
        }
        for key in &keys {
            let value: Vec<u8> = redis::cmd("GET").arg(&key[..]).query(&mut client).expect("the value");
            assert_eq!(value, [key, &b"\0v"[..]].concat());
        }
        let mut found: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut client).expect("the keys");
        found.sort();
        let mut keys = keys;
        keys.sort();
        assert_eq!(found, keys);
    });
}

#[test]
fn inline_commands() {
    on_each_thread_count(&[], |server| {
        let mut socket = server.socket();
        let exchanges: [(&[u8], &[u8]); 7] = [
            (b"PING\r\n", b"+PONG\r\n"),
            (b"ping\n", b"+PONG\r\n"),
            (b"\r\n\n  set  a\t1 \r\nget a\r\n", b"+OK\r\n$1\r\n1\r\n"),
            (b"set \"a b\\x00\\n\" 'it\\'s'\r\n", b"+OK\r\n"),
            (b"get \"a b\\x00\\n\"\r\n", b"$4\r\nit's\r\n"),
            (b"echo ''\r\n", b"$0\r\n\r\n"),
            (b"get\r\n", b"-ERR wrong number of arguments for 'get' command\r\n"),
        ];
        for (request, reply) in exchanges {
            send(&mut socket, request);
            expect_bytes(&mut socket, reply);
        }
    });
}

#[test]
fn a_protocol_error_closes_its_own_connection_only() {
    let long_line = vec![b'a'; 66_000];
    let cases: [(&[u8], &str); 9] = [
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
        (b"*abc\r\n", "invalid multibulk length"),
        (b"*2147483648\r\n", "invalid multibulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$99999999999\r\n", "invalid bulk length"),
        (b"GET \"a\r\n", "unbalanced quotes in request"),
        (b"GET 'a\r\n", "unbalanced quotes in request"),
        (&long_line[..], "too big inline request"),
    ];
    on_each_thread_count(&[], |server| {
        let mut bystander = server.client();
        for (request, text) in cases {
            let mut socket = server.socket();
            // The good request before it is answered, the one after it is not.
            send(&mut socket, b"PING\r\n");
            expect_bytes(&mut socket, b"+PONG\r\n");
            // A line is too long only while its end is not there.
            let after: &[u8] = if request == long_line { b"" } else { b"\r\nPING\r\n" };
            // The server may close the connection before all is sent.
            let _ = socket.write_all(&[request, after].concat());
            assert_eq!(read_to_close(&mut socket), format!("-ERR Protocol error: {text}\r\n"));
            assert_eq!(ask(&mut bystander, "PING"), "PONG");
        }
    });
}

#[test]
fn a_request_that_ends_in_the_middle_harms_nobody() {
    on_each_thread_count(&[], |server| {
        let mut bystander = server.client();
        for cut in 1..PIPELINE.len() {
            let mut socket = server.socket();
            send(&mut socket, &PIPELINE[..cut]);
        }
        assert_eq!(ask(&mut bystander, "PING"), "PONG");
    });
}

#[test]
fn hello_changes_the_protocol() {
    let server = Server::start(&[]);
    let mut socket = server.socket();
    send(&mut socket, b"GET missing\r\nHELLO 9\r\n");
    expect_bytes(&mut socket, b"$-1\r\n-NOPROTO unsupported protocol version\r\n");
    send(&mut socket, b"HELLO 3\r\n");
    expect_bytes(&mut socket, b"%");
    let mut socket = server.socket();
    send(&mut socket, b"HELLO 2\r\n");
    expect_bytes(&mut socket, b"*");
    dialogue(
        &mut server.client_speaking("resp3"),
        &[("GET missing", "nil"), ("ZADD z 1.5 a", "1"), ("ZSCORE z a", "(double) 1.5")],
    );
    dialogue(&mut server.client_speaking("resp2"), &[("GET missing", "nil"), ("ZSCORE z a", "\"1.5\"")]);
}

#[test]
fn quit_answers_and_closes() {
    on_each_thread_count(&[], |server| {
        let mut socket = server.socket();
        send(&mut socket, b"SET k 1\r\nQUIT\r\nSET k 2\r\n");
        assert_eq!(read_to_close(&mut socket), "+OK\r\n+OK\r\n");
        assert_eq!(ask(&mut server.client(), "GET k"), "\"1\"");
    });
}

#[test]
fn commands_that_a_browser_posts_do_not_run() {
    on_each_thread_count(&["--requirepass", "secret"], |server| {
        for head in ["POST / HTTP/1.1\r\n", "PUT / HTTP/1.1\r\nHost: localhost\r\n"] {
            let mut socket = server.socket();
            let request = format!("AUTH secret\r\n{head}Content-Length: 99\r\n\r\nPUBLISH planted 1\r\nPING\r\n");
            send(&mut socket, request.as_bytes());
            // Nor does the page learn what was said to the line before, but where that had a turn to itself.
            let answer = read_to_close(&mut socket);
            assert!(answer.is_empty() || answer == "+OK\r\n", "{answer:?}");
        }
        let mut socket = server.socket();
        send(&mut socket, b"AUTH secret\r\n");
        expect_bytes(&mut socket, b"+OK\r\n");
        send(&mut socket, b"INCR ran\r\nhost: me\r\nINCR ran\r\n");
        let answer = read_to_close(&mut socket);
        assert!(answer.is_empty() || answer == ":1\r\n", "{answer:?}");
        let mut client = server.client();
        assert_eq!(ask(&mut client, "AUTH secret"), "OK");
        assert_eq!(ask(&mut client, "GET ran"), "\"1\"");
    });
}
