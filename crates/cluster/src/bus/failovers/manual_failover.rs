//! A requested failover, on both sides.
//!
//! The replica asks its primary to pause. The primary pauses, and its packets announce that, with the offset of the
//! pause. A replica that has reached the offset asks for votes, which are given although the primary works. If either
//! gives up, writes resume after a while.

use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::{Effect, Level};
use crate::node_id::NodeId;

/// Length of the pause, in multiples of the time that the failover may take.
const PAUSE_FACTOR: i64 = 2;

impl Bus {
    /// Pauses this primary for a replica that wants to take over.
    pub(in crate::bus) fn pause_for(&mut self, replica: NodeId) {
        self.reset_manual_failover();
        let timeout = self.settings.manual_failover_timeout;
        self.manual.end = self.now.saturating_add(timeout);
        self.manual.replica = Some(replica);
        let until = self.now.saturating_add(timeout.saturating_mul(PAUSE_FACTOR));
        self.effects.push(Effect::PauseWrites { until });
        let name = self.human_name(replica);
        self.log(Level::Notice, format!("Manual failover requested by replica {replica} ({name})."));
    }

    /// Makes the replica ask for votes now, whatever election there was before.
    pub(in crate::bus) fn manual_failover_can_start(&mut self) {
        if self.election.start != 0 {
            self.election.start = 0;
            let text = format!(
                "Failover election in progress for epoch {}, but received a new manual failover. Resetting the \
                 election.",
                self.election.epoch
            );
            self.log(Level::Warning, text);
        }
        self.manual.can_start = true;
    }

    /// Gives up a failover whose time has expired.
    pub(in crate::bus) fn check_manual_failover_timeout(&mut self) {
        if self.manual.end != 0 && self.manual.end < self.now {
            self.log(Level::Warning, "Manual failover timed out.".to_string());
            self.reset_manual_failover();
        }
    }

    /// Proceeds with the failover on a replica, if it can.
    pub(in crate::bus) fn go_on_with_manual_failover(&mut self) {
        if !self.nodes.myself().is_replica() {
            return;
        }
        if self.manual.end != 0 && !self.manual.can_start {
            match self.manual.primary_offset {
                Some(offset) if self.has_history() && offset == self.facts.replication_offset => {
                    self.manual_failover_can_start();
                    let text = "All primary replication stream processed, manual failover can start.";
                    self.log(Level::Notice, text.to_string());
                }
                Some(_) => self.todo.handle_manual_failover(),
                None => {}
            }
        }
        self.handle_failover();
    }
}
