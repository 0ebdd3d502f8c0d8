//! Messages on their way to other nodes. The test itself is the other node.

use crate::dialogue::ask;
use crate::harness::{Server, eventually, free_port, is_peer, send};
use cluster::node::Flags;
use cluster::node_id::NodeId;
use cluster::packet::{Body, Header, MessageType, PacketReader, decode, encode};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

const TIMEOUT: &str = "600000";
const MESSAGES: usize = 400;
const LEN: usize = 100_000;
/// Bytes that may wait for one other node.
const WAITING_MAX: u64 = 16 << 20;

/// A link, and the part of a packet that has arrived on it.
struct Transport(TcpStream, PacketReader);

impl Transport {
    fn say(&mut self, header: &Header, message: MessageType) {
        let body = Body::Gossip { message, entries: Vec::new(), extensions: Vec::new() };
        self.0.write_all(&encode(header, &body)).expect("a link");
    }

    fn next(&mut self) -> Body {
        let mut part = [0; 16 << 10];
        loop {
            if let Some(packet) = self.1.next_packet(usize::MAX).expect("packets") {
                return decode(packet).expect("a packet").body;
            }
            let len = self.0.read(&mut part).expect("a link");
            assert!(len > 0, "the link was closed");
            self.1.push(&part[..len]);
        }
    }

    fn expect(&mut self, wanted: MessageType) {
        assert_eq!(self.next().message(), wanted);
    }
}

/// Lets the server know this node. Returns the link from the server and the one to it.
fn meet(server: &Server, bus_port: u16) -> (Transport, Transport, Header) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("a port").port();
    let flags = Flags::PRIMARY | Flags::LIGHT_PUBLISH;
    let header = Header { sender: Some(NodeId([b'f'; 40])), port: 7000, bus_port: port, flags, ..Header::default() };
    assert_eq!(ask(&mut server.client(), &format!("CLUSTER MEET 127.0.0.1 7000 {port}")), "OK");
    let accept = || Transport(listener.accept().expect("a link").0, PacketReader::default());
    let mut from = accept();
    from.expect(MessageType::Meet);
    from.say(&header, MessageType::Pong);
    let mut to = Transport(TcpStream::connect(("127.0.0.1", bus_port)).expect("the bus"), PacketReader::default());
    let is_known = eventually(|| ask(&mut server.client(), "CLUSTER NODES").contains(&"f".repeat(40)));
    assert!(is_known, "the node is called by its name");
    to.say(&header, MessageType::Ping);
    to.expect(MessageType::Pong);
    (from, to, header)
}

fn link_memory(client: &mut redis::Connection) -> u64 {
    let info: String = redis::cmd("INFO").arg("memory").query(client).expect("INFO");
    let line = info.lines().find_map(|line| line.strip_prefix("mem_cluster_links:")).expect("a field");
    line.parse().expect("a number")
}

fn payload(number: usize) -> Vec<u8> {
    let mut payload = vec![b'.'; LEN];
    payload[..8].copy_from_slice(format!("{number:08}").as_bytes());
    payload
}

#[test]
fn a_flood_of_messages_holds_up_its_publisher_and_neither_pings_nor_others() {
    if is_peer() {
        return;
    }
    let bus_port = free_port();
    let own = ["--cluster-enabled", "yes", "--cluster-single", "yes", "--cluster-node-timeout", TIMEOUT];
    let server = Server::start_with_threads(2, &[&own[..], &["--cluster-port", &bus_port.to_string()]].concat());
    let (mut from, mut to, header) = meet(&server, bus_port);
    let mut publisher = server.socket();
    let mut client = server.client();
    thread::scope(|scope| {
        let mut replies = publisher.try_clone().expect("a socket");
        scope.spawn(move || {
            for number in 0..MESSAGES {
                let request = redis::cmd("PUBLISH").arg("news").arg(payload(number)).get_packed_command();
                send(&mut publisher, &request);
            }
        });
        let replied = scope.spawn(move || {
            let mut bytes = vec![0; MESSAGES * b":0\r\n".len()];
            replies.read_exact(&mut bytes).expect("replies");
            bytes == b":0\r\n".repeat(MESSAGES)
        });
        assert!(eventually(|| link_memory(&mut client) > 1 << 20), "messages wait");
        for _ in 0..200 {
            to.say(&header, MessageType::Ping);
            to.expect(MessageType::Pong);
            assert_eq!(ask(&mut client, "SET a 1"), "OK");
            let waiting = link_memory(&mut client);
            assert!(waiting < WAITING_MAX, "{waiting} bytes wait");
        }
        let mut number = 0;
        while number < MESSAGES {
            if let Body::Publish { message, .. } = from.next() {
                assert!(message == payload(number), "message {number} is another one");
                number += 1;
            }
        }
        assert!(replied.join().expect("no panic"), "each message was answered");
    });
    assert!(eventually(|| link_memory(&mut client) < 1 << 20), "memory is given back");
}
