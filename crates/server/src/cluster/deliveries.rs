//! Messages of other nodes on their way to the workers that have subscribers.

use crate::workers::shared::Shared;
use engine::clients::pubsub::{ChannelKind, PubSub, Push};
use std::collections::BTreeMap;

/// Messages that are to be delivered, by worker.
#[derive(Default)]
pub(super) struct Deliveries(BTreeMap<usize, Vec<Push>>);

impl Deliveries {
    pub fn add(&mut self, pubsub: &PubSub, channel: &[u8], message: &[u8], is_sharded: bool) {
        let kind = if is_sharded { ChannelKind::Shard } else { ChannelKind::Channel };
        pubsub.tell(kind, channel, message, |worker, push| self.0.entry(worker).or_default().push(push));
    }

    /// Delivers all: workers that have too much count as full, and no more is to be read for them.
    pub fn go(&mut self, shared: &Shared) {
        for (worker, pushes) in std::mem::take(&mut self.0) {
            shared.post_pushes(worker, pushes);
        }
    }
}
