//! Work for a user that runs elsewhere than in its connection's command, each at servers of its own.

use super::CHANGES;
use super::stage::{BOSS, Change};
use crate::dialogue::ask;
use crate::harness::{PATIENCE, Server, eventually, expect_bytes, free_port, is_peer, owned, read_to_close, send};
use crate::slow_disks::{changes, contains, hold, server_on_slow_disk};
use redis::Connection;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Servers, the first of which has users that change.
pub struct Place {
    servers: Vec<Server>,
    boss: Connection,
    /// How often the way was gone.
    number: usize,
    /// Outcome of changes that were made together.
    found: Vec<(&'static str, &'static str)>,
}

/// A way, its servers, and what becomes of it by a change; None: that is not asked.
pub struct Row {
    pub name: &'static str,
    pub start: fn() -> Place,
    pub cell: fn(&mut Place, &Change) -> Option<&'static str>,
}

pub const ELSEWHERE: &[Row] = &[
    Row { name: "slots", start: cluster, cell: source_of_slots },
    Row { name: "slow target", start: plain, cell: slow_target },
    Row { name: "KEYS", start: plain, cell: long_reply },
    Row { name: "DELPREFIX", start: plain, cell: long_deletion },
    Row { name: "slow disk", start: slow_disk, cell: reply_behind_disk },
    Row { name: "loading", start: loading, cell: half_while_loading },
];

impl Place {
    fn of(servers: Vec<Server>) -> Place {
        let mut boss = servers[0].client();
        for line in ["ACL SETUSER boss on nopass ~* &* +@all", "AUTH boss x"] {
            assert_eq!(ask(&mut boss, line), "OK");
        }
        Place { servers, boss, number: 0, found: Vec::new() }
    }

    pub fn stop(self) -> bool {
        drop(self.boss);
        self.servers.into_iter().all(|server| server.stop().success())
    }

    fn run(&mut self, lines: &str) {
        for line in lines.split("; ") {
            let reply = ask(&mut self.boss, line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
    }

    /// A connection of the user whose rights change, which has all of them.
    fn client(&mut self, change: &Change) -> TcpStream {
        self.run("CONFIG SET requirepass ''; ACL SETUSER default reset on nopass ~* &* +@all");
        self.run("ACL SETUSER u reset on >x ~* &* +@all; CONFIG SET protected-mode no");
        let mut socket = self.servers[0].socket();
        if change.user == "u" {
            send(&mut socket, b"AUTH u x\r\n");
            expect_bytes(&mut socket, b"+OK\r\n");
        }
        socket
    }

    fn make(&mut self, change: &Change) {
        self.write_users(change);
        self.run(change.lines);
    }

    fn write_users(&self, change: &Change) {
        self.servers[0].folder.write("users.acl", &[BOSS, change.file].concat());
    }
}

fn with_users(options: &[&str]) -> Server {
    Server::start_with(|folder, port| {
        folder.write("users.acl", BOSS);
        let mut all = owned(&["--port", &port.to_string(), "--save", "", "--aclfile", "users.acl"]);
        all.extend(owned(options));
        if !is_peer() {
            all.extend(owned(&["--threads", "3"]));
        }
        all
    })
}

fn plain() -> Place {
    Place::of(vec![with_users(&[])])
}

/// A node that gets slots from another one, which has all.
fn cluster() -> Place {
    let bus = [free_port(), free_port()].map(|port| port.to_string());
    let servers = bus.each_ref().map(|bus| with_users(&["--cluster-enabled", "yes", "--cluster-port", bus]));
    let mut owner = servers[1].client();
    assert_eq!(ask(&mut owner, "CLUSTER ADDSLOTSRANGE 0 16383"), "OK");
    let meet = format!("CLUSTER MEET 127.0.0.1 {} {}", servers[1].port, bus[1]);
    let mut place = Place::of(servers.into());
    assert_eq!(ask(&mut place.boss, &meet), "OK");
    assert!(eventually(|| ask(&mut place.boss, "CLUSTER NODES").contains(" 0-16383")));
    place
}

/// A source of slots writes what it has, until its connection ends.
fn source_of_slots(place: &mut Place, change: &Change) -> Option<&'static str> {
    if change.user != "u" {
        return None;
    }
    let id = ask(&mut place.servers[1].client(), "CLUSTER MYID").replace('"', "");
    let mut socket = place.client(change);
    place.number += 1;
    let order = format!("CLUSTER SYNCSLOTS ESTABLISH SOURCE {id} NAME {:040} SLOTSRANGE 0 16383", place.number);
    send(&mut socket, format!("{order}\r\n").as_bytes());
    expect_bytes(&mut socket, b"+OK\r\n");
    assert!(eventually(|| ask(&mut place.boss, "CLIENT LIST").contains("i capa=")));
    place.make(change);
    // The slot of the key, which is not seen otherwise before the node has the slot.
    let has_keys = |place: &mut Place| ask(&mut place.boss, "CLUSTER COUNTKEYSINSLOT 7629") != "0";
    let _ = socket.write_all(b"SET k v\r\n");
    let cell = match ask(&mut place.boss, "CLIENT LIST").contains(" user=u ") {
        // A peer does not read before the source has said more.
        true => is_peer() || eventually(|| has_keys(place)),
        false => {
            read_to_close(&mut socket);
            false
        }
    };
    let is_written = !cell && has_keys(place);
    drop(socket);
    assert!(eventually(|| !ask(&mut place.boss, "CLIENT LIST").contains(" user=u ") && !has_keys(place)));
    Some(if is_written {
        "wrote"
    } else if cell {
        "ran"
    } else {
        "closed"
    })
}

/// The target of MIGRATE takes the key after the change, and what was written meanwhile has to be sent once more.
fn slow_target(place: &mut Place, change: &Change) -> Option<&'static str> {
    // A peer does nothing else meanwhile.
    if is_peer() {
        return None;
    }
    let mut socket = place.client(change);
    place.run("SET secret hidden-value");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    send(&mut socket, format!("MIGRATE 127.0.0.1 {port} secret 0 60000\r\n").as_bytes());
    let (mut target, _) = listener.accept().expect("a connection");
    target.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut seen = until(&mut target, |seen| contains(seen, "hidden-value"));
    place.run("SET secret written-later");
    place.make(change);
    // Replies to SELECT and RESTORE.
    send(&mut target, b"+OK\r\n+OK\r\n");
    seen.clear();
    for socket in [&socket, &target] {
        socket.set_read_timeout(Some(Duration::from_millis(5))).expect("a timeout");
    }
    let mut told = Vec::new();
    let is_over = eventually(|| {
        let before = seen.len();
        take(&mut target, &mut seen);
        if seen.len() > before {
            send(&mut target, b"+OK\r\n");
        }
        take(&mut socket, &mut told) || told.ends_with(b"\n")
    });
    assert!(is_over, "{}", change.name);
    let is_sent = contains(&seen, "written-later");
    let is_there = ask(&mut place.boss, "EXISTS secret") == "1";
    Some(match String::from_utf8_lossy(&told) {
        told if told.starts_with("+OK") && is_sent && !is_there => "ran",
        _ if is_sent || !is_there => "wrote",
        told if told.starts_with("-NOPERM") => "no",
        told if told.is_empty() => "closed",
        _ => "silent",
    })
}

const KEYS: usize = 20_000;

/// Fills the server, if it was emptied.
fn fill(place: &mut Place) {
    if ask(&mut place.boss, "DBSIZE") == "0" {
        let fill = format!("for i = 1, {KEYS} do redis.call('SET', 'p:' .. i .. string.rep('x', 500), '') end");
        redis::cmd("EVAL").arg(fill).arg(0).exec(&mut place.boss).expect("keys");
    }
}

/// KEYS whose client does not read, so that most of the reply lies at the server.
fn long_reply(place: &mut Place, change: &Change) -> Option<&'static str> {
    fill(place);
    let mut socket = place.client(change);
    send(&mut socket, b"KEYS *\r\n");
    let is_begun = |place: &mut Place| ask(&mut place.boss, "CLIENT LIST").contains("cmd=keys");
    assert!(eventually(|| is_begun(place) && socket.peek(&mut [0]).is_ok()));
    place.make(change);
    let mut lines = 0;
    while lines <= 2 * KEYS {
        let mut told = Vec::new();
        if take(&mut socket, &mut told) {
            return Some("closed");
        }
        if told.is_empty() {
            return Some("silent");
        }
        lines += told.iter().filter(|byte| **byte == b'\n').count();
    }
    Some("ran")
}

/// DELPREFIX that a pause has stopped half-way.
fn long_deletion(place: &mut Place, change: &Change) -> Option<&'static str> {
    if is_peer() || !change.denies {
        return None;
    }
    let count = |place: &mut Place| ask(&mut place.boss, "DBSIZE");
    let mut socket = None;
    // It may have ended before the pause.
    assert!(eventually(|| {
        fill(place);
        let before = count(place);
        let mut client = place.client(change);
        send(&mut client, b"DELPREFIX p:\r\n");
        eventually(|| count(place) != before);
        place.run("CLIENT PAUSE 60000 WRITE");
        let is_half = count(place) != "0";
        if !is_half {
            place.run("CLIENT UNPAUSE");
        }
        socket = Some(client).filter(|_| is_half);
        is_half
    }));
    place.make(change);
    let left = count(place);
    place.run("CLIENT UNPAUSE");
    let told = until(&mut socket?, |told| told.ends_with(b"\n"));
    Some(match (told.first(), count(place) == left) {
        (Some(b':'), false) => "ran",
        (_, false) => "wrote",
        (None, true) => "closed",
        (Some(_), true) => "no",
    })
}

fn slow_disk() -> Place {
    let server = server_on_slow_disk(3, 0, &["--appendfsync", "always"]);
    Place::of(vec![server])
}

/// A reply waits for the disk, which stands still: it is lost with its user.
fn reply_behind_disk(place: &mut Place, change: &Change) -> Option<&'static str> {
    // A peer's disk keeps everybody waiting.
    if is_peer() || !["none", "delete", "again", "off", "-all"].contains(&change.name) {
        return None;
    }
    let (mut socket, mut witness) = (place.client(change), place.client(change));
    place.number += 1;
    let value = format!("hidden-value-{}", place.number);
    place.run(&format!("SET secret {value}"));
    let mut boss = place.servers[0].socket();
    send(&mut boss, b"AUTH boss x\r\n");
    expect_bytes(&mut boss, b"+OK\r\n");
    hold(&place.servers[0], true);
    send(&mut socket, format!("GETSET secret taken-{}\r\n", place.number).as_bytes());
    let is_written = |text: &str| fs::read(changes(&place.servers[0].folder)).is_ok_and(|log| contains(&log, text));
    assert!(eventually(|| is_written(&format!("taken-{}", place.number))));
    send(&mut boss, format!("{}\r\n", change.lines.replace("; ", "\r\n")).as_bytes());
    let ends = change.lines.contains("DELUSER");
    let mut told = String::new();
    if ends {
        assert_eq!(read_to_close(&mut witness), "");
        told = read_to_close(&mut socket);
    }
    hold(&place.servers[0], false);
    let lines = change.lines.split("; ").count();
    until(&mut boss, |told| told.iter().filter(|byte| **byte == b'\n').count() == lines);
    if ends {
        return Some(if told.is_empty() { "closed" } else { "told" });
    }
    let told = until(&mut socket, |told| contains(told, &value));
    Some(if contains(&told, &value) { "ran" } else { "silent" })
}

/// A server that loads for a while, and has users for all changes that are made meanwhile.
fn loading() -> Place {
    let mut server = with_users(&["--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024"]);
    let mut pipe = redis::pipe();
    (0..100).for_each(|number| _ = pipe.set(format!("load:{number}"), "x".repeat(2000)).ignore());
    CHANGES.iter().for_each(|change| _ = pipe.set(format!("secret-{}", change.name), "hidden-value").ignore());
    pipe.query::<()>(&mut server.client()).expect("OK");
    assert_eq!(ask(&mut server.client(), "SAVE"), "OK");
    server.restart();
    let mut place = Place::of(vec![server]);
    let of_user = CHANGES.iter().filter(|change| change.user == "u" && !change.lines.contains("LOAD"));
    let mut clients = Vec::new();
    for (number, change) in of_user.enumerate() {
        let user = format!(" u{number}");
        place.run(&format!("ACL SETUSER{user} reset on >x ~* &* +@all"));
        let mut socket = place.servers[0].socket();
        send(&mut socket, format!("AUTH{user} x\r\n").as_bytes());
        expect_bytes(&mut socket, b"+OK\r\n");
        send(&mut socket, b"*3\r\n$6\r\nGETSET\r\n");
        place.run(&change.lines.replace(" u", &user));
        clients.push((change.name, socket));
    }
    assert!(eventually(|| ask(&mut place.boss, "GET load:0").starts_with('"')));
    for (name, mut socket) in clients {
        let key = format!("secret-{name}");
        let _ = socket.write_all(format!("${}\r\n{key}\r\n$5\r\ntaken\r\n", key.len()).as_bytes());
        let told = String::from_utf8_lossy(&until(&mut socket, |told| told.ends_with(b"\n"))).into_owned();
        let is_unchanged = ask(&mut place.boss, &format!("GET {key}")) == "\"hidden-value\"";
        let cell = match &*told {
            told if told.contains("hidden-value") => "ran",
            _ if !is_unchanged => "wrote",
            told if told.starts_with("-NOPERM") => "no",
            "" => "closed",
            _ => "silent",
        };
        place.found.push((name, cell));
    }
    place
}

/// Half of a command is sent while the server loads, and the rest afterwards.
fn half_while_loading(place: &mut Place, change: &Change) -> Option<&'static str> {
    place.found.iter().find(|(name, _)| *name == change.name).map(|(_, cell)| *cell)
}

/// Reads until it is enough, nothing more arrives, or the connection ends.
fn until(socket: &mut TcpStream, is_enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let (mut all, mut before) = (Vec::new(), usize::MAX);
    while !is_enough(&all) && all.len() != before {
        before = all.len();
        if take(socket, &mut all) {
            break;
        }
    }
    all
}

/// Adds the bytes that arrive. True at the end of the connection.
fn take(socket: &mut TcpStream, all: &mut Vec<u8>) -> bool {
    let mut part = [0; 1 << 16];
    match socket.read(&mut part) {
        Ok(0) => true,
        Ok(read) => {
            all.extend_from_slice(&part[..read]);
            false
        }
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}
