//! The keyspace, or some slots of it, as it was at one moment, read while other commands write.
//!
//! In: walks of open cuts, and changes of keys that a walk has not reached, whose old values are written down first.
//! Out: keys and values as bytes, in steps. Long replies read one collection in the same way. It knows nothing of
//! files: the encoding and a scratch file are handed in.

pub mod before_images;
pub mod capture;
pub mod captures;
pub mod encoder;
pub mod open_snapshots;
pub mod streamed_reply;
