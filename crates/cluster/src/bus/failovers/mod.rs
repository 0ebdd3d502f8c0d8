//! Replicas that replace their primaries, or move to other primaries.

mod failover_vote;
mod manual_failover;
mod replica_election;
mod replica_migration;
mod takeover;
