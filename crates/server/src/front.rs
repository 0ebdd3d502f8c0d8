//! The main thread once the server runs: it accepts connections and hands them out, and ends the server.

use crate::clock;
use crate::listener::{Accepted, Listener};
use crate::log;
use crate::mailbox::Letter;
use crate::shared::Shared;
use engine::clients::ClientInfo;
use engine::config::Directive;
use mio::{Events, Poll, Token, Waker};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook_mio::v1_0::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const SIGNALS: Token = Token(usize::MAX - 1);
const STOP: Token = Token(usize::MAX);

/// Connections that are accepted before signals are looked at again.
const ACCEPT_MAX: usize = 1000;

const PROTECTED: &str = "-DENIED Cinnabar is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers, you may adopt one of the following solutions: 1) Disable protected mode by sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting from the same host the server is running on, however MAKE SURE the server is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an authentication password for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.\r\n";
const TOO_MANY: &str = "-ERR max number of clients reached\r\n";

pub struct Front {
    shared: Arc<Shared>,
    poll: Poll,
    signals: Signals,
    listeners: Vec<Listener>,
}

impl Front {
    pub fn new(shared: Arc<Shared>, mut listeners: Vec<Listener>) -> io::Result<Front> {
        let poll = Poll::new()?;
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        poll.registry().register(&mut signals, SIGNALS, mio::Interest::READABLE)?;
        for (index, listener) in listeners.iter_mut().enumerate() {
            listener.register(poll.registry(), Token(index))?;
        }
        shared.set_stop_waker(Arc::new(Waker::new(poll.registry(), STOP)?));
        Ok(Front { shared, poll, signals, listeners })
    }

    /// Accepts until the server is asked to stop.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        while !self.shared.stopping.load(Relaxed) {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                match event.token() {
                    SIGNALS => self.take_signals(),
                    STOP => {}
                    Token(index) => self.accept(index),
                }
            }
        }
        log::warning("User requested shutdown...");
        self.shared.post_all(|| Letter::Stop);
        Ok(())
    }

    fn take_signals(&mut self) {
        for signal in self.signals.pending() {
            let name = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
            log::warning(format_args!("Received {name} scheduling shutdown..."));
            self.shared.stopping.store(true, Relaxed);
        }
    }

    fn accept(&mut self, index: usize) {
        let config = self.shared.engine.config().snapshot();
        let keepalive = config.int(Directive::TcpKeepalive).max(0) as u64;
        let max_clients = config.int(Directive::MaxClients).max(0) as usize;
        let protected = config.flag(Directive::ProtectedMode) && config.text(Directive::RequirePass).is_empty();
        let Some(listener) = self.listeners.get(index) else { return };
        for _ in 0..ACCEPT_MAX {
            let accepted = match listener.accept(keepalive) {
                Ok(Some(accepted)) => accepted,
                Ok(None) => return,
                Err(error) if is_passing(&error) => continue,
                Err(error) => {
                    log::warning(format_args!("Accepting client connection: {error}"));
                    break;
                }
            };
            self.shared.connections_received.fetch_add(1, Relaxed);
            if self.shared.connections() >= max_clients {
                self.refuse(accepted, TOO_MANY);
            } else if protected && !accepted.local {
                self.refuse(accepted, PROTECTED);
            } else {
                self.hand_out(accepted);
            }
        }
        // The listener is edge-triggered: what still waits needs a new event, which registering again makes.
        if let Some(listener) = self.listeners.get_mut(index) {
            let _ = listener.reregister(self.poll.registry(), Token(index));
        }
    }

    fn refuse(&self, mut accepted: Accepted, text: &str) {
        self.shared.connections_rejected.fetch_add(1, Relaxed);
        // The book protocol has no greeting and no error without a request.
        if !accepted.book {
            let _ = accepted.stream.write(text.as_bytes());
        }
    }

    fn hand_out(&self, accepted: Accepted) {
        let Accepted { stream, addr, laddr, book, .. } = accepted;
        let worker = self.shared.assign();
        let clients = self.shared.engine.clients();
        let (id, now) = (clients.next_id(), clock::now().unix_ms());
        let info = Arc::new(ClientInfo::new(id, &addr, &laddr, stream.fd(), worker, now));
        clients.add(&info);
        self.shared.post(worker, Letter::Connection { stream, info, book });
    }
}

/// The connection was gone before it was accepted; the next one may be fine.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionReset
    )
}
