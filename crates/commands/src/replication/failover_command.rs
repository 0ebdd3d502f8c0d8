//! FAILOVER: the server hands its role to one of its replicas; with the part of it that the threads of replication run.
//!
//! ```text
//!   FAILOVER                         writes are held from now on
//!   thread that serves the replicas  all is framed; a replica has it       -> the server follows that one (watch)
//!   thread that has the link         asks it to take over: PSYNC .. FAILOVER -> it has (answered), or not
//!   writes resume                    and are refused by a replica, or run on a primary
//! ```
//!
//! [`replication::failover_state`] decides each step.
//!
//! A Sentinel pauses writes for its failover with CLIENT PAUSE, so that clients find the new primary before their
//! writes are refused. A paused server applies nothing of its primary's stream either, and acknowledges nothing. So the
//! pause ends soon once the server follows the replica, also if that Sentinel is gone.

use crate::core::args::Args;
use crate::core::client_line::described;
use crate::core::command::{ADMIN, Command, Group, NO_SCRIPT, STALE};
use crate::core::context::Context;
use crate::replication::follow::{self, Waits, follow, follow_locked, follow_patiently};
use engine::locks::sync::{MutexGuard, lock_soon, unlock_fairly};
use engine::status::pause::Hold;
use engine::status::replication_status::{LinkState, PrimaryAddress};
use engine::time::SteadyMs;
use engine::{Engine, Error};
use replication::failover_state::{Decision, Failover, FailoverRequest, FailoverState, Outcome, Target};
use replication::replid::ReplicationId;

pub(crate) const COMMANDS: &[Command] = &[Command {
    name: "failover",
    group: Group::Server,
    since: "6.2.0",
    arity: -1,
    flags: ADMIN.and(NO_SCRIPT).and(STALE),
    syntax: "[TO target: host port:int [FORCE]] [ABORT] [TIMEOUT milliseconds:int]",
    summary: "Starts a coordinated failover from a server to one of its replicas.",
    complexity: "O(1)",
    run: failover,
    ..Command::DEFAULT
}];

/// Milliseconds for which a pause of writes outlasts the role: Sentinels disconnect the clients meanwhile.
const PAUSE_AFTER: i64 = 1000;
/// Milliseconds for which a server that takes over waits for its predecessor, before it announces a set without it.
const INTRODUCTION_AFTER: i64 = 1000;

fn failover(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    if cx.engine.is_clustered() {
        return Err(Error::FailoverInCluster);
    }
    if args.len() == 2 && args.is(1, "abort") {
        return take_back(cx);
    }
    let request = parse(args, cx.steady_now())?;
    let (engine, status) = (cx.engine, cx.engine.replication());
    let mut failover = status.failover.lock();
    if failover.state() != FailoverState::None {
        return Err(Error::FailoverInProgress);
    }
    if status.is_replica() {
        return Err(Error::FailoverOfReplica);
    }
    let replicas = status.replicas();
    if replicas.is_empty() {
        return Err(Error::FailoverAlone);
    }
    if status.acknowledgement.is_asked() && status.acknowledgement.state() == "unconfirmed" {
        return Err(Error::FailoverUnconfirmed);
    }
    if request.is_forced && (request.target.is_none() || request.deadline.is_none()) {
        return Err(Error::FailoverForce);
    }
    match &request.target {
        None => engine.host().notice("FAILOVER requested to any replica."),
        Some(target) => {
            let is_it = |ip: &str, port| target.is(&Target { host: ip.into(), port });
            let found = replicas.iter().find(|replica| is_it(&replica.ip, replica.port));
            if !found.ok_or(Error::FailoverUnknown)?.is_online() {
                return Err(Error::FailoverOffline);
            }
            engine.host().notice(&format!("FAILOVER requested to {target}."));
        }
    }
    if failover.begin(request) {
        engine.hold_writes(Hold::Failover);
    }
    drop(failover);
    engine.host().failover_changed();
    cx.reply.ok();
    Ok(())
}

fn parse(args: &Args<'_>, now: SteadyMs) -> Result<FailoverRequest, Error> {
    let (mut request, mut at) = (FailoverRequest::default(), 1);
    while at < args.len() {
        let left = args.len() - at - 1;
        if args.is(at, "timeout") && left >= 1 && request.deadline.is_none() {
            let timeout = args.int(at + 1)?;
            if timeout <= 0 {
                return Err(Error::FailoverTimeout);
            }
            request.deadline = Some(now.0.saturating_add(timeout));
            at += 2;
        } else if args.is(at, "to") && left >= 2 && request.target.is_none() {
            // No replica has a port outside of the range.
            let port = u16::try_from(args.int(at + 2)?).unwrap_or(0);
            request.target = Some(Target { host: args[at + 1].to_vec(), port });
            at += 3;
        } else if args.is(at, "force") && !request.is_forced {
            request.is_forced = true;
            at += 1;
        } else {
            return Err(Error::Syntax);
        }
    }
    Ok(request)
}

fn take_back(cx: &mut Context<'_>) -> Result<(), Error> {
    let status = cx.engine.replication();
    let goes_on = |failover: &Failover| failover.state() != FailoverState::None;
    if !goes_on(&status.failover.lock()) {
        return Err(Error::NoFailover);
    }
    let (mut failover, applying) = match cx.applying.take() {
        None => lock_both(cx.engine),
        Some(applying) => (status.failover.lock(), applying),
    };
    if !goes_on(&failover) {
        return Err(Error::NoFailover);
    }
    if !failover.may_abort() {
        return Err(Error::FailoverAsked);
    }
    abort(cx.engine, &mut failover, Some(&applying), "Failover manually aborted");
    cx.reply.ok();
    Ok(())
}

/// Returns the guard of the failover and the guard under which the stream is applied. A transaction may hold the latter
/// and wait for the former: so the wait for the latter is short, and the former is released between two tries.
fn lock_both(engine: &Engine) -> (MutexGuard<'_, Failover>, MutexGuard<'_, ()>) {
    let status = engine.replication();
    loop {
        let failover = status.failover.lock();
        match lock_soon(&status.applying) {
            Some(applying) => return (failover, applying),
            None => unlock_fairly(failover),
        }
    }
}

/// Checks whether a replica is to take over. The thread that serves the replicas calls it; `is_quiet` and `synced` as
/// in [`Failover::decide`]. `end_stream`: nothing is added to the stream after it.
pub fn watch(
    engine: &Engine,
    now: SteadyMs,
    is_quiet: bool,
    synced: impl Iterator<Item = Target>,
    end_stream: impl FnOnce(),
) {
    let mut failover = engine.replication().failover.lock();
    match failover.decide(now.0, is_quiet, synced) {
        Decision::Wait => {}
        Decision::GiveUp => abort(engine, &mut failover, None, "Replica never caught up before timeout"),
        Decision::HandOver { target, is_late } => {
            engine.host().notice(&match is_late {
                true => format!("FAILOVER to {target} time out exceeded, failing over."),
                false => format!("Failover target {target} is synced, failing over."),
            });
            end_stream();
            let primary = PrimaryAddress { host: target.host, port: target.port };
            while !follow_patiently(engine, Some(primary.clone()), Waits::Keep) {}
        }
    }
}

/// Ends a failover that waits for a replica, as the server follows another server by now for a different reason.
pub fn drop_waiting(engine: &Engine) {
    let mut failover = engine.replication().failover.lock();
    if failover.state() == FailoverState::WaitingForSync {
        abort(engine, &mut failover, None, "The server follows another one");
    }
}

/// Handles the answer of the replica that was asked to take over; `refusal`: the error, if the answer was one.
pub fn answered(engine: &Engine, refusal: Option<&[u8]>) {
    let is_awaited = |failover: &Failover| failover.state() == FailoverState::InProgress;
    if !is_awaited(&engine.replication().failover.lock()) {
        return;
    }
    let (mut failover, applying) = lock_both(engine);
    // A client may have aborted the failover meanwhile.
    if !is_awaited(&failover) {
        return;
    }
    match failover.take_answer(refusal) {
        Outcome::Refused => abort(engine, &mut failover, Some(&applying), "Failover target rejected psync request"),
        Outcome::TakenOver => {
            let holds = failover.let_writers_go();
            failover.end();
            // Clients that wait get the new address of their keys before writes resume.
            follow::end_waits(engine);
            if holds {
                release(engine);
            }
        }
    }
}

/// Records that its answer is lost with the connection.
pub fn lost_answer(engine: &Engine) {
    engine.replication().failover.lock().lose_answer();
}

/// Handles a failed connection to a replica that has not answered. The answer may take any time: writers get the error
/// that this server is a replica.
pub fn missed_answer(engine: &Engine) {
    let mut failover = engine.replication().failover.lock();
    if failover.state() == FailoverState::InProgress && failover.let_writers_go() {
        release(engine);
    }
}

/// Aborts the failover: the server is the primary, with a history of a new name if it was a replica for a while.
/// `applying`: the right to change the role.
fn abort(engine: &Engine, failover: &mut Failover, applying: Option<&MutexGuard<'_, ()>>, reason: &str) {
    let whom = failover.target().map_or_else(|| "any replica".to_owned(), Target::to_string);
    engine.host().notice(&format!("FAILOVER to {whom} aborted: {reason}"));
    if let Some(applying) = applying.filter(|_| failover.state() == FailoverState::InProgress) {
        follow_locked(engine, applying, None, Waits::End);
    }
    let holds = failover.let_writers_go();
    failover.end();
    if holds {
        release(engine);
    }
}

fn release(engine: &Engine) {
    engine.release_writes(Hold::Failover);
    if engine.replication().is_replica() {
        engine.limit_pause(SteadyMs(engine.steady_now().0.saturating_add(PAUSE_AFTER)));
    }
    engine.host().pause_changed();
}

/// Waits for the primary that hands its lead over to this server, before a set is announced without it.
pub(crate) fn await_predecessor(engine: &Engine) {
    let until = engine.steady_now().after(INTRODUCTION_AFTER);
    engine.replication().acknowledgement.await_predecessor(until);
}

/// Takes over on the primary's request (PSYNC .. FAILOVER), if this replica has the primary's history. `next`: the
/// first byte of it that the primary lacks. Earlier bytes may still be on their way over the link, which the primary
/// ends: the replica has all of them before it leads.
pub(crate) fn take_over(cx: &mut Context<'_>, id: &[u8], next: i64) -> Result<(), Error> {
    let (engine, status) = (cx.engine, cx.engine.replication());
    let notice = || {
        let id = String::from_utf8_lossy(id);
        engine.host().notice(&format!("Failover request received for replid {id}."));
    };
    if !status.is_replica() {
        notice();
        return Err(Error::NotAReplica);
    }
    if ReplicationId::parse(&id.to_ascii_lowercase()) != Some(status.history().id) {
        notice();
        return Err(Error::OtherHistory);
    }
    let is_on_its_way = u64::try_from(next - 1).is_ok_and(|sent| sent > status.offset());
    await_predecessor(engine);
    if is_on_its_way && status.link().state == LinkState::Connected || !follow(engine, None, Waits::End) {
        return Err(Error::WouldBlock);
    }
    notice();
    let user = described(engine, &cx.session.info, cx.now_ms());
    engine.host().notice(&format!("PRIMARY MODE enabled (failover request from '{user}')"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::context::Flow;
    use crate::core::dispatch;
    use crate::testing::Client;
    use engine::status::replication_status::{ReplicaInfo, ReplicaState};
    use engine::time::SteadyMs;
    use replication::replica_handshake::Handshake;
    use resp::Reply;
    use std::sync::Arc;

    fn add_replica(client: &Client, number: u64, port: u16) -> Arc<ReplicaInfo> {
        let replica =
            ReplicaInfo::new(number, "127.0.0.1".to_owned(), &Handshake { port, ..Handshake::default() }, SteadyMs(0));
        let replica = Arc::new(replica);
        client.engine().replication().add_replica(&replica);
        replica
    }

    fn look_at(client: &Client, is_quiet: bool, port: u16) {
        let synced = Target { host: b"127.0.0.1".to_vec(), port };
        watch(client.engine(), SteadyMs(client.now_ms().0), is_quiet, std::iter::once(synced), || {});
    }

    fn state(client: &Client) -> FailoverState {
        client.engine().replication().failover.lock().state()
    }

    #[test]
    fn impossible_failovers_are_refused() {
        let mut client = Client::new();
        client.is("FAILOVER", "-ERR FAILOVER requires connected replicas.");
        client.is("FAILOVER ABORT", "-ERR No failover in progress.");
        let replica = add_replica(&client, 7, 1);
        for (line, expected) in [
            ("FAILOVER FORCE", "-ERR FAILOVER with force option requires both a timeout and target HOST and IP."),
            (
                "FAILOVER TO 127.0.0.1 1 FORCE",
                "-ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
            ),
            ("FAILOVER TO 127.0.0.1 2", "-ERR FAILOVER target HOST and PORT is not a replica."),
            ("FAILOVER TO 127.0.0.1 1", "-ERR FAILOVER target replica is not online."),
            ("FAILOVER TO 127.0.0.1 x", "-ERR value is not an integer or out of range"),
            ("FAILOVER TIMEOUT 0", "-ERR FAILOVER timeout must be greater than 0"),
            ("FAILOVER TO 127.0.0.1", "-ERR syntax error"),
            ("FAILOVER ABORT TIMEOUT 5", "-ERR syntax error"),
            ("FAILOVER FORCE FORCE", "-ERR syntax error"),
        ] {
            client.is(line, expected);
        }
        replica.set_state(ReplicaState::Online);
        client.is("FAILOVER TO 127.0.0.1 1", "+OK").is("FAILOVER", "-ERR FAILOVER already in progress.");
        client.is("REPLICAOF NO ONE", "-ERR REPLICAOF not allowed while failing over.");
        client.is("PSYNC ? -1", "-NOMASTERLINK Can't SYNC while failing over").is("FAILOVER ABORT", "+OK");
        client.is("REPLICAOF host 1", "+OK").is("FAILOVER", "-ERR FAILOVER is not valid when server is a replica.");
        client
            .is("PSYNC x 1 FAILOVER", "-ERR PSYNC FAILOVER replid must match my replid.")
            .is("REPLICAOF NO ONE", "+OK");
        client.is("PSYNC x 1 FAILOVER", "-ERR PSYNC FAILOVER can't be sent to a master.");
    }

    #[test]
    fn writes_are_held_back_until_it_is_known_who_leads() {
        let mut client = Client::new();
        add_replica(&client, 7, 1).set_state(ReplicaState::Online);
        let is_paused = |client: &Client| client.engine().pause().held() == Some(Hold::Failover);
        let old = client.engine().replication().history().id;
        client.is("FAILOVER TIMEOUT 100", "+OK");
        look_at(&client, false, 1);
        assert!(is_paused(&client) && state(&client) == FailoverState::WaitingForSync);
        client.later(100);
        look_at(&client, true, 1);
        assert!(!is_paused(&client) && state(&client) == FailoverState::None, "too late");
        for refusal in [None, Some(&b"-NOPERM no"[..])] {
            client.is("FAILOVER", "+OK");
            look_at(&client, true, 1);
            assert!(is_paused(&client) && state(&client) == FailoverState::InProgress);
            assert!(client.engine().replication().is_replica());
            lost_answer(client.engine());
            missed_answer(client.engine());
            assert!(!is_paused(&client), "nobody knows until when");
            client.is("SET k v", "-READONLY You can't write against a read only replica.");
            answered(client.engine(), refusal);
            assert!(!is_paused(&client) && state(&client) == FailoverState::None);
            assert_eq!(client.engine().replication().is_replica(), refusal.is_none());
            client.is("REPLICAOF NO ONE", "+OK");
        }
        assert_ne!(client.engine().replication().history().id, old);
        client.is("SET k v", "+OK");
    }

    #[test]
    fn a_pause_of_writes_ends_soon_after_the_role_was_handed_over() {
        for (mode, answer, is_limited) in
            [("WRITE", None, true), ("WRITE", Some(&b"-NOPERM no"[..]), false), ("ALL", None, false)]
        {
            let mut client = Client::new();
            add_replica(&client, 7, 1).set_state(ReplicaState::Online);
            let begun = client.engine().steady_now();
            client.is("MULTI", "+OK").is(&format!("CLIENT PAUSE 180000 {mode}"), "+QUEUED");
            client.is("FAILOVER TO 127.0.0.1 1 TIMEOUT 180000", "+QUEUED").is("EXEC", "[+OK +OK]");
            look_at(&client, true, 1);
            assert!(client.engine().pause().until() > SteadyMs(begun.0 + 100_000), "its clients may still write");
            answered(client.engine(), answer);
            let (engine, until) = (client.engine(), client.engine().pause().until());
            assert_eq!(until <= SteadyMs(engine.steady_now().0 + PAUSE_AFTER), is_limited, "{mode} {answer:?}");
            assert!(engine.pause().is_called());
        }
    }

    #[test]
    fn a_replica_takes_over_when_its_primary_wants_it_to() {
        let mut client = Client::new();
        client.is("REPLICAOF host 1", "+OK");
        let id = client.engine().replication().history().id;
        let line = format!("PSYNC {id} 1 failover");
        let mut args: Args<'_> = line.split(' ').map(str::as_bytes).collect();
        let (engine, now, mut reply) = (Arc::clone(client.shared_engine()), client.now(), Reply::default());
        let prepared = dispatch::prepare(&engine, &args);
        let flow = dispatch::run(&engine, client.session(), &prepared, &mut args, now, &mut reply);
        assert!(matches!(flow, Flow::Replicate) && reply.is_empty());
        let status = client.engine().replication();
        assert!(!status.is_replica() && status.history().second == id);
    }

    #[test]
    fn a_replica_takes_over_only_when_it_has_what_was_sent() {
        let mut client = Client::new();
        client.is("REPLICAOF host 1", "+OK");
        let engine = Arc::clone(client.shared_engine());
        let status = engine.replication();
        status.update_link(|link| link.state = LinkState::Connected);
        let line = format!("PSYNC {} 101 failover", status.history().id);
        let ask = |client: &mut Client| {
            let mut args: Args<'_> = line.split(' ').map(str::as_bytes).collect();
            let (now, prepared) = (client.now(), dispatch::prepare(&engine, &args));
            dispatch::run(&engine, client.session(), &prepared, &mut args, now, &mut Reply::default())
        };
        status.set_offset(99);
        assert!(matches!(ask(&mut client), Flow::RetryLater) && status.is_replica());
        status.set_offset(100);
        assert!(matches!(ask(&mut client), Flow::Replicate) && !status.is_replica());
    }
}
