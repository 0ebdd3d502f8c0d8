//! Messages and monitors' lines: output that clients have not asked for just now.
//!
//! ```text
//!   command -> pushes -> its own worker's connections, when the command has ended
//!                     -> other workers, once a tick: one message, one wake-up each
//! ```
//!
//! To a connection that was replied to in this tick a push goes behind that reply, so a publisher that listens to
//! itself sees the reply first. To any other it goes into the output, and the connections that got some are written to
//! once, at the end of the tick. A reply that is written over several ticks is not interrupted: pushes wait for its
//! end.

use crate::connection::state::Connection;
use crate::event_loop::replies::is_outdated;
use crate::event_loop::worker::Worker;
use crate::schedule::fairness::VISIT_BYTES;
use commands::pubsub::channels::encode;
use commands::pubsub::tracking;
use engine::clients::pubsub::{Name, Push};
use engine::clients::registry::ClientInfo;
use engine::clients::tracking::Tracker;
use engine::stats::metrics::WorkerMetrics;
use engine::time::{UnixMs, UnixUs};
use resp::Protocol;
use slab::Slab;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Worker {
    /// Delivers pushes that this worker has for its own connections.
    #[inline(always)]
    pub fn deliver_own(&mut self) {
        if self.shared.engine.pubsub().has_own(self.index) {
            self.take_and_deliver();
        }
    }

    #[cold]
    fn take_and_deliver(&mut self) {
        // The client is notified of a broken redirection by another push.
        while let Some(pushes) = self.shared.engine.pubsub().take_own(self.index) {
            self.deliver(&pushes);
        }
    }

    /// Appends pushes to the output of their connections.
    pub fn deliver(&mut self, pushes: &[Push]) {
        let Worker { index, shared, connections, replies, push_targets, settings, .. } = self;
        let metrics = &shared.engine.metrics()[*index];
        let now = shared.engine.host().unix_us(UnixUs(0)).ms();
        let mut sent = 0;
        for together in pushes.chunk_by(goes_with).flat_map(|alike| alike.chunks(TOGETHER)) {
            let push = &together[0];
            if let Some(client) = moved(connections, push).filter(|it| shared.engine.clients().get(it.id).is_some()) {
                shared.post_pushes(client.worker.load(Relaxed), together.to_vec());
                continue;
            }
            if let Some((tracker, target)) = redirection(connections, push).filter(|(_, it)| *it != Target::Here) {
                if target == Target::Away && shared.engine.clients().get(tracker.target().id).is_some() {
                    // The client's connection is another worker's by now, or on its way here.
                    shared.post_pushes(tracker.target().worker.load(Relaxed), together.to_vec());
                    continue;
                }
                tracker.client.redirection_broken.store(true, Relaxed);
                let told = Push::RedirectionBroken(Arc::clone(tracker));
                shared.engine.pubsub().post(*index, tracker.client.worker.load(Relaxed), told);
                continue;
            }
            let mut texts = Texts { pushes: together, written: [None, None] };
            shared.engine.pubsub().recipients(*index, push, |token, pattern| {
                let Some(connection) = connections.get_mut(token).filter(|it| is_for(push, it)) else { return };
                let bytes = texts.of(pattern, connection.protocol);
                sent += bytes.len() as u64;
                connection.session.info.count_output(bytes.len());
                if connection.owes_reply() {
                    let held_back = connection.output.hold_back(bytes);
                    if settings.clients.is_over(connection, held_back, false, now) {
                        push_targets.add_over_limit(token, connection.client());
                    }
                } else if connection.output.has_replies_ahead() {
                    replies.append(token, bytes);
                } else {
                    if connection.output.push(bytes) {
                        push_targets.add(token);
                    }
                    if settings.clients.is_over(connection, 0, false, now) {
                        push_targets.add_over_limit(token, connection.client());
                    }
                }
            });
        }
        metrics.output_bytes.add(sent);
    }

    /// Posts pushes to other workers, and invalidations to any. To be done before replies go out: a client that has
    /// seen the reply may count on the push being there before any later output.
    #[inline]
    pub fn post_pushes(&mut self) {
        let engine = &self.shared.engine;
        if engine.tracking().has_pending(self.index) {
            engine.tracking().broadcast(engine.pubsub(), self.index);
        }
        self.deliver_own();
        for (worker, pushes) in self.shared.engine.pubsub().take_outgoing(self.index) {
            self.shared.post_pushes(worker, pushes);
        }
        if self.shared.engine.pubsub().take_for_nodes(self.index) {
            self.shared.engine.host().send_to_nodes();
        }
    }

    /// Sends what is left of this tick's pushes: to this worker's connections and to other workers.
    pub fn send_pushes(&mut self, now: UnixMs) {
        self.post_pushes();
        for token in self.push_targets.take_unsent() {
            // The list may name a connection that is gone, and another that has its token now.
            let Some(connection) = self.connections.get_mut(token) else { continue };
            if !connection.output.take_pushed() {
                continue;
            }
            if is_outdated(&self.shared.engine, connection) {
                self.close(token);
                continue;
            }
            let metrics = &self.shared.engine.metrics()[self.index];
            match flush(connection, metrics, now) {
                Ok(()) if connection.socket.takes_more() => self.enqueue(token),
                Ok(()) => {}
                Err(_) => self.close(token),
            }
        }
        self.end_slow_readers(now);
        self.evict_clients(now);
    }
}

/// Place of the connection that gets another client's invalidations.
#[derive(Clone, Copy, PartialEq)]
enum Target {
    Here,
    /// The connection has had its last reply, and is closed when there is time.
    Ended,
    /// The connection is with another worker, or nowhere.
    Away,
}

/// Returns the tracker whose redirected invalidation this is, and the place of its target.
fn redirection<'p>(connections: &Slab<Connection>, push: &'p Push) -> Option<(&'p Arc<Tracker>, Target)> {
    let Push::Invalidation { tracker, .. } = push else { return None };
    let client = tracker.redirect.as_ref().filter(|_| !tracker.has_ended())?;
    let target = match connections.get(client.token.load(Relaxed)).filter(|it| it.client() == client.id) {
        Some(connection) if connection.is_closing() => Target::Ended,
        Some(_) => Target::Here,
        None => Target::Away,
    };
    Some((tracker, target))
}

/// Returns the client that gets an invalidation for its own tracking, if it is not here any more, or not yet.
fn moved<'p>(connections: &Slab<Connection>, push: &'p Push) -> Option<&'p Arc<ClientInfo>> {
    let tracker = match push {
        Push::Invalidation { tracker, .. } if tracker.redirect.is_none() && !tracker.has_ended() => tracker,
        Push::RedirectionBroken(tracker) => tracker,
        _ => return None,
    };
    let found = connections.get(tracker.client.token.load(Relaxed)).filter(|it| it.client() == tracker.client.id);
    found.is_none().then_some(&tracker.client)
}

/// Returns whether this is the connection, if the push is for one only.
fn is_for(push: &Push, connection: &Connection) -> bool {
    let client = match push {
        Push::Invalidation { tracker, .. } => tracker.target(),
        Push::RedirectionBroken(tracker) => &tracker.client,
        Push::Message(_) | Push::Monitor(_) => return true,
    };
    connection.client() == client.id
}

fn flush(connection: &mut Connection, metrics: &WorkerMetrics, now: UnixMs) -> std::io::Result<()> {
    connection.flush(VISIT_BYTES, now)?;
    connection.note_memory(metrics);
    Ok(())
}

/// Messages that are written to their subscribers together, at most: limits of their buffers are looked at in between.
const TOGETHER: usize = 16;

/// Returns whether all clients that get one message get the other as well, right after it.
fn goes_with(one: &Push, other: &Push) -> bool {
    let (Push::Message(one), Push::Message(other)) = (one, other) else { return false };
    let plain = one.patterns.is_empty() && other.patterns.is_empty();
    plain && one.kind == other.kind && one.channel == other.channel
}

/// Pushes that go together in the bytes of each protocol, written when the first recipient needs them.
struct Texts<'p> {
    pushes: &'p [Push],
    /// RESP2 and RESP3, each with the pattern that it was written for.
    written: [Option<Written<'p>>; 2],
}

type Written<'p> = (Option<Name>, Cow<'p, [u8]>);

impl<'p> Texts<'p> {
    fn of(&mut self, pattern: Option<&Name>, protocol: Protocol) -> &[u8] {
        let slot = &mut self.written[usize::from(protocol == Protocol::Resp3)];
        if slot.as_ref().is_none_or(|(written_for, _)| written_for.as_ref() != pattern) {
            let bytes = match self.pushes {
                [push] => text(push, pattern, protocol),
                several => {
                    Cow::Owned(several.iter().map(|push| text(push, pattern, protocol)).collect::<Vec<_>>().concat())
                }
            };
            *slot = Some((pattern.cloned(), bytes));
        }
        slot.as_ref().map_or(&[], |(_, bytes)| bytes)
    }
}

fn text<'p>(push: &'p Push, pattern: Option<&Name>, protocol: Protocol) -> Cow<'p, [u8]> {
    match push {
        Push::Monitor(line) => Cow::Borrowed(line),
        Push::Invalidation { tracker, stale } => {
            Cow::Owned(tracking::encode(tracker, stale, protocol).unwrap_or_default())
        }
        Push::RedirectionBroken(tracker) => Cow::Owned(tracking::encode_broken(tracker, protocol).unwrap_or_default()),
        Push::Message(message) => Cow::Owned(encode(message, pattern.map(|name| &name[..]), protocol)),
    }
}
