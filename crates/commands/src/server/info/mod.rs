//! INFO: the state of the server as text.
//!
//! ```text
//! # Clients\r\n
//! connected_clients:1\r\n
//! maxclients:10000\r\n
//! \r\n
//! # Memory\r\n
//! ```
//!
//! Fields have the names and the order that Valkey gives them. Fields for parts that this server has no equivalent of
//! (child processes, io threads), or no feature for yet, are in one table, [`crate::server::info::absent`]; cluster
//! links have a section only with clusters. The parts about commands are in `command_stats.rs`; for `key_sizes.rs` all
//! keys are iterated over, so that only the section's own name shows it.
//!
//! In: the counters of the engine and of the process. Out: text. Nothing is counted here.

pub mod absent;
pub mod command_stats;

pub mod key_sizes;
mod net_traffic;
mod persistence_section;
mod replication_section;
mod section_text;
mod server_section;
mod worker_times;

use crate::core::args::Args;
use crate::core::command::{Command, Group, LOADING, STALE};
use crate::core::command_table::CommandTable;
use crate::core::context::{Blocking, Context, Flow, Piecewise};
use crate::replication::stream_catch_up::StreamCatchUp;
use crate::server::info::key_sizes::KeySizes;
pub use crate::server::info::section_text::human as human_bytes;
use crate::server::info::section_text::{Source, Text, human};
use crate::server::memory::{Accounts, ratio};
use crate::server::module;
use crate::server::worker_barrier::Others;
use engine::acl::denial_log::Denied;
use engine::clients::pubsub::ChannelKind;
use engine::clients::registry::ClientInfo;
use engine::config::Directive;
use engine::host::connections::Certificates;
use engine::host::memory::MemoryStats;
use engine::keyspace::keyspace_stats::Overview;
use engine::stats::metrics::{self, Counter, Totals, WorkerMetrics};
use engine::status::deny_reasons::Paused;
use engine::time::UnixUs;
use engine::{Engine, Error};
use persistence::aof;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub(crate) const COMMANDS: &[Command] = &[Command {
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
    run: info,
    ..Command::DEFAULT
}];

/// Writes the fields of a section.
type Fields = fn(&mut Text, &Source<'_>);

const SECTIONS: &[(&str, Fields)] = &[
    ("Server", server_section::server),
    ("TLS", tls),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence_section::persistence),
    ("Stats", stats),
    (REPLICATION, replication_section::replication),
    ("CPU", cpu),
    ("Modules", modules),
    ("Commandstats", |text, source| command_stats::command_stats(&mut text.0, source.engine)),
    ("Errorstats", |text, source| command_stats::error_stats(&mut text.0, source.engine)),
    ("Latencystats", |text, source| command_stats::latency_stats(&mut text.0, source.engine, &source.config)),
    ("Cluster", cluster),
    (CLUSTER_INFO, |text, source| text.0.push_str(&crate::cluster::info_text(source.engine))),
    (ENGINES, scripting_engines),
    ("Keyspace", keyspace),
    (KEY_SIZES, |text, source| text.0.push_str(&source.key_sizes)),
    ("Debug", debug),
];

/// Names that stand for all sections.
const ALL: [&str; 2] = ["all", "everything"];
/// Sections that have to be asked for, and sections that only their own name shows.
const EXTRA: [&str; 7] = ["TLS", "Commandstats", "Latencystats", CLUSTER_INFO, ENGINES, "Debug", KEY_SIZES];
const HIDDEN: [&str; 2] = ["Debug", KEY_SIZES];
const REPLICATION: &str = "Replication";
const KEY_SIZES: &str = "Keysizes";
const CLUSTER_INFO: &str = "Cluster Info";
const ENGINES: &str = "Scripting Engines";

fn info(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let sections: Vec<Vec<u8>> = args.from(1).map(<[u8]>::to_vec).collect();
    let key_sizes = is_shown(&sections, KEY_SIZES).then(KeySizes::default);
    let is_monitored = cx.engine.pubsub().is_monitored() && cx.blocking == Blocking::Allowed;
    let stream = StreamCatchUp::begin(cx).filter(|_| is_shown(&sections, REPLICATION));
    if is_monitored || key_sizes.is_some() || stream.is_some() {
        let others = if is_monitored { Others::ask(cx.engine) } else { Others::none() };
        cx.flow = Flow::more(Info { sections, others, are_done: !is_monitored, stream, key_sizes });
    } else {
        write_sections(cx, &sections, String::new())?;
    }
    Ok(())
}

/// An INFO that takes time. While there are monitors, whose clients compare its numbers with the commands that they
/// see, clients' earlier requests are finished first; the stream's offset includes them, too; and all keys are iterated
/// over if their sizes are shown.
struct Info {
    sections: Vec<Vec<u8>>,
    others: Others,
    /// Whether the others are done; their messages are taken before the next step.
    are_done: bool,
    /// Stream whose offset is not known yet.
    stream: Option<StreamCatchUp>,
    /// Iteration over the keys, if there is one.
    key_sizes: Option<KeySizes>,
}

impl Info {
    /// Writes the next piece. Returns whether it was the last.
    fn piece(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        if let Some(key_sizes) = &mut self.key_sizes
            && !key_sizes.piece(&mut cx.keys)?
        {
            return Ok(false);
        }
        let key_sizes = self.key_sizes.as_ref().map(KeySizes::fields);
        write_sections(cx, &self.sections, key_sizes.unwrap_or_default())?;
        Ok(true)
    }
}

impl Piecewise for Info {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.are_done {
            self.are_done = self.others.are_done(cx.engine);
            return false;
        }
        if self.stream.as_ref().is_some_and(|stream| !stream.is_done(cx.engine)) {
            return false;
        }
        self.stream = None;
        let done = self.piece(cx);
        cx.ends(done)
    }
}

/// Returns whether these words ask for a section.
pub(crate) fn is_shown(sections: &[Vec<u8>], name: &str) -> bool {
    let by_default = !EXTRA.contains(&name);
    let asked = match name {
        CLUSTER_INFO => "cluster_info",
        ENGINES => "scriptingengines",
        name => name,
    };
    let is_named = |word: &Vec<u8>| {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        is(asked) || !HIDDEN.contains(&name) && ALL.into_iter().any(is) || by_default && is("default")
    };
    sections.is_empty() && by_default || sections.iter().any(is_named)
}

fn write_sections(cx: &mut Context<'_>, sections: &[Vec<u8>], key_sizes: String) -> Result<(), Error> {
    let text = text_of(cx, |name| is_shown(sections, name), key_sizes);
    cx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// Returns the text of the sections that are to be shown, from this source.
fn sections(source: &Source<'_>, shows: impl Fn(&str) -> bool) -> String {
    let mut text = Text::default();
    for (name, write_fields) in SECTIONS.iter().filter(|(name, _)| shows(name)) {
        text.title(name);
        write_fields(&mut text, source);
    }
    text.0
}

/// Returns the text of the sections that are to be shown.
pub(crate) fn text_of(cx: &mut Context<'_>, shows: impl Fn(&str) -> bool, key_sizes: String) -> String {
    // Memory is measured before this command itself needs any.
    let is_measured = shows("Memory");
    let memory = if is_measured { cx.engine.host().memory() } else { MemoryStats::default() };
    let overview = Overview::of(&mut cx.keys);
    let source = Source { key_sizes, ..Source::new(cx.engine, memory, overview, cx.now.unix_us) };
    sections(&source, shows)
}

/// Returns INFO's text about the server, for a thread that runs no command and has its own view of the keyspace. The
/// parts about commands are left out. No lock is taken that a command may hold for long.
pub fn server_text(engine: &Engine, overview: impl FnOnce() -> Overview, now_us: UnixUs) -> String {
    let memory = engine.host().memory();
    let left_out = ["Modules", "Commandstats", "Errorstats", "Latencystats", KEY_SIZES];
    sections(&Source::new(engine, memory, overview(), now_us), |name| !left_out.contains(&name))
}

/// The largest input and output that a client has had within the last seconds, or has.
fn largest_buffers(engine: &Engine, clients: &[Arc<ClientInfo>]) -> (u64, u64) {
    let now = engine.host().nanos();
    let recent = engine.metrics().iter().map(|worker| worker.buffer_peaks.recent(now));
    let present = clients.iter().map(|client| client.buffers.sizes());
    let present = present.map(|sizes| ((sizes.query + sizes.query_free) as u64, sizes.reply_bytes as u64));
    recent.chain(present).fold((0, 0), |most, one| (most.0.max(one.0), most.1.max(one.1)))
}

fn tls(text: &mut Text, source: &Source<'_>) {
    let Certificates { server, client, authority } = source.engine.host().certificates();
    for (name, certificate) in [("server", server), ("client", client), ("ca", authority)] {
        let left = certificate.as_ref().map_or(0, |it| (it.expires_at - source.now_us.seconds()).max(0));
        text.field(&format!("tls_{name}_cert_serial"), certificate.map_or("none".to_owned(), |it| it.serial));
        text.field(&format!("tls_{name}_cert_expires_in_seconds"), left);
    }
}

fn clients(text: &mut Text, source: &Source<'_>) {
    let mut clients = source.engine.clients().all();
    clients.retain(|client| !client.is_replica.load(Relaxed));
    text.field("connected_clients", clients.len());
    text.field("cluster_connections", crate::cluster::link_counts().0);
    text.field("maxclients", source.config.int(Directive::MAXCLIENTS));
    let (input, output) = largest_buffers(source.engine, &clients);
    text.field("client_recent_max_input_buffer", input);
    text.field("client_recent_max_output_buffer", output);
    text.field("blocked_clients", clients.iter().filter(|client| client.is_blocked()).count());
    text.field("tracking_clients", source.engine.tracking().clients());
    text.field("pubsub_clients", source.engine.pubsub().subscribers());
    let watches = |client: &ClientInfo| client.watched.load(Relaxed) > 0 && !client.is_watch_broken();
    text.field("watching_clients", clients.iter().filter(|client| watches(client)).count());
    let times_out = |client: &ClientInfo| client.ticket().is_some_and(|ticket| ticket.deadline.is_some());
    text.field("clients_in_timeout_table", clients.iter().filter(|client| times_out(client)).count());
    text.field("total_watched_keys", source.overview.total(|db| db.watched));
    text.field("total_blocking_keys", source.overview.total(|db| db.awaited));
    text.field("total_blocking_keys_on_nokey", source.overview.total(|db| db.awaited_gone));
    let (pause, now) = (source.engine.pause(), source.engine.host().steady_ms(source.now_us));
    let called = ("client_pause", pause.until().since(now).max(0));
    let held = pause.held().map(|hold| (hold.as_str(), i64::MAX - now.0));
    let (actions, (reason, left)) = match source.engine.paused() {
        Paused::Nothing => ("none", ("none", 0)),
        Paused::Writes => ("write", held.unwrap_or(called)),
        Paused::All => ("all", called),
    };
    text.field("paused_reason", reason);
    text.field("paused_actions", actions);
    text.field("paused_timeout_milliseconds", left);
}

fn memory(text: &mut Text, source: &Source<'_>) {
    let accounts = Accounts::new(source.engine, source.overview.clone(), source.memory.clone());
    let (memory, config) = (&accounts.memory, &source.config);
    text.bytes("used_memory", memory.allocated);
    text.bytes("used_memory_rss", memory.rss);
    text.bytes("used_memory_peak", memory.peak);
    text.percent("used_memory_peak_perc", ratio(memory.allocated, memory.peak));
    text.field("used_memory_overhead", accounts.overhead());
    text.field("used_memory_startup", memory.startup);
    text.field("used_memory_dataset", accounts.dataset());
    text.percent("used_memory_dataset_perc", ratio(accounts.dataset(), accounts.since_start()));
    text.field("allocator_allocated", memory.allocated);
    text.field("allocator_active", memory.active);
    text.field("allocator_resident", memory.resident);
    text.field("allocator_muzzy", memory.muzzy);
    text.bytes("total_system_memory", memory.total_system);
    scripts(text, source, &accounts);
    text.bytes("maxmemory", config.bytes(Directive::MAXMEMORY));
    text.field("maxmemory_policy", config.choice(Directive::MAXMEMORY_POLICY));
    text.compared("allocator_frag", memory.active, memory.allocated);
    text.compared("allocator_rss", memory.resident, memory.active);
    text.compared("rss_overhead", memory.rss, memory.resident);
    text.compared("mem_fragmentation", memory.rss, memory.allocated);
    // Nothing else is left out.
    text.field("mem_not_counted_for_evict", source.engine.not_counted());
    text.field("mem_replication_backlog", accounts.backlog);
    text.field("mem_total_replication_buffers", accounts.backlog + accounts.replicas + accounts.buffered);
    text.field("mem_replicas_repl_buffer", accounts.buffered);
    text.field("mem_clients_slaves", accounts.replicas);
    text.field("mem_clients_normal", accounts.clients);
    text.field("mem_cluster_links", crate::cluster::link_counts().1);
    text.field("mem_cluster_slot_import", accounts.slot_imports);
    text.field("mem_cluster_slot_export", accounts.slot_exports);
    text.field("mem_aof_buffer", accounts.log);
    text.field("mem_allocator", memory.allocator);
    text.field("mem_overhead_db_hashtable_rehashing", accounts.resizing());
    text.absent(&["active_defrag_running"]);
    text.field("lazyfree_pending_objects", memory.lazy_pending);
    text.field("lazyfreed_objects", memory.lazy_freed);
}

/// Writes the memory of scripts. An interpreter runs scripts and functions alike, and is counted once, with the
/// scripts.
fn scripts(text: &mut Text, source: &Source<'_>, accounts: &Accounts) {
    let (cached, libraries) = (source.engine.scripts().totals().0, source.engine.scripts().libraries());
    let interpreters = source.engine.scripts().interpreter_bytes() as u64;
    text.field("used_memory_lua", interpreters);
    text.field("used_memory_vm_eval", interpreters);
    text.field("used_memory_lua_human", human(interpreters));
    text.field("used_memory_scripts_eval", accounts.scripts);
    text.field("number_of_cached_scripts", cached);
    text.field("number_of_functions", libraries.iter().map(|library| library.functions.len()).sum::<usize>());
    text.field("number_of_libraries", libraries.len());
    text.absent(&["used_memory_vm_functions"]);
    text.bytes("used_memory_vm_total", interpreters);
    text.field("used_memory_functions", accounts.functions);
    text.bytes("used_memory_scripts", accounts.scripts + accounts.functions);
}

fn stats(text: &mut Text, source: &Source<'_>) {
    let engine = source.engine;
    let connections = engine.host().connections();
    let workers = engine.metrics();
    let (totals, rates, shards) = (engine.totals(), engine.rates().per_second(), &source.overview.stats);
    text.field("total_connections_received", connections.received);
    text.field("total_commands_processed", totals.commands);
    text.field("instantaneous_ops_per_sec", rates.commands);
    net_traffic::put(text, &totals, &rates);
    let syncs = &engine.replication().counts;
    text.field("rejected_connections", connections.rejected);
    text.field("sync_full", syncs.full.load(Relaxed));
    text.field("sync_partial_ok", syncs.partial_ok.load(Relaxed));
    text.field("sync_partial_err", syncs.partial_err.load(Relaxed));
    text.field("expired_keys", shards.expired);
    text.field("expired_fields", shards.expired_elements);
    // The due keys are known exactly, and nothing is left for later.
    text.absent(&[
        "expired_stale_perc",
        "expired_keys_with_volatile_items_stale_perc",
        "expired_time_cap_reached_count",
    ]);
    let background = metrics::sum(workers, |worker| &worker.background_nanos);
    text.field("expire_cycle_cpu_milliseconds", background / 1_000_000);
    text.field("evicted_keys", shards.evicted);
    text.field("evicted_clients", metrics::sum(workers, |worker| &worker.evicted_clients));
    text.field("evicted_scripts", engine.scripts().evicted());
    let (exceeded, present) = engine.memory_limit().exceeded(source.now_us.ms());
    text.field("total_eviction_exceeded_time", exceeded);
    text.field("current_eviction_exceeded_time", present);
    text.field("keyspace_hits", shards.hits);
    text.field("keyspace_misses", shards.misses);
    let pubsub = engine.pubsub();
    text.field("pubsub_channels", pubsub.count(ChannelKind::Channel));
    text.field("pubsub_patterns", pubsub.count(ChannelKind::Pattern));
    text.field("pubsubshard_channels", pubsub.count(ChannelKind::Shard));
    text.field("latest_fork_usec", engine.persistence_status().snapshot_nanos.load(Relaxed) / 1000);
    text.field("total_forks", engine.persistence_status().forks.load(Relaxed));
    text.field("migrate_cached_sockets", engine.links().len());
    let deletions = engine.mass_deletions().running();
    text.field("mass_deletions_running", deletions.count);
    text.field("mass_deletions_keys", deletions.keys);
    text.field("mass_deletions_perc", format_args!("{:.2}", deletions.percent));
    text.field("slave_expires_tracked_keys", engine.replica_keys().len());
    text.absent(&[
        "active_defrag_hits",
        "active_defrag_misses",
        "active_defrag_key_hits",
        "active_defrag_key_misses",
        "total_active_defrag_time",
        "current_active_defrag_time",
    ]);
    text.field("tracking_total_keys", source.overview.tracked_keys);
    text.field("tracking_total_items", source.overview.tracked_items);
    text.field("tracking_total_prefixes", engine.tracking().prefixes());
    text.field("unexpected_error_replies", engine.persistence_status().loading.errors.load(Relaxed));
    text.field("total_error_replies", metrics::sum(workers, |worker| &worker.error_replies));
    text.field("dump_payload_sanitizations", engine.persistence_status().sanitizations.load(Relaxed));
    text.field("total_reads_processed", metrics::sum(workers, |worker| &worker.reads));
    text.field("total_writes_processed", metrics::sum(workers, |worker| &worker.writes));
    event_loops(text, source, &totals, &rates);
}

/// Writes the work of workers between waits; the fields about io threads have another meaning.
fn event_loops(text: &mut Text, source: &Source<'_>, totals: &Totals, rates: &Totals) {
    text.absent(&[
        "io_threaded_reads_processed",
        "io_threaded_writes_processed",
        "io_threaded_freed_objects",
        "io_threaded_accept_processed",
        "io_threaded_poll_processed",
        "io_threaded_total_prefetch_batches",
        "io_threaded_total_prefetch_entries",
    ]);
    let workers = source.engine.metrics();
    let mut count = |name, counter: fn(&WorkerMetrics) -> &Counter| text.field(name, metrics::sum(workers, counter));
    count("client_query_buffer_limit_disconnections", |worker| &worker.query_limit_disconnections);
    text.field("client_output_buffer_limit_disconnections", source.engine.clients().slow_readers.load(Relaxed));
    let mut count = |name, counter: fn(&WorkerMetrics) -> &Counter| text.field(name, metrics::sum(workers, counter));
    count("reply_buffer_shrinks", |worker| &worker.reply_buffer_shrinks);
    count("reply_buffer_expands", |worker| &worker.reply_buffer_expands);
    let commands: u64 = (0..CommandTable::get().ids()).map(|id| metrics::command(workers, id).nanos).sum();
    text.field("eventloop_cycles", totals.turns);
    text.field("eventloop_duration_sum", totals.turn_nanos / 1000);
    text.field("eventloop_duration_cmd_sum", commands / 1000);
    text.field("instantaneous_eventloop_cycles_per_sec", rates.turns);
    let a_turn = rates.turn_nanos.checked_div(rates.turns).unwrap_or(0);
    text.field("instantaneous_eventloop_duration_usec", a_turn / 1000);
    let denials = &source.engine.users().log;
    text.field("acl_access_denied_auth", denials.count(Denied::Auth));
    text.field("acl_access_denied_cmd", denials.count(Denied::Command));
    text.field("acl_access_denied_key", denials.count(Denied::Key));
    text.field("acl_access_denied_channel", denials.count(Denied::Channel));
    text.field("acl_access_denied_tls_cert", denials.count(Denied::Certificate));
    text.field("acl_access_denied_db", denials.count(Denied::Database));
}

fn debug(text: &mut Text, source: &Source<'_>) {
    let workers = source.engine.metrics();
    let thread = aof::of(source.engine).map_or(0, |aof| aof.stats.thread_nanos.load(Relaxed));
    let log = metrics::sum(workers, |worker| &worker.log_nanos) + thread;
    text.field("eventloop_duration_aof_sum", log / 1000);
    text.field("eventloop_duration_cron_sum", metrics::sum(workers, |worker| &worker.background_nanos) / 1000);
    text.field("eventloop_duration_max", metrics::max(workers, |worker| &worker.longest_turn_nanos) / 1000);
    text.field("eventloop_cmd_per_cycle_max", metrics::max(workers, |worker| &worker.most_commands_a_turn));
}

fn cpu(text: &mut Text, source: &Source<'_>) {
    text.field("used_cpu_sys", format_args!("{:.6}", source.process.system.as_secs_f64()));
    text.field("used_cpu_user", format_args!("{:.6}", source.process.user.as_secs_f64()));
    text.absent(&["used_cpu_sys_children", "used_cpu_user_children"]);
    text.field("used_cpu_sys_main_thread", format_args!("{:.6}", source.process.main_system.as_secs_f64()));
    text.field("used_cpu_user_main_thread", format_args!("{:.6}", source.process.main_user.as_secs_f64()));
    for (name, seconds) in worker_times::all(source.engine) {
        text.field(&name, format_args!("{seconds:.6}"));
    }
}

fn cluster(text: &mut Text, source: &Source<'_>) {
    text.field("cluster_enabled", u8::from(source.engine.is_clustered()));
}

fn modules(text: &mut Text, _: &Source<'_>) {
    text.absent(&["module"]);
    module::fields_of_types().iter().for_each(|field| text.field("module", field));
}

/// Writes the one engine: Lua, with the interpreters of all workers.
fn scripting_engines(text: &mut Text, source: &Source<'_>) {
    let scripts = source.engine.scripts();
    let (used, overhead) = (scripts.interpreter_bytes(), size_of_val(scripts));
    text.absent(&["engines_count"]);
    text.field("engines_total_used_memory", used);
    text.field("engines_total_memory_overhead", overhead);
    let name = "name=LUA,module=lua,abi_version=4";
    text.field("engine_0", format_args!("{name},used_memory={used},memory_overhead={overhead}"));
}

fn keyspace(text: &mut Text, source: &Source<'_>) {
    for (index, db) in &source.overview.dbs {
        let keys = db.keys.saturating_sub(source.engine.hidden_len(*index));
        if keys == 0 {
            continue;
        }
        let _ = write!(
            text.0,
            "db{index}:keys={keys},expires={},avg_ttl={},keys_with_volatile_items={}\r\n",
            db.expires,
            db.mean_ttl(),
            db.volatile
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    #[test]
    fn sections_are_chosen_by_name() {
        let mut client = Client::new();
        client
            .is("SET k v", "+OK")
            .is("SET e v PX 1000", "+OK")
            .is("NOPE", "-ERR unknown command 'NOPE', with args beginning with: ");
        client.is("INFO keyspace", "# Keyspace\r\ndb0:keys=2,expires=1,avg_ttl=1000,keys_with_volatile_items=0\r\n");
        client.is("INFO nope", "").is("INFO ERRORSTATS", "# Errorstats\r\nerrorstat_ERR:count=1\r\n");
        let two = client.run("INFO keyspace CPU");
        assert!(two.starts_with("# CPU\r\n") && two.contains("\r\n\r\n# Keyspace\r\n"), "{two}");
        let all = client.run("INFO");
        assert!(SECTIONS.iter().all(|(name, _)| all.contains(&format!("# {name}\r\n")) != EXTRA.contains(name)));
        assert_eq!(client.run("INFO default nope").len(), all.len());
    }

    /// Sections and fields of INFO ALL in the order of Valkey 9.1.2, without any for commands yet.
    const FIELDS: &str = include_str!("fixtures/info.txt");

    #[test]
    fn every_field_is_there_and_in_its_place() {
        let mut client = Client::new();
        let all = client.run("INFO ALL");
        let ours: Vec<&str> = all.lines().map(|line| line.split(':').next().unwrap_or(line)).collect();
        let known: Vec<&str> = ours.iter().copied().filter(|name| FIELDS.lines().any(|line| line == *name)).collect();
        let wanted: Vec<&str> = FIELDS.lines().collect();
        assert_eq!(known, wanted);
    }

    #[test]
    fn constants_come_from_the_table_of_what_is_absent() {
        let (source, _) = include_str!("mod.rs").split_once("#[cfg(test)]").unwrap();
        let source = [source, include_str!("persistence_section.rs"), include_str!("replication_section.rs")].concat();
        let is_constant =
            |value: &str| value.starts_with(['"', '-']) || value.starts_with(|c: char| c.is_ascii_digit());
        let fields = source.match_indices("text.field(\"").map(|(at, found)| &source[at + found.len()..]);
        let constants: Vec<&str> = fields
            .filter_map(|rest| rest.split_once("\", "))
            .filter(|(_, value)| is_constant(value))
            .map(|(name, _)| name)
            .collect();
        assert!(constants.is_empty(), "put into absent.rs what {constants:?} wait for");
        let all = Client::new().run("INFO ALL");
        for (name, value, _) in absent::FIELDS.iter().filter(|(name, ..)| !["loading_rdb_used_mem"].contains(name)) {
            assert!(all.contains(&format!("\r\n{name}:{value}\r\n")), "{name} is not said");
        }
    }
}
