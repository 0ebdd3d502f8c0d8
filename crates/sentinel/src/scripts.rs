//! Scripts: the calls for each event, and the fates of running ones.

use crate::model::effect::{Effect, Level, Millis, ScriptId};
use crate::model::instance::InstanceId;
use crate::model::instance_address::Address;
use crate::sentinel::Sentinel;

impl Sentinel {
    /// Calls the clients' script with the change of the primary.
    pub(crate) fn call_client_reconfig_script(
        &mut self,
        primary: InstanceId,
        role: &str,
        from: &Address,
        to: &Address,
    ) {
        let Some(script) = self.instances.group(primary).client_reconfig_script.clone() else {
            return;
        };
        let name = &self.instances[primary].name;
        let (from_port, to_port) = (from.port.to_string(), to.port.to_string());
        let words = [name, role, "start", self.announced(from), &from_port, self.announced(to), &to_port];
        let argv = std::iter::once(script).chain(words.iter().map(|word| word.as_bytes().to_vec())).collect();
        self.scripts.push(argv);
    }

    pub(crate) fn run_scripts(&mut self) {
        for (script, argv) in self.scripts.start_due(self.now) {
            self.effects.push(Effect::RunScript { script, argv });
        }
    }

    pub(crate) fn kill_late_scripts(&mut self) {
        let (now, longest) = (self.now, self.periods.script_max_runtime);
        let late = self.scripts.scripts.iter().filter(|script| script.running && now - script.start > longest);
        let late: Vec<_> = late.map(|script| (script.id, script.pid, text(&script.argv))).collect();
        for (script, pid, path) in late {
            self.event_text(Level::Warning, "-script-timeout", None, &format!("{path} {pid}"));
            self.effects.push(Effect::KillScript { script });
        }
    }

    /// Records that a script runs now, as this process.
    pub fn script_started(&mut self, script: ScriptId, pid: u32, now: Millis) {
        self.now = now;
        if let Some(script) = self.scripts.get_mut(script) {
            script.pid = pid;
        }
        self.event_text(Level::Debug, "+script-child", None, &pid.to_string());
    }

    /// Records that a script could not be started; it is tried again.
    pub fn script_not_started(&mut self, script: ScriptId, now: Millis) {
        self.now = now;
        let Some(script) = self.scripts.get_mut(script) else {
            return;
        };
        script.running = false;
        let path = text(&script.argv);
        self.event_text(Level::Warning, "-script-error", None, &format!("{path} 99 0"));
    }

    /// Records that a script has ended with this status, or by this signal if it is not 0.
    pub fn script_ended(&mut self, script: ScriptId, status: i32, signal: i32, now: Millis) {
        self.now = now;
        let pid = self.scripts.get_mut(script).map_or(0, |script| script.pid);
        self.event_text(Level::Debug, "-script-child", None, &format!("{pid} {status} {signal}"));
        let over = self.scripts.ended(script, status, signal, now, self.periods.script_retry_delay);
        if let Some(over) = over
            && (status != 0 || signal != 0)
        {
            let path = text(&over.argv);
            self.event_text(Level::Warning, "-script-error", None, &format!("{path} {signal} {status}"));
        }
    }
}

fn text(argv: &[Vec<u8>]) -> String {
    String::from_utf8_lossy(argv.first().map_or(b"", Vec::as_slice)).into_owned()
}
