//! A node as others know it.

use crate::Millis;
use crate::link_id::LinkId;
use crate::node_id::NodeId;
use crate::slot_set::SlotSet;
use std::collections::BTreeMap;

/// What a node is and how it is judged, as bits of the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// It may own slots.
    pub const PRIMARY: u16 = 1;
    /// It follows a primary.
    pub const REPLICA: u16 = 1 << 1;
    /// Suspected to have failed.
    pub const PFAIL: u16 = 1 << 2;
    /// Failed, as the majority says.
    pub const FAIL: u16 = 1 << 3;
    /// The node that keeps the table.
    pub const MYSELF: u16 = 1 << 4;
    /// Its name is not known yet.
    pub const HANDSHAKE: u16 = 1 << 5;
    /// Nobody knows where it is.
    pub const NOADDR: u16 = 1 << 6;
    /// It is to be sent MEET.
    pub const MEET: u16 = 1 << 7;
    /// Replicas without a reason to stay may move to it.
    pub const MIGRATE_TO: u16 = 1 << 8;
    /// It never takes over.
    pub const NOFAILOVER: u16 = 1 << 9;
    /// It understands extensions.
    pub const EXTENSIONS: u16 = 1 << 10;
    /// It understands short headers of published messages.
    pub const LIGHT_PUBLISH: u16 = 1 << 11;
    /// It understands short headers of modules' messages, and more than one MEET.
    pub const LIGHT_MODULE: u16 = 1 << 12;
    /// It is a replica, and says that its primary has failed.
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
    /// A name that clients may be told instead of the address.
    pub hostname: String,
    /// What people call it in logs.
    pub human_name: String,
    /// Where it stands.
    pub availability_zone: String,
    /// What clients are told instead of the address, by their own kind of address.
    pub client_ipv4: String,
    /// The same for clients that come over IPv6.
    pub client_ipv6: String,
    /// And instead of the ports; 0 for none.
    pub client_port: u16,
    /// The same for the port with TLS.
    pub client_tls_port: u16,
}

/// A node of the cluster, this one or another.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub id: NodeId,
    /// The name that a primary and its replicas share.
    pub shard_id: NodeId,
    /// What it is, and how it is judged.
    pub flags: Flags,
    /// Where it is.
    pub address: Address,
    /// Its primary, if it is a replica that names one.
    pub primary: Option<NodeId>,
    /// The age of what it claims: of two that claim a slot the greater one has it.
    pub config_epoch: u64,
    /// The slots that are its own, as this node knows it.
    pub slots: SlotSet,
    /// When the ping was sent that it has not answered; 0 for none.
    pub ping_sent: Millis,
    /// When it answered last; 0 for never.
    pub pong_received: Millis,
    /// When it was judged to have failed.
    pub failed_at: Millis,
    /// How far its data set's history is, as it says. Not kept for this node itself.
    pub replication_offset: i64,
    /// Who says that it fails, and when that was said last.
    pub failure_reports: BTreeMap<NodeId, Millis>,
    /// The link from here to there.
    pub link: Option<LinkId>,
    /// The link from there to here.
    pub inbound_link: Option<LinkId>,
    /// When this node heard of it.
    pub(crate) created: Millis,
    /// When anything came from it.
    pub(crate) data_received: Millis,
    /// When MEET was sent.
    pub(crate) meet_sent: Millis,
    /// Since when it has no replica that works; 0 for it has one.
    pub(crate) orphaned_since: Millis,
    /// When a link to it was tried last.
    pub(crate) connect_tried: Millis,
    /// When the link from there was lost, or it became known.
    pub(crate) inbound_lost: Millis,
}

impl Node {
    /// A node without a place.
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

    /// Whether it may own slots.
    pub fn is_primary(&self) -> bool {
        self.flags.has(Flags::PRIMARY)
    }

    /// Whether it follows a primary.
    pub fn is_replica(&self) -> bool {
        self.flags.has(Flags::REPLICA)
    }

    /// Whether the majority says that it has failed.
    pub fn has_failed(&self) -> bool {
        self.flags.has(Flags::FAIL)
    }

    /// Whether it is suspected.
    pub fn is_suspected(&self) -> bool {
        self.flags.has(Flags::PFAIL)
    }

    /// Whether it is the one that keeps the table.
    pub fn is_myself(&self) -> bool {
        self.flags.has(Flags::MYSELF)
    }

    /// Whether its name is not known yet.
    pub fn is_in_handshake(&self) -> bool {
        self.flags.has(Flags::HANDSHAKE)
    }

    /// Whether it votes: primaries with slots do.
    pub fn has_vote(&self) -> bool {
        self.is_primary() && !self.slots.is_empty()
    }

    /// Whether this node's link to it stands, or is being made.
    pub fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    /// What it is called in logs.
    pub fn human_name(&self, tls: bool) -> String {
        let address = &self.address;
        if !address.human_name.is_empty() {
            return address.human_name.clone();
        }
        let port = if tls { address.tls_port } else { address.tcp_port };
        if address.ip.contains(':') { format!("[{}]:{port}", address.ip) } else { format!("{}:{port}", address.ip) }
    }
}
