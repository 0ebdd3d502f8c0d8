//! Commands to servers: periodic pings and questions, and the transactions that make them primary or replica.

use crate::model::effect::Millis;
use crate::model::instance::{FailoverState, Flags, InstanceId, Kind, OwnFailover, TransportId};
use crate::model::instance_address::Address;
use crate::model::instance_transport::ReplyTo;
use crate::sentinel::Sentinel;

/// Replies that an instance may owe before it gets no more commands.
const PENDING_MAX: usize = 100;
/// Period of INFO to a replica that is about to lead: its address is published once it reports so.
const AWAITED_INFO_PERIOD: Millis = 100;

impl Sentinel {
    /// Sends the due commands: INFO, PING, a hello message.
    pub(crate) fn send_periodic(&mut self, id: InstanceId) {
        let instance = &self.instances[id];
        let link = &self.links[instance.link];
        if link.disconnected || link.pending() >= PENDING_MAX * link.users {
            return;
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
        if hello {
            self.send_hello(id);
        }
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

    /// Handles the answer to a PING.
    pub(crate) fn ping_answered(&mut self, link: TransportId, id: InstanceId, text: &[u8]) {
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

    /// Asks a primary to hand over to a replica by itself. The pause of its clients begins only if this Sentinel has the
    /// right to end it, too: all of the transaction is refused otherwise.
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
