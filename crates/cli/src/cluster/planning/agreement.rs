//! Whether nodes agree about the slots, and which links between them are down.

use std::collections::BTreeMap;

use super::node_lines::NodeLine;

/// Returns the slots of each node, as one node describes them; None if it knows no owner.
pub fn configuration(lines: &[NodeLine]) -> Option<BTreeMap<&str, String>> {
    let owners: BTreeMap<_, _> = lines
        .iter()
        .filter(|node| !node.slots.is_empty())
        .map(|node| (node.id.as_str(), node.slots.to_string()))
        .collect();
    Some(owners).filter(|owners| !owners.is_empty())
}

/// Returns whether all nodes have the same view, and not an empty one. One node alone agrees with itself.
pub fn agree(views: &[Vec<NodeLine>]) -> bool {
    let mut configurations = views.iter().map(|lines| configuration(lines));
    let first = configurations.next().flatten();
    views.len() <= 1 || first.is_some() && configurations.all(|other| other == first)
}

/// Returns the addresses that cannot be reached, and from which nodes.
pub fn broken_links(views: &[(String, Vec<NodeLine>)]) -> BTreeMap<String, Vec<String>> {
    let mut unreachable: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (from, lines) in views {
        for node in lines.iter().filter(|node| !node.has_flag("myself")) {
            if node.is_link_down || node.has_flag("disconnected") || node.has_flag("handshake") {
                let address = format!("{}@{}", node.address(), node.bus_port);
                unreachable.entry(address).or_default().push(from.clone());
            }
        }
    }
    unreachable
}

#[cfg(test)]
mod tests {
    use super::super::node_lines::read_lines;
    use super::*;

    fn lines(text: &str) -> Vec<NodeLine> {
        read_lines(text).unwrap()
    }

    #[test]
    fn nodes_agree_on_owners_and_not_on_the_rest() {
        let one = lines("a h:1@2 myself,master - 0 0 1 connected 0-5 [7->-b]\nb h:3@4 master - 0 0 2 connected 6-9");
        let same = lines("b h:3@4 myself,master - 0 0 2 connected 6-9\na h:1@2 master,fail - 0 0 9 connected 0-5");
        let other = lines("b h:3@4 myself,master - 0 0 2 connected 6-8\na h:1@2 master - 0 0 1 connected 0-5");
        assert!(agree(&[one.clone(), same]));
        assert!(!agree(&[one.clone(), other]));
        let nothing = lines("c h:5@6 myself,master - 0 0 0 connected");
        assert!(!agree(&[one, nothing.clone()]) && !agree(&[nothing.clone(), nothing.clone()]) && agree(&[nothing]));
    }

    #[test]
    fn broken_links_are_told_by_address() {
        let view = lines(
            "a h:1@2 myself,master - 0 0 1 connected\nb h:3@4 master - 0 0 2 disconnected\nc h:5@6 handshake - 0 0 0 connected",
        );
        let broken = broken_links(&[("h:1".to_owned(), view.clone()), ("h:7".to_owned(), view)]);
        let from = || vec!["h:1".to_owned(), "h:7".to_owned()];
        assert_eq!(
            broken.into_iter().collect::<Vec<_>>(),
            [("h:3@4".to_owned(), from()), ("h:5@6".to_owned(), from())]
        );
    }
}
