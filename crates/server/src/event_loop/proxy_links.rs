//! Requests of clients to other nodes of the cluster, with `cluster-proxy yes`.
//!
//! The [`Proxy`] decides which node gets a request and which client gets a reply; here are its sockets. A client whose
//! command is sent to another node waits as one that is blocked does. Its later requests are sent behind that command
//! if they go to the same node, and wait otherwise: so its commands take effect, and are answered, in their order. All
//! requests of a tick to a node go out at its end, in one write.

use crate::connection::peer_socket::Peer;
use crate::connection::socket::Readiness;
use crate::connection::state::Connection;
use crate::event_loop::worker::Worker;
use cluster::proxy::{ClientKey, Credentials, Follower, LinkOrder, Proxy, ProxyLink, Question};
use commands::batch::item::BatchItem;
use commands::core::cluster_proxy::Behind;
use commands::core::dispatch;
use engine::config::Directive;
use engine::time::SteadyMs;
use resp::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes that are read from a node, or given to its socket, at a time.
const AT_ONCE: usize = 256 << 10;

/// Bytes of room for replies that are retained.
const INPUT_KEPT: usize = 64 << 10;

/// A worker's connections to other nodes.
#[derive(Default)]
pub struct ProxyLinks {
    proxy: Proxy,
    peers: BTreeMap<ProxyLink, Peer>,
    /// Links that may have something to read.
    readable: BTreeSet<ProxyLink>,
    /// Bytes that were read from a node; kept for its capacity.
    input: Vec<u8>,
    /// Number of changes of users by which all pending requests were judged.
    judged_at: u64,
}

impl ProxyLinks {
    /// Returns whether no client waits for other nodes.
    pub fn is_idle(&self) -> bool {
        self.proxy.is_idle()
    }

    /// Returns whether there may be something to read.
    pub fn has_input(&self) -> bool {
        !self.readable.is_empty()
    }

    /// Returns the time at which the first client has waited for too long.
    pub fn next_time(&self) -> Option<SteadyMs> {
        self.proxy.next_time().map(SteadyMs)
    }
}

impl Worker {
    /// Sends the connection's request to another node; the connection waits for the reply.
    pub fn forward(&mut self, token: usize, question: Question) {
        let connection = &mut self.connections[token];
        connection.waiting.set_forwarded(true);
        let by = ClientKey { token, client: connection.client() };
        self.proxy_links.proxy.timeout = self.settings.node_timeout;
        self.proxy_links.proxy.ask(by, question, self.steady_ms());
    }

    /// Sends the requests that `items` begins with behind the connection's pending request to a node. Returns how many
    /// there are.
    #[cold]
    pub fn ask_behind(&mut self, items: &mut [BatchItem<'_>], spans: &[Span]) -> usize {
        let token = items[0].token;
        let may_ask = |it: &Connection| it.waiting.is_forwarded() && !it.is_closing() && !it.visits.quantum_used();
        if !self.connections.get(token).is_some_and(may_ask) {
            return 0;
        }
        let (engine, now) = (&self.shared.engine, self.steady_ms());
        let (connection, proxy) = (&mut self.connections[token], &mut self.proxy_links.proxy);
        let by = ClientKey { token, client: connection.client() };
        let session = &mut connection.session;
        let Some(mut behind) = Behind::begin(engine, session) else { return 0 };
        proxy.timeout = self.settings.node_timeout;
        let mut asked = 0;
        for item in items.iter_mut().take_while(|item| item.token == token) {
            let is_asked = item.call(spans, |prepared, args| {
                let ask = |follower: &Follower<'_>| proxy.follow(by, follower, now);
                dispatch::forward_behind(engine, session, &mut behind, prepared, args, ask)
            });
            if is_asked != Some(true) {
                break;
            }
            asked += 1;
        }
        asked
    }

    /// Records an event of a connection to another node.
    pub fn note_link(&mut self, id: ProxyLink, readiness: Readiness) {
        let time = self.steady_ms();
        let ProxyLinks { proxy, peers, readable, .. } = &mut self.proxy_links;
        let Some(peer) = peers.get_mut(&id) else { return };
        let opened = match peer.opened() {
            Ok(opened) => opened.is_some(),
            Err(_) => return self.lose_link(id),
        };
        if opened {
            let config = self.shared.engine.config().snapshot();
            let (user, password) = (config.text(Directive::PRIMARYUSER), config.text(Directive::PRIMARYAUTH));
            proxy.credentials = Credentials { user: user.to_vec(), password: password.to_vec() };
            proxy.opened(id, time);
        }
        if readiness.readable || readiness.hung_up {
            readable.insert(id);
        }
        if readiness.writable && peer.flush().and_then(|()| give(proxy, peer, id)).is_err() {
            self.lose_link(id);
        }
    }

    /// Takes the replies of other nodes, and sends requests to them.
    #[inline]
    pub fn serve_links(&mut self) {
        if !self.proxy_links.proxy.is_unused() {
            self.serve_used_links();
        }
    }

    #[cold]
    fn serve_used_links(&mut self) {
        let time = self.steady_ms();
        for id in std::mem::take(&mut self.proxy_links.readable) {
            self.read_link(id);
        }
        let cluster = self.shared.engine.cluster();
        self.proxy_links.proxy.tick(time, |to| cluster.map().is_silent(to));
        self.judge_askers();
        self.use_links();
        self.publish_rights();
        let answers = self.proxy_links.proxy.take_answers();
        for (answer, bytes) in answers.iter() {
            let (token, client) = (answer.to.token, answer.to.client);
            let Some(connection) = self.connections.get_mut(token).filter(|it| it.client() == client) else { continue };
            let start = self.replies.len();
            let sink = self.replies.sink();
            sink.raw(bytes);
            dispatch::end_reply(&mut connection.session, sink, start);
            connection.waiting.set_forwarded(!answer.is_last);
            self.note_reply(token, start);
            if answer.is_last {
                self.enqueue(token);
            }
        }
        self.proxy_links.proxy.reuse(answers);
    }

    /// Drops requests of clients that no longer have the rights for them. A client that changes rights waits for the
    /// requests that were sent before.
    fn judge_askers(&mut self) {
        self.publish_rights();
        let engine = &self.shared.engine;
        let changes = engine.users().generation();
        let ProxyLinks { proxy, judged_at, .. } = &mut self.proxy_links;
        if *judged_at == changes {
            return;
        }
        let connections = &mut self.connections;
        proxy.judge(|by, since| {
            let connection = connections.get_mut(by.token).filter(|it| it.client() == by.client && !it.is_closing());
            connection.is_some_and(|it| it.session.rights_since(engine) == Some(since))
        });
        if !proxy.has_withdrawn() {
            *judged_at = changes;
        }
        self.publish_rights();
    }

    fn publish_rights(&self) {
        let asks_by = Some(self.proxy_links.judged_at.max(1)).filter(|_| !self.proxy_links.proxy.is_idle());
        self.metrics().set_asks_by(asks_by);
    }

    fn read_link(&mut self, id: ProxyLink) {
        let time = self.steady_ms();
        let ProxyLinks { proxy, peers, readable, input, .. } = &mut self.proxy_links;
        let Some(peer) = peers.get_mut(&id) else { return };
        let more = peer.read_some(input, AT_ONCE);
        if !input.is_empty() {
            proxy.received(id, input, &self.shared.engine.cluster().map(), time);
        }
        input.clear();
        input.shrink_to(INPUT_KEPT);
        match more {
            Ok(true) => _ = readable.insert(id),
            Ok(false) => {}
            Err(_) => self.lose_link(id),
        }
    }

    /// Does what the proxy wants done with sockets, including what that leads to.
    fn use_links(&mut self) {
        loop {
            for order in self.proxy_links.proxy.take_orders() {
                match order {
                    LinkOrder::Close(id) => _ = self.proxy_links.peers.remove(&id),
                    LinkOrder::Connect(id, to) => match self.connect_link(id, to) {
                        Ok(peer) => _ = self.proxy_links.peers.insert(id, peer),
                        Err(_) => self.proxy_links.proxy.lost(id, self.steady_ms()),
                    },
                }
            }
            let unsent = self.proxy_links.proxy.take_unsent();
            if unsent.is_empty() && !self.proxy_links.proxy.has_orders() {
                return;
            }
            for id in unsent {
                let ProxyLinks { proxy, peers, .. } = &mut self.proxy_links;
                let Some(peer) = peers.get_mut(&id) else { continue };
                if give(proxy, peer, id).is_err() {
                    self.lose_link(id);
                }
            }
        }
    }

    fn connect_link(&self, id: ProxyLink, to: SocketAddr) -> io::Result<Peer> {
        let config = self.shared.engine.config().snapshot();
        let source = String::from_utf8_lossy(config.text(Directive::BIND_SOURCE_ADDR)).into_owned();
        let tls = match config.flag(Directive::TLS_CLUSTER) {
            true => Some(self.acceptor.tls.settings().ok_or(io::ErrorKind::NotConnected)?.client.clone()),
            false => None,
        };
        let mut peer = Peer::open(&to.ip().to_string(), to.port(), &source, tls)?;
        peer.end_when_unheard(Duration::from_millis(self.settings.node_timeout.max(0) as u64));
        self.poller.register_link(&mut peer, id)?;
        Ok(peer)
    }

    /// Handles a connection that is gone.
    fn lose_link(&mut self, id: ProxyLink) {
        self.proxy_links.peers.remove(&id);
        self.proxy_links.proxy.lost(id, self.steady_ms());
    }
}

/// Gives a socket what it is to send, as far as it takes that.
fn give(proxy: &mut Proxy, peer: &mut Peer, id: ProxyLink) -> io::Result<()> {
    while peer.is_drained() {
        let unsent = proxy.unsent(id);
        let part = &unsent[..unsent.len().min(AT_ONCE)];
        if part.is_empty() {
            break;
        }
        peer.send(part)?;
        let sent = part.len();
        proxy.note_sent(id, sent);
    }
    Ok(())
}
