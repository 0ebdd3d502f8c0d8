//! The effects of an answer to INFO: new instances, changed roles, and corrections.

use crate::model::effect::{Effect, Level};
use crate::model::info_report::InfoReport;
use crate::model::instance::{Acknowledging, FailoverState, Flags, InstanceId, Kind, OwnFailover, Role};
use crate::sentinel::Sentinel;

impl Sentinel {
    /// Handles an instance's answer to INFO.
    pub(crate) fn refresh(&mut self, id: InstanceId, text: &[u8]) {
        let report = InfoReport::parse(text);
        self.instances[id].info = Some(text.to_vec());
        self.note_run_id(id, report.run_id.as_deref());
        if self.instances[id].kind == Kind::Primary {
            self.find_replicas(id, &report);
        }
        self.note_replication(id, &report);
        self.instances[id].info_refresh = self.now;
        self.note_role(id, report.role);
        if self.instances[id].kind == Kind::Primary
            && self.instances[id].reported.acknowledges == Some(Acknowledging::Open)
        {
            self.instances.group_mut(id).led_in_vain.clear();
        }
        if self.tilt.since.is_some() || self.instances[id].kind != Kind::Replica {
            return;
        }
        match report.role {
            Some(Role::Primary) => self.replica_says_primary(id),
            Some(Role::Replica) => self.replica_says_replica(id),
            None => {}
        }
    }

    fn note_run_id(&mut self, id: InstanceId, run_id: Option<&str>) {
        let Some(run_id) = run_id else {
            return;
        };
        let known = self.instances[id].run_id.as_deref();
        if known.is_some_and(|known| known != run_id) {
            self.event_of(Level::Notice, "+reboot", id, "");
            if self.instances[id].kind == Kind::Primary && self.instances.group(id).reboot_down_after != 0 {
                self.instances[id].flags.insert(Flags::PRIMARY_REBOOT);
                self.instances.group_mut(id).reboot_since = self.now;
            }
        }
        self.instances[id].run_id = Some(run_id.to_string());
    }

    fn find_replicas(&mut self, primary: InstanceId, report: &InfoReport) {
        for (host, port) in &report.replicas {
            let known = self.address(host, *port, false).ok().and_then(|address| {
                let name = crate::model::instance_address::joined(self.announced(&address), address.port);
                self.instances.replica_named(primary, &name)
            });
            if known.is_none()
                && let Ok(replica) = self.create(Kind::Replica, "", host, *port, 0, Some(primary))
            {
                self.event_of(Level::Notice, "+slave", replica, "");
                self.save();
            }
        }
    }

    fn note_replication(&mut self, id: InstanceId, report: &InfoReport) {
        let now = self.now;
        let reported = &mut self.instances[id].reported;
        reported.primary_link_down = report.primary_link_down;
        if let Some(host) = &report.primary_host
            && !reported.primary_host.as_ref().is_some_and(|known| known.eq_ignore_ascii_case(host))
        {
            reported.primary_host = Some(host.clone());
            reported.primary_changed = now;
        }
        if let Some(port) = report.primary_port
            && reported.primary_port != port
        {
            reported.primary_port = port;
            reported.primary_changed = now;
        }
        reported.primary_link_up = report.primary_link_up.unwrap_or(reported.primary_link_up);
        reported.priority = report.priority.unwrap_or(reported.priority);
        reported.offset = report.offset.unwrap_or(reported.offset);
        reported.claimed_offset = report.claimed_offset;
        reported.announced = report.announced.unwrap_or(reported.announced);
        let own_failover = match report.failing_over {
            Some(true) => OwnFailover::Busy,
            Some(false) => OwnFailover::Idle,
            None => reported.own_failover,
        };
        if reported.acknowledges != report.acknowledges {
            (reported.acknowledges, reported.acknowledges_since) = (report.acknowledges, now);
        }
        reported.was_started_as_primary = report.was_promoted == Some(false);
        let is_unconfirmed = report.acknowledges == Some(Acknowledging::Unconfirmed);
        reported.leads = report.role == Some(Role::Primary)
            && report.was_promoted == Some(true)
            && (report.is_handed_over || !is_unconfirmed);
        if own_failover != reported.own_failover {
            reported.own_failover = own_failover;
            reported.own_failover_since = now;
        }
    }

    fn note_role(&mut self, id: InstanceId, role: Option<Role>) {
        if self.instances[id].reported.role == role {
            return;
        }
        let now = self.now;
        let reported = &mut self.instances[id].reported;
        reported.role = role;
        reported.role_since = now;
        if role == Some(Role::Replica) {
            reported.primary_changed = now;
        }
        let expected = match self.instances[id].kind {
            Kind::Primary => Some(Role::Primary),
            Kind::Replica => Some(Role::Replica),
            Kind::Sentinel => None,
        };
        let event = if role == expected { "+role-change" } else { "-role-change" };
        let word = if role == Some(Role::Primary) { "master" } else { "slave" };
        self.event_of(Level::Verbose, event, id, &format!(" new reported role is {word}"));
    }

    /// Handles a replica that reports to be a primary: because it was promoted, or because it has no other order.
    fn replica_says_primary(&mut self, id: InstanceId) {
        let primary = self.instances.primary_of(id);
        let promoted = self.instances[id].flags.has(Flags::PROMOTED);
        let in_progress = self.instances[primary].flags.has(Flags::FAILOVER_IN_PROGRESS);
        if promoted && in_progress && self.instances.group(primary).failover.state == FailoverState::WaitPromotion {
            self.promoted(id, primary);
            return;
        }
        let instance = &self.instances[id];
        let serves_nobody =
            matches!(instance.reported.acknowledges, Some(Acknowledging::Unconfirmed | Acknowledging::Blocked));
        // Hello messages about its promotion may be under way; but not if it has led since it started.
        let is_told = self.now - instance.reconf_sent < self.periods.publish;
        let is_left_over = serves_nobody && instance.reported.was_started_as_primary && !is_told;
        let wait = if is_left_over { 0 } else { self.periods.publish * 4 };
        if !promoted
            && self.looks_sane(primary)
            && instance.not_down_for(wait, self.now)
            && (is_left_over || self.now - instance.reported.role_since > wait)
        {
            let address = self.instances[primary].address.clone();
            if self.send_replica_of(id, Some(&address)) {
                self.instances[id].reconf_sent = self.now;
                self.event_of(Level::Notice, "+convert-to-slave", id, "");
            }
        }
    }

    fn promoted(&mut self, id: InstanceId, primary: InstanceId) {
        let group = self.instances.group_mut(primary);
        // From here on other Sentinels are to follow this configuration.
        group.config_epoch = group.failover.epoch;
        self.enter(primary, FailoverState::ReconfigureReplicas);
        self.save();
        self.event_of(Level::Warning, "+promoted-slave", id, "");
        if self.simulated.after_promotion {
            self.simulate_crash();
        }
        if self.instances[primary].flags.has(Flags::COORDINATED_FAILOVER) {
            self.send_kill_clients(primary);
            self.send_kill_clients(id);
        }
        self.event_of(Level::Warning, "+failover-state-reconf-slaves", primary, "");
        let (from, to) = (self.instances[primary].address.clone(), self.instances[id].address.clone());
        self.call_client_reconfig_script(primary, "leader", &from, &to);
        // A new primary that acknowledges writes may need its predecessor's voice, and must not count as one that
        // serves no client meanwhile. A predecessor that hands over follows by itself.
        let old = &self.instances[primary];
        if old.reported.acknowledges.is_some() && !old.flags.has(Flags::COORDINATED_FAILOVER) {
            self.send_replica_of(primary, Some(&to));
        }
        self.hurry_hello(primary);
    }

    /// Ends the process as SENTINEL SIMULATE-FAILURE requested.
    pub(crate) fn simulate_crash(&mut self) {
        self.log(Level::Warning, "Sentinel CRASH because of SENTINEL simulate-failure".to_string());
        self.effects.push(Effect::Exit(99));
    }

    fn replica_says_replica(&mut self, id: InstanceId) {
        let primary = self.instances.primary_of(id);
        let reported = self.instances[id].reported.clone();
        if reported.own_failover == OwnFailover::Busy {
            self.fix_replica(id, reported.own_failover_since);
        }
        let address = self.instances[primary].address.clone();
        let host = reported.primary_host.as_deref().unwrap_or_default();
        if reported.primary_port != i64::from(address.port) || !self.is_host_of(&address, host) {
            self.fix_replica(id, reported.primary_changed);
            if !reported.primary_link_up {
                self.turn_to_lonely_primary(id);
            }
        }
        self.note_reconfiguration(id);
    }

    /// Corrects a replica that has the wrong primary for so long that no other Sentinel will do it.
    fn fix_replica(&mut self, id: InstanceId, since: i64) {
        let primary = self.instances.primary_of(id);
        let wait = self.instances.group(primary).failover_timeout;
        if self.looks_sane(primary) && self.instances[id].not_down_for(wait, self.now) && self.now - since > wait {
            let address = self.instances[primary].address.clone();
            if self.send_replica_of(id, Some(&address)) {
                self.event_of(Level::Notice, "+fix-slave-config", id, "");
            }
        }
    }

    /// Turns a replica that has lost another primary to this one, if that serves no client as too few servers follow
    /// it. The order of the failover may have been lost.
    fn turn_to_lonely_primary(&mut self, id: InstanceId) {
        let primary = self.instances.primary_of(id);
        let (instance, replica) = (&self.instances[primary], &self.instances[id]);
        // The other Sentinels replace the primary when it has been unconfirmed for longer.
        let wait = instance.down_after / 2;
        let since = replica.reported.primary_changed.max(replica.reconf_sent);
        let group = self.instances.group(primary);
        // Another Sentinel may promote the replica meanwhile.
        let is_chosen = self.now - group.failover.started < group.failover_timeout;
        let is_lonely = instance.reported.role == Some(Role::Primary)
            && matches!(instance.reported.acknowledges, Some(Acknowledging::Unconfirmed | Acknowledging::Blocked))
            && !instance.reported.was_started_as_primary
            && !instance.flags.has(Flags::FAILOVER_IN_PROGRESS)
            && self.silence(primary) <= instance.down_after
            && self.now - instance.info_refresh < self.periods.info * 2;
        if is_lonely && !is_chosen && self.now - since > wait {
            let address = instance.address.clone();
            if self.send_replica_of(id, Some(&address)) {
                self.instances[id].reconf_sent = self.now;
                self.event_of(Level::Notice, "+fix-slave-config", id, "");
            }
        }
    }

    /// Records the progress of a replica that was ordered to follow the promoted one.
    fn note_reconfiguration(&mut self, id: InstanceId) {
        let reported = self.instances[id].reported.clone();
        if self.instances[id].flags.has(Flags::RECONF_SENT)
            && let Some(promoted) = self.instances.group(id).failover.promoted
            && let Some(host) = &reported.primary_host
        {
            let address = self.instances[promoted].address.clone();
            if self.is_host_of(&address, host) && reported.primary_port == i64::from(address.port) {
                let flags = &mut self.instances[id].flags;
                flags.remove(Flags::RECONF_SENT);
                flags.insert(Flags::RECONF_IN_PROGRESS);
                self.event_of(Level::Notice, "+slave-reconf-inprog", id, "");
            }
        }
        if self.instances[id].flags.has(Flags::RECONF_IN_PROGRESS) && reported.primary_link_up {
            let flags = &mut self.instances[id].flags;
            flags.remove(Flags::RECONF_IN_PROGRESS);
            flags.insert(Flags::RECONF_DONE);
            self.event_of(Level::Notice, "+slave-reconf-done", id, "");
        }
    }

    /// Returns whether the primary is up, and reports to be one.
    fn looks_sane(&self, primary: InstanceId) -> bool {
        let instance = &self.instances[primary];
        instance.reported.role == Some(Role::Primary)
            && !instance.flags.has(Flags::S_DOWN.and(Flags::O_DOWN))
            && self.now - instance.info_refresh < self.periods.info * 2
    }
}
