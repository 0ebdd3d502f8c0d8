//! The append-only file: turned on and off, read again, torn and mended. `crashes.rs` kills the server.

use crate::crashes::count;
use crate::harness::{Server, eventually, free_port, is_peer, run_to_end};
use redis::{RedisResult, cmd};
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn writes_that_waitaof_confirmed_are_there_with_everysec() {
    let mut server = Server::start(&["--appendonly", "yes"]);
    let mut connection = server.client();
    for _ in 0..100 {
        count(&mut connection, 0).expect("a number");
    }
    let durable: (u64, u64) = cmd("WAITAOF").arg(&[1, 0, 0]).query(&mut connection).expect("two numbers");
    assert_eq!(durable, (1, 0));
    server.crash();
    assert_eq!(cmd("GET").arg("one:0").query::<u64>(&mut server.client()), Ok(100));
}

#[test]
fn a_log_that_is_turned_on_begins_with_what_there_is() {
    let mut server = Server::start(&[]);
    let mut connection = server.client();
    let mut run = |words: &[&str]| cmd(words[0]).arg(&words[1..]).query::<redis::Value>(&mut connection);
    run(&["SET", "before", "1"]).expect("OK");
    assert!(run(&["WAITAOF", "1", "0", "0"]).is_err());
    run(&["CONFIG", "SET", "appendonly", "yes"]).expect("OK");
    run(&["SET", "after", "2"]).expect("OK");
    let is_on = |found: RedisResult<redis::Value>| format!("{found:?}").contains("aof_rewrite_in_progress:0");
    assert!(eventually(|| is_on(run(&["INFO", "persistence"]))));
    run(&["CONFIG", "SET", "appendfsync", "always"]).expect("OK");
    run(&["HSET", "last", "f", "v"]).expect("OK");
    // The file says that there is a log when it is started once more.
    run(&["CONFIG", "SET", "appendonly", "no"]).expect("OK");
    run(&["SET", "unlogged", "3"]).expect("OK");
    run(&["CONFIG", "SET", "appendonly", "yes"]).expect("OK");
    assert!(eventually(|| is_on(run(&["INFO", "persistence"]))));
    assert_eq!(fs::read_dir(server.folder.path().join("appendonlydir")).expect("the log's folder").count(), 3);
    run(&["DEL", "before"]).expect("a number");
    let loaded = Server::start_with(|folder, port| {
        let (from, to) = (server.folder.path().join("appendonlydir"), folder.path().join("appendonlydir"));
        fs::create_dir_all(&to).expect("a folder");
        for entry in fs::read_dir(from).expect("the log's folder") {
            let entry = entry.expect("a file");
            fs::copy(entry.path(), to.join(entry.file_name())).expect("to copy a file");
        }
        let port = port.to_string();
        ["--port", &port, "--save", "", "--appendonly", "yes"].iter().map(|word| (*word).to_owned()).collect()
    });
    let mut connection = loaded.client();
    assert!(eventually(|| cmd("DBSIZE").query::<u64>(&mut connection) == Ok(3)));
    server.crash();
    assert_eq!(cmd("DBSIZE").query::<u64>(&mut server.client()), Ok(0), "it does not know of its log");
}

#[test]
fn a_save_goes_on_beside_a_rewrite() {
    let server = Server::start(&["--appendonly", "yes", "--enable-debug-command", "yes"]);
    let mut connection = server.client();
    let mut run = |words: &str| {
        let words: Vec<_> = words.split(' ').collect();
        cmd(words[0]).arg(&words[1..]).query::<redis::Value>(&mut connection).map(|value| format!("{value:?}"))
    };
    run("DEBUG POPULATE 2000").expect("OK");
    run("CONFIG SET rdb-key-save-delay 200").expect("OK");
    run("BGREWRITEAOF").expect("that it begins");
    assert!(run("BGSAVE").is_err(), "there is a rewrite");
    run("SAVE").expect("OK");
    assert!(server.folder.path().join("dump.rdb").exists());
}

#[test]
fn a_log_that_is_not_there_cannot_be_read_again() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut connection = server.client();
    cmd("SET").arg(&["a", "1"]).query::<()>(&mut connection).expect("OK");
    let again = cmd("DEBUG").arg("LOADAOF").query::<()>(&mut connection);
    assert!(again.is_err_and(|error| error.to_string().contains("trying to load the AOF files")));
    assert_eq!(cmd("DBSIZE").query::<u64>(&mut connection), Ok(0));
}

/// Runs the check tool on a file in the server's folder: whether it finds all well, and what it says.
fn check(folder: &crate::harness::Folder, arguments: &[&str], answer: &str) -> (bool, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cinnabar-check-aof"))
        .args(arguments)
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the tool");
    child.stdin.take().expect("its input").write_all(answer.as_bytes()).expect("to answer");
    let output = child.wait_with_output().expect("its end");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn append_to(path: &Path, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path).expect("a file");
    file.write_all(bytes).expect("to write");
}

#[test]
fn a_torn_end_is_found_and_cut_off() {
    if is_peer() {
        return;
    }
    let mut server = Server::start(&["--appendonly", "yes", "--aof-load-truncated", "no"]);
    assert_eq!(count(&mut server.client(), 0), Ok(1));
    let manifest = "appendonlydir/appendonly.aof.manifest";
    let (well, text) = check(&server.folder, &[manifest], "");
    assert!(well && text.ends_with("All AOF files and manifest are valid\n"), "{text}");
    server.signal("KILL");
    let path = server.folder.path().join("appendonlydir/appendonly.aof.1.incr.aof");
    let len = fs::metadata(&path).expect("the log").len();
    append_to(&path, b"*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$5\r\none:0\r\n");
    let (well, text) = check(&server.folder, &[manifest], "");
    assert!(!well && text.contains("Reached EOF before reading EXEC for MULTI"), "{text}");
    let (well, text) = check(&server.folder, &["--fix", manifest], "no\n");
    assert!(!well && text.ends_with("Continue? [y/N]: Aborting...\n"), "{text}");
    let (well, text) = check(&server.folder, &["--fix", manifest], "y\n");
    assert!(well && text.contains("Successfully truncated AOF appendonly.aof.1.incr.aof"), "{text}");
    assert_eq!(fs::metadata(&path).expect("the log").len(), len);
    server.crash();
    assert_eq!(count(&mut server.client(), 0), Ok(2));
}

/// A rewrite lists the next file before the file before it is written to its end.
#[test]
fn a_torn_end_before_an_empty_file_is_the_end() {
    if is_peer() {
        return;
    }
    let mut server = Server::start(&["--appendonly", "yes"]);
    assert_eq!(count(&mut server.client(), 0), Ok(1));
    server.signal("KILL");
    let folder = server.folder.path().join("appendonlydir");
    let append = |name: &str, bytes: &[u8]| append_to(&folder.join(name), bytes);
    append("appendonly.aof.1.incr.aof", b"*2\r\n$4\r\nINCR\r\n$5\r\none");
    append("appendonly.aof.2.incr.aof", b"");
    append("appendonly.aof.manifest", b"file appendonly.aof.2.incr.aof seq 2 type i\n");
    server.crash();
    assert_eq!(count(&mut server.client(), 0), Ok(2));
    server.crash();
    assert_eq!(count(&mut server.client(), 0), Ok(3));
}

/// The torn file stays as it is: cut off, it would look whole to the next start, and the log would have a gap.
#[test]
fn a_torn_end_before_other_changes_is_refused_at_every_start() {
    if is_peer() {
        return;
    }
    let server = Server::start(&["--appendonly", "yes"]);
    assert_eq!(count(&mut server.client(), 0), Ok(1));
    server.signal("KILL");
    let folder = server.folder.path().join("appendonlydir");
    let append = |name: &str, bytes: &[u8]| append_to(&folder.join(name), bytes);
    append("appendonly.aof.1.incr.aof", b"*2\r\n$4\r\nINCR\r\n$5\r\none");
    append("appendonly.aof.2.incr.aof", b"*2\r\n$4\r\nINCR\r\n$5\r\none:0\r\n");
    append("appendonly.aof.manifest", b"file appendonly.aof.2.incr.aof seq 2 type i\n");
    let length = || fs::metadata(folder.join("appendonly.aof.1.incr.aof")).expect("the log").len();
    let torn = length();
    for _ in 0..2 {
        let (status, _) = run_to_end(&server.folder, &["--port", &free_port().to_string(), "--appendonly", "yes"]);
        let log = server.folder.read("stdout");
        assert!(status.code() == Some(1) && log.contains("the truncated file is not the last file"), "{log}");
        assert_eq!(length(), torn);
    }
}

/// Returns the replies to producers, and the facts about all producers but the number of their duplicates, which is not
/// logged.
fn ask_producers(server: &Server) -> String {
    let mut connection = server.client();
    let mut answers = Vec::new();
    for message in ["first", "second", "tenth"] {
        let words = ["jobs", "IDMP", "producer", message, "*", "job", "again"];
        answers.push(cmd("XADD").arg(&words).query::<String>(&mut connection).expect("an id"));
    }
    let words = ["jobs", "IDMPAUTO", "other", "*", "job", "the same"];
    answers.push(cmd("XADD").arg(&words).query::<String>(&mut connection).expect("an id"));
    let info: HashMap<String, redis::Value> =
        cmd("XINFO").arg(&["STREAM", "jobs"]).query(&mut connection).expect("what is known");
    for field in ["length", "idmp-duration", "idmp-maxsize", "pids-tracked", "iids-tracked", "iids-added"] {
        answers.push(format!("{field} {:?}", info[field]));
    }
    answers.join("\n")
}

#[test]
fn producers_are_known_after_the_log_was_read() {
    if is_peer() {
        return;
    }
    for preamble in ["yes", "no"] {
        let mut server = Server::start(&["--appendonly", "yes", "--aof-use-rdb-preamble", preamble]);
        let mut connection = server.client();
        let mut run = |words: &str| {
            let words: Vec<_> = words.split(' ').collect();
            cmd(words[0]).arg(&words[1..]).query::<redis::Value>(&mut connection).expect(words[0])
        };
        run("XADD jobs IDMP producer forgotten * job 0");
        run("XCFGSET jobs IDMP-DURATION 900 IDMP-MAXSIZE 3");
        for message in ["zeroth", "first", "second"] {
            run(&format!("XADD jobs IDMP producer {message} * job {message}"));
        }
        run("XADD jobs MAXLEN ~ 1000 IDMP producer tenth * job 10");
        cmd("XADD")
            .arg(&["jobs", "IDMPAUTO", "other", "*", "job", "the same"])
            .query::<String>(&mut connection)
            .expect("an id");
        let before = ask_producers(&server);
        assert!(before.contains("length int(6)") && before.contains("iids-added int(6)"), "{before}");
        // From the commands as they were logged, and from a rewritten log.
        server.crash();
        assert_eq!(ask_producers(&server), before, "{preamble}");
        let mut connection = server.client();
        cmd("BGREWRITEAOF").query::<String>(&mut connection).expect("that it begins");
        let mut is_over = || {
            let info: String = cmd("INFO").arg("persistence").query(&mut connection).expect("INFO");
            info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
        };
        assert!(eventually(&mut is_over));
        server.crash();
        assert_eq!(ask_producers(&server), before, "{preamble}, rewritten");
        // One that was not sent before is a new entry, at its first time.
        let mut connection = server.client();
        let mut send = || {
            let words = ["jobs", "IDMP", "producer", "zeroth", "*", "job", "new"];
            cmd("XADD").arg(&words).query::<String>(&mut connection).expect("an id")
        };
        let new = send();
        assert!(!before.contains(&new) && send() == new);
        assert!(server.stop().success());
    }
}

/// Statistics of the logged commands were counted when they ran, and a load does not count them again.
#[test]
fn statistics_begin_anew_with_the_server() {
    let options = ["--appendonly", "yes", "--appendfsync", "always", "--slowlog-log-slower-than", "0"];
    let mut server = Server::start(&options);
    let mut connection = server.client();
    let mut run =
        |words: &[&str]| cmd(words[0]).arg(&words[1..]).query::<redis::Value>(&mut connection).expect("a reply");
    run(&["MULTI"]);
    run(&["SET", "k", "1"]);
    run(&["SELECT", "1"]);
    run(&["RPUSH", "l", "1"]);
    run(&["EXEC"]);
    run(&["EVAL", "redis.call('SET', 'a', '1') return redis.call('INCR', 'a')", "0"]);
    let incr = fs::read_dir(server.folder.path().join("appendonlydir")).expect("the log's folder");
    let mut incr = incr.map(|file| file.expect("a file").path()).filter(|path| path.to_string_lossy().contains("incr"));
    let incr = incr.next().expect("a file of changes");
    let failing =
        b"*2\r\n$4\r\nINCR\r\n$1\r\nl\r\n*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\nl\r\n*1\r\n$4\r\nEXEC\r\n";
    fs::OpenOptions::new().append(true).open(incr).expect("the file").write_all(failing).expect("to write");
    server.crash();
    let mut connection = server.client();
    let mut ask =
        |words: &[&str]| cmd(words[0]).arg(&words[1..]).query::<redis::Value>(&mut connection).expect("a reply");
    let shown = |value: redis::Value| format!("{value:?}");
    let commands = shown(ask(&["INFO", "commandstats"]));
    for name in ["set", "rpush", "select", "exec"] {
        assert!(!commands.contains(&format!("cmdstat_{name}:")), "{name}: {commands}");
    }
    assert!(commands.contains("cmdstat_incr:calls=0,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=2"));
    assert!(!shown(ask(&["SLOWLOG", "GET", "-1"])).contains("RPUSH"));
    assert!(!shown(ask(&["LATENCY", "HISTOGRAM"])).contains("rpush"));
    assert!(shown(ask(&["INFO", "stats"])).contains("unexpected_error_replies:2"));
    let told = "is sending an error to its AOF-loading-client: '-WRONGTYPE Operation against a key holding the wrong kind of value' after processing the command";
    for name in ["incr", "exec"] {
        assert!(server.folder.read("stdout").contains(&format!("{told} '{name}'")), "{name}");
    }
}
