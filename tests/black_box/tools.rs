//! cinnabar-cli and cinnabar-benchmark as programs: their output, their exit status, a terminal in front of them.
//!
//! Their binaries lie beside the server's: `cargo test` builds all of them. The tests build them if only the server was
//! built.

use crate::harness::{Folder, PATIENCE, Server, eventually, free_port, is_peer, owned};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

/// Output and status of a program that has ended.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    out: String,
    wrong: String,
    status: Option<i32>,
}

/// Returns those of a program that has nothing to complain about.
fn well(out: &str) -> Said {
    Said { out: out.to_owned(), wrong: String::new(), status: Some(0) }
}

fn tool(name: &str) -> PathBuf {
    static MADE: Once = Once::new();
    let server = Path::new(env!("CARGO_BIN_EXE_cinnabar-server"));
    MADE.call_once(|| {
        let missing =
            ["cinnabar-cli", "cinnabar-benchmark"].into_iter().filter(|name| !server.with_file_name(name).exists());
        for name in missing {
            let status = Command::new(env!("CARGO")).args(["build", "--quiet", "-p", name]).status();
            assert!(status.expect("cargo").success(), "{name} cannot be built");
        }
    });
    server.with_file_name(name)
}

/// Starts the program with a server's port.
fn start(name: &str, port: u16, arguments: &[&str], environment: &[(&str, &str)]) -> Child {
    let mut command = Command::new(tool(name));
    command.args(["-p", &port.to_string()]).args(arguments).envs(environment.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program")
}

/// Gives it its input and waits for its end.
fn end(mut child: Child, input: &[u8]) -> Said {
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let writer = thread::spawn(move || {
        // It may end without reading all of it.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("its end");
    writer.join().expect("the writer");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Said { out: text(output.stdout), wrong: text(output.stderr), status: output.status.code() }
}

fn cli(server: &Server, arguments: &[&str], input: &[u8]) -> Said {
    end(start("cinnabar-cli", server.port, arguments, &[]), input)
}

fn out(server: &Server, arguments: &[&str]) -> String {
    let said = cli(server, arguments, b"");
    assert_eq!((said.status, said.wrong.as_str()), (Some(0), ""), "{arguments:?}");
    said.out
}

#[test]
fn one_command_and_how_it_ends() {
    let server = Server::start(&[]);
    assert_eq!(cli(&server, &["set", "text", "hello world"], b""), well("OK\n"));
    assert_eq!(cli(&server, &["get", "text"], b""), well("hello world\n"));
    assert_eq!(cli(&server, &["get", "none"], b""), well("\n"));
    let refused = "ERR value is not an integer or out of range\n";
    assert_eq!(cli(&server, &["incr", "text"], b""), well(&format!("{refused}\n")));
    let strict = cli(&server, &["-e", "incr", "text"], b"");
    assert_eq!(strict, Said { out: String::new(), wrong: refused.to_owned(), status: Some(1) });
    let unknown = cli(&server, &["--nosuch"], b"");
    assert_eq!(unknown.wrong, "Unrecognized option or bad number of args for: '--nosuch'\n");
    assert_eq!(unknown.status, Some(1));
    let nobody = end(start("cinnabar-cli", free_port(), &["ping"], &[]), b"");
    assert_eq!(nobody.status, Some(1));
    assert!(nobody.wrong.starts_with("Could not connect to server at 127.0.0.1:"), "{nobody:?}");
}

#[test]
fn replies_in_every_form() {
    let server = Server::start(&[]);
    out(&server, &["rpush", "list", "a b", "2"]);
    out(&server, &["hset", "hash", "f", "v\""]);
    for (arguments, expected) in [
        (&["lrange", "list", "0", "-1"][..], "a b\n2\n"),
        (&["--no-raw", "lrange", "list", "0", "-1"], "1) \"a b\"\n2) \"2\"\n"),
        (&["--csv", "lrange", "list", "0", "-1"], "\"a b\",\"2\"\n"),
        (&["--json", "lrange", "list", "0", "-1"], "[\"a b\",\"2\"]\n"),
        (&["-D", "|", "-d", ";", "lrange", "list", "0", "-1"], "a b;2|"),
        (&["--no-raw", "hgetall", "hash"], "1) \"f\"\n2) \"v\\\"\"\n"),
        (&["-3", "--no-raw", "hgetall", "hash"], "1# \"f\" => \"v\\\"\"\n"),
        (&["--json", "hgetall", "hash"], "{\"f\":\"v\\\"\"}\n"),
        (&["--no-raw", "get", "none"], "(nil)\n"),
        (&["--json", "mget", "none", "none"], "[null,null]\n"),
        (&["--no-raw", "llen", "list"], "(integer) 2\n"),
        (&["-n", "3", "--no-raw", "exists", "list"], "(integer) 0\n"),
    ] {
        assert_eq!(out(&server, arguments), expected, "{arguments:?}");
    }
}

#[test]
fn arguments_from_standard_input_and_in_quotes() {
    let server = Server::start(&[]);
    assert_eq!(cli(&server, &["-x", "set", "k"], b"two\nlines\x00"), well("OK\n"));
    assert_eq!(out(&server, &["--no-raw", "get", "k"]), "\"two\\nlines\\x00\"\n");
    assert_eq!(cli(&server, &["-X", "HERE", "mset", "a", "HERE", "b", "x"], b"v"), well("OK\n"));
    assert_eq!(out(&server, &["mget", "a", "b"]), "v\nx\n");
    assert_eq!(out(&server, &["--quoted-input", "--no-raw", "echo", "\"\\xffa\\n\""]), "\"\\xffa\\n\"\n");
}

#[test]
fn commands_from_a_file_end_with_its_last_line() {
    let server = Server::start(&[]);
    let input = b"set a 1\nmulti\nincr a\nget a\nexec\nselect 3\nset b c\n2 incr n\necho 'a b'\n\nnosuch\nget b";
    let expected = "OK\nOK\nQUEUED\nQUEUED\n2\n2\nOK\nOK\n1\n2\na b\nERR unknown command 'nosuch', with args beginning with: \n\nc\n";
    assert_eq!(cli(&server, &[], input), well(expected));
    assert_eq!(out(&server, &["-n", "3", "get", "b"]), "c\n");
}

#[test]
fn a_pipe_of_raw_protocol() {
    let server = Server::start(&[]);
    let mut input = Vec::new();
    for number in 0..20_000 {
        input.extend(format!("*3\r\n$3\r\nSET\r\n$6\r\nk{number:05}\r\n$1\r\nv\r\n").into_bytes());
    }
    let summary = |errors: u32, replies: u32| {
        format!(
            "All data transferred. Waiting for the last reply...\nLast reply received from server.\nerrors: {errors}, replies: {replies}\n"
        )
    };
    assert_eq!(cli(&server, &["--pipe"], &input), well(&summary(0, 20_000)));
    assert_eq!(out(&server, &["dbsize"]), "20000\n");
    let broken = cli(&server, &["--pipe"], b"PING\r\nINCR k00001\r\n");
    assert_eq!((broken.out, broken.status), (summary(1, 2), Some(1)));
    assert_eq!(broken.wrong, "ERR value is not an integer or out of range\n");
}

#[test]
fn the_book_protocol() {
    if is_peer() {
        return;
    }
    let book = free_port();
    let server = Server::start(&["--book-port", &book.to_string()]);
    let ask = |arguments: &[&str]| {
        let all: Vec<&str> = [&["--book"][..], arguments].concat();
        end(start("cinnabar-cli", book, &all, &[]), b"")
    };
    for (arguments, expected) in [
        (&["set", "k", "v"][..], "(nil)\n"),
        (&["get", "k"], "(str) v\n"),
        (&["get", "none"], "(nil)\n"),
        (&["zadd", "z", "1.5", "m"], "(int) 1\n"),
        (&["zscore", "z", "m"], "(dbl) 1.5\n"),
        (&["nosuch"], "(err) 1 Unknown cmd\n"),
    ] {
        assert_eq!(ask(arguments), well(expected), "{arguments:?}");
    }
    assert_eq!(out(&server, &["get", "k"]), "v\n");
}

#[test]
fn walks_through_all_keys() {
    let server = Server::start(&[]);
    let input: String = (0..100).map(|number| format!("set key:{number} v\n")).collect();
    cli(&server, &[], input.as_bytes());
    out(&server, &["set", "long", "0123456789"]);
    let mut keys: Vec<String> = out(&server, &["--scan", "--count", "7"]).lines().map(str::to_owned).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 101);
    let mut some: Vec<String> = out(&server, &["--scan", "--pattern", "key:1?"]).lines().map(str::to_owned).collect();
    some.sort();
    assert_eq!(some, (10..20).map(|number| format!("key:{number}")).collect::<Vec<_>>());
    let summary = out(&server, &["--bigkeys"]);
    assert!(summary.contains("Sampled 101 keys in the keyspace!"), "{summary}");
    assert!(summary.contains("Biggest string found '\"long\"' has 10 bytes"), "{summary}");
    assert!(summary.contains("\n101 strings with 110 bytes (100.00% of keys, avg size 1.09)\n"), "{summary}");
}

#[test]
fn repetitions_scripts_and_passwords() {
    let server = Server::start(&["--requirepass", "secret"]);
    let ask = |arguments: &[&str], environment: &[(&str, &str)]| {
        end(start("cinnabar-cli", server.port, arguments, environment), b"")
    };
    assert_eq!(ask(&["ping"], &[]), well("NOAUTH Authentication required.\n\n"));
    let known = [("REDISCLI_AUTH", "secret")];
    assert_eq!(ask(&["-r", "3", "-i", "0.01", "incr", "n"], &known), well("1\n2\n3\n"));
    let warned = ask(&["-a", "secret", "get", "n"], &[]);
    assert_eq!((warned.out.as_str(), warned.status), ("3\n", Some(0)));
    assert!(warned.wrong.contains("Warning: Using a password"), "{warned:?}");
    assert_eq!(ask(&["--no-auth-warning", "-a", "secret", "get", "n"], &[]), well("3\n"));
    let wrong = ask(&["--no-auth-warning", "-a", "wrong", "get", "n"], &[]);
    assert!(wrong.wrong.contains("AUTH failed: WRONGPASS"), "{wrong:?}");
    let folder = Folder::new();
    let script = folder.write("s.lua", "return {KEYS[1], ARGV[1], redis.call('incrby', KEYS[1], ARGV[1])}");
    assert_eq!(ask(&["--eval", &script.to_string_lossy(), "n", ",", "5"], &known), well("n\n5\n8\n"));
}

#[test]
fn messages_are_shown_until_it_is_ended() {
    let server = Server::start(&[]);
    let mut child = start("cinnabar-cli", server.port, &["--csv", "subscribe", "news"], &[]);
    let mut screen = Reader::new(child.stdout.take().expect("a pipe"));
    screen.expect("\"subscribe\",\"news\",1\n");
    assert_eq!(out(&server, &["publish", "news", "a \"word\""]), "1\n");
    screen.expect("\"message\",\"news\",\"a \\\"word\\\"\"\n");
    child.kill().expect("to end it");
    child.wait().expect("its end");
}

#[test]
fn the_prompt_shows_database_and_transaction() {
    let server = Server::start(&[]);
    let mut terminal = Terminal::open(&server, &[]);
    let at = format!("127.0.0.1:{}", server.port);
    for (typed, shown) in [
        ("", format!("{at}> ")),
        ("select 3\r", format!("OK\r\n{at}[3]> ")),
        ("multi\r", format!("OK\r\n{at}[3](TX)> ")),
        ("incr n\r", format!("QUEUED\r\n{at}[3](TX)> ")),
        ("exec\r", format!("1) (integer) 1\r\n{at}[3]> ")),
        ("nosuch\r", format!("(error) ERR unknown command 'nosuch', with args beginning with: \r\n{at}[3]> ")),
        ("select 0\r", format!("OK\r\n{at}> ")),
        ("get \"open\r", format!("Invalid argument(s)\r\n{at}> ")),
    ] {
        terminal.send(typed);
        terminal.screen.expect(&shown);
    }
    terminal.send("quit\r");
    assert_eq!(terminal.child.wait().expect("its end").code(), Some(0));
    assert_eq!(out(&server, &["-n", "3", "get", "n"]), "1\n");
}

#[test]
fn the_benchmark_counts_what_the_server_did() {
    let server = Server::start(&[]);
    let run = |arguments: &[&str]| end(start("cinnabar-benchmark", server.port, arguments, &[]), b"");
    let told = run(&["-n", "2000", "-c", "4", "-P", "5", "-r", "50", "--csv", "-t", "set,get"]);
    assert_eq!(told.status, Some(0), "{told:?}");
    let names: Vec<&str> = told.out.lines().filter_map(|line| line.split(',').next()).collect();
    assert_eq!(names, ["\"test\"", "\"SET\"", "\"GET\""]);
    let keys: u32 = out(&server, &["dbsize"]).trim().parse().expect("a number");
    assert!((1..=50).contains(&keys), "{keys} keys of 50 at most");
    let calls = out(&server, &["info", "commandstats"]);
    assert!(calls.contains("cmdstat_set:calls=2000,") && calls.contains("cmdstat_get:calls=2000,"), "{calls}");
    let refused = run(&["-n", "10", "-q", "incr"]);
    assert_eq!(refused.status, Some(1), "{refused:?}");
    assert!(refused.wrong.contains("wrong number of arguments"), "{refused:?}");
}

/// A server that answers nothing for a while: with a rate, requests that were due meanwhile have waited since then.
/// Counted from when they were sent, one of 300 would have waited.
#[test]
fn latencies_count_from_when_requests_were_due() {
    const STALL: Duration = Duration::from_millis(700);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let answered = Arc::new(Mutex::new(0));
    let stalls = move |mut socket: TcpStream| {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = socket.read(&mut buffer) {
            let asked = |word: &[u8; 6]| buffer[..length].windows(6).filter(|bytes| bytes == word).count();
            // The benchmark first asks for configuration.
            let mut answer = b"*0\r\n".repeat(asked(b"CONFIG"));
            for _ in 0..asked(b"PING\r\n") {
                let mut count = answered.lock().expect("the count");
                *count += 1;
                if *count == 50 {
                    thread::sleep(STALL);
                }
                answer.extend_from_slice(b"+PONG\r\n");
            }
            if socket.write_all(&answer).is_err() {
                return;
            }
        }
    };
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let stalls = stalls.clone();
            thread::spawn(move || stalls(socket));
        }
    });
    let told =
        end(start("cinnabar-benchmark", port, &["-n", "300", "-c", "1", "--rps", "200", "--csv", "PING"], &[]), b"");
    assert_eq!(told.status, Some(0), "{told:?}");
    let lines: Vec<Vec<&str>> = told.out.lines().map(|line| line.split(',').collect()).collect();
    let p95 = lines[0].iter().position(|name| *name == "\"p95_latency_ms\"").expect("a column");
    let p95: f64 = lines[1][p95].trim_matches('"').parse().expect("a number");
    assert!(p95 > 300.0, "of 300 requests 140 waited up to {STALL:?}, yet 95 of 100 took less than {p95} ms");
}

/// Reads the output of a program, piece by piece.
struct Reader {
    text: Arc<Mutex<String>>,
    seen: usize,
}

impl Reader {
    fn new(mut from: impl Read + Send + 'static) -> Reader {
        let text = Arc::new(Mutex::new(String::new()));
        let all = Arc::clone(&text);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                all.lock().expect("the text").push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
        });
        Reader { text, seen: 0 }
    }

    /// Waits until this has arrived, behind the text that was expected before.
    #[track_caller]
    fn expect(&mut self, wanted: &str) {
        let (text, seen) = (&self.text, self.seen);
        let mut end = None;
        let came = eventually(|| {
            let text = text.lock().expect("the text");
            end = text[seen..].find(wanted).map(|at| seen + at + wanted.len());
            end.is_some()
        });
        assert!(came, "no {wanted:?} in {:?}", &text.lock().expect("the text")[seen..]);
        self.seen = end.unwrap_or_default();
    }
}

/// cinnabar-cli on a terminal that can only show lines.
struct Terminal {
    child: Child,
    keys: File,
    screen: Reader,
}

impl Terminal {
    fn open(server: &Server, arguments: &[&str]) -> Terminal {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&near).expect("a terminal");
        unlockpt(&near).expect("a terminal");
        let name = ptsname(&near, Vec::new()).expect("its name");
        let far = open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("its other end");
        let stdio = || Stdio::from(far.try_clone().expect("a descriptor"));
        let mut words = owned(&["-p", &server.port.to_string()]);
        words.extend(owned(arguments));
        let mut command = Command::new(tool("cinnabar-cli"));
        command
            .args(words)
            .env("TERM", "dumb")
            .env("VALKEYCLI_HISTFILE", "/dev/null")
            .current_dir(server.folder.path());
        let child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().expect("the program");
        let keys = File::from(near);
        Terminal { child, screen: Reader::new(keys.try_clone().expect("a descriptor")), keys }
    }

    fn send(&mut self, typed: &str) {
        self.keys.write_all(typed.as_bytes()).expect("to type");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Neither has an effect on a program that has ended.
        let until = Instant::now() + PATIENCE;
        let _ = self.child.kill();
        while self.child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
