//! ROLE: whom the server follows, or who follows it.

use crate::core::args::Args;
use crate::core::command::{BLOCKING, Command, FAST, Group, LOADING, NO_SCRIPT, STALE};
use crate::core::context::Context;
use crate::transactions::blocking::Wait;
use engine::Error;
use engine::status::replication_status::LinkState;
use std::sync::atomic::Ordering::Relaxed;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "role",
        group: Group::Server,
        since: "2.8.12",
        arity: 1,
        flags: NO_SCRIPT.and(LOADING).and(STALE).and(FAST),
        categories: &["admin", "dangerous"],
        summary: "Returns the replication role.",
        complexity: "O(1)",
        run: role,
        ..Command::DEFAULT
    },
    Command {
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
    },
];

fn role(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let status = cx.engine.replication();
    if let Some(primary) = status.primary() {
        let link = status.link();
        cx.reply.array(5);
        cx.reply.bulk(b"slave");
        cx.reply.bulk(&primary.host);
        cx.reply.int(primary.port.into());
        cx.reply.bulk(link.state.as_str().as_bytes());
        cx.reply.int(if link.state == LinkState::Connected { status.offset() as i64 } else { -1 });
        return Ok(());
    }
    let replicas: Vec<_> = status.replicas().into_iter().filter(|replica| replica.is_online()).collect();
    cx.reply.array(3);
    cx.reply.bulk(b"master");
    cx.reply.int(status.offset() as i64);
    cx.reply.array(replicas.len());
    for replica in replicas {
        cx.reply.array(3);
        cx.reply.bulk(replica.ip.as_bytes());
        cx.reply.bulk(replica.port.to_string().as_bytes());
        cx.reply.bulk(replica.acked.load(Relaxed).to_string().as_bytes());
    }
    Ok(())
}

fn wait(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let wanted = args.int(1)?;
    let deadline = cx.deadline_ms(&args[2])?;
    if wanted <= 0 || !cx.may_block() {
        cx.reply.int(0);
        return Ok(());
    }
    cx.wait(args, [], Wait { timed_out: Some(b":0\r\n"), ..Wait::until(deadline) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn there_is_nobody_to_wait_for() {
        let mut client = Client::new();
        client.is("ROLE", "[master :0 []]").is("WAIT 0 0", ":0").is("WAIT -1 5", ":0");
        client.is("WAIT x 0", "-ERR value is not an integer or out of range");
        client.is("WAIT 0 x", "-ERR timeout is not an integer or out of range");
        client.is("WAIT 0 -1", "-ERR timeout is negative");
        client.is("MULTI", "+OK").is("WAIT 1 0", "+QUEUED").is("EXEC", "[:0]");
    }
}
