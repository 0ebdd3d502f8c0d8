//! Publish/subscribe: channels, patterns, shard channels.
//!
//! Confirmations and messages are pushes in RESP3 and arrays in RESP2, where a client with a subscription may hardly do
//! anything else:
//!
//! ```text
//! SUBSCRIBE a b      -> [subscribe a 1] [subscribe b 2]
//! PUBLISH a hello    -> :1, and [message a hello] or [pmessage pattern a hello] to those who listen
//! UNSUBSCRIBE        -> [unsubscribe a 1] [unsubscribe b 0]
//! ```
//!
//! The table of subscribers is in [`engine::clients::pubsub`]; a session knows its own names, to count them and to
//! leave them.

use crate::core::args::Args;
use crate::core::command::{
    ALLOW_SUBSCRIBED, Channels, Command, FAST, Flags, Group, LOADING, MAY_REPLICATE, NO_SCRIPT, PUBLISHES, PUBSUB,
    STALE, key,
};
use crate::core::context::Context;
use crate::core::help::HELP;
use crate::core::session::{Replies, Session, Subscriptions};
use cluster::slot_set::SlotSet;
use engine::clients::pubsub::{ChannelKind, Message, Name};
use engine::clients::registry::ClientInfo;
use engine::config::keyspace_events::{KEYEVENT, KEYSPACE};
use engine::data::slot::slot_of;
use engine::propagation::effects::Event;
use engine::stats::slot_traffic::SlotUse;
use engine::{Engine, Error, Word};
use resp::{Protocol, Reply};
use std::sync::atomic::Ordering::Relaxed;

/// Flags of the commands that begin and end subscriptions.
const SUBSCRIBER: Flags = PUBSUB.and(NO_SCRIPT).and(LOADING).and(STALE).and(ALLOW_SUBSCRIBED);

pub(crate) const COMMANDS: &[Command] = &[
    Command {
        name: "subscribe",
        group: Group::PubSub,
        since: "2.0.0",
        arity: -2,
        flags: SUBSCRIBER,
        syntax: "channel...",
        summary: "Listens for messages published to channels.",
        complexity: "O(N) where N is the number of channels to subscribe to.",
        channels: Channels::All,
        run: subscribe,
        ..Command::DEFAULT
    },
    Command {
        name: "unsubscribe",
        group: Group::PubSub,
        since: "2.0.0",
        arity: -1,
        flags: SUBSCRIBER,
        syntax: "[channel]...",
        summary: "Stops listening to messages posted to channels.",
        complexity: "O(N) where N is the number of channels to unsubscribe.",
        run: unsubscribe,
        ..Command::DEFAULT
    },
    Command {
        name: "psubscribe",
        group: Group::PubSub,
        since: "2.0.0",
        arity: -2,
        flags: SUBSCRIBER,
        syntax: "pattern:pattern...",
        summary: "Listens for messages published to channels that match one or more patterns.",
        complexity: "O(N) where N is the number of patterns to subscribe to.",
        channels: Channels::Patterns,
        run: pattern_subscribe,
        ..Command::DEFAULT
    },
    Command {
        name: "punsubscribe",
        group: Group::PubSub,
        since: "2.0.0",
        arity: -1,
        flags: SUBSCRIBER,
        syntax: "[pattern:pattern]...",
        summary: "Stops listening to messages published to channels that match one or more patterns.",
        complexity: "O(N) where N is the number of patterns to unsubscribe.",
        run: pattern_unsubscribe,
        ..Command::DEFAULT
    },
    Command {
        name: "ssubscribe",
        group: Group::PubSub,
        since: "7.0.0",
        arity: -2,
        flags: SUBSCRIBER,
        keys: &[key(1).not_key().to(-1, 1)],
        syntax: "shardchannel...",
        summary: "Listens for messages published to shard channels.",
        complexity: "O(N) where N is the number of shard channels to subscribe to.",
        channels: Channels::All,
        run: shard_subscribe,
        ..Command::DEFAULT
    },
    Command {
        name: "sunsubscribe",
        group: Group::PubSub,
        since: "7.0.0",
        arity: -1,
        flags: SUBSCRIBER,
        keys: &[key(1).not_key().to(-1, 1)],
        syntax: "[shardchannel]...",
        summary: "Stops listening to messages posted to shard channels.",
        complexity: "O(N) where N is the number of shard channels to unsubscribe.",
        run: shard_unsubscribe,
        ..Command::DEFAULT
    },
    Command {
        name: "publish",
        group: Group::PubSub,
        since: "2.0.0",
        arity: 3,
        flags: PUBSUB.and(LOADING).and(STALE).and(FAST).and(MAY_REPLICATE).and(PUBLISHES),
        syntax: "channel message",
        summary: "Posts a message to a channel.",
        complexity: "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of subscribed patterns (by any client).",
        channels: Channels::One,
        run: publish,
        ..Command::DEFAULT
    },
    Command {
        name: "spublish",
        group: Group::PubSub,
        since: "7.0.0",
        arity: 3,
        flags: PUBSUB.and(LOADING).and(STALE).and(FAST).and(MAY_REPLICATE).and(PUBLISHES),
        keys: &[key(1).not_key()],
        syntax: "shardchannel message",
        summary: "Posts a message to a shard channel.",
        complexity: "O(N) where N is the number of clients subscribed to the receiving shard channel.",
        channels: Channels::One,
        run: shard_publish,
        ..Command::DEFAULT
    },
    Command {
        name: "pubsub",
        group: Group::PubSub,
        since: "2.8.0",
        arity: -2,
        summary: "A container for Pub/Sub commands.",
        complexity: "Depends on subcommand.",
        subcommands: &[
            Command {
                name: "channels",
                group: Group::PubSub,
                since: "2.8.0",
                arity: -2,
                flags: PUBSUB.and(LOADING).and(STALE),
                syntax: "[pattern:pattern]",
                summary: "Returns the active channels.",
                complexity: "O(N) where N is the number of active channels, and assuming constant time pattern matching (relatively short channels and patterns)",
                run: channels,
                ..Command::DEFAULT
            },
            Command { group: Group::PubSub, since: "6.2.0", ..HELP },
            Command {
                name: "numpat",
                group: Group::PubSub,
                since: "2.8.0",
                arity: 2,
                flags: PUBSUB.and(LOADING).and(STALE),
                summary: "Returns a count of unique pattern subscriptions.",
                complexity: "O(1)",
                run: pattern_count,
                ..Command::DEFAULT
            },
            Command {
                name: "numsub",
                group: Group::PubSub,
                since: "2.8.0",
                arity: -2,
                flags: PUBSUB.and(LOADING).and(STALE),
                syntax: "[channel]...",
                summary: "Returns a count of subscribers to channels.",
                complexity: "O(N) for the NUMSUB subcommand, where N is the number of requested channels",
                run: subscriber_counts,
                ..Command::DEFAULT
            },
            Command {
                name: "shardchannels",
                group: Group::PubSub,
                since: "7.0.0",
                arity: -2,
                flags: PUBSUB.and(LOADING).and(STALE),
                syntax: "[pattern:pattern]",
                summary: "Returns the active shard channels.",
                complexity: "O(N) where N is the number of active shard channels, and assuming constant time pattern matching (relatively short shard channels).",
                run: shard_channels,
                ..Command::DEFAULT
            },
            Command {
                name: "shardnumsub",
                group: Group::PubSub,
                since: "7.0.0",
                arity: -2,
                flags: PUBSUB.and(LOADING).and(STALE),
                syntax: "[shardchannel]...",
                summary: "Returns the count of subscribers of shard channels.",
                complexity: "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels",
                run: shard_subscriber_counts,
                ..Command::DEFAULT
            },
        ],
        ..Command::DEFAULT
    },
];

/// Returns the memory of a subscription: the name with its counts, and its places in the client's and the engine's
/// tables.
fn name_bytes(name: &[u8]) -> usize {
    name.len() + 2 * size_of::<usize>() + 4 * size_of::<Name>()
}

/// Returns names of the commands that begin and end subscriptions, as confirmations show them.
fn words(kind: ChannelKind) -> (&'static [u8], &'static [u8]) {
    match kind {
        ChannelKind::Channel => (b"subscribe", b"unsubscribe"),
        ChannelKind::Pattern => (b"psubscribe", b"punsubscribe"),
        ChannelKind::Shard => (b"ssubscribe", b"sunsubscribe"),
    }
}

const ALL_KINDS: [ChannelKind; 3] = [ChannelKind::Channel, ChannelKind::Pattern, ChannelKind::Shard];

fn subscribe(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    begin(cx, args, ChannelKind::Channel)
}

fn pattern_subscribe(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    begin(cx, args, ChannelKind::Pattern)
}

fn shard_subscribe(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    begin(cx, args, ChannelKind::Shard)
}

fn begin(cx: &mut Context<'_>, args: &Args<'_>, kind: ChannelKind) -> Result<(), Error> {
    keep_confirmations(cx.session);
    let session = &mut *cx.session;
    let subscriptions = session.subscriptions.get_or_insert_with(|| {
        cx.engine.pubsub().count_subscriber(true);
        Box::default()
    });
    for name in args.from(1) {
        if !subscriptions.names(kind).contains(name) {
            let name: Name = name.into();
            session.info.subscription_bytes.fetch_add(name_bytes(&name), Relaxed);
            cx.engine.pubsub().subscribe(session.worker, session.token, kind, &name);
            subscriptions.names(kind).insert(name);
        }
        confirm(cx.reply, words(kind).0, Some(name), subscriptions.count(kind));
    }
    publish_counts(&session.info, session.subscriptions.as_deref());
    Ok(())
}

fn unsubscribe(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    finish(cx, args, ChannelKind::Channel)
}

fn pattern_unsubscribe(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    finish(cx, args, ChannelKind::Pattern)
}

fn shard_unsubscribe(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    finish(cx, args, ChannelKind::Shard)
}

/// Ends subscriptions to these names, or to all of a kind.
fn finish(cx: &mut Context<'_>, args: &Args<'_>, kind: ChannelKind) -> Result<(), Error> {
    keep_confirmations(cx.session);
    let word = words(kind).1;
    let session = &mut *cx.session;
    let mut none = Subscriptions::default();
    let subscriptions = session.subscriptions.as_deref_mut().unwrap_or(&mut none);
    let names: Vec<Name> = match args.len() {
        1 => subscriptions.names(kind).iter().cloned().collect(),
        _ => args.from(1).map(Name::from).collect(),
    };
    for name in &names {
        end_one(cx.engine, &session.info, (session.worker, session.token), subscriptions, (kind, name));
        confirm(cx.reply, word, Some(name), subscriptions.count(kind));
    }
    if names.is_empty() {
        confirm(cx.reply, word, None, subscriptions.count(kind));
    }
    settle_counts(cx.engine, session);
    Ok(())
}

/// Ends a client's subscriptions to channels of slots that another node has. Returns the client's message, if it had
/// any.
pub fn leave_slots(engine: &Engine, session: &mut Session, slots: &SlotSet, protocol: Protocol) -> Option<Vec<u8>> {
    let subscriptions = session.subscriptions.as_deref_mut()?;
    let is_lost = |name: &&Name| slots.contains(slot_of(name));
    let lost: Vec<Name> = subscriptions.names(ChannelKind::Shard).iter().filter(is_lost).cloned().collect();
    let mut told = Reply::new(Vec::new(), protocol);
    for name in &lost {
        end_one(engine, &session.info, (session.worker, session.token), subscriptions, (ChannelKind::Shard, name));
        confirm(&mut told, words(ChannelKind::Shard).1, Some(name), subscriptions.count(ChannelKind::Shard));
    }
    settle_counts(engine, session);
    (!lost.is_empty()).then(|| told.into_inner())
}

/// Ends one subscription, if there is one.
fn end_one(
    engine: &Engine,
    info: &ClientInfo,
    (worker, token): (usize, usize),
    subscriptions: &mut Subscriptions,
    (kind, name): (ChannelKind, &Name),
) {
    if subscriptions.names(kind).remove(name) {
        info.subscription_bytes.fetch_sub(name_bytes(name), Relaxed);
        engine.pubsub().unsubscribe(worker, token, kind, name);
    }
}

/// Publishes a client's counts after the end of subscriptions.
fn settle_counts(engine: &Engine, session: &mut Session) {
    if session.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.is_empty()) {
        session.subscriptions = None;
        engine.pubsub().count_subscriber(false);
    }
    publish_counts(&session.info, session.subscriptions.as_deref());
}

/// Retains confirmations: CLIENT REPLY is about replies only.
fn keep_confirmations(session: &mut Session) {
    session.keeps_reply = session.replies != Replies::On;
}

fn confirm(reply: &mut Reply, word: &[u8], name: Option<&[u8]>, count: usize) {
    reply.push(3);
    reply.bulk(word);
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.int(count as i64);
}

/// Shows others how many names of each kind the client listens to.
fn publish_counts(info: &ClientInfo, subscriptions: Option<&Subscriptions>) {
    for (kind, shown) in ALL_KINDS.into_iter().zip(&info.subscriptions) {
        shown.store(subscriptions.map_or(0, |it| it.0[kind as usize].len() as u32), Relaxed);
    }
}

/// Ends all subscriptions of a client and its monitoring, because it is reset or gone.
pub fn unsubscribe_all(engine: &Engine, session: &mut Session) {
    let pubsub = engine.pubsub();
    if let Some(mut subscriptions) = session.subscriptions.take() {
        for kind in ALL_KINDS {
            for name in std::mem::take(subscriptions.names(kind)) {
                pubsub.unsubscribe(session.worker, session.token, kind, &name);
            }
        }
        pubsub.count_subscriber(false);
        session.info.subscription_bytes.store(0, Relaxed);
        publish_counts(&session.info, None);
    }
    if session.info.monitor.swap(false, Relaxed) {
        engine.monitor(session.worker, session.token, false);
    }
}

fn publish(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    send(cx, args, ChannelKind::Channel)
}

fn shard_publish(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    send(cx, args, ChannelKind::Shard)
}

fn send(cx: &mut Context<'_>, args: &Args<'_>, kind: ChannelKind) -> Result<(), Error> {
    let receivers = cx.engine.pubsub().publish(cx.session.worker, kind, &args[1], &args[2]);
    if kind == ChannelKind::Shard && cx.engine.slot_traffic().is_on() {
        let message = Message { kind, channel: args[1].into(), payload: args[2].into(), patterns: Vec::new() };
        let sent = receivers * encode(&message, None, Protocol::Resp2).len() as u64;
        cx.engine.slot_traffic().add(cx.session.worker, slot_of(&args[1]), SlotUse { sent, ..SlotUse::default() });
    }
    match cx.engine.is_clustered() {
        // Replicas are nodes like any other.
        true => {
            cx.engine.host().publish_to_nodes(&args[1], &args[2], kind == ChannelKind::Shard);
            cx.engine.pubsub().mark_for_nodes(cx.session.worker);
        }
        false => cx.keys.tell_replicas(args.from(0)),
    }
    cx.reply.int(receivers as i64);
    Ok(())
}

/// Returns a message in the form for a subscriber; `pattern`: the pattern that matched it.
pub fn encode(message: &Message, pattern: Option<&[u8]>, protocol: Protocol) -> Vec<u8> {
    let mut reply = Reply::new(Vec::new(), protocol);
    match pattern {
        Some(pattern) => {
            reply.push(4);
            reply.bulk(b"pmessage");
            reply.bulk(pattern);
        }
        None => {
            reply.push(3);
            reply.bulk(if message.kind == ChannelKind::Shard { b"smessage" } else { b"message" });
        }
    }
    reply.bulk(&message.channel);
    reply.bulk(&message.payload);
    reply.into_inner()
}

/// Sends keys' events to subscribers of `__keyspace@<db>__:<key>` and `__keyevent@<db>__:<event>`.
pub fn notify(engine: &Engine, worker: usize, events: &[Event]) {
    let mask = engine.event_mask();
    for Event { name, db, key, .. } in events {
        if mask & KEYSPACE != 0 {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            engine.pubsub().publish(worker, ChannelKind::Channel, &channel, name.as_bytes());
        }
        if mask & KEYEVENT != 0 {
            let channel = format!("__keyevent@{db}__:{name}");
            engine.pubsub().publish(worker, ChannelKind::Channel, channel.as_bytes(), key);
        }
    }
}

fn channels(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    reply_active(cx, args, ChannelKind::Channel)
}

fn shard_channels(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    reply_active(cx, args, ChannelKind::Shard)
}

fn reply_active(cx: &mut Context<'_>, args: &Args<'_>, kind: ChannelKind) -> Result<(), Error> {
    if args.len() > 3 {
        return Err(wrong_use(args));
    }
    let names = cx.engine.pubsub().active(kind, args.get(2));
    cx.reply.array(names.len());
    names.iter().for_each(|name| cx.reply.bulk(name));
    Ok(())
}

fn wrong_use(args: &Args<'_>) -> Error {
    Error::SubcommandUse(Word::of(String::from_utf8_lossy(&args[1]).as_bytes()), "PUBSUB")
}

fn pattern_count(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.int(cx.engine.pubsub().count(ChannelKind::Pattern) as i64);
    Ok(())
}

fn subscriber_counts(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    reply_counts(cx, args, ChannelKind::Channel)
}

fn shard_subscriber_counts(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    reply_counts(cx, args, ChannelKind::Shard)
}

fn reply_counts(cx: &mut Context<'_>, args: &Args<'_>, kind: ChannelKind) -> Result<(), Error> {
    cx.reply.array((args.len() - 2) * 2);
    for name in args.from(2) {
        cx.reply.bulk(name);
        cx.reply.int(cx.engine.pubsub().subscribers_of(kind, name) as i64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::context::Now;
    use crate::core::dispatch;
    use crate::testing::Client;
    use engine::clients::pubsub::Push;
    use engine::data::event_class::EventClass;

    /// Returns a client's reply, as bytes with line ends shown as blanks.
    fn said(client: &mut Client, line: &str) -> String {
        let mut args: Args<'_> = line.split(' ').map(str::as_bytes).collect();
        let mut reply = Reply::default();
        let now: Now = client.now();
        let engine = std::sync::Arc::clone(client.shared_engine());
        dispatch::execute(&engine, client.session(), &mut args, now, &mut reply);
        String::from_utf8(reply.take()).unwrap().replace("\r\n", " ")
    }

    #[test]
    fn subscriptions_are_confirmed_and_counted() {
        let mut client = Client::new();
        let mut is = |line: &str, expected: &str| assert_eq!(said(&mut client, line), expected, "{line}");
        is("UNSUBSCRIBE", "*3 $11 unsubscribe $-1 :0 ");
        is("SUBSCRIBE a b a", "*3 $9 subscribe $1 a :1 *3 $9 subscribe $1 b :2 *3 $9 subscribe $1 a :2 ");
        is("PSUBSCRIBE x*", "*3 $10 psubscribe $2 x* :3 ");
        is("SSUBSCRIBE a", "*3 $10 ssubscribe $1 a :1 ");
        is("PUNSUBSCRIBE y", "*3 $12 punsubscribe $1 y :3 ");
        is("UNSUBSCRIBE", "*3 $11 unsubscribe $1 a :2 *3 $11 unsubscribe $1 b :1 ");
        is("PUNSUBSCRIBE", "*3 $12 punsubscribe $2 x* :0 ");
        is("SUNSUBSCRIBE a", "*3 $12 sunsubscribe $1 a :0 ");
        is("PING", "+PONG ");
        assert!(client.session().subscriptions.is_none());
        assert_eq!(client.engine().pubsub().subscribers(), 0);
    }

    #[test]
    fn in_resp2_a_subscriber_may_do_little() {
        let mut client = Client::new();
        said(&mut client, "SUBSCRIBE a");
        let mut is = |line: &str, expected: &str| assert_eq!(said(&mut client, line), expected, "{line}");
        let refused = |name: &str| {
            format!(
                "-ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context "
            )
        };
        is("GET k", &refused("get"));
        is("CLIENT ID", &refused("client|id"));
        is("SLOWLOG RESET", &refused("slowlog|reset"));
        is("GET", "-ERR wrong number of arguments for 'get' command ");
        is("PING", "*2 $4 pong $0  ");
        is("PING x", "*2 $4 pong $1 x ");
        is("RESET", "+RESET ");
        is("GET k", "$-1 ");
        assert_eq!(client.engine().pubsub().count(ChannelKind::Channel), 0);
    }

    #[test]
    fn withheld_replies_do_not_withhold_confirmations() {
        let mut client = Client::new();
        said(&mut client, "CLIENT REPLY OFF");
        assert_eq!(said(&mut client, "SUBSCRIBE a"), "*3 $9 subscribe $1 a :1 ");
        assert_eq!(said(&mut client, "UNSUBSCRIBE a"), "*3 $11 unsubscribe $1 a :0 ");
        assert_eq!(said(&mut client, "PING"), "");
    }

    #[test]
    fn publishers_learn_how_many_listen() {
        let mut client = Client::new();
        said(&mut client, "SUBSCRIBE news");
        said(&mut client, "PSUBSCRIBE n*");
        said(&mut client, "SSUBSCRIBE news");
        let mut other = client.beside();
        other
            .is("PUBLISH news x", ":2")
            .is("PUBLISH nothing y", ":1")
            .is("SPUBLISH news z", ":1")
            .is("PUBLISH x y", ":0");
        other.is("PUBSUB NUMSUB news x", "[news :1 x :0]").is("PUBSUB NUMPAT", ":1").is("PUBSUB CHANNELS", "[news]");
        other.is("PUBSUB SHARDNUMSUB news", "[news :1]").is("PUBSUB SHARDCHANNELS x*", "[]");
        let line = other.run("CLIENT LIST");
        assert_eq!(line, "", "test clients are not listed");
        let pushes = client.engine().pubsub().take_own(0).unwrap();
        let Push::Message(message) = &pushes[0] else { panic!("a message") };
        let shown =
            |pattern, protocol| String::from_utf8(encode(message, pattern, protocol)).unwrap().replace("\r\n", " ");
        assert_eq!(shown(None, Protocol::Resp2), "*3 $7 message $4 news $1 x ");
        assert_eq!(shown(Some(b"n*"), Protocol::Resp3), ">4 $8 pmessage $2 n* $4 news $1 x ");
        unsubscribe_all(&std::sync::Arc::clone(client.shared_engine()), client.session());
        other.is("PUBLISH news x", ":0");
    }

    #[test]
    fn misses_and_new_keys_are_told_in_order() {
        let mut client = Client::new();
        client.engine().set_event_mask(KEYEVENT | EventClass::KEY_MISS.0 | EventClass::NEW.0 | EventClass::STRING.0);
        client.is("GET k", "nil").is("SET k v", "+OK").is("OBJECT ENCODING nope", "nil").is("MGET k nope", "[v nil]");
        client.is("GETDEL nope", "nil").is("MSETNX k 1 other 2", ":0").is("EXISTS k nope", ":1");
        let told = ["0 keymiss k", "0 new k", "0 set k", "0 keymiss nope", "0 keymiss nope", "0 keymiss nope"];
        assert_eq!(client.events(), told);
    }
}
