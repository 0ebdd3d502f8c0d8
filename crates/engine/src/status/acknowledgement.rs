//! The state of acknowledged writes: the clients that ask for them, the length up to which replicas hold the change
//! log, and this server's memory of the in-sync set. The thread that serves replicas and the one that follows a primary
//! write it; workers read whether a reply may go.

use crate::locks::sync::Mutex;
use crate::time::SteadyMs;
use replication::in_sync_member::Membership;
use replication::in_sync_set::MemberId;
use replication::link_event::Position;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Replicas that a client may wait for.
pub const REPLICAS_MAX: usize = 16;

/// The end of the append-only file of a server that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// Its place in the history.
    pub position: Position,
    /// The database that the history has selected there.
    pub db: u32,
    /// The change log's length there.
    pub length: u64,
}

/// Replicas that a reply waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckNeed {
    /// So many replicas have the changes that the reply reports; 0: it does not wait.
    pub replicas: u8,
    /// Whether they have them on their disks.
    pub durable: bool,
}

impl AckNeed {
    /// Returns the need of both.
    pub fn and(self, other: AckNeed) -> AckNeed {
        AckNeed { replicas: self.replicas.max(other.replicas), durable: self.durable || other.durable }
    }
}

/// The bit for the configuration, above the number of clients.
const CONFIGURED: u64 = 1 << 63;

/// A client that asks for acknowledged writes.
#[derive(Debug)]
pub struct AskingClient(Arc<AtomicU64>);

impl Drop for AskingClient {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Lengths of the change log that at least so many replicas have, for each number.
type HeldLengths = [AtomicU64; REPLICAS_MAX + 1];

/// See the module's documentation.
pub struct Acknowledgement {
    /// Number of clients that ask, and a bit that is set while the configuration asks.
    asking: Arc<AtomicU64>,
    /// Lengths in memory, and on disks; each plus one, 0: nothing is acknowledged.
    held: [HeldLengths; 2],
    /// Moment, by the host's clock in milliseconds, up to which no other server can acknowledge.
    leased_until: AtomicI64,
    /// The server's memory of the in-sync set.
    membership: Mutex<Membership>,
    /// INFO's word for whether the server acknowledges.
    state: Mutex<&'static str>,
    /// Whether the server was promoted since it started.
    was_promoted: AtomicBool,
    /// Whether another primary has handed its lead over to this server.
    is_handed_over: AtomicBool,
    /// Time until which a predecessor that hands its lead over is waited for; in milliseconds of the steady clock.
    predecessor_until: AtomicI64,
    /// Whether the last save is made: nothing is applied, asked or acknowledged any more.
    is_ending: AtomicBool,
    /// The place of the history at which the last snapshot for the disk was begun.
    saved_at: Mutex<Option<Position>>,
    /// The end of the append-only file, if nothing is to come after it.
    log_end: Mutex<Option<LogEnd>>,
    /// The record as it is on the disk.
    pub record: Mutex<String>,
    /// Members without which nothing is acknowledged.
    missing: Mutex<Vec<MissingMember>>,
    /// Members for which no reply waits now, but which the next server that is promoted may need.
    untold: Mutex<Vec<MissingMember>>,
    /// Members that an operator has struck off, before the primary's thread knows.
    struck: Mutex<Vec<MemberId>>,
}

/// A member that is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingMember {
    /// Its name.
    pub id: MemberId,
    /// Its last address, if it has followed this process.
    pub address: Option<String>,
    /// The end of its link by the clock that does not go back, in milliseconds.
    pub since: u64,
}

impl Acknowledgement {
    /// Makes the state of a server that goes by this name in sets.
    pub fn new(id: MemberId) -> Acknowledgement {
        Acknowledgement {
            asking: Arc::default(),
            held: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            leased_until: AtomicI64::new(0),
            membership: Mutex::new(Membership::new(id)),
            state: Mutex::new("off"),
            was_promoted: AtomicBool::new(false),
            is_handed_over: AtomicBool::new(false),
            predecessor_until: AtomicI64::new(0),
            is_ending: AtomicBool::new(false),
            saved_at: Mutex::new(None),
            log_end: Mutex::new(None),
            record: Mutex::new(String::new()),
            missing: Mutex::new(Vec::new()),
            untold: Mutex::new(Vec::new()),
            struck: Mutex::new(Vec::new()),
        }
    }

    /// Whether a client asks for acknowledged writes, or the configuration.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.asking.load(Relaxed) != 0
    }

    /// Makes the configuration ask, from about now on. Returns whether nobody has asked before.
    pub fn ask(&self) -> bool {
        self.asking.fetch_or(CONFIGURED, SeqCst) == 0
    }

    /// Makes the configuration ask no more.
    pub fn cease_asking(&self) {
        self.asking.fetch_and(!CONFIGURED, SeqCst);
    }

    /// Makes a client ask for as long as the result lives. Returns whether nobody has asked before, too.
    pub fn ask_for_client(&self) -> (AskingClient, bool) {
        let is_new = self.asking.fetch_add(1, SeqCst) == 0;
        (AskingClient(Arc::clone(&self.asking)), is_new)
    }

    /// Whether so many replicas have the log up to here.
    #[inline]
    pub fn is_held(&self, need: AckNeed, log: u64) -> bool {
        let held = &self.held[usize::from(need.durable)];
        need.replicas == 0 || held.get(usize::from(need.replicas)).is_some_and(|held| held.load(SeqCst) > log)
    }

    /// Records that so many replicas have the log up to here; None: nothing is acknowledged. True if that is new.
    pub fn set_held(&self, replicas: usize, durable: bool, log: Option<u64>) -> bool {
        let value = log.map_or(0, |log| log.saturating_add(1));
        self.held[usize::from(durable)][replicas].swap(value, SeqCst) != value
    }

    /// Whether no other server can have acknowledged by now.
    pub fn is_leased(&self, now_ms: u64) -> bool {
        (now_ms as i64) < self.leased_until.load(SeqCst)
    }

    /// Sets the moment up to which no other server can acknowledge. True if the last one had passed.
    pub fn set_leased_until(&self, until_ms: u64, now_ms: u64) -> bool {
        let until = i64::try_from(until_ms).unwrap_or(i64::MAX);
        self.leased_until.swap(until, SeqCst) <= now_ms as i64 && until > now_ms as i64
    }

    /// Stops acknowledging. True if anything was acknowledged.
    pub fn close(&self) -> bool {
        self.leased_until.store(0, SeqCst);
        self.held.iter().flatten().fold(false, |any, held| any | (held.swap(0, SeqCst) != 0))
    }

    /// Returns the server's memory of the in-sync set.
    pub fn membership(&self) -> Membership {
        self.membership.lock().clone()
    }

    /// Changes the server's memory of the in-sync set.
    pub fn update_membership<R>(&self, change: impl FnOnce(&mut Membership) -> R) -> R {
        change(&mut self.membership.lock())
    }

    /// Whether the server is to be promoted when its primary is gone.
    pub fn is_in_sync(&self) -> bool {
        self.membership.lock().is_in_sync()
    }

    /// Returns the position up to which the server may hold acknowledged writes, if it has more than that.
    pub fn claim(&self) -> Option<Position> {
        self.membership.lock().claim
    }

    /// Whether the server is a member of a set, or gave up its lead and has met no later leader.
    pub fn has_all_acknowledged(&self) -> bool {
        let membership = self.membership.lock();
        membership.set.is_some() && membership.is_in_sync()
    }

    /// Whether the server was promoted since it started.
    pub fn was_promoted(&self) -> bool {
        self.was_promoted.load(Relaxed)
    }

    /// Records that the server is promoted.
    pub fn set_promoted(&self) {
        self.was_promoted.store(true, Relaxed);
    }

    /// Waits until then for a predecessor that hands its lead over: its introduction belongs to the first set.
    pub fn await_predecessor(&self, until: SteadyMs) {
        self.predecessor_until.store(until.0, Relaxed);
    }

    /// Returns whether a predecessor is waited for.
    pub fn awaits_predecessor(&self, now: SteadyMs) -> bool {
        now.0 < self.predecessor_until.load(Relaxed)
    }

    /// Whether another primary has handed its lead over to this server, which leads since.
    pub fn is_handed_over(&self) -> bool {
        self.is_handed_over.load(Relaxed)
    }

    /// Sets whether another primary has handed its lead over to this server.
    pub fn set_handed_over(&self, is_handed_over: bool) {
        self.is_handed_over.store(is_handed_over, Relaxed);
    }

    /// Whether the last save is made.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(SeqCst)
    }

    /// Records that the last save begins, or has failed.
    pub fn set_ending(&self, is_ending: bool) {
        self.is_ending.store(is_ending, SeqCst);
        self.note_saved(None);
        self.note_log_end(None);
    }

    /// Records that a snapshot for the disk begins at this place; None: the data on the disk are of no known place.
    pub fn note_saved(&self, position: Option<Position>) {
        *self.saved_at.lock() = position;
    }

    /// Returns the place of the last save's data, if the server ends.
    pub fn saved_at(&self) -> Option<Position> {
        if self.is_ending() { *self.saved_at.lock() } else { None }
    }

    /// Records that the append-only file has all of the data, and ends here; None: it may lack some, or more may come.
    pub fn note_log_end(&self, end: Option<LogEnd>) {
        *self.log_end.lock() = end;
    }

    /// Returns the end of the append-only file, if the server ends.
    pub fn log_end(&self) -> Option<LogEnd> {
        if self.is_ending() { *self.log_end.lock() } else { None }
    }

    /// Returns the members without which nothing is acknowledged.
    pub fn missing(&self) -> Vec<MissingMember> {
        self.missing.lock().clone()
    }

    /// Sets the missing members.
    pub fn set_missing(&self, missing: Vec<MissingMember>) {
        *self.missing.lock() = missing;
    }

    /// Returns absent members for which no reply waits, but which the next server that is promoted may need.
    pub fn untold(&self) -> Vec<MissingMember> {
        self.untold.lock().clone()
    }

    /// Sets these members.
    pub fn set_untold(&self, untold: Vec<MissingMember>) {
        *self.untold.lock() = untold;
    }

    /// Strikes an absent member off; false: no such member is absent.
    pub fn strike(&self, id: MemberId) -> bool {
        let is_absent = [&self.missing, &self.untold].iter().any(|list| list.lock().iter().any(|it| it.id == id));
        if is_absent {
            self.struck.lock().push(id);
        }
        is_absent
    }

    /// Takes the members that were struck off.
    pub fn take_struck(&self) -> Vec<MemberId> {
        std::mem::take(&mut *self.struck.lock())
    }

    /// Returns INFO's word for whether the server acknowledges.
    pub fn state(&self) -> &'static str {
        *self.state.lock()
    }

    /// Sets INFO's word.
    pub fn set_state(&self, state: &'static str) {
        *self.state.lock() = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_ask_for_as_long_as_they_are_there_and_the_configuration_until_it_says_no() {
        let status = Acknowledgement::new(MemberId::NONE);
        let (first, is_new) = status.ask_for_client();
        let (second, is_new_again) = status.ask_for_client();
        assert!(is_new && !is_new_again);
        drop(first);
        assert!(status.is_asked());
        drop(second);
        assert!(!status.is_asked() && status.ask() && !status.ask() && status.is_asked());
        let (client, _) = status.ask_for_client();
        status.cease_asking();
        assert!(status.is_asked());
        drop(client);
        status.cease_asking();
        assert!(!status.is_asked() && status.ask());
    }

    #[test]
    fn nothing_is_held_before_that_is_said() {
        let status = Acknowledgement::new(MemberId::NONE);
        let need = AckNeed { replicas: 2, durable: false };
        assert!(!status.is_held(need, 0) && status.is_held(AckNeed::default(), 100));
        assert!(status.set_held(2, false, Some(10)) && !status.set_held(2, false, Some(10)));
        assert!(status.is_held(need, 10) && !status.is_held(need, 11));
        assert!(!status.is_held(AckNeed { durable: true, ..need }, 0));
        assert!(!status.is_held(AckNeed { replicas: u8::MAX, ..need }, 0));
        assert!(status.close() && !status.is_held(need, 0) && !status.close());
    }

    #[test]
    fn a_lease_that_had_ended_and_has_not_is_news() {
        let status = Acknowledgement::new(MemberId::NONE);
        assert!(!status.is_leased(0) && status.set_leased_until(100, 50) && status.is_leased(99));
        assert!(!status.set_leased_until(150, 99) && !status.is_leased(150));
        assert!(status.set_leased_until(u64::MAX, 200) && status.is_leased(1 << 40));
    }
}
