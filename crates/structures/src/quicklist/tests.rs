//! Tests of the nodes, which the elements alone do not show; their order is tested with `List`.

use super::*;

impl Quicklist {
    pub(crate) fn check(&self) {
        self.nodes.check();
        let count = self.nodes.len();
        let depth = usize::from(self.depth);
        let nodes: Vec<&Node> = (0..count).filter_map(|at| self.nodes.get(at)).collect();
        assert_eq!(nodes.len(), count);
        assert_eq!(nodes.iter().map(|node| node.count()).sum::<usize>(), self.len);
        for (at, node) in nodes.into_iter().enumerate() {
            assert!(node.count() > 0);
            let is_inner = depth > 0 && at >= depth && at + depth < count;
            if node.is_compressed() {
                assert!(is_inner, "node {at} of {count}");
                let whole = node.decompressed().expect("it is compressed");
                assert_eq!((whole.count(), whole.len(), whole.is_plain()), (node.count(), node.len(), node.is_plain()));
            } else if is_inner {
                let mut copy = node.clone();
                copy.compress();
                assert!(!copy.is_compressed(), "node {at} of {count}");
            }
        }
    }

    /// Elements of each node.
    fn counts(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter_map(|at| self.nodes.get(at)).map(Node::count).collect()
    }
}

fn filled(rules: &Rules, elements: impl IntoIterator<Item = String>) -> Quicklist {
    let mut list = Quicklist::new(rules);
    elements.into_iter().for_each(|element| list.push(End::Tail, Cow::Owned(element.into_bytes()), rules));
    list
}

fn counted(count: i64, compress_depth: u16) -> Rules {
    Rules { fill: Fill::new(count), compress_depth, ..Rules::default() }
}

#[test]
fn nodes_are_filled_and_split_and_merged() {
    let rules = counted(4, 0);
    let mut list = filled(&rules, (0..12).map(|n| format!("element {n}")));
    assert_eq!(list.counts(), [4, 4, 4]);
    list.insert(5, false, Cow::Borrowed(b"new"), &rules);
    assert_eq!(list.counts(), [4, 2, 3, 4]);
    list.insert(4, false, Cow::Borrowed(b"at the edge, where the neighbour is full"), &rules);
    assert_eq!(list.counts(), [4, 3, 3, 4]);
    list.remove_range(4..6);
    assert_eq!(list.counts(), [4, 1, 3, 4]);
    // The split makes room for a merge on its left.
    list.insert(10, true, Cow::Borrowed(b"new"), &rules);
    assert_eq!(list.counts(), [4, 4, 3, 2]);
    list.check();
}

#[test]
fn a_large_element_has_a_node_of_its_own() {
    let rules = Rules::default();
    let mut list = filled(&rules, (0..10).map(|n| n.to_string()));
    list.insert(3, true, Cow::Owned(vec![b'x'; 9000]), &rules);
    assert_eq!(list.counts(), [4, 1, 6]);
    list.replace(4, Cow::Borrowed(b"small"), &rules);
    assert_eq!(list.counts(), [4, 7]);
    list.replace(7, Cow::Owned(vec![b'y'; 9000]), &rules);
    assert_eq!(list.counts(), [7, 1, 3]);
    list.check();
}

#[test]
fn compression_keeps_to_the_middle_and_saves_memory() {
    let text = |n: usize| format!("an element that repeats most of what others say {n}");
    let (plain, compressed) = (Rules::default(), Rules { compress_depth: 1, ..Rules::default() });
    let (mut list, whole) = (filled(&compressed, (0..2000).map(text)), filled(&plain, (0..2000).map(text)));
    assert!(list.memory_usage() * 3 < whole.memory_usage());
    assert_eq!(list.stats().bytes, whole.stats().bytes);
    list.check();
    while list.node_count() > 2 {
        list.pop(End::Head);
        list.pop(End::Tail);
    }
    assert!((0..2).all(|at| list.nodes.get(at).is_some_and(|node| !node.is_compressed())));
}

#[test]
fn a_list_is_freed_in_steps() {
    let rules = counted(4, 0);
    let mut list = filled(&rules, (0..400).map(|n| n.to_string()));
    assert_eq!(list.node_count(), 100);
    assert!(!list.drain_step(60) && list.node_count() == 40 && list.len() == 160);
    assert!(list.drain_step(60) && list.is_empty());
}
