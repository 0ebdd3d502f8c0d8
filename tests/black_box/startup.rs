//! How the server starts and ends: command line, configuration file, mistakes in them, signals.

use crate::dialogue::dialogue;
use crate::harness::{Folder, Server, expect_bytes, free_port, owned, read_to_close, run_to_end, send};

#[test]
fn signals_end_it_cleanly() {
    for (signal, threads) in [("TERM", 1), ("TERM", 4), ("INT", 1), ("INT", 4)] {
        let server = Server::start_with_threads(threads, &[]);
        let mut idle = server.socket();
        send(&mut idle, b"PING\r\n");
        expect_bytes(&mut idle, b"+PONG\r\n");
        let mut half_a_request = server.socket();
        send(&mut half_a_request, b"*2\r\n$3\r\nGET\r\n$1");
        server.signal(signal);
        let status = server.wait();
        assert_eq!(status.code(), Some(0), "{signal} with {threads} threads: {status}");
        assert_eq!(read_to_close(&mut idle), "");
    }
}

#[test]
fn configuration_file_and_options_after_it() {
    let server = Server::start_with(|folder, port| {
        let text = format!(
            "# A comment, and an empty line.\n\nport 1\n  maxclients   123\ntimeout 7 \nport {port}\nsave \"\"\nbind 127.0.0.1\n"
        );
        let file = folder.write("cinnabar.conf", &text);
        owned(&[&file.to_string_lossy(), "--timeout", "9"])
    });
    let mut client = server.client();
    dialogue(
        &mut client,
        &[
            ("CONFIG GET maxclients", "[\"maxclients\", \"123\"]"),
            ("CONFIG GET timeout", "[\"timeout\", \"9\"]"),
            ("CONFIG GET bind", "[\"bind\", \"127.0.0.1\"]"),
            ("CONFIG GET save", "[\"save\", \"\"]"),
            (
                "CONFIG SET maxclients abc",
                "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument couldn't be parsed into an integer",
            ),
            ("CONFIG SET nosuch 1", "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"),
        ],
    );
}

#[test]
fn a_mistake_in_the_configuration_is_shown_and_ends_the_start() {
    let cases = [
        (
            "save \"\"\nmaxclients abc\n",
            "at line 2",
            ">>> 'maxclients abc'",
            "argument couldn't be parsed into an integer",
        ),
        ("nosuch 1\n", "at line 1", ">>> 'nosuch 1'", "Bad directive or wrong number of arguments"),
        ("timeout\n", "at line 1", ">>> 'timeout'", "wrong number of arguments"),
        ("bind \"127.0.0.1\n", "at line 1", ">>> 'bind \"127.0.0.1'", "Unbalanced quotes in configuration line"),
        ("port 70000\n", "at line 1", ">>> 'port 70000'", "argument must be between 0 and 65535 inclusive"),
    ];
    for (text, place, line, reason) in cases {
        let folder = Folder::new();
        let file = folder.write("bad.conf", text);
        let (status, stderr) = run_to_end(&folder, &[&file.to_string_lossy()]);
        assert_eq!(status.code(), Some(1), "{stderr}");
        for expected in ["FATAL CONFIG FILE ERROR", place, line, reason] {
            assert!(stderr.contains(expected), "{text:?}: no {expected:?} in\n{stderr}");
        }
    }
}

#[test]
fn a_mistake_on_the_command_line_ends_the_start() {
    let folder = Folder::new();
    let (status, stderr) = run_to_end(&folder, &["--maxclients", "abc"]);
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("argument couldn't be parsed into an integer"), "{stderr}");
    let (status, _) = run_to_end(&folder, &["no-such-file.conf"]);
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_port_that_is_taken_ends_the_start() {
    let server = Server::start(&[]);
    let folder = Folder::new();
    let (status, stderr) =
        run_to_end(&folder, &["--port", &server.port.to_string(), "--save", "", "--bind", "127.0.0.1"]);
    assert_eq!(status.code(), Some(1), "{stderr}");
    let log = folder.read("stdout") + &stderr;
    assert!(log.contains("Address already in use"), "{log}");
}

#[test]
fn a_single_node_of_a_cluster_serves_from_its_start_on() {
    let port = free_port().to_string();
    let options =
        ["--cluster-enabled", "yes", "--cluster-single", "yes", "--cluster-proxy", "yes", "--cluster-port", &port];
    let server = Server::start_with_threads(2, &options);
    let told = [
        ("SET a 1", "OK"),
        ("CLUSTER COUNTKEYSINSLOT 15495", "1"),
        ("MSET a 2 b 3", "OK"),
        ("MGET a b c", "[\"2\", \"3\", nil]"),
        ("DBSIZE", "2"),
        ("MSETNX c 1 d 2", "-CROSSSLOT Keys in request don't hash to the same slot"),
        ("FLUSHALL", "OK"),
        ("KEYS *", "[]"),
    ];
    dialogue(&mut server.client(), &told);
}
