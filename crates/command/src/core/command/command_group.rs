//! Groups of commands.

use engine::data::value_type::{self, ValueType};

/// The group that the documentation puts a command in; it implies an ACL category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Commands that work on any type.
    Generic,
    /// Strings.
    String,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Hashes.
    Hash,
    /// Channels and their subscribers.
    PubSub,
    /// MULTI, EXEC, WATCH.
    Transactions,
    /// Commands about the client's connection.
    Connection,
    /// Commands to and about the server.
    Server,
    /// Lua scripts and functions.
    Scripting,
    /// HyperLogLogs, which are strings.
    HyperLogLog,
    /// CLUSTER and its like.
    Cluster,
    /// SENTINEL.
    Sentinel,
    /// Places, which are sorted sets.
    Geo,
    /// Streams.
    Stream,
    /// Bits of strings.
    Bitmap,
    /// Values of an installed type.
    Type(&'static ValueType),
}

/// The words for a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupWords {
    /// The group of COMMAND DOCS.
    pub docs: &'static str,
    /// The ACL category that the group implies.
    pub acl_category: Option<&'static str>,
}

impl Group {
    /// Returns its words.
    pub fn words(self) -> GroupWords {
        let (docs, acl_category) = match self {
            Group::Generic => ("generic", Some("keyspace")),
            Group::PubSub => ("pubsub", None),
            Group::Transactions => ("transactions", Some("transaction")),
            Group::Connection => ("connection", Some("connection")),
            Group::Server => ("server", None),
            Group::Scripting => ("scripting", Some("scripting")),
            Group::HyperLogLog => ("hyperloglog", Some("hyperloglog")),
            Group::Cluster => ("cluster", None),
            Group::Sentinel => ("sentinel", None),
            Group::Geo => ("geo", Some("geo")),
            Group::Bitmap => ("bitmap", Some("bitmap")),
            group => group.value_type().map_or(("", None), |of| (of.group, Some(of.acl_category))),
        };
        GroupWords { docs, acl_category }
    }

    /// Returns the type whose values the commands are for, if there is one.
    pub fn value_type(self) -> Option<&'static ValueType> {
        Some(match self {
            Group::String => &value_type::STRING,
            Group::List => &value_type::LIST,
            Group::Set => &value_type::SET,
            Group::SortedSet => &value_type::SORTED_SET,
            Group::Hash => &value_type::HASH,
            Group::Stream => &value_type::STREAM,
            Group::Type(installed) => installed,
            _ => return None,
        })
    }
}
