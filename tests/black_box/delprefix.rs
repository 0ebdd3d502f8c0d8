//! DELPREFIX and DELPATTERN: many keys go while others are served, and a restart and a replica find what is left.

use crate::dialogue::{ask, ask_integer};
use crate::harness::{Server, bytes_of, eventually, on_each_thread_count, send};

const KEYS: usize = 60_000;
/// Commands of other clients during one deletion.
const OTHERS: usize = 200;

fn fill(client: &mut redis::Connection) {
    for start in (0..KEYS).step_by(1000) {
        let mut pipe = redis::pipe();
        for n in start..start + 1000 {
            pipe.set(format!("cache:{n}"), "v").ignore().set(format!("other:{n}"), "v").ignore();
        }
        pipe.exec(client).expect("replies");
    }
}

fn digest(client: &mut redis::Connection) -> String {
    ask(client, "DEBUG DIGEST")
}

fn integer(socket: &mut std::net::TcpStream) -> String {
    let mut line = String::new();
    while !line.ends_with("\r\n") {
        line.push(char::from(bytes_of(socket, 1)[0]));
    }
    line.trim_end().to_owned()
}

#[test]
fn others_write_while_keys_go_and_a_restart_finds_the_same() {
    on_each_thread_count(&["--appendonly", "yes", "--enable-debug-command", "yes"], |server| {
        let (mut client, mut deletes) = (server.client(), server.socket());
        fill(&mut client);
        send(&mut deletes, b"DELPREFIX cache:\r\n");
        for n in 0..OTHERS {
            assert_eq!(ask(&mut client, &format!("SET cache:new:{n} v")), "OK");
            assert_eq!(ask(&mut client, &format!("SET cache:{n} again")), "OK");
            assert_eq!(ask(&mut client, &format!("GET other:{n}")), "\"v\"");
        }
        let deleted: usize = integer(&mut deletes)[1..].parse().expect("a number");
        assert!((KEYS - OTHERS..=KEYS + 2 * OTHERS).contains(&deleted), "{deleted}");
        let left = ask_integer(&mut client, "DBSIZE") as usize;
        assert!((KEYS..=KEYS + 2 * OTHERS).contains(&left), "{left}");
        let mut expected = digest(&mut client);
        assert_eq!(ask_integer(&mut client, "DELPATTERN other:*[13579]"), (KEYS / 2) as i64);
        assert_ne!(digest(&mut client), expected);
        expected = digest(&mut client);
        assert_eq!(ask(&mut client, "DEBUG LOADAOF"), "OK");
        assert_eq!(digest(&mut client), expected);
    });
}

#[test]
fn a_replica_follows_a_deletion() {
    let primary = Server::start(&["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"]);
    let replica = Server::start(&["--enable-debug-command", "yes"]);
    let (mut client, mut follows) = (primary.client(), replica.client());
    fill(&mut client);
    let port = primary.port;
    assert_eq!(ask(&mut follows, &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
    assert_eq!(ask_integer(&mut client, "DELPREFIX cache:"), KEYS as i64);
    let is_up = |follows: &mut redis::Connection| ask(follows, "INFO replication").contains("master_link_status:up");
    assert!(eventually(|| is_up(&mut follows)));
    assert!(eventually(|| digest(&mut client) == digest(&mut follows)));
    assert_eq!(ask_integer(&mut follows, "DBSIZE"), KEYS as i64);
    assert!(ask(&mut follows, "DELPREFIX x").starts_with("-READONLY"));
}

#[test]
fn a_pause_holds_it_up() {
    on_each_thread_count(&[], |server| {
        let (mut client, mut deletes) = (server.client(), server.socket());
        fill(&mut client);
        assert!(ask(&mut client, "INFO stats").contains("mass_deletions_running:0"));
        assert_eq!(ask(&mut client, "CLIENT PAUSE 100000 WRITE"), "OK");
        send(&mut deletes, b"DELPREFIX cache:\r\n");
        assert_eq!(ask_integer(&mut client, "DBSIZE"), 2 * KEYS as i64);
        assert_eq!(ask(&mut client, "CLIENT UNPAUSE"), "OK");
        assert_eq!(integer(&mut deletes), format!(":{KEYS}"));
        assert!(ask(&mut client, "INFO stats").contains("mass_deletions_running:0"));
    });
}
