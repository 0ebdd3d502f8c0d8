//! MODULE: there are none, which tools that look for them are told.

use crate::args::Args;
use crate::cx::Cx;
use crate::help::help;
use crate::row::{ADMIN, Command, Group, LOADING, NO_SCRIPT, ROW, STALE};
use engine::Error;

pub const COMMANDS: &[Command] = &[Command {
    name: "module",
    group: Group::Server,
    since: "4.0.0",
    arity: -2,
    summary: "A container for module commands.",
    complexity: "Depends on subcommand.",
    subcommands: &[
        Command {
            name: "help",
            group: Group::Server,
            since: "5.0.0",
            arity: 2,
            flags: LOADING.and(STALE),
            summary: "Returns helpful text about the different subcommands.",
            complexity: "O(1)",
            run: help,
            ..ROW
        },
        Command {
            name: "list",
            group: Group::Server,
            since: "4.0.0",
            arity: 2,
            flags: ADMIN.and(NO_SCRIPT),
            summary: "Returns all loaded modules.",
            complexity: "O(N) where N is the number of loaded modules.",
            tips: &["nondeterministic_output_order"],
            run: list,
            ..ROW
        },
    ],
    ..ROW
}];

fn list(cx: &mut Cx<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.array(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn none_is_loaded() {
        Client::new().is("MODULE LIST", "[]").is("MODULE LOAD /x", "-ERR unknown subcommand 'LOAD'. Try MODULE HELP.");
    }
}
