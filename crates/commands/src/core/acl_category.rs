//! The ACL categories of a command: what its group and flags imply, and what its entry adds.

use crate::core::command::{ADMIN, BLOCKING, Command, FAST, Group, PUBSUB, READONLY, WRITE};

/// Names of all categories, in the order in which they are listed.
pub const CATEGORIES: [&str; 21] = [
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

/// The category that the commands of a group have. Containers have none: their subcommands do.
fn of_group(command: &Command) -> Option<&'static str> {
    if !command.subcommands.is_empty() {
        return None;
    }
    match command.group {
        // Generic commands on certain types (SORT) or on none (WAIT) say so in their entries.
        Group::Generic => command.categories.iter().all(|name| *name == "dangerous").then_some("keyspace"),
        Group::String => Some("string"),
        Group::List => Some("list"),
        Group::Set => Some("set"),
        Group::SortedSet => Some("sortedset"),
        Group::Hash => Some("hash"),
        Group::Transactions => Some("transaction"),
        Group::Connection => Some("connection"),
        Group::Scripting => Some("scripting"),
        Group::HyperLogLog => Some("hyperloglog"),
        Group::Geo => Some("geo"),
        Group::Stream => Some("stream"),
        Group::Bitmap => Some("bitmap"),
        Group::PubSub | Group::Server | Group::Cluster | Group::Sentinel => None,
    }
}

/// The command's categories, in the order of [`CATEGORIES`].
pub fn categories(command: &Command) -> impl Iterator<Item = &'static str> {
    let group = of_group(command);
    let flags = command.flags;
    let implied = move |name: &str| match name {
        // What a script does is not known; that it says it only reads is not what the category is about.
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
    CATEGORIES.into_iter().filter(move |name| group == Some(name) || implied(name) || own.contains(name))
}
