//! The thread of the bus: it waits for sockets and for time, and carries out what workers' orders lead to.

use super::node_desk::{LinkOrder, NodeDesk, WAKE};
use crate::connection::peer_socket::Peer;
use crate::listener::acceptor::Acceptor;
use crate::tls::tls_settings::TlsSettings;
use crate::workers::shared::Shared;
use cluster::bus::TICK;
use cluster::link_id::LinkId;
use engine::config::Directive;
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Tokens of listeners count down from the greatest.
const LISTENERS: usize = usize::MAX;
/// Bytes of a link that are taken, under the node's lock, before other links get their turn.
const TURN: usize = 256 << 10;

struct BusThread {
    desk: Arc<NodeDesk>,
    shared: Arc<Shared>,
    acceptor: Arc<Acceptor>,
    poll: Poll,
    listeners: Vec<TcpListener>,
    peers: BTreeMap<LinkId, Peer>,
    /// Links that may have more than was taken.
    unread: Vec<LinkId>,
    next_tick: Instant,
}

/// Starts the thread.
pub(super) fn start(
    desk: Arc<NodeDesk>,
    (shared, acceptor): (Arc<Shared>, Arc<Acceptor>),
    poll: Poll,
    mut listeners: Vec<TcpListener>,
) -> io::Result<()> {
    for (index, listener) in listeners.iter_mut().enumerate() {
        poll.registry().register(listener, Token(LISTENERS - index), Interest::READABLE)?;
    }
    let (peers, unread, next_tick) = (BTreeMap::new(), Vec::new(), Instant::now());
    let mut thread = BusThread { desk, shared, acceptor, poll, listeners, peers, unread, next_tick };
    let run = move || {
        if let Err(error) = thread.run() {
            // Others must not go on counting on a node that hears nothing.
            panic!("the cluster bus cannot go on: {error}");
        }
    };
    std::thread::Builder::new().name("cluster-bus".to_owned()).spawn(run).map(drop)
}

fn token_of(link: LinkId) -> io::Result<Token> {
    usize::try_from(link.0).map(Token).map_err(io::Error::other)
}

impl BusThread {
    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        while !self.shared.stopping.load(Relaxed) {
            self.shared.sleep_with_server();
            // What workers have left, too.
            self.desk.perform();
            self.use_links();
            let time = match self.unread.is_empty() {
                true => self.next_tick.saturating_duration_since(Instant::now()),
                false => Duration::ZERO,
            };
            match self.poll.poll(&mut events, Some(time)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => result?,
            }
            for event in events.iter().filter(|event| event.token() != WAKE) {
                match LISTENERS - event.token().0 {
                    index if index < self.listeners.len() => self.accept(index),
                    _ => self.ready(event),
                }
            }
            for link in std::mem::take(&mut self.unread) {
                self.read(link);
            }
            if Instant::now() >= self.next_tick {
                self.next_tick = Instant::now() + Duration::from_millis(TICK.unsigned_abs());
                self.desk.input(|bus, now| bus.tick(now));
            }
        }
        Ok(())
    }

    /// Does with sockets what is wanted; what that leads to, too.
    fn use_links(&mut self) {
        loop {
            let orders = self.desk.take_links();
            if orders.is_empty() {
                return;
            }
            for order in orders {
                match order {
                    LinkOrder::Connect { link, ip, port } => {
                        if self.connect(link, &ip, port).is_err() {
                            self.desk.input(|bus, now| bus.link_lost(link, now));
                        }
                    }
                    LinkOrder::Send { link, bytes } => self.send(link, &bytes),
                    LinkOrder::Close { link } => _ = self.peers.remove(&link),
                }
            }
        }
    }

    fn connect(&mut self, link: LinkId, ip: &str, port: u16) -> io::Result<()> {
        let config = self.shared.engine.config().snapshot();
        let source = String::from_utf8_lossy(config.text(Directive::BIND_SOURCE_ADDR)).into_owned();
        let settings = self.tls()?.map(|settings| Arc::clone(&settings.client));
        let mut peer = Peer::open(ip, port, &source, settings)?;
        peer.register(self.poll.registry(), token_of(link)?)?;
        self.peers.insert(link, peer);
        Ok(())
    }

    /// What new connections are encrypted with, if they are.
    fn tls(&self) -> io::Result<Option<Arc<TlsSettings>>> {
        if !self.shared.engine.config().snapshot().flag(Directive::TLS_CLUSTER) {
            return Ok(None);
        }
        self.acceptor.tls.settings().map(Some).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    fn send(&mut self, link: LinkId, bytes: &[u8]) {
        let Some(peer) = self.peers.get_mut(&link) else { return };
        let waited = peer.waiting();
        if peer.send(bytes).is_err() {
            return self.lose(link);
        }
        self.written(link, waited + bytes.len());
    }

    /// Of so many bytes that waited some have gone.
    fn written(&mut self, link: LinkId, waited: usize) {
        let left = self.peers.get(&link).map_or(0, Peer::waiting);
        if waited > left {
            self.desk.bus().link_written(link, waited - left);
        }
    }

    fn accept(&mut self, index: usize) {
        // One that cannot be had now comes again with the next.
        while let Ok((stream, peer)) = self.listeners[index].accept() {
            let local = stream.local_addr().map(|local| local.ip().to_canonical().to_string()).unwrap_or_default();
            let remote = peer.ip().to_canonical().to_string();
            let link = self.desk.input(|bus, now| bus.link_accepted(&remote, &local, now));
            match self.accepted(link, stream) {
                Ok(peer) => _ = self.peers.insert(link, peer),
                Err(_) => self.desk.input(|bus, now| bus.link_lost(link, now)),
            }
        }
    }

    fn accepted(&self, link: LinkId, stream: TcpStream) -> io::Result<Peer> {
        let mut peer = Peer::accepted(stream, self.tls()?.and_then(|settings| settings.bus.clone()))?;
        peer.register(self.poll.registry(), token_of(link)?)?;
        Ok(peer)
    }

    fn ready(&mut self, event: &Event) {
        let link = LinkId(event.token().0 as u64);
        let Some(peer) = self.peers.get_mut(&link) else { return };
        match peer.opened() {
            Ok(Some(local_ip)) => self.desk.input(|bus, now| bus.link_connected(link, &local_ip, now)),
            Ok(None) => {}
            Err(_) => return self.lose(link),
        }
        let waited = peer.waiting();
        let failed = event.is_writable() && peer.flush().is_err();
        self.written(link, waited);
        if event.is_readable() && !self.unread.contains(&link) {
            self.read(link);
        }
        if failed {
            self.lose(link);
        }
    }

    /// Takes what has come, for a turn.
    fn read(&mut self, link: LinkId) {
        let Some(peer) = self.peers.get_mut(&link) else { return };
        let (waited, mut bytes) = (peer.waiting(), Vec::new());
        let read = peer.read_some(&mut bytes, TURN);
        self.written(link, waited);
        if !bytes.is_empty() {
            self.desk.input(|bus, now| bus.received(link, &bytes, now));
        }
        match read {
            Ok(true) => self.unread.push(link),
            Ok(false) => {}
            Err(_) => self.lose(link),
        }
    }

    /// The connection is gone.
    fn lose(&mut self, link: LinkId) {
        if self.peers.remove(&link).is_some() {
            self.desk.input(|bus, now| bus.link_lost(link, now));
        }
    }
}
