//! A command's records in the change log, and up to where it has seen the log: its reply waits for both.
//!
//! Each function here that appends for a command does so under the locks of the changed keys or with the right to any,
//! and records the log's length. So a reply waits for records that were logged without the lock of a shard, as
//! libraries are.

use crate::keyspace::keys::Keys;
use crate::keyspace::record::LogUser;
use crate::propagation::change_log::{OwnRecords, RecordHead};
use crate::propagation::log_batch::LogBatch;
use std::borrow::Cow;

impl Keys<'_> {
    /// Logs a change by a command that has one lock and did nothing else, and returns the log's length then: beyond
    /// anything that its client has written or seen before. None: the caller has to call [`record`](Self::record).
    #[inline(always)]
    pub fn record_plain<'t>(&mut self, db: u32, text: impl FnOnce() -> Cow<'t, [u8]>) -> Option<u64> {
        if self.effects.dirty == 0 || self.effects.seen().is_some() {
            return None;
        }
        let (index, shard) = self.held.single_mut()?;
        shard.logged_to = self.keyspace.change_log().append_text(RecordHead::command(db, Some(index)), text());
        Some(shard.logged_to)
    }

    /// Logs the changes of the command, which began in this database; `text` is the command as clients send it.
    #[inline(always)]
    pub fn record<'t>(&mut self, db: u32, text: impl FnOnce() -> Cow<'t, [u8]>) {
        let shard = self.held.single().map(|(index, _)| index);
        let Some(length) = self.keyspace.record(&self.effects, db, shard, text) else { return };
        self.note_record(length);
        match self.effects.dirty > 0 {
            true => self.own.changed_to = length,
            false => self.own.told_to = length,
        }
    }

    /// Remembers the log's length after a record that was made under the present locks.
    #[inline(always)]
    fn note_record(&mut self, length: u64) {
        self.held.each_mut(|shard| shard.logged_to = length);
        self.seen_to = self.seen_to.max(length);
        if self.changed_libraries {
            self.keyspace.scripts().libraries_are_logged(length);
        }
    }

    /// Remembers a record that was made for the command while it held the lock of a shard for a moment.
    pub(super) fn note_visit(&mut self, before: u64, after: u64) {
        if after > before {
            self.own.told_to = self.own.told_to.max(after);
        }
    }

    /// Takes out the records of the command.
    #[inline(always)]
    pub fn take_own_records(&mut self) -> OwnRecords {
        std::mem::take(&mut self.own)
    }

    /// Remembers that the command has looked at the libraries.
    pub fn note_seen_libraries(&mut self) {
        self.seen_to = self.seen_to.max(self.keyspace.scripts().libraries_logged_to());
    }

    /// Sends these words to replicas as a command, though it changes nothing.
    pub fn tell_replicas<'a>(&mut self, words: impl Iterator<Item = &'a [u8]>) {
        if self.keyspace.is_logged_for(LogUser::Replicas) {
            self.effects.rare().told = Some((self.db_index(), words.map(<[u8]>::to_vec).collect()));
        }
    }

    /// Sends these words to replicas before the command continues. Returns the log's length after them. None: there is
    /// no log.
    pub fn tell_replicas_now<'a>(&mut self, words: impl Iterator<Item = &'a [u8]>) -> Option<u64> {
        self.tell_replicas(words);
        let told = self.effects.seen().is_some_and(|rare| rare.told.is_some());
        if told {
            self.record(self.db_index(), Cow::default);
        }
        self.effects.rare().told = None;
        told.then_some(self.own.told_to)
    }

    /// Logs commands that belong together.
    pub fn record_together(&mut self, batch: LogBatch) {
        let shard = self.held.single().map(|(index, _)| index);
        let is_for_file = batch.is_for_file();
        let Some(length) = self.keyspace.record_together(batch, shard) else { return };
        self.note_record(length);
        match is_for_file {
            true => self.own.changed_to = length,
            false => self.own.told_to = length,
        }
    }

    /// Returns the change log's length after the last change that the command can have seen in the shards that it has
    /// locked, or has made. None: it has locked none.
    #[inline(always)]
    pub fn logged_to(&mut self) -> Option<u64> {
        let mut last = self.seen_to;
        self.held.each_mut(|shard| last = last.max(shard.logged_to));
        (!self.held.is_nothing()).then_some(last)
    }
}
