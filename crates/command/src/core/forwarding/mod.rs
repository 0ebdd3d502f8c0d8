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
//! command with effects that cannot be checked here [is not carried](carried). See docs/design/cluster-proxy.md.

mod asking;
mod carried;

use crate::core::args::Args;
use crate::core::cluster_routing::{self, Routed, slot_of_call};
use crate::core::command::{Command, MAY_REPLICATE, RUNS_QUEUED, WRITE};
use crate::core::context::Now;
use crate::core::forwarding::asking::{Asking, is_self_contained, may_take_long};
use crate::core::forwarding::carried::Carried;
use crate::core::key_spec;
use crate::core::queued;
use crate::core::rights::{self, Call};
use crate::core::session::{Multi, Session};
use cluster::proxy::{Join, Part, Question};
use engine::config::Directive;
use engine::data::slot::slot_of;
use engine::keyspace::origin::Asker;
use engine::{Engine, Error};
use resp::encode_command;
use std::sync::atomic::Ordering::Relaxed;

/// Returns whether others are asked for this client: the node does that, and the client can wait for it and wants it.
pub(crate) fn asks_for(engine: &Engine, session: &Session) -> bool {
    session.is_proxied
        && session.asker == Asker::Client
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
pub(crate) fn question(
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
    let asking = Asking { engine, map: &engine.cluster().map(), session };
    match (reason, carried) {
        (Some(Error::Moved(..)), Some(carried)) => Ok(asking.of_one_slot(carried)),
        (Some(Error::CrossSlot), Some(carried)) => asking.key_by_key(carried),
        (None, Some(carried)) => asking.of_all(carried),
        // A part of it alone is not the client's intention.
        (None, None) if asking::is_of_all(command) => Err(Error::NoDatabasePermission),
        _ => Ok(None),
    }
}

/// Returns the question for a command behind others of its client that other nodes are asked for already. None: the
/// command needs a full check.
pub(crate) fn question_behind(
    engine: &Engine,
    session: &mut Session,
    (command, args): (&'static Command, &Args<'_>),
) -> Option<Box<Question>> {
    let reasons = engine.persistence_status().deny_reasons();
    if !session.is_plain(engine) || !reasons.is_clustered_only() || !asks_for(engine, session) {
        return None;
    }
    let map = engine.cluster().map();
    let slot = slot_of_call(command, args).ok()??;
    let owner = map.owners.get(usize::from(slot)).copied().flatten()?;
    let is_open = map.serving == Some(owner) || map.importing.contains_key(&slot);
    if is_open || !engine.cluster().is_up(&map) {
        let (writes, publishes) = (command.flags.has(WRITE), false);
        let reason = cluster_routing::route(engine, session, Routed { command, args, writes, publishes }).err();
        matches!(reason, Some(Error::Moved(..))).then_some(())?;
    }
    session.open_slot = None;
    let carried = Carried::of(engine, session, command, args)?;
    Asking { engine, map: &map, session }.at_owner(carried, owner)
}

/// Returns whether a command about another node's slot may be queued here, since EXEC can ask for all of it.
pub(crate) fn may_queue(
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
pub(crate) fn question_of_ask(
    engine: &Engine,
    session: &mut Session,
    (command, args): (&'static Command, &Args<'_>),
    reason: &Error,
) -> Option<Box<Question>> {
    let may_be = session.multi.is_none() && !session.asking && asks_for(engine, session);
    let slot = slot_of_call(command, args).ok().flatten().filter(|_| may_be)?;
    let carried = Carried::of(engine, session, command, args)?;
    let asking = Asking { engine, map: &engine.cluster().map(), session };
    let place = asking.on_the_way(slot, reason)?;
    let mut question = asking.of_one_slot(carried)?;
    question.parts.iter_mut().for_each(|part| (part.to, part.asking) = place);
    Some(question)
}

/// Returns such a question for EXEC. None: the reason stands.
///
/// # Errors
/// The error to reply instead.
pub(crate) fn transaction_of_ask(
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
    let asking = Asking { engine, map: &map, session };
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
        rights::check(engine, session, &call, rights::IN_MULTI, now).map_err(|(_, error)| error)?;
        all &= Carried::of(engine, session, queued.entry.command, &queued.args).is_some();
    }
    Ok(all)
}

/// Hands the command over to others: a transaction is not this session's any more.
pub(crate) fn hand_over(session: &mut Session, command: &Command) {
    if command.flags.has(RUNS_QUEUED) {
        queued::close_group(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::context::Flow;
    use crate::core::dispatch;
    use crate::testing::Client;
    use cluster::SLOTS;
    use cluster::node::Address;
    use cluster::node_id::NodeId;
    use cluster::slot_map::SlotMap;
    use engine::data::slot::slot_of;

    /// The slot of `{c}`, which is the other node's; those below it are, too.
    const C: u16 = 7365;

    fn node() -> Client {
        let mut client = Client::new();
        let address =
            |ip: &str, port| Address { ip: ip.to_owned(), tcp_port: port, tls_port: port + 1, ..Address::default() };
        let mut map = SlotMap {
            is_up: true,
            serving: Some(0),
            nodes: vec![(NodeId([b'a'; 40]), address("", 7000)), (NodeId([b'b'; 40]), address("10.0.0.1", 7001))],
            owners: vec![Some(0); SLOTS],
            ..SlotMap::default()
        };
        map.owners[..=usize::from(C)].fill(Some(1));
        client.engine().persistence_status().set_clustered(true);
        client.engine().set_slot_map(map);
        client.shared_engine().config().update(|config| {
            config.set_flag(Directive::CLUSTER_PROXY, true);
            config.set_int(Directive::PORT, 7000);
        });
        client.session().is_proxied = true;
        client
    }

    /// Returns the nodes' part of a command: `port: words`, and how it is joined; or the immediate reply.
    fn asked(client: &mut Client, line: &str) -> String {
        let (engine, now) = (client.shared_engine().clone(), client.now());
        let mut args: Args<'_> = line.split(' ').map(str::as_bytes).collect();
        let prepared = dispatch::prepare(&engine, &args);
        let mut reply = resp::Reply::default();
        match dispatch::run(&engine, client.session(), &prepared, &mut args, now, &mut reply) {
            Flow::Forward(question) => {
                let parts = question.parts.iter().map(|part| {
                    let text = String::from_utf8_lossy(&part.bytes);
                    let words: Vec<&str> = text.split("\r\n").filter(|line| !line.starts_with(['*', '$'])).collect();
                    let asking = if part.asking { "ASKING " } else { "" };
                    format!("{}: {asking}{}", part.to.port(), words.join(" ").trim_end())
                });
                let writes = if question.writes { " writes" } else { "" };
                format!("{}; {:?}{writes}", parts.collect::<Vec<_>>().join(", "), question.join)
            }
            _ => String::from_utf8_lossy(reply.as_slice()).trim_end().to_owned(),
        }
    }

    const MOVED: &str = "-MOVED 7365 10.0.0.1:7001";

    #[test]
    fn commands_go_to_the_owner_as_they_are() {
        let mut client = node();
        for (line, expected) in [
            ("GET {a}", "$-1"),
            ("GET {c}", "7001: GET {c}; One"),
            ("set {c} 1 EX 5", "7001: set {c} 1 EX 5; One writes"),
            ("RENAME {c}1 {c}2", "7001: RENAME {c}1 {c}2; One writes"),
            ("SPUBLISH {c} m", "7001: SPUBLISH {c} m; One writes"),
            ("EVAL x 1 {c}", "7001: EVAL x 1 {c}; One writes"),
            ("XREAD STREAMS {c} 0", "7001: XREAD STREAMS {c} 0; One"),
            ("XREAD COUNT 1 BLOCK 1 STREAMS {c} 0", MOVED),
            ("BLPOP {c} 1", MOVED),
            ("WATCH {c}", MOVED),
            ("SSUBSCRIBE {c}", MOVED),
            ("GET", "-ERR wrong number of arguments for 'get' command"),
        ] {
            assert_eq!(asked(&mut client, line), expected, "{line}");
        }
        client.is("CLIENT CAPA moved", "+OK");
        assert_eq!(asked(&mut client, "GET {c}"), MOVED);
    }

    #[test]
    fn a_command_that_does_more_than_its_arguments_tell_is_carried_for_a_user_who_may_do_everything_alone() {
        let mut client = node();
        client.is("ACL SETUSER u on nopass +@all ~* db=0 &*", "+OK").is("AUTH u x", "+OK");
        for (line, expected) in [
            ("GET {c}", "7001: GET {c}; One"),
            ("SORT {c} STORE {c}x", "7001: SORT {c} STORE {c}x; One writes"),
            ("SORT {c} GET {c}*", "7001: SORT {c} GET {c}*; One writes"),
            ("COPY {c} {c}x", "7001: COPY {c} {c}x; One writes"),
            ("COPY {c} {c}x DB 99", MOVED),
            ("EVAL x 1 {c}", MOVED),
            ("FCALL x 1 {c}", MOVED),
            ("FLUSHDB", "7001: FLUSHDB, 7000: FLUSHDB; Alike writes"),
            ("FLUSHALL", "-NOPERM No permissions to access database"),
        ] {
            assert_eq!(asked(&mut client, line), expected, "{line}");
        }
        client.is("MULTI", "+OK").is("GET {c}", "+QUEUED").is("EVAL x 1 {c}", MOVED);
        client.is("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
        client.is("ACL SETUSER v on nopass +@all ~{c}1 &*", "+OK").is("AUTH v x", "+OK");
        assert_eq!(asked(&mut client, "SORT {c}1 BY {c}*"), MOVED);
        client.is("ACL SETUSER w on nopass +@all ~* &* quota:memory:x=1", "+OK").is("AUTH w x", "+OK");
        for (line, expected) in
            [("SET {c} v", MOVED), ("EVAL x 1 {c}", MOVED), ("DEL {c}", "7001: DEL {c}; One writes")]
        {
            assert_eq!(asked(&mut client, line), expected, "{line}");
        }
    }

    #[test]
    fn some_commands_of_several_slots_are_asked_key_by_key() {
        let mut client = node();
        for (line, expected) in [
            ("MGET {a}1 {c}1", "7000: MGET {a}1, 7001: MGET {c}1; Elements"),
            ("MSET {a}1 x {c}1 y", "7000: MSET {a}1 x, 7001: MSET {c}1 y; AllOk writes"),
            ("MSET {a}1 x {c}1", "-ERR wrong number of arguments for 'mset' command"),
            ("DEL {a}1 {a}1 {c}1", "7000: DEL {a}1, 7000: DEL {a}1, 7001: DEL {c}1; Sum writes"),
            ("EXISTS {a}1 {c}1", "7000: EXISTS {a}1, 7001: EXISTS {c}1; Sum"),
            ("MGET {c}1 {c}2", "7001: MGET {c}1 {c}2; One"),
            ("MGET {a}1 {a}2", "*2\r\n$-1\r\n$-1"),
            ("MSETNX {a}1 x {c}1 y", "-CROSSSLOT Keys in request don't hash to the same slot"),
        ] {
            assert_eq!(asked(&mut client, line), expected, "{line}");
        }
    }

    #[test]
    fn a_scan_finds_its_nodes_whatever_slots_they_have_by_then() {
        let mut client = node();
        let mut map = (*client.engine().cluster().map()).clone();
        map.shards = [b'a', b'b'].map(|letter| NodeId([letter; 40])).to_vec();
        let number = |at: usize| slot_of(map.shards[at].as_str().as_bytes());
        let (here, there) = (number(0), number(1));
        let (first, last) = if here < there { ((here, 7000), (there, 7001)) } else { ((there, 7001), (here, 7000)) };
        let begin = format!("{}: SCAN 0; Page(Pages {{ node: {}, next: Some({}) }})", first.1, first.0, last.0);
        let end = format!("{}: SCAN 3; Page(Pages {{ node: {}, next: None }})", last.1, last.0);
        let cursor = 3 << 14 | u64::from(last.0);
        // Either node has the lowest slot at times.
        for owner in [0, 1] {
            map.owners[0] = Some(owner);
            client.engine().set_slot_map(map.clone());
            assert_eq!(asked(&mut client, "SCAN 0"), begin, "{owner}");
            assert_eq!(asked(&mut client, &format!("SCAN {cursor}")), end, "{owner}");
        }
    }

    #[test]
    fn what_is_about_all_keys_is_asked_of_all_primaries() {
        let mut client = node();
        for (line, expected) in [
            ("DBSIZE", "7001: DBSIZE, 7000: DBSIZE; Sum".to_owned()),
            ("DELPREFIX k", "7001: DELPREFIX k, 7000: DELPREFIX k; Sum writes".to_owned()),
            ("KEYS k*", "7001: KEYS k*, 7000: KEYS k*; Elements".to_owned()),
            ("FLUSHALL ASYNC", "7001: FLUSHALL ASYNC, 7000: FLUSHALL ASYNC; Alike writes".to_owned()),
            ("SCAN 0 COUNT 5", "7000: SCAN 0 COUNT 5; Page(Pages { node: 0, next: Some(1) })".to_owned()),
            ("SCAN 1 COUNT 5", "7001: SCAN 0 COUNT 5; Page(Pages { node: 1, next: None })".to_owned()),
            ("SCAN 16384", "7000: SCAN 1; Page(Pages { node: 0, next: Some(1) })".to_owned()),
            ("SCAN 16391", "7001: SCAN 0; Page(Pages { node: 1, next: None })".to_owned()),
            ("SCAN x", "-ERR invalid cursor".to_owned()),
            ("PING", "+PONG".to_owned()),
        ] {
            assert_eq!(asked(&mut client, line), expected, "{line}");
        }
        let mut map = (*client.engine().cluster().map()).clone();
        map.is_up = false;
        client.engine().set_slot_map(map);
        let expected = "7001: FLUSHALL, 7000: FLUSHALL; Alike writes";
        assert_eq!(asked(&mut client, "FLUSHALL"), expected, "a part of it is not what its client means");
    }

    #[test]
    fn scripts_and_libraries_are_put_at_all_primaries_and_here() {
        let mut client = node();
        for (line, expected) in [
            ("FUNCTION LOAD REPLACE x", "7001: FUNCTION LOAD REPLACE x, 7000: FUNCTION LOAD REPLACE x; Alike writes"),
            ("FUNCTION DELETE x", "7001: FUNCTION DELETE x, 7000: FUNCTION DELETE x; Alike writes"),
            ("FUNCTION FLUSH", "7001: FUNCTION FLUSH, 7000: FUNCTION FLUSH; Alike writes"),
            ("FUNCTION RESTORE x", "7001: FUNCTION RESTORE x, 7000: FUNCTION RESTORE x; Alike writes"),
            ("FUNCTION LIST", "*0"),
            ("SCRIPT LOAD x", "7001: SCRIPT LOAD x, 7000: SCRIPT LOAD x; Alike"),
            ("SCRIPT EXISTS x", "7001: SCRIPT EXISTS x, 7000: SCRIPT EXISTS x; InAll"),
            ("SCRIPT FLUSH", "7001: SCRIPT FLUSH, 7000: SCRIPT FLUSH; Alike"),
            ("FUNCTION LOAD", "-ERR wrong number of arguments for 'function|load' command"),
        ] {
            assert_eq!(asked(&mut client, line), expected, "{line}");
        }
        let mut map = (*client.engine().cluster().map()).clone();
        (map.is_replica, map.serving) = (true, Some(1));
        map.owners.fill(Some(1));
        client.engine().set_slot_map(map);
        assert_eq!(asked(&mut client, "SCRIPT LOAD x"), "7001: SCRIPT LOAD x, 7000: SCRIPT LOAD x; Alike");
        assert_eq!(asked(&mut client, "FUNCTION FLUSH"), "7001: FUNCTION FLUSH; Alike writes");
        let mut client = node();
        client.is("ACL SETUSER u on nopass +@all ~a db=0 &* quota:memory:x=1", "+OK").is("AUTH u x", "+OK");
        assert_eq!(asked(&mut client, "FUNCTION LOAD x"), "7001: FUNCTION LOAD x, 7000: FUNCTION LOAD x; Alike writes");
    }

    #[test]
    fn a_transaction_of_one_slot_goes_to_its_owner_as_a_whole() {
        let mut client = node();
        client.is("MULTI", "+OK").is("SET {c}1 x", "+QUEUED").is("GET {c}2", "+QUEUED");
        assert_eq!(asked(&mut client, "EXEC"), "7001: MULTI SET {c}1 x GET {c}2 EXEC; One writes");
        client.is("EXEC", "-ERR EXEC without MULTI");
        client.is("MULTI", "+OK").is("GET {a}1", "+QUEUED").is("EXEC", "[nil]");
        client.is("MULTI", "+OK").is("GET {a}1", "+QUEUED").is("GET {c}1", "+QUEUED");
        client.is("EXEC", "-CROSSSLOT Keys in request don't hash to the same slot");
        client.is("MULTI", "+OK").is("GET {c}1", "+QUEUED").is("PING", "+QUEUED").is("EXEC", MOVED);
        client.is("WATCH {a}1", "+OK").is("MULTI", "+OK").is("GET {c}1", MOVED);
        client.is("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
    }

    #[test]
    fn a_key_that_has_left_already_is_asked_for_where_it_went() {
        let mut client = node();
        client.is("SET {a}1 x", "+OK");
        let mut map = (*client.engine().cluster().map()).clone();
        map.migrating.insert(15495, 1);
        client.engine().set_slot_map(map);
        assert_eq!(asked(&mut client, "GET {a}1"), "$1\r\nx");
        assert_eq!(asked(&mut client, "GET {a}2"), "7001: ASKING GET {a}2; One");
        assert_eq!(asked(&mut client, "MGET {a}2 {a}3"), "7001: ASKING MGET {a}2 {a}3; One");
        client.is("MULTI", "+OK").is("GET {a}2", "+QUEUED").is("SET {a}3 x", "+QUEUED");
        assert_eq!(asked(&mut client, "EXEC"), "7001: ASKING MULTI GET {a}2 SET {a}3 x EXEC; One writes");
        client.is("EXEC", "-ERR EXEC without MULTI");
    }

    #[test]
    fn while_some_keys_have_left_this_node_is_asked_again() {
        let mut client = node();
        client.is("SET {a}1 x", "+OK");
        let mut map = (*client.engine().cluster().map()).clone();
        map.migrating.insert(15495, 1);
        client.engine().set_slot_map(map);
        assert_eq!(asked(&mut client, "MGET {a}1 {a}2"), "7000: MGET {a}1 {a}2; One");
        client.is("MULTI", "+OK").is("GET {a}1", "+QUEUED").is("GET {a}2", "+QUEUED");
        assert_eq!(asked(&mut client, "EXEC"), "7000: MULTI GET {a}1 GET {a}2 EXEC; One");
        let told = "-TRYAGAIN Multiple keys request during rehashing of slot";
        client.is("CLIENT CAPA moved", "+OK");
        assert_eq!(asked(&mut client, "MGET {a}1 {a}2"), told);
        client.is("MULTI", "+OK").is("GET {a}1", "+QUEUED").is("GET {a}2", "+QUEUED").is("EXEC", told);
        client.is("EXEC", "-ERR EXEC without MULTI");
    }

    #[test]
    fn behind_others_goes_only_what_is_one_key_of_another_node() {
        let mut client = node();
        let engine = client.shared_engine().clone();
        client.is("GET {a}1", "nil");
        let behind = |client: &mut Client, line: &str| {
            let args: Args<'_> = line.split(' ').map(str::as_bytes).collect();
            let prepared = dispatch::prepare(&engine, &args);
            dispatch::forwarded(&engine, client.session(), &prepared, &args).is_some()
        };
        assert!(behind(&mut client, "GET {c}1") && behind(&mut client, "SET {c}1 x"));
        for line in ["GET {a}1", "PING", "MGET {c}1 {c}2", "BLPOP {c}1 0", "NOSUCH {c}"] {
            assert!(!behind(&mut client, line), "{line}");
        }
        client.is("MULTI", "+OK");
        assert!(!behind(&mut client, "GET {c}1"));
    }
}
