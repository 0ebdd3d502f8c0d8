//! HELP of every command with subcommands.
//!
//! The texts of the subcommands stand in `help.txt`, word for word as clients of Valkey know them (the suite compares
//! some of it): a section for each command, headed by its name in brackets, without the lines that all of them have in
//! common.

use crate::core::args::Args;
use crate::core::command::{Command, LOADING, STALE};
use crate::core::context::Context;
use engine::Error;
use resp::Reply;

const TEXT: &str = include_str!("help.txt");

/// The entry of `<container> HELP`, but for group and version.
pub const HELP: Command = Command {
    name: "help",
    arity: 2,
    flags: LOADING.and(STALE),
    summary: "Returns helpful text about the different subcommands.",
    complexity: "O(1)",
    run: help,
    ..Command::DEFAULT
};

fn help(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    reply_help(cx.reply, &String::from_utf8_lossy(&args[0]));
    Ok(())
}

/// Replies the help of the command of this name, in whatever case.
pub fn reply_help(reply: &mut Reply, name: &str) {
    let lines: Vec<&str> = section(&name.to_lowercase()).collect();
    reply.array(lines.len() + 3);
    reply.simple(format!("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", name.to_uppercase()));
    lines.iter().for_each(|line| reply.simple(line));
    reply.simple("HELP");
    reply.simple("    Print this help.");
}

/// Returns the lines of a container's help.
pub fn section(name: &str) -> impl Iterator<Item = &'static str> {
    let heading = format!("[{name}]");
    TEXT.lines().skip_while(move |line| *line != heading).skip(1).take_while(|line| !line.starts_with('['))
}
