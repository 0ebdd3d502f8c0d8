//! No command reads or writes without its right, by any way in: a denied command has no effect, reveals nothing, and is
//! in the log of denials.

use crate::dialogue::{ask, ask_integer};
use crate::harness::{
    Folder, Server, eventually, free_port, is_peer, owned, read_to_close, run_to_end, send, socket_to,
};
use redis::{Connection, cmd};
use resp::book::{BookValue, decode_reply, encode_request};
use std::io::Read;
use std::net::{SocketAddr, TcpStream};

/// Value of each key that the users may not read.
const HIDDEN: &str = "hidden-value";

/// Commands of a user who may do everything, but with keys and channels that begin with `mine` only. The last of each
/// line is denied. No script has blanks.
const DENIED: &[&str] = &[
    "GET secret",
    "SET forbidden v",
    "SET secret v GET",
    "GETDEL secret",
    "GETEX secret",
    "APPEND secret v",
    "MGET mine secret",
    "MSET mine v forbidden v",
    "DEL mine secret",
    "UNLINK secret",
    "EXISTS secret",
    "TYPE secret",
    "TOUCH secret",
    "EXPIRE secret 100",
    "PERSIST secret",
    "DUMP secret",
    "RESTORE forbidden 0 x",
    "OBJECT ENCODING secret",
    "OBJECT FREQ secret",
    "MEMORY USAGE secret",
    "COPY secret mine-copy",
    "COPY mine forbidden",
    "RENAME secret mine-copy",
    "RENAME mine forbidden",
    "RENAMENX mine forbidden",
    "MOVE secret 1",
    "WATCH secret",
    "LCS mine secret",
    "LMOVE secret-list mine-list LEFT LEFT",
    "BLMOVE secret-list mine-list LEFT LEFT 1",
    "LMPOP 2 mine-none secret-list LEFT",
    "BLPOP mine-none secret-list 1",
    "SORT secret-list ALPHA",
    "SORT mine-list ALPHA STORE forbidden",
    "SUNIONSTORE forbidden mine-set",
    "SUNION mine-set secret-set",
    "SMOVE mine-set forbidden v",
    "ZUNIONSTORE mine-z 1 secret-z",
    "ZRANGESTORE forbidden mine-z 0 -1",
    "GEORADIUS mine-z 1 1 1 m STORE forbidden",
    "BITOP NOT mine-copy secret",
    "PFMERGE mine-copy secret",
    "PFCOUNT secret",
    "XADD forbidden 1-1 f v",
    "XREAD STREAMS mine-x secret 0 0",
    "XGROUP CREATE forbidden g 0 MKSTREAM",
    "HSET forbidden f v",
    "MIGRATE 127.0.0.1 <port> secret 0 100",
    "MIGRATE 127.0.0.1 <port> '' 0 100 KEYS mine secret",
    "EVAL return(redis.call('get',KEYS[1])) 1 secret",
    "EVAL return(redis.call('get','secret')) 0",
    "EVAL return(redis.call('set','forbidden','v')) 0",
    "EVAL_RO return(redis.call('get','secret')) 0",
    "EVAL return(redis.call('sort','secret-list')) 0",
    "EVAL return(redis.call('publish','other','v')) 0",
    "FCALL read 1 secret",
    "FCALL read_named 0 secret",
    "FCALL_RO read_named 0 secret",
    "FCALL write_named 0 forbidden",
    "MULTI; GET secret",
    "MULTI; SET forbidden v",
    "MULTI; PUBLISH other v",
    "PUBLISH other v",
    "SPUBLISH other v",
    "SUBSCRIBE mine other",
    "SSUBSCRIBE other",
    "PSUBSCRIBE *",
    "PSUBSCRIBE mine[a-z]",
    "SUBSCRIBE __keyspace@0__:secret",
    "PSUBSCRIBE __keyevent@*",
];

/// Options of permitted commands that are denied without an entry in the log of denials, for the same user.
const DENIED_OPTIONS: &[&str] = &[
    "SORT mine-list BY secret*",
    "SORT mine-list GET secret",
    "SORT_RO mine-list GET secret",
    "EVAL return(redis.call('sort','mine-list','get','secret')) 0",
];

/// Commands of a user who may only read and write, and use no channel, with any key.
const ADMINISTRATION: &[&str] = &[
    "MONITOR",
    "ACL LIST",
    "ACL SETUSER low +@all",
    "CONFIG GET *",
    "CONFIG SET maxmemory 1",
    "DEBUG OBJECT mine",
    "SAVE",
    "BGSAVE",
    "SHUTDOWN NOSAVE",
    "CLIENT LIST",
    "CLIENT KILL TYPE normal",
    "FLUSHALL",
    "FLUSHDB",
    "SWAPDB 0 1",
    "KEYS *",
    "SCRIPT FLUSH",
    "FUNCTION FLUSH",
    "EVAL return(1) 0",
    "PUBLISH mine v",
    "SUBSCRIBE mine",
    "MULTI",
    "SLOWLOG GET",
    "LATENCY LATEST",
    "BGREWRITEAOF",
    "MODULE LIST",
];

/// Commands of a user who may do everything in database 0, and nothing in others.
const OTHER_DATABASES: &[&str] = &[
    "SELECT 1",
    "MOVE mine 1",
    "COPY mine mine2 DB 1",
    "SWAPDB 0 1",
    "FLUSHALL",
    "MULTI; SELECT 1",
    "MULTI; MOVE mine 1",
    "EVAL return(redis.call('select',1)) 0",
    "EVAL return(redis.call('move','mine','1')) 0",
];

/// Commands of a user who may only read keys that begin with `secret`, and only write keys that begin with `mine`.
const HALF: &[&str] = &[
    "SET secret v",
    "APPEND secret v",
    "DEL secret",
    "UNLINK mine secret",
    "EXPIRE secret 100",
    "SETRANGE secret 0 v",
    "BITFIELD secret SET u8 0 1",
    "GETEX secret PERSIST",
    "GETDEL secret",
    "LPOP secret-list",
    "LMOVE secret-list mine-list LEFT LEFT",
    "SPOP secret-set",
    "SMOVE secret-set mine-set hidden-value",
    "RENAME secret mine",
    "MOVE secret 1",
    "SORT secret-list ALPHA STORE secret-other",
    "SINTERSTORE secret-other secret-set",
    "GET mine",
    "GETSET mine v",
    "SET mine v GET",
    "GETRANGE mine 0 -1",
    "DUMP mine",
    "LRANGE mine-list 0 -1",
    "LPOP mine-list",
    "SMEMBERS mine-set",
    "SUNIONSTORE mine-other mine-set",
    "COPY mine mine-other",
    "RENAME mine mine-other",
    "SORT mine-list ALPHA STORE mine-other",
    "XREAD STREAMS mine-x 0",
    "MULTI; GET mine",
    "EVAL return(redis.call('get','mine')) 0",
    "EVAL return(redis.call('set','secret','v')) 0",
];

const LIBRARY: &str = "#!lua name=lib
local function read(keys, args) return server.call('get', keys[1] or args[1]) end
local function write(keys, args) return server.call('set', args[1], 'v') end
server.register_function{function_name='read', callback=read, flags={'no-writes'}}
server.register_function{function_name='read_named', callback=read, flags={'no-writes'}}
server.register_function('write_named', write)";

fn fill(admin: &mut Connection) {
    for line in [
        "CONFIG SET notify-keyspace-events KEA",
        "SET secret hidden-value",
        "RPUSH secret-list hidden-value",
        "SADD secret-set hidden-value",
        "ZADD secret-z 1 hidden-value",
        "SET mine v",
        "RPUSH mine-list v",
        "SADD mine-set v",
        "ZADD mine-z 1 v",
        "XADD mine-x 1-1 f v",
        "ACL SETUSER high on nopass +@all ~mine* resetchannels &mine*",
        "ACL SETUSER one on nopass +@all ~* &* resetdbs db=0",
        "ACL SETUSER half on nopass +@all %R~secret* %W~mine* &*",
        "ACL SETUSER low on nopass ~* &* +@read +@write +@connection -@dangerous -@scripting -client",
    ] {
        assert!(!ask(admin, line).starts_with('-'), "{line}");
    }
    cmd("FUNCTION").arg("LOAD").arg(LIBRARY).exec(admin).expect("a library");
}

fn denials(admin: &mut Connection) -> i64 {
    let info = ask(admin, "INFO stats");
    let fields = info.split("\\r\\n").filter_map(|line| line.strip_prefix("acl_access_denied_"));
    fields.filter_map(|field| field.split_once(':')?.1.parse::<i64>().ok()).sum()
}

/// Runs a line as this user, whose last command is to be denied.
fn deny(server: &Server, admin: &mut Connection, user: &str, line: &str, is_logged: bool) {
    let (before, counted) = (ask(admin, "DEBUG DIGEST"), denials(admin));
    let mut client = server.client();
    assert_eq!(ask(&mut client, &format!("AUTH {user} x")), "OK");
    let line = line.replace("<port>", &server.port.to_string());
    let mut last = String::new();
    for command in line.split("; ") {
        last = ask(&mut client, command);
    }
    let is_denied = ["-NOPERM ", "ACL failure in script", "denied due to insufficient ACL permissions"];
    assert!(is_denied.iter().any(|text| last.contains(text)), "{line}: {last}");
    assert!(!last.contains(HIDDEN), "{line}: {last}");
    if line.starts_with("MULTI; ") {
        assert!(ask(&mut client, "EXEC").starts_with("-EXECABORT"), "{line}");
    }
    assert_eq!(ask(admin, "DEBUG DIGEST"), before, "{line}");
    if is_logged {
        assert!(denials(admin) > counted, "{line}");
        let log = ask(admin, "ACL LOG 1");
        assert!(log.contains(&format!("\"{user}\"")), "{line}: {log}");
    }
}

#[test]
fn denied_commands_have_no_effect_by_any_way_in() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut admin = server.client();
    fill(&mut admin);
    for line in DENIED {
        deny(&server, &mut admin, "high", line, true);
    }
    for line in DENIED_OPTIONS {
        deny(&server, &mut admin, "high", line, false);
    }
    for line in ADMINISTRATION {
        // Protected commands are checked before rights.
        deny(&server, &mut admin, "low", line, true);
    }
    for line in OTHER_DATABASES {
        deny(&server, &mut admin, "one", line, true);
    }
    for line in HALF {
        deny(&server, &mut admin, "half", line, true);
    }
    assert!(server.stop().success());
}

#[test]
fn rights_that_are_taken_count_for_who_waits_and_for_what_is_queued() {
    for threads in [1, 4] {
        let server = Server::start_with_threads(threads, &[]);
        let mut admin = server.client();
        for rule in ["-blpop", "resetkeys", "-@all"] {
            assert_eq!(ask(&mut admin, "ACL SETUSER u reset on nopass +@all ~*"), "OK");
            let (mut waiting, mut queueing) = (server.socket(), server.client());
            send(&mut waiting, b"AUTH u x\r\nBLPOP q 0\r\n");
            assert!(eventually(|| ask(&mut admin, "INFO clients").contains("blocked_clients:1\\r\\n")));
            for (line, reply) in [("AUTH u x", "OK"), ("MULTI", "OK"), ("BLPOP q 1", "QUEUED"), ("SET p v", "QUEUED")] {
                assert_eq!(ask(&mut queueing, line), reply);
            }
            assert_eq!(ask(&mut admin, &format!("ACL SETUSER u {rule}")), "OK");
            assert_eq!(ask_integer(&mut admin, "RPUSH q v"), 1);
            let mut reply = [0; 13];
            waiting.read_exact(&mut reply).expect("an answer");
            assert_eq!(&reply, b"+OK\r\n-NOPERM ", "{rule}");
            let ran = ask(&mut queueing, "EXEC");
            assert!(ran.contains("NOPERM"), "{rule}: {ran}");
            assert_eq!(ask_integer(&mut admin, "LLEN q"), 1, "{rule}");
            assert!(ask(&mut admin, "ACL LOG 1").contains("\"u\""), "{rule}");
            ask_integer(&mut admin, "DEL q p");
        }
        assert!(server.stop().success());
    }
}

/// A command that waits, a right that it needs and that is taken, and a command that would serve it.
const WAITING: &[(&str, &str, &str)] = &[
    ("BLMOVE q d LEFT LEFT 0", "resetkeys ~q", "RPUSH q v"),
    ("BLMOVE q d LEFT LEFT 0", "resetkeys %R~q ~d", "RPUSH q v"),
    ("BLMPOP 0 2 none q LEFT", "resetkeys ~q", "RPUSH q v"),
    ("BZPOPMIN q 0", "resetkeys %R~q", "ZADD q 1 v"),
    ("BZMPOP 0 1 q MAX", "-bzmpop", "ZADD q 1 v"),
    ("XREAD BLOCK 0 STREAMS q $", "resetkeys %W~q", "XADD q 1-1 f v"),
    ("BLPOP q 0", "resetdbs db=1", "RPUSH q v"),
];

#[test]
fn a_waiting_client_is_served_by_the_rights_of_that_moment() {
    for threads in [1, 4] {
        let server = Server::start_with_threads(threads, &["--enable-debug-command", "yes"]);
        let mut admin = server.client();
        for (line, rules, serves) in WAITING {
            assert_eq!(ask(&mut admin, "ACL SETUSER u reset on nopass +@all ~*"), "OK");
            let mut waiting = server.socket();
            send(&mut waiting, format!("AUTH u x\r\n{line}\r\n").as_bytes());
            assert!(eventually(|| ask(&mut admin, "INFO clients").contains("blocked_clients:1\\r\\n")), "{line}");
            assert_eq!(ask(&mut admin, &format!("ACL SETUSER u {rules}")), "OK");
            assert!(!ask(&mut admin, serves).starts_with('-'), "{serves}");
            let mut reply = [0; 13];
            waiting.read_exact(&mut reply).expect("an answer");
            assert_eq!(&reply, b"+OK\r\n-NOPERM ", "{line} without {rules}");
            assert_eq!([ask_integer(&mut admin, "EXISTS q"), ask_integer(&mut admin, "EXISTS d")], [1, 0], "{line}");
            assert_eq!(ask_integer(&mut admin, "DEL q"), 1);
        }
        assert!(server.stop().success());
    }
}

/// A connection of the user `u` that has sent this.
fn of_user(server: &Server, sent: &str) -> TcpStream {
    let mut socket = server.socket();
    send(&mut socket, format!("AUTH u x\r\n{sent}").as_bytes());
    let mut reply = [0; 5];
    socket.read_exact(&mut reply).expect("an answer");
    assert_eq!(&reply, b"+OK\r\n");
    socket
}

#[test]
fn a_connection_ends_with_its_user_or_with_the_right_to_what_it_hears() {
    for threads in [1, 4] {
        let server = Server::start_with_threads(threads, &[]);
        let mut admin = server.client();
        let again = "ACL SETUSER u reset on nopass +@all ~* resetchannels &a &b*";
        assert_eq!(ask(&mut admin, again), "OK");
        let (mut idle, mut hears) = (of_user(&server, ""), of_user(&server, "SUBSCRIBE a\r\n"));
        let mut hears_pattern = of_user(&server, "PSUBSCRIBE b*\r\n");
        assert!(eventually(|| ask(&mut admin, "INFO clients").contains("pubsub_clients:2\\r\\n")));
        assert_eq!(ask(&mut admin, "ACL SETUSER u resetchannels &b*"), "OK");
        assert!(read_to_close(&mut hears).contains("subscribe"));
        assert_eq!(ask_integer(&mut admin, "PUBLISH bb x"), 1);
        assert_eq!(ask(&mut admin, "ACL SETUSER u resetchannels &bb"), "OK");
        assert!(read_to_close(&mut hears_pattern).contains("pmessage"));
        send(&mut idle, b"SET k v\r\n");
        let mut reply = [0; 5];
        idle.read_exact(&mut reply).expect("an answer");
        assert_eq!(&reply, b"+OK\r\n", "it hears nothing");
        assert_eq!(ask(&mut admin, "ACL SETUSER u -set"), "OK");
        send(&mut idle, b"SET k w\r\n");
        assert_eq!(ask_integer(&mut admin, "ACL DELUSER u"), 1);
        let told = read_to_close(&mut idle);
        assert!(told.is_empty() || told.starts_with("-NOPERM") || told.starts_with("-NOAUTH"), "{told}");
        assert_eq!(ask(&mut admin, "GET k"), "\"v\"");
        assert!(server.stop().success());
    }
}

#[test]
fn clients_of_the_book_protocol_have_the_rights_of_the_default_user() {
    if is_peer() {
        return;
    }
    let book = free_port();
    let server = Server::start(&["--book-port", &book.to_string()]);
    let mut admin = server.client();
    for line in ["ACL SETUSER boss on nopass +@all ~* &*", "AUTH boss x", "SET secret hidden-value", "SET mine v"] {
        assert_eq!(ask(&mut admin, line), "OK");
    }
    assert_eq!(ask(&mut admin, "ACL SETUSER default reset on nopass ~mine +get"), "OK");
    let mut socket = socket_to(SocketAddr::from(([127, 0, 0, 1], book)));
    let mut ask_book = |words: &[&str]| {
        let mut request = Vec::new();
        encode_request(&mut request, words).expect("a short request");
        send(&mut socket, &request);
        let mut reply = vec![0; 4];
        socket.read_exact(&mut reply).expect("a length");
        reply.resize(4 + u32::from_le_bytes([reply[0], reply[1], reply[2], reply[3]]) as usize, 0);
        socket.read_exact(&mut reply[4..]).expect("a value");
        decode_reply(&reply).expect("a value that is well formed").expect("all of it").0
    };
    assert_eq!(ask_book(&["get", "mine"]), BookValue::Str(b"v".to_vec()));
    for words in
        [&["get", "secret"][..], &["set", "mine", "w"], &["set", "forbidden", "v"], &["del", "secret"], &["keys"]]
    {
        let reply = ask_book(words);
        assert!(matches!(&reply, BookValue::Err(..)), "{words:?}: {reply:?}");
    }
    assert_eq!(ask(&mut admin, "MGET mine secret forbidden"), "[\"v\", \"hidden-value\", nil]");
    assert_eq!(ask_integer(&mut admin, "DBSIZE"), 2);
    assert!(denials(&mut admin) >= 5);
    assert!(server.stop().success());
}

#[test]
fn users_come_with_the_configuration_or_with_a_file() {
    let shown = "\"user bob on nopass ~b* resetchannels -@all +get\"";
    let at_start = |of: &dyn Fn(&Folder) -> String| {
        let server = Server::start_with(|folder, port| {
            let text = of(folder);
            let file = folder.write("server.conf", &format!("port {port}\nsave \"\"\n{text}\n"));
            owned(&[&file.to_string_lossy()])
        });
        let mut admin = server.client();
        let list = ask(&mut admin, "ACL LIST");
        assert!(list.contains(shown), "{list}");
        let mut bob = server.client();
        assert_eq!(ask(&mut bob, "AUTH bob x"), "OK");
        assert!(ask(&mut bob, "GET a").starts_with("-NOPERM") && ask(&mut bob, "SET b v").starts_with("-NOPERM"));
        assert_eq!(ask(&mut bob, "GET b"), "nil");
        assert!(server.stop().success());
    };
    at_start(&|_| "user bob on nopass ~b* +get".to_owned());
    at_start(&|folder| {
        folder.write("users.acl", "user bob on nopass ~b* +get\n");
        "aclfile users.acl".to_owned()
    });
    let folder = Folder::new();
    folder.write("users.acl", "user bob on nopass ~b* +nonsense\n");
    let port = free_port().to_string();
    let (status, _) = run_to_end(&folder, &["--port", &port, "--aclfile", "users.acl"]);
    assert!(!status.success());
    let log = folder.read("stdout");
    assert!(log.contains("Aborting") && log.contains("users.acl:1"), "{log}");
}

/// As in Valkey, and as `docs/design/users.md` says.
#[test]
fn loss_of_rights_ends_neither_a_users_tracking_nor_its_open_connections() {
    let server = Server::start_with_threads(2, &[]);
    let mut admin = server.client();
    assert_eq!(ask(&mut admin, "ACL SETUSER u on >x ~* &* +@all"), "OK");
    let mut tracking = server.socket();
    send(&mut tracking, b"HELLO 3 AUTH u x\r\nCLIENT TRACKING ON BCAST PREFIX s:\r\nPING\r\n");
    read_to(&mut tracking, "+PONG\r\n");
    let mut open = server.client();
    assert_eq!(ask(&mut open, "SET k v"), "OK");
    for (change, key) in [("resetkeys resetchannels -@all", "s:1"), ("off", "s:2")] {
        assert_eq!(ask(&mut admin, &format!("ACL SETUSER u {change}")), "OK");
        assert_eq!(ask(&mut admin, &format!("SET {key} v")), "OK");
        read_to(&mut tracking, &format!("{key}\r\n"));
    }
    send(&mut tracking, b"GET s:1\r\n");
    read_to(&mut tracking, "-NOPERM");
    assert_eq!(ask(&mut admin, "CONFIG SET requirepass p"), "OK");
    assert_eq!(ask(&mut admin, "ACL SETUSER default off"), "OK");
    assert_eq!(ask(&mut open, "GET k"), "\"v\"");
    let mut late = server.socket();
    send(&mut late, b"PING\r\n");
    read_to(&mut late, "-NOAUTH");
}

/// Reads until this has arrived.
fn read_to(socket: &mut TcpStream, end: &str) {
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains(end) {
        let mut byte = [0];
        assert!(socket.read(&mut byte).is_ok_and(|read| read == 1), "{}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
}
