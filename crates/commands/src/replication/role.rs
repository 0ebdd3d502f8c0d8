//! ROLE: the primary that the server follows, or its replicas.

use crate::core::args::Args;
use crate::core::command::{Command, FAST, Group, LOADING, NO_SCRIPT, STALE};
use crate::core::context::{Context, Flow, Resumable};
use crate::replication::stream_catch_up::StreamCatchUp;
use engine::Error;
use engine::status::replication_status::LinkState;
use std::sync::atomic::Ordering::Relaxed;

pub const COMMANDS: &[Command] = &[Command {
    name: "role",
    group: Group::Server,
    since: "2.8.12",
    arity: 1,
    flags: NO_SCRIPT.and(LOADING).and(STALE).and(FAST),
    categories: &["admin", "dangerous"],
    summary: "Returns the replication role.",
    complexity: "O(1)",
    run: role,
    ..Command::DEFAULT
}];

fn role(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    match StreamCatchUp::begin(cx) {
        Some(catch_up) => cx.flow = Flow::more(Role(catch_up)),
        None => reply(cx),
    }
    Ok(())
}

/// A ROLE whose offset is not known yet.
struct Role(StreamCatchUp);

impl Resumable for Role {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.0.is_done(cx.engine) {
            return false;
        }
        reply(cx);
        true
    }
}

fn reply(cx: &mut Context<'_>) {
    let status = cx.engine.replication();
    if let Some(primary) = status.primary() {
        let link = status.link();
        cx.reply.array(5);
        cx.reply.bulk(b"slave");
        cx.reply.bulk(&primary.host);
        cx.reply.int(primary.port.into());
        cx.reply.bulk(link.state.as_str().as_bytes());
        cx.reply.int(if link.state == LinkState::Connected { status.offset() as i64 } else { -1 });
        return;
    }
    let replicas: Vec<_> = status.replicas().into_iter().filter(|replica| replica.is_online()).collect();
    cx.reply.array(3);
    cx.reply.bulk(b"master");
    cx.reply.int(status.offset() as i64);
    cx.reply.array(replicas.len());
    for replica in replicas {
        cx.reply.array(3);
        cx.reply.bulk(replica.ip.as_bytes());
        cx.reply.bulk(replica.port.to_string().as_bytes());
        cx.reply.bulk(replica.acked.load(Relaxed).to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn a_primary_without_replicas_says_so() {
        Client::new().is("ROLE", "[master :0 []]");
    }
}
