//! CONFIG, and the immediate effects of changed directives.
//!
//! Most directives are read from the configuration whenever they matter. The directives that the engine stores in a
//! form of its own are set there by the hooks that their entries name, after CONFIG SET and once at the start
//! ([`apply_all`]).

use crate::core::acl_catalog::rule_context;
use crate::core::admission::Settle;
use crate::core::args::Args;
use crate::core::command::{ADMIN, Command, Flags, Group, LOADING, NO_SCRIPT, STALE};
use crate::core::context::Context;
use crate::core::help::HELP;
use crate::core::tracked_reads;
use crate::persistence::{aof, save};
use crate::replication::{acknowledge, follow, min_replicas};
use crate::server::acl;
use engine::config::{
    Applied, Apply, ApplyHooks, Config, ConfigCaller, Directive, EngineHooks, NO_CONFIG_FILE, RewriteInput,
    SentinelState, SetError, directive_table, os_message, rewrite_with_sentinel as rewritten,
};
use engine::stats::command_log::LogReason;
use engine::stats::metrics::WorkerMetrics;
use engine::{Engine, Error, Word};
use std::io;
use std::sync::atomic::Ordering::Relaxed;

const COMMON: Flags = ADMIN.and(NO_SCRIPT).and(LOADING).and(STALE);

pub(crate) const COMMANDS: &[Command] = &[Command {
    name: "config",
    group: Group::Server,
    since: "2.0.0",
    arity: -2,
    summary: "A container for server configuration commands.",
    complexity: "Depends on subcommand.",
    subcommands: SUBCOMMANDS,
    ..Command::DEFAULT
}];

const SUB: Command = Command { group: Group::Server, flags: COMMON, arity: 2, complexity: "O(1)", ..Command::DEFAULT };

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "get",
        since: "2.0.0",
        arity: -3,
        syntax: "parameter...",
        summary: "Returns the effective values of configuration parameters.",
        complexity: "O(N) when N is the number of configuration parameters provided",
        history: &[("7.0.0", "Added the ability to pass multiple pattern parameters in one call")],
        takes_no_lock: true,
        run: get,
        ..SUB
    },
    Command { group: Group::Server, since: "5.0.0", ..HELP },
    Command {
        name: "resetstat",
        since: "2.0.0",
        summary: "Resets the server's statistics.",
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        run: reset_statistics,
        ..SUB
    },
    Command {
        name: "rewrite",
        since: "2.8.0",
        summary: "Persists the effective configuration to file.",
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        run: rewrite,
        ..SUB
    },
    Command {
        name: "set",
        since: "2.0.0",
        arity: -4,
        syntax: "(data: parameter value)...",
        summary: "Sets configuration parameters in-flight.",
        complexity: "O(N) when N is the number of configuration parameters provided",
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        history: &[("7.0.0", "Added the ability to set multiple parameters in one call.")],
        is_secret: is_of_unknown,
        run: set,
        ..SUB
    },
];

/// Returns whether an argument of CONFIG SET belongs to no existing directive: the name of one that holds a secret may
/// be misspelt, and a secret of several words may have lost its quotes.
fn is_of_unknown(args: &Args<'_>, index: usize) -> bool {
    let is_unknown = |at: usize| directive_table::find(&args[at]).is_none();
    index > 2 && if index.is_multiple_of(2) { is_unknown(index) } else { is_unknown(index - 1) }
}

fn get(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let patterns: Vec<&[u8]> = args.from(2).collect();
    let found = cx.engine.config().get(&patterns);
    cx.reply.map(found.len());
    for (name, value) in found {
        cx.reply.bulk(&name);
        cx.reply.bulk(&value);
    }
    Ok(())
}

fn set(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let words: Vec<&[u8]> = args.from(2).collect();
    if !words.len().is_multiple_of(2) {
        return Err(Error::Syntax);
    }
    let pairs: Vec<(&[u8], &[u8])> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let state = cx.engine.persistence_status().deny_reasons();
    let loading = state.is_loading() || state.is_async_loading();
    let caller = ConfigCaller { local: cx.session.info.is_local(), loading };
    let in_transaction = !cx.may_block();
    let epoch = cx.engine.epoch();
    match cx.engine.config().set(&pairs, caller, &Hooks { engine: cx.engine, in_transaction }) {
        Ok(()) => {
            tracked_reads::trim_afterwards(cx);
            cx.engine.host().config_changed();
            match cx.engine.epoch() == epoch {
                true => cx.reply.ok(),
                // The reply comes when no command runs any more that was admitted under the earlier settings.
                false => Settle::then_ok(cx),
            }
        }
        Err(SetError::Loading) => return Err(Error::Loading),
        Err(SetError::Unknown(name)) => {
            return Err(Error::UnknownDirective(Word::up_to_nul(&name)));
        }
        Err(SetError::Refused(text)) => return Err(Error::ConfigRefused(Word::of(text))),
    }
    Ok(())
}

/// Hooks that carry out the effects of a change.
struct Hooks<'e> {
    engine: &'e Engine,
    in_transaction: bool,
}

impl ApplyHooks for Hooks<'_> {
    fn apply(&self, changed: Directive, config: &Config) -> Applied {
        match directive_table::entry(changed).apply {
            Apply::WhenRead => Ok(()),
            Apply::Engine(hook) | Apply::EngineChange(hook) => {
                hook(&Change { engine: self.engine, config, in_transaction: self.in_transaction })
            }
            Apply::Server(hook) => self.engine.host().apply(hook, config),
        }
    }

    fn change_dir(&self, path: &[u8]) -> Result<Vec<u8>, String> {
        self.engine.host().change_dir(path).map_err(|error| os_message(&error))
    }
}

/// Puts the configuration that the engine was made with into effect.
pub fn apply_all(engine: &Engine) {
    let config = engine.config().snapshot();
    let change = Change { engine, config: &config, in_transaction: false };
    for entry in directive_table::entries() {
        if let Apply::Engine(hook) = entry.apply {
            // None of these hooks has anything to refuse.
            let _ = hook(&change);
        }
    }
}

/// A configuration that the engine is to follow.
struct Change<'c> {
    engine: &'c Engine,
    config: &'c Config,
    in_transaction: bool,
}

impl EngineHooks for Change<'_> {
    fn access_clock(&self) -> Applied {
        self.engine.set_access_by(self.config);
        Ok(())
    }

    fn eviction_policy(&self) -> Applied {
        self.access_clock()?;
        self.engine.limit_memory(self.config.bytes(Directive::MAXMEMORY));
        Ok(())
    }

    /// Sets the passwords of the default user, which retains the effect of rules otherwise.
    fn default_password(&self) -> Applied {
        let change = self
            .engine
            .users()
            .set_default_password(self.config.text(Directive::REQUIREPASS), rule_context(self.engine));
        acl::follow(self.engine, vec![change], None);
        Ok(())
    }

    fn memory_limit(&self) -> Applied {
        let limit = self.config.bytes(Directive::MAXMEMORY);
        warn_of_low_limit(self.engine, limit);
        self.engine.limit_memory(limit);
        Ok(())
    }

    fn import_mode(&self) -> Applied {
        self.engine.set_importing(self.config.flag(Directive::IMPORT_MODE));
        Ok(())
    }

    fn keyspace_events(&self) -> Applied {
        self.engine.set_event_mask(self.config.keyspace_events());
        Ok(())
    }

    /// Thresholds are in microseconds or bytes; negative ones never apply.
    fn command_log(&self) -> Applied {
        let number = |directive| self.config.int(directive);
        for (reason, threshold, max_len, unit) in COMMAND_LOGS {
            let threshold = u64::try_from(number(threshold)).ok().map(|threshold| threshold.saturating_mul(unit));
            self.engine.command_log().configure(reason, threshold, number(max_len).max(0) as usize);
        }
        self.engine.refresh_attention();
        Ok(())
    }

    fn latency_monitor(&self) -> Applied {
        self.engine.latency().set_threshold(self.config.int(Directive::LATENCY_MONITOR_THRESHOLD));
        self.engine.refresh_attention();
        Ok(())
    }

    fn latency_tracking(&self) -> Applied {
        self.engine.track_latency(self.config.flag(Directive::LATENCY_TRACKING));
        Ok(())
    }

    fn slot_stats(&self) -> Applied {
        self.engine.count_by_slot(self.config.flag(Directive::CLUSTER_SLOT_STATS_ENABLED));
        Ok(())
    }

    fn wanted_replicas(&self) -> Applied {
        min_replicas::refresh(self.engine, self.config);
        Ok(())
    }

    fn acknowledging_replicas(&self) -> Applied {
        acknowledge::configure(self.engine, self.config.int(Directive::MIN_REPLICAS_TO_ACKNOWLEDGE));
        Ok(())
    }

    fn replica_admission(&self) -> Applied {
        follow::refresh(self.engine, self.config);
        Ok(())
    }

    fn tracked_keys(&self) -> Applied {
        let max = self.config.int(Directive::TRACKING_TABLE_MAX_KEYS);
        self.engine.tracking().limit_keys(usize::try_from(max).unwrap_or(0));
        Ok(())
    }

    fn script_api(&self) -> Applied {
        self.engine.scripts().set_insecure_api(self.config.flag(Directive::LUA_ENABLE_INSECURE_API));
        Ok(())
    }

    fn encoding_limits(&self) -> Applied {
        self.engine.encoding_limits().load(self.config);
        Ok(())
    }

    fn save_failures(&self) -> Applied {
        save::refresh(self.engine, self.config);
        Ok(())
    }

    fn append_only(&self) -> Applied {
        aof::follow(self.engine, self.config, self.in_transaction)
    }

    fn append_fsync(&self) -> Applied {
        aof::set_policy(self.engine, self.config);
        Ok(())
    }

    fn append_timestamps(&self) -> Applied {
        aof::set_timestamps(self.engine, self.config);
        Ok(())
    }
}

/// The command logs: threshold, length and the nanoseconds or bytes that a threshold counts.
const COMMAND_LOGS: [(LogReason, Directive, Directive, u64); 3] = [
    (LogReason::Slow, Directive::COMMANDLOG_EXECUTION_SLOWER_THAN, Directive::COMMANDLOG_SLOW_EXECUTION_MAX_LEN, 1000),
    (
        LogReason::LargeRequest,
        Directive::COMMANDLOG_REQUEST_LARGER_THAN,
        Directive::COMMANDLOG_LARGE_REQUEST_MAX_LEN,
        1,
    ),
    (LogReason::LargeReply, Directive::COMMANDLOG_REPLY_LARGER_THAN, Directive::COMMANDLOG_LARGE_REPLY_MAX_LEN, 1),
];

/// Warns of a new limit that is exceeded already; it takes effect all the same.
fn warn_of_low_limit(engine: &Engine, limit: u64) {
    let used = engine.host().memory().allocated;
    if limit > 0 && limit < used {
        engine.host().warn(&format!(
            "WARNING: the new maxmemory value set via CONFIG SET ({limit}) is smaller than the current memory usage ({used}): \
             keys will be evicted or writes refused, as maxmemory-policy says."
        ));
    }
}

fn reset_statistics(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.keys.each_shard(|_, shard, _| shard.stats.reset())?;
    cx.engine.reset_counts();
    cx.engine.metrics().iter().for_each(WorkerMetrics::reset);
    persistence::aof::of(cx.engine).into_iter().for_each(|aof| aof.stats.thread_nanos.store(0, Relaxed));
    cx.engine.scripts().reset_evicted();
    cx.engine.replication().counts.reset();
    cx.engine.clients().slow_readers.store(0, Relaxed);
    cx.engine.host().reset_stats();
    crate::cluster::reset_counters();
    cx.engine.slot_traffic().reset(|_| true);
    cx.reply.ok();
    Ok(())
}

/// Writes the file on another thread, since the disk may be slow.
fn rewrite(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let Some(waiting) = cx.wait_elsewhere(args) else { return rewrite_file(cx, false) };
    let work = move |engine: &Engine| waiting.end(engine, write_file(engine, false).map(|()| "OK"));
    if cx.engine.host().in_background(Directive::SERVER_CPULIST, Box::new(work)).is_err() {
        cx.wait_no_more();
        return rewrite_file(cx, false);
    }
    Ok(())
}

/// Writes the file. `all`: directives with their default values too, if the file does not have them yet.
pub(crate) fn rewrite_file(cx: &mut Context<'_>, all: bool) -> Result<(), Error> {
    write_file(cx.engine, all)?;
    cx.reply.ok();
    Ok(())
}

fn write_file(engine: &Engine, all: bool) -> Result<(), Error> {
    write_file_with(engine, all, SentinelState::default())
}

/// Writes a Sentinel's state, with the configuration of its process.
///
/// # Errors
/// There is no file, or it cannot be written.
pub fn write_sentinel(engine: &Engine, sentinel: SentinelState<'_>) -> Result<(), Error> {
    write_file_with(engine, false, sentinel)
}

fn write_file_with(engine: &Engine, all: bool, sentinel: SentinelState<'_>) -> Result<(), Error> {
    let host = engine.host();
    let file = host.process().config_file;
    if file.is_empty() {
        return Err(Error::ConfigRefused(Word::of(NO_CONFIG_FILE)));
    }
    let _turn = engine.config().rewriting.lock();
    let old = match host.read_file(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        result => result,
    };
    let result = old.and_then(|old| {
        let config = engine.config().snapshot();
        let users: Vec<Vec<u8>> = acl::lines(engine).collect();
        let input = RewriteInput { old: &old, config: &config, users: &users, modules: &[], all };
        host.replace_file(&file, &rewritten(input, sentinel))
    });
    result.map_err(|error| Error::ConfigNotRewritten(Word::of(os_message(&error))))
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;
    use engine::data::event_class::EventClass;

    #[test]
    fn values_are_read_and_changed_together_or_not_at_all() {
        let mut client = Client::new();
        client.is("CONFIG SET maxmemory 100mb timeout 5", "+OK");
        client.is("CONFIG GET maxmemory timeout", "[maxmemory 104857600 timeout 5]");
        client.is(
            "CONFIG SET timeout 6 maxmemory x",
            "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value",
        );
        client.is("CONFIG GET timeout", "[timeout 5]").is("CONFIG GET nope", "[]");
        client.is("CONFIG SET no\0thing x", "-ERR Unknown option or number of arguments for CONFIG SET - 'no'");
        client.is("CONFIG SET a b c", "-ERR syntax error");
        client.is("CONFIG SET a", "-ERR wrong number of arguments for 'config|set' command");
        client.is("CONFIG REWRITE", "-ERR The server is running without a config file");
    }

    #[test]
    fn the_engine_hears_of_its_directives() {
        let mut client = Client::new();
        client.is("CONFIG SET maxmemory-policy allkeys-lfu notify-keyspace-events Kx", "+OK");
        assert!(client.engine().counts_frequency());
        assert!(client.engine().wants_event(EventClass::EXPIRED) && !client.engine().wants_event(EventClass::STRING));
        client.is("CONFIG SET maxmemory-policy noeviction notify-keyspace-events \"\"", "+OK");
        assert!(!client.engine().counts_frequency() && !client.engine().wants_event(EventClass::EXPIRED));
    }

    #[test]
    fn wanted_replicas_are_missing_unless_they_may_be_silent_for_ever() {
        let mut client = Client::new();
        let wants = |client: &mut Client| client.engine().persistence_status().deny_reasons().is_short_of_replicas();
        assert!(!wants(&mut client));
        for (pair, missing) in [
            ("min-replicas-to-write 1", true),
            ("min-slaves-max-lag 0", false),
            ("min-slaves-max-lag 5", true),
            ("min-replicas-to-write 0", false),
        ] {
            client.is(&format!("CONFIG SET {pair}"), "+OK");
            assert_eq!(wants(&mut client), missing, "{pair}");
            let told = client.run("INFO replication").contains("connected_slaves:0\r\nmin_slaves_good_slaves:0\r\n");
            assert_eq!(told, missing, "{pair}");
        }
    }

    #[test]
    fn statistics_begin_anew() {
        let mut client = Client::new();
        client.is("NOPE", "-ERR unknown command 'NOPE', with args beginning with: ").is("GET k", "nil");
        client.is("AUTH nobody x", "-WRONGPASS invalid username-password pair or user is disabled.");
        let saves = client.engine().persistence_status();
        [&saves.count, &saves.forks, &saves.snapshot_nanos]
            .iter()
            .for_each(|number| number.store(7000, std::sync::atomic::Ordering::Relaxed));
        client.is("CONFIG RESETSTAT", "+OK");
        assert_eq!(client.engine().stats().misses, 0);
        let info = client.run("INFO everything");
        for line in ["rdb_saves:0", "total_forks:0", "latest_fork_usec:0", "acl_access_denied_auth:1"] {
            assert!(info.contains(&format!("\r\n{line}\r\n")), "{line}");
        }
        client.is("INFO errorstats", "# Errorstats\r\n");
    }
}
