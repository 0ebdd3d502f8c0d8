//! INFO's section of the Sentinel.

use crate::model::effect::Millis;
use crate::model::instance::Flags;
use crate::sentinel::Sentinel;
use std::fmt::Write;

impl Sentinel {
    /// Returns the section, its title first.
    pub fn info(&self, now: Millis) -> String {
        let tilt_seconds = self.tilt.since().map_or(-1, |since| (now - since) / 1000);
        let simulated = self.failovers.simulated();
        let simulated = u8::from(simulated.after_election) | u8::from(simulated.after_promotion) << 1;
        let fields = [
            ("masters", self.watch.instances().primaries().len() as i64),
            ("tilt", i64::from(self.tilt.is_on())),
            ("tilt_since_seconds", tilt_seconds),
            ("total_tilt", self.tilt.total().cast_signed()),
            ("running_scripts", self.watch.scripts().running() as i64),
            ("scripts_queue_length", self.watch.scripts().all().len() as i64),
            ("simulate_failure_flags", i64::from(simulated)),
        ];
        let mut text = String::from("# Sentinel\r\n");
        for (name, value) in fields {
            // Writing to a String cannot fail.
            let _ = write!(text, "sentinel_{name}:{value}\r\n");
        }
        for (number, &id) in self.watch.instances().primaries().iter().enumerate() {
            let instance = &self.watch[id];
            let group = self.watch.group(id);
            let status = match instance.flags {
                flags if flags.has(Flags::O_DOWN) => "odown",
                flags if flags.has(Flags::S_DOWN) => "sdown",
                _ => "ok",
            };
            let (host, port) = (self.watch.announced(&instance.address), instance.address.port);
            let (replicas, sentinels) = (group.replicas.len(), group.sentinels.len() + 1);
            let name = &instance.name;
            let _ = write!(
                text,
                "master{number}:name={name},status={status},address={host}:{port},slaves={replicas},\
                 sentinels={sentinels}\r\n"
            );
        }
        text
    }

    /// Returns names of the watched primaries, for ROLE.
    pub fn primary_names(&self) -> Vec<String> {
        self.watch.instances().primaries().iter().map(|&id| self.watch[id].name.clone()).collect()
    }
}
