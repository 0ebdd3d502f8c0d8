//! The kernel's data about the process and the machine. Data that it does not show is zero or empty.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// The unit of memory in `statm`.
const PAGE: u64 = 4096;
/// The unit of processor time in `stat`: USER_HZ, 100 on every architecture that Linux runs Rust on.
const TICK: Duration = Duration::from_millis(10);

fn number(text: Option<&str>) -> u64 {
    text.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Returns the bytes of memory that the process has.
pub fn rss() -> u64 {
    let text = read_to_string("/proc/self/statm").unwrap_or_default();
    number(text.split_whitespace().nth(1)) * PAGE
}

/// Returns the bytes of memory of the machine.
pub fn total_memory() -> u64 {
    let text = read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    number(line.split_whitespace().next()) * 1024
}

/// Returns the processor time of all threads whose names begin so, by the rest of the name.
pub fn threads_cpu_times(prefix: &str) -> BTreeMap<String, Duration> {
    let mut times = BTreeMap::new();
    for thread in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let name = read_to_string(thread.path().join("comm")).unwrap_or_default();
        if let Some(rest) = name.trim_end().strip_prefix(prefix) {
            let (user, system) = thread_cpu_times(thread.path().join("stat"));
            *times.entry(rest.to_owned()).or_default() += user + system;
        }
    }
    times
}

/// The thread of the first worker, which stands for the main thread of servers that have one; 0: there is none yet.
static MAIN_THREAD: AtomicU32 = AtomicU32::new(0);

/// The calling thread is the first worker's.
pub fn set_main_thread() {
    MAIN_THREAD.store(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned(), Relaxed);
}

/// Processor time of the first worker, in the program and in the kernel.
pub fn main_thread_cpu_times() -> (Duration, Duration) {
    let main = MAIN_THREAD.load(Relaxed);
    if rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned() == main {
        // The kernel answers a thread about itself without a file.
        return usage(UsageWho::RUSAGE_THREAD);
    }
    thread_cpu_times(format!("/proc/self/task/{main}/stat"))
}

/// Returns the processor time of a thread, in the program and in the kernel.
pub fn thread_cpu_times(stat: impl AsRef<Path>) -> (Duration, Duration) {
    let text = read_to_string(stat).unwrap_or_default();
    // The second field is the program's name in parentheses and may have anything in it; utime is the 14th.
    let fields = text.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let mut times = fields.split_whitespace().skip(11).map(|word| TICK * number(Some(word)) as u32);
    (times.next().unwrap_or_default(), times.next().unwrap_or_default())
}

/// Returns the system's name and version.
pub fn os() -> String {
    let release = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {} {}", release.trim_end(), std::env::consts::ARCH)
}

/// Returns the processor time of the process, in the program and in the kernel.
pub fn cpu_times() -> (Duration, Duration) {
    usage(UsageWho::RUSAGE_SELF)
}

fn usage(who: UsageWho) -> (Duration, Duration) {
    let Ok(usage) = getrusage(who) else { return Default::default() };
    let whole = |time: TimeVal| Duration::from_micros(time.num_microseconds().max(0).cast_unsigned());
    (whole(usage.user_time()), whole(usage.system_time()))
}
