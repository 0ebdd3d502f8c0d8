//! In a cluster: whether a command runs at this node, or the node that its client is sent to.
//!
//! ```text
//!   slot of all keys and channels --- none ---------------------------> here
//!        | two of them: CROSSSLOT      nobody's, cluster down ---------> CLUSTERDOWN
//!        v
//!   this node's --- stays here ---------------------------------------> here
//!        |          goes away, or another's that comes here -> the keys are looked at under their locks:
//!        |                                                     here, ASK or TRYAGAIN
//!        + its primary's, who reads may read here --------------------> here
//!        + another's -------------------------------------------------> MOVED
//! ```
//!
//! Admission decides that, with all its other reasons: with each change of the slots an epoch begins, and a command
//! that was admitted before it does not run after the shard has seen it.

use crate::core::args::Args;
use crate::core::command::{ASKING, Command, RUNS_QUEUED};
use crate::core::context::Context;
use crate::core::key_spec;
use crate::core::session::{OpenSlot, Session};
use cluster::node::Address;
use cluster::slot_map::SlotMap;
use engine::clients::registry::ClientInfo;
use engine::config::Directive;
use engine::data::key_hash::KeyHash;
use engine::data::slot::slot_of;
use engine::keyspace::keys::Keys;
use engine::{Engine, Error, Word};
use std::sync::atomic::Ordering::Relaxed;

/// The needs of a command that is to be sent to the right node.
#[derive(Clone, Copy)]
pub struct Routed<'r> {
    /// The command's entry.
    pub command: &'static Command,
    /// Arguments, the name included.
    pub args: &'r Args<'r>,
    /// Whether the command writes, or one that is queued.
    pub writes: bool,
    /// Whether the command publishes a message to a shard channel.
    pub publishes: bool,
}

/// Returns whether the command may run here, according to its keys' slot. Stores in the session the checks to be made
/// under its locks.
///
/// # Errors
/// [`Error::Moved`], [`Error::Ask`], [`Error::CrossSlot`], [`Error::TryAgain`], [`Error::SlotUnbound`] or an error of a
/// cluster that is down.
#[cold]
pub fn route(engine: &Engine, session: &mut Session, routed: Routed<'_>) -> Result<(), Error> {
    session.open_slot = None;
    let runs_queued = routed.command.flags.has(RUNS_QUEUED);
    let slot = match &session.multi {
        // A transaction that is given up anyway runs nowhere.
        Some(_) if runs_queued && session.watching.as_ref().is_some_and(|it| it.flag.is_raised()) => return Ok(()),
        Some(multi) if runs_queued => {
            let mut slot = None;
            multi.commands.iter().try_for_each(|queued| add_slot(&mut slot, queued.entry.command, &queued.args))?;
            slot
        }
        _ => slot_of_call(routed.command, routed.args)?,
    };
    let Some(slot) = slot else { return Ok(()) };
    let map = engine.cluster().map();
    let Some(owner) = map.owners.get(usize::from(slot)).copied().flatten() else { return Err(Error::SlotUnbound) };
    let is_own = map.serving == Some(owner);
    let reads_replicas = session.info.read_only.load(Relaxed);
    let may_be_open = !map.is_replica || reads_replicas;
    let destination = map.migrating.get(&slot).filter(|_| may_be_open && is_own);
    let is_importing = may_be_open && destination.is_none() && map.importing.contains_key(&slot);
    let is_open = destination.is_some() || is_importing;
    if is_open && moves_between_databases(session, routed, runs_queued) {
        return Err(Error::TryAgain);
    }
    if !engine.cluster().is_up(&map) {
        down(engine, routed)?;
    }
    if is_open && routed.command.name == "migrate" && !map.is_replica {
        return Ok(());
    }
    // A transaction's keys are looked at when it runs.
    let looks_at_keys = !routed.publishes && (session.multi.is_none() || runs_queued);
    if let Some(destination) = destination.filter(|_| looks_at_keys) {
        session.open_slot =
            Some(Box::new(OpenSlot::Leaves(sent_to(engine, &session.info, &map, *destination, slot, true))));
        return Ok(());
    }
    if is_importing && (session.asking || routed.command.flags.has(ASKING)) {
        session.open_slot = looks_at_keys.then(|| Box::new(OpenSlot::Arrives));
        return Ok(());
    }
    let is_here = || !engine.cluster().has_left(slot) && !map.coming.contains(slot);
    let is_readable = routed.publishes || reads_replicas && is_here();
    if is_own && (!map.is_replica || is_readable && !routed.writes) {
        return Ok(());
    }
    Err(sent_to(engine, &session.info, &map, owner, slot, false))
}

/// Returns whether commands run while the cluster is down, according to the configuration.
fn down(engine: &Engine, routed: Routed<'_>) -> Result<(), Error> {
    let config = engine.config().snapshot();
    if routed.publishes {
        return match config.flag(Directive::CLUSTER_ALLOW_PUBSUBSHARD_WHEN_DOWN) {
            true => Ok(()),
            false => Err(Error::ClusterDown),
        };
    }
    if !config.flag(Directive::CLUSTER_ALLOW_READS_WHEN_DOWN) {
        return Err(Error::ClusterDown);
    }
    if routed.writes { Err(Error::ClusterReadsOnly) } else { Ok(()) }
}

/// Returns the error for a client that waits in vain for a key of this slot: the slot is elsewhere, or nowhere.
pub fn waits_in_vain(engine: &Engine, client: &ClientInfo, map: &SlotMap, slot: u16, writes: bool) -> Option<Error> {
    let owner = map.owners.get(usize::from(slot)).copied().flatten();
    let reads_replica = client.read_only.load(Relaxed) && !writes;
    let is_here = owner.is_some() && owner == map.serving && (!map.is_replica || reads_replica);
    match owner {
        _ if !map.is_up => Some(Error::ClusterDown),
        _ if is_here || map.importing.contains_key(&slot) => None,
        None => Some(Error::SlotUnbound),
        Some(owner) => Some(sent_to(engine, client, map, owner, slot, false)),
    }
}

/// Returns the redirection for a client that asks for a slot of another node.
pub fn sent_to(engine: &Engine, client: &ClientInfo, map: &SlotMap, node: u16, slot: u16, for_once: bool) -> Error {
    let Some((_, address)) = map.nodes.get(usize::from(node)) else { return Error::SlotUnbound };
    let host = Word::of(endpoint(engine, client, address));
    let (slot, port) = (Word::of(slot.to_string()), Word::of(client_port(client, address).to_string()));
    if for_once { Error::Ask(slot, host, port) } else { Error::Moved(slot, host, port) }
}

/// Returns the host of a node in the form of `cluster-preferred-endpoint-type`.
pub fn endpoint<'a>(engine: &Engine, client: &ClientInfo, address: &'a Address) -> &'a str {
    match engine.config().snapshot().choice(Directive::CLUSTER_PREFERRED_ENDPOINT_TYPE) {
        "hostname" if address.hostname.is_empty() => "?",
        "hostname" => &address.hostname,
        "unknown-endpoint" => "",
        _ => client_ip(client, address),
    }
}

/// Returns the address of a node for this client.
pub fn client_ip<'a>(client: &ClientInfo, address: &'a Address) -> &'a str {
    let own = if client.addr.starts_with('[') { &address.client_ipv6 } else { &address.client_ipv4 };
    if own.is_empty() { &address.ip } else { own }
}

/// Returns the port of a node for this client.
pub fn client_port(client: &ClientInfo, address: &Address) -> u16 {
    let (announced, own) = match client.is_tls.load(Relaxed) {
        true => (address.client_tls_port, address.tls_port),
        false => (address.client_port, address.tcp_port),
    };
    if announced == 0 { own } else { announced }
}

/// Returns the slot of all keys and channels that a command names, if it names any.
///
/// # Errors
/// Two of them have different slots.
pub fn slot_of_call(command: &'static Command, args: &Args<'_>) -> Result<Option<u16>, Error> {
    let mut slot = None;
    add_slot(&mut slot, command, args)?;
    Ok(slot)
}

fn add_slot(slot: &mut Option<u16>, command: &'static Command, args: &Args<'_>) -> Result<(), Error> {
    for (index, _) in key_spec::routed_by(command, args) {
        let Some(name) = args.get(index) else { continue };
        let next = slot_of(name);
        if *slot.get_or_insert(next) != next {
            return Err(Error::CrossSlot);
        }
    }
    Ok(())
}

/// Returns whether a command goes from one database to another: its findings there are not known while a slot moves.
fn moves_between_databases(session: &Session, routed: Routed<'_>, runs_queued: bool) -> bool {
    let moves = |command: &Command, args: &Args<'_>, db: u32| match command.name {
        "move" => true,
        "copy" => (3..args.len().saturating_sub(1))
            .filter(|at| args.is(*at, "db"))
            .any(|at| resp::number::parse_i64(&args[at + 1]) != Some(i64::from(db))),
        _ => false,
    };
    match &session.multi {
        Some(multi) if runs_queued => {
            let mut db = session.db;
            multi.commands.iter().any(|queued| {
                db = queued.entry.command.selects(&queued.args).unwrap_or(db);
                moves(queued.entry.command, &queued.args, db)
            })
        }
        _ => moves(routed.command, routed.args, session.next_db()),
    }
}

/// Checks under the locks of all keys whether a command about a slot on its way finds its keys here.
///
/// # Errors
/// [`Error::TryAgain`]: some keys are here and others are not; [`Error::Ask`], [`Error::Moved`]: the keys are
/// elsewhere.
#[cold]
pub fn look_at_keys(cx: &mut Context<'_>, named: &[(usize, KeyHash)], args: &Args<'_>) -> Result<(), Error> {
    let Some(open) = cx.session.open_slot.take() else { return Ok(()) };
    let mut found = KeysFound::default();
    match &cx.session.multi {
        Some(multi) if cx.command.flags.has(RUNS_QUEUED) => {
            let (selected, databases) = (cx.session.db, cx.engine.databases());
            let mut db = selected;
            for queued in &multi.commands {
                let next = queued.entry.command.selects(&queued.args).filter(|db| (*db as usize) < databases);
                db = next.unwrap_or(db);
                cx.keys.select(db);
                found.count(&mut cx.keys, &queued.keys, &queued.args);
            }
            cx.keys.select(selected);
        }
        _ => found.count(&mut cx.keys, named, args),
    }
    match *open {
        OpenSlot::Leaves(_) if found.missing && found.present => Err(Error::TryAgain),
        OpenSlot::Leaves(ask) if found.missing => Err(ask),
        OpenSlot::Arrives if found.missing && found.differ => Err(Error::TryAgain),
        _ => Ok(()),
    }
}

/// The presence here of the keys that a command names.
#[derive(Default)]
struct KeysFound<'a> {
    first: Option<&'a [u8]>,
    /// Some keys are here, and some are not.
    differ: bool,
    missing: bool,
    present: bool,
}

impl<'a> KeysFound<'a> {
    fn count(&mut self, keys: &mut Keys<'_>, named: &[(usize, KeyHash)], args: &'a Args<'_>) {
        for (index, _) in named {
            let name = &args[*index];
            self.differ |= *self.first.get_or_insert(name) != name;
            match keys.lookup_no_stats(keys.key(name)) {
                Some(_) => self.present = true,
                None => self.missing = true,
            }
        }
    }
}
