//! SHUTDOWN.

use crate::core::args::Args;
use crate::core::busy_script;
use crate::core::client_line::described;
use crate::core::command::{ADMIN, ALLOW_BUSY, Command, Group, LOADING, NO_MULTI, NO_SCRIPT, STALE};
use crate::core::context::{Context, Flow};
use crate::persistence::prepare_shutdown::{End, HowToEnd, LastSave};
use engine::config::Directive;
use engine::{Engine, Error};

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

fn shutdown(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let given = |word: &str| (1..args.len()).any(|index| args.is(index, word));
    const KNOWN: [&str; 7] = ["nosave", "save", "now", "force", "safe", "failover", "abort"];
    let known = |index: usize| KNOWN.iter().any(|word| args.is(index, word));
    // ABORT may be given twice.
    let is_only_abort = (1..args.len()).all(|index| args.is(index, "abort"));
    if !(1..args.len()).all(known) || given("save") && given("nosave") || given("abort") && !is_only_abort {
        return Err(Error::Syntax);
    }
    if given("failover") && !cx.engine.is_clustered() {
        return Err(Error::ShutdownFailover);
    }
    let engine = cx.engine;
    if given("abort") {
        let status = engine.persistence_status();
        if !status.shutdown.abort() && !status.settle_end() {
            return Err(Error::NoShutdown);
        }
        engine.host().notice("Shutdown manually aborted.");
        cx.reply.ok();
        return Ok(());
    }
    cx.must_be_alone("shutdown")?;
    let saves = match (given("save"), given("nosave")) {
        (true, _) => LastSave::Always,
        (_, true) => LastSave::Never,
        _ => LastSave::Usual,
    };
    if saves != LastSave::Never && engine.scripts().is_busy() {
        return Err(busy_script::busy(engine));
    }
    let how = HowToEnd {
        saves,
        is_now: given("now"),
        is_forced: given("force"),
        is_safe: given("safe"),
        hands_over: given("failover"),
    };
    let caller = described(engine, &cx.session.info, cx.now_ms());
    let end = End::join(engine);
    if saves == LastSave::Never && matches!(end, End::Awaited(_)) && engine.scripts().is_busy() {
        engine.persistence_status().shutdown.give_up_save();
    }
    if end.waits(engine, how) {
        return end_elsewhere(cx, args, end, how, caller).inspect_err(|_| end.fail(engine));
    }
    if !end.perform(engine, how, Some(&caller)) {
        return Err(Error::ShutdownFailed);
    }
    cx.flow = Flow::Shutdown;
    Ok(())
}

/// Makes the client wait, and another thread perform the end.
fn end_elsewhere(cx: &mut Context<'_>, args: &Args<'_>, end: End, how: HowToEnd, caller: String) -> Result<(), Error> {
    let waiting = cx.wait_elsewhere(args).ok_or(Error::ShutdownFailed)?;
    let work = move |engine: &Engine| match end.perform(engine, how, Some(&caller)) {
        true => engine.host().stop(),
        false => waiting.end(engine, Err(Error::ShutdownFailed)),
    };
    if let Err(error) = cx.engine.host().in_background(Directive::SERVER_CPULIST, Box::new(work)) {
        cx.engine.host().log(&format!("Can't start a thread to end the server: {error}"));
        cx.wait_no_more();
        return Err(Error::ShutdownFailed);
    }
    Ok(())
}
