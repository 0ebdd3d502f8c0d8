//! Joins nodes: CLUSTER MEET, and the wait until all of them agree about the slots.

use std::thread;
use std::time::Duration;

use super::cluster_view::ClusterView;
use super::console::{Outcome, give_up};
use super::planning::agreement::{agree, broken_links};
use super::planning::node_lines::{NodeLine, read_address};
use crate::transport::resolve;

/// How often nodes are asked whether they agree.
const EVERY: Duration = Duration::from_secs(1);
/// Number of polls, and number added for each node, before links that are down are printed.
const PATIENCE: f32 = 20.0;
const PATIENCE_A_NODE: f32 = 0.15;
/// Offset of the bus port from the client port unless it was set.
const BUS_PORT_OFFSET: u16 = 10_000;

/// Introduces nodes to the first one of the cluster.
pub fn meet(view: &mut ClusterView<'_>, newcomers: &[usize]) -> Outcome {
    let Some(first) = view.nodes.first().map(|node| node.line.clone()) else { return Ok(()) };
    // CLUSTER MEET takes no names.
    let Some(address) = resolve(view.options, &first.host, first.port).ok().and_then(|all| all.into_iter().next())
    else {
        return give_up(&format!("Invalid IP address or hostname specified: {}", first.host));
    };
    let mut command = vec!["CLUSTER".to_owned(), "MEET".to_owned(), address.ip().to_string(), first.port.to_string()];
    if first.bus_port != 0 && Some(first.bus_port) != first.port.checked_add(BUS_PORT_OFFSET) {
        command.push(first.bus_port.to_string());
    }
    for newcomer in newcomers {
        view.nodes[*newcomer].order(view.console, &command)?;
    }
    Ok(())
}

/// Returns whether all nodes agree about the slots.
pub fn is_consistent(view: &mut ClusterView<'_>) -> bool {
    let views: Option<Vec<Vec<NodeLine>>> = view.nodes.iter_mut().map(|node| node.known_nodes().ok()).collect();
    views.is_some_and(|views| agree(&views))
}

/// Waits until all nodes agree, and prints now and then which of them may be unreachable.
pub fn wait_for_join(view: &mut ClusterView<'_>) {
    // Nodes agree from the start, as long as they know nothing.
    thread::sleep(EVERY);
    let console = view.console;
    console.plain("Waiting for the cluster to join\n");
    let patience = (PATIENCE + view.nodes.len() as f32 * PATIENCE_A_NODE) as usize;
    let mut asked = 0;
    while !is_consistent(view) {
        console.plain(".");
        thread::sleep(EVERY);
        asked += 1;
        if asked > patience {
            tell_of_broken_links(view);
            asked = 0;
        }
    }
    console.plain("\n");
}

fn tell_of_broken_links(view: &mut ClusterView<'_>) {
    let console = view.console;
    let views = view.nodes.iter_mut().map(|node| (node.address(), node.known_nodes().unwrap_or_default()));
    let broken = broken_links(&views.collect::<Vec<_>>());
    if broken.is_empty() {
        return;
    }
    console.plain("\n");
    console.error(&format!("Warning: {} node(s) may be unreachable\n", broken.len()));
    for (address, from) in broken {
        match read_address(&address) {
            Some((host, _, bus_port)) if bus_port != 0 => {
                console.error(&format!(" - The port {bus_port} of node {host} may be unreachable from:\n"));
            }
            _ => console.error(&format!(" - Node {address} may be unreachable from:\n")),
        }
        for node in from {
            console.error(&format!("   {node}\n"));
        }
        console.error(
            "Cluster bus ports must be reachable by every node.\nRemember that cluster bus ports are different from \
             standard instance ports.\n",
        );
    }
}
