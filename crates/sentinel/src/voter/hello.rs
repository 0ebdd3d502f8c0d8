//! Hello messages: Sentinels find each other and spread their decisions, through the servers that they watch.
//!
//! `ip,port,id,current epoch,primary's name,its host,its port,its configuration's epoch`

use super::Voter;
use crate::model::effect::Level;
use crate::model::info_report::leading_number;
use crate::model::instance::{Flags, InstanceId, Kind};
use crate::model::instance_transport::{HELLO_CHANNEL, ReplyTo};
use crate::watch::Watch;
use resp::reply_value::Value;

/// A hello message.
struct Hello<'a> {
    host: &'a str,
    port: i64,
    id: &'a str,
    current_epoch: u64,
    primary: &'a str,
    primary_host: &'a str,
    primary_port: i64,
    config_epoch: u64,
}

impl Hello<'_> {
    fn parse(text: &str) -> Option<Hello<'_>> {
        let fields: Vec<&str> = text.split(',').collect();
        let &[host, port, id, current_epoch, primary, primary_host, primary_port, config_epoch] = fields.as_slice()
        else {
            return None;
        };
        let epoch = |text: &str| text.parse().unwrap_or_default();
        Some(Hello {
            host,
            port: leading_number(port),
            id,
            current_epoch: epoch(current_epoch),
            primary,
            primary_host,
            primary_port: leading_number(primary_port),
            config_epoch: epoch(config_epoch),
        })
    }
}

impl Voter {
    /// Handles a message on a subscribed connection.
    pub(crate) fn message(&mut self, watch: &mut Watch, items: &[Value]) {
        if let [Value::Bulk(kind), Value::Bulk(_), Value::Bulk(payload)] = items
            && kind == b"message"
        {
            let payload = String::from_utf8_lossy(payload).into_owned();
            // A Sentinel's own messages come back, too.
            if !payload.contains(&self.my_id) {
                self.hello(watch, &payload);
            }
        }
    }

    /// Handles a hello message of another Sentinel.
    pub(crate) fn hello(&mut self, watch: &mut Watch, payload: &str) {
        let Some(hello) = Hello::parse(payload) else {
            return;
        };
        let Some(primary) = watch.instances().primary_named(hello.primary.as_bytes()) else {
            return;
        };
        // The sender has seen its configuration's epoch, too.
        let epoch = hello.current_epoch.max(hello.config_epoch);
        if !self.believes(epoch, hello.id, watch) {
            return;
        }
        let sender = known_sender(watch, primary, &hello).or_else(|| self.new_sender(watch, primary, &hello));
        self.adopt_epoch(epoch, primary, watch);
        let Some(sender) = sender else {
            return;
        };
        if watch.group(primary).config_epoch < hello.config_epoch {
            watch.group_mut(primary).config_epoch = hello.config_epoch;
            give_way(watch, primary, hello.config_epoch);
            self.follow(watch, primary, sender, &hello);
        }
        watch[sender].last_hello = watch.now();
    }

    /// Adds a Sentinel that was not known, or is now at another address.
    fn new_sender(&mut self, watch: &mut Watch, primary: InstanceId, hello: &Hello<'_>) -> Option<InstanceId> {
        let moved = watch.remove_sentinel(primary, hello.id);
        if moved {
            let more = format!(" ip {} port {} for {}", hello.host, hello.port, hello.id);
            watch.event_of(Level::Notice, "+sentinel-address-switch", primary, &more);
        } else {
            remove_at_address(watch, primary, hello);
        }
        let id = watch.create(Kind::Sentinel, hello.id, hello.host, hello.port, 0, Some(primary)).ok()?;
        if !moved {
            watch.event_of(Level::Notice, "+sentinel", id, "");
        }
        watch[id].run_id = Some(hello.id.to_string());
        watch.share_link(id);
        if moved {
            watch.update_address_everywhere(id);
        }
        self.save(watch);
        Some(id)
    }

    /// Follows the other Sentinel's configuration, which is newer.
    fn follow(&mut self, watch: &mut Watch, primary: InstanceId, sender: InstanceId, hello: &Hello<'_>) {
        let old = watch[primary].address.clone();
        if i64::from(old.port) == hello.primary_port && watch.is_host_of(&old, hello.primary_host) {
            return;
        }
        watch.event_of(Level::Warning, "+config-update-from", sender, "");
        let (name, from) = (&watch[primary].name, watch.announced(&old));
        let text = format!("{name} {from} {} {} {}", old.port, hello.primary_host, hello.primary_port);
        watch.event_text(Level::Warning, "+switch-master", Some(primary), &text);
        self.change_primary_address(watch, primary, hello.primary_host, hello.primary_port);
        let new = watch[primary].address.clone();
        watch.call_client_reconfig_script(primary, "observer", &old, &new);
    }

    /// Gives the primary the address of another server, for good.
    pub(crate) fn change_primary_address(&mut self, watch: &mut Watch, primary: InstanceId, host: &str, port: i64) {
        if watch.change_primary_address(primary, host, port) {
            self.save(watch);
        }
    }

    /// Sends a hello message to an instance.
    pub(crate) fn send_hello(&self, watch: &mut Watch, id: InstanceId) {
        let primary = watch.instances().primary_of(id);
        let local = watch.link(id).command.as_ref().and_then(|connection| connection.local_ip.clone());
        let Some((ip, port)) = watch.settings().own_address(local, watch.host()) else {
            return;
        };
        let address = watch.current_primary_address(primary);
        let payload = format!(
            "{ip},{port},{},{},{},{},{},{}",
            self.my_id,
            self.epochs.current(),
            watch[primary].name,
            watch.announced(address),
            address.port,
            watch.group(primary).config_epoch
        );
        watch.send(id, ReplyTo::Publish, &[b"PUBLISH", HELLO_CHANNEL.as_bytes(), payload.as_bytes()]);
    }
}

fn known_sender(watch: &mut Watch, primary: InstanceId, hello: &Hello<'_>) -> Option<InstanceId> {
    let address = watch.address(hello.host, hello.port, true).ok()?;
    let found = watch.instances().sentinel_with_id(primary, hello.id)?;
    watch[found].address.is_same(&address).then_some(found)
}

/// Removes another Sentinel at this sender's address, where it cannot be any more.
fn remove_at_address(watch: &mut Watch, primary: InstanceId, hello: &Hello<'_>) {
    let Ok(address) = watch.address(hello.host, hello.port, true) else {
        return;
    };
    let Some(other) = watch.instances().at(&watch.group(primary).sentinels, &address) else {
        return;
    };
    watch.event_of(Level::Notice, "+sentinel-invalid-addr", other, "");
    if let Some(obsolete) = watch[other].run_id.clone() {
        for primary in watch.instances().primaries().to_vec() {
            watch.remove_sentinel(primary, &obsolete);
        }
    }
}

/// Gives way to another Sentinel with a configuration of this epoch. A failover of an earlier epoch ends, even if the
/// later one has ended at the primary that this one is to replace.
fn give_way(watch: &mut Watch, primary: InstanceId, epoch: u64) {
    let is_earlier = watch.group(primary).failover.epoch < epoch;
    if !watch[primary].flags.has(Flags::FAILOVER_IN_PROGRESS) || !is_earlier {
        return;
    }
    watch.event_of(Level::Warning, "-failover-abort-newer-config", primary, "");
    watch.abort_failover(primary);
    let told = Flags::RECONF_SENT.and(Flags::RECONF_IN_PROGRESS).and(Flags::RECONF_DONE);
    for id in watch.group(primary).replicas.clone() {
        watch[id].flags.remove(told);
    }
}
