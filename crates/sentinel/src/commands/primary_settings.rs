//! SENTINEL SET: settings of one primary.

use super::option_checks::{Outcome, Refusal, check_words, positive};
use crate::model::effect::Level;
use crate::model::instance::InstanceId;
use crate::statements::statement_named;
use crate::watch::Watch;
use resp::number::parse_i64;

const DENIED: &str = "ERR Reconfiguration of scripts path is denied for security reasons. Check the \
                      deny-scripts-reconfig configuration directive in your Sentinel configuration";

/// Options of SENTINEL SET, by their names of today.
pub(super) const SET_OPTIONS: [&str; 10] = [
    "down-after-milliseconds",
    "failover-timeout",
    "parallel-syncs",
    "quorum",
    "notification-script",
    "client-reconfig-script",
    "auth-pass",
    "auth-user",
    "rename-command",
    "primary-reboot-down-after-period",
];

/// Sets options; those before a mistake stay changed. Returns whether any has changed, and the mistake.
pub(super) fn set(watch: &mut Watch, id: InstanceId, options: &[&[u8]]) -> (bool, Outcome) {
    if let Err(refusal) = check_words(options, 3, "SENTINEL SET") {
        return (false, Err(refusal));
    }
    let mut rest = options;
    while let Some((option, values)) = rest.split_first() {
        match set_one(watch, id, option, values) {
            Ok(taken) => {
                announce(watch, id, option, &values[..taken]);
                rest = &values[taken..];
            }
            Err(refusal) => return (rest.len() < options.len(), Err(refusal)),
        }
    }
    (!options.is_empty(), Ok(()))
}

fn announce(watch: &mut Watch, id: InstanceId, option: &[u8], values: &[&[u8]]) {
    let mut more = format!(" {}", String::from_utf8_lossy(option));
    let secret = option.eq_ignore_ascii_case(b"auth-pass");
    for value in values {
        more.push(' ');
        more.push_str(&if secret { "******".into() } else { String::from_utf8_lossy(value) });
    }
    watch.event_of(Level::Warning, "+set", id, &more);
}

/// Sets one option; returns the number of words of its value.
fn set_one(watch: &mut Watch, id: InstanceId, option: &[u8], values: &[&[u8]]) -> Result<usize, Refusal> {
    let shown = String::from_utf8_lossy(option);
    let unknown = || format!("ERR Unknown option or number of arguments for SENTINEL SET '{shown}'");
    let wrong = |value: &[u8]| {
        let value = String::from_utf8_lossy(value);
        format!("ERR Invalid argument '{value}' for SENTINEL SET '{shown}'")
    };
    let name = shown.to_ascii_lowercase();
    let name = statement_named(&name).map_or(name.as_str(), |statement| statement.name);
    if !SET_OPTIONS.contains(&name) {
        return Err(unknown());
    }
    let value = *values.first().ok_or_else(unknown)?;
    let number = || positive(value).ok_or_else(|| wrong(value));
    let given = (!value.is_empty()).then(|| value.to_vec());
    match name {
        "down-after-milliseconds" => {
            let after = number()?;
            watch.set_down_after(id, after);
        }
        "failover-timeout" => watch.group_mut(id).failover_timeout = number()?,
        "parallel-syncs" => watch.group_mut(id).parallel_syncs = number()?,
        "quorum" => watch.group_mut(id).quorum = number()?,
        "notification-script" => {
            check_script(watch, value, "ERR Notification script seems non existing or non executable")?;
            watch.group_mut(id).notification_script = given;
        }
        "client-reconfig-script" => {
            check_script(watch, value, "ERR Client reconfiguration script seems non existing or non executable")?;
            watch.group_mut(id).client_reconfig_script = given;
        }
        "auth-pass" => {
            watch.group_mut(id).auth_pass = given;
            watch.drop_server_connections(id);
        }
        "auth-user" => {
            watch.group_mut(id).auth_user = given;
            watch.drop_server_connections(id);
        }
        "rename-command" => {
            let new = *values.get(1).ok_or_else(unknown)?;
            if value.is_empty() || new.is_empty() {
                return Err(wrong(if new.is_empty() { new } else { value }));
            }
            let renamed = &mut watch.group_mut(id).renamed;
            renamed.retain(|(old, _)| !old.eq_ignore_ascii_case(value));
            if !value.eq_ignore_ascii_case(new) {
                renamed.push((value.to_vec(), new.to_vec()));
            }
            return Ok(2);
        }
        "primary-reboot-down-after-period" => {
            let period = parse_i64(value).filter(|&number| number >= 0).ok_or_else(|| wrong(value))?;
            watch.group_mut(id).reboot_down_after = period;
        }
        _ => return Err(unknown()),
    }
    Ok(1)
}

fn check_script(watch: &mut Watch, path: &[u8], wrong: &str) -> Outcome {
    if watch.settings().denies_script_changes() {
        return Err(DENIED.to_string());
    }
    if !path.is_empty() && !watch.host_mut().is_executable(path) {
        return Err(wrong.to_string());
    }
    Ok(())
}
