//! The thread of the bus: it waits for sockets and for time, and carries out the effects of workers' orders.

use super::bus_link::BusLink;
use super::node_handle::{LinkOrder, NodeHandle, WAKE};
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
/// Time between two checks whether workers still have too much to deliver.
const CONGESTION_LOOK: Duration = Duration::from_millis(5);

struct BusThread {
    handle: Arc<NodeHandle>,
    shared: Arc<Shared>,
    acceptor: Arc<Acceptor>,
    poll: Poll,
    listeners: Vec<TcpListener>,
    links: BTreeMap<LinkId, BusLink>,
    /// Links that may have more input than was taken.
    unread: Vec<LinkId>,
    next_tick: Instant,
}

/// Starts the thread.
pub(super) fn start(
    handle: Arc<NodeHandle>,
    (shared, acceptor): (Arc<Shared>, Arc<Acceptor>),
    poll: Poll,
    mut listeners: Vec<TcpListener>,
) -> io::Result<()> {
    for (index, listener) in listeners.iter_mut().enumerate() {
        poll.registry().register(listener, Token(LISTENERS - index), Interest::READABLE)?;
    }
    let (links, unread, next_tick) = (BTreeMap::new(), Vec::new(), Instant::now());
    let mut thread = BusThread { handle, shared, acceptor, poll, listeners, links, unread, next_tick };
    let run = move || {
        if let Err(error) = thread.run() {
            // Others must not rely any longer on a node that receives nothing.
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
            // Effects that workers have left are carried out, too.
            self.handle.perform();
            self.use_links();
            let has_sent = self.handle.send_messages();
            self.use_links();
            let until_tick = self.next_tick.saturating_duration_since(Instant::now());
            let is_congested = self.handle.is_congested();
            let time = match () {
                () if has_sent => Duration::ZERO,
                () if self.unread.is_empty() => until_tick,
                () if self.unread.iter().all(|link| is_congested && self.brings_messages(*link)) => {
                    until_tick.min(CONGESTION_LOOK)
                }
                () => Duration::ZERO,
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
                self.handle.tick();
            }
        }
        Ok(())
    }

    /// Does what the node wants done with sockets, including what that leads to.
    fn use_links(&mut self) {
        loop {
            let orders = self.handle.take_links();
            if orders.is_empty() {
                return;
            }
            for order in orders {
                match order {
                    LinkOrder::Connect { link, ip, port } => {
                        if self.connect(link, &ip, port).is_err() {
                            self.handle.input(|bus, now| bus.link_lost(link, now));
                        }
                    }
                    LinkOrder::Send { link, bytes } => self.send(link, |link| link.output.add_packet(bytes)),
                    LinkOrder::SendMessages { link, bytes } => {
                        self.send(link, |link| link.output.add_messages(bytes));
                    }
                    LinkOrder::Close { link } => _ = self.links.remove(&link),
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
        self.links.insert(link, BusLink::new(peer));
        Ok(())
    }

    /// Returns the TLS settings of new connections, if they are encrypted.
    fn tls(&self) -> io::Result<Option<Arc<TlsSettings>>> {
        if !self.shared.engine.config().snapshot().flag(Directive::TLS_CLUSTER) {
            return Ok(None);
        }
        self.acceptor.tls.settings().map(Some).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    fn send(&mut self, id: LinkId, add: impl FnOnce(&mut BusLink)) {
        let Some(link) = self.links.get_mut(&id) else { return };
        add(link);
        let waited = link.waiting();
        if link.flush().is_err() {
            return self.lose(id);
        }
        self.written(id, waited);
    }

    fn brings_messages(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(|link| link.brings_messages)
    }

    /// Counts the bytes that have gone, of `waited` that waited.
    fn written(&mut self, link: LinkId, waited: usize) {
        let left = self.links.get(&link).map_or(0, BusLink::waiting);
        if waited > left {
            self.handle.bus().link_written(link, waited - left);
        }
    }

    fn accept(&mut self, index: usize) {
        // A connection that cannot be had now comes again with the next.
        while let Ok((stream, peer)) = self.listeners[index].accept() {
            let local = stream.local_addr().map(|local| local.ip().to_canonical().to_string()).unwrap_or_default();
            let remote = peer.ip().to_canonical().to_string();
            let link = self.handle.input(|bus, now| bus.link_accepted(&remote, &local, now));
            match self.accepted(link, stream) {
                Ok(peer) => _ = self.links.insert(link, BusLink::new(peer)),
                Err(_) => self.handle.input(|bus, now| bus.link_lost(link, now)),
            }
        }
    }

    fn accepted(&self, link: LinkId, stream: TcpStream) -> io::Result<Peer> {
        let mut peer = Peer::accepted(stream, self.tls()?.and_then(|settings| settings.bus.clone()))?;
        peer.register(self.poll.registry(), token_of(link)?)?;
        Ok(peer)
    }

    fn ready(&mut self, event: &Event) {
        let id = LinkId(event.token().0 as u64);
        let Some(link) = self.links.get_mut(&id) else { return };
        match link.peer.opened() {
            Ok(Some(local_ip)) => self.handle.input(|bus, now| bus.link_connected(id, &local_ip, now)),
            Ok(None) => {}
            Err(_) => return self.lose(id),
        }
        let waited = link.waiting();
        let failed = event.is_writable() && link.flush().is_err();
        self.written(id, waited);
        if event.is_readable() && !self.unread.contains(&id) {
            self.read(id);
        }
        if failed {
            self.lose(id);
        }
    }

    /// Takes input that has come, for a turn. Messages stay in the socket while workers have too much to deliver.
    fn read(&mut self, id: LinkId) {
        let is_congested = self.handle.is_congested();
        let Some(link) = self.links.get_mut(&id) else { return };
        if is_congested && link.brings_messages {
            return self.unread.push(id);
        }
        let (waited, mut bytes) = (link.waiting(), Vec::new());
        let read = link.peer.read_some(&mut bytes, TURN);
        self.written(id, waited);
        if !bytes.is_empty() {
            let brings_messages = self.handle.input(|bus, now| bus.received(id, &bytes, now));
            self.links.get_mut(&id).into_iter().for_each(|link| link.brings_messages = brings_messages);
        }
        match read {
            Ok(true) => self.unread.push(id),
            Ok(false) => {}
            Err(_) => self.lose(id),
        }
    }

    /// Handles a connection that is gone.
    fn lose(&mut self, link: LinkId) {
        if self.links.remove(&link).is_some() {
            self.handle.input(|bus, now| bus.link_lost(link, now));
        }
    }
}
