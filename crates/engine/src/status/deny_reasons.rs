//! Why commands may not run now, or have to wait: one word for all reasons.

/// What has to wait. The greater includes the smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paused {
    /// No command.
    Nothing,
    /// Commands that may write.
    Writes,
    /// All commands.
    All,
}

/// What keeps commands from running, or makes them wait: one word for all reasons, so that one look tells of all.
///
/// A command looks before it takes its locks and, for what is [promised](DenyReasons::promises), once more when it has
/// them. So after a change of the word and one [pass through every lock](crate::keyspace::Keyspace::pass_locks) no
/// command is under way that has seen the old word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DenyReasons(pub(super) u16);

impl DenyReasons {
    pub(super) const LOADING: u16 = 1;
    pub(super) const FAILED: u16 = 2;
    pub(super) const SHORT_OF_MEMORY: u16 = 4;
    pub(super) const UNLOGGED: u16 = 8;
    pub(super) const LIMITED: u16 = 16;
    pub(super) const WRITES_PAUSED: u16 = 32;
    pub(super) const ALL_PAUSED: u16 = 64;
    pub(super) const SHORT_OF_REPLICAS: u16 = 128;
    pub(super) const CONGESTED: u16 = 256;

    /// Whether any command may run at once.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Nothing but a limit to memory, at most.
    #[inline]
    pub fn is_limit_only(self) -> bool {
        self.0 & !DenyReasons::LIMITED == 0
    }

    /// The part that must hold from the moment at which it is set. Memory and mailboxes are no part of it: they are
    /// only measured now and then.
    #[inline]
    pub fn promises(self) -> DenyReasons {
        DenyReasons(self.0 & !(DenyReasons::LIMITED | DenyReasons::SHORT_OF_MEMORY | DenyReasons::CONGESTED))
    }

    /// What has to wait.
    pub fn paused(self) -> Paused {
        match self.0 & (DenyReasons::WRITES_PAUSED | DenyReasons::ALL_PAUSED) {
            0 => Paused::Nothing,
            DenyReasons::WRITES_PAUSED => Paused::Writes,
            _ => Paused::All,
        }
    }

    /// The data set is being read: only commands that need no data run.
    pub fn is_loading(self) -> bool {
        self.0 & DenyReasons::LOADING != 0
    }

    /// There is a limit to memory: what there is has to be looked at before every command.
    pub fn is_limited(self) -> bool {
        self.0 & DenyReasons::LIMITED != 0
    }

    /// The log cannot be written: nothing may be changed.
    pub fn is_unlogged(self) -> bool {
        self.0 & DenyReasons::UNLOGGED != 0
    }

    /// A worker has not taken what its clients are to be told, and that is much: what would add to it does not run.
    pub fn is_congested(self) -> bool {
        self.0 & DenyReasons::CONGESTED != 0
    }

    /// The last save failed: nothing may be written.
    pub fn is_failed(self) -> bool {
        self.0 & DenyReasons::FAILED != 0
    }

    /// Fewer replicas follow than `min-replicas-to-write` wants: nothing may be written.
    pub fn is_short_of_replicas(self) -> bool {
        self.0 & DenyReasons::SHORT_OF_REPLICAS != 0
    }

    /// There is more data than there may be: what needs memory does not run.
    pub fn is_short_of_memory(self) -> bool {
        self.0 & DenyReasons::SHORT_OF_MEMORY != 0
    }
}
