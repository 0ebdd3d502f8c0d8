//! Whether the cluster serves.

use super::cluster_bus::Bus;
use super::model::bus_effect::Level;
use super::model::health::DownReason;
use crate::node::Flags;
use crate::{Millis, SLOTS};

/// Time for which a primary serves nothing after its start: others may have replaced it.
const WRITABLE_DELAY: Millis = 2000;
/// Bounds of the time for which a primary that was in the minority serves nothing afterwards: the timeout within these.
const REJOIN_DELAYS: (Millis, Millis) = (500, 5000);

impl Bus {
    /// Decides whether the cluster serves.
    pub(super) fn update_state(&mut self) {
        let now = self.now;
        let is_primary = self.nodes.myself().is_primary();
        let first_judged = *self.health.first_judged.get_or_insert(now);
        self.health.is_safe_to_join = !(is_primary && !self.health.is_up && now - first_judged < WRITABLE_DELAY);
        if !self.health.is_safe_to_join {
            return;
        }
        let mut reason = None;
        if self.settings.require_full_coverage && !self.is_covered() {
            reason = Some(DownReason::NotFullCoverage);
        }
        let voters = self.nodes.iter().filter(|node| node.has_vote());
        let is_unheard = |id| self.health.unheard.as_ref().is_some_and(|unheard| unheard.contains(&id));
        let (size, reachable) = voters.fold((0, 0), |(size, reachable), node| {
            (size + 1, reachable + usize::from(!node.flags.has(Flags::PFAIL | Flags::FAIL) && !is_unheard(node.id)))
        });
        self.health.size = size;
        if reachable < self.quorum() {
            reason = Some(DownReason::MinorityPartition);
            self.health.among_minority = now;
        }
        let rejoin_delay = self.settings.node_timeout.clamp(REJOIN_DELAYS.0, REJOIN_DELAYS.1);
        let waits = is_primary && now - self.health.among_minority < rejoin_delay;
        if !waits && reason != Some(DownReason::MinorityPartition) {
            self.resume();
        }
        if reason.is_none() != self.health.is_up {
            if reason.is_none() && waits {
                return;
            }
            self.health.is_up = reason.is_none();
            self.todo.slot_map_changed();
            let (level, word) = if self.health.is_up { (Level::Notice, "ok") } else { (Level::Warning, "fail") };
            self.log(level, format!("Cluster state changed: {word}"));
        }
        if reason != self.health.down_reason {
            self.health.down_reason = reason;
            self.todo.slot_map_changed();
            if let Some(reason) = reason {
                self.log_down_reason(reason);
            }
        }
    }

    /// Returns how many votes are more than half.
    pub(super) fn quorum(&self) -> usize {
        self.health.size / 2 + 1
    }

    fn is_covered(&self) -> bool {
        let working = self.nodes.iter().filter(|node| !node.has_failed());
        working.map(|node| node.slots.len()).sum::<usize>() == SLOTS
    }

    fn log_down_reason(&mut self, reason: DownReason) {
        let why = match reason {
            DownReason::NotFullCoverage => {
                "At least one hash slot is not served by any available node. Please check the \
                 'cluster-require-full-coverage' configuration."
            }
            DownReason::MinorityPartition => "I am part of a minority partition.",
        };
        self.log(Level::Warning, format!("Cluster is currently down: {why}"));
    }
}
