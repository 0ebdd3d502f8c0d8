//! Packets and a `nodes.conf` of Valkey 9.1.2, as they were on the wire and on the disk: the bytes that are written
//! again are the same as those that were read.

use cluster::packet::{Body, Extension, MessageFlags, PacketReader, decode, encode, encode_light};

/// Every type of packet but modules' messages, which only modules send.
const PACKETS: [(&str, &[u8]); 11] = [
    ("ping", include_bytes!("golden/ping.bin")),
    ("pong", include_bytes!("golden/pong.bin")),
    ("meet", include_bytes!("golden/meet.bin")),
    ("fail", include_bytes!("golden/fail.bin")),
    ("vote request", include_bytes!("golden/vote_request.bin")),
    ("vote", include_bytes!("golden/vote.bin")),
    ("update", include_bytes!("golden/update.bin")),
    ("manual failover start", include_bytes!("golden/manual_failover_start.bin")),
    ("light publish", include_bytes!("golden/light_publish.bin")),
    ("light publish shard", include_bytes!("golden/light_publish_shard.bin")),
    ("forgotten node", include_bytes!("golden/forgotten.bin")),
];

#[test]
fn packets_are_written_as_they_were() {
    for (name, bytes) in PACKETS {
        let mut reader = PacketReader::default();
        reader.push(bytes);
        assert_eq!(reader.next_packet(usize::MAX).expect("a packet"), Some(bytes), "{name}");
        let packet = decode(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let again = match &packet.header {
            Some(header) => encode(header, &packet.body),
            None => encode_light(&packet.body),
        };
        assert_eq!(again, bytes, "{name}: {packet:?}");
    }
}

#[test]
fn packets_say_what_was_meant() {
    let of = |name: &str| {
        let (_, bytes) = PACKETS.into_iter().find(|(known, _)| *known == name).expect("there");
        decode(bytes).expect("a packet")
    };
    let Body::Gossip { entries, extensions, .. } = of("forgotten node").body else { panic!("gossip") };
    assert!(!entries.is_empty() && entries.iter().all(|entry| entry.ip == "127.0.0.1" && entry.node.is_some()));
    assert!(extensions.iter().any(|extension| matches!(extension, Extension::Forgotten(_, ttl) if *ttl <= 60)));
    assert!(extensions.contains(&Extension::ClientIpv4("10.9.8.7".into())));
    assert!(extensions.contains(&Extension::ClientIpv6("2001:db8::1".into())));
    assert!(extensions.contains(&Extension::ClientPort(7001)));
    let header = of("vote request").header.expect("a header");
    assert!(header.message_flags.has(MessageFlags::FORCE_VOTE) && header.is_replica && !header.slots.is_empty());
    let Body::Publish { channel, message, is_sharded: false } = of("light publish").body else { panic!("publish") };
    assert_eq!((channel.as_slice(), message.as_slice()), (b"chan".as_slice(), b"message".as_slice()));
}

#[test]
fn nodes_conf_is_written_as_it_was() {
    let text = include_str!("golden/nodes.conf");
    let conf = cluster::conf::read(text.as_bytes(), false, &mut fastrand::Rng::with_seed(1), 1).expect("well formed");
    let sorted = |text: &str| {
        let mut lines: Vec<Vec<String>> =
            text.lines().map(|line| line.split(' ').map(str::to_string).collect()).collect();
        for words in lines.iter_mut().filter(|words| words.len() >= 8) {
            // The time of the last answer, and the state of the link, begin anew.
            words[5] = String::new();
            words[7] = String::new();
        }
        lines.sort();
        lines
    };
    let written = cluster::conf::write(&conf.nodes, &conf.vars);
    assert_eq!(sorted(&written), sorted(text));
}
