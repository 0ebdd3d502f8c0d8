//! The length of the stream, requests that wait for it, and the part that is retained for replicas that come back.

use crate::replication::primary_thread::{AT_ONCE, PrimaryThread, SECOND};
use crate::system::log;
use engine::config::Directive;
use engine::keyspace::record::LogUser;
use engine::status::replication_status::new_id;
use engine::time::SteadyMs;
use replication::backlog::{Backlog, SHARED};
use replication::replid::History;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl PrimaryThread {
    /// Begins the history, with a name of its own.
    pub(super) fn begin_backlog(&mut self) {
        self.shared.engine.replication().update_history(|history| *history = History::new(new_id()));
        self.open_backlog();
        let history = self.shared.engine.replication().history();
        log::notice(format_args!(
            "Replication backlog created, my new replication IDs are '{}' and '{}'",
            history.id, history.second
        ));
    }

    /// Retains the stream from its present end on, under the history's name.
    pub(super) fn open_backlog(&mut self) {
        let size = self.shared.engine.config().snapshot().bytes(Directive::REPL_BACKLOG_SIZE);
        self.backlog = Some(Backlog::new(self.shared.engine.replication().offset(), size));
    }

    /// Begins the stream for a replica. An empty stream gets its first word, so that its length is not 0: nodes of a
    /// cluster assume that a replica at 0 has nothing yet.
    pub(super) fn begin_stream(&mut self, now: SteadyMs) {
        self.read_log();
        if self.backlog.as_ref().is_some_and(|backlog| backlog.end() == 0) {
            self.ping_replicas(now);
        }
    }

    /// Adds all changes so far to the backlog, and fits it to the configured size.
    pub(super) fn keep_as_asked(&mut self) {
        self.read_log();
        let size = self.shared.engine.config().snapshot().bytes(Directive::REPL_BACKLOG_SIZE);
        if let Some(backlog) = &mut self.backlog {
            backlog.resize(size);
        }
        self.trim();
    }

    /// Adds applied bytes of another server's stream. Bytes that are no longer wanted go at once.
    pub(super) fn feed(&mut self, mut bytes: Vec<u8>) {
        if bytes.len() >= SHARED
            && let Some(backlog) = &mut self.backlog
        {
            bytes.shrink_to_fit();
            return backlog.append_shared(Arc::new(bytes));
        }
        for part in bytes.chunks(AT_ONCE as usize) {
            if let Some(backlog) = &mut self.backlog {
                backlog.append(part);
            }
            if part.len() < bytes.len() {
                self.trim();
            }
        }
    }

    /// Drops bytes that no replica needs.
    pub(super) fn trim(&mut self) {
        let Some(backlog) = &mut self.backlog else { return };
        let all = self.replicas.iter().map(|(_, replica)| replica).filter(|replica| replica.needs_stream());
        let begun = self.shared.snapshot_offsets.first_needed().unwrap_or(u64::MAX);
        backlog.trim(all.map(|replica| replica.position).min().unwrap_or(u64::MAX).min(begun));
    }

    /// Frees the backlog when there has been no replica for so long that none will come back. Without it the stream
    /// does not grow, so that the history must not keep its name.
    pub(super) fn free_backlog(&mut self, ttl: i64, now: SteadyMs) {
        let is_idle = self.replicas.is_empty() && self.reader.is_some() && self.syncs.is_empty();
        if ttl == 0 || !is_idle || self.keeps_log() || now.since(self.alone_since) <= ttl {
            return;
        }
        self.shared.engine.set_logging(LogUser::Replicas, false);
        (self.reader, self.backlog) = (None, None);
        self.marks.clear();
        self.shared.engine.replication().update_history(|history| *history = History::new(new_id()));
        let seconds = ttl / SECOND;
        log::notice(format_args!("Replication backlog freed after {seconds} seconds without connected replicas."));
    }

    /// Serves the requests whose part of the log is in the stream by now.
    pub(super) fn end_framing_waits(&mut self) {
        let framed = if self.reader.is_some() { self.read_to } else { u64::MAX };
        let status = self.shared.engine.replication();
        let end = self.backlog.as_ref().map_or_else(|| status.offset(), Backlog::end);
        let mut is_told = false;
        for length in self.framing_waits.take_lengths(framed) {
            // The length is set once.
            let _ = length.set(end);
            is_told = true;
        }
        // The request makes the stream longer: replicas that have acknowledged all of it are not asked.
        let is_behind = |is_told| is_told && self.replicas.iter().any(|(_, it)| it.shown.acked.load(Relaxed) < end);
        if (self.framing_waits.take_ask(framed) || is_behind(is_told)) && !self.replicas.is_empty() {
            self.add(&[b"REPLCONF", b"GETACK", b"*"]);
        }
    }
}
