//! A failover's steps after the promotion: the other replicas follow, then the promoted one is the primary.

use crate::model::effect::Level;
use crate::model::instance::{Acknowledging, FailoverState, Flags, InstanceId};
use crate::sentinel::Sentinel;

impl Sentinel {
    /// Turns replicas to the promoted one, as many at a time as the configuration allows.
    pub(crate) fn reconfigure_replicas(&mut self, primary: InstanceId) {
        let group = self.instances.group(primary);
        let (replicas, limit) = (group.replicas.clone(), group.parallel_syncs);
        let Some(promoted) = group.failover.promoted else {
            return;
        };
        let busy = Flags::RECONF_SENT.and(Flags::RECONF_IN_PROGRESS);
        let mut in_progress = replicas.iter().filter(|&&id| self.instances[id].flags.has(busy)).count() as i64;
        for id in replicas {
            if in_progress >= limit {
                break;
            }
            in_progress += i64::from(self.reconfigure(id, promoted));
        }
        self.detect_end(primary, promoted);
    }

    fn reconfigure(&mut self, id: InstanceId, promoted: InstanceId) -> bool {
        let flags = self.instances[id].flags;
        if flags.has(Flags::PROMOTED.and(Flags::RECONF_DONE)) {
            return false;
        }
        let waited = self.now - self.instances[id].reconf_sent;
        if flags.has(Flags::RECONF_SENT) && waited > self.periods.replica_reconfiguration {
            // A Sentinel that sees it later will correct it.
            self.event_of(Level::Notice, "-slave-reconf-sent-timeout", id, "");
            let flags = &mut self.instances[id].flags;
            flags.remove(Flags::RECONF_SENT);
            flags.insert(Flags::RECONF_DONE);
        }
        let busy = Flags::RECONF_SENT.and(Flags::RECONF_IN_PROGRESS);
        if self.instances[id].flags.has(busy) || self.links[self.instances[id].link].disconnected {
            return false;
        }
        let address = self.instances[promoted].address.clone();
        let sent = self.send_replica_of(id, Some(&address));
        if sent {
            let now = self.now;
            self.instances[id].flags.insert(Flags::RECONF_SENT);
            self.instances[id].reconf_sent = now;
            self.event_of(Level::Notice, "+slave-reconf-sent", id, "");
        }
        sent
    }

    fn detect_end(&mut self, primary: InstanceId, promoted: InstanceId) {
        if self.instances[promoted].flags.has(Flags::S_DOWN) {
            return;
        }
        let group = self.instances.group(primary);
        let (replicas, since) = (group.replicas.clone(), group.failover.state_since);
        let late = self.now - since > group.failover_timeout;
        // A promoted server that was started again may confirm nothing: no replica follows it, but another may lead.
        let reported = &self.instances[promoted].reported;
        let forgot = reported.acknowledges == Some(Acknowledging::Unconfirmed)
            && self.now - reported.acknowledges_since > self.instances[promoted].down_after;
        let done = Flags::PROMOTED.and(Flags::RECONF_DONE).and(Flags::S_DOWN);
        let open = replicas.iter().any(|&id| !self.instances[id].flags.has(done));
        if late {
            self.event_of(Level::Warning, "+failover-end-for-timeout", primary, "");
        }
        if late || forgot || !open {
            self.event_of(Level::Warning, "+failover-end", primary, "");
            self.enter(primary, FailoverState::UpdateConfig);
        }
        if !late {
            return;
        }
        let told = Flags::PROMOTED.and(Flags::RECONF_DONE).and(Flags::RECONF_SENT);
        let address = self.instances[promoted].address.clone();
        for id in replicas {
            if !self.instances[id].flags.has(told)
                && !self.links[self.instances[id].link].disconnected
                && self.send_replica_of(id, Some(&address))
            {
                self.event_of(Level::Notice, "+slave-reconf-sent-be", id, "");
                self.instances[id].flags.insert(Flags::RECONF_SENT);
            }
        }
    }

    /// Makes the promoted replica the primary from now on.
    pub(crate) fn switch_to_promoted(&mut self, primary: InstanceId) {
        let new = self.instances.group(primary).failover.promoted.unwrap_or(primary);
        let (from, to) = (self.instances[primary].address.clone(), self.instances[new].address.clone());
        let name = &self.instances[primary].name;
        let text = format!("{name} {} {} {} {}", self.announced(&from), from.port, self.announced(&to), to.port);
        self.event_text(Level::Warning, "+switch-master", Some(primary), &text);
        self.change_primary_address(primary, &to.hostname, i64::from(to.port));
    }
}
