//! The main thread once the server runs: it waits for signals, and ends the server.

use crate::listener::acceptor::Acceptor;
use crate::system::files;
use crate::system::log;
use crate::workers::mailbox::WorkerMessage;
use crate::workers::shared::Shared;
use commands::persistence::prepare_shutdown::{HowToEnd, LastSave, end_server};
use engine::config::Directive;
use mio::{Events, Poll, Token, Waker};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook_mio::v1_0::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const SIGNALS: Token = Token(usize::MAX - 1);
const WAKE: Token = Token(usize::MAX);

/// Interval of checks whether a shutdown that was delayed may begin.
const REST: Duration = Duration::from_millis(100);

pub struct SignalLoop {
    shared: Arc<Shared>,
    acceptor: Arc<Acceptor>,
    poll: Poll,
    signals: Signals,
    /// Whether an interrupt was seen, and the shutdown that it asks for has not failed: a second one does not wait for
    /// it.
    interrupted: Arc<AtomicBool>,
    /// Signal that asks for the shutdown.
    ending: &'static str,
}

impl SignalLoop {
    pub fn new(shared: Arc<Shared>, acceptor: Arc<Acceptor>) -> io::Result<SignalLoop> {
        let poll = Poll::new()?;
        // A terminal that goes away is no reason to end, and neither is a file that may not grow: the write fails.
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGXFSZ])?;
        poll.registry().register(&mut signals, SIGNALS, mio::Interest::READABLE)?;
        shared.set_stop_waker(Waker::new(poll.registry(), WAKE)?);
        Ok(SignalLoop { shared, acceptor, poll, signals, interrupted: Arc::default(), ending: "" })
    }

    /// Waits until the server is asked to stop.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        while !self.shared.stopping.load(Relaxed) {
            self.end_if_wanted();
            let patience = self.shared.engine.persistence_status().is_end_wanted().then_some(REST);
            match self.poll.poll(&mut events, patience) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            if events.iter().any(|event| event.token() == SIGNALS) {
                self.take_signals();
            }
        }
        // New connections are refused before any is closed: a client that sees its connection closed must not get a new
        // one.
        self.acceptor.close();
        self.shared.post_all(|| WorkerMessage::Stop);
        self.heed_interrupts();
        Ok(())
    }

    /// Takes signals until the process has ended: a worker may be within a script's long call of a library.
    fn heed_interrupts(mut self) {
        let mut events = Events::with_capacity(64);
        let heed = move || {
            while match self.poll.poll(&mut events, None) {
                Err(error) => error.kind() == io::ErrorKind::Interrupted,
                Ok(()) => true,
            } {
                self.take_signals();
            }
        };
        if let Err(error) = std::thread::Builder::new().name("signals".to_owned()).spawn(heed) {
            log::warning(format_args!("No signal is taken until the end: {error}"));
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
                files::remove_temporary();
                std::process::exit(1);
            }
            self.ending = name;
            log::warning(format_args!("Received {name} scheduling shutdown..."));
            self.shared.engine.persistence_status().want_end();
        }
    }

    /// Begins the shutdown that a signal has asked for. Paused timers delay it, and SHUTDOWN ABORT cancels it then. The
    /// server saves on another thread, while this one waits for another signal.
    fn end_if_wanted(&mut self) {
        let engine = &self.shared.engine;
        if engine.are_timers_paused() || !engine.persistence_status().settle_end() {
            return;
        }
        let (shared, name) = (Arc::clone(&self.shared), self.ending);
        let config = engine.config().snapshot();
        let directive = if name == "SIGINT" { Directive::SHUTDOWN_ON_SIGINT } else { Directive::SHUTDOWN_ON_SIGTERM };
        let has = |word| config.has_choice(directive, word);
        let saves = match (has("save"), has("nosave")) {
            (true, _) => LastSave::Always,
            (_, true) => LastSave::Never,
            _ => LastSave::Usual,
        };
        let how = HowToEnd {
            saves,
            is_now: has("now"),
            is_forced: has("force"),
            is_safe: has("safe"),
            hands_over: has("failover") && shared.engine.is_clustered(),
        };
        let interrupted = Arc::clone(&self.interrupted);
        let end = move || match end_server(&shared.engine, how) {
            true => shared.request_stop(),
            false => interrupted.store(false, Relaxed),
        };
        if let Err(error) = std::thread::Builder::new().name("ending".to_owned()).spawn(end) {
            log::warning(format_args!("Can't start a thread to end the server: {error}"));
        }
    }
}
