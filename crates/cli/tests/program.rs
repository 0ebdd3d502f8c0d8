//! The program as a user runs it, against a server of a few lines that answers each request with canned bytes.
//!
//! Requests of the program are compared with those of valkey-cli, its output with valkey-cli's.

mod terminal;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread::{self, JoinHandle};

/// The conversations of one test: for each connection in turn, pairs of the expected request and its reply. After the
/// last pair the server waits for the program to close the connection, or closes it itself.
struct Server {
    port: u16,
    thread: JoinHandle<()>,
}

struct Conversation {
    exchanges: Vec<(Vec<u8>, Vec<u8>)>,
    server_closes: bool,
}

impl Server {
    fn start(conversations: Vec<Conversation>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = thread::spawn(move || {
            for conversation in conversations {
                let (stream, _) = listener.accept().unwrap();
                hold(stream, conversation);
            }
        });
        Server { port, thread }
    }

    /// Runs the program with this server's port and standard input, and checks that the conversations took place.
    fn run(self, arguments: &[&str], input: &str) -> Output {
        let port = self.port.to_string();
        let mut all = vec!["-p", &port];
        all.extend(arguments);
        let output = run(&all, input);
        self.thread.join().expect("the conversations as expected");
        output
    }
}

fn hold(mut stream: TcpStream, conversation: Conversation) {
    for (request, reply) in conversation.exchanges {
        let mut received = vec![0; request.len()];
        stream.read_exact(&mut received).unwrap();
        assert_eq!(received.escape_ascii().to_string(), request.escape_ascii().to_string());
        stream.write_all(&reply).unwrap();
    }
    if !conversation.server_closes {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.escape_ascii().to_string(), "");
    }
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cinnabar-cli"));
    for name in ["VALKEYCLI_AUTH", "REDISCLI_AUTH", "FAKETTY"] {
        command.env_remove(name);
    }
    command
}

fn run(arguments: &[&str], input: &str) -> Output {
    run_command(program().args(arguments), input)
}

fn run_command(command: &mut Command, input: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn resp(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    bytes.into_bytes()
}

/// Returns a connection with RESP requests, words separated by blanks, and their replies.
fn talk(exchanges: &[(&str, &str)]) -> Conversation {
    let pair =
        |(request, reply): &(&str, &str)| (resp(&request.split(' ').collect::<Vec<_>>()), reply.as_bytes().to_vec());
    Conversation { exchanges: exchanges.iter().map(pair).collect(), server_closes: false }
}

#[track_caller]
fn check(output: Output, status: i32, stdout: &str, stderr: &str) {
    assert_eq!(String::from_utf8_lossy(&output.stderr), stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), stdout);
    assert_eq!(output.status.code(), Some(status));
}

#[test]
fn one_command_prints_its_reply_raw_in_a_pipe() {
    let server = Server::start(vec![talk(&[("mget a b -1", "*3\r\n$1\r\nx\r\n$-1\r\n:7\r\n")])]);
    check(server.run(&["mget", "a", "b", "-1"], ""), 0, "x\n\n7\n", "");
}

#[test]
fn formatted_output_can_be_asked_for() {
    let reply = "*2\r\n*2\r\n$1\r\na\r\n:1\r\n-ERR no\r\n";
    let server = Server::start(vec![talk(&[("exec", reply)])]);
    check(server.run(&["--no-raw", "exec"], ""), 0, "1) 1) \"a\"\n   2) (integer) 1\n2) (error) ERR no\n", "");
}

#[test]
fn a_connection_is_greeted_as_asked() {
    let server = Server::start(vec![talk(&[
        ("AUTH u p", "+OK\r\n"),
        ("SELECT 3", "+OK\r\n"),
        ("HELLO 3", "%1\r\n$5\r\nproto\r\n:3\r\n"),
        ("hgetall h", "%1\r\n$1\r\nf\r\n,1.5\r\n"),
    ])]);
    let options = ["--user", "u", "-a", "p", "--no-auth-warning", "-n", "3", "--json", "hgetall", "h"];
    check(server.run(&options, ""), 0, "{\"f\":1.5}\n", "");
}

#[test]
fn the_password_may_come_from_the_environment() {
    let server = Server::start(vec![talk(&[("AUTH secret", "-ERR no\r\n"), ("ping", "-NOAUTH x\r\n")])]);
    let port = server.port.to_string();
    let output = run_command(program().args(["-p", &port, "ping"]).env("REDISCLI_AUTH", "secret"), "");
    check(output, 0, "NOAUTH x\n\n", "AUTH failed: ERR no\n");
    server.thread.join().unwrap();
}

#[test]
fn a_reply_may_arrive_in_any_pieces() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut request = vec![0; resp(&["get", "a"]).len()];
        stream.read_exact(&mut request).unwrap();
        for byte in b"$5\r\nhel\r\n\r\n" {
            stream.write_all(&[*byte]).unwrap();
        }
    });
    check(run(&["-p", &port, "get", "a"], ""), 0, "hel\r\n\n", "");
    server.join().unwrap();
}

#[test]
fn errors_end_the_program_only_with_e() {
    let server = Server::start(vec![talk(&[("foo", "-ERR unknown\r\n")])]);
    check(server.run(&["foo"], ""), 0, "ERR unknown\n\n", "");
    let server = Server::start(vec![talk(&[("foo", "-ERR unknown\r\n")])]);
    check(server.run(&["-e", "foo"], ""), 1, "", "ERR unknown\n");
}

#[test]
fn arguments_come_from_quotes_and_standard_input() {
    let server = Server::start(vec![talk(&[("set A\u{1} v\n", "+OK\r\n")])]);
    check(server.run(&["--quoted-input", "-x", "set", "\"\\x41\\x01\""], "v\n"), 0, "OK\n", "");
    let server = Server::start(vec![talk(&[("set v k", "+OK\r\n")])]);
    check(server.run(&["-X", "tag", "set", "tag", "k"], "v"), 0, "OK\n", "");
    check(run(&["--quoted-input", "get", "\"a"], ""), 1, "Invalid quoted string\n", "");
    check(run(&["-X", "t", "get", "a"], ""), 1, "", "Using -X option but stdin tag not match.\n");
}

#[test]
fn commands_repeat() {
    let server = Server::start(vec![talk(&[("incr x", ":1\r\n"), ("incr x", ":2\r\n")])]);
    check(server.run(&["-r", "2", "-D", ";", "incr", "x"], ""), 0, "1;2;", "");
}

#[test]
fn lines_from_a_pipe_are_commands() {
    let server = Server::start(vec![talk(&[("set a b c", "+OK\r\n"), ("incr x", ":1\r\n"), ("incr x", ":2\r\n")])]);
    let lines = "set a 'b c\n\n  \nset a b c\n2 incr x\n0 incr x\n:set\nquit\nget a\n";
    check(
        server.run(&[], lines),
        0,
        "Invalid argument(s)\nOK\n1\n2\nInvalid cinnabar-cli repeat command option value.\n\
         unknown cinnabar-cli internal command ':set'\n",
        "",
    );
}

#[test]
fn a_lost_connection_is_made_again_in_the_same_database() {
    let first = Conversation { server_closes: true, ..talk(&[("select 2", "+OK\r\n"), ("get a", "")]) };
    let second = talk(&[("SELECT 2", "+OK\r\n"), ("get a", "$1\r\nv\r\n")]);
    let server = Server::start(vec![first, second]);
    check(server.run(&[], "select 2\nget a\nget a\n"), 0, "OK\nv\n", "Error: Server closed the connection\n");
}

#[test]
fn a_server_that_is_not_there_is_status_1() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port().to_string()
    };
    let expected = format!("Could not connect to server at 127.0.0.1:{port}: Connection refused\n");
    check(run(&["-p", &port, "get", "a"], ""), 1, "", &expected);
    // In a session each command tries to connect again, and the session ends well.
    check(run(&["-p", &port], "get a\n"), 0, "", &expected.repeat(2));
}

#[test]
fn a_subscription_streams_messages() {
    let confirmation = |name: &str, count| format!("*3\r\n$9\r\nsubscribe\r\n$1\r\n{name}\r\n:{count}\r\n");
    let message = "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n";
    let replies = confirmation("a", 1) + &confirmation("b", 2) + message;
    let subscription = Conversation { server_closes: true, ..talk(&[("subscribe a b", &replies)]) };
    let output = Server::start(vec![subscription]).run(&["--csv", "subscribe", "a", "b"], "");
    let expected = "\"subscribe\",\"a\",1\n\"subscribe\",\"b\",2\n\"message\",\"a\",\"hi\"\n";
    check(output, 1, expected, "Error: Server closed the connection\n");
}

#[test]
fn pushes_beside_a_reply_are_printed_on_demand() {
    let reply = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n+OK\r\n";
    for (choice, printed) in [("yes", "-> invalidate: 'k'\nOK\n"), ("no", "OK\n")] {
        let server = Server::start(vec![talk(&[("set k v", reply)])]);
        let arguments = ["--no-raw", "--show-pushes", choice, "set", "k", "v"];
        check(server.run(&arguments, ""), 0, printed, "");
    }
}

#[test]
fn nonsense_from_the_server_is_an_error() {
    let server = Server::start(vec![talk(&[("get a", "@nonsense\r\n")])]);
    let output = server.run(&["get", "a"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty() && output.stderr.starts_with(b"Error: Protocol error"));
}

fn book_request(words: &[&str]) -> Vec<u8> {
    let mut body = (words.len() as u32).to_le_bytes().to_vec();
    for word in words {
        body.extend((word.len() as u32).to_le_bytes());
        body.extend(word.as_bytes());
    }
    framed(body)
}

fn framed(body: Vec<u8>) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}

#[test]
fn the_book_protocol_prints_tagged_values() {
    let mut pair = vec![5, 2, 0, 0, 0, 2, 1, 0, 0, 0, b'c', 4];
    pair.extend(1.5f64.to_le_bytes());
    let mut error = vec![1, 4, 0, 0, 0, 10, 0, 0, 0];
    error.extend(b"expect int");
    let exchanges = vec![
        (book_request(&["get", "k"]), framed(vec![0])),
        (book_request(&["zquery", "z", "2", "", "0", "1"]), framed(pair)),
        (book_request(&["zquery", "z", "1", "", "x", "1"]), framed(error)),
    ];
    // `connect` goes to another connection, here of the same server.
    let second = vec![(book_request(&["del", "k"]), framed(vec![3, 1, 0, 0, 0, 0, 0, 0, 0]))];
    let server = Server::start(vec![
        Conversation { exchanges, server_closes: true },
        Conversation { exchanges: second, server_closes: false },
    ]);
    let lines = "get k\nzquery z 2 \"\" 0 1\nzquery z 1 '' x 1\nconnect 127.0.0.1 PORT\ndel k\n";
    let lines = lines.replace("PORT", &server.port.to_string());
    let expected = "(nil)\n(arr) len=2\n(str) c\n(dbl) 1.5\n(arr) end\n(err) 4 expect int\n(int) 1\n";
    check(server.run(&["--book"], &lines), 0, expected, "");
}

#[test]
fn a_book_request_has_a_size_limit() {
    let server = Server::start(vec![talk(&[])]);
    let output = server.run(&["--book"], &format!("set k {}\n", "v".repeat(5000)));
    check(output, 0, "", "Error: message length out of bounds\n");
}

#[test]
fn a_walk_has_no_heading_where_the_server_refuses_it() {
    for mode in ["--bigkeys", "--memkeys", "--keystats", "--hotkeys"] {
        let refusal = "-NOAUTH Authentication required.\r\n";
        let server = Server::start(vec![talk(&[("READONLY", refusal), ("DBSIZE", refusal)])]);
        let message = "Couldn't determine DBSIZE: NOAUTH Authentication required.\n";
        check(server.run(&[mode], ""), 1, "", message);
    }
}

#[test]
fn as_many_hot_keys_are_listed_as_were_asked_for() {
    let counters = ":5\r\n:9\r\n:7\r\n";
    let server = Server::start(vec![talk(&[
        ("READONLY", "+OK\r\n"),
        ("DBSIZE", ":3\r\n"),
        ("SCAN 0", "*2\r\n$1\r\n0\r\n*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"),
        ("OBJECT FREQ a", ""),
        ("OBJECT FREQ b", ""),
        ("OBJECT FREQ c", counters),
    ])]);
    let output = server.run(&["--hotkeys-count", "2"], "");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("counter: 9\tkeyname: \"b\"\nhot key found with counter: 7\tkeyname: \"c\"\n"), "{text}");
}

#[test]
fn restart_belongs_to_the_debugger() {
    let server = Server::start(vec![talk(&[("ping", "+PONG\r\n")])]);
    check(server.run(&[], "restart\nping\n"), 0, "Use 'restart' only in Lua debugging mode.\nPONG\n", "");
}

#[test]
fn a_script_is_debugged_to_its_end() {
    let path = std::env::temp_dir().join(format!("cinnabar-cli-ldb-{}.lua", std::process::id()));
    std::fs::write(&path, "return(1)").unwrap();
    let stop = "*2\r\n+* Stopped at 1, stop reason = step over\r\n+-> 1   return(1)\r\n";
    let session =
        [("SCRIPT DEBUG yes", "+OK\r\n"), ("EVAL return(1) 1 k a", stop), ("s", "*1\r\n+<endsession>\r\n:1\r\n")];
    let server = Server::start(vec![talk(&session), talk(&[("ping", "+PONG\r\n")])]);
    let output = server.run(&["--ldb", "--eval", path.to_str().unwrap(), "k", ",", "a"], "s\nping\n");
    let text = String::from_utf8(output.stdout).unwrap();
    let end = "\n(integer) 1\n\n(Lua debugging session ended -- dataset changes rolled back)\n\nPONG\n";
    assert!(text.starts_with("Lua debugging session started, please use:\n") && text.ends_with(end), "{text}");
    // A server that has no debugger says so instead of running the script.
    let server = Server::start(vec![talk(&[("SCRIPT DEBUG sync", "-ERR no\r\n")])]);
    let output = server.run(&["--ldb-sync-mode", "--eval", path.to_str().unwrap()], "s\n");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("\nEval debugging session can't start:\n(error) ERR no\n"), "{text}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn an_address_is_named_as_it_was_given() {
    for (host, expected) in [("::1", "[::1]:1"), ("127.0.0.1:7000", "127.0.0.1:7000:1")] {
        let output = run(&["-h", host, "-p", "1", "ping"], "");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.starts_with(&format!("Could not connect to server at {expected}: ")), "{told}");
    }
}

#[test]
fn version_and_help_need_no_server() {
    check(run(&["--version"], ""), 0, concat!("cinnabar-cli 9.1.2 (Cinnabar ", env!("CARGO_PKG_VERSION"), ")\n"), "");
    let help = run(&["--help"], "");
    assert!(help.status.success() && help.stdout.starts_with(b"Usage: cinnabar-cli [OPTIONS]"));
    let help = String::from_utf8(help.stdout).unwrap();
    for part in ["\nServer:\n  -h <host> ", "\nKeys:\n  --scan ", "\nClusters:\n  --cluster <", "\nExamples:\n"] {
        assert!(help.contains(part), "{part:?} is not in {help}");
    }
    let message = "Unrecognized option or bad number of args for: '--nope'\n";
    check(run(&["--nope"], ""), 1, "", message);
}

#[test]
fn a_scan_prints_the_keys_of_every_step() {
    let step = |cursor: &str, keys: &str| format!("*2\r\n${}\r\n{cursor}\r\n{keys}", cursor.len());
    let first = step("17", "*2\r\n$1\r\na\r\n$2\r\nb \r\n");
    let last = step("0", "*0\r\n");
    let server = Server::start(vec![talk(&[
        ("SCAN 0 MATCH *\u{2} TYPE set COUNT 5", &first),
        ("SCAN 17 MATCH *\u{2} TYPE set COUNT 5", &last),
    ])]);
    let options = ["--scan", "--quoted-pattern", "\"*\\x02\"", "--count", "5", "--type", "set", "--no-raw"];
    check(server.run(&options, ""), 0, "\"a\"\n\"b \"\n", "");
    let server = Server::start(vec![talk(&[("SCAN 0", "-ERR no\r\n")])]);
    check(server.run(&["--scan"], ""), 1, "", "SCAN error: ERR no\n");
}

#[test]
fn big_keys_are_found_by_type() {
    let server = Server::start(vec![talk(&[
        ("READONLY", "+OK\r\n"),
        ("DBSIZE", ":2\r\n"),
        ("SCAN 0", "*2\r\n$1\r\n0\r\n*3\r\n$1\r\nl\r\n$4\r\ngone\r\n$1\r\nx\r\n"),
        ("TYPE l", ""),
        ("TYPE gone", ""),
        ("TYPE x", "+list\r\n+none\r\n+odd\r\n"),
        ("LLEN l", ":7\r\n"),
    ])]);
    let output = server.run(&["--bigkeys"], "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("[00.00%] Biggest list   found so far '\"l\"' with 7 items\n"), "{text}");
    assert!(text.contains("Sampled 2 keys in the keyspace!\n"), "{text}");
    assert!(text.ends_with("1 odds with 0 ? (50.00% of keys, avg size 0.00)\n"), "{text}");
}

#[test]
fn a_walk_shows_a_bar_only_on_a_terminal() {
    let step = "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nl\r\n";
    let exchanges = [("READONLY", "+OK\r\n"), ("DBSIZE", ":1\r\n"), ("SCAN 0", step)];
    let exchanges = [&exchanges[..], &[("TYPE l", "+list\r\n"), ("LLEN l", ":7\r\n")]].concat();
    let mut reports = Vec::new();
    for (kind, expected) in [("xterm", Some("\r  0.00% [")), ("dumb", None)] {
        let server = Server::start(vec![talk(&exchanges)]);
        let (mut master, slave) = terminal::open();
        let mut command = program();
        command.args(["-p", &server.port.to_string(), "--bigkeys"]).env("TERM", kind);
        let output = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(slave).spawn().unwrap();
        let output = output.wait_with_output().unwrap();
        server.thread.join().unwrap();
        drop(command);
        // No other process has the terminal: the text written to it arrives, and then an error.
        let mut shown = Vec::new();
        let _ = master.read_to_end(&mut shown);
        let shown = String::from_utf8(shown).unwrap();
        match expected {
            Some(start) => assert!(shown.starts_with(start) && shown.ends_with("\r\u{1b}[K"), "{shown:?}"),
            None => assert_eq!(shown, ""),
        }
        reports.push(output.stdout);
    }
    assert!(reports[0] == reports[1] && !reports[0].contains(&0x1b));
}

#[test]
fn reports_are_json_where_that_is_asked_for() {
    let hello = ("HELLO 3", "%1\r\n+proto\r\n:3\r\n");
    let step = "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nl\r\n$2\r\nx\"\r\n";
    let server = Server::start(vec![talk(&[hello, ("SCAN 0", step)])]);
    check(server.run(&["--json", "--scan"], ""), 0, "\"l\"\n\"x\\\"\"\n", "");
    let walk = [hello, ("READONLY", "+OK\r\n"), ("DBSIZE", ":2\r\n"), ("SCAN 0", step), ("TYPE l", "")];
    let sizes = [("TYPE x\"", "+list\r\n+string\r\n"), ("LLEN l", ""), ("STRLEN x\"", ":7\r\n:2\r\n")];
    let server = Server::start(vec![talk(&[&walk[..], &sizes].concat())]);
    let expected = "{\"keys_sampled\":2,\"key_bytes\":3,\"interrupted\":false,\"types\":[\
        {\"type\":\"string\",\"keys\":1,\"unit\":\"bytes\",\"size\":2,\"average\":2.00,\"biggest\":{\"key\":\"x\\\"\",\"size\":2}},\
        {\"type\":\"list\",\"keys\":1,\"unit\":\"items\",\"size\":7,\"average\":7.00,\"biggest\":{\"key\":\"l\",\"size\":7}}]}\n";
    check(server.run(&["--json", "--bigkeys"], ""), 0, expected, "");
    let info = "$32\r\nused_memory:2048\r\ndb0:keys=7\r\n\r\n\r\n";
    let server = Server::start(vec![talk(&[hello, ("INFO", info), ("INFO", "-ERR enough\r\n")])]);
    let output = server.run(&["--json", "--stat", "-i", "0.01"], "");
    let expected = "{\"keys\":7,\"used_memory\":2048,\"connected_clients\":0,\"blocked_clients\":0,\"requests\":0,\
        \"requests_since\":0,\"connections\":0,\"child\":\"\"}\n";
    check(output, 1, expected, "ERROR: ERR enough\n");
}

#[test]
fn a_cluster_is_told_of_as_json() {
    let line = "ab 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-5 7\n";
    let nodes = format!("${}\r\n{line}\r\n", line.len());
    let server = Server::start(vec![talk(&[
        ("CLIENT CAPA moved", "+OK\r\n"),
        ("INFO", "$17\r\ncluster_enabled:1\r\n"),
        ("CLUSTER NODES", &nodes),
        ("DBSIZE", ":3\r\n"),
    ])]);
    let address = format!("127.0.0.1:{}", server.port);
    let expected = format!(
        "{{\"nodes\":[{{\"id\":\"ab\",\"address\":\"{address}\",\"role\":\"primary\",\"primary\":null,\
         \"flags\":\"master\",\"slots\":\"[0-5],[7]\",\"slot_count\":7,\"replicas\":0,\"keys\":3}}]}}\n"
    );
    check(run(&["--json", "--cluster", "info", &address], ""), 0, &expected, "");
    server.thread.join().unwrap();
    let refusal = "With --json there are replies and reports: this has none in JSON.\n";
    check(run(&["--json", "--cluster", "fix", &address], ""), 1, "", refusal);
}

#[test]
fn top_needs_a_terminal() {
    let message = "Error: --top needs a terminal; with --json it prints a line each second.\n";
    check(run(&["--top"], ""), 1, "", message);
}

#[test]
fn readings_are_json_without_a_terminal() {
    let hello = ("HELLO 3", "%1\r\n+proto\r\n:3\r\n");
    let questions =
        |info: &'static str| [("INFO all", ""), ("LATENCY HISTOGRAM", ""), ("CLIENT LIST", ""), ("HOTKEYS GET", info)];
    let first = questions("$27\r\ntotal_commands_processed:10\r\n-ERR\r\n-ERR\r\n-ERR\r\n");
    let second = questions("$27\r\ntotal_commands_processed:20\r\n-ERR\r\n-ERR\r\n-ERR\r\n");
    let last = questions("-ERR enough\r\n-ERR\r\n-ERR\r\n-ERR\r\n");
    let server = Server::start(vec![talk(&[&[hello][..], &first, &second, &last].concat())]);
    let output = server.run(&["--json", "--top", "-i", "0.01"], "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("{\"role\":null,") && text.lines().count() == 1, "{text}");
    assert!(text.ends_with("\"commands\":[],\"clients\":null,\"hot_keys\":null}\n"), "{text}");
    assert_eq!((output.status.code(), output.stderr), (Some(1), b"INFO: ERR enough\n".to_vec()));
    let server = Server::start(vec![talk(&[&[hello][..], &first, &second].concat())]);
    let output = server.run(&["--json", "--top", "-i", "0.01", "-r", "1"], "");
    assert!(output.status.success() && output.stdout.ends_with(b"}\n"), "{output:?}");
}

#[test]
fn hot_keys_need_an_lfu_policy() {
    let scan = ("SCAN 0", "*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    let counters =
        [("READONLY", "+OK\r\n"), ("DBSIZE", ":2\r\n"), scan, ("OBJECT FREQ a", ""), ("OBJECT FREQ b", ":3\r\n:9\r\n")];
    let output = Server::start(vec![talk(&counters)]).run(&["--hotkeys"], "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = "hot key found with counter: 9\tkeyname: \"b\"\nhot key found with counter: 3\tkeyname: \"a\"\n";
    assert!(text.ends_with(expected), "{text}");
    let refusals = [
        ("READONLY", "+OK\r\n"),
        ("DBSIZE", ":2\r\n"),
        scan,
        ("OBJECT FREQ a", ""),
        ("OBJECT FREQ b", "-ERR no\r\n-ERR no\r\n"),
    ];
    let output = Server::start(vec![talk(&refusals)]).run(&["--hotkeys"], "");
    assert_eq!((output.status.code(), output.stderr), (Some(1), b"Error: ERR no\n".to_vec()));
}

/// Answers a pipe: `replies` to the requests before the mark, then the mark itself if `echoes`.
fn pipe_server(input: &'static str, replies: &'static str, echoes: bool) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let end = b"\r\n*2\r\n$4\r\nECHO\r\n$20\r\n";
        let mut received = vec![0; input.len() + end.len() + 22];
        stream.read_exact(&mut received).unwrap();
        assert_eq!(received[..input.len()], *input.as_bytes());
        assert_eq!(received[input.len()..input.len() + end.len()], end[..]);
        stream.write_all(replies.as_bytes()).unwrap();
        if echoes {
            let mark = &received[input.len() + end.len()..];
            stream.write_all(&[b"$20\r\n", mark].concat()).unwrap();
        }
        let mut rest = Vec::new();
        // The program may leave with replies unread.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty());
    });
    (port, thread)
}

#[test]
fn a_pipe_counts_replies_and_errors() {
    let sent = "All data transferred. Waiting for the last reply...\n";
    let (port, server) = pipe_server("set a b\r\nfoo\r\n", "+OK\r\n-ERR no\r\n", true);
    let output = run(&["-p", &port.to_string(), "--pipe"], "set a b\r\nfoo\r\n");
    check(output, 1, &format!("{sent}Last reply received from server.\nerrors: 1, replies: 2\n"), "ERR no\n");
    server.join().unwrap();
    let (port, server) = pipe_server("ping\r\n", "+PONG\r\n", true);
    let output = run(&["-p", &port.to_string(), "--pipe"], "ping\r\n");
    check(output, 0, &format!("{sent}Last reply received from server.\nerrors: 0, replies: 1\n"), "");
    server.join().unwrap();
    let (port, server) = pipe_server("ping\r\n", "", false);
    let output = run(&["-p", &port.to_string(), "--pipe", "--pipe-timeout", "1"], "ping\r\n");
    check(output, 1, &format!("{sent}errors: 1, replies: 0\n"), "No replies for 1 seconds: exiting.\n");
    server.join().unwrap();
}

#[test]
fn stat_goes_on_when_the_connection_is_lost() {
    let info = "$51\r\nused_memory:2048\r\nconnected_clients:3\r\ndb0:keys=7\r\n\r\n";
    let first = Conversation { server_closes: true, ..talk(&[("INFO", info)]) };
    let second = Conversation { server_closes: true, ..talk(&[("INFO", info), ("INFO", "-ERR enough\r\n")]) };
    let output = Server::start(vec![first, second]).run(&["--stat", "-i", "0.01"], "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = "7          2.00K    3       0       0 (+0)              0           \n";
    let again = "\r\u{1b}[0KReconnecting... 1\r\r\u{1b}[0K";
    assert!(text.ends_with(&[line, again, line].concat()), "{text:?}");
    assert_eq!((output.status.code(), output.stderr), (Some(1), b"ERROR: ERR enough\n".to_vec()));
}

#[test]
fn the_intrinsic_latency_needs_no_server() {
    let output = run(&["--intrinsic-latency", "0"], "");
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains(" total runs (avg latency: "));
}

#[test]
fn a_script_comes_from_a_file() {
    let path = std::env::temp_dir().join(format!("cinnabar-cli-program-{}.lua", std::process::id()));
    std::fs::write(&path, "script").unwrap();
    let server = Server::start(vec![talk(&[("EVAL script 1 k v", ":5\r\n")])]);
    check(server.run(&["--eval", path.to_str().unwrap(), "k", ",", "v"], ""), 0, "5\n", "");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_password_may_be_typed() {
    let server = Server::start(vec![talk(&[("AUTH se", "+OK\r\n"), ("ping", "+PONG\r\n")])]);
    check(server.run(&["--askpass", "ping"], "sx\u{7f}e\n"), 0, "PONG\n", "");
}

#[test]
fn whether_there_are_subscriptions_can_be_asked() {
    let server = Server::start(vec![talk(&[])]);
    check(server.run(&[], ":get pubsub\n"), 0, "0\n", "");
}

#[test]
fn a_cluster_is_followed_only_when_asked_to() {
    let there = Server::start(vec![talk(&[("ASKING", "+OK\r\n"), ("set k v", "+OK\r\n")])]);
    let error = format!("-ASK 12182 127.0.0.1:{}\r\n", there.port);
    let here = Server::start(vec![Conversation { server_closes: true, ..talk(&[("set k v", &error)]) }]);
    check(here.run(&["-c", "set", "k", "v"], ""), 0, "OK\n", "");
    there.thread.join().unwrap();
    let here = Server::start(vec![talk(&[("set k v", "-MOVED 1 127.0.0.1:1\r\n")])]);
    check(here.run(&["set", "k", "v"], ""), 0, "MOVED 1 127.0.0.1:1\n\n", "");
}

#[test]
fn hints_come_from_the_server_or_from_what_is_known() {
    let argument = "*1\r\n*4\r\n$4\r\nname\r\n$1\r\nn\r\n$4\r\ntype\r\n$7\r\ninteger\r\n";
    let docs = format!("*2\r\n$3\r\nget\r\n*4\r\n$7\r\nsummary\r\n$2\r\nS.\r\n$9\r\narguments\r\n{argument}");
    let server = Server::start(vec![talk(&[("COMMAND DOCS", &docs)])]);
    check(server.run(&["--test_hint", "GET "], ""), 0, "n\n", "");
    let server = Server::start(vec![talk(&[("COMMAND DOCS", "-NOPERM\r\n"), ("COMMAND", "-NOPERM\r\n")])]);
    check(server.run(&["--test_hint", "GET "], ""), 0, "key\n", "");
    let table = "*2\r\n*1\r\n$3\r\nget\r\n*1\r\n$6\r\nmod.do\r\n";
    let old = || Server::start(vec![talk(&[("COMMAND DOCS", "-ERR\r\n"), ("COMMAND", table)])]);
    check(old().run(&["--test_hint", "GET "], ""), 0, "key\n", "");
    check(old().run(&["--test_hint", "MOD.DO "], ""), 0, "\n", "");
    check(old().run(&["--test_hint", "set "], ""), 0, "", "");
    check(run(&["-p", "1", "--test_hint", "LPUSH k "], ""), 0, "element [element ...]\n", "");
    check(run(&["-p", "1", "--test_hint", "nope "], ""), 0, "", "");
    let help = run(&["-p", "1", "help", "get"], "");
    assert!(String::from_utf8_lossy(&help.stdout).contains("Returns the string value of a key."));
}
