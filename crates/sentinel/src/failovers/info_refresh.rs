//! The effects of an answer to INFO: new instances, changed roles, and corrections.

use super::{Failovers, simulate_crash};
use crate::model::effect::Level;
use crate::model::info_report::InfoReport;
use crate::model::instance::{Acknowledging, FailoverState, Flags, InstanceId, Kind, OwnFailover, Role};
use crate::model::instance_address::joined;
use crate::odown::silence;
use crate::voter::Voter;
use crate::watch::Watch;

impl Failovers {
    /// Handles an instance's answer to INFO; `is_tilted`: it changes no role.
    pub(crate) fn refresh(&self, voter: &mut Voter, watch: &mut Watch, id: InstanceId, text: &[u8], is_tilted: bool) {
        let report = InfoReport::parse(text);
        watch[id].info = Some(text.to_vec());
        note_run_id(watch, id, report.run_id.as_deref());
        if watch[id].kind == Kind::Primary {
            find_replicas(voter, watch, id, &report);
        }
        let now = watch.now();
        report.apply(&mut watch[id].reported, now);
        watch[id].info_refresh = now;
        note_role(watch, id, report.role);
        if watch[id].kind == Kind::Primary && watch[id].reported.acknowledges == Some(Acknowledging::Open) {
            watch.group_mut(id).led_in_vain.clear();
        }
        if is_tilted || watch[id].kind != Kind::Replica {
            return;
        }
        match report.role {
            Some(Role::Primary) => self.replica_says_primary(voter, watch, id),
            Some(Role::Replica) => replica_says_replica(watch, id),
            None => {}
        }
    }

    /// Handles a replica that reports to be a primary: because it was promoted, or because it has no other order.
    fn replica_says_primary(&self, voter: &Voter, watch: &mut Watch, id: InstanceId) {
        let primary = watch.instances().primary_of(id);
        let promoted = watch[id].flags.has(Flags::PROMOTED);
        let in_progress = watch[primary].flags.has(Flags::FAILOVER_IN_PROGRESS);
        if promoted && in_progress && watch.group(primary).failover.state == FailoverState::WaitPromotion {
            self.promoted(voter, watch, id, primary);
            return;
        }
        let instance = &watch[id];
        let serves_nobody =
            matches!(instance.reported.acknowledges, Some(Acknowledging::Unconfirmed | Acknowledging::Blocked));
        // Hello messages about its promotion may be under way; but not if it has led since it started.
        let is_told = watch.now() - instance.reconf_sent < watch.periods().publish;
        let is_left_over = serves_nobody && instance.reported.was_started_as_primary && !is_told;
        let wait = if is_left_over { 0 } else { watch.periods().publish * 4 };
        if !promoted
            && watch.looks_sane(primary)
            && instance.not_down_for(wait, watch.now())
            && (is_left_over || watch.now() - instance.reported.role_since > wait)
        {
            let address = watch[primary].address.clone();
            if watch.send_replica_of(id, Some(&address)) {
                watch[id].reconf_sent = watch.now();
                watch.event_of(Level::Notice, "+convert-to-slave", id, "");
            }
        }
    }

    fn promoted(&self, voter: &Voter, watch: &mut Watch, id: InstanceId, primary: InstanceId) {
        let group = watch.group_mut(primary);
        // From here on other Sentinels are to follow this configuration.
        group.config_epoch = group.failover.epoch;
        watch.enter(primary, FailoverState::ReconfigureReplicas);
        voter.save(watch);
        watch.event_of(Level::Warning, "+promoted-slave", id, "");
        if self.simulated.after_promotion {
            simulate_crash(watch);
        }
        if watch[primary].flags.has(Flags::COORDINATED_FAILOVER) {
            watch.send_kill_clients(primary);
            watch.send_kill_clients(id);
        }
        watch.event_of(Level::Warning, "+failover-state-reconf-slaves", primary, "");
        let (from, to) = (watch[primary].address.clone(), watch[id].address.clone());
        watch.call_client_reconfig_script(primary, "leader", &from, &to);
        // A new primary that acknowledges writes may need its predecessor's voice, and must not count as one that
        // serves no client meanwhile. A predecessor that hands over follows by itself.
        let old = &watch[primary];
        if old.reported.acknowledges.is_some() && !old.flags.has(Flags::COORDINATED_FAILOVER) {
            watch.send_replica_of(primary, Some(&to));
        }
        watch.hurry_hello(primary);
    }
}

fn note_run_id(watch: &mut Watch, id: InstanceId, run_id: Option<&str>) {
    let Some(run_id) = run_id else {
        return;
    };
    let known = watch[id].run_id.as_deref();
    if known.is_some_and(|known| known != run_id) {
        watch.event_of(Level::Notice, "+reboot", id, "");
        if watch[id].kind == Kind::Primary && watch.group(id).reboot_down_after != 0 {
            watch[id].flags.insert(Flags::PRIMARY_REBOOT);
            watch.group_mut(id).reboot_since = watch.now();
        }
    }
    watch[id].run_id = Some(run_id.to_string());
}

fn find_replicas(voter: &Voter, watch: &mut Watch, primary: InstanceId, report: &InfoReport) {
    for (host, port) in &report.replicas {
        let known = watch.address(host, *port, false).ok().and_then(|address| {
            let name = joined(watch.announced(&address), address.port);
            watch.instances().replica_named(primary, &name)
        });
        if known.is_none()
            && let Ok(replica) = watch.create(Kind::Replica, "", host, *port, 0, Some(primary))
        {
            watch.event_of(Level::Notice, "+slave", replica, "");
            voter.save(watch);
        }
    }
}

fn note_role(watch: &mut Watch, id: InstanceId, role: Option<Role>) {
    if watch[id].reported.role == role {
        return;
    }
    let now = watch.now();
    let reported = &mut watch[id].reported;
    reported.role = role;
    reported.role_since = now;
    if role == Some(Role::Replica) {
        reported.primary_changed = now;
    }
    let expected = match watch[id].kind {
        Kind::Primary => Some(Role::Primary),
        Kind::Replica => Some(Role::Replica),
        Kind::Sentinel => None,
    };
    let event = if role == expected { "+role-change" } else { "-role-change" };
    let word = if role == Some(Role::Primary) { "master" } else { "slave" };
    watch.event_of(Level::Verbose, event, id, &format!(" new reported role is {word}"));
}

fn replica_says_replica(watch: &mut Watch, id: InstanceId) {
    let primary = watch.instances().primary_of(id);
    let reported = watch[id].reported.clone();
    if reported.own_failover == OwnFailover::Busy {
        fix_replica(watch, id, reported.own_failover_since);
    }
    let address = watch[primary].address.clone();
    let host = reported.primary_host.as_deref().unwrap_or_default();
    if reported.primary_port != i64::from(address.port) || !watch.is_host_of(&address, host) {
        fix_replica(watch, id, reported.primary_changed);
        if !reported.primary_link_up {
            turn_to_lonely_primary(watch, id);
        }
    }
    note_reconfiguration(watch, id);
}

/// Corrects a replica that has the wrong primary for so long that no other Sentinel will do it.
fn fix_replica(watch: &mut Watch, id: InstanceId, since: i64) {
    let primary = watch.instances().primary_of(id);
    let wait = watch.group(primary).failover_timeout;
    if watch.looks_sane(primary) && watch[id].not_down_for(wait, watch.now()) && watch.now() - since > wait {
        let address = watch[primary].address.clone();
        if watch.send_replica_of(id, Some(&address)) {
            watch.event_of(Level::Notice, "+fix-slave-config", id, "");
        }
    }
}

/// Turns a replica that has lost another primary to this one, if that serves no client as too few servers follow it.
/// The order of the failover may have been lost.
fn turn_to_lonely_primary(watch: &mut Watch, id: InstanceId) {
    let primary = watch.instances().primary_of(id);
    let (instance, replica) = (&watch[primary], &watch[id]);
    // The other Sentinels replace the primary when it has been unconfirmed for longer.
    let wait = instance.down_after / 2;
    let since = replica.reported.primary_changed.max(replica.reconf_sent);
    let group = watch.group(primary);
    // Another Sentinel may promote the replica meanwhile.
    let is_chosen = watch.now() - group.failover.started < group.failover_timeout;
    let is_lonely = instance.reported.role == Some(Role::Primary)
        && matches!(instance.reported.acknowledges, Some(Acknowledging::Unconfirmed | Acknowledging::Blocked))
        && !instance.reported.was_started_as_primary
        && !instance.flags.has(Flags::FAILOVER_IN_PROGRESS)
        && silence(watch, primary) <= instance.down_after
        && watch.now() - instance.info_refresh < watch.periods().info * 2;
    if is_lonely && !is_chosen && watch.now() - since > wait {
        let address = instance.address.clone();
        if watch.send_replica_of(id, Some(&address)) {
            watch[id].reconf_sent = watch.now();
            watch.event_of(Level::Notice, "+fix-slave-config", id, "");
        }
    }
}

/// Records the progress of a replica that was ordered to follow the promoted one.
fn note_reconfiguration(watch: &mut Watch, id: InstanceId) {
    let reported = watch[id].reported.clone();
    if watch[id].flags.has(Flags::RECONF_SENT)
        && let Some(promoted) = watch.group(id).failover.promoted
        && let Some(host) = &reported.primary_host
    {
        let address = watch[promoted].address.clone();
        if watch.is_host_of(&address, host) && reported.primary_port == i64::from(address.port) {
            let flags = &mut watch[id].flags;
            flags.remove(Flags::RECONF_SENT);
            flags.insert(Flags::RECONF_IN_PROGRESS);
            watch.event_of(Level::Notice, "+slave-reconf-inprog", id, "");
        }
    }
    if watch[id].flags.has(Flags::RECONF_IN_PROGRESS) && reported.primary_link_up {
        let flags = &mut watch[id].flags;
        flags.remove(Flags::RECONF_IN_PROGRESS);
        flags.insert(Flags::RECONF_DONE);
        watch.event_of(Level::Notice, "+slave-reconf-done", id, "");
    }
}
