//! The orders to change the server's role, and their progress, for the thread that serves replicas.

use engine::host::connections::StepDown;
use std::sync::Arc;
use std::time::Duration;

/// Interval of attempts at a lock that a long script has.
const LOOK: Duration = Duration::from_millis(1);

/// See the module's documentation.
#[derive(Default)]
pub struct RoleOrders {
    /// Orders to follow another server.
    pub orders: Vec<Arc<StepDown>>,
    /// Failover that this is of, and whether it waits for a replica.
    pub failover: u64,
    pub fails_over: bool,
    /// Number of locks that have been passed.
    pub passed: usize,
    /// Length of the stream when it was whole.
    pub whole_at: Option<u64>,
}

impl RoleOrders {
    /// Adds an order to follow another server. Writes are paused already.
    pub fn order(&mut self, order: Arc<StepDown>) {
        self.orders.push(order);
        (self.passed, self.whole_at) = (0, None);
    }

    /// Returns whether there is an order.
    pub fn is_wanted(&self) -> bool {
        self.fails_over || !self.orders.is_empty()
    }

    /// Returns the time until the next look, if a lock is not free.
    pub fn patience(&self) -> Option<Duration> {
        (self.is_wanted() && self.whole_at.is_none()).then_some(LOOK)
    }
}
