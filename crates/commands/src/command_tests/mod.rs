//! Tests of the crate `command` that need commands: one file for each of its files.

mod acl_catalog_tests;
mod admission_tests;
mod batch_command_cache_tests;
mod batch_tests;
mod chunked_reply_tests;
mod cluster_proxy_tests;
mod cluster_routing_tests;
mod command_table_tests;
mod dispatch_tests;
mod help_tests;
mod lazy_free_tests;
mod redact_tests;
mod rights_tests;
mod routing_policy_tests;
mod slot_use_tests;
