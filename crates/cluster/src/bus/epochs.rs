//! Config epochs: of two primaries that claim a slot the one with the greater epoch owns it. No two primaries retain
//! the same epoch.

use super::cluster_bus::Bus;
use super::model::bus_effect::Level;
use crate::node_id::NodeId;

impl Bus {
    /// Returns the greatest known epoch.
    fn greatest_epoch(&self) -> u64 {
        self.nodes.iter().map(|node| node.config_epoch).max().unwrap_or(0).max(self.current_epoch)
    }

    /// Takes an epoch greater than all known ones without an election, unless this node has the greatest. Returns
    /// whether it did. Two nodes may take the same epoch; the collision is found and resolved.
    pub(super) fn bump_without_consensus(&mut self) -> bool {
        let mine = self.nodes.myself().config_epoch;
        if mine != 0 && mine == self.greatest_epoch() {
            return false;
        }
        self.current_epoch = self.current_epoch.saturating_add(1);
        self.nodes.myself_mut().config_epoch = self.current_epoch;
        self.todo.save(true);
        self.todo.broadcast();
        self.log(Level::Notice, format!("New configEpoch set to {}", self.current_epoch));
        true
    }

    /// Resolves a collision of epochs: of two primaries the one with the smaller name takes another epoch.
    pub(super) fn handle_epoch_collision(&mut self, sender: NodeId) {
        let myself = self.nodes.myself();
        let Some(other) = self.nodes.get(&sender) else {
            return;
        };
        let collides = other.config_epoch == myself.config_epoch && other.is_primary() && myself.is_primary();
        // A greater epoch would win back slots that this node has granted. The collision is found again.
        if !collides || other.id <= myself.id || !self.granted.is_empty() {
            return;
        }
        self.current_epoch = self.current_epoch.saturating_add(1);
        let (epoch, name) = (self.current_epoch, self.human_name(sender));
        self.nodes.myself_mut().config_epoch = epoch;
        self.todo.save(true);
        self.todo.broadcast();
        let text = format!("configEpoch collision with node {sender} ({name}). configEpoch set to {epoch}");
        self.log(Level::Notice, text);
    }
}
