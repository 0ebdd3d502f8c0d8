//! Whole slots that go to another node at once, with all of their keys: what each end knows of it, and what it does
//! next.
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
//!   success           <- - - - - - - - - - - - - - - -  the bus tells everybody
//! ```
//!
//! In: orders of clients, words of the other end, what became of connections and snapshots, time, and whose the slots
//! are. Out: [`MigrationEffect`]s, in order. It opens no connection and knows of no key; the [bus](crate::bus) owns it,
//! so that it and the slot map always agree.
//!
//! **What must hold.** The source serves its slots until the bus says that another node has them, and writes nothing
//! from the word PAUSED on. The target takes slots only after FAILOVER-GRANTED, which the source says only while it is
//! paused. Keys of slots that are on their way are hidden from clients of the target and of its replicas; where an
//! import fails they are removed before they could be seen.

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
