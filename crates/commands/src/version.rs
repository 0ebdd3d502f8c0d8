//! Which versions this server answers with. Clients and tools choose what they send by them, so they name the servers
//! whose behaviour is kept here; our own version has a field of its own in INFO.

use std::sync::OnceLock;

/// `valkey_version` of INFO and `version` of HELLO: the Valkey that commands, replies and fields are those of.
pub const VALKEY: &str = resp::served_version::VALKEY;

/// `redis_version` of INFO: the Redis that Valkey says it is compatible with.
pub const REDIS: &str = "7.2.4";

/// `server_name` of INFO: that of Valkey.
pub const NAME: &str = "valkey";
/// `valkey_release_stage` of INFO: that of the same Valkey.
pub const STAGE: &str = "ga";

/// What the program was built of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Eight hexadecimal digits.
    pub hash: &'static str,
    /// How many files differed from it.
    pub changed_files: u32,
}

static COMMIT: OnceLock<Commit> = OnceLock::new();

/// Whose program this is says it once, before anything is answered.
pub fn set_commit(commit: Commit) {
    let _ = COMMIT.set(commit);
}

/// Zeros where it is not known.
pub fn commit() -> Commit {
    COMMIT.get().copied().unwrap_or(Commit { hash: "00000000", changed_files: 0 })
}

/// Differs between versions and between kinds of builds.
pub fn build_id() -> u64 {
    let parts = [CINNABAR, std::env::consts::ARCH, if cfg!(debug_assertions) { "debug" } else { "release" }];
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    parts.iter().flat_map(|part| part.bytes()).fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Of this program.
pub const CINNABAR: &str = env!("CARGO_PKG_VERSION");
