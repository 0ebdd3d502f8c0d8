//! Many clients at once, on workers of their own: nothing is lost, and nothing is seen half done.

use crate::dialogue::{ask, ask_integer, dialogue};
use crate::harness::{Server, eventually, on_each_thread_count};
use std::sync::atomic::{AtomicBool, Ordering};

const CLIENTS: usize = 8;

#[test]
fn no_increment_is_lost() {
    const ROUNDS: usize = 50;
    const DEPTH: usize = 100;
    on_each_thread_count(&[], |server| {
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut client = server.client();
                    for _ in 0..ROUNDS {
                        let mut pipeline = redis::pipe();
                        for i in 0..DEPTH {
                            pipeline.cmd("INCR").arg(["shared", "other"][i % 2]).ignore();
                        }
                        let () = pipeline.query(&mut client).expect("replies");
                    }
                });
            }
        });
        let expected = (CLIENTS * ROUNDS * DEPTH / 2) as i64;
        let mut client = server.client();
        assert_eq!(ask_integer(&mut client, "INCRBY shared 0"), expected);
        assert_eq!(ask_integer(&mut client, "INCRBY other 0"), expected);
    });
}

#[test]
fn commands_on_several_keys_are_atomic() {
    const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
    on_each_thread_count(&[], |server| {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..CLIENTS / 2 {
                let stop = &stop;
                scope.spawn(move || {
                    let mut client = server.client();
                    let mut round = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let mut mset = redis::cmd("MSET");
                        for key in KEYS {
                            mset.arg(key).arg(format!("{writer}:{round}"));
                        }
                        let () = mset.query(&mut client).expect("OK");
                        round += 1;
                    }
                });
            }
            let mut client = server.client();
            let mut seen: Vec<Vec<Option<String>>> = Vec::new();
            for _ in 0..2000 {
                seen.push(redis::cmd("MGET").arg(&KEYS).query(&mut client).expect("values"));
            }
            stop.store(true, Ordering::Relaxed);
            let torn = seen.iter().find(|values| values.iter().any(|value| *value != values[0]));
            assert_eq!(torn, None);
        });
    });
}

#[test]
fn renames_and_swaps_between_clients_keep_every_value() {
    on_each_thread_count(&[], |server| {
        std::thread::scope(|scope| {
            for number in 0..CLIENTS {
                scope.spawn(move || {
                    let mut client = server.client();
                    assert_eq!(ask(&mut client, &format!("SET own{number}:0 {number}")), "OK");
                    for i in 0..500 {
                        let (from, to) = (format!("own{number}:{i}"), format!("own{number}:{}", i + 1));
                        assert_eq!(ask(&mut client, &format!("RENAME {from} {to}")), "OK");
                        assert_eq!(ask(&mut client, &format!("GET {to}")), format!("\"{number}\""));
                    }
                });
            }
        });
        assert_eq!(ask_integer(&mut server.client(), "DBSIZE"), CLIENTS as i64);
    });
}

#[test]
fn scan_meets_every_key_that_stays() {
    const STAYING: usize = 3000;
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        let mut pipeline = redis::pipe();
        for i in 0..STAYING {
            pipeline.cmd("SET").arg(format!("stay:{i}")).arg(i).ignore();
        }
        let () = pipeline.query(&mut client).expect("replies");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Makes the table grow and shrink meanwhile.
                let mut client = server.client();
                while !stop.load(Ordering::Relaxed) {
                    for command in ["SET", "DEL"] {
                        let mut pipeline = redis::pipe();
                        for i in 0..20_000 {
                            let request = pipeline.cmd(command).arg(format!("passing:{i}"));
                            if command == "SET" {
                                request.arg("v");
                            }
                        }
                        let _: redis::Value = pipeline.query(&mut client).expect("replies");
                    }
                }
            });
            for _ in 0..5 {
                let mut found: Vec<String> = Vec::new();
                let mut cursor = 0u64;
                loop {
                    let (next, keys): (u64, Vec<String>) = redis::cmd("SCAN")
                        .arg(cursor)
                        .arg("MATCH")
                        .arg("stay:*")
                        .arg("COUNT")
                        .arg(100)
                        .query(&mut client)
                        .expect("a page");
                    found.extend(keys);
                    cursor = next;
                    if cursor == 0 {
                        break;
                    }
                }
                found.sort();
                found.dedup();
                assert_eq!(found.len(), STAYING);
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn expired_keys_go_without_being_touched() {
    const KEYS: usize = 2000;
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        let mut pipeline = redis::pipe();
        for i in 0..KEYS {
            pipeline.cmd("SET").arg(format!("k{i}")).arg(i).arg("PX").arg(100).ignore();
        }
        pipeline.cmd("SET").arg("stays").arg(1).ignore();
        let () = pipeline.query(&mut client).expect("replies");
        assert!(eventually(|| ask_integer(&mut client, "DBSIZE") == 1), "{}", ask(&mut client, "INFO keyspace"));
        let stats = ask(&mut client, "INFO stats");
        assert!(stats.contains(&format!("expired_keys:{KEYS}\\r")), "{stats}");
        let keyspace = ask(&mut client, "INFO keyspace");
        assert!(keyspace.contains("db0:keys=1,expires=0,"), "{keyspace}");
    });
}

#[test]
fn an_idle_server_forgets_expired_keys_by_itself() {
    let server = Server::start(&[]);
    let mut client = server.client();
    dialogue(&mut client, &[("SET k v PX 20", "OK"), ("DBSIZE", "1")]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    dialogue(&mut client, &[("DBSIZE", "0")]);
}

#[test]
fn a_command_on_many_keys_gets_through_among_those_on_one() {
    const KEYS: usize = 500;
    let server = Server::start_with_threads(4, &[]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..CLIENTS {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                let mut client = server.client();
                let mut n = writer;
                while !stop.load(Ordering::Relaxed) {
                    let mut pipeline = redis::pipe();
                    for _ in 0..64 {
                        n = (n * 31 + 7) % KEYS;
                        pipeline.cmd("SET").arg(format!("key:{n}")).arg("one").ignore();
                    }
                    let () = pipeline.query(&mut client).expect("replies");
                }
            });
        }
        let mut client = server.client();
        let names: Vec<String> = (0..KEYS).map(|n| format!("key:{n}")).collect();
        for _ in 0..100 {
            let mut all = redis::cmd("MSET");
            names.iter().for_each(|name| _ = all.arg(name).arg("many"));
            let () = all.query(&mut client).expect("OK");
            let found: Vec<String> = redis::cmd("MGET").arg(&names).query(&mut client).expect("values");
            assert!(found.iter().all(|value| value == "one" || value == "many"));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(server.stop().success());
}
