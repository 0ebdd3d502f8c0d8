//! Ends connections that hold more memory than they may: see
//! [`ClientLimits`](crate::connection::connection_limits::ClientLimits).

use crate::event_loop::worker::Worker;
use crate::system::log;
use commands::core::client_line::described;
use engine::client_endings::Ending;
use engine::clients::registry::ClientInfo;
use engine::config::Directive;
use engine::stats::metrics::sum;
use engine::time::UnixMs;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of the input that the log shows of a request that is too long.
const SHOWN: usize = 64;

impl Worker {
    /// Ends a connection that has too much to read. Its unsent bytes are dropped: they may be the rest of a reply.
    #[cold]
    pub fn end_slow_reader(&mut self, token: usize, more: usize, how: &str, now: UnixMs) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let mut sizes = connection.buffer_sizes();
        if more > 0 {
            sizes.reply_chunks += 1;
            sizes.reply_bytes += more;
        }
        connection.session.info.buffers.show(sizes);
        let client = described(&self.shared.engine, &connection.session.info, now);
        log::warning(format_args!("Client {client} {how} for overcoming of output buffer limits."));
        self.shared.engine.clients().slow_readers.fetch_add(1, Relaxed);
        self.close(token);
    }

    /// Ends the connections that got too many pushes in this tick.
    pub fn end_slow_readers(&mut self, now: UnixMs) {
        for (token, client) in self.push_targets.take_over_limit() {
            // Another connection may have the token by now.
            if self.connections.get(token).is_some_and(|connection| connection.client() == client) {
                self.end_slow_reader(token, 0, "scheduled to be closed ASAP", now);
            }
        }
    }

    /// Ends a connection whose unfinished request has become too long; false if it is not.
    pub fn end_if_input_too_long(&mut self, token: usize, now: UnixMs) -> bool {
        let Some(connection) = self.connections.get_mut(token) else { return false };
        if !self.settings.clients.is_input_over(connection) {
            return false;
        }
        let client = described(&self.shared.engine, &connection.session.info, now);
        let hides = self.shared.engine.config().snapshot().flag(Directive::HIDE_USER_DATA_FROM_LOG);
        let input = connection.input.pending();
        let input = &input[..input.len().min(SHOWN)];
        let input = if hides { "*redacted*".to_owned() } else { format!("\"{}\"", input.escape_ascii()) };
        log::warning(format_args!(
            "Closing client that reached max query buffer length: {client} (qbuf initial bytes: {input})"
        ));
        self.metrics().query_limit_disconnections.add(1);
        self.close(token);
        true
    }

    /// Disconnects the largest clients, of any worker, until all of them together are within the limit.
    #[inline]
    pub fn evict_clients(&mut self, now: UnixMs) {
        let limit = self.settings.clients.total;
        if limit < u64::MAX && sum(self.shared.engine.metrics(), |worker| &worker.client_bytes) > limit {
            self.evict_down_to(limit, now);
        }
    }

    #[cold]
    fn evict_down_to(&mut self, limit: u64, now: UnixMs) {
        // The counters include clients that are on their way out; the list does not.
        let mut clients = self.shared.engine.clients().all();
        clients.retain(|client| !client.no_evict.load(Relaxed) && !client.is_server());
        let mut clients: Vec<(usize, Arc<ClientInfo>)> =
            clients.into_iter().map(|client| (client.memory.load(Relaxed), client)).collect();
        let mut total: u64 = clients.iter().map(|(bytes, _)| *bytes as u64).sum();
        clients.sort_unstable_by_key(|(bytes, client)| Reverse((*bytes, client.id)));
        for (bytes, client) in clients {
            if total <= limit {
                break;
            }
            total -= bytes as u64;
            if !self.shared.engine.end_client(&client, Ending::AtOnce) {
                continue;
            }
            log::notice(format_args!("Evicting client: {}", described(&self.shared.engine, &client, now)));
            self.metrics().evicted_clients.add(1);
            if client.worker.load(Relaxed) == self.index {
                // The client's memory is wanted now.
                self.close_client(client.id);
            }
        }
    }

    /// Ends connections that wait for their peers and have been above a soft limit for too long, and resizes first
    /// reply buffers that no longer fit; called every tick.
    pub fn enforce_output_limits(&mut self, waiting: &[usize], now: UnixMs) {
        let buffers = &self.shared.engine.clients().reply_buffers;
        let (connections, limits) = (&mut self.connections, &self.settings.clients);
        let is_over = |token: &usize| connections.get_mut(*token).is_some_and(|c| limits.is_over(c, 0, false, now));
        let over: Vec<usize> = waiting.iter().copied().filter(is_over).collect();
        if buffers.resizing.load(Relaxed) {
            self.resize_reply_buffers(now);
        }
        for token in over {
            self.end_slow_reader(token, 0, "closed", now);
        }
    }
}
