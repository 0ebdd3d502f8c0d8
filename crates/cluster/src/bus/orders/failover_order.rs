//! FAILOVER: a replica replaces its primary by an order.

use crate::Millis;
use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::Level;
use crate::bus::model::order_error::OrderError;

/// Consent that a failover needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverMode {
    /// The primary pauses, the replica gets all its writes, the majority votes.
    Agreed,
    /// The majority votes, the primary is not asked.
    Force,
    /// No other node is asked.
    Takeover,
}

impl Bus {
    /// Begins to replace this node's primary. `by`: the client, for the log; `by_primary`: the order is this node's
    /// primary's.
    ///
    /// # Errors
    /// Returns an [`OrderError`] if this node is no replica of a known primary, or the primary cannot agree.
    pub fn failover(&mut self, mode: FailoverMode, by: &str, by_primary: bool, now: Millis) -> Result<(), OrderError> {
        let myself = self.nodes.myself();
        if myself.is_primary() {
            return Err(OrderError::FailoverOnPrimary);
        }
        let primary = myself.primary.and_then(|id| self.nodes.get(&id)).ok_or(OrderError::PrimaryUnknown)?;
        if mode == FailoverMode::Agreed && (primary.has_failed() || !primary.is_linked()) {
            return Err(OrderError::PrimaryDown);
        }
        let primary = primary.id;
        self.now = now;
        self.reset_manual_failover();
        self.manual.end = now.saturating_add(self.settings.manual_failover_timeout);
        match mode {
            FailoverMode::Takeover => {
                self.log(Level::Notice, format!("Taking over the primary (user request from '{by}')."));
                self.bump_without_consensus();
                self.replace_my_primary();
            }
            FailoverMode::Force => {
                let who = if by_primary { "primary" } else { "user" };
                let text = format!("Forced failover {who} request accepted ({who} request from '{by}').");
                self.log(Level::Notice, text);
                self.manual_failover_can_start();
                self.todo.handle_manual_failover();
            }
            FailoverMode::Agreed => {
                let text = format!("Manual failover user request accepted (user request from '{by}').");
                self.log(Level::Notice, text);
                self.send_manual_failover_start(primary);
            }
        }
        self.settle();
        Ok(())
    }
}
