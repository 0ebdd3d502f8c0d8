//! PSYNC and SYNC: the connection becomes a replica's, and moves to another thread.

use crate::core::args::Args;
use crate::core::command::{ADMIN, Command, Group, NO_ASYNC_LOADING, NO_MULTI, NO_SCRIPT};
use crate::core::context::{Context, Flow};
use crate::replication::failover_command;
use engine::status::replication_status::LinkState;
use engine::{Error, Word};
use replication::failover_state::FailoverState;
use replication::replica_handshake::SyncRequest;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "psync",
        group: Group::Server,
        since: "2.8.0",
        arity: -3,
        flags: ADMIN.and(NO_ASYNC_LOADING).and(NO_MULTI).and(NO_SCRIPT),
        syntax: "replicationid offset:int",
        summary: "An internal command used in replication.",
        run: psync,
        ..Command::DEFAULT
    },
    Command {
        name: "sync",
        group: Group::Server,
        since: "1.0.0",
        arity: 1,
        flags: ADMIN.and(NO_ASYNC_LOADING).and(NO_MULTI).and(NO_SCRIPT),
        summary: "An internal command used in replication.",
        run: sync,
        ..Command::DEFAULT
    },
];

fn psync(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let offset = args.int(2).inspect_err(|_| {
        let name = cx.session.handshake.as_deref().cloned().unwrap_or_default().name(&cx.session.info.addr);
        cx.engine.host().notice(&format!("Replica {name} asks for synchronization but with a wrong offset"));
    })?;
    if args.get(3).is_some_and(|word| word.eq_ignore_ascii_case(b"failover")) {
        failover_command::take_over(cx, &args[1], offset)?;
    }
    let asked = Some((args[1].to_vec(), offset));
    hand_over(cx, asked)
}

fn sync(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    hand_over(cx, None)
}

fn hand_over(cx: &mut Context<'_>, asked: Option<(Vec<u8>, i64)>) -> Result<(), Error> {
    let status = cx.engine.replication();
    if status.failover.lock().state() != FailoverState::None {
        return Err(Error::SyncFailingOver);
    }
    if status.is_replica() && status.link().state != LinkState::Connected {
        return Err(Error::SyncWithoutLink);
    }
    let handshake = cx.session.handshake.as_deref().cloned().unwrap_or_default();
    if (handshake.without_data || handshake.without_functions) && !handshake.eof {
        return Err(Error::Verbatim(Word::of("ERR Filtered replica requires EOF capability")));
    }
    cx.session.info.go_on_with(if asked.is_some() { "psync" } else { "sync" });
    cx.session.sync = Some(Box::new(SyncRequest { handshake, asked }));
    cx.flow = Flow::Replicate;
    Ok(())
}
