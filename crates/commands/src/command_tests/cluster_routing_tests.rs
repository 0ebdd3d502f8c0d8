//! [`command::core::cluster_routing`] with the commands of the rooms.

use crate::testing::Client;
use cluster::SLOTS;
use cluster::node::Address;
use cluster::node_id::NodeId;
use cluster::slot_map::SlotMap;
use cluster::slot_set::SlotSet;
use engine::data::slot::slot_of;

/// The slots of `{a}`, `{b}` and `{c}`.
const A: u16 = 15495;
const B: u16 = 3300;
const C: u16 = 7365;

/// Returns a node that owns all slots but that of `{c}`; the other one is at port 7001.
fn node(change: impl FnOnce(&mut SlotMap)) -> Client {
    let mut client = Client::new();
    let address = |port: u16| Address { ip: "10.0.0.1".into(), tcp_port: port, ..Address::default() };
    let mut map = SlotMap {
        is_up: true,
        serving: Some(0),
        nodes: vec![(NodeId([b'a'; 40]), address(7000)), (NodeId([b'b'; 40]), address(7001))],
        owners: vec![Some(0); SLOTS],
        ..SlotMap::default()
    };
    map.owners[usize::from(C)] = Some(1);
    client.is("SET {a}1 x", "+OK");
    client.engine().persistence_status().set_clustered(true);
    change(&mut map);
    client.engine().set_slot_map(map);
    client
}

const TRY_AGAIN: &str = "-TRYAGAIN Multiple keys request during rehashing of slot";
const ASK: &str = "-ASK 15495 10.0.0.1:7001";
const MOVED: &str = "-MOVED 7365 10.0.0.1:7001";

#[test]
fn the_slots_of_the_names_are_these() {
    assert_eq!(["{a}", "{b}", "{c}"].map(|name| slot_of(name.as_bytes())), [A, B, C]);
}

#[test]
fn a_command_runs_where_its_slot_is() {
    let mut client = node(|_| {});
    client.is("GET {a}1", "x").is("MGET {a}1 {a}2", "[x nil]").is("GET {c}1", MOVED).is("SET {c}1 y", MOVED);
    client.is("MGET {a}1 {b}1", "-CROSSSLOT Keys in request don't hash to the same slot").is("PING", "+PONG");
    client.is("SORT {a}l STORE {b}l", "-CROSSSLOT Keys in request don't hash to the same slot");
    client.is("SORT {a}l STORE {a}m", ":0").is("SORT {c}l STORE {c}m", MOVED);
    client.is("MULTI", "+OK").is("GET {a}1", "+QUEUED").is("GET {c}1", MOVED);
    client.is("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    client.is("EVAL return(redis.call('get',KEYS[1])) 1 {a}1", "x");
    client.is("EVAL return(redis.call('get',KEYS[1])) 1 {c}1", MOVED);
}

#[test]
fn a_slot_that_goes_away_is_served_as_far_as_its_keys_are_here() {
    let mut client = node(|map| _ = map.migrating.insert(A, 1));
    client.is("GET {a}1", "x").is("GET {a}2", ASK).is("SET {a}2 y", ASK);
    client.is("MGET {a}1 {a}2", TRY_AGAIN).is("MGET {a}2 {a}3", ASK).is("MOVE {a}1 1", TRY_AGAIN);
    client.is("MULTI", "+OK").is("GET {a}1", "+QUEUED").is("SET {a}1 z", "+QUEUED").is("EXEC", "[x +OK]");
    client.is("MULTI", "+OK").is("GET {a}1", "+QUEUED").is("GET {a}2", "+QUEUED").is("EXEC", TRY_AGAIN);
    client.is("MULTI", "+OK").is("SET {a}2 y", "+QUEUED").is("EXEC", ASK).is("EXISTS {b}1", ":0");
}

#[test]
fn a_slot_that_comes_is_served_to_who_asks() {
    let mut client = node(|map| _ = map.importing.insert(C, 1));
    client.is("SET {c}1 y", MOVED);
    client.is("ASKING", "+OK").is("SET {c}1 y", "+OK").is("GET {c}1", MOVED);
    client.is("ASKING", "+OK").is("MGET {c}1 {c}2", TRY_AGAIN);
    client.is("ASKING", "+OK").is("MULTI", "+OK").is("GET {c}1", "+QUEUED").is("EXEC", "[y]");
    client.is("GET {c}1", MOVED);
}

#[test]
fn a_replica_serves_reads_to_who_wants_them() {
    let mut client = node(|map| (map.is_replica, map.serving) = (true, Some(1)));
    client.is("GET {c}1", MOVED).is("READONLY", "+OK").is("GET {c}1", "nil").is("SET {c}1 y", MOVED);
    client.is("GET {a}1", "-MOVED 15495 10.0.0.1:7000").is("READWRITE", "+OK").is("GET {c}1", MOVED);
    client.is("READONLY", "+OK");
    client.shared_engine().change_left_slots(|left| *left = SlotSet::of([C..=C]));
    client.is("GET {c}1", MOVED).is("MULTI", "+OK").is("GET {c}1", MOVED).is("DISCARD", "+OK");
    client.shared_engine().change_left_slots(|left| *left = SlotSet::none());
    client.is("GET {c}1", "nil");
    client.run_words(&["PING", "slots left 0-16383"]);
    client.is("GET {c}1", "nil");
}

#[test]
fn a_cluster_that_is_down_serves_nothing() {
    let mut client = node(|map| (map.is_up, map.owners[usize::from(B)]) = (false, None));
    client.is("GET {a}1", "-CLUSTERDOWN The cluster is down");
    client.is("GET {b}1", "-CLUSTERDOWN Hash slot not served").is("PING", "+PONG");
}
