//! Messages, events and monitors' lines, from any worker to any other.

use crate::dialogue::{ask, ask_integer, dialogue};
use crate::harness::{Server, bytes_of, eventually, expect_bytes, is_peer, on_each_thread_count, send};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;

/// A socket that has sent this and got its answer.
fn after(server: &Server, request: &[u8], answer: &[u8]) -> TcpStream {
    let mut socket = server.socket();
    send(&mut socket, request);
    expect_bytes(&mut socket, answer);
    socket
}

#[test]
fn every_subscriber_gets_each_publishers_messages_in_order() {
    const SUBSCRIBERS: usize = 12;
    const PUBLISHERS: usize = 3;
    const MESSAGES: usize = 300;
    on_each_thread_count(&[], |server| {
        let subscribe = || after(server, b"SUBSCRIBE news\r\n", b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
        let subscribers: Vec<TcpStream> = (0..SUBSCRIBERS).map(|_| subscribe()).collect();
        std::thread::scope(|scope| {
            for publisher in 0..PUBLISHERS {
                scope.spawn(move || {
                    let mut client = server.client();
                    for batch in (0..MESSAGES).collect::<Vec<_>>().chunks(20) {
                        let mut pipeline = redis::pipe();
                        for number in batch {
                            pipeline.cmd("PUBLISH").arg("news").arg(format!("{publisher}:{number}"));
                        }
                        let receivers: Vec<usize> = pipeline.query(&mut client).expect("counts");
                        assert!(receivers.iter().all(|count| *count == SUBSCRIBERS));
                    }
                });
            }
            for socket in subscribers {
                scope.spawn(move || {
                    let mut next = [0; PUBLISHERS];
                    let mut lines = BufReader::new(socket).lines();
                    for _ in 0..PUBLISHERS * MESSAGES {
                        // *3 $7 message $4 news $n publisher:number
                        let line = lines.by_ref().take(7).last().expect("a message").expect("a line");
                        let (publisher, number) = line.split_once(':').expect("publisher and number");
                        let publisher: usize = publisher.parse().expect("a publisher");
                        assert_eq!(number, next[publisher].to_string());
                        next[publisher] += 1;
                    }
                });
            }
        });
    });
}

#[test]
fn a_client_that_publishes_to_itself_gets_the_reply_first() {
    on_each_thread_count(&[], |server| {
        let mut socket = server.socket();
        send(&mut socket, b"HELLO 3\r\nSUBSCRIBE me\r\nPUBLISH me 1\r\nPING\r\nUNSUBSCRIBE me\r\nPUBLISH me 2\r\n");
        let mut lines = BufReader::new(socket).lines().map(|line| line.expect("a line"));
        assert!(lines.any(|line| line == "subscribe"));
        let rest: Vec<String> = lines.take(19).collect();
        let expected = "$2 me :1 :1 >3 $7 message $2 me $1 1 +PONG >3 $11 unsubscribe $2 me :0 :0";
        assert_eq!(rest.join(" "), expected);
    });
}

#[test]
fn a_message_is_there_before_what_is_answered_after_its_publisher_has_its_reply() {
    on_each_thread_count(&[], |server| {
        let subscribe = || after(server, b"SUBSCRIBE news\r\n", b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
        let mut subscribers: Vec<TcpStream> = (0..8).map(|_| subscribe()).collect();
        let mut publisher = server.client();
        for _ in 0..50 {
            assert_eq!(ask_integer(&mut publisher, "PUBLISH news x"), 8);
            for socket in &mut subscribers {
                send(socket, b"PING\r\n");
                expect_bytes(socket, b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n");
            }
        }
    });
}

#[test]
fn a_subscription_after_a_message_does_not_get_it() {
    on_each_thread_count(&[], |server| {
        let mut socket = server.socket();
        let other = after(server, b"SUBSCRIBE me\r\n", b"*3\r\n$9\r\nsubscribe\r\n$2\r\nme\r\n:1\r\n");
        send(&mut socket, b"PUBLISH me 1\r\nPUBLISH you 2\r\nPUBLISH me 3\r\nSUBSCRIBE me\r\nPING\r\n");
        expect_bytes(
            &mut socket,
            b":1\r\n:0\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$2\r\nme\r\n:1\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n",
        );
        let mut other = other;
        expect_bytes(
            &mut other,
            b"*3\r\n$7\r\nmessage\r\n$2\r\nme\r\n$1\r\n1\r\n*3\r\n$7\r\nmessage\r\n$2\r\nme\r\n$1\r\n3\r\n",
        );
    });
}

#[test]
fn subscribers_that_do_not_read_are_disconnected_at_their_limit_and_others_get_everything() {
    on_each_thread_count(&["--client-output-buffer-limit", "pubsub 4000000 0 0"], |server| {
        let subscribe = || after(server, b"SUBSCRIBE news\r\n", b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
        let slow: Vec<TcpStream> = (0..4).map(|_| subscribe()).collect();
        let mut reader = subscribe();
        let mut client = server.client();
        let payload = vec![b'x'; 500_000];
        let message = [b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$500000\r\n", &payload[..], b"\r\n"].concat();
        assert!(crate::harness::eventually(|| {
            let told: usize = redis::cmd("PUBLISH").arg("news").arg(&payload[..]).query(&mut client).expect("a count");
            expect_bytes(&mut reader, &message);
            told == 1
        }));
        drop(slow);
    });
}

#[test]
fn a_subscriber_that_catches_up_has_all_of_the_soft_limits_time_again() {
    on_each_thread_count(&["--client-output-buffer-limit", "pubsub 0 4000000 1"], |server| {
        let mut slow = after(server, b"SUBSCRIBE news\r\n", b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
        let mut client = server.client();
        let payload = vec![b'x'; 500_000];
        let message = [b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$500000\r\n", &payload[..], b"\r\n"].concat();
        let unread = |client: &mut redis::Connection| -> usize {
            let list = ask(client, "CLIENT LIST TYPE pubsub");
            list.split(" omem=").nth(1).and_then(|rest| rest.split(' ').next()).map_or(0, |text| text.parse().unwrap())
        };
        for _ in 0..2 {
            let mut sent = 0;
            while unread(&mut client) < 5_000_000 {
                let told: usize = redis::cmd("PUBLISH").arg("news").arg(&payload[..]).query(&mut client).unwrap();
                assert_eq!(told, 1, "a subscriber was disconnected too early");
                sent += 1;
            }
            (0..sent).for_each(|_| expect_bytes(&mut slow, &message));
            // A message that is published now finds a short queue.
            assert_eq!(ask_integer(&mut client, "PUBLISH news x"), 1);
            expect_bytes(&mut slow, b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nx\r\n");
            std::thread::sleep(std::time::Duration::from_millis(1200));
        }
    });
}

#[test]
fn subscribers_that_unsubscribe_or_disconnect_are_counted_no_longer() {
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        let one = after(server, b"PSUBSCRIBE n*\r\n", b"*3\r\n$10\r\npsubscribe\r\n$2\r\nn*\r\n:1\r\n");
        let two = after(server, b"SSUBSCRIBE news\r\n", b"*3\r\n$10\r\nssubscribe\r\n$4\r\nnews\r\n:1\r\n");
        dialogue(&mut client, &[("PUBLISH news x", "1"), ("SPUBLISH news x", "1"), ("PUBSUB NUMPAT", "1")]);
        assert!(ask(&mut client, "CLIENT LIST TYPE pubsub").contains("psub=1"));
        drop((one, two));
        assert!(crate::harness::eventually(|| ask_integer(&mut client, "PUBLISH news x") == 0));
        assert!(crate::harness::eventually(|| ask_integer(&mut client, "SPUBLISH news x") == 0));
    });
}

#[test]
fn events_of_keys_are_messages() {
    on_each_thread_count(&["--notify-keyspace-events", "KEA"], |server| {
        let socket = after(server, b"PSUBSCRIBE __key*\r\n", b"*3\r\n$10\r\npsubscribe\r\n$6\r\n__key*\r\n:1\r\n");
        let mut client = server.client();
        dialogue(&mut client, &[("SET k v PX 20", "OK"), ("SELECT 2", "OK"), ("SET other v", "OK")]);
        let mut lines = BufReader::new(socket).lines().map(|line| line.expect("a line"));
        let mut message = || {
            let lines: Vec<String> = lines.by_ref().take(9).collect();
            format!("{} {}", lines[6], lines[8])
        };
        let mut seen: Vec<String> = (0..8).map(|_| message()).collect();
        // The deadline may pass before or after the write that follows.
        seen.sort();
        let mut expected = [
            "__keyspace@0__:k set",
            "__keyevent@0__:set k",
            "__keyspace@0__:k expire",
            "__keyevent@0__:expire k",
            "__keyspace@2__:other set",
            "__keyevent@2__:set other",
            "__keyspace@0__:k expired",
            "__keyevent@0__:expired k",
        ];
        expected.sort_unstable();
        assert_eq!(seen, expected);
    });
}

#[test]
fn monitors_see_each_clients_commands_in_order() {
    on_each_thread_count(&[], |server| {
        let socket = after(server, b"MONITOR\r\n", b"+OK\r\n");
        let mut clients: Vec<redis::Connection> = (0..6).map(|_| server.client()).collect();
        for round in 0..50 {
            for (number, client) in clients.iter_mut().enumerate() {
                assert_eq!(ask(client, &format!("SET {number} {round}")), "OK");
            }
        }
        let mut next = [0; 6];
        for line in BufReader::new(socket).lines() {
            let line = line.expect("a line");
            let Some((_, words)) = line.split_once("\"SET\" ") else { continue };
            let mut numbers = words.split(' ').map(|word| word.trim_matches('"').parse::<usize>().expect("a number"));
            let (client, round) = (numbers.next().expect("a client"), numbers.next().expect("a round"));
            assert_eq!(round, next[client], "{line}");
            next[client] += 1;
            if next == [50; 6] {
                break;
            }
        }
        if !is_peer() {
            // Each command that is seen is counted as well, on whichever worker it ran.
            let stats = ask(&mut clients[0], "INFO commandstats");
            assert!(stats.contains("cmdstat_set:calls=300,"), "{stats}");
        }
    });
}

/// Returns a client whose worker waits for its commands to the debugger, and serves no others.
fn debugging(server: &Server) -> TcpStream {
    let mut socket = after(server, b"SCRIPT DEBUG SYNC\r\n", b"+OK\r\n");
    send(&mut socket, b"*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n");
    expect_bytes(&mut socket, b"*2\r\n+* Stopped at 1");
    socket
}

#[test]
fn a_publisher_waits_for_a_worker_that_takes_nothing_and_no_message_is_lost() {
    const MESSAGES: usize = 600;
    const SIZE: usize = 128 << 10;
    const SUBSCRIBERS: usize = 4;
    if is_peer() {
        return;
    }
    let server = Server::start_with_threads(2, &["--client-output-buffer-limit", "pubsub 0 0 0"]);
    let subscribe = || after(&server, b"SUBSCRIBE news\r\n", b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    let subscribers: Vec<TcpStream> = (0..SUBSCRIBERS).map(|_| subscribe()).collect();
    let mut others: Vec<TcpStream> = (0..6).map(|_| server.socket()).collect();
    let mut debugger = debugging(&server);
    for socket in &mut others {
        send(socket, b"PING\r\n");
        socket.set_nonblocking(true).expect("a socket");
    }
    // Clients of the worker that still runs.
    let mut served = Vec::new();
    assert!(eventually(|| {
        let (answered, left) =
            std::mem::take(&mut others).into_iter().partition(|socket| socket.peek(&mut [0]).is_ok());
        others = left;
        served.extend::<Vec<_>>(answered);
        served.len() >= 2
    }));
    for socket in &mut served {
        socket.set_nonblocking(false).expect("a socket");
        expect_bytes(socket, b"+PONG\r\n");
    }
    let (mut observer, mut publisher) = (served.pop().expect("one"), served.pop().expect("another"));
    std::thread::scope(|scope| {
        for mut socket in subscribers {
            scope.spawn(move || {
                let head = format!("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n${SIZE}\r\n");
                for _ in 0..MESSAGES {
                    expect_bytes(&mut socket, head.as_bytes());
                    assert_eq!(bytes_of(&mut socket, SIZE + 2).len(), SIZE + 2);
                }
            });
        }
        let mut writer = publisher.try_clone().expect("a socket");
        scope.spawn(move || {
            let request = format!("*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n${SIZE}\r\n{}\r\n", "x".repeat(SIZE));
            (0..MESSAGES).for_each(|_| send(&mut writer, request.as_bytes()));
        });
        // The loop ends when nothing progresses any more.
        let (mut seen, mut same) = (0, 0);
        while same < 200 && seen < MESSAGES {
            let calls = published(&mut observer);
            same = if calls == seen && calls > 0 { same + 1 } else { 0 };
            seen = calls;
        }
        assert!(seen * SIZE < 32 << 20, "{seen} messages wait for the worker");
        send(&mut debugger, b"*1\r\n$1\r\nc\r\n");
        let reply = format!(":{SUBSCRIBERS}\r\n").repeat(MESSAGES);
        expect_bytes(&mut publisher, reply.as_bytes());
    });
    assert!(server.stop().success());
}

/// How many messages have been published.
fn published(socket: &mut TcpStream) -> usize {
    send(socket, b"INFO commandstats\r\n");
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    reader.read_line(&mut line).expect("a header");
    let len: usize = line.trim_start_matches('$').trim_end().parse().expect("a length");
    let mut text = vec![0; len + 2];
    reader.read_exact(&mut text).expect("the text");
    let text = String::from_utf8(text).expect("text");
    let calls = text.split_once("cmdstat_publish:calls=").and_then(|(_, rest)| rest.split_once(','));
    calls.map_or(0, |(calls, _)| calls.parse().expect("a number"))
}
