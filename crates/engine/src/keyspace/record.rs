//! Records in the change log: commands, and the removal of expired or evicted keys.

use crate::config::Directive;
use crate::keyspace::Keyspace;
use crate::keyspace::shard::Shard;
use crate::propagation::change_log::{ChangeLog, LogKeeper, RecordHead};
use crate::propagation::effects::{Effects, Logged};
use crate::propagation::log_batch::{LogBatch, put_command};
use crate::propagation::log_reader::{LogReader, Overflow};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// User of the change log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LogUser {
    /// The append-only file.
    File = 1,
    /// Replicas.
    Replicas = 2,
    /// Nodes to which slots go.
    Migrations = 4,
}

impl Keyspace {
    /// Sets the keeper, which turns the log on and off. At most once.
    pub fn install_log_keeper(&self, keeper: Arc<dyn LogKeeper>) {
        assert!(self.log_keeper.set(keeper).is_ok(), "one keeps the change log already");
    }

    /// Stops logging while the keyspace is read anew. Returns the users of the log.
    pub fn suspend_logging(&self) -> u8 {
        self.logs.swap(0, Relaxed)
    }

    /// Resumes logging after [`suspend_logging`](Self::suspend_logging).
    pub fn resume_logging(&self, users: u8) {
        self.logs.store(users, Relaxed);
    }

    /// Logs a command that changes no key, as one of its own.
    pub fn record_apart<'w>(&self, words: impl ExactSizeIterator<Item = &'w [u8]>) {
        if self.has_log() {
            let mut batch = LogBatch::default();
            batch.push(0, words);
            batch.append_to(&self.log, None);
        }
    }

    /// Sets whether changes go into the log for this user of it. A user that must not miss a change turns it on in the
    /// moment of a [cut](crate::Engine::begin_snapshot).
    pub fn set_logging(&self, user: LogUser, on: bool) {
        match on {
            true => self.logs.fetch_or(user as u8, Relaxed),
            false => self.logs.fetch_and(!(user as u8), Relaxed),
        };
    }

    /// Logs changes for this user from this moment on, in which nothing runs; earlier records are not read.
    pub fn begin_logging(&self, user: LogUser) -> LogReader {
        let all = self.locks().escalated();
        let reader = self.log.open(Overflow::Keep);
        self.set_logging(user, true);
        drop(all);
        reader
    }

    /// Whether changes go into the log for this user of it.
    pub fn is_logged_for(&self, user: LogUser) -> bool {
        self.logs.load(Relaxed) & user as u8 != 0
    }

    /// Returns the log, to which nothing is appended before [`set_logging`](Self::set_logging) turns it on.
    #[inline]
    pub fn change_log(&self) -> &Arc<ChangeLog> {
        &self.log
    }

    /// Returns the keeper, which turns it on and off.
    pub fn log_keeper(&self) -> Option<&dyn LogKeeper> {
        self.log_keeper.get().map(|keeper| &**keeper)
    }

    /// Whether changes go into a log.
    #[inline]
    pub fn has_log(&self) -> bool {
        self.logs.load(Relaxed) != 0
    }

    /// Returns the command by which the change log removes an expired key; `lazyfree-lazy-expire` chooses it.
    pub fn removal_word(&self) -> &'static [u8] {
        if self.config.snapshot().flag(Directive::LAZYFREE_LAZY_EXPIRE) { b"UNLINK" } else { b"DEL" }
    }

    /// Logs a command, with everything else that it changed; `text` is the command as clients send it. The locks of its
    /// keys must still be held; `shard`: the only one. Returns the log's length then, if there was anything to append.
    #[inline]
    pub(crate) fn record<'t>(
        &self,
        effects: &Effects,
        db: u32,
        shard: Option<usize>,
        text: impl FnOnce() -> Cow<'t, [u8]>,
    ) -> Option<u64> {
        if effects.dirty == 0 && effects.seen().is_none() || !self.has_log() {
            return None;
        }
        match effects.seen() {
            None => Some(self.log.append_text(RecordHead::command(db, shard), text())),
            Some(_) => {
                let mut batch = LogBatch::default();
                self.collect(&mut batch, effects, db, text);
                batch.append_to(&self.log, shard)
            }
        }
    }

    /// Adds what [`record`](Self::record) would append, for commands that are logged together with others.
    pub fn collect<'t>(&self, batch: &mut LogBatch, effects: &Effects, db: u32, text: impl FnOnce() -> Cow<'t, [u8]>) {
        self.collect_expired(batch, effects);
        self.collect_own(batch, effects, db, text);
    }

    /// Adds the part of [`collect`](Self::collect) that is the command's own work.
    pub fn collect_own<'t>(
        &self,
        batch: &mut LogBatch,
        effects: &Effects,
        db: u32,
        text: impl FnOnce() -> Cow<'t, [u8]>,
    ) {
        if effects.dirty > 0 {
            match effects.logged() {
                Logged::Verbatim => batch.push_text(db, text()),
                Logged::As(instead) => {
                    instead.iter().for_each(|record| batch.push(db, record.iter().map(Vec::as_slice)));
                }
                Logged::Nothing => {}
            }
        }
        if let Some((db, words)) = effects.seen().and_then(|rare| rare.told.as_ref()) {
            batch.push_told(*db, words.iter().map(Vec::as_slice));
        }
    }

    /// Adds the part of [`collect`](Self::collect) that is no work of the command: expired entries that it came upon
    /// and removed.
    pub fn collect_expired(&self, batch: &mut LogBatch, effects: &Effects) {
        if let Some(rare) = effects.seen() {
            rare.expired.iter().for_each(|(db, key)| batch.push(*db, [self.removal_word(), key].into_iter()));
            rare.expired_elements.iter().for_each(|(db, record)| batch.push(*db, record.iter().map(Vec::as_slice)));
        }
    }

    /// Logs the expiry of keys and elements that no command asked for: each is a change of its own. Under the lock of
    /// the shard from which they were removed.
    pub(crate) fn record_expired(&self, shard: &mut Shard, effects: &mut Effects) {
        if effects.seen().is_none() {
            return;
        }
        let rare = effects.rare();
        let (keys, elements) = (std::mem::take(&mut rare.expired), std::mem::take(&mut rare.expired_elements));
        let word = self.removal_word();
        for (db, key) in &keys {
            self.record_removal(shard, *db, word, key);
        }
        for (db, record) in &elements {
            self.record_alone(shard, *db, record.iter().map(Vec::as_slice));
        }
    }

    /// Logs the removal of a key from a shard, as a change of its own.
    pub(crate) fn record_removal(&self, shard: &mut Shard, db: u32, word: &[u8], name: &[u8]) {
        self.record_alone(shard, db, [word, name].into_iter());
    }

    /// Logs the removal of keys that were not loaded because they had expired, as a command. There may be replicas that
    /// have them.
    pub fn record_left_out<'a>(&self, db: u32, words: impl ExactSizeIterator<Item = &'a [u8]>) {
        if self.has_log() {
            let mut text = Vec::new();
            put_command(&mut text, words);
            self.log.append_text(RecordHead::command(db, None), Cow::Owned(text));
        }
    }

    fn record_alone<'a>(&self, shard: &mut Shard, db: u32, words: impl ExactSizeIterator<Item = &'a [u8]>) {
        if self.has_log() {
            let mut text = Vec::new();
            put_command(&mut text, words);
            let head = RecordHead::command(db, Some(shard.index()));
            shard.logged_to = self.log.append_text(head, Cow::Owned(text));
        }
    }

    /// Appends commands that belong together, and returns the log's length then. The locks of their keys must still be
    /// held; `shard`: the only one.
    pub(crate) fn record_together(&self, batch: LogBatch, shard: Option<usize>) -> Option<u64> {
        if self.has_log() { batch.append_to(&self.log, shard) } else { None }
    }
}
