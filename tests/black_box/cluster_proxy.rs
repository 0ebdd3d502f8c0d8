//! A node that asks other nodes of its cluster for clients that know nothing of clusters (`cluster-proxy yes`).

use crate::dialogue::{ask, ask_integer, show, show_error};
use crate::harness::is_peer;
use crate::removed_users::two_nodes;
use redis::{Connection, Value};

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
