//! The program against a server that answers +OK to everything and counts what it is asked.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Answers every command, and counts GETs and connections.
struct Server {
    port: u16,
    gets: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    fn start(reply: &'static [u8]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (gets, connections) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let server = Server { port, gets: Arc::clone(&gets), connections: Arc::clone(&connections) };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::Relaxed);
                let gets = Arc::clone(&gets);
                std::thread::spawn(move || serve(stream, reply, &gets));
            }
        });
        server
    }

    fn load(&self, options: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cinnabar-benchmark"));
        command.args(["-p", &self.port.to_string()]).args(options.split(' ')).output().unwrap()
    }

    fn gets(&self) -> usize {
        self.gets.load(Ordering::Relaxed)
    }
}

fn serve(mut stream: TcpStream, reply: &[u8], gets: &AtomicUsize) {
    let (mut pending, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => count,
        };
        pending.extend_from_slice(&buffer[..count]);
        while let Some((words, used)) = command(&pending) {
            pending.drain(..used);
            let answer: &[u8] = match words.first().map(String::as_str) {
                Some("GET") => {
                    gets.fetch_add(1, Ordering::Relaxed);
                    reply
                }
                Some("INCR") => b":1\r\n",
                Some("CONFIG") => b"*2\r\n$4\r\nsave\r\n$0\r\n\r\n",
                _ => b"+OK\r\n",
            };
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

/// The first whole command and its length.
fn command(bytes: &[u8]) -> Option<(Vec<String>, usize)> {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut lines = text.split_inclusive("\r\n").take_while(|line| line.ends_with("\r\n"));
    let head = lines.next()?;
    let count: usize = head.trim().strip_prefix('*')?.parse().unwrap();
    let (mut used, mut words) = (head.len(), Vec::new());
    for _ in 0..count {
        used += lines.next()?.len();
        let word = lines.next()?;
        used += word.len();
        words.push(word.trim_end().to_string());
    }
    Some((words, used))
}

#[test]
fn sends_as_many_requests_as_were_asked_for() {
    for options in ["-c 7 -n 1003 -P 10 --threads 3", "-c 20 -n 11", "-c 3 -n 50 -k 0", "-n 200 --rps 100000 -c 4"] {
        let server = Server::start(b"$1\r\nv\r\n");
        let output = server.load(&format!("{options} -q -t get"));
        assert!(output.status.success(), "{options}: {output:?}");
        let wanted: usize = options.split_once("-n ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(server.gets(), wanted, "{options}");
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.contains("requests per second, p50="), "{told}");
    }
}

#[test]
fn connects_anew_for_every_batch_when_told() {
    let server = Server::start(b"$1\r\nv\r\n");
    assert!(server.load("-c 3 -n 50 -k 0 -t get --csv").status.success());
    // One more asked for the configuration.
    assert_eq!(server.connections.load(Ordering::Relaxed), 51);
}

#[test]
fn an_error_reply_ends_the_run() {
    let server = Server::start(b"-ERR no such thing\r\n");
    let output = server.load("-c 3 -n 50 -t get --csv");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "Error from server: ERR no such thing\n");
}

#[test]
fn sequences_count_their_commands() {
    let server = Server::start(b"$1\r\nv\r\n");
    assert!(server.load("-c 2 -n 30 -P 2 --csv -- SET a b ; 2 GET a").status.success());
    assert_eq!(server.gets(), 20);
}

#[test]
fn wrong_options_show_the_right_ones() {
    let output = Server::start(b"+OK\r\n").load("--nope");
    let text = "Invalid option \"--nope\" or option argument missing\n\nUsage: cinnabar-benchmark [OPTIONS]";
    assert!(output.status.code() == Some(1) && output.stderr.is_empty() && output.stdout.starts_with(text.as_bytes()));
    let output = Server::start(b"+OK\r\n").load("-n 5 --duration 3");
    assert!(output.status.code() == Some(1) && output.stdout.is_empty());
    assert_eq!(output.stderr, b"Options -n and --duration are mutually exclusive.\n");
}

/// What the program said, after it ended well.
fn told(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_workload_is_told_as_a_whole_and_by_its_parts() {
    let server = Server::start(b"$1\r\nv\r\n");
    let text = told(server.load("-c 4 -n 1000 -P 5 --workload get=3,incr=1 --seed 5 -r 100 --zipf 0.99 --csv"));
    let titles: Vec<_> = text.lines().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(titles, ["\"test\"", "\"GET=3", "\"GET\"", "\"INCR\""]);
    assert!((650..850).contains(&server.gets()), "{}", server.gets());
    let text = told(server.load("-c 4 -n 100 --workload get=1,incr=1"));
    assert!(text.contains("\nBy operation (msec):\n") && text.contains("\n    INCR "), "{text}");
}

#[test]
fn an_open_loop_sends_every_request() {
    for options in ["-c 3 -n 501 --rate 20000", "-c 4 -n 501 --threads 3 --rate 1000000000"] {
        let server = Server::start(b"$1\r\nv\r\n");
        let text = told(server.load(&format!("{options} -t get")));
        assert_eq!(server.gets(), 501, "{options}");
        assert!(text.contains("\n  open loop: "), "{text}");
    }
    let server = Server::start(b"$1\r\nv\r\n");
    told(server.load("-c 2 --duration 1 --rate 200 -t get -q"));
    assert_eq!(server.gets(), 200);
}

#[test]
fn an_open_loop_counts_the_requests_that_came_during_a_stall() {
    let p95 = |options: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || stalls_once(&mut stream));
            }
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_cinnabar-benchmark"));
        command.args(["-p", &port.to_string(), "-c", "1", "-n", "500", "--json"]).args(options.split(' '));
        let text = told(command.output().unwrap());
        let p95 = text.split("\"p95\":").nth(1).unwrap().split(',').next().unwrap();
        p95.parse::<f64>().unwrap()
    };
    // Of 500 requests at 1000 a second, 300 came in the first 300 of the 400 milliseconds, and waited for their end.
    assert!(p95("--rate 1000 get a") >= 100.0);
}

/// Answers GETs; before the tenth it stands still for 400 milliseconds.
fn stalls_once(stream: &mut TcpStream) {
    let (mut pending, mut buffer, mut gets) = (Vec::new(), [0; 4096], 0);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        pending.extend_from_slice(&buffer[..count]);
        while let Some((words, used)) = command(&pending) {
            pending.drain(..used);
            gets += usize::from(words[0] == "get");
            if gets == 10 {
                std::thread::sleep(std::time::Duration::from_millis(400));
            }
            if stream.write_all(b"+OK\r\n").is_err() {
                return;
            }
        }
    }
}

#[test]
fn reports_come_as_json_and_as_a_picture() {
    let file = std::env::temp_dir().join(format!("cinnabar-benchmark-{}.svg", std::process::id()));
    let server = Server::start(b"$1\r\nv\r\n");
    let text = told(server.load(&format!("-c 2 -n 50 -t get,incr --json --svg {}", file.display())));
    assert!(text.starts_with("{\"program\":\"cinnabar-benchmark ") && text.lines().count() == 1, "{text}");
    assert_eq!(text.matches("\"requests\":50,\"seconds\":").count(), 2, "{text}");
    let picture = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains(">INCR</text>"), "{picture}");
    let output = server.load("-c 2 -n 50 -t get -q --svg /nonexistent/a.svg");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stderr, b"/nonexistent/a.svg: No such file or directory\n");
}

#[test]
fn two_servers_are_compared_in_turns() {
    let (first, second) = (Server::start(b"$1\r\nv\r\n"), Server::start(b"$1\r\nv\r\n"));
    let address = format!("127.0.0.1:{}", second.port);
    let text = told(first.load(&format!("--compare {address} --rounds 2 -c 3 -n 40 -t get --min-ratio 0.0001")));
    assert_eq!((first.gets(), second.gets()), (80, 80));
    assert!(text.contains("  2 rounds in turns, 80 and 80 requests, 3 parallel clients\n"), "{text}");
    assert!(text.contains(&format!("  {address}     ratio\n  requests per second ")), "{text}");
    let output = first.load(&format!("--compare {address} --rounds 1 -c 1 -n 5 -t get -q --min-ratio 1000000"));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let output = first.load(&format!("--compare {address} --rounds 1 -c 1 -n 5 -t get --json"));
    assert!(told(output).contains("\"rps_ratio\":"));
    // One that is not there ends it before any load.
    let gets = first.gets();
    let output = first.load("--compare 127.0.0.1:1 -c 1 -n 5 -t get");
    assert_eq!((output.status.code(), first.gets()), (Some(1), gets));
    assert_eq!(output.stderr, b"Could not connect to server at 127.0.0.1:1: Connection refused\n");
}

#[test]
fn what_is_not_done_is_refused() {
    for (options, expected) in [
        ("--rate 5 -- SET a b ; GET a", "--rate sends single requests, not sequences of commands.\n"),
        ("--zipf 0.9 -r 5 -- PING", "--zipf: no command has a place for a number (__rand_int__).\n"),
        ("--json -t nosuch", "There is no test of that name.\n"),
    ] {
        let output = Server::start(b"+OK\r\n").load(options);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]), "{options}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    }
}
