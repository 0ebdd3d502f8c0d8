//! Opens and closes connections, sends commands on them and takes their input.

use crate::model::effect::{ConnectionId, Effect, Level, Millis};
use crate::model::instance::{InstanceId, Kind, TransportId};
use crate::model::instance_transport::{Awaited, HELLO_CHANNEL, ReplyTo};
use crate::orders::name_of;
use crate::sentinel::Sentinel;
use resp::reply_value::{Value, encode_command};

impl Sentinel {
    /// Records an open connection; `local_ip`: its address on this side.
    pub fn connected(&mut self, connection: ConnectionId, local_ip: String, now: Millis) {
        self.now = now;
        if let Some((_, _, Some(open))) = self.links.slot(connection) {
            open.local_ip = Some(local_ip);
        }
    }

    /// Records that a connection could not be opened, or has ended.
    pub fn closed(&mut self, connection: ConnectionId, now: Millis) {
        self.now = now;
        self.links.forget(connection);
    }

    /// Takes received bytes.
    pub fn received(&mut self, connection: ConnectionId, bytes: &[u8], now: Millis) {
        self.now = now;
        let Some((link, pubsub, Some(open))) = self.links.slot(connection) else {
            return;
        };
        let Ok(values) = open.take(bytes) else {
            self.close(connection);
            return;
        };
        for value in values {
            // The handler of a value may have closed the connection.
            let Some((_, _, Some(open))) = self.links.slot(connection) else {
                return;
            };
            match &value {
                Value::Array(items) | Value::Push(items) if pubsub => {
                    self.links[link].pubsub_activity = self.now;
                    if items.first().is_some_and(|word| *word == Value::Bulk(b"subscribe".to_vec())) {
                        self.note_subscription(link, &Value::Null);
                    }
                    self.message(items);
                }
                _ => {
                    if let Some(awaited) = open.awaited.pop_front() {
                        self.reply(link, &awaited, &value);
                    } else {
                        // A reply without a command; or SUBSCRIBE was refused, and a new connection may fare better.
                        self.note_subscription(link, &value);
                        self.close(connection);
                    }
                }
            }
        }
    }

    /// Takes the reply to SUBSCRIBE on a link, which one instance has.
    fn note_subscription(&mut self, link: TransportId, value: &Value) {
        let found = self.instances.all().find(|(_, instance)| instance.link == link).map(|(&id, _)| id);
        if let Some(id) = found {
            self.note_outcome(id, "SUBSCRIBE", value);
        }
    }

    fn reply(&mut self, link: TransportId, awaited: &Awaited, value: &Value) {
        let Some(id) = awaited.instance.filter(|&id| self.instances.contains(id)) else {
            return;
        };
        self.note_reply(id, awaited, value);
        match awaited.reply_to {
            ReplyTo::Nothing | ReplyTo::Transaction => {}
            ReplyTo::Ping => self.ping_reply(link, id, value),
            ReplyTo::Publish if matches!(value, Value::Error(_)) => {}
            ReplyTo::Publish => self.instances[id].last_publish = self.now,
            ReplyTo::DownQuestion => self.down_reply(id, value),
            ReplyTo::Info => {
                if let Value::Bulk(text) | Value::Verbatim(_, text) = value {
                    self.refresh(id, text);
                }
            }
        }
    }

    fn ping_reply(&mut self, link: TransportId, id: InstanceId, value: &Value) {
        if let Value::Simple(text) | Value::Error(text) = value {
            self.ping_answered(link, id, text);
        }
        self.links[link].last_pong = self.now;
    }

    /// Opens the missing connections of a link.
    pub(crate) fn reconnect(&mut self, id: InstanceId) {
        let instance = &self.instances[id];
        let (link, kind) = (instance.link, instance.kind);
        let state = &self.links[link];
        if !state.disconnected || instance.address.port == 0 || self.now - state.last_reconnect < self.periods.ping {
            return;
        }
        self.links[link].last_reconnect = self.now;
        if self.links[link].command.is_none() {
            self.resolve_again(id);
            if self.open(id, false) {
                self.send_auth(id, false);
                self.send_client_name(id, "cmd", false);
                self.send_ping(id);
                if self.instances[id].reported.acknowledges.is_some() {
                    // The server may have been restarted, and have forgotten.
                    self.send(id, ReplyTo::Info, &[b"INFO"]);
                }
            }
        }
        if kind != Kind::Sentinel && self.links[link].pubsub.is_none() && self.open(id, true) {
            self.send_auth(id, true);
            self.send_client_name(id, "pubsub", true);
            self.send_on(id, true, ReplyTo::Nothing, &[b"SUBSCRIBE", HELLO_CHANNEL.as_bytes()]);
        }
        let state = &mut self.links[link];
        if state.command.is_some() && (kind == Kind::Sentinel || state.pubsub.is_some()) {
            state.disconnected = false;
        }
    }

    /// Resolves the name of an instance, which may mean another host by now.
    fn resolve_again(&mut self, id: InstanceId) {
        if self.settings.resolve_hostnames {
            let address = self.instances[id].address.clone();
            if let Ok(address) = self.address(&address.hostname, i64::from(address.port), false) {
                self.instances[id].address = address;
            }
        }
    }

    fn open(&mut self, id: InstanceId, pubsub: bool) -> bool {
        let instance = &self.instances[id];
        let (link, ip, port) = (instance.link, instance.address.ip.clone(), instance.address.port);
        if ip.is_empty() {
            let event = if pubsub { "-pubsub-link-reconnection" } else { "-cmd-link-reconnection" };
            self.event_of(Level::Debug, event, id, " #Failed to establish connection");
            return false;
        }
        let connection = self.links.connection(link, pubsub, self.now);
        self.effects.push(Effect::Connect { connection: connection.id, ip, port });
        let state = &mut self.links[link];
        if pubsub {
            state.pubsub = Some(connection);
            state.pubsub_activity = self.now;
        } else {
            state.command = Some(connection);
        }
        true
    }

    fn close(&mut self, connection: ConnectionId) {
        self.effects.push(Effect::Close { connection });
        self.links.forget(connection);
    }

    /// Closes one connection of a link, if it is there.
    pub(crate) fn close_one(&mut self, link: TransportId, pubsub: bool) {
        let state = &self.links[link];
        let connection = if pubsub { &state.pubsub } else { &state.command };
        if let Some(connection) = connection.as_ref().map(|connection| connection.id) {
            self.close(connection);
        }
    }

    /// Closes both connections.
    pub(crate) fn close_link(&mut self, link: TransportId) {
        self.close_one(link, false);
        self.close_one(link, true);
    }

    /// Releases an instance's use of its link.
    pub(crate) fn release_link(&mut self, link: TransportId, id: InstanceId) {
        let state = &mut self.links[link];
        state.users -= 1;
        if state.users > 0 {
            let awaited = state.command.iter_mut().flat_map(|connection| connection.awaited.iter_mut());
            awaited.filter(|awaited| awaited.instance == Some(id)).for_each(|awaited| awaited.instance = None);
            return;
        }
        self.close_link(link);
        self.links.remove(link);
    }

    /// Sends a command on the instance's connection for commands, under the server's name for it.
    pub(crate) fn send(&mut self, id: InstanceId, reply_to: ReplyTo, args: &[&[u8]]) -> bool {
        self.send_on(id, false, reply_to, args)
    }

    fn send_on(&mut self, id: InstanceId, pubsub: bool, reply_to: ReplyTo, args: &[&[u8]]) -> bool {
        let renamed = &self.instances.group(id).renamed;
        let name = renamed.iter().find(|(old, _)| old.eq_ignore_ascii_case(args[0])).map(|(_, new)| new.as_slice());
        let words: Vec<&[u8]> = std::iter::once(name.unwrap_or(args[0])).chain(args[1..].iter().copied()).collect();
        let state = &mut self.links[self.instances[id].link];
        let slot = if pubsub { &mut state.pubsub } else { &mut state.command };
        let Some(connection) = slot else {
            return false;
        };
        let mut bytes = Vec::new();
        encode_command(&mut bytes, &words);
        // The answer to SUBSCRIBE is a message, unless it is refused.
        if args[0] != b"SUBSCRIBE" {
            let order = name_of(args);
            connection.awaited.push_back(Awaited { instance: Some(id), reply_to, order, queued: Vec::new() });
        }
        self.effects.push(Effect::Send { connection: connection.id, bytes });
        true
    }

    /// Sends a transaction's commands, the first and the last of which are MULTI and EXEC.
    pub(crate) fn send_transaction(&mut self, id: InstanceId, orders: &[Vec<&[u8]>]) -> bool {
        let [before @ .., exec] = orders else { return true };
        let are_sent = before.iter().all(|order| self.send(id, ReplyTo::Nothing, order));
        let is_sent = are_sent && self.send(id, ReplyTo::Transaction, exec);
        let connection = self.links[self.instances[id].link].command.as_mut();
        if let Some(last) = connection.filter(|_| is_sent).and_then(|connection| connection.awaited.back_mut()) {
            last.queued = before[1..].iter().map(|order| name_of(order)).collect();
        }
        is_sent
    }

    fn send_auth(&mut self, id: InstanceId, pubsub: bool) {
        let (pass, user) = if self.instances[id].kind == Kind::Sentinel {
            match &self.settings.auth_pass {
                Some(pass) => (Some(pass.clone()), self.settings.auth_user.clone()),
                None => (self.host.requirepass(), None),
            }
        } else {
            let group = self.instances.group(id);
            (group.auth_pass.clone(), group.auth_user.clone())
        };
        match (pass, user) {
            (Some(pass), Some(user)) => self.send_on(id, pubsub, ReplyTo::Nothing, &[b"AUTH", &user, &pass]),
            (Some(pass), None) => self.send_on(id, pubsub, ReplyTo::Nothing, &[b"AUTH", &pass]),
            (None, _) => false,
        };
    }

    fn send_client_name(&mut self, id: InstanceId, purpose: &str, pubsub: bool) {
        let name = format!("sentinel-{}-{purpose}", self.my_id.get(..8).unwrap_or_default());
        self.send_on(id, pubsub, ReplyTo::Nothing, &[b"CLIENT", b"SETNAME", name.as_bytes()]);
    }
}
