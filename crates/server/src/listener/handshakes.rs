//! The work before a connection is a client, beside the workers: a proxy's header, the handshake of TLS.
//!
//! ```text
//!   acceptor -> queue of a thread -> its poll: as far as the socket goes -> done: a worker's client
//!                                                                        -> failed, or too slow: closed
//! ```
//!
//! A connection at this work counts towards `maxclients`, and has [`PATIENCE`] for each. The first thread also checks
//! whether certificates have changed (`tls-auto-reload-interval`).

use crate::connection::socket::SocketStream;
use crate::connection::tls_stream::TlsStream;
use crate::listener::new_client::hand_out;
use crate::listener::proxied::{HeaderReader, pass_for};
use crate::listener::sockets::{Accepted, Port};
use crate::listener::tls_state::TlsState;
use crate::system::log;
use crate::system::log_limit::LogLimit;
use crate::tls::certificate::named_users;
use crate::workers::mailbox::Login;
use crate::workers::shared::Shared;
use commands::core::mode;
use crossbeam_channel::{Receiver, Sender, unbounded};
use mio::{Events, Poll, Token, Waker};
use slab::Slab;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Time that a header or a handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Threads at most; more would take the workers' processors.
const THREADS_MAX: usize = 4;
const WAKE: Token = Token(usize::MAX);
/// Interval of checks whether certificates are to be read again.
const RELOAD_CHECK: Duration = Duration::from_millis(500);

/// The threads that shake hands.
pub struct Handshakes {
    threads: Vec<(Sender<(Accepted, bool)>, Waker)>,
    next: AtomicUsize,
    /// Number of connections at their header or handshake.
    pending: Arc<AtomicUsize>,
}

impl Handshakes {
    /// Starts the threads.
    pub fn start(shared: &Arc<Shared>, tls: &Arc<TlsState>) -> io::Result<Handshakes> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let pending = Arc::<AtomicUsize>::default();
        let start = |index: usize| {
            let poll = Poll::new()?;
            let waker = Waker::new(poll.registry(), WAKE)?;
            let (sender, queue) = unbounded();
            let worker = HandshakeThread {
                shared: Arc::clone(shared),
                tls: Arc::clone(tls),
                poll,
                queue,
                connections: Slab::new(),
                deadlines: VecDeque::new(),
                serial: 0,
                pending: Arc::clone(&pending),
                bad_headers: LogLimit::default(),
                reloads: index == 0,
            };
            let is_within = mode::is_sentinel_within();
            thread::Builder::new().name(format!("tls-{index}")).spawn(move || {
                mode::enter_sentinel_within(is_within);
                worker.run();
            })?;
            Ok((sender, waker))
        };
        let threads = (0..processors.div_ceil(2).min(THREADS_MAX)).map(start).collect::<io::Result<_>>()?;
        Ok(Handshakes { threads, next: AtomicUsize::new(0), pending })
    }

    /// Returns the number of connections at their header or handshake.
    pub fn pending(&self) -> usize {
        self.pending.load(Relaxed)
    }

    /// Begins the work for a connection; `is_proxied`: a proxy's header comes first.
    pub fn begin(&self, accepted: Accepted, is_proxied: bool) {
        let (sender, waker) = &self.threads[self.next.fetch_add(1, Relaxed) % self.threads.len()];
        self.pending.fetch_add(1, Relaxed);
        // The threads live as long as the server does.
        let _ = sender.send((accepted, is_proxied));
        let _ = waker.wake();
    }
}

/// A connection at its header or its handshake.
struct Pending {
    accepted: Accepted,
    /// Reader of the header that is to come.
    header: Option<HeaderReader>,
    serial: u64,
}

struct HandshakeThread {
    shared: Arc<Shared>,
    tls: Arc<TlsState>,
    poll: Poll,
    queue: Receiver<(Accepted, bool)>,
    connections: Slab<Pending>,
    /// Ends of the connections, the first one first; a connection may have gone.
    deadlines: VecDeque<(Instant, usize, u64)>,
    serial: u64,
    pending: Arc<AtomicUsize>,
    reloads: bool,
    /// Lines about connections without a valid header.
    bad_headers: LogLimit,
}

impl HandshakeThread {
    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        loop {
            match self.poll.poll(&mut events, self.rest()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    log::warning(format_args!("New connections cannot go on: {error}"));
                    return self.shared.request_stop();
                }
                Ok(()) => {}
            }
            for event in &events {
                if event.token() != WAKE {
                    self.go_on(event.token().0);
                }
            }
            if self.reloads {
                self.tls.reload_if_due(&self.shared.engine.config().snapshot());
            }
            while let Ok((accepted, is_proxied)) = self.queue.try_recv() {
                match is_proxied {
                    true => self.enter(accepted, Some(HeaderReader::default())),
                    false => self.begin(accepted),
                }
            }
            self.end_late();
        }
    }

    /// Returns how long nothing has to be done unless something comes.
    fn rest(&self) -> Option<Duration> {
        let deadline = self.deadlines.front().map(|(at, ..)| at.saturating_duration_since(Instant::now()));
        let check = self.reloads.then_some(RELOAD_CHECK);
        deadline.into_iter().chain(check).min()
    }

    /// Begins the handshake, if there is one.
    fn begin(&mut self, accepted: Accepted) {
        if accepted.port != Port::Tls {
            self.pending.fetch_sub(1, Relaxed);
            return self.hand_out(accepted);
        }
        match self.wrap(accepted) {
            Ok(accepted) => self.enter(accepted, None),
            Err(why) => {
                self.pending.fetch_sub(1, Relaxed);
                log::warning(format_args!("Error accepting a client connection: {why}"));
            }
        }
    }

    /// Adds the connection to the poll.
    fn enter(&mut self, mut accepted: Accepted, header: Option<HeaderReader>) {
        self.serial += 1;
        let (serial, entry) = (self.serial, self.connections.vacant_entry());
        let token = entry.key();
        if accepted.stream.register(self.poll.registry(), Token(token)).is_err() {
            self.pending.fetch_sub(1, Relaxed);
            return;
        }
        entry.insert(Pending { accepted, header, serial });
        self.deadlines.push_back((Instant::now() + PATIENCE, token, serial));
        self.go_on(token);
    }

    /// Wraps the connection's socket in TLS.
    fn wrap(&self, accepted: Accepted) -> Result<Accepted, String> {
        let settings = self.tls.settings().ok_or("TLS is not configured")?;
        let SocketStream::Tcp(tcp) = accepted.stream else { return Err("TLS needs TCP".to_owned()) };
        let stream = TlsStream::new(tcp, Arc::clone(&settings.server)).map_err(|error| error.to_string())?;
        Ok(Accepted { stream: SocketStream::Tls(Box::new(stream)), ..accepted })
    }

    fn go_on(&mut self, token: usize) {
        let Some(pending) = self.connections.get_mut(token) else { return };
        if let Some(header) = &mut pending.header {
            return match header.read(&mut pending.accepted.stream) {
                Ok(None) => {}
                Ok(Some(endpoints)) => {
                    pass_for(&mut pending.accepted, endpoints);
                    let accepted = self.remove(token);
                    self.pending.fetch_add(1, Relaxed);
                    self.begin(accepted);
                }
                Err(error) => self.fail(token, &error.to_string()),
            };
        }
        let SocketStream::Tls(stream) = &mut pending.accepted.stream else { return };
        match stream.shake_hands() {
            Ok(false) => {}
            Ok(true) => {
                let accepted = self.remove(token);
                self.hand_out(accepted);
            }
            Err(error) => self.fail(token, &error.to_string()),
        }
    }

    fn remove(&mut self, token: usize) -> Accepted {
        let mut accepted = self.connections.remove(token).accepted;
        // A socket that cannot be taken off the poll is gone.
        let _ = accepted.stream.deregister(self.poll.registry());
        self.pending.fetch_sub(1, Relaxed);
        accepted
    }

    fn hand_out(&self, accepted: Accepted) {
        let config = self.shared.engine.config().snapshot();
        let users = match &accepted.stream {
            SocketStream::Tls(stream) => {
                stream.peer_certificate().map_or(Vec::new(), |shown| named_users(shown, &config))
            }
            _ => Vec::new(),
        };
        hand_out(&self.shared, accepted, Login::Certificate(users));
    }

    fn fail(&mut self, token: usize, why: &str) {
        let header = self.connections.get_mut(token).and_then(|pending| pending.header.take());
        let Accepted { addr, laddr, .. } = self.remove(token);
        let also = match header {
            // Proxies check whether the server is there.
            Some(header) if header.is_empty() => {
                return log::verbose(format_args!("Closed {addr}, which has sent no header of the PROXY protocol"));
            }
            Some(_) => self.bad_headers.admit(Instant::now()),
            None => Some(String::new()),
        };
        if let Some(also) = also {
            log::warning(format_args!("Error accepting a client connection: {why} (addr={addr} laddr={laddr}){also}"));
        }
    }

    /// Ends connections that take too long.
    fn end_late(&mut self) {
        let now = Instant::now();
        while let Some((_, token, serial)) = self.deadlines.pop_front_if(|(at, ..)| *at <= now) {
            if self.connections.get(token).is_some_and(|pending| pending.serial == serial) {
                self.fail(token, "it takes too long");
            }
        }
    }
}
