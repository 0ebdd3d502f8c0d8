//! What the server's role is to become, and how far that is, for the thread that serves replicas.

use engine::host::connections::StepDown;
use std::sync::Arc;
use std::time::Duration;

/// How often a lock is tried that a long script has.
const LOOK: Duration = Duration::from_millis(1);

/// See the module's documentation.
#[derive(Default)]
pub struct RoleOrders {
    /// Orders to follow another server.
    pub orders: Vec<Arc<StepDown>>,
    /// The failover that this is of, and whether it waits for a replica.
    pub failover: u64,
    pub fails_over: bool,
    /// How many locks have been passed.
    pub passed: usize,
    /// How long the stream was when it was whole.
    pub whole_at: Option<u64>,
}

impl RoleOrders {
    /// The server is to follow another one. Writes are held back already.
    pub fn order(&mut self, order: Arc<StepDown>) {
        self.orders.push(order);
        (self.passed, self.whole_at) = (0, None);
    }

    /// Whether there is one.
    pub fn is_wanted(&self) -> bool {
        self.fails_over || !self.orders.is_empty()
    }

    /// How soon it is to be looked at again, if a lock is not free.
    pub fn patience(&self) -> Option<Duration> {
        (self.is_wanted() && self.whole_at.is_none()).then_some(LOOK)
    }
}
