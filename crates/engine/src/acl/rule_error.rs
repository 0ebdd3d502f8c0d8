//! Why a rule is refused.

use std::fmt;

/// Why a rule is refused; its text is Valkey's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// There is no such command or category.
    UnknownCommand,
    /// It is no rule.
    Syntax,
    /// A pattern of keys beside all keys.
    KeysAfterAll,
    /// A pattern of channels beside all channels.
    ChannelsAfterAll,
    /// The password to remove is not there.
    NoSuchPassword,
    /// The hash of a password is malformed.
    BadHash,
    /// A subcommand cannot have a first argument.
    FirstArgOfSubcommand,
    /// The number of a database is too large, or negative.
    DatabaseRange,
    /// The quota limits nothing that exists.
    Quota,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleError::UnknownCommand => "Unknown command or category name in ACL",
            RuleError::Syntax => "Syntax error",
            RuleError::KeysAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::ChannelsAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            RuleError::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::FirstArgOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            RuleError::DatabaseRange => "The provided database ID is out of range",
            RuleError::Quota => {
                "A quota is one of quota:ops=<n>, quota:bytes=<n>, quota:connections=<n> and quota:memory:<prefix>=<n>"
            }
        })
    }
}

impl std::error::Error for RuleError {}
