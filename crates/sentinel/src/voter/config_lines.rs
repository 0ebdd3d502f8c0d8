//! The `sentinel` lines that the configuration file is rewritten to: the configuration, and remembered state.

use crate::config_line_list::{ConfigLineList, word};
use crate::model::effect::{ConfigLine, Millis};
use crate::model::instance::InstanceId;
use crate::watch::Watch;

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

/// Returns the lines of a Sentinel with this id and epoch.
pub(super) fn config_lines(my_id: &str, current_epoch: u64, watch: &Watch) -> Vec<ConfigLine> {
    let mut lines = ConfigLineList::default();
    lines.put("sentinel myid", true, my_id);
    watch.settings().put_switches(&mut lines);
    for &primary in watch.instances().primaries() {
        primary_lines(watch, primary, &mut lines);
        member_lines(watch, primary, &mut lines);
    }
    lines.put("sentinel current-epoch", true, &current_epoch.to_string());
    watch.settings().put_identity(&mut lines);
    lines.into_lines()
}

fn primary_lines(watch: &Watch, primary: InstanceId, lines: &mut ConfigLineList) {
    let instance = &watch[primary];
    let group = watch.group(primary);
    let name = &word(&instance.name);
    let address = watch.current_primary_address(primary);
    let monitor = format!("{name} {} {} {}", word(watch.settings().announced(address)), address.port, group.quorum);
    lines.put("sentinel monitor", true, &monitor);
    let times: [(&'static str, Millis, Millis); 4] = [
        ("sentinel down-after-milliseconds", instance.down_after, watch.periods().default_down_after),
        ("sentinel failover-timeout", group.failover_timeout, watch.periods().default_failover_timeout),
        ("sentinel parallel-syncs", group.parallel_syncs, 1),
        ("sentinel primary-reboot-down-after-period", group.reboot_down_after, 0),
    ];
    let numbers = |times: &[(&'static str, Millis, Millis)], lines: &mut ConfigLineList| {
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

fn member_lines(watch: &Watch, primary: InstanceId, lines: &mut ConfigLineList) {
    let instance = &watch[primary];
    let group = watch.group(primary);
    let name = &word(&instance.name);
    let current = watch.current_primary_address(primary);
    for &id in &group.replicas {
        let address = &watch[id].address;
        // If the promoted replica is written as the primary, the old primary is its replica.
        let address = if address.is_same(current) { &instance.address } else { address };
        lines.put(
            "sentinel known-replica",
            true,
            &format!("{name} {} {}", word(watch.settings().announced(address)), address.port),
        );
    }
    for &id in &group.sentinels {
        let sentinel = &watch[id];
        if let Some(run_id) = &sentinel.run_id {
            let text =
                format!("{name} {} {}", word(watch.settings().announced(&sentinel.address)), sentinel.address.port);
            lines.put_quoted("sentinel known-sentinel", &text, &[run_id.as_bytes()]);
        }
    }
    for (old, new) in &group.renamed {
        lines.put_quoted("sentinel rename-command", name, &[old, new]);
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
