//! The `sentinel` lines that the configuration file is rewritten to: the configuration, and remembered state.

use crate::model::effect::{ConfigLine, Millis};
use crate::model::instance::InstanceId;
use crate::sentinel::Sentinel;
use resp::words;

/// All options that are written; stale lines of them are removed.
pub const REWRITTEN: [&str; 23] = [
    "sentinel myid",
    "sentinel deny-scripts-reconfig",
    "sentinel resolve-hostnames",
    "sentinel announce-hostnames",
    "sentinel monitor",
    "sentinel down-after-milliseconds",
    "sentinel failover-timeout",
    "sentinel parallel-syncs",
    "sentinel notification-script",
    "sentinel client-reconfig-script",
    "sentinel auth-pass",
    "sentinel auth-user",
    "sentinel primary-reboot-down-after-period",
    "sentinel config-epoch",
    "sentinel leader-epoch",
    "sentinel known-replica",
    "sentinel known-sentinel",
    "sentinel rename-command",
    "sentinel current-epoch",
    "sentinel announce-ip",
    "sentinel announce-port",
    "sentinel sentinel-user",
    "sentinel sentinel-pass",
];

#[derive(Default)]
struct Lines(Vec<ConfigLine>);

impl Lines {
    fn put(&mut self, option: &'static str, needed: bool, text: &str) {
        self.0.push(ConfigLine { option, line: format!("{option} {text}").into_bytes(), needed });
    }

    /// Puts a line that ends in a value of any bytes.
    fn put_quoted(&mut self, option: &'static str, text: &str, values: &[&[u8]]) {
        let mut line = option.as_bytes().to_vec();
        if !text.is_empty() {
            line.extend_from_slice(format!(" {text}").as_bytes());
        }
        for value in values {
            line.push(b' ');
            words::quote(&mut line, value);
        }
        self.0.push(ConfigLine { option, line, needed: true });
    }
}

/// Returns a word in the form of a line: quoted unless the plain text is read as the same word.
fn word(text: &str) -> String {
    let is_plain = |byte: u8| byte > b' ' && byte != 0x7f && !matches!(byte, b'"' | b'\'' | b'\\');
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    let mut quoted = Vec::new();
    words::quote(&mut quoted, text.as_bytes());
    String::from_utf8_lossy(&quoted).into_owned()
}

impl Sentinel {
    pub(crate) fn config_lines(&self) -> Vec<ConfigLine> {
        let mut lines = Lines::default();
        let settings = &self.settings;
        let yes_no = |yes: bool| if yes { "yes" } else { "no" };
        lines.put("sentinel myid", true, &self.my_id);
        let deny = settings.deny_scripts_reconfig;
        lines.put("sentinel deny-scripts-reconfig", !deny, yes_no(deny));
        lines.put("sentinel resolve-hostnames", settings.resolve_hostnames, yes_no(settings.resolve_hostnames));
        lines.put("sentinel announce-hostnames", settings.announce_hostnames, yes_no(settings.announce_hostnames));
        for &primary in &self.instances.primaries {
            self.primary_lines(primary, &mut lines);
            self.member_lines(primary, &mut lines);
        }
        lines.put("sentinel current-epoch", true, &self.current_epoch.to_string());
        if let Some(ip) = &settings.announce_ip {
            lines.put_quoted("sentinel announce-ip", "", &[ip.as_bytes()]);
        }
        if settings.announce_port != 0 {
            lines.put("sentinel announce-port", true, &settings.announce_port.to_string());
        }
        if let Some(user) = &settings.auth_user {
            lines.put_quoted("sentinel sentinel-user", "", &[user]);
        }
        if let Some(pass) = &settings.auth_pass {
            lines.put_quoted("sentinel sentinel-pass", "", &[pass]);
        }
        lines.0
    }

    fn primary_lines(&self, primary: InstanceId, lines: &mut Lines) {
        let instance = &self.instances[primary];
        let group = self.instances.group(primary);
        let name = &word(&instance.name);
        let address = self.current_primary_address(primary);
        let monitor = format!("{name} {} {} {}", word(self.announced(address)), address.port, group.quorum);
        lines.put("sentinel monitor", true, &monitor);
        let times: [(&'static str, Millis, Millis); 4] = [
            ("sentinel down-after-milliseconds", instance.down_after, self.periods.default_down_after),
            ("sentinel failover-timeout", group.failover_timeout, self.periods.default_failover_timeout),
            ("sentinel parallel-syncs", group.parallel_syncs, 1),
            ("sentinel primary-reboot-down-after-period", group.reboot_down_after, 0),
        ];
        let numbers = |times: &[(&'static str, Millis, Millis)], lines: &mut Lines| {
            for (option, value, default) in times {
                if value != default {
                    lines.put(option, true, &format!("{name} {value}"));
                }
            }
        };
        numbers(&times[..3], lines);
        let texts = [
            ("sentinel notification-script", &group.notification_script),
            ("sentinel client-reconfig-script", &group.client_reconfig_script),
            ("sentinel auth-pass", &group.auth_pass),
            ("sentinel auth-user", &group.auth_user),
        ];
        for (option, value) in texts {
            if let Some(value) = value {
                lines.put_quoted(option, name, &[value]);
            }
        }
        numbers(&times[3..], lines);
        lines.put("sentinel config-epoch", true, &format!("{name} {}", group.config_epoch));
        lines.put("sentinel leader-epoch", true, &format!("{name} {}", instance.leader_epoch));
    }

    fn member_lines(&self, primary: InstanceId, lines: &mut Lines) {
        let instance = &self.instances[primary];
        let group = self.instances.group(primary);
        let name = &word(&instance.name);
        let current = self.current_primary_address(primary);
        for &id in &group.replicas {
            let address = &self.instances[id].address;
            // If the promoted replica is written as the primary, the old primary is its replica.
            let address = if address.is_same(current) { &instance.address } else { address };
            lines.put(
                "sentinel known-replica",
                true,
                &format!("{name} {} {}", word(self.announced(address)), address.port),
            );
        }
        for &id in &group.sentinels {
            let sentinel = &self.instances[id];
            if let Some(run_id) = &sentinel.run_id {
                let text = format!("{name} {} {}", word(self.announced(&sentinel.address)), sentinel.address.port);
                lines.put_quoted("sentinel known-sentinel", &text, &[run_id.as_bytes()]);
            }
        }
        for (old, new) in &group.renamed {
            lines.put_quoted("sentinel rename-command", name, &[old, new]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::STATEMENTS;

    #[test]
    fn lines_that_are_written_are_read() {
        let mut written: Vec<&str> = REWRITTEN.iter().filter_map(|line| line.strip_prefix("sentinel ")).collect();
        let mut read: Vec<&str> = STATEMENTS.iter().map(|statement| statement.name).collect();
        written.sort_unstable();
        read.sort_unstable();
        assert_eq!(written, read);
    }
}
