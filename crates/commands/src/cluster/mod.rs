//! Commands of a cluster: READONLY, READWRITE and ASKING, which its clients send to every server, and CLUSTER.
//!
//! A server that is no part of a cluster, and no replica, answers reads and writes after any of the three. It remembers
//! the mode and shows it in CLIENT LIST, as Valkey does; tools send READONLY before they walk a keyspace. It answers
//! CLUSTER in Valkey's words for a server without a cluster, from which client libraries know to do without one.

use crate::core::args::Args;
use crate::core::command::{
    ADMIN, ALL_DBS, Command, FAST, Group, LOADING, MAY_REPLICATE, NO_ASYNC_LOADING, NO_SCRIPT, READONLY, STALE, SYSTEM,
    TOUCHES_ARBITRARY_KEYS, WRITE, key,
};
use crate::core::context::Context;
use crate::core::help::reply_help;
use engine::Error;
use engine::data::slot::slot_of;
use node_access::must_be_clustered;
use std::sync::atomic::Ordering::Relaxed;

mod bus_orders;
mod bus_questions;
mod keys_in_slot;
mod log_text;
pub mod migration_filter;
mod node_access;
pub mod node_tasks;
mod slot_migrations;
mod slot_order;
mod slot_scan;
mod slot_stats;
mod slots_word;

pub(crate) use bus_orders::{change_debug, kill_links};
pub(crate) use bus_questions::{NodeNumber, STATES, each_number, link_counts, reset_counters};
pub use log_text::count_sent;
pub(crate) use slots_word::SlotsWord;

const ASKED_OF_A_CLUSTER: Command =
    Command { group: Group::Cluster, arity: 2, flags: LOADING.and(STALE), complexity: "O(1)", ..Command::DEFAULT };

/// Commands of a cluster's clients, operators and nodes.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "asking",
        group: Group::Cluster,
        since: "3.0.0",
        arity: 1,
        flags: FAST,
        summary: "Signals that a cluster client is following an -ASK redirect.",
        complexity: "O(1)",
        categories: &["connection"],
        run: asking,
        ..Command::DEFAULT
    },
    Command {
        name: "cluster",
        group: Group::Cluster,
        since: "3.0.0",
        arity: -2,
        summary: "A container for Cluster commands.",
        complexity: "Depends on subcommand.",
        subcommands: &[
            Command {
                name: "addslots",
                since: "3.0.0",
                arity: -3,
                flags: ADMIN.and(NO_ASYNC_LOADING).and(STALE),
                syntax: "slot:int...",
                summary: "Assigns new hash slots to a node.",
                complexity: "O(N) where N is the total number of hash slot arguments",
                run: bus_orders::add_slots,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "addslotsrange",
                since: "7.0.0",
                arity: -4,
                flags: ADMIN.and(NO_ASYNC_LOADING).and(STALE),
                syntax: "(range: start-slot:int end-slot:int)...",
                summary: "Assigns new hash slot ranges to a node.",
                complexity: "O(N) where N is the total number of the slots between the start slot and end slot arguments.",
                run: bus_orders::add_slots_range,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "bumpepoch",
                since: "3.0.0",
                flags: ADMIN.and(NO_ASYNC_LOADING).and(STALE),
                summary: "Advances the cluster config epoch.",
                tips: &["nondeterministic_output"],
                run: bus_orders::bump_epoch,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "cancelslotmigrations",
                since: "9.0.0",
                flags: ADMIN.and(ALL_DBS).and(NO_ASYNC_LOADING).and(STALE),
                summary: "Cancel all current ongoing slot migration operations.",
                complexity: "O(N), where N is the number of slot migration operations being cancelled.",
                run: slot_migrations::cancel,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "count-failure-reports",
                since: "3.0.0",
                arity: 3,
                flags: ADMIN.and(STALE),
                syntax: "node-id",
                history: &[("9.0.0", "Ignore additional failure reports for a node which has been marked as failed.")],
                summary: "Returns the number of active failure reports for a node. No new reports are created once the node is marked as failed.",
                complexity: "O(N) where N is the number of failure reports",
                tips: &["nondeterministic_output"],
                run: bus_questions::count_failure_reports,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "countkeysinslot",
                since: "3.0.0",
                arity: 3,
                flags: STALE,
                syntax: "slot:int",
                summary: "Returns the number of keys in a hash slot.",
                run: keys_in_slot::count_keys,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "delslots",
                since: "3.0.0",
                arity: -3,
                flags: ADMIN.and(NO_ASYNC_LOADING).and(STALE),
                syntax: "slot:int...",
                summary: "Sets hash slots as unbound for a node.",
                complexity: "O(N) where N is the total number of hash slot arguments",
                run: bus_orders::del_slots,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "delslotsrange",
                since: "7.0.0",
                arity: -4,
                flags: ADMIN.and(NO_ASYNC_LOADING).and(STALE),
                syntax: "(range: start-slot:int end-slot:int)...",
                summary: "Sets hash slot ranges as unbound for a node.",
                complexity: "O(N) where N is the total number of the slots between the start slot and end slot arguments.",
                run: bus_orders::del_slots_range,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "failover",
                since: "3.0.0",
                arity: -2,
                flags: ADMIN.and(NO_ASYNC_LOADING).and(STALE),
                syntax: "[options: FORCE | TAKEOVER]",
                summary: "Forces a replica to perform a manual failover of its primary.",
                run: bus_orders::failover,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "flushslot",
                since: "9.0.0",
                arity: -3,
                flags: WRITE.and(ADMIN).and(ALL_DBS).and(NO_ASYNC_LOADING),
                categories: &["keyspace"],
                syntax: "slot:int [flush-type: ASYNC | SYNC]",
                summary: "Removes all keys from the target slot.",
                complexity: "O(N) where N is the number of keys in the target slot",
                run: keys_in_slot::flush_slot,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "flushslots",
                since: "3.0.0",
                flags: ADMIN.and(NO_ASYNC_LOADING).and(STALE),
                summary: "Deletes all slots information from a node.",
                run: bus_orders::flush_slots,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "forget",
                since: "3.0.0",
                arity: 3,
                flags: ADMIN.and(NO_ASYNC_LOADING).and(STALE),
                syntax: "node-id",
                summary: "Removes a node from the nodes table.",
                run: bus_orders::forget,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "getkeysinslot",
                since: "3.0.0",
                arity: 4,
                flags: STALE,
                syntax: "slot:int count:int",
                summary: "Returns the key names in a hash slot.",
                complexity: "O(N) where N is the number of requested keys",
                tips: &["nondeterministic_output"],
                run: keys_in_slot::get_keys,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "getslotmigrations",
                since: "9.0.0",
                flags: ADMIN.and(NO_ASYNC_LOADING).and(STALE),
                summary: "Gets the status of ongoing and recently finished slot import and export operations.",
                complexity: "O(N), where N is the number of active slot import and export jobs.",
                run: slot_migrations::list,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "help",
                since: "5.0.0",
                summary: "Returns helpful text about the different subcommands.",
                run: help,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "info",
                since: "3.0.0",
                summary: "Returns information about the state of a node.",
                tips: &["nondeterministic_output"],
                run: bus_questions::info,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "keyslot",
                since: "3.0.0",
                arity: 3,
                flags: STALE,
                syntax: "key:string",
                summary: "Returns the hash slot for a key.",
                complexity: "O(N) where N is the number of bytes in the key",
                run: key_slot,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "links",
                since: "7.0.0",
                flags: STALE,
                summary: "Returns a list of all TCP links to and from peer nodes.",
                complexity: "O(N) where N is the total number of Cluster nodes",
                tips: &["nondeterministic_output"],
                run: bus_questions::links,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "meet",
                since: "3.0.0",
                arity: -4,
                flags: ADMIN.and(NO_ASYNC_LOADING).and(STALE),
                syntax: "ip port:int [cluster-bus-port:int]@4.0.0",
                summary: "Forces a node to handshake with another node.",
                history: &[("4.0.0", "Added the optional `cluster_bus_port` argument.")],
                run: bus_orders::meet,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "migrateslots",
                since: "9.0.0",
                arity: -4,
                flags: ADMIN.and(ALL_DBS).and(NO_ASYNC_LOADING).and(STALE),
                syntax: "(migration-group: SLOTSRANGE=slotsrange-token (range: start-slot:int end-slot:int)... NODE=node-token node-id)...",
                summary: "Migrate the given slots from this node to the specified nodes.",
                complexity: "O(N) where N is the total number of the slots between all start slot and end slot arguments.",
                run: slot_migrations::migrate,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "myid",
                since: "3.0.0",
                summary: "Returns the ID of a node.",
                run: bus_questions::my_id,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "myshardid",
                since: "7.2.0",
                summary: "Returns the shard ID of a node.",
                tips: &["nondeterministic_output"],
                run: bus_questions::my_shard_id,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "nodes",
                since: "3.0.0",
                summary: "Returns the cluster configuration for a node.",
                complexity: "O(N) where N is the total number of Cluster nodes",
                tips: &["nondeterministic_output"],
                run: bus_questions::nodes,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "replicas",
                since: "5.0.0",
                arity: 3,
                flags: ADMIN.and(STALE),
                syntax: "node-id",
                summary: "Lists the replica nodes of a primary node.",
                complexity: "O(N) where N is the number of replicas.",
                tips: &["nondeterministic_output"],
                run: bus_questions::replicas,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "replicate",
                since: "3.0.0",
                arity: -3,
                flags: ADMIN.and(NO_ASYNC_LOADING).and(STALE),
                syntax: "(args: node-id | (no-one: NO ONE)@9.0.0)",
                history: &[(
                    "9.0.0",
                    "Added support of 'NO ONE' arg instead of <node-id> resulting into detaching replica from primary node.",
                )],
                summary: "Configures a node as replica of a primary node or detaches a replica from its primary.",
                run: bus_orders::replicate,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "reset",
                since: "3.0.0",
                arity: -2,
                flags: ADMIN.and(NO_SCRIPT).and(STALE),
                syntax: "[reset-type: HARD | SOFT]",
                summary: "Resets a node.",
                complexity: "O(N) where N is the number of known nodes. The command may execute a FLUSHALL as a side effect.",
                run: bus_orders::reset,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "saveconfig",
                since: "3.0.0",
                flags: ADMIN.and(NO_ASYNC_LOADING).and(STALE),
                summary: "Forces a node to save the cluster configuration to disk.",
                run: bus_orders::save_config,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "set-config-epoch",
                since: "3.0.0",
                arity: 3,
                flags: ADMIN.and(NO_ASYNC_LOADING).and(STALE),
                syntax: "config-epoch:int",
                summary: "Sets the configuration epoch for a new node.",
                run: bus_orders::set_config_epoch,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "setslot",
                since: "3.0.0",
                arity: -4,
                flags: ADMIN.and(MAY_REPLICATE).and(NO_ASYNC_LOADING).and(STALE),
                syntax: "slot:int (subcommand: IMPORTING importing=node-id | MIGRATING migrating=node-id | NODE node=node-id | STABLE) [TIMEOUT timeout:int]@8.0.0",
                summary: "Binds a hash slot to a node.",
                history: &[("8.0.0", "Added the `TIMEOUT` option.")],
                run: slot_order::set_slot,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "shards",
                since: "7.0.0",
                summary: "Returns the mapping of cluster slots to shards.",
                complexity: "O(N) where N is the total number of cluster nodes",
                history: &[("9.1.0", "Added shard level `id` field and node level `availability-zone` field.")],
                tips: &["nondeterministic_output"],
                run: bus_questions::shards,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "slaves",
                since: "3.0.0",
                arity: 3,
                flags: ADMIN.and(STALE),
                syntax: "node-id",
                summary: "Lists the replica nodes of a primary node.",
                complexity: "O(N) where N is the number of replicas.",
                deprecated: Some(("5.0.0", "`CLUSTER REPLICAS`")),
                tips: &["nondeterministic_output"],
                run: bus_questions::replicas,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "slot-stats",
                since: "8.0.0",
                arity: -4,
                flags: LOADING.and(STALE),
                syntax: "(filter: (SLOTSRANGE slotsrange: start-slot:int end-slot:int) | (ORDERBY orderby: metric [LIMIT limit:int] [order: ASC | DESC]))",
                summary: "Return an array of slot usage statistics for slots assigned to the current node.",
                complexity: "O(N) where N is the total number of slots based on arguments. O(N*log(N)) with ORDERBY subcommand.",
                tips: &["nondeterministic_output", "request_policy:all_shards"],
                run: slot_stats::slot_stats,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "slots",
                since: "3.0.0",
                summary: "Returns the mapping of cluster slots to nodes.",
                complexity: "O(N) where N is the total number of Cluster nodes",
                history: &[
                    ("4.0.0", "Added node IDs."),
                    ("7.0.0", "Added additional networking metadata field."),
                    ("9.1.0", "Added `availability-zone` field inside the networking metadata."),
                ],
                tips: &["nondeterministic_output"],
                run: bus_questions::slots,
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "syncslots",
                since: "9.0.0",
                arity: -3,
                flags: ADMIN.and(MAY_REPLICATE).and(NO_ASYNC_LOADING).and(STALE).and(SYSTEM),
                summary: "A container for internal slot migration commands.",
                complexity: "Depends on subcommand.",
                run: slot_migrations::sync,
                ..ASKED_OF_A_CLUSTER
            },
        ],
        ..Command::DEFAULT
    },
    Command {
        name: "clusterscan",
        group: Group::Cluster,
        since: "9.1.0",
        arity: -2,
        flags: READONLY.and(TOUCHES_ARBITRARY_KEYS),
        categories: &["keyspace"],
        keys: &[key(1).not_key()],
        syntax: "cursor [MATCH match-pattern:pattern] [COUNT count:int] [TYPE type] [SLOT slot:int]",
        summary: "Iterates over the keys in the cluster.",
        complexity: "O(N) where N is the number of elements returned.",
        tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
        run: slot_scan::cluster_scan,
        ..Command::DEFAULT
    },
    Command {
        name: "readonly",
        group: Group::Cluster,
        since: "3.0.0",
        arity: 1,
        flags: LOADING.and(STALE).and(FAST),
        summary: "Enables read-only queries for a connection to a Valkey replica node.",
        complexity: "O(1)",
        categories: &["connection"],
        run: read_only,
        ..Command::DEFAULT
    },
    Command {
        name: "readwrite",
        group: Group::Cluster,
        since: "3.0.0",
        arity: 1,
        flags: LOADING.and(STALE).and(FAST),
        summary: "Enables read-write queries for a connection to a Valkey replica node.",
        complexity: "O(1)",
        categories: &["connection"],
        run: read_write,
        ..Command::DEFAULT
    },
];

fn help(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    reply_help(cx.reply, &String::from_utf8_lossy(&args[0]));
    Ok(())
}

fn asking(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    cx.session.asking = true;
    cx.reply.ok();
    Ok(())
}

/// Answers the one question that needs no cluster.
fn key_slot(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.int(i64::from(slot_of(&args[2])));
    Ok(())
}

fn read_only(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.session.info.read_only.store(true, Relaxed);
    cx.reply.ok();
    Ok(())
}

fn read_write(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.session.info.read_only.store(false, Relaxed);
    cx.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn a_connection_may_say_that_it_only_reads() {
        let mut client = Client::new();
        let shows = |client: &mut Client, flags: &str| {
            let info = client.run("CLIENT INFO");
            assert!(info.contains(&format!(" flags={flags} ")), "{info}");
        };
        client.is("READONLY", "+OK").is("SET k v", "+OK");
        shows(&mut client, "r");
        client.is("READWRITE", "+OK");
        shows(&mut client, "N");
        client.is("READONLY", "+OK").is("RESET", "+RESET");
        shows(&mut client, "N");
        client.is("ASKING", "-ERR This instance has cluster support disabled");
        client.is("CLUSTER SLOTS", "-ERR This instance has cluster support disabled");
        client.is("CLUSTER MEET 127.0.0.1 7000", "-ERR This instance has cluster support disabled");
        client.is("CLUSTER ADDSLOTS x", "-ERR This instance has cluster support disabled");
        client.is("CLUSTER MIGRATESLOTS a b c", "-ERR This instance has cluster support disabled");
        client.is("CLUSTER FLUSHSLOT 1", "-ERR This instance has cluster support disabled");
        client.is("CLUSTERSCAN 0", "-ERR This instance has cluster support disabled");
        client.is("CLUSTER KEYSLOT a{b}c", ":3300");
        client.is("CLUSTER MEET", "-ERR wrong number of arguments for 'cluster|meet' command");
        client.is("CLUSTER NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLUSTER HELP.");
        client.is("READONLY x", "-ERR wrong number of arguments for 'readonly' command");
    }
}
