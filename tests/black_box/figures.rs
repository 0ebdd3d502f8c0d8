//! Figures that the server tells of itself: what clients hold, what links carry, what workers spend, what the log says.

use crate::dialogue::ask;
use crate::harness::{Server, eventually, send};
use redis::Connection;

/// A field of CLIENT LIST in the line of the client that has this among its fields.
fn of_client(server: &Server, which: &str, name: &str) -> String {
    let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut server.client()).expect("a list");
    let line = list.lines().find(|line| line.split(' ').any(|part| part == which));
    let field = line.and_then(|line| line.split(' ').find_map(|part| part.strip_prefix(&format!("{name}="))));
    field.unwrap_or_default().to_owned()
}

/// A number that INFO tells.
fn told(client: &mut Connection, name: &str) -> f64 {
    let info: String = redis::cmd("INFO").arg("everything").arg("debug").query(client).expect("INFO");
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("{name}: {value:?}"))
}

/// A request of BLPOP with a long key.
fn blpop(length: usize) -> Vec<u8> {
    let key = "k".repeat(length);
    format!("*3\r\n$5\r\nBLPOP\r\n${length}\r\n{key}\r\n$1\r\n0\r\n").into_bytes()
}

#[test]
fn arguments_of_blocked_clients_count_as_their_memory() {
    let server = Server::start(&[]);
    let mut socket = server.socket();
    send(&mut socket, &blpop(300_000));
    let holds = || of_client(&server, "cmd=blpop", "argv-mem").parse::<usize>().is_ok_and(|bytes| bytes >= 300_000);
    assert!(eventually(holds));
    let memory: usize = of_client(&server, "cmd=blpop", "tot-mem").parse().expect("a number");
    assert!(memory > 300_000, "{memory}");
    assert!(told(&mut server.client(), "mem_clients_normal") > 300_000.0);
}

#[test]
fn blocked_clients_with_long_arguments_are_evicted() {
    let server = Server::start(&["--maxmemory-clients", "1mb"]);
    let mut sockets: Vec<_> = (0..6).map(|_| server.socket()).collect();
    sockets.iter_mut().for_each(|socket| send(socket, &blpop(400_000)));
    assert!(eventually(|| told(&mut server.client(), "evicted_clients") >= 4.0));
    assert!(told(&mut server.client(), "connected_clients") >= 2.0, "what fits may stay");
}

#[test]
fn the_largest_input_is_remembered_for_some_seconds() {
    let server = Server::start(&[]);
    let mut socket = server.socket();
    send(&mut socket, format!("*2\r\n$4\r\nECHO\r\n$300000\r\n{}", "x".repeat(200_000)).as_bytes());
    assert!(eventually(|| told(&mut server.client(), "client_recent_max_input_buffer") >= 200_000.0));
    drop(socket);
    assert!(eventually(|| told(&mut server.client(), "connected_clients") == 1.0));
    assert!(told(&mut server.client(), "client_recent_max_input_buffer") >= 200_000.0);
    assert!(eventually(|| told(&mut server.client(), "client_recent_max_input_buffer") < 200_000.0));
}

#[test]
fn links_between_servers_have_whole_entries() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start(&["--replicaof", &format!("127.0.0.1 {}", primary.port)]);
    assert!(eventually(|| of_client(&primary, "flags=S", "cmd") == "replconf"));
    assert!(of_client(&primary, "flags=S", "tot-cmds").parse::<u64>().expect("a number") > 0);
    assert_eq!(ask(&mut primary.client(), "SET k v"), "OK");
    assert!(eventually(|| of_client(&replica, "flags=M", "cmd") == "set"));
    assert_eq!(of_client(&replica, "flags=M", "user"), "(superuser)");
    assert_eq!(of_client(&replica, "flags=M", "laddr"), of_client(&primary, "flags=S", "addr"));
    for name in ["fd", "tot-mem", "tot-net-in", "tot-net-out"] {
        assert!(of_client(&replica, "flags=M", name).parse::<i64>().expect("a number") > 0, "{name}");
    }
}

#[test]
fn writes_of_a_log_that_is_always_synced_take_time() {
    let server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut client = server.client();
    assert!(
        eventually(|| ask(&mut client, "SET k v") == "OK" && told(&mut client, "eventloop_duration_aof_sum") > 0.0)
    );
    // Processor time has a resolution of some milliseconds.
    let worked = |client: &mut Connection| {
        told(client, "used_cpu_user_main_thread") + told(client, "used_cpu_sys_main_thread") > 0.0
    };
    assert!(eventually(|| (0..200).all(|_| ask(&mut client, "SET k v") == "OK") && worked(&mut client)));
}

#[test]
fn the_log_tells_how_much_there_is_when_it_is_asked_to() {
    let server = Server::start(&["--loglevel", "debug", "--logfile", "x.log"]);
    assert_eq!(ask(&mut server.client(), "SET k v EX 1000"), "OK");
    let log = || server.folder.read("x.log");
    assert!(eventually(|| log().contains("DB 0: 1 keys (1 volatile) in ")), "{}", log());
    assert!(log().contains(" clients connected (0 replicas), "), "{}", log());
}

#[test]
fn an_address_that_is_not_here_is_named_even_if_the_server_can_do_without() {
    let server = Server::start(&["--bind", "127.0.0.1 -203.0.113.77", "--logfile", "x.log"]);
    let named = "Could not create server TCP listening socket 203.0.113.77:";
    assert!(server.folder.read("x.log").contains(named), "{}", server.folder.read("x.log"));
}
