//! A Sentinel within a server's process (`sentinel-port`).
//!
//! It shares nothing with the server but the process, the configuration file and the users: an engine without data, a
//! worker for its clients and the Sentinel's thread are its own. So it answers and votes however busy the server's
//! workers are, and a measure against the server's clients does not reach its own.

use crate::event_loop::worker_threads::{WorkerThreads, start_workers};
use crate::host::engine_host::EngineHost;
use crate::host::lazy_free::LazyFree;
use crate::host::sentinel_follower::SentinelFollower;
use crate::listener::acceptor::Acceptor;
use crate::listener::sockets;
use crate::listener::tls_state::TlsState;
use crate::sentinel::sentinel_console::SentinelConsole;
use crate::workers::mailbox::WorkerMessage;
use crate::workers::notifier::Notifier;
use crate::workers::shared::Shared;
use commands::core::mode;
use engine::{Engine, Options};
use mio::Poll;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

/// The running Sentinel.
pub struct SentinelWithin {
    handle: Arc<SentinelConsole>,
    shared: Arc<Shared>,
    acceptor: Arc<Acceptor>,
    workers: Arc<WorkerThreads>,
    thread: JoinHandle<()>,
}

impl SentinelWithin {
    /// Starts it beside the server with this engine and this host. An error is a line for the log.
    pub fn start(
        handle: &Arc<SentinelConsole>,
        server: &Arc<Engine>,
        server_host: &EngineHost,
    ) -> Result<SentinelWithin, String> {
        // Commands, users and threads that come from here are the Sentinel's.
        mode::run_as(true, || start(handle, server, server_host))
    }

    /// Ends it with the server.
    pub fn stop(self) {
        self.shared.stopping.store(true, Relaxed);
        self.acceptor.close();
        self.shared.post_all(|| WorkerMessage::Stop);
        self.handle.wake();
        self.workers.join();
        // A thread that panicked has ended the process.
        let _ = self.thread.join();
    }
}

fn start(
    handle: &Arc<SentinelConsole>,
    server: &Arc<Engine>,
    server_host: &EngineHost,
) -> Result<SentinelWithin, String> {
    let failed = |error: io::Error| format!("Can't start the Sentinel: {error}");
    let config = server.config().snapshot().of_sentinel_within();
    commands::install(&[]);
    let tls = Arc::<TlsState>::default();
    tls.configure(&config)?;
    let listeners = sockets::open(&config)?;
    let lazy_free = LazyFree::start(1, &Arc::new(config.clone())).map_err(failed)?;
    let process = server.host().process();
    let host = Arc::new(EngineHost::new(lazy_free, process.config_file, process.executable, process.supervisor));
    let options = Options { databases: 1, workers: 1, ..Options::default() };
    let engine = Arc::new(Engine::with_config(&options, config, Arc::clone(&host) as Arc<dyn engine::Host>));
    commands::server::config::apply_all(&engine);
    let polls = vec![Poll::new().map_err(failed)?];
    let acceptor = Arc::new(Acceptor::new(polls[0].registry(), tls).map_err(failed)?);
    // The Sentinel writes no log: no thread waits for this.
    let (notifier, _) = Notifier::new();
    let shared = Arc::new(Shared::new(engine, notifier));
    let workers = start_workers(&shared, &acceptor, polls).map_err(failed)?;
    host.set_server(&shared, &acceptor);
    server_host.set_sentinel_within(SentinelFollower::new(&shared.engine, &acceptor), server);
    handle.set_server(server);
    let thread = handle.start(&shared, &acceptor).map_err(failed)?;
    acceptor.open(listeners).map_err(failed)?;
    Ok(SentinelWithin { handle: Arc::clone(handle), shared, acceptor, workers, thread })
}
