//! A session of the debugger of scripts that has a thread of its own, since it runs on a copy of the data.

use std::fmt;

/// The session before it has begun.
pub struct DebugSession(Box<dyn FnOnce() -> Vec<u8> + Send>);

impl DebugSession {
    /// Makes the session of this work, which returns the last bytes for its client. The work converses with the client
    /// by way of the host.
    pub fn new(work: impl FnOnce() -> Vec<u8> + Send + 'static) -> DebugSession {
        DebugSession(Box::new(work))
    }

    /// Runs the session to its end, and returns the last bytes for its client. The thread must have run no script of
    /// other data: its interpreter would know those.
    pub fn run(self) -> Vec<u8> {
        (self.0)()
    }
}

impl fmt::Debug for DebugSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DebugSession")
    }
}
