//! A node that asks other nodes of its cluster for clients that know nothing of clusters (`cluster-proxy yes`).

use crate::dialogue::{ask, ask_integer, show, show_error};
use crate::failing_disks::expect_silence;
use crate::harness::{eventually, expect_bytes, is_peer, send};
use crate::removed_users::two_nodes;
use redis::{Connection, Value};
use std::io::Read;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Asks with words that may have blanks in them.
fn say(client: &mut Connection, words: &[&str]) -> String {
    let mut request = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| _ = request.arg(word));
    match request.query::<Value>(client) {
        Ok(value) => show(&value),
        Err(error) => show_error(&error),
    }
}

#[test]
fn a_library_that_is_loaded_through_a_node_is_called_with_any_key() {
    if is_peer() {
        return;
    }
    let [here, owner] = two_nodes();
    let (mut client, mut there) = (here.client(), owner.client());
    let code = "#!lua name=lib\nserver.register_function('f', function(keys) return server.call('incr', keys[1]) end)";
    assert_eq!(say(&mut client, &["FUNCTION", "LOAD", code]), "\"lib\"");
    // The first key is the other node's, and the second one is this node's.
    for line in ["FCALL f 1 {a}n", "FCALL f 1 {c}n"] {
        assert_eq!(ask(&mut client, line), "1", "{line}");
    }
    assert_eq!(ask_integer(&mut there, "FCALL f 1 {a}n"), 2);
    let taken = "-ERR Library 'lib' already exists";
    assert_eq!(say(&mut client, &["FUNCTION", "LOAD", code]), taken);
    let payload = redis::cmd("FUNCTION").arg("DUMP").query::<Vec<u8>>(&mut client).expect("a dump");
    assert_eq!(ask(&mut there, "CLIENT CAPA moved"), "OK");
    assert_eq!(ask(&mut there, "FUNCTION FLUSH"), "OK");
    let named = format!("{taken} (node 127.0.0.1:{})", here.port);
    assert_eq!(say(&mut client, &["FUNCTION", "LOAD", code]), named, "the other node has it not");
    assert_eq!(ask(&mut client, "FUNCTION DELETE lib"), "OK");
    for client in [&mut client, &mut there] {
        assert_eq!(ask(client, "FUNCTION LIST"), "[]");
    }
    let restored = redis::cmd("FUNCTION").arg("RESTORE").arg(&payload).query::<String>(&mut client);
    assert_eq!(restored.as_deref(), Ok("OK"));
    assert_eq!(ask(&mut client, "FCALL f 1 {a}n"), "3");
    assert_eq!(ask(&mut client, "FUNCTION FLUSH"), "OK");
    assert_eq!(ask(&mut client, "FCALL f 1 {a}n"), "-ERR Function not found");
    assert!(here.stop().success() && owner.stop().success());
}

#[test]
fn a_script_that_is_loaded_through_a_node_is_known_at_all() {
    if is_peer() {
        return;
    }
    let [here, owner] = two_nodes();
    let (mut client, mut there) = (here.client(), owner.client());
    assert_eq!(ask(&mut there, "CLIENT CAPA moved"), "OK");
    let sha = say(&mut client, &["SCRIPT", "LOAD", "return 7"]).trim_matches('"').to_owned();
    assert_eq!(ask_integer(&mut there, &format!("EVALSHA {sha} 1 {{a}}")), 7);
    let (exists, other) = (format!("SCRIPT EXISTS {sha} {:040}", 1), ask(&mut there, &format!("SCRIPT EXISTS {sha}")));
    assert_eq!((ask(&mut client, &exists), other), ("[1, 0]".to_owned(), "[1]".to_owned()));
    assert_eq!(ask(&mut there, "SCRIPT FLUSH"), "OK");
    assert_eq!(ask(&mut client, &exists), "[0, 0]", "one node has it not");
    say(&mut client, &["SCRIPT", "LOAD", "return 7"]);
    assert_eq!(ask(&mut client, "SCRIPT FLUSH"), "OK");
    for client in [&mut client, &mut there] {
        assert!(ask(client, &format!("EVALSHA {sha} 0")).starts_with("-NOSCRIPT "));
    }
    assert!(here.stop().success() && owner.stop().success());
}

#[test]
fn a_command_that_takes_long_at_its_owner_is_waited_for_and_holds_no_other_client() {
    if is_peer() {
        return;
    }
    let [here, owner] = two_nodes();
    let (mut client, mut there) = (here.client(), owner.client());
    assert_eq!(ask(&mut client, "CONFIG SET cluster-node-timeout 3000"), "OK");
    let mut asking = here.socket();
    send(&mut asking, b"EVAL \"while true do end\" 1 {a}\r\n");
    let begun = Instant::now();
    assert!(eventually(|| ask(&mut there, "CLIENT LIST").contains(" cmd=eval ")));
    // A key in the shard of the script waits, and so does a connection at the owner that has the worker of the script.
    let (mut names, mut waiting) = ((0..).map(|number| format!("k{number}")), Vec::new());
    let mut is_another_answered = || {
        let is_there = |name: &String| ask_integer(&mut client, &format!("CLUSTER KEYSLOT {name}")) >= 8192;
        let name = names.find(is_there).expect("a name");
        let mut socket = here.socket();
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
        send(&mut socket, format!("GET {name}\r\n").as_bytes());
        let mut reply = [0; 5];
        // The owner is busy for all of its clients after a while.
        let is_answered = socket.read_exact(&mut reply).is_ok() && [b"$-1\r\n", b"-BUSY"].contains(&&reply);
        waiting.push(socket);
        is_answered
    };
    assert!(eventually(&mut is_another_answered));
    while begun.elapsed() < Duration::from_millis(4000) {
        expect_silence(&mut asking);
        sleep(Duration::from_millis(50));
    }
    assert!(eventually(&mut is_another_answered));
    let configured = ask(&mut there, "CONFIG SET busy-reply-threshold 1");
    assert!(configured == "OK" || configured.starts_with("-BUSY "), "{configured}");
    assert!(eventually(|| ask(&mut there, "SCRIPT KILL") == "OK"));
    expect_bytes(&mut asking, b"-ERR Script killed by user with SCRIPT KILL.");
    assert!(here.stop().success() && owner.stop().success());
}
