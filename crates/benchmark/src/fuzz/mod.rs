//! `--fuzz`: random commands, made of the documentation that the server itself gives of them.
//!
//! ```text
//!   COMMAND DOCS, CONFIG GET, ACL CAT -> docs_reader.rs: trees of arguments
//!   one thread a client:  command_maker.rs: a command of random words -> spoiler.rs: spoiled, perhaps
//!                         fuzz_client.rs: send, read the reply, count it; connect again where the server closes
//!   this thread:          progress each second, and the sum of all at the end
//! ```
//!
//! Commands that end the server, empty or save its data, or make it another's replica are left out; so are those whose
//! replies never come. Replies that say that a command's words do not fit together count as errors, others as success:
//! a wrong type or a missing group is what random commands are for. Bytes that are no reply end the run.
//!
//! Texts are valkey-benchmark's.

mod command_maker;
mod docs_reader;
mod fuzz_client;
mod fuzz_log;
pub mod fuzz_options;
mod spoiler;

use crate::options::{Extent, Options};
use crate::setup;
use command_maker::Vocabulary;
use fuzz_client::{FuzzClient, Outcome};
use fuzz_log::FuzzLog;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Counts of all clients.
#[derive(Debug, Default)]
struct Tally {
    sent: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    malformed: AtomicU64,
    /// A reply was malformed: all clients end.
    is_over: AtomicBool,
}

/// Time between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Runs random commands; the status is the number of clients that failed.
///
/// # Errors
///
/// A server that cannot be asked for its commands.
pub fn run(options: &Options, seed: u64) -> Result<ExitCode, String> {
    let log = FuzzLog::new(options.fuzz.level);
    setup::ask_configuration(options)?;
    if options.csv {
        println!("{}", crate::report::CSV_HEADER);
    }
    if let Some(word) = &options.fuzz.unknown_level {
        log.info(format_args!("Invalid log level '{word}', using default 'info'"));
    }
    log.debug(format_args!("[thread 0] Connecting to {}...", place(options)));
    let vocabulary = Vocabulary::ask(options)?;
    log.debug(format_args!("[Thread 0] Connected successfully"));
    let clients = options.clients;
    let total = match options.extent {
        Extent::Requests(total) => total,
        Extent::Duration(_) => 100_000,
    };
    let each = (total / clients as u64).max(1);
    println!("Running fuzzer with {clients} clients, {each} commands per client ({total} total commands)");
    let tally = Tally::default();
    let failed = thread::scope(|scope| {
        let (ended, has_ended) = mpsc::channel();
        let threads: Vec<_> = (0..clients)
            .map(|number| {
                let (vocabulary, tally, ended) = (&vocabulary, &tally, ended.clone());
                scope.spawn(move || {
                    log.debug(format_args!("Thread {} started...", number + 1));
                    let outcome = FuzzClient::new(options, vocabulary, tally, log, number, seed).run(each);
                    // The receiver lives as long as the scope.
                    let _ = ended.send(());
                    outcome
                })
            })
            .collect();
        show_progress(&tally, total, clients, &has_ended);
        let outcomes = threads.into_iter().map(|thread| thread.join().unwrap_or(Outcome::Failed));
        outcomes
            .enumerate()
            .filter(|(number, outcome)| {
                let code = if *outcome == Outcome::Ended { 0 } else { -1 };
                log.debug(format_args!("Thread {} completed with exit code {code}", number + 1));
                code != 0
            })
            .count()
    });
    if tally.is_over.load(Relaxed) {
        println!("FUZZING ABORTED: Malformed reply detected");
    }
    log.info(format_args!("All client threads completed. {} succeeded, {failed} failed.", clients - failed));
    conclude(&tally, log);
    Ok(ExitCode::from(u8::try_from(failed).unwrap_or(u8::MAX)))
}

/// Shows how far the clients are, until all have ended.
fn show_progress(tally: &Tally, total: u64, clients: usize, has_ended: &mpsc::Receiver<()>) {
    let (mut left, mut seconds) = (clients, 0u32);
    let begun = std::time::Instant::now();
    while left > 0 {
        let due = PROGRESS_EVERY * (seconds + 1);
        match has_ended.recv_timeout(due.saturating_sub(begun.elapsed())) {
            Ok(()) => left -= 1,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                seconds += 1;
                let sent = tally.sent.load(Relaxed);
                let (share, rate) = (sent as f64 * 100.0 / total.max(1) as f64, sent as f64 / f64::from(seconds));
                print!("\rProgress: {sent}/{total} commands ({share:.1}%), {rate:.1} rps");
                // A line of progress that cannot be shown is no loss.
                let _ = std::io::stdout().flush();
            }
        }
    }
    println!();
}

fn conclude(tally: &Tally, log: FuzzLog) {
    let [sent, succeeded, failed, malformed] =
        [&tally.sent, &tally.succeeded, &tally.failed, &tally.malformed].map(|count| count.load(Relaxed));
    log.info(format_args!("=== FINAL STATISTICS ==="));
    log.info(format_args!("Total commands sent: {sent}"));
    log.info(format_args!("Success replies: {succeeded}"));
    log.info(format_args!("Error replies: {failed}"));
    log.info(format_args!("Malformed replies: {malformed}"));
    log.info(format_args!("Total errors: {failed}"));
    if sent > 0 {
        log.info(format_args!("Success rate: {:.2}%", succeeded as f64 * 100.0 / sent as f64));
    }
    if failed > 0 {
        log.info(format_args!("To see full error details, run with --fuzz-loglevel debug"));
    }
}

/// Returns the server's address as the log names it.
fn place(options: &Options) -> String {
    format!("{}{}", options.target, if options.tls.enabled { " (TLS)" } else { "" })
}
