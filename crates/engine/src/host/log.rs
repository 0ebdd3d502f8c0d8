//! The server's log.

pub use cluster::log_level::Level;

/// The server's log.
pub trait Log: Send + Sync {
    /// Writes a line into the server's log (DEBUG LOG).
    fn log(&self, _line: &str) {}

    /// Writes a notice into the server's log.
    fn notice(&self, _line: &str) {}

    /// Writes a warning into the server's log.
    fn warn(&self, _line: &str) {}

    /// Writes a line of little weight into the server's log.
    fn detail(&self, _line: &str) {}
}
