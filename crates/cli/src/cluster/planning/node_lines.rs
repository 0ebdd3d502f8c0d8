//! The text of CLUSTER NODES: a line a node, with the slots that it owns and, on its own line, those that move.
//!
//! ```text
//! id host:port@bus,hostname flags primary ping-sent pong-received epoch link 0-5460 7 [8->-id] [9-<-id]
//! ```

use super::slots::{Slots, read_range};

/// A node, as a line describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLine {
    pub id: String,
    /// Its address, empty if unknown.
    pub host: String,
    pub port: u16,
    pub bus_port: u16,
    pub flags: Vec<String>,
    /// The primary's id, if the node is a replica.
    pub primary: Option<String>,
    pub config_epoch: u64,
    pub is_link_down: bool,
    pub slots: Slots,
    /// Slots that leave, each with its target.
    pub migrating: Vec<(u16, String)>,
    /// Slots that arrive, each with its source.
    pub importing: Vec<(u16, String)>,
}

impl NodeLine {
    /// Reads a line; None if it does not describe a node.
    pub fn parse(line: &str) -> Option<NodeLine> {
        let mut words = line.split(' ');
        let (id, address, flags, primary) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let (_ping, _pong, epoch, link) = (words.next(), words.next(), words.next()?, words.next()?);
        let (host, port, bus_port) = read_address(address)?;
        let mut node = NodeLine {
            id: id.to_owned(),
            host,
            port,
            bus_port,
            flags: flags.split(',').map(str::to_owned).collect(),
            config_epoch: epoch.parse().unwrap_or(0),
            is_link_down: link == "disconnected",
            ..NodeLine::default()
        };
        node.primary = node.is_replica().then(|| primary.to_owned());
        for word in words {
            if let Some(inside) = word.strip_prefix('[') {
                node.add_moving(inside.trim_end_matches(']'));
            } else {
                node.slots.extend(read_range(word).into_iter().flatten());
            }
        }
        Some(node)
    }

    fn add_moving(&mut self, text: &str) {
        if let Some((slot, to)) = text.split_once("->-") {
            self.migrating.extend(slot.parse().ok().map(|slot| (slot, to.to_owned())));
        } else if let Some((slot, from)) = text.split_once("-<-") {
            self.importing.extend(slot.parse().ok().map(|slot| (slot, from.to_owned())));
        }
    }

    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }

    pub fn is_replica(&self) -> bool {
        self.has_flag("slave") || self.has_flag("replica")
    }

    /// Returns whether others say that it cannot be used.
    pub fn is_out_of_service(&self) -> bool {
        ["noaddr", "disconnected", "fail"].iter().any(|flag| self.has_flag(flag))
    }

    /// Returns the target of a slot that leaves.
    pub fn migrating_to(&self, slot: u16) -> Option<&str> {
        self.migrating.iter().find(|(moving, _)| *moving == slot).map(|(_, to)| to.as_str())
    }

    pub fn is_importing(&self, slot: u16) -> bool {
        self.importing.iter().any(|(moving, _)| *moving == slot)
    }

    /// Returns its flags for people, who know which node they ask.
    pub fn flags_text(&self) -> String {
        let flags: Vec<_> = self.flags.iter().map(String::as_str).filter(|flag| *flag != "myself").collect();
        flags.join(",")
    }

    /// `host:port`
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// Reads all lines; None if one of them does not describe a node.
pub fn read_lines(text: &str) -> Option<Vec<NodeLine>> {
    text.lines().map(NodeLine::parse).collect()
}

/// Reads `host:port` or `host:port@bus`, with or without words after a comma: host, port, and bus port or 0.
pub fn read_address(text: &str) -> Option<(String, u16, u16)> {
    let text = text.split(',').next()?;
    let (text, bus_port) = match text.rsplit_once('@') {
        Some((text, bus_port)) => (text, bus_port.parse().ok()?),
        None => (text, 0),
    };
    let (host, port) = text.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?, bus_port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_of_a_node() {
        let line =
            "07c3 127.0.0.1:30004@31004,host4 myself,master - 0 1426238317239 4 connected 0-2 7 [8->-e7d1] [9-<-2f00]";
        let node = NodeLine::parse(line).unwrap();
        assert_eq!((node.address().as_str(), node.bus_port), ("127.0.0.1:30004", 31004));
        assert_eq!((node.id.as_str(), node.config_epoch, node.is_link_down), ("07c3", 4, false));
        assert_eq!(node.slots, Slots::of(&[0..=2, 7..=7]));
        assert_eq!((node.migrating_to(8), node.migrating_to(9)), (Some("e7d1"), None));
        assert!(node.is_importing(9) && !node.is_importing(8));
        assert_eq!((node.flags_text().as_str(), node.primary.as_deref()), ("master", None));
    }

    #[test]
    fn a_replica_names_its_primary() {
        let node = NodeLine::parse("07c3 ::1:7@17 slave,fail 2f00 0 0 4 disconnected").unwrap();
        assert_eq!((node.host.as_str(), node.port), ("::1", 7));
        assert_eq!(node.primary.as_deref(), Some("2f00"));
        assert!(node.is_out_of_service() && node.is_link_down && node.slots.is_empty());
        let unknown = NodeLine::parse("07c3 :0@0 master,noaddr - 0 0 4 disconnected").unwrap();
        assert_eq!((unknown.host.as_str(), unknown.port), ("", 0));
    }

    #[test]
    fn malformed_lines_are_refused() {
        for line in ["", "07c3", "07c3 nowhere master - 0 0 4 connected", "07c3 a:99999@1 master - 0 0 4 connected"] {
            assert_eq!(NodeLine::parse(line), None, "{line}");
        }
        assert_eq!(read_lines("07c3 a:1@2 master - 0 0 4 connected\nx\n"), None);
        assert_eq!(read_lines(""), Some(Vec::new()));
    }

    #[test]
    fn addresses_are_read() {
        assert_eq!(read_address("a:1"), Some(("a".to_owned(), 1, 0)));
        assert_eq!(read_address("a:1@2,b,shard-id=3"), Some(("a".to_owned(), 1, 2)));
        assert_eq!(read_address("a"), None);
        assert_eq!(read_address("a:x"), None);
    }
}
