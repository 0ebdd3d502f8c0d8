//! An instance: a primary, a replica or another Sentinel, and its known state.

use crate::model::effect::Millis;
use crate::model::instance_address::Address;
use std::collections::BTreeSet;

/// The number of an instance; never given twice.
pub(crate) type InstanceId = u64;

/// The number of a link to an instance; never given twice.
pub(crate) type TransportId = u64;

/// The kind of an instance in this Sentinel's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Primary,
    Replica,
    Sentinel,
}

impl Kind {
    /// Returns the word of events and replies for it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Primary => "master",
            Kind::Replica => "slave",
            Kind::Sentinel => "sentinel",
        }
    }
}

/// The role that an instance reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Primary,
    Replica,
}

/// A set of states of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u16);

macro_rules! flags {
    ($($name:ident = $bit:literal;)*) => {
        impl Flags {
            $(pub const $name: Flags = Flags(1 << $bit);)*
        }
    };
}

flags! {
    S_DOWN = 0;
    O_DOWN = 1;
    PRIMARY_DOWN = 2;
    FAILOVER_IN_PROGRESS = 3;
    PROMOTED = 4;
    RECONF_SENT = 5;
    RECONF_IN_PROGRESS = 6;
    RECONF_DONE = 7;
    FORCE_FAILOVER = 8;
    COORDINATED_FAILOVER = 9;
    SCRIPT_KILL_SENT = 10;
    PRIMARY_REBOOT = 11;
}

impl Flags {
    /// Returns the flags of both.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Returns whether one of these is set.
    pub fn has(self, any: Flags) -> bool {
        self.0 & any.0 != 0
    }

    pub fn insert(&mut self, flags: Flags) {
        self.0 |= flags.0;
    }

    pub fn remove(&mut self, flags: Flags) {
        self.0 &= !flags.0;
    }
}

/// Whether an instance knows FAILOVER, and whether it is in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnFailover {
    Unsupported,
    Idle,
    Busy,
}

/// Steps of a failover, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FailoverState {
    None,
    WaitStart,
    SelectReplica,
    SendReplicaOfNoOne,
    WaitPromotion,
    ReconfigureReplicas,
    UpdateConfig,
}

impl FailoverState {
    /// Returns the word of SENTINEL MASTER for it.
    pub fn word(self) -> &'static str {
        match self {
            FailoverState::None => "none",
            FailoverState::WaitStart => "wait_start",
            FailoverState::SelectReplica => "select_slave",
            FailoverState::SendReplicaOfNoOne => "send_slaveof_noone",
            FailoverState::WaitPromotion => "wait_promotion",
            FailoverState::ReconfigureReplicas => "reconf_slaves",
            FailoverState::UpdateConfig => "update_config",
        }
    }
}

/// An instance's last report of its replication.
#[derive(Clone, Debug)]
pub(crate) struct Reported {
    pub role: Option<Role>,
    pub role_since: Millis,
    /// Time of its last change of the primary.
    pub primary_changed: Millis,
    pub primary_host: Option<String>,
    pub primary_port: i64,
    pub primary_link_up: bool,
    /// Time for which the link to its primary is down.
    pub primary_link_down: Millis,
    pub priority: i64,
    pub announced: bool,
    pub offset: u64,
    /// Part of its data that may hold acknowledged writes; None: it reports none.
    pub claimed_offset: Option<u64>,
    pub own_failover: OwnFailover,
    pub own_failover_since: Millis,
    /// Its part in acknowledged writes; None: it has none.
    pub acknowledges: Option<Acknowledging>,
    /// Beginning of that part.
    pub acknowledges_since: Millis,
    /// Whether it has led since it started, and was not promoted.
    pub was_started_as_primary: bool,
    /// Whether it has led since it was promoted, and is sure to have all acknowledged writes, or had its lead from a
    /// primary that was.
    pub leads: bool,
}

impl Reported {
    /// Returns whether it is a primary that is sure to have all acknowledged writes.
    pub fn is_confirmed(&self) -> bool {
        let is_primary = self.role == Some(Role::Primary);
        is_primary && self.acknowledges.is_some_and(|state| state != Acknowledging::Unconfirmed)
    }

    /// Returns whether it leads since it started, and may lack acknowledged writes: promoted it would serve no client.
    pub fn may_lack_writes(&self) -> bool {
        self.was_started_as_primary && self.acknowledges == Some(Acknowledging::Unconfirmed)
    }
}

/// A server's part in acknowledged writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledging {
    /// A primary that may lack acknowledged writes, and therefore answers no client.
    Unconfirmed,
    /// A primary that has too few replicas to answer clients.
    Blocked,
    /// A replica that may have all acknowledged writes.
    Member,
    /// A primary that answers its clients.
    Open,
    /// Another part.
    Other,
}

impl Acknowledging {
    /// Returns the part for INFO's word.
    pub fn of(word: &str) -> Acknowledging {
        match word {
            "unconfirmed" => Acknowledging::Unconfirmed,
            "blocked" => Acknowledging::Blocked,
            "in-sync" => Acknowledging::Member,
            "open" => Acknowledging::Open,
            _ => Acknowledging::Other,
        }
    }
}

/// A failover and its progress.
#[derive(Clone, Debug)]
pub(crate) struct Failover {
    pub state: FailoverState,
    pub epoch: u64,
    pub state_since: Millis,
    pub started: Millis,
    /// Start of the attempt whose delay was logged.
    pub delay_logged: Millis,
    pub promoted: Option<InstanceId>,
    /// Time of the primary's word that it is about to hand over.
    pub accepted: Option<Millis>,
}

/// State that only a primary has.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub replicas: Vec<InstanceId>,
    pub sentinels: Vec<InstanceId>,
    pub config_epoch: u64,
    pub quorum: i64,
    pub parallel_syncs: i64,
    pub failover_timeout: Millis,
    pub reboot_down_after: Millis,
    pub reboot_since: Millis,
    pub auth_pass: Option<Vec<u8>>,
    pub auth_user: Option<Vec<u8>>,
    pub notification_script: Option<Vec<u8>>,
    pub client_reconfig_script: Option<Vec<u8>>,
    /// Commands that its servers have under other names: old, new.
    pub renamed: Vec<(Vec<u8>, Vec<u8>)>,
    pub failover: Failover,
    /// Addresses of servers that led without acknowledging until they were replaced, the last one at the end. A server
    /// that acknowledges ends the list.
    pub led_in_vain: Vec<Address>,
}

/// An instance.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub kind: Kind,
    pub flags: Flags,
    pub name: String,
    pub run_id: Option<String>,
    pub address: Address,
    pub link: TransportId,
    /// The primary that a replica or a Sentinel belongs to.
    pub primary: Option<InstanceId>,
    pub last_publish: Millis,
    pub last_hello: Millis,
    pub last_down_reply: Millis,
    pub s_down_since: Millis,
    pub o_down_since: Millis,
    pub down_after: Millis,
    /// Time of the last INFO; 0: never.
    pub info_refresh: Millis,
    pub info: Option<Vec<u8>>,
    /// Time when a replica was ordered to follow the promoted one.
    pub reconf_sent: Millis,
    /// The last vote of this Sentinel; of a primary: this Sentinel's own vote.
    pub leader: Option<String>,
    pub leader_epoch: u64,
    /// Commands that it refuses, each with the error's first word: they are in the log.
    pub refusals: BTreeSet<(Box<str>, Box<str>)>,
    pub reported: Reported,
    pub group: Option<Box<Group>>,
}

impl Reported {
    /// Returns whether a replica has ever had data of its primary: otherwise it reports -1 for the time since it lost
    /// the link.
    pub fn was_synchronized(&self) -> bool {
        self.primary_link_down >= 0 || self.offset > 0
    }

    /// Returns the state assumed before any report.
    pub fn new(kind: Kind, now: Millis) -> Reported {
        Reported {
            role: match kind {
                Kind::Primary => Some(Role::Primary),
                Kind::Replica => Some(Role::Replica),
                Kind::Sentinel => None,
            },
            role_since: now,
            primary_changed: now,
            primary_host: None,
            primary_port: 0,
            primary_link_up: false,
            primary_link_down: 0,
            priority: 100,
            announced: true,
            offset: 0,
            claimed_offset: None,
            own_failover: OwnFailover::Unsupported,
            own_failover_since: now,
            acknowledges: None,
            acknowledges_since: now,
            was_started_as_primary: false,
            leads: false,
        }
    }
}

impl Group {
    /// Returns the state of a primary without reports.
    pub fn new(quorum: i64, failover_timeout: Millis) -> Group {
        Group {
            replicas: Vec::new(),
            sentinels: Vec::new(),
            config_epoch: 0,
            quorum,
            parallel_syncs: 1,
            failover_timeout,
            reboot_down_after: 0,
            reboot_since: 0,
            auth_pass: None,
            auth_user: None,
            notification_script: None,
            client_reconfig_script: None,
            renamed: Vec::new(),
            failover: Failover {
                state: FailoverState::None,
                epoch: 0,
                state_since: 0,
                started: 0,
                delay_logged: 0,
                accepted: None,
                promoted: None,
            },
            led_in_vain: Vec::new(),
        }
    }
}

impl Instance {
    /// Returns whether it was up for longer than this.
    pub fn not_down_for(&self, ms: Millis, now: Millis) -> bool {
        let recent = self.s_down_since.max(self.o_down_since);
        recent == 0 || now - recent > ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_without_link_and_stream_was_never_synchronized() {
        let mut reported = Reported::new(Kind::Replica, 1);
        assert!(reported.was_synchronized());
        reported.primary_link_down = -1000;
        assert!(!reported.was_synchronized());
        reported.offset = 14;
        assert!(reported.was_synchronized(), "it was started with its data");
        (reported.primary_link_down, reported.offset) = (3000, 0);
        assert!(reported.was_synchronized(), "nothing was written after its synchronization");
    }
}
