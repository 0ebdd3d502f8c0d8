//! The kind of server that gets commands: a server, or a Sentinel, which has other commands. A Sentinel is the whole
//! process, or some threads within a server's process.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static SENTINEL: AtomicBool = AtomicBool::new(false);

thread_local! {
    static WITHIN_SERVER: Cell<bool> = const { Cell::new(false) };
}

/// Makes the process a Sentinel, before commands are looked for.
pub fn become_sentinel() {
    SENTINEL.store(true, Relaxed);
}

/// Makes the calling thread one of the Sentinel within a server's process, or of the server again.
pub fn enter_sentinel_within(is_within: bool) {
    WITHIN_SERVER.set(is_within);
}

/// Runs `work` as a thread of the Sentinel within a server's process does, or as one of the server's.
pub fn run_as<R>(is_within: bool, work: impl FnOnce() -> R) -> R {
    let before = WITHIN_SERVER.replace(is_within);
    let result = work();
    WITHIN_SERVER.set(before);
    result
}

/// Returns whether the calling thread is one of the Sentinel within a server's process.
#[inline(always)]
pub fn is_sentinel_within() -> bool {
    WITHIN_SERVER.get()
}

/// Returns whether the calling thread is a Sentinel's.
pub fn is_sentinel() -> bool {
    is_sentinel_within() || SENTINEL.load(Relaxed)
}

/// Returns the word of INFO, HELLO and the log for it.
pub fn name(is_clustered: bool) -> &'static str {
    match is_clustered {
        _ if is_sentinel() => "sentinel",
        true => "cluster",
        false => "standalone",
    }
}
