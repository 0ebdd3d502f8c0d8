//! Proxies that name the client of each connection (PROXY protocol, version 2): the listeners, the places that show the
//! clients, and connections without a valid header.

use crate::dialogue::{ask, ask_integer};
use crate::harness::{Server, bytes_of, eventually, expect_bytes, free_port, is_peer, read_to_close, send, socket_to};
use crate::tls::{ANYONE, with_each_thread_count};
use redis::Connection;
use resp::book::encode_request;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

/// A header without a checksum; bit 5 of `command` is the version.
fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let len = (rest.len() as u16).to_be_bytes();
    [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, family], &len, rest].concat()
}

/// Returns the header of a client at 1.2.3.4:258, for 5.6.7.8:772.
fn from_afar() -> Vec<u8> {
    header(0x21, 0x11, &[1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4])
}

/// Returns the header of a client at the proxy's own loopback address.
fn from_nearby() -> Vec<u8> {
    header(0x21, 0x11, &[127, 0, 0, 1, 127, 0, 0, 1, 1, 2, 3, 4])
}

const AFAR: &str = "addr=1.2.3.4:258 laddr=5.6.7.8:772 ";

fn line_of(socket: &mut impl Read) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let byte = bytes_of(socket, 1);
        assert!(!byte.is_empty(), "the end after {:?}", String::from_utf8_lossy(&line));
        line.extend(byte);
    }
    String::from_utf8_lossy(line.trim_ascii_end()).into_owned()
}

/// The bulk string that answers an inline command.
fn told(socket: &mut (impl Read + Write), command: &str) -> String {
    socket.write_all(format!("{command}\r\n").as_bytes()).expect("to send");
    let len: usize = line_of(socket)[1..].parse().expect("a length");
    String::from_utf8(bytes_of(socket, len + 2)).expect("text")
}

/// A connection with these bytes at its beginning.
fn with_header(server: &Server, header: &[u8]) -> TcpStream {
    let mut socket = server.socket();
    send(&mut socket, header);
    socket
}

fn on_proxied_port(options: &[&str], test: impl Fn(&Server, &mut Connection)) {
    if is_peer() {
        return;
    }
    for threads in [1, 4] {
        let server = Server::start_with_threads(threads, options);
        let mut admin = server.client();
        assert_eq!(ask(&mut admin, "CONFIG SET proxy-protocol port"), "OK");
        test(&server, &mut admin);
        assert!(server.stop().success());
    }
}

#[test]
fn clients_have_the_addresses_that_their_proxy_says() {
    on_proxied_port(&["--protected-mode", "no"], |server, admin| {
        let mut monitor = with_header(server, &header(0x20, 0, b""));
        send(&mut monitor, b"MONITOR\r\n");
        expect_bytes(&mut monitor, b"+OK\r\n");
        // With its first command in one packet, and byte by byte.
        let mut quick = with_header(server, &[&from_afar()[..], b"CLIENT SETNAME quick\r\n"].concat());
        expect_bytes(&mut quick, b"+OK\r\n");
        assert!(line_of(&mut monitor).contains(" [0 1.2.3.4:258] \"CLIENT\" \"SETNAME\""));
        let mut slow = server.socket();
        from_afar().chunks(1).for_each(|byte| send(&mut slow, byte));
        for client in [&mut quick, &mut slow] {
            let info = told(client, "CLIENT INFO");
            assert!(info.contains(AFAR), "{info}");
        }
        send(&mut slow, b"AUTH nobody x\r\n");
        assert!(line_of(&mut slow).starts_with("-WRONGPASS"));
        assert!(ask(admin, "ACL LOG 1").contains(AFAR));
        let listed = ask(admin, "CLIENT LIST");
        assert_eq!(listed.matches(AFAR).count(), 2, "{listed}");
        assert_eq!(ask_integer(admin, "CLIENT KILL ADDR 1.2.3.4:258"), 2);
        assert_eq!([read_to_close(&mut quick), read_to_close(&mut slow)], ["", ""]);
        // IPv6, with TLVs that say nothing of addresses.
        let mut v6 = [&[0x20; 16][..], &[0; 15], &[1, 0, 80, 0, 81, 4, 0, 2, 0, 0, 0xEE, 0, 0]].concat();
        v6.extend([1, 0, 2, b'h', b'2']);
        let info = told(&mut with_header(server, &header(0x21, 0x21, &v6)), "CLIENT INFO");
        assert!(info.contains("addr=[2020:2020:2020:2020:2020:2020:2020:2020]:80 laddr=[::1]:81 "), "{info}");
        // A proxy that talks for itself, and one that knows no addresses.
        for own in [header(0x20, 0x11, b"whatever"), header(0x21, 0, b""), header(0x21, 0x12, &[1; 12])] {
            let info = told(&mut with_header(server, &own), "CLIENT INFO");
            assert!(info.contains("addr=127.0.0.1:"), "{info}");
            assert!(info.contains(&format!("laddr=127.0.0.1:{} ", server.port)), "{info}");
        }
        // A client that was connected before is still served, and one that connects after the switch needs no header.
        assert_eq!(ask(admin, "CONFIG SET proxy-protocol no"), "OK");
        assert_eq!(ask(&mut server.client(), "PING"), "PONG");
    });
}

#[test]
fn clients_without_a_valid_header_are_closed_with_a_line_for_many() {
    on_proxied_port(&["--protected-mode", "no"], |server, admin| {
        let mut silent = [server.socket(), with_header(server, &from_afar()[..27])];
        let wrong_checksum = [&[1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 3, 0, 4][..], &[9; 4]].concat();
        for bad in [
            b"PING\r\n".to_vec(),
            b"PROXY TCP4 1.2.3.4 5.6.7.8 258 772\r\nPING\r\n".to_vec(),
            header(0x21, 0x11, &wrong_checksum),
            header(0x22, 0x11, &[1; 12]),
            header(0x21, 0x51, &[1; 12]),
            header(0x21, 0x21, &[1; 12]),
            header(0x21, 0x11, &[0; 0xFFFF]),
        ] {
            let mut socket = server.socket();
            // It may be closed before all has been sent.
            let _ = socket.write_all(&bad);
            assert_eq!(read_to_close(&mut socket), "", "{bad:?}");
        }
        for _ in 0..200 {
            assert_eq!(read_to_close(&mut with_header(server, b"GET / HTTP/1.1\r\n")), "");
        }
        drop(server.socket());
        let log = server.folder.read("stdout");
        let lines = log.matches("Error accepting a client connection: ").count();
        assert!((1..200).contains(&lines), "{lines} lines");
        assert!(log.contains("connection: no header of the PROXY protocol (addr=127.0.0.1:"), "{log}");
        silent.iter_mut().for_each(|socket| assert_eq!(read_to_close(socket), ""));
        assert!(eventually(|| ask(admin, "INFO clients").contains("connected_clients:1\\r\\n")));
        assert!(told(&mut with_header(server, &from_afar()), "CLIENT INFO").contains(AFAR));
    });
}

#[test]
fn a_client_from_afar_through_a_proxy_is_not_local() {
    on_proxied_port(&["--enable-debug-command", "local"], |server, admin| {
        let mut refused = with_header(server, &from_afar());
        assert!(line_of(&mut refused).starts_with("-DENIED "));
        assert_eq!(read_to_close(&mut refused), "");
        let mut near = with_header(server, &[&from_nearby()[..], b"DEBUG SLEEP 0\r\n"].concat());
        expect_bytes(&mut near, b"+OK\r\n");
        assert_eq!(ask(admin, "CONFIG SET protected-mode no"), "OK");
        let mut afar = with_header(server, &[&from_afar()[..], b"DEBUG SLEEP 0\r\n"].concat());
        assert!(line_of(&mut afar).starts_with("-ERR DEBUG command not allowed"));
    });
}

#[test]
fn listeners_ask_for_a_header_each_by_itself() {
    if is_peer() {
        return;
    }
    let book = free_port();
    let number = book.to_string();
    let options = ["--book-port", &number, "--unixsocket", "sock", "--proxy-protocol", "book-port unixsocket"];
    let server = Server::start(&[&options[..], &["--protected-mode", "no"]].concat());
    let mut admin = server.client();
    assert_eq!(ask(&mut admin, "CONFIG GET proxy-protocol"), "[\"proxy-protocol\", \"book-port unixsocket\"]");
    let mut client = socket_to(SocketAddr::from(([127, 0, 0, 1], book)));
    let mut request = from_afar();
    encode_request(&mut request, &["set", "k", "v"]).expect("a short request");
    send(&mut client, &request);
    expect_bytes(&mut client, &[1, 0, 0, 0, 0]);
    assert!(ask(&mut admin, "CLIENT LIST").contains(AFAR));
    let unix = || UnixStream::connect(server.folder.path().join("sock")).expect("a connection");
    let mut paths = [0; 216];
    paths[108..112].copy_from_slice(b"/a b");
    for (header, addresses) in [
        (from_afar(), AFAR),
        (header(0x21, 0x31, &paths), "addr=/a?b:0 laddr=/a?b:0 "),
        (header(0x20, 0, b""), "sock:0 "),
    ] {
        let mut client = unix();
        client.write_all(&header).expect("to send");
        let info = told(&mut client, "CLIENT INFO");
        assert!(info.contains(addresses), "{info}");
    }
    let mut bare = unix();
    bare.write_all(b"PING\r\n").expect("to send");
    // Nothing, or a reset.
    assert!(!matches!(bare.read(&mut [0; 8]), Ok(1..)));
    assert!(server.stop().success());
}

#[test]
fn a_header_comes_before_tls() {
    if is_peer() {
        return;
    }
    with_each_thread_count(ANYONE, |server| {
        server.config("proxy-protocol tls-port").expect("a listener");
        server.config("protected-mode no").expect("a mode");
        assert!(!server.serves(None));
        let mut client = server.client(None);
        send(&mut client.sock, &from_afar());
        let info = told(&mut client, "CLIENT INFO");
        assert!(info.contains(AFAR), "{info}");
        // The port without TLS asks for none.
        assert!(server.info("connected_clients").parse::<u32>().is_ok());
        server.config("protected-mode yes").expect("a mode");
        let mut refused = server.client(None);
        send(&mut refused.sock, &from_afar());
        refused.write_all(b"PING\r\n").expect("to send");
        assert!(line_of(&mut refused).starts_with("-DENIED "));
    });
}
