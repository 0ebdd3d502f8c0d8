//! Commands that wait, transactions and pauses, with many clients on several workers: every element reaches exactly one
//! client, every client gets exactly one reply, and none sees half of a transaction.

use crate::dialogue::{ask, ask_integer, dialogue, show};
use crate::harness::{PATIENCE, Server, eventually, expect_bytes, on_each_thread_count, send};
use redis::Value;
use std::collections::BTreeSet;
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Sends a command over a bare connection, in the words of an inline command.
fn tell(socket: &mut TcpStream, line: &str) {
    send(socket, format!("{line}\r\n").as_bytes());
}

/// A connection with a command that waits.
fn waiting(server: &Server, line: &str) -> TcpStream {
    let mut admin = server.client();
    let before = blocked(&mut admin);
    let mut socket = server.socket();
    tell(&mut socket, line);
    assert!(eventually(|| blocked(&mut admin) == before + 1), "{line} waits");
    socket
}

fn blocked(client: &mut redis::Connection) -> usize {
    let info: String = redis::cmd("INFO").arg("clients").query(client).expect("INFO");
    let field = info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).expect("the field");
    field.trim().parse().expect("a number")
}

#[test]
fn the_client_that_came_first_is_served_first() {
    on_each_thread_count(&[], |server| {
        let mut clients: Vec<TcpStream> = (0..10).map(|_| waiting(server, "BZPOPMIN k 0")).collect();
        let mut client = server.client();
        assert!(ask(&mut client, "CLIENT LIST").contains(" flags=b "));
        ask(&mut client, "ZADD k 0 a 1 b 2 c 3 d 4 e 5 f 6 g 7 h 8 i 9 j 10 k");
        for (n, socket) in clients.iter_mut().enumerate() {
            let member = char::from(b'a' + n as u8);
            expect_bytes(socket, format!("*3\r\n$1\r\nk\r\n$1\r\n{member}\r\n$1\r\n{n}\r\n").as_bytes());
        }
        dialogue(&mut client, &[("ZRANGE k 0 -1", "[\"k\"]"), ("BZPOPMAX no k 0", "[\"k\", \"k\", \"10\"]")]);
    });
}

#[test]
fn a_client_that_waits_for_several_elements_gets_them_together() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        dialogue(&mut client, &[("RPUSH from 1", "1"), ("BLMOVEM from to LEFT RIGHT 0.05 EXACTLY 2 OBO", "nil")]);
        let mut socket = waiting(server, "BLMOVEM from to RIGHT LEFT 0 EXACTLY 3 BULK");
        dialogue(&mut client, &[("RPUSH from 2", "2"), ("EXISTS to", "0"), ("LINSERT from BEFORE 1 0", "3")]);
        expect_bytes(&mut socket, b"*3\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n2\r\n");
        dialogue(&mut client, &[("LRANGE to 0 -1", "[\"0\", \"1\", \"2\"]"), ("EXISTS from", "0")]);
    });
}

#[test]
fn a_wait_ends_with_its_time_or_by_request() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        let began = Instant::now();
        dialogue(&mut client, &[("BZPOPMIN a 0.15", "nil"), ("BZMPOP 0.001 2 a b MAX", "nil")]);
        assert!(began.elapsed() >= Duration::from_millis(150));
        for (how, reply) in [
            ("TIMEOUT", &b"*-1\r\n+PONG\r\n"[..]),
            ("ERROR", b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n+PONG\r\n"),
        ] {
            let mut socket = waiting(server, "BZPOPMIN a b 0\r\nPING");
            let list = ask(&mut client, "CLIENT LIST");
            let line = list.split("\\n").find(|line| line.contains(" flags=b ")).expect("the blocked client");
            let id = line.trim_start_matches('"').strip_prefix("id=").and_then(|rest| rest.split(' ').next());
            let unblock = format!("CLIENT UNBLOCK {} {how}", id.expect("an id"));
            assert_eq!((ask(&mut client, &unblock), ask(&mut client, &unblock)), ("1".into(), "0".into()));
            expect_bytes(&mut socket, reply);
        }
        assert_eq!(ask_integer(&mut client, "ZADD a 1 m"), 1);
        assert_eq!(ask_integer(&mut client, "ZCARD a"), 1, "nobody waits any more");
    });
}

#[test]
fn nothing_is_popped_for_a_client_that_went_away() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        // The clients wait one after the other: `waiting` counts them.
        drop(waiting(server, "BZPOPMIN a b 0"));
        assert!(eventually(|| blocked(&mut client) == 0), "a closed connection");
        let half = waiting(server, "BZPOPMIN a b 0");
        half.shutdown(Shutdown::Write).expect("half a close");
        assert!(eventually(|| blocked(&mut client) == 0), "a half closed connection");
        let mut killed = waiting(server, "BZPOPMIN a b 0");
        ask(&mut client, "CLIENT KILL TYPE normal SKIPME yes");
        expect_bytes(&mut killed, b"");
        assert!(eventually(|| blocked(&mut client) == 0), "a killed connection");
        dialogue(&mut client, &[("ZADD a 1 m", "1"), ("ZADD b 1 m", "1"), ("ZCARD a", "1"), ("ZCARD b", "1")]);
    });
}

#[test]
fn a_transaction_wakes_when_it_has_ended() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        let mut socket = waiting(server, "BZPOPMIN k other 0");
        dialogue(
            &mut client,
            &[
                ("MULTI", "OK"),
                ("ZADD k 1 gone", "QUEUED"),
                ("DEL k", "QUEUED"),
                ("ZADD k 2 b", "QUEUED"),
                ("ZADD k 1 a", "QUEUED"),
                ("BZPOPMAX none 0", "QUEUED"),
                ("EXEC", "[1, 1, 1, 1, nil]"),
                ("ZRANGE k 0 -1", "[\"b\"]"),
            ],
        );
        expect_bytes(&mut socket, b"*3\r\n$1\r\nk\r\n$1\r\na\r\n$1\r\n1\r\n");
    });
}

#[test]
fn hundreds_of_clients_lose_and_duplicate_nothing() {
    const WAITERS: usize = 200;
    const PUSHERS: usize = 8;
    const PUSHES: usize = 200;
    const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
    let server = Server::start_with_threads(4, &[]);
    let (stop, taken) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for waiter in 0..WAITERS {
            let (server, stop, taken) = (&server, &stop, &taken);
            scope.spawn(move || {
                let mut client = server.client();
                let mut mine = Vec::new();
                for round in waiter.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let (one, two) = (KEYS[round % 5], KEYS[(round * 3 + 1) % 5]);
                    let timeout = ["0.001", "0.02", "0.2"][round % 3];
                    let reply = match round % 2 {
                        0 => redis::cmd("BZPOPMIN").arg(one).arg(two).arg(timeout).query(&mut client),
                        _ => redis::cmd("BZMPOP").arg(timeout).arg(2).arg(one).arg(two).arg("MAX").query(&mut client),
                    };
                    match reply {
                        Ok(Value::Array(items)) => mine.extend(member_of(&items)),
                        Ok(Value::Nil) => {}
                        other => assert!(format!("{other:?}").contains("UNBLOCKED"), "{other:?}"),
                    }
                }
                taken.lock().unwrap().extend(mine);
            });
        }
        scope.spawn(|| {
            let mut client = server.client();
            let first = ask_integer(&mut client, "CLIENT ID") as usize;
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let id = first + n % (WAITERS + PUSHERS);
                ask(&mut client, &format!("CLIENT UNBLOCK {id} {}", ["ERROR", "TIMEOUT"][n % 2]));
            }
        });
        let pushers: Vec<_> = (0..PUSHERS)
            .map(|pusher| {
                let server = &server;
                scope.spawn(move || {
                    let mut client = server.client();
                    for n in 0..PUSHES {
                        let push = format!("ZADD {} {n} {pusher}:{n}", KEYS[(pusher + n * 7) % 5]);
                        if n % 3 == 0 {
                            let lines = [("MULTI", "OK"), (&push, "QUEUED"), ("PING", "QUEUED"), ("EXEC", "[1, PONG]")];
                            dialogue(&mut client, &lines);
                        } else {
                            dialogue(&mut client, &[(&push, "1")]);
                        }
                    }
                })
            })
            .collect();
        pushers.into_iter().for_each(|pusher| pusher.join().expect("no pusher fails"));
        let mut client = server.client();
        let count = redis::cmd("EXISTS").arg(&KEYS).to_owned();
        assert!(eventually(|| count.query::<i64>(&mut client).expect("a number") == 0), "all is taken");
        stop.store(true, Ordering::Relaxed);
    });
    assert_each_once(taken.into_inner().unwrap(), PUSHERS, PUSHES);
    assert_eq!(blocked(&mut server.client()), 0);
}

#[test]
fn hundreds_of_clients_move_elements_from_list_to_list() {
    const MOVERS: usize = 100;
    const TAKERS: usize = 100;
    const PUSHERS: usize = 8;
    const PUSHES: usize = 200;
    const FROM: [&str; 5] = ["a", "b", "c", "d", "e"];
    const TO: [&str; 5] = ["f", "g", "h", "i", "j"];
    let server = Server::start_with_threads(4, &[]);
    let (stop, taken) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let timeout = |round: usize| ["0.001", "0.02", "0.2"][round % 3];
    std::thread::scope(|scope| {
        for mover in 0..MOVERS {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                let mut client = server.client();
                for round in (mover..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                    let (from, to) = (FROM[round % 5], TO[(round * 3 + mover) % 5]);
                    let line = match round % 2 {
                        0 => format!("BLMOVE {from} {to} LEFT RIGHT {}", timeout(round)),
                        _ => format!("BRPOPLPUSH {from} {to} {}", timeout(round)),
                    };
                    ask(&mut client, &line);
                }
            });
        }
        for taker in 0..TAKERS {
            let (server, stop, taken) = (&server, &stop, &taken);
            scope.spawn(move || {
                let (mut client, mut mine) = (server.client(), Vec::new());
                for round in (taker..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                    let (one, two) = (TO[round % 5], TO[(round * 3 + 1) % 5]);
                    let reply = match round % 3 {
                        0 => redis::cmd("BLPOP").arg(one).arg(two).arg(timeout(round)).query(&mut client),
                        1 => redis::cmd("BRPOP").arg(two).arg(timeout(round)).query(&mut client),
                        _ => redis::cmd("BLMPOP").arg(timeout(round)).arg(1).arg(one).arg("LEFT").query(&mut client),
                    };
                    match reply.expect("a reply") {
                        Value::Array(items) => match &items[1] {
                            Value::Array(elements) => mine.extend(elements.iter().map(show)),
                            element => mine.push(show(element)),
                        },
                        other => assert_eq!(other, Value::Nil),
                    }
                }
                taken.lock().unwrap().extend(mine);
            });
        }
        let pushers: Vec<_> = (0..PUSHERS)
            .map(|pusher| {
                let server = &server;
                scope.spawn(move || {
                    let mut client = server.client();
                    for n in (0..PUSHES).step_by(2) {
                        let key = FROM[(pusher + n * 7) % 5];
                        ask(&mut client, &format!("RPUSH {key} {pusher}:{n} {pusher}:{}", n + 1));
                    }
                })
            })
            .collect();
        pushers.into_iter().for_each(|pusher| pusher.join().expect("no pusher fails"));
        let mut client = server.client();
        let count = redis::cmd("EXISTS").arg(&FROM).arg(&TO).to_owned();
        assert!(eventually(|| count.query::<i64>(&mut client).expect("a number") == 0), "all is taken");
        stop.store(true, Ordering::Relaxed);
    });
    assert_each_once(taken.into_inner().unwrap(), PUSHERS, PUSHES);
    assert_eq!(blocked(&mut server.client()), 0);
}

/// Asserts that the taken elements are those that so many clients have pushed, so often each.
fn assert_each_once(taken: Vec<String>, pushers: usize, pushes: usize) {
    let elements = |pusher| (0..pushes).map(move |n| format!("\"{pusher}:{n}\""));
    let expected: BTreeSet<String> = (0..pushers).flat_map(elements).collect();
    assert_eq!(taken.len(), expected.len(), "each element once");
    assert!(taken.into_iter().collect::<BTreeSet<_>>() == expected);
}

/// The member in a reply of BZPOPMIN or BZMPOP.
fn member_of(items: &[Value]) -> Option<String> {
    match items {
        [_, Value::Array(pairs)] => match pairs.first() {
            Some(Value::Array(pair)) => pair.first().map(show),
            _ => None,
        },
        [_, member, _] => Some(show(member)),
        _ => None,
    }
}

#[test]
fn transactions_move_money_without_losing_any() {
    const ACCOUNTS: usize = 10;
    const CLIENTS: usize = 6;
    let server = Server::start_with_threads(4, &[]);
    let mut client = server.client();
    (0..ACCOUNTS).for_each(|n| _ = ask(&mut client, &format!("SET account:{n} 100")));
    let until = Instant::now() + Duration::from_secs(2);
    std::thread::scope(|scope| {
        for mover in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                let mut done = 0;
                for n in mover.. {
                    if Instant::now() > until {
                        break;
                    }
                    let (from, to) = (n % ACCOUNTS, (n * 7 + 1 + mover) % ACCOUNTS);
                    if from == to {
                        continue;
                    }
                    if n % 2 == 0 {
                        let lines = ["MULTI", &format!("DECRBY account:{from} 3"), &format!("INCRBY account:{to} 3")];
                        lines.iter().for_each(|line| _ = ask(&mut client, line));
                    } else {
                        ask(&mut client, &format!("WATCH account:{from} account:{to}"));
                        let (has, had) = (
                            ask(&mut client, &format!("GET account:{from}")).replace('"', ""),
                            ask(&mut client, &format!("GET account:{to}")).replace('"', ""),
                        );
                        let (has, had): (i64, i64) = (has.parse().expect("a sum"), had.parse().expect("a sum"));
                        let (first, second) =
                            (format!("SET account:{from} {}", has - 1), format!("SET account:{to} {}", had + 1));
                        ["MULTI", &first, &second].iter().for_each(|line| _ = ask(&mut client, line));
                    }
                    done += usize::from(ask(&mut client, "EXEC") != "nil");
                }
                assert!(done > 0, "some transactions go through");
            });
        }
        // A look at all accounts gives the same sum: by one command, and by a transaction that locks everything.
        let mut client = server.client();
        let accounts: Vec<String> = (0..ACCOUNTS).map(|n| format!("account:{n}")).collect();
        while Instant::now() < until {
            let sums: Vec<i64> = redis::cmd("MGET").arg(&accounts).query(&mut client).expect("sums");
            assert_eq!(sums.iter().sum::<i64>(), 100 * ACCOUNTS as i64);
            let mut pipeline = redis::pipe();
            pipeline.atomic().cmd("MGET").arg(&accounts).cmd("DBSIZE").cmd("INFO").arg("keyspace");
            let (sums, size, _): (Vec<i64>, usize, String) = pipeline.query(&mut client).expect("a transaction");
            assert_eq!((sums.iter().sum::<i64>(), size), (100 * ACCOUNTS as i64, ACCOUNTS));
        }
    });
}

#[test]
fn a_pause_postpones_writes_or_everything() {
    on_each_thread_count(&[], |server| {
        let (mut admin, mut other) = (server.client(), server.client());
        dialogue(&mut admin, &[("SET k 1", "OK"), ("CLIENT PAUSE 100000 WRITE", "OK"), ("GET k", "\"1\"")]);
        assert!(ask(&mut other, "SET k").starts_with("-ERR wrong number"), "what is refused is refused at once");
        let mut writer = waiting(server, "SET k 2\r\nGET k");
        let mut transaction = server.socket();
        tell(&mut transaction, "CLIENT UNPAUSE");
        expect_bytes(&mut transaction, b"+OK\r\n");
        expect_bytes(&mut writer, b"+OK\r\n$1\r\n2\r\n");
        dialogue(&mut other, &[("MULTI", "OK"), ("SET k 3", "QUEUED"), ("CLIENT PAUSE 150 ALL", "QUEUED")]);
        let began = Instant::now();
        dialogue(&mut other, &[("EXEC", "[OK, OK]")]);
        dialogue(&mut admin, &[("GET k", "\"3\"")]);
        assert!(began.elapsed() >= Duration::from_millis(140) && began.elapsed() < PATIENCE);
        assert_eq!(blocked(&mut admin), 0);
    });
}
