//! The thread of a script that is debugged on [a copy of the data](commands::core::debug_session): it has the client's
//! connection until both end, and nobody waits for it.
//!
//! ```text
//!   worker   the connection, when all earlier replies have gone -> thread
//!   thread   the script: bytes to the client, and its next request, again and again; the last bytes; the end
//! ```
//!
//! The client stays on the list of clients and counts as its worker's connection. CLIENT KILL and the like mark it as
//! ended there, which the thread sees within [`DEBUG_WAIT`]; so it does with the server's end. A script whose client is
//! gone runs to its end, as one does that the debugger has let go of.

use crate::connection::socket::Readiness;
use crate::connection::state::Connection;
use crate::event_loop::script_reentry::{DEBUG_WAIT, LENT, Lent, read_request};
use crate::event_loop::worker_threads::WORKER_STACK;
use crate::system::{clock, log};
use crate::workers::shared::Shared;
use commands::Args;
use commands::core::debug_session::DebugSession;
use mio::{Events, Poll, Token};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// The client of such a script.
struct DebugClient {
    connection: Connection,
    shared: Arc<Shared>,
    poll: Poll,
    events: Events,
    /// Requests that came with the script, and bytes that came later and are no whole request yet.
    queued: VecDeque<Vec<Vec<u8>>>,
    said: Vec<u8>,
}

/// Starts the thread for a connection that was this worker's. `is_there`: neither the client nor its socket was lost.
pub fn start(shared: &Arc<Shared>, worker: usize, connection: Connection, session: DebugSession, is_there: bool) {
    let (id, theirs) = (connection.client(), Arc::clone(shared));
    let run = move || {
        let client =
            if is_there { DebugClient::new(connection, &theirs) } else { Err(io::ErrorKind::NotConnected.into()) };
        match client {
            Ok(mut client) => client.hold(session),
            Err(error) => log::verbose(format_args!("A script is not debugged: {error}")),
        }
        theirs.forget(worker, id);
    };
    // The closure is dropped with the connection if there is no thread for it.
    if let Err(error) = thread::Builder::new().name("debugger".to_owned()).stack_size(WORKER_STACK).spawn(run) {
        log::warning(format_args!("Can't start a thread for a debugged script: {error}"));
        shared.forget(worker, id);
    }
}

impl DebugClient {
    fn new(mut connection: Connection, shared: &Arc<Shared>) -> io::Result<DebugClient> {
        let (poll, events) = (Poll::new()?, Events::with_capacity(8));
        connection.socket.stream().register(poll.registry(), Token(0))?;
        let words = |args: Args<'_>| args.iter().map(<[u8]>::to_vec).collect();
        let queued = connection.input.take_queued().into_iter().map(words).collect();
        let said = connection.input.pending().to_vec();
        Ok(DebugClient { connection, shared: Arc::clone(shared), poll, events, queued, said })
    }

    /// Runs the script, and sends the rest of its output.
    fn hold(&mut self, session: DebugSession) {
        let said = LENT.set(self, || session.run());
        let sent = self.connection.send(&said, usize::MAX, clock::now().unix_ms());
        let mut goes_on = sent.is_ok();
        while goes_on && !self.connection.output.is_drained() {
            goes_on = self.wait() && self.connection.flush_all().is_ok();
        }
    }

    /// Waits for the socket for a moment. False if the client or the server is about to end.
    fn wait(&mut self) -> bool {
        // A poll that has failed is tried again at the next call.
        if self.poll.poll(&mut self.events, Some(DEBUG_WAIT)).is_ok() {
            for event in &self.events {
                self.connection.note_readiness(Readiness::of(event));
            }
        }
        !self.shared.stopping.load(Relaxed) && !self.connection.session.info.has_ended()
    }
}

impl Lent for DebugClient {
    /// Nobody else is this thread's to serve.
    fn serve(&mut self, _is_lent: bool) {}

    fn converse(&mut self, bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        self.connection.send(bytes, usize::MAX, clock::now().unix_ms()).ok()?;
        if let Some(words) = self.queued.pop_front() {
            return Some(words);
        }
        loop {
            if let Some(words) = read_request(&mut self.connection, &mut self.said)? {
                return Some(words);
            }
            if !self.wait() {
                return None;
            }
        }
    }
}
