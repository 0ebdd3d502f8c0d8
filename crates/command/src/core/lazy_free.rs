//! Frees the memory that a command leaves: in the background, or before its reply, by the `lazyfree-lazy-*` directives.

use crate::core::command::Command;
use crate::core::context::{Context, Flow, Piecewise};
use engine::Engine;
use engine::config::Directive;
use engine::propagation::effects::{Effects, Garbage};

/// Sorts the command's garbage by the reason of its removal.
pub(crate) fn settle(engine: &Engine, command: &Command, effects: &mut Effects) {
    if effects.seen().is_none() {
        return;
    }
    let is_lazy = |directive| engine.config().snapshot().flag(directive);
    let own = || command.lazy_free.is_none_or(is_lazy);
    effects.settle(|| is_lazy(Directive::LAZYFREE_LAZY_EXPIRE), own);
}

/// Delays the reply, which begins at `start`, until all this is freed; others are served in between.
#[cold]
pub(crate) fn before_reply(cx: &mut Context<'_>, garbage: Vec<Garbage>, start: usize) {
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

impl Piecewise for Freeing {
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

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn the_reply_follows_when_all_is_freed_that_is_not_to_be_freed_later() {
        let members = (0..5000).map(|n| format!("m{n}")).collect::<Vec<_>>().join(" ");
        for (directive, line, reply) in [
            ("lazyfree-lazy-user-del", "DEL k other", ":1"),
            ("lazyfree-lazy-server-del", "SET k v", "+OK"),
            ("lazyfree-lazy-server-del", "SUNIONSTORE k none", ":0"),
            ("lazyfree-lazy-expire", "GET k", "nil"),
        ] {
            let mut client = Client::new();
            let fill = |client: &mut Client| {
                client.run("UNLINK k");
                assert_eq!(client.run(&format!("SADD k {members}")), ":5000");
                client.is("PEXPIRE k 10", ":1");
                if line == "GET k" {
                    client.later(20);
                }
            };
            fill(&mut client);
            client.is(line, reply);
            client.configure(directive, "no");
            fill(&mut client);
            let words: Vec<&str> = line.split(' ').collect();
            let mut begun = client.begin(&words);
            let steps = (1..).take_while(|_| !begun.step()).count();
            assert!(steps >= 4, "{line}: {steps}");
            fill(&mut client);
            client.is("MULTI", "+OK").is(line, "+QUEUED").is("EXEC", &format!("[{reply}]"));
        }
    }
}
