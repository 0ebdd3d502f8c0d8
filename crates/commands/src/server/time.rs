//! TIME.

use crate::core::args::Args;
use crate::core::command::{Command, FAST, Group, LOADING, STALE};
use crate::core::context::Context;
use engine::Error;

pub const COMMANDS: &[Command] = &[Command {
    name: "time",
    group: Group::Server,
    since: "2.6.0",
    arity: 1,
    flags: LOADING.and(STALE).and(FAST),
    summary: "Returns the server time.",
    complexity: "O(1)",
    tips: &["nondeterministic_output"],
    run: time,
    ..Command::DEFAULT
}];

/// Replies Unix time: seconds, and the microseconds of the present one. The time stands still in a script until that is
/// slow, so that a script which waits for a moment ends.
fn time(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let now = if cx.engine.scripts().is_busy() { cx.engine.host().unix_us(cx.now.unix_us) } else { cx.now.unix_us };
    cx.reply.array(2);
    cx.reply.bulk_int(now.0.div_euclid(1_000_000));
    cx.reply.bulk_int(now.0.rem_euclid(1_000_000));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Client;

    #[test]
    fn time_has_two_parts() {
        let mut client = Client::new();
        client.later(1234).is("TIME", "[1700000001 234000]");
    }
}
