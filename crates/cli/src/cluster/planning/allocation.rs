//! The shape of a new cluster: the primaries, their slots, and the primary of each replica.
//!
//! Hosts take turns, so that primaries lie on as many hosts as there are, and a replica goes to another host than its
//! primary where one is left. Then replicas are swapped as long as fewer hosts are shared: a replica beside its primary
//! weighs far more than two replicas of one primary beside each other.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use fastrand::Rng;

use super::slots::SLOTS;

/// Weight of a replica beside its primary, against 1 for a replica beside another one of the same primary.
const BESIDE_PRIMARY: usize = 10_000;
/// Number of swaps that are tried, for each node.
const SWAPS: usize = 500;

/// Plan of a cluster; nodes are numbered in the order given.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// Each primary with its slots.
    pub primaries: Vec<(usize, RangeInclusive<u16>)>,
    /// Each replica with its primary.
    pub replicas: Vec<(usize, usize)>,
    /// Number of replicas that primaries were to have; the remaining ones are surplus nodes.
    pub regular: usize,
}

/// Returns how many nodes become primaries.
pub fn primaries_of(nodes: usize, replicas: usize) -> usize {
    nodes / replicas.saturating_add(1)
}

/// Plans a cluster of nodes on these hosts, in order, with so many replicas for each primary.
pub fn allocate(hosts: &[&str], replicas: usize) -> Allocation {
    let mut waiting = by_turns(hosts);
    let others = waiting.split_off(primaries_of(hosts.len(), replicas));
    let ranges = slot_ranges(waiting.len());
    let mut plan = Allocation { primaries: waiting.into_iter().zip(ranges).collect(), ..Allocation::default() };
    let mut waiting = others;
    // Starting one further often puts replicas on other hosts at once.
    let step = waiting.len().min(1);
    waiting.rotate_left(step);
    plan.assign(hosts, &mut waiting, replicas);
    plan.regular = plan.replicas.len();
    plan.assign(hosts, &mut waiting, 1);
    plan
}

/// Returns the nodes in turns, one of each host after the other.
fn by_turns(hosts: &[&str]) -> Vec<usize> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut order: Vec<(usize, usize)> = Vec::new();
    for (node, host) in hosts.iter().enumerate() {
        let turn = seen.entry(host).or_default();
        order.push((*turn, node));
        *turn += 1;
    }
    // Hosts keep the order in which they came first.
    let first = |node: usize| hosts.iter().position(|host| *host == hosts[node]);
    order.sort_by_key(|(turn, node)| (*turn, first(*node)));
    order.into_iter().map(|(_, node)| node).collect()
}

/// Cuts all slots into so many ranges of nearly one size; in single precision, as valkey-cli cuts them.
fn slot_ranges(count: usize) -> Vec<RangeInclusive<u16>> {
    let size = f32::from(SLOTS) / count as f32;
    let (mut first, mut cursor) = (0, 0.0_f32);
    let mut ranges = Vec::new();
    for number in 1..=count {
        let last =
            if number == count { SLOTS - 1 } else { ((cursor + size - 1.0).round() as u16).clamp(first, SLOTS - 1) };
        ranges.push(first..=last);
        first = last + 1;
        cursor += size;
    }
    ranges
}

impl Allocation {
    /// Gives each primary up to `each` of the waiting nodes, of other hosts first.
    fn assign(&mut self, hosts: &[&str], waiting: &mut Vec<usize>, each: usize) {
        for (primary, _) in &self.primaries {
            for _ in 0..each.min(waiting.len()) {
                let apart = waiting.iter().position(|node| hosts[*node] != hosts[*primary]);
                self.replicas.push((waiting.remove(apart.unwrap_or(0)), *primary));
            }
        }
    }

    /// Returns how badly nodes that replicate each other share hosts: 0 is perfect.
    pub fn crowding(&self, hosts: &[&str]) -> usize {
        let score = |(replicas, has_primary): &(Vec<usize>, bool)| match (has_primary, replicas.len()) {
            (true, replicas) => BESIDE_PRIMARY * replicas,
            (false, 1) => 0,
            (false, replicas) => replicas,
        };
        self.groups(hosts).values().map(score).sum()
    }

    /// Returns, for each host and primary, the replicas of it there, as places in the list, and whether it is there,
    /// too.
    fn groups<'h>(&self, hosts: &[&'h str]) -> BTreeMap<(&'h str, usize), (Vec<usize>, bool)> {
        let mut groups: BTreeMap<_, (Vec<usize>, bool)> = BTreeMap::new();
        for (primary, _) in &self.primaries {
            groups.entry((hosts[*primary], *primary)).or_default().1 = true;
        }
        for (at, (replica, primary)) in self.replicas.iter().enumerate() {
            groups.entry((hosts[*replica], *primary)).or_default().0.push(at);
        }
        groups
    }

    /// Swaps replicas for fewer shared hosts. A swap that improves nothing is kept for the next attempts, because
    /// several together may improve; the result is the best that was seen, and the first of several.
    pub fn spread(&mut self, hosts: &[&str], random: &mut Rng) {
        let mut best = (self.crowding(hosts), self.replicas.clone());
        let mut score = best.0;
        for _ in 0..SWAPS * hosts.len() {
            let groups = self.groups(hosts);
            let crowded =
                groups.values().filter(|(replicas, has_primary)| replicas.len() + usize::from(*has_primary) > 1);
            let crowded: Vec<usize> = crowded.filter_map(|(replicas, _)| replicas.first().copied()).collect();
            let Some(one) = random.choice(&crowded).copied().filter(|_| score > 0 && self.replicas.len() > 1) else {
                break;
            };
            let other = (one + random.usize(1..self.replicas.len())) % self.replicas.len();
            self.swap_primaries(one, other);
            let swapped = self.crowding(hosts);
            if swapped > score {
                self.swap_primaries(one, other);
                continue;
            }
            score = swapped;
            if score < best.0 {
                best = (score, self.replicas.clone());
            }
        }
        self.replicas = best.1;
    }

    fn swap_primaries(&mut self, one: usize, other: usize) {
        let primary = self.replicas[one].1;
        self.replicas[one].1 = self.replicas[other].1;
        self.replicas[other].1 = primary;
    }

    pub fn primary_of(&self, node: usize) -> Option<usize> {
        self.replicas.iter().find(|(replica, _)| *replica == node).map(|(_, primary)| *primary)
    }

    pub fn slots_of(&self, node: usize) -> Option<RangeInclusive<u16>> {
        self.primaries.iter().find(|(primary, _)| *primary == node).map(|(_, range)| range.clone())
    }
}

/// Returns the warning about replicas that share hosts after all.
pub fn crowding_text(crowding: usize) -> &'static str {
    match crowding {
        0 => "[OK] Perfect anti-affinity obtained!",
        BESIDE_PRIMARY.. => "[WARNING] Some replicas are in the same host as their primary",
        _ => "[WARNING] Some replicas of the same primary are in the same host",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(hosts: &[&str], replicas: usize) -> Allocation {
        let mut plan = allocate(hosts, replicas);
        plan.spread(hosts, &mut Rng::with_seed(1));
        plan
    }

    #[test]
    fn slots_are_cut_as_valkey_cli_cuts_them() {
        assert_eq!(slot_ranges(3), [0..=5460, 5461..=10922, 10923..=16383]);
        assert_eq!(slot_ranges(5), [0..=3276, 3277..=6553, 6554..=9829, 9830..=13106, 13107..=16383]);
        assert_eq!(slot_ranges(1), [0..=16383]);
        for count in [2, 7, 100, 1000, 16384] {
            let ranges = slot_ranges(count);
            assert!(ranges.iter().cloned().flatten().eq(0..SLOTS) && ranges.len() == count, "{count}");
        }
    }

    #[test]
    fn one_host_keeps_the_order_of_its_nodes() {
        let plan = planned(&["a"; 6], 1);
        let primaries: Vec<_> = plan.primaries.iter().map(|(node, _)| *node).collect();
        assert_eq!((primaries, plan.regular), (vec![0, 1, 2], 3));
        assert_eq!(plan.replicas, [(4, 0), (5, 1), (3, 2)]);
        assert_eq!(plan.crowding(&["a"; 6]), 30_000);
        assert_eq!((plan.primary_of(3), plan.primary_of(0)), (Some(2), None));
    }

    #[test]
    fn nodes_left_over_become_replicas_too() {
        let plan = planned(&["a"; 5], 1);
        assert_eq!((plan.primaries.len(), plan.regular), (2, 2));
        assert_eq!(plan.replicas, [(3, 0), (4, 1), (2, 0)]);
        // One primary takes one of the surplus nodes; the last node has no place.
        let plan = planned(&["a"; 5], 2);
        assert_eq!((plan.primaries.len(), plan.regular, plan.replicas.len()), (1, 2, 3));
        assert_eq!((plan.primary_of(1), plan.slots_of(1)), (None, None));
        assert_eq!(allocate(&["a", "b"], 5).primaries, []);
    }

    #[test]
    fn replicas_lie_on_other_hosts_than_their_primaries() {
        let two_each = ["a", "a", "b", "b", "c", "c"];
        let grouped = ["a", "b", "c", "a", "b", "c", "a", "b", "c"];
        let uneven = ["a", "a", "a", "b", "b", "c"];
        for (hosts, replicas) in [(&two_each[..], 1), (&grouped, 2), (&uneven, 1)] {
            let plan = planned(hosts, replicas);
            assert_eq!(plan.crowding(hosts), 0, "{plan:?}");
        }
        let primaries: Vec<_> = planned(&two_each, 1).primaries.iter().map(|(node, _)| two_each[*node]).collect();
        assert_eq!(primaries, ["a", "b", "c"]);
    }

    #[test]
    fn shared_hosts_are_told_of() {
        assert!(crowding_text(0).starts_with("[OK]"));
        assert!(crowding_text(2).contains("replicas of the same primary"));
        assert!(crowding_text(10_000).contains("as their primary"));
    }
}
