//! Nodes for tests.

use super::cluster_bus::Bus;
use super::model::bus_settings::Settings;
use crate::node::{Address, Flags, Node};
use crate::node_id::NodeId;

/// Creates a node that knows no other.
pub(crate) fn bus() -> Bus {
    let address = Address { tcp_port: 6379, bus_port: 16379, ..Address::default() };
    let mut bus = Bus::new(address, Settings::default(), fastrand::Rng::with_seed(1), 1);
    bus.take_effects();
    bus
}

/// Adds another primary to the node's table.
pub(crate) fn add_primary(bus: &mut Bus) -> NodeId {
    let (id, shard_id) = (NodeId::random(&mut bus.random), NodeId::random(&mut bus.random));
    let mut node = Node::new(id, shard_id, Flags::PRIMARY, 1);
    node.address = Address { ip: "10.0.0.9".into(), tcp_port: 6379, bus_port: 16379, ..Address::default() };
    bus.nodes.insert(node);
    id
}
