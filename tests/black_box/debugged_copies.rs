//! SCRIPT DEBUG YES over the wire: a script is stepped through on a copy of the data, and nobody waits for it.

use crate::dialogue::{ask, dialogue};
use crate::harness::{Server, eventually, expect_bytes, is_peer, on_each_thread_count, read_to_close, send};
use std::net::TcpStream;

const ENDLESS: &str = "local n = redis.call('INCR', KEYS[1])\nwhile true do n = n + 1 end";
const STOPPED: &str = "*2\r\n+* Stopped at 1, stop reason = step over\r\n+-> 1   ";

/// The bytes of an EVAL.
fn request(script: &str, keys: &[&str]) -> Vec<u8> {
    redis::cmd("EVAL").arg(script).arg(keys.len()).arg(keys).get_packed_command()
}

/// Returns a client whose script has stopped before its first line.
fn stopped(server: &Server, script: &str, keys: &[&str]) -> TcpStream {
    let mut socket = server.socket();
    begin(&mut socket, script, keys);
    socket
}

fn begin(socket: &mut TcpStream, script: &str, keys: &[&str]) {
    send(socket, b"SCRIPT DEBUG YES\r\n");
    expect_bytes(socket, b"+OK\r\n");
    send(socket, &request(script, keys));
    let line = script.lines().next().unwrap_or_default();
    expect_bytes(socket, format!("{STOPPED}{line}\r\n").as_bytes());
}

/// Returns whether a client that debugs is on the list.
fn has_debugger(server: &Server) -> bool {
    ask(&mut server.client(), "CLIENT LIST").contains("cmd=eval ")
}

#[test]
fn others_write_and_run_scripts_while_a_script_stands_still() {
    for options in [&[][..], &["--appendonly", "yes", "--appendfsync", "always"]] {
        on_each_thread_count(options, |server| {
            dialogue(&mut server.client(), &[("SET k 1", "OK"), ("RPUSH l a b", "2")]);
            let script = "redis.call('APPEND', KEYS[1], 'x')\nreturn redis.call('GET', KEYS[1])";
            let mut sockets = [stopped(server, script, &["k"]), stopped(server, script, &["k"])];
            dialogue(
                &mut server.client(),
                &[
                    ("SET k 2", "OK"),
                    ("EVAL return(redis.call('INCR',KEYS[1])) 1 k", "3"),
                    ("FLUSHALL", "OK"),
                    ("SET k 5", "OK"),
                ],
            );
            for socket in &mut sockets {
                send(socket, b"*3\r\n$5\r\nredis\r\n$4\r\nllen\r\n$1\r\nl\r\n");
                expect_bytes(socket, b"*2\r\n+<command> llen l\r\n+<reply> 2\r\n");
                send(socket, b"*1\r\n$1\r\nc\r\n");
                let rest = read_to_close(socket);
                assert!(rest.ends_with("*1\r\n+<endsession>\r\n$2\r\n1x\r\n"), "{rest}");
            }
            assert_eq!(ask(&mut server.client(), "GET k"), "\"5\"");
            assert!(eventually(|| !has_debugger(server)));
        });
    }
}

/// Requests that follow an EVAL at once are the debugger's. Valkey loses them.
#[test]
fn input_behind_the_script_is_the_debuggers() {
    if is_peer() {
        return;
    }
    on_each_thread_count(&[], |server| {
        let mut socket = server.socket();
        send(&mut socket, b"SCRIPT DEBUG YES\r\n");
        expect_bytes(&mut socket, b"+OK\r\n");
        let all = [b"SET before 1\r\n", &request("return 7", &[])[..], b"*1\r\n$1\r\nc\r\n"].concat();
        send(&mut socket, &all);
        let told = format!("+OK\r\n{STOPPED}return 7\r\n*1\r\n+<endsession>\r\n:7\r\n");
        assert_eq!(read_to_close(&mut socket), told);
    });
}

/// A session is a process of its own in Valkey, which CLIENT KILL does not reach.
#[test]
fn a_session_ends_with_its_client_and_with_the_server() {
    if is_peer() {
        return;
    }
    for threads in [1, 3] {
        let server = Server::start_with_threads(threads, &["--busy-reply-threshold", "200"]);
        // A loop that nobody steps through any more ends.
        let mut socket = stopped(&server, ENDLESS, &["k"]);
        send(&mut socket, b"*1\r\n$1\r\nc\r\n");
        drop(socket);
        assert!(eventually(|| !has_debugger(&server)));
        let mut socket = stopped(&server, ENDLESS, &["k"]);
        assert_ne!(ask(&mut server.client(), "CLIENT KILL TYPE normal"), "0");
        read_to_close(&mut socket);
        let mut socket = stopped(&server, "return 1", &[]);
        assert_eq!(ask(&mut server.client(), "EXISTS k"), "0");
        assert!(has_debugger(&server));
        assert!(server.stop().success());
        read_to_close(&mut socket);
    }
}

#[test]
fn a_restricted_client_has_no_further_rights_on_the_copy() {
    on_each_thread_count(&[], |server| {
        let mut admin = server.client();
        dialogue(
            &mut admin,
            &[("ACL SETUSER u on nopass +@all -set ~a*", "OK"), ("SET b 1", "OK"), ("SCRIPT DEBUG NO", "OK")],
        );
        let mut socket = server.socket();
        send(&mut socket, b"AUTH u x\r\n");
        expect_bytes(&mut socket, b"+OK\r\n");
        let script = "return {redis.pcall('SET', 'a', 1).err, redis.pcall('GET', 'b').err, redis.call('EXISTS', 'a')}";
        begin(&mut socket, script, &[]);
        send(&mut socket, b"*1\r\n$1\r\nc\r\n");
        let told = read_to_close(&mut socket);
        assert_eq!(told.matches("ACL failure in script").count(), 2, "{told}");
        assert!(told.ends_with("\r\n:0\r\n"), "{told}");
    });
}

#[test]
fn a_node_of_a_cluster_debugs_scripts_about_its_own_slots() {
    let server = Server::start(&["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"]);
    // The key's slot, and not the other's.
    assert_eq!(ask(&mut server.client(), "CLUSTER ADDSLOTS 7629"), "OK");
    assert!(eventually(|| ask(&mut server.client(), "SET k 1") == "OK"));
    let script = "return {redis.call('GET', KEYS[1]), redis.pcall('GET', 'another').err}";
    let mut socket = stopped(&server, script, &["k"]);
    send(&mut socket, b"*1\r\n$1\r\nc\r\n");
    let told = read_to_close(&mut socket);
    assert!(told.contains("$1\r\n1\r\n") && told.contains("non local key"), "{told}");
}
