//! A node from the view of another one.

use crate::Millis;
use crate::link_id::LinkId;
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;
use std::collections::BTreeMap;

/// State and kind of a node, as bits of the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// The node may own slots.
    pub const PRIMARY: u16 = 1;
    /// The node follows a primary.
    pub const REPLICA: u16 = 1 << 1;
    /// The node is suspected to have failed.
    pub const PFAIL: u16 = 1 << 2;
    /// The majority has found that the node has failed.
    pub const FAIL: u16 = 1 << 3;
    /// The node is the owner of the table.
    pub const MYSELF: u16 = 1 << 4;
    /// The node's name is not known yet.
    pub const HANDSHAKE: u16 = 1 << 5;
    /// The node's address is unknown.
    pub const NOADDR: u16 = 1 << 6;
    /// The node is to get a MEET.
    pub const MEET: u16 = 1 << 7;
    /// Replicas without a reason to stay may move to the node.
    pub const MIGRATE_TO: u16 = 1 << 8;
    /// The node never takes over.
    pub const NOFAILOVER: u16 = 1 << 9;
    /// The node understands extensions.
    pub const EXTENSIONS: u16 = 1 << 10;
    /// The node understands short headers of published messages.
    pub const LIGHT_PUBLISH: u16 = 1 << 11;
    /// The node understands short headers of modules' messages, and more than one MEET.
    pub const LIGHT_MODULE: u16 = 1 << 12;
    /// The node is a replica, and announces that its primary has failed.
    pub const MY_PRIMARY_FAIL: u16 = 1 << 13;

    /// Returns whether any of these bits is set.
    pub fn has(self, bits: u16) -> bool {
        self.0 & bits != 0
    }

    /// Sets or clears bits.
    pub fn set(&mut self, bits: u16, on: bool) {
        self.0 = if on { self.0 | bits } else { self.0 & !bits };
    }
}

/// Address of a node, and its own names. Absent texts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// Address, as text.
    pub ip: String,
    /// Port for clients without TLS; 0 for none.
    pub tcp_port: u16,
    /// Port for clients with TLS; 0 for none.
    pub tls_port: u16,
    /// Port of the bus.
    pub bus_port: u16,
    /// Name that clients may see instead of the address.
    pub hostname: String,
    /// Human name in logs.
    pub human_name: String,
    /// Availability zone.
    pub availability_zone: String,
    /// Address that clients over IPv4 see instead of the node's.
    pub client_ipv4: String,
    /// Address that clients over IPv6 see instead of the node's.
    pub client_ipv6: String,
    /// Port that clients see instead of the node's; 0 for none.
    pub client_port: u16,
    /// Port with TLS that clients see instead of the node's; 0 for none.
    pub client_tls_port: u16,
}

/// A node of the cluster, this one or another.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name of the node.
    pub id: NodeId,
    /// Name that a primary and its replicas share.
    pub shard_id: NodeId,
    /// State and kind of the node.
    pub flags: Flags,
    /// Address of the node.
    pub address: Address,
    /// Primary of the node, if it is a replica that names one.
    pub primary: Option<NodeId>,
    /// Age of the node's claims: of two claims of a slot the one with the greater epoch counts.
    pub config_epoch: u64,
    /// Slots of the node, as far as this node knows.
    pub slots: SlotSet,
    /// Time of the ping that the node has not answered; 0 for none.
    pub ping_sent: Millis,
    /// Time of the node's last answer; 0 for never.
    pub pong_received: Millis,
    /// Time at which the node was found to have failed.
    pub failed_at: Millis,
    /// Length of the data set's history, as the node announces it. Not recorded for this node itself.
    pub replication_offset: i64,
    /// Nodes that report a failure of this one, and the times of their last reports.
    pub failure_reports: BTreeMap<NodeId, Millis>,
    /// Link from this node to that one.
    pub link: Option<LinkId>,
    /// Link from that node to this one.
    pub inbound_link: Option<LinkId>,
    /// Time at which this node learned of that one.
    pub(crate) created: Millis,
    /// Time at which bytes arrived from the node.
    pub(crate) data_received: Millis,
    /// Time at which MEET was sent.
    pub(crate) meet_sent: Millis,
    /// Time since which the node has no working replica; 0 if it has one.
    pub(crate) orphaned_since: Millis,
    /// Time of the last attempt to connect to the node.
    pub(crate) connect_tried: Millis,
    /// Time at which the link from the node was lost, or the node became known.
    pub(crate) inbound_lost: Millis,
}

impl Node {
    /// Creates a node without an address.
    pub(crate) fn new(id: NodeId, shard_id: NodeId, flags: u16, now: Millis) -> Node {
        Node {
            id,
            shard_id,
            flags: Flags(flags),
            address: Address::default(),
            primary: None,
            config_epoch: 0,
            slots: SlotSet::none(),
            ping_sent: 0,
            pong_received: 0,
            failed_at: 0,
            replication_offset: 0,
            failure_reports: BTreeMap::new(),
            link: None,
            inbound_link: None,
            created: now,
            data_received: 0,
            meet_sent: 0,
            orphaned_since: 0,
            connect_tried: 0,
            inbound_lost: now,
        }
    }

    /// Returns whether the node may own slots.
    pub fn is_primary(&self) -> bool {
        self.flags.has(Flags::PRIMARY)
    }

    /// Returns whether the node follows a primary.
    pub fn is_replica(&self) -> bool {
        self.flags.has(Flags::REPLICA)
    }

    /// Returns whether the majority has found that the node has failed.
    pub fn has_failed(&self) -> bool {
        self.flags.has(Flags::FAIL)
    }

    /// Returns whether the node is suspected.
    pub fn is_suspected(&self) -> bool {
        self.flags.has(Flags::PFAIL)
    }

    /// Returns whether the node is the owner of the table.
    pub fn is_myself(&self) -> bool {
        self.flags.has(Flags::MYSELF)
    }

    /// Returns whether the node's name is not known yet.
    pub fn is_in_handshake(&self) -> bool {
        self.flags.has(Flags::HANDSHAKE)
    }

    /// Returns whether the node votes: primaries with slots do.
    pub fn has_vote(&self) -> bool {
        self.is_primary() && !self.slots.is_empty()
    }

    /// Returns whether this node has a link to the node, or a connection attempt in progress.
    pub fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    /// Returns the node's name in logs.
    pub fn human_name(&self, tls: bool) -> String {
        let address = &self.address;
        if !address.human_name.is_empty() {
            return address.human_name.clone();
        }
        let port = if tls { address.tls_port } else { address.tcp_port };
        if address.ip.contains(':') { format!("[{}]:{port}", address.ip) } else { format!("{}:{port}", address.ip) }
    }
}
