//! A data set that is read anew while clients write and a replica follows: what was acknowledged is there, once.

use crate::dialogue::{ask, dialogue};
use crate::harness::{Server, eventually};
use redis::{Connection, RedisResult, cmd, pipe};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, ScopedJoinHandle};

const KEYS: u32 = 20_000;
const WRITERS: usize = 3;

fn debugged(options: &[&str]) -> Server {
    let common = ["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];
    Server::start_with_threads(2, &[&common[..], options].concat())
}

fn fill(client: &mut Connection) {
    let mut sets = pipe();
    for key in 0..KEYS {
        sets.cmd("SET").arg(format!("key:{key}")).arg("some value that takes a moment to be saved").ignore();
    }
    sets.exec(client).expect("to write");
}

/// Counts up until the end; returns how often that was acknowledged.
fn count(mut client: Connection, key: &str, ended: &AtomicBool) -> i64 {
    let mut acknowledged = 0;
    while !ended.load(SeqCst) {
        let reply: RedisResult<i64> = cmd("INCR").arg(key).query(&mut client);
        match reply {
            Ok(value) => {
                acknowledged += 1;
                assert_eq!(value, acknowledged, "{key}");
            }
            Err(error) => assert!(error.to_string().contains("loading"), "{error}"),
        }
    }
    acknowledged
}

/// Gives each order to its server while clients write to one, and compares their replies with the data.
fn disturb(server: &Server, orders: &[(&Server, &str)]) {
    let ended = AtomicBool::new(false);
    let keys: [String; WRITERS] = std::array::from_fn(|writer| format!("counter:{writer}"));
    thread::scope(|scope| {
        let writers = keys.each_ref().map(|key| {
            let (client, ended) = (server.client(), &ended);
            scope.spawn(move || count(client, key, ended))
        });
        let replies: Vec<String> = orders.iter().map(|(server, order)| ask(&mut server.client(), order)).collect();
        ended.store(true, SeqCst);
        assert!(replies.iter().all(|reply| reply == "OK"), "{replies:?}");
        let told = writers.map(|writer: ScopedJoinHandle<'_, i64>| writer.join().expect("a writer"));
        for (key, told) in keys.iter().zip(told) {
            assert_eq!(ask(&mut server.client(), &format!("GET {key}")), format!("\"{told}\""));
        }
    });
}

#[test]
fn a_reload_loses_no_acknowledged_write() {
    let server = debugged(&["--appendonly", "yes"]);
    let mut client = server.client();
    fill(&mut client);
    disturb(&server, &["DEBUG RELOAD", "DEBUG LOADAOF", "DEBUG RELOAD"].map(|order| (&server, order)));
    let digest = ask(&mut client, "DEBUG DIGEST");
    assert_eq!(ask(&mut client, "DEBUG LOADAOF"), "OK");
    assert_eq!(ask(&mut client, "DEBUG DIGEST"), digest, "the log has what there is");
}

#[test]
fn a_reload_of_an_older_file_begins_the_log_anew() {
    let mut server = debugged(&["--appendonly", "yes"]);
    let mut client = server.client();
    for line in ["SET old value", "SAVE", "SET new value", "DEL old"] {
        ask(&mut client, line);
    }
    assert_eq!(ask(&mut client, "DEBUG RELOAD NOSAVE"), "OK");
    assert_eq!(ask(&mut client, "SET after value"), "OK");
    let expected = [("EXISTS old", "1"), ("EXISTS new", "0"), ("EXISTS after", "1")];
    dialogue(&mut client, &expected);
    assert_eq!(ask(&mut client, "DEBUG RELOAD NOSAVE NOFLUSH MERGE"), "OK");
    dialogue(&mut client, &expected);
    assert_eq!(ask(&mut client, "WAITAOF 1 0 0"), "[1, 0]");
    server.crash();
    dialogue(&mut server.client(), &expected);
}

#[test]
fn a_reload_of_a_file_that_is_missing_or_torn_leaves_the_log() {
    let mut server = debugged(&["--appendonly", "yes", "--appendfsync", "always"]);
    let refused = "-ERR Error trying to load the RDB dump, check server logs.";
    let mut client = server.client();
    assert_eq!(ask(&mut client, "SET k value"), "OK");
    assert_eq!(ask(&mut client, "DEBUG RELOAD NOSAVE"), refused);
    dialogue(&mut client, &[("GET k", "\"value\""), ("SAVE", "OK")]);
    let file = server.folder.path().join("dump.rdb");
    let whole = fs::read(&file).expect("a file");
    fs::write(&file, &whole[..whole.len() / 2]).expect("to write");
    assert_eq!(ask(&mut client, "DEBUG RELOAD NOSAVE"), refused);
    server.crash();
    dialogue(&mut server.client(), &[("GET k", "\"value\"")]);
}

#[test]
fn replicas_and_primaries_that_reload_stay_equal() {
    let [primary, replica] = std::array::from_fn(|_| debugged(&["--appendonly", "yes"]));
    fill(&mut primary.client());
    assert_eq!(ask(&mut replica.client(), &format!("REPLICAOF 127.0.0.1 {}", primary.port)), "OK");
    assert!(eventually(|| ask(&mut replica.client(), "ROLE").contains("\"connected\"")), "the link stands");
    let orders = [(&replica, "DEBUG RELOAD"), (&primary, "DEBUG RELOAD"), (&replica, "DEBUG LOADAOF")];
    disturb(&primary, &orders);
    let digest = ask(&mut primary.client(), "DEBUG DIGEST");
    assert!(
        eventually(|| ask(&mut replica.client(), "DEBUG DIGEST") == digest),
        "the replica has what the primary has"
    );
    assert!(ask(&mut primary.client(), "INFO stats").contains("sync_full:1"), "the link stood all the time");
}
