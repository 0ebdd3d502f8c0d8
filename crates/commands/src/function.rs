//! FUNCTION. There is no scripting yet and hence no function: what can be asked of an empty library is answered.

use crate::args::Args;
use crate::cx::Cx;
use crate::help::help;
use crate::row::{Command, Group, LOADING, NO_SCRIPT, ROW, STALE, WRITE};
use engine::Error;

pub const COMMANDS: &[Command] = &[Command {
    name: "function",
    group: Group::Scripting,
    since: "7.0.0",
    arity: -2,
    summary: "A container for function commands.",
    complexity: "Depends on subcommand.",
    subcommands: &[
        Command {
            name: "flush",
            group: Group::Scripting,
            since: "7.0.0",
            arity: -2,
            flags: WRITE.and(NO_SCRIPT),
            syntax: "[flush-type: ASYNC | SYNC]",
            summary: "Deletes all libraries and functions.",
            complexity: "O(N) where N is the number of functions deleted",
            tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
            run: flush,
            ..ROW
        },
        Command {
            name: "help",
            group: Group::Scripting,
            since: "7.0.0",
            arity: 2,
            flags: LOADING.and(STALE),
            summary: "Returns helpful text about the different subcommands.",
            complexity: "O(1)",
            run: help,
            ..ROW
        },
    ],
    ..ROW
}];

fn flush(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if args.len() > 3 || (args.len() == 3 && !args.is(2, "sync") && !args.is(2, "async")) {
        return Err(Error::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    cx.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn an_empty_library_can_be_flushed() {
        let mut client = Client::new();
        client.is("FUNCTION FLUSH", "+OK").is("FUNCTION FLUSH async", "+OK");
        client.is("FUNCTION FLUSH x", "-ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
        client.is("FUNCTION LOAD x", "-ERR unknown subcommand 'LOAD'. Try FUNCTION HELP.");
    }
}
