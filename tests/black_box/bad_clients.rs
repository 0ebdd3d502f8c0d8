//! Clients with bad habits: they read nothing, send slowly or without end, announce bytes that never arrive, or send
//! nonsense. Others are served meanwhile, and nothing of the bad ones is left when they have gone.
//! `cinnabar-bad-clients` (`crates/bench`) measures how long the others wait.

use crate::harness::{PATIENCE, Server, eventually, on_each_thread_count, read_to_close, send};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Clients of each habit.
const EACH: usize = 12;
const TIME: Duration = Duration::from_millis(700);

/// Requests of clients with bad habits, which repeat them.
const HABITS: [&[u8]; 6] = [
    b"GET big\r\nGET big\r\nGET big\r\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$400000000\r\nx",
    b"PING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\nPING\r\n",
    b"*2000000000\r\n$0\r\n\r\n$0\r\n\r\n",
    b"\x00\xff*9x\r\n$-7\r\n\"",
    b"*2\r\n$7\r\nPUBLI",
];

fn used_memory(client: &mut redis::Connection) -> u64 {
    let info: String = redis::cmd("INFO").arg("memory").query(client).expect("INFO");
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("a field of INFO");
    line.parse().expect("a number")
}

/// Sends what the socket takes; false when the server has closed it.
fn misbehave(socket: &mut TcpStream, habit: &[u8]) -> bool {
    !matches!(socket.write(habit), Err(error) if error.kind() != std::io::ErrorKind::WouldBlock)
}

#[test]
fn zeros_are_no_request() {
    let server = Server::start(&[]);
    for (before, reply) in [("", ""), ("PING\r\n", "+PONG\r\n")] {
        let mut socket = server.socket();
        send(&mut socket, &[before.as_bytes(), &[0; 200]].concat());
        socket.shutdown(std::net::Shutdown::Write).expect("the half of a connection");
        assert_eq!(read_to_close(&mut socket), reply);
    }
}

#[test]
fn bad_clients_cost_others_nothing_and_leave_nothing() {
    on_each_thread_count(&[], |server| {
        let mut honest = server.client();
        let big = "x".repeat(100_000);
        redis::cmd("SET").arg("big").arg(&big).exec(&mut honest).expect("SET");
        leaves_nothing(&mut honest, |honest| {
            let mut bad: Vec<(TcpStream, &[u8])> = Vec::new();
            for habit in HABITS.iter().cycle().take(EACH * HABITS.len()) {
                let socket = server.socket();
                socket.set_nonblocking(true).expect("a socket that does not block");
                bad.push((socket, habit));
            }
            let until = Instant::now() + TIME;
            while Instant::now() < until {
                for (socket, habit) in bad.iter_mut() {
                    if !misbehave(socket, habit) {
                        *socket = server.socket();
                        socket.set_nonblocking(true).expect("a socket that does not block");
                    }
                }
                let got: String = redis::cmd("GET").arg("big").query(honest).expect("an answer in the crowd");
                assert!(got == big);
            }
        });
    });
}

/// Asserts that `crowd` costs no memory once its connections are closed. It runs twice: the first time every worker
/// begins and gets the room that it keeps.
fn leaves_nothing(honest: &mut redis::Connection, crowd: impl Fn(&mut redis::Connection)) {
    crowd(honest);
    assert!(eventually(|| is_alone(honest)));
    let before = used_memory(honest);
    crowd(honest);
    let is_calm = |honest: &mut redis::Connection| is_alone(honest) && used_memory(honest) * 10 <= before * 12;
    assert!(eventually(|| is_calm(honest)), "{} bytes; {before} before", used_memory(honest));
}

fn is_alone(honest: &mut redis::Connection) -> bool {
    let clients: String = redis::cmd("CLIENT").arg("LIST").query(honest).expect("CLIENT LIST");
    clients.lines().count() == 1
}

#[test]
fn a_client_that_asks_for_much_at_once_gets_all_of_it_in_order() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        redis::cmd("SET").arg("big").arg("x".repeat(100_000)).exec(&mut client).expect("SET");
        let mut socket = server.socket();
        // Scripts and a request that is none among them: what is put off goes through all ways in.
        let mut expected = Vec::new();
        for number in 0..200 {
            send(&mut socket, format!("GET big\r\nECHO {number}\r\nEVAL 'return 7' 0\r\n").as_bytes());
            expected.extend_from_slice(b"$100000\r\n");
            expected.resize(expected.len() + 100_000, b'x');
            let text = number.to_string();
            expected.extend_from_slice(format!("\r\n${}\r\n{text}\r\n:7\r\n", text.len()).as_bytes());
        }
        send(&mut socket, b"*1\r\n!\r\n");
        expected.extend_from_slice(b"-ERR Protocol error: expected '$', got '!'\r\n");
        let mut got = Vec::new();
        socket.set_read_timeout(Some(PATIENCE)).expect("a limit of time");
        socket.read_to_end(&mut got).expect("everything, and then the end");
        assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
    });
}

/// Elements of the collections that slow commands work on.
const ELEMENTS: usize = 100_000;
/// So often each is sent at once.
const SLOW: usize = 5;

#[test]
fn slow_commands_of_one_client_do_not_hold_others_up() {
    on_each_thread_count(&["--enable-debug-command", "yes"], |server| {
        let mut honest = server.client();
        redis::cmd("SET").arg("small").arg("x").exec(&mut honest).expect("SET");
        redis::cmd("DEBUG").arg("POPULATE").arg(ELEMENTS).exec(&mut honest).expect("POPULATE");
        for start in (0..ELEMENTS).step_by(1000) {
            let mut pipe = redis::pipe();
            let members: Vec<String> = (start..start + 1000).map(|n| format!("m{}", n * 7919 % ELEMENTS)).collect();
            pipe.rpush("{t}list", &members).ignore().sadd("{t}set", &members).ignore();
            pipe.exec(&mut honest).expect("replies");
        }
        for command in [
            "SORT {t}list ALPHA STORE {t}d",
            "SUNIONSTORE {t}d {t}set {t}set",
            "COPY {t}set {t}d REPLACE",
            "KEYS nothing*",
            "DELPREFIX nothing",
            "EVAL \"for i = 1, 10000000 do end\" 0",
        ] {
            let answered = answers_during(server, &mut honest, command);
            // Between two of them it would be one at most.
            assert!(answered > 2 * SLOW, "{command}: {answered}");
        }
    });
}

#[test]
fn a_client_that_hangs_up_while_its_slow_commands_run_is_gone() {
    on_each_thread_count(&[], |server| {
        let mut honest = server.client();
        for start in (0..ELEMENTS / 5).step_by(1000) {
            let members: Vec<usize> = (start..start + 1000).map(|n| n * 7919 % ELEMENTS).collect();
            redis::cmd("RPUSH").arg("list").arg(members).exec(&mut honest).expect("RPUSH");
        }
        for _ in 0..10 {
            let mut slow = server.socket();
            send(&mut slow, "SORT list ALPHA LIMIT 0 500\r\n".repeat(2 * SLOW).as_bytes());
            // The unread data makes the close a reset, which the server sees with the reply to the next command.
            slow.peek(&mut [0]).expect("the first reply");
            drop(slow);
            assert_eq!(redis::cmd("PING").query::<String>(&mut honest).expect("PING"), "PONG");
        }
        assert!(eventually(|| is_alone(&mut honest)));
    });
}

/// How often an honest client is answered while another one runs the command again and again.
fn answers_during(server: &Server, honest: &mut redis::Connection, command: &str) -> usize {
    let mut slow = server.socket();
    send(&mut slow, format!("{}QUIT\r\n", format!("{command}\r\n").repeat(SLOW)).as_bytes());
    let reads = std::thread::spawn(move || read_to_close(&mut slow));
    let mut answered = 0;
    while !reads.is_finished() {
        let got: String = redis::cmd("GET").arg("small").query(honest).expect("an answer meanwhile");
        assert_eq!(got, "x");
        answered += 1;
    }
    let replies = reads.join().expect("replies");
    let has_failed = replies.lines().any(|line| line.starts_with('-'));
    assert!(!has_failed && replies.ends_with("+OK\r\n"), "{command}: {replies}");
    answered
}

#[test]
fn a_client_that_hangs_up_with_much_to_read_is_gone() {
    on_each_thread_count(&[], |server| {
        let mut honest = server.client();
        redis::cmd("SET").arg("big").arg("x".repeat(1_000_000)).exec(&mut honest).expect("SET");
        leaves_nothing(&mut honest, |honest| {
            let mut stuffed: Vec<TcpStream> = (0..EACH).map(|_| server.socket()).collect();
            for socket in &mut stuffed {
                send(socket, &b"GET big\r\n".repeat(50));
            }
            let waits = |client: &str| field(client, "omem").is_some_and(|bytes| bytes > 0);
            let all_wait = || {
                let clients: String = redis::cmd("CLIENT").arg("LIST").query(honest).expect("CLIENT LIST");
                clients.lines().filter(|client| waits(client)).count() == EACH
            };
            assert!(eventually(all_wait));
            // Further requests are not read any more, as the replies are not.
            for socket in &mut stuffed {
                send(socket, &b"GET big\r\n".repeat(50));
            }
        });
    });
}

/// A number in a client's line of CLIENT LIST.
fn field(client: &str, name: &str) -> Option<u64> {
    client.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))?.parse().ok()
}

/// Reads to the end of the connection, however it ends.
fn is_ended(socket: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    socket.set_read_timeout(Some(PATIENCE)).expect("a limit of time");
    match socket.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_client_that_does_not_read_or_never_ends_is_disconnected() {
    let server =
        Server::start(&["--client-output-buffer-limit", "normal 200000 0 0", "--client-query-buffer-limit", "1mb"]);
    let mut honest = server.client();
    redis::cmd("SET").arg("big").arg("x".repeat(150_000)).exec(&mut honest).expect("SET");
    let mut reader = server.socket();
    send(&mut reader, b"GET big\r\nGET big\r\n");
    assert!(is_ended(&mut reader));
    let mut writer = server.socket();
    send(&mut writer, b"*2\r\n$3\r\nGET\r\n$300000000\r\n");
    let part = [b'x'; 65536];
    while writer.write(&part).is_ok() {}
    let info: String = redis::cmd("INFO").arg("stats").query(&mut honest).expect("INFO");
    assert!(info.contains("client_output_buffer_limit_disconnections:1"), "{info}");
    assert!(info.contains("client_query_buffer_limit_disconnections:1"), "{info}");
    redis::cmd("CONFIG").arg("SET").arg("maxmemory-clients").arg("300kb").exec(&mut honest).expect("CONFIG SET");
    redis::cmd("CLIENT").arg("NO-EVICT").arg("on").exec(&mut honest).expect("NO-EVICT");
    let mut large = server.socket();
    send(&mut large, b"*2\r\n$3\r\nGET\r\n$400000\r\n");
    send(&mut large, &[b'x'; 390_000]);
    assert!(is_ended(&mut large));
    let info: String = redis::cmd("INFO").arg("stats").query(&mut honest).expect("INFO");
    assert!(info.contains("evicted_clients:1"), "{info}");
    assert!(server.stop().success());
}
