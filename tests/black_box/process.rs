//! The server as a process: what it writes into its log, what it is called, where it listens, and what it leaves
//! behind.

use crate::dialogue::{ask, dialogue};
use crate::harness::{
    Folder, Server, binary, eventually, expect_bytes, free_port, owned, read_to_close, run_to_end, send, socket_to,
};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

const DEBUGGING: [&str; 2] = ["--enable-debug-command", "yes"];

#[test]
fn renamed_commands_answer_to_their_new_names() {
    let server = Server::start(&["--rename-command", "PING", "knock", "--rename-command", "flushall", ""]);
    let mut client = server.socket();
    send(&mut client, b"PING\r\nKNOCK\r\nFLUSHALL\r\n");
    expect_bytes(&mut client, b"-ERR unknown command 'PING', with args beginning with: \r\n+PONG\r\n");
    expect_bytes(&mut client, b"-ERR unknown command 'FLUSHALL', with args beginning with: \r\n");
    let folder = Folder::new();
    let (_, stderr) = run_to_end(&folder, &["--rename-command", "nosuch", "x"]);
    assert!(stderr.contains("No such command in rename-command"), "{stderr}");
    let (_, stderr) = run_to_end(&folder, &["--rename-command", "get", "set"]);
    assert!(stderr.contains("Target command name already exists"), "{stderr}");
}

#[test]
fn the_log_has_the_form_that_was_asked_for() {
    let server =
        Server::start(&["--log-format", "logfmt", "--log-timestamp-format", "milliseconds", "--logfile", "x.log"]);
    let pid = server.pid();
    let log = server.folder.read("x.log");
    let line = log.lines().find(|line| line.contains("Server initialized")).expect("a line");
    let (start, rest) = line.split_once(" timestamp=\"").expect("a time");
    assert_eq!(start, format!("pid={pid} role=primary"));
    let (time, rest) = rest.split_once('"').expect("the end of the time");
    assert!(time.parse::<u64>().is_ok(), "{line}");
    assert_eq!(rest, " level=notice message=\"Server initialized\"");
    let mut client = server.client();
    dialogue(&mut client, &[("CONFIG SET log-format legacy log-timestamp-format iso8601 loglevel debug", "OK")]);
    drop(server.socket());
    assert!(eventually(|| server.folder.read("x.log").contains(" - Accepted 127.0.0.1:")));
    // Later lines go to a new file when an operator has moved the old one away.
    fs::rename(server.folder.path().join("x.log"), server.folder.path().join("old.log")).expect("moved");
    assert!(!server.folder.path().join("x.log").exists());
    server.signal("TERM");
    assert!(eventually(|| server.folder.read("x.log").contains("bye bye...")));
}

#[test]
fn ports_and_addresses_change_while_it_runs() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let (port, taken) = (free_port(), Server::start(&[]));
    dialogue(
        &mut client,
        &[
            (&format!("CONFIG SET port {port}"), "OK"),
            (
                &format!("CONFIG SET maxmemory 5mb port {}", taken.port),
                "-ERR CONFIG SET failed (possibly related to argument 'port') - Unable to listen on this port. Check server logs.",
            ),
            ("CONFIG GET maxmemory", "[\"maxmemory\", \"0\"]"),
            (
                "CONFIG SET bind 999.9.9.9",
                "-ERR CONFIG SET failed (possibly related to argument 'bind') - Failed to bind to specified addresses.",
            ),
            ("CONFIG SET bind 127.0.0.1", "OK"),
        ],
    );
    let mut moved = socket_to(SocketAddr::from(([127, 0, 0, 1], port)));
    send(&mut moved, b"PING\r\n");
    expect_bytes(&mut moved, b"+PONG\r\n");
    assert!(std::net::TcpStream::connect(("127.0.0.1", server.port)).is_err());
    send(&mut moved, b"CONFIG SET bind \"\"\r\n");
    expect_bytes(&mut moved, b"+OK\r\n");
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn more_clients_than_the_system_has_files_are_refused() {
    let server = Server::start(&[]);
    let mut client = server.socket();
    send(&mut client, b"CONFIG SET maxclients 4000000000\r\n");
    expect_bytes(
        &mut client,
        b"-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to handle the specified number of clients, try with ",
    );
}

#[test]
fn the_title_follows_its_template() {
    let server = Server::start(&["--unixsocket", "a.sock"]);
    let title = || fs::read_to_string(format!("/proc/{}/cmdline", server.pid())).expect("a title");
    assert!(title().trim_end_matches('\0').ends_with(&format!(" *:{}", server.port)), "{:?}", title());
    let mut client = server.client();
    let long = "x".repeat(100);
    dialogue(&mut client, &[(&format!("CONFIG SET proc-title-template {long}-{{port}}-{{unixsocket}}"), "OK")]);
    assert_eq!(title().trim_end_matches('\0'), format!("{long}-{}-a.sock", server.port));
}

#[test]
fn a_daemon_names_itself_and_cleans_up() {
    let folder = Folder::new();
    let port = free_port();
    let options = ["--port", &port.to_string(), "--daemonize", "yes", "--pidfile", "a.pid", "--logfile", "a.log"];
    let (status, stderr) = run_to_end(&folder, &[&options[..], &["--save", "", "--unixsocket", "a.sock"]].concat());
    assert_eq!((status.code(), &stderr[..]), (Some(0), ""));
    assert!(eventually(|| folder.read("a.log").contains("Ready to accept connections unix")));
    let mut client = socket_to(SocketAddr::from(([127, 0, 0, 1], port)));
    send(&mut client, b"PING\r\n");
    expect_bytes(&mut client, b"+PONG\r\n");
    let pid: u32 = folder.read("a.pid").trim_end().parse().expect("the process id");
    assert!(fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("the daemon").contains(&port.to_string()));
    send(&mut client, b"SHUTDOWN NOSAVE\r\n");
    assert_eq!(read_to_close(&mut client), "");
    assert!(eventually(|| folder.read("a.log").contains("bye bye...")));
    assert!(!folder.path().join("a.pid").exists() && !folder.path().join("a.sock").exists());
}

#[test]
fn the_end_without_a_wish_leaves_a_report() {
    for (command, signal, cause, end) in [
        ("", Some("ABRT"), "crashed by signal: 6", 6),
        ("", Some("BUS"), "crashed by signal: 7", 7),
        ("", Some("FPE"), "crashed by signal: 8", 8),
        ("DEBUG SEGFAULT now\r\n", None, "crashed by signal: 11", 11),
        ("DEBUG PANIC\r\n", None, "DEBUG PANIC", 6),
    ] {
        let server = Server::start(&[&DEBUGGING[..], &["--threads", "2"]].concat());
        let mut client = server.socket();
        // The report does not ask for the default user's rights.
        send(&mut client, b"ACL SETUSER default -info\r\n");
        expect_bytes(&mut client, b"+OK\r\n");
        send(&mut client, command.as_bytes());
        if let Some(signal) = signal {
            server.signal(signal);
        }
        let log = || server.folder.read("stdout");
        assert!(eventually(|| log().contains("BUG REPORT END")), "{command}{signal:?}: {}", log());
        let log = log();
        for part in [cause, "STACK TRACE DONE", "worker-0", "# Server\r\n", "CLIENT LIST OUTPUT", "addr=127.0.0.1:"] {
            assert!(log.contains(part), "{command}{signal:?}: no {part:?} in\n{log}");
        }
        let (_, stacks) = log.split_once("STACK TRACE ------\n").expect("stacks");
        let (stacks, _) = stacks.split_once("------ STACK TRACE DONE").expect("their end");
        let unknown: Vec<&str> = stacks.lines().filter(|line| !is_of_a_stack(line.trim())).collect();
        assert!(unknown.is_empty(), "{command}{signal:?}: {unknown:?}");
        for worker in ["worker-0", "worker-1"] {
            let stack = stacks.split("\n\n").find(|stack| stack.contains(&format!(" {worker}: "))).expect("a worker");
            // A panic's stack stands by itself.
            let panicked = command.contains("PANIC") && stack.lines().count() == 1;
            assert!(panicked || stack.contains("event_loop::"), "{command}{signal:?}: {stack}");
        }
        // On a busy machine a thread may come to its signal too late.
        let (_, test) = log.split_once("FAST MEMORY TEST ------\n").expect("the test of the memory");
        let is_late = test.starts_with("There was no test: not all threads stood still.");
        assert!(is_late || test.starts_with("Fast memory test PASSED"), "{command}{signal:?}: {log}");
        assert!(command.is_empty() || stacks.contains("server::debug::crashes::"), "{command}: {stacks}");
        assert_eq!(log.contains(", last command: debug, of client "), !command.is_empty(), "{log}");
        let is_signal = cause != "DEBUG PANIC";
        assert_eq!(log.contains("Killed by PID: "), is_signal, "{log}");
        assert_eq!(log.contains("------ REGISTERS ------\n"), is_signal && cfg!(target_arch = "x86_64"), "{log}");
        assert_eq!(log.contains("CURRENT CLIENT INFO ------\nid="), !command.is_empty(), "{log}");
        assert_eq!(server.wait().signal(), Some(end), "which leaves a core file where the system wants one");
    }
}

/// `3: commands::server::debug::crashes::panic` and `at src/crashes.rs:7:9` of the failed thread, `123 worker-0: S
/// (sleeping) ep_poll` or `D (disk sleep) futex` of others, with frames or the reason that there are none.
fn is_of_a_stack(line: &str) -> bool {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let told = rest.split_once(": ").and_then(|(_, told)| told.split(", last command: ").next());
    let is_frame = first.strip_suffix(':').is_some_and(is_number) || first == "at";
    let is_thread = is_number(first) && told.is_some_and(|told| (2..=4).contains(&told.split(' ').count()));
    line.is_empty() || is_frame || is_thread || line.starts_with("no stack: ")
}

/// The arguments of the client's command, and of the command that a transaction of it runs.
#[test]
fn a_report_shows_the_arguments_that_are_not_to_be_hidden() {
    let long = "z".repeat(300);
    let large = format!("*4\r\n$5\r\nDEBUG\r\n$5\r\nPANIC\r\n$40000\r\n{}\r\n$1\r\nx\r\n", "y".repeat(40_000));
    let shown = |words: &[&str]| -> String {
        let lines = words.iter().enumerate().map(|(at, word)| format!("argv[{at}]: \"{word}\"\n"));
        format!("argc: {}\n{}", words.len(), lines.collect::<String>())
    };
    let cases: [(&str, String, &[&str], &[&str]); 4] = [
        ("no", format!("SET k v\r\nDEBUG SEGFAULT {long}\r\nGET k\r\n"), &["DEBUG", "SEGFAULT", &long[..128]], &[]),
        ("no", large, &["DEBUG", "PANIC", &"y".repeat(128), "x"], &[]),
        ("no", "MULTI\r\nSET k v\r\nDEBUG PANIC key\r\nEXEC\r\n".to_owned(), &["EXEC"], &["DEBUG", "PANIC", "key"]),
        ("yes", "CLIENT SETNAME hidden-name\r\nDEBUG PANIC hidden-word\r\n".to_owned(), &[], &[]),
    ];
    for (hides, request, outer, inner) in cases {
        let options = ["--hide-user-data-from-log", hides, "--crash-memcheck-enabled", "no"];
        let server = Server::start(&[&DEBUGGING[..], &options].concat());
        send(&mut server.socket(), request.as_bytes());
        let log = || server.folder.read("stdout");
        assert!(eventually(|| log().contains("BUG REPORT END")), "{}", log());
        let log = log();
        assert!(!log.contains("MEMORY TEST"), "{log}");
        let (_, told) = log.split_once("------ CURRENT CLIENT INFO ------\n").expect("a client");
        let (current, told) = told.split_once("\n------ EXECUTING CLIENT INFO ------\n").expect("a command");
        let (executing, _) = told.split_once("\n------ MODULES").expect("an end");
        assert!([current, executing].iter().all(|told| told.starts_with("id=")), "{told}");
        if hides == "yes" {
            let hidden = "argc: 3\nargv[0]: \"DEBUG\"\nargv[1]: 5 bytes\nargv[2]: 11 bytes\n";
            assert!(current.ends_with(hidden) && executing.ends_with(hidden), "{current}{executing}");
            assert!(!log.contains("hidden-"), "{log}");
            continue;
        }
        let inner = if inner.is_empty() { outer } else { inner };
        assert!(current.ends_with(&shown(outer)), "{current}");
        assert!(executing.ends_with(&shown(inner)), "{executing}");
    }
}

/// A worker that does not finish its work is shown with its stack, and continues.
#[test]
fn an_alarm_shows_stacks_and_disturbs_nobody() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for round in 1..=3 {
        server.signal("ALRM");
        let reports = || server.folder.read("stdout").matches("STACK TRACE DONE").count();
        assert!(eventually(|| reports() == round), "{}", server.folder.read("stdout"));
        server.signal("USR2");
        dialogue(&mut client, &[("PING", "PONG")]);
    }
    assert!(server.folder.read("stdout").contains("event_loop::"), "{}", server.folder.read("stdout"));
}

#[test]
fn reports_can_be_switched_off_and_a_panic_can_end_like_any_exit() {
    let options = [&DEBUGGING[..], &["--crash-log-enabled", "no", "--use-exit-on-panic", "yes"]].concat();
    let server = Server::start(&options);
    send(&mut server.socket(), b"DEBUG PANIC\r\n");
    assert!(eventually(|| server.folder.read("stdout").contains("DEBUG PANIC")));
    assert!(!server.folder.read("stdout").contains("BUG REPORT"));
    assert_eq!(server.wait().code(), Some(1));
}

#[test]
fn dangerous_commands_must_be_allowed_at_the_start() {
    let server = Server::start_with(|_, port| owned(&["--port", &port.to_string(), "--save", ""]));
    dialogue(
        &mut server.client(),
        &[
            (
                "CONFIG SET dbfilename x.rdb",
                "-ERR CONFIG SET failed (possibly related to argument 'dbfilename') - can't set protected config",
            ),
            (
                "DEBUG SLEEP 0",
                "-ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
            ),
        ],
    );
}

/// Test suites of clients and scripts choose what they try by the first version in the line.
#[test]
fn the_first_version_is_that_of_the_commands() {
    let told = |arguments: &[&str]| {
        let output = Command::new(binary()).args(arguments).output().expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    for option in ["-v", "--version"] {
        let line = told(&[option]);
        let first = line.split_once("v=").and_then(|(_, rest)| rest.split(' ').next()).expect("a version");
        let served = ask(&mut Server::start(&[]).client(), "INFO server");
        assert!(served.contains(&format!("valkey_version:{first}\\r")), "{line}");
        let digits = line.split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty());
        assert_eq!(digits, first.split('.').next(), "{line}");
        assert!(line.starts_with("Cinnabar server v=") && line.contains(" cinnabar="), "{line}");
    }
}
