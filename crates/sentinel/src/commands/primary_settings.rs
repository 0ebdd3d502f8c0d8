//! SENTINEL SET: settings of one primary.

use super::{Outcome, Refusal, check_words, positive};
use crate::model::effect::Level;
use crate::model::instance::InstanceId;
use crate::sentinel::Sentinel;
use crate::statements::statement_named;
use resp::number::parse_i64;
use resp::reply::Reply;

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

impl Sentinel {
    /// Sets options; those before a mistake stay changed.
    pub(super) fn set(&mut self, name: &[u8], options: &[&[u8]], reply: &mut Reply) -> Outcome {
        let id = self.primary(name)?;
        check_words(options, 3, "SENTINEL SET")?;
        let mut rest = options;
        let mut changed = false;
        while let Some((option, values)) = rest.split_first() {
            match self.set_one(id, option, values) {
                Ok(taken) => {
                    changed = true;
                    self.tell_set(id, option, &values[..taken]);
                    rest = &values[taken..];
                }
                Err(refusal) => {
                    if changed {
                        self.save();
                    }
                    return Err(refusal);
                }
            }
        }
        if changed { self.save_and_reply(reply) } else { Ok(()) }
    }

    fn tell_set(&mut self, id: InstanceId, option: &[u8], values: &[&[u8]]) {
        let mut more = format!(" {}", String::from_utf8_lossy(option));
        let secret = option.eq_ignore_ascii_case(b"auth-pass");
        for value in values {
            more.push(' ');
            more.push_str(&if secret { "******".into() } else { String::from_utf8_lossy(value) });
        }
        self.event_of(Level::Warning, "+set", id, &more);
    }

    /// Sets one option; returns the number of words of its value.
    fn set_one(&mut self, id: InstanceId, option: &[u8], values: &[&[u8]]) -> Result<usize, Refusal> {
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
                self.set_down_after(id, after);
            }
            "failover-timeout" => self.instances.group_mut(id).failover_timeout = number()?,
            "parallel-syncs" => self.instances.group_mut(id).parallel_syncs = number()?,
            "quorum" => self.instances.group_mut(id).quorum = number()?,
            "notification-script" => {
                self.check_script(value, "ERR Notification script seems non existing or non executable")?;
                self.instances.group_mut(id).notification_script = given;
            }
            "client-reconfig-script" => {
                self.check_script(value, "ERR Client reconfiguration script seems non existing or non executable")?;
                self.instances.group_mut(id).client_reconfig_script = given;
            }
            "auth-pass" => {
                self.instances.group_mut(id).auth_pass = given;
                self.drop_server_connections(id);
            }
            "auth-user" => {
                self.instances.group_mut(id).auth_user = given;
                self.drop_server_connections(id);
            }
            "rename-command" => {
                let new = *values.get(1).ok_or_else(unknown)?;
                if value.is_empty() || new.is_empty() {
                    return Err(wrong(if new.is_empty() { new } else { value }));
                }
                let renamed = &mut self.instances.group_mut(id).renamed;
                renamed.retain(|(old, _)| !old.eq_ignore_ascii_case(value));
                if !value.eq_ignore_ascii_case(new) {
                    renamed.push((value.to_vec(), new.to_vec()));
                }
                return Ok(2);
            }
            "primary-reboot-down-after-period" => {
                let period = parse_i64(value).filter(|&number| number >= 0).ok_or_else(|| wrong(value))?;
                self.instances.group_mut(id).reboot_down_after = period;
            }
            _ => return Err(unknown()),
        }
        Ok(1)
    }

    fn check_script(&mut self, path: &[u8], wrong: &str) -> Outcome {
        if self.settings.deny_scripts_reconfig {
            return Err(DENIED.to_string());
        }
        if !path.is_empty() && !self.host.is_executable(path) {
            return Err(wrong.to_string());
        }
        Ok(())
    }
}
