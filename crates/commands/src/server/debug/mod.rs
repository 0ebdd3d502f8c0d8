//! DEBUG: commands for test suites and the curious. It is available only if `enable-debug-command` allows it.
//!
//! Its subcommands have a table of their own here. For clients DEBUG is one command: COMMAND and INFO know it as a
//! whole, and a call with arguments that no subcommand takes is one of an unknown subcommand. In: anything that the
//! server has. Out: replies, lines of the log, and in `crashes.rs` the end of the process. Nothing else may depend on
//! this room.

pub mod cluster_switches;
pub mod crashes;
pub mod debug_values;
pub mod digest;
pub mod internals;
pub mod reload;
pub mod sample_replies;
pub mod switches;

use crate::core::admission;
use crate::core::args::Args;
use crate::core::command::{
    ADMIN, Command, Group, Handler, LOADING, NO_SCRIPT, PROTECTED, RUNS_SCRIPTS, STALE, SYSTEM,
};
use crate::core::command_table::shown;
use crate::core::context::Context;
use crate::core::help::reply_help;
use crate::server::config::rewrite_file;

use engine::{Error, Word};
use std::ops::RangeInclusive;

pub const COMMANDS: &[Command] = &[Command {
    name: "debug",
    group: Group::Server,
    arity: -2,
    // DEBUG RELOAD and LOADAOF read a log that may have scripts.
    flags: ADMIN.and(NO_SCRIPT).and(LOADING).and(STALE).and(PROTECTED).and(SYSTEM).and(RUNS_SCRIPTS),
    lazy_free: None,
    summary: "A container for debugging commands.",
    complexity: "Depends on subcommand.",
    run: debug,
    ..Command::DEFAULT
}];

/// A subcommand. Its text for HELP is in `help.txt`.
struct Subcommand {
    /// Name in lower case.
    name: &'static str,
    /// Number of its arguments, including DEBUG and its own name.
    arguments: RangeInclusive<usize>,
    run: Handler,
}

const ANY: usize = usize::MAX;

const fn sub(name: &'static str, arguments: RangeInclusive<usize>, run: Handler) -> Subcommand {
    Subcommand { name, arguments, run }
}

const SUBCOMMANDS: &[Subcommand] = &[
    sub("aof-flush-sleep", 3..=3, switches::aof_flush_sleep),
    sub("assert", 2..=ANY, crashes::assert),
    sub("change-repl-id", 2..=2, internals::change_replication_id),
    sub("client-enforce-reply-list", 3..=3, switches::client_enforce_reply_list),
    sub("client-eviction", 2..=2, internals::client_eviction),
    sub("close-cluster-link-on-packet-drop", 3..=3, cluster_switches::close_link_on_packet_drop),
    sub("clusterlink", 5..=5, cluster_switches::cluster_link),
    sub("config-rewrite-force-all", 2..=2, config_rewrite_force_all),
    sub("crash-and-recover", 2..=ANY, crashes::crash_and_recover),
    sub("delay-rdb-client-free-seconds", 3..=3, switches::delay_rdb_client_free),
    sub("digest", 2..=2, digest::digest),
    sub("digest-value", 2..=ANY, digest::digest_values),
    sub("disable-cluster-random-ping", 3..=3, cluster_switches::disable_random_ping),
    sub("disable-cluster-reconnection", 3..=3, cluster_switches::disable_reconnection),
    sub("drop-cluster-packet-filter", 3..=3, cluster_switches::drop_packet_filter),
    sub("error", 3..=3, sample_replies::error),
    sub("help", 2..=2, help),
    sub("htstats", 3..=4, internals::table_stats),
    sub("htstats-key", 3..=4, debug_values::table_of_key),
    sub("leak", 3..=3, crashes::leak),
    sub("listpack", 3..=3, debug_values::listpack),
    sub("loadaof", 2..=2, reload::load_aof),
    sub("log", 3..=3, internals::log),
    sub("mallctl", 3..=4, internals::allocator_number),
    sub("mallctl-str", 3..=3, internals::allocator_text),
    sub("object", 3..=4, debug_values::object),
    sub("oom", 2..=ANY, crashes::out_of_memory),
    sub("panic", 2..=ANY, crashes::panic),
    sub("pause-after-fork", 3..=3, switches::pause_after_fork),
    sub("pause-cron", 3..=3, switches::pause_cron),
    sub("populate", 3..=5, reload::populate),
    sub("protocol", 3..=3, sample_replies::protocol),
    sub("quicklist", 3..=4, debug_values::quicklist),
    sub("quicklist-packed-threshold", 3..=3, switches::quicklist_packed_threshold),
    sub("reload", 2..=5, reload::reload),
    sub("replicate", 3..=ANY, internals::replicate),
    sub("replybuffer", 4..=4, switches::reply_buffer),
    sub("restart", 2..=ANY, crashes::restart),
    sub("sdslen", 3..=3, debug_values::string_lengths),
    sub("segfault", 2..=ANY, crashes::segfault),
    sub("set-active-expire", 3..=3, switches::set_active_expire),
    sub("set-disable-deny-scripts", 3..=3, switches::set_disable_deny_scripts),
    sub("set-skip-checksum-validation", 3..=3, switches::set_skip_checksum_validation),
    sub("sleep", 3..=3, crashes::sleep),
    sub("slotmigration", 4..=4, cluster_switches::slot_migration),
    sub("stringmatch-len", 4..=4, internals::match_long),
    sub("stringmatch-test", 2..=2, internals::match_at_random),
    sub("structsize", 2..=2, debug_values::struct_sizes),
];

fn debug(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    admission::permitted(cx.engine, cx.session, cx.command.name)?;
    match SUBCOMMANDS.iter().find(|sub| args.is(1, sub.name)) {
        Some(sub) if sub.arguments.contains(&args.len()) => (sub.run)(cx, args),
        _ => Err(Error::SubcommandUse(Word::of(shown(&args[1])), "DEBUG")),
    }
}

fn help(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    reply_help(cx.reply, "debug");
    Ok(())
}

fn config_rewrite_force_all(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    rewrite_file(cx, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    #[test]
    fn nothing_is_answered_where_it_is_not_allowed() {
        let mut client = Client::new();
        for line in ["DEBUG SLEEP 0", "DEBUG HELP", "DEBUG nope"] {
            assert!(client.run(line).starts_with("-ERR DEBUG command not allowed."), "{line}");
        }
    }

    #[test]
    fn subcommands_stand_in_the_order_of_names() {
        assert!(SUBCOMMANDS.is_sorted_by(|a, b| a.name < b.name));
    }
}
