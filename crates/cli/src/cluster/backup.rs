//! `backup`: the snapshot of each primary, and a file that lists each node's slots.

use std::path::Path;

use super::check_cluster::{self, Extent};
use super::cluster_view::{ClusterView, Include, address_of};
use super::console::{Console, Outcome, give_up};
use super::node::Node;
use super::planning::node_lines::NodeLine;
use crate::options::Options;
use crate::primary_feed;

pub fn run(options: &Options, console: Console) -> Outcome {
    let (known, folder) = options.cluster.arguments.split_at(1);
    let mut view = ClusterView::load(options, console, address_of(known)?, Include::Reachable)?;
    let is_well = check_cluster::check(&mut view, Extent::Full)?;
    let problems = if is_well { 0 } else { view.problems.len() };
    let folder = String::from_utf8_lossy(&folder.concat()).into_owned();
    if !Path::new(&folder).is_dir() {
        return console.refuse(&format!("[ERR] {folder} is not a valid directory\n"));
    }
    let inside = |name: &str| format!("{folder}{}{name}", if folder.ends_with('/') { "" } else { "/" });
    let nodes: Vec<String> = view.nodes.iter().map(|node| json(&node.line, problems)).collect();
    for node in view.nodes.iter_mut().filter(|node| node.is_primary()) {
        console.info(&format!(">>> Node {} -> Saving RDB...\n", node.address()));
        let name = format!("valkey-node-{}-{}-{}.rdb", node.line.host, node.line.port, node.id());
        save(node, &inside(&name))?;
    }
    let path = inside("nodes.json");
    console.info(&format!("Saving cluster configuration to: {path}\n"));
    if std::fs::write(&path, format!("[\n{}\n]", nodes.join(",\n"))).is_err() {
        console.error(&format!("Could not save nodes to: {path}\n"));
        return console.refuse("[ERR] Failed to back cluster!\n");
    }
    if !is_well {
        console.warn(
            "*** Cluster seems to have some problems, please be aware of it if you're going to restore this backup.\n",
        );
    }
    console.ok(&format!("[OK] Backup created into: {folder}\n"));
    Ok(())
}

fn save(node: &mut Node, path: &str) -> Outcome {
    let Some(session) = node.take_session() else { return give_up("not connected") };
    primary_feed::save(session, path).or_else(|failure| give_up(&failure.to_string()))
}

fn json(node: &NodeLine, problems: usize) -> String {
    let primary = node.primary.as_ref().map_or_else(|| "null".to_owned(), |primary| format!("\"{primary}\""));
    let mut text = format!(
        "  {{\n    \"name\": \"{}\",\n    \"host\": \"{}\",\n    \"port\": {},\n    \"replicate\": {primary},\n    \
         \"slots\": [{}],\n    \"slots_count\": {},\n    \"flags\": \"{}\",\n    \"current_epoch\": {}",
        node.id,
        node.host,
        node.port,
        node.slots.to_string().replace('-', ","),
        node.slots.len(),
        node.flags_text(),
        node.config_epoch
    );
    if problems > 0 {
        text.push_str(&format!(",\n    \"cluster_errors\": {problems}"));
    }
    for (name, moving) in [("migrating", &node.migrating), ("importing", &node.importing)] {
        if !moving.is_empty() {
            let pairs: Vec<_> = moving.iter().map(|(slot, node)| format!("\"{slot}\": \"{node}\"")).collect();
            text.push_str(&format!(",\n    \"{name}\": {{{}}}", pairs.join(",")));
        }
    }
    text + "\n  }"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_told_of_as_json() {
        let line = "ab h:1@2 myself,master - 0 0 3 connected 0-5 7 [8->-cd] [9-<-ef]";
        let expected = "  {\n    \"name\": \"ab\",\n    \"host\": \"h\",\n    \"port\": 1,\n    \"replicate\": null,\n    \
                        \"slots\": [[0,5],[7]],\n    \"slots_count\": 7,\n    \"flags\": \"master\",\n    \
                        \"current_epoch\": 3,\n    \"cluster_errors\": 1,\n    \"migrating\": {\"8\": \"cd\"},\n    \
                        \"importing\": {\"9\": \"ef\"}\n  }";
        assert_eq!(json(&NodeLine::parse(line).unwrap(), 1), expected);
        let replica = json(&NodeLine::parse("cd h:3@4 slave ab 0 0 3 connected").unwrap(), 0);
        assert!(replica.contains("\"replicate\": \"ab\",\n    \"slots\": [],\n"));
    }
}
