//! Replication as Redis and Valkey speak it: knowledge and decisions of both ends of a link.
//!
//! | module | content |
//! | --- | --- |
//! | [`replid`] | names of histories, and the offset up to which two names have one history |
//! | [`backlog`] | the last bytes of the stream |
//! | [`stream`] | offsets of the change log, and those of the stream that belong to them |
//! | [`in_sync_set`] | servers that count for acknowledgements |
//! | [`in_sync_member`] | a server's memory of that set |
//! | [`quorum_ack`] | a primary that acknowledges a write once enough members have it |
//! | [`ack_gate`] | whether it may acknowledge, and which members keep it from that |
//! | [`failover_state`] | a primary that hands its role to a replica |
//! | [`replica_handshake`] | a replica's description of itself, its progress and its greatest lag |
//! | [`link_event`] | data that arrives over a replica's link, and reasons for the link's end |
//! | [`link_settings`], [`ack_schedule`] | settings of a replica's link, and times of its acknowledgements |
//! | [`primary_link`] | a replica's side: from its connection to the stream |
//! | [`snapshot_frame`] | the end of a snapshot |
//! | [`stream_parser`] | a stream as commands and whole transactions |
//!
//! Bytes and times come in, bytes and decisions go out. No module opens a socket, starts a thread, reads a clock or
//! trusts a length that a peer sent.

#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::missing_errors_doc, clippy::unwrap_used)]

pub mod ack_gate;
pub mod ack_schedule;
pub mod backlog;
pub mod failover_state;
mod in_sync_follower;
pub mod in_sync_member;
pub mod in_sync_set;
pub mod link_event;
pub mod link_settings;
pub mod member_record;
pub mod primary_link;
pub mod quorum_ack;
pub mod replica_handshake;
pub mod replid;
pub mod snapshot_frame;
pub mod stream;
pub mod stream_parser;
