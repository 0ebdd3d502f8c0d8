//! What the server leaves behind when it cannot go on: a report in the log, after which the process ends.
//!
//! ```text
//! === CINNABAR BUG REPORT START: Cut & paste starting from here ===
//! 1234:M 21 Nov 2026 05:26:01.123 # Cinnabar 0.1.0 crashed by signal: 6
//! ------ STACK TRACE ------          the failed thread's stack, and what every thread is at
//! ------ STACK TRACE DONE ------
//! ------ INFO OUTPUT ------
//! ------ CLIENT LIST OUTPUT ------
//! === CINNABAR BUG REPORT END ...
//! ```
//!
//! A panic anywhere ends the process: a worker that goes missing would leave its clients without answers and its locks
//! in an unknown state. INFO and CLIENT LIST need locks that the failed thread may hold, so another thread asks for them
//! and is waited for only so long.

use crate::clock;
use crate::log;
use crate::shared::Shared;
use commands::version::CINNABAR;
use commands::{Session, dispatch};
use engine::config::Directive;
use resp::{Protocol, Reply};
use std::backtrace::Backtrace;
use std::fmt::Write;
use std::fs;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::thread;
use std::time::Duration;

/// How long the report waits for what needs the engine's locks.
const PATIENCE: Duration = Duration::from_secs(2);

static SERVER: OnceLock<Weak<Shared>> = OnceLock::new();
/// A report is being written: what fails meanwhile gets none.
static REPORTING: AtomicBool = AtomicBool::new(false);

/// From now on a panic is reported and ends the process.
pub fn catch_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let stack = Backtrace::force_capture().to_string();
        let name = thread::current().name().unwrap_or("unnamed").to_owned();
        let cause = format!("Guru Meditation: thread '{name}' panicked at {}: {}", place(panic), message(panic));
        end(&format!("{cause}\n=== ASSERTION FAILED ==="), &stack);
    }));
}

/// Tells the reports of the server, once it runs.
pub fn watch(shared: &Arc<Shared>) {
    // A second server in the process would be a test's.
    let _ = SERVER.set(Arc::downgrade(shared));
}

fn place(panic: &PanicHookInfo<'_>) -> String {
    panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string)
}

fn message(panic: &PanicHookInfo<'_>) -> String {
    panic.payload_as_str().unwrap_or("no message").to_owned()
}

/// Reports and ends the process.
fn end(cause: &str, stack: &str) -> ! {
    let server = SERVER.get().and_then(Weak::upgrade);
    let config = server.as_ref().map(|server| server.engine.config().snapshot());
    let wanted = config.as_ref().is_none_or(|config| config.flag(Directive::CrashLogEnabled));
    if REPORTING.swap(true, SeqCst) {
        // The thread that reports ends the process.
        thread::sleep(PATIENCE * 2);
    } else if wanted {
        report(cause, stack, server);
    } else {
        log::warning(cause);
    }
    match config.is_some_and(|config| config.flag(Directive::UseExitOnPanic)) {
        true => std::process::exit(1),
        false => std::process::abort(),
    }
}

fn report(cause: &str, stack: &str, server: Option<Arc<Shared>>) {
    log::raw("\n\n=== CINNABAR BUG REPORT START: Cut & paste starting from here ===\n");
    log::warning(format_args!("Cinnabar {CINNABAR}: {cause}"));
    log::raw(&format!("\n------ STACK TRACE ------\n{stack}\n{}------ STACK TRACE DONE ------\n", threads()));
    for (title, command) in [("INFO", ["INFO", "everything"]), ("CLIENT LIST", ["CLIENT", "LIST"])] {
        if let Some(answer) = server.as_ref().and_then(|server| ask(server, command)) {
            log::raw(&format!("\n------ {title} OUTPUT ------\n{answer}"));
        }
    }
    log::raw("\n=== CINNABAR BUG REPORT END. Make sure to include from START to END. ===\n\n");
}

/// Every thread: its number, name, state, and where it waits in the kernel.
fn threads() -> String {
    let mut text = String::new();
    for entry in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let status = read("status");
        let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default().trim();
        let (number, name, wait) = (entry.file_name(), read("comm"), read("wchan"));
        let line = writeln!(text, "{} {}: {state} {wait}", number.to_string_lossy(), name.trim_end());
        line.expect("a String takes everything");
    }
    text
}

/// What the server answers to a command, if it does so in time.
fn ask(server: &Arc<Shared>, command: [&'static str; 2]) -> Option<String> {
    let (sender, answer) = mpsc::channel();
    let server = Arc::clone(server);
    let asked = thread::Builder::new().name("crash-report".to_owned()).spawn(move || {
        let mut reply = Reply::new(Vec::new(), Protocol::Resp2);
        let mut session = Session::local();
        dispatch::execute(&server.engine, &mut session, &mut command[..].into(), clock::now(), &mut reply);
        // Who asked may have given up.
        let _ = sender.send(String::from_utf8_lossy(reply.as_slice()).into_owned());
    });
    asked.ok()?;
    answer.recv_timeout(PATIENCE).ok()
}
