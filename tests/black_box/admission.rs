//! One write and one read through every way in, in every state that refuses some commands: the replies, and that a
//! write that was refused has changed nothing.
//!
//! [`TABLE`] has a line for each way and a column for each state, with the outcome of the write and of the read:
//!
//! ```text
//!   ok      as at other times                  no      refused, in the state's words, where the way refuses
//!   waits   until the state ends               in      the script runs, and its command is refused
//!   hid     as `in`, and the script hides it   ro      refused in all states: the script may only read
//!   -       the way is not there then
//! ```
//!
//! Replies are Valkey's 9.1.2: with `CINNABAR_TEST_SERVER` the same table is held against that.

use crate::dialogue::ask;
use crate::failing_disks::limit_files;
use crate::harness::{PATIENCE, Server, eventually, free_port, is_peer, owned, send, socket_to};
use redis::cmd;
use resp::book::{BookValue, decode_reply, encode_request};
use resp::reply_value::{Decoder, Value};
use std::fs;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const TABLE: &str = "
way             | loading | memory  | saves   | log     | busy    | password | pause       | replicas
request         | no  no  | no  ok  | no  ok  | no  ok  | no  no  | no  no   | waits ok    | no  ok
inline          | no  no  | no  ok  | no  ok  | no  ok  | no  no  | no  no   | waits ok    | no  ok
pipeline        | no  no  | no  ok  | no  ok  | no  ok  | no  no  | no  no   | waits ok    | no  ok
subscriber      | -   -   | no  ok  | no  ok  | no  ok  | no  no  | -   -    | waits ok    | no  ok
queued before   | -   -   | no  ok  | no  ok  | no  ok  | no  no  | -   -    | waits ok    | no  ok
queued in it    | no  no  | no  ok  | no  ok  | no  ok  | no  no  | no  no   | waits ok    | no  ok
script          | no  no  | no  ok  | no  ok  | no  ok  | no  no  | no  no   | waits waits | no  ok
script hides    | no  no  | hid ok  | hid ok  | hid ok  | no  no  | no  no   | waits waits | hid ok
script by sum   | no  no  | no  ok  | no  ok  | no  ok  | no  no  | no  no   | waits waits | no  ok
script to read  | no  no  | -   ok  | -   ok  | -   ok  | no  no  | no  no   | ro  ok      | ro  ok
script, flags   | no  no  | no  no  | no  no  | no  no  | no  no  | no  no   | waits waits | no  no
no-writes       | no  no  | -   ok  | -   ok  | -   ok  | no  no  | no  no   | ro  ok      | ro  ok
allow-oom       | no  no  | ok  ok  | no  no  | no  no  | no  no  | no  no   | waits waits | no  no
function        | no  no  | no  ok  | no  ok  | no  ok  | no  no  | no  no   | waits ok    | no  ok
function, oom   | no  no  | ok  ok  | no  ok  | no  ok  | no  no  | no  no   | waits ok    | no  ok
queued script   | -   -   | in  ok  | in  ok  | in  ok  | no  no  | -   -    | waits waits | in  ok
delete, ping    | no  no  | ok  ok  | no  no  | no  no  | no  no  | no  no   | waits ok    | no  ok
";

struct Way {
    name: &'static str,
    /// Commands, and before `>>` those that were sent ahead of the state. `<key>` is a key of its own.
    write: &'static str,
    read: &'static str,
    /// Replies when nothing is refused.
    written: &'static str,
    found: &'static str,
}

const fn way(
    name: &'static str,
    write: &'static str,
    read: &'static str,
    written: &'static str,
    found: &'static str,
) -> Way {
    Way { name, write, read, written, found }
}

const WAYS: &[Way] = &[
    way("request", "SET <key> v", "GET r", "+OK", "v"),
    way("inline", "SET <key> v", "GET r", "+OK", "v"),
    way("pipeline", "SET <key> v; SET <key> v; SET <key> v", "GET r; GET r; GET r", "+OK +OK +OK", "v v v"),
    way("subscriber", "HELLO 3; SUBSCRIBE c >> SET <key> v", "HELLO 3; SUBSCRIBE c >> GET r", "+OK", "v"),
    way("queued before", "MULTI; SET <key> v >> EXEC", "MULTI; GET r >> EXEC", "[+OK]", "[v]"),
    way("queued in it", "MULTI; SET <key> v; EXEC", "MULTI; GET r; EXEC", "+OK +QUEUED [+OK]", "+OK +QUEUED [v]"),
    way("script", "EVAL <set> 1 <key> v", "EVAL <get> 1 r", "+OK", "v"),
    way("script hides", "EVAL <hide> 1 <key> v", "EVAL <get> 1 r", "done", "v"),
    way("script by sum", "EVALSHA <sum> 1 <key> v", "EVAL <get> 1 r", "+OK", "v"),
    way("script to read", "EVAL_RO <set> 1 <key> v", "EVAL_RO <get> 1 r", "", "v"),
    way("script, flags", "EVAL <#set> 1 <key> v", "EVAL <#get> 1 r", "+OK", "v"),
    way("no-writes", "EVAL <no-writes set> 1 <key> v", "EVAL <no-writes get> 1 r", "", "v"),
    way("allow-oom", "EVAL <allow-oom set> 1 <key> v", "EVAL <allow-oom get> 1 r", "+OK", "v"),
    way("function", "FCALL write 1 <key> v", "FCALL read 1 r", "+OK", "v"),
    way("function, oom", "FCALL write_oom 1 <key> v", "FCALL_RO read 1 r", "+OK", "v"),
    way("queued script", "MULTI; EVAL <set> 1 <key> v >> EXEC", "MULTI; EVAL <get> 1 r >> EXEC", "[+OK]", "[v]"),
    way("delete, ping", "DEL none", "PING", ":0", "+PONG"),
];

const SET: &str = "return redis.call('set',KEYS[1],ARGV[1])";
const GET: &str = "return redis.call('get',KEYS[1])";
const HIDE: &str = "redis.pcall('set',KEYS[1],ARGV[1]) return 'done'";
/// SHA of [`SET`].
const SUM: &str = "c686f316aaf1eb01d5a4de1b0b63cd233010e63d";
const LIBRARY: &str = "#!lua name=lib
local function write(keys, args) return server.call('set', keys[1], args[1]) end
server.register_function('write', write)
server.register_function{function_name='write_oom', callback=write, flags={'allow-oom'}}
server.register_function{function_name='read', callback=function(keys) return server.call('get', keys[1]) end, flags={'no-writes'}}";

struct State {
    name: &'static str,
    options: &'static [&'static str],
    /// Error of a refused command.
    refusal: &'static str,
    begin: fn(&mut Server) -> Option<TcpStream>,
    end: fn(&Server, Option<TcpStream>),
}

fn ask_all(server: &Server, lines: &[&str]) {
    let mut client = server.client();
    lines.iter().for_each(|line| assert_eq!(ask(&mut client, line), "OK", "{line}"));
}

const STATES: &[State] = &[
    State {
        name: "loading",
        options: &["--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024"],
        refusal: "LOADING Valkey is loading the dataset in memory",
        begin: |server| {
            let mut pipe = redis::pipe();
            (0..250).for_each(|number| _ = pipe.set(format!("load:{number}"), "x".repeat(2000)).ignore());
            pipe.query::<()>(&mut server.client()).expect("OK");
            ask_all(server, &["SAVE"]);
            server.restart();
            None
        },
        end: |server, _| assert!(eventually(|| ask(&mut server.client(), "GET r") == "\"v\"")),
    },
    State {
        name: "memory",
        options: &[],
        refusal: "OOM command not allowed when used memory > 'maxmemory'.",
        begin: |server| {
            ask_all(server, &["CONFIG SET maxmemory 1"]);
            None
        },
        end: |server, _| ask_all(server, &["CONFIG SET maxmemory 0"]),
    },
    State {
        name: "saves",
        options: &["--save", "3600 1000"],
        refusal: "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Valkey logs for details about the RDB error.",
        begin: |server| {
            // Nothing can take its place.
            fs::create_dir(server.folder.path().join("dump.rdb")).expect("a folder");
            let mut client = server.client();
            assert_eq!(ask(&mut client, "BGSAVE"), "Background saving started");
            assert!(eventually(|| ask(&mut client, "INFO persistence").contains("rdb_last_bgsave_status:err")));
            None
        },
        end: |server, _| ask_all(server, &["CONFIG SET save ''"]),
    },
    State {
        name: "log",
        options: &["--appendonly", "yes"],
        refusal: "MISCONF Errors writing to the AOF file: File too large",
        begin: |server| {
            limit_files(server, Some(0));
            let mut client = server.client();
            ask(&mut client, "SET full v");
            assert!(eventually(|| ask(&mut client, "INFO persistence").contains("aof_last_write_status:err")));
            None
        },
        end: |server, _| {
            limit_files(server, None);
            assert!(eventually(|| ask(&mut server.client(), "SET full v") == "OK"));
        },
    },
    State {
        name: "busy",
        options: &["--busy-reply-threshold", "1"],
        refusal: "BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        begin: |server| {
            let mut socket = server.socket();
            send(&mut socket, &cmd("EVAL").arg("while true do end").arg(0).get_packed_command());
            let mut client = server.client();
            assert!(eventually(|| ask(&mut client, "GET r").contains("BUSY")));
            Some(socket)
        },
        end: |server, socket| {
            ask_all(server, &["SCRIPT KILL"]);
            assert!(replies(&mut socket.expect("a script runs"), 1).contains("killed"));
        },
    },
    State {
        name: "password",
        options: &["--requirepass", "secret"],
        refusal: "NOAUTH Authentication required.",
        begin: |_| None,
        end: |_, _| {},
    },
    State {
        name: "pause",
        options: &[],
        refusal: "",
        begin: |server| {
            ask_all(server, &["CLIENT PAUSE 1000000 WRITE"]);
            None
        },
        end: |server, _| ask_all(server, &["CLIENT UNPAUSE"]),
    },
    State {
        name: "replicas",
        options: &[],
        refusal: "NOREPLICAS Not enough good replicas to write.",
        begin: |server| {
            ask_all(server, &["CONFIG SET min-replicas-to-write 1"]);
            None
        },
        end: |server, _| ask_all(server, &["CONFIG SET min-replicas-to-write 0"]),
    },
];

/// A script by its name between `<` and `>`, or the key.
fn filled(word: &str, key: &str) -> String {
    let body = |name: &str| if name.ends_with("set") { SET } else { GET };
    match word {
        "<key>" => key.replace([' ', ','], "_"),
        "<set>" | "<get>" => body(&word[1..4]).to_owned(),
        "<hide>" => HIDE.to_owned(),
        "<sum>" => SUM.to_owned(),
        "<#set>" | "<#get>" => format!("#!lua\n{}", body(&word[2..5])),
        flag if flag.starts_with('<') => {
            let (flag, name) = flag[1..flag.len() - 1].split_once(':').expect("a flag and a script");
            format!("#!lua flags={flag}\n{}", body(name))
        }
        other => other.to_owned(),
    }
}

/// The bytes of some commands, and how many they are.
fn requests(commands: &str, key: &str, inline: bool) -> (Vec<u8>, usize) {
    let (mut bytes, mut count) = (Vec::new(), 0);
    // A name with a blank is one word.
    let commands = commands.replace("no-writes ", "no-writes:").replace("allow-oom ", "allow-oom:");
    for command in commands.split(';').map(str::trim).filter(|command| !command.is_empty()) {
        let words: Vec<String> = command.split(' ').map(|word| filled(word, key)).collect();
        if inline {
            bytes.extend(format!("{}\r\n", words.join(" ")).bytes());
        } else {
            let mut packed = redis::Cmd::new();
            words.iter().for_each(|word| _ = packed.arg(word));
            bytes.extend(packed.get_packed_command());
        }
        count += 1;
    }
    (bytes, count)
}

/// Returns so many replies, as text; `waits` when none arrives for now.
fn replies(socket: &mut TcpStream, count: usize) -> String {
    let (mut bytes, mut found) = (Vec::new(), Vec::new());
    while found.len() < count {
        let mut decoder = Decoder::new();
        match decoder.decode(&bytes).expect("a reply") {
            Some((value, used)) => {
                bytes.drain(..used);
                found.push(shown(&value));
            }
            None => {
                let mut part = [0; 4096];
                match socket.read(&mut part) {
                    Ok(0) => found.resize(count, "closed".to_owned()),
                    Ok(read) => bytes.extend_from_slice(&part[..read]),
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                        found.resize(count, "waits".to_owned());
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    found.join(" ")
}

/// Returns a value as text; the place in a script is not compared.
fn shown(value: &Value) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match value {
        Value::Simple(bytes) => format!("+{}", text(bytes)),
        Value::Error(bytes) => format!("-{}", text(bytes).split(" script: ").next().unwrap_or_default()),
        Value::Int(number) => format!(":{number}"),
        Value::Bulk(bytes) => text(bytes),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" ")),
        other => format!("{other:?}"),
    }
}

/// Returns the replies that a cell of the table stands for.
fn expected(way: &Way, state: &State, cell: &str, ok: &str, commands: usize) -> String {
    let refusal = state.refusal;
    let because = format!("-EXECABORT Transaction discarded because of: {refusal}");
    match (cell, way.name) {
        ("ok", _) => ok.to_owned(),
        ("waits", "queued in it") => "+OK waits waits".to_owned(),
        ("waits", _) => vec!["waits"; commands].join(" "),
        ("hid", _) => "done".to_owned(),
        ("in", _) => format!("[-{refusal}]"),
        ("ro", _) => "-ERR Write commands are not allowed from read-only scripts.".to_owned(),
        ("no", "queued before" | "queued script") => because,
        ("no", "queued in it") => match state.name {
            "busy" => format!("+OK -{refusal} {because}"),
            "password" => format!("-{refusal} -{refusal} {because}"),
            _ => format!("+OK -{refusal} -EXECABORT Transaction discarded because of previous errors."),
        },
        ("no", _) => vec![format!("-{refusal}"); commands].join(" "),
        _ => panic!("no cell says {cell}"),
    }
}

/// The cells of a state: way, write, read.
fn column(state: &str) -> Vec<(&'static Way, &'static str, &'static str)> {
    let mut lines = TABLE.trim().lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    let at = head.iter().position(|name| *name == state).expect("a column for each state");
    let cells = lines.map(|line| {
        let way = WAYS.iter().find(|way| way.name == line[0]).expect("a way for each line");
        let (write, read) = line[at].split_once(' ').expect("two words in each cell");
        (way, write, read.trim())
    });
    cells.collect()
}

/// One of the two commands of a way: its connection, its request, and the expected reply.
struct RetryOutcome {
    name: String,
    socket: TcpStream,
    bytes: Vec<u8>,
    count: usize,
    expected: String,
    later: String,
}

fn attempt(server: &Server, way: &Way, state: &State, cell: &str, is_write: bool) -> RetryOutcome {
    let (line, ok) = if is_write { (way.write, way.written) } else { (way.read, way.found) };
    let (before, during) = line.split_once(">>").unwrap_or(("", line));
    let mut socket = server.socket();
    let (bytes, count) = requests(before, way.name, false);
    send(&mut socket, &bytes);
    replies(&mut socket, count);
    let (bytes, count) = requests(during, way.name, way.name == "inline");
    let expected = expected(way, state, cell, ok, count);
    let name = format!("{} of {} in {}", if is_write { "write" } else { "read" }, way.name, state.name);
    RetryOutcome { name, socket, bytes, count, expected, later: ok.to_owned() }
}

fn check(state: &State) {
    let mut server = Server::start(state.options);
    let mut admin = server.client_with_password(state.options);
    for words in [&["SET", "r", "v"][..], &["SCRIPT", "LOAD", SET], &["FUNCTION", "LOAD", LIBRARY]] {
        let mut packed = redis::Cmd::new();
        words.iter().for_each(|word| _ = packed.arg(*word));
        packed.query::<String>(&mut admin).expect("a text");
    }
    // In these states no client is connected before.
    let is_first = ["loading", "password"].contains(&state.name);
    let mut begun = if is_first { (state.begin)(&mut server) } else { None };
    let rows = column(state.name);
    let mut attempts = Vec::new();
    for (way, write, read) in &rows {
        let both = [(*write, true), (*read, false)].into_iter().filter(|(cell, _)| *cell != "-");
        attempts.extend(both.map(|(cell, is_write)| attempt(&server, way, state, cell, is_write)));
    }
    if !is_first {
        begun = (state.begin)(&mut server);
    }
    let mut wrong = Vec::new();
    attempts.iter_mut().for_each(|attempt| send(&mut attempt.socket, &attempt.bytes));
    for attempt in &mut attempts {
        let waits = attempt.expected.contains("waits");
        attempt.socket.set_read_timeout(Some(if waits { SHORT } else { PATIENCE })).expect("a timeout");
        let found = replies(&mut attempt.socket, attempt.count);
        if found != attempt.expected {
            wrong.push(format!("{}:\n  found    {found}\n  expected {}", attempt.name, attempt.expected));
        }
    }
    (state.end)(&server, begun);
    for attempt in attempts.iter_mut().filter(|attempt| attempt.expected.contains("waits")) {
        attempt.socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let had = attempt.expected.split(' ').filter(|word| *word != "waits").count();
        let found = replies(&mut attempt.socket, attempt.count - had);
        if !attempt.later.ends_with(&found) {
            wrong.push(format!("{}, later:\n  found    {found}\n  expected {}", attempt.name, attempt.later));
        }
    }
    let mut admin = server.client_with_password(state.options);
    for (way, write, _) in &rows {
        let key = filled("<key>", way.name);
        let there = ask(&mut admin, &format!("GET {key}")) == "\"v\"";
        let expected = matches!(*write, "ok" | "waits") && way.written != ":0";
        if there != expected {
            wrong.push(format!("write of {} in {}: it is {there} that it took effect", way.name, state.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// How long the test watches whether a client waits.
const SHORT: Duration = Duration::from_millis(20);

#[test]
fn every_way_in_is_refused_alike() {
    thread::scope(|scope| {
        // A file that may not grow ends other servers.
        let states = STATES.iter().filter(|state| state.name != "log" || !is_peer());
        let states: Vec<_> = states.map(|state| (state.name, scope.spawn(|| check(state)))).collect();
        let failed: Vec<_> = states.into_iter().filter_map(|(name, state)| state.join().err().map(|_| name)).collect();
        assert!(failed.is_empty(), "{failed:?}: see above");
    });
}

#[test]
fn all_wait_while_all_are_paused() {
    let server = Server::start(&[]);
    let mut sockets: Vec<_> = ["GET k\r\n", "SET k v\r\n", "PING\r\n"].map(|line| (server.socket(), line)).into();
    // Their workers have them.
    for (socket, _) in &mut sockets {
        send(socket, b"PING\r\n");
        assert_eq!(replies(socket, 1), "+PONG");
    }
    let begun = Instant::now();
    ask_all(&server, &["CLIENT PAUSE 300 ALL"]);
    for (socket, line) in &mut sockets {
        send(socket, line.as_bytes());
    }
    for (socket, line) in &mut sockets {
        assert!(!replies(socket, 1).starts_with('-'), "{line}");
        // The server counts in whole milliseconds: the one in which the pause began is not whole.
        assert!(begun.elapsed() >= Duration::from_millis(299), "{line}");
    }
}

/// A client that waited before memory was short is served, unless that needs memory.
#[test]
fn waiting_clients_are_served_when_memory_is_short() {
    let server = Server::start(&[]);
    let mut client = server.client();
    ask(&mut client, "RPUSH other a b");
    let tried = [
        ("BLPOP l 0\r\n", "[l a]"),
        ("BLMOVE l done LEFT RIGHT 0\r\n", "-OOM command not allowed when used memory > 'maxmemory'."),
    ];
    for (line, expected) in tried {
        ask(&mut client, "RENAME l other");
        let mut waiting = server.socket();
        send(&mut waiting, line.as_bytes());
        assert!(eventually(|| ask(&mut client, "INFO clients").contains("blocked_clients:1")));
        ask_all(&server, &["CONFIG SET maxmemory 1"]);
        assert!(ask(&mut client, "RPUSH l x").contains("OOM"));
        assert_eq!(ask(&mut client, "RENAME other l"), "OK");
        assert_eq!(replies(&mut waiting, 1), expected);
        assert_eq!(ask(&mut client, "EXISTS done"), "0");
        ask_all(&server, &["CONFIG SET maxmemory 0"]);
    }
}

/// The log is read whatever state there is: it was let in before.
#[test]
fn a_log_is_read_in_every_state() {
    let server = Server::start(&["--appendonly", "yes", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    for line in ["SET k v", "CONFIG SET maxmemory 1", "CONFIG SET min-replicas-to-write 1", "DEBUG LOADAOF"] {
        assert_eq!(ask(&mut client, line), "OK", "{line}");
    }
    assert_eq!(ask(&mut client, "GET k"), "\"v\"");
}

fn book(socket: &mut TcpStream, words: &[&str]) -> Option<BookValue> {
    let mut request = Vec::new();
    encode_request(&mut request, words).expect("a short request");
    send(socket, &request);
    let (mut bytes, mut part) = (Vec::new(), [0; 512]);
    loop {
        if let Some((value, _)) = decode_reply(&bytes).expect("a reply") {
            return Some(value);
        }
        match socket.read(&mut part) {
            Ok(0) => return None,
            Ok(read) => bytes.extend_from_slice(&part[..read]),
            Err(_) => return None,
        }
    }
}

/// The book protocol's two commands are refused where a request's are.
#[test]
fn the_book_protocol_is_refused_alike() {
    if is_peer() {
        return;
    }
    for state in STATES {
        let book_port = free_port();
        let mut server = Server::start_with(|_, port| {
            let (port, book_port) = (port.to_string(), book_port.to_string());
            let mut options = owned(&["--port", &port, "--book-port", &book_port, "--save", "", "--threads", "2"]);
            options.extend(owned(state.options));
            options
        });
        assert_eq!(ask(&mut server.client_with_password(state.options), "SET r v"), "OK");
        let begun = (state.begin)(&mut server);
        let mut socket = socket_to(SocketAddr::from(([127, 0, 0, 1], book_port)));
        let (_, write, read) = column(state.name)[0];
        for (words, cell) in [(&["get", "r"][..], read), (&["set", "k", "v"], write)] {
            socket.set_read_timeout(Some(if cell == "waits" { SHORT } else { PATIENCE })).expect("a timeout");
            let found = book(&mut socket, words);
            let right = match (cell, &found) {
                ("waits", None) => true,
                ("no", Some(BookValue::Err(_, text))) => {
                    let code = state.refusal.split(' ').next().unwrap_or_default();
                    let code = if code == "NOAUTH" { "authentication required" } else { code };
                    String::from_utf8_lossy(text).contains(code)
                }
                ("ok", Some(BookValue::Str(value))) => value == b"v",
                _ => false,
            };
            assert!(right, "{words:?} in {}: {found:?}", state.name);
        }
        (state.end)(&server, begun);
        let waits = write == "waits";
        let mut admin = server.client_with_password(state.options);
        assert!(eventually(|| (ask(&mut admin, "GET k") == "\"v\"") == waits), "{}", state.name);
    }
}
