//! A user that is removed, or loses rights, does nothing any more once that is acknowledged: in its scripts, for its
//! clients that wait, in its transactions, and at other nodes of the cluster that are asked for them.

use crate::dialogue::{ask, ask_integer};
use crate::failing_disks::expect_silence;
use crate::harness::{Server, eventually, expect_bytes, free_port, is_peer, read_to_close, send};
use redis::Connection;
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// Long enough for what is under way to show.
const A_WHILE: Duration = Duration::from_millis(50);

fn of_user(server: &Server, user: &str) -> TcpStream {
    let mut socket = server.socket();
    send(&mut socket, format!("AUTH {user} x\r\n").as_bytes());
    expect_bytes(&mut socket, b"+OK\r\n");
    socket
}

fn with_user(server: &Server) -> Connection {
    let mut admin = server.client();
    assert_eq!(ask(&mut admin, "ACL SETUSER u on nopass +@all ~* &*"), "OK");
    admin
}

#[test]
fn a_script_of_a_removed_user_ends_and_has_changed_nothing_since() {
    if is_peer() {
        return;
    }
    let server = Server::start_with_threads(4, &[]);
    let mut admin = with_user(&server);
    let mut socket = of_user(&server, "u");
    send(&mut socket, b"EVAL \"while true do redis.pcall('incr', KEYS[1]) end\" 1 n\r\n");
    assert!(eventually(|| ask(&mut admin, "CLIENT LIST").contains("cmd=eval")));
    assert_eq!(ask_integer(&mut admin, "ACL DELUSER u"), 1);
    let count = ask(&mut admin, "GET n");
    thread::sleep(A_WHILE);
    assert_eq!(ask(&mut admin, "GET n"), count, "it goes on");
    let told = read_to_close(&mut socket);
    assert!(told.is_empty() || told.starts_with('-'), "{told}");
    assert!(server.stop().success());
}

#[test]
fn a_script_of_a_removed_user_is_not_said_to_be_killed() {
    if is_peer() {
        return;
    }
    let server = Server::start_with_threads(4, &[]);
    let mut admin = with_user(&server);
    let mut socket = of_user(&server, "u");
    send(&mut socket, b"EVAL \"while true do pcall(function() while true do end end) end\" 0\r\n");
    assert!(eventually(|| ask(&mut admin, "CLIENT LIST").contains("cmd=eval")));
    assert_eq!(ask_integer(&mut admin, "ACL DELUSER u"), 1);
    let told = read_to_close(&mut socket);
    assert!(told.is_empty() || told.starts_with("-NOPERM The user of this script was removed"), "{told}");
    let mut errors = String::new();
    assert!(eventually(|| {
        errors = ask(&mut admin, "INFO errorstats");
        errors.contains("errorstat_")
    }));
    assert!(errors.contains("errorstat_NOPERM:count=1"), "{errors}");
    assert!(server.stop().success());
}

#[test]
fn a_client_that_waits_gets_nothing_when_its_user_is_removed() {
    if is_peer() {
        return;
    }
    for threads in [1, 4] {
        let server = Server::start_with_threads(threads, &[]);
        let mut admin = with_user(&server);
        let mut waiting = of_user(&server, "u");
        send(&mut waiting, b"BLPOP k 0\r\n");
        assert!(eventually(|| ask(&mut admin, "INFO clients").contains("blocked_clients:1\\r\\n")));
        // Both run in one moment: the connection still exists when the element is pushed.
        for line in ["MULTI", "ACL DELUSER u", "RPUSH k v"] {
            ask(&mut admin, line);
        }
        assert_eq!(ask(&mut admin, "EXEC"), "[1, 1]");
        assert_eq!(ask_integer(&mut admin, "LLEN k"), 1);
        let told = read_to_close(&mut waiting);
        assert!(told.is_empty() || told.starts_with("-NOAUTH"), "{told}");
        assert!(server.stop().success());
    }
}

/// Two nodes that ask each other, each with half of the slots: `{a}` is the second's.
pub fn two_nodes() -> [Server; 2] {
    let start = || {
        let bus = free_port().to_string();
        Server::start_with_threads(
            2,
            &[
                "--cluster-enabled",
                "yes",
                "--cluster-proxy",
                "yes",
                "--cluster-port",
                &bus,
                "--cluster-require-full-coverage",
                "no",
            ],
        )
    };
    let nodes = [start(), start()];
    let mut clients = nodes.each_ref().map(Server::client);
    assert_eq!(ask(&mut clients[0], "CLUSTER ADDSLOTSRANGE 0 8191"), "OK");
    assert_eq!(ask(&mut clients[1], "CLUSTER ADDSLOTSRANGE 8192 16383"), "OK");
    assert_eq!(ask(&mut clients[1], "CLUSTER SET-CONFIG-EPOCH 2"), "OK");
    let bus = ask(&mut clients[1], "CONFIG GET cluster-port");
    let bus = bus.rsplit('"').nth(1).expect("a port").to_owned();
    let meet = format!("CLUSTER MEET 127.0.0.1 {} {bus}", nodes[1].port);
    assert_eq!(ask(&mut clients[0], &meet), "OK");
    for client in &mut clients {
        assert!(eventually(|| {
            let info = ask(client, "CLUSTER INFO");
            info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
        }));
    }
    nodes
}

fn login(server: &Server, user: &str) -> Connection {
    let mut client = server.client();
    assert_eq!(ask(&mut client, &format!("AUTH {user} x")), "OK");
    client
}

#[test]
fn another_node_does_nothing_for_a_client_that_its_user_may_not() {
    if is_peer() {
        return;
    }
    let [here, owner] = two_nodes();
    let (mut admin, mut there) = (here.client(), owner.client());
    assert_eq!(ask(&mut admin, "ACL SETUSER app on nopass +@all ~app:* &*"), "OK");
    assert_eq!(ask(&mut admin, "ACL SETUSER full on nopass +@all ~* &* quota:memory:app:=1gb"), "OK");
    assert_eq!(ask(&mut there, "SET {a}secret hidden"), "OK");
    let mut app = login(&here, "app");
    assert_eq!(ask(&mut app, "SET app:{a} v"), "OK");
    assert_eq!(ask(&mut app, "GET app:{a}"), "\"v\"");
    assert_eq!(ask_integer(&mut app, "RPUSH app:{a}list 2 1"), 2);
    assert_eq!(ask(&mut app, "SORT app:{a}list"), "[\"1\", \"2\"]");
    for line in [
        "EVAL return(redis.call('get',ARGV[1])) 1 app:{a} {a}secret",
        "EVAL_RO return(redis.call('get',ARGV[1])) 1 app:{a} {a}secret",
        "EVAL return(redis.call('flushall')) 1 app:{a}",
        "EVALSHA 0123456789012345678901234567890123456789 1 app:{a}",
        "FCALL f 1 app:{a}",
        "SORT app:{a}list BY nosort GET {a}secret",
        "SORT app:{a}list BY {a}* ALPHA",
        "SORT_RO app:{a}list GET {a}*",
    ] {
        assert!(ask(&mut app, line).starts_with("-MOVED 15495 "), "{line}: {}", ask(&mut app, line));
        assert_eq!(ask(&mut app, "MULTI"), "OK");
        assert!(ask(&mut app, line).starts_with("-MOVED 15495 "), "{line}");
        assert!(ask(&mut app, "EXEC").starts_with("-EXECABORT "), "{line}");
    }
    assert_eq!(ask(&mut app, "MULTI"), "OK");
    assert_eq!(ask(&mut app, "SET app:{a} w"), "QUEUED");
    assert_eq!(ask(&mut app, "EXEC"), "[OK]");
    assert_eq!(ask(&mut there, "GET {a}secret"), "\"hidden\"");
    // Keys whose memory is limited are counted here only.
    let mut full = login(&here, "full");
    assert!(ask(&mut full, "SET app:{a} x").starts_with("-MOVED 15495 "));
    assert_eq!(ask(&mut full, "GET app:{a}"), "\"w\"");
    let script = "EVAL return(redis.call('get',ARGV[1])) 1 app:{a} {a}secret";
    assert_eq!(ask(&mut admin, script), "\"hidden\"", "of a user who may do everything");
    assert_eq!(ask(&mut admin, "ACL SETUSER default -flushall"), "OK");
    assert!(ask(&mut admin, script).starts_with("-MOVED 15495 "), "of one who may not any more");
    assert!(here.stop().success() && owner.stop().success());
}

#[test]
fn another_node_does_nothing_for_a_removed_user_any_more() {
    if is_peer() {
        return;
    }
    let [here, owner] = two_nodes();
    let (mut admin, mut there) = (with_user(&here), owner.client());
    for _ in 0..5 {
        assert_eq!(ask(&mut admin, "ACL SETUSER u on nopass +@all ~* &*"), "OK");
        let before = ask(&mut there, "GET {a}n");
        let mut writers = [(); 3].map(|()| of_user(&here, "u"));
        thread::scope(|scope| {
            for socket in &mut writers {
                scope.spawn(move || while socket.write_all("INCR {a}n\r\n".repeat(100).as_bytes()).is_ok() {});
            }
            assert!(eventually(|| ask(&mut there, "GET {a}n") != before));
            assert_eq!(ask_integer(&mut admin, "ACL DELUSER u"), 1);
            let count = ask(&mut there, "GET {a}n");
            thread::sleep(A_WHILE);
            assert_eq!(ask(&mut there, "GET {a}n"), count);
        });
    }
    assert!(here.stop().success() && owner.stop().success());
}

#[test]
fn a_transaction_that_changes_users_and_the_node_is_acknowledged_when_both_hold_and_then_ends_its_client() {
    if is_peer() {
        return;
    }
    let [here, owner] = two_nodes();
    let mut admin = with_user(&here);
    for (visit, visited, asked) in [("CLUSTER BUMPEPOCH", "+", "incr"), ("PING", "+PONG\r\n", "decr")] {
        assert_eq!(ask(&mut admin, "ACL SETUSER v on nopass +@all ~* &*"), "OK");
        let [mut asking, mut socket] = [(); 2].map(|()| of_user(&here, "v"));
        owner.signal("STOP");
        send(&mut asking, format!("{asked} {{a}}n\r\n").as_bytes());
        assert!(eventually(|| ask(&mut admin, "CLIENT LIST").contains(&format!("cmd={asked}"))));
        // The worker sends it by the end of its turn.
        thread::sleep(A_WHILE);
        send(&mut socket, format!("MULTI\r\n{visit}\r\nACL DELUSER v\r\nEXEC\r\n").as_bytes());
        expect_bytes(&mut socket, b"+OK\r\n+QUEUED\r\n+QUEUED\r\n");
        expect_silence(&mut socket);
        owner.signal("CONT");
        let told = read_to_close(&mut socket);
        assert!(told.starts_with(&format!("*2\r\n{visited}")) && told.ends_with("\r\n:1\r\n"), "{visit}: {told}");
        assert!(!ask(&mut admin, "CLIENT LIST").contains(" user=v "));
        read_to_close(&mut asking);
    }
    assert!(here.stop().success() && owner.stop().success());
}
