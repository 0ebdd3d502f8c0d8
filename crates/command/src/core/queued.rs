//! A client's transaction and its commands between MULTI and EXEC: they are checked and queued, and a refused one makes
//! EXEC refuse all. The client's watches end with its transaction.

use crate::core::args::Args;
use crate::core::busy_script;
use crate::core::command::{CommandEntry, NOT_QUEUED};
use crate::core::context::KeyArgs;
use crate::core::session::{Multi, Queued, Session, Watching};
use engine::{Engine, Error, Word};
use resp::Reply;
use std::sync::atomic::Ordering::Relaxed;

/// Queues a command of a client in a transaction; false if it is one that runs at once.
#[cold]
pub fn queue(
    engine: &Engine,
    session: &mut Session,
    entry: &'static CommandEntry,
    keys: &KeyArgs,
    args: &Args<'_>,
    reply: &mut Reply,
) -> bool {
    let Some(multi) = session.multi.as_mut().filter(|_| !entry.command.flags.has(NOT_QUEUED)) else {
        return false;
    };
    reply.simple("QUEUED");
    // Commands that will not run need not be stored.
    let is_broken = session.watching.as_ref().is_some_and(|watching| watching.is_broken());
    if !multi.aborted && !is_broken {
        let flags = entry.command.flags_of(engine, args);
        multi.flags = multi.flags.and(flags);
        multi.lacking = multi.lacking.and(flags.complement());
        let selected = entry.command.selects(args).filter(|db| (*db as usize) < engine.databases());
        multi.db = selected.unwrap_or(multi.db);
        let queued = Queued { entry, args: args.iter().collect(), keys: keys.clone() };
        let (outside, places) = (queued.outside(), multi.commands.capacity());
        multi.commands.push(queued);
        session.info.queued.store(multi.commands.len() as i32, Relaxed);
        let places = multi.commands.capacity() - places;
        session.info.queued_bytes.fetch_add(outside + places * size_of::<Queued>(), Relaxed);
    }
    true
}

/// Records that a command of this client was refused. Returns the error to reply instead, if there is one.
#[cold]
pub fn refused(engine: &Engine, session: &mut Session, runs_queued: bool, error: &Error) -> Option<Error> {
    if runs_queued {
        close_group(session);
        unwatch(engine, session);
        if error.says_where() {
            return None;
        }
        let reason = busy_script::text(engine, error);
        return Some(Error::ExecRefused(Word::of(reason.strip_prefix(b"ERR ").unwrap_or(&reason))));
    }
    if let Some(multi) = &mut session.multi {
        **multi = Multi::new(true, session.db);
        forget_queued(session);
    }
    None
}

/// Ends the client's transaction.
pub fn close_group(session: &mut Session) -> Option<Box<Multi>> {
    session.info.in_multi.store(false, Relaxed);
    forget_queued(session);
    session.multi.take()
}

/// Hides queued commands from others; a client that never queued one nor watched a key stays as it is.
fn forget_queued(session: &Session) {
    session.info.queued.fetch_min(0, Relaxed);
    session.info.queued_bytes.store(0, Relaxed);
}

/// Forgets the transaction and the watched keys: the end of a client, RESET. No lock may be held.
pub fn forget(engine: &Engine, session: &mut Session) {
    close_group(session);
    unwatch(engine, session);
}

/// Ends all watches. No lock may be held.
pub fn unwatch(engine: &Engine, session: &mut Session) {
    if let Some(watching) = stop_watching(session) {
        watching.keys.into_iter().for_each(|key| engine.unwatch(key, &watching.flag));
    }
}

/// Returns the watched keys of the session, which watches none from now on.
pub fn stop_watching(session: &mut Session) -> Option<Box<Watching>> {
    let watching = session.watching.take()?;
    session.info.set_watch(None);
    session.info.watched.store(0, Relaxed);
    session.info.watched_bytes.store(0, Relaxed);
    Some(watching)
}
