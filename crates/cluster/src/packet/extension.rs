//! Information of a ping besides gossip. Each extension has its length and its kind: an unknown kind is skipped.

use super::packet_bytes::{Bytes, text};
use crate::node_id::NodeId;

/// Length and kind of an extension.
const HEAD_LEN: usize = 8;
/// Redis 8 has given its secret the number of [`Extension::ClientIpv4`]. The length distinguishes them: an address is
/// never so long.
const SECRET_LEN: usize = 40;

/// An extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extension {
    /// The sender's hostname.
    Hostname(String),
    /// The sender's human name.
    HumanName(String),
    /// A node that was removed, and the seconds for which it stays forgotten.
    Forgotten(NodeId, u64),
    /// The sender's shard.
    Shard(NodeId),
    /// Address that clients over IPv4 see instead of the sender's.
    ClientIpv4(String),
    /// Address that clients over IPv6 see instead of the sender's.
    ClientIpv6(String),
    /// Port that clients see instead of the sender's.
    ClientPort(u16),
    /// Port with TLS that clients see instead of the sender's.
    ClientTlsPort(u16),
    /// Availability zone of the sender.
    AvailabilityZone(String),
    /// Secret that Redis 8 nodes share; without meaning for others.
    RedisSecret,
    /// An unknown kind, or an invalid extension.
    Unknown(u16),
}

impl Extension {
    /// Reads the next extension; None where lengths do not fit.
    pub(super) fn decode(bytes: &mut Bytes<'_>) -> Option<Extension> {
        let len = bytes.u32()? as usize;
        let kind = bytes.u16()?;
        bytes.u16()?;
        let data = bytes.take(len.checked_sub(HEAD_LEN)?).filter(|_| len.is_multiple_of(8))?;
        Some(Extension::of(kind, data).unwrap_or(Extension::Unknown(kind)))
    }

    fn of(kind: u16, data: &[u8]) -> Option<Extension> {
        let mut bytes = Bytes(data);
        Some(match kind {
            0 => Extension::Hostname(text(data)),
            1 => Extension::HumanName(text(data)),
            2 => Extension::Forgotten(NodeId::parse(&bytes.name()?)?, bytes.u64()?),
            3 => Extension::Shard(NodeId::parse(&bytes.name()?)?),
            4 if data.len() == SECRET_LEN => Extension::RedisSecret,
            4 => Extension::ClientIpv4(address::<std::net::Ipv4Addr>(data)),
            5 => Extension::ClientIpv6(address::<std::net::Ipv6Addr>(data)),
            6 => Extension::ClientPort(bytes.u16()?),
            7 => Extension::ClientTlsPort(bytes.u16()?),
            8 => Extension::AvailabilityZone(text(data)),
            _ => return None,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, data) = self.parts();
        let padded = data.len().next_multiple_of(8);
        out.extend_from_slice(&((HEAD_LEN + padded) as u32).to_be_bytes());
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&data);
        out.resize(out.len() + padded - data.len(), 0);
    }

    fn parts(&self) -> (u16, Vec<u8>) {
        // Texts end with the byte 0.
        let ended = |text: &str| [text.as_bytes(), b"\0"].concat();
        match self {
            Extension::Hostname(name) => (0, ended(name)),
            Extension::HumanName(name) => (1, ended(name)),
            Extension::Forgotten(id, ttl) => (2, [id.0.as_slice(), &ttl.to_be_bytes()].concat()),
            Extension::Shard(id) => (3, id.0.to_vec()),
            Extension::ClientIpv4(ip) => (4, ended(ip)),
            Extension::ClientIpv6(ip) => (5, ended(ip)),
            Extension::ClientPort(port) => (6, port.to_be_bytes().to_vec()),
            Extension::ClientTlsPort(port) => (7, port.to_be_bytes().to_vec()),
            Extension::AvailabilityZone(zone) => (8, ended(zone)),
            Extension::RedisSecret => (4, vec![0; SECRET_LEN]),
            Extension::Unknown(kind) => (*kind, Vec::new()),
        }
    }
}

/// Reads an address; empty if the text is none.
fn address<T: std::str::FromStr>(data: &[u8]) -> String {
    let text = text(data);
    if text.parse::<T>().is_ok() { text } else { String::new() }
}
