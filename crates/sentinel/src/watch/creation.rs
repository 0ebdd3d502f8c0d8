//! New instances: their names, and the reasons to create none.

use super::Watch;
use crate::model::effect::Millis;
use crate::model::instance::{Flags, Group, Instance, InstanceId, Kind, Reported, TransportId};
use crate::model::instance_address::{Address, AddressError, joined};
use std::collections::BTreeSet;

impl Watch {
    /// Creates an instance and its link.
    pub(crate) fn create(
        &mut self,
        kind: Kind,
        name: &str,
        host: &str,
        port: i64,
        quorum: i64,
        primary: Option<InstanceId>,
    ) -> Result<InstanceId, CreateError> {
        let address = self.address(host, port, true)?;
        let name = match kind {
            Kind::Replica => joined(self.announced(&address), address.port),
            _ => name.to_string(),
        };
        let taken = match (kind, primary) {
            (Kind::Replica, Some(primary)) => self.instances.replica_named(primary, &name).is_some(),
            (Kind::Sentinel, Some(primary)) => {
                self.instances.group(primary).sentinels.iter().any(|&id| self.instances[id].name == name)
            }
            _ => self.instances.primary_named(name.as_bytes()).is_some(),
        };
        if taken {
            return Err(CreateError::Duplicate(kind));
        }
        let down_after = match primary {
            Some(primary) => self.instances[primary].down_after,
            None => self.periods.default_down_after,
        };
        let group = Box::new(Group::new(quorum, self.periods.default_failover_timeout));
        let instance = new_instance(kind, name, address, self.links.add(self.now), primary, self.now);
        let group = (kind == Kind::Primary).then_some(group);
        Ok(self.instances.add(Instance { down_after, group, ..instance }))
    }
}

/// The reason that an instance cannot be created.
pub(crate) enum CreateError {
    Duplicate(Kind),
    Address(AddressError),
}

impl From<AddressError> for CreateError {
    fn from(error: AddressError) -> CreateError {
        CreateError::Address(error)
    }
}

impl CreateError {
    pub fn text(&self) -> &'static str {
        match self {
            CreateError::Duplicate(Kind::Primary) => "Duplicate master name.",
            CreateError::Duplicate(Kind::Replica) => "Duplicate hostname and port for replica.",
            CreateError::Duplicate(Kind::Sentinel) => "Duplicate runid for sentinel.",
            CreateError::Address(AddressError::Host) => "Can't resolve instance hostname.",
            CreateError::Address(AddressError::Port) => "Invalid port number.",
        }
    }
}

fn new_instance(
    kind: Kind,
    name: String,
    address: Address,
    link: TransportId,
    primary: Option<InstanceId>,
    now: Millis,
) -> Instance {
    Instance {
        kind,
        flags: Flags::default(),
        name,
        run_id: None,
        address,
        link,
        primary,
        last_publish: now,
        last_hello: now,
        last_down_reply: now,
        s_down_since: 0,
        o_down_since: 0,
        down_after: 0,
        info_refresh: 0,
        info: None,
        reconf_sent: 0,
        leader: None,
        leader_epoch: 0,
        refusals: BTreeSet::new(),
        reported: Reported::new(kind, now),
        group: None,
    }
}
