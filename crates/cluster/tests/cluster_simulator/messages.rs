//! Messages of clients: publishers, which wait while there is too much, links of some speed, and subscribers' workers.
//!
//! ```text
//!   publisher -> queue, bounded -> bus -> link: packets first, then messages, bounded -> socket, which holds little
//!             -> other node's bus, unless its workers have too much -> worker, which may be busy
//! ```

use crate::cluster_world::{Event, Flaw, World};
use crate::member::node_at;
use cluster::bus::Bus;
use cluster::packet::{LinkOutput, MessageQueue, QueueLevel};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Time between two turns of a node's publishers, bus and workers.
pub const TURN: i64 = 2;
/// Bytes that a socket holds on their way.
const SOCKET: usize = 128 << 10;
/// Bytes of messages with which a node's workers have too much.
const CONGESTED: usize = 1 << 20;
/// Bytes that may wait in a queue: its bound, and what one turn of a publisher adds to that.
const QUEUE_BOUND: usize = (4 << 20) + (512 << 10);
/// Bytes that may wait for a link: its bound, a batch, and the packets of the node.
const LINK_BOUND: usize = (1 << 20) + (512 << 10);
/// Time beyond a node timeout for which a node that takes nothing may hold publishers.
const SLACK: i64 = 2500;

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    output: LinkOutput,
    /// Bytes in the socket.
    held: usize,
    /// Time at which the line has sent these.
    busy_until: i64,
    /// Bytes that have come, and that the receiver does not read yet.
    unread: VecDeque<Arc<[u8]>>,
    brings_messages: bool,
}

/// A node's publishers and subscribers.
#[derive(Default)]
struct Post {
    queue: MessageQueue,
    published: u64,
    /// Time from which on no message was taken although publishers wait.
    held_since: Option<i64>,
    /// Bytes that workers have to deliver.
    inbox: usize,
    busy_until: i64,
    /// Last message of each publisher.
    heard: BTreeMap<usize, u64>,
}

/// All messages of a world.
#[derive(Default)]
pub struct Mail {
    pub is_on: bool,
    /// Whether no failure excuses a lost message.
    pub is_calm: bool,
    pub publishers_rest: bool,
    /// Bytes that a line carries in a millisecond.
    pub speed: usize,
    /// Longest time for which a command has a worker.
    pub longest_command: i64,
    posts: Vec<Post>,
    /// By connection, and the end that sends.
    pipes: BTreeMap<(u64, usize), Pipe>,
    pub delivered: usize,
    /// Number of turns in which publishers waited.
    pub held: usize,
}

impl World {
    /// Begins to publish at all nodes.
    pub fn begin_mail(&mut self, speed: usize, longest_command: i64) {
        self.mail.posts = (0..self.members.len()).map(|_| Post::default()).collect();
        (self.mail.is_on, self.mail.speed, self.mail.longest_command) = (true, speed, longest_command);
        for node in 0..self.members.len() {
            self.at(TURN, Event::Mail(node));
        }
    }

    /// Gives bytes to a link, and lets its socket take what it holds.
    pub fn give_to_link(&mut self, id: u64, end: usize, bytes: Arc<[u8]>, are_messages: bool) {
        let wait = self.flaw() == Flaw::PacketsWaitForMessages;
        let pipe = self.mail.pipes.entry((id, end)).or_default();
        if are_messages || wait {
            pipe.output.add_messages(bytes);
        } else {
            pipe.output.add_packet(bytes);
        }
        let waiting = pipe.output.waiting();
        self.flush(id, end);
        if waiting > LINK_BOUND {
            self.violate(format!("{waiting} bytes wait for a link"));
        }
    }

    fn flush(&mut self, id: u64, end: usize) {
        let (speed, mut written) = (self.mail.speed, 0);
        loop {
            let Some(connection) = self.network.connections.get_mut(&id) else { return };
            let Some(pipe) = self.mail.pipes.get_mut(&(id, end)).filter(|pipe| pipe.held < SOCKET) else { break };
            let Some((bytes, range)) = pipe.output.next_piece() else { break };
            let piece: Arc<[u8]> = if range.len() == bytes.len() { bytes } else { Arc::from(&bytes[range]) };
            written += piece.len();
            pipe.held += piece.len();
            pipe.busy_until = pipe.busy_until.max(self.now) + (piece.len() / speed) as i64;
            let to = &mut connection.ends[1 - end];
            let least = if to.link.is_none() { 21 } else { 1 };
            let arrival = (pipe.busy_until + self.random.i64(1..20)).max(to.last_arrival + 1).max(self.now + least);
            to.last_arrival = arrival;
            self.at(arrival - self.now, Event::Bytes(id, 1 - end, piece));
        }
        let Some(connection) = self.network.connections.get(&id).filter(|_| written > 0) else { return };
        let (node, link) = (connection.ends[end].node, connection.ends[end].link);
        if let (Some(link), Some(bus)) = (link, self.members[node].bus.as_mut()) {
            bus.link_written(link, written);
        }
    }

    /// Takes bytes that have come. Returns them if the bus reads them now.
    pub fn comes_by_line(&mut self, id: u64, end: usize, node: usize, bytes: Arc<[u8]>) -> Option<Arc<[u8]>> {
        let is_congested = self.mail.posts[node].inbox > CONGESTED;
        let pipe = self.mail.pipes.entry((id, 1 - end)).or_default();
        if is_congested && pipe.brings_messages || !pipe.unread.is_empty() {
            pipe.unread.push_back(bytes);
            return None;
        }
        self.leaves_socket(id, end, bytes.len());
        Some(bytes)
    }

    fn leaves_socket(&mut self, id: u64, end: usize, len: usize) {
        if let Some(pipe) = self.mail.pipes.get_mut(&(id, 1 - end)) {
            pipe.held = pipe.held.saturating_sub(len);
            self.flush(id, 1 - end);
        }
    }

    pub fn brings_messages(&mut self, id: u64, end: usize, brings_messages: bool) {
        if let Some(pipe) = self.mail.pipes.get_mut(&(id, 1 - end)) {
            pipe.brings_messages = brings_messages;
        }
    }

    pub fn line_ends(&mut self, id: u64) {
        self.mail.pipes.remove(&(id, 0));
        self.mail.pipes.remove(&(id, 1));
    }

    /// Forgets a dead node's messages.
    pub fn mail_dies(&mut self, node: usize) {
        if let Some(post) = self.mail.posts.get_mut(node) {
            *post = Post { published: post.published, heard: std::mem::take(&mut post.heard), ..Post::default() };
        }
    }

    /// Lets a node's publishers, bus and workers do their part.
    pub fn turn_of_mail(&mut self, node: usize) {
        self.at(TURN, Event::Mail(node));
        if !self.is_up(node) || self.is_stopped(node) {
            self.mail.posts[node].held_since = None;
            return;
        }
        self.work(node);
        self.publish(node);
        if !self.writes_file(node) {
            self.send_messages(node);
            self.read_on(node);
        }
    }

    /// Delivers messages to subscribers.
    fn work(&mut self, node: usize) {
        let (now, longest) = (self.now, self.mail.longest_command);
        let begins = longest > 0 && self.random.u32(0..400) == 0;
        let length = if begins { self.random.i64(0..longest) } else { 0 };
        let post = &mut self.mail.posts[node];
        if begins {
            post.busy_until = now + length;
        }
        if now >= post.busy_until {
            post.inbox = 0;
        }
    }

    fn publish(&mut self, node: usize) {
        let (held, now, busy) = (self.flaw() != Flaw::PublishersAreNotHeld, self.now, self.mail.posts[node].busy_until);
        if self.mail.publishers_rest || now < busy {
            return;
        }
        let post = &mut self.mail.posts[node];
        if held && post.queue.level() != QueueLevel::Little {
            self.mail.held += 1;
            post.held_since.get_or_insert(now);
            return;
        }
        for _ in 0..self.random.usize(0..4) {
            let most = if self.random.u8(..8) == 0 { 60_000 } else { 2000 };
            let len = self.random.usize(16..most);
            let post = &mut self.mail.posts[node];
            post.published += 1;
            let mut message = vec![0; len];
            message[..8].copy_from_slice(&post.published.to_be_bytes());
            message[8..16].copy_from_slice(&(node as u64).to_be_bytes());
            post.queue.push(b"news", &message, false);
        }
        let waiting = self.mail.posts[node].queue.bytes();
        if waiting > QUEUE_BOUND {
            self.violate(format!("{waiting} bytes of messages wait at {node}"));
        }
    }

    /// Gives messages to the links, if no node that works has too much waiting.
    fn send_messages(&mut self, node: usize) {
        while self.mail.posts[node].queue.bytes() > 0 && self.takes_messages(node) {
            let post = &mut self.mail.posts[node];
            post.held_since = None;
            let batch = post.queue.take();
            self.tell(node, |bus, _| bus.publish(&batch));
        }
        let longest = self.settings.node_timeout + SLACK;
        let since = self.mail.posts[node].held_since;
        if let Some(since) = since.filter(|since| self.now - since > longest) {
            self.mail.posts[node].held_since = None;
            self.violate(format!("publishers at {node} wait for {} ms", self.now - since));
        }
    }

    fn takes_messages(&self, node: usize) -> bool {
        let takes = self.members[node].bus.as_ref().is_some_and(Bus::takes_messages);
        match self.flaw() {
            Flaw::LinksTakeAll => self.is_up(node),
            Flaw::WaitsForTheDead => {
                let of_node = |(id, end): &(u64, usize)| {
                    self.network.connections.get(id).is_some_and(|connection| connection.ends[*end].node == node)
                };
                takes && !self.mail.pipes.iter().any(|(at, pipe)| of_node(at) && pipe.output.waiting() > LINK_BOUND / 2)
            }
            _ => takes,
        }
    }

    /// Reads what has come while the workers had too much.
    fn read_on(&mut self, node: usize) {
        let waits = |world: &World, id: u64, end: usize| {
            world.network.connections.get(&id).is_some_and(|connection| connection.ends[1 - end].node == node)
        };
        let unread = self.mail.pipes.iter().filter(|(_, pipe)| !pipe.unread.is_empty());
        let unread: Vec<(u64, usize)> = unread.map(|(at, _)| *at).collect();
        for (id, end) in unread {
            if !waits(self, id, end) {
                continue;
            }
            if self.mail.posts[node].inbox > CONGESTED {
                return;
            }
            let next = self.mail.pipes.get_mut(&(id, end)).and_then(|pipe| pipe.unread.pop_front());
            if let Some(bytes) = next {
                self.leaves_socket(id, 1 - end, bytes.len());
                self.take_bytes(id, 1 - end, &bytes);
            }
        }
    }

    /// Takes a message for the subscribers of a node.
    pub fn take_message(&mut self, node: usize, message: &[u8]) {
        let number = |at: usize| u64::from_be_bytes(message[at..at + 8].try_into().expect("eight bytes"));
        let (number, publisher) = (number(0), number(8) as usize);
        let post = &mut self.mail.posts[node];
        post.inbox += message.len();
        let last = post.heard.insert(publisher, number).unwrap_or(0);
        self.mail.delivered += 1;
        if number <= last || self.mail.is_calm && number != last + 1 {
            self.violate(format!("message {number} of {publisher} comes to {node} behind {last}"));
        }
    }

    /// Returns whether all messages have come to all nodes.
    pub fn is_delivered(&self) -> bool {
        let posts = || self.mail.posts.iter().enumerate();
        posts().all(|(node, post)| {
            let others = posts().filter(|(other, _)| *other != node);
            others.into_iter().all(|(other, of)| post.heard.get(&other).copied().unwrap_or(0) == of.published)
        })
    }

    /// Returns a node that is suspected by another one.
    pub fn suspect(&self) -> Option<String> {
        (0..self.members.len()).filter(|node| self.is_up(*node)).find_map(|node| {
            let nodes = self.members[node].bus().nodes();
            let suspect = nodes.iter().find(|other| other.is_suspected() || other.has_failed())?;
            Some(format!("{node} suspects {:?}", node_at(&suspect.address.ip)))
        })
    }
}
