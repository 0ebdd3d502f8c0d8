//! The `sentinel` lines of a configuration file.

use super::{ID_LENGTH, Voter};
use crate::model::info_report::leading_number;
use crate::model::instance::{InstanceId, Kind};
use crate::sentinel_settings::UNRECOGNIZED;
use crate::statements::{Scope, statement_named};
use crate::watch::Watch;

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

impl Voter {
    /// Reads one line of the configuration, as words without `sentinel`.
    ///
    /// # Errors
    /// The mistake, as it is reported at the start.
    pub(crate) fn statement(&mut self, watch: &mut Watch, words: &[Vec<u8>]) -> Result<(), String> {
        let name = String::from_utf8_lossy(words.first().map_or(b"", Vec::as_slice)).to_ascii_lowercase();
        let texts: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let texts: Vec<&str> = texts.iter().skip(1).map(String::as_str).collect();
        match (name.as_str(), texts.as_slice()) {
            ("monitor", &[name, host, port, quorum]) => monitor(watch, name, host, port, quorum),
            (_, [_]) => self.own_statement(watch, &name, &words[1]),
            (_, [primary, ..]) => {
                let statement = statement_named(&name).filter(|statement| statement.scope == Scope::Primary);
                if !statement.is_some_and(|statement| statement.takes(texts.len())) {
                    return Err(UNRECOGNIZED.to_string());
                }
                let id = watch.instances().primary_named(primary.as_bytes()).ok_or(NO_PRIMARY)?;
                self.statement_of(watch, id, &name, &words[2..], &texts[1..])
            }
            _ => Err(UNRECOGNIZED.to_string()),
        }
    }

    fn own_statement(&mut self, watch: &mut Watch, name: &str, value: &[u8]) -> Result<(), String> {
        match name {
            "current-epoch" => {
                let epoch = Voter::epoch_of_file(&String::from_utf8_lossy(value), watch);
                self.epochs.advance(epoch);
            }
            "myid" => {
                let text = String::from_utf8_lossy(value).into_owned();
                if text.len() != ID_LENGTH {
                    return Err("Malformed Sentinel id in myid option.".to_string());
                }
                self.my_id = text;
            }
            _ => return watch.settings_mut().0.statement(name, value),
        }
        Ok(())
    }

    /// Reads a statement about a primary: its words after the name, as they are and as text.
    fn statement_of(
        &mut self,
        watch: &mut Watch,
        id: InstanceId,
        name: &str,
        words: &[Vec<u8>],
        texts: &[&str],
    ) -> Result<(), String> {
        let number = leading_number(texts[0]);
        let positive = |number: i64| if number > 0 { Ok(number) } else { Err(NO_TIME.to_string()) };
        match name {
            "known-replica" | "known-slave" => return known_replica(watch, id, texts[0], texts[1]),
            "known-sentinel" => return known_sentinel(watch, id, texts),
            "down-after-milliseconds" => {
                let after = positive(number)?;
                watch.set_down_after(id, after);
                return Ok(());
            }
            "notification-script" if !watch.host_mut().is_executable(&words[0]) => {
                return Err("Notification script seems non existing or non executable.".to_string());
            }
            "client-reconfig-script" if !watch.host_mut().is_executable(&words[0]) => {
                return Err("Client reconfiguration script seems non existing or non executable.".to_string());
            }
            "leader-epoch" => {
                watch[id].leader_epoch = Voter::epoch_of_file(texts[0], watch);
                return Ok(());
            }
            "config-epoch" => {
                let epoch = Voter::epoch_of_file(texts[0], watch);
                self.epochs.advance(epoch);
                watch.group_mut(id).config_epoch = epoch;
                return Ok(());
            }
            _ => {}
        }
        let group = watch.group_mut(id);
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
}

fn monitor(watch: &mut Watch, name: &str, host: &str, port: &str, quorum: &str) -> Result<(), String> {
    let quorum = leading_number(quorum);
    if quorum <= 0 {
        return Err("Quorum must be 1 or greater.".to_string());
    }
    let created = watch.create(Kind::Primary, name, host, leading_number(port), quorum, None);
    created.map(|_| ()).map_err(|error| error.text().to_string())
}

fn known_replica(watch: &mut Watch, primary: InstanceId, host: &str, port: &str) -> Result<(), String> {
    let created = watch.create(Kind::Replica, "", host, leading_number(port), 0, Some(primary));
    created.map(|_| ()).map_err(|error| error.text().to_string())
}

/// Reads a known Sentinel. A line without an id is from versions that had none, and is ignored.
fn known_sentinel(watch: &mut Watch, primary: InstanceId, texts: &[&str]) -> Result<(), String> {
    let &[host, port, run_id] = texts else {
        return Ok(());
    };
    let created = watch.create(Kind::Sentinel, run_id, host, leading_number(port), 0, Some(primary));
    let id = created.map_err(|error| error.text().to_string())?;
    watch[id].run_id = Some(run_id.to_string());
    watch.share_link(id);
    Ok(())
}
