//! Levels of the log's lines.

/// Importance of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Detail.
    Debug,
    /// Frequent event.
    Verbose,
    /// Event worth knowing.
    Notice,
    /// Event that an operator must know.
    Warning,
}
