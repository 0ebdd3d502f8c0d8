//! Reasons for which commands may not run now, or have to wait: one word for all of them, and the epoch since which
//! they hold.

/// Commands that have to wait. The greater includes the smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paused {
    /// No command.
    Nothing,
    /// Commands that may write.
    Writes,
    /// All commands.
    All,
}

/// Reasons that refuse or delay commands: one word for all of them, so that one look is enough. The rest of the word is
/// the [`Epoch`] that they belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DenyReasons(pub(super) u64);

/// The time between two changes of the reasons. The later is the greater.
///
/// A command remembers the epoch in which it was admitted and compares it under its locks with that of their shards: it
/// does not run in a shard that has [seen](crate::keyspace::Keyspace::pass_locks) a later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch of a caller that needs no admission: it runs everywhere.
    pub const LAST: Epoch = Epoch(u64::MAX);
}

impl DenyReasons {
    pub(super) const LOADING: u64 = 1;
    pub(super) const FAILED: u64 = 2;
    pub(super) const SHORT_OF_MEMORY: u64 = 4;
    pub(super) const UNLOGGED: u64 = 8;
    pub(super) const LIMITED: u64 = 16;
    pub(super) const WRITES_PAUSED: u64 = 32;
    pub(super) const ALL_PAUSED: u64 = 64;
    pub(super) const SHORT_OF_REPLICAS: u64 = 128;
    pub(super) const CONGESTED: u64 = 256;
    pub(super) const READ_ONLY_REPLICA: u64 = 512;
    pub(super) const STALE: u64 = 1024;
    pub(super) const ASYNC_LOADING: u64 = 2048;
    pub(super) const FOLLOWS: u64 = 4096;
    pub(super) const CLUSTERED: u64 = 8192;
    /// The lowest bit of the epoch's number, above those of all reasons.
    pub(super) const EPOCH: u64 = 1 << 16;
    /// Reasons that are only measured now and then: with them no epoch begins.
    const MEASURED: u64 = DenyReasons::SHORT_OF_MEMORY | DenyReasons::CONGESTED;

    /// Reasons of a server that hold for a copy of its data, too.
    pub(super) const LASTING: u64 = DenyReasons::FAILED
        | DenyReasons::UNLOGGED
        | DenyReasons::LIMITED
        | DenyReasons::SHORT_OF_MEMORY
        | DenyReasons::SHORT_OF_REPLICAS
        | DenyReasons::READ_ONLY_REPLICA
        | DenyReasons::STALE
        | DenyReasons::FOLLOWS
        | DenyReasons::CLUSTERED;

    /// Returns the epoch that these reasons belong to.
    #[inline(always)]
    pub fn epoch(self) -> Epoch {
        Epoch(self.0 & !(DenyReasons::EPOCH - 1))
    }

    /// Returns the word with these of the reasons `among`; None if it has them.
    pub(super) fn with(self, among: u64, reasons: u64) -> Option<DenyReasons> {
        let changed = (self.0 ^ reasons) & among;
        let epochs = if changed & !DenyReasons::MEASURED != 0 { DenyReasons::EPOCH } else { 0 };
        (changed != 0).then(|| DenyReasons((self.0 ^ changed) + epochs))
    }

    #[inline(always)]
    fn reasons(self) -> u64 {
        self.0 & (DenyReasons::EPOCH - 1)
    }

    /// Whether any command may run at once.
    #[inline]
    pub fn is_none(self) -> bool {
        self.reasons() == 0
    }

    /// Whether reads run: there is no reason but a limit to memory, or that writes are the primary's. If slots are
    /// other nodes', a read runs if its own are not.
    #[inline]
    pub fn lets_reads_run(self) -> bool {
        let harmless = DenyReasons::LIMITED | DenyReasons::READ_ONLY_REPLICA | DenyReasons::FOLLOWS;
        self.reasons() & !(harmless | DenyReasons::CLUSTERED) == 0
    }

    /// Whether slots may be other nodes', and there is no other reason but a limit to memory.
    #[inline]
    pub fn is_clustered_only(self) -> bool {
        self.reasons() & !DenyReasons::LIMITED == DenyReasons::CLUSTERED
    }

    /// Whether the server is a node of a cluster: commands run where their slots are.
    #[inline]
    pub fn is_clustered(self) -> bool {
        self.0 & DenyReasons::CLUSTERED != 0
    }

    /// Whether the primary's commands run: there is no reason for which they wait or fail.
    #[inline]
    pub fn lets_primary_run(self) -> bool {
        self.paused() == Paused::Nothing && !self.is_failed() && !self.is_unlogged()
    }

    /// Whether there is no reason but a limit to memory.
    #[inline]
    pub fn is_limit_only(self) -> bool {
        self.reasons() & !DenyReasons::LIMITED == 0
    }

    /// Returns the commands that have to wait.
    pub fn paused(self) -> Paused {
        match self.0 & (DenyReasons::WRITES_PAUSED | DenyReasons::ALL_PAUSED) {
            0 => Paused::Nothing,
            DenyReasons::WRITES_PAUSED => Paused::Writes,
            _ => Paused::All,
        }
    }

    /// Whether the data set is being read: only commands that need no data run.
    pub fn is_loading(self) -> bool {
        self.0 & DenyReasons::LOADING != 0
    }

    /// Whether another data set is being read beside the one that is served, which it will replace.
    pub fn is_async_loading(self) -> bool {
        self.0 & DenyReasons::ASYNC_LOADING != 0
    }

    /// Whether there is a limit to memory: its use has to be looked at before every command.
    pub fn is_limited(self) -> bool {
        self.0 & DenyReasons::LIMITED != 0
    }

    /// Whether the log cannot be written: nothing may be changed.
    pub fn is_unlogged(self) -> bool {
        self.0 & DenyReasons::UNLOGGED != 0
    }

    /// Whether a worker has not taken the pushes for its clients, and these are many: commands that would add to them
    /// do not run.
    pub fn is_congested(self) -> bool {
        self.0 & DenyReasons::CONGESTED != 0
    }

    /// Whether the last save failed: nothing may be written.
    pub fn is_failed(self) -> bool {
        self.0 & DenyReasons::FAILED != 0
    }

    /// Whether fewer replicas follow than `min-replicas-to-write` wants: nothing may be written.
    pub fn is_short_of_replicas(self) -> bool {
        self.0 & DenyReasons::SHORT_OF_REPLICAS != 0
    }

    /// Whether the server follows another one and takes writes from it alone.
    pub fn is_read_only_replica(self) -> bool {
        self.0 & DenyReasons::READ_ONLY_REPLICA != 0
    }

    /// Whether the server follows another one: some clients are redirected there.
    pub fn follows(self) -> bool {
        self.0 & DenyReasons::FOLLOWS != 0
    }

    /// Whether the server has lost its primary, and is not to reply with its data.
    pub fn is_stale(self) -> bool {
        self.0 & DenyReasons::STALE != 0
    }

    /// Whether there is more data than the limit: commands that need memory do not run.
    pub fn is_short_of_memory(self) -> bool {
        self.0 & DenyReasons::SHORT_OF_MEMORY != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_deny_commands_begin_an_epoch_and_measured_ones_do_not() {
        let mut word = DenyReasons::default();
        let mut set = |among: u64, reasons: u64| {
            let old = word;
            word = word.with(among, reasons).unwrap_or(word);
            word.epoch().cmp(&old.epoch())
        };
        use DenyReasons as R;
        use std::cmp::Ordering::{Equal, Greater};
        assert_eq!(set(R::LOADING, R::LOADING), Greater);
        assert_eq!(set(R::LOADING, R::LOADING), Equal);
        assert_eq!(set(R::SHORT_OF_MEMORY, R::SHORT_OF_MEMORY), Equal);
        assert_eq!(set(R::CONGESTED, R::CONGESTED), Equal);
        assert_eq!(set(R::LIMITED, R::LIMITED), Greater);
        assert_eq!(set(R::WRITES_PAUSED | R::ALL_PAUSED, R::ALL_PAUSED), Greater);
        assert_eq!(set(R::LOADING, 0), Greater);
        assert!(word.is_limited() && word.is_congested() && word.is_short_of_memory() && !word.is_loading());
        assert!(word.paused() == Paused::All && word.epoch() < Epoch::LAST);
    }
}
