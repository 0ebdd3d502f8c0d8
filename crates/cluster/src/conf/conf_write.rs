//! Lines that describe nodes.

use crate::data_history::DataHistory;
use crate::node::{Flags, Node};
use crate::node_table::NodeTable;
use std::fmt::Write;

/// Reader of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFor {
    /// This node, when it starts again: slots that their owner does not claim any more are left out.
    File,
    /// A client.
    Client {
        /// Whether the client's connection uses TLS.
        tls: bool,
        /// Whether the client's connection uses IPv6.
        ipv6: bool,
    },
}

/// Names of flags, in their order.
pub(super) const FLAG_NAMES: [(u16, &str); 8] = [
    (Flags::MYSELF, "myself"),
    (Flags::PRIMARY, "master"),
    (Flags::REPLICA, "slave"),
    (Flags::PFAIL, "fail?"),
    (Flags::FAIL, "fail"),
    (Flags::HANDSHAKE, "handshake"),
    (Flags::NOADDR, "noaddr"),
    (Flags::NOFAILOVER, "nofailover"),
];

/// Variables of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vars {
    /// Greatest epoch that was seen.
    pub current_epoch: u64,
    /// Epoch of this node's last vote.
    pub last_vote_epoch: u64,
    /// History of the data in this node's own files.
    pub history: DataHistory,
    /// Epoch of this node before it took others that no election agreed to, and that others may not know of.
    pub agreed_epoch: Option<u64>,
}

/// Returns the whole file. Real servers ignore an unknown variable.
pub fn write(nodes: &NodeTable, vars: &Vars) -> String {
    let Vars { current_epoch, last_vote_epoch, history, agreed_epoch } = *vars;
    let mut text = String::new();
    for node in nodes.iter().filter(|node| !node.is_in_handshake()) {
        node_line(&mut text, nodes, node, LineFor::File);
        text.push('\n');
    }
    let _ = write!(text, "vars currentEpoch {current_epoch} lastVoteEpoch {last_vote_epoch}");
    if history != DataHistory::Primary {
        let _ = write!(text, " unsynchronized {}", history.number());
    }
    if let Some(epoch) = agreed_epoch {
        let _ = write!(text, " agreedEpoch {epoch}");
    }
    text.push('\n');
    text
}

/// Writes a node's line, without its end.
pub fn node_line(text: &mut String, nodes: &NodeTable, node: &Node, reader: LineFor) {
    let (ip, port) = place(node, reader);
    let address = &node.address;
    let _ = write!(text, "{} {ip}:{port}@{}", node.id, address.bus_port);
    if !address.hostname.is_empty() {
        let _ = write!(text, ",{}", address.hostname);
    }
    if reader == LineFor::File {
        if address.hostname.is_empty() {
            text.push(',');
        }
        named_values(text, node);
    }
    text.push(' ');
    flag_names(text, node.flags);
    match node.primary {
        Some(primary) => _ = write!(text, " {primary}"),
        None => text.push_str(" -"),
    }
    let epoch = nodes.epoch_of(node);
    let link = if node.is_linked() || node.is_myself() { "connected" } else { "disconnected" };
    let _ = write!(text, " {} {} {epoch} {link}", node.ping_sent, node.pong_received);
    // A node that starts again takes its file's slots for claims: a slot that its owner has given away would be
    // withheld from the new owner.
    let slots = match reader {
        LineFor::File if !node.is_myself() => nodes.claimed_slots(node),
        _ => node.slots.clone(),
    };
    for range in slots.ranges() {
        let _ = match (range.start(), range.end()) {
            (start, end) if start == end => write!(text, " {start}"),
            (start, end) => write!(text, " {start}-{end}"),
        };
    }
    if node.is_myself() {
        moving_slots(text, nodes);
    }
}

/// Returns the address and port that the reader sees.
fn place(node: &Node, reader: LineFor) -> (&str, u16) {
    let address = &node.address;
    let first = |special: u16, usual: u16| if special != 0 { special } else { usual };
    match reader {
        LineFor::File => (&address.ip, address.tcp_port),
        LineFor::Client { tls, ipv6 } => {
            let special = if ipv6 { &address.client_ipv6 } else { &address.client_ipv4 };
            let ip = if special.is_empty() { &address.ip } else { special };
            let port = if tls {
                first(address.client_tls_port, address.tls_port)
            } else {
                first(address.client_port, address.tcp_port)
            };
            (ip, port)
        }
    }
}

fn named_values(text: &mut String, node: &Node) {
    let address = &node.address;
    let mut value = |name: &str, value: &dyn std::fmt::Display, is_there: bool| {
        if is_there {
            let _ = write!(text, ",{name}={value}");
        }
    };
    value("availability-zone", &address.availability_zone, !address.availability_zone.is_empty());
    value("client-tls-port", &address.client_tls_port, address.client_tls_port != 0);
    value("client-tcp-port", &address.client_port, address.client_port != 0);
    value("client-ipv6", &address.client_ipv6, !address.client_ipv6.is_empty());
    value("client-ipv4", &address.client_ipv4, !address.client_ipv4.is_empty());
    value("tls-port", &address.tls_port, true);
    value("nodename", &address.human_name, !address.human_name.is_empty());
    value("shard-id", &node.shard_id, true);
}

/// Writes the names of flags, separated by commas.
pub(crate) fn flag_names(text: &mut String, flags: Flags) {
    let start = text.len();
    for (flag, name) in FLAG_NAMES {
        if flags.has(flag) {
            if text.len() > start {
                text.push(',');
            }
            text.push_str(name);
        }
    }
    if text.len() == start {
        text.push_str("noflags");
    }
}

fn moving_slots(text: &mut String, nodes: &NodeTable) {
    let mut slots: Vec<u16> = nodes.migrating.keys().chain(nodes.importing.keys()).copied().collect();
    slots.sort_unstable();
    slots.dedup();
    for slot in slots {
        let _ = match (nodes.migrating.get(&slot), nodes.importing.get(&slot)) {
            (Some(to), _) => write!(text, " [{slot}->-{to}]"),
            (None, Some(from)) => write!(text, " [{slot}-<-{from}]"),
            (None, None) => Ok(()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::test_bus::{add_primary, bus};

    #[test]
    fn clients_are_told_what_is_meant_for_them() {
        let mut bus = bus();
        let other = add_primary(&mut bus);
        let mut node = bus.nodes().get(&other).expect("there").clone();
        node.flags = Flags(0);
        node.address.hostname = "host".into();
        node.address.client_ipv6 = "::7".into();
        node.address.client_tls_port = 7;
        node.slots = [1, 2, 3, 5].into_iter().collect();
        let line = |tls, ipv6| bus.view().node_line(&node, LineFor::Client { tls, ipv6 });
        assert_eq!(line(false, false), format!("{other} 10.0.0.9:6379@16379,host noflags - 0 0 0 disconnected 1-3 5"));
        assert!(line(true, true).starts_with(&format!("{other} ::7:7@16379,host ")));
    }
}
