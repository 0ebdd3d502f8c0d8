//! What a cluster's clients send to every server: READONLY, READWRITE and ASKING.
//!
//! A server that is no part of a cluster, and no replica, answers reads and writes whatever a connection says here. It
//! remembers the word and shows it in CLIENT LIST, as Valkey does; tools send READONLY before they walk a keyspace.

use crate::args::Args;
use crate::cx::Cx;
use crate::row::{Command, FAST, Group, LOADING, ROW, STALE};
use engine::Error;
use std::sync::atomic::Ordering::Relaxed;

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

fn asking(_: &mut Cx<'_>, _: &mut Args<'_>) -> Result<(), Error> {
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
        client.is("READONLY x", "-ERR wrong number of arguments for 'readonly' command");
    }
}
