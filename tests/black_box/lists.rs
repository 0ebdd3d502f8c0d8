//! Lists between many clients: what waits is served once, and what is being read does not change under the reader.

use crate::dialogue::{ask, ask_integer};
use crate::harness::{on_each_thread_count, send};
use redis::Connection;
use resp::reply_value::{Decoder, Value};
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const CONSUMERS: usize = 200;
const PRODUCERS: usize = 24;
const ROUNDS: usize = 60;
const LISTS: usize = 6;

fn list(number: usize) -> String {
    format!("list:{}", number % LISTS)
}

#[test]
fn waiting_clients_get_every_element_once() {
    on_each_thread_count(&[], |server| {
        let (taken, produced) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for number in 0..CONSUMERS {
                let (taken, produced) = (&taken, &produced);
                scope.spawn(move || {
                    let mut client = server.client();
                    let mut mine = Vec::new();
                    for round in 0.. {
                        // The flag is read before the attempt: nothing arrives any more after an attempt in vain.
                        let is_last = produced.load(Ordering::SeqCst);
                        let found = consume(&mut client, number, round);
                        if found.is_none() && is_last {
                            break;
                        }
                        mine.extend(found.unwrap_or_default());
                    }
                    taken.lock().expect("no consumer panicked").extend(mine);
                });
            }
            let producers: Vec<_> = (0..PRODUCERS)
                .map(|number| {
                    scope.spawn(move || {
                        let mut client = server.client();
                        (0..ROUNDS).for_each(|round| produce(&mut client, number, round));
                    })
                })
                .collect();
            producers.into_iter().for_each(|producer| producer.join().expect("a producer"));
            produced.store(true, Ordering::SeqCst);
        });
        let mut client = server.client();
        let mut found = taken.into_inner().expect("no consumer panicked");
        let moved: Vec<String> = redis::cmd("LRANGE").arg("moved").arg(0).arg(-1).query(&mut client).expect("elements");
        found.extend(moved);
        found.sort();
        let mut expected: Vec<String> =
            (0..PRODUCERS).flat_map(|number| (0..ROUNDS).flat_map(move |round| elements(number, round))).collect();
        expected.sort();
        assert_eq!(found.len(), expected.len());
        assert_eq!(found, expected);
        assert_eq!(ask_integer(&mut client, "DBSIZE"), 1, "all lists but `moved` are empty");
        assert!(ask(&mut client, "INFO clients").contains("blocked_clients:0"));
    });
}

fn elements(number: usize, round: usize) -> Vec<String> {
    (0..1 + round % 3).map(|n| format!("{number}:{round}:{n}")).collect()
}

/// Pushes some elements to one list, or to two in a transaction.
fn produce(client: &mut Connection, number: usize, round: usize) {
    let elements = elements(number, round);
    let (first, second) = (list(number + round), list(number * 7 + round / 2));
    if round % 4 == 3 {
        let (one, other) = elements.split_at(elements.len() / 2);
        let mut pipeline = redis::pipe();
        pipeline.atomic();
        for (key, elements) in [(first, one), (second, other)] {
            if !elements.is_empty() {
                pipeline.cmd("RPUSH").arg(key).arg(elements).ignore();
            }
        }
        let () = pipeline.query(client).expect("replies");
    } else {
        let name = if round.is_multiple_of(2) { "LPUSH" } else { "RPUSH" };
        let _: i64 = redis::cmd(name).arg(first).arg(elements).query(client).expect("a length");
    }
}

/// Waits for elements for a while; None if none arrived. A consumer that moves them returns none.
fn consume(client: &mut Connection, number: usize, round: usize) -> Option<Vec<String>> {
    const SECONDS: f64 = 0.08;
    let (first, second) = (list(number + round), list(number / LISTS + 2 * round + 1));
    match number % 4 {
        0 | 1 => {
            let name = if number.is_multiple_of(4) { "BLPOP" } else { "BRPOP" };
            let mut command = redis::cmd(name);
            // The last one waits at all lists.
            let keys: Vec<String> = if number < 8 { (0..LISTS).map(list).collect() } else { vec![first, second] };
            let found: Option<(String, String)> = command.arg(keys).arg(SECONDS).query(client).expect("an element");
            found.map(|(_, element)| vec![element])
        }
        2 => {
            let mut command = redis::cmd("BLMPOP");
            command.arg(SECONDS).arg(2).arg(first).arg(second).arg("LEFT").arg("COUNT").arg(2);
            let found: Option<(String, Vec<String>)> = command.query(client).expect("elements");
            found.map(|(_, elements)| elements)
        }
        _ => {
            let mut command = redis::cmd("BLMOVE");
            command.arg(first).arg("moved").arg("RIGHT").arg("LEFT").arg(SECONDS);
            let found: Option<String> = command.query(client).expect("an element");
            found.map(|_| Vec::new())
        }
    }
}

#[test]
fn a_long_range_is_that_of_the_moment_when_it_was_asked_for() {
    const ELEMENTS: usize = 300_000;
    on_each_thread_count(&[], |server| {
        let mut client = server.client();
        let element = |n: usize| format!("element number {n} of many");
        for chunk in (0..ELEMENTS).collect::<Vec<_>>().chunks(10_000) {
            let elements: Vec<String> = chunk.iter().map(|n| element(*n)).collect();
            let _: i64 = redis::cmd("RPUSH").arg("long").arg(elements).query(&mut client).expect("a length");
        }
        let mut reader = server.socket();
        send(&mut reader, b"LRANGE long 1 -2\r\nPING\r\n");
        let mut received = vec![0; 1000];
        reader.read_exact(&mut received).expect("the first elements");
        // All other clients are served while the reader takes its time.
        assert_eq!(ask(&mut client, "LSET long 150000 changed"), "OK");
        assert_eq!(ask_integer(&mut client, "LREM long 1 changed"), 1);
        assert_eq!(ask(&mut client, "LTRIM long 1000 -1000"), "OK");
        assert_eq!(ask_integer(&mut client, "DEL long"), 1);
        assert_eq!(ask_integer(&mut client, "RPUSH long other"), 1);
        let mut buffer = vec![0; 1 << 16];
        while !received.ends_with(b"+PONG\r\n") {
            let read = reader.read(&mut buffer).expect("the rest");
            assert!(read > 0, "the connection stays");
            received.extend_from_slice(&buffer[..read]);
        }
        let (reply, _) = Decoder::new().decode(&received).expect("a valid reply").expect("a whole reply");
        let Value::Array(items) = reply else { panic!("an array") };
        assert_eq!(items.len(), ELEMENTS - 2);
        let different = items.iter().zip(1..).find(|(item, n)| **item != Value::Bulk(element(*n).into_bytes()));
        assert_eq!(different, None);
    });
}
