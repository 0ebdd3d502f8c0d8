//! `--cluster`: the nodes that are loaded, the slots of each, and tags that route a command to one of them.
//!
//! A connection is to one node. `{tag}` in a command's keys becomes three characters that hash to one of that node's
//! slots, another at each batch, so that a node gets only keys that it serves. A redirection names the slot's new node;
//! each thread keeps its own map, and sends later commands there.

use fastrand::Rng;
use resp::Value;
use resp::address::Target;
use std::sync::OnceLock;

const SLOTS: usize = 16_384;

/// Three characters between the braces of a key.
pub type Tag = [u8; 3];

/// Selection of nodes that are loaded (`--rfr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    #[default]
    Primaries,
    Replicas,
    All,
}

impl ReadFrom {
    /// Returns the word for such nodes in reports.
    pub fn name(self) -> &'static str {
        match self {
            ReadFrom::Primaries => "primary",
            ReadFrom::Replicas => "replica",
            ReadFrom::All => "cluster",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub target: Target,
    pub is_primary: bool,
    id: String,
    slots: Vec<u16>,
}

/// Returns the nodes to load, of a reply to CLUSTER SLOTS; the error is why there are none.
pub fn nodes(reply: Option<&Value>, asked: &Target, read_from: ReadFrom) -> Result<Vec<Node>, String> {
    let failed = format!("Failed to fetch cluster configuration from {asked}");
    let nodes = match reply {
        Some(Value::Error(text)) => {
            return Err(format!("CLUSTER SLOTS ERROR: {}\n{failed}", String::from_utf8_lossy(text)));
        }
        Some(Value::Array(ranges)) => read(ranges, asked),
        _ => Vec::new(),
    };
    let is_wanted = |node: &Node| match read_from {
        ReadFrom::Primaries => node.is_primary,
        ReadFrom::Replicas => !node.is_primary,
        ReadFrom::All => true,
    };
    let nodes: Vec<_> = nodes.into_iter().filter(is_wanted).collect();
    if nodes.is_empty() { Err(failed) } else { Ok(nodes) }
}

/// Returns the nodes of a reply to CLUSTER SLOTS, in the order in which it names them.
fn read(ranges: &[Value], asked: &Target) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for range in ranges {
        let Value::Array(parts) = range else { continue };
        let [Value::Int(first), Value::Int(last), members @ ..] = &parts[..] else { continue };
        for (place, member) in members.iter().enumerate() {
            let Some((id, target)) = member_of(member, asked) else { continue };
            let at = nodes.iter().position(|node| node.target == target).unwrap_or_else(|| {
                nodes.push(Node { target, is_primary: place == 0, id, slots: Vec::new() });
                nodes.len() - 1
            });
            nodes[at].slots.extend((*first..=*last).filter_map(|slot| u16::try_from(slot).ok()));
        }
    }
    nodes
}

fn member_of(member: &Value, asked: &Target) -> Option<(String, Target)> {
    let Value::Array(fields) = member else { return None };
    let [host, Value::Int(port), id, ..] = &fields[..] else { return None };
    let text = |value: &Value| match value {
        Value::Bulk(text) if !text.is_empty() => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    };
    // A node that does not know its own address has the one that was asked.
    let host = text(host).or_else(|| match asked {
        Target::Tcp { host, .. } => Some(host.clone()),
        Target::Unix(_) => None,
    })?;
    Some((text(id).unwrap_or_default(), Target::Tcp { host, port: u16::try_from(*port).ok()? }))
}

/// Returns the lines that list the nodes.
pub fn listing(nodes: &[Node], read_from: ReadFrom) -> String {
    let mut text = format!("Cluster has {} {} nodes:\n\n", nodes.len(), read_from.name());
    for (number, Node { target, is_primary, id, .. }) in nodes.iter().enumerate() {
        let role = if *is_primary { "Primary" } else { "Replica" };
        text += &format!("Node {number}({role}): {id} {target}\n");
    }
    text + "\n"
}

/// Slots of each node, as one thread knows them.
#[derive(Clone, Debug)]
pub struct SlotMap {
    targets: Vec<Target>,
    slots: Vec<Vec<u16>>,
    rng: Rng,
}

impl SlotMap {
    pub fn new(nodes: &[Node], seed: u64) -> SlotMap {
        SlotMap {
            targets: nodes.iter().map(|node| node.target.clone()).collect(),
            slots: nodes.iter().map(|node| node.slots.clone()).collect(),
            rng: Rng::with_seed(seed),
        }
    }

    /// Returns a tag for one of the node's slots; None when it has no slot any more.
    pub fn draw(&mut self, node: usize) -> Option<Tag> {
        let slot = *self.rng.choice(self.slots.get(node)?)?;
        tags().get(usize::from(slot)).copied()
    }

    pub fn has_slots(&self, node: usize) -> bool {
        self.slots.get(node).is_some_and(|slots| !slots.is_empty())
    }

    /// Records a redirection by a node that does not serve a slot. A slot that is moving (ASK) still has its owner.
    pub fn redirected(&mut self, node: usize, text: &str) {
        let mut words = text.split(' ');
        if words.next() != Some("MOVED") {
            return;
        }
        let (slot, address) = (words.next().and_then(|slot| slot.parse::<u16>().ok()), words.next());
        let (Some(slot), Some((host, port))) = (slot, address.and_then(|address| address.rsplit_once(':'))) else {
            return;
        };
        self.slots[node].retain(|other| *other != slot);
        let named = |target: &Target| match target {
            Target::Tcp { host: other, port: other_port } => {
                other_port.to_string() == port && (host.is_empty() || host == other)
            }
            Target::Unix(_) => false,
        };
        if let Some(owner) = self.targets.iter().position(named)
            && !self.slots[owner].contains(&slot)
        {
            self.slots[owner].push(slot);
        }
    }
}

/// Returns a tag for each slot.
fn tags() -> &'static [Tag] {
    static TAGS: OnceLock<Vec<Tag>> = OnceLock::new();
    TAGS.get_or_init(|| {
        let (mut tags, mut missing) = (vec![[0; 3]; SLOTS], SLOTS);
        // Letters and digits; more characters if those do not yield every slot.
        let characters = || (b'0'..=b'9').chain(b'A'..=b'Z').chain(b'a'..=b'z').chain([b'-', b'_', b'.', b'+', b'~']);
        for tag in characters().flat_map(|a| characters().flat_map(move |b| characters().map(move |c| [a, b, c]))) {
            let place = &mut tags[usize::from(slot_of(&tag))];
            if *place == [0; 3] {
                *place = tag;
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        tags
    })
}

/// Returns the slot of the bytes: CRC-16/XMODEM modulo the number of slots.
fn slot_of(bytes: &[u8]) -> u16 {
    let step = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
    let crc = bytes.iter().fold(0, |crc, byte| (0..8).fold(crc ^ u16::from(*byte) << 8, step));
    crc % SLOTS as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(port: u16) -> Target {
        Target::Tcp { host: "h".into(), port }
    }

    fn node(port: u16, is_primary: bool, slots: &[u16]) -> Node {
        Node { target: tcp(port), is_primary, id: format!("id{port}"), slots: slots.to_vec() }
    }

    #[test]
    fn every_slot_has_a_tag_that_hashes_to_it() {
        assert_eq!((slot_of(b"foo"), slot_of(b"123456789")), (12182, 0x31c3));
        for (slot, tag) in tags().iter().enumerate() {
            assert_eq!(usize::from(slot_of(tag)), slot, "{tag:?}");
        }
    }

    #[test]
    fn nodes_are_read_with_their_slots() {
        let member = |host: &str, port, id: &str| {
            Value::Array(vec![Value::Bulk(host.into()), Value::Int(port), Value::Bulk(id.into()), Value::Array(vec![])])
        };
        let range = |first, last, members: Vec<Value>| {
            Value::Array([Value::Int(first), Value::Int(last)].into_iter().chain(members).collect())
        };
        let reply = [
            range(0, 1, vec![member("h", 1, "id1"), member("h", 2, "id2")]),
            range(5, 5, vec![member("", 3, "id3")]),
            range(7, 7, vec![member("h", 1, "id1")]),
        ];
        let expected = [node(1, true, &[0, 1, 7]), node(2, false, &[0, 1]), node(3, true, &[5])];
        assert_eq!(read(&reply, &tcp(9)), expected);
        assert_eq!(
            listing(&expected, ReadFrom::All),
            "Cluster has 3 cluster nodes:\n\nNode 0(Primary): id1 h:1\nNode 1(Replica): id2 h:2\nNode 2(Primary): id3 h:3\n\n"
        );
    }

    #[test]
    fn a_slot_that_moved_is_its_new_owners() {
        let mut map = SlotMap::new(&[node(1, true, &[1, 2]), node(2, true, &[3])], 1);
        map.redirected(0, "ASK 1 h:2");
        map.redirected(0, "MOVED 2 h:2");
        assert_eq!(map.slots, [vec![1], vec![3, 2]]);
        // No connection is to that node.
        map.redirected(0, "MOVED 1 other:7");
        assert_eq!(map.slots, [vec![], vec![3, 2]]);
        assert_eq!(map.draw(0), None);
        assert!((0..50).all(|_| [2, 3].contains(&slot_of(&map.draw(1).unwrap()))));
    }
}
