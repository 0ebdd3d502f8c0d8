//! The checksum of files and dumps.

use crc_fast::CrcAlgorithm;
pub use crc_fast::Digest;

/// Returns the checksum of these bytes.
pub fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Redis, bytes)
}

/// Returns a checksum to which bytes are added as they come.
pub fn digest() -> Digest {
    Digest::new(CrcAlgorithm::Crc64Redis)
}
