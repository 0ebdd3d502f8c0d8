//! State of the bus that other modules may read.

use super::cluster_bus::Bus;
use super::model::bus_settings::Settings;
use super::model::health::DownReason;
use super::model::message_counters::Counters;
use crate::Millis;
use crate::SLOTS;
use crate::conf::{self, Vars};
use crate::node::Node;
use crate::node_id::NodeId;
use crate::node_table::NodeTable;
use crate::slot_map::SlotMap;
use std::collections::BTreeMap;

impl Bus {
    /// Returns all known nodes.
    pub fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    /// Returns the greatest epoch that was seen.
    pub fn current_epoch(&self) -> u64 {
        self.current_epoch
    }

    /// Returns the epoch of this node's last vote.
    pub fn last_vote_epoch(&self) -> u64 {
        self.last_vote_epoch
    }

    /// Returns whether the cluster serves.
    pub fn is_up(&self) -> bool {
        self.health.is_up
    }

    /// Returns why the cluster does not serve.
    pub fn down_reason(&self) -> Option<DownReason> {
        self.health.down_reason
    }

    /// Returns how many primaries have slots.
    pub fn size(&self) -> usize {
        self.health.size
    }

    /// Returns how much was sent and received.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Resets the counters to zero.
    pub fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }

    /// Returns the directives of the bus.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the deadline of a manual failover that is in progress.
    pub fn manual_failover_end(&self) -> Option<Millis> {
        (self.manual.end != 0).then_some(self.manual.end)
    }

    /// Returns the contents of `nodes.conf`.
    pub fn conf(&self) -> Vec<u8> {
        let vars = Vars {
            current_epoch: self.current_epoch,
            last_vote_epoch: self.last_vote_epoch,
            history: self.files_history,
            agreed_epoch: self.takeovers.agreed_epoch(),
        };
        conf::write(&self.nodes, &vars).into_bytes()
    }

    /// Returns the map by which commands are routed.
    pub fn slot_map(&self) -> SlotMap {
        let mut numbers: BTreeMap<NodeId, u16> = BTreeMap::new();
        let (mut nodes, mut shards) = (Vec::new(), Vec::new());
        let mut number = |id: NodeId| {
            let node = self.nodes.get(&id)?;
            Some(*numbers.entry(id).or_insert_with(|| {
                nodes.push((id, node.address.clone()));
                shards.push(node.shard_id);
                (nodes.len() - 1) as u16
            }))
        };
        let mut owners = vec![None; SLOTS];
        for node in self.nodes.iter().filter(|node| !node.slots.is_empty()) {
            let owner = number(node.id);
            node.slots.iter().for_each(|slot| owners[usize::from(slot)] = owner);
        }
        let mut moving = |slots: &BTreeMap<u16, NodeId>| -> BTreeMap<u16, u16> {
            slots.iter().filter_map(|(slot, id)| Some((*slot, number(*id)?))).collect()
        };
        let (migrating, importing) = (moving(&self.nodes.migrating), moving(&self.nodes.importing));
        let fails = |node: &&Node| node.is_suspected() || node.has_failed();
        SlotMap {
            is_up: self.health.is_up,
            serving: number(self.nodes.my_primary()),
            is_replica: self.nodes.myself().is_replica(),
            nodes,
            shards,
            owners,
            migrating,
            importing,
            coming: self.coming.slots().clone(),
            silent: self.nodes.iter().filter(fails).map(|node| node.address.clone()).collect(),
        }
    }
}
