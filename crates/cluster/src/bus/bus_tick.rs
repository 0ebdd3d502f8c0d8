//! What is done ten times a second.

use super::cluster_bus::Bus;
use crate::Millis;

impl Bus {
    /// Does what is due. To be called each [`TICK`](super::TICK).
    pub fn tick(&mut self, now: Millis) {
        self.now = now;
        self.ticks += 1;
        self.check_manual_failover_timeout();
        if !self.health.is_up {
            self.update_state();
        }
        self.settle();
    }
}
