//! A connection's memory as published: shown to clients, and counted as its worker's.

use engine::stats::metrics::WorkerMetrics;

/// Bytes of memory of one connection.
#[derive(Debug, Default)]
pub struct MemoryUsage {
    /// Bytes that were last shown.
    shown: usize,
    /// Bytes that are counted as the worker's.
    counted: usize,
}

impl MemoryUsage {
    /// Returns the bytes that were last shown.
    #[inline]
    pub fn shown(&self) -> usize {
        self.shown
    }

    /// Returns whether the memory has changed, or is more than `idle`, the memory of a client that holds nothing: parts
    /// of it may have changed.
    #[inline]
    pub fn is_new(&self, memory: usize, counted: usize, idle: usize) -> bool {
        memory != idle || self.shown != idle || self.counted != counted
    }

    /// Sets the memory, of which `counted` bytes count towards the limit of clients.
    pub fn set(&mut self, memory: usize, counted: usize, metrics: &WorkerMetrics) {
        metrics.client_bytes.add((counted as u64).wrapping_sub(self.counted as u64));
        self.shown = memory;
        self.counted = counted;
    }

    /// Removes the memory from the worker's count, since the connection ends.
    pub fn end(&mut self, metrics: &WorkerMetrics) {
        self.set(0, 0, metrics);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workers_clients_are_counted_together() {
        let metrics = WorkerMetrics::default();
        let (mut one, mut other) = (MemoryUsage::default(), MemoryUsage::default());
        assert!(one.is_new(100, 100, 100), "it was never shown");
        one.set(100, 100, &metrics);
        assert!(!one.is_new(100, 100, 100) && one.is_new(100, 0, 100));
        other.set(300, 300, &metrics);
        assert!(other.is_new(300, 300, 100), "what it consists of may differ");
        one.set(250, 0, &metrics);
        assert_eq!((metrics.client_bytes.get(), one.shown()), (300, 250));
        other.end(&metrics);
        assert_eq!(metrics.client_bytes.get(), 0);
    }
}
