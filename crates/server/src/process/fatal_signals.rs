//! Fatal signals (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT): how the thread that meets one notifies a thread that can
//! report it.
//!
//! ```text
//!   failed thread, in the signal's handler    fault -> pipe, sleeps
//!   thread "crash"                                     pipe -> report, and the process ends by that signal
//! ```
//!
//! The handler may call only functions that are async-signal-safe, so it does no more than that. It does not sleep for
//! ever: if the report does not come to its end, the signal has its default effect.
//!
//! **Unsafe**, for the promise that the handler keeps to that.
#![allow(unsafe_code)]

use super::fault::{Fault, LEN};
use crash_handler::{CrashContext, CrashEvent, CrashEventResult, CrashHandler};
use signal_hook::consts::SIGTRAP;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// Time that a failed thread waits for a report.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The thread that reports, by its number; 0: none does.
static REPORTER: AtomicI32 = AtomicI32::new(0);
static HANDLER: OnceLock<CrashHandler> = OnceLock::new();

/// Makes the calling thread the reporter: its own faults have the system's default effect.
pub fn become_reporter() {
    REPORTER.store(rustix::thread::gettid().as_raw_nonzero().get(), SeqCst);
}

/// Calls `report` with a fatal signal, once, on a thread of its own.
pub fn watch(report: impl FnOnce(Fault) + Send + 'static) -> io::Result<()> {
    let (reader, writer) = io::pipe()?;
    thread::Builder::new().name("crash".to_owned()).spawn(move || {
        if let Some(fault) = wait(reader) {
            report(fault);
        }
    })?;
    let handler = CrashHandler::attach(Box::new(Messenger(writer))).map_err(io::Error::other)?;
    // A second server in the process would be a test's, and is refused above.
    let _ = HANDLER.set(handler);
    Ok(())
}

fn wait(mut reader: PipeReader) -> Option<Fault> {
    let mut bytes = [0; LEN];
    reader.read_exact(&mut bytes).ok()?;
    Some(Fault::from_bytes(&bytes))
}

/// Notifies the thread that waits.
struct Messenger(PipeWriter);

// SAFETY: `on_crash` runs in a signal handler, where only what is async-signal-safe may be called. It reads its
// argument and an atomic, writes some 200 bytes to a pipe that is open already (`write`) and sleeps
// (`clock_nanosleep`). It takes no lock, and neither allocates nor frees: an error of the operating system owns no
// memory.
unsafe impl CrashEvent for Messenger {
    fn on_crash(&self, context: &CrashContext) -> CrashEventResult {
        let signal = context.siginfo.ssi_signo.cast_signed();
        // The debuggers' signal is left to them.
        if signal != SIGTRAP && context.tid != REPORTER.load(SeqCst) {
            // Without a reader the signal has its default effect.
            let _ = (&self.0).write(&Fault::of(context).to_bytes());
            thread::sleep(PATIENCE);
        }
        CrashEventResult::Handled(true)
    }
}
