//! Long commands lend their worker: while one works on a large key, other clients of its worker are answered.

use crate::dialogue::{ask, ask_integer};
use crate::harness::{Server, bytes_of, eventually, expect_bytes, on_each_thread_count, send};
use std::io::ErrorKind;
use std::net::TcpStream;

/// Elements of a key, so many that each command on it takes far longer than a few requests.
const MEMBERS: usize = 200_000;
const PER_COMMAND: usize = 1000;
/// Bytes of a long string, as long as a build without optimization takes a while with.
const BYTES: usize = 48 << 20;
/// Number of runs of a command that may end too early.
const TRIES: usize = 20;

/// Sends `word key` with what `arguments` makes of each member.
fn fill(server: &Server, word: &str, key: &str, arguments: impl Fn(usize, &mut redis::Cmd)) {
    let mut client = server.client();
    for start in (0..MEMBERS).step_by(PER_COMMAND) {
        let mut command = redis::cmd(word);
        command.arg(key);
        (start..start + PER_COMMAND).for_each(|n| arguments(n, &mut command));
        command.exec(&mut client).expect("a reply");
    }
}

/// Whether nothing has arrived.
fn is_waiting(socket: &TcpStream) -> bool {
    socket.set_nonblocking(true).expect("a socket");
    let peeked = socket.peek(&mut [0]);
    socket.set_nonblocking(false).expect("a socket");
    peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn id_of(socket: &mut TcpStream) -> String {
    send(socket, b"CLIENT ID\r\n");
    let mut line = String::new();
    while !line.ends_with("\r\n") {
        line.push(char::from(bytes_of(socket, 1)[0]));
    }
    line[1..].trim().to_owned()
}

/// While the command runs, other clients are answered and ended, and one that wants its key waits. It is run again if
/// it has ended before they all were.
fn others_are_answered_during(server: &Server, command: &str, key: &str) {
    assert!((0..TRIES).any(|_| is_outlasted(server, command, key)), "{command} lends its worker");
}

/// Whether others were answered before the command had ended.
fn is_outlasted(server: &Server, command: &str, key: &str) -> bool {
    let mut others: Vec<redis::Connection> = (0..2).map(|_| server.client()).collect();
    let (mut runs, mut wants, mut victim) = (server.socket(), server.socket(), server.socket());
    let (id, victim_id) = (id_of(&mut runs), id_of(&mut victim));
    let name = command.split(' ').next().expect("a command").to_lowercase();
    send(&mut runs, format!("{command}\r\n").as_bytes());
    let is_listed = |client: &mut redis::Connection| {
        let list = ask(client, &format!("CLIENT LIST ID {id}"));
        list.contains(&format!("cmd={name}"))
    };
    assert!(eventually(|| is_listed(&mut others[0])), "{command} begins");
    send(&mut wants, format!("TYPE {key}\r\n").as_bytes());
    for client in &mut others {
        assert!(ask(client, "INFO").contains("db0:keys="), "{command}");
        assert!(ask(client, "ROLE").contains("master"), "{command}");
        assert!(ask(client, "SCRIPT KILL").starts_with("-NOTBUSY"), "{command}");
        assert_eq!(ask(client, "ECHO x"), "\"x\"", "{command}");
    }
    assert_eq!(ask_integer(&mut others[0], &format!("CLIENT KILL ID {victim_id}")), 1, "{command}");
    let are_waiting = is_waiting(&runs) && is_waiting(&wants);
    // The command ends, and so do the clients that waited for it.
    assert!(!bytes_of(&mut runs, 1).is_empty() && bytes_of(&mut wants, 1) == b"+", "{command}");
    are_waiting
}

#[test]
fn others_are_answered_while_a_command_works_on_large_collections() {
    on_each_thread_count(&[], |server| {
        fill(server, "ZADD", "{t}z", |n, command| _ = command.arg(n % 1000).arg(format!("member:{n}")));
        fill(server, "SADD", "{t}s", |n, command| _ = command.arg(format!("member:{}", n * 2)));
        fill(server, "RPUSH", "{t}l", |n, command| _ = command.arg((n * 7919) % MEMBERS));
        fill(server, "HSET", "{t}h", |n, command| _ = command.arg(format!("field:{n}")).arg(n));
        for (command, key) in [
            ("ZUNIONSTORE {t}d 2 {t}z {t}s", "{t}z"),
            ("ZINTERSTORE {t}d 2 {t}z {t}s", "{t}z"),
            ("ZRANGESTORE {t}d {t}z 0 -1", "{t}z"),
            ("SUNIONSTORE {t}d {t}s {t}s2", "{t}s"),
            ("SORT {t}l STORE {t}d", "{t}l"),
            ("COPY {t}z {t}d REPLACE", "{t}z"),
            ("COPY {t}h {t}d REPLACE", "{t}h"),
            ("ZRANDMEMBER {t}z -200000", "{t}z"),
            ("SRANDMEMBER {t}s 150000", "{t}s"),
            ("HRANDFIELD {t}h -200000", "{t}h"),
            ("SPOP {t}s 100000", "{t}s"),
        ] {
            others_are_answered_during(server, command, key);
        }
    });
}

#[test]
fn others_are_answered_while_a_command_works_on_a_long_stream() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        let run = |script: &str, client: &mut redis::Connection| {
            let done: usize =
                redis::cmd("EVAL").arg(script).arg(1).arg("{t}x").arg(MEMBERS).query(client).expect("a reply");
            assert_eq!(done, MEMBERS);
        };
        let add = "for id = 1, ARGV[1] do redis.call('XADD', KEYS[1], id .. '-1', 'field', id) end return ARGV[1] + 0";
        run(add, &mut client);
        assert_eq!(ask(&mut client, "XGROUP CREATE {t}x g 0"), "OK");
        run("return #redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', KEYS[1], '>')[1][2]", &mut client);
        for command in [
            "XREAD STREAMS {t}x 0",
            "XREADGROUP GROUP g c STREAMS {t}x 0",
            "XPENDING {t}x g - + 200000",
            "XAUTOCLAIM {t}x g d 0 0 COUNT 200000",
            "XINFO STREAM {t}x FULL COUNT 0",
        ] {
            others_are_answered_during(server, command, "{t}x");
        }
    });
}

#[test]
fn others_are_answered_while_a_command_works_on_long_strings_or_on_all_keys() {
    on_each_thread_count(&["--enable-debug-command", "yes"], |server| {
        let mut client = server.client();
        assert_eq!(ask(&mut client, "DEBUG POPULATE 100000"), "OK");
        others_are_answered_during(server, "DEBUG DIGEST", "key:1");
        assert_eq!(ask_integer(&mut client, &format!("SETBIT {{t}}a {} 1", BYTES * 8 - 1)), 0);
        others_are_answered_during(server, "BITOP ONE {t}d {t}a {t}a", "{t}a");
    });
}

#[test]
fn others_are_told_what_goes_on_while_the_data_set_is_reloaded() {
    on_each_thread_count(&["--enable-debug-command", "yes"], |server| {
        let (mut client, mut runs) = (server.client(), server.socket());
        assert_eq!(ask(&mut client, &format!("DEBUG POPULATE {MEMBERS}")), "OK");
        let id = id_of(&mut runs);
        send(&mut runs, b"DEBUG RELOAD\r\n");
        let mut is_listed = || ask(&mut client, &format!("CLIENT LIST ID {id}")).contains("cmd=debug");
        assert!(eventually(&mut is_listed));
        assert!(ask(&mut client, "INFO").contains("loading:") && ask(&mut client, "ROLE").contains("master"));
        assert!(is_waiting(&runs));
        assert!(eventually(|| ask(&mut client, "INFO persistence").contains("loading:1")), "it comes to loading");
        assert!(is_waiting(&runs));
        expect_bytes(&mut runs, b"+OK\r\n");
        assert_eq!(ask_integer(&mut client, "DBSIZE"), MEMBERS as i64);
    });
}

#[test]
fn others_are_answered_while_transactions_and_scripts_run_long_commands() {
    on_each_thread_count(&["--busy-reply-threshold", "0"], |server| {
        fill(server, "ZADD", "{t}z", |n, command| _ = command.arg(n % 1000).arg(format!("member:{n}")));
        others_are_answered_during(
            server,
            "EVAL \"return redis.call('zunionstore', KEYS[1], 1, KEYS[2])\" 2 {t}d {t}z",
            "{t}z",
        );
        let mut client = server.socket();
        send(&mut client, b"MULTI\r\nZUNIONSTORE {t}d 1 {t}z\r\nEXEC\r\nPING\r\n");
        expect_bytes(&mut client, format!("+OK\r\n+QUEUED\r\n*1\r\n:{MEMBERS}\r\n+PONG\r\n").as_bytes());
    });
}
