//! Workers share the work: connections move from a worker that is full to others, whatever their clients do meanwhile.

use crate::dialogue::{ask, ask_integer};
use crate::harness::{Server, bytes_of, eventually, expect_bytes, send};
use std::fs;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

const WORKERS: usize = 4;

/// Processor time that each worker has taken, in ticks of the system.
fn worker_ticks(server: &Server) -> Vec<u64> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("the server's threads").flatten();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    let mut workers: Vec<(String, u64)> = stats
        .filter_map(|stat| {
            let (before, after) = stat.rsplit_once(") ")?;
            let name = before.split_once('(')?.1;
            let fields: Vec<&str> = after.split(' ').collect();
            let ticks = |field: usize| fields[field].parse::<u64>().expect("a number");
            name.starts_with("worker-").then(|| (name.to_owned(), ticks(11) + ticks(12)))
        })
        .collect();
    workers.sort();
    workers.into_iter().map(|(_, ticks)| ticks).collect()
}

/// State that busy clients share.
struct Crowd {
    stop: AtomicBool,
    rounds: AtomicUsize,
    kills: AtomicUsize,
}

/// The crowd stops when this goes, also where a test fails.
struct Ends<'c>(&'c Crowd);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Relaxed);
    }
}

/// A busy client: does one round after the other, each of which checks all of its replies.
type Round = fn(&mut Peer, usize);

struct Peer<'s> {
    server: &'s Server,
    socket: TcpStream,
    number: usize,
    count: usize,
}

impl Peer<'_> {
    fn ask(&mut self, request: &str, expected: &str) {
        send(&mut self.socket, format!("{request}\r\n").as_bytes());
        expect_bytes(&mut self.socket, expected.as_bytes());
    }

    /// Expects the next number of the client's own counter.
    fn expect_count(&mut self) {
        self.count += 1;
        let expected = format!(":{}\r\n", self.count);
        expect_bytes(&mut self.socket, expected.as_bytes());
    }
}

fn pipeline(peer: &mut Peer, round: usize) {
    const DEPTH: usize = 200;
    let number = peer.number;
    let requests: String = (0..DEPTH).map(|i| format!("INCR count{number}\r\nECHO {round}:{i:03}\r\n")).collect();
    send(&mut peer.socket, requests.as_bytes());
    for i in 0..DEPTH {
        peer.expect_count();
        let text = format!("{round}:{i:03}");
        expect_bytes(&mut peer.socket, format!("${}\r\n{text}\r\n", text.len()).as_bytes());
    }
}

fn big_replies(peer: &mut Peer, round: usize) {
    const BYTES: usize = 300_000;
    let number = peer.number;
    peer.ask(&format!("SETRANGE big{number} {} {}", BYTES - 1, round % 10), &format!(":{BYTES}\r\n"));
    send(&mut peer.socket, format!("GET big{number}\r\nGET big{number}\r\nINCR count{number}\r\n").as_bytes());
    for _ in 0..2 {
        expect_bytes(&mut peer.socket, format!("${BYTES}\r\n").as_bytes());
        let value = bytes_of(&mut peer.socket, BYTES + 2);
        assert!(value[..BYTES - 1].iter().all(|byte| *byte == 0) && value[BYTES - 1] == b'0' + (round % 10) as u8);
    }
    peer.expect_count();
}

/// Each request by itself, so that the connection may move between any two of them.
fn transaction(peer: &mut Peer, round: usize) {
    let number = peer.number;
    peer.ask(&format!("WATCH guard{number}"), "+OK\r\n");
    let is_broken = round.is_multiple_of(3);
    if is_broken {
        peer.ask(&format!("SET guard{number} {round}"), "+OK\r\n");
    }
    peer.ask("MULTI", "+OK\r\n");
    peer.ask(&format!("INCR count{number}"), "+QUEUED\r\n");
    peer.ask("ECHO x", "+QUEUED\r\n");
    if is_broken {
        return peer.ask("EXEC", "*-1\r\n");
    }
    peer.count += 1;
    let expected = format!("*2\r\n:{}\r\n$1\r\nx\r\n", peer.count);
    peer.ask("EXEC", &expected);
}

fn subscription(peer: &mut Peer, round: usize) {
    let number = peer.number;
    let (channel, text) = (format!("ch{number:02}"), format!("{:06}", round % 1_000_000));
    peer.ask(&format!("SUBSCRIBE {channel}"), &format!("*3\r\n$9\r\nsubscribe\r\n$4\r\n{channel}\r\n:1\r\n"));
    assert_eq!(ask_integer(&mut peer.server.client(), &format!("PUBLISH {channel} {text}")), 1);
    expect_bytes(&mut peer.socket, format!("*3\r\n$7\r\nmessage\r\n$4\r\n{channel}\r\n$6\r\n{text}\r\n").as_bytes());
    peer.ask(&format!("UNSUBSCRIBE {channel}"), &format!("*3\r\n$11\r\nunsubscribe\r\n$4\r\n{channel}\r\n:0\r\n"));
    pipeline(peer, round);
}

fn wait(peer: &mut Peer, round: usize) {
    let number = peer.number;
    send(&mut peer.socket, format!("BLPOP list{number} 0\r\nINCR count{number}\r\n").as_bytes());
    assert_eq!(ask_integer(&mut peer.server.client(), &format!("RPUSH list{number} {:06}", round % 1_000_000)), 1);
    let key = format!("list{number}");
    let expected = format!("*2\r\n${}\r\n{key}\r\n$6\r\n{:06}\r\n", key.len(), round % 1_000_000);
    expect_bytes(&mut peer.socket, expected.as_bytes());
    peer.expect_count();
    pipeline(peer, round);
}

/// Gets the invalidations of another client, without being listed as a tracking client itself.
fn redirected(peer: &mut Peer, round: usize) {
    const END: &[u8] = b"$12\r\nend-of-hello\r\n";
    let number = peer.number;
    if round == 0 {
        send(&mut peer.socket, b"HELLO 3\r\nECHO end-of-hello\r\n");
        let mut hello = Vec::new();
        while !hello.ends_with(END) {
            hello.extend(bytes_of(&mut peer.socket, 1));
        }
    }
    send(&mut peer.socket, b"CLIENT ID\r\n");
    let id = integer_line(&mut peer.socket);
    let mut reader = peer.server.client();
    assert_eq!(ask(&mut reader, &format!("CLIENT TRACKING ON REDIRECT {id}")), "OK");
    for _ in 0..3 {
        ask(&mut reader, &format!("GET read{number:02}"));
        assert_eq!(ask(&mut reader, &format!("SET read{number:02} {round}")), "OK");
        let expected = format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n$6\r\nread{number:02}\r\n");
        expect_bytes(&mut peer.socket, expected.as_bytes());
        pipeline(peer, round);
    }
}

/// Sends an argument little by little, with other requests before and after it.
fn large_argument(peer: &mut Peer, round: usize) {
    const PART: usize = 10_000;
    const PARTS: usize = 20;
    let number = peer.number;
    let head = format!("INCR count{number}\r\n*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n${}\r\n", PART * PARTS);
    send(&mut peer.socket, head.as_bytes());
    peer.expect_count();
    for _ in 0..PARTS {
        send(&mut peer.socket, &[b'a' + (round % 26) as u8; PART]);
    }
    send(&mut peer.socket, format!("\r\nINCR count{number}\r\nSTRLEN large\r\n").as_bytes());
    expect_bytes(&mut peer.socket, b"+OK\r\n");
    peer.expect_count();
    expect_bytes(&mut peer.socket, format!(":{}\r\n", PART * PARTS).as_bytes());
}

/// One round after the other until the crowd stops; then nothing that it did is missing.
fn be_busy(mut peer: Peer, crowd: &Crowd) {
    let mut round = 0;
    while !crowd.stop.load(Relaxed) {
        ROUNDS[peer.number % ROUNDS.len()](&mut peer, round);
        crowd.rounds.fetch_add(1, Relaxed);
        round += 1;
    }
    let expected = format!(":{}\r\n", peer.count);
    peer.ask(&format!("INCRBY count{} 0", peer.number), &expected);
}

/// Clients that are ended while they are busy, one after the other: each of them finds its connection closed.
fn kill_all(server: &Server, victims: Vec<TcpStream>, crowd: &Crowd) {
    let mut killer = server.client();
    for mut victim in victims {
        send(&mut victim, b"CLIENT ID\r\n");
        let id = integer_line(&mut victim);
        std::thread::scope(|scope| {
            let mut reader = victim.try_clone().expect("the socket once more");
            scope.spawn(move || while !bytes_of_closed(&mut reader).is_empty() {});
            // As soon as it is gone nothing can be sent.
            let busy =
                scope.spawn(move || while std::io::Write::write_all(&mut victim, &b"PING\r\n".repeat(100)).is_ok() {});
            std::thread::sleep(std::time::Duration::from_millis(100));
            assert_eq!(ask_integer(&mut killer, &format!("CLIENT KILL ID {id}")), 1);
            busy.join().expect("it finds its connection closed");
        });
        assert!(!ask(&mut killer, "CLIENT LIST").contains(&format!("id={id} ")));
        crowd.kills.fetch_add(1, Relaxed);
    }
}

fn integer_line(socket: &mut TcpStream) -> i64 {
    let mut line = String::new();
    while !line.ends_with("\r\n") {
        line.push(char::from(bytes_of(socket, 1)[0]));
    }
    line[1..].trim().parse().expect("an integer")
}

/// Returns the next bytes; none when the connection is closed or reset.
fn bytes_of_closed(socket: &mut TcpStream) -> Vec<u8> {
    let mut buffer = [0; 4096];
    let read = std::io::Read::read(socket, &mut buffer).unwrap_or(0);
    buffer[..read].to_vec()
}

const ROUNDS: [Round; 7] = [pipeline, big_replies, transaction, subscription, wait, large_argument, redirected];
const EACH: usize = 2;

#[test]
fn busy_connections_of_one_worker_spread_and_nothing_is_lost() {
    const VICTIMS: usize = 4;
    let server = Server::start_with_threads(WORKERS, &["--maxclients", "1000"]);
    // Workers get new connections in turn: of every four the first goes to the first worker, and the others are idle.
    let sockets: Vec<TcpStream> = (0..WORKERS * (ROUNDS.len() * EACH + VICTIMS))
        .map(|_| {
            let mut socket = server.socket();
            send(&mut socket, b"PING\r\n");
            expect_bytes(&mut socket, b"+PONG\r\n");
            socket
        })
        .collect();
    let (of_first, idle): (Vec<_>, Vec<_>) = sockets.into_iter().enumerate().partition(|(i, _)| i % WORKERS == 0);
    let mut of_first: Vec<TcpStream> = of_first.into_iter().map(|(_, socket)| socket).collect();
    let victims = of_first.split_off(ROUNDS.len() * EACH);
    let crowd = Crowd { stop: AtomicBool::new(false), rounds: AtomicUsize::new(0), kills: AtomicUsize::new(0) };
    let listed = |client: &mut redis::Connection| ask(client, "CLIENT LIST").matches("id=").count();
    let before = worker_ticks(&server);
    std::thread::scope(|scope| {
        for (number, socket) in of_first.into_iter().enumerate() {
            let (server, crowd) = (&server, &crowd);
            scope.spawn(move || be_busy(Peer { server, socket, number, count: 0 }, crowd));
        }
        scope.spawn(|| kill_all(&server, victims, &crowd));
        let spread = eventually(|| {
            let taken = worker_ticks(&server).into_iter().zip(&before).map(|(now, before)| now - before);
            taken.min() >= Some(20) && crowd.kills.load(Relaxed) == VICTIMS
        });
        crowd.stop.store(true, Relaxed);
        assert!(spread, "{before:?} became {:?} in {} rounds", worker_ticks(&server), crowd.rounds.load(Relaxed));
    });
    idle.iter().for_each(|(_, socket)| socket.shutdown(Shutdown::Both).expect("an open connection"));
    let mut client = server.client();
    assert!(eventually(|| listed(&mut client) == 1), "{}", ask(&mut client, "CLIENT LIST"));
    drop(client);
    assert!(server.stop().success());
}

#[test]
fn workers_come_and_go_and_nothing_is_lost() {
    let server = Server::start_with_threads(2, &["--maxclients", "1000"]);
    let crowd = Crowd { stop: AtomicBool::new(false), rounds: AtomicUsize::new(0), kills: AtomicUsize::new(0) };
    let mut client = server.client();
    // One client listens all the time, and idle ones send nothing until the end.
    let mut listener = server.socket();
    send(&mut listener, b"SUBSCRIBE all\r\n");
    expect_bytes(&mut listener, b"*3\r\n$9\r\nsubscribe\r\n$3\r\nall\r\n:1\r\n");
    let mut idle: Vec<TcpStream> = (0..100).map(|_| server.socket()).collect();
    std::thread::scope(|scope| {
        for number in 0..ROUNDS.len() * EACH {
            let (server, crowd) = (&server, &crowd);
            scope.spawn(move || be_busy(Peer { server, socket: server.socket(), number, count: 0 }, crowd));
        }
        let _ends = Ends(&crowd);
        for (at, workers) in [4, 1, 3, 5, 2, 1, 17, 1, 4, 3, 1, 2].into_iter().enumerate() {
            assert_eq!(ask(&mut client, &format!("CONFIG SET io-threads {workers}")), "OK");
            assert!(ask(&mut client, "INFO server").contains(&format!("worker_threads:{workers}\\r")));
            let before = crowd.rounds.load(Relaxed);
            let goes_on = eventually(|| crowd.rounds.load(Relaxed) >= before + 2 * ROUNDS.len() * EACH);
            assert!(goes_on, "it stands still with {workers} workers");
            assert_eq!(ask_integer(&mut client, &format!("PUBLISH all {at:02}")), 1);
            expect_bytes(&mut listener, format!("*3\r\n$7\r\nmessage\r\n$3\r\nall\r\n$2\r\n{at:02}\r\n").as_bytes());
        }
    });
    for socket in &mut idle {
        send(socket, b"PING\r\n");
        expect_bytes(socket, b"+PONG\r\n");
    }
    send(&mut listener, b"UNSUBSCRIBE all\r\n");
    expect_bytes(&mut listener, b"*3\r\n$11\r\nunsubscribe\r\n$3\r\nall\r\n:0\r\n");
    assert_eq!(ask(&mut client, "CONFIG SET threads 1"), "OK");
    assert!(eventually(|| worker_ticks(&server).len() == 1), "{:?}", worker_ticks(&server));
    // Clients that disconnect leave no trace in counters of clients.
    drop((idle, listener));
    assert!(eventually(|| ask(&mut client, "CLIENT LIST").matches("id=").count() == 1));
    // Keys expire in the background of the workers that are there.
    let keys = ask_integer(&mut client, "DBSIZE");
    for workers in [3, 1, 2] {
        assert_eq!(ask(&mut client, &format!("CONFIG SET threads {workers}")), "OK");
        let requests: String = (0..500).map(|i| format!("SET short{i} x PX 1\r\n")).collect();
        let mut socket = server.socket();
        send(&mut socket, requests.as_bytes());
        expect_bytes(&mut socket, "+OK\r\n".repeat(500).as_bytes());
        assert!(eventually(|| ask_integer(&mut client, "DBSIZE") == keys));
    }
    drop(client);
    assert!(server.stop().success());
}

#[test]
fn waiting_and_tracking_clients_move_to_workers_that_stay() {
    const WAITING: usize = 20;
    let server = Server::start_with_threads(5, &[]);
    let mut client = server.client();
    let mut waiting: Vec<TcpStream> = (0..WAITING).map(|_| server.socket()).collect();
    for (number, socket) in waiting.iter_mut().enumerate() {
        send(socket, format!("PING\r\nBLPOP wait{number:02} 0\r\n").as_bytes());
        expect_bytes(socket, b"+PONG\r\n");
    }
    let mut trackers: Vec<TcpStream> = (0..WAITING).map(|_| server.socket()).collect();
    for socket in &mut trackers {
        send(socket, b"HELLO 3\r\nCLIENT TRACKING ON\r\nGET tracked\r\nECHO end-of-hello\r\n");
        let mut hello = Vec::new();
        while !hello.ends_with(b"$12\r\nend-of-hello\r\n") {
            hello.extend(bytes_of(socket, 1));
        }
    }
    assert!(eventually(|| ask(&mut client, "INFO clients").contains(&format!("blocked_clients:{WAITING}\\r"))));
    // These give up by themselves.
    let mut impatient: Vec<TcpStream> = (0..WAITING).map(|_| server.socket()).collect();
    impatient.iter_mut().for_each(|socket| send(socket, b"BLPOP never 2\r\n"));
    for workers in [1, 4, 2, 1] {
        assert_eq!(ask(&mut client, &format!("CONFIG SET io-threads {workers}")), "OK");
        assert!(eventually(|| worker_ticks(&server).len() == workers), "{:?}", worker_ticks(&server));
        assert_eq!(ask(&mut client, &format!("SET tracked {workers}")), "OK");
        for socket in &mut trackers {
            expect_bytes(socket, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$7\r\ntracked\r\n");
            send(socket, b"GET tracked\r\n");
            expect_bytes(socket, format!("$1\r\n{workers}\r\n").as_bytes());
        }
    }
    for (number, mut socket) in waiting.into_iter().enumerate() {
        assert_eq!(ask_integer(&mut client, &format!("RPUSH wait{number:02} x")), 1);
        expect_bytes(&mut socket, format!("*2\r\n$6\r\nwait{number:02}\r\n$1\r\nx\r\n").as_bytes());
        send(&mut socket, b"PING\r\n");
        expect_bytes(&mut socket, b"+PONG\r\n");
    }
    impatient.iter_mut().for_each(|socket| expect_bytes(socket, b"*-1\r\n"));
    assert!(eventually(|| ask(&mut client, "INFO clients").contains("blocked_clients:0\\r")));
}

#[test]
fn a_client_that_connects_is_answered_while_a_worker_is_held() {
    // One call of a library's function, which can neither be interrupted nor be divided into steps.
    const HELD: &str = "EVAL \"return string.find(string.rep('a', 5000), '.-.-.-.-.-b')\" 0\r\n";
    let server = Server::start_with_threads(WORKERS, &[]);
    let mut held = server.socket();
    send(&mut held, b"CLIENT ID\r\n");
    let id = integer_line(&mut held);
    send(&mut held, HELD.as_bytes());
    assert!(eventually(|| worker_ticks(&server).into_iter().max() >= Some(10)), "the script runs");
    let mut clients: Vec<redis::Connection> = (0..3 * WORKERS).map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(ask(client, "PING"), "PONG");
        assert!(ask(client, "INFO").contains("connected_clients:"));
        assert!(ask(client, "ROLE").contains("master"));
        assert_eq!(ask(client, "SET key value"), "OK");
        assert!(ask(client, "CLIENT LIST").contains(&format!("id={id} ")));
    }
    assert!(ask(&mut clients[0], "SCRIPT KILL").starts_with("-NOTBUSY"), "it has not come to where it could be ended");
    assert_eq!(ask_integer(&mut clients[1], &format!("CLIENT KILL ID {id}")), 1);
    assert!(!ask(&mut clients[2], "CLIENT LIST").contains(&format!("id={id} ")));
}

#[test]
fn a_script_does_not_keep_other_scripts_from_running() {
    let server = Server::start_with_threads(WORKERS, &["--busy-reply-threshold", "0"]);
    let mut sockets: Vec<TcpStream> = (0..3 * WORKERS).map(|_| server.socket()).collect();
    for socket in &mut sockets {
        send(socket, b"SET own x\r\nWATCH own\r\n");
        expect_bytes(socket, b"+OK\r\n+OK\r\n");
    }
    send(&mut sockets[0], b"UNWATCH\r\nEVAL \"while true do end\" 0\r\n");
    expect_bytes(&mut sockets[0], b"+OK\r\n");
    for round in 0..3 {
        for (number, socket) in sockets.iter_mut().enumerate().skip(1) {
            let request = format!("EVAL \"return redis.call('incr', KEYS[1])\" 1 count{number}\r\nPING\r\n");
            send(socket, request.as_bytes());
            expect_bytes(socket, format!(":{}\r\n+PONG\r\n", round + 1).as_bytes());
        }
    }
}
