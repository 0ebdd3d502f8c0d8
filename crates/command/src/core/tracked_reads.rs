//! Remembers the keys that a command has read, for a client that tracks them (client-side caching).

use crate::core::args::Args;
use crate::core::command::{CommandEntry, PUBSUB, READONLY, RUNS_SCRIPTS};
use crate::core::context::Context;
use crate::core::session::Session;
use engine::clients::tracking::TrackingMode;
use engine::data::key_hash::KeyHash;
use engine::keyspace::keys::Key;

/// Remembers the keys at these arguments of a command that has run, for a tracking client, if the command has read
/// them.
#[cold]
pub fn remember(cx: &mut Context<'_>, args: &Args<'_>, keys: &[(usize, KeyHash)]) {
    let Some(tracker) = cx.session.tracker.clone() else { return };
    // The commands that a script calls remember its reads.
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
        if let Ok(true) =
            cx.keys.with_shard_of(key, |shard, _| shard.listeners.tracked.remember(key.name, tracker.client.id))
        {
            cx.engine.tracking().count_key();
        }
    }
    trim_afterwards(cx);
}

/// Makes keys be forgotten when the command has ended, if there are too many.
pub fn trim_afterwards(cx: &mut Context<'_>) {
    if cx.engine.tracking().is_over() {
        // The remaining effects are looked at only if there are any.
        cx.keys.effects.rare();
    }
}

/// Ends CLIENT CACHING, which was for one command, or one transaction; other subcommands of CLIENT do not count.
#[cold]
pub fn end_caching(session: &mut Session, entry: &CommandEntry) {
    if session.multi.is_none() && !entry.keeps_caching {
        session.caching = false;
    }
}
