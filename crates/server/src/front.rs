//! The main thread once the server runs: it accepts connections and hands them out, and ends the server.
//!
//! Listeners are its own. Who changes what is listened on (CONFIG SET on a worker's thread) sends an order and waits
//! for the answer, since only the thread that closes the old sockets can open new ones on the same addresses.

use crate::clock;
use crate::listener::{self, Accepted, Listener};
use crate::log;
use crate::mailbox::Letter;
use crate::shared::Shared;
use commands::save::{Ending, before_end};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use engine::clients::ClientInfo;
use engine::config::{Config, Directive};
use mio::{Events, Poll, Token, Waker};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook_mio::v1_0::Signals;
use slab::Slab;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const SIGNALS: Token = Token(usize::MAX - 1);
const WAKE: Token = Token(usize::MAX);

/// Connections that are accepted before signals are looked at again.
const ACCEPT_MAX: usize = 1000;
/// How long a listener rests that cannot accept, for want of files or memory.
const REST: Duration = Duration::from_millis(100);
/// How long who gave an order waits for its answer.
const ORDER_TIMEOUT: Duration = Duration::from_secs(10);

const PROTECTED: &str = "-DENIED Cinnabar is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers, you may adopt one of the following solutions: 1) Disable protected mode by sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting from the same host the server is running on, however MAKE SURE the server is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an authentication password for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.\r\n";
const TOO_MANY: &str = "-ERR max number of clients reached\r\n";

/// What is to be listened on anew.
struct Order {
    config: Config,
    /// Besides the port of clients, or instead of it, that of the book protocol.
    books: &'static [bool],
    answer: Sender<Result<(), String>>,
}

/// The way to the main thread.
pub struct Desk {
    orders: Sender<Order>,
    waker: Arc<Waker>,
}

impl Desk {
    /// Closes what depends on `changed` and opens it again as `config` says. After an error nothing of it is open.
    pub fn listen_again(&self, changed: Directive, config: &Config) -> Result<(), String> {
        let books: &[bool] = match changed {
            Directive::Port => &[false],
            Directive::BookPort => &[true],
            _ => &[false, true],
        };
        let (answer, result) = bounded(1);
        let order = Order { config: config.clone(), books, answer };
        let sent = self.orders.send(order).is_ok() && self.waker.wake().is_ok();
        let gone = || Err("the server is ending".to_owned());
        if sent { result.recv_timeout(ORDER_TIMEOUT).unwrap_or_else(|_| gone()) } else { gone() }
    }
}

pub struct Front {
    shared: Arc<Shared>,
    poll: Poll,
    signals: Signals,
    listeners: Slab<Listener>,
    orders: Receiver<Order>,
    /// Listeners that could not accept, and until when they rest.
    resting: Vec<(usize, Instant)>,
    /// An interrupt was seen, and the end that it asks for has not failed: a second one does not wait for it.
    interrupted: Arc<AtomicBool>,
    /// The signal that asks for the end.
    ending: &'static str,
}

impl Front {
    pub fn new(shared: Arc<Shared>, listeners: Vec<Listener>) -> io::Result<(Front, Desk)> {
        let poll = Poll::new()?;
        // A terminal that goes away is no reason to end.
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        poll.registry().register(&mut signals, SIGNALS, mio::Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        shared.set_stop_waker(Arc::clone(&waker));
        let (sender, orders) = unbounded();
        let desk = Desk { orders: sender, waker };
        let (resting, interrupted, ending) = (Vec::new(), Arc::default(), "");
        let mut front = Front { shared, poll, signals, listeners: Slab::new(), orders, resting, interrupted, ending };
        for listener in listeners {
            front.add(listener)?;
        }
        Ok((front, desk))
    }

    fn add(&mut self, mut listener: Listener) -> io::Result<()> {
        let place = self.listeners.vacant_entry();
        listener.register(self.poll.registry(), Token(place.key()))?;
        place.insert(listener);
        Ok(())
    }

    /// Accepts until the server is asked to stop.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        while !self.shared.stopping.load(Relaxed) {
            self.end_if_wanted();
            let waits = !self.resting.is_empty() || self.shared.engine.saves().is_end_wanted();
            let patience = waits.then_some(REST);
            match self.poll.poll(&mut events, patience) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            self.wake_rested();
            for event in &events {
                match event.token() {
                    SIGNALS => self.take_signals(),
                    WAKE => self.take_orders(),
                    Token(index) => self.accept(index),
                }
            }
        }
        // Before any connection ends: whoever sees his end must not get a new one.
        self.listeners.clear();
        self.shared.post_all(|| Letter::Stop);
        Ok(())
    }

    fn wake_rested(&mut self) {
        if self.resting.first().is_some_and(|(_, until)| *until <= Instant::now()) {
            std::mem::take(&mut self.resting).into_iter().for_each(|(index, _)| self.ask_again(index));
        }
    }

    fn take_signals(&mut self) {
        for signal in self.signals.pending() {
            let name = match signal {
                SIGINT => "SIGINT",
                SIGTERM => "SIGTERM",
                _ => continue,
            };
            if signal == SIGINT && self.interrupted.swap(true, Relaxed) {
                log::warning("You insist... exiting now.");
                crate::host::remove_temporary();
                std::process::exit(1);
            }
            self.ending = name;
            log::warning(format_args!("Received {name} scheduling shutdown..."));
            self.shared.engine.saves().want_end();
        }
    }

    /// Begins the end that a signal has asked for. Timers that stand still keep it back, and SHUTDOWN ABORT takes it
    /// back then. Saving goes on beside this thread, which waits for another signal.
    fn end_if_wanted(&mut self) {
        let engine = &self.shared.engine;
        if engine.are_timers_paused() || !engine.saves().settle_end() {
            return;
        }
        let (shared, name) = (Arc::clone(&self.shared), self.ending);
        let config = engine.config().snapshot();
        let directive = if name == "SIGINT" { Directive::ShutdownOnSigint } else { Directive::ShutdownOnSigterm };
        let has = |word| config.has_choice(directive, word);
        let (force, interrupted) = (has("force"), Arc::clone(&self.interrupted));
        let ending = match (has("save"), has("nosave")) {
            (true, _) => Ending::Save,
            (_, true) => Ending::NoSave,
            _ => Ending::Usual,
        };
        let end = move || {
            if before_end(&shared.engine, ending, force) {
                shared.request_stop();
            } else {
                interrupted.store(false, Relaxed);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("ending".to_owned()).spawn(end) {
            log::warning(format_args!("Can't start a thread to end the server: {error}"));
        }
    }

    fn take_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            let result = self.listen_again(&order);
            // Who gave it may have stopped waiting.
            let _ = order.answer.send(result);
        }
    }

    fn listen_again(&mut self, order: &Order) -> Result<(), String> {
        for book in order.books.iter().copied() {
            self.listeners.retain(|_, listener| !matches!(listener, Listener::Tcp { book: of, .. } if *of == book));
        }
        let mut opened = Vec::new();
        for book in order.books.iter().copied() {
            opened.extend(listener::open_tcp_ports(&order.config, book)?);
        }
        opened.into_iter().try_for_each(|listener| self.add(listener)).map_err(|error| error.to_string())
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
                    return self.resting.push((index, Instant::now() + REST));
                }
            };
            if self.shared.connections() >= max_clients {
                self.refuse(accepted, TOO_MANY);
            } else if protected && !accepted.local {
                self.refuse(accepted, PROTECTED);
            } else {
                self.hand_out(accepted);
            }
        }
        self.ask_again(index);
    }

    /// The listener is edge-triggered: what still waits needs a new event, which registering again makes.
    fn ask_again(&mut self, index: usize) {
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
        self.shared.connections_received.fetch_add(1, Relaxed);
        log::verbose(format_args!("Accepted {addr}"));
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
