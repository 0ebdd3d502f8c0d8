//! A Sentinel within a server's process, at `sentinel-port`.

use crate::dialogue::{ask, dialogue};
use crate::harness::{
    Folder, Server, connect, eventually, expect_bytes, free_port, owned, run_to_end, send, socket_to,
};
use std::cell::Cell;
use std::io::Read;
use std::net::SocketAddr;

/// A server that has a Sentinel, which watches it, and the Sentinel's port.
fn start(lines: &str) -> (Server, u16) {
    let sentinel = Cell::new(0);
    let server = Server::start_with(|folder, port| {
        sentinel.set(free_port());
        let text = format!(
            "# Mine.\nport {port}\nsave \"\"\nsentinel-port {}\nsentinel monitor group 127.0.0.1 {port} 1\n\
             sentinel down-after-milliseconds group 2000\nthreads 2\n{lines}",
            sentinel.get()
        );
        owned(&[&folder.write("server.conf", &text).to_string_lossy()])
    });
    (server, sentinel.get())
}

fn client_at(port: u16) -> redis::Connection {
    connect(&format!("redis://127.0.0.1:{port}/"))
}

#[test]
fn sentinel_answers_beside_the_server() {
    let (server, port) = start("");
    let (mut of_server, mut of_sentinel) = (server.client(), client_at(port));
    let address = format!("[\"127.0.0.1\", \"{}\"]", server.port);
    dialogue(
        &mut of_sentinel,
        &[
            ("PING", "PONG"),
            ("SENTINEL GET-PRIMARY-ADDR-BY-NAME group", &address),
            ("ROLE", "[\"sentinel\", [\"group\"]]"),
            ("GET x", "-ERR unknown command 'GET', with args beginning with: 'x' "),
            ("SHUTDOWN", "-ERR unknown command 'SHUTDOWN', with args beginning with: "),
        ],
    );
    dialogue(&mut of_server, &[("SET x 1", "OK"), ("GET x", "\"1\""), ("DBSIZE", "1")]);
    assert!(ask(&mut of_server, "SENTINEL MYID").starts_with("-ERR unknown command 'SENTINEL'"));
    let says = |client: &mut redis::Connection, text: &str| ask(client, "INFO").contains(text);
    assert!(says(&mut of_sentinel, "_mode:sentinel") && says(&mut of_sentinel, &format!("tcp_port:{port}")));
    assert!(says(&mut of_server, "_mode:standalone") && !says(&mut of_server, "# Sentinel"));
    assert!(eventually(|| says(&mut of_sentinel, "master0:name=group,status=ok")));
    // Its clients are none of the server's.
    assert!(!ask(&mut of_server, "CLIENT LIST").contains(&format!(":{port} ")));
    drop((of_server, of_sentinel));
    assert!(server.stop().success());
}

#[test]
fn sentinel_answers_while_the_servers_workers_are_busy() {
    let (server, port) = start("enable-debug-command yes\n");
    let mut of_sentinel = client_at(port);
    let mut sleeper = server.socket();
    // All workers sleep until the end of this test, or nearly.
    send(&mut sleeper, b"DEBUG SLEEP 5\r\n");
    assert!(eventually(|| ask(&mut of_sentinel, "INFO").contains("status=sdown") || {
        ask(&mut of_sentinel, "INFO").contains("status=odown")
    }));
}

#[test]
fn clients_that_are_cut_off_are_the_servers() {
    let (server, port) = start("");
    let mut listener = socket_to(SocketAddr::from(([127, 0, 0, 1], port)));
    send(&mut listener, b"PING\r\n");
    expect_bytes(&mut listener, b"+PONG\r\n");
    let mut of_server = server.client();
    ask(&mut of_server, "CLIENT KILL TYPE normal SKIPME yes");
    send(&mut listener, b"PING\r\n");
    expect_bytes(&mut listener, b"+PONG\r\n");
}

#[test]
fn both_write_the_file_and_keep_what_is_the_others() {
    let (mut server, port) = start("");
    let mut of_server = server.client();
    dialogue(&mut of_server, &[("CONFIG SET maxclients 77", "OK")]);
    let mut of_sentinel = client_at(port);
    let id = ask(&mut of_sentinel, "SENTINEL MYID");
    dialogue(&mut of_sentinel, &[("SENTINEL SET group parallel-syncs 3", "OK"), ("SENTINEL FLUSHCONFIG", "OK")]);
    let written = |server: &Server| server.folder.read("server.conf");
    let text = written(&server);
    assert!(text.contains("sentinel parallel-syncs group 3") && text.contains("# Mine."), "{text}");
    assert!(!text.contains("maxclients"), "nobody has asked for the server's configuration:\n{text}");
    dialogue(&mut of_server, &[("CONFIG REWRITE", "OK")]);
    let text = written(&server);
    let line = format!("sentinel myid {}", id.trim_matches('"'));
    for line in ["maxclients 77", "sentinel parallel-syncs group 3", &line, "sentinel monitor group 127.0.0.1"] {
        assert!(text.contains(line), "no {line} in:\n{text}");
    }
    drop((of_server, of_sentinel));
    server.restart();
    assert_eq!(ask(&mut client_at(port), "SENTINEL MYID"), id);
    assert!(ask(&mut server.client(), "CONFIG GET maxclients").contains("77"));
}

#[test]
fn sentinel_asks_for_the_servers_password() {
    let (_server, port) = start("requirepass secret\nuser someone on nopass ~* +get\n");
    let mut of_sentinel = socket_to(SocketAddr::from(([127, 0, 0, 1], port)));
    send(&mut of_sentinel, b"SENTINEL MYID\r\n");
    expect_bytes(&mut of_sentinel, b"-NOAUTH Authentication required.\r\n");
    send(&mut of_sentinel, b"AUTH secret\r\nPING\r\n");
    expect_bytes(&mut of_sentinel, b"+OK\r\n+PONG\r\n");
}

const REFUSED: &str = "-NOAUTH Authentication required.";

#[test]
fn a_password_that_is_set_later_is_asked_for_at_once() {
    let (server, port) = start("");
    let mut of_server = server.client();
    let says = |words: &str| ask(&mut client_at(port), words);
    assert!(says("SENTINEL MYID").starts_with('"'));
    dialogue(&mut of_server, &[("ACL SETUSER boss on >b +@all ~*", "OK"), ("AUTH boss b", "OK")]);
    dialogue(&mut of_server, &[("CONFIG SET requirepass secret", "OK")]);
    for command in ["SENTINEL SET group quorum 2", "SENTINEL FAILOVER group", "SENTINEL REMOVE group", "INFO"] {
        assert_eq!(says(command), REFUSED);
    }
    let mut insider = client_at(port);
    dialogue(&mut insider, &[("AUTH secret", "OK"), ("SENTINEL SET group quorum 1", "OK")]);
    dialogue(&mut of_server, &[("ACL SETUSER default resetpass >other", "OK")]);
    assert!(says("AUTH secret").starts_with("-WRONGPASS"));
    assert_eq!(says("AUTH other"), "OK");
    // A connection that is there may do what its user may do now.
    dialogue(&mut of_server, &[("ACL SETUSER default -@dangerous", "OK")]);
    assert!(ask(&mut insider, "SENTINEL REMOVE group").starts_with("-NOPERM"));
    dialogue(&mut insider, &[("PING", "PONG")]);
    dialogue(&mut of_server, &[("ACL SETUSER default +@all off", "OK")]);
    assert!(says("AUTH other").starts_with("-WRONGPASS") && says("SENTINEL MYID") == REFUSED);
    dialogue(&mut of_server, &[("ACL SETUSER default on nopass", "OK")]);
    assert!(says("SENTINEL MYID").starts_with('"'));
}

#[test]
fn its_users_are_the_servers() {
    let (server, port) = start(
        "user default off\nuser admin on >a ~* &* +@all\nuser app on >b ~app:* resetchannels -@all +get +ping +config|get\n",
    );
    let mut of_server = server.client();
    dialogue(&mut of_server, &[("AUTH admin a", "OK")]);
    let mut admin = client_at(port);
    let mut app = client_at(port);
    assert_eq!(ask(&mut app, "SENTINEL MYID"), REFUSED);
    dialogue(&mut app, &[("AUTH app b", "OK"), ("PING", "PONG")]);
    assert!(ask(&mut app, "SENTINEL MYID").starts_with("-NOPERM"));
    dialogue(&mut admin, &[("AUTH admin a", "OK"), ("ACL WHOAMI", "\"admin\""), ("SENTINEL SET group quorum 2", "OK")]);
    // They are changed at the server alone.
    for command in ["ACL SETUSER app +@all", "ACL DELUSER app", "ACL LOAD", "ACL SAVE"] {
        assert!(ask(&mut admin, command).starts_with("-ERR unknown subcommand"), "{command}");
    }
    // A deleted user is cut off.
    let mut socket = socket_to(SocketAddr::from(([127, 0, 0, 1], port)));
    send(&mut socket, b"AUTH app b\r\n");
    expect_bytes(&mut socket, b"+OK\r\n");
    dialogue(&mut of_server, &[("ACL DELUSER app", "1")]);
    assert_eq!(socket.read(&mut [0]).expect("the end of the connection"), 0);
    assert!(ask(&mut client_at(port), "AUTH app b").starts_with("-WRONGPASS"));
    dialogue(&mut admin, &[("SENTINEL SET group quorum 1", "OK")]);
}

#[test]
fn sentinel_has_no_failure_of_its_own() {
    let (server, port) = start("");
    let said = ask(&mut client_at(port), "SENTINEL SIMULATE-FAILURE crash-after-election");
    assert!(said.starts_with("-ERR a Sentinel within a server ends with the server"), "{said}");
    dialogue(&mut server.client(), &[("PING", "PONG")]);
}

#[test]
fn names_of_any_kind_are_the_same_after_a_restart() {
    let (mut server, port) = start("");
    let monitor =
        b"*6\r\n$8\r\nSENTINEL\r\n$7\r\nMONITOR\r\n$9\r\na \"b\" 'c'\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n$1\r\n1\r\n";
    let mut socket = socket_to(SocketAddr::from(([127, 0, 0, 1], port)));
    send(&mut socket, monitor);
    expect_bytes(&mut socket, b"+OK\r\n");
    server.restart();
    let mut socket = socket_to(SocketAddr::from(([127, 0, 0, 1], port)));
    let question = b"*3\r\n$8\r\nSENTINEL\r\n$24\r\nGET-PRIMARY-ADDR-BY-NAME\r\n$9\r\na \"b\" 'c'\r\n";
    send(&mut socket, question);
    expect_bytes(&mut socket, b"*2\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n");
}

#[test]
fn sentinel_asks_at_the_start_for_directives_that_it_needs() {
    let folder = Folder::new();
    let start = |text: &str| {
        let file = folder.write("server.conf", &format!("port {}\nsave \"\"\n{text}", free_port()));
        let (status, stderr) = run_to_end(&folder, &[&file.to_string_lossy()]);
        assert_eq!(status.code(), Some(1));
        folder.read("stdout") + &stderr
    };
    assert!(start("sentinel monitor group 127.0.0.1 1 1\n").contains("sentinel directive while not in sentinel mode"));
    let port = free_port();
    let wrong = format!("sentinel-port {port}\nsentinel nope a b\n");
    assert!(start(&wrong).contains("Unrecognized sentinel configuration statement"));
    let (status, _) = run_to_end(&folder, &["--port", "0", "--sentinel-port", &port.to_string()]);
    assert_eq!(status.code(), Some(1));
    assert!(folder.read("stdout").contains("Sentinel needs config file"));
}
