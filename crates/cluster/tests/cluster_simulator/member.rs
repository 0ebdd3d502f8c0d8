//! A virtual node: the state machine, its disk, its clock and its data.

use crate::executor::Threads;
use cluster::bus::{Bus, Facts, Settings};
use cluster::node::Address;
use cluster::slot_set::SlotSet;
use std::collections::BTreeMap;

pub const BUS_PORT: u16 = 16379;

pub struct Member {
    /// State machine; None while the node is down.
    pub bus: Option<Bus>,
    /// `nodes.conf`.
    pub disk: Vec<u8>,
    /// Lead of the node's clock.
    pub clock: i64,
    /// Node that this one replicates from.
    pub following: Option<usize>,
    /// Length of the node's data.
    pub offset: i64,
    /// Offset up to which the node may hold acknowledged writes, if that is not all of its data.
    pub claim: Option<i64>,
    /// Time of the primary's last bytes; 0 for never.
    pub heard: i64,
    /// Side of a split network: nodes of another side are not reachable.
    pub side: u8,
    /// Whether the node was synchronized with the primary that it follows.
    pub has_history: bool,
    /// Whether the node's data is no part of the history of its primary: it led itself, or followed another node, and
    /// was not synchronized since.
    pub is_foreign: bool,
    /// Whether the node has led since its last synchronization.
    pub has_led: bool,
    /// Whether the node's files do not have the data of the last synchronization.
    pub is_unsaved: bool,
    /// Whether the link to that primary is up.
    pub is_linked: bool,
    /// Number of times that the link came up since the start.
    pub synchronizations: u64,
    /// Time at which the node had all data of that primary.
    pub synchronized: i64,
    /// Former slots of the node, and the time at which it gained each.
    pub slots: SlotSet,
    pub gained: BTreeMap<u16, i64>,
    /// Slots whose keys the node has, as of the time when it led, or was synchronized.
    pub kept: SlotSet,
    /// Whether the primary that the node follows sends nothing.
    pub is_kept_waiting: bool,
    /// Whether the node leads, and answers no client.
    pub is_unconfirmed: bool,
    /// Whether the node, a replica, was left out of the in-sync set.
    pub may_lack_acknowledged: bool,
    pub bytes_sent: u64,
    /// Threads that carry out the node's effects.
    pub threads: Threads,
}

pub fn ip(node: usize) -> String {
    format!("10.0.{}.{}", node / 250, node % 250 + 1)
}

pub fn node_at(ip: &str) -> Option<usize> {
    let mut parts = ip.strip_prefix("10.0.")?.split('.');
    let (high, low): (usize, usize) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(high * 250 + low.checked_sub(1)?)
}

fn address() -> Address {
    Address { tcp_port: 6379, bus_port: BUS_PORT, ..Address::default() }
}

impl Member {
    pub fn new(settings: &Settings, seed: u64, now: i64) -> Member {
        let bus = Bus::new(address(), settings.clone(), fastrand::Rng::with_seed(seed), now);
        Member {
            disk: bus.conf(),
            bus: Some(bus),
            clock: 0,
            following: None,
            offset: 1,
            claim: None,
            heard: now,
            side: 0,
            has_history: false,
            is_foreign: false,
            has_led: false,
            is_unsaved: false,
            is_linked: false,
            synchronizations: 0,
            synchronized: 0,
            slots: SlotSet::none(),
            gained: BTreeMap::new(),
            kept: SlotSet::none(),
            is_kept_waiting: false,
            is_unconfirmed: false,
            may_lack_acknowledged: false,
            bytes_sent: 0,
            threads: Threads::default(),
        }
    }

    pub fn restart(&mut self, settings: &Settings, seed: u64, now: i64) {
        let random = fastrand::Rng::with_seed(seed);
        let loaded = Bus::load(&self.disk, address(), settings.clone(), random, now + self.clock);
        self.bus = Some(loaded.expect("what was saved is read"));
        // A killed node loses the data that is not on the disk: all of it.
        self.offset = 1;
        self.following = None;
        (self.has_history, self.is_linked, self.synchronizations) = (false, false, 0);
        self.heard = now;
    }

    /// Returns whether this node is a primary when it starts again.
    pub fn is_primary_by_file(&self, settings: &Settings) -> bool {
        let random = fastrand::Rng::with_seed(0);
        let loaded = Bus::load(&self.disk, address(), settings.clone(), random, self.clock);
        loaded.expect("what was saved is read").nodes().myself().is_primary()
    }

    pub fn bus(&self) -> &Bus {
        self.bus.as_ref().expect("it is up")
    }

    pub fn facts(&self) -> Facts {
        Facts {
            replication_offset: self.offset,
            claimed_offset: self.claim.unwrap_or(self.offset),
            // No client writes here.
            are_writes_paused: true,
            is_following: self.following.is_some(),
            is_linked: self.following.is_some() && self.has_history && self.is_linked,
            synchronizations: self.synchronizations,
            is_unsaved: self.is_unsaved,
            heard_from_primary: if self.heard == 0 { 0 } else { self.heard + self.clock },
            is_unconfirmed: self.is_unconfirmed && self.following.is_none(),
            is_in_sync: false,
            may_lack_acknowledged: self.may_lack_acknowledged && self.following.is_some(),
            has_history: self.following.is_some() && self.has_history,
        }
    }
}
