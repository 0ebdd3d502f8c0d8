//! The program against a server that answers +OK to everything and counts its commands.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A server that answers every command, and counts GETs and connections.
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

/// COMMAND DOCS of a server that has GET only.
const DOCS: &[u8] = b"*2\r\n$3\r\nget\r\n*4\r\n$5\r\ngroup\r\n$6\r\nstring\r\n$9\r\narguments\r\n\
    *1\r\n*4\r\n$4\r\nname\r\n$3\r\nkey\r\n$4\r\ntype\r\n$3\r\nkey\r\n";

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
                Some("COMMAND") => DOCS,
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

/// Returns the first whole command and its length.
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
    // One more connection asked for the configuration.
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
fn wrong_options_are_named_in_a_line() {
    let output = Server::start(b"+OK\r\n").load("--nope");
    assert!(output.status.code() == Some(1) && output.stdout.is_empty());
    assert_eq!(output.stderr, b"Invalid option \"--nope\" or option argument missing\n");
    let output = Server::start(b"+OK\r\n").load("-n 5 --duration 3");
    assert!(output.status.code() == Some(1) && output.stdout.is_empty());
    assert_eq!(output.stderr, b"Options -n and --duration are mutually exclusive.\n");
}

/// Returns the program's output, after it ended well.
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
    // At 1000 a second, 300 of the 500 requests were due in the first 300 of the 400 milliseconds, and waited for the
    // end.
    assert!(p95("--rate 1000 get a") >= 100.0);
}

/// Answers GETs; before the tenth it stalls for 400 milliseconds.
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
    // A server that cannot be reached ends the program before any load.
    let gets = first.gets();
    let output = first.load("--compare 127.0.0.1:1 -c 1 -n 5 -t get");
    assert_eq!((output.status.code(), first.gets()), (Some(1), gets));
    assert_eq!(output.stderr, b"Could not connect to server at 127.0.0.1:1: Connection refused\n");
}

/// Starts a node of a cluster of two, where the slot `moved` is the second node's by now.
fn start_node(listener: TcpListener, ports: [u16; 2], moved: Option<u16>) -> Arc<AtomicUsize> {
    let sets = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sets);
    std::thread::spawn(move || {
        let own = listener.local_addr().unwrap().port();
        for stream in listener.incoming().flatten() {
            let sets = Arc::clone(&counter);
            std::thread::spawn(move || serve_node(stream, own, ports, moved, &sets));
        }
    });
    sets
}

fn serve_node(mut stream: TcpStream, own: u16, ports: [u16; 2], moved: Option<u16>, sets: &AtomicUsize) {
    let (mut pending, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        pending.extend_from_slice(&buffer[..count]);
        while let Some((words, used)) = command(&pending) {
            pending.drain(..used);
            let answer = match words[0].as_str() {
                // Two slots, which makes it likely that each is drawn.
                "CLUSTER" => {
                    let range = |slot: u16, port: u16| {
                        format!("*3\r\n:{slot}\r\n:{slot}\r\n*3\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$1\r\nn\r\n")
                    };
                    format!("*3\r\n{}{}{}", range(0, ports[0]), range(5, ports[0]), range(9, ports[1]))
                }
                "SET" => {
                    let (_, tag) = words[1].split_once('{').unwrap();
                    let slot = slot_of(tag.split('}').next().unwrap());
                    let owner = match slot {
                        0 | 5 if moved != Some(slot) => ports[0],
                        5 | 9 => ports[1],
                        // A node that nobody asked for has these.
                        _ => 1,
                    };
                    if owner == own {
                        sets.fetch_add(1, Ordering::Relaxed);
                        "+OK\r\n".to_owned()
                    } else {
                        format!("-MOVED {slot} 127.0.0.1:{owner}\r\n")
                    }
                }
                _ => "+OK\r\n".to_owned(),
            };
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn slot_of(tag: &str) -> u16 {
    let step = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
    tag.bytes().fold(0, |crc, byte| (0..8).fold(crc ^ u16::from(byte) << 8, step)) % 16384
}

#[test]
fn the_nodes_of_a_cluster_get_keys_of_their_slots() {
    for moved in [None, Some(5)] {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = [0, 1].map(|at: usize| listeners[at].local_addr().unwrap().port());
        let sets = listeners.map(|listener| start_node(listener, ports, moved));
        let load = |options: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_cinnabar-benchmark"));
            command.args(["-p", &ports[0].to_string(), "--cluster"]).args(options.split(' ')).output().unwrap()
        };
        let text = told(load("-c 4 -n 200 -t set -P 3"));
        let listed = format!("Cluster has 2 primary nodes:\n\nNode 0(Primary): n 127.0.0.1:{}\n", ports[0]);
        assert!(text.starts_with(&listed), "{text}");
        assert!(text.contains("  cluster mode: yes (2 primary)\n  node [0] configuration:\n"), "{text}");
        let served = sets.each_ref().map(|sets| sets.load(Ordering::Relaxed));
        assert!(served.iter().all(|served| *served > 0), "{served:?}");
        // Two connections are to the first node; each is redirected once, for one batch at most.
        let refused = 200 - served.iter().sum::<usize>();
        assert!(if moved.is_none() { refused == 0 } else { (1..=6).contains(&refused) }, "{served:?}");
        // A key without a tag belongs to one node only, and that is none of these.
        let output = load("-c 4 -n 50 -q SET a{bcd} v");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains(": MOVED "));
    }
}

#[test]
fn an_error_comes_without_progress_before_it_and_one_command_without_an_empty_line_behind_it() {
    let output = Server::start(b"-ERR no\r\n").load("-q -n 10 -t get");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]));
    assert_eq!(output.stderr, b"Error from server: ERR no\n");
    let line = |options| told(Server::start(b"$1\r\nv\r\n").load(options));
    assert!(line("-q -n 10 GET a").ends_with(" msec\n"));
    assert!(line("-q -n 10 -t get").ends_with(" msec\n\n"));
}

#[test]
fn options_that_do_not_fit_the_commands_are_refused() {
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

#[test]
fn random_commands_are_those_that_the_server_documents() {
    let run = |reply: &'static [u8]| {
        let server = Server::start(reply);
        let output = server.load("--fuzz -n 103 -c 4 --seed 1");
        let lines: Vec<String> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| line.split("] ").last().unwrap_or_default().to_owned())
            .collect();
        (server.gets(), output.status.code(), lines)
    };
    let has = |lines: &[String], line: &str| assert!(lines.iter().any(|known| known == line), "{line}: {lines:?}");
    let (gets, status, lines) = run(b"$1\r\nx\r\n");
    assert_eq!((gets, status), (100, Some(0)));
    has(&lines, "Running fuzzer with 4 clients, 25 commands per client (103 total commands)");
    has(&lines, "Success replies: 100");
    has(&lines, "Success rate: 100.00%");
    let (_, status, lines) = run(b"-ERR syntax error\r\n");
    assert_eq!(status, Some(0));
    has(&lines, "Error replies: 100");
    let (_, status, lines) = run(b"!bogus\r\n");
    assert_eq!(status, Some(0));
    has(&lines, "FUZZING ABORTED: Malformed reply detected");
}
