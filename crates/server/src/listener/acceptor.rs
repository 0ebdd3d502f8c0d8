//! The listening sockets, the acceptance of connections, and the choice of their workers.
//!
//! The first worker is notified of new connections, and accepts a few of them a tick. Every worker looks for some in
//! its ticks, too, so that a worker that is busy for long makes no client wait.

use crate::listener::handshakes::Handshakes;
use crate::listener::new_client::{hand_out, refuse};
use crate::listener::sockets::{self, Accepted, Listener, Port};
use crate::listener::tls_state::TlsState;
use crate::system::log;
use crate::workers::mailbox::Login;
use crate::workers::shared::Shared;
use engine::Engine;
use engine::config::{Config, Directive};
use engine::locks::sync::Mutex;
use mio::{Registry, Token};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The token under which listening sockets report.
pub const LISTENERS: Token = Token(usize::MAX - 1);

/// Pause before the next acceptance after one has failed, for want of files or memory.
const REST: Duration = Duration::from_millis(100);

const TOO_MANY: &str = "-ERR max number of clients reached\r\n";

/// The listening sockets.
pub struct Acceptor {
    /// Registry of the worker that is notified of connections.
    registry: Registry,
    state: Mutex<State>,
    /// TLS settings of new connections.
    pub tls: Arc<TlsState>,
    /// The threads of their handshakes and of proxies' headers, from the first such connection on.
    handshakes: OnceLock<Handshakes>,
}

#[derive(Default)]
struct State {
    listeners: Vec<Listener>,
    /// End of the pause after an acceptance that failed.
    rests_until: Option<Instant>,
}

/// Limits and options of accepted connections.
struct Admission {
    max_clients: usize,
    /// Connections that are accepted from each listening socket before others are served.
    at_once: usize,
    tls_at_once: usize,
    config: Arc<Config>,
}

impl Admission {
    fn of(engine: &Engine) -> Admission {
        let config = engine.config().snapshot();
        let number = |directive| config.int(directive).max(0) as usize;
        Admission {
            max_clients: number(Directive::MAXCLIENTS),
            at_once: number(Directive::MAX_NEW_CONNECTIONS_PER_CYCLE).max(1),
            tls_at_once: number(Directive::MAX_NEW_TLS_CONNECTIONS_PER_CYCLE).max(1),
            config,
        }
    }
}

impl Acceptor {
    /// Creates the acceptor; the worker with this registry is notified of connections.
    pub fn new(registry: &Registry, tls: Arc<TlsState>) -> io::Result<Acceptor> {
        let (registry, handshakes) = (registry.try_clone()?, OnceLock::new());
        Ok(Acceptor { registry, state: Mutex::default(), tls, handshakes })
    }

    /// Accepts clients from now on.
    pub fn open(&self, listeners: Vec<Listener>) -> io::Result<()> {
        self.add(&mut self.state.lock(), listeners)
    }

    fn add(&self, state: &mut State, listeners: Vec<Listener>) -> io::Result<()> {
        for mut listener in listeners {
            listener.register(&self.registry, LISTENERS)?;
            state.listeners.push(listener);
        }
        Ok(())
    }

    /// Closes the listeners at these ports, and opens them again as `config` says. After an error none of them is open.
    pub fn listen_again(&self, ports: &[Port], config: &Config) -> Result<(), String> {
        let mut state = self.state.lock();
        let is_meant = |it: &Listener| matches!(it, Listener::Tcp { port, .. } if ports.contains(port));
        state.listeners.retain(|listener| !is_meant(listener));
        let mut opened = Vec::new();
        for port in ports {
            opened.extend(sockets::open_tcp_port(config, *port)?);
        }
        self.add(&mut state, opened).map_err(|error| error.to_string())
    }

    /// Sets the keepalive of connections that are made from now on to that of `config`.
    pub fn set_keepalive(&self, config: &Config) {
        for listener in &self.state.lock().listeners {
            listener.set_keepalive(config);
        }
    }

    /// Accepts no clients any more.
    pub fn close(&self) {
        self.state.lock().listeners.clear();
    }

    /// Accepts some connections and gives each to the worker with the fewest; true if there may be more. None while
    /// another thread does that, and no thread waits for it: a worker that knows of connections retries.
    pub fn accept(&self, shared: &Arc<Shared>) -> Option<bool> {
        let mut state = self.state.try_lock()?;
        let admission = Admission::of(&shared.engine);
        if state.rests_until.is_some_and(|until| Instant::now() < until) {
            return Some(false);
        }
        state.rests_until = None;
        let mut more = false;
        for listener in &state.listeners {
            match self.accept_some(shared, listener, &admission) {
                Ok(left) => more |= left,
                Err(error) => {
                    log::warning(format_args!("Accepting client connection: {error}"));
                    state.rests_until = Some(Instant::now() + REST);
                    return Some(false);
                }
            }
        }
        Some(more)
    }

    /// Accepts some connections from one socket. True if there may be more.
    fn accept_some(&self, shared: &Arc<Shared>, listener: &Listener, admission: &Admission) -> io::Result<bool> {
        let at_once = if listener.port() == Port::Tls { admission.tls_at_once } else { admission.at_once };
        let is_proxied = admission.config.has_choice(Directive::PROXY_PROTOCOL, listener.directive());
        for _ in 0..at_once {
            let accepted = match listener.accept() {
                Ok(Some(accepted)) => accepted,
                Ok(None) => return Ok(false),
                Err(error) if is_passing(&error) => continue,
                Err(error) => return Err(error),
            };
            if self.present(shared) >= admission.max_clients {
                refuse(shared, accepted, TOO_MANY);
            } else if is_proxied || accepted.port == Port::Tls {
                self.begin_handshake(shared, accepted, is_proxied)?;
            } else {
                hand_out(shared, accepted, Login::nobody());
            }
        }
        Ok(true)
    }

    /// Returns the number of connections that are clients or about to be: clients on the list, whichever thread serves
    /// them, or connections of workers, of which some may have left the list and not be closed yet.
    fn present(&self, shared: &Shared) -> usize {
        shared.connections().max(shared.engine.clients().len()) + self.handshakes.get().map_or(0, Handshakes::pending)
    }

    /// Makes a connection within the process a client, if there may be one more.
    pub fn take_in(&self, shared: &Shared, accepted: Accepted, login: Login) -> Result<(), &'static str> {
        if self.present(shared) >= Admission::of(&shared.engine).max_clients {
            shared.connections_rejected.fetch_add(1, Relaxed);
            return Err(TOO_MANY.trim_start_matches("-ERR ").trim_end());
        }
        hand_out(shared, accepted, login);
        Ok(())
    }

    fn begin_handshake(&self, shared: &Arc<Shared>, accepted: Accepted, is_proxied: bool) -> io::Result<()> {
        let handshakes = match self.handshakes.get() {
            Some(handshakes) => handshakes,
            // Only the thread that holds the listeners gets here.
            None => {
                let started = Handshakes::start(shared, &self.tls)?;
                self.handshakes.get_or_init(|| started)
            }
        };
        handshakes.begin(accepted, is_proxied);
        Ok(())
    }
}

/// Returns whether the connection was gone before it was accepted; the next one may be fine.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionReset
    )
}
