//! SHUTDOWN.

use crate::core::args::Args;
use crate::core::command::{ADMIN, ALLOW_BUSY, Command, Group, LOADING, NO_MULTI, NO_SCRIPT, STALE};
use crate::core::context::{Context, Flow};
use crate::persistence::save::{self, Ending};
use engine::Error;

pub(crate) const COMMANDS: &[Command] = &[Command {
    name: "shutdown",
    group: Group::Server,
    arity: -1,
    flags: ADMIN.and(NO_SCRIPT).and(LOADING).and(STALE).and(NO_MULTI).and(ALLOW_BUSY),
    syntax: "[abort-selector: (save-selector-block: [save-selector: NOSAVE | SAVE] [NOW]@7.0.0 [FORCE]@7.0.0 [SAFE]@9.0.0 [FAILOVER]@9.0.0) | ABORT@7.0.0]",
    summary: "Synchronously saves the database(s) to disk and shuts down the server.",
    complexity: "O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)",
    history: &[
        ("7.0.0", "Added the `NOW`, `FORCE` and `ABORT` modifiers."),
        ("9.0.0", "Added the `SAFE` and `FAILOVER` modifiers."),
    ],
    run: shutdown,
    ..Command::DEFAULT
}];

/// There is no cluster to hand over.
fn shutdown(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let given = |word: &str| (1..args.len()).any(|index| args.is(index, word));
    const KNOWN: [&str; 7] = ["nosave", "save", "now", "force", "safe", "failover", "abort"];
    let known = |index: usize| KNOWN.iter().any(|word| args.is(index, word));
    if !(1..args.len()).all(known) || given("save") && given("nosave") || given("abort") && args.len() > 2 {
        return Err(Error::Syntax);
    }
    if given("abort") {
        if !cx.engine.persistence_status().settle_end() {
            return Err(Error::NoShutdown);
        }
        cx.engine.host().notice("Shutdown manually aborted.");
        cx.reply.ok();
        return Ok(());
    }
    cx.must_be_alone("shutdown")?;
    let ending = match (given("save"), given("nosave")) {
        (true, _) => Ending::Save,
        (_, true) => Ending::NoSave,
        _ => Ending::Usual,
    };
    let held = if given("now") { None } else { save::await_replicas(cx.engine) };
    if !save::before_end(cx.engine, ending, given("force")) {
        return Err(Error::ShutdownFailed);
    }
    // Whatever they have written: there is no other way past them.
    cx.engine.scripts().busy().iter().for_each(|running| running.kill());
    // Nobody writes any more.
    std::mem::forget(held);
    cx.flow = Flow::Shutdown;
    Ok(())
}
