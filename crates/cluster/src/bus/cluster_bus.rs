//! The bus as a whole: its state, its start, and input from outside.

use super::coming_slots::ComingSlots;
use super::model::bus_effect::{Effect, Level};
use super::model::bus_settings::{DebugSettings, Facts, Settings};
use super::model::health::Health;
use super::model::message_counters::Counters;
use super::model::takeover_state::{Election, ManualFailover};
use super::model::todo::Todo;
use super::model::transports::Transports;
use super::takeovers::Takeovers;
use crate::Millis;
use crate::conf::{self, ConfError};
use crate::data_history::DataHistory;
use crate::migration::Migrations;
use crate::node::{Address, Flags, Node};
use crate::node_id::NodeId;
use crate::node_table::NodeTable;
use crate::packet::Published;
use crate::slot_set::SlotSet;
use std::collections::BTreeMap;

/// Time between two calls of [`Bus::tick`].
pub const TICK: Millis = 100;

/// Number of times that a primary which serves no client doubles the time before it asks to be replaced.
const PATIENCE_DOUBLINGS: u32 = 3;

/// Flags of a node of this kind.
const MY_FLAGS: u16 = Flags::EXTENSIONS | Flags::LIGHT_PUBLISH | Flags::LIGHT_MODULE;

/// A node among others.
#[derive(Debug)]
pub struct Bus {
    pub(super) nodes: NodeTable,
    /// Greatest epoch that was seen.
    pub(super) current_epoch: u64,
    /// Epoch of this node's last vote.
    pub(super) last_vote_epoch: u64,
    /// Time of the last log line about a refused epoch.
    pub(super) epoch_refused: Option<Millis>,
    /// Beginning of a minute, and the epoch at that time: others' epochs are measured from it.
    pub(super) epoch_step: Option<(Millis, u64)>,
    pub(super) health: Health,
    pub(super) election: Election,
    pub(super) manual: ManualFailover,
    /// Time at which this primary voted for a replica of its own.
    pub(super) voted_for_replica: Option<Millis>,
    /// Forgotten nodes, and the second until which they stay forgotten.
    pub(super) forgotten: BTreeMap<NodeId, i64>,
    pub(super) links: Transports,
    pub(super) counters: Counters,
    /// Messages of clients that were published since the start.
    pub(super) published: Published,
    /// Number of nodes that were suspected at the last tick.
    pub(super) suspected: usize,
    pub(super) ticks: u64,
    /// Slots that another node may take whatever its epoch is: their migration is agreed on.
    pub(super) granted: SlotSet,
    pub(super) coming: ComingSlots,
    pub(super) takeovers: Takeovers,
    /// Slots that a node of this node's shard has taken, and whose keys stay until others were heard: this node may be
    /// about to follow that one, which may need them.
    pub(super) retained: SlotSet,
    pub(super) migrations: Migrations,
    /// Orders to remove keys, or to look for keys to remove, that are not reported as done.
    pub(super) removals: usize,
    /// Orders to follow a primary that are not reported as done.
    pub(super) follows: usize,
    /// History of the data, while this node follows a primary.
    pub(super) history: DataHistory,
    /// History of the data in the node's files, which are older than the data. The node's own file records that.
    pub(super) files_history: DataHistory,
    /// Number of synchronizations before this node followed its primary.
    pub(super) synchronizations: u64,
    /// Whether keys were found that may be about to be removed.
    pub(super) looks_again: bool,
    pub(super) settings: Settings,
    pub(super) debug: DebugSettings,
    /// Address that the configuration announces.
    pub(super) announced: Address,
    pub(super) facts: Facts,
    /// Time of another node's last answer, as recorded in this node's file.
    pub(super) heard_before_start: Millis,
    /// Time since which this node leads without answering clients.
    unconfirmed_since: Option<Millis>,
    /// Number of times that the node has been replaced at its own wish since it last served.
    replaced: u32,
    /// Time at which this node last asked the others to replace it.
    gave_up: Option<Millis>,
    pub(super) random: fastrand::Rng,
    pub(super) now: Millis,
    pub(super) effects: Vec<Effect>,
    pub(super) todo: Todo,
}

impl Bus {
    /// Creates a node that knows no other. `address` is the announced address; without an ip the others find it out.
    pub fn new(address: Address, settings: Settings, mut random: fastrand::Rng, now: Millis) -> Bus {
        let (id, shard_id) = (NodeId::random(&mut random), NodeId::random(&mut random));
        let myself = Node::new(id, shard_id, Flags::MYSELF | Flags::PRIMARY, now);
        let mut bus = Bus::with_nodes(NodeTable::new(myself), settings, random, now);
        bus.log(Level::Notice, format!("No cluster configuration found, I'm {id}"));
        bus.start(address);
        bus.todo.save(true);
        bus.settle();
        bus
    }

    /// Restores a node from its `nodes.conf`.
    ///
    /// # Errors
    /// Returns the file's first error.
    pub fn load(
        nodes_conf: &[u8],
        address: Address,
        settings: Settings,
        mut random: fastrand::Rng,
        now: Millis,
    ) -> Result<Bus, ConfError> {
        let conf = conf::read(nodes_conf, settings.tls_cluster, &mut random, now)?;
        let mut bus = Bus::with_nodes(conf.nodes, settings, random, now);
        bus.current_epoch = conf.vars.current_epoch;
        bus.last_vote_epoch = conf.vars.last_vote_epoch;
        (bus.history, bus.files_history) = (conf.vars.history, conf.vars.history);
        if let Some(epoch) = conf.vars.agreed_epoch {
            bus.note_takeover(&SlotSet::none(), epoch);
        }
        bus.heard_before_start = conf.last_heard;
        bus.log(Level::Notice, format!("Node configuration loaded, I'm {}", bus.nodes.my_id()));
        bus.start(address);
        bus.settle();
        Ok(bus)
    }

    fn with_nodes(nodes: NodeTable, settings: Settings, random: fastrand::Rng, now: Millis) -> Bus {
        Bus {
            nodes,
            current_epoch: 0,
            last_vote_epoch: 0,
            epoch_refused: None,
            epoch_step: None,
            health: Health::default(),
            election: Election::default(),
            manual: ManualFailover::default(),
            voted_for_replica: None,
            forgotten: BTreeMap::new(),
            links: Transports::default(),
            counters: Counters::default(),
            published: Published::default(),
            suspected: 0,
            ticks: 0,
            granted: SlotSet::none(),
            coming: ComingSlots::default(),
            takeovers: Takeovers::default(),
            retained: SlotSet::none(),
            migrations: Migrations::default(),
            removals: 0,
            follows: 0,
            history: DataHistory::default(),
            files_history: DataHistory::default(),
            synchronizations: 0,
            looks_again: false,
            settings,
            debug: DebugSettings::default(),
            announced: Address::default(),
            facts: Facts::default(),
            heard_before_start: 0,
            unconfirmed_since: None,
            replaced: 0,
            gave_up: None,
            random,
            now,
            effects: Vec::new(),
            todo: Todo::default(),
        }
    }

    fn start(&mut self, address: Address) {
        self.take_address(address);
        self.update_my_flags();
        self.todo.slot_map_changed();
    }

    /// Replaces the settings.
    pub fn set_settings(&mut self, settings: Settings, now: Millis) {
        self.now = now;
        if self.settings != settings {
            self.settings = settings;
            self.update_my_flags();
            self.todo.update_state();
            self.settle();
        }
    }

    /// Replaces the announced address and names.
    pub fn set_address(&mut self, address: Address, now: Millis) {
        self.now = now;
        if self.announced != address {
            self.take_address(address);
            self.settle();
        }
    }

    /// Records the state of replication. A manual failover that waits for the last writes of its primary proceeds.
    pub fn set_facts(&mut self, facts: Facts, now: Millis) {
        self.now = now;
        self.facts = facts;
        if facts.is_following && self.gave_up.take().is_some() {
            self.replaced = self.replaced.saturating_add(1);
        } else if !facts.is_following && !facts.is_unconfirmed {
            self.replaced = 0;
        }
        self.unconfirmed_since = facts.is_unconfirmed.then(|| self.unconfirmed_since.unwrap_or(now));
        if self.coming.have_come(&facts) {
            self.todo.slot_map_changed();
        }
        if self.follows > 0 {
            self.synchronizations = facts.synchronizations;
        } else if facts.is_linked || facts.synchronizations > self.synchronizations {
            // The link may have come up and gone since the last facts.
            self.history = DataHistory::Primary;
        }
        if self.files_history > self.history && !facts.is_unsaved {
            self.files_history = self.history;
            self.todo.save(false);
        }
        if self.todo.waits_for_offset() {
            self.settle();
        }
    }

    /// Returns whether this node has served no client for so long that others are to replace it.
    pub(super) fn is_to_be_replaced(&self) -> bool {
        // Members may need longer than a node timeout until they follow, for example on slow disks: a node that was
        // replaced too soon waits for longer when it leads again.
        let patience = self.settings.node_timeout.saturating_mul(1 << self.replaced.min(PATIENCE_DOUBLINGS));
        let is_late = self.unconfirmed_since.is_some_and(|since| self.now - since > patience);
        is_late && self.nodes.myself().is_primary()
    }

    /// Announces to the others that this node has failed, once a node timeout, as long as it is to be replaced. The
    /// node still votes and answers: several such primaries would leave no majority if they were silent.
    pub(super) fn give_up_if_right(&mut self) {
        if !self.is_to_be_replaced() {
            self.gave_up = None;
        } else if self.gave_up.is_none_or(|told| self.now - told >= self.settings.node_timeout) {
            self.gave_up = Some(self.now);
            self.log(Level::Warning, "This node leads, but serves nobody: it asks to be replaced.".to_string());
            self.send_fail(self.nodes.my_id());
        }
    }

    /// Returns the settings of DEBUG.
    pub fn debug(&self) -> DebugSettings {
        self.debug
    }

    /// Replaces the settings of DEBUG.
    pub fn set_debug(&mut self, debug: DebugSettings) {
        self.debug = debug;
    }

    /// Takes the effects to carry out, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Returns whether there are effects to carry out.
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Returns whether an effect publishes another slot map.
    pub fn changes_slot_map(&self) -> bool {
        self.effects.contains(&Effect::SlotMapChanged)
    }

    pub(super) fn log(&mut self, level: Level, text: String) {
        self.effects.push(Effect::Log { level, text });
    }

    fn update_my_flags(&mut self) {
        let no_failover = self.settings.replica_no_failover;
        let myself = self.nodes.myself_mut();
        let before = myself.flags;
        myself.flags.set(Flags::NOFAILOVER, no_failover);
        myself.flags.set(MY_FLAGS, true);
        if myself.flags != before {
            self.todo.save(false);
            self.todo.update_state();
        }
    }

    /// Takes the node's own address from the configuration. An ip that is not announced stays as others saw it, unless
    /// one was announced before.
    fn take_address(&mut self, address: Address) {
        let myself = self.nodes.myself_mut();
        let was_announced = !self.announced.ip.is_empty();
        let ip = match address.ip.is_empty() {
            true if was_announced => String::new(),
            true => myself.address.ip.clone(),
            false => address.ip.clone(),
        };
        let taken = Address { ip, ..address.clone() };
        if myself.address != taken {
            myself.address = taken;
            self.todo.save(false);
        }
        self.announced = address;
    }
}
