//! The slot of a script's keys in a cluster.

use crate::core::args::Args;
use crate::core::cluster_routing::{self, Routed};
use crate::core::command::{CommandEntry, PUBSUB, WRITE};
use crate::core::context::Context;
use crate::core::key_spec::key_indices;
use engine::data::key_hash::KeyHash;
use engine::{Error, Word};

/// The slot of all keys of a script, once one is known.
pub(super) struct ScriptSlot {
    slot: Option<u16>,
    /// The script declares that it uses several slots, or declares no flags, as old scripts do.
    may_cross: bool,
}

impl ScriptSlot {
    /// Returns the slot of a script with these keys.
    pub fn of(keys: &[(usize, KeyHash)], may_cross: bool) -> ScriptSlot {
        ScriptSlot { slot: keys.first().map(|(_, hash)| hash.slot()), may_cross }
    }

    /// Whether a command that the script calls may run on this node. Its keys' locks are held.
    pub fn admit(&mut self, cx: &mut Context<'_>, entry: &CommandEntry, args: &Args<'_>) -> Result<(), Error> {
        let command = entry.command;
        let (writes, publishes) = (command.flags.has(WRITE), command.flags.has(PUBSUB));
        let is_here = cluster_routing::route(cx.engine, cx.session, Routed { command, args, writes, publishes })
            .and_then(|()| {
                if cx.session.open_slot.is_none() {
                    return Ok(());
                }
                let (hasher, indices) = (cx.engine.hasher(), key_indices(entry, args).unwrap_or_default());
                let keys: Vec<_> = indices.into_iter().map(|index| (index, hasher.hash(&args[index]))).collect();
                cluster_routing::look_at_keys(cx, &keys, args)
            });
        is_here.map_err(|error| match error {
            Error::ClusterReadsOnly => Error::ScriptClusterReadsOnly(Word::of(&*entry.full_name)),
            Error::ClusterDown => Error::ScriptClusterDown(Word::of(&*entry.full_name)),
            _ => Error::ScriptNotLocal,
        })?;
        let slot = cluster_routing::slot_of_call(command, args).unwrap_or_default();
        if let Some(slot) = slot.filter(|_| !self.may_cross)
            && *self.slot.get_or_insert(slot) != slot
        {
            return Err(Error::ScriptCrossSlot);
        }
        Ok(())
    }
}
