//! A replica where its primary's stream meets something else: saves, role changes, snapshots that are none.

use crate::dialogue::ask;
use crate::harness::{Server, eventually, expect_bytes, is_peer, process_state, send};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::thread;

const AT_ONCE: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

fn follow(replica: &Server, primary: &Server) {
    assert_eq!(ask(&mut replica.client(), &format!("REPLICAOF 127.0.0.1 {}", primary.port)), "OK");
    assert!(eventually(|| ask(&mut replica.client(), "ROLE").contains("\"connected\"")), "the link stands");
}

#[test]
fn a_transaction_that_changes_no_primary_lets_the_stream_go_on() {
    let [primary, replica] = std::array::from_fn(|_| Server::start(&AT_ONCE));
    follow(&replica, &primary);
    // The first is what a Sentinel orders of a replica that follows that primary already.
    for order in [format!("REPLICAOF 127.0.0.1 {}", primary.port), "REPLICAOF 127.0.0.1 x".to_owned()] {
        for watches in [false, true] {
            let mut client = replica.client();
            if watches {
                ask(&mut client, "WATCH key");
                ask(&mut primary.client(), "SET key changed");
                assert!(eventually(|| ask(&mut replica.client(), "GET key") == "\"changed\""));
            }
            for line in ["MULTI", &order, "EXEC"] {
                ask(&mut client, line);
            }
            ask(&mut primary.client(), &format!("SET key {watches}"));
            assert!(eventually(|| ask(&mut replica.client(), "GET key") == format!("\"{watches}\"")), "{order}");
        }
    }
    assert_eq!(ask(&mut replica.client(), "REPLICAOF NO ONE"), "OK");
}

#[test]
fn a_replica_with_save_points_outlives_flushall_of_its_primary() {
    let options = [&AT_ONCE[..], &["--save", "3600 1"]].concat();
    let [primary, replica] = std::array::from_fn(|_| Server::start(&options));
    follow(&replica, &primary);
    let mut writer = primary.client();
    for round in 0..3 {
        assert_eq!(ask(&mut writer, &format!("SET before {round}")), "OK");
        assert_eq!(ask(&mut writer, "FLUSHALL"), "OK");
        assert_eq!(ask(&mut writer, &format!("SET after {round}")), "OK");
        let arrived = || ask(&mut replica.client(), "GET after") == format!("\"{round}\"");
        assert!(eventually(arrived), "the stream goes on behind FLUSHALL");
        assert_eq!(ask(&mut replica.client(), "EXISTS before"), "0");
    }
    assert_eq!(ask(&mut replica.client(), "REPLICAOF NO ONE"), "OK");
    assert!(replica.stop().success());
}

#[test]
fn a_transaction_that_changes_the_primary_and_a_save_do_not_wait_for_each_other() {
    let [primary, replica] = std::array::from_fn(|_| Server::start(&AT_ONCE));
    follow(&replica, &primary);
    let port = primary.port;
    let saver = |mut client: redis::Connection| {
        move || {
            for _ in 0..400 {
                ask(&mut client, "BGSAVE");
            }
        }
    };
    let saving = thread::spawn(saver(replica.client()));
    let mut client = replica.client();
    for _ in 0..60 {
        for order in ["REPLICAOF NO ONE".to_owned(), format!("REPLICAOF 127.0.0.1 {port}")] {
            // A replica that loads its snapshot refuses all of it.
            let changed = || {
                ask(&mut client, "MULTI");
                ask(&mut client, &order);
                ask(&mut client, "EXEC") == "[OK]"
            };
            assert!(eventually(changed), "{order}");
        }
    }
    saving.join().expect("the saves");
    assert!(replica.stop().success());
}

/// Starts a primary that sends a faulty snapshot to each replica.
fn bad_primary() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    thread::spawn(move || {
        for replica in listener.incoming().take(50).flatten() {
            thread::spawn(move || send_garbage(replica));
        }
    });
    port
}

fn send_garbage(mut replica: TcpStream) {
    let lines = BufReader::new(replica.try_clone().expect("the socket")).lines();
    for line in lines.map_while(Result::ok) {
        match line.to_ascii_lowercase().as_str() {
            "ping" => send(&mut replica, b"+PONG\r\n"),
            "replconf" => send(&mut replica, b"+OK\r\n"),
            "psync" => {
                let id = "0123456789012345678901234567890123456789";
                send(&mut replica, format!("+FULLRESYNC {id} 1\r\n").as_bytes());
                // The rest of the request is of no interest.
                send(&mut replica, b"$23\r\nREDIS0011\xfa\x0ano snapshot.");
            }
            _ => {}
        }
    }
}

#[test]
fn the_log_is_on_again_after_a_synchronization_that_failed() {
    for (load, is_at_once) in
        ["flush-before-load", "swapdb", "disabled"].into_iter().flat_map(|load| [(load, false), (load, true)])
    {
        let mut replica =
            Server::start(&["--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-load", load]);
        let mut client = replica.client();
        assert_eq!(ask(&mut client, "SET before 1"), "OK");
        assert_eq!(ask(&mut client, &format!("REPLICAOF 127.0.0.1 {}", bad_primary())), "OK");
        let failed = || replica.folder.read("stdout").contains("Failed trying to load the PRIMARY synchronization DB");
        assert!(eventually(failed), "{load}: {}", replica.folder.read("stdout"));
        assert_eq!(ask(&mut client, "REPLICAOF NO ONE"), "OK");
        let is_on = |client: &mut redis::Connection| {
            let info = ask(client, "INFO persistence");
            info.contains("aof_enabled:1") && info.contains("aof_pending_rewrite:0")
        };
        assert!(is_at_once || eventually(|| is_on(&mut client)), "{load}");
        let kept = ask(&mut client, "EXISTS before");
        assert_eq!(ask(&mut client, "SET after 1"), "OK");
        replica.crash();
        let mut client = replica.client();
        assert_eq!((ask(&mut client, "GET after"), ask(&mut client, "EXISTS before")), ("\"1\"".to_owned(), kept));
    }
}

#[test]
fn writes_are_refused_and_the_server_ends_while_the_log_cannot_be_begun_after_a_synchronization() {
    for policy in ["always", "everysec"] {
        let primary = Server::start(&AT_ONCE);
        let replica =
            Server::start(&["--appendonly", "yes", "--appendfsync", policy, "--repl-diskless-load", "swapdb"]);
        for sequence in 2..20 {
            // A rewrite cannot rename its base to this.
            let base = format!("appendonlydir/appendonly.aof.{sequence}.base.rdb/x");
            std::fs::create_dir_all(replica.folder.path().join(base)).expect("a directory");
        }
        follow(&replica, &primary);
        let failed = || replica.folder.read("stdout").contains("Background AOF rewrite terminated with error");
        assert!(eventually(failed), "{policy}: {}", replica.folder.read("stdout"));
        let mut client = replica.client();
        assert_eq!(ask(&mut client, "REPLICAOF NO ONE"), "OK");
        let uptime = |client: &mut redis::Connection| {
            let info = ask(client, "INFO server");
            let (_, value) = info.split_once("uptime_in_seconds:").expect("the field");
            let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u64>().expect("seconds")
        };
        let begun = uptime(&mut client);
        assert!(ask(&mut client, "SET key 1").contains("MISCONF"), "{policy}");
        assert!(eventually(|| uptime(&mut client) > begun + 2));
        assert!(ask(&mut client, "SET key 1").contains("MISCONF"), "{policy}: other records were written meanwhile");
        assert!(ask(&mut client, "INFO persistence").contains("aof_last_write_status:err"), "{policy}");
        assert!(replica.stop().success(), "{policy}");
    }
}

#[test]
fn a_replica_may_load_for_longer_than_the_time_out() {
    for load in ["disabled", "flush-before-load"] {
        load_slowly(load);
    }
}

fn load_slowly(load: &str) {
    let primary = Server::start(&[&AT_ONCE[..], &["--repl-timeout", "2", "--rdbcompression", "no"]].concat());
    let mut writer = primary.client();
    let mut pipe = redis::pipe();
    (0..250).for_each(|number| _ = pipe.set(format!("key:{number}"), "x".repeat(2000)).ignore());
    pipe.query::<()>(&mut writer).expect("OK");
    let slowly = ["--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024"];
    let replica = Server::start(&[&slowly[..], &["--repl-diskless-load", load]].concat());
    follow(&replica, &primary);
    let log = primary.folder.read("stdout");
    assert!(!log.contains("timedout"), "{load}: {log}");
    assert_eq!(ask(&mut replica.client(), "DBSIZE"), "250");
}

#[test]
fn a_snapshot_reaches_its_replica_while_the_primary_that_was_told_to_pause_serves_nobody() {
    let options = [&AT_ONCE[..], &["--dual-channel-replication-enabled", "yes", "--enable-debug-command", "yes"]];
    let [primary, replica] = std::array::from_fn(|_| Server::start(&options.concat()));
    let mut client = primary.client();
    for key in 0..100 {
        ask(&mut client, &format!("SET key{key} value"));
    }
    assert_eq!(ask(&mut client, "DEBUG PAUSE-AFTER-FORK 1"), "OK");
    assert_eq!(ask(&mut replica.client(), &format!("REPLICAOF 127.0.0.1 {}", primary.port)), "OK");
    assert!(eventually(|| ask(&mut replica.client(), "GET key99") == "\"value\""), "the snapshot is loaded");
    assert!(eventually(|| process_state(&primary) == 'T'), "the primary has stopped itself");
    let mut waiting = primary.socket();
    send(&mut waiting, b"PING\r\n");
    assert!(ask(&mut replica.client(), "INFO replication").contains("master_link_status:down"), "no stream yet");

    primary.signal("CONT");
    expect_bytes(&mut waiting, b"+PONG\r\n");
    assert!(
        eventually(|| ask(&mut replica.client(), "ROLE").contains("\"connected\"")),
        "the stream goes on behind it"
    );
    assert_eq!(ask(&mut client, "SET after 1"), "OK");
    assert!(eventually(|| ask(&mut replica.client(), "GET after") == "\"1\""));
}

/// Returns a line of the process's status that states kilobytes.
fn kilobytes(server: &Server, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("its status");
    let number = status.lines().find_map(|it| it.strip_prefix(line)?.split_ascii_whitespace().nth(1)?.parse().ok());
    number.expect("a number")
}

#[test]
fn a_large_value_is_held_little_more_than_twice_while_it_arrives_and_goes_to_a_replica() {
    const LEN: usize = 128 << 20;
    let [primary, replica] = std::array::from_fn(|_| Server::start(&AT_ONCE));
    follow(&replica, &primary);
    let servers = [&primary, &replica];
    let before = servers.map(|server| kilobytes(server, "VmRSS"));
    let mut socket = primary.socket();
    send(&mut socket, format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${LEN}\r\n").as_bytes());
    let part = vec![b'x'; 1 << 20];
    (0..LEN / part.len()).for_each(|_| send(&mut socket, &part));
    send(&mut socket, b"\r\n");
    expect_bytes(&mut socket, b"+OK\r\n");
    assert!(eventually(|| ask(&mut replica.client(), "STRLEN k") == LEN.to_string()));
    let most = servers.map(|server| kilobytes(server, "VmHWM"));
    let times = [0, 1].map(|at| (most[at] - before[at]) as f64 * 1024.0 / LEN as f64);
    if !is_peer() {
        assert!(times.iter().all(|times| *times < 3.0), "{times:?}");
    }
}
