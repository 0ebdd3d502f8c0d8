//! A slot that was left open, moving from one node to another: which nodes claim it, and how it is closed.
//!
//! ```text
//!   migrating  importing
//!       1          1       the move is finished
//!       0         1..      all keys go to the owner
//!       1         2..      no keys with those that import: to the one that was meant, or closed everywhere
//!       1          0       no keys there, or it is the owner: closed
//! ```

use super::node_lines::NodeLine;

/// A primary, with its number of keys of the slot.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    pub node: usize,
    pub line: &'a NodeLine,
    pub keys: u64,
}

/// Nodes that claim the slot, by their numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OpenSlot {
    /// Nodes that own it, or have keys of it.
    pub owners: Vec<usize>,
    /// The owner, if it is beyond doubt.
    pub owner: Option<usize>,
    pub migrating: Vec<usize>,
    pub importing: Vec<usize>,
    /// Nodes that have keys without owning it.
    pub keys_without_ownership: Vec<usize>,
    /// Nodes that have keys without a reason: neither owner, nor migrating, nor importing.
    pub keys_without_reason: Vec<usize>,
}

/// Steps that close the slot.
#[derive(Debug, PartialEq, Eq)]
pub enum Remedy {
    FinishMove { from: usize, to: usize },
    GatherAtOwner,
    FinishMoveAndClose { from: usize, to: usize },
    CloseEverywhere { migrating: usize },
    Close(usize),
    None,
}

impl OpenSlot {
    pub fn survey(slot: u16, claimants: &[Claimant<'_>]) -> OpenSlot {
        let mut found = OpenSlot::default();
        for claimant in claimants {
            if claimant.line.slots.contains(slot) {
                found.owners.push(claimant.node);
            } else if claimant.keys > 0 {
                found.owners.push(claimant.node);
                found.keys_without_ownership.push(claimant.node);
            }
        }
        if let [only] = found.owners[..] {
            found.owner = Some(only);
        }
        for claimant in claimants {
            if claimant.line.migrating_to(slot).is_some() {
                found.migrating.push(claimant.node);
            } else if claimant.line.is_importing(slot) {
                found.importing.push(claimant.node);
            } else if found.owner != Some(claimant.node) && claimant.keys > 0 {
                found.importing.push(claimant.node);
                found.keys_without_reason.push(claimant.node);
            }
        }
        found
    }

    /// Records that the node was made the owner.
    pub fn set_owner(&mut self, owner: usize) {
        self.owner = Some(owner);
        self.migrating.retain(|node| *node != owner);
        self.importing.retain(|node| *node != owner);
    }

    /// Records that the node gave up its claim: its keys are to go to the owner.
    pub fn set_importing(&mut self, node: usize) {
        self.migrating.retain(|other| *other != node);
        self.importing.retain(|other| *other != node);
        self.importing.push(node);
    }

    pub fn remedy(&self, slot: u16, claimants: &[Claimant<'_>]) -> Remedy {
        let of = |node: usize| claimants.iter().find(|claimant| claimant.node == node);
        let keys = |node: usize| of(node).map_or(0, |claimant| claimant.keys);
        match (&self.migrating[..], &self.importing[..]) {
            ([from], [to]) => Remedy::FinishMove { from: *from, to: *to },
            ([], [_, ..]) => Remedy::GatherAtOwner,
            ([from], [_, _, ..]) => {
                if self.importing.iter().any(|node| keys(*node) > 0) {
                    return Remedy::None;
                }
                let target = of(*from).and_then(|claimant| claimant.line.migrating_to(slot));
                let is_target = |node: &&usize| of(**node).is_some_and(|c| Some(c.line.id.as_str()) == target);
                match self.importing.iter().find(is_target) {
                    Some(to) => Remedy::FinishMoveAndClose { from: *from, to: *to },
                    None => Remedy::CloseEverywhere { migrating: *from },
                }
            }
            ([node], []) if self.owner == Some(*node) || keys(*node) == 0 => Remedy::Close(*node),
            _ => Remedy::None,
        }
    }
}

/// Returns the node with the most keys, the first of several; None if there are no nodes.
pub fn with_most_keys(claimants: &[Claimant<'_>]) -> Option<usize> {
    let most = claimants.iter().map(|claimant| claimant.keys).max()?;
    claimants.iter().find(|claimant| claimant.keys == most).map(|claimant| claimant.node)
}

#[cfg(test)]
mod tests {
    use super::super::node_lines::read_lines;
    use super::*;

    /// Takes nodes a, b, c, d, with the words after the colon of each as slots, and their keys in that order.
    fn verdict(slots: [&str; 4], keys: [u64; 4]) -> (OpenSlot, Remedy) {
        let line = |(id, slots): (&str, &str)| format!("{id} h:1@2 master - 0 0 1 connected{slots}\n");
        let text: String = ["a", "b", "c", "d"].into_iter().zip(slots).map(line).collect();
        let lines = read_lines(&text).unwrap();
        let claimants: Vec<_> =
            lines.iter().enumerate().map(|(node, line)| Claimant { node, line, keys: keys[node] }).collect();
        let open = OpenSlot::survey(7, &claimants);
        let remedy = open.remedy(7, &claimants);
        (open, remedy)
    }

    #[test]
    fn a_move_with_both_ends_is_finished() {
        let (open, remedy) = verdict([" 0-9 [7->-b]", " [7-<-a]", "", ""], [5, 0, 0, 0]);
        assert_eq!((open.owner, remedy), (Some(0), Remedy::FinishMove { from: 0, to: 1 }));
        // Keys have arrived: the owner is in doubt until one is chosen.
        let (mut open, _) = verdict([" 0-9 [7->-b]", " [7-<-a]", "", ""], [5, 2, 0, 0]);
        assert_eq!((open.owner, &open.owners[..]), (None, &[0, 1][..]));
        assert_eq!(open.keys_without_ownership, [1]);
        open.set_owner(0);
        assert_eq!((&open.migrating[..], &open.importing[..]), (&[][..], &[1][..]));
    }

    #[test]
    fn keys_without_a_move_go_to_the_owner() {
        let (open, remedy) = verdict([" 0-9", " [7-<-a]", "", ""], [5, 0, 0, 0]);
        assert_eq!((open.owner, remedy), (Some(0), Remedy::GatherAtOwner));
        let (open, _) = verdict([" 0-9", "", " [7-<-a]", ""], [5, 3, 0, 0]);
        assert_eq!((&open.importing[..], &open.keys_without_reason[..]), (&[0, 1, 2][..], &[0, 1][..]));
    }

    #[test]
    fn several_importers_without_keys_are_closed() {
        let importers = [" 0-9 [7->-c]", " [7-<-a]", " [7-<-a]", ""];
        assert_eq!(verdict(importers, [5, 0, 0, 0]).1, Remedy::FinishMoveAndClose { from: 0, to: 2 });
        let importers = [" 0-9 [7->-d]", " [7-<-a]", " [7-<-a]", ""];
        assert_eq!(verdict(importers, [5, 0, 0, 0]).1, Remedy::CloseEverywhere { migrating: 0 });
    }

    #[test]
    fn a_move_that_nobody_imports_is_closed() {
        assert_eq!(verdict([" 0-9 [7->-b]", "", "", ""], [5, 0, 0, 0]).1, Remedy::Close(0));
        assert_eq!(verdict(["", " 0-9", " [7->-b]", ""], [0, 0, 0, 0]).1, Remedy::Close(2));
        assert_eq!(verdict([" 0-9 [7->-b]", " [7->-a]", "", ""], [0, 0, 0, 0]).1, Remedy::None);
    }

    #[test]
    fn the_first_of_those_with_most_keys_is_chosen() {
        let line = NodeLine::default();
        let claimants = |keys: &[u64]| {
            let all = keys.iter().enumerate().map(|(node, keys)| Claimant { node, line: &line, keys: *keys });
            with_most_keys(&all.collect::<Vec<_>>())
        };
        assert_eq!(claimants(&[0, 3, 3, 1]), Some(1));
        assert_eq!(claimants(&[0, 0]), Some(0));
        assert_eq!(claimants(&[]), None);
    }
}
