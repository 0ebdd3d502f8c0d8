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

/// Writes a request of these words as its client sends it.
fn add_request(bytes: &mut Vec<u8>, words: &[&str]) {
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    words.iter().for_each(|word| bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes()));
}

#[test]
fn requests_that_come_together_are_answered_in_their_order() {
    if is_peer() {
        return;
    }
    const TURNS: usize = 300;
    let [here, owner] = two_nodes();
    let mut sockets: Vec<_> = (0..4).map(|_| here.socket()).collect();
    let large = "x".repeat(70_000);
    let mut expected = Vec::new();
    for (at, socket) in sockets.iter_mut().enumerate() {
        let (count, text, list) = (format!("{{a}}count{at}"), format!("{{a}}text{at}"), format!("{{a}}list{at}"));
        let own = format!("{{c}}count{at}");
        let (mut requests, mut replies) = (Vec::new(), String::new());
        for turn in 1..=TURNS {
            let mut say = |words: &[&str], reply: &str| {
                add_request(&mut requests, words);
                replies.push_str(reply);
            };
            say(&["INCR", &count], &format!(":{turn}\r\n"));
            match turn % 50 {
                7 => say(&["SET", &text, &large], "+OK\r\n"),
                8 => say(&["GET", &text], &format!("$70000\r\n{large}\r\n")),
                10 => say(&["INCR", &own], &format!(":{}\r\n", turn / 50 + 1)),
                20 => say(&["RPUSH", &list, "e"], &format!(":{}\r\n", turn / 50 + 1)),
                21 => say(&["LRANGE", &list, "0", "0"], "*1\r\n$1\r\ne\r\n"),
                30 => say(&["INCR", &text], "-ERR value is not an integer or out of range\r\n"),
                31 => say(
                    &["MGET", &own, &count],
                    &format!("*2\r\n$1\r\n{}\r\n${}\r\n{turn}\r\n", turn / 50 + 1, turn.to_string().len()),
                ),
                40 => say(&["PING"], "+PONG\r\n"),
                _ => {}
            }
        }
        send(socket, &requests);
        expected.push(replies);
    }
    for (mut socket, replies) in sockets.into_iter().zip(expected) {
        expect_bytes(&mut socket, replies.as_bytes());
    }
    assert!(here.stop().success() && owner.stop().success());
}
