//! MODULE: none can be loaded. The engine of Lua counts as one, as in Valkey 9, for tools that look for modules.

use crate::core::admission;
use crate::core::args::Args;
use crate::core::command::{ADMIN, Command, Group, NO_ASYNC_LOADING, NO_SCRIPT, PROTECTED};
use crate::core::context::Context;
use crate::core::help::HELP;
use engine::Error;
use engine::data::value_type::{self, ModuleType};
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

/// Replies the modules, for MODULE LIST and HELLO: Lua, and those that other servers have the installed types from.
pub fn reply_modules(reply: &mut Reply) {
    let installed = modules_of_types();
    reply.array(1 + installed.len());
    reply_module(reply, "lua", 1, "lua");
    installed.iter().for_each(|module| reply_module(reply, module.module, module.module_version, ""));
}

fn reply_module(reply: &mut Reply, name: &str, version: u32, path: &str) {
    reply.map(4);
    reply.bulk(b"name");
    reply.bulk(name.as_bytes());
    reply.bulk(b"ver");
    reply.int(version.into());
    reply.bulk(b"path");
    reply.bulk(path.as_bytes());
    reply.bulk(b"args");
    reply.array(0);
}

/// Returns a type of each module that the installed types come from.
fn modules_of_types() -> Vec<&'static ModuleType> {
    let mut found: Vec<&ModuleType> = Vec::new();
    for module in value_type::installed().iter().filter_map(|installed| installed.module.as_ref()) {
        if found.iter().all(|other| other.module != module.module) {
            found.push(module);
        }
    }
    found
}

/// The modules as a field of INFO.
pub const AS_FIELD: &str =
    "name=lua,ver=1,api=1,filters=0,usedby=[],using=[],options=[handle-repl-async-load|handle-atomic-slot-migration]";

/// Returns the modules of the installed types as fields of INFO.
pub fn fields_of_types() -> Vec<String> {
    let field = |of: &&ModuleType| {
        let (name, version) = (of.module, of.module_version);
        format!("name={name},ver={version},api=1,filters=0,usedby=[],using=[],options=[]")
    };
    modules_of_types().iter().map(field).collect()
}

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
    fn no_module_can_be_loaded() {
        Client::new().is("MODULE LIST", "[[name lua ver :1 path lua args []]]").is("MODULE LOAD /x", "-ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.");
        Client::new().is("MODULE LOAD", "-ERR wrong number of arguments for 'module|load' command");
    }
}
