//! Encoding of packets.

use super::message_type::MessageType;
use super::packet_decode::Body;
use super::packet_header::{Header, LIGHT, finish, start};
use crate::node_id::{NAME_LEN, NodeId};

/// Encodes a full packet.
pub fn encode(header: &Header, body: &Body) -> Vec<u8> {
    let (count, extensions) = match body {
        Body::Gossip { entries, extensions, .. } => (entries.len() as u16, extensions.len() as u16),
        _ => (0, 0),
    };
    let mut out = header.encode(body.message(), count, extensions);
    put_body(&mut out, body);
    finish(&mut out);
    out
}

/// Encodes a light packet, whose sender is known by the link.
pub fn encode_light(body: &Body) -> Vec<u8> {
    let mut out = Vec::new();
    start(&mut out, body.message() as u16 | LIGHT, 0, 0);
    put_body(&mut out, body);
    finish(&mut out);
    out
}

impl Body {
    /// Returns the message's type. An unknown type is never sent.
    pub fn message(&self) -> MessageType {
        match self {
            Body::Gossip { message, .. } => *message,
            Body::Fail(_) => MessageType::Fail,
            Body::Publish { is_sharded: false, .. } => MessageType::Publish,
            Body::Publish { is_sharded: true, .. } => MessageType::PublishShard,
            Body::VoteRequest => MessageType::VoteRequest,
            Body::Vote => MessageType::Vote,
            Body::Update { .. } => MessageType::Update,
            Body::ManualFailoverStart => MessageType::ManualFailoverStart,
            Body::Module | Body::Unknown(_) => MessageType::Module,
        }
    }
}

fn put_body(out: &mut Vec<u8>, body: &Body) {
    let name = |node: &Option<NodeId>| node.map_or([0; NAME_LEN], |id| id.0);
    match body {
        Body::Gossip { entries, extensions, .. } => {
            entries.iter().for_each(|entry| entry.encode(out));
            extensions.iter().for_each(|extension| extension.encode(out));
        }
        Body::Fail(node) => out.extend_from_slice(&name(node)),
        Body::Publish { channel, message, .. } => {
            out.extend_from_slice(&(channel.len() as u32).to_be_bytes());
            out.extend_from_slice(&(message.len() as u32).to_be_bytes());
            out.extend_from_slice(channel);
            out.extend_from_slice(message);
        }
        Body::Update { config_epoch, node, slots } => {
            out.extend_from_slice(&config_epoch.to_be_bytes());
            out.extend_from_slice(&name(node));
            out.extend_from_slice(&slots.to_bitmap());
        }
        Body::VoteRequest | Body::Vote | Body::ManualFailoverStart => {}
        Body::Module | Body::Unknown(_) => out.extend_from_slice(&[0; 13]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Extension, GossipEntry, HEADER_LEN, MessageFlags, Packet, PacketError, decode};
    use crate::slot_set::SlotSet;

    fn header() -> Header {
        Header {
            sender: Some(NodeId([b'a'; 40])),
            current_epoch: 7,
            config_epoch: 6,
            offset: -5,
            slots: SlotSet::of([1..=3, 16383..=16383]),
            is_replica: true,
            primary: Some(NodeId([b'b'; 40])),
            ip: "10.1.2.3".into(),
            port: 6379,
            other_port: 1,
            bus_port: 16379,
            flags: 0x1c02,
            is_down: true,
            message_flags: MessageFlags(MessageFlags::EXTENSIONS | MessageFlags::PAUSED),
        }
    }

    fn bodies() -> Vec<Body> {
        let node = Some(NodeId([b'c'; 40]));
        let entry = GossipEntry {
            node,
            ping_sent: 1,
            pong_received: 2,
            ip: "::1".into(),
            port: 3,
            bus_port: 4,
            flags: 5,
            other_port: 6,
        };
        let extensions = vec![
            Extension::Hostname("host".into()),
            Extension::HumanName("eightchr".into()),
            Extension::Forgotten(NodeId([b'd'; 40]), 60),
            Extension::Shard(NodeId([b'e'; 40])),
            Extension::ClientIpv4("1.2.3.4".into()),
            Extension::ClientIpv6("::2".into()),
            Extension::ClientPort(7),
            Extension::ClientTlsPort(8),
            Extension::AvailabilityZone("zone".into()),
            Extension::RedisSecret,
            Extension::Unknown(99),
        ];
        let (channel, message) = (b"channel".to_vec(), b"\0message".to_vec());
        vec![
            Body::Gossip { message: MessageType::Ping, entries: vec![entry.clone(), entry], extensions },
            Body::Gossip { message: MessageType::Meet, entries: vec![], extensions: vec![] },
            Body::Fail(node),
            Body::Publish { channel: channel.clone(), message: message.clone(), is_sharded: false },
            Body::Publish { channel, message, is_sharded: true },
            Body::VoteRequest,
            Body::Vote,
            Body::Update { config_epoch: 9, node, slots: SlotSet::of([0..=0]) },
            Body::ManualFailoverStart,
            Body::Module,
        ]
    }

    #[test]
    fn packets_are_decoded_as_they_were_encoded() {
        for body in bodies() {
            let bytes = encode(&header(), &body);
            assert_eq!(decode(&bytes), Ok(Packet { header: Some(header()), body: body.clone() }));
            for wrong in [&bytes[..bytes.len() - 1], &[bytes.as_slice(), b"x"].concat()] {
                assert_eq!(decode(wrong), Err(PacketError::Length(body.message() as u16)));
            }
        }
        assert_eq!(encode(&header(), &Body::Vote).len(), HEADER_LEN);
    }

    #[test]
    fn light_packets_are_for_few_messages() {
        for body in bodies() {
            let bytes = encode_light(&body);
            match &body {
                Body::Publish { .. } | Body::Module => {
                    assert_eq!(decode(&bytes), Ok(Packet { header: None, body: body.clone() }));
                    let cut = &bytes[..bytes.len() - 1];
                    assert_eq!(decode(cut), Err(PacketError::Length(body.message() as u16)));
                }
                _ => assert_eq!(decode(&bytes), Err(PacketError::NotLight(body.message()))),
            }
        }
    }

    #[test]
    fn texts_that_would_spoil_a_file_are_nothing() {
        let extensions = vec![Extension::Hostname("a b".into()), Extension::ClientIpv4("x".into())];
        let body = Body::Gossip { message: MessageType::Pong, entries: vec![], extensions };
        let Ok(Packet { body: Body::Gossip { extensions, .. }, .. }) = decode(&encode(&header(), &body)) else {
            panic!("a pong")
        };
        assert_eq!(extensions, [Extension::Hostname(String::new()), Extension::ClientIpv4(String::new())]);
    }

    #[test]
    fn another_version_is_refused() {
        let mut bytes = encode(&header(), &Body::Vote);
        bytes[9] = 2;
        assert_eq!(decode(&bytes), Err(PacketError::Version(2)));
    }
}
