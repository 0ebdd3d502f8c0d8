//! Questions of clients and operators to a node: the nodes of the cluster, the owners of slots, the node's state.

use super::node_access::{ask, must_be_clustered, visit};
use crate::core::args::Args;
use crate::core::cluster_routing::{client_ip, client_port, endpoint};
use crate::core::context::Context;
use crate::transactions::cluster_handle::{ClusterHandle, handle};
use cluster::bus::NodeView;
use cluster::conf::LineFor;
use cluster::node::Node;
use cluster::node_id::NodeId;
use cluster::packet::{MessageType, Published};
use engine::config::Directive;
use engine::{Engine, Error, Word};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

pub(super) fn my_id(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let id = ask(|view| view.nodes().my_id())?;
    cx.reply.bulk(id.as_str().as_bytes());
    Ok(())
}

pub(super) fn my_shard_id(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let id = ask(|view| view.nodes().myself().shard_id)?;
    cx.reply.bulk(id.as_str().as_bytes());
    Ok(())
}

/// Returns the form of lines about nodes for this client.
fn reader(cx: &Context<'_>) -> LineFor {
    let info = &cx.session.info;
    LineFor::Client { tls: info.is_tls.load(Relaxed), ipv6: info.addr.starts_with('[') }
}

pub(super) fn nodes(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let reader = reader(cx);
    let text = ask(|view| view.nodes().iter().map(|node| view.node_line(node, reader) + "\n").collect::<String>())?;
    cx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

pub(super) fn replicas(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let reader = reader(cx);
    let lines = ask(|view| {
        let node = view.nodes().named(&args[2]).ok_or_else(|| Error::UnknownNode(Word::of(&args[2])))?;
        if node.is_replica() {
            return Err(Error::NodeIsNoPrimary);
        }
        Ok(view.nodes().replicas(node.id).map(|node| view.node_line(node, reader)).collect::<Vec<_>>())
    })??;
    cx.reply.array(lines.len());
    lines.iter().for_each(|line| cx.reply.bulk(line.as_bytes()));
    Ok(())
}

pub(super) fn count_failure_reports(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let count = ask(|view| view.nodes().named(&args[2]).map(|node| view.failure_reports(node)))?;
    let count = count.ok_or_else(|| Error::UnknownNode(Word::of(&args[2])))?;
    cx.reply.int(count as i64);
    Ok(())
}

pub(super) fn links(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let links = ask(|view| view.links().to_vec())?;
    cx.reply.array(links.len());
    for link in links {
        cx.reply.map(6);
        let texts = [("direction", if link.is_inbound { "from" } else { "to" }), ("node", link.node.as_str())];
        let bulk = |cx: &mut Context<'_>, name: &str, text: &str| {
            cx.reply.bulk(name.as_bytes());
            cx.reply.bulk(text.as_bytes());
        };
        texts.iter().for_each(|(name, text)| bulk(cx, name, text));
        cx.reply.bulk(b"create-time");
        cx.reply.int(link.created);
        bulk(cx, "events", link.events);
        for name in ["send-buffer-allocated", "send-buffer-used"] {
            cx.reply.bulk(name.as_bytes());
            cx.reply.int(link.queued as i64);
        }
    }
    Ok(())
}

/// Returns the number of the bus's connections, and their memory, with messages that wait for them.
pub(crate) fn link_counts() -> (usize, u64) {
    let links = ask(|view| view.links().to_vec()).unwrap_or_default();
    let receivers = links.iter().filter(|link| !link.is_inbound).count() as u64;
    let messages = handle().map_or(0, ClusterHandle::messages_waiting) * receivers;
    (links.len(), links.iter().map(|link| link.memory).sum::<u64>() + messages)
}

/// Returns a node's offset in its history: this one's own, others' as they report it.
fn offset_of(engine: &Engine, node: &Node) -> i64 {
    if node.is_myself() { engine.replication().data_offset() as i64 } else { node.replication_offset }
}

/// Whether clients may know of a replica: not before it has data, nor when it has failed.
fn is_available(engine: &Engine, node: &Node) -> bool {
    !node.has_failed() && offset_of(engine, node) != 0
}

pub(super) fn slots(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let view = handle()?.view();
    let nodes = view.nodes();
    let mut ranges: Vec<(u16, u16, &Node)> = nodes
        .iter()
        .flat_map(|node| node.slots.ranges().into_iter().map(move |range| (range, node)))
        .map(|(range, node)| (*range.start(), *range.end(), node))
        .collect();
    ranges.sort_unstable_by_key(|(start, ..)| *start);
    cx.reply.array(ranges.len());
    for (start, end, owner) in ranges {
        let replicas: Vec<&Node> = nodes.replicas(owner.id).filter(|node| is_available(cx.engine, node)).collect();
        cx.reply.array(3 + replicas.len());
        cx.reply.int(i64::from(start));
        cx.reply.int(i64::from(end));
        std::iter::once(owner).chain(replicas).for_each(|node| reply_node(cx, node));
    }
    Ok(())
}

/// Replies a node for CLUSTER SLOTS: its address, and further facts about that.
fn reply_node(cx: &mut Context<'_>, node: &Node) {
    let (engine, address) = (cx.engine, &node.address);
    let kind = engine.config().snapshot();
    let kind = kind.choice(Directive::CLUSTER_PREFERRED_ENDPOINT_TYPE);
    cx.reply.array(4);
    match kind {
        "unknown-endpoint" => cx.reply.null(),
        _ => cx.reply.bulk(endpoint(engine, &cx.session.info, address).as_bytes()),
    }
    cx.reply.int(i64::from(client_port(&cx.session.info, address)));
    cx.reply.bulk(node.id.as_str().as_bytes());
    let others = [
        ("ip", client_ip(&cx.session.info, address), kind != "ip"),
        ("hostname", &address.hostname, kind != "hostname" && !address.hostname.is_empty()),
        ("availability-zone", &address.availability_zone, !address.availability_zone.is_empty()),
    ];
    cx.reply.map(others.iter().filter(|(.., shown)| *shown).count());
    for (name, text, _) in others.iter().filter(|(.., shown)| *shown) {
        cx.reply.bulk(name.as_bytes());
        cx.reply.bulk(text.as_bytes());
    }
}

pub(super) fn shards(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let view = handle()?.view();
    let nodes = view.nodes();
    let mut shards: BTreeMap<NodeId, Vec<&Node>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| !node.is_in_handshake()) {
        shards.entry(node.shard_id).or_default().push(node);
    }
    cx.reply.array(shards.len());
    for (id, nodes) in shards {
        cx.reply.map(3);
        cx.reply.bulk(b"slots");
        let owner = nodes.iter().find(|node| !node.slots.is_empty());
        let ranges = owner.map(|node| node.slots.ranges()).unwrap_or_default();
        cx.reply.array(ranges.len() * 2);
        for range in ranges {
            cx.reply.int(i64::from(*range.start()));
            cx.reply.int(i64::from(*range.end()));
        }
        cx.reply.bulk(b"nodes");
        cx.reply.array(nodes.len());
        nodes.iter().for_each(|node| reply_details(cx, node));
        cx.reply.bulk(b"id");
        cx.reply.bulk(id.as_str().as_bytes());
    }
    Ok(())
}

/// Replies a node for CLUSTER SHARDS.
fn reply_details(cx: &mut Context<'_>, node: &Node) {
    let (engine, address) = (cx.engine, &node.address);
    let offset = offset_of(engine, node);
    let port = |announced: u16, own: u16| if announced == 0 { own } else { announced };
    let ports = [
        ("port", address.tcp_port, port(address.client_port, address.tcp_port)),
        ("tls-port", address.tls_port, port(address.client_tls_port, address.tls_port)),
    ];
    let health = match () {
        () if node.has_failed() => "fail",
        () if node.is_replica() && offset == 0 => "loading",
        () => "online",
    };
    let has_ports = ports.iter().filter(|(_, own, _)| *own != 0).count();
    let optional = [&address.hostname, &address.availability_zone].iter().filter(|text| !text.is_empty()).count();
    cx.reply.map(6 + has_ports + optional);
    let bulk = |cx: &mut Context<'_>, name: &str, text: &str| {
        cx.reply.bulk(name.as_bytes());
        cx.reply.bulk(text.as_bytes());
    };
    bulk(cx, "id", node.id.as_str());
    for (name, _, told) in ports.iter().filter(|(_, own, _)| *own != 0) {
        cx.reply.bulk(name.as_bytes());
        cx.reply.int(i64::from(*told));
    }
    bulk(cx, "ip", client_ip(&cx.session.info, address));
    let endpoint = endpoint(engine, &cx.session.info, address);
    bulk(cx, "endpoint", endpoint);
    if !address.hostname.is_empty() {
        bulk(cx, "hostname", &address.hostname);
    }
    bulk(cx, "role", if node.is_replica() { "replica" } else { "master" });
    cx.reply.bulk(b"replication-offset");
    cx.reply.int(offset);
    bulk(cx, "health", health);
    if !address.availability_zone.is_empty() {
        bulk(cx, "availability-zone", &address.availability_zone);
    }
}

pub(super) fn info(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    must_be_clustered(cx.engine)?;
    cx.reply.verbatim(b"txt", info_text(cx.engine).as_bytes());
    Ok(())
}

/// Sets the counters of messages to zero.
pub(crate) fn reset_counters() {
    // A server without a cluster has none.
    let _ = visit(|bus, _| bus.reset_counters());
}

/// Returns the text of CLUSTER INFO; empty without a cluster.
pub(crate) fn info_text(engine: &Engine) -> String {
    let mut text = String::new();
    each_number(engine, &mut |name, number| {
        let _ = match number {
            NodeNumber::Count(count) => write!(text, "{name}:{count}\r\n"),
            NodeNumber::State(is_up) => write!(text, "{name}:{}\r\n", STATES[usize::from(is_up)]),
        };
    });
    text
}

/// Value of a field of CLUSTER INFO.
pub(crate) enum NodeNumber {
    Count(u64),
    /// Whether the cluster serves, by [`STATES`].
    State(bool),
}

/// Words for a cluster that does not serve and for one that does.
pub(crate) const STATES: [&str; 2] = ["fail", "ok"];

/// Visits the fields of CLUSTER INFO; none without a cluster.
pub(crate) fn each_number(engine: &Engine, visit: &mut dyn FnMut(&str, NodeNumber)) {
    if let Ok(handle) = handle() {
        let view = handle.view();
        // The node may know already that the cluster serves, and admit commands a little later.
        let is_up = view.is_up() && engine.cluster().is_up(&engine.cluster().map());
        visit("cluster_state", NodeNumber::State(is_up));
        each_count(&view, handle.published(), &mut |name, count| visit(name, NodeNumber::Count(count)));
    }
}

fn each_count(view: &NodeView, published: Published, line: &mut dyn FnMut(&str, u64)) {
    let (mut assigned, mut ok, mut suspected, mut failed) = (0, 0, 0, 0);
    let mut counts = [0; 4];
    for node in view.nodes().iter() {
        let slots = node.slots.len();
        assigned += slots;
        match () {
            () if node.has_failed() => failed += slots,
            () if node.is_suspected() => suspected += slots,
            () => ok += slots,
        }
        let votes = usize::from(node.has_vote());
        for (at, is_so) in [(0, node.is_suspected()), (1, node.has_failed())] {
            counts[at] += usize::from(is_so);
            counts[at + 2] += if is_so { votes } else { 0 };
        }
    }
    let myself = view.nodes().myself();
    line("cluster_slots_assigned", assigned as u64);
    line("cluster_slots_ok", ok as u64);
    line("cluster_slots_pfail", suspected as u64);
    line("cluster_slots_fail", failed as u64);
    line("cluster_nodes_pfail", counts[0] as u64);
    line("cluster_nodes_fail", counts[1] as u64);
    line("cluster_voting_nodes_pfail", counts[2] as u64);
    line("cluster_voting_nodes_fail", counts[3] as u64);
    line("cluster_known_nodes", view.nodes().len() as u64);
    line("cluster_size", view.size() as u64);
    line("cluster_current_epoch", view.current_epoch());
    line("cluster_my_epoch", view.nodes().epoch_of(myself));
    let counters = view.counters(published);
    for (way, traffic) in [("sent", &counters.sent), ("received", &counters.received)] {
        for (kind, count) in MessageType::ALL.iter().zip(traffic.messages).filter(|(_, count)| *count > 0) {
            line(&format!("cluster_stats_messages_{}_{way}", kind.name()), count);
        }
        line(&format!("cluster_stats_messages_{way}"), traffic.messages.iter().sum::<u64>());
    }
    let (sent, received) = (&counters.sent, &counters.received);
    for (what, out, came) in [
        ("", sent.bytes, received.bytes),
        ("pubsub_", sent.publish_bytes, received.publish_bytes),
        ("module_", sent.module_bytes, received.module_bytes),
    ] {
        line(&format!("cluster_stats_{what}bytes_sent"), out);
        line(&format!("cluster_stats_{what}bytes_received"), came);
    }
    line("total_cluster_links_buffer_limit_exceeded", counters.links_over_limit);
}
