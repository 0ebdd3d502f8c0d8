//! Epochs of other nodes, and whether this node believes them.
//!
//! An epoch grows by one with each election. A believed epoch becomes this node's own, is on the disk and in all of its
//! packets. The greatest number would leave no epoch for any later election, in the whole cluster and for good. So an
//! epoch may exceed the known ones by as many elections as a node can have missed, and no more: a packet with a greater
//! one is dropped. Such steps never exhaust the numbers.
//!
//! All epochs of one [`STEP_PERIOD`] are measured from the epoch at its beginning: the cluster learns of a step before
//! the next one, and one packet parts no node from it.

use crate::Millis;
use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::Level;
use crate::packet::{Body, Header};

/// Elections that a node may have missed, or that a cluster has had before a node joins it.
const AHEAD_MAX: u64 = 1 << 24;
/// Time in which an epoch advances once: well above the time in which each node learns of it.
const STEP_PERIOD: Millis = 60_000;
/// Greatest epoch: no cluster reaches the numbers beyond it.
const EPOCH_MAX: u64 = 3 << 61;
/// Time between two log lines about epochs that are not believed.
const REFUSAL_LOG_PERIOD: Millis = 10_000;

impl Bus {
    /// Returns whether the epochs of a packet are plausible. A packet with other epochs is logged.
    pub(super) fn believes(&mut self, header: &Header, body: &Body) -> bool {
        let of_another = if let Body::Update { config_epoch, .. } = body { *config_epoch } else { 0 };
        let epoch = header.current_epoch.max(header.config_epoch).max(of_another);
        let from = match self.epoch_step {
            Some((at, from)) if (0..STEP_PERIOD).contains(&(self.now - at)) => from,
            _ => self.epoch_step.insert((self.now, self.current_epoch)).1,
        };
        let highest = from.saturating_add(AHEAD_MAX).min(EPOCH_MAX);
        if epoch <= highest.max(self.current_epoch) {
            return true;
        }
        if self.epoch_refused.is_none_or(|at| self.now - at >= REFUSAL_LOG_PERIOD) {
            self.epoch_refused = Some(self.now);
            let sender = header.sender.map_or_else(|| "an unknown node".to_owned(), |id| id.to_string());
            let current = self.current_epoch;
            let text = format!("Epoch {epoch} of {sender} is too far ahead of {current}: it is refused");
            self.log(Level::Warning, text);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::model::bus_effect::Effect;
    use crate::bus::test_bus::{add_primary, bus};
    use crate::slot_set::SlotSet;

    #[test]
    fn an_epoch_that_leaves_none_for_elections_is_refused_and_logged_once() {
        let mut bus = bus();
        let other = add_primary(&mut bus);
        bus.connect(other);
        let link = bus.nodes.get(&other).and_then(|node| node.link).expect("a link");
        let packet = |bus: &Bus, current: u64, config: u64| {
            let mut header = bus.header(0);
            (header.sender, header.current_epoch, header.config_epoch) = (Some(other), current, config);
            header
        };
        let update = |epoch: u64| Body::Update { config_epoch: epoch, node: Some(other), slots: SlotSet::none() };
        let refused = [(u64::MAX, 1, 0), (1, u64::MAX, 0), (1, 1, u64::MAX), (1 << 62, 1, 0), (AHEAD_MAX + 1, 1, 0)];
        for (current, config, of_update) in refused {
            let header = packet(&bus, current, config);
            bus.take_full(link, &header, update(of_update));
        }
        let told = |bus: &Bus| (bus.current_epoch(), bus.nodes.get(&other).map(|node| node.config_epoch));
        assert_eq!(told(&bus), (0, Some(0)));
        let is_refusal =
            |effect: &Effect| matches!(effect, Effect::Log { text, .. } if text.ends_with("it is refused"));
        assert_eq!(bus.take_effects().iter().filter(|effect| is_refusal(effect)).count(), 1);
        let header = packet(&bus, AHEAD_MAX, 7);
        bus.take_full(link, &header, update(8));
        assert_eq!(told(&bus), (AHEAD_MAX, Some(8)), "a cluster of any age");
        let header = packet(&bus, AHEAD_MAX + 5, 7);
        bus.take_full(link, &header, update(8));
        assert_eq!(told(&bus), (AHEAD_MAX, Some(8)), "others have not heard of it yet");
        bus.now += STEP_PERIOD;
        bus.take_full(link, &header, update(8));
        assert_eq!(told(&bus), (AHEAD_MAX + 5, Some(8)), "and it goes on");
    }
}
