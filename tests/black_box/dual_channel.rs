//! A snapshot over a connection of its own, beside the one for the stream: either of the two may end first.

use crate::dialogue::{ask, ask_integer};
use crate::harness::{Server, eventually, process_state, send};
use crate::replica_links::{ID, LONG, line, next_link};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

const OPTIONS: [&str; 4] = ["--dual-channel-replication-enabled", "yes", "--repl-diskless-sync-delay", "0"];

/// The next words of a primary, whole lines.
fn hear(lines: &mut impl BufRead) -> String {
    loop {
        let line = line(lines);
        if !line.is_empty() {
            return line;
        }
    }
}

/// The two connections of a replica whose snapshot has begun, and the requests for the first one then.
struct TwoChannels {
    main: TcpStream,
    lines: BufReader<TcpStream>,
    snapshots: TcpStream,
    data: BufReader<TcpStream>,
    association: String,
    continuation: String,
}

fn open_two_channels(primary: &Server) -> TwoChannels {
    let mut main = primary.socket();
    send(&mut main, b"REPLCONF capa eof capa psync2 capa dual-channel\r\nPSYNC ? -1\r\n");
    let mut lines = BufReader::new(main.try_clone().expect("the socket"));
    assert_eq!((hear(&mut lines), hear(&mut lines)), ("+ok".to_owned(), "+dualchannelsync".to_owned()));
    let mut snapshots = primary.socket();
    send(&mut snapshots, b"REPLCONF capa eof rdb-only 1 rdb-channel 1 version 9.0.0\r\nSYNC\r\n");
    let mut data = BufReader::with_capacity(16, snapshots.try_clone().expect("the socket"));
    assert_eq!(hear(&mut data), "+ok");
    let end = hear(&mut data);
    let words: Vec<&str> = end.split(' ').collect();
    let (offset, id, client) = (words[0].strip_prefix("$endoff:").expect("an offset"), words[1], words[3]);
    let next = offset.parse::<u64>().expect("a number") + 1;
    let association = format!("REPLCONF set-rdb-client-id {client}\r\n");
    let continuation = format!("PSYNC {id} {next}\r\n");
    TwoChannels { main, lines, snapshots, data, association, continuation }
}

#[test]
fn a_replica_asks_for_the_stream_in_the_same_breath_as_it_names_its_snapshot() {
    let primary = Server::start(&OPTIONS);
    // A connection for the snapshot that is closed is none that is named.
    let TwoChannels { mut main, mut lines, association, continuation, snapshots: _snapshots, data: _data } =
        open_two_channels(&primary);
    send(&mut main, format!("{association}{continuation}").as_bytes());
    assert_eq!(hear(&mut lines), "+ok");
    assert!(hear(&mut lines).starts_with("+continue"));
}

#[test]
fn a_snapshot_is_read_to_its_end_by_a_replica_that_has_said_that_it_is_there() {
    let primary = Server::start(&[&OPTIONS[..], &["--rdbcompression", "no"]].concat());
    let mut writer = primary.client();
    // The writes are more than unread sockets take.
    for number in 0..24 {
        let value = vec![b'x'; 1 << 20];
        redis::cmd("SET").arg(number).arg(value).exec(&mut writer).expect("OK");
    }
    let TwoChannels { mut main, mut lines, mut snapshots, mut data, association, continuation } =
        open_two_channels(&primary);
    // The replica loads, and reads on when the primary has done with it.
    send(&mut snapshots, b"\n");
    send(&mut main, association.as_bytes());
    assert_eq!(hear(&mut lines), "+ok");
    send(&mut main, continuation.as_bytes());
    assert!(hear(&mut lines).starts_with("+continue"));
    send(&mut snapshots, b"\n");
    let mut rest = Vec::new();
    data.read_to_end(&mut rest).expect("all of the snapshot");
    let head = rest.windows(5).position(|part| part == b"$EOF:").expect("the beginning");
    let mark = rest[head + 5..head + 45].to_vec();
    assert!(rest.ends_with(&mark), "{} bytes", rest.len());
}

#[test]
fn the_connection_for_a_snapshot_is_not_listed_for_long_when_nobody_asks_for_the_stream() {
    let primary = Server::start(&OPTIONS);
    let TwoChannels { main, lines, snapshots, mut data, .. } = open_two_channels(&primary);
    let mut client = primary.client();
    let listed = |client: &mut redis::Connection| ask(client, "INFO replication").contains("type=rdb-channel");
    let is_sent = |client: &mut redis::Connection| ask(client, "INFO replication").contains("state=rdb_transmitted");
    snapshots.set_read_timeout(Some(LONG)).expect("a time");
    data.fill_buf().expect("the snapshot begins");
    assert!(eventually(|| is_sent(&mut client)));
    drop((main, lines, snapshots, data));
    assert!(listed(&mut client), "the replica may ask on another connection");
    assert!(eventually(|| !listed(&mut client)));
}

/// Whether the server's log has this by now.
fn says(server: &Server, text: &str) -> bool {
    eventually(|| server.folder.read("stdout").contains(text))
}

#[test]
fn a_primary_says_which_part_of_the_stream_it_keeps_for_a_replica_that_has_not_asked_for_it() {
    // The first snapshot is not at its end when the others begin.
    let slowly = ["--loglevel", "debug", "--rdb-key-save-delay", "100000", "--rdbcompression", "no"];
    let primary = Server::start(&[&OPTIONS[..], &slowly].concat());
    let mut writer = primary.client();
    for number in 0..100 {
        assert_eq!(ask(&mut writer, &format!("SET {number} 1")), "OK");
    }
    let _first = open_two_channels(&primary);
    assert!(says(&primary, ": no repl-backlog to track"));
    assert!(says(&primary, "Attach replica rdb client"));
    assert!(!primary.folder.read("stdout").contains("Current BGSAVE has socket target"));
    assert_eq!(ask(&mut writer, "SET after 1"), "OK");
    let _second = open_two_channels(&primary);
    assert!(says(&primary, ": tracking repl-backlog tail"));
    assert!(says(&primary, "Current BGSAVE has socket target. Waiting for next BGSAVE for SYNC"));
}

#[test]
fn a_replica_whose_snapshot_is_lost_at_once_still_asks_for_the_stream_behind_it() {
    let replica = Server::start(&[&OPTIONS[..], &["--enable-debug-command", "yes"]].concat());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let mut client = replica.client();
    assert_eq!(ask(&mut client, "DEBUG PAUSE-AFTER-FORK 1"), "OK");
    assert_eq!(ask(&mut client, &format!("REPLICAOF 127.0.0.1 {port}")), "OK");
    let (mut lines, mut main) = next_link(&listener);
    send(&mut main, b"+DUALCHANNELSYNC\r\n");
    let (mut snapshots, _) = listener.accept().expect("the connection for the snapshot");
    snapshots.set_read_timeout(Some(LONG)).expect("a time");
    let mut asked = BufReader::new(snapshots.try_clone().expect("the socket"));
    while line(&mut asked) != "replconf" {}
    send(&mut snapshots, format!("+OK\r\n$ENDOFF:100 {ID} 0 77\r\n").as_bytes());
    while line(&mut lines) != "set-rdb-client-id" {}
    // The replica learns that the snapshot is known, and loses it, before it can do anything.
    assert!(eventually(|| process_state(&replica) == 'T'), "it has stopped itself");
    send(&mut main, b"+OK\r\n");
    drop((snapshots, asked));
    replica.signal("CONT");
    while line(&mut lines) != "psync" {}
    line(&mut lines);
    assert_eq!(line(&mut lines), ID);
    line(&mut lines);
    assert_eq!(line(&mut lines), "101");
    main.write_all(b"+DUALCHANNELSYNC\r\n").expect("the link stands");
}

#[test]
fn a_replica_that_loses_the_stream_while_it_loads_begins_again() {
    let slowly = ["--rdb-key-save-delay", "20000", "--rdbcompression", "no"];
    let primary = Server::start(&[&OPTIONS[..], &slowly].concat());
    let load = ["--repl-diskless-load", "flush-before-load", "--loading-process-events-interval-bytes", "1024"];
    let replica = Server::start(&[&OPTIONS[..], &load].concat());
    let mut writer = primary.client();
    let mut pipe = redis::pipe();
    (0..2000).for_each(|number| _ = pipe.set(format!("key:{number}"), "x".repeat(2000)).ignore());
    pipe.query::<()>(&mut writer).expect("OK");
    assert_eq!(ask(&mut replica.client(), &format!("REPLICAOF 127.0.0.1 {}", primary.port)), "OK");
    assert!(says(&replica, "Loading RDB produced by Cinnabar version"));
    let follows = || ask(&mut writer, "CLIENT LIST TYPE REPLICA").contains("cmd=psync");
    assert!(eventually(follows), "the stream goes over a connection of its own");
    assert_eq!(ask(&mut writer, "SET behind 1"), "OK");
    let info = |name| ask(&mut replica.client(), &format!("INFO {name}"));
    assert!(eventually(|| !info("replication").contains("replicas_repl_buffer_size:0\r")), "the stream waits");

    assert_eq!(ask(&mut writer, "CONFIG SET rdb-key-save-delay 0"), "OK");
    let list = ask(&mut writer, "CLIENT LIST TYPE REPLICA");
    let main = list.split("\\n").find(|line| line.contains("cmd=psync")).expect("the stream's connection");
    let id = main.split(' ').find_map(|word| word.rsplit_once("id=")).expect("an id").1;
    assert_eq!(ask_integer(&mut writer, &format!("CLIENT KILL ID {id}")), 1);
    assert!(says(&replica, "Failed trying to load the PRIMARY synchronization DB from socket"));
    assert!(eventually(|| !info("memory").contains("lazyfreed_objects:0\r")), "nobody waits until it is freed");
    assert!(eventually(|| ask(&mut replica.client(), "ROLE").contains("\"connected\"")), "it comes again");
    assert_eq!(ask(&mut replica.client(), "GET behind"), "\"1\"");
}
