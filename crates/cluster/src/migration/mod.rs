//! Whole slots that move to another node at once, with all of their keys: the state of each end, and its next steps.
//!
//! ```text
//!   source                                             target
//!   connecting - [auth] - ESTABLISH ------------------> waiting-for-ack
//!   waiting-to-snapshot  <------------------------ +OK
//!                          ACK -----------------------> receiving-snapshot
//!   snapshotting           keys as commands ---------->
//!   replicating            SNAPSHOT-EOF --------------> waiting-for-paused
//!                          changes of these slots ---->
//!   waiting-to-pause  <----------------- REQUEST-PAUSE
//!   failover-paused        PAUSED --------------------> failover-requested
//!   failover-granted  <-------------- REQUEST-FAILOVER
//!                          FAILOVER-GRANTED ----------> takes the slots with a new epoch: success
//!   success           <- - - - - - - - - - - - - - - -  the bus informs every node
//! ```
//!
//! In: orders of clients, words of the other end, changes of connections and snapshots, time, and the owners of slots.
//! Out: [`MigrationEffect`]s, in order. The module opens no connection and accesses no key; the [bus](crate::bus) owns
//! it, so that it and the slot map always agree.
//!
//! **Invariants.** The source serves its slots until the bus announces that another node owns them, and accepts no
//! write after the word PAUSED. The target takes slots only after FAILOVER-GRANTED, which the source sends only while
//! it is paused. Keys of moving slots are hidden from clients of the target and of its replicas; keys of a failed
//! import are removed before clients could see them.

mod job;
mod migration_effect;
mod migration_requests;
mod migrations;
mod slot_export;
mod slot_import;
mod slot_ranges;
mod sync_word;

pub use job::{Job, JobName, JobState};
pub use migration_effect::MigrationEffect;
pub use migration_requests::RequestError;
pub use migrations::{MigrationSettings, MigrationView, Migrations};
pub use slot_ranges::SlotRanges;
pub use sync_word::SyncWord;
