//! Snapshots: whatever is written meanwhile, a file is of one moment; whenever the process is killed, the file that is
//! there is whole.
//!
//! `CINNABAR_CRASH_ROUNDS=50` makes the crash test thorough.

use crate::dialogue::ask;
use crate::harness::{Server, eventually, is_peer, on_each_thread_count, send};
use redis::{Connection, RedisResult, cmd, pipe};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

const WRITERS: u64 = 3;
/// Collections with more elements are saved a chunk at a time.
const ELEMENTS: u64 = 6000;

/// Moves one from one element to another, of every kind of value.
fn move_one(connection: &mut Connection, random: u64) -> RedisResult<()> {
    let (from, to) = (random % ELEMENTS, random / ELEMENTS % ELEMENTS);
    let mut moves = pipe();
    moves.atomic();
    for (element, by) in [(from, -1i64), (to, 1)] {
        moves.cmd("HINCRBY").arg("hash").arg(element).arg(by).ignore();
        moves.cmd("ZINCRBY").arg("zset").arg(by).arg(element).ignore();
        moves.cmd("INCRBY").arg(format!("text:{element}")).arg(by).ignore();
    }
    // A member that moves from one set to another is in one of them.
    moves.cmd("SMOVE").arg("set").arg("other").arg(from).ignore();
    moves.cmd("SMOVE").arg("other").arg("set").arg(to).ignore();
    // The list gets another name and its own again.
    moves.cmd("RENAME").arg("list").arg("elsewhere").ignore().cmd("RENAME").arg("elsewhere").arg("list").ignore();
    moves.cmd("LMOVE").arg("list").arg("list").arg("LEFT").arg("RIGHT").ignore();
    moves.query(connection)
}

fn write_until_it_ends(mut connection: Connection, writer: u64, ended: &AtomicBool) {
    let mut random = writer + 1;
    while !ended.load(SeqCst) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match move_one(&mut connection, random >> 16) {
            Err(error) if error.is_io_error() => return,
            _ => {}
        }
    }
}

fn fill(connection: &mut Connection) {
    for element in 0..ELEMENTS {
        let mut all = pipe();
        all.cmd("HSET").arg("hash").arg(element).arg(0).cmd("ZADD").arg("zset").arg(0).arg(element);
        all.cmd("SET").arg(format!("text:{element}")).arg(0).cmd("SADD").arg("set").arg(element);
        all.cmd("RPUSH").arg("list").arg(format!("{element}").repeat(20));
        all.exec(connection).expect("to write");
    }
}

/// Whether all that moves is there once.
fn check(connection: &mut Connection) {
    let sum = |numbers: Vec<i64>| (numbers.len() as u64, numbers.into_iter().sum::<i64>());
    let whole = (ELEMENTS, 0);
    assert_eq!(sum(cmd("HVALS").arg("hash").query(connection).expect("numbers")), whole);
    let zset: Vec<(String, i64)> =
        cmd("ZRANGE").arg(&["zset", "0", "-1", "WITHSCORES"]).query(connection).expect("pairs");
    assert_eq!(sum(zset.into_iter().map(|(_, score)| score).collect()), whole);
    let names: Vec<String> = (0..ELEMENTS).map(|element| format!("text:{element}")).collect();
    assert_eq!(sum(cmd("MGET").arg(names).query(connection).expect("numbers")), whole);
    let sets: Vec<u64> = cmd("SUNION").arg(&["set", "other"]).query(connection).expect("members");
    let both: Vec<u64> = cmd("SINTER").arg(&["set", "other"]).query(connection).expect("members");
    assert_eq!((sets.len() as u64, both.len()), (ELEMENTS, 0));
    assert_eq!(cmd("LLEN").arg("list").query(connection), Ok(ELEMENTS));
}

/// Saves again and again; `begun` and `saved` are the numbers of the last save that was begun and of the last that is
/// there.
fn save_until_it_ends(mut connection: Connection, begun: &AtomicU64, saved: &AtomicU64, ended: &AtomicBool) {
    let is_over = |connection: &mut Connection| -> RedisResult<bool> {
        let info: String = cmd("INFO").arg("persistence").query(connection)?;
        Ok(info.contains("rdb_bgsave_in_progress:0") && info.contains("rdb_last_bgsave_status:ok"))
    };
    let mut save = || -> RedisResult<()> {
        let number = begun.load(SeqCst) + 1;
        cmd("SET").arg("number").arg(number).exec(&mut connection)?;
        begun.store(number, SeqCst);
        cmd("BGSAVE").exec(&mut connection)?;
        while !is_over(&mut connection)? {
            thread::sleep(Duration::from_millis(1));
        }
        saved.store(number, SeqCst);
        Ok(())
    };
    while !ended.load(SeqCst) && save().is_ok() {}
}

#[test]
fn a_killed_save_leaves_the_file_before_or_its_own() {
    let rounds = std::env::var("CINNABAR_CRASH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3u64);
    for threads in [1, 4] {
        let mut server = Server::start_with_threads(threads, &[]);
        fill(&mut server.client());
        let (begun, saved) = (AtomicU64::new(0), AtomicU64::new(0));
        cmd("SET").arg("number").arg(0).exec(&mut server.client()).expect("OK");
        cmd("SAVE").exec(&mut server.client()).expect("OK");
        for round in 0..rounds {
            let ended = AtomicBool::new(false);
            let pid = server.pid();
            thread::scope(|scope| {
                for writer in 0..WRITERS {
                    let (connection, ended) = (server.client(), &ended);
                    scope.spawn(move || write_until_it_ends(connection, writer + round * WRITERS, ended));
                }
                let (connection, begun, saved, ended) = (server.client(), &begun, &saved, &ended);
                scope.spawn(move || save_until_it_ends(connection, begun, saved, ended));
                thread::sleep(Duration::from_millis(150 + round * 71 % 400));
                let killed = Command::new("sh").args(["-c", &format!("kill -9 {pid}")]).status().expect("sh");
                assert!(killed.success());
                ended.store(true, SeqCst);
            });
            server.crash();
            let mut connection = server.client();
            let number: u64 = cmd("GET").arg("number").query(&mut connection).expect("a number");
            let (begun, saved) = (begun.load(SeqCst), saved.load(SeqCst));
            assert!((saved..=begun).contains(&number), "round {round}: {saved} was saved, {number} is there");
            check(&mut connection);
        }
        assert!(server.stop().success());
    }
}

#[test]
fn a_save_keeps_nobody_waiting_but_its_client() {
    if is_peer() {
        return;
    }
    let server = Server::start_with_threads(1, &[]);
    let mut client = server.client();
    for (command, reply) in [("MSET a 1 b 2 c 3", "OK"), ("CONFIG SET rdb-key-save-delay 100000000", "OK")] {
        assert_eq!(ask(&mut client, command), reply);
    }
    let mut saving = server.socket();
    send(&mut saving, b"SAVE\r\nGET a\r\n");
    assert!(eventually(|| ask(&mut client, "INFO persistence").contains("current_save_keys_total:3")));
    for (command, reply) in [
        ("SAVE", "-ERR Background save already in progress"),
        ("BGSAVE", "-ERR Background save already in progress"),
        ("PING", "PONG"),
        ("SET a 2", "OK"),
        ("MGET a b", "[\"2\", \"2\"]"),
        ("LASTSAVE", &ask(&mut client, "LASTSAVE")),
        ("MULTI", "OK"),
        ("SAVE", "-ERR Command 'save' not allowed inside a transaction"),
        ("DISCARD", "OK"),
        ("CONFIG SET rdb-key-save-delay 0", "OK"),
    ] {
        assert_eq!(ask(&mut client, command), reply, "{command}");
    }
    saving.set_nonblocking(true).expect("a socket");
    assert!(saving.peek(&mut [0]).is_err(), "it is not over");
    // The save continues without the client, until the server ends.
    drop(saving);
    assert!(eventually(|| !ask(&mut client, "CLIENT LIST").contains("cmd=save")));
    assert!(ask(&mut client, "BGSAVE").contains("Background save already in progress"));
    assert!(!server.folder.path().join("dump.rdb").exists());
    send(&mut server.socket(), b"SHUTDOWN SAVE\r\n");
    let folder = server.folder.path().to_owned();
    let files = || std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|file| file.file_name());
    assert!(eventually(|| files().any(|name| name == "dump.rdb")));
    assert!(server.wait().success());
}

#[test]
fn a_save_answers_when_the_file_is_there_or_cannot_be() {
    on_each_thread_count(&["--enable-protected-configs", "yes"], |server| {
        let mut client = server.client();
        assert_eq!(ask(&mut client, "SET k v"), "OK");
        for round in 0..20 {
            let name = format!("file-{round}.rdb");
            assert_eq!(ask(&mut client, &format!("CONFIG SET dbfilename {name}")), "OK");
            assert_eq!(ask(&mut client, "SAVE"), "OK");
            assert!(server.folder.path().join(&name).exists());
        }
        let gone = server.folder.path().join("gone");
        std::fs::create_dir(&gone).expect("a folder");
        assert_eq!(ask(&mut client, &format!("CONFIG SET dir {}", gone.display())), "OK");
        std::fs::remove_dir(&gone).expect("no folder");
        assert_eq!(ask(&mut client, "SAVE"), "-ERR ");
        assert_eq!(ask(&mut client, "PING"), "PONG");
    });
}

/// A field of INFO.
fn told(client: &mut Connection, field: &str) -> String {
    let info = ask(client, "INFO persistence");
    let value = info.split("\\r\\n").find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {field} in {info}")).to_owned()
}

#[test]
fn a_save_is_told_of_when_it_runs_is_cancelled_or_fails() {
    let server = Server::start(&["--loglevel", "notice"]);
    let mut client = server.client();
    let logged = |line: &str| eventually(|| server.folder.read("stdout").contains(line));
    let ended = |client: &mut Connection| eventually(|| told(client, "rdb_bgsave_in_progress") == "0");
    (0..20).for_each(|key| assert_eq!(ask(&mut client, &format!("SET {key} v")), "OK"));
    assert_eq!(told(&mut client, "rdb_last_bgsave_time_sec"), "-1");
    assert_eq!(ask(&mut client, "CONFIG SET rdb-key-save-delay 10000000"), "OK");
    assert_eq!(ask(&mut client, "BGSAVE"), "Background saving started");
    for (field, value) in [("rdb_bgsave_in_progress", "1"), ("current_save_keys_total", "20"), ("rdb_saves", "1")] {
        assert_eq!(told(&mut client, field), value, "{field}");
    }
    assert_ne!(told(&mut client, "rdb_current_bgsave_time_sec"), "-1");
    for again in ["BGSAVE", "BGSAVE SCHEDULE"] {
        assert_eq!(ask(&mut client, again), "-ERR Background save already in progress");
    }
    assert_eq!(ask(&mut client, "BGSAVE CANCEL"), "Background saving cancelled");
    assert!(ended(&mut client));
    let status =
        [("rdb_last_bgsave_status", "ok"), ("rdb_current_bgsave_time_sec", "-1"), ("rdb_last_bgsave_time_sec", "0")];
    status.iter().for_each(|(field, value)| assert_eq!(told(&mut client, field), *value, "{field}"));
    assert_eq!(ask(&mut client, "BGSAVE CANCEL"), "-ERR Background saving is currently not in progress or scheduled");
    for line in [
        "Background saving started by pid ",
        "Background saving will be aborted due to user request",
        "Background saving terminated by signal 10",
    ] {
        assert!(logged(line), "{line}");
    }
    let left = std::fs::read_dir(server.folder.path()).expect("the folder").flatten();
    let left: Vec<_> =
        left.map(|entry| entry.file_name()).filter(|name| name.to_string_lossy().ends_with(".rdb")).collect();
    assert!(left.is_empty(), "{left:?}");

    // The server reports errors of the disk, and refuses writes until a save succeeds.
    assert_eq!(ask(&mut client, "CONFIG SET rdb-key-save-delay 0"), "OK");
    cmd("CONFIG").arg("SET").arg("save").arg("3600 1000000").exec(&mut client).expect("save points");
    let in_the_way = server.folder.path().join("dump.rdb");
    std::fs::create_dir(&in_the_way).expect("a folder");
    assert_eq!(ask(&mut client, "BGSAVE"), "Background saving started");
    assert!(ended(&mut client));
    std::fs::remove_dir(&in_the_way).expect("it is empty");
    assert!(logged("Background saving error"));
    assert_eq!(told(&mut client, "rdb_last_bgsave_status"), "err");
    assert!(ask(&mut client, "SET 1 w").starts_with("-MISCONF Valkey is configured to save RDB snapshots"));
    assert_eq!(ask(&mut client, "GET 1"), "\"v\"");
    for (line, reply) in [("MULTI", "OK"), ("BGSAVE", "QUEUED"), ("EXEC", "[Background saving scheduled]")] {
        assert_eq!(ask(&mut client, line), reply);
    }
    assert!(logged("Background saving scheduled to run after transaction execution"));
    assert!(eventually(|| told(&mut client, "rdb_last_bgsave_status") == "ok"));
    assert_eq!(ask(&mut client, "SET 1 w"), "OK");
    assert!(logged("DB saved on disk") && logged("Background saving terminated with success"));
    assert!(server.stop().success());
}
