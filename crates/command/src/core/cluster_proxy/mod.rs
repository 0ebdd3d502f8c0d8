//! With `cluster-proxy yes`: commands that are about slots of other nodes, or about the whole cluster.
//!
//! ```text
//!   all keys in a slot of another node            asked there as it is; EXEC with all that is queued
//!   MGET, MSET, DEL ... of several slots          asked key by key, and the replies are joined
//!   SCAN                                          asked of one node after the other
//!   KEYS, DBSIZE, RANDOMKEY, FLUSHALL, FLUSHDB,
//!   DELPREFIX, DELPATTERN                         asked of all primaries
//!   FUNCTION LOAD, DELETE, FLUSH, RESTORE,
//!   SCRIPT LOAD, EXISTS, FLUSH                    asked of all primaries, and of this node
//!   what has to stay with its connection          MOVED, as without it: WATCH, SSUBSCRIBE, who waits for keys or tracks
//! ```
//!
//! Other nodes are asked when the command would get MOVED or CROSSSLOT, so commands that run here cost nothing more.
//! The client's permission was checked here; the other nodes trust this one as a primary trusts its replicas. So a
//! command with effects that cannot be checked here [is not carried](forwardable). See docs/design/cluster-proxy.md.

mod forwardable;
mod pipelined_routing;
mod proxy_router;
pub mod routing_policy;

use crate::core::acl_check::{self, Call};
use crate::core::args::Args;
use crate::core::cluster_proxy::forwardable::Carried;
use crate::core::cluster_proxy::proxy_router::{ProxyRouter, is_self_contained, may_take_long};
use crate::core::cluster_routing::slot_of_call;
use crate::core::command::{Command, MAY_REPLICATE, RUNS_QUEUED, WRITE};
use crate::core::context::Now;
use crate::core::key_spec;
use crate::core::queued;
use crate::core::session::{Multi, Session};
use cluster::proxy::{Join, Part, Question};
use engine::config::Directive;
use engine::data::slot::slot_of;
use engine::keyspace::caller::Caller;
use engine::{Engine, Error};
use resp::encode_command;
use std::sync::atomic::Ordering::Relaxed;

pub use pipelined_routing::Behind;
pub(in crate::core) use pipelined_routing::question_of_plain;

/// Returns whether others are asked for this client: the node does that, and the client can wait for it and wants it.
pub fn asks_for(engine: &Engine, session: &Session) -> bool {
    session.is_proxied
        && session.caller == Caller::Client
        && session.tracker.is_none()
        && !session.import_source
        && !session.debugs_scripts
        && !session.info.wants_moved.load(Relaxed)
        && engine.config().snapshot().flag(Directive::CLUSTER_PROXY)
}

/// Returns the question for a command that may not run here for this reason, or for none that lies in its keys. None:
/// the reason stands.
///
/// # Errors
/// The error to reply instead.
pub fn question(
    engine: &Engine,
    session: &mut Session,
    (command, args): (&'static Command, &Args<'_>),
    reason: Option<&Error>,
    now: Now,
) -> Result<Option<Box<Question>>, Error> {
    let is_whole = reason.is_none() && command.keys.is_empty();
    if !is_whole && !matches!(reason, Some(Error::Moved(..) | Error::CrossSlot)) || !asks_for(engine, session) {
        return Ok(None);
    }
    if session.multi.is_some() {
        let is_exec = command.flags.has(RUNS_QUEUED) && matches!(reason, Some(Error::Moved(..)));
        return if is_exec { transaction(engine, session, None, now) } else { Ok(None) };
    }
    let carried = Carried::of(engine, session, command, args);
    let asking = ProxyRouter { engine, map: &engine.cluster().map(), session };
    match (reason, carried) {
        (Some(Error::Moved(..)), Some(carried)) => Ok(asking.of_one_slot(carried)),
        (Some(Error::CrossSlot), Some(carried)) => asking.key_by_key(carried),
        (None, Some(carried)) => asking.of_all(carried),
        // A part of it alone is not the client's intention.
        (None, None) if proxy_router::is_of_all(command) => Err(Error::NoDatabasePermission),
        _ => Ok(None),
    }
}

/// Returns whether a command about another node's slot may be queued here, since EXEC can ask for all of it.
pub fn may_queue(
    engine: &Engine,
    session: &mut Session,
    (command, args): (&'static Command, &Args<'_>),
    reason: &Error,
) -> bool {
    matches!(reason, Error::Moved(..))
        && session.multi.is_some()
        && !command.flags.has(RUNS_QUEUED)
        && session.watching.is_none()
        && is_self_contained(command)
        && asks_for(engine, session)
        && Carried::of(engine, session, command, args).is_some()
}

/// Returns the question in the place of an ASK, for a command whose keys are on their way to another node; and of a
/// TRYAGAIN, where a part of them is: this node is asked again and again until all are gone, or here.
pub fn question_of_ask(
    engine: &Engine,
    session: &mut Session,
    (command, args): (&'static Command, &Args<'_>),
    reason: &Error,
) -> Option<Box<Question>> {
    let may_be = session.multi.is_none() && !session.asking && asks_for(engine, session);
    let slot = slot_of_call(command, args).ok().flatten().filter(|_| may_be)?;
    let carried = Carried::of(engine, session, command, args)?;
    let asking = ProxyRouter { engine, map: &engine.cluster().map(), session };
    let place = asking.on_the_way(slot, reason)?;
    let mut question = asking.of_one_slot(carried)?;
    question.parts.iter_mut().for_each(|part| (part.to, part.asking) = place);
    Some(question)
}

/// Returns such a question for EXEC. None: the reason stands.
///
/// # Errors
/// The error to reply instead.
pub fn transaction_of_ask(
    engine: &Engine,
    session: &mut Session,
    reason: &Error,
    now: Now,
) -> Result<Option<Box<Question>>, Error> {
    if session.asking || !asks_for(engine, session) {
        return Ok(None);
    }
    transaction(engine, session, Some(reason), now)
}

/// Returns the question for all queued commands, whose keys are in one slot of another node. Keys are watched here
/// only, so a transaction with watched keys cannot be sent on, nor can a command that is about no key and leaves state
/// at its connection. `reason`: the reason that it does not run here, if the slot is this node's.
fn transaction(
    engine: &Engine,
    session: &mut Session,
    reason: Option<&Error>,
    now: Now,
) -> Result<Option<Box<Question>>, Error> {
    let Some(multi) = session.multi.take() else { return Ok(None) };
    let is_carried = may_all_run(engine, session, &multi, now);
    session.multi = Some(multi);
    let Some(multi) = session.multi.as_ref().filter(|_| session.watching.is_none()) else { return Ok(None) };
    let map = engine.cluster().map();
    let (mut slot, mut bytes) = (None, Vec::new());
    encode_command(&mut bytes, &["MULTI"]);
    for queued in &multi.commands {
        let named = key_spec::routed_by(queued.entry.command, &queued.args).first().map(|(index, _)| *index);
        let Some(name) = named.and_then(|index| queued.args.get(index)) else { return Ok(None) };
        if !is_self_contained(queued.entry.command) {
            return Ok(None);
        }
        slot.get_or_insert(slot_of(name));
        bytes.extend_from_slice(&queued.args.text());
    }
    encode_command(&mut bytes, &["EXEC"]);
    let (requests, may_write) = (multi.commands.len() + 2, multi.flags().0.has(WRITE.and(MAY_REPLICATE)));
    let asking = ProxyRouter { engine, map: &map, session };
    let place = slot.and_then(|slot| match reason {
        Some(reason) => asking.on_the_way(slot, reason),
        None => Some((asking.address(asking.owner(slot)?)?, false)),
    });
    let is_long = multi.commands.iter().any(|queued| may_take_long(queued.entry.command));
    let part = place.map(|(to, asking)| Part { requests, has_several: true, asking, is_long, ..Part::new(to, bytes) });
    let question = part.and_then(|part| asking.question(vec![part], Join::One, may_write));
    if question.is_some() && !is_carried? {
        return Ok(None);
    }
    Ok(question)
}

/// Returns whether all queued commands may be asked elsewhere: the rights may have changed since they were queued.
fn may_all_run(engine: &Engine, session: &mut Session, multi: &Multi, now: Now) -> Result<bool, Error> {
    let mut all = true;
    for queued in &multi.commands {
        let call = Call::of(queued.entry, &queued.args, session.db);
        acl_check::check(engine, session, &call, acl_check::IN_MULTI, now).map_err(|(_, error)| error)?;
        all &= Carried::of(engine, session, queued.entry.command, &queued.args).is_some();
    }
    Ok(all)
}

/// Hands the command over to others: a transaction is not this session's any more.
pub fn hand_over(session: &mut Session, command: &Command) {
    if command.flags.has(RUNS_QUEUED) {
        queued::close_group(session);
    }
}
