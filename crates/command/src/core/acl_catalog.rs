//! The commands as rules of users know them: by their own names, even if renamed, and by categories: those that a
//! command's group and flags imply, and those that its entry adds.

use crate::core::command::{ADMIN, BLOCKING, Command, CommandEntry, FAST, Group, PUBSUB, READONLY, WRITE};
use crate::core::mode;
use engine::Engine;
use engine::acl::catalog::{CommandCatalog, CommandNumber};
use engine::acl::user::RuleContext;
use engine::config::Directive;
use engine::data::value_type;
use std::sync::OnceLock;

/// All commands and subcommands. A command's number is that of its entry in the
/// [table](crate::core::command_table::CommandTable), which counts in the same order.
pub struct Catalog {
    known: Vec<(&'static Command, CommandNumber)>,
    /// Places of each category's commands, once one was asked for.
    by_category: OnceLock<Vec<(&'static str, Vec<usize>)>>,
}

static CATALOG: OnceLock<Catalog> = OnceLock::new();
/// The catalog of a Sentinel within a server's process.
static CATALOG_OF_SENTINEL: OnceLock<Catalog> = OnceLock::new();

fn place() -> &'static OnceLock<Catalog> {
    if mode::is_sentinel_within() { &CATALOG_OF_SENTINEL } else { &CATALOG }
}

impl Catalog {
    /// Returns the catalog of all commands that exist for this thread.
    pub fn get() -> &'static Catalog {
        place().get().expect("commands are installed before users are asked for")
    }

    /// Sets the catalog up for the whole process, or for the Sentinel within it, of these commands in the order of
    /// their table.
    pub fn install(commands: impl Iterator<Item = &'static Command>) {
        place().get_or_init(|| {
            let mut known: Vec<(&'static Command, CommandNumber)> = Vec::new();
            for command in commands {
                let id = known.len();
                let subcommands = id + 1..id + 1 + command.subcommands.len();
                known.push((
                    command,
                    CommandNumber { id, full_name: command.name.to_owned(), subcommands, is_inner: false },
                ));
                for sub in command.subcommands {
                    let (id, full_name) = (known.len(), format!("{}|{}", command.name, sub.name));
                    known.push((sub, CommandNumber { id, full_name, subcommands: 0..0, is_inner: true }));
                }
            }
            Catalog { known, by_category: OnceLock::new() }
        });
    }

    /// Returns the command of this name.
    pub fn named(&self, name: &str) -> Option<&CommandNumber> {
        self.known.iter().map(|(_, number)| number).find(|number| number.full_name == name)
    }

    /// Returns an entry that is in no table: it has the number of the command of its name, and so its rights and
    /// statistics.
    pub fn entry_beside(&self, command: &'static Command) -> Option<CommandEntry> {
        let mut id = self.named(command.name)?.id;
        Some(CommandEntry::new(command, command.name.as_bytes(), None, &mut id))
    }

    /// Returns all commands of a category, as ACL CAT lists them.
    pub fn names_of(&self, category: &'static str) -> impl ExactSizeIterator<Item = &str> {
        self.of(category).iter().map(|place| &*self.known[*place].1.full_name)
    }

    /// Returns the places of a category's commands.
    fn of(&self, category: &str) -> &[usize] {
        let all = self.by_category.get_or_init(|| {
            let mut all: Vec<(&'static str, Vec<usize>)> = all_categories().map(|name| (name, Vec::new())).collect();
            for (place, (command, _)) in self.known.iter().enumerate() {
                for name in categories(command) {
                    if let Some((_, places)) = all.iter_mut().find(|(known, _)| *known == name) {
                        places.push(place);
                    }
                }
            }
            all
        });
        all.iter().find(|(known, _)| *known == category).map_or(&[], |(_, places)| places)
    }

    /// Returns the number and name of an entry's command.
    pub fn number(&self, command: &'static Command) -> Option<&CommandNumber> {
        self.known.iter().find(|(known, _)| std::ptr::eq(*known, command)).map(|(_, number)| number)
    }
}

impl CommandCatalog for Catalog {
    fn count(&self) -> usize {
        self.known.len()
    }

    fn find(&self, full_name: &[u8]) -> Option<CommandNumber> {
        let is_it = |number: &CommandNumber| number.full_name.as_bytes().eq_ignore_ascii_case(full_name);
        self.known.iter().map(|(_, number)| number).find(|number| is_it(number)).cloned()
    }

    fn of_category(&self, category: &[u8]) -> Option<Vec<CommandNumber>> {
        let name = category_named(category)?;
        Some(self.of(name).iter().map(|place| self.known[*place].1.clone()).collect())
    }
}

/// Returns the category of this name, in whatever case.
pub fn category_named(name: &[u8]) -> Option<&'static str> {
    all_categories().find(|category| category.as_bytes().eq_ignore_ascii_case(name))
}

/// Returns all categories, in the order in which they are listed.
pub fn all_categories() -> impl Iterator<Item = &'static str> {
    let installed = value_type::installed();
    let is_new = move |at: usize, name: &str| {
        !CATEGORIES.contains(&name) && installed[..at].iter().all(|earlier| earlier.acl_category != name)
    };
    let added = installed.iter().map(|added| added.acl_category).enumerate();
    CATEGORIES.into_iter().chain(added.filter(move |(at, name)| is_new(*at, name)).map(|(_, name)| name))
}

/// Categories that are always there, in the order in which they are listed.
const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Returns the category that the commands of a group have. Containers have none: their subcommands do.
fn of_group(command: &Command) -> Option<&'static str> {
    if !command.subcommands.is_empty() {
        return None;
    }
    // Generic commands on certain types (SORT) or on none (WAIT) state their categories in their entries.
    let states_own = command.group == Group::Generic && command.categories.iter().any(|name| *name != "dangerous");
    command.group.words().acl_category.filter(|_| !states_own)
}

/// Returns the command's categories, in the order of [`all_categories`].
pub fn categories(command: &Command) -> impl Iterator<Item = &'static str> {
    let group = of_group(command);
    let flags = command.flags;
    let implied = move |name: &str| match name {
        // The effects of a script are unknown; its claim to be read-only does not matter for the category.
        "read" => flags.has(READONLY) && group != Some("scripting"),
        "write" => flags.has(WRITE),
        "admin" => flags.has(ADMIN),
        "dangerous" => flags.has(ADMIN),
        "pubsub" => flags.has(PUBSUB),
        "fast" => flags.has(FAST),
        "slow" => !flags.has(FAST),
        "blocking" => flags.has(BLOCKING),
        _ => false,
    };
    let own = command.categories;
    all_categories().filter(move |name| group == Some(name) || implied(name) || own.contains(name))
}

/// Returns the context that rules refer to in this engine.
pub fn rule_context(engine: &Engine) -> RuleContext<'static> {
    let all_channels = engine.config().snapshot().choice(Directive::ACL_PUBSUB_DEFAULT) == "allchannels";
    RuleContext { catalog: Catalog::get(), all_channels }
}
