//! The commands of Redis and Valkey on Cinnabar's engine: one file a family, one row and one function a
//! command.
//!
//! Together with `engine` this is a store without a server. Time is an argument, so what happens is the same
//! each time:
//!
//! ```
//! use commands::{Args, Now, Session, dispatch};
//! use engine::{Engine, Options, host::Alone};
//! use resp::{Protocol, Reply};
//! use std::sync::Arc;
//!
//! let engine = Engine::new(&Options::default(), Arc::new(Alone));
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

pub mod absent;
mod acl_category;
mod admission;
pub mod ahead;
pub mod aof;
pub mod args;
pub mod bitfield;
pub mod bitmap;
pub mod blocking;
pub mod book;
pub mod client;
pub mod client_list;
mod cluster;
mod command_stats;
pub mod commandlog;
pub mod config_cmd;
pub mod connection;
pub mod counter;
pub mod cx;
pub mod debug;
mod debug_values;
mod digest;
pub mod dispatch;
mod docs;
pub mod dump;
pub mod expire;
mod expire_option;
pub mod familiar;
pub mod flush;
mod free;
pub mod geo;
pub mod geo_search;
pub mod hash;
pub mod hash_field_ttl;
pub mod hash_list;
mod help;
pub mod hyperloglog;
pub mod info;
pub mod introspect;
pub mod keyspace;
pub mod keyspec;
pub mod latency;
mod latency_report;
pub mod lcs;
pub mod list;
pub mod list_move;
pub mod list_pop;
pub mod load;
pub mod lolwut;
pub mod lpos;
pub mod lrange;
pub mod measure;
pub mod memory;
pub mod migrate;
mod module;
pub mod monitor;
pub mod mset;
pub mod object;
mod others;
pub mod pause;
pub mod pieces;
mod popcount;
pub mod pubsub;
mod redact;
mod replicas;
pub mod row;
pub mod save;
pub mod scan;
mod scan_words;
pub mod script;
pub mod session;
pub mod set;
pub mod set_algebra;
mod set_pieces;
pub mod set_random;
pub mod shutdown;
pub mod slowlog;
pub mod sort;
pub mod sorted_set;
pub mod steady;
mod stranger;
pub mod stream;
pub mod stream_add;
pub mod stream_claim;
pub mod stream_consume;
pub mod stream_extended;
pub mod stream_group;
pub mod stream_info;
pub mod stream_pending;
pub mod stream_range;
pub mod stream_read;
pub mod stream_trim;
pub mod string;
pub mod syntax;
pub mod table;
#[cfg(test)]
mod testing;
pub mod time;
pub mod tracking;
pub mod transaction;
pub mod version;
pub mod zset_algebra;
mod zset_bounds;
pub mod zset_pop;
pub mod zset_random;
pub mod zset_range;
pub mod zset_scan;

use row::Command;

/// All rows.
const FAMILIES: &[&[Command]] = &[
    shutdown::COMMANDS,
    aof::COMMANDS,
    introspect::COMMANDS,
    info::COMMANDS,
    debug::COMMANDS,
    connection::COMMANDS,
    config_cmd::COMMANDS,
    client::COMMANDS,
    cluster::COMMANDS,
    commandlog::COMMANDS,
    latency::COMMANDS,
    module::COMMANDS,
    monitor::COMMANDS,
    pubsub::COMMANDS,
    replicas::COMMANDS,
    slowlog::COMMANDS,
    bitfield::COMMANDS,
    bitmap::COMMANDS,
    counter::COMMANDS,
    dump::COMMANDS,
    expire::COMMANDS,
    flush::COMMANDS,
    script::fcall::COMMANDS,
    geo::COMMANDS,
    geo_search::COMMANDS,
    hash::COMMANDS,
    hash_field_ttl::COMMANDS,
    hash_list::COMMANDS,
    hyperloglog::COMMANDS,
    keyspace::COMMANDS,
    lcs::COMMANDS,
    list::COMMANDS,
    list_move::COMMANDS,
    list_pop::COMMANDS,
    lpos::COMMANDS,
    lrange::COMMANDS,
    lolwut::COMMANDS,
    memory::COMMANDS,
    migrate::COMMANDS,
    mset::COMMANDS,
    object::COMMANDS,
    save::COMMANDS,
    scan::COMMANDS,
    script::eval::COMMANDS,
    set::COMMANDS,
    set_algebra::COMMANDS,
    set_random::COMMANDS,
    sort::COMMANDS,
    sorted_set::COMMANDS,
    stream::COMMANDS,
    stream_add::COMMANDS,
    stream_group::COMMANDS,
    stream_claim::COMMANDS,
    stream_consume::COMMANDS,
    stream_info::COMMANDS,
    stream_pending::COMMANDS,
    stream_extended::COMMANDS,
    stream_range::COMMANDS,
    stream_read::COMMANDS,
    stream_trim::COMMANDS,
    string::COMMANDS,
    time::COMMANDS,
    transaction::COMMANDS,
    zset_algebra::COMMANDS,
    zset_random::COMMANDS,
    zset_range::COMMANDS,
    zset_scan::COMMANDS,
    zset_pop::COMMANDS,
];

pub use args::{Args, OwnWords};
pub use cx::{Cx, Flow, Now, Piecewise, Work};
pub use session::Session;
