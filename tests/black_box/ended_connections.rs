//! A connection ends with its user, or with its right to its messages, on whichever thread serves it and in whichever
//! state of a handover it is. CLIENT KILL does the same.

use crate::dialogue::{ask, ask_integer};
use crate::harness::{Folder, Server, eventually, expect_bytes, free_port, is_peer, owned, read_to_close, send};
use redis::Connection;
use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const USER: &str = "ACL SETUSER u on >p +@all ~* &*";

/// A connection of the user that has said this, one command a line, each of which was answered by OK.
fn of_user(server: &Server, lines: &[&str]) -> TcpStream {
    let mut socket = server.socket();
    for line in ["AUTH u p"].iter().chain(lines) {
        send(&mut socket, format!("{line}\r\n").as_bytes());
        expect_bytes(&mut socket, b"+OK\r\n");
    }
    socket
}

/// One line; empty ones keep a connection alive.
fn line_of(socket: &mut TcpStream) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        socket.read_exact(&mut byte).expect("a line");
        match byte[0] {
            b'\n' if !line.is_empty() => return String::from_utf8_lossy(&line).into_owned(),
            b'\n' | b'\r' => {}
            other => line.push(other),
        }
    }
}

/// Returns a replica that has its snapshot, whose length is sent before it.
fn online(server: &Server) -> TcpStream {
    let mut socket = of_user(server, &["REPLCONF listening-port 1", "REPLCONF capa psync2"]);
    send(&mut socket, b"PSYNC ? -1\r\n");
    assert!(line_of(&mut socket).starts_with("+FULLRESYNC "));
    let len = line_of(&mut socket)[1..].parse().expect("a length");
    let mut snapshot = vec![0; len];
    socket.read_exact(&mut snapshot).expect("a snapshot");
    send(&mut socket, b"REPLCONF ACK 0\r\n");
    socket
}

/// Returns a replica that the server makes wait for others.
fn waiting(server: &Server) -> TcpStream {
    let mut socket = of_user(server, &["REPLCONF capa eof capa psync2"]);
    send(&mut socket, b"PSYNC ? -1\r\n");
    socket
}

fn handshaking(server: &Server) -> TcpStream {
    of_user(server, &["REPLCONF listening-port 1"])
}

fn has_user(admin: &mut Connection) -> bool {
    ask(admin, "CLIENT LIST").contains(" user=u ")
}

/// Asserts that the bytes up to the end of the connection have nothing that was written after the change.
fn expect_end(mut socket: TcpStream, what: &str) {
    let got = read_to_close(&mut socket);
    assert!(!got.contains("written-later"), "{what}: {got}");
}

type Opened = fn(&Server) -> TcpStream;
const REPLICAS: [(&str, Opened); 3] = [("online", online), ("waiting", waiting), ("handshake", handshaking)];

#[test]
fn a_replica_is_cut_with_its_user_whatever_it_is_doing() {
    let folder = Folder::new();
    let users = folder.write("users.acl", "user default on nopass +@all ~* &*\n");
    let options = ["--repl-diskless-sync-delay", "60", "--aclfile", &users.to_string_lossy()];
    let server = Server::start(&options);
    let mut admin = server.client();
    for change in ["ACL DELUSER u", "ACL LOAD"] {
        for (phase, open) in REPLICAS {
            assert_eq!(ask(&mut admin, USER), "OK");
            let socket = open(&server);
            let is_shown = |admin: &mut Connection| ask(admin, "INFO replication").contains("slave0:");
            assert!(phase == "handshake" || eventually(|| is_shown(&mut admin)), "{phase}");
            assert!(["OK", "1"].contains(&&*ask(&mut admin, change)));
            assert!(!has_user(&mut admin), "it is off the list at once");
            assert_eq!(ask(&mut admin, "SET k written-later"), "OK");
            expect_end(socket, phase);
            assert!(eventually(|| !is_shown(&mut admin)), "{phase}");
        }
    }
    assert!(server.stop().success());
}

#[test]
fn a_replica_that_does_not_read_its_snapshot_is_cut_with_its_user_and_by_client_kill() {
    let server = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let mut admin = server.client();
    let fill = "local s = string.rep('x', 100000) for i = 1, 400 do redis.call('SET', i, s .. i) end";
    redis::cmd("EVAL").arg(fill).arg(0).exec(&mut admin).expect("40 MB");
    for order in ["ACL DELUSER u", "CLIENT KILL TYPE replica", "CLIENT KILL USER u"] {
        assert_eq!(ask(&mut admin, USER), "OK");
        let mut socket = waiting(&server);
        assert!(line_of(&mut socket).starts_with("+FULLRESYNC "));
        assert_eq!(ask_integer(&mut admin, order), 1);
        assert!(!has_user(&mut admin));
        assert!(eventually(|| ask(&mut admin, "INFO replication").contains("connected_slaves:0")), "{order}");
        let mut rest = [0; 1 << 16];
        // A reset overtakes the bytes that the replica has not read.
        while socket.read(&mut rest).is_ok_and(|read| read > 0) {}
    }
    assert!(server.stop().success());
}

#[test]
fn both_connections_of_a_replica_that_loads_beside_the_stream_are_cut_with_their_user() {
    let server = Server::start(&["--dual-channel-replication-enabled", "yes", "--repl-diskless-sync-delay", "60"]);
    let mut admin = server.client();
    assert_eq!(ask(&mut admin, USER), "OK");
    let mut stream = of_user(&server, &["REPLCONF capa eof capa psync2 capa dual-channel"]);
    send(&mut stream, b"PSYNC ? -1\r\n");
    assert_eq!(line_of(&mut stream), "+DUALCHANNELSYNC");
    let mut snapshot = of_user(&server, &["REPLCONF capa eof rdb-only 1 rdb-channel 1"]);
    send(&mut snapshot, b"SYNC\r\n");
    assert!(eventually(|| ask(&mut admin, "INFO replication").contains("slave0:")));
    assert_eq!(ask_integer(&mut admin, "ACL DELUSER u"), 1);
    [stream, snapshot].into_iter().for_each(|socket| expect_end(socket, "dual channel"));
    assert!(server.stop().success());
}

#[test]
fn a_connection_that_goes_on_ends_with_the_right_to_its_command() {
    if is_peer() {
        // Valkey continues here.
        return;
    }
    let server = Server::start(&["--repl-diskless-sync-delay", "60"]);
    let mut admin = server.client();
    for (phase, open) in [REPLICAS[0], REPLICAS[1]] {
        assert_eq!(ask(&mut admin, USER), "OK");
        let (socket, mut monitor) = (open(&server), of_user(&server, &["MONITOR"]));
        assert!(eventually(|| ask(&mut admin, "INFO replication").contains("slave0:")), "{phase}");
        for kept in ["ACL SETUSER u off", "ACL SETUSER u -set resetkeys", "ACL SETUSER u on >q -sync"] {
            assert_eq!(ask(&mut admin, kept), "OK");
        }
        assert_eq!(ask(&mut admin, "ACL SETUSER u -psync"), "OK");
        assert_eq!(ask(&mut admin, "SET k written-later"), "OK");
        expect_end(socket, phase);
        assert!(has_user(&mut admin), "the monitor has its right");
        assert!(eventually(|| line_of(&mut monitor).contains("written-later")));
        assert_eq!(ask(&mut admin, "ACL SETUSER u -monitor"), "OK");
        assert_eq!(ask(&mut admin, "SET k written-at-last"), "OK");
        assert!(!read_to_close(&mut monitor).contains("written-at-last"));
        assert_eq!(ask_integer(&mut admin, "ACL DELUSER u"), 1);
    }
    assert!(server.stop().success());
}

#[test]
fn a_server_that_follows_loses_its_link_with_its_user() {
    let primary = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let mut admin = primary.client();
    assert_eq!(ask(&mut admin, USER), "OK");
    let port = primary.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port, "--masteruser", "u", "--masterauth", "p"]);
    let mut follower = replica.client();
    let is_up = |follower: &mut Connection| ask(follower, "INFO replication").contains("master_link_status:up");
    assert!(eventually(|| is_up(&mut follower)));
    assert_eq!(ask_integer(&mut admin, "ACL DELUSER u"), 1);
    assert_eq!(ask(&mut admin, "SET k written-later"), "OK");
    assert!(eventually(|| !is_up(&mut follower)));
    assert_eq!(ask(&mut follower, "GET k"), "nil");
    assert!(eventually(|| ask(&mut admin, "INFO replication").contains("connected_slaves:0")));
    assert_eq!(ask(&mut admin, USER), "OK");
    assert!(eventually(|| is_up(&mut follower) && ask(&mut follower, "GET k") == "\"written-later\""));
    assert!(replica.stop().success() && primary.stop().success());
}

/// Two nodes of a cluster, of which the first has all slots, and that one's id.
pub fn owner_and_target() -> (Server, Server, String) {
    owner_and_target_with(&[])
}

/// Starts the same servers, with options of the second one.
pub fn owner_and_target_with(options: &[&str]) -> (Server, Server, String) {
    let node = |options: &[&str]| {
        let bus = free_port();
        let port = bus.to_string();
        let own = ["--cluster-enabled", "yes", "--cluster-port", &port];
        (Server::start(&[&own[..], options].concat()), bus)
    };
    let ((owner, bus), (target, _)) = (node(&[]), node(options));
    let (mut owner_admin, mut admin) = (owner.client(), target.client());
    assert_eq!(ask(&mut owner_admin, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    assert_eq!(ask(&mut admin, &format!("CLUSTER MEET 127.0.0.1 {} {bus}", owner.port)), "OK");
    assert!(eventually(|| ask(&mut admin, "CLUSTER NODES").contains(" 0-16383")));
    let id = ask(&mut owner_admin, "CLUSTER MYID").trim_matches('"').to_owned();
    (owner, target, id)
}

/// Whether the list of migrations has the job as failed.
fn has_failed(jobs: &str, name: &str) -> bool {
    let state = jobs.split_once(name).and_then(|(_, job)| job.split_once("\"state\", "));
    state.is_some_and(|(_, state)| state.starts_with("\"failed\""))
}

#[test]
fn a_source_of_slots_is_cut_with_its_user_or_its_right_and_by_client_kill() {
    let (owner, target, id) = owner_and_target();
    let mut admin = target.client();
    let orders = ["ACL DELUSER u", "CLIENT KILL USER u", "ACL SETUSER u -cluster|syncslots"];
    let orders = if is_peer() { &orders[..2] } else { &orders[..] };
    for (number, order) in orders.iter().enumerate() {
        assert_eq!(ask(&mut admin, USER), "OK");
        let job = format!("{number:040}");
        let establish = format!("CLUSTER SYNCSLOTS ESTABLISH SOURCE {id} NAME {job} SLOTSRANGE 0 100");
        let mut source = of_user(&target, &[&establish]);
        assert!(eventually(|| ask(&mut admin, "CLIENT LIST").contains(" flags=i ")), "{order}");
        assert!(["OK", "1"].contains(&&*ask(&mut admin, order)));
        assert!(!has_user(&mut admin), "{order}");
        read_to_close(&mut source);
        // Not an earlier one: the slots are free for the next when this one has ended.
        assert!(eventually(|| has_failed(&ask(&mut admin, "CLUSTER GETSLOTMIGRATIONS"), &job)), "{order}");
    }
    assert!(owner.stop().success() && target.stop().success());
}

#[test]
fn a_client_that_removes_its_own_user_has_its_reply_and_then_ends() {
    for threads in [1, 4] {
        let server = Server::start_with_threads(threads, &[]);
        let mut admin = server.client();
        for (sent, replied) in [
            ("ACL DELUSER u", ":1\r\n"),
            ("MULTI\r\nACL DELUSER u\r\nEXEC", "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n"),
            ("ACL DELUSER u nobody", ":1\r\n"),
        ] {
            assert_eq!(ask(&mut admin, USER), "OK");
            let mut socket = of_user(&server, &[]);
            send(&mut socket, format!("{sent}\r\n").as_bytes());
            assert_eq!(read_to_close(&mut socket), replied);
        }
        assert!(server.stop().success());
    }
}

/// Clients that log in, are busy, and move between workers, until each has lost its connection.
fn busy(server: &Server, user: &str, is_over: &AtomicBool) {
    let mut socket = server.socket();
    let request = format!("AUTH {user} p\r\nINCR {user}\r\nINCR {user}\r\n");
    let mut reply = [0; 4096];
    while !is_over.load(Relaxed) {
        let sent = std::io::Write::write_all(&mut socket, request.as_bytes());
        if sent.is_err() || !socket.read(&mut reply).is_ok_and(|read| read > 0) {
            socket = server.socket();
        }
    }
    // The user does not exist any more: the connection has ended, or has no user.
    let told = std::io::Write::write_all(&mut socket, b"GET k\r\n").map(|()| read_to_close_or_denial(&mut socket));
    assert!(!told.is_ok_and(|told| told.contains("secret")), "{user}");
}

fn read_to_close_or_denial(socket: &mut TcpStream) -> String {
    let (mut all, mut part) = (String::new(), [0; 4096]);
    while let Ok(read @ 1..) = socket.read(&mut part) {
        all += &String::from_utf8_lossy(&part[..read]);
        if all.ends_with("\r\n") && (all.contains("-NOAUTH") || all.contains("secret")) {
            break;
        }
    }
    all
}

#[test]
fn no_connection_of_a_removed_user_is_left_while_clients_log_in_and_move() {
    if is_peer() {
        return;
    }
    let server = Server::start_with_threads(4, &[]);
    let mut admin = server.client();
    let is_over = AtomicBool::new(false);
    let mut boss = server.client();
    for line in ["ACL SETUSER boss on >p +@all ~* &*", "AUTH boss p", "SET k secret", "ACL SETUSER default -@all +auth"]
    {
        assert_eq!(ask(if line.starts_with("ACL SETUSER boss") { &mut admin } else { &mut boss }, line), "OK");
    }
    thread::scope(|scope| {
        let users = ["a", "b", "c"];
        for number in 0..12 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || busy(server, users[number % 3], is_over));
        }
        for round in 0..60 {
            for user in users {
                ask(&mut boss, &format!("ACL SETUSER {user} on >p +@all ~*"));
            }
            assert_eq!(ask(&mut boss, &format!("CONFIG SET threads {}", 1 + round % 4)), "OK");
            thread::sleep(Duration::from_millis(5));
            assert_eq!(ask_integer(&mut boss, "ACL DELUSER a b c"), 3);
            let is_left = |boss: &mut Connection| {
                let list = ask(boss, "CLIENT LIST");
                users.iter().any(|user| list.contains(&format!(" user={user} ")))
            };
            assert!(eventually(|| !is_left(&mut boss)), "round {round}");
        }
        is_over.store(true, Relaxed);
    });
    assert!(server.stop().success());
}

#[test]
fn replicas_count_towards_the_most_clients_there_may_be() {
    let server = Server::start_with(|_, port| {
        let port = port.to_string();
        owned(&["--port", &port, "--save", "", "--maxclients", "8", "--repl-diskless-sync-delay", "60"])
    });
    let mut admin = server.client();
    assert_eq!(ask(&mut admin, USER), "OK");
    let replicas: Vec<TcpStream> = (0..7).map(|_| waiting(&server)).collect();
    assert!(eventually(|| ask(&mut admin, "INFO replication").contains("connected_slaves:7")));
    assert!(eventually(|| read_to_close(&mut server.socket()).starts_with("-ERR max number of clients")));
    drop(replicas);
    assert!(server.stop().success());
}
