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
//! INFO is a table: sections with their fields ([`field`]), each with its name, the function that reads it from a
//! [`info_source`], and its metric. INFO's text, the metrics and the page read the table.
//!
//! Fields have the names and the order that Valkey gives them. Fields for parts that this server has no equivalent of
//! (child processes, io threads), or no feature for yet, are in one table, [`crate::server::info::absent`]; cluster
//! links have a section only with clusters. The parts about commands are in `command_stats.rs`; for `key_sizes.rs` all
//! keys are iterated over, so that only the section's own name shows it.
//!
//! In: the counters of the engine and of the process. Out: text, or values by name. Nothing is counted here.

pub mod absent;
mod clients_section;
mod cluster_section;
pub mod command_stats;
pub mod field;
mod info_source;
pub mod key_sizes;
pub mod meanings;
mod memory_section;
mod persistence_section;
mod replication_section;
mod server_section;
mod stats_section;

use crate::core::args::Args;
use crate::core::command::{Command, Group, LOADING, STALE};
use crate::core::context::{Blocking, Context, Flow, Resumable};
use crate::replication::stream_catch_up::StreamCatchUp;
pub use crate::server::info::field::human_bytes;
use crate::server::info::field::{Field, Metric, Put, Read, Value, many, write_line};
use crate::server::info::info_source::Source;
use crate::server::info::key_sizes::KeySizes;
use crate::server::worker_barrier::Others;
use engine::keyspace::keyspace_sums::Overview;
use engine::time::UnixUs;
use engine::{Engine, Error};

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

/// A section: its title, its fields, and which of the numbers it reads that have to be gathered before.
struct Section {
    title: &'static str,
    fields: &'static [Field],
    /// Whether it reads the numbers of the keyspace.
    keyspace: bool,
}

const fn section(title: &'static str, fields: &'static [Field]) -> Section {
    Section { title, fields, keyspace: false }
}

/// Makes a section that reads the numbers of the keyspace.
const fn of_keyspace(title: &'static str, fields: &'static [Field]) -> Section {
    Section { title, fields, keyspace: true }
}

const SECTIONS: &[Section] = &[
    section("Server", server_section::SERVER),
    section("TLS", clients_section::TLS),
    of_keyspace("Clients", clients_section::CLIENTS),
    of_keyspace(MEMORY, memory_section::MEMORY),
    of_keyspace("Persistence", persistence_section::PERSISTENCE),
    of_keyspace("Stats", stats_section::STATS),
    section(REPLICATION, replication_section::REPLICATION),
    section("CPU", clients_section::CPU),
    section(MODULES, cluster_section::MODULES),
    section("Commandstats", &[many("cmdstat_", command_stats::command_stats)]),
    section("Errorstats", &[many("errorstat_", command_stats::error_stats)]),
    section("Latencystats", &[many("latency_percentiles_usec_", command_stats::latency_stats)]),
    section("Cluster", cluster_section::CLUSTER),
    section(CLUSTER_INFO, cluster_section::CLUSTER_INFO),
    section(ENGINES, memory_section::ENGINES),
    of_keyspace("Keyspace", &[many("db", keyspace)]),
    section(KEY_SIZES, &[]),
    section("Debug", stats_section::DEBUG),
];

/// Names that stand for all sections.
const ALL: [&str; 2] = ["all", "everything"];
/// Sections that have to be asked for, and sections that only their own name shows.
const EXTRA: [&str; 7] = ["TLS", "Commandstats", "Latencystats", CLUSTER_INFO, ENGINES, "Debug", KEY_SIZES];
const HIDDEN: [&str; 2] = ["Debug", KEY_SIZES];
const REPLICATION: &str = "Replication";
const MEMORY: &str = "Memory";
const MODULES: &str = "Modules";
/// Sections about commands and keys, which threads that run no command have no part in or read elsewhere.
const OF_COMMANDS: [&str; 5] = [MODULES, "Commandstats", "Errorstats", "Latencystats", KEY_SIZES];
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

impl Resumable for Info {
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

/// Returns the text of the sections that are to be shown.
pub(crate) fn text_of(cx: &mut Context<'_>, shows: impl Fn(&str) -> bool, key_sizes: String) -> String {
    let shown: Vec<&Section> = SECTIONS.iter().filter(|section| shows(section.title)).collect();
    let mut source = Source::new(cx.engine, cx.now.unix_us);
    source.key_sizes = key_sizes;
    if shown.iter().any(|section| section.title == MEMORY) {
        // Memory is measured before this command itself needs any.
        source.memory();
    }
    if shown.iter().any(|section| section.keyspace) {
        source.set_overview(Overview::of(&mut cx.keys));
    }
    let mut text = String::with_capacity(if shown.len() > 1 { TEXT_ROOM } else { 0 });
    for section in shown {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        text.push_str("# ");
        text.push_str(section.title);
        text.push_str("\r\n");
        for field in section.fields {
            field.each(&source, &mut |name, value| write_line(&mut text, name, &value));
        }
        if section.title == KEY_SIZES {
            text.push_str(&source.key_sizes);
        }
    }
    text
}

/// Bytes that INFO's text takes up without sections that have to be asked for.
const TEXT_ROOM: usize = 8 << 10;

/// A field with its value, and with its metric if it is one.
pub struct ShownField {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Value,
    /// Its metric.
    pub metric: Option<&'static Metric>,
}

/// Returns the fields about the server, for a thread that runs no command and has its own view of the keyspace. The
/// parts about commands are left out. No lock is taken that a command may hold for long.
pub fn server_fields(engine: &Engine, now_us: UnixUs) -> Vec<ShownField> {
    let source = Source::new(engine, now_us);
    source.memory();
    source.set_overview(Overview::without_waiting(engine, now_us.ms()));
    let mut shown = Vec::new();
    for field in SECTIONS.iter().filter(|section| !OF_COMMANDS.contains(&section.title)).flat_map(|it| it.fields) {
        field.each(&source, &mut |name, value| {
            let metric = field.metric.as_ref().or_else(|| cluster_section::metric(name));
            shown.push(ShownField { name: name.to_owned(), value, metric });
        });
    }
    shown
}

/// Returns the metric of a field.
pub fn metric(name: &str) -> Option<&'static Metric> {
    let fields = SECTIONS.iter().flat_map(|section| section.fields);
    let found = fields.filter(|field| !matches!(field.read, Read::Many(_))).find(|field| field.name == name);
    found.and_then(|field| field.metric.as_ref()).or_else(|| cluster_section::metric(name))
}

/// `db0:keys=2,expires=1,avg_ttl=1000,keys_with_volatile_items=0`
fn keyspace(s: &Source<'_>, put: Put<'_>) {
    for (index, db) in &s.overview().dbs {
        let keys = db.keys.saturating_sub(s.engine.hidden_len(*index));
        if keys > 0 {
            put(
                &format!("db{index}"),
                Value::Parts(vec![
                    ("keys", keys.into()),
                    ("expires", db.expires.into()),
                    ("avg_ttl", db.mean_ttl.into()),
                    ("keys_with_volatile_items", db.volatile.into()),
                ]),
            );
        }
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
        assert!(SECTIONS.iter().all(|it| all.contains(&format!("# {}\r\n", it.title)) != EXTRA.contains(&it.title)));
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
    fn constants_come_from_the_table_of_absent_features() {
        let all = Client::new().run("INFO ALL");
        for (name, value, _) in absent::FIELDS.iter().filter(|(name, ..)| !["loading_rdb_used_mem"].contains(name)) {
            assert!(all.contains(&format!("\r\n{name}:{value}\r\n")), "{name} is not shown");
        }
        let fields = || SECTIONS.iter().flat_map(|section| section.fields);
        for field in fields().filter(|field| matches!(field.read, Read::Absent)) {
            assert!(absent::FIELDS.iter().any(|(name, ..)| *name == field.name), "{} has no constant", field.name);
        }
    }

    #[test]
    fn fields_and_metrics_have_names_of_their_own() {
        let mut client = Client::new();
        let shown = server_fields(client.engine(), UnixUs(1_000_000));
        let all = client.run("INFO ALL") + &client.run("INFO debug");
        for field in &shown {
            assert!(all.contains(&format!("{}:", field.name)), "{} is not in INFO", field.name);
        }
        let metrics: Vec<&str> = shown.iter().filter_map(|field| field.metric).map(|metric| metric.name).collect();
        let unique: std::collections::BTreeSet<&str> = metrics.iter().copied().collect();
        assert_eq!(unique.len(), metrics.len());
        assert!(shown.iter().all(|field| field.metric.is_none() || field.value.number().is_some()));
    }

    #[test]
    fn a_section_gathers_only_its_own_numbers() {
        let mut client = Client::new();
        client.is("SET k v", "+OK");
        let alone = |title: &str, client: &mut Client| client.run(&format!("INFO {title}"));
        let all = client.run("INFO everything");
        for Section { title, .. } in SECTIONS.iter().filter(|section| section.title != KEY_SIZES) {
            let word = title.replace("Cluster Info", "cluster_info").replace(' ', "");
            let section = alone(&word, &mut client);
            assert!(section.starts_with(&format!("# {title}\r\n")), "{section}");
            let names =
                |text: &str| text.lines().map(|line| line.split(':').next().unwrap_or(line).to_owned()).collect();
            let (names, known): (Vec<String>, Vec<String>) = (names(&section), names(&all));
            let is_own = |name: &String| HIDDEN.contains(title) || known.contains(name) || name.ends_with("_info");
            assert!(names.iter().all(is_own), "{names:?}");
        }
    }
}
