//! [`command::core::cluster_proxy`] with the commands of the rooms.

use crate::core::args::Args;
use crate::core::cluster_proxy::Behind;
use crate::core::context::Flow;
use crate::core::dispatch;
use crate::testing::Client;
use cluster::SLOTS;
use cluster::node::Address;
use cluster::node_id::NodeId;
use cluster::proxy::Follower;
use cluster::slot_map::SlotMap;
use engine::config::Directive;
use engine::data::slot::slot_of;

/// The slot of `{c}`, which is the other node's; those below it are, too.
const C: u16 = 7365;

fn node() -> Client {
    let mut client = Client::new();
    let address =
        |ip: &str, port| Address { ip: ip.to_owned(), tcp_port: port, tls_port: port + 1, ..Address::default() };
    let mut map = SlotMap {
        is_up: true,
        serving: Some(0),
        nodes: vec![(NodeId([b'a'; 40]), address("", 7000)), (NodeId([b'b'; 40]), address("10.0.0.1", 7001))],
        owners: vec![Some(0); SLOTS],
        ..SlotMap::default()
    };
    map.owners[..=usize::from(C)].fill(Some(1));
    client.engine().persistence_status().set_clustered(true);
    client.engine().set_slot_map(map);
    client.shared_engine().config().update(|config| {
        config.set_flag(Directive::CLUSTER_PROXY, true);
        config.set_int(Directive::PORT, 7000);
    });
    client.session().is_proxied = true;
    client
}

/// Returns the nodes' part of a command: `port: words`, and how it is joined; or the immediate reply.
fn asked(client: &mut Client, line: &str) -> String {
    let (engine, now) = (client.shared_engine().clone(), client.now());
    let mut args: Args<'_> = line.split(' ').map(str::as_bytes).collect();
    let prepared = dispatch::prepare(&engine, &args);
    let mut reply = resp::Reply::default();
    match dispatch::run(&engine, client.session(), &prepared, &mut args, now, &mut reply) {
        Flow::Forward(question) => {
            let parts = question.parts.iter().map(|part| {
                let text = String::from_utf8_lossy(&part.bytes);
                let words: Vec<&str> = text.split("\r\n").filter(|line| !line.starts_with(['*', '$'])).collect();
                let asking = if part.asking { "ASKING " } else { "" };
                format!("{}: {asking}{}", part.to.port(), words.join(" ").trim_end())
            });
            let writes = if question.writes { " writes" } else { "" };
            format!("{}; {:?}{writes}", parts.collect::<Vec<_>>().join(", "), question.join)
        }
        _ => String::from_utf8_lossy(reply.as_slice()).trim_end().to_owned(),
    }
}

const MOVED: &str = "-MOVED 7365 10.0.0.1:7001";

#[test]
fn commands_go_to_the_owner_as_they_are() {
    let mut client = node();
    for (line, expected) in [
        ("GET {a}", "$-1"),
        ("GET {c}", "7001: GET {c}; One"),
        ("set {c} 1 EX 5", "7001: set {c} 1 EX 5; One writes"),
        ("RENAME {c}1 {c}2", "7001: RENAME {c}1 {c}2; One writes"),
        ("SPUBLISH {c} m", "7001: SPUBLISH {c} m; One writes"),
        ("EVAL x 1 {c}", "7001: EVAL x 1 {c}; One writes"),
        ("XREAD STREAMS {c} 0", "7001: XREAD STREAMS {c} 0; One"),
        ("XREAD COUNT 1 BLOCK 1 STREAMS {c} 0", MOVED),
        ("BLPOP {c} 1", MOVED),
        ("WATCH {c}", MOVED),
        ("SSUBSCRIBE {c}", MOVED),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
    ] {
        assert_eq!(asked(&mut client, line), expected, "{line}");
    }
    client.is("CLIENT CAPA moved", "+OK");
    assert_eq!(asked(&mut client, "GET {c}"), MOVED);
}

#[test]
fn a_command_that_does_more_than_its_arguments_tell_is_carried_for_a_user_who_may_do_everything_alone() {
    let mut client = node();
    client.is("ACL SETUSER u on nopass +@all ~* db=0 &*", "+OK").is("AUTH u x", "+OK");
    for (line, expected) in [
        ("GET {c}", "7001: GET {c}; One"),
        ("SORT {c} STORE {c}x", "7001: SORT {c} STORE {c}x; One writes"),
        ("SORT {c} GET {c}*", "7001: SORT {c} GET {c}*; One writes"),
        ("COPY {c} {c}x", "7001: COPY {c} {c}x; One writes"),
        ("COPY {c} {c}x DB 99", MOVED),
        ("EVAL x 1 {c}", MOVED),
        ("FCALL x 1 {c}", MOVED),
        ("FLUSHDB", "7001: FLUSHDB, 7000: FLUSHDB; Alike writes"),
        ("FLUSHALL", "-NOPERM No permissions to access database"),
    ] {
        assert_eq!(asked(&mut client, line), expected, "{line}");
    }
    client.is("MULTI", "+OK").is("GET {c}", "+QUEUED").is("EVAL x 1 {c}", MOVED);
    client.is("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    client.is("ACL SETUSER v on nopass +@all ~{c}1 &*", "+OK").is("AUTH v x", "+OK");
    assert_eq!(asked(&mut client, "SORT {c}1 BY {c}*"), MOVED);
    client.is("ACL SETUSER w on nopass +@all ~* &* quota:memory:x=1", "+OK").is("AUTH w x", "+OK");
    for (line, expected) in [("SET {c} v", MOVED), ("EVAL x 1 {c}", MOVED), ("DEL {c}", "7001: DEL {c}; One writes")] {
        assert_eq!(asked(&mut client, line), expected, "{line}");
    }
}

#[test]
fn some_commands_of_several_slots_are_asked_key_by_key() {
    let mut client = node();
    for (line, expected) in [
        ("MGET {a}1 {c}1", "7000: MGET {a}1, 7001: MGET {c}1; Elements"),
        ("MSET {a}1 x {c}1 y", "7000: MSET {a}1 x, 7001: MSET {c}1 y; AllOk writes"),
        ("MSET {a}1 x {c}1", "-ERR wrong number of arguments for 'mset' command"),
        ("DEL {a}1 {a}1 {c}1", "7000: DEL {a}1, 7000: DEL {a}1, 7001: DEL {c}1; Sum writes"),
        ("EXISTS {a}1 {c}1", "7000: EXISTS {a}1, 7001: EXISTS {c}1; Sum"),
        ("MGET {c}1 {c}2", "7001: MGET {c}1 {c}2; One"),
        ("MGET {a}1 {a}2", "*2\r\n$-1\r\n$-1"),
        ("MSETNX {a}1 x {c}1 y", "-CROSSSLOT Keys in request don't hash to the same slot"),
    ] {
        assert_eq!(asked(&mut client, line), expected, "{line}");
    }
}

#[test]
fn a_scan_finds_its_nodes_whatever_slots_they_have_by_then() {
    let mut client = node();
    let mut map = (*client.engine().cluster().map()).clone();
    map.shards = [b'a', b'b'].map(|letter| NodeId([letter; 40])).to_vec();
    let number = |at: usize| slot_of(map.shards[at].as_str().as_bytes());
    let (here, there) = (number(0), number(1));
    let (first, last) = if here < there { ((here, 7000), (there, 7001)) } else { ((there, 7001), (here, 7000)) };
    let begin = format!("{}: SCAN 0; Page(Pages {{ node: {}, next: Some({}) }})", first.1, first.0, last.0);
    let end = format!("{}: SCAN 3; Page(Pages {{ node: {}, next: None }})", last.1, last.0);
    let cursor = 3 << 14 | u64::from(last.0);
    // Either node has the lowest slot at times.
    for owner in [0, 1] {
        map.owners[0] = Some(owner);
        client.engine().set_slot_map(map.clone());
        assert_eq!(asked(&mut client, "SCAN 0"), begin, "{owner}");
        assert_eq!(asked(&mut client, &format!("SCAN {cursor}")), end, "{owner}");
    }
}

#[test]
fn a_command_about_all_keys_is_sent_to_all_primaries() {
    let mut client = node();
    for (line, expected) in [
        ("DBSIZE", "7001: DBSIZE, 7000: DBSIZE; Sum".to_owned()),
        ("DELPREFIX k", "7001: DELPREFIX k, 7000: DELPREFIX k; Sum writes".to_owned()),
        ("KEYS k*", "7001: KEYS k*, 7000: KEYS k*; Elements".to_owned()),
        ("FLUSHALL ASYNC", "7001: FLUSHALL ASYNC, 7000: FLUSHALL ASYNC; Alike writes".to_owned()),
        ("SCAN 0 COUNT 5", "7000: SCAN 0 COUNT 5; Page(Pages { node: 0, next: Some(1) })".to_owned()),
        ("SCAN 1 COUNT 5", "7001: SCAN 0 COUNT 5; Page(Pages { node: 1, next: None })".to_owned()),
        ("SCAN 16384", "7000: SCAN 1; Page(Pages { node: 0, next: Some(1) })".to_owned()),
        ("SCAN 16391", "7001: SCAN 0; Page(Pages { node: 1, next: None })".to_owned()),
        ("SCAN x", "-ERR invalid cursor".to_owned()),
        ("PING", "+PONG".to_owned()),
    ] {
        assert_eq!(asked(&mut client, line), expected, "{line}");
    }
    let mut map = (*client.engine().cluster().map()).clone();
    map.is_up = false;
    client.engine().set_slot_map(map);
    let expected = "7001: FLUSHALL, 7000: FLUSHALL; Alike writes";
    assert_eq!(asked(&mut client, "FLUSHALL"), expected, "a part of it is not what its client means");
}

#[test]
fn scripts_and_libraries_are_put_at_all_primaries_and_here() {
    let mut client = node();
    for (line, expected) in [
        ("FUNCTION LOAD REPLACE x", "7001: FUNCTION LOAD REPLACE x, 7000: FUNCTION LOAD REPLACE x; Alike writes"),
        ("FUNCTION DELETE x", "7001: FUNCTION DELETE x, 7000: FUNCTION DELETE x; Alike writes"),
        ("FUNCTION FLUSH", "7001: FUNCTION FLUSH, 7000: FUNCTION FLUSH; Alike writes"),
        ("FUNCTION RESTORE x", "7001: FUNCTION RESTORE x, 7000: FUNCTION RESTORE x; Alike writes"),
        ("FUNCTION LIST", "*0"),
        ("SCRIPT LOAD x", "7001: SCRIPT LOAD x, 7000: SCRIPT LOAD x; Alike"),
        ("SCRIPT EXISTS x", "7001: SCRIPT EXISTS x, 7000: SCRIPT EXISTS x; InAll"),
        ("SCRIPT FLUSH", "7001: SCRIPT FLUSH, 7000: SCRIPT FLUSH; Alike"),
        ("FUNCTION LOAD", "-ERR wrong number of arguments for 'function|load' command"),
    ] {
        assert_eq!(asked(&mut client, line), expected, "{line}");
    }
    let mut map = (*client.engine().cluster().map()).clone();
    (map.is_replica, map.serving) = (true, Some(1));
    map.owners.fill(Some(1));
    client.engine().set_slot_map(map);
    assert_eq!(asked(&mut client, "SCRIPT LOAD x"), "7001: SCRIPT LOAD x, 7000: SCRIPT LOAD x; Alike");
    assert_eq!(asked(&mut client, "FUNCTION FLUSH"), "7001: FUNCTION FLUSH; Alike writes");
    let mut client = node();
    client.is("ACL SETUSER u on nopass +@all ~a db=0 &* quota:memory:x=1", "+OK").is("AUTH u x", "+OK");
    assert_eq!(asked(&mut client, "FUNCTION LOAD x"), "7001: FUNCTION LOAD x, 7000: FUNCTION LOAD x; Alike writes");
}

#[test]
fn a_transaction_of_one_slot_goes_to_its_owner_as_a_whole() {
    let mut client = node();
    client.is("MULTI", "+OK").is("SET {c}1 x", "+QUEUED").is("GET {c}2", "+QUEUED");
    assert_eq!(asked(&mut client, "EXEC"), "7001: MULTI SET {c}1 x GET {c}2 EXEC; One writes");
    client.is("EXEC", "-ERR EXEC without MULTI");
    client.is("MULTI", "+OK").is("GET {a}1", "+QUEUED").is("EXEC", "[nil]");
    client.is("MULTI", "+OK").is("GET {a}1", "+QUEUED").is("GET {c}1", "+QUEUED");
    client.is("EXEC", "-CROSSSLOT Keys in request don't hash to the same slot");
    client.is("MULTI", "+OK").is("GET {c}1", "+QUEUED").is("PING", "+QUEUED").is("EXEC", MOVED);
    client.is("WATCH {a}1", "+OK").is("MULTI", "+OK").is("GET {c}1", MOVED);
    client.is("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
}

#[test]
fn a_key_that_has_left_already_is_asked_for_where_it_went() {
    let mut client = node();
    client.is("SET {a}1 x", "+OK");
    let mut map = (*client.engine().cluster().map()).clone();
    map.migrating.insert(15495, 1);
    client.engine().set_slot_map(map);
    assert_eq!(asked(&mut client, "GET {a}1"), "$1\r\nx");
    assert_eq!(asked(&mut client, "GET {a}2"), "7001: ASKING GET {a}2; One");
    assert_eq!(asked(&mut client, "MGET {a}2 {a}3"), "7001: ASKING MGET {a}2 {a}3; One");
    client.is("MULTI", "+OK").is("GET {a}2", "+QUEUED").is("SET {a}3 x", "+QUEUED");
    assert_eq!(asked(&mut client, "EXEC"), "7001: ASKING MULTI GET {a}2 SET {a}3 x EXEC; One writes");
    client.is("EXEC", "-ERR EXEC without MULTI");
}

#[test]
fn while_some_keys_have_left_this_node_is_asked_again() {
    let mut client = node();
    client.is("SET {a}1 x", "+OK");
    let mut map = (*client.engine().cluster().map()).clone();
    map.migrating.insert(15495, 1);
    client.engine().set_slot_map(map);
    assert_eq!(asked(&mut client, "MGET {a}1 {a}2"), "7000: MGET {a}1 {a}2; One");
    client.is("MULTI", "+OK").is("GET {a}1", "+QUEUED").is("GET {a}2", "+QUEUED");
    assert_eq!(asked(&mut client, "EXEC"), "7000: MULTI GET {a}1 GET {a}2 EXEC; One");
    let told = "-TRYAGAIN Multiple keys request during rehashing of slot";
    client.is("CLIENT CAPA moved", "+OK");
    assert_eq!(asked(&mut client, "MGET {a}1 {a}2"), told);
    client.is("MULTI", "+OK").is("GET {a}1", "+QUEUED").is("GET {a}2", "+QUEUED").is("EXEC", told);
    client.is("EXEC", "-ERR EXEC without MULTI");
}

#[test]
fn behind_others_goes_only_what_is_one_key_of_another_node() {
    let mut client = node();
    let engine = client.shared_engine().clone();
    client.is("GET {a}1", "nil");
    let behind = |client: &mut Client, line: &str| {
        let args: Args<'_> = line.split(' ').map(str::as_bytes).collect();
        let prepared = dispatch::prepare(&engine, &args);
        let mut told = None;
        let ask = |it: &Follower<'_>| {
            let text = String::from_utf8_lossy(&it.bytes).replace("\r\n", " ");
            told = Some(format!("{} {text}{}{}", it.to.port(), it.is_long, it.writes));
            true
        };
        let session = client.session();
        let mut behind = Behind::begin(&engine, session)?;
        let is_asked = dispatch::forward_behind(&engine, session, &mut behind, &prepared, &args, ask);
        assert_eq!(is_asked, told.is_some());
        told
    };
    let told = |client: &mut Client, line: &str| behind(client, line).unwrap_or_default();
    assert_eq!(told(&mut client, "GET {c}1"), "7001 *2 $3 GET $4 {c}1 falsefalse");
    assert_eq!(told(&mut client, "SET {c}1 x"), "7001 *3 $3 SET $4 {c}1 $1 x falsetrue");
    assert_eq!(told(&mut client, "LRANGE {c}1 0 1"), "7001 *4 $6 LRANGE $4 {c}1 $1 0 $1 1 truefalse");
    for line in ["GET {a}1", "PING", "MGET {c}1 {c}2", "BLPOP {c}1 0", "NOSUCH {c}"] {
        assert_eq!(behind(&mut client, line), None, "{line}");
    }
    client.is("MULTI", "+OK");
    assert_eq!(behind(&mut client, "GET {c}1"), None);
    client.is("DISCARD", "+OK").is("ACL SETUSER u on nopass +@all ~* &* quota:memory:x=1", "+OK").is("AUTH u x", "+OK");
    assert_eq!(behind(&mut client, "SET {c}1 x"), None, "the owner does not count for the user");
    client.is("ACL SETUSER v on nopass +@all ~{c}1 &*", "+OK").is("AUTH v x", "+OK");
    assert_eq!(behind(&mut client, "GET {c}1"), None, "its rights are checked for each command");
}
