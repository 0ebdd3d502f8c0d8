//! Listeners: subscribers of channels and patterns, and monitors; and the messages for them.
//!
//! A client belongs to a worker, and only that worker writes to it. So subscriptions are stored twice:
//!
//! ```text
//!   all workers read     channel -> how many subscribers each worker has         (cut into shards, each behind a lock)
//!   one worker only      channel -> which of its connections, by token           (its own lock, taken by it alone)
//! ```
//!
//! A publisher looks into the first table, returns how many there are, and leaves one [`Push`] for each worker that has
//! any, however many subscribers that is. Pushes wait in the publisher's [outgoing](PubSub::take_outgoing) list: its
//! worker hands those for itself over when the command has ended, and those for others once a tick, as one message with
//! one wake-up. A worker that receives a push finds [its own subscribers](PubSub::recipients) and writes to them.
//!
//! Two messages of one publisher take the same way, so they stay in order. A client that has left the channel is no
//! longer in its worker's table when a message arrives: no client gets a message after the end of its subscription was
//! confirmed.

use crate::clients::tracking::{Stale, Tracker};
use crate::glob;
use crate::locks::sync::{Mutex, RwLock};
use crate::per_worker::{PerWorker, WORKERS_MAX};
use crossbeam_utils::CachePadded;
use foldhash::fast::RandomState;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};

/// Kinds of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// SUBSCRIBE
    Channel,
    /// PSUBSCRIBE
    Pattern,
    /// SSUBSCRIBE
    Shard,
}

/// Name of a channel or a pattern.
pub type Name = Arc<[u8]>;

/// A message on its way to subscribers.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// Channel or shard channel.
    pub kind: ChannelKind,
    /// The channel's name.
    pub channel: Box<[u8]>,
    /// The published bytes.
    pub payload: Box<[u8]>,
    /// Patterns that the channel's name matches.
    pub patterns: Vec<Name>,
}

/// Something for clients who did not ask for it just now.
#[derive(Clone, Debug)]
pub enum Push {
    /// A published message.
    Message(Arc<Message>),
    /// A line for all monitors, as it goes to them.
    Monitor(Arc<[u8]>),
    /// A client's cached copies are out of date.
    Invalidation {
        /// The client.
        tracker: Arc<Tracker>,
        /// The copies that are out of date.
        stale: Arc<Stale>,
    },
    /// Sent to the client itself: the client that receives its invalidations has disconnected.
    RedirectionBroken(Arc<Tracker>),
}

impl Push {
    /// Returns the bytes that it takes while it waits, about.
    pub fn size(&self) -> usize {
        const REST: usize = 128;
        REST + match self {
            Push::Message(message) => message.channel.len() + message.payload.len(),
            Push::Monitor(line) => line.len(),
            Push::Invalidation { stale, .. } => stale.size(),
            Push::RedirectionBroken(_) => 0,
        }
    }
}

/// Subscribers of one name by worker.
type Counts = SmallVec<[u32; 8]>;

/// Channels by name. Readers are publishers.
type Channels = RwLock<HashMap<Name, Counts, RandomState>>;

/// Locks that the channels of a kind are spread over.
const SHARDS: usize = 64;

/// All listeners.
pub struct PubSub {
    hasher: RandomState,
    channels: Box<[CachePadded<Channels>]>,
    shard_channels: Box<[CachePadded<Channels>]>,
    patterns: CachePadded<RwLock<BTreeMap<Name, Counts>>>,
    /// How many patterns there are, so that publishers need not look when there are none.
    pattern_count: AtomicUsize,
    /// Clients with a subscription.
    subscribers: AtomicUsize,
    monitors: AtomicUsize,
    /// The [`Backlog`] of messages for other nodes, by its number.
    backlog: AtomicU8,
    workers: PerWorker<Side>,
}

/// Amount of messages that wait for other nodes of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backlog {
    /// Messages are taken.
    Little,
    /// Publishers wait.
    Much,
    /// Scripts, which may publish, wait too.
    TooMuch,
}

/// State of one worker.
#[derive(Default)]
struct Side {
    local: Mutex<Local>,
    /// Pushes by the worker that they are for.
    outgoing: Mutex<Vec<Vec<Push>>>,
    /// Whether `outgoing` may have something for this worker itself, and for others.
    for_itself: AtomicBool,
    for_others: AtomicBool,
    /// Whether it has left messages for other nodes.
    for_nodes: AtomicBool,
    monitors: AtomicUsize,
    /// Whether much waits for it already.
    full: AtomicBool,
}

/// Connections of one worker by what they listen to.
#[derive(Default)]
struct Local {
    channels: HashMap<Name, BTreeSet<usize>, RandomState>,
    patterns: HashMap<Name, BTreeSet<usize>, RandomState>,
    shard_channels: HashMap<Name, BTreeSet<usize>, RandomState>,
    monitors: BTreeSet<usize>,
}

impl Local {
    fn names(&mut self, kind: ChannelKind) -> &mut HashMap<Name, BTreeSet<usize>, RandomState> {
        match kind {
            ChannelKind::Channel => &mut self.channels,
            ChannelKind::Pattern => &mut self.patterns,
            ChannelKind::Shard => &mut self.shard_channels,
        }
    }
}

impl PubSub {
    /// Makes the tables of so many workers, without subscribers.
    pub fn new(workers: usize) -> Self {
        let hasher = RandomState::default();
        let channels = || CachePadded::new(RwLock::new(HashMap::with_hasher(hasher.clone())));
        let channels = || (0..SHARDS).map(|_| channels()).collect();
        PubSub {
            channels: channels(),
            shard_channels: channels(),
            patterns: CachePadded::default(),
            pattern_count: AtomicUsize::new(0),
            subscribers: AtomicUsize::new(0),
            monitors: AtomicUsize::new(0),
            backlog: AtomicU8::new(Backlog::Little as u8),
            workers: PerWorker::new(workers),
            hasher,
        }
    }

    /// Returns the channels among which this name is, if it names one.
    fn channels(&self, kind: ChannelKind, name: &[u8]) -> &Channels {
        let channels = if kind == ChannelKind::Shard { &self.shard_channels } else { &self.channels };
        &channels[self.hasher.hash_one(name) as usize % SHARDS]
    }

    /// Subscribes the connection `token` of `worker` to this name. It must not be subscribed already.
    pub fn subscribe(&self, worker: usize, token: usize, kind: ChannelKind, name: &Name) {
        self.workers[worker].local.lock().names(kind).entry(Arc::clone(name)).or_default().insert(token);
        let add = |counts: &mut Counts| {
            counts.resize(counts.len().max(worker + 1), 0);
            counts[worker] += 1;
        };
        match kind {
            ChannelKind::Pattern => {
                let mut patterns = self.patterns.write();
                add(patterns.entry(Arc::clone(name)).or_default());
                self.pattern_count.store(patterns.len(), Relaxed);
            }
            _ => add(self.channels(kind, name).write().entry(Arc::clone(name)).or_default()),
        }
    }

    /// Ends a subscription that [`subscribe`](Self::subscribe) began.
    pub fn unsubscribe(&self, worker: usize, token: usize, kind: ChannelKind, name: &[u8]) {
        {
            let mut local = self.workers[worker].local.lock();
            let names = local.names(kind);
            if let Some(tokens) = names.get_mut(name) {
                tokens.remove(&token);
                if tokens.is_empty() {
                    names.remove(name);
                }
            }
        }
        // True when the last subscriber has left.
        let subtract = |counts: &mut Counts| {
            counts[worker] = counts[worker].saturating_sub(1);
            counts.iter().all(|count| *count == 0)
        };
        match kind {
            ChannelKind::Pattern => {
                let mut patterns = self.patterns.write();
                if patterns.get_mut(name).is_some_and(subtract) {
                    patterns.remove(name);
                }
                self.pattern_count.store(patterns.len(), Relaxed);
            }
            _ => {
                let mut channels = self.channels(kind, name).write();
                if channels.get_mut(name).is_some_and(subtract) {
                    channels.remove(name);
                }
            }
        }
    }

    /// Counts a client that has made its first subscription, or given up its last.
    pub fn count_subscriber(&self, comes: bool) {
        if comes {
            self.subscribers.fetch_add(1, Relaxed);
        } else {
            self.subscribers.fetch_sub(1, Relaxed);
        }
    }

    /// Returns the number of clients with a subscription.
    pub fn subscribers(&self) -> usize {
        self.subscribers.load(Relaxed)
    }

    /// Sends a message to the subscribers of a channel, and of patterns unless it is a shard channel; returns how many
    /// get it. `from`: the worker that calls.
    pub fn publish(&self, from: usize, kind: ChannelKind, channel: &[u8], payload: &[u8]) -> u64 {
        self.tell(kind, channel, payload, |worker, push| self.post(from, worker, push))
    }

    /// Calls `post` for each worker that has subscribers of a channel, and of patterns unless it is a shard channel;
    /// returns how many get the message.
    pub fn tell(&self, kind: ChannelKind, channel: &[u8], payload: &[u8], mut post: impl FnMut(usize, Push)) -> u64 {
        let mut sum = Counts::new();
        let mut add = |counts: &Counts| {
            sum.resize(sum.len().max(counts.len()), 0);
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        };
        if let Some(counts) = self.channels(kind, channel).read().get(channel) {
            add(counts);
        }
        let mut patterns = Vec::new();
        if kind == ChannelKind::Channel && self.pattern_count.load(Relaxed) > 0 {
            for (pattern, counts) in &*self.patterns.read() {
                if glob::matches(pattern, channel) {
                    patterns.push(Arc::clone(pattern));
                    add(counts);
                }
            }
        }
        if !sum.is_empty() {
            let message = Arc::new(Message { kind, channel: channel.into(), payload: payload.into(), patterns });
            for (worker, _) in sum.iter().enumerate().filter(|(_, count)| **count > 0) {
                post(worker, Push::Message(Arc::clone(&message)));
            }
        }
        sum.iter().map(|count| u64::from(*count)).sum()
    }

    /// Leaves a push for the clients of worker `to`. `from`: the worker that calls.
    pub fn post(&self, from: usize, to: usize, push: Push) {
        let side = &self.workers[from];
        // A client that has become a replica belongs to no worker and gets none.
        if to >= WORKERS_MAX {
            return;
        }
        {
            let mut outgoing = side.outgoing.lock();
            if to >= outgoing.len() {
                outgoing.resize_with(to + 1, Vec::new);
            }
            outgoing[to].push(push);
        }
        let flag = if from == to { &side.for_itself } else { &side.for_others };
        flag.store(true, Relaxed);
    }

    /// Whether `worker` has something for its own clients.
    #[inline]
    pub fn has_own(&self, worker: usize) -> bool {
        self.workers[worker].for_itself.load(Relaxed)
    }

    /// Returns the flag that [`has_own`](Self::has_own) reads, for a loop that reads it all the time.
    pub fn own(&self, worker: usize) -> &AtomicBool {
        &self.workers[worker].for_itself
    }

    /// Takes the pushes of `worker` for its own clients.
    pub fn take_own(&self, worker: usize) -> Option<Vec<Push>> {
        let side = &self.workers[worker];
        side.for_itself.load(Relaxed).then(|| {
            side.for_itself.store(false, Relaxed);
            side.outgoing.lock().get_mut(worker).map(std::mem::take).unwrap_or_default()
        })
    }

    /// Takes the pushes of `worker` for the clients of others, by worker.
    pub fn take_outgoing(&self, worker: usize) -> Vec<(usize, Vec<Push>)> {
        let side = &self.workers[worker];
        if !side.for_others.load(Relaxed) {
            return Vec::new();
        }
        side.for_others.store(false, Relaxed);
        let mut outgoing = side.outgoing.lock();
        let others = outgoing.iter_mut().enumerate().filter(|(to, pushes)| *to != worker && !pushes.is_empty());
        others.map(|(to, pushes)| (to, std::mem::take(pushes))).collect()
    }

    /// Calls `tell` for each connection of `worker` that is to get the push: its token, and for a message that it gets
    /// because of a pattern, the pattern. `tell` must not change subscriptions. The client of an invalidation may be
    /// gone, and another client have its token.
    pub fn recipients(&self, worker: usize, push: &Push, mut tell: impl FnMut(usize, Option<&Name>)) {
        let mut local = self.workers[worker].local.lock();
        match push {
            Push::Invalidation { tracker, .. } if tracker.has_ended() => {}
            Push::Invalidation { tracker, .. } => tell(tracker.target().token.load(Relaxed), None),
            Push::RedirectionBroken(tracker) => tell(tracker.client.token.load(Relaxed), None),
            Push::Monitor(_) => local.monitors.iter().for_each(|token| tell(*token, None)),
            Push::Message(message) => {
                if let Some(tokens) = local.names(message.kind).get(&*message.channel) {
                    tokens.iter().for_each(|token| tell(*token, None));
                }
                for pattern in &message.patterns {
                    let tokens = local.patterns.get(pattern);
                    tokens.into_iter().flatten().for_each(|token| tell(*token, Some(pattern)));
                }
            }
        }
    }

    /// Starts or ends a connection's feed of a line of every command.
    pub fn monitor(&self, worker: usize, token: usize, on: bool) {
        let side = &self.workers[worker];
        let mut local = side.local.lock();
        let changed = if on { local.monitors.insert(token) } else { local.monitors.remove(&token) };
        side.monitors.store(local.monitors.len(), Relaxed);
        match (changed, on) {
            (true, true) => _ = self.monitors.fetch_add(1, Relaxed),
            (true, false) => _ = self.monitors.fetch_sub(1, Relaxed),
            _ => {}
        }
    }

    /// Whether there is any monitor.
    #[inline]
    pub fn is_monitored(&self) -> bool {
        self.monitors.load(Relaxed) > 0
    }

    /// Returns how much waits for other nodes.
    #[inline]
    pub fn backlog(&self) -> Backlog {
        match self.backlog.load(Relaxed) {
            0 => Backlog::Little,
            1 => Backlog::Much,
            _ => Backlog::TooMuch,
        }
    }

    /// Sets how much waits for other nodes.
    pub fn set_backlog(&self, backlog: Backlog) {
        self.backlog.store(backlog as u8, Relaxed);
    }

    /// Records that the worker has left messages for other nodes.
    pub fn mark_for_nodes(&self, worker: usize) {
        self.workers[worker].for_nodes.store(true, Relaxed);
    }

    /// Whether the worker has left messages for other nodes since the last call.
    #[inline]
    pub fn take_for_nodes(&self, worker: usize) -> bool {
        let mark = &self.workers[worker].for_nodes;
        mark.load(Relaxed) && mark.swap(false, Relaxed)
    }

    /// Sets whether much waits for this worker already.
    pub fn set_full(&self, worker: usize, full: bool) {
        self.workers[worker].full.store(full, Relaxed);
    }

    /// Sends a line to all monitors but those whose worker has much waiting for it. `from`: the worker that calls.
    pub fn feed_monitors(&self, from: usize, line: &[u8]) {
        let line: Arc<[u8]> = line.into();
        for (worker, side) in self.workers.iter().enumerate() {
            if side.monitors.load(Relaxed) > 0 && !side.full.load(Relaxed) {
                self.post(from, worker, Push::Monitor(Arc::clone(&line)));
            }
        }
    }

    /// Returns the channels or shard channels with subscribers whose names match, in no order.
    pub fn active(&self, kind: ChannelKind, pattern: Option<&[u8]>) -> Vec<Name> {
        let channels = if kind == ChannelKind::Shard { &self.shard_channels } else { &self.channels };
        let mut names = Vec::new();
        for shard in channels {
            let shard = shard.read();
            names.extend(shard.keys().filter(|name| pattern.is_none_or(|it| glob::matches(it, name))).cloned());
        }
        names
    }

    /// Returns how many names of a kind have subscribers.
    pub fn count(&self, kind: ChannelKind) -> usize {
        match kind {
            ChannelKind::Channel => self.channels.iter().map(|shard| shard.read().len()).sum(),
            ChannelKind::Shard => self.shard_channels.iter().map(|shard| shard.read().len()).sum(),
            ChannelKind::Pattern => self.pattern_count.load(Relaxed),
        }
    }

    /// Returns the number of subscribers of a channel or shard channel.
    pub fn subscribers_of(&self, kind: ChannelKind, channel: &[u8]) -> u64 {
        let channels = self.channels(kind, channel).read();
        channels.get(channel).into_iter().flatten().map(|count| u64::from(*count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.as_bytes().into()
    }

    /// Returns the messages that the connections of a worker get, as `token pattern payload`.
    fn told(pubsub: &PubSub, worker: usize, pushes: &[Push]) -> Vec<String> {
        let mut lines = Vec::new();
        for push in pushes {
            let payload = match push {
                Push::Message(message) => &message.payload[..],
                Push::Monitor(line) => line,
                other => panic!("nobody sent {other:?}"),
            };
            pubsub.recipients(worker, push, |token, pattern| {
                let pattern = pattern.map_or("-".into(), |pattern| String::from_utf8_lossy(pattern));
                lines.push(format!("{token} {pattern} {}", String::from_utf8_lossy(payload)));
            });
        }
        lines
    }

    #[test]
    fn messages_reach_subscribers_on_every_worker_in_order() {
        let pubsub = PubSub::new(3);
        pubsub.subscribe(0, 7, ChannelKind::Channel, &name("news"));
        pubsub.subscribe(2, 7, ChannelKind::Channel, &name("news"));
        pubsub.subscribe(2, 8, ChannelKind::Channel, &name("news"));
        pubsub.subscribe(2, 8, ChannelKind::Pattern, &name("n*"));
        pubsub.subscribe(1, 1, ChannelKind::Shard, &name("news"));
        assert_eq!(pubsub.publish(0, ChannelKind::Channel, b"news", b"1"), 4);
        assert_eq!(pubsub.publish(0, ChannelKind::Channel, b"nothing", b"2"), 1);
        assert_eq!(pubsub.publish(0, ChannelKind::Channel, b"old", b"3"), 0);
        assert_eq!(told(&pubsub, 0, &pubsub.take_own(0).unwrap()), ["7 - 1"]);
        assert!(pubsub.take_own(0).is_none());
        let outgoing = pubsub.take_outgoing(0);
        assert_eq!(outgoing.iter().map(|(worker, _)| *worker).collect::<Vec<_>>(), [2]);
        assert_eq!(told(&pubsub, 2, &outgoing[0].1), ["7 - 1", "8 - 1", "8 n* 1", "8 n* 2"]);
        assert!(pubsub.take_outgoing(0).is_empty());
        assert_eq!(pubsub.publish(1, ChannelKind::Shard, b"news", b"4"), 1);
        assert_eq!(told(&pubsub, 1, &pubsub.take_own(1).unwrap()), ["1 - 4"]);
    }

    #[test]
    fn a_client_that_unsubscribed_gets_no_message_even_of_messages_on_their_way() {
        let pubsub = PubSub::new(2);
        pubsub.subscribe(1, 5, ChannelKind::Channel, &name("a"));
        pubsub.subscribe(1, 6, ChannelKind::Channel, &name("a"));
        pubsub.subscribe(1, 6, ChannelKind::Pattern, &name("*"));
        assert_eq!(pubsub.publish(0, ChannelKind::Channel, b"a", b"x"), 3);
        pubsub.unsubscribe(1, 6, ChannelKind::Channel, b"a");
        pubsub.unsubscribe(1, 6, ChannelKind::Pattern, b"*");
        assert_eq!(told(&pubsub, 1, &pubsub.take_outgoing(0)[0].1), ["5 - x"]);
        assert_eq!(pubsub.subscribers_of(ChannelKind::Channel, b"a"), 1);
        pubsub.unsubscribe(1, 5, ChannelKind::Channel, b"a");
        assert_eq!((pubsub.count(ChannelKind::Channel), pubsub.count(ChannelKind::Pattern)), (0, 0));
        assert_eq!(pubsub.publish(0, ChannelKind::Channel, b"a", b"y"), 0);
    }

    #[test]
    fn channels_with_subscribers_are_listed() {
        let pubsub = PubSub::new(1);
        for channel in ["one", "two"] {
            pubsub.subscribe(0, 1, ChannelKind::Channel, &name(channel));
        }
        pubsub.subscribe(0, 1, ChannelKind::Shard, &name("three"));
        let mut all = pubsub.active(ChannelKind::Channel, None);
        all.sort();
        assert_eq!(all, [name("one"), name("two")]);
        assert_eq!(pubsub.active(ChannelKind::Channel, Some(b"o*")), [name("one")]);
        assert_eq!(
            (pubsub.active(ChannelKind::Shard, None), pubsub.count(ChannelKind::Shard)),
            (vec![name("three")], 1)
        );
    }

    #[test]
    fn monitors_get_every_line_once() {
        let pubsub = PubSub::new(2);
        pubsub.monitor(1, 3, true);
        pubsub.monitor(1, 3, true);
        assert!(pubsub.is_monitored());
        pubsub.feed_monitors(0, b"+line\r\n");
        assert!(pubsub.take_own(0).is_none());
        assert_eq!(told(&pubsub, 1, &pubsub.take_outgoing(0)[0].1), ["3 - +line\r\n"]);
        pubsub.monitor(1, 3, false);
        pubsub.monitor(1, 3, false);
        assert!(!pubsub.is_monitored());
    }
}
