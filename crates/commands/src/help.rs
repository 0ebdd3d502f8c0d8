//! HELP of every command with subcommands, from their rows.

use crate::args::Args;
use crate::cx::Cx;
use crate::table::Table;
use engine::Error;
use resp::Reply;

/// The handler of `<container> HELP`.
pub fn help(cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let Some(entry) = Table::get().find(&args[0]) else { return Err(Error::SYNTAX) };
    let rows = entry.command.subcommands.iter().filter(|row| row.name != "help");
    let topics: Vec<(String, &str)> = rows
        .map(|row| (format!("{} {}", row.name.to_uppercase(), row.syntax).trim_end().to_owned(), row.summary))
        .collect();
    let topics: Vec<(&str, &str)> = topics.iter().map(|(usage, text)| (usage.as_str(), *text)).collect();
    reply_help(cx.reply, entry.command.name, &topics);
    Ok(())
}

/// Usage and meaning of each subcommand, in the form that all servers give it.
pub fn reply_help(reply: &mut Reply, name: &str, topics: &[(&str, &str)]) {
    reply.array(topics.len() * 2 + 3);
    reply.simple(&format!("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", name.to_uppercase()));
    for (usage, text) in topics.iter().copied().chain([("HELP", "Print this help.")]) {
        reply.simple(usage);
        reply.simple(&format!("    {text}"));
    }
}
