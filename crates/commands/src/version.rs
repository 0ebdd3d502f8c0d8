//! Which versions this server answers with. Clients and tools choose what they send by them, so they name the servers
//! whose behaviour is kept here; our own version has a field of its own in INFO.

/// `valkey_version` of INFO and `version` of HELLO: the Valkey that commands, replies and fields are those of.
pub const VALKEY: &str = "9.1.2";

/// `redis_version` of INFO: the Redis that Valkey says it is compatible with.
pub const REDIS: &str = "7.2.4";

/// Of this program.
pub const CINNABAR: &str = env!("CARGO_PKG_VERSION");
