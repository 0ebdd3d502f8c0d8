//! Scripts and functions over the wire: values both ways, long runs and how they are ended from other connections, the
//! debugger.

use crate::dialogue::{ask, dialogue, show};
use crate::harness::{Server, bytes_of, eventually, expect_bytes, is_peer, on_each_thread_count, send};
use redis::{Connection, Value};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

fn eval(client: &mut Connection, script: &str, keys: &[&str], words: &[&str]) -> String {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(keys.len()).arg(keys).arg(words);
    told(&command, client)
}

/// The bytes of an EVAL.
fn request(script: &str, keys: &[&str]) -> Vec<u8> {
    redis::cmd("EVAL").arg(script).arg(keys.len()).arg(keys).get_packed_command()
}

fn told(command: &redis::Cmd, client: &mut Connection) -> String {
    match command.query::<Value>(client) {
        Ok(value) => show(&value),
        Err(error) => format!("{} {}", error.code().unwrap_or("ERR"), error.detail().unwrap_or_default()),
    }
}

#[test]
fn values_go_both_ways() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        let reply =
            eval(&mut client, "return {KEYS[1], ARGV, 3.9, false, true, {ok = 'fine'}, 'x'}", &["k"], &["a", "b"]);
        assert_eq!(reply, "[\"k\", [\"a\", \"b\"], 3, nil, 1, fine, \"x\"]");
        let script = "redis.call('HSET', KEYS[1], 'f', 'v') redis.setresp(3) return redis.call('HGETALL', KEYS[1])";
        assert_eq!(eval(&mut server.client_speaking("resp3"), script, &["h"], &[]), "{\"f\": \"v\"}");
        assert_eq!(eval(&mut client, script, &["h"], &[]), "[\"f\", \"v\"]");
        let reply = eval(
            &mut client,
            "redis.log(redis.LOG_WARNING, 'seen') return redis.pcall('INCR', KEYS[1]).err",
            &["h"],
            &[],
        );
        assert!(reply.starts_with("\"WRONGTYPE "), "{reply}");
    });
}

/// Each of the items is a level of Lua's recursion on the worker's stack.
#[test]
fn long_patterns_do_not_end_the_server() {
    on_each_thread_count(&[], |server| {
        let script = "return (select(2, string.find(string.rep('a', ARGV[1]), string.rep('a?', ARGV[1]))))";
        assert_eq!(eval(&mut server.client(), script, &[], &["100000"]), "100000");
    });
}

#[test]
fn a_script_has_many_long_strings_that_differ_little() {
    let server = Server::start(&[]);
    let mut socket = server.socket();
    let script = "local t = {} for i = 1, 90000 do t[i] = ('y'):rep(500)..i..('y'):rep(500) end return #t";
    send(&mut socket, &request(script, &[]));
    expect_bytes(&mut socket, b":90000\r\n");
}

#[test]
fn scripts_and_functions_of_one_connection_run_on_all() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        let sha: String = redis::cmd("SCRIPT")
            .arg("LOAD")
            .arg("return redis.call('INCR', KEYS[1])")
            .query(&mut client)
            .expect("a SHA");
        let library = "#!lua name=counting\nserver.register_function('count', function(keys, args)\n\
                       return redis.call('INCRBY', keys[1], args[1]) end)";
        assert_eq!(told(redis::cmd("FUNCTION").arg("LOAD").arg(library), &mut client), "\"counting\"");
        for n in 1..=8 {
            let mut other = server.client();
            assert_eq!(ask(&mut other, &format!("EVALSHA {sha} 1 k")), n.to_string());
            assert_eq!(ask(&mut other, "FCALL count 1 l 2"), (2 * n).to_string());
        }
        assert_eq!(ask(&mut client, "FUNCTION DELETE counting"), "OK");
        assert!(ask(&mut server.client(), "FCALL count 1 l 2").contains("Function not found"));
    });
}

/// Clients of all workers.
fn crowd(server: &Server) -> Vec<Connection> {
    (0..8).map(|_| server.client()).collect()
}

fn is_busy(client: &mut Connection, command: &str) -> bool {
    ask(client, command).contains("BUSY")
}

#[test]
fn a_long_script_is_told_of_and_ended() {
    on_each_thread_count(&["--busy-reply-threshold", "50"], |server| {
        let library = "#!lua name=lib\nserver.register_function('spin', function() while true do end end)";
        assert_eq!(told(redis::cmd("FUNCTION").arg("LOAD").arg(library), &mut server.client()), "\"lib\"");
        let endless = request("while true do end", &["k"]);
        let call = b"FCALL spin 1 k\r\n".to_vec();
        for (call, kill, wrong) in [(endless, "SCRIPT KILL", "FUNCTION KILL"), (call, "FUNCTION KILL", "SCRIPT KILL")] {
            let mut clients = crowd(server);
            let mut socket = server.socket();
            send(&mut socket, &call);
            // Clients that want the same key, another one, or all.
            for (n, client) in clients.iter_mut().enumerate() {
                let command = ["GET k", "GET other", "MGET k other", "DBSIZE"][n % 4];
                assert!(eventually(|| is_busy(client, command)), "{command} waits in silence");
            }
            assert!(is_busy(&mut clients[0], wrong));
            assert_eq!(ask(&mut clients[5], kill), "OK");
            expect_bytes(&mut socket, b"-ERR Script killed by user with ");
            assert!(clients.iter_mut().all(|client| eventually(|| ask(client, "PING") == "PONG")));
        }
    });
}

/// Loops of few instructions, each of which takes long.
const SLOW_LOOPS: &[&str] = &[
    "while true do string.rep('x', 2e7) end",
    "while true do pcall(string.rep, 'x', 2e7) end",
    "local s = string.rep('x', 2e7) while true do local t = s .. 'y' end",
    "coroutine.wrap(function() while true do string.rep('x', 2e7) end end)()",
    "coroutine.wrap(function() local s = string.rep('x', 2e7) while true do local t = s .. 'y' end end)()",
    "local s = string.rep('a', 1000) while true do string.find(s, 'a-b') end",
    "local t = {} for i = 1, 2e5 do t[i] = i end while true do table.sort(t) end",
    "local t = {} for i = 1, 2e5 do t[i] = i end while true do table.insert(t, 1, 0) table.remove(t, 1) end",
    "local t = {} for i = 1, 2e4 do t[i] = i end while true do cjson.encode(t) end",
    "local t = {} for i = 1, 2e4 do t[i] = i end while true do cmsgpack.pack(t) end",
    "while true do redis.pcall('bitcount', KEYS[1]) end",
];

/// The reader's patience is not for as many instructions as a quick loop does between two looks.
#[test]
fn a_script_of_slow_instructions_is_ended_soon() {
    if is_peer() {
        return;
    }
    let server = Server::start_with_threads(1, &["--busy-reply-threshold", "50"]);
    let mut client = server.client();
    assert_eq!(ask(&mut client, "SETRANGE k 20000000 x"), "20000001");
    for script in SLOW_LOOPS {
        let mut socket = server.socket();
        send(&mut socket, &request(script, &["k"]));
        assert!(eventually(|| ask(&mut client, "SCRIPT KILL") == "OK"), "{script}");
        expect_bytes(&mut socket, b"-ERR Script killed by user with SCRIPT KILL");
    }
    assert!(server.stop().success());
}

/// A client whose script, with the key `k`, runs by now.
fn begin(server: &Server, script: &str) -> TcpStream {
    let mut socket = server.socket();
    send(&mut socket, &request(script, &["k"]));
    let mut client = server.client();
    assert!(eventually(|| ask(&mut client, "CLIENT LIST").contains("cmd=eval")));
    socket
}

/// Commands of every way to take locks, with a key that the script has, another one, or all.
const WAITING: [&str; 15] = [
    "GET k",
    "MGET other k",
    "SCAN 0 COUNT 1000",
    "KEYS *",
    "FLUSHALL",
    "FLUSHDB SYNC",
    "SWAPDB 0 1",
    "SORT other BY *",
    "COPY k other",
    "EVAL return(redis.call('get','k')) 0",
    "EVAL return(redis.call('get',KEYS[1])) 1 k",
    "BLPOP k 0",
    "WATCH k",
    "SAVE",
    "DEBUG RELOAD",
];

#[test]
fn requests_that_wait_when_the_server_gets_busy_are_answered_busy() {
    on_each_thread_count(&["--busy-reply-threshold", "300", "--enable-debug-command", "yes"], |server| {
        let mut clients = crowd(server);
        assert_eq!(ask(&mut clients[0], "SET k v"), "OK");
        assert_eq!(ask(&mut clients[0], "LPUSH other 1"), "1");
        let mut transaction = server.socket();
        send(&mut transaction, b"MULTI\r\nKEYS *\r\n");
        expect_bytes(&mut transaction, b"+OK\r\n+QUEUED\r\n");
        let mut socket = begin(server, "redis.call('GET', KEYS[1]) while true do end");
        let mut waiting: Vec<_> = WAITING.iter().map(|command| (command, server.socket())).collect();
        send(&mut transaction, b"EXEC\r\n");
        for (command, socket) in &mut waiting {
            let mut words = command.split(' ');
            let mut request = redis::cmd(words.next().expect("a name"));
            words.for_each(|word| _ = request.arg(word));
            send(socket, &request.get_packed_command());
        }
        for (command, socket) in &mut waiting {
            println!("{command}");
            expect_bytes(socket, b"-BUSY ");
        }
        expect_bytes(&mut transaction, b"-EXECABORT Transaction discarded because of: BUSY ");
        assert!(eventually(|| ask(&mut clients[3], "SCRIPT KILL") == "OK"));
        expect_bytes(&mut socket, b"-ERR Script killed by user with ");
        assert_eq!(ask(&mut clients[5], "GET k"), "\"v\"", "nothing was flushed");
    });
}

/// A client of the script's worker that waits for its end gets the error that the server is busy.
#[test]
fn a_pause_ends_during_a_script() {
    on_each_thread_count(&["--busy-reply-threshold", "50"], |server| {
        let mut clients = crowd(server);
        let mut waiting: Vec<_> = (0..8).map(|_| server.socket()).collect();
        assert_eq!(ask(&mut clients[0], "CLIENT PAUSE 1000 WRITE"), "OK");
        waiting.iter_mut().for_each(|socket| send(socket, b"SET k v\r\n"));
        assert!(eventually(|| ask(&mut clients[0], "INFO clients").contains("paused_timeout_milliseconds")));
        // On each worker: the first one ends the pause.
        let mut scripts: Vec<_> = (0..8).map(|_| server.socket()).collect();
        scripts.iter_mut().for_each(|socket| send(socket, b"EVAL_RO 'while true do end' 0\r\n"));
        waiting.iter_mut().for_each(|socket| expect_bytes(socket, b"-BUSY "));
        for socket in &mut scripts {
            let mut first = [0];
            assert!(eventually(|| {
                ask(&mut clients[0], "SCRIPT KILL");
                matches!(socket.peek(&mut first), Ok(1))
            }));
        }
    });
}

#[test]
fn a_long_reply_that_has_begun_goes_on_during_a_script() {
    const ITEMS: usize = 60_000;
    const ITEM: usize = 100;
    on_each_thread_count(&["--busy-reply-threshold", "300"], |server| {
        let mut client = server.client();
        let fill =
            format!("local x = ('x'):rep({ITEM}) for i = 1, {ITEMS} do redis.call('RPUSH', KEYS[1], x) end return 1");
        assert_eq!(eval(&mut client, &fill, &["l"], &[]), "1");
        let header = format!("*{ITEMS}\r\n");
        // More than sockets hold; on each worker.
        let mut readers: Vec<_> = (0..8).map(|_| server.socket()).collect();
        for reader in &mut readers {
            send(reader, b"LRANGE l 0 -1\r\n");
            expect_bytes(reader, header.as_bytes());
        }
        let mut socket = begin(server, "redis.call('GET', KEYS[1]) while true do end");
        assert!(eventually(|| is_busy(&mut client, "GET k")));
        let item = format!("${ITEM}\r\n{}\r\n", "x".repeat(ITEM));
        for reader in &mut readers {
            let rest = bytes_of(reader, ITEMS * item.len());
            assert!(rest.chunks(item.len()).all(|chunk| chunk == item.as_bytes()));
        }
        assert!(eventually(|| ask(&mut client, "SCRIPT KILL") == "OK"));
        expect_bytes(&mut socket, b"-ERR Script killed by user with ");
    });
}

#[test]
fn commands_sent_together_with_a_long_script_are_answered() {
    on_each_thread_count(&["--busy-reply-threshold", "300", "--enable-debug-command", "yes"], |server| {
        let mut client = server.client();
        let fill = "for i = 1, 5000 do redis.call('SET', 'key:' .. i, i) end return 1";
        assert_eq!(eval(&mut client, fill, &[], &[]), "1");
        let mut lists: Vec<_> = (0..4).map(|_| server.socket()).collect();
        let mut keys: Vec<_> = (0..4).map(|_| server.socket()).collect();
        let (mut sleepers, mut socket) = ([server.socket()], server.socket());
        // So that all of it is read in one turn.
        send(&mut sleepers[0], b"DEBUG SLEEP 0.2\r\n");
        lists.iter_mut().for_each(|socket| send(socket, b"CLIENT LIST\r\n"));
        keys.iter_mut().for_each(|socket| send(socket, b"KEYS *\r\n"));
        send(&mut socket, &request("redis.call('GET', KEYS[1]) while true do end", &["k"]));
        // Another worker may have been quicker than the script, and a client that was read late gets the error that the
        // server is busy.
        for (sockets, kind) in [(&mut sleepers[..], b'+'), (&mut lists, b'$'), (&mut keys, b'*')] {
            for socket in sockets {
                let first = bytes_of(socket, 1)[0];
                assert!([kind, b'-'].contains(&first), "{}", char::from(first));
            }
        }
        assert!(eventually(|| ask(&mut client, "SCRIPT KILL") == "OK"));
        expect_bytes(&mut socket, b"-ERR Script killed by user with ");
    });
}

#[test]
fn a_script_keeps_only_those_waiting_who_want_its_keys() {
    on_each_thread_count(&["--busy-reply-threshold", "4000"], |server| {
        let mut clients = crowd(server);
        let mut socket = begin(server, "while true do redis.call('GET', KEYS[1]) end");
        let mut wanting: Vec<_> = (0..8).map(|_| server.socket()).collect();
        wanting.iter_mut().for_each(|socket| send(socket, b"GET k\r\n"));
        let mut others: Vec<_> = (0..24).map(|_| server.socket()).collect();
        for (n, socket) in others.iter_mut().enumerate() {
            send(socket, format!("GET other:{n}\r\n").as_bytes());
        }
        let kinds: Vec<u8> = others.iter_mut().map(|socket| bytes_of(socket, 1)[0]).collect();
        // Some of the keys may lie where the script's does.
        assert!(kinds.iter().filter(|kind| **kind == b'$').count() > 12, "{kinds:?}");
        wanting.iter_mut().for_each(|socket| expect_bytes(socket, b"-BUSY "));
        assert!(eventually(|| ask(&mut clients[0], "SCRIPT KILL") == "OK"));
        expect_bytes(&mut socket, b"-ERR Script killed by user with ");
    });
}

#[test]
fn a_script_that_looks_at_no_clock_keeps_only_those_waiting_who_want_its_locks() {
    let server = Server::start_with_threads(4, &[]);
    let mut script = server.socket();
    // One call of a native function, which cannot report that it takes seconds.
    let long = "redis.call('GET', KEYS[1]) return ('a'):rep(900):find('^.-.-.-b') or 1";
    send(&mut script, &request(long, &["k"]));
    std::thread::sleep(Duration::from_millis(100));
    let mut wanting: Vec<_> = (0..8).map(|_| server.socket()).collect();
    wanting.iter_mut().for_each(|socket| send(socket, b"GET k\r\n"));
    let mut others: Vec<_> = (0..8).map(|_| server.socket()).collect();
    others.iter_mut().for_each(|socket| send(socket, b"PING\r\n"));
    others.iter().chain([&script]).for_each(|socket| socket.set_nonblocking(true).expect("a socket"));
    let is_answered = |socket: &TcpStream| socket.peek(&mut [0]).is_ok();
    // Clients of its own worker are answered when it has ended.
    assert!(eventually(|| others.iter().filter(|socket| is_answered(socket)).count() > 3));
    assert!(!is_answered(&script));
    wanting.iter_mut().for_each(|socket| expect_bytes(socket, b"$-1"));
}

/// Scripts that run for ever where a script's code is called from elsewhere, or catch whatever ends them.
const ENDLESS: [&str; 17] = [
    "xpcall(error, function() while true do end end)",
    "xpcall(function() while true do end end, function() while true do end end)",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "xpcall(error, function() xpcall(error, function() while true do end end) while true do end end)",
    "xpcall(error, function() error({}) end) while true do xpcall(error, error) end",
    "xpcall(error, coroutine.wrap(function() while true do end end))",
    "while true do pcall(function() while true do end end) end",
    "while true do pcall(coroutine.wrap(function() while true do end end)) end",
    "local function f() while true do pcall(f) end end f()",
    "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
    "return tostring(setmetatable({}, {__tostring = function() while true do end end}))",
    "return setmetatable({}, {__concat = function() while true do end end}) .. 'x'",
    "table.sort({1, 2, 3}, function() while true do end end)",
    "string.gsub('x', 'x', function() while true do end end)",
    "load(function() while true do end end)",
    "while true do xpcall(function() while true do end end, tostring) end",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
];

#[test]
fn no_handler_and_no_callback_keeps_a_script_from_being_killed() {
    // One interpreter runs all of them: a killed script leaves nothing that keeps the next one from being killed.
    let server = Server::start_with_threads(1, &["--busy-reply-threshold", "20"]);
    let mut client = server.client();
    let library = "#!lua name=lib\nserver.register_function('f', function() \
                   xpcall(error, function() while true do end end) end)";
    assert_eq!(told(redis::cmd("FUNCTION").arg("LOAD").arg(library), &mut client), "\"lib\"");
    let scripts = ENDLESS.iter().map(|script| request(script, &["k"]));
    for (call, kill) in
        scripts.map(|call| (call, "SCRIPT KILL")).chain([(b"FCALL f 1 k\r\n".to_vec(), "FUNCTION KILL")])
    {
        println!("{}", String::from_utf8_lossy(&call));
        let mut socket = server.socket();
        send(&mut socket, &call);
        assert!(eventually(|| ask(&mut client, kill) == "OK"));
        expect_bytes(&mut socket, b"-ERR Script killed by user with ");
    }
}

/// A call of a native function that cannot report that it takes a second or more.
const LONG_CALL: &str = "return ('a'):rep(900):find('^.-.-.-b') or 1";

/// Requests the end of a script that is in a [`LONG_CALL`] by then. Returns the replies of the meantime.
fn kill_in_long_call(server: &Server, before: &str, expected: &[u8]) -> Vec<u8> {
    let mut script = server.socket();
    send(&mut script, &request(&format!("{before} {LONG_CALL}"), &["k"]));
    std::thread::sleep(Duration::from_millis(200));
    let mut killers: Vec<_> = (0..8).map(|_| server.socket()).collect();
    killers.iter_mut().for_each(|socket| send(socket, b"SCRIPT KILL\r\n"));
    expect_bytes(&mut script, expected);
    // Clients of the script's own worker are answered when it has ended.
    let first = killers.iter_mut().map(|socket| bytes_of(socket, 2)[1]);
    first.filter(|letter| *letter != b'N').collect()
}

#[test]
fn a_script_in_a_long_native_call_is_killed_as_any_other() {
    let server = Server::start_with_threads(4, &["--busy-reply-threshold", "50"]);
    let answers = kill_in_long_call(&server, "", b"-ERR Script killed by user with ");
    assert!(answers.len() > 3 && answers.iter().all(|letter| *letter == b'O'), "{answers:?}");
    let answers = kill_in_long_call(&server, "redis.call('SET', KEYS[1], 1)", b":1\r\n");
    assert!(answers.len() > 3 && answers.iter().all(|letter| *letter == b'U'), "{answers:?}");
}

#[test]
fn a_script_that_has_written_cannot_be_killed() {
    let server = Server::start_with_threads(4, &["--busy-reply-threshold", "50"]);
    let mut clients = crowd(&server);
    let mut socket = server.socket();
    send(&mut socket, &request("redis.call('SET', KEYS[1], 1) while true do end", &["k"]));
    for client in &mut clients {
        assert!(eventually(|| ask(client, "SCRIPT KILL").contains("UNKILLABLE")));
    }
    send(&mut server.socket(), b"SHUTDOWN NOSAVE\r\n");
    assert!(server.wait().success());
}

/// A script that has moved a half of an amount, and runs for ever.
const HALF: &str = "redis.call('DECRBY', KEYS[1], 50) while true do end";

#[test]
fn a_script_that_the_servers_end_cuts_off_leaves_no_half() {
    for by_signal in [false, true] {
        // A real server waits for the script's end.
        if by_signal && is_peer() {
            continue;
        }
        let mut server = Server::start_with_threads(2, &["--busy-reply-threshold", "50", "--appendonly", "yes"]);
        let mut client = server.client();
        assert_eq!(ask(&mut client, "MSET k 100 other 0"), "OK");
        let mut socket = server.socket();
        send(&mut socket, &request(HALF, &["k"]));
        assert!(eventually(|| ask(&mut client, "GET other").contains("BUSY ")));
        for line in ["SHUTDOWN", "SHUTDOWN SAVE", "SHUTDOWN NOW", "SHUTDOWN FORCE"] {
            assert!(ask(&mut client, line).contains("BUSY "), "{line}");
        }
        match by_signal {
            true => server.signal("TERM"),
            false => send(&mut server.socket(), b"SHUTDOWN NOSAVE\r\n"),
        }
        assert_eq!(after_its_end(&mut server), "[\"100\", \"0\"]", "by a signal: {by_signal}");
    }
}

#[test]
fn a_last_save_that_waits_for_a_script_is_given_up() {
    let mut server =
        Server::start_with_threads(2, &["--busy-reply-threshold", "50", "--appendonly", "yes", "--save", "3600 1"]);
    let mut client = server.client();
    assert_eq!(ask(&mut client, "MSET k 100 other 0"), "OK");
    let mut socket = server.socket();
    send(&mut socket, &request(HALF, &["k"]));
    assert!(eventually(|| ask(&mut client, "GET other").contains("BUSY ")));
    server.signal("TERM");
    assert!(is_peer() || eventually(|| server.folder.read("stdout").contains("Saving the final RDB")));
    send(&mut server.socket(), b"SHUTDOWN NOSAVE\r\n");
    assert_eq!(after_its_end(&mut server), "[\"100\", \"0\"]");
}

#[test]
fn a_server_that_ends_before_a_script_keeps_it_busy_ends_the_script_then() {
    if is_peer() {
        return;
    }
    for by_signal in [false, true] {
        let mut server = Server::start_with_threads(2, &["--busy-reply-threshold", "500", "--appendonly", "yes"]);
        assert_eq!(ask(&mut server.client(), "MSET k 100 other 0"), "OK");
        let _socket = begin(&server, HALF);
        match by_signal {
            true => server.signal("TERM"),
            false => send(&mut server.socket(), b"SHUTDOWN NOSAVE\r\n"),
        }
        assert_eq!(after_its_end(&mut server), "[\"100\", \"0\"]", "by a signal: {by_signal}");
    }
}

#[test]
fn a_second_interrupt_ends_a_server_whose_script_is_in_a_call_without_an_end() {
    if is_peer() {
        return;
    }
    let server = Server::start_with_threads(2, &[]);
    let _socket = begin(&server, "return ('a'):rep(9000):find('^.-.-.-.-b')");
    server.signal("INT");
    assert!(eventually(|| TcpStream::connect(("127.0.0.1", server.port)).is_err()), "it still listens");
    server.signal("INT");
    assert_eq!(server.wait().code(), Some(1));
}

/// Two keys of a server that ends by itself, when it has started again.
fn after_its_end(server: &mut Server) -> String {
    let stat = format!("/proc/{}/stat", server.pid());
    assert!(eventually(|| std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z "))), "it goes on");
    server.crash();
    ask(&mut server.client(), "MGET k other")
}

/// Scripts that take memory without an end, each in its way.
const GREEDY: [&str; 8] = [
    "local s = ('x'):rep(2^26) local t = {} while true do t[#t + 1] = s .. #t end",
    "local t = {} for i = 1, 2^40 do t[i] = {i, i, i, i, i, i, i, i} end",
    "local t = {} while true do t = {t} end",
    "while true do pcall(function() local t = {} while true do t = {t, {}} end end) error('x' .. nil) end",
    "local s = ('x'):rep(2^27) local t = {} for i = 1, 99 do t[i] = s end return table.concat(t)",
    "local s = ('x'):rep(2^27) local t = {} for i = 1, 99 do t[i] = s end return cjson.encode(t)",
    "local s = ('x'):rep(2^27) local t = {} for i = 1, 99 do t[i] = s end return redis.call('DEL', unpack(t))",
    "local s = ('x'):rep(2^27) local t = {} for i = 1, 99 do t[i] = s end return t",
];

#[test]
fn a_script_that_finds_no_memory_fails_alone() {
    if is_peer() {
        return;
    }
    let server = Server::start_with_threads(2, &[]);
    let mut client = server.client();
    // Only as much as there is now, and 160 MB.
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("a process");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a size");
    let kilobytes: u64 = size.trim().trim_end_matches(" kB").parse().expect("a number");
    let limit = format!("--as={}", (kilobytes << 10) + (160 << 20));
    let limited = Command::new("prlimit").args(["--pid", &server.pid().to_string(), &limit]).status();
    assert!(limited.expect("prlimit").success());
    for script in GREEDY {
        let reply = eval(&mut client, script, &[], &[]);
        assert!(reply.contains("not enough memory"), "{script}: {reply}");
        assert_eq!(eval(&mut client, "return {cjson.encode({#('x'):rep(2^20)})}", &[], &[]), "[\"[1048576]\"]");
        assert_eq!(ask(&mut server.client(), "PING"), "PONG");
    }
}

#[test]
fn a_script_that_takes_too_much_memory_ends() {
    if is_peer() {
        return;
    }
    on_each_thread_count(&["--lua-memory-limit", "4mb"], |server| {
        let mut client = server.client();
        let endless = "local t = {} while true do t[#t + 1] = string.rep('x', 1000) .. #t end";
        for _ in 0..5 {
            let reply = eval(&mut client, endless, &[], &[]);
            assert!(reply.contains("memory"), "{reply}");
            assert_eq!(eval(&mut client, "return 'alive'", &[], &[]), "\"alive\"");
        }
        dialogue(&mut client, &[("CONFIG SET lua-memory-limit 0", "OK")]);
        let script = "local t = {} for i = 1, 6000 do t[i] = string.rep('x', 1000) .. i end return #t";
        assert_eq!(eval(&mut client, script, &[], &[]), "6000");
    });
}

#[test]
fn time_moves_in_a_script_that_is_slow() {
    on_each_thread_count(&["--busy-reply-threshold", "1"], |server| {
        let script = "local began = redis.call('TIME') \
                      for n = 1, 100000000 do \
                          local now = redis.call('TIME') \
                          if now[1] ~= began[1] or now[2] ~= began[2] then return true end \
                      end";
        assert_eq!(eval(&mut server.client(), script, &[], &[]), "1");
    });
}

/// Expects that a session shows a command's reply, and the error that the script makes of it.
fn expect_shown_errors(server: &Server) {
    for (script, shown) in [
        (
            "LPUSH', 'k', '1",
            &[
                "<reply> \"-WRONGTYPE Operation against a key holding the wrong kind of value\"",
                "<error> -WRONGTYPE Operation against a key holding the wrong kind of value  ",
            ][..],
        ),
        (
            "LPUSH', 'k",
            &[
                "<reply> \"-ERR wrong number of arguments for 'lpush' command\"",
                "<error> Wrong number of args calling command from script",
            ],
        ),
        (
            "NOSUCH', 'a",
            &[
                "<reply> \"-ERR unknown command 'NOSUCH', with args beginning with: 'a' \"",
                "<error> Unknown command called from script",
            ],
        ),
        (
            "SCRIPT', '10",
            &[
                "<reply> \"-ERR unknown subcommand '10'. Try SCRIPT HELP.\"",
                "<error> -ERR unknown subcommand '10'. Try SCRIPT HELP.  ",
            ],
        ),
        (
            "SUBSCRIBE', 'x",
            &[
                "<reply> \"-ERR command 'subscribe' is not allowed on script mode\"",
                "<error> This Valkey command is not allowed from script",
            ],
        ),
    ] {
        let mut socket = server.socket();
        send(&mut socket, b"SCRIPT DEBUG SYNC\r\n");
        let script = format!("redis.pcall('{script}')\nreturn 1");
        send(&mut socket, &request(&script, &[]));
        let first = script.lines().next().unwrap_or_default();
        expect_bytes(
            &mut socket,
            format!("+OK\r\n*2\r\n+* Stopped at 1, stop reason = step over\r\n+-> 1   {first}\r\n").as_bytes(),
        );
        send(&mut socket, b"*1\r\n$4\r\nstep\r\n");
        let command = script.split('(').nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
        let command = command.replace(['\'', ','], "");
        expect_bytes(&mut socket, format!("*5\r\n+<command> {command}\r\n+{}\r\n", shown.join("\r\n+")).as_bytes());
    }
}

#[test]
fn a_script_is_debugged_line_by_line() {
    on_each_thread_count(&[], |server| {
        let mut socket = server.socket();
        send(&mut socket, b"SCRIPT DEBUG SYNC\r\n");
        expect_bytes(&mut socket, b"+OK\r\n");
        let script = "local a = 1\nredis.call('SET', KEYS[1], a)\nreturn KEYS";
        send(&mut socket, &request(script, &["k"]));
        expect_bytes(&mut socket, b"*2\r\n+* Stopped at 1, stop reason = step over\r\n+-> 1   local a = 1\r\n");
        send(&mut socket, b"*2\r\n$5\r\nbreak\r\n$1\r\n3\r\n");
        expect_bytes(&mut socket, b"*2\r\n+   2   redis.call('SET', KEYS[1], a)\r\n+  #3   return KEYS\r\n");
        send(&mut socket, b"*1\r\n$1\r\nc\r\n");
        expect_bytes(&mut socket, b"*2\r\n+* Stopped at 3, stop reason = break point\r\n+->#3   return KEYS\r\n");
        send(&mut socket, b"*3\r\n$5\r\nredis\r\n$3\r\nget\r\n$1\r\nk\r\n");
        expect_bytes(&mut socket, b"*2\r\n+<command> get k\r\n+<reply> \"1\"\r\n");
        send(&mut socket, b"*2\r\n$5\r\nprint\r\n$4\r\nKEYS\r\n");
        expect_bytes(&mut socket, b"*1\r\n+<value> {k; }\r\n");
        send(&mut socket, b"*1\r\n$5\r\nprint\r\n");
        expect_bytes(&mut socket, b"*1\r\n+<value> a = 1\r\n");
        send(&mut socket, b"*2\r\n$1\r\np\r\n$1\r\na\r\n");
        expect_bytes(&mut socket, b"*1\r\n+<value> 1\r\n");
        send(&mut socket, b"*2\r\n$1\r\np\r\n$1\r\nb\r\n");
        expect_bytes(&mut socket, b"*1\r\n+No such variable.\r\n");
        send(&mut socket, b"*1\r\n$8\r\ncontinue\r\n");
        expect_bytes(&mut socket, b"*1\r\n+<endsession>\r\n*1\r\n$1\r\nk\r\n");
        expect_shown_errors(server);
        // A client that goes lets its script run to its end.
        let mut socket = server.socket();
        send(&mut socket, b"SCRIPT DEBUG SYNC\r\n");
        send(&mut socket, &request("redis.call('SET', 'l', 2)", &[]));
        expect_bytes(&mut socket, b"+OK\r\n*2\r\n");
        drop(socket);
        assert!(eventually(|| ask(&mut server.client(), "GET l") == "\"2\""));
    });
}

/// Each change is in the log where it was in memory, whichever worker made it.
#[test]
fn libraries_are_after_a_restart_what_they_were() {
    let options = ["--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"];
    let mut server = Server::start_with_threads(4, &options);
    let code = |library: usize, client: usize| {
        format!("#!lua name=lib{library}\nredis.register_function('f{library}', function() return {client} end)")
    };
    let dump = |client: &mut Connection| redis::cmd("FUNCTION").arg("DUMP").query::<Vec<u8>>(client).expect("a dump");
    let mut client = server.client();
    for library in 0..3 {
        told(redis::cmd("FUNCTION").arg("LOAD").arg(code(library, 100)), &mut client);
    }
    let kept = dump(&mut client);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (server, kept) = (&server, &kept);
            scope.spawn(move || {
                let mut client = server.client();
                let mut pipe = redis::pipe();
                pipe.ignore_errors();
                for step in 0..400 {
                    let library = step % 7;
                    pipe.cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(code(library, number));
                    match (step + number) % 40 {
                        3 | 13 | 23 | 33 => _ = pipe.cmd("FUNCTION").arg("DELETE").arg(format!("lib{library}")),
                        7 => _ = pipe.cmd("FUNCTION").arg("RESTORE").arg(kept).arg("REPLACE"),
                        17 => _ = pipe.cmd("FUNCTION").arg("RESTORE").arg(kept).arg("FLUSH"),
                        20 => _ = pipe.cmd("FUNCTION").arg("FLUSH"),
                        25 => {
                            pipe.cmd("MULTI").cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(code(library, 50));
                            pipe.cmd("SET").arg("k").arg(number).cmd("EXEC");
                        }
                        30 if number == 0 => _ = pipe.cmd("BGREWRITEAOF"),
                        _ => {}
                    }
                }
                let replies: Result<Vec<Value>, _> = pipe.query(&mut client);
                replies.expect("replies");
            });
        }
    });
    let before = (dump(&mut client), ask(&mut client, "FUNCTION LIST WITHCODE"));
    server.crash();
    let mut client = server.client();
    assert_eq!((dump(&mut client), ask(&mut client, "FUNCTION LIST WITHCODE")), before);
}
