//! The thread: it waits for sockets and for time, and carries out the Sentinel's effects.

use super::children::Scripts;
use super::sentinel_console::{SentinelConsole, WAKE, now};
use crate::connection::peer_socket::Peer;
use crate::listener::acceptor::Acceptor;
use crate::system::log;
use crate::workers::mailbox::WorkerMessage;
use crate::workers::shared::Shared;
use ::sentinel::{ConnectionId, Effect};
use commands::core::mode;
use engine::clients::pubsub::ChannelKind;
use engine::config::Directive;
use mio::event::Event;
use mio::{Events, Poll, Token};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

struct Driver {
    handle: Arc<SentinelConsole>,
    shared: Arc<Shared>,
    acceptor: Arc<Acceptor>,
    poll: Poll,
    peers: BTreeMap<ConnectionId, Peer>,
    scripts: Scripts,
    next_tick: Instant,
}

/// Starts the thread.
pub(super) fn start(
    handle: Arc<SentinelConsole>,
    shared: Arc<Shared>,
    acceptor: Arc<Acceptor>,
    poll: Poll,
) -> io::Result<JoinHandle<()>> {
    let (peers, scripts, next_tick) = (BTreeMap::new(), Scripts::default(), Instant::now());
    let mut driver = Driver { handle, shared, acceptor, poll, peers, scripts, next_tick };
    let is_within = mode::is_sentinel_within();
    let run = move || {
        mode::enter_sentinel_within(is_within);
        if let Err(error) = driver.run() {
            log::warning(format_args!("The Sentinel cannot go on: {error}"));
            // No client must query a state any longer that is not kept up to date.
            driver.shared.request_stop();
            driver.acceptor.close();
            driver.shared.post_all(|| WorkerMessage::Stop);
        }
    };
    std::thread::Builder::new().name("sentinel".to_owned()).spawn(run)
}

impl Driver {
    fn run(&mut self) -> io::Result<()> {
        self.perform();
        let mut events = Events::with_capacity(256);
        while !self.shared.stopping.load(Relaxed) {
            let time = self.next_tick.saturating_duration_since(Instant::now());
            match self.poll.poll(&mut events, Some(time)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => result?,
            }
            for event in events.iter().filter(|event| event.token() != WAKE) {
                self.ready(event);
            }
            if Instant::now() >= self.next_tick {
                self.tick();
            }
            self.perform();
        }
        Ok(())
    }

    fn tick(&mut self) {
        let ended = self.scripts.collect();
        let mut sentinel = self.handle.sentinel();
        for script in ended {
            sentinel.script_ended(script.script, script.status, script.signal, now());
        }
        let wait = sentinel.tick(now());
        self.next_tick = Instant::now() + Duration::from_millis(wait.unsigned_abs());
    }

    fn ready(&mut self, event: &Event) {
        let connection = ConnectionId(event.token().0 as u64);
        let Some(peer) = self.peers.get_mut(&connection) else {
            return;
        };
        match peer.opened() {
            Ok(Some(local_ip)) => self.handle.sentinel().connected(connection, local_ip, now()),
            Ok(None) => {}
            Err(_) => return self.lose(connection),
        }
        let failed = event.is_writable() && peer.flush().is_err();
        let (bytes, more) = if event.is_readable() { peer.read() } else { (Vec::new(), true) };
        if !bytes.is_empty() {
            self.handle.sentinel().received(connection, &bytes, now());
        }
        if failed || !more {
            self.lose(connection);
        }
    }

    /// Handles a connection that is gone.
    fn lose(&mut self, connection: ConnectionId) {
        if self.peers.remove(&connection).is_some() {
            self.handle.sentinel().closed(connection, now());
        }
    }

    /// Carries out the effects, including those that they lead to.
    fn perform(&mut self) {
        loop {
            // The lock is not held meanwhile: clients may query the Sentinel.
            let effects = self.handle.sentinel().take_effects();
            if effects.is_empty() {
                return;
            }
            effects.into_iter().for_each(|effect| self.perform_one(effect));
        }
    }

    fn perform_one(&mut self, effect: Effect) {
        match effect {
            Effect::Connect { connection, ip, port } => {
                if self.connect(connection, &ip, port).is_err() {
                    self.handle.sentinel().closed(connection, now());
                }
            }
            Effect::Send { connection, bytes } => {
                if self.peers.get_mut(&connection).is_some_and(|peer| peer.send(&bytes).is_err()) {
                    self.lose(connection);
                }
            }
            Effect::Close { connection } => _ = self.peers.remove(&connection),
            Effect::Publish { channel, message } => self.publish(channel, message),
            Effect::Log { level, text } => log::log(level, text),
            Effect::RunScript { script, argv } => {
                let started = self.scripts.start(script, &argv, &self.handle.environment);
                let mut sentinel = self.handle.sentinel();
                match started {
                    Ok(pid) => sentinel.script_started(script, pid, now()),
                    Err(_) => sentinel.script_not_started(script, now()),
                }
            }
            Effect::KillScript { script } => self.scripts.kill(script),
            Effect::Exit(status) => std::process::exit(i32::from(status)),
        }
    }

    fn connect(&mut self, connection: ConnectionId, ip: &str, port: u16) -> io::Result<()> {
        let config = self.shared.engine.config().snapshot();
        let source = String::from_utf8_lossy(config.text(Directive::BIND_SOURCE_ADDR)).into_owned();
        let encrypts = config.flag(Directive::TLS_REPLICATION);
        let settings = self.acceptor.tls.settings().filter(|_| encrypts);
        if encrypts && settings.is_none() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let settings = settings.map(|settings| Arc::clone(&settings.client));
        let mut peer = Peer::open(ip, port, &source, settings)?;
        let token = usize::try_from(connection.0).map_err(|_| io::ErrorKind::InvalidInput)?;
        peer.register(self.poll.registry(), Token(token))?;
        self.peers.insert(connection, peer);
        Ok(())
    }

    /// Gives a message to the worker, which has the subscribers.
    fn publish(&self, channel: String, message: String) {
        let publish = move |engine: &engine::Engine, _| {
            engine.pubsub().publish(0, ChannelKind::Channel, channel.as_bytes(), message.as_bytes());
        };
        self.shared.post(0, WorkerMessage::Task(Box::new(publish)));
    }
}
