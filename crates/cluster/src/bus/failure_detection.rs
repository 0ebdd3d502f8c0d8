//! Nodes that do not answer. Each node suspects by itself; a node has failed once the majority of primaries suspects
//! it.

use super::cluster_bus::Bus;
use super::model::bus_effect::Level;
use crate::Millis;
use crate::node::Flags;
use crate::node_id::NodeId;

/// Timeouts after which a primary that is back gets its slots back if no other node took them.
const UNDO_FACTOR: Millis = 2;

impl Bus {
    /// Marks a node as failed.
    pub(super) fn mark_as_failing(&mut self, id: NodeId) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        node.flags.set(Flags::FAIL, true);
        node.flags.set(Flags::PFAIL, false);
        node.failed_at = now;
        let myself = self.nodes.myself_mut();
        if myself.is_replica() && myself.primary == Some(id) {
            // The other replicas learn by this flag that this one's offset does not grow any more.
            myself.flags.set(Flags::MY_PRIMARY_FAIL, true);
            self.todo.handle_failover();
        }
        self.todo.save(false);
        self.todo.update_state();
    }

    /// Marks a suspected node as failed if the majority of primaries suspects it, too, and announces that to all nodes.
    pub(super) fn mark_as_failing_if_majority(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(&id).filter(|node| node.is_suspected() && !node.has_failed()) else {
            return;
        };
        let oldest = self.oldest_valid_report();
        let others = node.failure_reports.values().filter(|reported| **reported > oldest).count();
        if others + usize::from(self.nodes.myself().has_vote()) < self.quorum() {
            return;
        }
        let name = self.human_name(id);
        self.log(Level::Notice, format!("Marking node {id} ({name}) as failing (quorum reached)."));
        self.mark_as_failing(id);
        self.send_fail(id);
    }

    /// Clears the failure of a node that answers again.
    pub(super) fn clear_failure_if_needed(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(&id).filter(|node| node.has_failed()) else {
            return;
        };
        let name = self.human_name(id);
        let text = if !node.has_vote() {
            let what = if node.is_replica() { "replica" } else { "primary without slots" };
            format!("Clear FAIL state for node {id} ({name}): {what} is reachable again.")
        } else if self.now - node.failed_at > self.settings.node_timeout.saturating_mul(UNDO_FACTOR) {
            format!(
                "Clear FAIL state for node {id} ({name}): is reachable again and nobody is serving its slots after \
                 some time."
            )
        } else {
            return;
        };
        self.log(Level::Notice, text);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.flags.set(Flags::FAIL, false);
        }
        let myself = self.nodes.myself_mut();
        if myself.primary == Some(id) {
            myself.flags.set(Flags::MY_PRIMARY_FAIL, false);
        }
        self.todo.save(false);
        self.todo.update_state();
    }

    /// Records a primary's report that a node fails. Returns whether the report is new.
    pub(super) fn add_failure_report(&mut self, of: NodeId, by: NodeId) -> bool {
        // The time is rounded up to the next full second: the majority may be a little late.
        let time = (self.now / 1000 + 1) * 1000;
        match self.nodes.get_mut(&of) {
            Some(node) if !node.has_failed() => node.failure_reports.insert(by, time).is_none(),
            _ => false,
        }
    }

    /// Removes a node's report about another one, which works. Returns whether there was a report.
    pub(super) fn drop_failure_report(&mut self, of: NodeId, by: NodeId) -> bool {
        self.nodes.get_mut(&of).is_some_and(|node| node.failure_reports.remove(&by).is_some())
    }

    pub(super) fn drop_old_reports(&mut self, of: NodeId) {
        let oldest = self.oldest_valid_report();
        if let Some(node) = self.nodes.get_mut(&of) {
            node.failure_reports.retain(|_, reported| *reported > oldest);
        }
    }

    /// Returns the time of the oldest valid report: reports are valid for twice the timeout.
    fn oldest_valid_report(&self) -> Millis {
        self.now - self.settings.node_timeout.saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use crate::bus::test_bus::{add_primary, bus};
    use crate::node::{Flags, Node};

    #[test]
    fn the_majority_says_who_has_failed() {
        let mut bus = bus();
        bus.add_slots(&[(0, 0)], 1).expect("free");
        let others: Vec<_> = (0..4).map(|_| add_primary(&mut bus)).collect();
        for (slot, id) in others.iter().enumerate() {
            bus.nodes.set_owner(slot as u16 + 1, Some(*id));
        }
        bus.health.size = 5;
        let failing = others[0];
        let has_failed = |bus: &crate::bus::Bus| bus.nodes().get(&failing).is_some_and(Node::has_failed);
        bus.now = 100_000;
        assert!(bus.add_failure_report(failing, others[1]) && !bus.add_failure_report(failing, others[1]));
        bus.add_failure_report(failing, others[2]);
        bus.mark_as_failing_if_majority(failing);
        assert!(!has_failed(&bus), "this node does not suspect it");
        bus.nodes.get_mut(&failing).expect("there").flags.set(Flags::PFAIL, true);
        bus.now = 131_000;
        bus.mark_as_failing_if_majority(failing);
        assert!(!has_failed(&bus), "what was said is too old");
        bus.add_failure_report(failing, others[1]);
        bus.add_failure_report(failing, others[2]);
        bus.mark_as_failing_if_majority(failing);
        assert!(has_failed(&bus));
        bus.clear_failure_if_needed(failing);
        assert!(has_failed(&bus), "its slots may be taken yet");
        bus.now += 30_001;
        bus.clear_failure_if_needed(failing);
        assert!(!has_failed(&bus));
    }
}
