//! Where connections come in: the listening sockets, what is accepted from them, and which worker gets it.
//!
//! The first worker hears of those who want to be connected, and accepts a few of them a tick. Every worker looks for
//! some in its ticks, too: one that is busy for long keeps nobody waiting.

use crate::listener::sockets::{self, Accepted, Listener};
use crate::system::clock;
use crate::system::log;
use crate::workers::mailbox::WorkerMessage;
use crate::workers::shared::Shared;
use commands::core::acl_catalog::rule_context;
use engine::Engine;
use engine::clients::registry::ClientInfo;
use engine::config::{Config, Directive};
use mio::{Registry, Token};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The token under which listening sockets report.
pub const LISTENERS: Token = Token(usize::MAX - 1);

/// How long nothing is accepted after that has failed, for want of files or memory.
const REST: Duration = Duration::from_millis(100);

const PROTECTED: &str = "-DENIED Cinnabar is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers, you may adopt one of the following solutions: 1) Disable protected mode by sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting from the same host the server is running on, however MAKE SURE the server is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an authentication password for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.\r\n";
const TOO_MANY: &str = "-ERR max number of clients reached\r\n";

/// The listening sockets.
pub struct Acceptor {
    /// Of the worker that hears of connections.
    registry: Registry,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    listeners: Vec<Listener>,
    /// It could not accept, and rests until then.
    rests_until: Option<Instant>,
}

/// Who is let in.
struct Admission {
    max_clients: usize,
    /// Connections that are accepted from each listening socket before others are served.
    at_once: usize,
    /// Only those who are on this machine.
    protected: bool,
}

impl Admission {
    fn of(engine: &Engine) -> Admission {
        let config = engine.config().snapshot();
        let is_open = engine.users().default_user(rule_context(engine)).needs_no_password();
        Admission {
            max_clients: config.int(Directive::MAXCLIENTS).max(0) as usize,
            at_once: config.int(Directive::MAX_NEW_CONNECTIONS_PER_CYCLE).max(1) as usize,
            protected: config.flag(Directive::PROTECTED_MODE) && is_open,
        }
    }
}

impl Acceptor {
    /// The worker with this registry will hear of connections.
    pub fn new(registry: &Registry) -> io::Result<Acceptor> {
        Ok(Acceptor { registry: registry.try_clone()?, state: Mutex::default() })
    }

    /// Who wants to be connected is let in from now on.
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

    /// Closes the listeners of clients (false), of clients of the book protocol (true), or both, and opens them again
    /// as `config` says. After an error none of them is open.
    pub fn listen_again(&self, books: &[bool], config: &Config) -> Result<(), String> {
        let mut state = self.state.lock();
        state.listeners.retain(|listener| !matches!(listener, Listener::Tcp { book, .. } if books.contains(book)));
        let mut opened = Vec::new();
        for book in books {
            opened.extend(sockets::open_tcp_ports(config, *book)?);
        }
        self.add(&mut state, opened).map_err(|error| error.to_string())
    }

    /// Connections that are made from now on have the keepalive of `config`.
    pub fn set_keepalive(&self, config: &Config) {
        for listener in &self.state.lock().listeners {
            listener.set_keepalive(config);
        }
    }

    /// Nobody is accepted any more.
    pub fn close(&self) {
        self.state.lock().listeners.clear();
    }

    /// Accepts some connections and gives each to the worker with the fewest; true if there may be more. Waits for
    /// nobody who is at that.
    pub fn accept(&self, shared: &Shared) -> bool {
        let Some(mut state) = self.state.try_lock() else { return true };
        let admission = Admission::of(&shared.engine);
        if state.rests_until.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        state.rests_until = None;
        let mut more = false;
        for listener in &state.listeners {
            match accept_some(shared, listener, &admission) {
                Ok(left) => more |= left,
                Err(error) => {
                    log::warning(format_args!("Accepting client connection: {error}"));
                    state.rests_until = Some(Instant::now() + REST);
                    return false;
                }
            }
        }
        more
    }
}

/// True if there may be more.
fn accept_some(shared: &Shared, listener: &Listener, admission: &Admission) -> io::Result<bool> {
    for _ in 0..admission.at_once {
        let accepted = match listener.accept() {
            Ok(Some(accepted)) => accepted,
            Ok(None) => return Ok(false),
            Err(error) if is_passing(&error) => continue,
            Err(error) => return Err(error),
        };
        if shared.connections() >= admission.max_clients {
            refuse(shared, accepted, TOO_MANY);
        } else if admission.protected && !accepted.local {
            refuse(shared, accepted, PROTECTED);
        } else {
            hand_out(shared, accepted);
        }
    }
    Ok(true)
}

fn refuse(shared: &Shared, mut accepted: Accepted, text: &str) {
    shared.connections_rejected.fetch_add(1, Relaxed);
    // The book protocol has no greeting and no error without a request.
    if !accepted.book {
        let _ = accepted.stream.write(text.as_bytes());
    }
}

fn hand_out(shared: &Shared, accepted: Accepted) {
    let Accepted { stream, addr, laddr, book, .. } = accepted;
    shared.connections_received.fetch_add(1, Relaxed);
    log::verbose(format_args!("Accepted {addr}"));
    let worker = shared.assign();
    let clients = shared.engine.clients();
    let (id, now) = (clients.next_id(), clock::now().unix_ms());
    let info = Arc::new(ClientInfo::new(id, &addr, &laddr, stream.fd(), worker, now));
    clients.add(&info);
    shared.post(worker, WorkerMessage::Connection { stream, info, book });
}

/// The connection was gone before it was accepted; the next one may be fine.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionReset
    )
}
