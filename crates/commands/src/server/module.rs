//! MODULE: none can be loaded. The engine of Lua counts as one, as in Valkey 9, for tools that look for modules.

use crate::core::admission;
use crate::core::args::Args;
use crate::core::command::{ADMIN, Command, Group, NO_ASYNC_LOADING, NO_SCRIPT, PROTECTED};
use crate::core::context::Context;
use crate::core::help::HELP;
use engine::Error;
use resp::Reply;

pub const COMMANDS: &[Command] = &[Command {
    name: "module",
    group: Group::Server,
    since: "4.0.0",
    arity: -2,
    summary: "A container for module commands.",
    complexity: "Depends on subcommand.",
    subcommands: &[
        Command { group: Group::Server, since: "5.0.0", ..HELP },
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
            ..Command::DEFAULT
        },
        Command {
            name: "load",
            group: Group::Server,
            since: "4.0.0",
            arity: -3,
            flags: ADMIN.and(NO_ASYNC_LOADING).and(NO_SCRIPT).and(PROTECTED),
            syntax: "path [arg]...",
            summary: "Loads a module.",
            complexity: "O(1)",
            run: load,
            ..Command::DEFAULT
        },
        Command {
            name: "loadex",
            group: Group::Server,
            since: "7.0.0",
            arity: -3,
            flags: ADMIN.and(NO_ASYNC_LOADING).and(NO_SCRIPT).and(PROTECTED),
            syntax: "path [CONFIG configs: name value]+ [ARGS args]...",
            summary: "Loads a module using extended parameters.",
            complexity: "O(1)",
            run: load,
            ..Command::DEFAULT
        },
        Command {
            name: "unload",
            group: Group::Server,
            since: "4.0.0",
            arity: 3,
            flags: ADMIN.and(NO_ASYNC_LOADING).and(NO_SCRIPT).and(PROTECTED),
            syntax: "name",
            summary: "Unloads a module.",
            complexity: "O(1)",
            run: unload,
            ..Command::DEFAULT
        },
    ],
    ..Command::DEFAULT
}];

fn list(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    reply_modules(cx.reply);
    Ok(())
}

/// Replies the modules, for MODULE LIST and HELLO.
pub fn reply_modules(reply: &mut Reply) {
    reply.array(1);
    reply.map(4);
    reply.bulk(b"name");
    reply.bulk(b"lua");
    reply.bulk(b"ver");
    reply.int(1);
    reply.bulk(b"path");
    reply.bulk(b"lua");
    reply.bulk(b"args");
    reply.array(0);
}

/// The modules as a field of INFO.
pub const AS_FIELD: &str =
    "name=lua,ver=1,api=1,filters=0,usedby=[],using=[],options=[handle-repl-async-load|handle-atomic-slot-migration]";

fn load(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    permitted(cx)?;
    Err(Error::ModuleNotLoaded)
}

fn unload(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    permitted(cx)?;
    Err(Error::NoSuchModule)
}

fn permitted(cx: &Context<'_>) -> Result<(), Error> {
    admission::permitted(cx.engine, cx.session, cx.command.name)
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn none_can_be_loaded() {
        Client::new().is("MODULE LIST", "[[name lua ver :1 path lua args []]]").is("MODULE LOAD /x", "-ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.");
        Client::new().is("MODULE LOAD", "-ERR wrong number of arguments for 'module|load' command");
    }
}
