//! A replica's description of itself, and settings of its link.

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct LinkSettings {
    /// User at the primary; empty: the default one.
    pub user: Vec<u8>,
    /// Password of that user; empty: none is sent.
    pub password: Vec<u8>,
    /// Port for the replica's own clients.
    pub port: u16,
    /// Address that the primary is to show; empty: the address that the primary sees.
    pub announce_ip: Vec<u8>,
    /// Name of the replica's node, in a cluster.
    pub node: Option<String>,
    /// Version whose files the replica reads.
    pub version: &'static str,
    /// Capabilities that concern the in-sync set; empty: none.
    pub introduction: String,
    /// Milliseconds of silence after which the link is closed.
    pub timeout: u64,
    /// Whether a snapshot may arrive over a connection of its own.
    pub dual_channel: bool,
}
