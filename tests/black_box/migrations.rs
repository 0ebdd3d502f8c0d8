//! MIGRATE: a concurrent write is on one of the two servers afterwards, and no client but its own waits for the target.

use crate::harness::{Server, eventually, expect_bytes, is_peer, send};
use redis::{Connection, RedisError, Value, cmd};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::thread;

const KEYS: usize = 6;

fn to(target: &Server, key: &str, db: usize) -> redis::Cmd {
    let mut command = cmd("MIGRATE");
    command.arg("127.0.0.1").arg(target.port).arg(key).arg(db).arg(15_000);
    command
}

fn message(result: Result<Value, RedisError>) -> String {
    result.expect_err("a refusal").to_string()
}

/// Returns the sum of all counters of a database.
fn sum(connection: &mut Connection, db: usize) -> i64 {
    cmd("SELECT").arg(db).exec(connection).expect("a database");
    let mut all = cmd("MGET");
    (0..KEYS).for_each(|key| _ = all.arg(format!("count:{key}")));
    let counts: Vec<Option<i64>> = all.query(connection).expect("numbers");
    counts.into_iter().flatten().sum()
}

#[test]
fn keys_written_during_a_migration_are_on_one_of_the_servers() {
    for threads in [1, 4] {
        let (source, target) = (Server::start_with_threads(threads, &[]), Server::start(&[]));
        let (counted, taken, ended) = (AtomicI64::new(0), AtomicI64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for writer in 0..3 {
                let mut connection = source.client();
                let (counted, ended) = (&counted, &ended);
                scope.spawn(move || {
                    for turn in writer.. {
                        // One key never rests.
                        let key = if turn % 2 == 0 { 0 } else { turn % KEYS };
                        cmd("INCR").arg(format!("count:{key}")).exec(&mut connection).expect("one more");
                        counted.fetch_add(1, SeqCst);
                        if ended.load(SeqCst) {
                            break;
                        }
                    }
                });
            }
            let mut connection = source.client();
            let (taken, ended_too) = (&taken, &ended);
            scope.spawn(move || {
                for turn in (0..KEYS).cycle().take_while(|_| !ended_too.load(SeqCst)) {
                    let count = cmd("GETDEL").arg(format!("count:{turn}")).query::<Option<i64>>(&mut connection);
                    taken.fetch_add(count.expect("a count").unwrap_or(0), SeqCst);
                }
            });
            let mut mover = source.client();
            for db in (0..16).cycle().take(48) {
                // The counts that the target has by now are taken as written before.
                let mut first = target.client();
                taken.fetch_add(sum(&mut first, db), SeqCst);
                cmd("FLUSHDB").exec(&mut first).expect("an empty database");
                let mut several = to(&target, "", db);
                several.arg("KEYS");
                (0..KEYS).for_each(|key| _ = several.arg(format!("count:{key}")));
                let moved: String = several.query(&mut mover).expect("to move");
                assert!(["OK", "NOKEY"].contains(&&*moved), "{moved}");
            }
            ended.store(true, SeqCst);
        });
        let mut there = target.client();
        let left = sum(&mut source.client(), 0) + (0..16).map(|db| sum(&mut there, db)).sum::<i64>();
        assert_eq!(left + taken.load(SeqCst), counted.load(SeqCst), "with {threads} workers");
        assert!(source.stop().success() && target.stop().success());
    }
}

#[test]
fn a_target_that_says_nothing_is_waited_for_by_its_client_alone() {
    if is_peer() {
        return;
    }
    let server = Server::start_with_threads(1, &[]);
    let (mut other, mut waiting) = (server.client(), server.socket());
    cmd("SET").arg("key").arg("value").exec(&mut other).expect("to write");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("its address").port();
    send(&mut waiting, format!("MIGRATE 127.0.0.1 {port} key 0 15000\r\nPING\r\n").as_bytes());
    let (asked, _) = silent.accept().expect("the server");
    let line = |other: &mut Connection| {
        let list: String = cmd("CLIENT").arg("LIST").query(other).expect("a list");
        list.lines().find(|line| line.contains("cmd=migrate")).map(str::to_owned)
    };
    assert!(eventually(|| line(&mut other).is_some_and(|line| line.contains(" flags=b "))));
    let id: u64 = line(&mut other)
        .and_then(|line| line.strip_prefix("id=").and_then(|line| line.split(' ').next()?.parse().ok()))
        .expect("its number");
    assert_eq!(cmd("CLIENT").arg("UNBLOCK").arg(id).query(&mut other), Ok(0));
    assert_eq!(cmd("APPEND").arg("key").arg("s").query(&mut other), Ok(6), "the key can be written to");
    drop((asked, silent));
    expect_bytes(&mut waiting, b"-IOERR error or timeout ");
    let left: String = cmd("GET").arg("key").query(&mut other).expect("the key");
    assert_eq!(left, "values");
    assert!(server.stop().success());
}

#[test]
fn a_key_leaves_as_it_is_and_the_log_knows() {
    let mut source =
        Server::start(&["--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"]);
    let target = Server::start(&["--enable-debug-command", "yes"]);
    let (mut here, mut there) = (source.client(), target.client());
    let written = [
        "SET text 1 PX 1000000",
        "RPUSH list a b",
        "SADD set a 1",
        "ZADD zset 1 a",
        "HSET hash a 1",
        "XADD stream 1-1 a 1",
        "SET again 1",
        "SET twice 1",
        "SET busy 1",
    ];
    for line in written {
        let mut words = line.split(' ');
        let mut command = cmd(words.next().expect("a name"));
        words.for_each(|word| _ = command.arg(word));
        command.exec(&mut here).expect("to write");
    }
    let digest = |connection: &mut Connection, key: &str| -> Vec<String> {
        cmd("DEBUG").arg("DIGEST-VALUE").arg(key).query(connection).expect("a digest")
    };
    for key in ["text", "list", "set", "zset", "hash", "stream"] {
        let before = digest(&mut here, key);
        assert_eq!(to(&target, key, 0).query(&mut here), Ok("OK".to_owned()), "{key}");
        assert_eq!((digest(&mut there, key), cmd("EXISTS").arg(key).query(&mut here)), (before, Ok(0)), "{key}");
    }
    let left: i64 = cmd("PTTL").arg("text").query(&mut there).expect("a time");
    assert!((1..=1_000_000).contains(&left), "{left}");
    assert_eq!(to(&target, "twice", 0).arg("COPY").query(&mut here), Ok("OK".to_owned()));
    let busy = message(to(&target, "twice", 0).query(&mut here));
    assert!(busy.contains("Target instance replied with error: BUSYKEY"), "{busy}");
    assert_eq!(to(&target, "twice", 0).arg("REPLACE").query(&mut here), Ok("OK".to_owned()));
    // Both wait for the target where they are.
    cmd("MULTI").exec(&mut here).expect("a transaction");
    to(&target, "again", 3).exec(&mut here).expect("queued");
    assert_eq!(cmd("EXEC").query(&mut here), Ok(vec!["OK".to_owned()]));
    let script = "return redis.call('MIGRATE', '127.0.0.1', ARGV[1], KEYS[1], 3, 15000)";
    let moved: String = cmd("EVAL").arg(script).arg(1).arg("busy").arg(target.port).query(&mut here).expect("a script");
    assert_eq!(moved, "OK");
    source.crash();
    let mut here = source.client();
    assert_eq!(cmd("DBSIZE").query(&mut here), Ok(0), "the log has the end of all of them");
    assert_eq!(to(&target, "none", 99).query(&mut here), Ok("NOKEY".to_owned()));
    assert!(source.stop().success() && target.stop().success());
}
