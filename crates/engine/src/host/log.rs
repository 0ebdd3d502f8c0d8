//! The server's log.

/// The server's log.
pub trait Log: Send + Sync {
    /// Writes a line into the server's log (DEBUG LOG).
    fn log(&self, _line: &str) {}

    /// Writes a line of less weight into the server's log.
    fn notice(&self, _line: &str) {}

    /// Writes a line that somebody is to read into the server's log.
    fn warn(&self, _line: &str) {}

    /// Writes a line of little weight into the server's log.
    fn detail(&self, _line: &str) {}
}
