//! `add-node` and `del-node`: a node joins a cluster, as a primary without slots or as a replica, or leaves it.

use resp::Value;

use super::check_cluster::{self, Extent};
use super::cluster_view::{ClusterView, Include, address_of};
use super::console::{Console, Outcome, Reported};
use super::join::{meet, wait_for_join};
use super::node::Node;
use crate::options::Options;

pub fn add_node(options: &Options, console: Console) -> Outcome {
    let (newcomer, known) = options.cluster.arguments.split_at(1);
    let ((known_host, known_port), (host, port)) = (address_of(known)?, address_of(newcomer)?);
    console.info(&format!(">>> Adding node {host}:{port} to cluster {known_host}:{known_port}\n"));
    let mut view = ClusterView::load(options, console, (known_host, known_port), Include::Reachable)?;
    if !check_cluster::check(&mut view, Extent::Full)? {
        return Err(Reported);
    }
    let primary = primary_to_be(&view)?;
    let mut node = Node::at(&host, port);
    if node.connect(options, console).is_err() {
        return console.refuse(&format!("[ERR] Sorry, can't connect to node {host}:{port}\n"));
    }
    node.expect_cluster(console)?;
    node.load_or_tell(console)?;
    node.expect_empty(console)?;
    if primary.is_none() {
        copy_functions(&mut view.nodes[0], &mut node, console)?;
    }
    view.nodes.push(node);
    let newcomer = view.nodes.len() - 1;
    console.info(&format!(">>> Send CLUSTER MEET to node {host}:{port} to make it join the cluster.\n"));
    meet(&mut view, &[newcomer])?;
    if let Some(primary) = primary {
        wait_for_join(&mut view);
        let (address, id) = (view.nodes[primary].address(), view.nodes[primary].id().to_owned());
        console.info(&format!(">>> Configure node as replica of {address}.\n"));
        view.nodes[newcomer].order(console, &["CLUSTER", "REPLICATE", &id])?;
    }
    console.ok("[OK] New node added correctly.\n");
    Ok(())
}

/// Returns the primary of the new node, if it becomes a replica.
fn primary_to_be(view: &ClusterView<'_>) -> Outcome<Option<usize>> {
    let console = view.console;
    if !view.settings().as_replica {
        return Ok(None);
    }
    if let Some(id) = &view.settings().primary_id {
        return match view.by_id(id) {
            Some(primary) => Ok(Some(primary)),
            None => console.refuse(&format!("[ERR] No such primary ID {id}\n")),
        };
    }
    let Some(primary) = view.with_fewest_replicas(None) else {
        return console.refuse("[ERR] Could not find a reachable primary node.\n");
    };
    console.plain(&format!("Automatically selected primary {}\n", view.nodes[primary].address()));
    Ok(Some(primary))
}

/// Copies the functions of the cluster to a new primary.
fn copy_functions(from: &mut Node, to: &mut Node, console: Console) -> Outcome {
    let address = to.address();
    console.info(">>> Getting functions from cluster\n");
    let library = match from.ask(&["FUNCTION", "DUMP"]) {
        Ok(Value::Bulk(library)) => library,
        reply => {
            let why = reply.err().unwrap_or_else(|| "an unexpected reply".to_owned());
            console.info(&format!(
                ">>> Failed retrieving Functions from the cluster, skip this step as Valkey version do not support \
                 function command (error = '{why}')\n"
            ));
            return Ok(());
        }
    };
    console.info(&format!(">>> Send FUNCTION LIST to {address} to verify there is no functions in it\n"));
    match to.ask(&["FUNCTION", "LIST"]) {
        Ok(Value::Array(functions)) if functions.is_empty() => {}
        Ok(_) => {
            return console.refuse(
                ">>> New node already contains functions and can not be added to the cluster. Use FUNCTION FLUSH and \
                 try again.\r\n",
            );
        }
        Err(why) => return console.refuse(&format!(">>> Failed on CLUSTER LIST (error = '{why}')\r\n")),
    }
    console.info(&format!(">>> Send FUNCTION RESTORE to {address}\n"));
    match to.ask(&[&b"FUNCTION"[..], b"RESTORE", &library]) {
        Ok(_) => Ok(()),
        Err(why) => console.refuse(&format!(">>> Failed loading functions to the new node (error = '{why}')\r\n")),
    }
}

pub fn del_node(options: &Options, console: Console) -> Outcome {
    let (known, id) = options.cluster.arguments.split_at(1);
    let (host, port) = address_of(known)?;
    let id = String::from_utf8_lossy(&id.concat()).into_owned();
    console.info(&format!(">>> Removing node {id} from cluster {host}:{port}\n"));
    let mut view = ClusterView::load(options, console, (host, port), Include::All)?;
    let Some(leaving) = view.by_id(&id) else {
        return console.refuse(&format!("[ERR] No such node ID {id}\n"));
    };
    let address = view.nodes[leaving].address();
    if !view.nodes[leaving].line.slots.is_empty() {
        return console.refuse(&format!("[ERR] Node {address} is not empty! Reshard data away and try again.\n"));
    }
    console.info(">>> Sending CLUSTER FORGET messages to the cluster...\n");
    for node in (0..view.nodes.len()).filter(|node| *node != leaving) {
        forget(&mut view, node, leaving, &id)?;
    }
    if view.nodes[leaving].is_connected() {
        console.info(">>> Sending CLUSTER RESET SOFT to the deleted node.\n");
        view.nodes[leaving].order(console, &["CLUSTER", "RESET", "SOFT"])?;
    } else {
        console.warn(&format!(">>> WARNING: Could not connect to node {address}, unable to send CLUSTER RESET.\n"));
    }
    console.ok(&format!("[OK] Node {id} removed from the cluster.\n"));
    Ok(())
}

/// Makes a node forget the one that leaves; a replica of that follows another primary first.
fn forget(view: &mut ClusterView<'_>, node: usize, leaving: usize, id: &str) -> Outcome {
    let (console, address) = (view.console, view.nodes[node].address());
    if !view.nodes[node].is_connected() {
        console.warn(&format!(
            ">>> Skipping unreachable node {address}. It may need manual reconfiguration when it comes back online.\n"
        ));
        return Ok(());
    }
    if view.nodes[node].line.primary.as_deref() == Some(view.nodes[leaving].id()) {
        let Some(primary) = view.with_fewest_replicas(Some(leaving)) else {
            return console
                .refuse(&format!("[ERR] Could not find a reachable primary node to reassign replica {address}.\n"));
        };
        let (primary, primary_id) = (view.nodes[primary].address(), view.nodes[primary].id().to_owned());
        console.info(&format!(">>> {address} as replica of {primary}\n"));
        view.nodes[node].order(console, &["CLUSTER", "REPLICATE", &primary_id])?;
    }
    view.nodes[node].order(console, &["CLUSTER", "FORGET", id]).map(|_| ())
}
