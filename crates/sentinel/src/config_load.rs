//! The `sentinel` lines of a configuration file.

use crate::model::info_report::leading_number;
use crate::model::instance::{InstanceId, Kind};
use crate::sentinel::{ID_LENGTH, Sentinel};
use crate::statements::{Scope, statement_named};

/// Returns the place of a statement in the order of reading: before `monitor` statements, among them, or after them.
pub fn statement_place(name: &[u8]) -> u8 {
    match statement_named(&String::from_utf8_lossy(name).to_ascii_lowercase()).map(|statement| statement.scope) {
        Some(Scope::Own) => 0,
        Some(Scope::Monitor) => 1,
        Some(Scope::Primary) | None => 2,
    }
}

/// Puts statements, given as words without `sentinel`, into the order in which they are to be read.
pub fn load_order<T>(statements: &mut [T], name: impl Fn(&T) -> &[u8]) {
    statements.sort_by_key(|statement| statement_place(name(statement)));
}

const NO_PRIMARY: &str = "No such master with specified name.";
const NO_TIME: &str = "negative or zero time parameter.";

impl Sentinel {
    /// Reads one line of the configuration, as words without `sentinel`.
    ///
    /// # Errors
    /// The mistake, as it is reported at the start.
    pub fn statement(&mut self, words: &[Vec<u8>]) -> Result<(), String> {
        let name = String::from_utf8_lossy(words.first().map_or(b"", Vec::as_slice)).to_ascii_lowercase();
        let texts: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let texts: Vec<&str> = texts.iter().skip(1).map(String::as_str).collect();
        match (name.as_str(), texts.as_slice()) {
            ("monitor", &[name, host, port, quorum]) => self.monitor(name, host, port, quorum),
            (_, [_]) => self.own_statement(&name, &words[1]),
            (_, [primary, ..]) => {
                let statement = statement_named(&name).filter(|statement| statement.scope == Scope::Primary);
                if !statement.is_some_and(|statement| statement.takes(texts.len())) {
                    return Err(UNRECOGNIZED.to_string());
                }
                let id = self.instances.primary_named(primary.as_bytes()).ok_or(NO_PRIMARY)?;
                self.statement_of(id, &name, &words[2..], &texts[1..])
            }
            _ => Err(UNRECOGNIZED.to_string()),
        }
    }

    fn monitor(&mut self, name: &str, host: &str, port: &str, quorum: &str) -> Result<(), String> {
        let quorum = leading_number(quorum);
        if quorum <= 0 {
            return Err("Quorum must be 1 or greater.".to_string());
        }
        let created = self.create(Kind::Primary, name, host, leading_number(port), quorum, None);
        created.map(|_| ()).map_err(|error| error.text().to_string())
    }

    fn own_statement(&mut self, name: &str, value: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(value).into_owned();
        let given = (!value.is_empty()).then(|| value.to_vec());
        if name == "current-epoch" {
            let epoch = self.epoch_of_file(&text);
            self.current_epoch = self.current_epoch.max(epoch);
            return Ok(());
        }
        let settings = &mut self.settings;
        match name {
            "myid" if text.len() != ID_LENGTH => return Err("Malformed Sentinel id in myid option.".to_string()),
            "myid" => self.my_id = text,
            "announce-ip" => settings.announce_ip = given.map(|_| text),
            "announce-port" => settings.announce_port = leading_number(&text),
            "sentinel-user" => settings.auth_user = given,
            "sentinel-pass" => settings.auth_pass = given,
            "deny-scripts-reconfig" => {
                let wrong = "Please specify yes or no for the deny-scripts-reconfig options.";
                settings.deny_scripts_reconfig = yes_or_no(&text).ok_or(wrong)?;
            }
            "resolve-hostnames" => {
                let wrong = "Please specify yes or no for the resolve-hostnames option.";
                settings.resolve_hostnames = yes_or_no(&text).ok_or(wrong)?;
            }
            "announce-hostnames" => {
                let wrong = "Please specify yes or no for the announce-hostnames option.";
                settings.announce_hostnames = yes_or_no(&text).ok_or(wrong)?;
            }
            _ => return Err(UNRECOGNIZED.to_string()),
        }
        Ok(())
    }

    /// Reads a statement about a primary: its words after the name, as they are and as text.
    fn statement_of(&mut self, id: InstanceId, name: &str, words: &[Vec<u8>], texts: &[&str]) -> Result<(), String> {
        let number = leading_number(texts[0]);
        let positive = |number: i64| if number > 0 { Ok(number) } else { Err(NO_TIME.to_string()) };
        match name {
            "known-replica" | "known-slave" => return self.known_replica(id, texts[0], texts[1]),
            "known-sentinel" => return self.known_sentinel(id, texts),
            "down-after-milliseconds" => {
                let after = positive(number)?;
                self.set_down_after(id, after);
                return Ok(());
            }
            "notification-script" if !self.host.is_executable(&words[0]) => {
                return Err("Notification script seems non existing or non executable.".to_string());
            }
            "client-reconfig-script" if !self.host.is_executable(&words[0]) => {
                return Err("Client reconfiguration script seems non existing or non executable.".to_string());
            }
            "leader-epoch" => {
                self.instances[id].leader_epoch = self.epoch_of_file(texts[0]);
                return Ok(());
            }
            "config-epoch" => {
                let epoch = self.epoch_of_file(texts[0]);
                self.current_epoch = self.current_epoch.max(epoch);
                self.instances.group_mut(id).config_epoch = epoch;
                return Ok(());
            }
            _ => {}
        }
        let group = self.instances.group_mut(id);
        match name {
            "failover-timeout" => group.failover_timeout = positive(number)?,
            "parallel-syncs" => group.parallel_syncs = number,
            "notification-script" => group.notification_script = Some(words[0].clone()),
            "client-reconfig-script" => group.client_reconfig_script = Some(words[0].clone()),
            "auth-pass" => group.auth_pass = Some(words[0].clone()),
            "auth-user" => group.auth_user = Some(words[0].clone()),
            "rename-command" => {
                if group.renamed.iter().any(|(old, _)| old.eq_ignore_ascii_case(&words[0])) {
                    return Err("Same command renamed multiple times with rename-command.".to_string());
                }
                group.renamed.push((words[0].clone(), words[1].clone()));
            }
            _ if number < 0 => return Err("negative time parameter.".to_string()),
            _ => group.reboot_down_after = number,
        }
        Ok(())
    }

    fn known_replica(&mut self, primary: InstanceId, host: &str, port: &str) -> Result<(), String> {
        let created = self.create(Kind::Replica, "", host, leading_number(port), 0, Some(primary));
        created.map(|_| ()).map_err(|error| error.text().to_string())
    }

    /// Reads a known Sentinel. A line without an id is from versions that had none, and is ignored.
    fn known_sentinel(&mut self, primary: InstanceId, texts: &[&str]) -> Result<(), String> {
        let &[host, port, run_id] = texts else {
            return Ok(());
        };
        let created = self.create(Kind::Sentinel, run_id, host, leading_number(port), 0, Some(primary));
        let id = created.map_err(|error| error.text().to_string())?;
        self.instances[id].run_id = Some(run_id.to_string());
        self.share_link(id);
        Ok(())
    }

    /// Sets the time after which a primary and all around it count as down.
    pub(crate) fn set_down_after(&mut self, primary: InstanceId, after: i64) {
        for id in std::iter::once(primary).chain(self.instances.members(primary)) {
            self.instances[id].down_after = after;
        }
    }
}

const UNRECOGNIZED: &str = "Unrecognized sentinel configuration statement.";

pub(crate) fn yes_or_no(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}
