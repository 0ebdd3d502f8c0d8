//! Creation and checks of clusters.

use crate::cluster_world::World;
use crate::member::{BUS_PORT, ip};
use cluster::SLOTS;
use cluster::node::Node;
use cluster::node_id::NodeId;
use std::collections::{BTreeMap, BTreeSet};

impl World {
    /// Creates so many primaries, each with so many replicas, which know each other and own all slots.
    pub fn create(&mut self, primaries: usize, replicas: usize) {
        let share = SLOTS / primaries;
        for node in 0..self.members.len() {
            self.tell(node, |bus, now| {
                bus.set_config_epoch(node as i64 + 1, now).expect("it is new");
                if node < primaries {
                    let end = if node + 1 == primaries { SLOTS } else { (node + 1) * share };
                    bus.add_slots(&[((node * share) as u16, (end - 1) as u16)], now).expect("free");
                }
            });
        }
        for node in 1..self.members.len() {
            let ip = ip(node);
            self.tell(0, |bus, now| bus.meet(ip.as_bytes(), 6379, BUS_PORT, "test", now).expect("an address"));
        }
        let took = self.run_until("all know all", 300_000, |world| world.knows_all());
        self.note(format!("all know all after {took}"));
        for node in primaries..primaries * (replicas + 1) {
            let primary = self.id(node % primaries);
            self.tell(node, |bus, now| bus.replicate(&primary.0, false, now).expect("it is empty"));
        }
        self.run_until("the cluster is up", 60_000, |world| world.unsettled().is_none());
    }

    /// Lets time pass until a condition holds. Returns how much did.
    pub fn run_until(&mut self, what: &str, longest: i64, is_so: impl Fn(&World) -> bool) -> i64 {
        let start = self.now;
        while !is_so(self) {
            if self.now - start > longest {
                let why = self.unsettled().unwrap_or_default();
                panic!("seed {}: not so after {longest} ms: {what}: {why}\n{}", self.seed, self.history());
            }
            self.run(if self.members.len() > 64 { 1000 } else { 200 });
        }
        self.now - start
    }

    pub fn id(&self, node: usize) -> NodeId {
        self.members[node].bus().nodes().my_id()
    }

    pub fn me(&self, node: usize) -> &Node {
        self.members[node].bus().nodes().myself()
    }

    fn up(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len()).filter(|node| self.members[*node].bus.is_some())
    }

    pub fn primaries_with_slots(&self) -> Vec<usize> {
        self.up().filter(|node| self.me(*node).has_vote()).collect()
    }

    pub fn replicas_of(&self, primary: usize) -> Vec<usize> {
        let id = self.id(primary);
        self.up().filter(|node| self.me(*node).primary == Some(id)).collect()
    }

    /// Returns whether every node knows every other by its name, and has a link to it.
    pub fn knows_all(&self) -> bool {
        let all = self.members.len();
        self.up().all(|node| {
            let nodes = self.members[node].bus().nodes();
            nodes.len() == all && nodes.iter().all(|node| !node.is_in_handshake())
        })
    }

    /// Returns a fault of a cluster whose nodes are up and reach each other; None if there is none.
    pub fn unsettled(&self) -> Option<String> {
        let owners = |node: usize| -> Vec<Option<NodeId>> {
            let nodes = self.members[node].bus().nodes();
            (0..SLOTS as u16).map(|slot| nodes.owner(slot)).collect()
        };
        let first = self.up().next()?;
        let truth = owners(first);
        let mut epochs: BTreeMap<u64, usize> = BTreeMap::new();
        let ids: BTreeMap<NodeId, usize> = self.up().map(|node| (self.id(node), node)).collect();
        for node in self.up() {
            let (bus, me) = (self.members[node].bus(), self.me(node));
            if !bus.is_up() {
                return Some(format!("{node} says that the cluster is down: {:?}", bus.down_reason()));
            }
            if me.is_primary() && !me.slots.is_empty() && epochs.insert(me.config_epoch, node).is_some() {
                return Some(format!("{node} has the epoch of another primary"));
            }
            if bus.nodes().iter().any(|node| node.has_failed() || node.is_suspected()) {
                return Some(format!("{node} suspects a node"));
            }
            if me.is_replica() {
                let primary = me.primary.and_then(|id| ids.get(&id));
                let Some(primary) = primary.filter(|primary| self.me(**primary).is_primary()) else {
                    return Some(format!("{node} is a replica of no primary"));
                };
                if self.members[node].following != Some(*primary) {
                    return Some(format!("{node} does not replicate from {primary}"));
                }
                if me.shard_id != self.me(*primary).shard_id {
                    return Some(format!("{node} is not in the shard of {primary}"));
                }
            }
            let roles_differ = bus.nodes().iter().any(|known| {
                ids.get(&known.id).is_some_and(|other| self.me(*other).is_primary() != known.is_primary())
            });
            if roles_differ {
                return Some(format!("{node} does not know who is a primary"));
            }
        }
        // The check that takes longest comes last.
        if let Some(node) = self.up().find(|node| owners(*node) != truth) {
            let slot = owners(node).iter().zip(&truth).position(|(one, other)| one != other).unwrap_or_default();
            let says =
                |node: usize| owners(node)[slot].and_then(|id| ids.get(&id).map(|at| (*at, self.me(*at).config_epoch)));
            return Some(format!(
                "{node} and {first} do not agree on the owner of {slot}: {:?} {:?}",
                says(node),
                says(first)
            ));
        }
        let owners: BTreeSet<Option<NodeId>> = truth.into_iter().collect();
        owners.contains(&None).then(|| "a slot has no owner".to_string())
    }

    /// Starts all nodes, and makes them reach each other.
    pub fn settle_members(&mut self) {
        // A node might die after its first effect otherwise.
        self.dies_in_between = false;
        self.heal();
        for node in 0..self.members.len() {
            self.restart(node);
            self.go_on(node);
            self.members[node].threads.heal();
            self.members[node].is_kept_waiting = false;
            if self.data.is_on {
                self.sync_log(node);
            }
        }
    }

    pub fn settle(&mut self, longest: i64) {
        self.settle_members();
        self.run_until("the cluster has healed", longest, |world| world.unsettled().is_none());
        assert!(self.violations.is_empty(), "seed {}: {:?}\n{}", self.seed, self.violations, self.history());
    }

    /// Makes something fail, or repairs it.
    pub fn trouble(&mut self) {
        let nodes = self.members.len();
        let node = self.random.usize(..nodes);
        match self.random.u8(..8) {
            0..=2 if self.members[node].bus.is_some() => self.crash(node),
            0..=2 => self.restart(node),
            3 => self.heal(),
            4 => {
                let mask = self.random.u64(..);
                self.split(|node| (mask >> (node % 64) & 1) as u8);
            }
            5 => {
                let by = self.random.i64(-20_000..20_000);
                self.note(format!("clock of {node} jumps by {by}"));
                self.members[node].clock += by;
            }
            6 => {
                let connections: Vec<u64> = self.network.connections.keys().copied().collect();
                if let Some(id) = (!connections.is_empty()).then(|| connections[self.random.usize(..connections.len())])
                {
                    self.close(id, None);
                }
            }
            _ => self.failover_somewhere(node),
        }
    }

    fn failover_somewhere(&mut self, node: usize) {
        use cluster::bus::FailoverMode::{Agreed, Force, Takeover};
        let mode = [Agreed, Force, Takeover][self.random.usize(..3)];
        self.note(format!("{node} is told to take over: {mode:?}"));
        self.tell(node, |bus, now| _ = bus.failover(mode, "test", false, now));
    }
}
