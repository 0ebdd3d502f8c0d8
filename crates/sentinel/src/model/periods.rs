//! A Sentinel's periods, which SENTINEL DEBUG shows and changes.

use crate::model::effect::Millis;

/// Periods and timeouts.
#[derive(Clone, Debug)]
pub(crate) struct Periods {
    pub info: Millis,
    pub ping: Millis,
    pub ask: Millis,
    pub publish: Millis,
    pub default_down_after: Millis,
    pub default_failover_timeout: Millis,
    pub tilt_trigger: Millis,
    pub tilt: Millis,
    pub replica_reconfiguration: Millis,
    pub min_link_reconnect: Millis,
    pub election: Millis,
    pub script_max_runtime: Millis,
    pub script_retry_delay: Millis,
}

impl Default for Periods {
    fn default() -> Periods {
        Periods {
            info: 10_000,
            ping: 1000,
            ask: 1000,
            publish: 2000,
            default_down_after: 30_000,
            default_failover_timeout: 180_000,
            tilt_trigger: 2000,
            tilt: 30_000,
            replica_reconfiguration: 10_000,
            min_link_reconnect: 15_000,
            election: 10_000,
            script_max_runtime: 60_000,
            script_retry_delay: 30_000,
        }
    }
}

impl Periods {
    /// Returns names in the form of SENTINEL DEBUG, and the values, in its order.
    pub fn named(&mut self) -> [(&'static str, &mut Millis); 13] {
        [
            ("info-period", &mut self.info),
            ("ping-period", &mut self.ping),
            ("ask-period", &mut self.ask),
            ("publish-period", &mut self.publish),
            ("default-down-after", &mut self.default_down_after),
            ("default-failover-timeout", &mut self.default_failover_timeout),
            ("tilt-trigger", &mut self.tilt_trigger),
            ("tilt-period", &mut self.tilt),
            ("slave-reconf-timeout", &mut self.replica_reconfiguration),
            ("min-link-reconnect-period", &mut self.min_link_reconnect),
            ("election-timeout", &mut self.election),
            ("script-max-runtime", &mut self.script_max_runtime),
            ("script-retry-delay", &mut self.script_retry_delay),
        ]
    }
}
