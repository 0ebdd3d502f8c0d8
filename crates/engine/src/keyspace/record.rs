//! What goes into the change log, and when: commands, and the end of what expired or was evicted.

use crate::config::Directive;
use crate::keyspace::Keyspace;
use crate::keyspace::shard::Shard;
use crate::propagation::change_log::{ChangeLog, LogBatch, put_command};
use crate::propagation::effects::{Effects, Logged};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Keyspace {
    /// There is a log, which nothing is appended to before [`set_logging`](Self::set_logging) says so. At most once.
    pub fn install_log(&self, log: Arc<dyn ChangeLog>) {
        assert!(self.log.set(log).is_ok(), "the engine has a change log already");
    }

    /// Whether changes go into the log that is installed. What must not miss a change turns it on in the moment of a
    /// [cut](crate::Engine::begin_snapshot).
    pub fn set_logging(&self, on: bool) {
        self.logs.store(on, Relaxed);
    }

    /// The log that is installed.
    pub fn change_log(&self) -> Option<&dyn ChangeLog> {
        self.log.get().map(|log| &**log)
    }

    /// Whether changes go into a log.
    #[inline]
    pub fn has_log(&self) -> bool {
        self.logs.load(Relaxed)
    }

    /// The command by which the change log is told of an expired key; `lazyfree-lazy-expire` chooses it.
    pub fn removal_word(&self) -> &'static [u8] {
        if self.config.snapshot().flag(Directive::LAZYFREE_LAZY_EXPIRE) { b"UNLINK" } else { b"DEL" }
    }

    /// Puts a command into the change log, with what else it changed; `render` writes it as clients send it. The locks
    /// of that must still be held. Returns the log's length then, if there was anything to append.
    #[inline]
    pub(crate) fn record(&self, effects: &Effects, db: u32, render: impl Fn(&mut Vec<u8>)) -> Option<u64> {
        if effects.dirty == 0 && effects.seen().is_none() || !self.has_log() {
            return None;
        }
        let log = self.change_log()?;
        match effects.seen() {
            None => Some(log.append(db, db, false, &mut |out| render(out))),
            Some(_) => {
                let mut batch = LogBatch::default();
                self.collect(&mut batch, effects, db, render);
                batch.append_to(log)
            }
        }
    }

    /// Adds what [`record`](Self::record) would append, for commands that are logged together with others.
    pub fn collect(&self, batch: &mut LogBatch, effects: &Effects, db: u32, render: impl Fn(&mut Vec<u8>)) {
        self.collect_expired(batch, effects);
        if effects.dirty > 0 {
            match effects.logged() {
                Logged::Verbatim => batch.push_with(db, render),
                Logged::As(instead) => {
                    instead.iter().for_each(|record| batch.push(db, record.iter().map(Vec::as_slice)));
                }
                Logged::Nothing => {}
            }
        }
    }

    /// The part of [`collect`](Self::collect) that is no work of the command: what it found to be over and removed.
    pub fn collect_expired(&self, batch: &mut LogBatch, effects: &Effects) {
        if let Some(rare) = effects.seen() {
            rare.expired.iter().for_each(|(db, key)| batch.push(*db, [self.removal_word(), key].into_iter()));
            rare.expired_elements.iter().for_each(|(db, record)| batch.push(*db, record.iter().map(Vec::as_slice)));
        }
    }

    /// Puts the end of keys and elements into the log that nobody asked for: each is a change of its own. Under the
    /// lock of the shard from which they were removed.
    pub(crate) fn record_expired(&self, shard: &mut Shard, effects: &mut Effects) {
        if effects.seen().is_none() {
            return;
        }
        let rare = effects.rare();
        let (keys, elements) = (std::mem::take(&mut rare.expired), std::mem::take(&mut rare.expired_elements));
        let Some(log) = self.change_log().filter(|_| self.has_log()) else { return };
        let word = self.removal_word();
        for (db, key) in &keys {
            shard.logged_to = log.append(*db, *db, false, &mut |out| put_command(out, [word, key].into_iter()));
        }
        for (db, record) in &elements {
            let mut render = |out: &mut Vec<u8>| put_command(out, record.iter().map(Vec::as_slice));
            shard.logged_to = log.append(*db, *db, false, &mut render);
        }
    }

    /// Puts the removal of a key from a shard into the log, as a change of its own.
    pub(crate) fn record_removal(&self, shard: &mut Shard, db: u32, word: &[u8], name: &[u8]) {
        if let Some(log) = self.change_log().filter(|_| self.has_log()) {
            shard.logged_to = log.append(db, db, false, &mut |out| put_command(out, [word, name].into_iter()));
        }
    }

    /// Appends commands that belong together, and returns the log's length then. The locks of what they change must
    /// still be held.
    pub(crate) fn record_together(&self, batch: &LogBatch) -> Option<u64> {
        batch.append_to(self.change_log().filter(|_| self.has_log())?)
    }
}
