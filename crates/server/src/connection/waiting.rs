//! Reasons for which a connection's next command waits: the present one has not ended, or could not begin.
//!
//! | | ends with |
//! |---|---|
//! | blocked | a reply: of another client's command, of a time, of CLIENT UNBLOCK |
//! | postponed | the end of a CLIENT PAUSE; the request is run then |
//! | delayed | a little time: the request wants a lock that a script has for long, and is run again |
//! | forwarded | the answers of other nodes of the cluster |
//! | metered | a time at which its user may use more of its quota |
//! | apart | a command that may run a script, and has the session |
//!
//! A [chunked command](crate::connection::chunked) is the seventh.

use engine::clients::waiters::Ticket;
use std::sync::Arc;

/// Events that a connection waits for.
#[derive(Default)]
pub struct Waiting {
    blocked: Option<Arc<Ticket>>,
    postponed: bool,
    delayed: bool,
    forwarded: bool,
    throttled: bool,
    apart: bool,
}

impl Waiting {
    /// Returns whether commands must not run.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.is_waiting() || self.apart || self.delayed || self.forwarded || self.throttled
    }

    /// Returns whether a command waits for others' actions.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.blocked.is_some() || self.postponed
    }

    /// Returns whether the connection waits for an action of its worker.
    pub fn is_busy_here(&self) -> bool {
        self.postponed || self.apart || self.delayed || self.forwarded || self.throttled
    }

    /// Blocks the command with this ticket.
    pub fn block(&mut self, ticket: Arc<Ticket>) {
        self.blocked = Some(ticket);
    }

    /// Returns the ticket that its command waits with.
    pub fn ticket(&self) -> Option<&Arc<Ticket>> {
        self.blocked.as_ref()
    }

    /// Bytes of the arguments of the command that waits.
    pub fn argument_bytes(&self) -> usize {
        self.blocked.as_ref().map_or(0, |ticket| ticket.request().argument_bytes())
    }

    /// Takes the ticket, since the connection ends.
    pub fn take_ticket(&mut self) -> Option<Arc<Ticket>> {
        self.blocked.take()
    }

    /// Ends the wait with this ticket. False if the connection waits with another ticket, or with none.
    pub fn unblock(&mut self, ticket: &Arc<Ticket>) -> bool {
        let is_it = self.blocked.as_ref().is_some_and(|blocked| Arc::ptr_eq(blocked, ticket));
        if is_it {
            self.blocked = None;
        }
        is_it
    }

    /// Returns whether a reply is on its way here from the thread that ended the wait.
    pub fn is_served(&self) -> bool {
        self.blocked.as_ref().is_some_and(|ticket| !ticket.is_waiting())
    }

    /// Makes the first request wait for the end of a pause.
    pub fn postpone(&mut self) {
        self.postponed = true;
    }

    /// Returns whether the first request waits for the end of a pause.
    pub fn is_postponed(&self) -> bool {
        self.postponed
    }

    /// Records that the pause has ended.
    pub fn end_postponement(&mut self) {
        self.postponed = false;
    }

    /// Makes the first request run again a little later.
    pub fn delay(&mut self) {
        self.delayed = true;
    }

    /// Makes the first request run again now. False if it was not delayed.
    pub fn end_delay(&mut self) -> bool {
        std::mem::take(&mut self.delayed)
    }

    /// Sets whether the user has used up its quota for now. Returns the value before.
    pub fn set_throttled(&mut self, throttled: bool) -> bool {
        std::mem::replace(&mut self.throttled, throttled)
    }

    /// Sets whether other nodes still have requests of the connection to answer.
    pub fn set_forwarded(&mut self, forwarded: bool) {
        self.forwarded = forwarded;
    }

    /// Returns whether other nodes have requests of the connection to answer.
    pub fn is_forwarded(&self) -> bool {
        self.forwarded
    }

    /// Returns whether the connection's command runs apart.
    pub fn is_apart(&self) -> bool {
        self.apart
    }

    /// Sets whether the connection's command runs apart from it.
    pub fn set_apart(&mut self, apart: bool) {
        self.apart = apart;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::clients::registry::ClientInfo;
    use engine::clients::waiters::{WaitRequest, WaitingClient};
    use engine::data::value_type::ValueType;
    use engine::host::threads::Server;
    use engine::time::UnixMs;
    use engine::unblock_clients::{BlockedCommand, Candidate, RetryOutcome};
    use engine::{Engine, Error, NullHost, Options};

    struct Nothing;

    impl WaitRequest for Nothing {
        fn wants(&self, _kind: Option<&'static ValueType>) -> bool {
            false
        }

        fn timeout_reply(&self) -> Vec<u8> {
            Vec::new()
        }

        fn error_reply(&self, _error: &Error) -> Vec<u8> {
            Vec::new()
        }
    }

    impl BlockedCommand for Nothing {
        fn attempt(&self, _engine: &Engine, _candidate: Candidate<'_>, _server: Server) -> RetryOutcome {
            RetryOutcome::default()
        }
    }

    fn ticket(engine: &Engine) -> Arc<Ticket> {
        let client = Arc::new(ClientInfo::new(1, "", "", 0, 0, UnixMs(0)));
        let (keys, hashes) = (Box::default(), Box::default());
        engine.ticket(WaitingClient { client, token: 0, deadline: None, keys, hashes }, Box::new(Nothing))
    }

    #[test]
    fn a_wait_ends_with_its_own_ticket_only() {
        let engine = Engine::new(&Options::default(), Arc::new(NullHost));
        let (mut waiting, ours, other) = (Waiting::default(), ticket(&engine), ticket(&engine));
        assert!(!waiting.is_busy() && !waiting.unblock(&ours));
        waiting.block(Arc::clone(&ours));
        assert!(waiting.is_busy() && waiting.is_waiting() && !waiting.is_served());
        assert!(!waiting.unblock(&other) && waiting.is_waiting());
        assert!(ours.finish() && waiting.is_served(), "the reply is on its way");
        assert!(waiting.unblock(&ours) && !waiting.is_busy() && !waiting.is_served());
    }

    #[test]
    fn a_delayed_or_apart_command_is_none_that_waits_for_others() {
        let mut waiting = Waiting::default();
        waiting.delay();
        assert!(waiting.is_busy() && !waiting.is_waiting());
        assert!(waiting.end_delay() && !waiting.end_delay() && !waiting.is_busy());
        waiting.set_apart(true);
        assert!(waiting.is_busy() && !waiting.is_waiting());
        waiting.set_apart(false);
        waiting.postpone();
        assert!(waiting.is_busy() && waiting.is_waiting() && waiting.is_postponed());
        waiting.end_postponement();
        assert!(!waiting.is_busy());
    }
}
