//! The annotated configuration file and the reference pages equal the entries of directives and commands.
//!
//! They are made anew with `CINNABAR_WRITE_REFERENCE=1 cargo test -p cinnabar-commands --test reference`.
#![forbid(unsafe_code)]

use commands::core::acl_catalog::categories;
use commands::core::command::{Command, FLAG_NAMES, Group};
use commands::core::command_table::CommandTable;
use commands::server::info::meanings;
use engine::config::{
    AREAS, CommandLine, Config, ConfigFiles, DirectiveEntry, DirectiveKind, Preset, Unit, Unmet, load,
};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

#[path = "reference/packaging.rs"]
mod packaging;

#[test]
fn cinnabar_conf_is_up_to_date() {
    is_up_to_date("cinnabar.conf", &configuration_file(&[]));
}

#[test]
fn the_reference_of_directives_is_up_to_date() {
    is_up_to_date("docs/reference/directives.md", &page_of_directives());
}

#[test]
fn the_reference_of_commands_is_up_to_date() {
    is_up_to_date("docs/reference/commands.md", &page_of_commands());
}

#[test]
fn the_reference_of_info_is_up_to_date() {
    is_up_to_date("docs/reference/info.md", &page_of_info());
}

#[test]
fn the_reference_of_sentinel_is_up_to_date() {
    is_up_to_date("docs/reference/sentinel.md", &page_of_sentinel());
}

#[test]
fn cinnabar_conf_says_the_defaults() {
    let file = CommandLine { config_file: Some(b"cinnabar.conf".to_vec()), ..CommandLine::default() };
    let loaded = load(&file, &OneFile(configuration_file(&[]).into_bytes())).expect("a valid file");
    let default = Config::default();
    for entry in entries() {
        let value = |config: &Config| entry.print(config.value(entry.directive));
        assert_eq!(value(&loaded.config), value(&default), "{}", entry.name);
    }
}

/// Holds the configuration file alone.
struct OneFile(Vec<u8>);

impl ConfigFiles for OneFile {
    fn read_file(&self, _: &[u8]) -> io::Result<Vec<u8>> {
        Ok(self.0.clone())
    }

    fn read_stdin(&self) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn glob(&self, pattern: &[u8]) -> Vec<Vec<u8>> {
        vec![pattern.to_vec()]
    }

    fn change_dir(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        Ok(path.to_vec())
    }

    fn can_append(&self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn command_exists(&self, name: &[u8]) -> bool {
        commands::is_built_in(name)
    }

    fn check_user(&self, _: &[Vec<u8>], _: &[Vec<Vec<u8>>]) -> Result<(), (usize, String)> {
        Ok(())
    }
}

fn is_up_to_date(name: &str, text: &str) {
    let path = root().join(name);
    if std::env::var_os("CINNABAR_WRITE_REFERENCE").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for the page");
        fs::write(&path, text).expect("the page is written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "{name} is stale: CINNABAR_WRITE_REFERENCE=1 cargo test -p cinnabar-commands --test reference"
    );
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn entries() -> impl Iterator<Item = &'static DirectiveEntry> {
    AREAS.iter().flat_map(|(_, entries)| entries.iter())
}

fn default_of(entry: &DirectiveEntry) -> String {
    String::from_utf8(entry.print(&entry.default_value())).expect("defaults are text")
}

// ---- cinnabar.conf --------------------------------------------------------------------------------------------------

const PREAMBLE: &str = "\
# Cinnabar's configuration. Every line says what is so without it, so all of it can be left out.
#
#     cinnabar-server /path/to/cinnabar.conf --port 7000     # what follows the file's name counts more
#
# Sizes are numbers of bytes or have a unit: 1k is 1000, 1kb is 1024 bytes, and so on with m and g.
# A text with blanks stands in quotes. `include FILE` reads another file at that place.
# docs/reference/directives.md has the same as a page, with the bounds of each.
";

/// Returns the defaults, but for the directives of `changed`, which have other values and stand as settings.
fn configuration_file(changed: &[(&str, &str)]) -> String {
    let mut text = PREAMBLE.to_owned();
    for (title, entries) in AREAS {
        let mut shown = entries.iter().filter(|entry| entry.unsupported.is_none() && !entry.hidden).peekable();
        if shown.peek().is_none() {
            continue;
        }
        let _ = writeln!(text, "\n# ---- {title} ----");
        for entry in shown {
            text.push('\n');
            for line in entry.documentation {
                let _ = writeln!(text, "# {}", line.trim());
            }
            match changed.iter().find(|(name, _)| *name == entry.name) {
                Some((name, value)) => {
                    let _ = writeln!(text, "{name} {value}");
                }
                None => text.push_str(&setting(entry)),
            }
        }
    }
    text
}

/// Returns the line that sets the default, as a comment if there is none.
fn setting(entry: &DirectiveEntry) -> String {
    let default = default_of(entry);
    match default.is_empty() {
        true if is_absent(entry) => format!("# {}\n", entry.name),
        true => format!("{} \"\"\n", entry.name),
        false if !entry.takes_words() && default.contains(' ') => format!("{} \"{default}\"\n", entry.name),
        false => format!("{} {default}\n", entry.name),
    }
}

/// Returns whether an empty text means that the directive is not set.
fn is_absent(entry: &DirectiveEntry) -> bool {
    let is_text = matches!((entry.kind, entry.default), (DirectiveKind::Text, Preset::Text("")));
    is_text && !entry.keeps_empty || matches!(entry.kind, DirectiveKind::ReplicaOf)
}

// ---- directives -----------------------------------------------------------------------------------------------------

fn page_of_directives() -> String {
    let mut page = String::from(
        "# Directives\n\nMade from the entries in `crates/engine/src/config/directives/`; `cinnabar.conf` has those \
         that are supported, with their\ndefaults. CONFIG SET changes what is not marked *at the start only*. \
         A directive that is *not supported* keeps its\ndefault: other values are refused by CONFIG SET, and in a \
         file they are named in the log and kept for CONFIG REWRITE,\nunless it says that the server does not \
         start: then the error names the line.\n",
    );
    for (title, entries) in AREAS {
        let _ = write!(page, "\n## {title}\n");
        for entry in entries.iter() {
            let _ = write!(page, "\n### {}\n\n", entry.name);
            for line in entry.documentation {
                let _ = writeln!(page, "{}", line.trim());
            }
            page.push('\n');
            for fact in facts(entry) {
                let _ = writeln!(page, "- {fact}");
            }
        }
    }
    page
}

fn facts(entry: &DirectiveEntry) -> Vec<String> {
    let mut facts = vec![format!("Values: {}.", values(entry.kind))];
    facts.push(match default_of(entry) {
        default if default.is_empty() => "Default: empty.".to_owned(),
        default => format!("Default: `{default}`."),
    });
    facts.extend(entry.alias.map(|alias| format!("Also called `{alias}`.")));
    if entry.immutable {
        facts.push("At the start only.".to_owned());
    }
    if entry.protected {
        facts.push("CONFIG SET needs `enable-protected-configs`.".to_owned());
    }
    if entry.hidden {
        facts.push("CONFIG GET shows it by its full name only.".to_owned());
    }
    if let Some(unsupported) = entry.unsupported {
        let reason = unsupported.reason.trim_end_matches('.');
        let unmet = match unsupported.unmet {
            Unmet::Ignored => "",
            Unmet::Shown => " CONFIG GET shows other values, which nothing reads.",
            Unmet::Refused => " The server does not start with other values.",
        };
        facts.push(format!("Not supported: {reason}.{unmet}"));
    }
    facts
}

fn values(kind: DirectiveKind) -> String {
    let names = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match kind {
        DirectiveKind::Flag => "`yes` or `no`".to_owned(),
        DirectiveKind::Integer { min, max, unit } => {
            let what = match unit {
                Unit::Plain => "a number",
                Unit::Octal => "an octal number",
                Unit::Memory | Unit::UnsignedMemory => "bytes",
                Unit::SignedMemory => "bytes, or a negative number",
                Unit::MemoryOrPercent => "bytes, or a percentage",
            };
            match (unit, min, max) {
                (Unit::Octal, ..) => format!("{what} from {min:o} to {max:o}"),
                (Unit::MemoryOrPercent | Unit::SignedMemory, ..) => what.to_owned(),
                (_, i64::MIN, i64::MAX) => what.to_owned(),
                (_, _, i64::MAX) => format!("{what} from {min}"),
                _ => format!("{what} from {min} to {max}"),
            }
        }
        DirectiveKind::Choice(choices) => format!("one of {}", names(choices)),
        DirectiveKind::Choices(choices) => format!("any of {}", names(choices)),
        DirectiveKind::Text => "text".to_owned(),
        DirectiveKind::Save => "pairs of seconds and changes".to_owned(),
        DirectiveKind::Bind => "up to 16 addresses".to_owned(),
        DirectiveKind::OutputBufferLimits => "a class, bytes, bytes and seconds, for one class or several".to_owned(),
        DirectiveKind::OomScoreAdjValues => "three numbers".to_owned(),
        DirectiveKind::KeyspaceEvents => "letters, as `CONFIG SET notify-keyspace-events` takes them".to_owned(),
        DirectiveKind::Percentiles => "percentiles from 0 to 100".to_owned(),
        DirectiveKind::ReplicaOf => "host and port, or `no one`".to_owned(),
        DirectiveKind::Dir => "a path".to_owned(),
    }
}

// ---- INFO -----------------------------------------------------------------------------------------------------------

fn page_of_info() -> String {
    let mut page = String::from(
        "# INFO\n\nMade from the fields in `crates/commands/src/server/info/`. `INFO` replies the default sections, \
         `INFO all` more of\nthem, `INFO replication` one. Fields that have a metric say its name in \
         [/metrics](../monitoring.md), where `redis_`\nis before it. A flag is 0 or 1.\n",
    );
    for (title, fields) in meanings::reference() {
        let _ = write!(page, "\n## {title}\n\n| field | | unit | metric |\n|---|---|---|---|\n");
        for field in fields {
            let metric = field.metric.map_or(String::new(), |metric| format!("`{}`", metric.name));
            let _ = writeln!(page, "| `{}` | {} | {} | {metric} |", field.name, field.meaning, field.unit);
        }
    }
    page
}

// ---- Sentinel -------------------------------------------------------------------------------------------------------

const SENTINEL_PREAMBLE: &str = "\
# Sentinel

Made from the tables in `crates/sentinel/src/statements.rs` and `crates/commands/src/sentinel/`. [Failover](../operations/failover.md)
starts three Sentinels, [the design page](../design/sentinel.md) describes how they agree. `primary` is the name that a `monitor` line
gives; clients ask for it. Words and replies say `master` and `slave` where Redis has them.

A Sentinel needs a configuration file, and writes its settings and its state into it. Beside these lines the file has a server's
[directives](directives.md) about connections, users, TLS and the log.

    port 26379
    sentinel monitor primary 192.0.2.1 6379 2
    sentinel auth-user primary sentinel
    sentinel auth-pass primary secret
    sentinel down-after-milliseconds primary 5000
";

fn page_of_sentinel() -> String {
    commands::install(&[]);
    let mut page = SENTINEL_PREAMBLE.to_owned();
    for (title, is_state) in [("Lines of the configuration", false), ("Lines that the Sentinel writes", true)] {
        let _ = write!(page, "\n## {title}\n");
        for line in sentinel::STATEMENTS.iter().filter(|line| line.is_state == is_state) {
            let _ = write!(page, "\n### sentinel {}\n\n", line.name);
            let _ = write!(page, "    sentinel {} {}\n\n{}\n\n", line.name, line.syntax, line.meaning);
            let mut facts = Vec::new();
            facts.extend((!line.default.is_empty()).then(|| format!("Default: `{}`.", line.default)));
            facts.extend(line.alias.map(|alias| format!("Also called `{alias}`.")));
            facts.extend(match line.changed_by {
                Some(command) => Some(format!("Changed by {command}.")),
                None if is_state => None,
                None => Some("At the start only.".to_owned()),
            });
            facts.iter().for_each(|fact| _ = writeln!(page, "- {fact}"));
        }
    }
    page.push_str("\n## Commands\n\n\
        A Sentinel also has AUTH, HELLO, PING, COMMAND, SUBSCRIBE and PSUBSCRIBE with their opposites, most of CLIENT and, \
        unless it runs\nwithin a server, ACL and SHUTDOWN.\n");
    for command in commands::sentinel::COMMANDS {
        describe(&mut page, "", command);
        for subcommand in command.subcommands {
            describe(&mut page, "SENTINEL ", subcommand);
        }
    }
    page
}

// ---- commands -------------------------------------------------------------------------------------------------------

fn page_of_commands() -> String {
    commands::install(&[]);
    let mut page = String::from(
        "# Commands\n\nMade from the entries in `crates/commands/src/`. Arguments stand in the notation of \
         `crates/commands/src/server/command/syntax.rs`:\n`name:type`, `[optional]`, `one | other`, `...` for what may be \
         repeated. COMMAND DOCS tells the same to programs.\n",
    );
    let mut commands: Vec<&Command> = CommandTable::get().iter().map(|entry| entry.command).collect();
    commands.sort_by_key(|command| (format!("{:?}", command.group), command.name));
    let mut group: Option<Group> = None;
    for command in commands {
        if group.replace(command.group) != Some(command.group) {
            let _ = write!(page, "\n## {:?}\n", command.group);
        }
        describe(&mut page, "", command);
        let mut subcommands: Vec<_> = command.subcommands.iter().collect();
        subcommands.sort_by_key(|subcommand| subcommand.name);
        let container = format!("{} ", command.name.to_uppercase());
        subcommands.into_iter().for_each(|subcommand| describe(&mut page, &container, subcommand));
    }
    page
}

fn describe(page: &mut String, container: &str, command: &Command) {
    let name = format!("{container}{}", command.name.to_uppercase());
    let _ = write!(page, "\n### {name}\n\n    {}\n\n", format!("{name} {}", command.syntax).trim_end());
    let sentence = |text: &str| if text.ends_with('.') { text.to_owned() } else { format!("{text}.") };
    if !command.summary.is_empty() {
        let _ = write!(page, "{}\n\n", sentence(command.summary));
    }
    let mut facts = vec![format!("Since {}.", command.since)];
    if !command.complexity.is_empty() {
        facts.push(format!("Complexity: {}", sentence(command.complexity)));
    }
    let flags: Vec<&str> =
        FLAG_NAMES.iter().filter(|(flag, _)| command.flags.has(*flag)).map(|(_, name)| *name).collect();
    if !flags.is_empty() {
        facts.push(format!("Flags: {}.", flags.join(", ")));
    }
    let categories: Vec<String> = categories(command).map(|category| format!("@{category}")).collect();
    if !categories.is_empty() {
        facts.push(format!("ACL categories: {}.", categories.join(", ")));
    }
    if let Some((since, instead)) = command.deprecated {
        facts.push(format!("Deprecated since {since}: use {instead}."));
    }
    for fact in facts {
        let _ = writeln!(page, "- {fact}");
    }
}
