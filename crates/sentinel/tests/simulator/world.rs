//! Sentinels and servers, the network between them, and their invariants.

use crate::host::{Disk, VirtualHost};
use crate::server::{Server, words};
use resp::reply::{Protocol, Reply};
use resp::reply_value::{Decoder, Value};
use resp::words::split;
use sentinel::{ConnectionId, Effect, Sentinel, load_order};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A Sentinel (first) or a server, by its number among all.
type Node = usize;

/// A deliberate mistake, to check that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// A Sentinel's memory is not on the disk: after a restart it votes again.
    Forgets,
    /// A Sentinel promises its vote to everybody who asks.
    VotesForAll,
    /// A majority of the reached Sentinels is enough to be elected.
    CountsItsSideOnly,
    /// Jumps of the clock are ignored.
    TrustsClocks,
}

/// Milliseconds of silence after which a server is down.
pub const DOWN_AFTER: i64 = 2000;
const START: i64 = 1_700_000_000_000;
const SERVER_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

struct Member {
    sentinel: Option<Sentinel>,
    disk: Disk,
    clock: i64,
    next_tick: i64,
    /// The epoch that it was elected in last.
    leads: u64,
    seed: u64,
}

struct Connection {
    from: Node,
    /// The Sentinel's own number of it.
    id: ConnectionId,
    to: Node,
    open: bool,
    opens_at: i64,
    forth: VecDeque<(i64, Vec<u8>)>,
    back: VecDeque<(i64, Vec<u8>)>,
    input: Vec<u8>,
    decoder: Decoder,
}

pub struct World {
    seed: u64,
    now: i64,
    random: fastrand::Rng,
    members: Vec<Member>,
    servers: Vec<Server>,
    connections: BTreeMap<u64, Connection>,
    last_connection: u64,
    /// The side of each node; sides do not reach each other.
    side: Vec<u8>,
    history: Vec<String>,
    /// The leader elected in an epoch.
    leaders: BTreeMap<u64, String>,
    /// The vote of a Sentinel in an epoch.
    votes: BTreeMap<(Node, u64), String>,
    /// The replica promoted in an epoch.
    promoted: BTreeMap<u64, String>,
    /// Sentinels that have voted for another, and were not restarted since; with the epoch.
    voters: BTreeMap<Node, u64>,
    flaw: Flaw,
    violations: Vec<String>,
    /// Milliseconds that a message is under way, at most.
    most_delay: i64,
}

impl World {
    /// Returns a world whose first server is the primary of the others.
    pub fn new(seed: u64, sentinels: usize, servers: usize) -> World {
        World::with_flaw(seed, sentinels, servers, Flaw::None)
    }

    /// Returns such a world, with a mistake.
    pub fn with_flaw(seed: u64, sentinels: usize, servers: usize, flaw: Flaw) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let primary = |number: usize| (number > 0).then(|| (ip(sentinels), i64::from(SERVER_PORT)));
        let mut world = World {
            seed,
            now: START,
            members: Vec::new(),
            servers: (0..servers).map(|number| Server::new(number, primary(number))).collect(),
            connections: BTreeMap::new(),
            last_connection: 0,
            side: vec![0; sentinels + servers],
            history: Vec::new(),
            leaders: BTreeMap::new(),
            votes: BTreeMap::new(),
            promoted: BTreeMap::new(),
            voters: BTreeMap::new(),
            flaw,
            violations: Vec::new(),
            most_delay: 8,
            random: random.fork(),
        };
        for node in 0..sentinels {
            let seed = random.u64(..);
            let (disk, clock) = (Disk::default(), random.i64(-5000..5000));
            world.members.push(Member { sentinel: None, disk, clock, next_tick: 0, leads: 0, seed });
            world.start_sentinel(node, true);
        }
        world
    }

    fn start_sentinel(&mut self, node: Node, first: bool) {
        let sentinels = self.side.len() - self.servers.len();
        let quorum = if self.flaw == Flaw::CountsItsSideOnly { 1 } else { sentinels / 2 + 1 };
        let primary = ip(sentinels);
        let member = &mut self.members[node];
        member.seed += 1;
        let now = self.now + member.clock;
        let host = VirtualHost { disk: member.disk.clone(), port: SENTINEL_PORT };
        let mut sentinel = Sentinel::new(Box::new(host), member.seed, now);
        let mut statements: Vec<Vec<Vec<u8>>> = if first {
            let monitor = format!("monitor group {primary} {SERVER_PORT} {quorum}");
            [&monitor, &format!("down-after-milliseconds group {DOWN_AFTER}"), "failover-timeout group 8000"]
                .iter()
                .map(|line| split(line.as_bytes()).expect("words"))
                .collect()
        } else {
            let mut lines = member.disk.lock().expect("nobody panicked").clone();
            if self.flaw == Flaw::Forgets {
                lines.retain(|line| !["sentinel leader-epoch", "sentinel current-epoch"].contains(&line.option));
            }
            lines.iter().map(|line| split(&line.line).expect("words")[1..].to_vec()).collect()
        };
        load_order(&mut statements, |words| &words[0]);
        for words in &statements {
            sentinel.statement(words).expect("what was written can be read");
        }
        sentinel.start(now);
        if self.flaw == Flaw::TrustsClocks {
            let mut reply = Reply::new(Vec::new(), Protocol::Resp2);
            sentinel.command(&[b"debug", b"tilt-trigger", b"1000000000"], &mut reply, now);
        }
        member.next_tick = self.now;
        member.sentinel = Some(sentinel);
    }

    /// Lets time pass.
    pub fn run(&mut self, ms: i64) {
        let end = self.now + ms;
        while self.now < end {
            self.now += 5;
            self.replicate();
            for node in 0..self.members.len() {
                let (now, member) = (self.now, &mut self.members[node]);
                if now >= member.next_tick
                    && let Some(sentinel) = &mut member.sentinel
                {
                    member.next_tick = now + sentinel.tick(now + member.clock);
                }
                self.effects(node);
            }
            self.deliver();
        }
    }

    fn effects(&mut self, node: Node) {
        let Some(sentinel) = &mut self.members[node].sentinel else {
            return;
        };
        for effect in sentinel.take_effects() {
            match effect {
                Effect::Connect { connection, ip, port } => self.connect(node, connection, &ip, port),
                Effect::Send { connection, bytes } => {
                    let at = self.now + self.random.i64(0..self.most_delay);
                    if let Some(open) = self.of(node, connection) {
                        open.forth.push_back((at, bytes));
                    }
                }
                Effect::Close { connection } => {
                    let found = self.connections.iter().find(|(_, c)| c.from == node && c.id == connection);
                    if let Some(id) = found.map(|(id, _)| *id) {
                        self.drop_connection(id, false);
                    }
                }
                Effect::Publish { channel, message } => self.event(node, &channel, &message),
                Effect::Log { .. } => {}
                other => panic!("seed {}: {other:?}", self.seed),
            }
        }
    }

    fn of(&mut self, node: Node, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.values_mut().find(|c| c.from == node && c.id == id)
    }

    fn connect(&mut self, from: Node, id: ConnectionId, to: &str, port: u16) {
        let to = (0..self.side.len()).find(|&node| ip(node) == to).expect("an address of this world");
        assert_eq!(port, if to < self.members.len() { SENTINEL_PORT } else { SERVER_PORT });
        self.last_connection += 1;
        let opens_at = self.now + self.random.i64(1..8);
        let connection = Connection {
            from,
            id,
            to,
            open: false,
            opens_at,
            forth: VecDeque::new(),
            back: VecDeque::new(),
            input: Vec::new(),
            decoder: Decoder::new(),
        };
        self.connections.insert(self.last_connection, connection);
    }

    fn is_up(&self, node: Node) -> bool {
        match node.checked_sub(self.members.len()) {
            None => self.members[node].sentinel.is_some(),
            Some(server) => self.servers[server].up,
        }
    }

    /// Delivers due messages, on all connections whose ends reach each other.
    fn deliver(&mut self) {
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            let Some(connection) = self.connections.get(&id) else {
                continue;
            };
            let (from, to) = (connection.from, connection.to);
            if self.side[from] != self.side[to] {
                continue;
            }
            if !self.is_up(to) {
                self.drop_connection(id, true);
                continue;
            }
            let now = self.now;
            let connection = self.connections.get_mut(&id).expect("just found");
            if !connection.open {
                if now < connection.opens_at {
                    continue;
                }
                connection.open = true;
                let number = connection.id;
                self.tell(from, |sentinel, now| sentinel.connected(number, ip(from), now));
            }
            self.pass(id);
        }
    }

    fn pass(&mut self, id: u64) {
        let now = self.now;
        while let Some(connection) = self.connections.get_mut(&id)
            && connection.forth.front().is_some_and(|(at, _)| *at <= now)
        {
            let (_, bytes) = connection.forth.pop_front().expect("there is one");
            connection.input.extend(bytes);
            let (to, input) = (connection.to, &connection.input);
            let (command, len) = connection.decoder.decode(input).expect("commands").expect("whole");
            connection.input.drain(..len);
            self.command(id, to, &command);
        }
        while let Some(connection) = self.connections.get_mut(&id)
            && connection.back.front().is_some_and(|(at, _)| *at <= now)
        {
            let (_, bytes) = connection.back.pop_front().expect("there is one");
            let (from, number) = (connection.from, connection.id);
            self.tell(from, |sentinel, now| sentinel.received(number, &bytes, now));
        }
    }

    fn tell(&mut self, node: Node, what: impl FnOnce(&mut Sentinel, i64)) {
        let member = &mut self.members[node];
        let now = self.now + member.clock;
        if let Some(sentinel) = &mut member.sentinel {
            what(sentinel, now);
        }
        self.effects(node);
    }

    fn reply(&mut self, connection: u64, bytes: Vec<u8>) {
        let at = self.now + self.random.i64(0..self.most_delay);
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.back.push_back((at, bytes));
        }
    }

    fn command(&mut self, id: u64, to: Node, command: &Value) {
        let Some(server) = to.checked_sub(self.members.len()) else {
            self.sentinel_command(id, to, command);
            return;
        };
        let replicas = self.replica_lines(server);
        let (reply, message) = self.servers[server].command(id, command, &replicas);
        if !reply.is_empty() {
            self.reply(id, reply);
        }
        let Some(message) = message else {
            return;
        };
        // A primary's messages reach the subscribers of its replicas, too.
        let listening = (0..self.servers.len()).filter(|&other| other == server || self.follows(other, server));
        let subscribers: Vec<u64> = listening.flat_map(|server| self.servers[server].subscribers()).collect();
        subscribers.into_iter().for_each(|subscriber| self.reply(subscriber, message.clone()));
    }

    fn sentinel_command(&mut self, id: u64, to: Node, command: &Value) {
        let words = words(command);
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut reply = Reply::new(Vec::new(), Protocol::Resp2);
        self.tell(to, |sentinel, now| match words[0].as_str() {
            "PING" => reply.simple("PONG"),
            "SENTINEL" => sentinel.command(&args[1..], &mut reply, now),
            "PUBLISH" => sentinel.publish(args[1], args[2], &mut reply, now),
            _ => reply.ok(),
        });
        let mut reply = reply.into_inner();
        if self.flaw == Flaw::VotesForAll && words.get(1).is_some_and(|word| word == "is-master-down-by-addr") {
            let (epoch, candidate) = (&words[4], &words[5]);
            reply = format!("*3\r\n:1\r\n${}\r\n{candidate}\r\n:{epoch}\r\n", candidate.len()).into_bytes();
        }
        self.reply(id, reply);
    }

    fn drop_connection(&mut self, id: u64, tell: bool) {
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        if let Some(server) = connection.to.checked_sub(self.members.len()) {
            self.servers[server].closed(id);
        }
        if tell {
            let number = connection.id;
            self.tell(connection.from, |sentinel, now| sentinel.closed(number, now));
        }
    }

    /// Returns whether a server has a link to that primary.
    fn follows(&self, replica: usize, primary: usize) -> bool {
        let (server, sentinels) = (&self.servers[replica], self.members.len());
        let host = server.primary.as_ref().map(|(host, _)| host.as_str());
        server.up
            && self.servers[primary].up
            && !self.servers[primary].has_forgotten
            && host == Some(ip(sentinels + primary).as_str())
            && self.side[sentinels + replica] == self.side[sentinels + primary]
    }

    fn replicate(&mut self) {
        for replica in 0..self.servers.len() {
            let primary = (0..self.servers.len()).find(|&primary| self.follows(replica, primary));
            let link_up = primary.is_some();
            self.servers[replica].link_up = link_up;
            if let Some(primary) = primary {
                let (offset, leads) = (self.servers[primary].offset, self.servers[primary].primary.is_none());
                let server = &mut self.servers[replica];
                // Some servers lag behind.
                server.offset = server.offset.max(offset.saturating_sub(server.number as u64));
                server.lacks_writes &= !leads;
            }
        }
        self.servers.iter_mut().filter(|server| server.up && server.primary.is_none()).for_each(|s| s.offset += 1);
    }

    fn replica_lines(&self, primary: usize) -> String {
        let replicas = (0..self.servers.len()).filter(|&replica| self.follows(replica, primary));
        let line = |(at, replica): (usize, usize)| {
            let host = ip(self.members.len() + replica);
            format!("slave{at}:ip={host},port={SERVER_PORT},state=online,offset=1,lag=0\r\n")
        };
        replicas.enumerate().map(line).collect()
    }

    // Records a Sentinel's event, and checks the invariants.
    fn event(&mut self, node: Node, channel: &str, message: &str) {
        self.history.push(format!("{} {node} {channel} {message}", self.now - START));
        let id = self.members[node].sentinel.as_ref().expect("it spoke").my_id().to_string();
        match channel {
            "+vote-for-leader" => {
                let (leader, epoch) = message.split_once(' ').expect("leader and epoch");
                let epoch = epoch.parse().expect("an epoch");
                if leader != id {
                    self.voters.insert(node, epoch);
                }
                let earlier = self.votes.insert((node, epoch), leader.to_string());
                if earlier.is_some_and(|earlier| earlier != leader) {
                    self.violate(format!("{node} voted twice in {epoch}"));
                }
            }
            "+elected-leader" => {
                let voted = self.votes.iter().filter(|((voter, _), leader)| *voter == node && **leader == id);
                let epoch = voted.map(|((_, epoch), _)| *epoch).max().expect("it voted for itself");
                self.members[node].leads = epoch;
                let earlier = self.leaders.insert(epoch, id.clone());
                if earlier.is_some_and(|earlier| earlier != id) {
                    self.violate(format!("two leaders in {epoch}"));
                }
            }
            "+promoted-slave" => {
                let epoch = self.members[node].leads;
                let earlier = self.promoted.insert(epoch, message.to_string());
                if earlier.is_some_and(|earlier| earlier != message) {
                    self.violate(format!("two replicas were promoted in {epoch}"));
                }
            }
            _ => {}
        }
    }

    /// Records a violation. Without a deliberate mistake it ends the test.
    fn violate(&mut self, what: String) {
        assert!(self.flaw != Flaw::None, "seed {}: {what}\n{}", self.seed, self.history.join("\n"));
        self.violations.push(what);
    }

    /// Returns the violations.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Makes all servers acknowledge writes.
    pub fn acknowledge(&mut self) {
        self.servers.iter_mut().for_each(|server| server.acknowledges = true);
    }

    /// Returns whether a server is a replica.
    pub fn is_replica(&self, server: usize) -> bool {
        self.servers[server].primary.is_some()
    }

    // Trouble.
    pub fn crash_server(&mut self, server: usize) {
        self.history.push(format!("{} server {server} dies", self.now - START));
        self.servers[server].up = false;
        let node = self.members.len() + server;
        for id in self.connections_of(node) {
            self.drop_connection(id, self.side_reaches(id));
        }
    }

    pub fn restart_server(&mut self, server: usize) {
        self.history.push(format!("{} server {server} is back", self.now - START));
        self.servers[server].restart();
    }

    fn side_reaches(&self, id: u64) -> bool {
        self.connections.get(&id).is_some_and(|c| self.side[c.from] == self.side[c.to])
    }

    fn connections_of(&self, node: Node) -> Vec<u64> {
        let of = self.connections.iter().filter(|(_, c)| c.from == node || c.to == node);
        of.map(|(id, _)| *id).collect()
    }

    fn crash_sentinel(&mut self, node: Node) {
        self.history.push(format!("{} sentinel {node} dies", self.now - START));
        self.members[node].sentinel = None;
        self.connections_of(node).into_iter().for_each(|id| self.drop_connection(id, true));
    }

    /// Kills and restarts Sentinels that have voted for another. Then the late question of a rival comes.
    pub fn restart_voters(&mut self) {
        for (node, epoch) in std::mem::take(&mut self.voters) {
            self.crash_sentinel(node);
            self.start_sentinel(node, false);
            let address = (ip(self.members.len()), SERVER_PORT.to_string(), epoch.to_string());
            let (host, port, epoch) = (address.0.as_bytes(), address.1.as_bytes(), address.2.as_bytes());
            self.ask(node, &[b"is-master-down-by-addr", host, port, epoch, &[b'f'; 40]]);
        }
    }

    /// Lets an operator order a Sentinel to replace the primary. Returns whether it begins to.
    pub fn order_failover(&mut self, node: Node) -> bool {
        self.ask(node, &[b"failover", b"group"]) == Value::Simple(b"OK".to_vec())
    }

    /// Lets an operator order a Sentinel to have the primary hand over. Returns whether it begins to.
    pub fn order_coordinated_failover(&mut self, node: Node) -> bool {
        self.ask(node, &[b"failover", b"group", b"coordinated"]) == Value::Simple(b"OK".to_vec())
    }

    /// Makes all servers know FAILOVER.
    pub fn know_failover(&mut self) {
        self.servers.iter_mut().for_each(|server| server.hears_failover = true);
    }

    /// Returns a server, to give it a trait.
    pub fn server(&mut self, server: usize) -> &mut Server {
        &mut self.servers[server]
    }

    /// Lets a server proceed that stands still.
    pub fn proceed(&mut self, server: usize) {
        self.history.push(format!("{} server {server} proceeds", self.now - START));
        let node = self.members.len() + server;
        self.servers[server].proceed().iter().for_each(|(id, command)| self.command(*id, node, command));
    }

    /// Returns whether another server follows this one.
    pub fn has_follower(&self, server: usize) -> bool {
        (0..self.servers.len()).any(|other| self.follows(other, server))
    }

    /// Makes the primary hand its lead over to a replica. The other replicas do not know of it.
    pub fn hand_over(&mut self, from: usize, to: usize) {
        self.history.push(format!("{} server {from} hands over to {to}", self.now - START));
        self.servers[from].hand_over(Some((ip(self.members.len() + to), i64::from(SERVER_PORT))));
        self.servers[to].hand_over(None);
        let others = (0..self.servers.len()).filter(|other| *other != from && *other != to);
        others.for_each(|other| self.servers[other].lacks_writes = true);
    }

    /// Makes a replica lack acknowledged writes, although Sentinels prefer it.
    pub fn take_from(&mut self, server: usize) {
        (self.servers[server].lacks_writes, self.servers[server].priority) = (true, 10);
    }

    fn jump(&mut self, node: Node) {
        let by = self.random.i64(-20_000..20_000);
        self.jump_by(node, by);
    }

    /// Makes a Sentinel's clock jump by more than it tolerates.
    pub fn jump_far(&mut self, node: Node) {
        let by = self.random.i64(2_500..20_000);
        let by = if self.random.bool() { by } else { -by };
        self.jump_by(node, by);
    }

    fn jump_by(&mut self, node: Node, by: i64) {
        self.history.push(format!("{} clock of {node} jumps by {by}", self.now - START));
        self.members[node].clock += by;
    }

    /// Breaks something, or heals it.
    pub fn trouble(&mut self) {
        let server = self.random.usize(..self.servers.len());
        let sentinel = self.random.usize(..self.members.len());
        match self.random.u8(..6) {
            0 | 1 if self.servers[server].up => self.crash_server(server),
            0 | 1 => self.restart_server(server),
            2 if self.members[sentinel].sentinel.is_some() => self.crash_sentinel(sentinel),
            2 => self.start_sentinel(sentinel, false),
            3 => self.jump(sentinel),
            4 => self.heal(),
            _ => {
                self.history.push(format!("{} the network falls apart", self.now - START));
                let random = &mut self.random;
                self.side.iter_mut().for_each(|side| *side = random.u8(..2));
                if self.flaw == Flaw::CountsItsSideOnly {
                    // The members on the other side do not count among all.
                    (0..self.members.len()).for_each(|node| _ = self.ask_if_up(node, &[b"reset", b"group"]));
                }
            }
        }
    }

    pub fn some_time(&self) -> i64 {
        // The value follows from the time that has passed, so that a seed decides it.
        500 + (self.now / 5 * 7919 + self.seed as i64 * 104_729) % 15_000
    }

    pub fn end_trouble(&mut self) {
        self.heal();
        (0..self.servers.len()).filter(|&s| !self.servers[s].up).collect::<Vec<_>>().into_iter().for_each(|server| {
            self.restart_server(server);
        });
        for node in 0..self.members.len() {
            if self.members[node].sentinel.is_none() {
                self.start_sentinel(node, false);
            }
        }
    }

    pub fn heal(&mut self) {
        self.history.push(format!("{} the network heals", self.now - START));
        self.side.iter_mut().for_each(|side| *side = 0);
    }

    /// Cuts the first so many Sentinels off from all but each other.
    pub fn isolate_sentinels(&mut self, count: usize) {
        self.side[..count].iter_mut().for_each(|side| *side = 1);
    }

    /// Puts the primary and so many Sentinels on one side.
    pub fn split_with_primary(&mut self, count: usize) {
        let primary = self.members.len() + self.primary();
        self.isolate_sentinels(count);
        self.side[primary] = 1;
    }

    // Observations.
    pub fn primaries(&self) -> usize {
        self.servers.iter().filter(|server| server.up && server.primary.is_none()).count()
    }

    pub fn primary(&self) -> usize {
        self.servers.iter().position(|server| server.primary.is_none()).expect("a primary")
    }

    pub fn failovers(&self) -> usize {
        self.promoted.len()
    }

    /// Delays messages by so many milliseconds at most.
    pub fn slow_down(&mut self, most_delay: i64) {
        self.most_delay = most_delay;
    }

    /// Gives a replica all acknowledged writes, so that it is a member of the set.
    pub fn take_in(&mut self, server: usize) {
        self.servers[server].is_out_of_sync = false;
    }

    /// Returns how often there was such an event.
    pub fn said(&self, event: &str) -> usize {
        self.history.iter().filter(|line| line.split(' ').nth(2) == Some(event)).count()
    }

    pub fn history(&self) -> Vec<String> {
        self.history.clone()
    }

    /// Returns the replica that has most if they are otherwise alike.
    pub fn best_replica_of(&self, primary: usize) -> usize {
        (0..self.servers.len()).find(|&server| server != primary).expect("a replica")
    }

    fn ask(&mut self, node: Node, args: &[&[u8]]) -> Value {
        let mut reply = Reply::new(Vec::new(), Protocol::Resp2);
        self.tell(node, |sentinel, now| sentinel.command(args, &mut reply, now));
        let (value, _) = Decoder::new().decode(reply.as_slice()).expect("a reply").expect("whole");
        value
    }

    fn ask_if_up(&mut self, node: Node, args: &[&[u8]]) -> Option<Value> {
        self.members[node].sentinel.is_some().then(|| self.ask(node, args))
    }

    /// Returns the server that all Sentinels name.
    pub fn agreed_primary(&mut self) -> usize {
        let answers: BTreeSet<String> = (0..self.members.len())
            .map(|node| match self.ask(node, &[b"get-master-addr-by-name", b"group"]) {
                Value::Array(items) => match &items[0] {
                    Value::Bulk(host) => String::from_utf8_lossy(host).into_owned(),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            })
            .collect();
        let history = self.history.join("\n");
        assert_eq!(answers.len(), 1, "seed {}: {answers:?}\n{history}", self.seed);
        let first = self.members.len();
        (0..self.servers.len()).find(|&server| answers.contains(&ip(first + server))).expect("a server")
    }

    /// Checks that every Sentinel knows all others, and all replicas.
    pub fn check_discovered(&mut self) {
        let sentinels = self.members.len() - 1;
        let replicas = self.servers.len() - 1;
        for node in 0..self.members.len() {
            for (what, count) in [(b"sentinels", sentinels), (b"slaves\0\0\0", replicas)] {
                let what = what.split(|&byte| byte == 0).next().expect("a word");
                let Value::Array(found) = self.ask(node, &[what, b"group"]) else { panic!("no list") };
                assert_eq!(found.len(), count, "seed {}: {node}", self.seed);
            }
        }
    }

    /// Checks that there is one primary, which all Sentinels name and all other servers follow.
    pub fn check_settled(&mut self) {
        let primary = self.agreed_primary();
        let history = self.history.join("\n");
        let seed = self.seed;
        assert!(self.servers[primary].primary.is_none(), "seed {seed}: {primary} is a replica\n{history}");
        for server in (0..self.servers.len()).filter(|&server| server != primary) {
            assert!(self.follows(server, primary), "seed {seed}: {server} does not follow {primary}\n{history}");
        }
        self.check_discovered();
    }
}

fn ip(node: Node) -> String {
    format!("10.0.0.{}", node + 1)
}
