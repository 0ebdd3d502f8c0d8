//! `create`: makes a cluster of nodes that do not know each other.

use super::ask_user::confirm;
use super::check_cluster::{self, Extent};
use super::cluster_view::{ClusterView, Include, describe};
use super::console::{Console, Outcome, give_up};
use super::join::{meet, wait_for_join};
use super::node::Node;
use super::planning::allocation::{Allocation, allocate, crowding_text, primaries_of};
use super::planning::node_lines::read_address;
use super::planning::slots::Slots;
use crate::options::Options;

/// Primaries that a cluster needs so that a majority remains when one fails.
const PRIMARIES_MIN: usize = 3;

pub fn run(options: &Options, console: Console) -> Outcome {
    let mut view = ClusterView::empty(options, console);
    for word in &options.cluster.arguments {
        let node = newcomer(&view, word)?;
        view.nodes.push(node);
    }
    let replicas = options.cluster.replicas;
    expect_enough_primaries(&view, replicas)?;
    console.info(&format!(">>> Performing hash slots allocation on {} node(s)...\n", view.nodes.len()));
    let plan = planned(&view, replicas);
    for (at, node) in view.nodes.iter_mut().enumerate() {
        node.line.slots = plan.slots_of(at).into_iter().flatten().collect();
    }
    show(&view, &plan);
    if !(options.cluster.yes || confirm(console, "Can I set the above configuration?")) {
        return Ok(());
    }
    configure(&mut view, &plan)?;
    let first = &view.nodes[0].line;
    let mut view = ClusterView::load(options, console, (first.host.clone(), first.port), Include::Reachable)?;
    check_cluster::check(&mut view, Extent::Full).map(|_| ())
}

/// Connects to a node, which must be empty.
fn newcomer(view: &ClusterView<'_>, address: &[u8]) -> Outcome<Node> {
    let text = String::from_utf8_lossy(address);
    let Some((host, port, _)) = read_address(&text) else {
        return give_up(&format!("Invalid address format: {text}"));
    };
    let mut node = Node::at(&host, port);
    node.connect(view.options, view.console)?;
    node.expect_cluster(view.console)?;
    node.load_or_tell(view.console)?;
    node.expect_empty(view.console)?;
    Ok(node)
}

fn expect_enough_primaries(view: &ClusterView<'_>, replicas: usize) -> Outcome {
    let (console, primaries) = (view.console, primaries_of(view.nodes.len(), replicas));
    if primaries >= PRIMARIES_MIN {
        return Ok(());
    }
    console.info(&format!(
        "Requested to create a cluster with {primaries} primaries and {replicas} replicas per primary.\n"
    ));
    let question = "Valkey cluster requires at least 3 primary nodes for automatic failover. Are you sure?";
    if !(view.settings().yes || confirm(console, question)) {
        return Err(super::console::Reported);
    }
    if primaries == 0 {
        return console.refuse("[ERR] Without a primary there is no cluster.\n");
    }
    Ok(())
}

/// Plans the cluster, and prints the plan as it takes shape.
fn planned(view: &ClusterView<'_>, replicas: usize) -> Allocation {
    let console = view.console;
    let hosts: Vec<&str> = view.nodes.iter().map(|node| node.line.host.as_str()).collect();
    let mut plan = allocate(&hosts, replicas);
    for (number, (_, range)) in plan.primaries.iter().enumerate() {
        console.plain(&format!("Primary[{number}] -> Slots {} - {}\n", range.start(), range.end()));
    }
    let address = |node: usize| view.nodes[node].address();
    for (number, (replica, primary)) in plan.replicas.iter().enumerate() {
        if number == plan.regular {
            console.plain("Adding extra replicas...\n");
        }
        console.plain(&format!("Adding replica {} to {}\n", address(*replica), address(*primary)));
    }
    if plan.crowding(&hosts) > 0 {
        console.info(">>> Trying to optimize replicas allocation for anti-affinity\n");
        plan.spread(&hosts, &mut fastrand::Rng::new());
        let crowding = plan.crowding(&hosts);
        let text = format!("{}\n", crowding_text(crowding));
        if crowding == 0 { console.ok(&text) } else { console.warn(&text) }
    }
    plan
}

fn show(view: &ClusterView<'_>, plan: &Allocation) {
    for (at, node) in view.nodes.iter().enumerate() {
        let text = match plan.primary_of(at) {
            Some(primary) => {
                format!("S: {} {}\n   replicates {}", node.id(), node.address(), view.nodes[primary].id())
            }
            None => describe(node, ""),
        };
        view.console.plain(&(text + "\n"));
    }
}

fn configure(view: &mut ClusterView<'_>, plan: &Allocation) -> Outcome {
    let console = view.console;
    for (primary, range) in &plan.primaries {
        let slots = Slots::of(std::slice::from_ref(range));
        let mut command = vec!["CLUSTER".to_owned(), "ADDSLOTS".to_owned()];
        command.extend(slots.iter().map(|slot| slot.to_string()));
        view.nodes[*primary].order(console, &command)?;
    }
    console.info(">>> Nodes configuration updated\n");
    console.info(">>> Assign a different config epoch to each node\n");
    for (at, node) in view.nodes.iter_mut().enumerate() {
        // A node that has an epoch keeps it; the nodes themselves resolve epochs that collide.
        let _ = node.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
    }
    console.info(">>> Sending CLUSTER MEET messages to join the cluster\n");
    let newcomers: Vec<usize> = (1..view.nodes.len()).collect();
    meet(view, &newcomers)?;
    wait_for_join(view);
    for (replica, primary) in &plan.replicas {
        let id = view.nodes[*primary].id().to_owned();
        view.nodes[*replica].order(console, &["CLUSTER", "REPLICATE", &id])?;
    }
    Ok(())
}
