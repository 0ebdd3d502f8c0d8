//! Users and their rights (access control lists).
//!
//! Rules come in as words (`+@read`, `~app:*`, `>password`), questions as the number of a command, a key, a channel or
//! a database. A [`User`](user::User) never changes: who changes one puts another in its place, and every session looks
//! at [one number](users::Users::generation) to see whether it has the present one. Which commands there are is told by
//! a [catalog](catalog::CommandCatalog); which keys a call names is known further up. The words and their meaning are
//! those of Valkey 9.1.

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
