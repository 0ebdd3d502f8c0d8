//! The server from outside: the built binary, a real socket, a real client.
//!
//! Every test starts a server of its own in an empty folder and ends it. Replies are compared with those of Valkey:
//! with `CINNABAR_TEST_SERVER=/path/to/valkey-server` in the environment the same tests run against that, which checks
//! the tests themselves.
#![forbid(unsafe_code)]

/// The server under test, unless the environment names another.
const PROGRAM: &str = env!("CARGO_BIN_EXE_cinnabar-server");

#[path = "black_box/accounts.rs"]
mod accounts;
#[path = "black_box/acknowledged.rs"]
mod acknowledged;
#[path = "black_box/admin.rs"]
mod admin;
#[path = "black_box/admin_page.rs"]
mod admin_page;
#[path = "black_box/admission.rs"]
mod admission;
#[path = "black_box/all_commands.rs"]
mod all_commands;
#[path = "black_box/append_only.rs"]
mod append_only;
#[path = "black_box/bad_clients.rs"]
mod bad_clients;
#[path = "black_box/balancing.rs"]
mod balancing;
#[path = "black_box/blocking.rs"]
mod blocking;
#[path = "black_box/book.rs"]
mod book;
#[path = "black_box/clock_jumps.rs"]
mod clock_jumps;
#[path = "black_box/cluster_disks.rs"]
mod cluster_disks;
#[path = "black_box/cluster_messages.rs"]
mod cluster_messages;
#[path = "black_box/cluster_proxy.rs"]
mod cluster_proxy;
#[path = "black_box/commands.rs"]
mod commands;
#[path = "black_box/concurrency.rs"]
mod concurrency;
#[path = "black_box/connections.rs"]
mod connections;
#[path = "black_box/crashes.rs"]
mod crashes;
#[path = "black_box/debug.rs"]
mod debug;
#[path = "black_box/debugged_copies.rs"]
mod debugged_copies;
#[path = "black_box/delprefix.rs"]
mod delprefix;
#[path = "black_box/dialogue.rs"]
mod dialogue;
#[path = "black_box/directives.rs"]
mod directives;
#[path = "black_box/dual_channel.rs"]
mod dual_channel;
#[path = "black_box/ended_connections.rs"]
mod ended_connections;
#[path = "black_box/eviction.rs"]
mod eviction;
#[path = "black_box/failing_disks.rs"]
mod failing_disks;
#[path = "black_box/figures.rs"]
mod figures;
#[path = "black_box/harness.rs"]
mod harness;
#[path = "black_box/hashes.rs"]
mod hashes;
#[path = "black_box/job_queue.rs"]
mod job_queue;
#[path = "black_box/lists.rs"]
mod lists;
#[path = "black_box/long_commands.rs"]
mod long_commands;
#[path = "black_box/migrations.rs"]
mod migrations;
#[path = "black_box/process.rs"]
mod process;
#[path = "black_box/protocol.rs"]
mod protocol;
#[path = "black_box/proxies.rs"]
mod proxies;
#[path = "black_box/pubsub.rs"]
mod pubsub;
#[path = "black_box/quotas.rs"]
mod quotas;
#[path = "black_box/reloads.rs"]
mod reloads;
#[path = "black_box/removed_users.rs"]
mod removed_users;
#[path = "black_box/replica_buffers.rs"]
mod replica_buffers;
#[path = "black_box/replica_chains.rs"]
mod replica_chains;
#[path = "black_box/replica_edges.rs"]
mod replica_edges;
#[path = "black_box/replica_files.rs"]
mod replica_files;
#[path = "black_box/replica_links.rs"]
mod replica_links;
#[path = "black_box/replica_reports.rs"]
mod replica_reports;
#[path = "black_box/rights.rs"]
mod rights;
#[path = "black_box/rights_table.rs"]
mod rights_table;
#[path = "black_box/script_values.rs"]
mod script_values;
#[path = "black_box/scripts.rs"]
mod scripts;
#[path = "black_box/secrets.rs"]
mod secrets;
#[path = "black_box/sentinel_within.rs"]
mod sentinel_within;
#[path = "black_box/slot_import.rs"]
mod slot_import;
#[path = "black_box/slot_losses.rs"]
mod slot_losses;
#[path = "black_box/slow_disk_background.rs"]
mod slow_disk_background;
#[path = "black_box/slow_disks.rs"]
mod slow_disks;
#[path = "black_box/snapshots.rs"]
mod snapshots;
#[path = "black_box/startup.rs"]
mod startup;
#[path = "black_box/stopped_nodes.rs"]
mod stopped_nodes;
#[path = "black_box/strangers.rs"]
mod strangers;
#[path = "black_box/tls.rs"]
mod tls;
#[path = "black_box/tools.rs"]
mod tools;
#[path = "black_box/tracking.rs"]
mod tracking;
#[path = "black_box/transactions_and_scripts.rs"]
mod transactions_and_scripts;
