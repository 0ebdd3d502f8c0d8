//! A virtual server: only the parts that a Sentinel sees.

use resp::reply_value::Value;
use std::collections::{BTreeMap, BTreeSet};

pub struct Server {
    pub up: bool,
    /// Its primary; None: it is a primary.
    pub primary: Option<(String, i64)>,
    pub link_up: bool,
    pub offset: u64,
    pub priority: i64,
    pub run: u64,
    pub number: usize,
    /// The server has acknowledged writes.
    pub acknowledges: bool,
    /// The server was restarted, leads, and has lost acknowledged writes; its replicas do not follow it.
    pub has_forgotten: bool,
    /// The server was restarted, follows, and does not have all acknowledged writes yet.
    pub is_out_of_sync: bool,
    /// The server lacks acknowledged writes of a primary that another one handed its lead to, or does not know of.
    pub lacks_writes: bool,
    /// The server says that it runs FAILOVER, but never carries it out.
    pub hears_failover: bool,
    /// The server acknowledges nothing after its promotion until another one follows it.
    pub needs_followers: bool,
    /// Orders of the user that has no right to them.
    pub forbidden: Vec<&'static str>,
    /// The server has the right, and cannot hand over now.
    pub refuses_failover: bool,
    /// A transaction is carried out later, and so are the commands behind it on its connection.
    pub stands_still: bool,
    /// The server's clients may not write.
    pub is_paused: bool,
    stuck: BTreeMap<u64, Vec<Value>>,
    was_promoted: bool,
    subscribed: BTreeSet<u64>,
    queued: BTreeMap<u64, Vec<Vec<String>>>,
    /// Connections on which a command was refused since the last transaction.
    broken: BTreeSet<u64>,
}

impl Server {
    pub fn new(number: usize, primary: Option<(String, i64)>) -> Server {
        Server {
            up: true,
            link_up: primary.is_some(),
            primary,
            offset: 100 + number as u64,
            priority: 100,
            run: 1,
            number,
            acknowledges: false,
            has_forgotten: false,
            is_out_of_sync: false,
            lacks_writes: false,
            hears_failover: false,
            needs_followers: false,
            forbidden: Vec::new(),
            refuses_failover: false,
            stands_still: false,
            is_paused: false,
            stuck: BTreeMap::new(),
            broken: BTreeSet::new(),
            was_promoted: false,
            subscribed: BTreeSet::new(),
            queued: BTreeMap::new(),
        }
    }

    pub fn restart(&mut self) {
        self.up = true;
        self.run += 1;
        self.was_promoted = false;
        self.has_forgotten = self.acknowledges && self.primary.is_none();
        self.is_out_of_sync = self.acknowledges && self.primary.is_some();
        self.subscribed.clear();
        self.queued.clear();
    }

    /// Makes the server lead or follow by a FAILOVER.
    pub fn hand_over(&mut self, primary: Option<(String, i64)>) {
        (self.was_promoted, self.link_up) = (primary.is_none(), false);
        self.primary = primary;
    }

    pub fn closed(&mut self, connection: u64) {
        self.subscribed.remove(&connection);
        self.stuck.remove(&connection);
        self.broken.remove(&connection);
        self.queued.remove(&connection);
    }

    pub fn subscribers(&self) -> Vec<u64> {
        self.subscribed.iter().copied().collect()
    }

    /// Lets the server proceed; returns the commands that have waited, with their connections.
    pub fn proceed(&mut self) -> Vec<(u64, Value)> {
        self.stands_still = false;
        let waited = std::mem::take(&mut self.stuck);
        waited.into_iter().flat_map(|(id, commands)| commands.into_iter().map(move |command| (id, command))).collect()
    }

    /// Returns the reply to a command, and a message that it published.
    pub fn command(&mut self, connection: u64, command: &Value, replicas: &str) -> (Vec<u8>, Option<Vec<u8>>) {
        let words = words(command);
        let name = words[0].to_ascii_uppercase();
        if self.stands_still && name == "EXEC" {
            self.stuck.entry(connection).or_default();
        }
        if let Some(commands) = self.stuck.get_mut(&connection) {
            commands.push(command.clone());
            return (Vec::new(), None);
        }
        if self.forbidden.iter().any(|order| words.join(" ").to_ascii_uppercase().starts_with(order)) {
            self.broken.insert(connection);
            return (format!("-NOPERM this user may not run {name}\r\n").into_bytes(), None);
        }
        if name == "EXEC" {
            let queued = self.queued.remove(&connection).unwrap_or_default();
            if self.broken.remove(&connection) {
                return (b"-EXECABORT Transaction discarded because of previous errors.\r\n".to_vec(), None);
            }
            let replies: Vec<&str> = queued.iter().map(|words| self.run(words)).collect();
            return (format!("*{}\r\n{}", queued.len(), replies.concat()).into_bytes(), None);
        }
        if let Some(queued) = self.queued.get_mut(&connection) {
            queued.push(words);
            return (b"+QUEUED\r\n".to_vec(), None);
        }
        let reply = match name.as_str() {
            "CLIENT" => {
                self.run(&words);
                b"+OK\r\n".to_vec()
            }
            "PING" => b"+PONG\r\n".to_vec(),
            "INFO" => bulk(&self.info(replicas)),
            "MULTI" => {
                self.broken.remove(&connection);
                self.queued.insert(connection, Vec::new());
                b"+OK\r\n".to_vec()
            }
            "SUBSCRIBE" => {
                self.subscribed.insert(connection);
                [b"*3\r\n$9\r\nsubscribe\r\n".to_vec(), bulk(&words[1]), b":1\r\n".to_vec()].concat()
            }
            "PUBLISH" => {
                let message = [b"*3\r\n$7\r\nmessage\r\n".to_vec(), bulk(&words[1]), bulk(&words[2])].concat();
                return (b":1\r\n".to_vec(), Some(message));
            }
            _ => b"+OK\r\n".to_vec(),
        };
        (reply, None)
    }

    fn run(&mut self, words: &[String]) -> &'static str {
        match (words[0].as_str(), words[1].as_str()) {
            ("FAILOVER", _) if self.refuses_failover => return "-ERR FAILOVER target replica is not online.\r\n",
            ("CLIENT", "PAUSE") => self.is_paused = true,
            ("CLIENT", "UNPAUSE") => self.is_paused = false,
            _ => {}
        }
        if words[0] != "SLAVEOF" {
            return "+OK\r\n";
        }
        self.primary = match (words[1].as_str(), words[2].parse()) {
            ("NO", _) => None,
            (host, Ok(port)) => Some((host.to_string(), port)),
            (_, Err(_)) => None,
        };
        self.link_up = false;
        self.was_promoted = self.primary.is_none();
        self.has_forgotten = self.was_promoted && self.lacks_writes;
        "+OK\r\n"
    }

    fn info(&self, replicas: &str) -> String {
        let id = format!("{:040}", self.number as u64 * 1000 + self.run);
        let replication = match &self.primary {
            None => format!("role:master\r\n{replicas}"),
            Some((host, port)) => format!(
                "role:slave\r\nmaster_host:{host}\r\nmaster_port:{port}\r\nmaster_link_status:{}\r\n\
                 slave_repl_offset:{}\r\nslave_priority:{}\r\nreplica_announced:1\r\n",
                if self.link_up { "up" } else { "down" },
                self.offset,
                if self.is_out_of_sync { 0 } else { self.priority },
            ),
        };
        let refused = "in_sync_state:in-sync\r\nmaster_link_down_since_seconds:99999\r\n";
        let in_sync = match &self.primary {
            _ if !self.acknowledges => String::new(),
            Some(_) if self.is_out_of_sync => "in_sync_state:out-of-sync\r\n".to_owned(),
            Some(_) if self.link_up => "in_sync_state:in-sync\r\n".to_owned(),
            Some(_) => refused.to_owned(),
            None => {
                let is_alone = self.needs_followers && self.was_promoted && replicas.is_empty();
                let state = if self.has_forgotten || is_alone { "unconfirmed" } else { "open" };
                format!("in_sync_state:{state}\r\nin_sync_promoted:{}\r\n", u8::from(self.was_promoted))
            }
        };
        let failover = if self.hears_failover { "master_failover_state:no-failover\r\n" } else { "" };
        format!("# Server\r\nrun_id:{id}\r\n{replication}{failover}{in_sync}")
    }
}

pub fn words(command: &Value) -> Vec<String> {
    let Value::Array(items) = command else { panic!("no command: {command:?}") };
    let text = |item: &Value| match item {
        Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("no word: {other:?}"),
    };
    items.iter().map(text).collect()
}

fn bulk(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}
