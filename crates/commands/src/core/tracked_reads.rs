//! What a command has read is remembered for a client that tracks it (client-side caching).

use crate::core::args::Args;
use crate::core::command::{CommandEntry, PUBSUB, READONLY, RUNS_SCRIPTS};
use crate::core::context::Context;
use crate::core::session::Session;
use engine::clients::tracking::TrackingMode;
use engine::data::key_hash::KeyHash;
use engine::keyspace::keys::Key;

/// A command has run whose keys are at these arguments: the client that tracks has read them, if that is what it did.
#[cold]
pub(crate) fn remember(cx: &mut Context<'_>, args: &Args<'_>, keys: &[(usize, KeyHash)]) {
    let Some(tracker) = cx.session.tracker.clone() else { return };
    // What a script reads is remembered by the commands that it calls.
    if !cx.command.flags.has(READONLY) || cx.command.flags.has(PUBSUB) || cx.command.flags.has(RUNS_SCRIPTS) {
        return;
    }
    let wanted = match tracker.mode {
        TrackingMode::Reads => true,
        TrackingMode::OptIn => cx.session.caching,
        TrackingMode::OptOut => !cx.session.caching,
        TrackingMode::Broadcast => false,
    };
    if !wanted {
        return;
    }
    for (index, hash) in keys {
        let key = Key { name: &args[*index], hash: *hash };
        if let Ok(true) = cx.keys.with_shard_of(key, |shard, _| shard.tracked.remember(key.name, tracker.client.id)) {
            cx.engine.tracking().count_key();
        }
    }
    trim_afterwards(cx);
}

/// Has keys forgotten when the command has ended, if there are too many.
pub(crate) fn trim_afterwards(cx: &mut Context<'_>) {
    if cx.engine.tracking().is_over() {
        // What is left to be done is looked at when there is something only.
        cx.keys.effects.rare();
    }
}

/// What CLIENT CACHING said was for one command, or one transaction; other subcommands of CLIENT do not count.
#[cold]
pub(crate) fn end_caching(session: &mut Session, entry: &CommandEntry) {
    if session.multi.is_none() && !entry.keeps_caching {
        session.caching = false;
    }
}
