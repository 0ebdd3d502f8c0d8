//! Guards against clients of another protocol: a web page can make a browser inside a network post to a server there,
//! and the posted body may have lines that are commands.
//!
//! ```text
//!   POST / HTTP/1.1          the connection ends here, and nothing of it is answered
//!   Host: server:6379        or at the latest here, whatever the method
//!   ...
//!   FLUSHALL                 so that this does not run
//! ```

use crate::core::context::Now;
use crate::core::session::Session;
use engine::Engine;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Interval of the log's lines about it.
const PAUSE_US: i64 = 60_000_000;

/// Returns whether a request of HTTP begins or continues with a command of this name.
#[cold]
pub fn is_one(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// Logs the client whose connection ends, once in a while.
#[cold]
pub fn tell(engine: &Engine, session: &Session, now: Now) {
    static LAST_US: AtomicI64 = AtomicI64::new(i64::MIN);
    let last = LAST_US.load(Relaxed);
    let is_due = now.unix_us.0.saturating_sub(last) > PAUSE_US;
    if is_due && LAST_US.compare_exchange(last, now.unix_us.0, Relaxed, Relaxed).is_ok() {
        engine.host().warn(&format!(
            "Possible SECURITY ATTACK detected. Somebody is sending POST or Host: to this server, as web pages do that make \
             a browser attack it (Cross Protocol Scripting). Connection from {} aborted.",
            session.info.addr
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::is_one;

    #[test]
    fn http_is_known_by_what_no_client_sends() {
        assert!([b"POST" as &[u8], b"post", b"Host:", b"host:"].iter().all(|name| is_one(name)));
        assert!([b"get" as &[u8], b"host", b"posts", b""].iter().all(|name| !is_one(name)));
    }
}
