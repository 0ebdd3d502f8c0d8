//! What a server without replicas says of them: ROLE and WAIT.
//!
//! It is the primary of nobody, so ROLE lists none, and WAIT counts none, in time or after it.

use crate::core::args::Args;
use crate::core::command::{BLOCKING, Command, FAST, Group, LOADING, NO_SCRIPT, STALE};
use crate::core::context::Context;
use crate::server::info::absent;
use crate::transactions::blocking::Wait;
use engine::Error;

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
    cx.reply.array(3);
    cx.reply.bulk(absent::ROLE.as_bytes());
    cx.reply.int(0);
    cx.reply.array(0);
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
