//! Redirections of a node to the owner of a slot.

use crate::slot_map::SlotMap;
use std::net::{IpAddr, SocketAddr};

/// MOVED, or ASK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// Node to ask.
    pub to: SocketAddr,
    /// Whether the redirection is for one request, after ASKING.
    pub asking: bool,
}

/// Reads a reply of the node at `from`; None if it is no redirection, or one to a name that the map does not have.
pub fn parse(reply: &[u8], from: SocketAddr, map: &SlotMap) -> Option<Redirection> {
    if !is_one(reply) {
        return None;
    }
    let line = std::str::from_utf8(reply).ok()?.trim_end();
    let mut words = line.split(' ');
    let (kind, _slot, place) = (words.next()?, words.next()?, words.next()?);
    let (host, port) = place.rsplit_once(':')?;
    let ip = match host.parse::<IpAddr>() {
        Ok(ip) => ip,
        // An empty host is the same host with another port: the node does not know its own address for clients.
        Err(_) if host.is_empty() => from.ip(),
        Err(_) => {
            let named = map.nodes.iter().find(|(_, address)| address.hostname == host)?;
            named.1.ip.parse().ok()?
        }
    };
    Some(Redirection { to: SocketAddr::new(ip, port.parse().ok()?), asking: kind == "-ASK" })
}

/// Returns whether a reply postpones a request, as some of its keys are here and some there: it was not carried out.
pub fn is_put_off(reply: &[u8]) -> bool {
    reply.starts_with(b"-TRYAGAIN ")
}

/// Returns whether a reply denies a request the right to run: it was not carried out.
pub fn is_denied(reply: &[u8]) -> bool {
    reply.starts_with(b"-NOPERM ")
}

/// Returns whether a reply is a redirection of any kind.
pub fn is_one(reply: &[u8]) -> bool {
    reply.starts_with(b"-MOVED ") || reply.starts_with(b"-ASK ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Address;
    use crate::node_id::NodeId;

    #[test]
    fn a_place_is_an_address_or_a_name_that_is_known_or_the_same_host() {
        let from: SocketAddr = "10.0.0.9:7000".parse().unwrap();
        let address = Address { ip: "10.0.0.3".into(), hostname: "c.example".into(), ..Address::default() };
        let map = SlotMap { nodes: vec![(NodeId([b'c'; 40]), address)], ..SlotMap::default() };
        let told = |text: &str| {
            parse(text.as_bytes(), from, &map)
                .map(|it| format!("{} {}", it.to, if it.asking { "ask" } else { "moved" }))
        };
        for (text, expected) in [
            ("-MOVED 7 10.0.0.1:7001\r\n", Some("10.0.0.1:7001 moved")),
            ("-ASK 7 10.0.0.1:7001\r\n", Some("10.0.0.1:7001 ask")),
            ("-ASK 7 2001:db8::1:7001\r\n", Some("[2001:db8::1]:7001 ask")),
            ("-MOVED 7 c.example:7001\r\n", Some("10.0.0.3:7001 moved")),
            ("-MOVED 7 :7001\r\n", Some("10.0.0.9:7001 moved")),
            ("-MOVED 7 d.example:7001\r\n", None),
            ("-MOVED 7 10.0.0.1:x\r\n", None),
            ("-MOVED 7\r\n", None),
            ("+MOVED 7 10.0.0.1:7001\r\n", None),
            ("-TRYAGAIN no\r\n", None),
        ] {
            assert_eq!(told(text).as_deref(), expected, "{text}");
        }
    }
}
