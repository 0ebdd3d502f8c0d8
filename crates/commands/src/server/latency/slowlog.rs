//! SLOWLOG, the older name of the command log's slow part, and the replies of both commands.

use crate::core::args::Args;
use crate::core::command::{ADMIN, Command, Group, LOADING, STALE};
use crate::core::command_table::shown;
use crate::core::context::Context;
use crate::core::help::HELP;
use engine::stats::command_log::LogReason;
use engine::{Error, Word};

pub const COMMANDS: &[Command] = &[Command {
    name: "slowlog",
    group: Group::Server,
    since: "2.2.12",
    arity: -2,
    summary: "A container for slow log commands.",
    complexity: "Depends on subcommand.",
    subcommands: &[
        Command {
            name: "get",
            group: Group::Server,
            since: "2.2.12",
            arity: -2,
            flags: ADMIN.and(LOADING).and(STALE),
            syntax: "[count:int]",
            summary: "Returns the slow log's entries.",
            complexity: "O(N) where N is the number of entries returned",
            tips: &["request_policy:all_nodes", "nondeterministic_output"],
            history: &[("4.0.0", "Added client IP address, port and name to the reply.")],
            run: get,
            ..Command::DEFAULT
        },
        Command {
            group: Group::Server,
            since: "6.2.0",
            summary: "Shows helpful text about the different subcommands.",
            ..HELP
        },
        Command {
            name: "len",
            group: Group::Server,
            since: "2.2.12",
            arity: 2,
            flags: ADMIN.and(LOADING).and(STALE),
            summary: "Returns the number of entries in the slow log.",
            complexity: "O(1)",
            tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
            run: len,
            ..Command::DEFAULT
        },
        Command {
            name: "reset",
            group: Group::Server,
            since: "2.2.12",
            arity: 2,
            flags: ADMIN.and(LOADING).and(STALE),
            summary: "Clears all entries from the slow log.",
            complexity: "O(N) where N is the number of entries in the slowlog",
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            run: reset,
            ..Command::DEFAULT
        },
    ],
    ..Command::DEFAULT
}];
/// Entries that SLOWLOG GET returns without a number.
const DEFAULT_COUNT: usize = 10;

fn get(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let count = match args.len() {
        2 => DEFAULT_COUNT,
        3 => parse_count(args, 2)?,
        _ => {
            return Err(Error::SubcommandUse(Word::of(shown(&args[1])), "SLOWLOG"));
        }
    };
    reply_entries(cx, LogReason::Slow, count);
    Ok(())
}

/// Returns how many entries are wanted: all of them for -1.
pub(crate) fn parse_count(args: &Args<'_>, index: usize) -> Result<usize, Error> {
    match args.int(index) {
        Ok(-1) => Ok(usize::MAX),
        Ok(count @ 0..) => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        _ => Err(Error::CountBelowMinusOne),
    }
}

/// Replies entries, the newest first.
pub(crate) fn reply_entries(cx: &mut Context<'_>, reason: LogReason, count: usize) {
    let entries = cx.engine.command_log().newest(reason, count);
    cx.reply.array(entries.len());
    for entry in entries {
        cx.reply.array(6);
        cx.reply.int(entry.id as i64);
        cx.reply.int(entry.at);
        cx.reply.int(entry.value as i64);
        cx.reply.array(entry.args.len());
        entry.args.iter().for_each(|arg| cx.reply.bulk(arg));
        cx.reply.bulk(entry.addr.as_bytes());
        cx.reply.bulk(&entry.name);
    }
}

fn len(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.int(cx.engine.command_log().len(LogReason::Slow) as i64);
    Ok(())
}

fn reset(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.command_log().reset(LogReason::Slow);
    cx.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn commands_are_logged_shortened_and_without_secrets() {
        let mut client = Client::new();
        client.is("CONFIG SET slowlog-log-slower-than 0", "+OK").is("SLOWLOG RESET", "+OK").is("SLOWLOG LEN", ":1");
        client.is("CLIENT SETNAME me", "+OK").run(&format!("SET k {}", "x".repeat(130)));
        let numbers: Vec<String> = (1..=33).map(|n| n.to_string()).collect();
        client.run(&format!("DEL {}", numbers.join(" ")));
        client.run("AUTH default secret");
        let entries = client.run("SLOWLOG GET 3");
        let long = format!("[SET k {}... (2 more bytes)]", "x".repeat(128));
        let many = format!("[DEL {} ... (3 more arguments)]", numbers[..30].join(" "));
        let expected = [
            "[:6 :1700000000 :0 [AUTH (redacted) (redacted)]  me]".to_owned(),
            format!("[:5 :1700000000 :0 {many}  me]"),
            format!("[:4 :1700000000 :0 {long}  me]"),
        ];
        assert_eq!(entries, format!("[{}]", expected.join(" ")));
        client.is("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1");
        let wrong = "-ERR unknown subcommand or wrong number of arguments for 'Get'. Try SLOWLOG HELP.";
        client.is("SLOWLOG Get 1 2", wrong);
        client.is("CONFIG SET slowlog-max-len 1", "+OK").is("PING", "+PONG").is("SLOWLOG LEN", ":1");
        client.is("CONFIG SET slowlog-max-len 0", "+OK").is("SLOWLOG RESET", "+OK").is("SLOWLOG GET", "[]");
    }
}
