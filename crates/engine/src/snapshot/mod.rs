//! The keyspace as it was at one moment, read while others write.
//!
//! In: a save that walks it, and changes of keys that the walk has not reached, whose old values are written down
//! first. Out: keys and values as bytes, in steps. Long replies read one collection in the same way. It knows nothing
//! of files: the encoding and a scratch file are handed in.

pub mod before_images;
pub mod capture;
pub mod streamed_reply;
