//! The versions that this server answers with. Clients and tools choose their commands by them, so they name the
//! servers whose behaviour is kept here; our own version has a field of its own in INFO.

use std::sync::OnceLock;

/// `valkey_version` of INFO and `version` of HELLO: the Valkey whose commands, replies and fields these are.
pub const VALKEY: &str = resp::served_version::VALKEY;

/// `redis_version` of INFO: the Redis that Valkey claims to be compatible with.
pub const REDIS: &str = "7.2.4";

/// `server_name` of INFO: Valkey's.
pub const NAME: &str = "valkey";
/// `valkey_release_stage` of INFO: the same Valkey's.
pub const STAGE: &str = "ga";

/// Commit that the program was built of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Eight hexadecimal digits.
    pub hash: &'static str,
    /// Number of files that differed from it.
    pub changed_files: u32,
}

static COMMIT: OnceLock<Commit> = OnceLock::new();

/// Sets the program's commit; called once by the program, before the first reply.
pub fn set_commit(commit: Commit) {
    let _ = COMMIT.set(commit);
}

/// Returns the program's commit; zeros if it is not known.
pub fn commit() -> Commit {
    COMMIT.get().copied().unwrap_or(Commit { hash: "00000000", changed_files: 0 })
}

/// Returns a number that differs between versions and between kinds of builds.
pub fn build_id() -> u64 {
    let parts = [CINNABAR, std::env::consts::ARCH, if cfg!(debug_assertions) { "debug" } else { "release" }];
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    parts.iter().flat_map(|part| part.bytes()).fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Version of this program.
pub const CINNABAR: &str = env!("CARGO_PKG_VERSION");
