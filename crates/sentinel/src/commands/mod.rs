//! SENTINEL and its subcommands. Arguments and the place for the reply come in; the number of arguments is checked
//! before. Sockets are unknown here.

mod debug;
mod instance_reply;
mod option_checks;
mod own_settings;
mod primary_settings;
mod questions;

use crate::failovers::{SimulatedFailures, select_replica, start_failover};
use crate::model::effect::{Level, Millis};
use crate::model::instance::{Acknowledging, Flags, InstanceId, Kind, OwnFailover};
use crate::odown::ask_other_sentinels;
use crate::sentinel::Sentinel;
use crate::voter::Voter;
use crate::watch::Watch;
use instance_reply::{reply_instance, reply_instances};
use option_checks::{Outcome, Refusal, check_words};
use resp::number::parse_i64;
use resp::reply::Reply;

const NO_PRIMARY: &str = "ERR No such master with that name";
const NOT_SAVED: &str = "ERR Failed to save config file. Check server logs.";
impl Sentinel {
    /// Runs SENTINEL: `args` begin with the subcommand.
    pub fn command(&mut self, args: &[&[u8]], reply: &mut Reply, now: Millis) {
        self.watch.set_now(now);
        if let Err(refusal) = self.run(args, reply) {
            reply.error(refusal);
        }
    }

    /// Runs PUBLISH, which carries hello messages and nothing else.
    pub fn publish(&mut self, channel: &[u8], message: &[u8], reply: &mut Reply, now: Millis) {
        self.watch.set_now(now);
        if channel != crate::model::instance_transport::HELLO_CHANNEL.as_bytes() {
            reply.error("ERR Only HELLO messages are accepted by Sentinel instances.");
            return;
        }
        self.voter.hello(&mut self.watch, &String::from_utf8_lossy(message));
        reply.int(1);
    }

    fn run(&mut self, args: &[&[u8]], reply: &mut Reply) -> Outcome {
        let name = args.first().map_or(Vec::new(), |name| name.to_ascii_lowercase());
        let rest = args.get(1..).unwrap_or_default();
        match (name.as_slice(), rest) {
            (b"primaries" | b"masters", []) => reply_instances(&self.watch, self.watch.instances().primaries(), reply),
            (b"primary" | b"master", [name]) => {
                let id = self.primary(name)?;
                reply_instance(&self.watch, id, reply);
            }
            (b"replicas" | b"slaves", [name]) => {
                let id = self.primary(name)?;
                reply_instances(&self.watch, &self.watch.group(id).replicas, reply);
            }
            (b"sentinels", [name]) => {
                let id = self.primary(name)?;
                reply_instances(&self.watch, &self.watch.group(id).sentinels, reply);
            }
            (b"myid", []) => reply.bulk(self.my_id().as_bytes()),
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
                self.watch.event_of(Level::Warning, "-monitor", id, "");
                self.watch.remove(id);
                return save_and_reply(&self.voter, &mut self.watch, reply);
            }
            (b"flushconfig", []) => return save_and_reply(&self.voter, &mut self.watch, reply),
            (b"set", [name, options @ ..]) => return self.set(name, options, reply),
            (b"config", [what, words @ ..]) => return self.config(what, words, reply),
            (b"simulate-failure", words) => return self.simulate_failure(words, reply),
            (b"debug", []) => debug::show(self.watch.periods_mut(), reply),
            (b"debug", words) => return debug::set(self.watch.periods_mut(), words, reply),
            (name, _) => {
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(format!("ERR unknown subcommand or wrong number of arguments for '{name}'"));
            }
        }
        Ok(())
    }

    pub(crate) fn primary(&self, name: &[u8]) -> Result<InstanceId, Refusal> {
        self.watch.instances().primary_named(name).ok_or_else(|| NO_PRIMARY.to_string())
    }

    fn set(&mut self, name: &[u8], options: &[&[u8]], reply: &mut Reply) -> Outcome {
        let id = self.primary(name)?;
        let (has_changed, outcome) = primary_settings::set(&mut self.watch, id, options);
        if has_changed && outcome.is_ok() {
            return save_and_reply(&self.voter, &mut self.watch, reply);
        }
        if has_changed {
            self.voter.save(&mut self.watch);
        }
        outcome
    }

    fn config(&mut self, what: &[u8], words: &[&[u8]], reply: &mut Reply) -> Outcome {
        match what.to_ascii_lowercase().as_slice() {
            b"set" if words.len() > 1 => {
                let must_reconnect = own_settings::set(&mut self.watch, words)?;
                let saved = save_and_reply(&self.voter, &mut self.watch, reply);
                if must_reconnect {
                    self.watch.drop_sentinel_connections();
                }
                saved
            }
            b"get" if !words.is_empty() => {
                own_settings::get(&self.watch, words, reply);
                Ok(())
            }
            _ => Err("ERR Only SENTINEL CONFIG GET <param> [<param> <param> ...] / SET <param> <value> [<param> \
                      <value> ...] are supported."
                .to_string()),
        }
    }

    fn reset_matching(&mut self, pattern: &[u8], reply: &mut Reply) {
        let matching = |&id: &InstanceId| engine::glob::matches(pattern, self.watch[id].name.as_bytes());
        let found: Vec<InstanceId> = self.watch.instances().primaries().iter().copied().filter(matching).collect();
        for &id in &found {
            self.watch.reset(id, true);
            self.watch.event_of(Level::Warning, "+reset-master", id, "");
        }
        reply.int(found.len() as i64);
    }

    fn failover(&mut self, name: &[u8], option: Option<&[u8]>, reply: &mut Reply) -> Outcome {
        let id = self.primary(name)?;
        if let Some(option) = option {
            if !option.eq_ignore_ascii_case(b"coordinated") {
                return Err("ERR Unknown failover option specified".to_string());
            }
            if self.watch[id].reported.own_failover == OwnFailover::Unsupported {
                return Err("NOGOODPRIMARY Primary does not support FAILOVER command".to_string());
            }
        }
        if self.watch[id].flags.has(Flags::FAILOVER_IN_PROGRESS) {
            return Err("INPROG Failover already in progress".to_string());
        }
        if select_replica(&self.watch, id).is_none() {
            return Err("NOGOODSLAVE No suitable replica to promote".to_string());
        }
        let text = format!("Executing user requested FAILOVER of '{}'", self.watch[id].name);
        self.watch.log(Level::Notice, text);
        let now = self.watch.now();
        let instance = &mut self.watch[id];
        let reported = &instance.reported;
        // A primary that acknowledges writes hands over the writes that it has acknowledged, and no other one
        // acknowledges before.
        let hands_over = reported.acknowledges == Some(Acknowledging::Open)
            && reported.own_failover == OwnFailover::Idle
            && !instance.flags.has(Flags::S_DOWN);
        instance.s_down_since = now;
        instance.flags.insert(Flags::S_DOWN);
        start_failover(&mut self.voter, &mut self.watch, id);
        if option.is_some() {
            self.watch[id].flags.insert(Flags::COORDINATED_FAILOVER);
            ask_other_sentinels(&self.voter, &mut self.watch, id, true);
        } else {
            let flags = &mut self.watch[id].flags;
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
        if self.watch.resolve(&host).is_none() {
            return Err("ERR Invalid IP address or hostname specified".to_string());
        }
        let created = self.watch.create(Kind::Primary, &name, &host, port, quorum, None);
        let id = created.map_err(|error| format!("ERR {}", error.text()))?;
        let saved = save_and_reply(&self.voter, &mut self.watch, reply);
        self.watch.event_of(Level::Warning, "+monitor", id, &format!(" quorum {quorum}"));
        saved
    }

    fn simulate_failure(&mut self, words: &[&[u8]], reply: &mut Reply) -> Outcome {
        let mut simulated = SimulatedFailures::default();
        self.failovers.simulate(simulated);
        for word in words {
            let when = match word.to_ascii_lowercase().as_slice() {
                b"crash-after-election" => {
                    simulated.after_election = true;
                    "being successfully elected as failover leader"
                }
                b"crash-after-promotion" => {
                    simulated.after_promotion = true;
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
            self.failovers.simulate(simulated);
            self.watch.log(Level::Warning, format!("Failure simulation: this Sentinel will crash after {when}"));
        }
        reply.ok();
        Ok(())
    }
}

/// Saves the configuration, and replies whether it is on the disk.
fn save_and_reply(voter: &Voter, watch: &mut Watch, reply: &mut Reply) -> Outcome {
    if !voter.save(watch) {
        return Err(NOT_SAVED.to_string());
    }
    reply.ok();
    Ok(())
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
