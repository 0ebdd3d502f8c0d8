//! Bugs that are put in on purpose, in what the test itself does: the simulator finds them.

use crate::operation::{End, Operation, Step};
use crate::worker::{Client, Execute, Ran, faithfully};
use crate::{Run, first};
use engine::data::event_class::EventClass;
use engine::keyspace::held_locks::HeldLocks;
use engine::keyspace::keys::Keys;
use engine::keyspace::origin::Origin;
use shuttle::thread;
use std::borrow::Cow;
use structures::list::List;
use structures::quicklist;

/// What the simulator says of the first run that goes wrong.
fn found(execute: Execute) -> String {
    first(0..500, execute, Run::fault).expect("it is found").1
}

fn replied(ran: Ran) -> Vec<u8> {
    let Ran::Replied(reply) = ran else { panic!("it does not wait") };
    reply
}

/// A read and a write that depends on it, with others between them.
#[test]
fn an_unlocked_read_is_found() {
    let found = found(|client, operation| {
        let Operation::Alone(Step::Incr(key)) = operation else { return faithfully(client, operation) };
        let before = replied(client.run(&Step::Get(key).words()));
        let before = String::from_utf8_lossy(&before).lines().nth(1).map_or(0, |n| n.parse().expect("a number"));
        thread::yield_now();
        client.run(&Step::Set(key, before + 1, None).words());
        Ran::Replied(format!(":{}\r\n", before + 1).into_bytes())
    });
    assert!(found.starts_with("no order"), "{found}");
}

#[test]
fn a_torn_transaction_is_found() {
    found(|client, operation| {
        let Operation::Exec(steps) = operation else { return faithfully(client, operation) };
        let replies: Vec<_> = steps.iter().map(|step| replied(client.run(&step.words()))).collect();
        Ran::Replied([format!("*{}\r\n", steps.len()).into_bytes(), replies.concat()].concat())
    });
}

/// A script that gives up its locks in the middle.
#[test]
fn a_torn_script_is_found() {
    found(|client, operation| {
        let Operation::Script(way, declares, steps) = operation else { return faithfully(client, operation) };
        let (first, second) = steps.split_at(steps.len() / 2);
        let parts = [first, second].map(|steps| {
            let reply = replied(faithfully(client, &Operation::Script(*way, *declares, steps.to_vec())));
            reply[reply.iter().position(|byte| *byte == b'\n').expect("a line") + 1..].to_vec()
        });
        Ran::Replied([format!("*{}\r\n", steps.len()).into_bytes(), parts.concat()].concat())
    });
}

/// A push whose effects are dropped: nobody serves those who wait.
fn push_in_silence(client: &mut Client, key: &str, end: End, n: i64) -> usize {
    let engine = &client.machine.engine;
    let held = HeldLocks::keys(engine, [engine.hasher().hash(key.as_bytes())].into_iter());
    let now = client.machine.now().unix_ms();
    let mut keys = Keys::new(engine, held, client.session.db, Origin::client(now));
    let rules = engine.encoding_limits().list();
    let key = keys.key(key.as_bytes());
    let mut edit = keys.edit(key);
    let len = edit.with(|list: &mut List| {
        let end = if end == End::Left { quicklist::End::Head } else { quicklist::End::Tail };
        list.push(end, Cow::Owned(n.to_string().into_bytes()), &rules);
        list.len()
    });
    edit.commit(EventClass::LIST, "push");
    drop(keys.release());
    client.note_time(now.0);
    len.expect("a list")
}

#[test]
fn a_lost_wake_up_is_found() {
    let execute: Execute = |client, operation| {
        let Operation::Alone(Step::Push(key, end, n)) = operation else { return faithfully(client, operation) };
        Ran::Replied(format!(":{}\r\n", push_in_silence(client, key, *end, *n)).into_bytes())
    };
    // It is not in the log either.
    assert!(first(0..500, execute, |run| run.forgotten.clone()).is_some());
}

/// A client that is told of another's write before that is durable.
#[test]
fn a_reader_that_waits_for_nothing_is_found() {
    let found = found(|client, operation| match (operation, faithfully(client, operation)) {
        (Operation::Alone(Step::Get(_)), Ran::Replied(reply)) => Ran::Told(reply),
        (_, other) => other,
    });
    assert!(found.starts_with("a crash"), "{found}");
}

/// A client that is told of its write before that is durable.
#[test]
fn an_offset_that_is_published_early_is_found() {
    let found = found(|client, operation| match faithfully(client, operation) {
        Ran::Replied(reply) => Ran::Told(reply),
        other => other,
    });
    assert!(found.starts_with("a crash"), "{found}");
}
