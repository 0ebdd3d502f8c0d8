//! Threads: those that serve clients, and work on others.

/// Whoever serves: its place in the metrics and its time.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    pub worker: usize,
    /// Unix time in microseconds.
    pub now_us: i64,
}
