//! The parts of a command for other nodes, and the node that is expected to answer each.

use crate::core::args::Args;
use crate::core::cluster_proxy::forwardable::Carried;
use crate::core::cluster_proxy::routing_policy::Routing;
use crate::core::cluster_routing::slot_of_call;
use crate::core::command::{BLOCKING, Command, FAST, Group, MAY_REPLICATE, PUBLISHES, READONLY, RUNS_SCRIPTS, WRITE};
use crate::core::key_spec;
use crate::core::session::Session;
use cluster::node::Address;
use cluster::node_id::NodeId;
use cluster::proxy::reply_join::Pages;
use cluster::proxy::{self, Join, Part, Question};
use cluster::slot_map::SlotMap;
use engine::config::Directive;
use engine::data::slot::{SLOTS, slot_of};
use engine::{Engine, Error};
use resp::encode_command;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;

/// A primary of the cluster: the lowest of its slots, and its number.
type Owner = (u16, u16);

/// The client that is asked for, and the map of the cluster.
pub(super) struct ProxyRouter<'a> {
    pub engine: &'a Engine,
    pub map: &'a SlotMap,
    pub session: &'a Session,
}

impl ProxyRouter<'_> {
    /// Returns the address of a node, in the way in which this node reaches others.
    pub fn address(&self, node: u16) -> Option<SocketAddr> {
        if self.map.serving == Some(node) && !self.map.is_replica {
            return self.own_address();
        }
        let (_, Address { ip, tcp_port, tls_port, .. }) = self.map.nodes.get(usize::from(node))?;
        let encrypts = self.engine.config().snapshot().flag(Directive::TLS_CLUSTER);
        Some(SocketAddr::new(ip.parse().ok()?, if encrypts { *tls_port } else { *tcp_port }))
    }

    /// Returns this node's address as it listens: its announced address may not be reachable for itself.
    fn own_address(&self) -> Option<SocketAddr> {
        let config = self.engine.config().snapshot();
        let listens = config.bind_addresses().first().and_then(|text| std::str::from_utf8(text).ok());
        let listens = listens.and_then(|text| text.trim_start_matches('-').parse::<IpAddr>().ok());
        let ip = listens.filter(|ip| !ip.is_unspecified()).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let port = if config.flag(Directive::TLS_CLUSTER) { Directive::TLS_PORT } else { Directive::PORT };
        u16::try_from(config.int(port)).ok().filter(|port| *port > 0).map(|port| SocketAddr::new(ip, port))
    }

    pub fn owner(&self, slot: u16) -> Option<u16> {
        self.map.owners.get(usize::from(slot)).copied().flatten()
    }

    /// Returns the node to ask about an own slot that leaves, for a command that does not run here for this reason; and
    /// whether the slot is on its way there.
    pub fn on_the_way(&self, slot: u16, reason: &Error) -> Option<(SocketAddr, bool)> {
        match reason {
            Error::Ask(..) => Some((self.address(*self.map.migrating.get(&slot)?)?, true)),
            Error::TryAgain => Some((self.address(self.owner(slot)?)?, false)),
            _ => None,
        }
    }

    fn context(&self) -> proxy::Context {
        let resp3 = self.session.info.resp.load(Relaxed) == 3;
        proxy::Context { resp3, db: self.session.db, no_touch: self.session.no_touch }
    }

    pub fn question(&self, parts: Vec<Part>, join: Join, writes: bool) -> Option<Box<Question>> {
        let rights_since = self.session.identity.user()?.changed_at();
        Some(Box::new(Question { context: self.context(), parts, join, writes, rights_since }))
    }

    /// Asks for a command whose keys are all in one slot of another node.
    pub fn of_one_slot(&self, carried: Carried<'_>) -> Option<Box<Question>> {
        let slot = slot_of_call(carried.command, carried.args).ok()??;
        self.at_owner(carried, self.owner(slot)?)
    }

    /// Asks this owner of the command's slot.
    pub fn at_owner(&self, Carried { command, args }: Carried<'_>, owner: u16) -> Option<Box<Question>> {
        if !is_self_contained(command) || may_wait(command, args) {
            return None;
        }
        let to = self.address(owner)?;
        let bytes = self.with_text(command, args).unwrap_or_else(|| args.text().into_owned());
        let has_several = key_spec::routed_by(command, args).len() > 1;
        let part = Part { has_several, is_long: may_take_long(command), ..Part::new(to, bytes) };
        self.question(vec![part], Join::One, writes(command))
    }

    /// Returns EVALSHA as EVAL, for a script that this node was given: the other one may never have seen it.
    fn with_text(&self, command: &Command, args: &Args<'_>) -> Option<Vec<u8>> {
        let name = match command.name {
            "evalsha" => "EVAL",
            "evalsha_ro" => "EVAL_RO",
            _ => return None,
        };
        let sha = args.get(1)?.to_ascii_lowercase().try_into().ok()?;
        let script = self.engine.scripts().find(&sha, self.engine.host().nanos())?;
        let words: Vec<&[u8]> = [name.as_bytes(), &script.text].into_iter().chain(args.from(2)).collect();
        let mut bytes = Vec::new();
        encode_command(&mut bytes, &words);
        Some(bytes)
    }

    /// Asks for keys of several slots, each by itself.
    pub fn key_by_key(&self, Carried { command, args }: Carried<'_>) -> Result<Option<Box<Question>>, Error> {
        let Routing::EachKey { words, merge } = command.routing else { return Ok(None) };
        if !(args.len() - 1).is_multiple_of(words) {
            return Err(Error::WrongArity(engine::Word::of(command.name)));
        }
        let mut parts = Vec::with_capacity(args.len() / words);
        for at in (1..args.len()).step_by(words) {
            let owner = self.owner(slot_of(&args[at])).ok_or(Error::SlotUnbound)?;
            let Some(to) = self.address(owner) else { return Ok(None) };
            let mut bytes = Vec::new();
            let part: Vec<&[u8]> = std::iter::once(&args[0]).chain(args.from(at).take(words)).collect();
            encode_command(&mut bytes, &part);
            parts.push(Part::new(to, bytes));
        }
        Ok(self.question(parts, merge.as_join(), writes(command)))
    }

    /// Asks for a command about all keys, wherever they are, or about the scripts and libraries of all nodes.
    pub fn of_all(&self, Carried { command, args }: Carried<'_>) -> Result<Option<Box<Question>>, Error> {
        let (merge, is_everywhere) = match command.routing {
            Routing::Primaries(merge) => (merge, false),
            Routing::Everywhere(merge) => (merge, true),
            Routing::Pages => return self.scan(args),
            Routing::Slot | Routing::EachKey { .. } => return Ok(None),
        };
        let places = self.primaries().into_iter().map(|(_, node)| self.address(node)).collect::<Option<Vec<_>>>();
        // A node that knows no other one yet is the whole cluster.
        let Some(mut places) = places.filter(|places| !places.is_empty()) else { return Ok(None) };
        // Scripts and functions are called here, too. A replica gets its functions from its primary.
        let has_own = is_everywhere && !(self.map.is_replica && command.flags.has(WRITE));
        let own = self.own_address().filter(|own| has_own && !places.contains(own));
        places.extend(own);
        let bytes = args.text();
        let part = |to| Part { is_long: may_take_long(command), ..Part::new(to, bytes.to_vec()) };
        Ok(self.question(places.into_iter().map(part).collect(), merge.as_join(), writes(command)))
    }

    fn primaries(&self) -> Vec<Owner> {
        let mut lowest = BTreeMap::new();
        for (slot, owner) in (0..).zip(&self.map.owners) {
            owner.iter().for_each(|node| _ = lowest.entry(*node).or_insert(slot));
        }
        let mut owners: Vec<Owner> = lowest.into_iter().map(|(node, slot)| (slot, node)).collect();
        owners.sort_unstable();
        owners
    }

    /// Returns the primaries in the order in which a SCAN goes through them, by numbers that last as long as their
    /// shards: moves of slots and failovers change none.
    fn numbered(&self) -> Vec<(u16, u16)> {
        let shard = |owner: u16| self.map.shards.get(usize::from(owner)).copied();
        let owners = self.primaries().into_iter().map(|(_, owner)| (shard(owner), owner));
        let number = |shard: Option<NodeId>| shard.map_or(0, |shard| slot_of(shard.as_str().as_bytes()));
        let mut nodes: Vec<_> = owners.map(|(shard, owner)| (number(shard), shard, owner)).collect();
        nodes.sort_unstable();
        let mut numbered = Vec::with_capacity(nodes.len());
        for (at, (number, _, owner)) in nodes.iter().enumerate() {
            let least = numbered.last().map_or(0, |(last, _)| last + 1);
            // The nodes behind it have room.
            let most = (SLOTS - (nodes.len() - at)) as u16;
            numbered.push(((*number).clamp(least, most), *owner));
        }
        numbered
    }

    fn scan(&self, args: &Args<'_>) -> Result<Option<Box<Question>>, Error> {
        let cursor =
            std::str::from_utf8(&args[1]).ok().and_then(|text| text.parse().ok()).ok_or(Error::InvalidCursor)?;
        let nodes = self.numbered();
        let ((number, own), is_begin) = (Pages::split(cursor), cursor == 0);
        // A node that has no slots any more is skipped.
        let is_due = |(node, _): &&(u16, u16)| is_begin || *node >= number;
        let Some((node, owner)) = nodes.iter().find(is_due).or(nodes.last()).copied() else { return Ok(None) };
        let Some(to) = self.address(owner) else { return Ok(None) };
        let next = nodes.iter().map(|(node, _)| *node).find(|next| *next > node);
        let own = if node == number { own } else { 0 };
        let (mut bytes, own) = (Vec::new(), own.to_string());
        let words: Vec<&[u8]> = [&args[0], own.as_bytes()].into_iter().chain(args.from(2)).collect();
        encode_command(&mut bytes, &words);
        let part = Part { is_long: true, ..Part::new(to, bytes) };
        Ok(self.question(vec![part], Join::Page(Pages { node, next }), false))
    }
}

/// Returns whether a command is about all keys, wherever they are, or about state that every node has of its own.
pub(super) fn is_of_all(command: &Command) -> bool {
    !matches!(command.routing, Routing::Slot | Routing::EachKey { .. })
}

pub(super) fn writes(command: &Command) -> bool {
    let is_script_that_reads = command.flags.has(RUNS_SCRIPTS) && command.flags.has(READONLY);
    !is_script_that_reads && command.flags.has(WRITE.and(MAY_REPLICATE))
}

/// Returns whether the time that a command takes depends on its arguments or on the data.
pub(super) fn may_take_long(command: &Command) -> bool {
    !command.flags.has(FAST) && command.complexity != "O(1)"
}

/// Returns whether a command leaves no state at its connection that later ones need.
pub(super) fn is_self_contained(command: &Command) -> bool {
    match command.group {
        Group::Transactions => false,
        Group::PubSub => command.flags.has(PUBLISHES),
        _ => true,
    }
}

/// Returns whether a command may wait for others. Commands that read streams do so only if an argument asks for it.
pub(super) fn may_wait(command: &Command, args: &Args<'_>) -> bool {
    let reads_streams = matches!(command.name, "xread" | "xreadgroup");
    command.flags.has(BLOCKING)
        && (!reads_streams || (1..args.len()).take_while(|at| !args.is(*at, "streams")).any(|at| args.is(at, "block")))
}
