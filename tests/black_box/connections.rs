//! Connections: which clients are admitted, over which sockets, how many, for how long, and the cost of a slow reader
//! for the others.

use crate::dialogue::{ask, dialogue};
use crate::harness::{
    Folder, Server, address_that_is_not_loopback, connect, eventually, expect_bytes, on_each_thread_count, owned,
    read_to_close, send, socket_to,
};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use socket2::Socket;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

#[test]
fn the_client_over_the_limit_is_told_and_closed() {
    on_each_thread_count(&["--maxclients", "3"], |server| {
        let mut held: Vec<_> = (0..3).map(|_| server.socket()).collect();
        for socket in &mut held {
            send(socket, b"PING\r\n");
            expect_bytes(socket, b"+PONG\r\n");
        }
        assert_eq!(read_to_close(&mut server.socket()), "-ERR max number of clients reached\r\n");
        send(&mut held[2], b"PING\r\n");
        expect_bytes(&mut held[2], b"+PONG\r\n");
        drop(held.pop());
        let admitted = || {
            let mut socket = server.socket();
            // Refused connections may be closed before the request is sent.
            std::io::Write::write_all(&mut socket, b"QUIT\r\n").is_ok() && read_to_close(&mut socket) == "+OK\r\n"
        };
        assert!(eventually(admitted), "the place of a client that left stays taken");
    });
}

#[test]
fn idle_clients_are_closed_after_the_timeout() {
    on_each_thread_count(&["--timeout", "1"], |server| {
        let mut idle = server.socket();
        let mut half_a_request = server.socket();
        send(&mut half_a_request, b"*1\r\n$4\r\nPI");
        assert_eq!(read_to_close(&mut idle), "");
        assert_eq!(read_to_close(&mut half_a_request), "");
        let mut client = server.client();
        dialogue(&mut client, &[("CONFIG GET timeout", "[\"timeout\", \"1\"]"), ("CONFIG SET timeout 0", "OK")]);
    });
}

#[test]
fn several_addresses_of_both_families() {
    let mut addresses = vec!["127.0.0.1", "127.0.0.2"];
    // A machine may be without IPv6.
    if TcpListener::bind("[::1]:0").is_ok() {
        addresses.push("::1");
    }
    let options: Vec<&str> = ["--bind"].into_iter().chain(addresses.iter().copied()).collect();
    on_each_thread_count(&options, |server| {
        for address in &addresses {
            let address: IpAddr = address.parse().expect("an address");
            let mut socket = socket_to(SocketAddr::new(address, server.port));
            send(&mut socket, b"PING\r\n");
            expect_bytes(&mut socket, b"+PONG\r\n");
        }
        let other = SocketAddr::from(([127, 0, 0, 3], server.port));
        assert!(std::net::TcpStream::connect(other).is_err(), "it listens where it was not told to");
    });
}

#[test]
fn unix_socket() {
    let path = |folder: &Folder| folder.path().join("s.sock").to_string_lossy().into_owned();
    let server = Server::start_with(|folder, port| {
        owned(&["--port", &port.to_string(), "--save", "", "--unixsocket", &path(folder), "--unixsocketperm", "700"])
    });
    let path = path(&server.folder);
    let mode = std::fs::metadata(&path).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    dialogue(&mut connect(&format!("unix://{path}")), &[("SET k v", "OK")]);
    dialogue(&mut server.client(), &[("GET k", "\"v\"")]);
    server.signal("TERM");
    let folder_stays_until_here = server;
    assert!(eventually(|| !std::path::Path::new(&path).exists()), "the socket is left behind");
    assert!(folder_stays_until_here.wait().success());
}

#[test]
fn protected_mode_refuses_other_machines() {
    let Some(address) = address_that_is_not_loopback() else {
        eprintln!("left out: this machine has only the loopback interface");
        return;
    };
    let address = |server: &Server| SocketAddr::new(address, server.port);
    let open_bind = ["--bind", "0.0.0.0"];
    let server = Server::start(&open_bind);
    let refusal = read_to_close(&mut socket_to(address(&server)));
    assert!(refusal.starts_with("-DENIED "), "{refusal:?}");
    assert!(refusal.contains("protected mode is enabled") && refusal.ends_with("\r\n"), "{refusal:?}");
    dialogue(&mut server.client(), &[("PING", "PONG"), ("CONFIG SET protected-mode no", "OK")]);
    let mut socket = socket_to(address(&server));
    send(&mut socket, b"PING\r\n");
    expect_bytes(&mut socket, b"+PONG\r\n");
}

#[test]
fn a_client_that_does_not_read_delays_nobody() {
    const VALUE: usize = 1 << 20;
    const REPLIES: usize = 64;
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        let value = vec![b'x'; VALUE];
        let () = redis::cmd("SET").arg("big").arg(&value[..]).query(&mut client).expect("OK");
        let mut slow: Vec<_> = (0..4).map(|_| server.socket()).collect();
        for socket in &mut slow {
            send(socket, &b"GET big\r\n".repeat(REPLIES));
        }
        for _ in 0..100 {
            assert_eq!(ask(&mut client, "PING"), "PONG");
        }
        let reply = [format!("${VALUE}\r\n").as_bytes(), &value, b"\r\n"].concat();
        for socket in &mut slow {
            for _ in 0..REPLIES {
                expect_bytes(socket, &reply);
            }
        }
    });
}

#[test]
fn a_list_of_clients_shows_what_they_asked_for_before() {
    on_each_thread_count(&["--client-output-buffer-limit", "normal 1mb 0 0"], |server| {
        let mut client = server.client();
        ask(&mut client, "SETRANGE k 1200000 v");
        let mut greedy_that_are_listed = || {
            let mut greedy: Vec<_> = (0..3).map(|_| server.socket()).collect();
            for socket in &mut greedy {
                send(socket, b"CLIENT SETNAME greedy\r\n");
                expect_bytes(socket, b"+OK\r\n");
            }
            // All of it has arrived when the workers resume.
            server.signal("STOP");
            greedy.iter_mut().for_each(|socket| send(socket, b"GET k\r\n"));
            server.signal("CONT");
            ask(&mut client, "CLIENT LIST").matches("name=greedy").count()
        };
        // A worker that does not get on within 100 ms, as on a busy machine, is waited for no longer.
        assert!((0..5).any(|_| greedy_that_are_listed() == 0), "they may not have so much");
    });
}

#[test]
fn monitors_see_what_was_asked_for_before_info() {
    on_each_thread_count(&[], |server| {
        let (mut monitor, mut waiting, mut asking) = (server.socket(), server.socket(), server.socket());
        send(&mut monitor, b"MONITOR\r\n");
        expect_bytes(&mut monitor, b"+OK\r\n");
        let mut lines = BufReader::new(monitor).lines().map(|line| line.expect("a line"));
        for round in 0..10 {
            // Both have arrived when the workers resume.
            server.signal("STOP");
            send(&mut waiting, format!("BLPOP list{round} 0\r\n").as_bytes());
            send(&mut asking, b"INFO clients\r\n");
            server.signal("CONT");
            for expected in ["\"BLPOP\"", "\"INFO\" \"clients\""] {
                let line = lines.next().expect("a line");
                assert!(line.contains(expected), "{line}, not {expected}");
            }
            ask(&mut server.client(), &format!("RPUSH list{round} v"));
            expect_bytes(&mut waiting, format!("*2\r\n$5\r\nlist{round}\r\n$1\r\nv\r\n").as_bytes());
            assert!(lines.any(|line| line.contains("RPUSH")));
        }
    });
}

#[test]
fn prefixes_that_a_client_tracks_are_its_memory() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client_speaking("resp3");
        let memory = |client: &mut redis::Connection| -> usize {
            let info = ask(client, "CLIENT INFO");
            let field = info.split(' ').find_map(|field| field.strip_prefix("tot-mem=")).expect("the field");
            field.parse().expect("a number")
        };
        let before = memory(&mut client);
        // As in Valkey, each counts as much whatever its length is.
        let prefixes: String = (1000..1300).map(|number| format!(" PREFIX p{number}")).collect();
        ask(&mut client, &format!("CLIENT TRACKING ON BCAST{prefixes}"));
        assert!(eventually(|| memory(&mut client) >= before + 5000), "{before} before");
        ask(&mut client, "CLIENT TRACKING OFF");
        assert!(eventually(|| memory(&mut client) < before + 5000));
    });
}

#[test]
fn listeners_are_not_idle() {
    on_each_thread_count(&["--timeout", "1"], |server| {
        let (mut idle, mut subscriber, mut monitor) = (server.socket(), server.socket(), server.socket());
        send(&mut subscriber, b"SUBSCRIBE news\r\n");
        expect_bytes(&mut subscriber, b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
        send(&mut monitor, b"MONITOR\r\n");
        expect_bytes(&mut monitor, b"+OK\r\n");
        assert_eq!(read_to_close(&mut idle), "");
        std::thread::sleep(Duration::from_millis(1200));
        let mut client = server.client();
        assert_eq!(ask(&mut client, "PUBLISH news x"), "1");
        expect_bytes(&mut subscriber, b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n");
        // Sent messages count, too.
        let list = ask(&mut client, "CLIENT LIST TYPE pubsub");
        assert!(list.contains(" idle=0 ") && list.contains(" cmd=subscribe "), "{list}");
        let list = ask(&mut client, "CLIENT LIST");
        assert!(list.contains(" idle=0 flags=O "), "{list}");
    });
}

#[test]
fn a_second_monitor_command_is_refused() {
    on_each_thread_count(&[], |server| {
        let mut monitor = server.socket();
        send(&mut monitor, b"MONITOR\r\nMONITOR\r\nGET k\r\nRESET\r\nMONITOR\r\n");
        let refused = b"+OK\r\n-ERR Replica can't interact with the keyspace\r\n+RESET\r\n+OK\r\n";
        expect_bytes(&mut monitor, refused);
    });
}

#[test]
fn monitors_see_what_scripts_do() {
    on_each_thread_count(&[], |server| {
        let mut monitor = server.socket();
        send(&mut monitor, b"MONITOR\r\n");
        expect_bytes(&mut monitor, b"+OK\r\n");
        let script = "return redis.call('SET', 'k', 'v')";
        let _: String = redis::cmd("EVAL").arg(script).arg(0).query(&mut server.client()).expect("EVAL");
        let lines = BufReader::new(monitor).lines().map(|line| line.expect("a line"));
        let seen: Vec<String> = lines.filter(|line| !line.contains("CLIENT")).take(2).collect();
        assert!(seen.iter().any(|line| line.contains(" lua] \"SET\" \"k\" \"v\"")), "{seen:?}");
        assert!(seen.iter().any(|line| line.contains(" 127.0.0.1:") && line.contains("\"EVAL\"")), "{seen:?}");
    });
}

/// A large argument, which is not where the others are, is kept to be shown: of the script, not of its commands.
#[test]
fn large_arguments_are_shown_of_their_own_command() {
    on_each_thread_count(&[], |server| {
        let mut monitor = server.socket();
        send(&mut monitor, b"MONITOR\r\n");
        expect_bytes(&mut monitor, b"+OK\r\n");
        let large = "x".repeat(100_000);
        let mut client = server.client();
        let script = "redis.call('SET', KEYS[1], 'small') return redis.call('GET', KEYS[1])";
        redis::cmd("EVAL").arg(script).arg(1).arg("k").arg(large).exec(&mut client).expect("the script runs");
        let lines = BufReader::new(monitor).lines().map(|line| line.expect("a line"));
        let lines: Vec<String> = lines.skip_while(|line| !line.contains("\"EVAL\"")).take(3).collect();
        assert!(lines[1].ends_with(" lua] \"SET\" \"k\" \"small\""), "{}", &lines[1][..100]);
        assert!(lines[2].ends_with(" lua] \"GET\" \"k\""), "{}", &lines[2][..100]);
    });
}

/// Room of a client's input, used or not, as CLIENT LIST shows it.
fn input_room(client: &mut redis::Connection, name: &str) -> usize {
    let clients: String = redis::cmd("CLIENT").arg("LIST").query(client).expect("CLIENT LIST");
    let of_name = format!(" name={name} ");
    let line = clients.lines().find(|line| line.contains(&of_name)).expect("the client's line");
    let field = |name: &str| {
        let value = line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')).expect("a field");
        value.parse::<usize>().expect("a number")
    };
    field("qbuf") + field("qbuf-free")
}

#[test]
fn room_for_input_comes_with_parts_of_requests_and_goes_with_silence() {
    on_each_thread_count(&["--enable-debug-command", "yes"], |server| {
        let mut observer = server.client();
        let mut pause = |on: u8| redis::cmd("DEBUG").arg("PAUSE-CRON").arg(on).exec(&mut observer).expect("PAUSE-CRON");
        pause(1);
        let mut sockets = ["whole", "half", "large", "late"].map(|name| {
            let mut socket = server.socket();
            send(&mut socket, format!("CLIENT SETNAME {name}\r\n").as_bytes());
            expect_bytes(&mut socket, b"+OK\r\n");
            socket
        });
        let [_, half, large, late] = &mut sockets;
        let mut looker = server.client();
        let mut room = |name: &str| input_room(&mut looker, name);
        assert_eq!(room("whole"), 0);
        send(half, b"*3\r\n$3\r\nSET\r\n$2\r\na");
        assert!(eventually(|| room("half") > 0));
        send(half, b"b\r\n$1\r\nv\r\n");
        expect_bytes(half, b"+OK\r\n");
        assert_eq!(room("half"), 16384);
        send(large, format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$400000\r\n{}\r\n", "x".repeat(400_000)).as_bytes());
        expect_bytes(large, b"+OK\r\n");
        assert_eq!(room("large"), 32768);
        send(late, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\n");
        assert!(eventually(|| room("late") > 0));
        assert!(room("late") < 17_000, "what is only announced takes nothing: {}", room("late"));
        send(late, b"x");
        assert!(eventually(|| room("late") > 1 << 20), "{}", room("late"));
        assert!(room("late") < 17_000 + (1 << 20), "{}", room("late"));
        pause(0);
        assert!(eventually(|| (1..32768).contains(&room("large"))), "half of it is given back at a time");
        assert!(eventually(|| room("half") == 0 && room("large") == 0 && room("late") < 1000));
    });
}

#[test]
fn clients_know_themselves() {
    on_each_thread_count(&[], |server| {
        let (mut one, mut two) = (server.client(), server.client());
        let (first, second) = (ask(&mut one, "CLIENT ID"), ask(&mut two, "CLIENT ID"));
        assert_ne!(first, second);
        dialogue(
            &mut one,
            &[
                ("CLIENT GETNAME", "nil"),
                ("CLIENT SETNAME one", "OK"),
                ("CLIENT GETNAME", "\"one\""),
                ("CLIENT NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP."),
            ],
        );
        let info = ask(&mut one, "CLIENT INFO");
        assert!(
            info.contains(&format!("id={first} ")) && info.contains(" name=one ") && info.contains(" db=0 "),
            "{info}"
        );
        let list = ask(&mut two, "CLIENT LIST");
        assert!(list.contains(&format!("id={first} ")) && list.contains(&format!("id={second} ")), "{list}");
        dialogue(&mut one, &[("SELECT 3", "OK"), ("RESET", "RESET"), ("CLIENT GETNAME", "nil")]);
        assert!(ask(&mut one, "CLIENT INFO").contains(" db=0 "));
    });
}

/// The server's own end of a connection, by its descriptor there.
fn servers_end(server: &Server, client: &mut redis::Connection) -> Socket {
    let info: String = redis::cmd("CLIENT").arg("INFO").query(client).expect("a line");
    let fd = info.split(' ').find_map(|field| field.strip_prefix("fd=")).expect("its descriptor");
    let pid = Pid::from_raw(server.pid() as i32).expect("a process");
    let process = pidfd_open(pid, PidfdFlags::empty()).expect("the server");
    pidfd_getfd(process, fd.parse().expect("a number"), PidfdGetfdFlags::empty()).expect("the connection").into()
}

#[test]
fn connections_have_the_options_of_their_time() {
    on_each_thread_count(&["--tcp-keepalive", "30"], |server| {
        let mut admin = server.client();
        let is_kept_alive = |seconds: u64| {
            let end = servers_end(server, &mut server.client());
            assert!(end.tcp_nodelay().expect("an option"));
            assert_eq!(end.keepalive().expect("an option"), seconds > 0);
            if seconds > 0 {
                assert_eq!(end.tcp_keepalive_time().expect("a time"), Duration::from_secs(seconds));
                assert_eq!(end.tcp_keepalive_interval().expect("a time"), Duration::from_secs(seconds / 3));
                assert_eq!(end.tcp_keepalive_retries().expect("a number"), 3);
            }
        };
        is_kept_alive(30);
        for seconds in [90, 0, 60] {
            dialogue(&mut admin, &[(&format!("CONFIG SET tcp-keepalive {seconds}"), "OK")]);
            is_kept_alive(seconds);
        }
        dialogue(&mut admin, &[("CONFIG SET bind 127.0.0.1", "OK")]);
        is_kept_alive(60);
    });
}

#[test]
fn both_ends_addresses_are_listed() {
    // A machine may be without IPv6.
    let has_v6 = TcpListener::bind("[::1]:0").is_ok();
    let binds: [&[&str]; 4] = [&["*"], &["127.0.0.1", "127.0.0.2"], &["*", "::*"], &["127.0.0.1", "::1"]];
    for bind in &binds[..if has_v6 { 4 } else { 2 }] {
        let options: Vec<&str> = ["--bind"].into_iter().chain(bind.iter().copied()).collect();
        let server = Server::start(&options);
        let is_wildcard = bind[0] == "*";
        let mut addresses = vec!["127.0.0.1"];
        addresses.extend((is_wildcard || bind.contains(&"127.0.0.2")).then_some("127.0.0.2"));
        addresses.extend(bind.iter().any(|name| name.contains(':')).then_some("::1"));
        for address in addresses {
            let address: IpAddr = address.parse().expect("an address");
            let mut socket = socket_to(SocketAddr::new(address, server.port));
            let (own, peer) = (socket.local_addr().expect("an address"), socket.peer_addr().expect("an address"));
            send(&mut socket, format!("CLIENT LIST ADDR {own} LADDR {peer}\r\nQUIT\r\n").as_bytes());
            let list = read_to_close(&mut socket);
            assert!(list.contains(&format!(" addr={own} laddr={peer} ")), "bind {bind:?}: {list:?}");
        }
    }
}

#[test]
fn a_worker_that_is_busy_keeps_nobody_from_connecting() {
    let server = Server::start_with_threads(2, &["--enable-debug-command", "yes"]);
    // The first connection belongs to the first worker, which accepts connections.
    let mut busy = server.socket();
    send(&mut busy, b"PING\r\n");
    expect_bytes(&mut busy, b"+PONG\r\n");
    send(&mut busy, b"DEBUG POPULATE 3000000\r\n");
    std::thread::sleep(Duration::from_millis(20));
    let mut other = server.socket();
    send(&mut other, b"PING\r\n");
    expect_bytes(&mut other, b"+PONG\r\n");
    busy.set_nonblocking(true).expect("a socket");
    let error = busy.peek(&mut [0]).expect_err("it is busy for seconds");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}
