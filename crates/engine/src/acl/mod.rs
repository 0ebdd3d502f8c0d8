//! Users and their rights (access control lists).
//!
//! Rules come in as words (`+@read`, `~app:*`, `>password`), questions as the number of a command, a key, a channel or
//! a database. A [`User`](user::User) never changes: a change puts another user in its place, and every session
//! compares [one number](users::Users::generation) to see whether its user is the present one. A
//! [catalog](catalog::CommandCatalog) lists the commands; a caller further up knows which keys a call names. The words
//! and their meaning are those of Valkey 9.1.

pub mod catalog;
pub mod denial_log;
pub mod pattern;
pub mod prefix_memory;
pub mod quota;
pub mod quota_usage;
pub mod rule_error;
pub mod selector;
pub mod user;
pub mod users;
