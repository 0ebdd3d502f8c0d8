//! Instances that are down: in this Sentinel's own view, and in that of enough of them.

use crate::model::effect::{Level, Millis};
use crate::model::instance::{Acknowledging, Flags, InstanceId, Kind, Role};
use crate::model::instance_transport::ReplyTo;
use crate::sentinel::Sentinel;
use resp::reply_value::Value;

impl Sentinel {
    /// Checks whether this Sentinel cannot reach an instance, or a primary is none any more.
    pub(crate) fn check_subjectively_down(&mut self, id: InstanceId) {
        self.close_stale(id);
        let silent = self.silence(id);
        let instance = &self.instances[id];
        let primary = instance.kind == Kind::Primary;
        let no_primary_since = self.now - instance.reported.role_since;
        let demoted = primary
            && instance.reported.role == Some(Role::Replica)
            && no_primary_since > instance.down_after + self.periods.info * 2;
        let rebooted = primary && instance.flags.has(Flags::PRIMARY_REBOOT) && {
            let group = self.instances.group(id);
            self.now - group.reboot_since > group.reboot_down_after
        };
        // Such a primary answers, but serves no client: it may lack writes acknowledged before its start.
        let unconfirmed = primary
            && instance.reported.acknowledges == Some(Acknowledging::Unconfirmed)
            && self.now - instance.reported.acknowledges_since > instance.down_after;
        let down = silent > instance.down_after || demoted || rebooted || unconfirmed;
        let was_down = instance.flags.has(Flags::S_DOWN);
        if down && !was_down {
            self.event_of(Level::Warning, "+sdown", id, "");
            self.instances[id].s_down_since = self.now;
            self.instances[id].flags.insert(Flags::S_DOWN);
        } else if !down && was_down {
            self.event_of(Level::Warning, "-sdown", id, "");
            self.instances[id].flags.remove(Flags::S_DOWN.and(Flags::SCRIPT_KILL_SENT));
        }
    }

    /// Returns for how long an instance has not answered.
    pub(crate) fn silence(&self, id: InstanceId) -> Millis {
        let link = &self.links[self.instances[id].link];
        if link.open_ping != 0 {
            self.now - link.open_ping
        } else if link.disconnected {
            self.now - link.last_available
        } else {
            0
        }
    }

    /// Closes a silent connection, which may be dead: a new one shows whether the server is.
    fn close_stale(&mut self, id: InstanceId) {
        let instance = &self.instances[id];
        let (link, half) = (instance.link, instance.down_after / 2);
        let (now, oldest) = (self.now, self.periods.min_link_reconnect);
        let state = &self.links[link];
        let command = state.command.as_ref().is_some_and(|command| now - command.since > oldest)
            && state.open_ping != 0
            && now - state.open_ping > half
            && now - state.last_pong > half;
        let pubsub = state.pubsub.as_ref().is_some_and(|pubsub| now - pubsub.since > oldest)
            && now - state.pubsub_activity > self.periods.publish * 3;
        if command {
            self.close_one(link, false);
        }
        if pubsub {
            self.close_one(link, true);
        }
    }

    /// Checks whether enough Sentinels report the primary as down.
    pub(crate) fn check_objectively_down(&mut self, primary: InstanceId) {
        let group = self.instances.group(primary);
        let agreeing = group.sentinels.iter().filter(|&&id| self.instances[id].flags.has(Flags::PRIMARY_DOWN)).count();
        let (votes, quorum) = (agreeing as i64 + 1, group.quorum);
        let flags = self.instances[primary].flags;
        let down = flags.has(Flags::S_DOWN) && votes >= quorum;
        if down && !flags.has(Flags::O_DOWN) {
            self.event_of(Level::Warning, "+odown", primary, &format!(" #quorum {votes}/{quorum}"));
            self.instances[primary].flags.insert(Flags::O_DOWN);
            self.instances[primary].o_down_since = self.now;
        } else if !down && flags.has(Flags::O_DOWN) {
            self.event_of(Level::Warning, "-odown", primary, "");
            self.instances[primary].flags.remove(Flags::O_DOWN);
        }
    }

    /// Asks the others whether the primary is down and, while a failover waits for it, for their vote.
    pub(crate) fn ask_other_sentinels(&mut self, primary: InstanceId, at_once: bool) {
        if !self.instances[primary].flags.has(Flags::S_DOWN) {
            return;
        }
        let address = &self.instances[primary].address;
        let (host, port) = (self.announced(address).to_string(), address.port.to_string());
        // Votes are requested in the epoch in which the failover was begun, whatever came since.
        let (epoch, candidate) = match self.failover_epoch(primary) {
            Some(epoch) => (epoch.to_string(), self.my_id.clone()),
            None => (self.current_epoch.to_string(), "*".to_string()),
        };
        for id in self.instances.group(primary).sentinels.clone() {
            let silent = self.now - self.instances[id].last_down_reply;
            if silent > self.periods.ask * 5 {
                let sentinel = &mut self.instances[id];
                sentinel.flags.remove(Flags::PRIMARY_DOWN);
                sentinel.leader = None;
            }
            if self.links[self.instances[id].link].disconnected || (!at_once && silent < self.periods.ask) {
                continue;
            }
            let question: [&[u8]; 6] = [
                b"SENTINEL",
                b"is-master-down-by-addr",
                host.as_bytes(),
                port.as_bytes(),
                epoch.as_bytes(),
                candidate.as_bytes(),
            ];
            self.send(id, ReplyTo::DownQuestion, &question);
        }
    }

    /// Takes another Sentinel's view of the primary, and its vote.
    pub(crate) fn down_reply(&mut self, id: InstanceId, value: &Value) {
        let Value::Array(items) = value else {
            return;
        };
        let [Value::Int(down), Value::Bulk(leader), Value::Int(epoch)] = items.as_slice() else {
            return;
        };
        let leader = String::from_utf8_lossy(leader).into_owned();
        let epoch = epoch.cast_unsigned();
        let now = self.now;
        let sentinel = &mut self.instances[id];
        sentinel.last_down_reply = now;
        if *down == 1 {
            sentinel.flags.insert(Flags::PRIMARY_DOWN);
        } else {
            sentinel.flags.remove(Flags::PRIMARY_DOWN);
        }
        if leader == "*" {
            return;
        }
        let news = (sentinel.leader_epoch != epoch).then(|| format!("{} voted for {leader} {epoch}", sentinel.name));
        sentinel.leader = Some(leader);
        sentinel.leader_epoch = epoch;
        if let Some(text) = news {
            self.log(Level::Notice, text);
        }
    }
}
