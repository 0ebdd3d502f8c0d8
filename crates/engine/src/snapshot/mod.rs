//! The keyspace as it was at one moment, read while others write.
//!
//! A save asks for one and walks it; whoever changes a key that the walk has not reached leaves its old value here first.
//! Long replies read one collection in the same way.

pub mod before_images;
pub mod capture;
pub mod streamed_reply;
