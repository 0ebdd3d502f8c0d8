//! Forgets the state of a primary, of Sentinels that moved, and of primaries that are not watched any more.

use super::Watch;
use crate::model::effect::Level;
use crate::model::instance::{Acknowledging, FailoverState, Flags, InstanceId, Kind, Role};
use crate::model::instance_address::Address;

impl Watch {
    pub(crate) fn remove(&mut self, id: InstanceId) {
        if self.instances[id].kind == Kind::Primary {
            self.instances.members(id).into_iter().for_each(|member| self.remove(member));
        }
        if let Some(instance) = self.instances.take(id) {
            self.release_link(instance.link, id);
        }
    }

    /// Forgets replicas, Sentinels too perhaps, and any failover.
    pub(crate) fn reset(&mut self, primary: InstanceId, sentinels: bool) {
        for member in self.instances.members(primary) {
            if sentinels || self.instances[member].kind == Kind::Replica {
                self.remove(member);
            }
        }
        let now = self.now;
        let link = self.instances[primary].link;
        self.close_link(link);
        self.links[link].restart(now);
        let instance = &mut self.instances[primary];
        instance.flags = Flags::default();
        instance.leader = None;
        instance.run_id = None;
        instance.reported.primary_host = None;
        instance.reported.role = Some(Role::Primary);
        instance.reported.role_since = now;
        // The next server has as long to report its own part as it has to answer at all.
        instance.reported.acknowledges_since = now;
        let failover = &mut self.instances.group_mut(primary).failover;
        failover.state = FailoverState::None;
        failover.state_since = 0;
        failover.started = 0;
        failover.promoted = None;
    }

    /// Gives the primary the address of another server; the old one is a replica, as soon as it is back. Returns
    /// whether the address is known; the configuration is to be saved then.
    pub(crate) fn change_primary_address(&mut self, primary: InstanceId, host: &str, port: i64) -> bool {
        let Ok(new) = self.address(host, port, false) else {
            return false;
        };
        let replicas = self.instances.group(primary).replicas.iter().map(|&id| &self.instances[id].address);
        let old = &self.instances[primary];
        let led_in_vain = (old.reported.acknowledges == Some(Acknowledging::Unconfirmed)).then(|| old.address.clone());
        let old = std::iter::once(&old.address);
        let replicas: Vec<Address> = replicas.chain(old).filter(|address| !address.is_same(&new)).cloned().collect();
        self.reset(primary, false);
        if let Some(old) = led_in_vain {
            let list = &mut self.instances.group_mut(primary).led_in_vain;
            list.retain(|address| !address.is_same(&old));
            list.push(old);
        }
        let instance = &mut self.instances[primary];
        instance.address = new;
        instance.s_down_since = 0;
        instance.o_down_since = 0;
        for address in replicas {
            let port = i64::from(address.port);
            if let Ok(replica) = self.create(Kind::Replica, "", &address.hostname, port, 0, Some(primary)) {
                self.event_of(Level::Notice, "+slave", replica, "");
            }
        }
        true
    }

    /// Removes a Sentinel; returns whether there was one with that id.
    pub(crate) fn remove_sentinel(&mut self, primary: InstanceId, run_id: &str) -> bool {
        let found = self.instances.sentinel_with_id(primary, run_id);
        found.into_iter().for_each(|id| self.remove(id));
        found.is_some()
    }

    /// Shares the link of a Sentinel that watches several of the same primaries: one is enough.
    pub(crate) fn share_link(&mut self, id: InstanceId) {
        let link = self.instances[id].link;
        let Some(run_id) = self.instances[id].run_id.clone().filter(|_| self.links[link].users == 1) else {
            return;
        };
        let own = self.instances.primary_of(id);
        let others = self.instances.primaries().iter().filter(|&&primary| primary != own);
        let found = others.filter_map(|&primary| self.instances.sentinel_with_id(primary, &run_id)).next();
        if let Some(other) = found {
            let shared = self.instances[other].link;
            self.release_link(link, id);
            self.links[shared].users += 1;
            self.instances[id].link = shared;
        }
    }

    /// Updates a Sentinel's address for all primaries.
    pub(crate) fn update_address_everywhere(&mut self, id: InstanceId) {
        let Some(run_id) = self.instances[id].run_id.clone() else {
            return;
        };
        let address = self.instances[id].address.clone();
        let mut updated = 0;
        for primary in self.instances.primaries().to_vec() {
            let Some(found) = self.instances.sentinel_with_id(primary, &run_id) else {
                continue;
            };
            self.close_link(self.instances[found].link);
            if found != id {
                self.instances[found].address = address.clone();
                updated += 1;
            }
        }
        if updated > 0 {
            let more = format!(" {updated} additional matching instances");
            self.event_of(Level::Notice, "+sentinel-address-update", id, &more);
        }
    }

    /// Closes the connections to a primary and its replicas: they are to be opened with another password.
    pub(crate) fn drop_server_connections(&mut self, primary: InstanceId) {
        for id in std::iter::once(primary).chain(self.instances.group(primary).replicas.clone()) {
            self.close_link(self.instances[id].link);
        }
    }

    /// Closes the connections to all other Sentinels.
    pub(crate) fn drop_sentinel_connections(&mut self) {
        let links = self.instances.all().filter(|(_, instance)| instance.kind == Kind::Sentinel);
        let links: Vec<_> = links.map(|(_, instance)| instance.link).collect();
        for link in links {
            if !self.links[link].disconnected {
                self.close_link(link);
            }
        }
    }
}
