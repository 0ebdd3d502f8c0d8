//! ACL: users and their rights.
//!
//! The users themselves, and the meaning of rules, are the engine's ([`engine::acl`]); here are the commands, the file
//! of users, and the start. A change holds for every command that begins after the reply: no other one that was
//! admitted before is under way then.

mod acl_commands;
pub mod acl_file;
mod acl_log;
pub mod lasting_rights;
#[cfg(test)]
mod tests;

pub use acl_commands::COMMANDS;
pub(crate) use acl_commands::follow;
use engine::Engine;
use engine::acl::user::User;

/// Returns all users as lines of a file, without the word `user`, in the order of their names.
pub(crate) fn lines(engine: &Engine) -> impl Iterator<Item = Vec<u8>> {
    let users = engine.users().all(crate::core::acl_catalog::rule_context(engine));
    users.into_iter().map(|user| line(&user))
}

fn line(user: &User) -> Vec<u8> {
    [user.name(), b" ", &user.describe()].concat()
}
