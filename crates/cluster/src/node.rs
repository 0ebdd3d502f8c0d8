//! A node as others know it.

use crate::Millis;
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;
use std::collections::BTreeMap;

/// What a node is and how it is judged, as bits of the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    pub const PRIMARY: u16 = 1;
    pub const REPLICA: u16 = 1 << 1;
    /// Suspected to have failed.
    pub const PFAIL: u16 = 1 << 2;
    /// Failed, as the majority says.
    pub const FAIL: u16 = 1 << 3;
    pub const MYSELF: u16 = 1 << 4;
    /// Its name is not known yet.
    pub const HANDSHAKE: u16 = 1 << 5;
    pub const NOADDR: u16 = 1 << 6;
    /// It is to be sent MEET.
    pub const MEET: u16 = 1 << 7;
    /// Replicas without a reason to stay may move to it.
    pub const MIGRATE_TO: u16 = 1 << 8;
    /// It never takes over.
    pub const NOFAILOVER: u16 = 1 << 9;
    pub const EXTENSIONS: u16 = 1 << 10;
    pub const LIGHT_PUBLISH: u16 = 1 << 11;
    pub const LIGHT_MODULE: u16 = 1 << 12;
    pub const MY_PRIMARY_FAIL: u16 = 1 << 13;

    /// Whether it has any of these.
    pub fn has(self, bits: u16) -> bool {
        self.0 & bits != 0
    }

    /// Sets bits, or takes them away.
    pub fn set(&mut self, bits: u16, on: bool) {
        self.0 = if on { self.0 | bits } else { self.0 & !bits };
    }
}

/// Where a node is reached, and what it calls itself. Texts are empty where nothing was said.
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
    pub hostname: String,
    pub human_name: String,
    pub availability_zone: String,
    /// What clients are told instead of the address, by their own kind of address.
    pub client_ipv4: String,
    pub client_ipv6: String,
    /// And instead of the ports; 0 for none.
    pub client_port: u16,
    pub client_tls_port: u16,
}

/// A node of the cluster, this one or another.
#[derive(Clone, Debug)]
pub struct Node {
    pub id: NodeId,
    pub shard_id: NodeId,
    pub flags: Flags,
    pub address: Address,
    /// Its primary, if it is a replica that names one.
    pub primary: Option<NodeId>,
    pub config_epoch: u64,
    /// The slots that are its own, as this node knows it.
    pub slots: SlotSet,
    /// When the ping was sent that it has not answered; 0 for none.
    pub ping_sent: Millis,
    /// When it answered last; 0 for never.
    pub pong_received: Millis,
    /// When it was judged to have failed.
    pub failed_at: Millis,
    /// How far its data set's history is, as it says.
    pub replication_offset: i64,
    /// Who says that it fails, and when that was said last.
    pub failure_reports: BTreeMap<NodeId, Millis>,
    /// Whether this node's link to it stands.
    pub is_linked: bool,
}

impl Node {
    pub fn is_primary(&self) -> bool {
        self.flags.has(Flags::PRIMARY)
    }

    pub fn is_replica(&self) -> bool {
        self.flags.has(Flags::REPLICA)
    }

    pub fn has_failed(&self) -> bool {
        self.flags.has(Flags::FAIL)
    }

    pub fn is_myself(&self) -> bool {
        self.flags.has(Flags::MYSELF)
    }
}
