//! COMMANDLOG: the last commands that took long, or had a large request or reply.

use crate::core::args::Args;
use crate::core::command::{ADMIN, Command, Group, LOADING, STALE};
use crate::core::context::Context;
use crate::core::help::HELP;
use crate::server::latency::slowlog::{parse_count, reply_entries};
use engine::Error;
use engine::stats::command_log::LogReason;

pub const COMMANDS: &[Command] = &[Command {
    name: "commandlog",
    group: Group::Server,
    since: "8.1.0",
    arity: -2,
    summary: "A container for command log commands.",
    complexity: "Depends on subcommand.",
    subcommands: &[
        Command {
            name: "get",
            group: Group::Server,
            since: "8.1.0",
            arity: 4,
            flags: ADMIN.and(LOADING).and(STALE),
            syntax: "count:int (type: SLOW | LARGE-REQUEST | LARGE-REPLY)",
            summary: "Returns the specified command log's entries.",
            complexity: "O(N) where N is the number of entries returned",
            tips: &["request_policy:all_nodes", "nondeterministic_output"],
            run: get,
            ..Command::DEFAULT
        },
        Command {
            group: Group::Server,
            since: "8.1.0",
            summary: "Shows helpful text about the different subcommands.",
            ..HELP
        },
        Command {
            name: "len",
            group: Group::Server,
            since: "8.1.0",
            arity: 3,
            flags: ADMIN.and(LOADING).and(STALE),
            syntax: "(type: SLOW | LARGE-REQUEST | LARGE-REPLY)",
            summary: "Returns the number of entries in the specified type of command log.",
            complexity: "O(1)",
            tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
            run: len,
            ..Command::DEFAULT
        },
        Command {
            name: "reset",
            group: Group::Server,
            since: "8.1.0",
            arity: 3,
            flags: ADMIN.and(LOADING).and(STALE),
            syntax: "(type: SLOW | LARGE-REQUEST | LARGE-REPLY)",
            summary: "Clears all entries from the specified type of command log.",
            complexity: "O(N) where N is the number of entries in the commandlog",
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            run: reset,
            ..Command::DEFAULT
        },
    ],
    ..Command::DEFAULT
}];
fn reason(args: &Args<'_>, index: usize) -> Result<LogReason, Error> {
    match () {
        () if args.is(index, "slow") => Ok(LogReason::Slow),
        () if args.is(index, "large-request") => Ok(LogReason::LargeRequest),
        () if args.is(index, "large-reply") => Ok(LogReason::LargeReply),
        () => Err(Error::CommandlogType),
    }
}

fn get(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let count = parse_count(args, 2)?;
    reply_entries(cx, reason(args, 3)?, count);
    Ok(())
}

fn len(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let reason = reason(args, 2)?;
    cx.reply.int(cx.engine.command_log().len(reason) as i64);
    Ok(())
}

fn reset(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.command_log().reset(reason(args, 2)?);
    cx.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn large_requests_and_replies_are_logged() {
        let mut client = Client::new();
        client.is("CONFIG SET commandlog-request-larger-than 1000 commandlog-reply-larger-than 1000", "+OK");
        client.run(&format!("SET k {}", "x".repeat(1000)));
        client.run("GET k");
        client.is("COMMANDLOG LEN slow", ":0").is("COMMANDLOG LEN large-request", ":1");
        assert_eq!(client.run("COMMANDLOG GET -1 LARGE-REPLY"), "[[:0 :1700000000 :1009 [GET k]  ]]");
        client.is("COMMANDLOG RESET large-reply", "+OK").is("COMMANDLOG LEN large-reply", ":0");
        client.is("COMMANDLOG GET x slow", "-ERR count should be greater than or equal to -1");
        client.is("COMMANDLOG LEN x", "-ERR type should be one of the following: slow, large-request, large-reply");
    }
}
