//! Commands that another node may be asked for.
//!
//! The owner of a slot runs a command of any client with this node's rights. So it is asked only for a command whose
//! effects were all checked here, for its client's user: the effects that its arguments and flags show. Other commands
//! are carried for a user who may do everything, as no check remains, and for no other:
//!
//! - scripts and functions, which run commands that only the owner sees;
//! - SORT with BY or GET, whose keys depend on the data, unless the user may read every key;
//! - commands about other databases than the selected one, as the owner may have more of them than this node, unless
//!   the user may use all.
//!
//! No command that adds to keys is carried for a user whose keys' memory is limited: the owner has the keys, and does
//! not count for the user.

use crate::core::acl_check;
use crate::core::args::Args;
use crate::core::command::{ALL_DBS, Command, DENY_OOM, Group, RUNS_SCRIPTS};
use crate::core::session::Session;
use engine::Engine;

/// A command that may be asked elsewhere: its effects there are all allowed to its user here.
#[derive(Clone, Copy)]
pub(super) struct Carried<'c> {
    pub command: &'static Command,
    pub args: &'c Args<'c>,
}

impl<'c> Carried<'c> {
    /// Returns a command that the client's user may run; None: it has to run where its user is known.
    pub fn of(engine: &Engine, session: &mut Session, command: &'static Command, args: &'c Args<'c>) -> Option<Self> {
        let carried = Carried { command, args };
        let user = session.present_user(engine)?;
        let runs_scripts = command.flags.has(RUNS_SCRIPTS);
        let adds_to_keys = command.flags.has(DENY_OOM) && command.group != Group::Scripting;
        if !user.quota().memory.is_empty() && (runs_scripts || adds_to_keys) {
            return None;
        }
        if user.is_unrestricted() {
            return Some(carried);
        }
        let may = !runs_scripts
            && (!looks_up(command, args) || acl_check::may_read_any_key(engine, session, command, args))
            && (!leaves_database(command, args) || acl_check::may_in_any_database(engine, session, command, args));
        may.then_some(carried)
    }
}

/// Returns whether the data may name further keys: SORT with BY or GET, at any place.
fn looks_up(command: &Command, args: &Args<'_>) -> bool {
    matches!(command.name, "sort" | "sort_ro") && (2..args.len()).any(|at| args.is(at, "by") || args.is(at, "get"))
}

fn leaves_database(command: &Command, args: &Args<'_>) -> bool {
    command.flags.has(ALL_DBS) || command.dbs_of_call.is_some_and(|named| !named(args).is_empty())
}
