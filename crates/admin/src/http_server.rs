//! The thread of the admin plane: listens, and enforces its limits.

use crate::backend::Backend;
use crate::command_permits::CommandPermits;
pub use crate::connection_limit::CONNECTIONS_MAX;
use crate::connection_limit::Places;
use crate::exporter::{self, Export};
use crate::http_connection::{self, Site};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// Time of a connection, from its beginning to its end.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// Pause of accepting after it has failed, for want of files or memory.
const REST: Duration = Duration::from_millis(100);

/// The thread while it runs.
pub struct AdminThread {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// Serves these sockets, and sends metrics where there is a collector.
///
/// # Errors
/// There can be no thread, or the sockets cannot be waited for.
pub fn start(
    listeners: Vec<TcpListener>,
    backend: Arc<dyn Backend>,
    export: Option<Export>,
) -> io::Result<AdminThread> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let listeners = {
        let _within = runtime.enter();
        let registered = listeners.into_iter().map(|listener| {
            listener.set_nonblocking(true)?;
            tokio::net::TcpListener::from_std(listener)
        });
        registered.collect::<io::Result<Vec<_>>>()?
    };
    let (stop, stopped) = oneshot::channel();
    let run = move || run(&runtime, listeners, &backend, export, stopped);
    Ok(AdminThread { stop, thread: thread::Builder::new().name("admin".to_owned()).spawn(run)? })
}

impl AdminThread {
    /// Ends the thread; requests under way are dropped.
    pub fn stop(self) {
        // A thread that has ended needs no signal.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

fn run(
    runtime: &Runtime,
    listeners: Vec<tokio::net::TcpListener>,
    backend: &Arc<dyn Backend>,
    export: Option<Export>,
    stopped: oneshot::Receiver<()>,
) {
    let places = Arc::<Places>::default();
    let site = Arc::new(Site { backend: Arc::clone(backend), handle: CommandPermits::new() });
    for listener in listeners {
        runtime.spawn(listen(listener, Arc::clone(&site), Arc::clone(&places)));
    }
    if let Some(export) = export {
        runtime.spawn(exporter::run(export, Arc::clone(backend)));
    }
    // The owner may have gone without a signal.
    let _ = runtime.block_on(stopped);
}

async fn listen(listener: tokio::net::TcpListener, site: Arc<Site>, places: Arc<Places>) {
    loop {
        let Ok((socket, peer)) = listener.accept().await else {
            sleep(REST).await;
            continue;
        };
        let Some(place) = places.enter(peer.ip()) else { continue };
        let (site, number) = (Arc::clone(&site), place.number());
        let task = tokio::spawn(async move {
            // A request that takes longer has no answer.
            let _ = timeout(CONNECTION_TIME, http_connection::serve(socket, peer, &site, &place)).await;
        });
        places.runs(number, task.abort_handle());
    }
}
