//! Frees the memory that a command leaves: in the background, or before its reply, by the `lazyfree-lazy-*` directives.

use crate::core::command::Command;
use crate::core::context::{Context, Flow, Resumable};
use engine::Engine;
use engine::config::Directive;
use engine::propagation::effects::{Effects, Garbage};

/// Sorts the command's garbage by the reason of its removal.
pub fn settle(engine: &Engine, command: &Command, effects: &mut Effects) {
    if effects.seen().is_none() {
        return;
    }
    let is_lazy = |directive| engine.config().snapshot().flag(directive);
    let own = || command.lazy_free.is_none_or(is_lazy);
    effects.settle(|| is_lazy(Directive::LAZYFREE_LAZY_EXPIRE), own);
}

/// Delays the reply, which begins at `start`, until all this is freed; others are served in between.
#[cold]
pub fn before_reply(cx: &mut Context<'_>, garbage: Vec<Garbage>, start: usize) {
    if matches!(cx.flow, Flow::Next) {
        let reply = cx.reply.as_slice()[start..].to_vec();
        cx.reply.truncate(start);
        cx.flow = Flow::more(Freeing { garbage, reply });
    }
}

struct Freeing {
    garbage: Vec<Garbage>,
    reply: Vec<u8>,
}

/// Pieces that are freed in one step: some hundred microseconds' worth.
const FREED_AT_ONCE: usize = 1000;

impl Resumable for Freeing {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        self.garbage.pop_if(|last| last.drain_step(FREED_AT_ONCE));
        let done = self.garbage.is_empty();
        if done {
            cx.reply.raw(&self.reply);
        }
        done
    }

    fn outlasts_rights(&self) -> bool {
        true
    }
}
