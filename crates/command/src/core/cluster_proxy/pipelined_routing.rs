//! Commands of one key that need no full check, as their client may do everything. The checks that all of them need
//! are made once for those that come behind others of their client.

use crate::core::args::Args;
use crate::core::cluster_proxy::asks_for;
use crate::core::cluster_proxy::proxy_router::{ProxyRouter, is_self_contained, may_take_long, may_wait, writes};
use crate::core::cluster_routing::{self, Routed};
use crate::core::command::{CommandEntry, WRITE};
use crate::core::session::Session;
use cluster::proxy::{Context, Follower, Join, Part, Question};
use cluster::slot_map::SlotMap;
use engine::data::key_hash::KeyHash;
use engine::{Engine, Error};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Commands of one client that need no full check, one after the other.
pub struct Behind {
    map: Arc<SlotMap>,
    /// Number of the change that gave the client its rights.
    rights_since: u64,
    /// Node that was asked last, and its address.
    last: Option<(u16, SocketAddr)>,
}

impl Behind {
    /// Begins with the commands of a client; None: they need a full check.
    pub fn begin(engine: &Engine, session: &mut Session) -> Option<Behind> {
        let reasons = engine.persistence_status().deny_reasons();
        if !session.is_plain(engine) || !reasons.is_clustered_only() || !asks_for(engine, session) {
            return None;
        }
        // A plain session's user may do everything, and has no quota of memory: any command is carried.
        let rights_since = session.rights_since(engine)?;
        Some(Behind { map: engine.cluster().map(), rights_since, last: None })
    }

    /// Returns the question for the next command, whose only key has this hash. None: it has to wait for those before
    /// it.
    pub(in crate::core) fn follower<'a>(
        &mut self,
        engine: &Engine,
        session: &mut Session,
        (entry, key): (&'static CommandEntry, KeyHash),
        args: &'a Args<'a>,
    ) -> Option<Follower<'a>> {
        let (slot, command, map) = (key.slot(), entry.command, &self.map);
        let owner = map.owners.get(usize::from(slot)).copied().flatten()?;
        let is_open = map.serving == Some(owner) || map.importing.contains_key(&slot);
        if is_open || !engine.cluster().is_up(map) {
            let (writes, publishes) = (command.flags.has(WRITE), false);
            let reason = cluster_routing::route(engine, session, Routed { command, args, writes, publishes }).err();
            matches!(reason, Some(Error::Moved(..))).then_some(())?;
        }
        session.open_slot = None;
        if !is_self_contained(command) || may_wait(command, args) {
            return None;
        }
        let to = match self.last {
            Some((last, to)) if last == owner => to,
            _ => ProxyRouter { engine, map, session }.address(owner)?,
        };
        self.last = Some((owner, to));
        let (is_long, writes, rights_since) = (may_take_long(command), writes(command), self.rights_since);
        Some(Follower { to, bytes: args.text(), is_long, writes, rights_since })
    }
}

/// Returns the question for such a command that does not run here, and comes behind no other one. None: it needs a full
/// check.
#[cold]
pub(in crate::core) fn question_of_plain(
    engine: &Engine,
    session: &mut Session,
    (entry, keys): (&'static CommandEntry, &[(usize, KeyHash)]),
    args: &Args<'_>,
) -> Option<Box<Question>> {
    let [(_, key)] = keys else { return None };
    let is_elsewhere = entry.is_plain && engine.is_clustered() && !engine.cluster().serves(key.slot());
    let mut begun = is_elsewhere.then(|| Behind::begin(engine, session))??;
    let Follower { to, bytes, is_long, writes, rights_since } = begun.follower(engine, session, (entry, *key), args)?;
    let resp3 = session.info.resp.load(Relaxed) == 3;
    let context = Context { resp3, db: session.db, no_touch: session.no_touch };
    let parts = vec![Part { is_long, ..Part::new(to, bytes.into_owned()) }];
    Some(Box::new(Question { context, parts, join: Join::One, writes, rights_since }))
}
