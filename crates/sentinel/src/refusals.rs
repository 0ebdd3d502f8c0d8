//! Commands that an instance refuses: in the log once for each cause, and the end of a failover that its primary
//! refuses.

use crate::model::effect::Level;
use crate::model::instance::{FailoverState, Flags, InstanceId};
use crate::model::instance_transport::{Awaited, ReplyTo};
use crate::sentinel::Sentinel;
use resp::reply_value::Value;

/// Most causes that are remembered of an instance.
const CAUSES_MAX: usize = 64;
/// The order by which a primary hands over.
const HAND_OVER: &str = "FAILOVER";

/// Returns the name of a command: no argument that may be secret is in it.
pub(crate) fn name_of(args: &[&[u8]]) -> Box<str> {
    let word = |at: usize| args.get(at).map(|word| String::from_utf8_lossy(word).to_ascii_uppercase());
    let name = word(0).unwrap_or_default();
    let has_subcommand = matches!(name.as_str(), "CLIENT" | "CONFIG" | "SCRIPT" | "SENTINEL")
        || name == HAND_OVER && word(1).as_deref() == Some("ABORT");
    match word(1).filter(|_| has_subcommand) {
        Some(subcommand) => format!("{name} {subcommand}").into(),
        None => name.into(),
    }
}

/// Returns the first word of an error.
fn code_of(error: &[u8]) -> String {
    String::from_utf8_lossy(error.split(|byte| *byte == b' ').next().unwrap_or_default()).into_owned()
}

impl Sentinel {
    /// Takes the reply to a command: whether it was refused, and as part of a transaction each of its commands.
    pub(crate) fn note_reply(&mut self, id: InstanceId, awaited: &Awaited, value: &Value) {
        let is_refused = self.note_outcome(id, &awaited.order, value);
        match (awaited.reply_to, value) {
            (ReplyTo::Transaction, Value::Array(replies)) => {
                let mut is_handed_over = true;
                for (order, reply) in awaited.queued.iter().zip(replies) {
                    is_handed_over &= !self.note_outcome(id, order, reply) || **order != *HAND_OVER;
                }
                if !is_handed_over {
                    // The pause of the same transaction has begun.
                    self.send(id, ReplyTo::Nothing, &[b"CLIENT", b"UNPAUSE"]);
                    self.refused_to_hand_over(id);
                }
            }
            (ReplyTo::Transaction, _) if is_refused => {
                if awaited.queued.iter().any(|order| **order == *HAND_OVER) {
                    self.refused_to_hand_over(id);
                }
                // Commands that follow would be queued in the transaction that is still open.
                let was_discarded = matches!(value, Value::Error(text) if code_of(text) == "EXECABORT");
                if !was_discarded {
                    self.close_one(self.instances[id].link, false);
                }
            }
            _ => {}
        }
    }

    /// Logs a refusal, if its cause is new. Returns whether the command was refused.
    pub(crate) fn note_outcome(&mut self, id: InstanceId, order: &str, value: &Value) -> bool {
        let Value::Error(text) = value else {
            if *value == Value::Simple(b"QUEUED".to_vec()) {
                return false;
            }
            self.instances[id].refusals.retain(|(refused, _)| **refused != *order);
            return false;
        };
        let code = code_of(text);
        let is_known = match (code.as_str(), order) {
            // The command was carried out.
            ("UNACKNOWLEDGED", _) => return false,
            // The cause was logged when the command was queued.
            ("EXECABORT", _) => true,
            // These are states of a server that is up.
            ("LOADING" | "BUSY" | "MASTERDOWN", "PING" | "INFO" | "PUBLISH") => true,
            _ => false,
        };
        // All commands are refused for one reason then.
        let order_of_cause = if code == "NOAUTH" { "" } else { order };
        let cause = (Box::from(order_of_cause), Box::from(code.as_str()));
        let refusals = &self.instances[id].refusals;
        if !is_known && refusals.len() < CAUSES_MAX && !refusals.contains(&cause) {
            let text = format!(" #{order}: {}", String::from_utf8_lossy(text));
            self.event_of(Level::Notice, "-command-refused", id, &text);
            self.instances[id].refusals.insert(cause);
        }
        true
    }

    /// Ends a coordinated failover that its primary refuses. A forced one continues without the primary.
    fn refused_to_hand_over(&mut self, primary: InstanceId) {
        let flags = self.instances[primary].flags;
        if !flags.has(Flags::COORDINATED_FAILOVER)
            || self.instances.group(primary).failover.state != FailoverState::WaitPromotion
        {
            return;
        }
        if flags.has(Flags::FORCE_FAILOVER) {
            self.instances[primary].flags.remove(Flags::COORDINATED_FAILOVER);
            return self.enter(primary, FailoverState::SendReplicaOfNoOne);
        }
        self.event_of(Level::Warning, "-failover-abort-master-refused", primary, "");
        self.abort_failover(primary);
        // The failover that replicas need if the primary fails now does not wait for this one's time.
        self.instances.group_mut(primary).failover.started = 0;
    }
}
