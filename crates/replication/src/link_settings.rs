//! What a replica says of itself, and how it keeps its link.

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct LinkSettings {
    /// The user at the primary; empty: the default one.
    pub user: Vec<u8>,
    /// Its password; empty: none is sent.
    pub password: Vec<u8>,
    /// Where its own clients come.
    pub port: u16,
    /// The address that the primary is to tell of; empty: the one it sees.
    pub announce_ip: Vec<u8>,
    /// The name of its node, in a cluster.
    pub node: Option<String>,
    /// The version that it reads files of.
    pub version: &'static str,
    /// Words for the in-sync set among its capabilities; empty: none.
    pub introduction: String,
    /// Milliseconds of silence after which the link is broken.
    pub timeout: u64,
    /// A snapshot may come over a connection of its own.
    pub dual_channel: bool,
}
