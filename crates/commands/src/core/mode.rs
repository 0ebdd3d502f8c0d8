//! What the process is to others: a server of its own, or a Sentinel, which has other commands.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static SENTINEL: AtomicBool = AtomicBool::new(false);

/// The process is a Sentinel. To be called before commands are looked for.
pub fn become_sentinel() {
    SENTINEL.store(true, Relaxed);
}

/// Whether the process is a Sentinel.
pub fn is_sentinel() -> bool {
    SENTINEL.load(Relaxed)
}

/// The word that INFO, HELLO and the log have for it.
pub fn name() -> &'static str {
    if is_sentinel() { "sentinel" } else { STANDALONE }
}

/// Of one server without a cluster.
pub const STANDALONE: &str = "standalone";
