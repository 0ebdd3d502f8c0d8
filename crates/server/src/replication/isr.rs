//! Acknowledged writes in the thread that serves replicas: the state machine gets replicas' acknowledgements, its words
//! go into the stream, and workers get the length up to which the log is held.
//!
//! ```text
//!   REPLCONF ACK -> in-sync set, lease -> PING "in-sync ..." and GETACK into the stream
//!                                      -> lengths of the log -> workers that hold replies
//! ```

use crate::replication::member_file;
use crate::replication::primary_thread::PrimaryThread;
use crate::replication::replica::Replica;
use crate::system::log;
use crate::workers::mailbox::WorkerMessage;
use crate::workers::replication_messages::ReplicationMessage;
use crate::workers::shared::Shared;
use engine::config::{Config, Directive};
use engine::keyspace::record::LogUser;
use engine::propagation::log_reader::LogReader;
use engine::status::acknowledgement::{MissingMember, REPLICAS_MAX};
use engine::time::SteadyMs;
use replication::ack_gate::{AckSettings, Gate, Missing};
use replication::failover_state::LACKS_WRITES;
use replication::in_sync_member::CAPABILITY;
use replication::in_sync_set::{MemberId, Term};
use replication::link_event::Position;
use replication::quorum_ack::AcknowledgingPrimary;
use replication::replica_handshake::Acks;
use replication::replid::ReplicationId;
use std::collections::BTreeMap;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst, fence};

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;
/// Requests for a lease in its time, and leases of silence that end a membership.
const ASKS: u64 = 4;
const SILENCE: u64 = 2;

/// State of acknowledged writes in the thread.
#[derive(Default)]
pub(super) struct Acknowledging {
    pub primary: Option<AcknowledgingPrimary>,
    /// The stream's length when replicas were asked last, and the time.
    asked_at: u64,
    asked_time: u64,
    /// Epoch that is remembered.
    told: Option<(Term, u64, Gate, bool)>,
    /// Time of the next attempt to write the record, if it could not be written.
    retried_at: u64,
    /// Time of the last look for missing members, and the time when this server began to lead.
    looked: u64,
    begun: u64,
    /// Addresses of members, also from before this server led last.
    addresses: BTreeMap<MemberId, String>,
    /// Absent members that the log names already, and whether other replicas were there then.
    logged: (Vec<MemberId>, bool),
    logged_untold: Vec<MemberId>,
}

impl Acknowledging {
    /// Forgets all but the members' addresses.
    fn reset(&mut self) {
        *self = Acknowledging { addresses: std::mem::take(&mut self.addresses), ..Acknowledging::default() };
    }
}

/// Addresses that are remembered, and milliseconds between two looks at members.
const ADDRESSES_MAX: usize = 256;
const LOOK: u64 = 100;

/// Logs changes from now on, if the server leads: replies that wait for replicas wait for places of the log, and a
/// server that remembers a set leads in a term of its own before replicas follow.
pub fn begin_logging(shared: &Shared) {
    let engine = &*shared.engine;
    let status = engine.replication();
    let remembers = status.acknowledgement.membership().term != Term::NONE;
    let is_needed = (status.acknowledgement.is_asked() || remembers) && !status.is_replica();
    if is_needed && !engine.is_logged_for(LogUser::Replicas) {
        shared.replication.post(ReplicationMessage::Acknowledge { reader: engine.begin_logging(LogUser::Replicas) });
    }
}

fn settings(config: &Config) -> AckSettings {
    let lease = config.int(Directive::ACKNOWLEDGE_LEASE).unsigned_abs();
    let replicas = config.int(Directive::MIN_REPLICAS_TO_ACKNOWLEDGE).clamp(1, REPLICAS_MAX as i64) as usize;
    AckSettings { replicas, lease, silence: SILENCE * lease }
}

impl PrimaryThread {
    /// Returns the time of the clock that does not go back, in milliseconds.
    pub(super) fn monotonic(&self) -> u64 {
        self.shared.engine.host().nanos().0 / MILLISECOND
    }

    /// Handles a client's request for acknowledged writes: the stream begins with this, unless it has begun.
    pub(super) fn begin_acknowledging(&mut self, reader: LogReader) {
        if self.reader.is_none() && !self.shared.engine.replication().is_replica() {
            if self.backlog.is_none() {
                self.begin_backlog();
            }
            self.begin_reading(reader);
        }
    }

    /// Makes the server lead from now on.
    pub(super) fn promote(&mut self) {
        self.shared.engine.replication().acknowledgement.set_promoted();
        self.acknowledging.reset();
    }

    /// Returns whether replies wait, or may, for places of the log, which must therefore continue.
    pub(super) fn keeps_log(&self) -> bool {
        let acknowledgement = &self.shared.engine.replication().acknowledgement;
        acknowledgement.is_asked() || acknowledgement.membership().term != Term::NONE
    }

    /// Returns the server's position when it was promoted, or the present one if it never was.
    fn promoted_at(&self, end: u64) -> Position {
        let history = self.history();
        match u64::try_from(history.second_offset - 1) {
            Ok(offset) if history.second != ReplicationId::NONE => Position { id: history.second, offset },
            _ => Position { id: history.id, offset: end },
        }
    }

    /// Admits a replica by its introduction and the history that it asks for. An error gives the reason why it may not
    /// follow.
    pub(super) fn admit_follower(&mut self, token: usize, asked: Option<&[u8]>) -> Result<(), &'static str> {
        let Some(said) = self.replicas[token].handshake.introduction.clone() else { return Ok(()) };
        let history = self.history();
        let end = self.backlog.as_ref().map_or_else(|| self.shared.engine.replication().offset(), |it| it.end());
        let has_all = said.is_within(&history, end, asked.and_then(ReplicationId::parse));
        self.begin_leading(end);
        let may = match &mut self.acknowledging.primary {
            Some(primary) => primary.may_follow(&said, has_all, Position { id: history.id, offset: end }),
            None => has_all || said.term == Term::NONE,
        };
        self.remember();
        if may { Ok(()) } else { Err(LACKS_WRITES) }
    }

    /// Returns the server's term as a replica gets it, behind the history's name.
    pub(super) fn term_word(&self, replica: &Replica) -> String {
        let term = self.shared.engine.replication().acknowledgement.membership().term;
        match replica.handshake.introduction {
            Some(_) if term != Term::NONE => format!(" {CAPABILITY}{term}"),
            _ => String::new(),
        }
    }

    /// Records that a replica has come or gone, or has acknowledged.
    pub(super) fn note_follower(&mut self, token: usize, change: FollowerChange) {
        let now = self.monotonic();
        let Some(replica) = self.replicas.get(token) else { return };
        let acknowledging = &mut self.acknowledging;
        let (Some(primary), Some(said)) = (&mut acknowledging.primary, &replica.handshake.introduction) else {
            return;
        };
        match change {
            FollowerChange::Joined => {
                let addresses = &mut acknowledging.addresses;
                if addresses.len() < ADDRESSES_MAX || addresses.contains_key(&said.id) {
                    let address = format!("{}:{}", replica.shown.ip, replica.shown.port);
                    addresses.extend(said.past.heir_of.iter().chain([&said.id]).map(|id| (*id, address.clone())));
                }
                primary.joined(said);
            }
            FollowerChange::Left => primary.left(said.id, now),
            FollowerChange::Acknowledged => primary.acknowledged(said.id, replica.acks, now),
        }
    }

    /// Returns whether the server continues with its data, although members may have more. The configuration allows it,
    /// or neither it nor a client asks for acknowledged writes, and the server leads since it started.
    fn may_lose_acknowledged(&self) -> bool {
        let status = &self.shared.engine.replication().acknowledgement;
        self.shared.engine.config().snapshot().flag(Directive::REPLICA_MAY_LOSE_ACKNOWLEDGED)
            || !status.is_asked() && !status.was_promoted()
    }

    fn begin_leading(&mut self, end: u64) {
        let status = self.shared.engine.replication();
        if status.is_replica() || self.reader.is_none() {
            if self.acknowledging.primary.take().is_some() {
                self.acknowledging.reset();
                status.acknowledgement.set_untold(Vec::new());
            }
            return;
        }
        let is_forced = self.may_lose_acknowledged();
        let mut known = status.acknowledgement.membership();
        match &self.acknowledging.primary {
            Some(primary) if is_forced && !primary.is_confirmed() => known.term = primary.set().term,
            Some(_) => return,
            None => {}
        }
        if !self.keeps_log() {
            return;
        }
        let position = self.promoted_at(end);
        let primary = match is_forced {
            true => AcknowledgingPrimary::forced(&known, position),
            false => AcknowledgingPrimary::new(&known, position),
        };
        self.acknowledging.primary = Some(primary);
        let online = |(_, replica): &(usize, &Replica)| replica.shown.is_online();
        let tokens: Vec<usize> = self.replicas.iter().filter(online).map(|(token, _)| token).collect();
        tokens.into_iter().for_each(|token| self.note_follower(token, FollowerChange::Joined));
    }

    /// Does due work; `before`: the time at which the stream was shorter.
    pub(super) fn acknowledge(&mut self, config: &Config, before: u64) {
        let end = self.backlog.as_ref().map_or(0, |backlog| backlog.end());
        self.begin_leading(end);
        let (settings, now) = (settings(config), self.monotonic());
        let Some(mut primary) = self.acknowledging.primary.take() else {
            if self.shared.engine.replication().acknowledgement.close() {
                self.wake_holders();
            }
            return;
        };
        primary.tick(&settings, now);
        let status = &self.shared.engine.replication().acknowledgement;
        let is_quiet = self.is_to_end() || status.awaits_predecessor(SteadyMs(now.cast_signed()));
        while let Some(word) = primary.next_word().filter(|_| !is_quiet) {
            let Some(end) = self.add(&[b"PING", word.as_bytes()]) else { break };
            primary.appended(end);
            primary.tick(&settings, now);
        }
        self.ask_for_acks(&settings, now);
        if let Some(backlog) = &self.backlog {
            primary.note_sent(backlog.end(), before);
        }
        self.acknowledging.primary = Some(primary);
        let is_news = self.remember() && self.tell_held(&settings, now);
        self.look_for_members(&settings, now);
        if is_news {
            self.wake_holders();
        }
    }

    /// Asks replicas for acknowledgements, when there is something new, or a lease is to be had.
    fn ask_for_acks(&mut self, settings: &AckSettings, now: u64) {
        let asked = &self.acknowledging;
        let end = self.backlog.as_ref().map_or(0, |backlog| backlog.end());
        let is_due = end > asked.asked_at || now >= asked.asked_time + settings.lease / ASKS;
        let is_asked = self.shared.engine.replication().acknowledgement.is_asked() && !self.is_to_end();
        if is_due && is_asked && self.replicas.iter().any(|(_, replica)| replica.shown.is_online()) {
            self.acknowledging.asked_time = now;
            self.acknowledging.asked_at = self.add(&[b"REPLCONF", b"GETACK", b"*"]).unwrap_or(end);
        }
    }

    /// Publishes to workers the length up to which the log is held. Returns whether it has changed.
    fn tell_held(&self, settings: &AckSettings, now: u64) -> bool {
        let Some(primary) = &self.acknowledging.primary else { return false };
        let status = &self.shared.engine.replication().acknowledgement;
        let others: Vec<Acks> =
            self.replicas.iter().filter(|(_, it)| is_other(it)).map(|(_, replica)| replica.acks).collect();
        let mut is_news = status.set_leased_until(primary.leased_until(settings), now);
        for durable in [false, true] {
            for replicas in 1..=REPLICAS_MAX {
                let held = primary.held(replicas, durable, &others).map(|stream| self.marks.log_at(stream));
                is_news |= status.set_held(replicas, durable, held);
                if held.is_none() {
                    // More replicas cannot have more.
                    (replicas + 1..=REPLICAS_MAX).for_each(|more| is_news |= status.set_held(more, durable, None));
                    break;
                }
            }
        }
        is_news
    }

    /// Remembers the membership with which the server would continue if it followed another one. Returns whether it is
    /// on the disk: nothing is acknowledged before it is.
    fn remember(&mut self) -> bool {
        let now = self.monotonic();
        let Some(primary) = &self.acknowledging.primary else { return true };
        let status = self.shared.engine.replication();
        status.acknowledgement.set_handed_over(primary.is_handed_over());
        let told = (primary.set().term, primary.set().epoch, primary.gate(), primary.is_heard_of());
        if self.acknowledging.told == Some(told) {
            self.acknowledging.retried_at = 0;
            return true;
        }
        status.acknowledgement.update_membership(|membership| {
            // A replica gets the membership from its primary.
            if !status.is_replica() {
                *membership = primary.membership();
            }
        });
        let acknowledging = &mut self.acknowledging;
        if now < acknowledging.retried_at {
            return false;
        }
        acknowledging.looked = 0;
        if let Err(error) = member_file::persist(&self.shared.engine) {
            status.acknowledgement.close();
            if std::mem::replace(&mut acknowledging.retried_at, now + LOOK) == 0 {
                log::warning(format_args!(
                    "The record of the in-sync set cannot be written: {error}. Nothing is acknowledged until it is."
                ));
            }
            return false;
        }
        (acknowledging.told, acknowledging.retried_at) = (Some(told), 0);
        true
    }

    /// Strikes off members that an operator does not wait for, and shows which ones are missing.
    fn look_for_members(&mut self, settings: &AckSettings, now: u64) {
        let Acknowledging {
            primary: Some(primary), begun, looked, addresses, logged, logged_untold, retried_at, ..
        } = &mut self.acknowledging
        else {
            return;
        };
        let status = &self.shared.engine.replication().acknowledgement;
        for id in status.take_struck() {
            match primary.strike(id, settings, now) {
                Ok(()) => log::warning(format_args!(
                    "In-sync member {id} is struck off. Acknowledged writes are lost if it is promoted some day."
                )),
                Err(error) => log::warning(format_args!("In-sync member {id} is not struck off: {error:?}")),
            }
        }
        if *begun == 0 {
            *begun = now;
        }
        if now < *looked + LOOK {
            return;
        }
        *looked = now;
        let shown = |Missing { id, since }: Missing| MissingMember {
            id,
            address: addresses.get(&id).cloned(),
            since: since.unwrap_or(*begun),
        };
        let missing: Vec<MissingMember> = primary.missing(settings, now).into_iter().map(shown).collect();
        // Members learn of a hand-over within moments.
        let is_late = now >= *begun + settings.silence;
        let untold = primary.untold(settings, now).into_iter().filter(|_| is_late);
        let untold: Vec<MissingMember> = untold.map(shown).collect();
        let others = self.replicas.iter().filter(|(_, it)| is_other(it)).count();
        let state = match primary.gate() {
            Gate::Unconfirmed => "unconfirmed",
            _ if !status.is_asked() => "off",
            _ if *retried_at != 0 => "blocked",
            Gate::Confirmed(_) => "waiting",
            Gate::Open if !missing.is_empty() || !primary.has_replicas(settings, others, now) => "blocked",
            Gate::Open => "open",
        };
        let ids = |members: &[MissingMember]| members.iter().map(|it| it.id).collect::<Vec<_>>();
        // A replica that has lost its disk is back by another name.
        let has_others = !missing.is_empty() && primary.has_replicas(settings, others, now);
        let absent = (ids(&missing), has_others);
        if status.state() != state || !missing.is_empty() && *logged != absent {
            log::notice(format_args!("Acknowledged writes: {state}{}", waits_for(&missing, state, has_others)));
            status.set_state(state);
        }
        *logged = absent;
        if !untold.is_empty() && *logged_untold != ids(&untold) {
            log::warning(format_args!("{}", untold_line(&untold)));
        }
        *logged_untold = ids(&untold);
        status.set_untold(untold);
        status.set_missing(missing);
    }

    fn wake_holders(&self) {
        fence(SeqCst);
        let shared = &self.shared;
        let holders = shared.running().filter(|worker| shared.slot(*worker).awaits_durability.load(Relaxed));
        holders.for_each(|worker| shared.post(worker, WorkerMessage::Durable));
    }
}

/// Returns the names of members with their addresses.
fn names(members: &[MissingMember]) -> String {
    let name = |it: &MissingMember| format!("{} ({})", it.id, it.address.as_deref().unwrap_or("address unknown"));
    members.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Returns the orders that strike members off, and the risk.
fn strike_orders(members: &[MissingMember]) -> String {
    let orders: Vec<String> = members.iter().map(|it| format!("CLIENT STRIKE {}", it.id)).collect();
    format!(
        "{} on this server: if a member is promoted after that, all writes acknowledged since are lost",
        orders.join(", ")
    )
}

/// Words about a server that waits for no particular member.
const NO_KNOWLEDGE: &str = ", as another server of this group knows of acknowledged writes that are not in this \
    server's files: these were lost, restored from a backup, or begun anew. Promote a server with these writes. To give \
    them up and keep this server's data, end all servers, move the data and the in-sync.record of the others aside, and \
    the in-sync.record of this one, and start this one first";

/// Returns the log's words about the members that are waited for, and the orders that an operator can give.
fn waits_for(missing: &[MissingMember], state: &str, has_others: bool) -> String {
    if missing.iter().any(|it| it.id == MemberId::NONE) {
        return NO_KNOWLEDGE.to_owned();
    }
    let back = if has_others {
        ". The replicas that are online are none of these: a server that has lost its data is back by another name"
    } else {
        ""
    };
    let order = match state {
        _ if missing.is_empty() => return String::new(),
        // A server that may lack a member's writes must not run without the member.
        "unconfirmed" => {
            "Start these members and let them follow this server, or promote one of them: it may hold acknowledged \
             writes that this server lacks. To give these up, send CONFIG SET replica-may-lose-acknowledged yes"
                .to_owned()
        }
        _ => format!(
            "Start these members, or, if they will never return with their data, send {}",
            strike_orders(missing)
        ),
    };
    format!(", waiting for {}{back}. {order}", names(missing))
}

/// Returns the log's words about members that have not learned of a hand-over.
fn untold_line(untold: &[MissingMember]) -> String {
    format!(
        "In-sync members have not followed this server since it was handed its role: {}. They stay in the set, and a \
         server that is promoted after this one may have to wait for them. Let them follow this server, or, if they will \
         never return, send {}",
        names(untold),
        strike_orders(untold)
    )
}

/// Returns whether a replica acknowledges without knowing the in-sync set.
fn is_other(replica: &Replica) -> bool {
    replica.handshake.introduction.is_none() && replica.acknowledges && replica.shown.is_online()
}

/// Change of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowerChange {
    /// The replica gets the stream.
    Joined,
    /// The replica gets the stream no more.
    Left,
    /// The replica has acknowledged.
    Acknowledged,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_knows_no_member_waits_for_none_by_name() {
        let unknown = [MissingMember { id: MemberId::NONE, address: None, since: 0 }];
        let words = waits_for(&unknown, "unconfirmed", false);
        assert!(!words.contains("0000000") && words.contains("another server of this group"), "{words}");
    }
}
