//! The stacks of all threads, for the report of a crash: each thread is interrupted by a signal, SIGUSR2, in whose
//! handler it records the addresses of its stack.
//!
//! ```text
//!   reporter   threads of the process -> an answer for each; tgkill to each; waits, for a limited time
//!   thread     signal -> its own answer: addresses, their number, and on
//!   reporter   addresses -> names of functions
//! ```
//!
//! The handler may call only functions that are async-signal-safe: it takes no lock and no memory. The reporter does
//! the rest. Threads of the allocator block the signal and are not asked; another thread that does not answer in
//! time waits in the system without an end. When
//! nobody reports, the signal has no effect.
//!
//! Threads can also be asked to stand still: they wait in the handler until they are let go.
//!
//! **Unsafe**, for the promise that the handler keeps to that, for the walk along the stack, and for sending a signal
//! to one thread.
#![allow(unsafe_code)]

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::consts::SIGUSR2;
use signal_hook::low_level::register;
use std::fmt::Write;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::thread;
use std::time::{Duration, Instant};

/// Threads that can be asked.
const THREADS_MAX: usize = 256;
/// Functions of a stack that are recorded, the innermost first.
const DEPTH: usize = 64;
/// Time that all threads together have to answer, and between two looks.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time after that until all of them stand still.
const STANDING_PATIENCE: Duration = Duration::from_secs(4);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The answer of one thread.
struct Answer {
    /// The thread's number; 0: none is asked.
    thread: AtomicI32,
    /// One more than the number of addresses; 0: the thread has not answered.
    answered: AtomicUsize,
    addresses: [AtomicUsize; DEPTH],
}

static ANSWERS: [Answer; THREADS_MAX] = [const {
    Answer {
        thread: AtomicI32::new(0),
        answered: AtomicUsize::new(0),
        addresses: [const { AtomicUsize::new(0) }; DEPTH],
    }
}; THREADS_MAX];

/// Whether threads that answer wait at the gate.
static STANDING: AtomicBool = AtomicBool::new(false);
/// The pipe from which a thread that waits reads a byte.
static GATE: OnceLock<(PipeReader, PipeWriter)> = OnceLock::new();

/// Returns whether a thread's signals that are blocked, as the system's mask, include the one by which it is asked.
pub fn is_deaf(blocked: u64) -> bool {
    blocked & (1 << (SIGUSR2 - 1)) != 0
}

/// Makes threads ready to be asked.
pub fn watch() -> io::Result<()> {
    let gate = io::pipe()?;
    // A second server in the process would be a test's.
    let _ = GATE.set(gate);
    // SAFETY: the handler may run at any place of the program. It compares atomics with the number of its thread
    // (`gettid`), allows and blocks signals (`pthread_sigmask`), walks along its stack (see `answer`), and may wait for
    // a byte of a pipe (`read`).
    unsafe { register(SIGUSR2, answer) }.map(drop)
}

/// Records the stack of the thread that is interrupted, if it is asked for.
fn answer() {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let Some(answer) = ANSWERS.iter().find(|answer| answer.thread.load(Acquire) == own) else { return };
    // A thread that waits in the handler of a fault blocks others: a stack that cannot be read would end the process
    // before its report.
    let mut faults = SigSet::empty();
    [Signal::SIGSEGV, Signal::SIGBUS].into_iter().for_each(|fault| faults.add(fault));
    let blocked_before = faults.thread_swap_mask(SigmaskHow::SIG_UNBLOCK);
    let mut depth = 0;
    // SAFETY: `trace_unsynchronized` must not run in two threads at once where its unwinder has state; the one of Linux
    // has none. It reads tables that were loaded with the program, and neither allocates nor takes a lock of the
    // program; a thread that has the loader's lock may not answer. The closure writes to atomics.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            answer.addresses[depth].store(frame.ip().addr(), Relaxed);
            depth += 1;
            depth < DEPTH
        });
    }
    answer.answered.store(depth + 1, Release);
    if let (true, Some((gate, _))) = (STANDING.load(Acquire), GATE.get()) {
        let _ = SigSet::all().thread_block();
        // After an error the thread continues, and is found not to stand still.
        let _ = rustix::io::read(gate, &mut [0u8; 1]);
    }
    if let Ok(before) = blocked_before {
        // A set of signals that was in force is allowed.
        let _ = before.thread_set_mask();
    }
}

/// Whether a thread asks the others.
static RECORDING: AtomicBool = AtomicBool::new(false);

/// Has these threads record their stacks, and waits for them. While another thread does so this does nothing.
pub fn record(threads: &[i32]) {
    if !RECORDING.swap(true, Acquire) {
        ask(threads);
        RECORDING.store(false, Release);
    }
}

/// Calls `act` while all of these threads, which are all others, stand still in the handler; not if one of them does
/// not. A thread may stand still with the allocator's or any other lock, so `act` must neither take locks nor memory.
pub fn while_others_stand_still<T>(threads: &[i32], act: impl FnOnce() -> T) -> Option<T> {
    let (_, gate) = GATE.get()?;
    let files: Vec<String> = threads.iter().map(|thread| format!("/proc/self/task/{thread}/stat")).collect();
    if threads.len() > THREADS_MAX || RECORDING.swap(true, Acquire) {
        return None;
    }
    STANDING.store(true, Release);
    ask(threads);
    let until = Instant::now() + STANDING_PATIENCE;
    let mut stands = false;
    while !stands && Instant::now() < until {
        thread::sleep(LOOK_EVERY);
        let have_answered = ANSWERS[..threads.len()].iter().all(|answer| answer.answered.load(Acquire) > 0);
        stands =
            have_answered && number_of_threads() == Some(threads.len() + 1) && files.iter().all(|file| sleeps(file));
    }
    let done = stands.then(act);
    STANDING.store(false, Release);
    // Each thread takes one. The pipe has room for them all.
    let _ = rustix::io::write(gate, &[0; THREADS_MAX][..threads.len()]);
    RECORDING.store(false, Release);
    done
}

/// Returns whether the thread of this file waits in the system, without memory of its own.
fn sleeps(file: &str) -> bool {
    with_fields(file, |fields| fields.next() == Some(&b"S"[..])) == Some(true)
}

/// Returns the number of threads of the process, without memory of its own.
fn number_of_threads() -> Option<usize> {
    with_fields("/proc/self/stat", |fields| fields.nth(17).and_then(resp::number::parse_i64))?
        .map(|count| count as usize)
}

/// Reads the fields behind the name of a thread.
fn with_fields<T>(file: &str, read: impl FnOnce(&mut dyn Iterator<Item = &[u8]>) -> T) -> Option<T> {
    let mut bytes = [0; 1024];
    let len = File::open(file).and_then(|mut file| file.read(&mut bytes)).ok()?;
    let name_end = bytes[..len].iter().rposition(|byte| *byte == b')')?;
    Some(read(&mut bytes.get(name_end + 2..len)?.split(|byte| *byte == b' ')))
}

fn ask(threads: &[i32]) {
    let process = rustix::process::getpid().as_raw_nonzero().get();
    let asked = threads.len().min(THREADS_MAX);
    for (answer, thread) in ANSWERS.iter().zip(threads) {
        answer.answered.store(0, Relaxed);
        answer.thread.store(*thread, Release);
    }
    for thread in &threads[..asked] {
        // SAFETY: the call has three numbers. The signal has a handler since `watch`; a thread that has ended is an
        // error, and its answer stays empty.
        unsafe { libc::syscall(libc::SYS_tgkill, process, *thread, SIGUSR2) };
    }
    let until = Instant::now() + PATIENCE;
    while ANSWERS[..asked].iter().any(|answer| answer.answered.load(Acquire) == 0) && Instant::now() < until {
        thread::sleep(LOOK_EVERY);
    }
}

/// Returns the stack of a thread as lines, or the reason that there is none.
pub fn stack_of(thread: i32) -> String {
    let answered = ANSWERS.iter().find(|answer| answer.thread.load(Relaxed) == thread);
    let count = answered.map_or(0, |answer| answer.answered.load(Acquire));
    let Some(answer) = answered.filter(|_| count > 0) else {
        return "no stack: the thread did not answer\n".to_owned();
    };
    let addresses: Vec<usize> = answer.addresses[..count - 1].iter().map(|address| address.load(Relaxed)).collect();
    frames(&addresses)
}

/// Returns functions by their addresses, without those of the signal's handler at the front.
fn frames(addresses: &[usize]) -> String {
    let (mut text, mut number) = (String::new(), 0);
    let mut named: Vec<(usize, Vec<(String, String)>)> = Vec::new();
    for address in addresses {
        let mut symbols = Vec::new();
        backtrace::resolve(std::ptr::without_provenance_mut(*address), |symbol| {
            let name = symbol.name().map_or_else(|| "unknown".to_owned(), |name| format!("{name:#}"));
            let place = symbol.filename().zip(symbol.lineno());
            symbols.push((name, place.map_or_else(String::new, |(file, line)| format!("{}:{line}", file.display()))));
        });
        named.push((*address, symbols));
    }
    let is_handler = |(_, symbols): &(usize, Vec<(String, String)>)| {
        symbols.iter().any(|(name, _)| name.contains("signal_hook_registry") || name.starts_with("crash_handler::"))
    };
    let first = named.iter().rposition(is_handler).map_or(0, |last| last + 1);
    for (address, symbols) in &named[first..] {
        // A stack ends with 0.
        if symbols.is_empty() && *address > 0 {
            writeln!(text, "{number:>4}: 0x{address:x}").expect("a String takes everything");
            number += 1;
        }
        for (name, place) in symbols {
            writeln!(text, "{number:>4}: {name}").expect("a String takes everything");
            if !place.is_empty() {
                writeln!(text, "             at {place}").expect("a String takes everything");
            }
            number += 1;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[inline(never)]
    fn waits_for_the_test(until: &mpsc::Receiver<()>) {
        let _ = std::hint::black_box(until.recv());
    }

    #[test]
    fn a_thread_tells_its_stack_and_continues() {
        watch().unwrap();
        let (ready, is_ready) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            ready.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            waits_for_the_test(&stopped);
        });
        let (number, ended) = (is_ready.recv().unwrap(), i32::MAX);
        // It may be asked before it waits.
        let stack = (0..1000).map(|_| {
            record(&[number]);
            stack_of(number)
        });
        let found = stack.into_iter().find(|stack| stack.contains("waits_for_the_test"));
        assert!(found.is_some_and(|stack| !stack.contains("thread_stacks::answer")));
        record(&[ended]);
        assert_eq!(stack_of(ended), "no stack: the thread did not answer\n");
        stop.send(()).unwrap();
        thread.join().unwrap();
    }
}
