//! The Sentinel as a whole: its inputs, and its timer.

use crate::failovers::{Failovers, start_failover_if_needed};
use crate::model::effect::{ConnectionId, Effect, Host, Level, Millis, ScriptId};
use crate::model::instance::{InstanceId, Kind};
use crate::model::instance_transport::{Awaited, ReplyTo};
use crate::odown::{ask_other_sentinels, check_objectively_down, check_subjectively_down, down_reply};
use crate::tilt::Tilt;
use crate::voter::Voter;
use crate::watch::{Incoming, Watch};
use resp::reply_value::Value;

/// A Sentinel.
pub struct Sentinel {
    pub(crate) watch: Watch,
    pub(crate) voter: Voter,
    pub(crate) failovers: Failovers,
    pub(crate) tilt: Tilt,
}

/// The longest time between two ticks; each is between half of it and all.
const TICK: Millis = 100;

impl Sentinel {
    /// Returns a Sentinel that watches nothing yet. Its random numbers follow from `seed`.
    pub fn new(host: Box<dyn Host + Send>, seed: u64, now: Millis) -> Sentinel {
        Sentinel {
            watch: Watch::new(host, now),
            voter: Voter::new(seed),
            failovers: Failovers::default(),
            tilt: Tilt::new(now),
        }
    }

    /// Reads one line of the configuration, as words without `sentinel`.
    ///
    /// # Errors
    /// The mistake, as it is reported at the start.
    pub fn statement(&mut self, words: &[Vec<u8>]) -> Result<(), String> {
        self.voter.statement(&mut self.watch, words)
    }

    /// Starts once the configuration is read: takes an id if it has none, and announces its primaries.
    pub fn start(&mut self, now: Millis) {
        self.watch.set_now(now);
        self.tilt.restart(now);
        self.voter.take_id(&mut self.watch);
        self.watch.log(Level::Notice, format!("Sentinel ID is {}", self.voter.my_id()));
        for id in self.watch.instances().primaries().to_vec() {
            let quorum = self.watch.group(id).quorum;
            self.watch.event_of(Level::Warning, "+monitor", id, &format!(" quorum {quorum}"));
        }
    }

    /// Returns this Sentinel's id.
    pub fn my_id(&self) -> &str {
        self.voter.my_id()
    }

    /// Returns the requested effects, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.watch.take_effects()
    }

    /// Takes the due actions. Returns the milliseconds until the next call: never the same, so that Sentinels that were
    /// started together do not request votes together.
    pub fn tick(&mut self, now: Millis) -> Millis {
        self.watch.set_now(now);
        if self.tilt.tick(now, self.watch.periods()) {
            self.watch.event_text(Level::Warning, "+tilt", None, "#tilt mode entered");
        }
        for primary in self.watch.instances().primaries().to_vec() {
            self.handle(primary);
            for member in self.watch.instances().members(primary) {
                self.handle(member);
            }
            self.failovers.finish(&mut self.voter, &mut self.watch, primary);
        }
        self.watch.tick_scripts();
        TICK / 2 + self.voter.random_time(TICK / 2)
    }

    fn handle(&mut self, id: InstanceId) {
        let (watch, voter) = (&mut self.watch, &mut self.voter);
        watch.reconnect(id, voter.my_id());
        if watch.send_periodic(id) {
            voter.send_hello(watch, id);
        }
        if self.tilt.end_when_over(watch.now(), watch.periods()) {
            watch.event_text(Level::Warning, "-tilt", None, "#tilt mode exited");
        }
        if self.tilt.is_on() {
            return;
        }
        check_subjectively_down(watch, id);
        if watch[id].kind == Kind::Primary {
            check_objectively_down(watch, id);
            if start_failover_if_needed(voter, watch, id) {
                ask_other_sentinels(voter, watch, id, true);
            }
            self.failovers.step(voter, watch, id);
            ask_other_sentinels(voter, watch, id, false);
        }
    }

    /// Records an open connection; `local_ip`: its address on this side.
    pub fn connected(&mut self, connection: ConnectionId, local_ip: String, now: Millis) {
        self.watch.set_now(now);
        self.watch.connected(connection, local_ip);
    }

    /// Records that a connection could not be opened, or has ended.
    pub fn closed(&mut self, connection: ConnectionId, now: Millis) {
        self.watch.set_now(now);
        self.watch.closed(connection);
    }

    /// Takes received bytes.
    pub fn received(&mut self, connection: ConnectionId, bytes: &[u8], now: Millis) {
        self.watch.set_now(now);
        for value in self.watch.take_values(connection, bytes) {
            // The handler of a value may have closed the connection.
            let Some(incoming) = self.watch.next_incoming(connection, &value) else {
                return;
            };
            match (incoming, &value) {
                (Incoming::Message, Value::Array(items) | Value::Push(items)) => {
                    self.voter.message(&mut self.watch, items);
                }
                (Incoming::Reply(id, awaited), value) => self.reply(id, &awaited, value),
                _ => {}
            }
        }
    }

    fn reply(&mut self, id: InstanceId, awaited: &Awaited, value: &Value) {
        let watch = &mut self.watch;
        watch.note_reply(id, awaited, value);
        match awaited.reply_to {
            ReplyTo::Nothing | ReplyTo::Transaction => {}
            ReplyTo::Ping => watch.ping_reply(id, value),
            ReplyTo::Publish if matches!(value, Value::Error(_)) => {}
            ReplyTo::Publish => watch[id].last_publish = watch.now(),
            ReplyTo::DownQuestion => down_reply(watch, id, value),
            ReplyTo::Info => {
                if let Value::Bulk(text) | Value::Verbatim(_, text) = value {
                    self.failovers.refresh(&mut self.voter, watch, id, text, self.tilt.is_on());
                }
            }
        }
    }

    /// Records that a script runs now, as this process.
    pub fn script_started(&mut self, script: ScriptId, pid: u32, now: Millis) {
        self.watch.set_now(now);
        self.watch.script_started(script, pid);
    }

    /// Records that a script could not be started; it is tried again.
    pub fn script_not_started(&mut self, script: ScriptId, now: Millis) {
        self.watch.set_now(now);
        self.watch.script_not_started(script);
    }

    /// Records that a script has ended with this status, or by this signal if it is not 0.
    pub fn script_ended(&mut self, script: ScriptId, status: i32, signal: i32, now: Millis) {
        self.watch.set_now(now);
        self.watch.script_ended(script, status, signal);
    }
}
