//! The watched servers and the other Sentinels: their instances, the connections to them, and events about them.
//!
//! In: time, bytes of connections, and orders of the rooms above. Out: effects. The room decides nothing: detection of
//! failures, votes and failovers stand above it and change instances through it.

mod creation;
mod instance_connections;
mod reset;
mod server_orders;

pub(crate) use instance_connections::Incoming;

use crate::model::effect::{Effect, Host, Level, Millis, ScriptId};
use crate::model::effect_queue::EffectQueue;
use crate::model::instance::{FailoverState, Flags, Group, Instance, InstanceId, Kind, Role};
use crate::model::instance_address::{Address, AddressError};
use crate::model::instance_transport::Transport;
use crate::model::instances::Instances;
use crate::model::periods::Periods;
use crate::model::script_queue::ScriptQueue;
use crate::model::transport_table::Transports;
use crate::sentinel_settings::Settings;
use std::ops::{Index, IndexMut};

/// All instances and links, with what reaches them: settings, scripts, and the surroundings.
pub(crate) struct Watch {
    instances: Instances,
    links: Transports,
    settings: Settings,
    periods: Periods,
    scripts: ScriptQueue,
    host: Box<dyn Host + Send>,
    out: EffectQueue,
    now: Millis,
}

impl Index<InstanceId> for Watch {
    type Output = Instance;

    fn index(&self, id: InstanceId) -> &Instance {
        &self.instances[id]
    }
}

impl IndexMut<InstanceId> for Watch {
    fn index_mut(&mut self, id: InstanceId) -> &mut Instance {
        &mut self.instances[id]
    }
}

impl Watch {
    /// Returns an empty table.
    pub fn new(host: Box<dyn Host + Send>, now: Millis) -> Watch {
        Watch {
            instances: Instances::default(),
            links: Transports::default(),
            settings: Settings::default(),
            periods: Periods::default(),
            scripts: ScriptQueue::default(),
            host,
            out: EffectQueue::default(),
            now,
        }
    }

    /// Returns the time.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// Sets the time.
    pub fn set_now(&mut self, now: Millis) {
        self.now = now;
    }

    /// Returns the table of instances.
    pub fn instances(&self) -> &Instances {
        &self.instances
    }

    /// Returns a primary's state; of others, their primary's.
    pub fn group(&self, id: InstanceId) -> &Group {
        self.instances.group(id)
    }

    /// Returns a primary's state, to be changed; of others, their primary's.
    pub fn group_mut(&mut self, id: InstanceId) -> &mut Group {
        self.instances.group_mut(id)
    }

    /// Returns the link to an instance.
    pub fn link(&self, id: InstanceId) -> &Transport {
        &self.links[self.instances[id].link]
    }

    /// Returns periods and timeouts.
    pub fn periods(&self) -> &Periods {
        &self.periods
    }

    /// Returns periods and timeouts, to be changed.
    pub fn periods_mut(&mut self) -> &mut Periods {
        &mut self.periods
    }

    /// Returns the Sentinel's own configuration.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the Sentinel's own configuration, to be changed, and the surroundings.
    pub fn settings_mut(&mut self) -> (&mut Settings, &mut dyn Host) {
        (&mut self.settings, self.host.as_mut())
    }

    /// Returns the surroundings.
    pub fn host(&self) -> &dyn Host {
        self.host.as_ref()
    }

    /// Returns the surroundings, to be changed.
    pub fn host_mut(&mut self) -> &mut dyn Host {
        self.host.as_mut()
    }

    /// Returns the scripts that run or wait.
    pub fn scripts(&self) -> &ScriptQueue {
        &self.scripts
    }

    /// Returns the numeric form of a host.
    pub fn resolve(&mut self, name: &str) -> Option<String> {
        self.settings.resolve(name, self.host.as_mut())
    }

    /// Returns an address. A name that does not resolve now may do so later, if the caller accepts that (`unresolved`).
    pub fn address(&mut self, name: &str, port: i64, unresolved: bool) -> Result<Address, AddressError> {
        let found = self.settings.address(name, port, unresolved, self.host.as_mut());
        let is_resolved = match &found {
            Ok(address) => !address.ip.is_empty(),
            Err(AddressError::Port) => true,
            Err(AddressError::Host) => false,
        };
        if !is_resolved {
            self.log(Level::Warning, format!("Failed to resolve hostname '{name}'"));
        }
        found
    }

    /// Returns whether this host is the address's.
    pub fn is_host_of(&mut self, address: &Address, name: &str) -> bool {
        self.settings.is_host_of(address, name, self.host.as_mut())
    }

    /// Returns the form in which an address is announced to others.
    pub fn announced<'a>(&self, address: &'a Address) -> &'a str {
        self.settings.announced(address)
    }

    /// Returns the primary's address for clients: from the promotion of a replica on, the replica's.
    pub fn current_primary_address(&self, primary: InstanceId) -> &Address {
        let failover = &self.group(primary).failover;
        match failover.promoted {
            Some(promoted) if failover.state >= FailoverState::ReconfigureReplicas => &self.instances[promoted].address,
            _ => &self.instances[primary].address,
        }
    }

    /// Returns whether the primary is up, and reports to be one.
    pub fn looks_sane(&self, primary: InstanceId) -> bool {
        let instance = &self.instances[primary];
        instance.reported.role == Some(Role::Primary)
            && !instance.flags.has(Flags::S_DOWN.and(Flags::O_DOWN))
            && self.now - instance.info_refresh < self.periods.info * 2
    }

    /// Moves a failover to its next state.
    pub fn enter(&mut self, primary: InstanceId, state: FailoverState) {
        let failover = &mut self.instances.group_mut(primary).failover;
        failover.state = state;
        failover.state_since = self.now;
    }

    /// Ends a failover that has promoted no replica.
    pub fn abort_failover(&mut self, primary: InstanceId) {
        let is_asked = self.instances[primary].flags.has(Flags::COORDINATED_FAILOVER)
            && self.instances.group(primary).failover.state == FailoverState::WaitPromotion;
        if is_asked {
            self.end_pause(primary);
        }
        let flags = Flags::FAILOVER_IN_PROGRESS.and(Flags::FORCE_FAILOVER).and(Flags::COORDINATED_FAILOVER);
        self.instances[primary].flags.remove(flags);
        self.enter(primary, FailoverState::None);
        if let Some(promoted) = self.instances.group_mut(primary).failover.promoted.take() {
            self.instances[promoted].flags.remove(Flags::PROMOTED);
        }
    }

    /// Makes the next hello messages about a primary due at once.
    pub fn hurry_hello(&mut self, primary: InstanceId) {
        let earlier = self.periods.publish + 1;
        for id in std::iter::once(primary).chain(self.instances.members(primary)) {
            self.instances[id].last_publish -= earlier;
        }
    }

    /// Sets the time after which a primary and all around it count as down.
    pub fn set_down_after(&mut self, primary: InstanceId, after: Millis) {
        for id in std::iter::once(primary).chain(self.instances.members(primary)) {
            self.instances[id].down_after = after;
        }
    }

    /// Returns the requested effects, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.out.take()
    }

    /// Ends the process with this status.
    pub fn exit(&mut self, status: u8) {
        self.out.push(Effect::Exit(status));
    }

    /// Writes a line into the log.
    pub fn log(&mut self, level: Level, text: String) {
        self.out.log(level, text);
    }

    /// Raises an event whose text begins with the instance, and its primary.
    pub fn event_of(&mut self, level: Level, event: &str, id: InstanceId, more: &str) {
        let instance = &self.instances[id];
        let named = |kind: &str, name: &str, address: &Address| {
            let (host, port) = (self.announced(address), address.port);
            format!("{kind}{name} {host} {port}")
        };
        let kind = format!("{} ", instance.kind.word());
        let mut text = named(&kind, &instance.name, &instance.address);
        if let Some(primary) = instance.primary.filter(|_| instance.kind != Kind::Primary) {
            let primary = &self.instances[primary];
            text = format!("{text} @ {}", named("", &primary.name, &primary.address));
        }
        text.push_str(more);
        self.event_text(level, event, Some(id), &text);
    }

    /// Raises an event with a text of its own: a line of the log, a message to subscribers, and the notification script
    /// for important ones.
    pub fn event_text(&mut self, level: Level, event: &str, id: Option<InstanceId>, text: &str) {
        self.out.event(level, event, text);
        if level == Level::Warning
            && let Some(id) = id
            && let Some(script) = self.instances.group(id).notification_script.clone()
        {
            self.scripts.push(vec![script, event.as_bytes().to_vec(), text.as_bytes().to_vec()]);
        }
    }

    /// Calls the clients' script with the change of the primary.
    pub fn call_client_reconfig_script(&mut self, primary: InstanceId, role: &str, from: &Address, to: &Address) {
        let Some(script) = self.instances.group(primary).client_reconfig_script.clone() else {
            return;
        };
        let name = &self.instances[primary].name;
        let (from_port, to_port) = (from.port.to_string(), to.port.to_string());
        let words = [name, role, "start", self.announced(from), &from_port, self.announced(to), &to_port];
        let argv = std::iter::once(script).chain(words.iter().map(|word| word.as_bytes().to_vec())).collect();
        self.scripts.push(argv);
    }

    /// Starts the scripts that are due, and ends those that run for too long.
    pub fn tick_scripts(&mut self) {
        self.scripts.tick(self.now, self.periods.script_max_runtime, &mut self.out);
    }

    /// Records that a script runs now, as this process.
    pub fn script_started(&mut self, script: ScriptId, pid: u32) {
        self.scripts.started(script, pid, &mut self.out);
    }

    /// Records that a script could not be started; it is tried again.
    pub fn script_not_started(&mut self, script: ScriptId) {
        self.scripts.not_started(script, &mut self.out);
    }

    /// Records that a script has ended with this status, or by this signal if it is not 0.
    pub fn script_ended(&mut self, script: ScriptId, status: i32, signal: i32) {
        self.scripts.end(script, (status, signal), self.now, self.periods.script_retry_delay, &mut self.out);
    }
}
