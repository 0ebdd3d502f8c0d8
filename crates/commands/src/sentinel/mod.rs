//! The commands of a Sentinel.
//!
//! In: requests of clients and of other Sentinels. Out: requests to the one state machine of the process, behind
//! [`SentinelHandle`]; its thread is not known here. Most commands that a Sentinel has are a server's ([`shares`]); it
//! does not know the others of a server.

mod subcommands;

use crate::core::acl_catalog::rule_context;
use crate::core::args::Args;
use crate::core::command::{ADMIN, Channels, Command, FAST, Group, LOADING, PUBSUB, STALE};
use crate::core::context::Context;
use crate::core::mode;
use crate::server::{acl, client, info};
use ::sentinel::{Millis, Sentinel};
use engine::{Engine, Error};
use std::sync::{Arc, LazyLock, OnceLock};

/// The handle by which commands query the Sentinel of the process.
pub trait SentinelHandle: Send + Sync {
    /// Gives `visit` the Sentinel and the time; the effects are carried out after that.
    fn visit(&self, visit: &mut dyn FnMut(&mut Sentinel, Millis));
}

static HANDLE: OnceLock<Arc<dyn SentinelHandle>> = OnceLock::new();

/// Sets the Sentinel of the commands; once, before the first of them.
pub fn install(handle: Arc<dyn SentinelHandle>) {
    // The first Sentinel stays.
    let _ = HANDLE.set(handle);
}

/// Commands of a server that a Sentinel has, too.
const SHARED: [&str; 8] =
    ["auth", "command", "hello", "ping", "psubscribe", "punsubscribe", "subscribe", "unsubscribe"];

/// Sections of INFO that a Sentinel has, too.
const OF_THE_PROCESS: [&str; 4] = ["Server", "Clients", "Stats", "CPU"];

/// Commands of a server that a Sentinel has unless it is within one: it ends with the server, and has the server's
/// users.
const SHARED_ALONE: [&str; 2] = ["acl", "shutdown"];

/// Returns whether a Sentinel has this command of a server as it is.
pub(crate) fn shares(command: &Command) -> bool {
    SHARED.contains(&command.name) || SHARED_ALONE.contains(&command.name) && !mode::is_sentinel_within()
}

/// Commands that only a Sentinel has.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "info",
        group: Group::Server,
        arity: -1,
        flags: LOADING.and(STALE),
        categories: &["dangerous"],
        syntax: "[section]...",
        summary: "Returns information and statistics about the server.",
        complexity: "O(1)",
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        history: &[("7.0.0", "Added support for taking multiple section arguments.")],
        takes_no_lock: true,
        run: tell,
        ..Command::DEFAULT
    },
    Command {
        name: "publish",
        group: Group::PubSub,
        since: "2.0.0",
        arity: 3,
        flags: PUBSUB.and(LOADING).and(STALE).and(FAST),
        channels: Channels::One,
        syntax: "channel message",
        summary: "Posts a message to a channel.",
        complexity: "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of subscribed patterns (by any client).",
        takes_no_lock: true,
        run: publish,
        ..Command::DEFAULT
    },
    Command {
        name: "role",
        group: Group::Server,
        since: "2.8.12",
        arity: 1,
        flags: LOADING.and(STALE).and(FAST),
        categories: &["admin", "dangerous"],
        summary: "Returns the replication role.",
        complexity: "O(1)",
        takes_no_lock: true,
        run: role,
        ..Command::DEFAULT
    },
    Command {
        name: "sentinel",
        group: Group::Sentinel,
        since: "2.8.4",
        arity: -2,
        flags: ADMIN,
        summary: "A container for Sentinel commands.",
        complexity: "Depends on subcommand.",
        subcommands: subcommands::SUBCOMMANDS,
        ..Command::DEFAULT
    },
];

/// Returns the commands of a server of which a Sentinel has some subcommands: CLIENT without keys and versions of the
/// data, and, within a server, ACL without changes of users.
pub(crate) fn shared_in_part() -> impl Iterator<Item = &'static Command> {
    static CLIENT: LazyLock<Command> =
        LazyLock::new(|| without(client::COMMANDS, &["acknowledge", "capa", "import-source", "no-touch", "strike"]));
    static ACL: LazyLock<Command> = LazyLock::new(|| without(acl::COMMANDS, &["deluser", "load", "save", "setuser"]));
    let acl: Option<&'static Command> = mode::is_sentinel_within().then(|| &*ACL);
    std::iter::once(&*CLIENT).chain(acl)
}

fn without(commands: &'static [Command], lacking: &[&str]) -> Command {
    let [all] = commands else { return Command::DEFAULT };
    let subcommands = all.subcommands.iter().filter(|sub| !lacking.contains(&sub.name));
    let subcommands: Vec<Command> = subcommands.map(|sub| Command { ..*sub }).collect();
    Command { subcommands: subcommands.leak(), ..*all }
}

/// Gives the Sentinel within a server that server's present users. One caller at a time.
pub fn follow_users(server: &Engine, sentinel: &Engine) {
    let users = mode::run_as(false, || server.users().all(rule_context(server)));
    mode::run_as(true, || {
        let context = rule_context(sentinel);
        let users = users.iter().map(|user| user.translated(context.catalog)).collect();
        acl::follow(sentinel, sentinel.users().replace_all(users, context), None);
    });
}

fn ask(cx: &mut Context<'_>, mut question: impl FnMut(&mut Sentinel, &mut Context<'_>, Millis)) -> Result<(), Error> {
    let Some(handle) = HANDLE.get() else {
        return Err(Error::Loading);
    };
    handle.visit(&mut |sentinel, now| question(sentinel, cx, now));
    Ok(())
}

fn run(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if mode::is_sentinel_within() && args[1].eq_ignore_ascii_case(b"simulate-failure") {
        cx.reply.error("ERR a Sentinel within a server ends with the server: it has no failure of its own to simulate");
        return Ok(());
    }
    ask(cx, |sentinel, cx, now| {
        let words: Vec<&[u8]> = args.from(1).collect();
        sentinel.command(&words, cx.reply, now);
    })
}

fn publish(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    ask(cx, |sentinel, cx, now| sentinel.publish(&args[1], &args[2], cx.reply, now))
}

fn role(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    ask(cx, |sentinel, cx, _| {
        let names = sentinel.primary_names();
        cx.reply.array(2);
        cx.reply.bulk(b"sentinel");
        cx.reply.array(names.len());
        names.iter().for_each(|name| cx.reply.bulk(name.as_bytes()));
    })
}

fn tell(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let sections: Vec<Vec<u8>> = args.from(1).map(<[u8]>::to_vec).collect();
    let shows = |name: &str| info::is_shown(&sections, name);
    let mut text = info::text_of(cx, |name| OF_THE_PROCESS.contains(&name) && shows(name), String::new());
    let is_told = shows("Sentinel");
    ask(cx, |sentinel, cx, now| {
        if is_told {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            text.push_str(&sentinel.info(now));
        }
        cx.reply.bulk(text.as_bytes());
    })
}

/// Saves the Sentinel's state in the configuration file.
///
/// # Errors
/// The reason why the file cannot be written.
pub fn save(engine: &Engine, lines: Vec<::sentinel::ConfigLine>) -> Result<(), String> {
    let lines: Vec<_> = lines.into_iter().map(|line| (line.option, line.line, line.needed)).collect();
    let state = engine::config::SentinelState {
        lines: &lines,
        rewritten: &::sentinel::REWRITTEN,
        alone: mode::is_sentinel_within(),
    };
    crate::server::config::write_sentinel(engine, state)
        .map_err(|error| error.text().map_or_else(String::new, |text| String::from_utf8_lossy(&text).into_owned()))
}
