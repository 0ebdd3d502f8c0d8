//! Replication as Redis and Valkey speak it: what both ends of a link know and decide.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`ids`] | names of histories, and how far one goes that two names have |
//! | [`backlog`] | the last bytes of the stream |
//! | [`stream`] | which offset of the change log is which of the stream |
//! | [`in_sync_set`] | which servers have what was acknowledged |
//! | [`in_sync_member`] | what a server remembers of that |
//! | [`acknowledging`] | a primary that acknowledges what enough of them have |
//! | [`failover_state`] | a primary that hands its role to a replica |
//! | [`follower`] | what a replica says of itself, how far it is, how far behind it may be |
//! | [`arrived`] | what comes over a replica's link, and why one ends |
//! | [`link_settings`], [`ack_schedule`] | what a replica says of itself, and when how far it is |
//! | [`primary_link`] | a replica's side: from its connection to the stream |
//! | [`snapshot_frame`] | where a snapshot ends |
//! | [`units`] | a stream as commands and whole transactions |
//!
//! Bytes and times come in, bytes and decisions go out. No module opens a socket, starts a thread, reads a clock or
//! trusts a length it was told.

#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

pub mod ack_schedule;
pub mod acknowledging;
pub mod arrived;
pub mod backlog;
pub mod failover_state;
pub mod follower;
pub mod ids;
pub mod in_sync_member;
pub mod in_sync_set;
pub mod link_settings;
pub mod member_record;
pub mod primary_link;
pub mod snapshot_frame;
pub mod stream;
pub mod units;
