//! SENTINEL and its subcommands. Arguments and the place for the reply come in; the number of arguments is checked
//! before. Sockets are unknown here.

mod debug;
mod instance_reply;
mod own_settings;
mod primary_settings;
mod questions;

use crate::model::effect::{Level, Millis};
use crate::model::instance::{Acknowledging, Flags, InstanceId, Kind, OwnFailover};
use crate::sentinel::Sentinel;
use resp::number::parse_i64;
use resp::reply::Reply;

/// The reason of a refused command; the text is the reply.
pub(crate) type Refusal = String;
pub(crate) type Outcome = Result<(), Refusal>;

const NO_PRIMARY: &str = "ERR No such master with that name";
const NOT_SAVED: &str = "ERR Failed to save config file. Check server logs.";
/// The reply to a number that is none.
pub(crate) const NOT_INTEGER: &str = "ERR value is not an integer or out of range";

impl Sentinel {
    /// Runs SENTINEL: `args` begin with the subcommand.
    pub fn command(&mut self, args: &[&[u8]], reply: &mut Reply, now: Millis) {
        self.now = now;
        if let Err(refusal) = self.run(args, reply) {
            reply.error(refusal);
        }
    }

    /// Runs PUBLISH, which carries hello messages and nothing else.
    pub fn publish(&mut self, channel: &[u8], message: &[u8], reply: &mut Reply, now: Millis) {
        self.now = now;
        if channel != crate::model::instance_transport::HELLO_CHANNEL.as_bytes() {
            reply.error("ERR Only HELLO messages are accepted by Sentinel instances.");
            return;
        }
        self.hello(&String::from_utf8_lossy(message));
        reply.int(1);
    }

    fn run(&mut self, args: &[&[u8]], reply: &mut Reply) -> Outcome {
        let name = args.first().map_or(Vec::new(), |name| name.to_ascii_lowercase());
        let rest = args.get(1..).unwrap_or_default();
        match (name.as_slice(), rest) {
            (b"primaries" | b"masters", []) => self.reply_instances(&self.instances.primaries, reply),
            (b"primary" | b"master", [name]) => {
                let id = self.primary(name)?;
                self.reply_instance(id, reply);
            }
            (b"replicas" | b"slaves", [name]) => {
                let id = self.primary(name)?;
                self.reply_instances(&self.instances.group(id).replicas, reply);
            }
            (b"sentinels", [name]) => {
                let id = self.primary(name)?;
                self.reply_instances(&self.instances.group(id).sentinels, reply);
            }
            (b"myid", []) => reply.bulk(self.my_id.as_bytes()),
            (b"is-primary-down-by-addr" | b"is-master-down-by-addr", &[host, port, epoch, candidate]) => {
                return self.is_primary_down([host, port, epoch, candidate], reply);
            }
            (b"get-primary-addr-by-name" | b"get-master-addr-by-name", [name]) => self.primary_address(name, reply),
            (b"ckquorum", [name]) => return self.check_quorum(name, reply),
            (b"info-cache", names) => self.info_cache(names, reply),
            (b"pending-scripts", []) => self.pending_scripts(reply),
            (b"reset", [pattern]) => self.reset_matching(pattern, reply),
            (b"failover", [name]) => return self.failover(name, None, reply),
            (b"failover", [name, option]) => return self.failover(name, Some(option), reply),
            (b"monitor", &[name, host, port, quorum]) => return self.monitor_new([name, host, port, quorum], reply),
            (b"remove", [name]) => {
                let id = self.primary(name)?;
                self.event_of(Level::Warning, "-monitor", id, "");
                self.remove(id);
                return self.save_and_reply(reply);
            }
            (b"flushconfig", []) => return self.save_and_reply(reply),
            (b"set", [name, options @ ..]) => return self.set(name, options, reply),
            (b"config", [what, words @ ..]) => return self.config(what, words, reply),
            (b"simulate-failure", words) => return self.simulate_failure(words, reply),
            (b"debug", []) => self.debug_show(reply),
            (b"debug", words) => return self.debug_set(words, reply),
            (name, _) => {
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(format!("ERR unknown subcommand or wrong number of arguments for '{name}'"));
            }
        }
        Ok(())
    }

    pub(crate) fn primary(&self, name: &[u8]) -> Result<InstanceId, Refusal> {
        self.instances.primary_named(name).ok_or_else(|| NO_PRIMARY.to_string())
    }

    pub(crate) fn save_and_reply(&mut self, reply: &mut Reply) -> Outcome {
        if !self.save() {
            return Err(NOT_SAVED.to_string());
        }
        reply.ok();
        Ok(())
    }

    fn reset_matching(&mut self, pattern: &[u8], reply: &mut Reply) {
        let matching = |&id: &InstanceId| engine::glob::matches(pattern, self.instances[id].name.as_bytes());
        let found: Vec<InstanceId> = self.instances.primaries.iter().copied().filter(matching).collect();
        for &id in &found {
            self.reset(id, true);
            self.event_of(Level::Warning, "+reset-master", id, "");
        }
        reply.int(found.len() as i64);
    }

    fn failover(&mut self, name: &[u8], option: Option<&[u8]>, reply: &mut Reply) -> Outcome {
        let id = self.primary(name)?;
        if let Some(option) = option {
            if !option.eq_ignore_ascii_case(b"coordinated") {
                return Err("ERR Unknown failover option specified".to_string());
            }
            if self.instances[id].reported.own_failover == OwnFailover::Unsupported {
                return Err("NOGOODPRIMARY Primary does not support FAILOVER command".to_string());
            }
        }
        if self.instances[id].flags.has(Flags::FAILOVER_IN_PROGRESS) {
            return Err("INPROG Failover already in progress".to_string());
        }
        if self.select_replica(id).is_none() {
            return Err("NOGOODSLAVE No suitable replica to promote".to_string());
        }
        let text = format!("Executing user requested FAILOVER of '{}'", self.instances[id].name);
        self.log(Level::Notice, text);
        let now = self.now;
        let instance = &mut self.instances[id];
        let reported = &instance.reported;
        // A primary that acknowledges writes hands over the writes that it has acknowledged, and no other one
        // acknowledges before.
        let hands_over = reported.acknowledges == Some(Acknowledging::Open)
            && reported.own_failover == OwnFailover::Idle
            && !instance.flags.has(Flags::S_DOWN);
        instance.s_down_since = now;
        instance.flags.insert(Flags::S_DOWN);
        self.start_failover(id);
        if option.is_some() {
            self.instances[id].flags.insert(Flags::COORDINATED_FAILOVER);
            self.ask_other_sentinels(id, true);
        } else {
            let flags = &mut self.instances[id].flags;
            flags.insert(Flags::FORCE_FAILOVER);
            if hands_over {
                flags.insert(Flags::COORDINATED_FAILOVER);
            }
        }
        reply.ok();
        Ok(())
    }

    fn monitor_new(&mut self, args: [&[u8]; 4], reply: &mut Reply) -> Outcome {
        check_words(&args, 2, "SENTINEL MONITOR")?;
        let [name, host, port, quorum] = args;
        let quorum = parse_i64(quorum).ok_or("ERR Invalid quorum")?;
        let port = parse_i64(port).ok_or("ERR Invalid port")?;
        if quorum <= 0 {
            return Err("ERR Quorum must be 1 or greater.".to_string());
        }
        let (name, host) = (String::from_utf8_lossy(name), String::from_utf8_lossy(host));
        if self.resolve(&host).is_none() {
            return Err("ERR Invalid IP address or hostname specified".to_string());
        }
        let created = self.create(Kind::Primary, &name, &host, port, quorum, None);
        let id = created.map_err(|error| format!("ERR {}", error.text()))?;
        let saved = self.save_and_reply(reply);
        self.event_of(Level::Warning, "+monitor", id, &format!(" quorum {quorum}"));
        saved
    }

    fn simulate_failure(&mut self, words: &[&[u8]], reply: &mut Reply) -> Outcome {
        self.simulated = crate::sentinel::SimulatedFailures::default();
        for word in words {
            let when = match word.to_ascii_lowercase().as_slice() {
                b"crash-after-election" => {
                    self.simulated.after_election = true;
                    "being successfully elected as failover leader"
                }
                b"crash-after-promotion" => {
                    self.simulated.after_promotion = true;
                    "promoting the selected replica to master"
                }
                b"help" => {
                    reply.array(2);
                    reply.bulk(b"crash-after-election");
                    reply.bulk(b"crash-after-promotion");
                    return Ok(());
                }
                _ => return Err("ERR Unknown failure simulation specified".to_string()),
            };
            self.log(Level::Warning, format!("Failure simulation: this Sentinel will crash after {when}"));
        }
        reply.ok();
        Ok(())
    }
}

/// Checks words for the configuration file: control characters would end a line there, and bytes that are no text would
/// be read back as others.
pub(crate) fn check_words(words: &[&[u8]], first: usize, command: &str) -> Outcome {
    for (at, word) in words.iter().enumerate() {
        if word.iter().any(|&byte| byte <= 0x1f || byte == 0x7f) {
            let at = at + first;
            return Err(format!(
                "ERR Invalid argument at index {at} for {command}: control characters are not allowed"
            ));
        }
    }
    Ok(())
}

/// Returns the number of an option, which must be above 0.
pub(crate) fn positive(text: &[u8]) -> Option<i64> {
    parse_i64(text).filter(|&number| number > 0)
}

#[cfg(test)]
mod tests {
    use super::own_settings::OPTIONS;
    use super::primary_settings::SET_OPTIONS;
    use crate::statements::STATEMENTS;

    #[test]
    fn statements_name_the_command_that_changes_them() {
        let changed = |command| STATEMENTS.iter().filter(move |it| it.changed_by == Some(command)).map(|it| it.name);
        for (command, options, beside) in
            [("SENTINEL SET", &SET_OPTIONS[..], "quorum"), ("SENTINEL CONFIG SET", &OPTIONS, "loglevel")]
        {
            let mut named: Vec<&str> = changed(command).chain([beside]).collect();
            let mut known = options.to_vec();
            named.sort_unstable();
            known.sort_unstable();
            assert_eq!(named, known, "{command}");
        }
    }
}
