//! WAIT: until replicas have the client's writes.

use crate::blocking::{TimedOut, Wait};
use crate::core::args::Args;
use crate::core::command::{BLOCKING, Command, Group};
use crate::core::context::{Context, Flow};
use engine::host::threads::Server;
use engine::status::replication_status::{AckedEnd, ReplicaWait};
use engine::{Engine, Error, Word};
use persistence::aof;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Commands of this file.
pub const COMMANDS: &[Command] = &[Command {
    name: "wait",
    group: Group::Generic,
    since: "3.0.0",
    arity: 3,
    categories: &["connection"],
    flags: BLOCKING,
    syntax: "numreplicas:int timeout:int",
    summary: "Blocks until the asynchronous replication of all preceding write commands sent by the connection is completed.",
    complexity: "O(1)",
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    run: wait,
    ..Command::DEFAULT
}];

fn wait(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if cx.engine.replication().is_replica() {
        let text = "ERR WAIT cannot be used with replica instances. Please also note that if a replica is configured \
                    to be writable (which is not the default) writes to replicas are just local and are not propagated.";
        return Err(Error::Verbatim(Word::of(text.as_bytes())));
    }
    let wanted = args.int(1)?;
    let deadline = cx.deadline_ms(&args[2])?;
    let (status, offset) = (cx.engine.replication(), cx.session.appended_to());
    let acked = status.count_acked(offset, false);
    if acked as i64 >= wanted || !cx.may_block() {
        cx.reply.int(acked as i64);
        return Ok(());
    }
    let count = Arc::new(AtomicI64::new(acked as i64));
    let timed_out = Some(TimedOut::Replicas(Arc::clone(&count)));
    cx.wait(args, [], Wait { timed_out, ..Wait::until(deadline) });
    if let Flow::Wait(ticket) = &cx.flow {
        let replicas = usize::try_from(wanted).unwrap_or(usize::MAX);
        status.add_wait(ReplicaWait {
            offset,
            replicas,
            durable: None,
            acked: count,
            end: AckedEnd::Reply,
            ticket: Arc::clone(ticket),
        });
        cx.engine.host().ask_replicas();
    }
    Ok(())
}

/// Ends the waits that are satisfied, after replicas have acknowledged more.
pub fn end_waits(engine: &Engine) {
    let status = engine.replication();
    if !status.has_waits() {
        return;
    }
    let has_ended = |wait: &mut ReplicaWait| {
        let acked = status.count_acked(wait.offset, wait.durable.is_some());
        wait.acked.store(acked as i64, Relaxed);
        acked >= wait.replicas && (wait.durable != Some(true) || is_durable(engine, wait.offset))
    };
    for wait in status.take_waits(has_ended) {
        if wait.end == AckedEnd::RunAgain {
            let (worker, ticket) = (wait.ticket.client.worker.load(Relaxed), wait.ticket);
            let again = move |engine: &Engine, server: Server| engine.serve_one(&ticket, server);
            engine.host().on_worker(worker, Box::new(again));
        } else if wait.ticket.finish() {
            let acked = wait.acked.load(Relaxed);
            let reply = match wait.durable {
                Some(_) => format!("*2\r\n:{}\r\n:{acked}\r\n", i32::from(is_durable(engine, wait.offset))),
                None => format!(":{acked}\r\n"),
            };
            engine.host().deliver(&wait.ticket, reply.into_bytes());
        }
    }
}

/// Whether the server's own log has this on the disk.
fn is_durable(engine: &Engine, offset: u64) -> bool {
    aof::of(engine).is_some_and(|aof| aof.state() == aof::State::On && aof.journal.synced() >= offset)
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn a_client_waits_for_the_end_of_a_key_that_its_command_found_to_be_over() {
        let mut writer = Client::new();
        let _log = writer.log();
        let mut reader = writer.beside();
        for line in ["GET k", "TYPE k", "DEL k", "LPUSHX k v", "SCAN 0 COUNT 1000", "RANDOMKEY", "EVAL_RO 1 1 k"] {
            writer.is("SET k v PX 5", "+OK");
            reader.later(6);
            let before = writer.engine().change_log().appended();
            let reply = match line.starts_with("EVAL_RO") {
                true => reader.run_words(&["EVAL_RO", "return redis.call('GET', KEYS[1])", "1", "k"]),
                false => reader.run(line),
            };
            let after = writer.engine().change_log().appended();
            assert!(after > before, "{line}: {reply}");
            assert_eq!(reader.session().appended_to(), after, "{line}");
            let last = writer.session().appended_to();
            assert!(last <= before, "it is not for the one who comes after it: {last}");
            writer.is("GET k", "nil");
            assert_eq!(writer.session().appended_to(), last, "{line}");
            writer.later(6);
        }
    }

    #[test]
    fn there_is_nobody_to_wait_for() {
        let mut client = Client::new();
        client.is("WAIT 0 0", ":0").is("WAIT -1 5", ":0");
        client.is("WAIT x 0", "-ERR value is not an integer or out of range");
        client.is("WAIT 0 x", "-ERR timeout is not an integer or out of range");
        client.is("WAIT 0 -1", "-ERR timeout is negative");
        client.is("MULTI", "+OK").is("WAIT 1 0", "+QUEUED").is("EXEC", "[:0]");
    }
}
