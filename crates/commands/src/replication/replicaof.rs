//! REPLICAOF and SLAVEOF: the primary that the server follows.

use crate::core::admission::Settle;
use crate::core::args::Args;
use crate::core::client_line::described;
use crate::core::command::{ADMIN, Command, Group, NO_ASYNC_LOADING, NO_SCRIPT, STALE};
use crate::core::context::{Context, Flow, Resumable};
use crate::replication::demote;
use crate::replication::follow::{Waits, follow, follow_locked};
use engine::Error;
use engine::status::replication_status::PrimaryAddress;
use replication::failover_state::{FailoverState, Target};

const REPLICAOF: Command = Command {
    group: Group::Server,
    arity: 3,
    flags: ADMIN.and(NO_SCRIPT).and(STALE).and(NO_ASYNC_LOADING),
    syntax: "(args: (host-port: host port:int) | (no-one: NO ONE))",
    complexity: "O(1)",
    changes_primary: true,
    run: replicaof,
    ..Command::DEFAULT
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "replicaof",
        since: "5.0.0",
        summary: "Configures a server as replica of another, or promotes it to a primary.",
        ..REPLICAOF
    },
    Command {
        name: "slaveof",
        since: "1.0.0",
        summary: "Sets a server as a replica of another, or promotes it to being a primary.",
        deprecated: Some(("5.0.0", "`REPLICAOF`")),
        ..REPLICAOF
    },
];

fn replicaof(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if cx.engine.is_clustered() {
        return Err(Error::ReplicaofInCluster);
    }
    let status = cx.engine.replication();
    if status.failover.lock().state() != FailoverState::None {
        return Err(Error::FailingOver);
    }
    let primary = if args.is(1, "no") && args.is(2, "one") {
        None
    } else {
        let port = args.int(2).ok().and_then(|port| u16::try_from(port).ok()).ok_or(Error::InvalidPrimaryPort)?;
        Some(PrimaryAddress { host: args[1].to_vec(), port })
    };
    let present = status.primary();
    let is_same = match (&present, &primary) {
        (Some(present), Some(wanted)) => present.port == wanted.port && present.host.eq_ignore_ascii_case(&wanted.host),
        (None, None) => {
            cx.reply.ok();
            return Ok(());
        }
        _ => false,
    };
    if is_same {
        cx.engine.host().notice(
            "REPLICAOF would result into synchronization with the primary we are already connected with. No operation performed.",
        );
        cx.reply.simple("OK Already connected to specified master");
        return Ok(());
    }
    let user = described(cx.engine, &cx.session.info, cx.now_ms());
    match primary {
        Some(primary) if present.is_none() => {
            let text = notice(Some(&primary), &user);
            let order = demote::begin(cx, Target { host: primary.host, port: primary.port });
            let mut work = demote::Await::new(order, text);
            if !work.step(cx) {
                cx.flow = Flow::more(work);
            }
        }
        primary => {
            let is_within = cx.keys.reaches_all();
            let mut work = Replicaof { primary, user, tries: is_within.then_some(TRIES), settle: None };
            if !work.step(cx) {
                cx.flow = Flow::more(work);
            }
        }
    }
    Ok(())
}

fn notice(primary: Option<&PrimaryAddress>, user: &str) -> String {
    match primary {
        None => format!("PRIMARY MODE enabled (user request from '{user}')"),
        Some(PrimaryAddress { host, port }) => {
            let host = String::from_utf8_lossy(host);
            format!("REPLICAOF {host}:{port} enabled (user request from '{user}')")
        }
    }
}

/// Tries of a transaction to take the lock under which the stream is applied.
const TRIES: u32 = 64;

/// Makes a replica follow another server, or none. Waits until nothing of the former primary's is being applied.
struct Replicaof {
    primary: Option<PrimaryAddress>,
    user: String,
    /// Remaining tries of a transaction.
    tries: Option<u32>,
    /// Wait for older commands, once the primary has changed.
    settle: Option<Settle>,
}

impl Replicaof {
    /// Changes the primary. False: the stream is being applied, and the caller retries.
    ///
    /// A transaction without the lock began on a primary, and another client has made that a replica since. Its link
    /// may wait for the transaction's locks. So the wait for the link ends, and the other client's order is as good as
    /// given right after this one.
    fn change(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(applying) = cx.applying.take() else {
            let is_last = self.tries.as_mut().is_some_and(|tries| {
                *tries -= 1;
                *tries == 0
            });
            return follow(cx.engine, self.primary.clone(), Waits::End) || is_last;
        };
        follow_locked(cx.engine, &applying, self.primary.clone(), Waits::End);
        // A primary applies no stream: another thread makes it a replica again, under the lock.
        cx.applying = self.primary.is_some().then_some(applying);
        true
    }
}

impl Resumable for Replicaof {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        if self.settle.is_none() {
            if !self.change(cx) {
                return false;
            }
            cx.engine.host().notice(&notice(self.primary.as_ref(), &self.user));
        }
        self.settle.get_or_insert_with(Settle::new).step(cx)
    }

    fn outlasts_rights(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::replication::follow::refresh;
    use crate::testing::Client;

    #[test]
    fn a_server_follows_another_one_until_it_is_told_to_lead() {
        let mut client = Client::new();
        client.is("REPLICAOF no one", "+OK").is("REPLICAOF host x", "-ERR Invalid master port");
        client.is("REPLICAOF host 65536", "-ERR Invalid master port").is("SET k v", "+OK");
        let old = client.engine().replication().history();
        client.is("REPLICAOF host 6380", "+OK").is("GET k", "v");
        client.is("SLAVEOF HOST 6380", "+OK Already connected to specified master");
        client
            .is("SET k w", "-READONLY You can't write against a read only replica.")
            .is("CONFIG GET replicaof", "[replicaof host 6380]");
        client.configure("replica-read-only", "no");
        refresh(client.engine(), &client.engine().config().snapshot());
        client.is("SET k w", "+OK");
        client.configure("replica-serve-stale-data", "no");
        refresh(client.engine(), &client.engine().config().snapshot());
        client.is("GET k", "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");
        client.is("REPLICAOF NO ONE", "+OK").is("GET k", "w").is("CONFIG GET replicaof", "[replicaof ]");
        let new = client.engine().replication().history();
        assert!(new.second == old.id && new.id != old.id && new.second_offset == 1);
    }

    #[test]
    fn nothing_expires_on_a_replica_and_nobody_sees_what_has() {
        let mut client = Client::new();
        client.is("SET k v PX 10", "+OK").is("REPLICAOF host 1", "+OK").later(20).is("GET k", "nil").is("DBSIZE", ":1");
        client.is("REPLICAOF NO ONE", "+OK").is("GET k", "nil").is("DBSIZE", ":0");
    }
}
