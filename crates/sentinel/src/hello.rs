//! Hello messages: Sentinels find each other and spread their decisions, through the servers that they watch.
//!
//! `ip,port,id,current epoch,primary's name,its host,its port,its configuration's epoch`

use crate::model::effect::Level;
use crate::model::info_report::leading_number;
use crate::model::instance::{InstanceId, Kind};
use crate::model::instance_transport::{HELLO_CHANNEL, ReplyTo};
use crate::sentinel::Sentinel;
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

impl Sentinel {
    /// Handles a message on a subscribed connection.
    pub(crate) fn message(&mut self, items: &[Value]) {
        if let [Value::Bulk(kind), Value::Bulk(_), Value::Bulk(payload)] = items
            && kind == b"message"
        {
            let payload = String::from_utf8_lossy(payload).into_owned();
            // A Sentinel's own messages come back, too.
            if !payload.contains(&self.my_id) {
                self.hello(&payload);
            }
        }
    }

    /// Handles a hello message of another Sentinel.
    pub(crate) fn hello(&mut self, payload: &str) {
        let Some(hello) = Hello::parse(payload) else {
            return;
        };
        let Some(primary) = self.instances.primary_named(hello.primary.as_bytes()) else {
            return;
        };
        // The sender has seen its configuration's epoch, too.
        let epoch = hello.current_epoch.max(hello.config_epoch);
        if !self.believes(epoch, hello.id) {
            return;
        }
        let sender = self.known_sender(primary, &hello).or_else(|| self.new_sender(primary, &hello));
        self.adopt_epoch(epoch, primary);
        let Some(sender) = sender else {
            return;
        };
        if self.instances.group(primary).config_epoch < hello.config_epoch {
            self.instances.group_mut(primary).config_epoch = hello.config_epoch;
            self.give_way(primary, hello.config_epoch);
            self.follow(primary, sender, &hello);
        }
        self.instances[sender].last_hello = self.now;
    }

    fn known_sender(&mut self, primary: InstanceId, hello: &Hello<'_>) -> Option<InstanceId> {
        let address = self.address(hello.host, hello.port, true).ok()?;
        let found = self.instances.sentinel_with_id(primary, hello.id)?;
        self.instances[found].address.is_same(&address).then_some(found)
    }

    /// Adds a Sentinel that was not known, or is now at another address.
    fn new_sender(&mut self, primary: InstanceId, hello: &Hello<'_>) -> Option<InstanceId> {
        let moved = self.remove_sentinel(primary, hello.id);
        if moved {
            let more = format!(" ip {} port {} for {}", hello.host, hello.port, hello.id);
            self.event_of(Level::Notice, "+sentinel-address-switch", primary, &more);
        } else {
            self.remove_at_address(primary, hello);
        }
        let id = self.create(Kind::Sentinel, hello.id, hello.host, hello.port, 0, Some(primary)).ok()?;
        if !moved {
            self.event_of(Level::Notice, "+sentinel", id, "");
        }
        self.instances[id].run_id = Some(hello.id.to_string());
        self.share_link(id);
        if moved {
            self.update_address_everywhere(id);
        }
        self.save();
        Some(id)
    }

    /// Removes another Sentinel at this sender's address, where it cannot be any more.
    fn remove_at_address(&mut self, primary: InstanceId, hello: &Hello<'_>) {
        let Ok(address) = self.address(hello.host, hello.port, true) else {
            return;
        };
        let Some(other) = self.instances.at(&self.instances.group(primary).sentinels, &address) else {
            return;
        };
        self.event_of(Level::Notice, "+sentinel-invalid-addr", other, "");
        if let Some(obsolete) = self.instances[other].run_id.clone() {
            for primary in self.instances.primaries.clone() {
                self.remove_sentinel(primary, &obsolete);
            }
        }
    }

    /// Follows the other Sentinel's configuration, which is newer.
    fn follow(&mut self, primary: InstanceId, sender: InstanceId, hello: &Hello<'_>) {
        let old = self.instances[primary].address.clone();
        if i64::from(old.port) == hello.primary_port && self.is_host_of(&old, hello.primary_host) {
            return;
        }
        self.event_of(Level::Warning, "+config-update-from", sender, "");
        let (name, from) = (&self.instances[primary].name, self.announced(&old));
        let text = format!("{name} {from} {} {} {}", old.port, hello.primary_host, hello.primary_port);
        self.event_text(Level::Warning, "+switch-master", Some(primary), &text);
        self.change_primary_address(primary, hello.primary_host, hello.primary_port);
        let new = self.instances[primary].address.clone();
        self.call_client_reconfig_script(primary, "observer", &old, &new);
    }

    pub(crate) fn send_hello(&mut self, id: InstanceId) {
        let primary = self.instances.primary_of(id);
        let command = self.links[self.instances[id].link].command.as_ref();
        let local = command.and_then(|connection| connection.local_ip.clone());
        let Some(ip) = self.settings.announce_ip.clone().or(local) else {
            return;
        };
        let port = match self.settings.announce_port {
            0 => i64::from(self.host.port()),
            port => port,
        };
        let address = self.current_primary_address(primary);
        let payload = format!(
            "{ip},{port},{},{},{},{},{},{}",
            self.my_id,
            self.current_epoch,
            self.instances[primary].name,
            self.announced(address),
            address.port,
            self.instances.group(primary).config_epoch
        );
        self.send(id, ReplyTo::Publish, &[b"PUBLISH", HELLO_CHANNEL.as_bytes(), payload.as_bytes()]);
    }

    /// Makes the next hello messages about a primary due at once.
    pub(crate) fn hurry_hello(&mut self, primary: InstanceId) {
        let earlier = self.periods.publish + 1;
        for id in std::iter::once(primary).chain(self.instances.members(primary)) {
            self.instances[id].last_publish -= earlier;
        }
    }
}
