//! What a cluster's clients send to every server: READONLY, READWRITE, ASKING, and what they ask CLUSTER at first.
//!
//! A server that is no part of a cluster, and no replica, answers reads and writes whatever a connection says here. It
//! remembers the word and shows it in CLIENT LIST, as Valkey does; tools send READONLY before they walk a keyspace. To CLUSTER
//! it says in Valkey's words that it is alone, by which client libraries know to go on without a cluster.

use crate::args::Args;
use crate::cx::Cx;
use crate::row::{Command, FAST, Group, LOADING, ROW, STALE};
use engine::Error;
use std::sync::atomic::Ordering::Relaxed;

const ASKED_OF_A_CLUSTER: Command =
    Command { group: Group::Cluster, arity: 2, flags: LOADING.and(STALE), complexity: "O(1)", run: disabled, ..ROW };

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
        run: disabled,
        ..ROW
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
                name: "countkeysinslot",
                since: "3.0.0",
                arity: 3,
                flags: STALE,
                syntax: "slot:int",
                summary: "Returns the number of keys in a hash slot.",
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
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "help",
                since: "5.0.0",
                summary: "Returns helpful text about the different subcommands.",
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "info",
                since: "3.0.0",
                summary: "Returns information about the state of a node.",
                tips: &["nondeterministic_output"],
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
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "links",
                since: "7.0.0",
                flags: STALE,
                summary: "Returns a list of all TCP links to and from peer nodes.",
                complexity: "O(N) where N is the total number of Cluster nodes",
                tips: &["nondeterministic_output"],
                ..ASKED_OF_A_CLUSTER
            },
            Command { name: "myid", since: "3.0.0", summary: "Returns the ID of a node.", ..ASKED_OF_A_CLUSTER },
            Command {
                name: "myshardid",
                since: "7.2.0",
                summary: "Returns the shard ID of a node.",
                tips: &["nondeterministic_output"],
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "nodes",
                since: "3.0.0",
                summary: "Returns the cluster configuration for a node.",
                complexity: "O(N) where N is the total number of Cluster nodes",
                tips: &["nondeterministic_output"],
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "shards",
                since: "7.0.0",
                summary: "Returns the mapping of cluster slots to shards.",
                complexity: "O(N) where N is the total number of cluster nodes",
                tips: &["nondeterministic_output"],
                ..ASKED_OF_A_CLUSTER
            },
            Command {
                name: "slots",
                since: "3.0.0",
                summary: "Returns the mapping of cluster slots to nodes.",
                complexity: "O(N) where N is the total number of Cluster nodes",
                history: &[("4.0.0", "Added node IDs."), ("7.0.0", "Added additional networking metadata field.")],
                tips: &["nondeterministic_output"],
                ..ASKED_OF_A_CLUSTER
            },
        ],
        ..ROW
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
        ..ROW
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
        ..ROW
    },
];

const NO_CLUSTER: Error = Error::text("ERR This instance has cluster support disabled");

fn disabled(_: &mut Cx<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    Err(NO_CLUSTER)
}

fn read_only(cx: &mut Cx<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.session.info.read_only.store(true, Relaxed);
    cx.reply.ok();
    Ok(())
}

fn read_write(cx: &mut Cx<'_>, _: &mut Args<'_>) -> Result<(), Error> {
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
        client.is("CLUSTER NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLUSTER HELP.");
        client.is("READONLY x", "-ERR wrong number of arguments for 'readonly' command");
    }
}
