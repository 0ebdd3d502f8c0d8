//! Commands to servers: periodic pings and questions, and the transactions that make them primary or replica. Refusals
//! of commands are in the log once for each cause, and end a failover that its primary refuses.

use super::Watch;
use crate::model::effect::{Level, Millis};
use crate::model::instance::{FailoverState, Flags, InstanceId, Kind, OwnFailover, TransportId};
use crate::model::instance_address::Address;
use crate::model::instance_transport::{Awaited, ReplyTo};
use resp::reply_value::Value;

/// Replies that an instance may owe before it gets no more commands.
const PENDING_MAX: usize = 100;
/// Period of INFO to a replica that is about to lead: its address is published once it reports so.
const AWAITED_INFO_PERIOD: Millis = 100;

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

impl Watch {
    /// Sends the due commands: INFO, PING. Returns whether a hello message is due, too.
    pub(crate) fn send_periodic(&mut self, id: InstanceId) -> bool {
        let instance = &self.instances[id];
        let link = &self.links[instance.link];
        if link.disconnected || link.pending() >= PENDING_MAX * link.users {
            return false;
        }
        let primary = &self.instances[self.instances.primary_of(id)];
        let (now, kind) = (self.now, instance.kind);
        let hurry = kind == Kind::Replica
            && (primary.flags.has(Flags::O_DOWN.and(Flags::FAILOVER_IN_PROGRESS))
                || instance.reported.primary_link_down != 0);
        // A primary may stop serving from one moment to the next, and a replica become a member again, without silence.
        let hurry = hurry || instance.reported.acknowledges.is_some();
        let info_period = match (self.is_about_to_lead(id), hurry) {
            (true, _) => AWAITED_INFO_PERIOD.min(self.periods.info),
            (false, true) => 1000,
            (false, false) => self.periods.info,
        };
        let ping_period = instance.down_after.min(self.periods.ping);
        let info = kind != Kind::Sentinel && (instance.info_refresh == 0 || now - instance.info_refresh > info_period);
        let ping = now - link.last_pong > ping_period && now - link.last_ping > ping_period / 2;
        let hello = now - instance.last_publish > self.periods.publish && self.may_say_hello(id);
        if info {
            self.send(id, ReplyTo::Info, &[b"INFO"]);
        }
        if ping {
            self.send_ping(id);
        }
        hello
    }

    /// Returns whether the instance was chosen to lead, and has not reported yet that it does.
    fn is_about_to_lead(&self, id: InstanceId) -> bool {
        let is_chosen = self.instances[id].flags.has(Flags::PROMOTED);
        is_chosen && self.instances.group(id).failover.state == FailoverState::WaitPromotion
    }

    /// Returns whether hello messages are allowed: not while a coordinated failover is about to change the primary.
    fn may_say_hello(&self, id: InstanceId) -> bool {
        let instance = &self.instances[id];
        let coordinated = instance.flags.has(Flags::COORDINATED_FAILOVER)
            && self.instances.group(id).failover.state <= FailoverState::WaitPromotion;
        !coordinated && instance.reported.own_failover != OwnFailover::Busy
    }

    pub(crate) fn send_ping(&mut self, id: InstanceId) {
        if self.send(id, ReplyTo::Ping, &[b"PING"]) {
            let link = &mut self.links[self.instances[id].link];
            link.last_ping = self.now;
            if link.open_ping == 0 {
                link.open_ping = self.now;
            }
        }
    }

    pub(super) fn ping_answered(&mut self, link: TransportId, id: InstanceId, text: &[u8]) {
        let pong = text.starts_with(b"PONG");
        if pong || text.starts_with(b"LOADING") || text.starts_with(b"MASTERDOWN") {
            let state = &mut self.links[link];
            state.last_available = self.now;
            state.open_ping = 0;
            if pong {
                self.instances[id].flags.remove(Flags::PRIMARY_REBOOT);
            }
        } else if text.starts_with(b"BUSY") {
            let flags = self.instances[id].flags;
            if flags.has(Flags::S_DOWN) && !flags.has(Flags::SCRIPT_KILL_SENT) {
                self.send(id, ReplyTo::Nothing, &[b"SCRIPT", b"KILL"]);
                self.instances[id].flags.insert(Flags::SCRIPT_KILL_SENT);
            }
        }
    }

    /// Makes a server a replica of that address, or a primary. Its clients are disconnected, so that they look up the
    /// primary again; its configuration is written, so that it is the same after a restart.
    pub(crate) fn send_replica_of(&mut self, id: InstanceId, address: Option<&Address>) -> bool {
        let (host, port) = match address {
            Some(address) => (self.announced(address).to_string(), address.port.to_string()),
            None => ("NO".to_string(), "ONE".to_string()),
        };
        let busy = self.instances[id].reported.own_failover == OwnFailover::Busy;
        let mut orders: Vec<Vec<&[u8]>> = vec![vec![b"MULTI"]];
        if busy {
            orders.push(vec![b"FAILOVER", b"ABORT"]);
        }
        orders.push(vec![b"SLAVEOF", host.as_bytes(), port.as_bytes()]);
        orders.push(vec![b"CONFIG", b"REWRITE"]);
        orders.push(vec![b"CLIENT", b"KILL", b"TYPE", b"normal"]);
        orders.push(vec![b"CLIENT", b"KILL", b"TYPE", b"pubsub"]);
        orders.push(vec![b"EXEC"]);
        self.send_transaction(id, &orders)
    }

    /// Asks a primary to hand over to a replica by itself. The pause of its clients begins only if this Sentinel has
    /// the right to end it, too: all of the transaction is refused otherwise.
    pub(crate) fn send_failover_to(&mut self, primary: InstanceId, address: &Address, timeout: Millis) -> bool {
        let (host, port) = (self.announced(address).to_string(), address.port.to_string());
        let timeout = timeout.to_string();
        let timeout = timeout.as_bytes();
        let orders: [Vec<&[u8]>; 5] = [
            vec![b"MULTI"],
            vec![b"CLIENT", b"UNPAUSE"],
            vec![b"CLIENT", b"PAUSE", timeout, b"WRITE"],
            vec![b"FAILOVER", b"TO", host.as_bytes(), port.as_bytes(), b"TIMEOUT", timeout],
            vec![b"EXEC"],
        ];
        self.send_transaction(primary, &orders)
    }

    /// Disconnects a server's clients after a coordinated failover.
    pub(crate) fn send_kill_clients(&mut self, id: InstanceId) -> bool {
        let orders: [Vec<&[u8]>; 6] = [
            vec![b"MULTI"],
            vec![b"CONFIG", b"REWRITE"],
            vec![b"CLIENT", b"KILL", b"TYPE", b"normal"],
            vec![b"CLIENT", b"KILL", b"TYPE", b"pubsub"],
            vec![b"CLIENT", b"UNPAUSE"],
            vec![b"EXEC"],
        ];
        self.send_transaction(id, &orders)
    }
}

impl Watch {
    /// Takes the reply to a command: whether it was refused, and as part of a transaction each of its commands.
    pub(crate) fn note_reply(&mut self, id: InstanceId, awaited: &Awaited, value: &Value) {
        let is_refused = self.note_outcome(id, &awaited.order, value);
        match (awaited.reply_to, value) {
            (ReplyTo::Transaction, Value::Array(replies)) => {
                for (order, reply) in awaited.queued.iter().zip(replies) {
                    let is_refused = self.note_outcome(id, order, reply);
                    match **order == *HAND_OVER {
                        true if is_refused => self.refused_to_hand_over(id),
                        true => self.instances.group_mut(id).failover.accepted = Some(self.now),
                        false => {}
                    }
                }
            }
            (ReplyTo::Transaction, _) if is_refused => {
                if awaited.queued.iter().any(|order| **order == *HAND_OVER) {
                    self.refused_to_hand_over(id);
                }
                // Commands that follow would be queued in the transaction that is still open.
                let was_discarded = matches!(value, Value::Error(text) if code_of(text) == "EXECABORT");
                if !was_discarded {
                    self.close_one_of(id, false);
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
        if code == "UNACKNOWLEDGED" {
            // The command was carried out.
            return false;
        }
        // A server that is up may be in such a state.
        let is_state =
            matches!(code.as_str(), "LOADING" | "BUSY" | "MASTERDOWN") && matches!(order, "PING" | "INFO" | "PUBLISH");
        // The cause of a discarded transaction was logged when its command was to be queued.
        let is_known = is_state || code == "EXECABORT";
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

    /// Ends the pause of a primary's clients, which began when the primary was asked to hand over.
    pub(crate) fn end_pause(&mut self, primary: InstanceId) {
        self.send(primary, ReplyTo::Nothing, &[b"CLIENT", b"UNPAUSE"]);
    }

    /// Ends a coordinated failover that its primary refuses. A forced one continues without the primary.
    pub(crate) fn refused_to_hand_over(&mut self, primary: InstanceId) {
        let flags = self.instances[primary].flags;
        if !flags.has(Flags::COORDINATED_FAILOVER)
            || self.instances.group(primary).failover.state != FailoverState::WaitPromotion
        {
            return;
        }
        if flags.has(Flags::FORCE_FAILOVER) {
            self.end_pause(primary);
            self.instances[primary].flags.remove(Flags::COORDINATED_FAILOVER);
            return self.enter(primary, FailoverState::SendReplicaOfNoOne);
        }
        self.event_of(Level::Warning, "-failover-abort-master-refused", primary, "");
        self.abort_failover(primary);
        // The failover that replicas need if the primary fails now does not wait for this one's time.
        self.instances.group_mut(primary).failover.started = 0;
    }
}
