//! Reads `nodes.conf`. An invalid line is an error, and its meaning is never guessed: a node that starts with a wrong
//! view of its cluster is worse than one that does not start.

use super::conf_write::{FLAG_NAMES, Vars};

use crate::data_history::DataHistory;
use crate::node::{Address, Flags, Node};
use crate::node_id::NodeId;
use crate::node_table::NodeTable;
use crate::{Millis, SLOTS};
use std::collections::BTreeSet;
use std::fmt;

/// Contents of a file.
#[derive(Debug)]
pub struct Conf {
    /// Nodes, this one among them.
    pub nodes: NodeTable,
    /// Variables.
    pub vars: Vars,
    /// Time of another node's last answer.
    pub last_heard: Millis,
}

/// Error of an invalid file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfError {
    /// Invalid line; empty where a line is missing.
    pub line: String,
    /// Reason.
    pub reason: &'static str,
}

impl fmt::Display for ConfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: \"{}\"", self.reason, self.line)
    }
}

impl std::error::Error for ConfError {}

type Parsed<T> = Result<T, &'static str>;

/// Reads a file. `tls_cluster`: selects the kind of port that an old file has; missing shard names are drawn.
///
/// # Errors
/// Returns the first invalid line.
pub fn read(text: &[u8], tls_cluster: bool, random: &mut fastrand::Rng, now: Millis) -> Result<Conf, ConfError> {
    let text = String::from_utf8_lossy(text);
    let mut reader =
        Reader { random, now, tls_cluster, nodes: Vec::new(), listed: BTreeSet::new(), myself: None, last_heard: 0 };
    let mut said = Values::default();
    let mut lines: Vec<Vec<&str>> = Vec::new();
    let wrong = |words: &[&str], reason| ConfError { line: words.join(" "), reason };
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.first() {
            None => {}
            Some(first) if first.eq_ignore_ascii_case("vars") => {
                vars(&words, &mut said).map_err(|reason| wrong(&words, reason))?;
            }
            Some(_) => {
                reader.node(&words).map_err(|reason| wrong(&words, reason))?;
                lines.push(words);
            }
        }
    }
    let missing = || ConfError { line: String::new(), reason: "no node is this one" };
    let myself = reader.myself.ok_or_else(missing)?;
    let at = reader.nodes.iter().position(|node| node.id == myself).ok_or_else(missing)?;
    let mut nodes = NodeTable::new(reader.nodes.swap_remove(at));
    reader.nodes.into_iter().for_each(|node| nodes.insert(node));
    for words in &lines {
        links(&mut nodes, words).map_err(|reason| wrong(words, reason))?;
    }
    gather_shards(&mut nodes);
    let greatest = nodes.iter().map(|node| node.config_epoch).max().unwrap_or(0);
    let last_heard = reader.last_heard;
    let [current_epoch, last_vote_epoch, unsynchronized, agreed_epoch] = said.map(|value| value.unwrap_or(0));
    let vars = Vars {
        current_epoch: current_epoch.max(greatest),
        last_vote_epoch,
        history: DataHistory::of_number(unsynchronized),
        agreed_epoch: said[3].map(|_| agreed_epoch),
    };
    Ok(Conf { nodes, vars, last_heard })
}

/// Current epoch, epoch of the last vote, number of the data's history, and the last epoch that was agreed on.
type Values = [Option<u64>; 4];

fn vars(words: &[&str], said: &mut Values) -> Parsed<()> {
    if words.len().is_multiple_of(2) {
        return Err("a variable without a value");
    }
    for pair in words[1..].chunks_exact(2) {
        let at = match pair[0].to_ascii_lowercase().as_str() {
            "currentepoch" => 0,
            "lastvoteepoch" => 1,
            "unsynchronized" => 2,
            "agreedepoch" => 3,
            _ => continue,
        };
        said[at] = Some(pair[1].parse().map_err(|_| "an epoch that is no number")?);
    }
    Ok(())
}

struct Reader<'a> {
    random: &'a mut fastrand::Rng,
    now: Millis,
    tls_cluster: bool,
    nodes: Vec<Node>,
    listed: BTreeSet<NodeId>,
    myself: Option<NodeId>,
    last_heard: Millis,
}

impl Reader<'_> {
    /// Reads a node's line, without the words that name other nodes.
    fn node(&mut self, words: &[&str]) -> Parsed<()> {
        if words.len() < 8 {
            return Err("a line is too short");
        }
        let id = NodeId::parse(words[0].as_bytes()).ok_or("a name is none")?;
        if !self.listed.insert(id) {
            return Err("a node is there twice");
        }
        let shard_id = NodeId::random(self.random);
        let at = self.position(id, shard_id);
        let (address, shard) = address(words[1], self.tls_cluster)?;
        let flags = flags(words[2])?;
        if flags.has(Flags::MYSELF) && self.myself.replace(id).is_some() {
            return Err("two nodes are this one");
        }
        let now = self.now;
        let is_set = |word: &str| word.parse::<i64>().is_ok_and(|time| time != 0);
        self.last_heard = self.last_heard.max(words[5].parse().unwrap_or(0));
        let node = &mut self.nodes[at];
        node.flags = flags;
        node.address = address;
        if flags.has(Flags::FAIL) {
            node.failed_at = now;
        }
        if is_set(words[4]) {
            node.ping_sent = now;
        }
        if is_set(words[5]) {
            node.pong_received = now;
        }
        node.config_epoch = words[6].parse().map_err(|_| "an epoch that is no number")?;
        let named = (words[3] != "-").then(|| NodeId::parse(words[3].as_bytes()).ok_or("a primary's name is none"));
        let primary = named.transpose()?;
        if primary == Some(id) {
            return Err("a node is its own primary");
        }
        if let Some(shard) = shard {
            node.shard_id = shard;
        }
        if primary.is_some() && flags.has(Flags::REPLICA) {
            node.config_epoch = 0;
        }
        if let Some(primary) = primary {
            let fresh = NodeId::random(self.random);
            self.position(primary, fresh);
        }
        for word in &words[8..] {
            if let Some((_, _, other)) = moving_slot(word)? {
                let fresh = NodeId::random(self.random);
                self.position(other, fresh);
            }
        }
        Ok(())
    }

    /// Returns a node's index, and adds a node that is named before its line.
    fn position(&mut self, id: NodeId, shard_id: NodeId) -> usize {
        self.nodes.iter().position(|node| node.id == id).unwrap_or_else(|| {
            self.nodes.push(Node::new(id, shard_id, 0, self.now));
            self.nodes.len() - 1
        })
    }
}

/// Reads the words that name other nodes and slots, once all nodes are present.
fn links(nodes: &mut NodeTable, words: &[&str]) -> Parsed<()> {
    let id = NodeId::parse(words[0].as_bytes()).ok_or("a name is none")?;
    if let Some(primary) = NodeId::parse(words[3].as_bytes()) {
        nodes.set_primary(id, Some(primary));
    }
    for word in &words[8..] {
        if let Some((slot, is_migrating, other)) = moving_slot(word)? {
            let moving = if is_migrating { &mut nodes.migrating } else { &mut nodes.importing };
            moving.insert(slot, other);
            continue;
        }
        let (start, end) = word.split_once('-').unwrap_or((word, word));
        for slot in slot(start)?..=slot(end)? {
            if nodes.owner(slot).is_none() {
                nodes.set_owner(slot, Some(id));
            }
        }
    }
    Ok(())
}

/// Puts each replica into its primary's shard, whatever the file has.
fn gather_shards(nodes: &mut NodeTable) {
    let replicas: Vec<(NodeId, NodeId)> = nodes
        .iter()
        .map(|node| (node.id, nodes.root_primary(node)))
        .filter(|(id, root)| *id != root.id && root.primary.is_none())
        .map(|(id, root)| (id, root.shard_id))
        .collect();
    for (id, shard_id) in replicas {
        if let Some(node) = nodes.get_mut(&id) {
            node.shard_id = shard_id;
        }
    }
}

fn slot(text: &str) -> Parsed<u16> {
    text.parse().ok().filter(|slot| usize::from(*slot) < SLOTS).ok_or("a slot that is none")
}

/// Reads `[slot->-id]` or `[slot-<-id]`: the slot, whether it goes away, and the other node.
fn moving_slot(word: &str) -> Parsed<Option<(u16, bool, NodeId)>> {
    let Some(rest) = word.strip_prefix('[') else {
        return Ok(None);
    };
    let inner = rest.strip_suffix(']').ok_or("a moving slot without an end")?;
    let (number, rest) = inner.split_once('-').ok_or("a moving slot without a direction")?;
    let (is_migrating, name) = match (rest.strip_prefix(">-"), rest.strip_prefix("<-")) {
        (Some(name), _) => (true, name),
        (None, Some(name)) => (false, name),
        (None, None) => return Err("a moving slot without a direction"),
    };
    let id = NodeId::parse(name.as_bytes()).ok_or("a moving slot without a node")?;
    Ok(Some((slot(number)?, is_migrating, id)))
}

fn flags(word: &str) -> Parsed<Flags> {
    let mut flags = Flags::default();
    for name in word.split(',') {
        let name = match name.to_ascii_lowercase().as_str() {
            "noflags" => continue,
            "primary" => "master".to_string(),
            "replica" => "slave".to_string(),
            name => name.to_string(),
        };
        let (flag, _) = FLAG_NAMES.into_iter().find(|(_, known)| *known == name).ok_or("an unknown flag")?;
        flags.set(flag, true);
        if flag == Flags::NOADDR {
            flags.set(Flags::FAIL, true);
        }
    }
    Ok(flags)
}

/// Reads `ip:port@bus port,hostname,name=value,...`: the address, and the shard's name if there is one.
fn address(word: &str, tls_cluster: bool) -> Parsed<(Address, Option<NodeId>)> {
    let mut parts = word.split(',');
    let place = parts.next().unwrap_or_default();
    let mut address = Address { hostname: parts.next().unwrap_or_default().to_string(), ..Address::default() };
    let mut shard = None;
    let (mut said_tcp, mut said_tls) = (false, false);
    for part in parts {
        let (name, value) = part.split_once('=').ok_or("a named value without a value")?;
        if !name.bytes().chain(value.bytes()).all(is_plain) {
            return Err("a named value with characters that may not be");
        }
        match name {
            "shard-id" => shard = Some(NodeId::parse(value.as_bytes()).ok_or("a shard's name is none")?),
            "nodename" => address.human_name = value.to_string(),
            "tcp-port" => (address.tcp_port, said_tcp) = (port(value)?, true),
            "tls-port" => (address.tls_port, said_tls) = (port(value)?, true),
            "client-ipv4" => address.client_ipv4 = numeric::<std::net::Ipv4Addr>(value)?,
            "client-ipv6" => address.client_ipv6 = numeric::<std::net::Ipv6Addr>(value)?,
            "client-tcp-port" => address.client_port = port(value)?,
            "client-tls-port" => address.client_tls_port = port(value)?,
            "availability-zone" => address.availability_zone = value.to_string(),
            _ => return Err("an unknown named value"),
        }
    }
    let (ip, ports) = place.rsplit_once(':').ok_or("an address without a port")?;
    let (main, bus) = ports.split_once('@').map_or((ports, None), |(main, bus)| (main, Some(bus)));
    let main = port(main)?;
    match (said_tcp, said_tls) {
        (false, false) if tls_cluster => address.tls_port = main,
        (false, _) => address.tcp_port = main,
        (true, false) => address.tls_port = main,
        (true, true) => {}
    }
    address.ip = ip.to_string();
    let client_port = if tls_cluster { address.tls_port } else { address.tcp_port };
    address.bus_port = match bus {
        Some(bus) => port(bus)?,
        None => client_port.checked_add(10_000).ok_or("no room for the port of the bus")?,
    };
    Ok((address, shard))
}

fn port(text: &str) -> Parsed<u16> {
    text.parse().map_err(|_| "a port that is none")
}

fn numeric<T: std::str::FromStr>(text: &str) -> Parsed<String> {
    let is_address = text.is_empty() || text.parse::<T>().is_ok();
    is_address.then(|| text.to_string()).ok_or("an address that is none")
}

/// Returns whether a character has no meaning in the file.
pub(crate) fn is_plain(byte: u8) -> bool {
    byte > b',' && byte != 0x7f && !b";<=>?@[]^{|}~\\".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::write;

    const ME: &str = "e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca";
    const OTHER: &str = "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1";
    const SHARD: &str = "292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f";

    fn parsed(text: &str) -> Result<Conf, ConfError> {
        read(text.as_bytes(), false, &mut fastrand::Rng::with_seed(1), 77)
    }

    #[test]
    fn a_written_file_is_read_back() {
        let text = format!(
            "{OTHER} 127.0.0.1:30004@31004,host,availability-zone=a,client-tcp-port=9,client-ipv4=1.2.3.4,tls-port=5,\
             nodename=n,shard-id={SHARD} slave,fail,nofailover {ME} 77 77 4 disconnected\n\
             {ME} ::1:30001@31001,,tls-port=0,shard-id={SHARD} myself,master - 0 0 4 connected 0-5460 5470 \
             [5->-{OTHER}] [6000-<-{OTHER}]\n\
             vars currentEpoch 6 lastVoteEpoch 5 unsynchronized 1 agreedEpoch 0\n"
        );
        let conf = parsed(&text).expect("well formed");
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let written = write(&conf.nodes, &conf.vars);
        let mut again: Vec<&str> = written.lines().collect();
        again.sort_unstable();
        assert_eq!(again, lines);
        let myself = conf.nodes.myself();
        assert_eq!((myself.address.ip.as_str(), myself.slots.len()), ("::1", 5462));
    }

    #[test]
    fn files_of_old_are_read() {
        let text = format!("\n{ME} 127.0.0.1:30001 master,myself - 0 0 9 connected\nvars currentEpoch 6 newer 5\n\n");
        let conf = parsed(&text).expect("well formed");
        let address = &conf.nodes.myself().address;
        assert_eq!((address.tcp_port, address.bus_port, address.tls_port), (30001, 40001, 0));
        assert_eq!(conf.vars.current_epoch, 9, "an epoch of a node is not beyond the current one");
        let conf = read(text.as_bytes(), true, &mut fastrand::Rng::with_seed(1), 77).expect("well formed");
        assert_eq!(conf.nodes.myself().address.tls_port, 30001);
    }

    #[test]
    fn a_malformed_file_is_refused() {
        let good = format!("{ME} 127.0.0.1:1@2,,shard-id={SHARD} myself,master - 0 0 9 connected");
        assert!(parsed(&good).is_ok());
        for (from, to) in [
            ("myself,", ""),
            ("127.0.0.1:1@2", "127.0.0.1"),
            (":1@2", ":70000@2"),
            (" connected", ""),
            ("myself", "yourself"),
            ("shard-id=2", "shard-id=x"),
            ("shard-id", "shard"),
            (" 9 ", " x "),
            ("connected", "connected 16384"),
            ("connected", "connected 5-x"),
            ("connected", "connected [5->-x]"),
            ("connected", "connected [5"),
            ("e7d", "E7d"),
            (" - ", &format!(" {ME} ")),
        ] {
            assert!(parsed(&good.replacen(from, to, 1)).is_err(), "{from} {to}");
        }
        assert!(parsed(&format!("{good}\n{good}")).is_err() && parsed("").is_err());
        assert!(parsed(&format!("{good}\nvars currentEpoch")).is_err());
    }
}
