//! Clients with a cache of their own: what they hold is what the server holds, whichever client writes on whichever
//! worker.

use crate::harness::{Server, expect_bytes, on_each_thread_count, send};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

const KEYS: usize = 20;
const WRITERS: usize = 4;
const WRITES: usize = 1500;

/// A client that uses RESP3 and keeps the values that it has read until they are invalidated.
struct Cache {
    socket: TcpStream,
    lines: BufReader<TcpStream>,
    held: HashMap<String, String>,
}

impl Cache {
    fn new(server: &Server, tracking: &str) -> Cache {
        let socket = server.socket();
        let lines = BufReader::new(socket.try_clone().expect("a second handle"));
        let mut cache = Cache { socket, lines, held: HashMap::new() };
        cache.send("HELLO 3");
        while cache.line() != "*0" {}
        cache.send(tracking);
        assert_eq!(cache.line(), "+OK");
        cache
    }

    fn send(&mut self, line: &str) {
        send(&mut self.socket, format!("{line}\r\n").as_bytes());
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).expect("a line") > 0, "the connection has ended");
        line.trim_end().to_owned()
    }

    /// The first line of the next reply; invalidations before it are heeded.
    fn reply(&mut self) -> String {
        loop {
            let line = self.line();
            if line != ">2" {
                return line;
            }
            assert_eq!((self.line(), self.line()), ("$10".to_owned(), "invalidate".to_owned()));
            let keys = self.line();
            let Some(count) = keys.strip_prefix('*') else {
                assert_eq!(keys, "_");
                self.held.clear();
                continue;
            };
            for _ in 0..count.parse().expect("a count") {
                self.line();
                let key = self.line();
                self.held.remove(&key);
            }
        }
    }

    fn read(&mut self, key: &str) {
        if self.held.contains_key(key) {
            return;
        }
        self.send(&format!("GET {key}"));
        let length = self.reply();
        let value = if length == "_" { String::new() } else { self.line() };
        self.held.insert(key.to_owned(), value);
    }

    fn ping(&mut self) {
        self.send("PING");
        assert_eq!(self.reply(), "+PONG");
    }
}

#[test]
fn no_invalidation_is_lost_among_concurrent_writers() {
    const MODES: [&str; 4] = [
        "CLIENT TRACKING on",
        "CLIENT TRACKING on BCAST",
        "CLIENT TRACKING on OPTOUT NOLOOP",
        "CLIENT TRACKING on BCAST PREFIX key:",
    ];
    on_each_thread_count(&[], |server| {
        let caches: Vec<Cache> = MODES.iter().chain(&MODES).map(|mode| Cache::new(server, mode)).collect();
        let written = AtomicBool::new(false);
        let caches: Vec<Cache> = std::thread::scope(|scope| {
            let readers = caches.into_iter().map(|mut cache| {
                let written = &written;
                scope.spawn(move || {
                    while !written.load(Ordering::Acquire) {
                        (0..KEYS).for_each(|key| cache.read(&format!("key:{key}")));
                        cache.ping();
                    }
                    cache
                })
            });
            let readers: Vec<_> = readers.collect();
            let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(server, writer))).collect();
            writers.into_iter().for_each(|writer| writer.join().expect("a writer's end"));
            written.store(true, Ordering::Release);
            readers.into_iter().map(|reader| reader.join().expect("a reader's end")).collect()
        });
        let mut client = server.client();
        for mut cache in caches {
            // All invalidations were on their way before the writers had their replies.
            cache.ping();
            for (key, value) in &cache.held {
                let now: Option<String> = redis::cmd("GET").arg(key).query(&mut client).expect("a value");
                assert_eq!(now.unwrap_or_default(), *value, "{key}");
            }
        }
    });
}

/// Overwrites, deletes and changes in transactions.
fn write(server: &Server, writer: usize) {
    let mut client = server.client();
    for number in 0..WRITES {
        let key = format!("key:{}", (number * 7 + writer) % KEYS);
        let value = format!("{writer}-{number}");
        match number % 5 {
            0 => redis::cmd("DEL").arg(&key).exec(&mut client).expect("a reply"),
            1 => {
                let mut transaction = redis::pipe();
                transaction.atomic().cmd("SET").arg(&key).arg("x").cmd("SET").arg(&key).arg(&value);
                transaction.exec(&mut client).expect("replies");
            }
            _ => redis::cmd("SET").arg(&key).arg(&value).exec(&mut client).expect("a reply"),
        }
    }
}

/// A connection that others' invalidations are sent to, and its client's number.
fn redirection_target(server: &Server) -> (TcpStream, String) {
    let mut target = server.socket();
    send(&mut target, b"CLIENT ID\r\n");
    let id = BufReader::new(target.try_clone().expect("a second handle")).lines().next();
    let id = id.expect("a reply").expect("a line")[1..].to_owned();
    send(&mut target, b"SUBSCRIBE __redis__:invalidate\r\n");
    expect_bytes(&mut target, b"*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:1\r\n");
    (target, id)
}

fn expect_broken(cache: &mut Cache, id: &str) {
    let broken: Vec<String> = (0..4).map(|_| cache.line()).collect();
    assert_eq!(broken, [">2", "$21", "tracking-redir-broken", &format!(":{id}")]);
}

#[test]
fn a_redirection_whose_target_goes_is_told() {
    on_each_thread_count(&[], |server| {
        let (mut target, id) = redirection_target(server);
        let mut cache = Cache::new(server, &format!("CLIENT TRACKING on REDIRECT {id}"));
        let mut writer = server.client();
        cache.read("k");
        redis::cmd("SET").arg("k").arg(1).exec(&mut writer).expect("a reply");
        expect_bytes(&mut target, b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n");
        cache.held.clear();
        cache.read("k");
        drop(target);
        assert!(crate::harness::eventually(|| {
            redis::cmd("CLIENT").arg("LIST").arg("ID").arg(&id).query::<String>(&mut writer).expect("a list").is_empty()
        }));
        redis::cmd("SET").arg("k").arg(2).exec(&mut writer).expect("a reply");
        expect_broken(&mut cache, &id);
    });
}

/// Its socket may be open still when the reply to QUIT has been read.
#[test]
fn a_redirection_whose_target_has_quit_is_told() {
    on_each_thread_count(&[], |server| {
        let mut writer = server.client();
        for round in 0..50 {
            let (mut target, id) = redirection_target(server);
            let mut cache = Cache::new(server, &format!("CLIENT TRACKING on REDIRECT {id}"));
            cache.read("k");
            send(&mut target, b"QUIT\r\n");
            expect_bytes(&mut target, b"+OK\r\n");
            redis::cmd("SET").arg("k").arg(round).exec(&mut writer).expect("a reply");
            expect_broken(&mut cache, &id);
        }
    });
}
