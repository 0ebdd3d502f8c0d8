//! What this node says.

use super::cluster_bus::Bus;
use crate::link_id::LinkId;
use crate::node_id::NodeId;

impl Bus {
    /// Bytes came in on a link.
    pub fn received(&mut self, _link: LinkId, _bytes: &[u8], now: crate::Millis) {
        self.now = now;
        self.settle();
    }

    pub(super) fn broadcast_pong(&mut self) {}
    pub(super) fn greet(&mut self, _: LinkId) {}
    pub(super) fn send_manual_failover_start(&mut self, _: NodeId) {}
    pub(super) fn handle_failover(&mut self) {}
}
