//! MEMORY: the use of memory.
//!
//! ```text
//! allocated = startup + clients + scripts + tables + expiries + the rest: the data set
//!             `------------------ overhead ------------------'
//! ```

use crate::core::args::Args;
use crate::core::command::{Command, Group, LOADING, READONLY, key};
use crate::core::context::Context;
use crate::core::help::HELP;
use engine::clients::registry::ClientInfo;
use engine::data::value::Value;
use engine::host::memory::MemoryStats;
use engine::keyspace::keyspace_sums::Overview;
use engine::propagation::change_log::LogKeeper;
use engine::{Engine, Error};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const SUB: Command = Command { group: Group::Server, since: "4.0.0", arity: 2, ..Command::DEFAULT };
const REPORT: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

pub const COMMANDS: &[Command] = &[Command {
    name: "memory",
    arity: -2,
    summary: "A container for memory diagnostics commands.",
    complexity: "Depends on subcommand.",
    subcommands: &[
        Command {
            name: "doctor",
            summary: "Outputs a memory problems report.",
            complexity: "O(1)",
            tips: REPORT,
            run: doctor,
            ..SUB
        },
        Command { group: Group::Server, since: "4.0.0", ..HELP },
        Command {
            name: "malloc-stats",
            flags: LOADING,
            summary: "Returns the allocator statistics.",
            complexity: "Depends on how much memory is allocated, could be slow",
            tips: REPORT,
            run: allocator_report,
            ..SUB
        },
        Command {
            name: "purge",
            flags: LOADING,
            summary: "Asks the allocator to release memory.",
            complexity: "Depends on how much memory is allocated, could be slow",
            tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
            run: purge,
            ..SUB
        },
        Command {
            name: "stats",
            summary: "Returns details about memory usage.",
            complexity: "O(1)",
            tips: REPORT,
            run: stats,
            ..SUB
        },
        Command {
            name: "usage",
            arity: -3,
            flags: READONLY,
            keys: &[key(2).ro()],
            syntax: "key [SAMPLES count:int]",
            summary: "Estimates the memory usage of a key.",
            complexity: "O(N) where N is the number of samples.",
            run: usage,
            ..SUB
        },
    ],
    ..SUB
}];

/// Elements of a collection whose size MEMORY USAGE looks at without SAMPLES.
const SAMPLES: usize = 5;

fn usage(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let mut samples = SAMPLES;
    for at in (3..args.len()).step_by(2) {
        if !args.is(at, "samples") || at + 1 == args.len() {
            return Err(Error::Syntax);
        }
        samples = usize::try_from(args.int(at + 1)?).map_err(|_| Error::Syntax)?;
    }
    // Zero stands for all elements.
    let samples = if samples == 0 { usize::MAX } else { samples };
    let key = cx.key(args, 2);
    match cx.keys.lookup_no_stats(key) {
        None => cx.reply.null(),
        Some(found) => {
            let own = found.allocated();
            let beyond = if let Value::Payload(object) = found.value() { object.memory_usage(samples) } else { 0 };
            cx.reply.int((own + beyond) as i64);
        }
    }
    Ok(())
}

/// All accounts of memory, at one moment.
pub struct Accounts {
    pub memory: MemoryStats,
    pub overview: Overview,
    /// Bytes that clients take up, but for those of the next two fields.
    pub clients: u64,
    /// Bytes of connections by which slots come.
    pub slot_imports: u64,
    /// Bytes of connections by which slots go, and of their unsent data.
    pub slot_exports: u64,
    /// Bytes of the texts of scripts.
    pub scripts: u64,
    /// Bytes of libraries of functions.
    pub functions: u64,
    /// Bytes that wait to be written to the append-only file.
    pub log: u64,
    /// Bytes of the stream for replicas that come back.
    pub backlog: u64,
    /// Further bytes that replicas have still to be sent, and bytes of the change log that become part of the stream.
    pub replicas: u64,
    /// Bytes of the primary's stream that wait for the end of its snapshot.
    pub buffered: u64,
}

impl Accounts {
    /// Gathers the accounts for a command.
    fn of(cx: &mut Context<'_>) -> Accounts {
        let memory = cx.engine.host().memory();
        Accounts::new(cx.engine, &cx.engine.clients().all(), Overview::of(&mut cx.keys), memory)
    }

    /// Adds up the accounts. `present`: all clients.
    pub fn new(engine: &Engine, present: &[Arc<ClientInfo>], overview: Overview, memory: MemoryStats) -> Accounts {
        let (mut clients, mut slot_imports, mut slot_exports) = (0, 0, 0);
        for client in present {
            let sum = match &client.migration {
                end if end.is_source.load(Relaxed) => &mut slot_imports,
                end if end.is_target.load(Relaxed) => &mut slot_exports,
                _ => &mut clients,
            };
            *sum += client.memory.load(Relaxed) as u64;
        }
        let (scripts, functions) = (engine.scripts().totals().1 as u64, engine.scripts().library_bytes() as u64);
        let (stream, buffered) = (engine.replication().backlog(), engine.replication().link().buffered);
        let kept = engine.replication().kept_for_replicas();
        let backlog = stream.memory.saturating_sub(kept);
        let log = engine.log_keeper().map_or(0, LogKeeper::waiting);
        // The file and replicas have one log.
        let replicas = kept + engine.unframed().saturating_sub(log);
        Accounts {
            memory,
            overview,
            clients,
            slot_imports,
            slot_exports,
            scripts,
            functions,
            log,
            backlog,
            replicas,
            buffered,
        }
    }

    /// Returns the bytes of the tables of all databases, without the keys.
    pub fn tables(&self) -> u64 {
        self.overview.total(|db| db.table_bytes) as u64
    }

    /// Returns the bytes of tables that are being replaced.
    pub fn resizing(&self) -> u64 {
        self.overview.total(|db| db.old_bytes) as u64
    }

    /// Returns the bytes that are not keys and values.
    pub fn overhead(&self) -> u64 {
        let stream = self.backlog + self.replicas + self.buffered;
        let others = self.scripts + self.functions + self.log + stream;
        let clients = self.clients + self.slot_imports + self.slot_exports;
        let expiries = (self.overview.total(|db| db.expiry_bytes) + self.overview.idle_bytes) as u64;
        self.memory.startup + clients + others + self.tables() + expiries
    }

    pub fn dataset(&self) -> u64 {
        self.memory.allocated.saturating_sub(self.overhead())
    }

    /// Returns the bytes that were allocated since the start.
    pub fn since_start(&self) -> u64 {
        self.memory.allocated.saturating_sub(self.memory.startup)
    }
}

/// Returns `whole / part`, or 0 if that has no meaning.
pub fn ratio(whole: u64, part: u64) -> f64 {
    if part == 0 { 0.0 } else { whole as f64 / part as f64 }
}

/// Returns how much larger one number is, which may be negative.
pub fn difference(whole: u64, part: u64) -> i64 {
    whole as i64 - part as i64
}

fn stats(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let accounts = Accounts::of(cx);
    let Accounts { memory, overview, scripts, functions, log, backlog, replicas, buffered, .. } = &accounts;
    let selected = cx.session.db;
    let keys = overview.total(|db| db.keys) as u64;
    let mut fields = Fields { cx, count: 0 };
    let mark = fields.cx.reply.begin_map();
    fields.int("peak.allocated", memory.peak);
    fields.int("total.allocated", memory.allocated);
    fields.int("startup.allocated", memory.startup);
    fields.int("replication.backlog", *backlog);
    fields.int("replicas.repl.buffer", *buffered);
    fields.int("clients.slaves", *replicas);
    fields.int("clients.normal", accounts.clients);
    fields.int("cluster.links", crate::cluster::link_counts().1);
    fields.int("cluster.slot_import", accounts.slot_imports);
    fields.int("cluster.slot_export", accounts.slot_exports);
    fields.int("aof.buffer", *log);
    fields.int("lua.caches", *scripts);
    fields.int("functions.caches", *functions);
    // The client's own database is shown, too: without keys it has no memory here, but Valkey's has some and is shown.
    for (index, db) in overview.dbs.iter().filter(|(index, db)| db.keys > 0 || **index == selected) {
        fields.name(&format!("db.{index}"));
        fields.cx.reply.map(2);
        for (name, bytes) in [("main", db.table_bytes), ("expires", db.expiry_bytes)] {
            fields.cx.reply.bulk(format!("overhead.hashtable.{name}").as_bytes());
            fields.cx.reply.int(bytes as i64);
        }
    }
    fields.int("overhead.db.hashtable.lut", accounts.tables());
    fields.int("overhead.db.hashtable.rehashing", accounts.resizing());
    fields.int("overhead.total", accounts.overhead());
    fields.int("db.dict.rehashing.count", overview.total(|db| db.resizing) as u64);
    fields.int("keys.count", keys);
    fields.int("keys.bytes-per-key", accounts.since_start().checked_div(keys).unwrap_or(0));
    fields.int("dataset.bytes", accounts.dataset());
    fields.double("dataset.percentage", 100.0 * ratio(accounts.dataset(), accounts.since_start()));
    fields.double("peak.percentage", 100.0 * ratio(memory.allocated, memory.peak));
    fields.int("allocator.allocated", memory.allocated);
    fields.int("allocator.active", memory.active);
    fields.int("allocator.resident", memory.resident);
    fields.int("allocator.muzzy", memory.muzzy);
    fields.compared(
        ["allocator-fragmentation.ratio", "allocator-fragmentation.bytes"],
        memory.active,
        memory.allocated,
    );
    fields.compared(["allocator-rss.ratio", "allocator-rss.bytes"], memory.resident, memory.active);
    fields.compared(["rss-overhead.ratio", "rss-overhead.bytes"], memory.rss, memory.resident);
    // The field of the ratio has no suffix.
    fields.compared(["fragmentation", "fragmentation.bytes"], memory.rss, memory.allocated);
    let count = fields.count;
    cx.reply.end_map(mark, count);
    Ok(())
}

/// Fields of a map, counted as they are written.
struct Fields<'c, 'e> {
    cx: &'c mut Context<'e>,
    count: usize,
}

impl Fields<'_, '_> {
    fn name(&mut self, name: &str) {
        self.count += 1;
        self.cx.reply.bulk(name.as_bytes());
    }

    fn int(&mut self, name: &str, value: u64) {
        self.name(name);
        self.cx.reply.int(value as i64);
    }

    fn double(&mut self, name: &str, value: f64) {
        self.name(name);
        self.cx.reply.double(value);
    }

    /// Writes how many times larger, and by how many bytes.
    fn compared(&mut self, [times, bytes]: [&str; 2], whole: u64, part: u64) {
        self.double(times, ratio(whole, part));
        self.name(bytes);
        self.cx.reply.int(difference(whole, part));
    }
}

fn purge(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.engine.host().purge_memory();
    cx.reply.ok();
    Ok(())
}

fn allocator_report(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    match cx.engine.host().allocator_report() {
        Some(text) => cx.reply.verbatim(b"txt", text.as_bytes()),
        None => cx.reply.bulk(b"Stats not supported for the current allocator"),
    }
    Ok(())
}

fn doctor(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    // The keyspace's own numbers say nothing about problems.
    let clients = cx.engine.clients().all();
    let accounts = Accounts::new(cx.engine, &clients, Overview::default(), cx.engine.host().memory());
    let report = diagnosis(&accounts, clients.len() as u64);
    cx.reply.verbatim(b"txt", report.as_bytes());
    Ok(())
}

/// Bytes below which ratios have no meaning.
const SMALL: u64 = 5 << 20;
/// Waste of fewer bytes is no problem whatever its ratio.
const TOLERABLE: i64 = 10 << 20;
/// Bytes a client above which their buffers are large.
const CLIENT_LARGE: u64 = 200 << 10;

/// Returns the possible problems, by the limits that Valkey's doctor has.
fn diagnosis(accounts: &Accounts, clients: u64) -> String {
    let memory = &accounts.memory;
    if memory.allocated < SMALL {
        return "There is next to nothing in memory: nothing can be said about it.\n".to_owned();
    }
    let wasted = |whole, part, limit: f64| ratio(whole, part) > limit && difference(whole, part) > TOLERABLE;
    let findings = [
        (
            ratio(memory.peak, memory.allocated) > 1.5,
            "Peak: much more memory was in use once than is now. The allocator may keep pages that the peak left behind; \
             MEMORY PURGE returns what it can.",
        ),
        (
            wasted(memory.rss, memory.allocated, 1.4),
            "Fragmentation: the process has far more memory than it has allocated (mem_fragmentation_ratio).",
        ),
        (
            wasted(memory.active, memory.allocated, 1.1),
            "Fragmentation inside of the allocator: many of its pages are partly empty (allocator_frag_ratio).",
        ),
        (
            wasted(memory.resident, memory.active, 1.1),
            "The allocator keeps many empty pages (allocator_rss_ratio): MEMORY PURGE returns them.",
        ),
        (
            wasted(memory.rss, memory.resident, 1.1),
            "The process has much memory that is not the allocator's (rss_overhead_ratio).",
        ),
        (
            accounts.clients > clients.max(1) * CLIENT_LARGE,
            "Clients' buffers are large: CLIENT LIST tells whose requests or replies pile up.",
        ),
    ];
    let found: Vec<&str> = findings.iter().filter(|(is_so, _)| *is_so).map(|(_, text)| *text).collect();
    if found.is_empty() {
        return "No problem was found with the memory of this server.\n".to_owned();
    }
    found.iter().map(|text| format!("* {text}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;

    #[test]
    fn a_key_takes_up_its_entry_and_what_that_points_to() {
        let mut client = Client::new();
        client.is("SET quux xyzzy", "+OK").is("MEMORY USAGE quux", ":32").is("MEMORY USAGE none", "nil");
        client.is(&format!("SET big {}", "x".repeat(3000)), "+OK");
        let Some(big) = client.run("MEMORY USAGE big SAMPLES 0").strip_prefix(':').map(|n| n.parse::<usize>().unwrap())
        else {
            panic!("a number")
        };
        assert!((3000..3200).contains(&big), "{big}");
        for options in ["SAMPLES", "SAMPLES -1", "SAMPLE 1", "x"] {
            client.is(&format!("MEMORY USAGE quux {options}"), "-ERR syntax error");
        }
    }

    #[test]
    fn tables_are_accounted_for_by_database() {
        let mut client = Client::new();
        let stats = client.run("MEMORY STATS");
        assert!(stats.contains("db.0 [overhead.hashtable.main :0 ") && !stats.contains("db.1"), "{stats}");
        client.is("SET a 1 PX 100000", "+OK").select(3).is("SET a 1", "+OK");
        let stats = client.run("MEMORY STATS");
        let wanted = "db.0 [overhead.hashtable.main :64 overhead.hashtable.expires :";
        assert!(stats.contains(wanted) && stats.contains("db.3 [") && stats.contains("keys.count :2"), "{stats}");
        client.is("MEMORY PURGE", "+OK").is("MEMORY MALLOC-STATS", "Stats not supported for the current allocator");
    }

    #[test]
    fn the_doctor_names_what_is_beyond_the_limits() {
        let accounts = |allocated: u64, rss: u64, clients| Accounts {
            slot_imports: 0,
            slot_exports: 0,
            scripts: 0,
            functions: 0,
            log: 0,
            backlog: 0,
            replicas: 0,
            buffered: 0,
            memory: MemoryStats {
                allocated,
                active: allocated,
                resident: allocated,
                peak: allocated,
                rss,
                ..Default::default()
            },
            overview: Overview::default(),
            clients,
        };
        assert!(diagnosis(&accounts(1 << 20, 1 << 30, 0), 1).starts_with("There is next to nothing"));
        assert!(diagnosis(&accounts(64 << 20, 65 << 20, 0), 1).starts_with("No problem"));
        let bad = diagnosis(&accounts(64 << 20, 128 << 20, 1 << 20), 1);
        assert_eq!(bad.matches("* ").count(), 3, "{bad}");
        assert!(bad.contains("mem_fragmentation_ratio") && bad.contains("Clients' buffers"));
    }
}
