//! Peers that may not use the server, or have not authenticated: no listener obeys them, and their requests and their
//! memory are bounded.

use crate::dialogue::{ask, dialogue};
use crate::harness::{
    PATIENCE, Server, address_that_is_not_loopback, eventually, expect_bytes, free_port, is_peer, read_to_close, send,
    socket_to,
};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

/// Returns the admin port's answer to a request from there.
fn http(ip: IpAddr, port: u16, request: &str) -> String {
    let mut socket = socket_to(SocketAddr::new(ip, port));
    send(&mut socket, request.as_bytes());
    read_to_close(&mut socket)
}

const DEFAULT_X: &str = "Authorization: Basic ZGVmYXVsdDp4\r\n";

fn status(ip: IpAddr, port: u16, path: &str, head: &str) -> u16 {
    let answer = http(ip, port, &format!("GET {path} HTTP/1.1\r\nHost: {ip}\r\n{head}\r\n"));
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

fn command(ip: IpAddr, port: u16, head: &str, line: &str) -> String {
    let words: Vec<String> = line.split(' ').map(|word| format!("\"{word}\"")).collect();
    let body = format!("{{\"commands\":[[{}]]}}", words.join(","));
    let length = body.len();
    let kind = "Content-Type: application/json\r\n";
    http(
        ip,
        port,
        &format!("POST /command HTTP/1.1\r\nHost: {ip}\r\n{kind}Content-Length: {length}\r\n{head}\r\n{body}"),
    )
}

#[test]
fn protected_mode_is_asked_at_every_listener_before_anything_else() {
    let Some(far) = address_that_is_not_loopback().filter(|_| !is_peer()) else {
        eprintln!("left out: this machine has only the loopback interface");
        return;
    };
    let (admin, book) = (free_port(), free_port());
    let ports = [admin.to_string(), book.to_string()];
    let open = ["--bind", "*", "--admin-bind", "*", "--admin-port", &ports[0], "--book-port", &ports[1]];
    let server = Server::start(&open);
    let mut near = server.client();
    dialogue(&mut near, &[("SET k v", "OK")]);
    let refused = |head: &str| {
        for path in ["/metrics", "/", "/live", "/login", "/nope"] {
            assert_eq!(status(far, admin, path, head), 403, "{path} {head}");
        }
        let answer = command(far, admin, head, "FLUSHALL");
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("protected mode"), "{answer}");
    };
    refused("");
    refused(DEFAULT_X);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(status(far, admin, path, ""), 200, "{path}");
    }
    assert!(read_to_close(&mut socket_to(SocketAddr::new(far, server.port))).starts_with("-DENIED "));
    let get = [8 + 3 + 4 + 1 + 4, 2, 3].map(u32::to_le_bytes);
    let get = [&get.concat()[..], b"get", &1u32.to_le_bytes(), b"k"].concat();
    let mut far_book = socket_to(SocketAddr::new(far, book));
    let _ = far_book.write_all(&get);
    assert_eq!(read_to_close(&mut far_book), "");
    dialogue(&mut near, &[("GET k", "\"v\""), ("CONFIG SET protected-mode no", "OK")]);
    assert_eq!((status(far, admin, "/metrics", ""), status(far, admin, "/metrics", DEFAULT_X)), (200, 200));
    dialogue(&mut near, &[("CONFIG SET protected-mode yes", "OK")]);
    refused(DEFAULT_X);
    dialogue(&mut near, &[("CONFIG SET requirepass x", "OK")]);
    assert_eq!((status(far, admin, "/metrics", ""), status(far, admin, "/metrics", DEFAULT_X)), (401, 200));
    assert!(command(far, admin, DEFAULT_X, "GET k").contains("\"v\""));
}

#[test]
fn silent_connections_keep_no_probe_waiting() {
    if is_peer() {
        return;
    }
    let admin = free_port();
    let _server = Server::start(&["--admin-port", &admin.to_string()]);
    let near = IpAddr::from([127, 0, 0, 1]);
    let connect = || {
        let mut socket = socket_to(SocketAddr::new(near, admin));
        send(&mut socket, b"GET /metrics HT");
        socket
    };
    for _ in 0..3 {
        let silent: Vec<TcpStream> = (0..60).map(|_| connect()).collect();
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(status(near, admin, path, ""), 200, "{path}");
        }
        drop(silent);
    }
    // Each ends soon, whether another needs its place or not.
    assert_eq!(read_to_close(&mut connect()), "");
}

#[test]
fn queued_commands_count_as_what_they_take_up() {
    if is_peer() {
        return;
    }
    let server = Server::start(&["--maxmemory-clients", "4mb"]);
    let mut near = server.client();
    dialogue(&mut near, &[("CLIENT NO-EVICT on", "OK")]);
    let mut client = server.socket();
    send(&mut client, b"MULTI\r\n");
    expect_bytes(&mut client, b"+OK\r\n");
    let queue = |client: &mut TcpStream, count: usize| {
        let sent = client.write_all(&b"*1\r\n$4\r\nPING\r\n".repeat(count));
        let mut replies = vec![0; count * b"+QUEUED\r\n".len()];
        sent.and_then(|()| client.read_exact(&mut replies)).is_ok()
    };
    assert!(queue(&mut client, 1000));
    let multi_mem = || {
        let list = ask(&mut server.client(), "CLIENT LIST");
        let bytes = list.split("multi=1000 ").nth(1)?.split("multi-mem=").nth(1)?;
        bytes.split(' ').next()?.parse::<usize>().ok()
    };
    assert!(multi_mem() > Some(100 * 1000), "{:?}", multi_mem());
    let ran = Cell::new(1000);
    let is_cut = eventually(|| {
        ran.set(ran.get() + 1000);
        ran.get() > 60_000 || !queue(&mut client, 1000)
    });
    assert!(is_cut && ran.get() <= 60_000, "{} commands of 20 bytes and more are queued", ran.get());
    assert!(eventually(|| ask(&mut near, "INFO stats").contains("evicted_clients:1")));
}

#[test]
fn garbage_of_strangers_ends_early() {
    if is_peer() {
        return;
    }
    let server = Server::start(&["--requirepass", "x"]);
    for (garbage, error) in [
        (vec![b'x'; 5000], "too big inline request"),
        ([b"*", &[b'1'; 5000][..]].concat(), "too big mbulk count string"),
        ([b"*1\r\n$", &[b'1'; 5000][..]].concat(), "too big bulk count string"),
    ] {
        let mut socket = server.socket();
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        send(&mut socket, &garbage);
        let reply = read_to_close(&mut socket);
        assert!(reply.is_empty() || reply.contains(error), "{reply}");
    }
    let mut known = server.client_with_password(&["--requirepass", "x"]);
    assert_eq!(ask(&mut known, &format!("ECHO {}", "x".repeat(20_000))).len(), 20_002);
}
