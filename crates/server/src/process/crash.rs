//! The report of a crash: the server writes it to the log when it cannot continue, after which the process ends.
//!
//! ```text
//! === CINNABAR BUG REPORT START: Cut & paste starting from here ===
//! 1234:M 21 Nov 2026 05:26:01.123 # Cinnabar 0.1.0 crashed by signal: 6
//! ------ STACK TRACE ------          a panic's stack; every thread, with its work and its stack
//! ------ STACK TRACE DONE ------
//! ------ REGISTERS ------            of the failed thread, after a signal
//! ------ INFO OUTPUT ------
//! ------ CLIENT LIST OUTPUT ------
//! ------ CURRENT CLIENT INFO ------  the client of the failed thread, and the arguments of its command
//! ------ EXECUTING CLIENT INFO ----- the same, with the command that a transaction or a script of it runs
//! ------ MODULES INFO OUTPUT ------
//! ------ CONFIG DEBUG OUTPUT ------  directives that are not the default
//! ------ FAST MEMORY TEST ------     pages that do not keep what is written there
//! === CINNABAR BUG REPORT END ...
//! ```
//!
//! A panic anywhere ends the process: a worker that goes missing would leave its clients without answers and its locks
//! in an unknown state. INFO and CLIENT LIST need locks that the failed thread may hold, so another thread asks for
//! them, and the wait for it is limited.
//!
//! A fatal signal is reported by a thread that waits for it ([`fatal_signals`]), while the failed thread sleeps. Beside
//! each thread stands its state in the system and, for a worker, the latest command of the client that it served last,
//! followed by its [stack](thread_stacks). [Arguments](running_args) are read from the memory of the process.

use crate::process::fatal_signals;
use crate::process::fault::Fault;
use crate::process::memory_check::{self, Outcome};
use crate::process::running_args::{Memory, Words};
use crate::process::thread_stacks;
use crate::system::allocator;
use crate::system::clock;
use crate::system::log;
use crate::workers::shared::Shared;
use commands::Session;
use commands::core::client_line::described;
use commands::core::command::CommandEntry;
use commands::core::command_table::CommandTable;
use commands::core::dispatch;
use commands::version::CINNABAR;
use engine::clients::registry::ClientInfo;
use engine::config::{Config, Directive, is_sensitive};
use engine::per_worker::WORKERS_MAX;
use resp::reply_value::{Decoder, Value};
use resp::{Protocol, Reply};
use signal_hook::consts::{SIGABRT, SIGALRM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::backtrace::Backtrace;
use std::fs;
use std::io;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Once, OnceLock, Weak, mpsc};
use std::thread;
use std::time::Duration;

/// Time that the report waits for text that needs the engine's locks.
const PATIENCE: Duration = Duration::from_secs(2);
const INFO: [&str; 2] = ["INFO", "everything"];

static SERVER: OnceLock<Weak<Shared>> = OnceLock::new();
/// Whether a report is being written: a failure meanwhile gets none.
static REPORTING: AtomicBool = AtomicBool::new(false);

/// Has panics reported from now on; a panic ends the process.
pub fn catch_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let stack = Backtrace::force_capture().to_string();
        let name = thread::current().name().unwrap_or("unnamed").to_owned();
        let cause = format!("=== ASSERTION FAILED === thread '{name}' at {}: {}", place(panic), message(panic));
        end(&Failure { cause, stack, thread: name, registers: String::new() }, SIGABRT);
    }));
}

/// Gives the reports the server, once it runs, and begins to wait for fatal signals.
pub fn watch(shared: &Arc<Shared>) -> io::Result<()> {
    // A second server in the process would be a test's.
    let _ = SERVER.set(Arc::downgrade(shared));
    set_watchdog(&shared.engine.config().snapshot());
    thread_stacks::watch()?;
    fatal_signals::watch(crashed)?;
    let mut signals = Signals::new([SIGALRM])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        signals.forever().for_each(|_| log_threads("Received SIGALRM"));
    })?;
    Ok(())
}

/// The end of the process, and what is known of the thread that failed.
struct Failure {
    cause: String,
    stack: String,
    thread: String,
    registers: String,
}

fn crashed(fault: Fault) {
    let name = fs::read_to_string(format!("/proc/self/task/{}/comm", fault.thread())).unwrap_or_default();
    let (cause, stack, registers) = (fault.cause(), String::new(), fault.registers());
    end(&Failure { cause, stack, thread: name.trim_end().to_owned(), registers }, fault.signal());
}

/// Milliseconds after which a worker that does not finish its tick is reported; 0: never.
static PERIOD: AtomicU64 = AtomicU64::new(0);
static WATCHDOG: Once = Once::new();
const PERIOD_MIN: u64 = 200;

/// Follows `watchdog-period`.
pub fn set_watchdog(config: &Config) {
    let period = config.int(Directive::WATCHDOG_PERIOD).max(0).cast_unsigned();
    PERIOD.store(if period == 0 { 0 } else { period.max(PERIOD_MIN) }, Relaxed);
    if period > 0 {
        WATCHDOG.call_once(|| {
            // Without a thread for it there is no watchdog.
            let _ = thread::Builder::new().name("watchdog".to_owned()).spawn(watch_workers);
        });
    }
}

/// Reports workers that are stuck: a worker counts the time of its ticks, also when it has nothing to do, so a count
/// that stands still is a stuck worker's.
fn watch_workers() {
    let mut before: Vec<u64> = Vec::new();
    let mut stuck = false;
    while let Some(server) = SERVER.get().and_then(Weak::upgrade) {
        let period = PERIOD.load(Relaxed);
        if period > 0 {
            let now: Vec<u64> = watched(&server.engine);
            let stands = before.len() == now.len() && before.iter().zip(&now).any(|(before, now)| before == now);
            if stands && !stuck {
                log_threads("WATCHDOG TIMER EXPIRED");
            }
            (before, stuck) = (now, stands);
        } else {
            before.clear();
        }
        drop(server);
        thread::sleep(Duration::from_millis(period.max(PERIOD_MIN)));
    }
}

/// Returns for how long each worker has been busy, without workers on their way out.
fn watched(engine: &engine::Engine) -> Vec<u64> {
    engine.metrics().iter().take(engine.workers()).map(|worker| worker.turn_nanos.get()).collect()
}

fn log_threads(cause: &str) {
    let server = SERVER.get().and_then(Weak::upgrade);
    let line = format!("{}:signal-handler ({})", std::process::id(), clock::now().unix_ms().seconds());
    log::raw(&format!("\n{line} \n--- {cause} ---\n\n------ STACK TRACE ------\n"));
    log_stacks(server.as_deref());
    log::raw(&format!("\n------ STACK TRACE DONE ------\n{line} --------\n"));
}

fn place(panic: &PanicHookInfo<'_>) -> String {
    panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string)
}

fn message(panic: &PanicHookInfo<'_>) -> String {
    panic.payload_as_str().unwrap_or("no message").to_owned()
}

/// Reports, and ends the process as the signal would have: its parent sees the same status.
fn end(failure: &Failure, signal: i32) -> ! {
    let server = SERVER.get().and_then(Weak::upgrade);
    let config = server.as_ref().map(|server| server.engine.config().snapshot());
    let wanted = config.as_ref().is_none_or(|config| config.flag(Directive::CRASH_LOG_ENABLED));
    if REPORTING.swap(true, SeqCst) {
        // The thread that reports ends the process.
        thread::sleep(fatal_signals::PATIENCE);
    } else if wanted {
        fatal_signals::become_reporter();
        report(failure, server);
    } else {
        log::warning(&failure.cause);
    }
    if config.is_some_and(|config| config.flag(Directive::USE_EXIT_ON_PANIC)) {
        std::process::exit(1);
    }
    // A signal that does not allow this ends the process otherwise.
    let _ = emulate_default_handler(signal);
    std::process::abort()
}

fn report(failure: &Failure, server: Option<Arc<Shared>>) {
    let Failure { cause, stack, registers, .. } = failure;
    // The report's own INFO is a command of the first worker, too.
    let running = server.as_deref().and_then(|server| running(server, &failure.thread));
    log::raw("\n\n=== CINNABAR BUG REPORT START: Cut & paste starting from here ===\n");
    let mut lines = cause.lines();
    log::warning(format_args!("Cinnabar {CINNABAR} {}", lines.next().unwrap_or_default()));
    lines.for_each(log::warning);
    log::raw(&format!("\n------ STACK TRACE ------\n{stack}"));
    log_stacks(server.as_deref());
    log::raw("\n------ STACK TRACE DONE ------\n");
    if !registers.is_empty() {
        log::raw(&format!("\n------ REGISTERS ------\n{registers}"));
    }
    if let Some(server) = &server {
        if let Some(answer) = ask(server, info).flatten() {
            log::raw(&format!("\n------ INFO OUTPUT ------\n{answer}"));
        }
        let failed = failure.thread.clone();
        let id = running.as_ref().map(|running| running.client);
        if let Some((all, current)) = ask(server, move |server| clients(server, &failed, id)) {
            log::raw(&format!("\n------ CLIENT LIST OUTPUT ------\n{all}"));
            if let Some(client) = current {
                let Running { args, inner, .. } = running.unwrap_or_default();
                log::raw(&format!("\n------ CURRENT CLIENT INFO ------\n{client}{args}"));
                log::raw(&format!("\n------ EXECUTING CLIENT INFO ------\n{client}{inner}"));
            }
        }
        log::raw("\n------ MODULES INFO OUTPUT ------\n");
        let config = server.engine.config().snapshot();
        log::raw(&format!("\n------ CONFIG DEBUG OUTPUT ------\n{}", changed(&config)));
        let context = String::from_utf8_lossy(config.text(Directive::DEBUG_CONTEXT));
        if !context.is_empty() {
            log::raw(&format!("debug-context {context}\n"));
        }
        if config.flag(Directive::CRASH_MEMCHECK_ENABLED) {
            // The allocator's threads cannot be asked to stand still.
            let _ = ask(server, |_| allocator::give_back_in_background(false));
            log_memory_check();
        }
    }
    log::raw(
        "\n=== CINNABAR BUG REPORT END. Make sure to include from START to END. ===\n\n\
         Please send this report to whoever maintains your copy of Cinnabar.\n\
         To look for bad memory: cinnabar-server --test-memory <megabytes>\n\
         To look at the system's settings: cinnabar-server --check-system\n\n",
    );
}

/// Logs a test of the memory, for which all other threads stand still for a moment.
fn log_memory_check() {
    log::raw("\n------ FAST MEMORY TEST ------\n");
    let text = match memory_check::run(&other_threads()) {
        None => "There was no test: not all threads stood still.\n".to_owned(),
        Some(Outcome { pages, bad: 0, is_cut }) => {
            let rest = if is_cut { ", and others were left out, since it took too long" } else { "" };
            format!(
                "Fast memory test PASSED: {pages} pages keep what is written{rest}. Memory may be bad all the same.\n"
            )
        }
        Some(Outcome { pages, bad, .. }) => format!(
            "!!! MEMORY ERROR DETECTED! {bad} of {pages} pages do not keep what is written. Check your memory ASAP !!!\n"
        ),
    };
    log::raw(&text);
}

/// Returns the threads of the process but the calling one.
fn other_threads() -> Vec<i32> {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    threads(None).into_iter().map(|thread| thread.number).filter(|number| *number != own).collect()
}

/// Returns the directives that differ from their defaults, but for secrets.
fn changed(config: &Config) -> String {
    let usual = Config::default().get(&[b"*"]);
    let differs =
        |(name, value): &(Vec<u8>, Vec<u8>), usual: &(Vec<u8>, Vec<u8>)| value != &usual.1 && !is_sensitive(name);
    let found = config.get(&[b"*"]).into_iter().zip(&usual).filter(|(now, usual)| differs(now, usual));
    found
        .map(|((name, value), _)| [&name[..], b" ", &value, b"\n"].concat())
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .collect()
}

/// Logs a line for every thread but the calling one, and its stack.
fn log_stacks(server: Option<&Shared>) {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let threads = threads(server);
    let others = threads.iter().filter(|thread| thread.number != own && !thread.is_deaf);
    thread_stacks::record(&others.map(|thread| thread.number).collect::<Vec<_>>());
    for Thread { number, line, is_deaf } in threads {
        let stack = match is_deaf {
            true => "no stack: the thread blocks signals\n".to_owned(),
            false if number == own => String::new(),
            false => thread_stacks::stack_of(number),
        };
        log::raw(&format!("\n{line}\n{stack}"));
    }
}

/// A thread of the process.
struct Thread {
    number: i32,
    /// Its number, name, state, place in the kernel, and served client.
    line: String,
    /// Whether it blocks the signal by which it is asked for its stack.
    is_deaf: bool,
}

/// Returns the threads of the process.
fn threads(server: Option<&Shared>) -> Vec<Thread> {
    let mut threads = Vec::new();
    for entry in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let status = read("status");
        let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default().trim();
        let (number, name, wait) = (entry.file_name(), read("comm"), read("wchan"));
        let (number, name) = (number.to_string_lossy(), name.trim_end());
        let served = server.and_then(|server| served(server, name)).unwrap_or_default();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let blocked = blocked.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        let is_deaf = blocked.is_some_and(thread_stacks::is_deaf);
        let line = format!("{number} {name}: {state} {wait}{served}");
        threads.extend(number.parse().map(|number| Thread { number, line, is_deaf }));
    }
    threads
}

/// Returns the latest command of the client that this thread served last.
fn served(server: &Shared, thread: &str) -> Option<String> {
    let client = latest_client(server, thread)?;
    let id = client.last_command.load(Relaxed).checked_sub(1);
    let of = |entry: &&CommandEntry| Some(entry.id) == id || entry.subcommands.iter().any(|sub| Some(sub.id) == id);
    let command = CommandTable::get().iter().find(of).map_or("none", |entry| entry.command.name);
    Some(format!(", last command: {command}, of client {}", client.id))
}

/// Returns the client that the worker with this thread served last.
fn latest_client(server: &Shared, thread: &str) -> Option<Arc<ClientInfo>> {
    let worker = worker_of(thread)?;
    let own = server.engine.clients().all().into_iter().filter(|client| client.worker.load(Relaxed) == worker);
    own.max_by_key(|client| client.active_at.load(Relaxed))
}

/// The command that the failed thread runs.
#[derive(Default)]
struct Running {
    /// The client's number.
    client: u64,
    /// Lines about its arguments, and about those of the command within it, or the same.
    args: String,
    inner: String,
}

/// Returns the command that the failed thread runs, if it is a worker that serves a client.
fn running(server: &Shared, failed: &str) -> Option<Running> {
    let visit = server.engine.metrics()[worker_of(failed)?].running.visit()?;
    let hides = server.engine.config().snapshot().flag(Directive::HIDE_USER_DATA_FROM_LOG);
    let memory = Memory::open()?;
    let lines = |words: Option<Words>| words.map(|words| words.lines(hides));
    let args = lines(visit.args.and_then(|args| Words::of_running(&memory, &args))).unwrap_or_default();
    let inner = lines(visit.inner.and_then(|inner| Words::at(&memory, &inner))).unwrap_or_else(|| args.clone());
    Some(Running { client: visit.client, args, inner })
}

/// Returns the lines of all clients, and of the one that the failed thread works for: the one with this number, or the
/// one that it has served last.
fn clients(server: &Shared, failed: &str, id: Option<u64>) -> (String, Option<String>) {
    let now = clock::now().unix_ms();
    let line = |client: &ClientInfo| described(&server.engine, client, now) + "\n";
    let clients = server.engine.clients().all();
    let served = clients.iter().find(|client| Some(client.id) == id).cloned();
    let current = served.or_else(|| latest_client(server, failed)).map(|client| line(&client));
    (clients.iter().map(|client| line(client)).collect(), current)
}

fn worker_of(thread: &str) -> Option<usize> {
    thread.strip_prefix("worker-")?.parse().ok().filter(|worker| *worker < WORKERS_MAX)
}

/// Returns INFO's text.
fn info(server: &Shared) -> Option<String> {
    let mut reply = Reply::new(Vec::new(), Protocol::Resp2);
    dispatch::execute(&server.engine, &mut Session::of_server(), &mut INFO[..].into(), clock::now(), &mut reply);
    match Decoder::new().decode(reply.as_slice()) {
        Ok(Some((Value::Bulk(text), _))) => Some(String::from_utf8_lossy(&text).into_owned()),
        _ => None,
    }
}

/// Returns the answer of `question`, if it comes in time.
fn ask<A: Send + 'static>(server: &Arc<Shared>, question: impl FnOnce(&Shared) -> A + Send + 'static) -> Option<A> {
    let (sender, answer) = mpsc::channel();
    let server = Arc::clone(server);
    let asked = thread::Builder::new().name("crash-report".to_owned()).spawn(move || {
        // The thread that asked may have given up.
        let _ = sender.send(question(&server));
    });
    asked.ok()?;
    answer.recv_timeout(PATIENCE).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_of_in_the_words_of_the_system() {
        let (ready, is_ready) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = thread::Builder::new().name("lazy-free-7".to_owned()).spawn(move || {
            ready.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
            let _ = stopped.recv();
        });
        let number = is_ready.recv().unwrap();
        let threads = threads(None);
        let line = &threads.iter().find(|thread| thread.number == number.get()).unwrap().line;
        let (named, told) = line.split_once(": ").unwrap();
        assert_eq!(named, format!("{number} lazy-free-7"));
        let words: Vec<&str> = told.split(' ').collect();
        assert!(words.len() == 3 && words[1].starts_with('(') && words[1].ends_with(')'), "{line}");
        drop(stop);
        thread.unwrap().join().unwrap();
    }
}
