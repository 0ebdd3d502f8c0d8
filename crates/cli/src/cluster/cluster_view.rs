//! A cluster as one node describes it, with a connection to each node that answers.

use resp::Value;

use super::console::{Console, Outcome, give_up};
use super::node::Node;
use super::planning::node_lines::{NodeLine, read_address};
use crate::options::{ClusterOptions, Options};

/// Commands sent in one go.
const BATCH: usize = 1024;

/// Selection of the known nodes that take part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Include {
    Reachable,
    All,
}

/// Nodes of a cluster: first the one that was asked, then the others in the order in which it lists them.
#[derive(Debug)]
pub struct ClusterView<'a> {
    pub nodes: Vec<Node>,
    /// Problems, in words, that checks found and that must be fixed before slots move.
    pub problems: Vec<String>,
    /// Slots that several nodes have, in words.
    pub conflicts: Vec<String>,
    /// Primaries that did not answer or are out of service.
    pub unreachable_primaries: usize,
    /// Whether problems found on the way are fixed.
    pub mends: bool,
    pub options: &'a Options,
    pub console: Console,
}

impl<'a> ClusterView<'a> {
    /// Returns a view without nodes.
    pub fn empty(options: &'a Options, console: Console) -> ClusterView<'a> {
        let nodes = Vec::new();
        ClusterView {
            nodes,
            problems: Vec::new(),
            conflicts: Vec::new(),
            unreachable_primaries: 0,
            mends: false,
            options,
            console,
        }
    }

    /// Asks the node at an address, and all nodes that it knows.
    pub fn load(
        options: &'a Options,
        console: Console,
        (host, port): (String, u16),
        include: Include,
    ) -> Outcome<ClusterView<'a>> {
        let mut view = ClusterView::empty(options, console);
        let mut first = Node::at(&host, port);
        first.connect(options, console)?;
        first.expect_cluster(console)?;
        let others = first.load_or_tell(console)?;
        view.nodes.push(first);
        for line in others {
            view.add_other(line, include);
        }
        view.count_replicas();
        Ok(view)
    }

    fn add_other(&mut self, line: NodeLine, include: Include) {
        let (is_primary, is_usable) = (line.primary.is_none(), !line.is_out_of_service());
        let mut node = Node::told_of(line);
        let answers = node.line.port != 0 && node.connect(self.options, self.console).is_ok();
        let is_loaded = answers && node.load().is_ok();
        if answers && !is_loaded {
            self.console.error(&format!("[ERR] Unable to load info for node {}\n", node.address()));
        }
        if !(is_loaded && is_usable) {
            self.unreachable_primaries += usize::from(is_primary);
            if include == Include::Reachable {
                return;
            }
        }
        self.nodes.push(node);
    }

    fn count_replicas(&mut self) {
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            let Some(primary) = node.line.primary.clone() else { continue };
            match self.nodes.iter_mut().find(|node| node.id() == primary) {
                Some(primary) => primary.replicas += 1,
                None => self.console.warn(&format!(
                    "*** WARNING: {} claims to be replica of unknown node ID {primary}.\n",
                    self.nodes[at].address()
                )),
            }
        }
    }

    pub fn settings(&self) -> &'a ClusterOptions {
        &self.options.cluster
    }

    /// Returns the number of the node with this name.
    pub fn by_id(&self, id: &str) -> Option<usize> {
        let id = id.to_ascii_lowercase();
        self.nodes.iter().position(|node| node.id() == id)
    }

    /// Returns the numbers of the primaries.
    pub fn primaries(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|at| self.nodes[*at].is_primary()).collect()
    }

    /// Returns the reachable primary with the fewest replicas, except `but`.
    pub fn with_fewest_replicas(&self, but: Option<usize>) -> Option<usize> {
        let fit = self.primaries().into_iter().filter(|at| Some(*at) != but && self.nodes[*at].is_connected());
        fit.min_by_key(|at| self.nodes[*at].replicas)
    }

    pub fn show_nodes(&self) {
        for node in &self.nodes {
            self.console.plain(&(describe(node, "") + "\n"));
        }
    }

    /// Returns how many keys of each of these slots a node has.
    pub fn keys_in_slots(&mut self, node: usize, slots: &[u16]) -> Outcome<Vec<u64>> {
        let mut counts = Vec::new();
        for some in slots.chunks(BATCH) {
            let commands = some.iter().map(|slot| words(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]));
            let replies = self.nodes[node].ask_all(&commands.collect::<Vec<_>>());
            let replies = replies.map_err(|lost| self.nodes[node].tell_of_refusal(self.console, &lost))?;
            for reply in replies {
                match reply {
                    Value::Int(count) => counts.push(u64::try_from(count).unwrap_or(0)),
                    Value::Error(text) => {
                        let text = String::from_utf8_lossy(&text);
                        return Err(self.nodes[node].tell_of_refusal(self.console, &text));
                    }
                    _ => counts.push(0),
                }
            }
        }
        Ok(counts)
    }
}

/// Converts words into one command of several that are sent at once.
pub fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Describes a node in lines for people, each after `indent`.
pub fn describe(node: &Node, indent: &str) -> String {
    let line = &node.line;
    let role = if line.is_replica() { "S" } else { "M" };
    let mut text = format!("{indent}{role}: {} {}\n{indent}   slots:{}", line.id, line.address(), line.slots);
    text.push_str(&format!(" ({} slots) {}", line.slots.len(), line.flags_text()));
    match &line.primary {
        Some(primary) => text.push_str(&format!("\n{indent}   replicates {primary}")),
        None if node.replicas > 0 => text.push_str(&format!("\n{indent}   {} additional replica(s)", node.replicas)),
        None => {}
    }
    text
}

/// Returns the address that a subcommand is given, as one word with a colon or as two.
pub fn address_of(arguments: &[Vec<u8>]) -> Outcome<(String, u16)> {
    let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
    let address = match arguments {
        [one] => read_address(&text(one)).map(|(host, port, _)| (host, port)),
        [host, port] => text(port).parse().ok().map(|port| (text(host), port)),
        _ => None,
    };
    match address.filter(|(host, port)| !host.is_empty() && *port != 0) {
        Some(address) => Ok(address),
        None => give_up(
            "[ERR] Invalid arguments: you need to pass either a valid address (ie. 120.0.0.1:7000) or space separated \
             IP and port (ie. 120.0.0.1 7000)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_described() {
        let line = "ab h:1@2 myself,master - 0 0 1 connected 0-5 7";
        let mut node = Node::told_of(NodeLine::parse(line).unwrap());
        node.replicas = 1;
        assert_eq!(
            describe(&node, "  "),
            "  M: ab h:1\n     slots:[0-5],[7] (7 slots) master\n     1 additional replica(s)"
        );
        let node = Node::told_of(NodeLine::parse("cd h:3@4 slave ab 0 0 1 connected").unwrap());
        assert_eq!(describe(&node, ""), "S: cd h:3\n   slots: (0 slots) slave\n   replicates ab");
    }

    #[test]
    fn addresses_are_one_word_or_two() {
        let address = |text: &str| address_of(&words(&text.split(' ').collect::<Vec<_>>())).ok();
        assert_eq!(address("h:7"), Some(("h".to_owned(), 7)));
        assert_eq!(address("h 7"), Some(("h".to_owned(), 7)));
        for text in ["h", "h:x", "h:0", ":7", "h 7 8", "h x", "a:1 b:2"] {
            assert_eq!(address(text), None, "{text}");
        }
    }
}
