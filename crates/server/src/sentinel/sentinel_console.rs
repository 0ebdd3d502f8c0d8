//! The Sentinel behind its lock.

use super::driver;
use super::sentinel_host::SentinelHost;
use crate::listener::acceptor::Acceptor;
use crate::system::clock;
use crate::workers::shared::Shared;
use ::sentinel::{Millis, Sentinel};
use engine::Engine;
use engine::locks::sync::{Mutex, MutexGuard};
use mio::{Poll, Token, Waker};
use std::ffi::OsString;
use std::io;
use std::sync::{Arc, LazyLock, OnceLock};
use std::thread::JoinHandle;

/// The token under which the thread's waker reports; connections count from 1.
pub(super) const WAKE: Token = Token(0);

/// The handle by which other threads query the Sentinel and give it inputs.
pub struct SentinelConsole {
    sentinel: Mutex<Sentinel>,
    host: SentinelHost,
    waker: OnceLock<Waker>,
    /// Environment of scripts; the process has none any more when its title has taken the place.
    pub(super) environment: Vec<(OsString, OsString)>,
}

/// Returns this moment by a clock that begins with the time of day and never goes back. A process that stood still sees
/// that the clock has gone on.
pub(super) fn now() -> Millis {
    static BEGINNING: LazyLock<i64> = LazyLock::new(|| clock::now().unix_ms().0 - clock::nanos().ms().0);
    BEGINNING.saturating_add(clock::nanos().ms().0)
}

impl SentinelConsole {
    pub(super) fn new(sentinel: Sentinel, host: SentinelHost) -> SentinelConsole {
        let environment = std::env::vars_os().collect();
        SentinelConsole { sentinel: Mutex::new(sentinel), host, waker: OnceLock::new(), environment }
    }

    pub(super) fn sentinel(&self) -> MutexGuard<'_, Sentinel> {
        self.sentinel.lock()
    }

    /// Sets the server within which this Sentinel is.
    pub fn set_server(&self, engine: &Arc<Engine>) {
        self.host.set_server(engine);
    }

    /// Begins to watch, on a thread of its own.
    ///
    /// # Errors
    /// The system has no thread or poll for it.
    pub fn start(self: &Arc<Self>, shared: &Arc<Shared>, acceptor: &Arc<Acceptor>) -> io::Result<JoinHandle<()>> {
        self.host.set_engine(&shared.engine);
        // The Sentinel has its id before any client asks for it.
        self.sentinel().start(now());
        let poll = Poll::new()?;
        // The waker is set once: no other call starts the thread.
        let _ = self.waker.set(Waker::new(poll.registry(), WAKE)?);
        commands::sentinel::install(Arc::clone(self) as Arc<dyn commands::sentinel::SentinelHandle>);
        driver::start(Arc::clone(self), Arc::clone(shared), Arc::clone(acceptor), poll)
    }
}

impl SentinelConsole {
    /// Wakes the thread.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            // The thread looks at its next tick at the latest.
            let _ = waker.wake();
        }
    }
}

impl commands::sentinel::SentinelHandle for SentinelConsole {
    fn visit(&self, visit: &mut dyn FnMut(&mut Sentinel, Millis)) {
        visit(&mut self.sentinel(), now());
        self.wake();
    }
}
