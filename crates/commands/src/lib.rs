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
//! use std::sync::Arc;
//!
//! let engine = Engine::new(&Options::default(), Arc::new(NullHost));
//! let mut client = Session::local();
//! let mut run = |words: &[&str], unix_ms: i64| {
//!     let mut args: Args = words.into();
//!     let mut reply = Reply::new(Vec::new(), Protocol::Resp2);
//!     dispatch::execute(&engine, &mut client, &mut args, Now { unix_us: unix_ms * 1000 }, &mut reply);
//!     String::from_utf8(reply.into_inner()).unwrap()
//! };
//! assert_eq!(run(&["SET", "greeting", "hello", "PX", "500"], 1_000), "+OK\r\n");
//! assert_eq!(run(&["GET", "greeting"], 1_499), "$5\r\nhello\r\n");
//! assert_eq!(run(&["GET", "greeting"], 1_500), "$-1\r\n");
//! assert_eq!(run(&["INCR", "greeting"], 1_501), ":1\r\n");
//! ```
//!
//! An [`Engine`](engine::Engine) is shared by any number of threads; each runs commands for its own sessions.
#![forbid(unsafe_code)]

pub mod batch;
pub mod bitmaps;
pub mod book;
pub mod core;
pub mod geo;
pub mod hashes;
pub mod hyperloglogs;
pub mod keys;
pub mod lists;
pub mod persistence;
pub mod pubsub;
pub mod scripting;
pub mod server;
pub mod sets;
pub mod sorted_sets;
pub mod streams;
pub mod strings;
#[cfg(test)]
mod testing;
pub mod transactions;
pub mod version;

use core::command::Command;

/// All entries.
const FAMILIES: &[&[Command]] = &[
    persistence::shutdown::COMMANDS,
    persistence::aof::COMMANDS,
    server::command_command::COMMANDS,
    server::info::COMMANDS,
    server::debug::COMMANDS,
    server::connection::COMMANDS,
    server::config::COMMANDS,
    server::client::COMMANDS,
    server::cluster::COMMANDS,
    server::commandlog::COMMANDS,
    server::latency::COMMANDS,
    server::module::COMMANDS,
    pubsub::monitor::COMMANDS,
    pubsub::channels::COMMANDS,
    server::replicas::COMMANDS,
    server::slowlog::COMMANDS,
    bitmaps::bitfield::COMMANDS,
    bitmaps::bitmap::COMMANDS,
    strings::counter::COMMANDS,
    keys::dump::COMMANDS,
    keys::expire::COMMANDS,
    keys::flush::COMMANDS,
    scripting::fcall::COMMANDS,
    geo::points::COMMANDS,
    geo::search::COMMANDS,
    hashes::hash::COMMANDS,
    hashes::field_ttl::COMMANDS,
    hashes::hgetall::COMMANDS,
    hyperloglogs::hyperloglog::COMMANDS,
    keys::keyspace::COMMANDS,
    strings::lcs::COMMANDS,
    lists::list::COMMANDS,
    lists::lmove::COMMANDS,
    lists::pop::COMMANDS,
    lists::lpos::COMMANDS,
    lists::lrange::COMMANDS,
    server::lolwut::COMMANDS,
    server::memory::COMMANDS,
    keys::migrate::COMMANDS,
    strings::mset::COMMANDS,
    keys::object::COMMANDS,
    persistence::save::COMMANDS,
    keys::scan::COMMANDS,
    scripting::eval::COMMANDS,
    sets::set::COMMANDS,
    sets::algebra::COMMANDS,
    sets::random::COMMANDS,
    keys::sort::COMMANDS,
    sorted_sets::sorted_set::COMMANDS,
    streams::stream::COMMANDS,
    streams::add::COMMANDS,
    streams::group::COMMANDS,
    streams::claim::COMMANDS,
    streams::consume::COMMANDS,
    streams::info::COMMANDS,
    streams::pending::COMMANDS,
    streams::extended::COMMANDS,
    streams::range::COMMANDS,
    streams::read::COMMANDS,
    streams::trim::COMMANDS,
    strings::string::COMMANDS,
    server::time::COMMANDS,
    transactions::multi::COMMANDS,
    sorted_sets::algebra::COMMANDS,
    sorted_sets::random::COMMANDS,
    sorted_sets::range::COMMANDS,
    sorted_sets::scan::COMMANDS,
    sorted_sets::pop::COMMANDS,
];

pub use core::args::{Args, OwnWords};
pub use core::context::{Cx, Flow, Now, Piecewise, Work};
pub use core::session::Session;
