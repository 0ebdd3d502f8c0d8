//! Servers whose rights change while a client runs a command, and the outcome of the command.

use super::ways::{Door, LIBRARY, SCRIPT, SUM, UNTIL, Way};
use crate::dialogue::ask;
use crate::harness::{Server, address_that_is_not_loopback, connect, eventually, free_port, is_peer, owned, socket_to};
use crate::tls::{Authority, Client};
use redis::Connection;
use resp::book::encode_request;
use resp::encode_command;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const HIDDEN: &str = "hidden-value";
pub const BOSS: &str = "user boss on nopass ~* &* +@all\nuser default on nopass ~* &* +@all\n";
pub const USER: &str = "user u on >x ~* &* +@all\n";

pub struct Change {
    pub name: &'static str,
    /// The client's user; the default one's connections do not authenticate.
    pub user: &'static str,
    /// Commands of another user.
    pub lines: &'static str,
    /// Whether a connection that stays may do less.
    pub denies: bool,
    /// Lines of the file of users besides [`BOSS`].
    pub file: &'static str,
    /// Whether the client comes from another machine, as far as the server can see.
    pub is_of_strangers: bool,
}

trait Stream: Read + Write {
    fn set_patience(&self, patience: Duration);
}

impl Stream for TcpStream {
    fn set_patience(&self, patience: Duration) {
        self.set_read_timeout(Some(patience)).expect("a timeout");
    }
}

impl Stream for UnixStream {
    fn set_patience(&self, patience: Duration) {
        self.set_read_timeout(Some(patience)).expect("a timeout");
    }
}

impl Stream for Client {
    fn set_patience(&self, patience: Duration) {
        self.sock.set_patience(patience);
    }
}

/// A server with every listener, a user who changes rights, and another server.
pub struct Stage<'a> {
    pub server: Server,
    boss: Connection,
    authority: &'a Authority,
    tls_port: u16,
    book_port: u16,
    admin_port: u16,
    /// A Sentinel within the server, and the client that changes it; a peer has none.
    sentinel_port: u16,
    sentinel: Option<Connection>,
    /// A server that moves keys to the first, or that has its keys.
    pub other: Server,
    /// Whether the other one, a node of the same cluster, has the keys.
    is_proxy: bool,
}

impl Stage<'_> {
    pub fn start(authority: &Authority) -> Stage<'_> {
        let [tls_port, book_port, admin_port, sentinel_port] = [(); 4].map(|()| free_port());
        let server = Server::start_with(|folder, port| {
            folder.write("users.acl", BOSS);
            let number = |port: u16| port.to_string();
            let (port, tls) = (number(port), number(tls_port));
            let text = match is_peer() {
                true => String::new(),
                false => format!("sentinel-port {sentinel_port}\nsentinel monitor hidden-value 127.0.0.1 {port} 1\n"),
            };
            let mut all = owned(&[&folder.write("server.conf", &text).to_string_lossy()]);
            all.extend(owned(&["--port", &port, "--save", "", "--aclfile", "users.acl", "--unixsocket", "sock"]));
            all.extend(owned(&["--bind", "*", "--protected-mode", "no"]));
            all.extend(owned(&["--tls-port", &tls, "--tls-auth-clients", "no"]));
            for (option, name) in [("cert", "server.crt"), ("key", "server.key"), ("ca-cert", "ca.crt")] {
                all.extend([format!("--tls-{option}-file"), authority.path(name)]);
            }
            all.extend(owned(&["--notify-keyspace-events", "KEA", "--repl-diskless-sync-delay", "0"]));
            if !is_peer() {
                all.extend(owned(&["--threads", "3", "--busy-reply-threshold", "60000"]));
                all.extend(owned(&["--book-port", &number(book_port), "--admin-port", &number(admin_port)]));
                all.extend(owned(&["--admin-bind", "*"]));
            }
            all
        });
        let mut boss = server.client();
        assert_eq!(ask(&mut boss, "AUTH boss x"), "OK");
        let sentinel = (!is_peer()).then(|| {
            let mut client = connect(&format!("redis://127.0.0.1:{sentinel_port}/"));
            assert_eq!(ask(&mut client, "AUTH boss x"), "OK");
            client
        });
        let (other, is_proxy) = (Server::start(&[]), false);
        Stage { server, boss, authority, tls_port, book_port, admin_port, sentinel_port, sentinel, other, is_proxy }
    }

    /// A node of a cluster that asks another one, which has nearly all slots, for its clients.
    pub fn start_proxy(authority: &Authority) -> Stage<'_> {
        let node = || {
            let bus = free_port().to_string();
            Server::start_with(|folder, port| {
                folder.write("users.acl", BOSS);
                let mut all = owned(&["--port", &port.to_string(), "--save", "", "--aclfile", "users.acl"]);
                all.extend(owned(&["--cluster-enabled", "yes", "--cluster-proxy", "yes", "--cluster-port", &bus]));
                all.extend(owned(&["--protected-mode", "no"]));
                all
            })
        };
        let (server, other) = (node(), node());
        let (mut boss, mut there) = (server.client(), other.client());
        assert_eq!(ask(&mut boss, "AUTH boss x"), "OK");
        assert_eq!(ask(&mut there, "CLUSTER ADDSLOTSRANGE 0 16382"), "OK");
        assert_eq!(ask(&mut boss, "CLUSTER ADDSLOTS 16383"), "OK");
        let bus = ask(&mut there, "CONFIG GET cluster-port").replace(['[', ']', '"', ','], "");
        let bus = bus.split(' ').next_back().expect("a port").to_owned();
        assert_eq!(ask(&mut boss, &format!("CLUSTER MEET 127.0.0.1 {} {bus}", other.port)), "OK");
        let is_whole = |client: &mut Connection| ask(client, "CLUSTER INFO").contains("cluster_state:ok");
        assert!(eventually(|| is_whole(&mut boss) && is_whole(&mut there)));
        let [tls_port, book_port, admin_port, sentinel_port] = [0; 4];
        let (sentinel, is_proxy) = (None, true);
        Stage { server, boss, authority, tls_port, book_port, admin_port, sentinel_port, sentinel, other, is_proxy }
    }

    /// Runs commands of the user who changes rights, and asserts that none is refused.
    fn run(&mut self, lines: &str) {
        for line in lines.split("; ").filter(|line| !line.is_empty()) {
            let reply = ask(&mut self.boss, line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
    }

    /// Returns the connection that asks and acts at the other end of this door.
    fn other_end(&mut self, door: Door) -> &mut Connection {
        self.sentinel.as_mut().filter(|_| door == Door::Sentinel).unwrap_or(&mut self.boss)
    }

    fn reset(&mut self, way: &Way, change: &Change) {
        self.run("CLIENT UNPAUSE; CONFIG SET requirepass ''; CONFIG SET protected-mode no");
        self.run("ACL SETUSER u reset on >x ~* &* +@all; ACL SETUSER default reset on nopass ~* &* +@all");
        self.run("FLUSHALL; SET secret hidden-value; SET hidden-value 1");
        redis::cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(LIBRARY).exec(&mut self.boss).expect("a library");
        redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).exec(&mut self.boss).expect("a script");
        if self.is_proxy {
            let mut there = self.other.client();
            redis::cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(LIBRARY).exec(&mut there).expect("a library");
        }
        if let Some(sentinel) = &mut self.sentinel {
            assert_eq!(ask(sentinel, "SENTINEL SET hidden-value quorum 1"), "OK");
        }
        self.run(way.prepared);
        if way.door == Door::Migrate {
            let mut other = self.other.client();
            assert_eq!(ask(&mut other, "MSET first 1 second 1"), "OK");
            if change.user == "u" {
                // A connection whose AUTH is refused is the default user's.
                self.run("ACL SETUSER default reset");
            }
        }
    }

    fn connect(&self, door: Door, ip: IpAddr) -> Box<dyn Stream> {
        let port = match door {
            Door::Sentinel => self.sentinel_port,
            Door::Tls => self.tls_port,
            Door::Book => self.book_port,
            Door::Console => self.admin_port,
            Door::Migrate => self.other.port,
            _ => self.server.port,
        };
        let socket = || socket_to(SocketAddr::new(ip, port));
        let client: Box<dyn Stream> = match door {
            Door::Unix => Box::new(UnixStream::connect(self.server.folder.path().join("sock")).expect("a connection")),
            Door::Tls => Box::new(self.authority.client_over(socket())),
            _ => Box::new(socket()),
        };
        client.set_patience(SILENCE);
        client
    }

    /// The bytes of commands as a way in takes them.
    fn encode(&self, door: Door, user: &str, line: &str) -> Vec<u8> {
        let words: Vec<String> = line
            .split(' ')
            .map(|word| {
                match word {
                    "<getset>" => SCRIPT,
                    "<sum>" => SUM,
                    "<until>" => UNTIL,
                    word => word,
                }
                .to_owned()
            })
            .collect();
        let mut bytes = Vec::new();
        match door {
            Door::Inline => bytes.extend(format!("{line}\r\n").bytes()),
            Door::Book => encode_request(&mut bytes, &words).expect("a short request"),
            Door::Console => {
                let body = format!("{{\"commands\":[[\"{}\"]]}}", words.join("\",\""));
                let who = if user == "u" { "Authorization: Basic dTp4\r\n" } else { "" };
                let head = "POST /command HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n";
                bytes.extend(format!("{head}Content-Length: {}\r\n{who}\r\n{body}", body.len()).bytes());
            }
            Door::Migrate => {
                // Connections that are kept for the next MIGRATE are found by their address.
                let (ip, who) = if user == "u" { ("127.0.0.1", " AUTH2 u x") } else { ("127.0.0.2", "") };
                let port = self.server.port;
                bytes.extend(format!("MIGRATE {ip} {port} {line} 0 5000 COPY{who}\r\n").bytes());
            }
            _ => encode_command(&mut bytes, &words),
        }
        bytes
    }

    /// Returns what becomes of a way when this changes.
    pub fn cell(&mut self, way: &Way, change: &Change) -> &'static str {
        self.reset(way, change);
        let mut client = self.log_in(way, change);
        client.write_all(&self.encode_all(way.door, change.user, way.before)).expect("to send");
        if way.answered == "mark" && way.door == Door::Sentinel {
            // Events of before may be on their way.
            assert_eq!(ask(self.other_end(way.door), "SENTINEL SET hidden-value quorum 3"), "OK");
            let told = read_until(&mut client, |text| text.contains("quorum 3\r\n"));
            assert!(told.contains("quorum 3\r\n"), "{}: {told}", way.name);
        } else if way.answered == "mark" {
            // The bytes that a replica gets begin with everything there is.
            self.mark_of_replica(&mut client);
        } else if !way.answered.is_empty() {
            let told = read_until(&mut client, |text| text.ends_with("\r\n") && text.contains(way.answered));
            assert!(told.contains(way.answered), "{}: {told}", way.name);
        }
        self.run(way.holds);
        let held = format!(" cmd={}", way.held.split(' ').next().unwrap_or_default().to_lowercase());
        if !way.held.is_empty() {
            client.write_all(&self.encode_all(way.door, change.user, way.held)).expect("to send");
            assert!(eventually(|| ask(&mut self.boss, "CLIENT LIST").contains(&held)), "{}", way.name);
        }
        let after = self.encode_all(way.door, change.user, way.after);
        let (first, second) = after.split_at(if way.door == Door::Halves { after.len() / 2 } else { 0 });
        client.write_all(first).expect("to send");
        self.server.folder.write("users.acl", &[BOSS, change.file].concat());
        self.run(change.lines);
        let mut told = String::new();
        if way.is_running {
            // The change may have waited for the command's end.
            client.set_patience(Duration::from_millis(1));
            told = read_until(&mut client, |_| false);
            client.set_patience(SILENCE);
            if told.contains(HIDDEN) {
                return "first";
            }
        }
        for line in way.release.split("; ").filter(|line| !line.is_empty()) {
            let reply = ask(self.other_end(way.door), line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
        // The server may have closed it.
        let _ = client.write_all(second);
        if verdict(&told).is_none() {
            let is_moved = |text: &str| way.door == Door::Migrate && text.contains("+OK\r\n");
            told += &read_until(&mut client, |text| verdict(text).is_some() || is_moved(text));
        }
        self.outcome(way, &told)
    }

    fn outcome(&mut self, way: &Way, told: &str) -> &'static str {
        let (question, answer) = way.unchanged;
        let is_unchanged = ask(self.other_end(way.door), question).contains(answer);
        let outcome = match verdict(told) {
            Some("ran") => "ran",
            _ if !is_unchanged && way.door == Door::Migrate && told.contains("+OK") => "ran",
            _ if !is_unchanged => "wrote",
            Some(refused) => refused,
            None if told.ends_with(CLOSED) => "closed",
            None => "silent",
        };
        if outcome == "silent" {
            eprintln!("{} after {told:?}", way.name);
        }
        outcome
    }

    fn log_in(&self, way: &Way, change: &Change) -> Box<dyn Stream> {
        let near = IpAddr::from(Ipv4Addr::LOCALHOST);
        let far = address_that_is_not_loopback().filter(|_| change.is_of_strangers && way.door != Door::Migrate);
        let mut client = self.connect(way.door, far.unwrap_or(near));
        let (sent, reply): (Vec<u8>, &str) = match way.door {
            Door::Console | Door::Migrate => return client,
            // A reply of one byte, which is nil.
            Door::Book => (self.encode(way.door, change.user, "get other"), "\x01\0\0\0\0"),
            _ if change.user == "u" => (b"AUTH u x\r\n".to_vec(), "+OK\r\n"),
            _ => (b"PING\r\n".to_vec(), "+PONG\r\n"),
        };
        client.write_all(&sent).expect("to send");
        assert_eq!(read_until(&mut client, |text| text.len() >= reply.len()), reply);
        client
    }

    fn encode_all(&self, door: Door, user: &str, lines: &str) -> Vec<u8> {
        let lines = lines.split("; ").filter(|line| !line.is_empty());
        lines.flat_map(|line| self.encode(door, user, line)).collect()
    }

    fn mark_of_replica(&mut self, client: &mut Box<dyn Stream>) {
        let mut told = String::new();
        client.set_patience(Duration::from_millis(10));
        assert!(eventually(|| {
            self.run("SET mark mark");
            told += &read_until(client, |text| text.contains("$4\r\nmark"));
            told.contains("mark\r\n$4\r\nmark")
        }));
        client.set_patience(SILENCE);
    }
}

/// Time without bytes after which a client counts as silent.
pub const SILENCE: Duration = Duration::from_secs(2);
const CLOSED: &str = "\0closed";

/// Reads until it is enough, the connection ends or nothing more arrives.
fn read_until(client: &mut Box<dyn Stream>, is_enough: impl Fn(&str) -> bool) -> String {
    let (mut told, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match client.read(&mut buffer) {
            Ok(0) => return String::from_utf8_lossy(&told).into_owned() + CLOSED,
            Ok(read) => told.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return String::from_utf8_lossy(&told).into_owned(),
            Err(_) => return String::from_utf8_lossy(&told).into_owned() + CLOSED,
        }
        let text = String::from_utf8_lossy(&told);
        if is_enough(&text) {
            return text.into_owned();
        }
    }
}

fn verdict(told: &str) -> Option<&'static str> {
    let has = |texts: &[&str]| texts.iter().any(|text| told.contains(text));
    if has(&[HIDDEN]) {
        Some("ran")
    } else if has(&["NOPERM", "ACL failure", "permissions", "403 Forbidden"]) {
        Some("no")
    } else if has(&["-MOVED"]) {
        Some("moved")
    } else if has(&["NOAUTH", "WRONGPASS", "401 Unauthorized"]) {
        Some("noauth")
    } else {
        None
    }
}
