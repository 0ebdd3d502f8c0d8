//! Deliberate bugs, in the test's own code: the simulator finds them.

use crate::beside::{Beside, DURABLE};
use crate::checker::{Call, Found};
use crate::disk::Faults;
use crate::machine::Setup;
use crate::operation::{End, Operation, Step, Wait};
use crate::worker::{Client, Execute, Ran, faithfully};
use crate::{Run, first, first_of};
use engine::data::event_class::EventClass;
use engine::keyspace::caller::ExecContext;
use engine::keyspace::held_locks::HeldLocks;
use engine::keyspace::keys::Keys;
use persistence::aof::journal::Policy;
use shuttle::thread;
use std::borrow::Cow;
use structures::list::List;
use structures::quicklist;

/// Returns the simulator's report of the first run that fails.
fn found(execute: Execute) -> String {
    first(0..1000, execute, Run::fault).expect("it is found").1
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

/// A script that releases its locks in the middle.
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

/// Pushes and drops the effects: no waiting client is served.
fn push_in_silence(client: &mut Client, key: &str, end: End, n: i64) -> usize {
    let engine = &client.machine.engine;
    let held = HeldLocks::keys(engine, [engine.hasher().hash(key.as_bytes())].into_iter());
    let now = client.machine.now().unix_ms();
    let mut keys = Keys::new(engine, held, client.session.db, ExecContext::client(now));
    let rules = engine.encoding_limits().list();
    let key = keys.key(key.as_bytes());
    let mut edit = keys.edit(key);
    let len = edit.with(|list: &mut List| {
        let end = if end == End::Left { quicklist::End::Head } else { quicklist::End::Tail };
        list.push(end, Cow::Owned(n.to_string().into_bytes()), &rules);
        list.len()
    });
    edit.commit(EventClass::LIST, "push");
    engine.inform_observers(&mut keys.release());
    client.note_time(now.0);
    len.expect("a list")
}

#[test]
fn a_lost_wake_up_is_found() {
    let execute: Execute = |client, operation| {
        let Operation::Alone(Step::Push(key, end, n)) = operation else { return faithfully(client, operation) };
        Ran::Replied(format!(":{}\r\n", push_in_silence(client, key, *end, *n)).into_bytes())
    };
    // The push is not in the log either.
    assert!(first(0..500, execute, |run| run.forgotten.clone()).is_some());
}

/// A client that sees another's write before that is durable.
#[test]
fn a_reader_that_waits_for_nothing_is_found() {
    // Data shown to readers is durable if the log always is, from the first command on.
    let promises = |setup: &Setup| setup.policy == Some(Policy::Always) && !setup.has_faults && !setup.switches;
    let execute: Execute = |client, operation| {
        let before = client.session.logged_at;
        match faithfully(client, operation) {
            Ran::Replied(reply) if client.session.logged_at == before => Ran::Told(reply),
            other => other,
        }
    };
    let (_, found) = first_of(0..10_000, promises, execute, Run::fault).expect("it is found");
    assert!(found.starts_with("a crash"), "{found}");
}

/// A client that gets the reply to its write before that is durable.
#[test]
fn an_offset_that_is_published_early_is_found() {
    let found = found(|client, operation| match faithfully(client, operation) {
        Ran::Replied(reply) => Ran::Told(reply),
        other => other,
    });
    assert!(found.starts_with("a crash"), "{found}");
}

/// A consumer's entries that are nowhere recorded as pending.
#[test]
fn a_delivery_that_is_not_noted_is_found() {
    found(|client, operation| {
        let Operation::Alone(step @ Step::XReadGroup(..)) = operation else { return faithfully(client, operation) };
        let mut words = step.words();
        words.insert(6, "NOACK".to_owned());
        client.run(&words)
    });
}

/// A client that waits for a stream, and is in no queue.
#[test]
fn a_reader_that_is_not_told_of_an_entry_is_found() {
    let execute: Execute = |client, operation| match operation {
        Operation::Block(Wait::XRead(..), _) => {
            let ran = faithfully(client, operation);
            if let Ran::Waits(ticket) = &ran {
                assert!(ticket.finish());
                client.machine.engine.cancel_wait(ticket);
            }
            ran
        }
        _ => faithfully(client, operation),
    };
    assert!(first(0..500, execute, |run| run.forgotten.clone()).is_some());
}

/// A disk that reports lost data as durable.
#[test]
fn a_sync_that_lies_is_found() {
    let found = found(|client, operation| {
        client.machine.set_faults(Faults { sync_fails: true, lies: true, ..Faults::default() });
        faithfully(client, operation)
    });
    assert!(found.starts_with("a crash"), "{found}");
}

/// A snapshot of two moments: of one database, and a little later of the other.
#[test]
fn a_snapshot_of_two_moments_is_found() {
    let found = found(|client, operation| {
        if let Operation::Beside(Beside::Save | Beside::SaveInBackground) = operation {
            let machine = &client.machine;
            let begin = machine.moment();
            let found = Found { model: machine.model(), time: machine.time() };
            machine.add_cut(Call::cut(begin, machine.moment(), found));
            return Ran::Replied(b"+Background saving started\r\n".to_vec());
        }
        faithfully(client, operation)
    });
    assert!(found.starts_with("no order"), "{found}");
}

/// A pause that holds no client back.
#[test]
fn a_pause_that_is_none_is_found() {
    let found = found(|client, operation| {
        let Operation::Beside(Beside::Pause(..)) = operation else { return faithfully(client, operation) };
        client.note_time(client.machine.time());
        Ran::Replied(b"+OK\r\n".to_vec())
    });
    assert!(found.contains("in a pause"), "{found}");
}

/// A client that learns of its writes' durability before they are durable.
#[test]
fn a_wait_for_the_log_that_ends_early_is_found() {
    let found = found(|client, operation| {
        let Operation::Beside(Beside::WaitAof(_)) = operation else { return faithfully(client, operation) };
        Ran::Replied(DURABLE.to_vec())
    });
    assert!(found.starts_with("a crash"), "{found}");
}
