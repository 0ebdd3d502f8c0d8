//! The append-only file on a disk that is slow, or stands still: the reply to each command that appends to the log is
//! sent when the disk has the change, and is sent.
//!
//! `slow_disk.c` plays the disk. It records the bytes that each sync has saved, so that no test depends on time: a
//! reply is compared with the bytes that were saved by its arrival. A crash of the machine takes the rest.

use crate::dialogue::ask;
use crate::failing_disks::expect_silence;
use crate::harness::{Folder, Server, eventually, expect_bytes, free_port, is_peer, send};
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

pub const THREADS: [usize; 2] = [1, 3];

/// The disk, compiled once.
fn disk() -> &'static str {
    static DISK: OnceLock<String> = OnceLock::new();
    DISK.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/black_box/slow_disk.c");
        let made = folder.join(format!("slow_disk-{}.so", std::process::id()));
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&made).arg(source).arg("-ldl");
        assert!(compiler.status().expect("a C compiler").success());
        made.to_str().expect("a name in UTF-8").to_owned()
    })
}

/// A server on a disk whose syncs take so many milliseconds.
pub fn server_on_slow_disk(threads: usize, delay: u64, options: &[&str]) -> Server {
    let delay = delay.to_string();
    let variables =
        [("LD_PRELOAD", disk()), ("SLOW_DISK_DELAY", &delay), ("SLOW_DISK_HOLD", "hold"), ("SLOW_DISK_LOG", "saved")];
    let environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let always = ["--appendonly", "yes", "--enable-debug-command", "yes"];
    Server::start_in(&environment, threads, &[&always, options].concat())
}

/// Syncs end no more, or again.
pub fn hold(server: &Server, on: bool) {
    let path = server.folder.path().join("hold");
    if on { fs::write(path, "").expect("a file") } else { fs::remove_file(path).expect("that it is there") }
}

/// The file of changes that is written now.
pub fn changes(folder: &Folder) -> PathBuf {
    let directory = fs::read_dir(folder.path().join("appendonlydir")).expect("a directory");
    let files = directory.map(|entry| entry.expect("an entry").path());
    let number = |path: &PathBuf| path.to_str()?.strip_suffix(".incr.aof")?.rsplit_once('.')?.1.parse::<u64>().ok();
    files.filter(|path| number(path).is_some()).max_by_key(number).expect("a file of changes")
}

/// How much of that file the disk has.
pub fn saved(folder: &Folder) -> usize {
    let (path, lines) = (changes(folder), folder.read("saved"));
    let sizes = lines.lines().rev().filter_map(|line| line.split_once(' '));
    let last = { sizes }.find(|(_, name)| path.ends_with(name.rsplit('/').next().unwrap_or_default()));
    last.and_then(|(size, _)| size.parse().ok()).unwrap_or(0)
}

pub fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

/// Something that appends to the log.
pub struct Way {
    /// Commands before it, and itself; see [`request`].
    pub prepare: &'static [&'static str],
    pub act: &'static [&'static str],
    pub reply: &'static str,
    /// Text that is appended to the file; empty: none.
    pub appended: &'static str,
    /// A command that shows it after a crash, and its reply.
    check: &'static str,
    checked: &'static str,
}

impl Way {
    /// Bytes that it sends.
    pub fn requests(&self, last: &[u8]) -> Vec<u8> {
        self.act.iter().flat_map(|line| request(line, last)).collect()
    }
}

/// A [`Way`] in short.
pub type Row =
    (&'static [&'static str], &'static [&'static str], &'static str, &'static str, &'static str, &'static str);

/// Words of a command as a request. `{lib:x}` is the text of a library with the function x, `{set:X}` that of a script
/// that writes its key with such a `set_repl`, `{last}` what the command before has replied.
pub fn request(line: &str, last: &[u8]) -> Vec<u8> {
    let words = line.split(' ').map(|word| {
        let inner = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
        match inner.and_then(|inner| inner.split_once(':')) {
            Some(("lib", name)) => {
                let call = format!("server.register_function('{name}', function() return '{name}!' end)");
                format!("#!lua name=lib_{name}\n{call}").into_bytes()
            }
            Some((_, mode)) => {
                let set = "redis.call('SET', KEYS[1] or 'undeclared', 'script')";
                format!("redis.set_repl(redis.REPL_{mode}); {set}; return 'ran'").into_bytes()
            }
            None if inner == Some("last") => last.to_vec(),
            None => word.as_bytes().to_vec(),
        }
    });
    let words: Vec<Vec<u8>> = words.collect();
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(&word);
        request.extend_from_slice(b"\r\n");
    }
    request
}

/// A line, or a bulk string without its head.
pub fn reply(socket: &mut TcpStream) -> Vec<u8> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).expect("a reply");
        line.push(byte[0]);
    }
    let Some(length) = line.strip_prefix(b"$") else { return line };
    let length: i64 = String::from_utf8_lossy(length).trim().parse().expect("a length");
    let mut bytes = vec![0; (length + 2).max(0) as usize];
    if length >= 0 {
        socket.read_exact(&mut bytes).expect("a bulk string");
        bytes.truncate(length as usize);
    }
    bytes
}

/// Runs commands that reply a line or a bulk string each.
pub fn run(socket: &mut TcpStream, lines: &[&str]) -> Vec<u8> {
    let mut last = Vec::new();
    for line in lines {
        send(socket, &request(line, &last));
        last = reply(socket);
        assert!(!last.starts_with(b"-"), "{line}: {}", last.escape_ascii());
    }
    last
}

/// Ways to change libraries.
pub const LIBRARIES: [Row; 7] = [
    (&[], &["FUNCTION LOAD {lib:one}"], "$7\r\nlib_one\r\n", "lib_one", "FCALL one 0", "$4\r\none!\r\n"),
    (
        &["FUNCTION LOAD {lib:two}"],
        &["FUNCTION LOAD REPLACE {lib:two}"],
        "$7\r\nlib_two\r\n",
        "REPLACE",
        "FCALL two 1 k",
        "$4\r\ntwo!\r\n",
    ),
    (
        &["FUNCTION LOAD {lib:del}"],
        &["FUNCTION DELETE lib_del"],
        "+OK\r\n",
        "DELETE",
        "FUNCTION LIST LIBRARYNAME lib_del",
        "*0\r\n",
    ),
    (
        &["FUNCTION LOAD {lib:dump}", "FUNCTION DUMP"],
        &["FUNCTION RESTORE {last} REPLACE"],
        "+OK\r\n",
        "RESTORE",
        "FCALL dump 0",
        "$5\r\ndump!\r\n",
    ),
    (&["FUNCTION LOAD {lib:flush}"], &["FUNCTION FLUSH"], "+OK\r\n", "FLUSH", "FUNCTION LIST", "*0\r\n"),
    (
        &[],
        &["MULTI", "FUNCTION LOAD {lib:multi}", "EXEC"],
        "+OK\r\n+QUEUED\r\n*1\r\n$9\r\nlib_multi\r\n",
        "lib_multi",
        "FCALL multi 0",
        "$6\r\nmulti!\r\n",
    ),
    (&["FUNCTION LOAD {lib:a}"], &["FUNCTION FLUSH ASYNC"], "+OK\r\n", "ASYNC", "FUNCTION LIST", "*0\r\n"),
];

/// Ways to change databases, or where keys are.
pub const DATABASES: [Row; 9] = [
    (&["SET swap 1"], &["SWAPDB 0 1"], "+OK\r\n", "SWAPDB", "EXISTS swap", ":0\r\n"),
    (&["SET move 1"], &["MOVE move 2"], ":1\r\n", "MOVE", "EXISTS move", ":0\r\n"),
    (&["SET copy 1"], &["COPY copy copied"], ":1\r\n", "copied", "GET copied", "$1\r\n1\r\n"),
    (&["SET dumped 1", "DUMP dumped"], &["RESTORE back 0 {last}"], "+OK\r\n", "back", "EXISTS back", ":1\r\n"),
    (&["SET pre:1 1"], &["DELPREFIX pre:"], ":1\r\n", "UNLINK", "EXISTS pre:1", ":0\r\n"),
    (&["SET flush 1"], &["FLUSHDB"], "+OK\r\n", "FLUSHDB", "EXISTS flush", ":0\r\n"),
    (&["SET flush 1"], &["FLUSHDB SYNC"], "+OK\r\n", "FLUSHDB", "EXISTS flush", ":0\r\n"),
    (&["SET flush 1"], &["FLUSHALL"], "+OK\r\n", "FLUSHALL", "EXISTS flush", ":0\r\n"),
    (
        &[],
        &["SELECT 3", "SET third 1", "SELECT 0"],
        "+OK\r\n+OK\r\n+OK\r\n",
        "third",
        "EVAL redis.call('SELECT',3)return(redis.call('EXISTS','third')) 0",
        ":1\r\n",
    ),
];

/// Ways to change keys.
pub const KEYS: [Row; 13] = [
    (&[], &["SET plain 1"], "+OK\r\n", "plain", "GET plain", "$1\r\n1\r\n"),
    (
        &["DEBUG SET-ACTIVE-EXPIRE 0", "SET lazy 1 PX 1", "DEBUG SLEEP 0.01"],
        &["GET lazy"],
        "$-1\r\n",
        "lazy",
        "EXISTS lazy",
        ":0\r\n",
    ),
    (
        &[
            "DEBUG SET-ACTIVE-EXPIRE 0",
            "HSET fields f 1 g 2",
            "EVAL return(redis.call('HPEXPIRE','fields',1,'FIELDS',1,'f')[1]) 0",
            "DEBUG SLEEP 0.01",
        ],
        &["HINCRBY fields f 1"],
        ":1\r\n",
        "fields",
        "HGET fields f",
        "$1\r\n1\r\n",
    ),
    (&["SET getex 1"], &["GETEX getex PX 100000"], "$1\r\n1\r\n", "PEXPIREAT", "EXISTS getex", ":1\r\n"),
    (&["PFADD hll a b c", "PFCOUNT hll", "PFADD hll d"], &["PFCOUNT hll"], ":4\r\n", "PFCOUNT", "EXISTS hll", ":1\r\n"),
    (
        &[],
        &["MULTI", "INCR exec", "GET exec", "EXEC"],
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n$1\r\n1\r\n",
        "exec",
        "GET exec",
        "$1\r\n1\r\n",
    ),
    (
        &["XADD stream 1-1 f v", "XGROUP CREATE stream group 0"],
        &["XREADGROUP GROUP group consumer STREAMS stream >"],
        "*1\r\n*2\r\n$6\r\nstream\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n",
        "consumer",
        "XPENDING stream group - + 1 other",
        "*0\r\n",
    ),
    (&[], &["EVAL {set:ALL} 1 all"], "$3\r\nran\r\n", "all", "GET all", "$6\r\nscript\r\n"),
    (&[], &["EVAL {set:AOF} 1 aof"], "$3\r\nran\r\n", "aof", "GET aof", "$6\r\nscript\r\n"),
    (&[], &["EVAL {set:ALL} 0"], "$3\r\nran\r\n", "undeclared", "GET undeclared", "$6\r\nscript\r\n"),
    (
        &[],
        &["MULTI", "EVAL {set:AOF} 1 group", "EXEC"],
        "+OK\r\n+QUEUED\r\n*1\r\n$3\r\nran\r\n",
        "group",
        "GET group",
        "$6\r\nscript\r\n",
    ),
    (
        &["RPUSH list a b"],
        &["BLMPOP 0 1 list LEFT"],
        "*2\r\n$4\r\nlist\r\n*1\r\n$1\r\na\r\n",
        "LPOP",
        "LLEN list",
        ":1\r\n",
    ),
    (&["SADD set a"], &["SPOP set"], "$1\r\na\r\n", "SREM", "EXISTS set", ":0\r\n"),
];

/// The ways of a table.
pub fn ways(rows: &[Row]) -> Vec<Way> {
    let way =
        |&(prepare, act, reply, appended, check, checked): &Row| Way { prepare, act, reply, appended, check, checked };
    rows.iter().map(way).collect()
}

pub fn content(server: &Server) -> Vec<u8> {
    fs::read(changes(&server.folder)).expect("a file")
}

/// Stops the disk, sends requests, and removes the stop when the file has their records; by then neither `others` nor
/// the client of the requests may have a reply.
pub fn act_while_held(
    server: &Server,
    socket: &mut TcpStream,
    requests: &[u8],
    appended: &str,
    others: &mut [TcpStream],
) {
    let before = content(server).len();
    hold(server, true);
    send(socket, requests);
    let shown = requests.escape_ascii();
    assert!(eventually(|| contains(&content(server)[before..], appended)), "{shown} appends {appended}");
    std::thread::sleep(Duration::from_millis(5));
    expect_silence(socket);
    others.iter_mut().for_each(expect_silence);
    hold(server, false);
    // A reply is sent after this.
    let mut byte = [0];
    assert_eq!(socket.peek(&mut byte).expect("a reply"), 1);
    assert!(contains(&content(server)[before..saved(&server.folder)], appended), "{shown}");
}

/// A crash of the machine, and a start.
pub fn crash(server: &mut Server) -> TcpStream {
    server.restart_after(|folder| {
        let file = fs::OpenOptions::new().write(true).open(changes(folder)).expect("a file");
        file.set_len(saved(folder) as u64).expect("to cut it off");
    });
    let mut socket = server.socket();
    assert!(eventually(|| {
        send(&mut socket, b"PING\r\n");
        reply(&mut socket) == b"+PONG\r\n"
    }));
    socket
}

/// Clients with these requests and replies wait for the disk, and a crash takes nothing of which they have heard.
fn expect_durable(ways: &[Way]) {
    if is_peer() {
        return;
    }
    for threads in THREADS {
        let mut server = server_on_slow_disk(threads, 2, &["--appendfsync", "always"]);
        for way in ways {
            let mut socket = server.socket();
            run(&mut socket, &["SET warm 1", "SET warm 2"]);
            let last = run(&mut socket, way.prepare);
            act_while_held(&server, &mut socket, &way.requests(&last), way.appended, &mut []);
            expect_bytes(&mut socket, way.reply.as_bytes());
            send(&mut socket, b"WAITAOF 1 0 0\r\n");
            expect_bytes(&mut socket, b"*2\r\n:1\r\n:0\r\n");
            let mut socket = crash(&mut server);
            send(&mut socket, &request(way.check, &[]));
            expect_bytes(&mut socket, way.checked.as_bytes());
        }
    }
}

#[test]
fn changes_of_libraries_are_durable_before_their_replies() {
    expect_durable(&ways(&LIBRARIES));
}

#[test]
fn changes_of_databases_are_durable_before_their_replies() {
    expect_durable(&ways(&DATABASES));
}

#[test]
fn changes_of_keys_are_durable_before_their_replies() {
    expect_durable(&ways(&KEYS));
}

#[test]
fn a_client_that_is_served_by_another_waits_for_the_disk_as_that_one_does() {
    if is_peer() {
        return;
    }
    for threads in THREADS {
        let server = server_on_slow_disk(threads, 2, &["--appendfsync", "always"]);
        let (mut pusher, mut waiter) = (server.socket(), server.socket());
        run(&mut pusher, &["SET warm 1", "SET warm 2"]);
        send(&mut waiter, b"BLPOP list 0\r\n");
        send(&mut pusher, b"CLIENT LIST\r\n");
        assert!(eventually(|| {
            send(&mut pusher, b"CLIENT LIST\r\n");
            contains(&reply(&mut pusher), "cmd=blpop")
        }));
        reply(&mut pusher);
        let mut others = [waiter];
        act_while_held(&server, &mut pusher, b"LPUSH list a\r\n", "LPOP", &mut others);
        expect_bytes(&mut pusher, b":1\r\n");
        let [mut waiter] = others;
        expect_bytes(&mut waiter, b"*2\r\n$4\r\nlist\r\n$1\r\na\r\n");
        send(&mut waiter, b"WAITAOF 1 0 0\r\n");
        expect_bytes(&mut waiter, b"*2\r\n:1\r\n:0\r\n");
    }
}

#[test]
fn a_key_that_was_sent_away_is_gone_from_the_disk_before_the_reply() {
    if is_peer() {
        return;
    }
    for threads in THREADS {
        let server = server_on_slow_disk(threads, 2, &["--appendfsync", "always"]);
        let target = Server::start(&[]);
        let mut socket = server.socket();
        run(&mut socket, &["SET warm 1", "SET warm 2", "SET sent 1"]);
        let migrate = format!("MIGRATE 127.0.0.1 {} sent 0 10000\r\n", target.port);
        act_while_held(&server, &mut socket, migrate.as_bytes(), "DEL", &mut []);
        expect_bytes(&mut socket, b"+OK\r\n");
        run(&mut socket, &["CONFIG SET appendfsync everysec", "SET sent 2"]);
        let before = content(&server).len();
        send(&mut socket, &[migrate.replace("10000", "10000 REPLACE").as_bytes(), b"WAITAOF 1 0 0\r\n"].concat());
        expect_bytes(&mut socket, b"+OK\r\n*2\r\n:1\r\n:0\r\n");
        assert!(contains(&content(&server)[before..saved(&server.folder)], "DEL"), "its client has written that");
    }
}

#[test]
fn keys_of_a_slot_are_gone_from_the_disk_before_the_reply() {
    if is_peer() {
        return;
    }
    for threads in THREADS {
        let port = free_port().to_string();
        let own = ["--cluster-enabled", "yes", "--cluster-single", "yes", "--cluster-port", &port];
        let server = server_on_slow_disk(threads, 2, &[&own[..], &["--appendfsync", "always"]].concat());
        let mut socket = server.socket();
        assert!(eventually(|| {
            send(&mut socket, b"SET {a} 1\r\n");
            reply(&mut socket) == b"+OK\r\n"
        }));
        run(&mut socket, &["SET {a} 1", "SET {a} 2"]);
        for mode in ["SYNC", "ASYNC"] {
            run(&mut socket, &["SET {a} 3"]);
            let flush = format!("CLUSTER FLUSHSLOT 15495 {mode}\r\n");
            act_while_held(&server, &mut socket, flush.as_bytes(), "UNLINK", &mut []);
            expect_bytes(&mut socket, b"+OK\r\n");
        }
    }
}

/// Commands that change nothing in the file.
const ELSEWHERE: [(&[&str], &str); 8] = [
    (&["PUBLISH channel message"], ":0\r\n"),
    (&["SPUBLISH channel message"], ":0\r\n"),
    (&["MULTI", "PUBLISH channel message", "EXEC"], "+OK\r\n+QUEUED\r\n*1\r\n:0\r\n"),
    (&["EVAL return(redis.call('PUBLISH','c','m')) 0"], ":0\r\n"),
    (&["EVAL {set:REPLICA} 1 replica"], "$3\r\nran\r\n"),
    (&["EVAL {set:SLAVE} 1 slave"], "$3\r\nran\r\n"),
    (&["EVAL {set:NONE} 1 none"], "$3\r\nran\r\n"),
    (&["MULTI", "EVAL {set:REPLICA} 0", "EXEC"], "+OK\r\n+QUEUED\r\n*1\r\n$3\r\nran\r\n"),
];

#[test]
fn no_reply_waits_for_a_disk_that_gets_nothing() {
    if is_peer() {
        return;
    }
    for policy in ["always", "everysec"] {
        let server = server_on_slow_disk(2, 2, &["--appendfsync", policy]);
        let replica = Server::start(&[]);
        let (mut socket, mut follower) = (server.socket(), replica.socket());
        run(&mut follower, &[&format!("REPLICAOF 127.0.0.1 {}", server.port)]);
        assert!(eventually(|| {
            run(&mut socket, &["SET warm 1"]);
            send(&mut socket, b"WAIT 1 100\r\n");
            reply(&mut socket) == b":1\r\n"
        }));
        for (lines, expected) in ELSEWHERE {
            let mut socket = server.socket();
            if policy == "always" {
                hold(&server, true);
            }
            let requests: Vec<u8> = lines.iter().flat_map(|line| request(line, &[])).collect();
            send(&mut socket, &requests);
            expect_bytes(&mut socket, expected.as_bytes());
            send(&mut socket, b"WAITAOF 1 0 0\r\nWAIT 1 0\r\n");
            expect_bytes(&mut socket, b"*2\r\n:1\r\n");
            // A replica's disk is one more.
            reply(&mut socket);
            expect_bytes(&mut socket, b":1\r\n");
            let _ = fs::remove_file(server.folder.path().join("hold"));
        }
        assert_eq!(run(&mut follower, &["GET replica"]), b"script");
        run(&mut socket, &["EVAL {set:AOF} 1 file"]);
        send(&mut socket, b"WAIT 1 0\r\nWAITAOF 1 0 0\r\n");
        expect_bytes(&mut socket, b":1\r\n*2\r\n:1\r\n:0\r\n");
    }
}

#[test]
fn waitaof_waits_for_whatever_a_command_has_appended() {
    if is_peer() {
        return;
    }
    let server = server_on_slow_disk(2, 2, &["--appendfsync", "everysec"]);
    let ways = [ways(&LIBRARIES), ways(&DATABASES), ways(&KEYS)];
    let mut waiting = Vec::new();
    for way in ways.iter().flatten() {
        let mut socket = server.socket();
        let last = run(&mut socket, way.prepare);
        let before = content(&server).len();
        send(&mut socket, &[&way.requests(&last)[..], b"WAITAOF 1 0 0\r\n"].concat());
        expect_bytes(&mut socket, way.reply.as_bytes());
        waiting.push((socket, way, before));
    }
    for (mut socket, way, before) in waiting {
        expect_bytes(&mut socket, b"*2\r\n:1\r\n:0\r\n");
        assert!(contains(&content(&server)[before..saved(&server.folder)], way.appended), "{:?}", way.act);
    }
    // A disk that is never asked to sync has nothing for certain.
    let mut socket = server.socket();
    run(&mut socket, &["CONFIG SET appendfsync no", "FUNCTION LOAD {lib:no}"]);
    send(&mut socket, b"WAITAOF 1 0 10\r\n");
    expect_bytes(&mut socket, b"*2\r\n:0\r\n:0\r\n");
}

/// Megabytes that a process has in memory.
fn resident(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kilobytes.expect("a number") >> 10
}

#[test]
fn a_client_that_wants_no_replies_is_held_back_by_the_disk() {
    if is_peer() {
        return;
    }
    let set = format!("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$100000\r\n{}\r\n", "v".repeat(100_000));
    let times = |count: usize| set.repeat(count).into_bytes();
    let transaction = || [&b"MULTI\r\n"[..], &times(20), b"EXEC\r\n"].concat();
    let silent: [(&[u8], Vec<u8>, usize); 3] = [
        (b"CLIENT REPLY OFF\r\n", times(20), 60),
        (b"", [&b"CLIENT REPLY SKIP\r\n"[..], &times(1)].concat(), 1200),
        (b"CLIENT REPLY OFF\r\n", transaction(), 60),
    ];
    for (begin, requests, count) in silent {
        let server = server_on_slow_disk(2, 2, &["--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]);
        let mut socket = server.socket();
        run(&mut socket, &["SET warm 1", "SET warm 2", "SET other 1"]);
        let before = resident(&server);
        hold(&server, true);
        let mut sender = server.socket();
        let sending = std::thread::spawn(move || {
            send(&mut sender, begin);
            (0..count).for_each(|_| send(&mut sender, &requests));
            send(&mut sender, b"CLIENT REPLY ON\r\n");
            expect_bytes(&mut sender, b"+OK\r\n");
        });
        // The disk has nothing, and the client is not read any more: what is in memory stays.
        let mut last = 0;
        assert!(eventually(|| {
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(run(&mut socket, &["GET other", "PING"]), b"+PONG\r\n", "others are served");
            let now = resident(&server);
            assert!(now < before + 64, "{} megabytes wait", now - before);
            std::mem::replace(&mut last, now) == now && now > before + 20
        }));
        assert!(!sending.is_finished());
        hold(&server, false);
        sending.join().expect("that all is taken in the end");
        assert!(resident(&server) < before + 64);
    }
}

#[test]
fn no_write_waits_for_a_disk_that_takes_no_old_values() {
    for state in ["hold", "full"] {
        let variables = [("LD_PRELOAD", disk()), ("SLOW_DISK_HOLD", "hold"), ("SLOW_DISK_FULL", "full")];
        let environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        // Two seconds for a walk that pauses at each key.
        let slowly = ["--save", "", "--rdbcompression", "no", "--rdb-key-save-delay", "2000"];
        let mut server = Server::start_in(&environment, 1, &slowly);
        let mut client = server.client();
        let keys: Vec<String> = (0..1000).map(|number| format!("key:{number}")).collect();
        let old = "x".repeat(100_000);
        for some in keys.chunks(100) {
            let mut pipe = redis::pipe();
            some.iter().for_each(|key| _ = pipe.set(key, &old).ignore());
            pipe.query::<()>(&mut client).expect("OK");
        }
        fs::write(server.folder.path().join(state), "").expect("a file");
        assert_eq!(ask(&mut client, "BGSAVE"), "Background saving started");
        let has_begun = |client: &mut redis::Connection| {
            let info = ask(client, "INFO persistence");
            info.contains("current_save_keys_processed:") && !info.contains("current_save_keys_processed:0")
        };
        assert!(eventually(|| has_begun(&mut client)), "{state}");
        // More than old values may take in memory before they go to the disk.
        for some in keys.chunks(100) {
            let mut pipe = redis::pipe();
            some.iter().for_each(|key| _ = pipe.setrange(key, 0, "new").ignore());
            pipe.query::<()>(&mut client).expect("an answer while the disk stands still");
        }
        fs::remove_file(server.folder.path().join(state)).expect("that it is there");
        let is_saved = |client: &mut redis::Connection| {
            let info = ask(client, "INFO persistence");
            info.contains("rdb_bgsave_in_progress:0") && info.contains("rdb_last_bgsave_status:ok")
        };
        assert!(eventually(|| is_saved(&mut client)), "{state}");
        server.crash();
        let mut client = server.client();
        for key in &keys {
            assert_eq!(ask(&mut client, &format!("GETRANGE {key} 0 3")), "\"xxxx\"", "{state}, {key}");
        }
    }
}
