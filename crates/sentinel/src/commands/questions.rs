//! Questions of other Sentinels and clients.

use super::option_checks::{NOT_INTEGER, Outcome};
use crate::model::instance::{Flags, InstanceId};
use crate::sentinel::Sentinel;
use resp::number::parse_i64;
use resp::reply::Reply;

impl Sentinel {
    /// Answers another Sentinel that asks whether a primary is down, and for a vote.
    pub(super) fn is_primary_down(&mut self, args: [&[u8]; 4], reply: &mut Reply) -> Outcome {
        let [host, port, epoch, candidate] = args;
        let port = parse_i64(port).ok_or(NOT_INTEGER)?;
        let epoch = parse_i64(epoch).ok_or(NOT_INTEGER)?.cast_unsigned();
        let address = self.watch.address(&String::from_utf8_lossy(host), port, true).ok();
        let primary =
            address.and_then(|address| self.watch.instances().at(self.watch.instances().primaries(), &address));
        let mut down = false;
        let mut vote = (None, 0);
        if let Some(primary) = primary {
            down = !self.tilt.is_on() && self.watch[primary].flags.has(Flags::S_DOWN);
            if candidate != b"*" {
                vote = self.voter.vote(&mut self.watch, primary, epoch, &String::from_utf8_lossy(candidate));
            }
        }
        let (leader, leader_epoch) = vote;
        reply.array(3);
        reply.int(i64::from(down));
        reply.bulk(leader.as_deref().unwrap_or("*").as_bytes());
        reply.int(leader_epoch.cast_signed());
        Ok(())
    }

    pub(super) fn primary_address(&self, name: &[u8], reply: &mut Reply) {
        let Some(id) = self.watch.instances().primary_named(name) else {
            reply.null_array();
            return;
        };
        let address = self.watch.current_primary_address(id);
        reply.array(2);
        reply.bulk(self.watch.announced(address).as_bytes());
        reply.bulk_int(i64::from(address.port));
    }

    pub(super) fn check_quorum(&self, name: &[u8], reply: &mut Reply) -> Outcome {
        let id = self.primary(name)?;
        let group = self.watch.group(id);
        let down = Flags::S_DOWN.and(Flags::O_DOWN);
        let usable = 1 + group.sentinels.iter().filter(|&&id| !self.watch[id].flags.has(down)).count();
        let quorum = usable as i64 >= group.quorum;
        let majority = usable > group.sentinels.len().div_ceil(2);
        let lacking = match (quorum, majority) {
            (true, true) => {
                let text = format!("OK {usable} usable Sentinels. Quorum and failover authorization can be reached");
                reply.simple(text);
                return Ok(());
            }
            (false, true) => NO_QUORUM.to_string(),
            (true, false) => NO_MAJORITY.to_string(),
            (false, false) => format!("{NO_QUORUM}. {NO_MAJORITY}"),
        };
        Err(format!("NOQUORUM {usable} usable Sentinels. {lacking}"))
    }

    pub(super) fn info_cache(&self, names: &[&[u8]], reply: &mut Reply) {
        let mut ids: Vec<InstanceId> =
            names.iter().filter_map(|name| self.watch.instances().primary_named(name)).collect();
        let mut seen = std::collections::BTreeSet::new();
        ids.retain(|&id| seen.insert(id));
        if names.is_empty() {
            ids = self.watch.instances().primaries().to_vec();
        }
        reply.array(ids.len() * 2);
        for id in ids {
            let replicas = &self.watch.group(id).replicas;
            reply.bulk(self.watch[id].name.as_bytes());
            reply.array(replicas.len() + 1);
            for &id in std::iter::once(&id).chain(replicas) {
                let instance = &self.watch[id];
                reply.array(2);
                reply.int(if instance.info_refresh == 0 { 0 } else { self.watch.now() - instance.info_refresh });
                match &instance.info {
                    Some(info) => reply.bulk(info),
                    None => reply.null(),
                }
            }
        }
    }

    pub(super) fn pending_scripts(&self, reply: &mut Reply) {
        reply.array(self.watch.scripts().all().len());
        for script in self.watch.scripts().all() {
            reply.map(5);
            reply.bulk(b"argv");
            reply.array(script.argv.len());
            script.argv.iter().for_each(|word| reply.bulk(word));
            reply.bulk(b"flags");
            reply.bulk(if script.running { b"running" } else { b"scheduled" });
            reply.bulk(b"pid");
            reply.bulk_int(i64::from(script.pid));
            if script.running {
                reply.bulk(b"run-time");
                reply.bulk_int(self.watch.now() - script.start);
            } else {
                reply.bulk(b"run-delay");
                reply.bulk_int(if script.start == 0 { 0 } else { (script.start - self.watch.now()).max(0) });
            }
            reply.bulk(b"retry-num");
            reply.bulk_int(i64::from(script.tries));
        }
    }
}

const NO_QUORUM: &str = "Not enough available Sentinels to reach the specified quorum for this master";
const NO_MAJORITY: &str = "Not enough available Sentinels to reach the majority and authorize a failover";
