//! All instances, and lookups of them.

use crate::model::instance::{Group, Instance, InstanceId, Kind};
use crate::model::instance_address::Address;
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

/// The table of instances. An instance that another names is in it.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    by_id: BTreeMap<InstanceId, Instance>,
    /// Primaries in the order in which they were added.
    primaries: Vec<InstanceId>,
    last: InstanceId,
}

impl Index<InstanceId> for Instances {
    type Output = Instance;

    fn index(&self, id: InstanceId) -> &Instance {
        &self.by_id[&id]
    }
}

impl IndexMut<InstanceId> for Instances {
    fn index_mut(&mut self, id: InstanceId) -> &mut Instance {
        self.by_id.get_mut(&id).expect("an instance that is named is there")
    }
}

impl Instances {
    /// Returns the primaries, in the order in which they were added.
    pub fn primaries(&self) -> &[InstanceId] {
        &self.primaries
    }

    /// Returns whether the instance is still there.
    pub fn contains(&self, id: InstanceId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Returns a primary's state; of others, their primary's.
    pub fn group(&self, id: InstanceId) -> &Group {
        self[self.primary_of(id)].group.as_deref().expect("a primary has a group")
    }

    /// Returns a primary's state, to be changed; of others, their primary's.
    pub fn group_mut(&mut self, id: InstanceId) -> &mut Group {
        let primary = self.primary_of(id);
        self[primary].group.as_deref_mut().expect("a primary has a group")
    }

    /// Returns the primary that an instance belongs to; itself if it is one.
    pub fn primary_of(&self, id: InstanceId) -> InstanceId {
        self[id].primary.unwrap_or(id)
    }

    /// Returns replicas, then Sentinels of a primary.
    pub fn members(&self, primary: InstanceId) -> Vec<InstanceId> {
        let group = self.group(primary);
        group.replicas.iter().chain(&group.sentinels).copied().collect()
    }

    /// Returns all instances.
    pub fn all(&self) -> impl Iterator<Item = (&InstanceId, &Instance)> {
        self.by_id.iter()
    }

    /// Adds an instance to its primary, or a primary to the list.
    pub fn add(&mut self, instance: Instance) -> InstanceId {
        self.last += 1;
        let id = self.last;
        match (instance.kind, instance.primary) {
            (Kind::Replica, Some(primary)) => self.group_mut(primary).replicas.push(id),
            (Kind::Sentinel, Some(primary)) => self.group_mut(primary).sentinels.push(id),
            _ => self.primaries.push(id),
        }
        self.by_id.insert(id, instance);
        id
    }

    /// Removes an instance, and the references to it.
    pub fn take(&mut self, id: InstanceId) -> Option<Instance> {
        let instance = self.by_id.remove(&id)?;
        match instance.primary {
            None => self.primaries.retain(|&other| other != id),
            Some(primary) if self.by_id.contains_key(&primary) => {
                let group = self.group_mut(primary);
                group.replicas.retain(|&other| other != id);
                group.sentinels.retain(|&other| other != id);
                if group.failover.promoted == Some(id) {
                    group.failover.promoted = None;
                }
            }
            Some(_) => {}
        }
        Some(instance)
    }

    /// Returns the primary of that name.
    pub fn primary_named(&self, name: &[u8]) -> Option<InstanceId> {
        self.primaries.iter().copied().find(|&id| self[id].name.as_bytes() == name)
    }

    /// Returns the replica of that name.
    pub fn replica_named(&self, primary: InstanceId, name: &str) -> Option<InstanceId> {
        self.group(primary).replicas.iter().copied().find(|&id| self[id].name == name)
    }

    /// Returns the first of these at that address.
    pub fn at(&self, ids: &[InstanceId], address: &Address) -> Option<InstanceId> {
        ids.iter().copied().find(|&id| self[id].address.is_same(address))
    }

    /// Returns a primary's Sentinel with that id.
    pub fn sentinel_with_id(&self, primary: InstanceId, run_id: &str) -> Option<InstanceId> {
        self.group(primary).sentinels.iter().copied().find(|&id| self[id].run_id.as_deref() == Some(run_id))
    }
}
