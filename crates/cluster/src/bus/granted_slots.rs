//! Slots that this node has granted to the target of a migration, without knowing whether the target has taken them.
//!
//! ```text
//!   granted -- target claims them -------------------------------------------------------------> target's
//!      |-- cancelled, and the connection has ended -- target answers a ping without a claim --> source's
//!      +-- granted too long ago for the target ------ target answers so, or most primaries ---> source's
//! ```
//!
//! A primary that knows of the takeover tells this node of it beside its answer to a ping that still claims the slots.
//! A node that is cut off from most primaries serves nothing until it has been among them for a while: it need not wait.

use super::cluster_bus::Bus;
use crate::Millis;
use crate::migration::JobName;
use crate::node_id::NodeId;
use crate::packet::MessageType;

/// Time that packets beside an answer may need.
const TELLING_TIME: Millis = 500;

impl Bus {
    /// Asks targets that may have taken slots, and others that would know of it.
    pub(super) fn inquire_about_granted_slots(&mut self) {
        for (job, target, is_overdue) in self.migrations.doubtful() {
            self.ask_about(&job, target);
            let others = self.nodes.iter().filter(|node| is_overdue && node.has_vote() && !node.is_myself());
            let voters: Vec<NodeId> = others.map(|node| node.id).collect();
            voters.iter().filter(|id| **id != target).for_each(|id| self.ask_about(&job, *id));
            let (votes, quorum, now) = (usize::from(self.nodes.myself().has_vote()), self.quorum(), self.now);
            let Some(inquiry) = self.migrations.inquiry(&job) else { continue };
            if inquiry.answered.contains(&target) {
                self.granted_not_taken(&job, true);
                continue;
            }
            let answered = voters.iter().filter(|id| inquiry.answered.contains(*id)).count();
            let has_most = answered + votes >= quorum;
            inquiry.most_since = has_most.then(|| inquiry.most_since.unwrap_or(now));
            let is_told = inquiry.most_since.is_some_and(|since| now - since >= TELLING_TIME);
            if is_overdue && (is_told || self.may_be_replaced()) {
                self.granted_not_taken(&job, false);
            }
        }
    }

    fn ask_about(&mut self, job: &JobName, id: NodeId) {
        let Some(link) = self.nodes.get(&id).filter(|node| node.ping_sent == 0).and_then(|node| node.link) else {
            return;
        };
        let Some(inquiry) = self.migrations.inquiry(job) else { return };
        if inquiry.asked.insert(id, link) == Some(link) {
            inquiry.answered.insert(id);
        } else {
            inquiry.answered.remove(&id);
            self.send_ping(link, MessageType::Ping);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::bus::cluster_bus::Bus;
    use crate::bus::migration_tests::{granted, migrations, says, state};
    use crate::bus::test_bus::add_primary;
    use crate::migration::{JobState, MigrationEffect, SyncWord};
    use crate::node_id::NodeId;
    use crate::slot_set::SlotSet;

    #[test]
    fn a_cancelled_source_waits_until_the_target_has_not_taken_the_slots() {
        let (mut source, target, job) = granted();
        source.cancel_migrations("test", 9).expect("one is under way");
        assert!(says(&migrations(&mut source), SyncWord::Cancel));
        source.tick(110);
        assert_eq!(state(&source), JobState::FailoverGranted, "the target may have them");
        source.migration_lost(&job, None, 120);
        source.tick(210);
        assert!(source.nodes().get(&target).expect("known").ping_sent > 0 && !state(&source).is_finished());
        source.tick(310);
        assert!(!state(&source).is_finished(), "it has not answered");
        source.nodes.get_mut(&target).expect("known").ping_sent = 0;
        source.tick(410);
        assert_eq!(state(&source), JobState::Cancelled);
        assert_eq!(migrations(&mut source).last(), Some(&MigrationEffect::Resume));

        let (mut source, target, job) = granted();
        source.cancel_migrations("test", 9).expect("one is under way");
        source.migration_failed(&job, "garbage", 10);
        source.tick(110);
        source.nodes.get_mut(&target).expect("known").ping_sent = 0;
        source.tick(210);
        assert!(!state(&source).is_finished(), "the target may have the grant before it");
        source.take_claim(target, 0, &SlotSet::of([2..=5]));
        source.settle();
        assert_eq!((state(&source), source.nodes().owner(3)), (JobState::Success, Some(target)));
    }

    /// The target has taken the slots, and only others have heard of it; or it has not.
    #[test]
    fn a_source_that_granted_slots_long_ago_asks_whether_they_were_taken() {
        for (who_answers, is_taken) in [("target", false), ("most", false), ("most", true), ("nobody", false)] {
            let (mut source, target, _) = granted();
            let others = [add_primary(&mut source), add_primary(&mut source)];
            for (slot, other) in (100..).zip(others) {
                source.nodes.set_owner(slot, Some(other));
            }
            others.iter().for_each(|id| source.connect(*id));
            let answer = |source: &mut Bus, id: &NodeId| {
                let (now, node) = (source.now, source.nodes.get_mut(id).expect("known"));
                (node.ping_sent, node.pong_received) = (0, now);
            };
            source.now = 10_000;
            others.iter().chain([&target]).for_each(|id| answer(&mut source, id));
            source.tick(10_100);
            source.tick(10_200);
            assert_eq!(state(&source), JobState::FailoverGranted, "nobody has answered since");
            let answering = match who_answers {
                "target" => &[target][..],
                "most" => &others[..],
                _ => &[],
            };
            answering.iter().for_each(|id| answer(&mut source, id));
            source.tick(10_300);
            assert_eq!(state(&source).is_finished(), who_answers == "target", "packets may be on their way");
            if is_taken {
                source.take_claim(target, 9, &SlotSet::of([2..=5]));
                source.settle();
            }
            source.tick(10_800);
            let expected = match who_answers {
                "nobody" => JobState::FailoverGranted,
                _ if is_taken => JobState::Success,
                _ => JobState::Failed,
            };
            assert_eq!(state(&source), expected, "{who_answers}");
            let resumes = migrations(&mut source).contains(&MigrationEffect::Resume);
            assert_eq!(resumes, who_answers != "nobody");
        }
    }
}
