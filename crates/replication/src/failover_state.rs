//! A primary that hands its role to one of its replicas (FAILOVER), as plain data.
//!
//! ```text
//!   none - begin -> waiting for sync -+- a replica has all -------+-> in progress -+- it takes over -> none, a replica
//!     ^                               +- too late, but by force --+                +- it refuses ----> none, a primary
//!     +- too late, or taken back -----+
//! ```
//!
//! While the failover waits, no client writes, so a replica can get all data. In progress the old primary follows the
//! replica already, and asks it to take over: until the replica has, there are two replicas and no primary, never two
//! primaries.
//!
//! A connection that breaks between the request and its answer leaves open whether the replica has taken over. The old
//! primary asks again: a replica that calls itself a primary then has.

use std::fmt;

/// Progress of a failover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailoverState {
    /// No failover.
    #[default]
    None,
    /// A replica gets the data that it lacks.
    WaitingForSync,
    /// The replica is asked to take over.
    InProgress,
}

impl FailoverState {
    /// Returns the state's name in INFO.
    pub fn as_str(self) -> &'static str {
        match self {
            FailoverState::None => "no-failover",
            FailoverState::WaitingForSync => "waiting-for-sync",
            FailoverState::InProgress => "failover-in-progress",
        }
    }
}

/// A replica, by its known address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host name or address.
    pub host: Vec<u8>,
    /// Port.
    pub port: u16,
}

impl Target {
    /// Returns whether both are one server.
    pub fn is(&self, other: &Target) -> bool {
        self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", String::from_utf8_lossy(&self.host), self.port)
    }
}

/// Arguments of FAILOVER.
#[derive(Clone, Debug, Default)]
pub struct FailoverRequest {
    /// Replica that is to take over; None: the first that has all data.
    pub target: Option<Target>,
    /// Unix time in milliseconds; None: the failover waits without a limit.
    pub deadline: Option<i64>,
    /// Whether the target is to take over at the deadline with the data that it has.
    pub is_forced: bool,
}

/// Next step of a failover that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Wait.
    Wait,
    /// Ask this replica to take over.
    HandOver {
        /// Replica that is asked.
        target: Target,
        /// Whether the deadline has passed: the replica may lack data.
        is_late: bool,
    },
    /// Give up: no replica has got all data in time.
    GiveUp,
}

/// Result of the replica's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The replica is the primary.
    TakenOver,
    /// The replica is not the primary.
    Refused,
}

/// Beginning of a primary's refusal of a replica's command.
const IS_PRIMARY: &[u8] = b"-ERR PSYNC FAILOVER can't be sent to a master.";
/// Reason of a refusal by a server that leads, which any replica may get: it is to come again.
pub const LACKS_WRITES: &str = "The replica may hold acknowledged writes that this server lacks";
/// Beginning of another such reason.
pub const NO_SNAPSHOT: &str = "There is no snapshot";

/// Returns whether a server that refuses a replica like this leads: the target has taken over. Others that say "come
/// again" have not, for all that is known.
fn comes_from_a_leader(refusal: &[u8]) -> bool {
    let reason = refusal.strip_prefix(b"-NOMASTERLINK ").unwrap_or_default();
    [LACKS_WRITES, NO_SNAPSHOT].iter().any(|known| reason.starts_with(known.as_bytes()))
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Failover {
    number: u64,
    state: FailoverState,
    request: FailoverRequest,
    /// Whether the target is asked over a connection that stands.
    is_asked: bool,
    /// Whether the target was asked, and its answer was lost.
    is_open: bool,
    /// Whether writes are held back for the failover.
    holds_writes: bool,
}

impl Failover {
    /// Returns the number of failovers that have begun, which identifies the present one.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the failover's state.
    pub fn state(&self) -> FailoverState {
        self.state
    }

    /// Returns the failover's target, if it is known.
    pub fn target(&self) -> Option<&Target> {
        self.request.target.as_ref()
    }

    /// Begins a failover; returns false if another one is in progress.
    #[must_use]
    pub fn begin(&mut self, request: FailoverRequest) -> bool {
        if self.state != FailoverState::None {
            return false;
        }
        let number = self.number + 1;
        let state = FailoverState::WaitingForSync;
        *self = Failover { number, state, request, holds_writes: true, ..Failover::default() };
        true
    }

    /// Returns the next step. `is_quiet`: no client writes any more, and all writes are in the stream; only then can a
    /// replica have all data. `synced`: the replicas that have, in the order in which they connected.
    pub fn decide(&mut self, now: i64, is_quiet: bool, mut synced: impl Iterator<Item = Target>) -> Decision {
        if self.state != FailoverState::WaitingForSync {
            return Decision::Wait;
        }
        let is_late = self.request.deadline.is_some_and(|deadline| now >= deadline);
        if is_late && !self.request.is_forced {
            return Decision::GiveUp;
        }
        if !is_quiet {
            return Decision::Wait;
        }
        let target = match self.request.target.take() {
            Some(target) if is_late => Some(target),
            Some(target) if synced.any(|replica| replica.is(&target)) => Some(target),
            Some(target) => {
                self.request.target = Some(target);
                None
            }
            None => synced.next(),
        };
        let Some(target) = target else { return Decision::Wait };
        self.request.target = Some(target.clone());
        self.state = FailoverState::InProgress;
        Decision::HandOver { target, is_late }
    }

    /// Records that the target is asked over a new connection. Returns whether it is to be.
    #[must_use]
    pub fn ask(&mut self) -> bool {
        self.is_asked = self.state == FailoverState::InProgress;
        self.is_asked
    }

    /// Returns whether the failover may be aborted. A target that is asked may be taking over: the answer is waited
    /// for, as long as the connection stands.
    pub fn may_abort(&self) -> bool {
        !self.is_asked
    }

    /// Records that the connection broke after the target was asked and before it has answered.
    pub fn lose_answer(&mut self) {
        self.is_asked = false;
        self.is_open = self.state == FailoverState::InProgress;
    }

    /// Stops holding writes back. Returns whether they were held back.
    #[must_use]
    pub fn let_writers_go(&mut self) -> bool {
        std::mem::take(&mut self.holds_writes)
    }

    /// Takes the target's answer; `refusal`: the error, if it was one.
    pub fn take_answer(&mut self, refusal: Option<&[u8]>) -> Outcome {
        match refusal {
            None => Outcome::TakenOver,
            Some(text) if self.is_open && text.starts_with(IS_PRIMARY) => Outcome::TakenOver,
            Some(text) if comes_from_a_leader(text) => Outcome::TakenOver,
            Some(_) => Outcome::Refused,
        }
    }

    /// Ends the failover, successful or not.
    pub fn end(&mut self) {
        *self = Failover { number: self.number, ..Failover::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failover_is_not_aborted_while_the_target_may_be_taking_over() {
        let mut failover = begun(FailoverRequest::default());
        assert!(!failover.ask() && failover.may_abort());
        assert_eq!(decide(&mut failover, 0, true, &[1]), to(1, false));
        assert!(failover.may_abort() && failover.ask() && !failover.may_abort());
        failover.lose_answer();
        assert!(failover.may_abort() && failover.ask() && !failover.may_abort());
        failover.end();
        assert!(failover.may_abort());
    }

    fn at(port: u16) -> Target {
        Target { host: b"127.0.0.1".to_vec(), port }
    }

    fn begun(request: FailoverRequest) -> Failover {
        let mut failover = Failover::default();
        assert!(failover.begin(request) && failover.state() == FailoverState::WaitingForSync);
        failover
    }

    fn decide(failover: &mut Failover, now: i64, is_quiet: bool, synced: &[u16]) -> Decision {
        failover.decide(now, is_quiet, synced.iter().map(|port| at(*port)))
    }

    fn to(port: u16, is_late: bool) -> Decision {
        Decision::HandOver { target: at(port), is_late }
    }

    #[test]
    fn the_first_replica_that_has_all_takes_over_once_nobody_writes() {
        let mut failover = begun(FailoverRequest::default());
        assert_eq!(decide(&mut failover, 0, false, &[1]), Decision::Wait);
        assert_eq!(decide(&mut failover, 0, true, &[]), Decision::Wait);
        assert_eq!(decide(&mut failover, 0, true, &[1, 2]), to(1, false));
        assert_eq!((failover.state(), failover.target()), (FailoverState::InProgress, Some(&at(1))));
        assert_eq!(decide(&mut failover, 0, true, &[2]), Decision::Wait);
        assert!(!failover.begin(FailoverRequest::default()));
        failover.end();
        assert!(failover.state() == FailoverState::None && failover.begin(FailoverRequest::default()));
        assert_eq!(failover.number(), 2);
    }

    #[test]
    fn only_the_wanted_replica_takes_over_and_only_in_time() {
        let request = FailoverRequest { target: Some(at(2)), deadline: Some(100), is_forced: false };
        let mut failover = begun(request.clone());
        assert_eq!(decide(&mut failover, 99, true, &[1]), Decision::Wait);
        assert_eq!(decide(&mut failover, 99, true, &[1, 2]), to(2, false));
        assert_eq!(decide(&mut begun(request), 100, true, &[2]), Decision::GiveUp);
    }

    #[test]
    fn by_force_it_takes_over_with_what_it_has_but_not_while_somebody_writes() {
        let request = FailoverRequest { target: Some(at(2)), deadline: Some(100), is_forced: true };
        let mut failover = begun(request);
        assert_eq!(decide(&mut failover, 99, true, &[]), Decision::Wait);
        assert_eq!(decide(&mut failover, 100, false, &[]), Decision::Wait);
        assert_eq!(decide(&mut failover, 100, true, &[]), to(2, true));
    }

    #[test]
    fn a_node_that_calls_itself_a_primary_has_taken_over_only_if_it_was_asked_before() {
        let is_primary = Some(&b"-ERR PSYNC FAILOVER can't be sent to a master."[..]);
        let mut failover = begun(FailoverRequest::default());
        failover.lose_answer();
        assert_eq!(decide(&mut failover, 0, true, &[1]), to(1, false));
        assert_eq!(failover.take_answer(is_primary), Outcome::Refused);
        failover.lose_answer();
        assert!(failover.let_writers_go() && !failover.let_writers_go());
        assert_eq!(failover.take_answer(is_primary), Outcome::TakenOver);
        assert_eq!(failover.take_answer(Some(b"-NOPERM no")), Outcome::Refused);
        assert_eq!(failover.take_answer(None), Outcome::TakenOver);
    }

    #[test]
    fn a_node_that_wants_to_be_asked_again_has_taken_over_only_if_it_speaks_as_a_primary() {
        let mut failover = begun(FailoverRequest::default());
        assert_eq!(decide(&mut failover, 0, true, &[1]), to(1, false));
        for (reason, outcome) in [
            (LACKS_WRITES, Outcome::TakenOver),
            ("There is no snapshot: No space left on device (os error 28)", Outcome::TakenOver),
            ("Can't SYNC while not connected with my master", Outcome::Refused),
            ("Can't SYNC while failing over", Outcome::Refused),
            ("not now", Outcome::Refused),
        ] {
            let answer = format!("-NOMASTERLINK {reason}");
            assert_eq!(failover.take_answer(Some(answer.as_bytes())), outcome, "{reason}");
        }
    }
}
