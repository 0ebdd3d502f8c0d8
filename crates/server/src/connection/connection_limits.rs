//! Limits of clients' memory: `client-output-buffer-limit`, `client-query-buffer-limit`, `maxmemory-clients`.
//!
//! ```text
//!   replies to one client    looked at before they are sent or held, at every push, and every 50 ms for the soft limit
//!   requests of one client   looked at when they were read and are not complete
//!   all clients together     each worker sums up its own (one counter, written by it alone); a worker whose clients
//!                            have grown adds up the counters, and disconnects the largest clients above the limit
//! ```
//!
//! A client's memory is worked out at the end of each tick in which it did something, and costs a few loads where the
//! client holds nothing, as nearly all do. A worker that disconnects a client takes it off the list of clients first,
//! so that two workers do not both do it. The worker that owns the connection closes it.

use crate::connection::output_buffer::CHUNK;
use crate::connection::state::Connection;
use engine::clients::registry::{BufferSizes, ClientInfo};
use engine::config::directive_value::ClientClass;
use engine::config::{Config, Directive};
use engine::stats::metrics::WorkerMetrics;
use engine::time::UnixMs;
use std::sync::atomic::Ordering::Relaxed;

/// Unsent bytes of a class of clients.
#[derive(Clone, Copy, Debug)]
struct OutputLimit {
    hard: usize,
    soft: usize,
    /// Milliseconds that a client may be above `soft`.
    patience: i64,
}

/// Bytes of replies, and of requests, that a client without a password may have at most.
const UNAUTHENTICATED_OUTPUT: usize = 1 << 10;
const UNAUTHENTICATED_INPUT: usize = 1 << 20;
/// Least limit of all clients together, whatever is configured: a client that sets the limit too low can still raise
/// it.
const LEAST_TOTAL: u64 = 128 << 10;
/// Bytes of a client that holds nothing.
const IDLE: usize = size_of::<Connection>() + size_of::<ClientInfo>();

/// The limits in workers' form; `usize::MAX`: none.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    normal: OutputLimit,
    subscriber: OutputLimit,
    /// Unsent bytes up to which no client exceeds a limit.
    least_output: usize,
    input: usize,
    /// Bytes of all clients together.
    pub total: u64,
}

impl ClientLimits {
    /// Returns the limits of the configuration.
    pub fn of(config: &Config) -> ClientLimits {
        let limit = |class| {
            let limit = config.output_buffer_limit(class);
            let bytes = |n: u64| if n == 0 { usize::MAX } else { usize::try_from(n).unwrap_or(usize::MAX) };
            let patience = limit.soft_seconds.saturating_mul(1000);
            OutputLimit { hard: bytes(limit.hard_bytes), soft: bytes(limit.soft_bytes), patience }
        };
        let (normal, subscriber) = (limit(ClientClass::Normal), limit(ClientClass::PubSub));
        let least = [normal.hard, normal.soft, subscriber.hard, subscriber.soft];
        ClientLimits {
            normal,
            subscriber,
            least_output: least.into_iter().min().unwrap_or(usize::MAX),
            input: usize::try_from(config.int(Directive::CLIENT_QUERY_BUFFER_LIMIT)).unwrap_or(usize::MAX),
            total: total_limit(config.int(Directive::MAXMEMORY_CLIENTS), config.bytes(Directive::MAXMEMORY)),
        }
    }

    /// Returns whether the connection's unfinished request has become too long.
    pub fn is_input_over(&self, connection: &Connection) -> bool {
        let known = connection.session.authenticated;
        let limit = self.input.min(if known { usize::MAX } else { UNAUTHENTICATED_INPUT });
        connection.memory.shown() > limit.min(UNAUTHENTICATED_INPUT) && connection.input_len() > limit
    }

    /// Returns whether the connection's replies have a hard limit.
    pub fn is_hard(&self, connection: &Connection) -> bool {
        let limit = if connection.session.subscriptions.is_some() { &self.subscriber } else { &self.normal };
        limit.hard < usize::MAX
    }

    /// Returns whether a connection has too much to read when `more` bytes are added to its unsent ones.
    #[inline]
    pub fn is_over(&self, connection: &mut Connection, more: usize, skip_first: bool, now: UnixMs) -> bool {
        let output = &mut connection.output;
        let bytes = output.unsent().len().max(connection.chunked.replied()) + output.held_bytes() + more;
        let is_known = connection.session.authenticated || bytes <= UNAUTHENTICATED_OUTPUT;
        if bytes <= self.least_output && is_known && !skip_first {
            output.within_soft();
            return false;
        }
        self.is_over_by_class(connection, bytes, skip_first, now)
    }

    #[cold]
    fn is_over_by_class(&self, connection: &mut Connection, bytes: usize, skip_first: bool, now: UnixMs) -> bool {
        let (room, _) = connection.output.unsent().room();
        let beyond = bytes.saturating_sub(if skip_first { 0 } else { room }).div_ceil(CHUNK).saturating_mul(CHUNK);
        let session = &connection.session;
        if beyond > UNAUTHENTICATED_OUTPUT && !session.authenticated && !session.was_authenticated {
            return true;
        }
        let limit = if session.subscriptions.is_some() { &self.subscriber } else { &self.normal };
        if beyond <= limit.soft {
            connection.output.within_soft();
        }
        beyond > limit.hard || beyond > limit.soft && connection.output.over_soft_for(now) > limit.patience
    }
}

/// Returns the bytes that `maxmemory-clients` allows: it is a number of bytes, or, when negative, a percentage of
/// `maxmemory`.
fn total_limit(setting: i64, max_memory: u64) -> u64 {
    let limit = match setting {
        1.. => setting as u64,
        0 => u64::MAX,
        _ if max_memory == 0 => u64::MAX,
        percent => (u128::from(max_memory) * u128::from(percent.unsigned_abs()) / 100) as u64,
    };
    limit.max(LEAST_TOTAL)
}

impl Connection {
    /// Works out the connection's memory, publishes it in the client's public record, and counts the difference as the
    /// worker's.
    #[inline]
    pub fn note_memory(&mut self, metrics: &WorkerMetrics) {
        let info = &self.session.info;
        let named = info.subscription_bytes.load(Relaxed)
            + info.watched_bytes.load(Relaxed)
            + info.prefix_bytes.load(Relaxed)
            + info.queued_bytes.load(Relaxed);
        let waiting = self.waiting.argument_bytes();
        let memory = IDLE + self.input.memory() + self.output.memory() + self.socket.memory() + waiting + named;
        let counted = if info.no_evict.load(Relaxed) { 0 } else { memory };
        if self.memory.is_new(memory, counted, IDLE) {
            self.show_memory(memory, counted, metrics);
        }
    }

    #[cold]
    fn show_memory(&mut self, memory: usize, counted: usize, metrics: &WorkerMetrics) {
        self.memory.set(memory, counted, metrics);
        self.session.info.memory.store(memory, Relaxed);
        let sizes = self.buffer_sizes();
        self.session.info.buffers.show(sizes);
        metrics.buffer_peaks.note(metrics.clock(), sizes.query + sizes.query_free, sizes.reply_bytes);
    }

    /// Publishes the buffers' sizes, as after a change of the first reply buffer's room.
    pub fn show_buffers(&self) {
        self.session.info.buffers.show(self.buffer_sizes());
    }

    /// Returns the sizes of buffers for CLIENT LIST.
    pub fn buffer_sizes(&self) -> BufferSizes {
        let (input, unsent) = (self.input.sizes(), self.output.unsent());
        let (reply_room, reply_peak) = unsent.room();
        let (reply_chunks, reply_bytes) = unsent.list();
        BufferSizes {
            query: input.query,
            query_free: input.free,
            args: input.args + self.waiting.argument_bytes(),
            reply_room,
            reply_peak,
            reply_first: unsent.first_len(),
            reply_chunks: reply_chunks + usize::from(self.output.has_held()),
            reply_bytes: reply_bytes + self.output.held_bytes(),
        }
    }

    /// Returns the bytes of requests that have not run.
    fn input_len(&self) -> usize {
        let sizes = self.buffer_sizes();
        sizes.query + sizes.args + self.session.info.queued_bytes.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_of_the_memory_limit() {
        assert_eq!(total_limit(0, 100), u64::MAX);
        assert_eq!((total_limit(500_000, 100), total_limit(5000, 100)), (500_000, 128 << 10));
        assert_eq!((total_limit(-7, 6 << 20), total_limit(-7, 0)), (440_401, u64::MAX));
    }
}
