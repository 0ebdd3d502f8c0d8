//! The commands of Redis and Valkey on Cinnabar's engine: one file a family, one entry and one function a
//! command.
//!
//! Together with `engine` this is a store without a server. Time is an argument, so what happens is the same
//! each time:
//!
//! ```
//! use commands::{Args, Now, Session};
//! use commands::core::dispatch;
//! use engine::{Engine, Options};
//! use engine::NullHost;
//! use resp::{Protocol, Reply};
//! use engine::time::UnixUs;
//! use std::sync::Arc;
//!
//! commands::install(&[]);
//! let engine = Engine::new(&Options::default(), Arc::new(NullHost));
//! let mut client = Session::local();
//! let mut run = |words: &[&str], unix_ms: i64| {
//!     let mut args: Args = words.into();
//!     let mut reply = Reply::new(Vec::new(), Protocol::Resp2);
//!     dispatch::execute(&engine, &mut client, &mut args, Now { unix_us: UnixUs(unix_ms * 1000) }, &mut reply);
//!     String::from_utf8(reply.into_inner()).unwrap()
//! };
//! assert_eq!(run(&["SET", "greeting", "hello", "PX", "500"], 1_000), "+OK\r\n");
//! assert_eq!(run(&["GET", "greeting"], 1_499), "$5\r\nhello\r\n");
//! assert_eq!(run(&["GET", "greeting"], 1_500), "$-1\r\n");
//! assert_eq!(run(&["INCR", "greeting"], 1_501), ":1\r\n");
//! ```
//!
//! An [`Engine`](engine::Engine) is shared by any number of threads; each runs commands for its own sessions.
#![deny(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

mod bitmaps;
pub mod cluster;
#[cfg(test)]
mod command_tests;
mod geo;
mod hashes;
mod hyperloglogs;
mod keys;
mod lists;
pub mod persistence;
pub mod pubsub;
pub mod replication;
pub mod scripting;
pub mod sentinel;
pub mod server;
mod sets;
mod sorted_sets;
mod streams;
mod strings;
#[cfg(test)]
mod testing;
pub mod transactions;
pub mod version;

use core::acl_catalog::Catalog;
use core::command::Command;
use core::command_table::CommandTable;
use engine::data::value_type::{self, ValueType};
use std::sync::OnceLock;

/// All commands, by room.
const ROOMS: &[&[&[Command]]] = &[
    bitmaps::COMMANDS,
    geo::COMMANDS,
    hashes::COMMANDS,
    hyperloglogs::COMMANDS,
    keys::COMMANDS,
    lists::COMMANDS,
    persistence::COMMANDS,
    pubsub::COMMANDS,
    replication::COMMANDS,
    scripting::COMMANDS,
    server::COMMANDS,
    &[crate::cluster::COMMANDS],
    sets::COMMANDS,
    sorted_sets::COMMANDS,
    streams::COMMANDS,
    strings::COMMANDS,
    transactions::COMMANDS,
];

/// A value type with its commands, as a program installs it.
pub struct InstalledType {
    /// The type's line of the table.
    pub value_type: &'static ValueType,
    /// Commands on its values.
    pub commands: &'static [Command],
}

static TYPES: OnceLock<&'static [InstalledType]> = OnceLock::new();

/// Adds value types and their commands to the whole process. To be called before [`install`]; the first call decides.
pub fn install_types(types: &'static [InstalledType]) {
    // A caller beside the first one waits until the types are there.
    TYPES.get_or_init(|| {
        value_type::install(types.iter().map(|installed| installed.value_type).collect());
        types
    });
}

/// The commands of this process, or of the Sentinel within it: a Sentinel has few.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> {
    let is_sentinel = core::mode::is_sentinel();
    let shared = move |command: &&Command| !is_sentinel || sentinel::shares(command);
    let own = if is_sentinel { sentinel::COMMANDS } else { &[] };
    let in_part = is_sentinel.then(sentinel::shared_in_part).into_iter().flatten();
    let built_in = ROOMS.iter().copied().flatten().copied().flatten();
    let of_types = TYPES.get().copied().unwrap_or_default().iter().flat_map(|installed| installed.commands);
    built_in.chain(of_types).filter(shared).chain(own).chain(in_part)
}

/// Makes the commands known to the whole process, some of them by other names (`rename-command`). To be called before
/// the first command; the first call decides.
pub fn install(renames: &[(Vec<u8>, Vec<u8>)]) {
    Catalog::install(all());
    let is_first = CommandTable::install(all(), renames);
    assert!(is_first || renames.is_empty(), "commands are renamed before they are used");
}

/// Checks a `user` line of a configuration, given as words; `earlier`: those before it. A command that does not exist
/// is found when the server starts.
///
/// # Errors
/// The number of the word that is wrong, and why.
pub fn check_user(words: &[Vec<u8>], earlier: &[Vec<Vec<u8>>]) -> Result<(), (usize, String)> {
    Catalog::install(all());
    server::acl::acl_file::check_declaration(words, earlier)
}

/// Whether there is such a command, before any is renamed.
pub fn is_built_in(name: &[u8]) -> bool {
    all().any(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

pub use command::{Args, Context, Flow, LendingMode, Now, Resumable, RetainedArgs, Session, Work};
pub use command::{batch, blocking, core};
