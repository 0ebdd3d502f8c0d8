//! The Sentinel as a whole: its inputs, and its timer.

use crate::model::effect::{Effect, Host, Level, Millis};
use crate::model::instance::{FailoverState, InstanceId, Kind};
use crate::model::instance_address::{Address, AddressError, numeric};
use crate::model::instances::Instances;
use crate::model::periods::Periods;
use crate::model::script_queue::ScriptQueue;
use crate::model::transport_table::Transports;

/// The configuration of the Sentinel itself.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub announce_ip: Option<String>,
    pub announce_port: i64,
    pub deny_scripts_reconfig: bool,
    pub auth_pass: Option<Vec<u8>>,
    pub auth_user: Option<Vec<u8>>,
    pub resolve_hostnames: bool,
    pub announce_hostnames: bool,
}

/// A failure that SENTINEL SIMULATE-FAILURE requested.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SimulatedFailures {
    pub after_election: bool,
    pub after_promotion: bool,
}

/// State after a jump of time: measurements are not trusted for a while.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tilt {
    pub since: Option<Millis>,
    pub total: u64,
}

/// A Sentinel.
pub struct Sentinel {
    pub(crate) my_id: String,
    pub(crate) current_epoch: u64,
    /// Time of the log's last line about a rejected epoch.
    pub(crate) epoch_refused: Millis,
    /// The beginning of a minute, and the epoch then: others' epochs are measured from it.
    pub(crate) epoch_step: Option<(Millis, u64)>,
    pub(crate) instances: Instances,
    pub(crate) links: Transports,
    pub(crate) periods: Periods,
    pub(crate) settings: Settings,
    pub(crate) tilt: Tilt,
    pub(crate) scripts: ScriptQueue,
    pub(crate) simulated: SimulatedFailures,
    pub(crate) host: Box<dyn Host + Send>,
    pub(crate) random: fastrand::Rng,
    pub(crate) now: Millis,
    pub(crate) effects: Vec<Effect>,
    previous_tick: Millis,
}

/// Failovers of several Sentinels are desynchronized by up to so much.
pub(crate) const DESYNC_MAX: Millis = 1000;
/// The longest time between two ticks; each is between half of it and all.
const TICK: Millis = 100;
/// Characters of a Sentinel's id.
pub(crate) const ID_LENGTH: usize = 40;

impl Sentinel {
    /// Returns a Sentinel that watches nothing yet. Its random numbers follow from `seed`.
    pub fn new(host: Box<dyn Host + Send>, seed: u64, now: Millis) -> Sentinel {
        Sentinel {
            my_id: String::new(),
            current_epoch: 0,
            epoch_refused: 0,
            epoch_step: None,
            instances: Instances::default(),
            links: Transports::default(),
            periods: Periods::default(),
            settings: Settings {
                announce_ip: None,
                announce_port: 0,
                deny_scripts_reconfig: true,
                auth_pass: None,
                auth_user: None,
                resolve_hostnames: false,
                announce_hostnames: false,
            },
            tilt: Tilt::default(),
            scripts: ScriptQueue::default(),
            simulated: SimulatedFailures::default(),
            host,
            random: fastrand::Rng::with_seed(seed),
            now,
            effects: Vec::new(),
            previous_tick: now,
        }
    }

    /// Starts once the configuration is read: takes an id if it has none, and announces its primaries.
    pub fn start(&mut self, now: Millis) {
        self.now = now;
        self.previous_tick = now;
        if self.my_id.is_empty() {
            self.my_id = (0..ID_LENGTH).map(|_| self.random.digit(16)).collect();
            self.save();
        }
        let line = format!("Sentinel ID is {}", self.my_id);
        self.log(Level::Notice, line);
        for id in self.instances.primaries.clone() {
            let quorum = self.instances.group(id).quorum;
            self.event_of(Level::Warning, "+monitor", id, &format!(" quorum {quorum}"));
        }
    }

    /// Returns this Sentinel's id.
    pub fn my_id(&self) -> &str {
        &self.my_id
    }

    /// Returns the requested effects, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Takes the due actions. Returns the milliseconds until the next call: never the same, so that Sentinels that were
    /// started together do not request votes together.
    pub fn tick(&mut self, now: Millis) -> Millis {
        self.now = now;
        self.check_tilt();
        for primary in self.instances.primaries.clone() {
            self.handle(primary);
            for member in self.instances.members(primary) {
                self.handle(member);
            }
            if self.instances.group(primary).failover.state == FailoverState::UpdateConfig {
                self.switch_to_promoted(primary);
            }
        }
        self.run_scripts();
        self.kill_late_scripts();
        TICK / 2 + self.random.i64(0..=TICK / 2)
    }

    fn handle(&mut self, id: InstanceId) {
        self.reconnect(id);
        self.send_periodic(id);
        if let Some(since) = self.tilt.since {
            if self.now - since < self.periods.tilt {
                return;
            }
            self.tilt.since = None;
            self.event_text(Level::Warning, "-tilt", None, "#tilt mode exited");
        }
        self.check_subjectively_down(id);
        if self.instances[id].kind == Kind::Primary {
            self.check_objectively_down(id);
            if self.start_failover_if_needed(id) {
                self.ask_other_sentinels(id, true);
            }
            self.go_on_with_failover(id);
            self.ask_other_sentinels(id, false);
        }
    }

    fn check_tilt(&mut self) {
        let passed = self.now - self.previous_tick;
        self.previous_tick = self.now;
        if passed < 0 || passed > self.periods.tilt_trigger {
            self.tilt.since = Some(self.now);
            self.tilt.total += 1;
            self.event_text(Level::Warning, "+tilt", None, "#tilt mode entered");
        }
    }

    /// Saves the configuration; returns whether it is on the disk now.
    pub(crate) fn save(&mut self) -> bool {
        let lines = self.config_lines();
        match self.host.save(lines) {
            Ok(()) => {
                self.log(Level::Notice, "Sentinel new configuration saved on disk".to_string());
                true
            }
            Err(why) => {
                let text = format!("WARNING: Sentinel was not able to save the new configuration on disk!!!: {why}");
                self.log(Level::Warning, text);
                false
            }
        }
    }

    /// Returns the numeric form of a host. Names are only resolved if the configuration allows it.
    pub(crate) fn resolve(&mut self, host: &str) -> Option<String> {
        match numeric(host) {
            None if self.settings.resolve_hostnames => self.host.resolve(host),
            found => found,
        }
    }

    /// Returns an address. A name that does not resolve now may do so later, if the caller accepts that (`unresolved`).
    pub(crate) fn address(&mut self, host: &str, port: i64, unresolved: bool) -> Result<Address, AddressError> {
        let port = u16::try_from(port).map_err(|_| AddressError::Port)?;
        let ip = match self.resolve(host) {
            Some(ip) => ip,
            None => {
                self.log(Level::Warning, format!("Failed to resolve hostname '{host}'"));
                if !(self.settings.resolve_hostnames && unresolved) {
                    return Err(AddressError::Host);
                }
                String::new()
            }
        };
        Ok(Address { hostname: host.to_string(), ip, port })
    }

    /// Returns whether this host is the address's.
    pub(crate) fn is_host_of(&mut self, address: &Address, host: &str) -> bool {
        match self.resolve(host) {
            Some(ip) => address.ip.eq_ignore_ascii_case(&ip),
            None if self.settings.resolve_hostnames => address.hostname.eq_ignore_ascii_case(host),
            None => address.ip.eq_ignore_ascii_case(host),
        }
    }

    /// Returns the form in which an address is announced to others.
    pub(crate) fn announced<'a>(&self, address: &'a Address) -> &'a str {
        if self.settings.announce_hostnames { &address.hostname } else { &address.ip }
    }

    /// Returns the primary's address for clients: from the promotion of a replica on, the replica's.
    pub(crate) fn current_primary_address(&self, primary: InstanceId) -> &Address {
        let failover = &self.instances.group(primary).failover;
        match failover.promoted {
            Some(promoted) if failover.state >= FailoverState::ReconfigureReplicas => &self.instances[promoted].address,
            _ => &self.instances[primary].address,
        }
    }
}
