//! Entry point for a fuzzer.

use super::cluster_bus::{Bus, TICK};
use super::model::bus_settings::Settings;
use crate::conf;
use crate::node::Address;

/// Lines of a primary, its replica, another primary and its replica, which is this node.
const CONF: &str = "\
    44cd0a9943f4b334366f909d8ba598fedfb06c72 127.0.0.1:1@2,,shard-id=e97da5c7652a0252921855acc8ee29f2bbae8309 master - 0 0 5 connected 1-9\n\
    ea20fa5c7b909d9c141829eb6fa773bf3ca170ac 127.0.0.1:3@4,,shard-id=e97da5c7652a0252921855acc8ee29f2bbae8309 slave 44cd0a9943f4b334366f909d8ba598fedfb06c72 0 0 5 connected\n\
    5c77859323b8c2da181a38b1e883dd7c02f6cbb7 127.0.0.1:5@6,,shard-id=70c8ba71932b4b07cdf1738fbd18ef35d382bdba master - 0 0 7 connected 10-19\n\
    e8cc1860a9fb520abb5f504f51e5c95eb07eef92 127.0.0.1:7@8,,shard-id=70c8ba71932b4b07cdf1738fbd18ef35d382bdba myself,slave 5c77859323b8c2da181a38b1e883dd7c02f6cbb7 0 0 7 connected [3->-44cd0a9943f4b334366f909d8ba598fedfb06c72]\n\
    vars currentEpoch 7 lastVoteEpoch 0\n";

/// Feeds bytes that other nodes may have sent, on links of both kinds, while time passes: the bus must not panic, and
/// it must read the file that it has written.
///
/// # Panics
/// Panics if one of these fails.
pub fn fuzz(data: &[u8]) {
    let address = Address { tcp_port: 6379, bus_port: 16379, ..Address::default() };
    let (settings, mut now) = (Settings { node_timeout: 500, ..Settings::default() }, 1_000_000);
    let random = fastrand::Rng::with_seed(1);
    let mut bus = Bus::load(CONF.as_bytes(), address, settings, random, now).expect("a good file");
    let mut links = vec![bus.link_accepted("10.0.0.1", "10.0.0.2", now)];
    let mut rest = data;
    while let Some(([what, high, low], after)) = rest.split_first_chunk() {
        now += 1;
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let link = links[usize::from(*what >> 4) % links.len()];
        match what & 0xf {
            0 => now += TICK * 7,
            1 => links.push(bus.link_accepted("10.0.0.3", "10.0.0.2", now)),
            2 => bus.link_connected(link, "10.0.0.2", now),
            3 => bus.link_lost(link, now),
            _ => {
                bus.received(link, &after[..len], now);
                rest = &after[len..];
                links.extend(bus.nodes().iter().filter_map(|node| node.link).take(4));
                continue;
            }
        }
        bus.tick(now);
        bus.take_effects();
        rest = after;
    }
    conf::read(&bus.conf(), false, &mut fastrand::Rng::with_seed(1), now).expect("what is saved is read");
    assert!(bus.slot_map().owners.len() == crate::SLOTS);
}
