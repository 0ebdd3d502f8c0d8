//! A worker's questions to other nodes for its clients.

use crate::Millis;
use crate::proxy::asked::{Asked, AskedPart, ClientKey, ClientQueue, PartState};
use crate::proxy::by_number::ByNumber;
use crate::proxy::client_answers::Answers;
use crate::proxy::owner_link::{Arrived, Credentials, LinkEvent, OwnerLink, PartId};
use crate::proxy::owner_links::{LinkOrder, OwnerLinks, Place, ProxyLink};
use crate::proxy::proxy_request::{Follower, Part, Question};
use crate::proxy::redirection::{self, Redirection};
use crate::proxy::reply_join::Join;
use crate::slot_map::SlotMap;
use smallvec::smallvec;
use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Number of times that a part is sent again: after a redirection, or when a connection broke and the part only reads.
const HOPS_MAX: u8 = 5;
/// Milliseconds after which a postponed part is sent again.
const PUT_OFF: Millis = 20;
/// Milliseconds between two checks of nodes that work on parts for longer than the timeout.
const LOOK: Millis = 100;
/// Greatest number of one client's questions in progress.
const AT_ONCE: usize = 256;

/// Questions for which room is retained.
const ASKED_KEPT: usize = 4096;
/// Events of a connection for which room is retained.
const CAME_KEPT: usize = 1024;

/// The part was not carried out.
const UNREACHABLE: &str = "CLUSTERDOWN The node that serves the slot cannot be reached";
const UNANSWERED: &str = "CLUSTERDOWN The node that serves the slot has not answered";
const OPEN: &str = "UNACKNOWLEDGED The node that serves the slot has not answered. The outcome is open: the command may \
                    have been carried out or not";
const WITHDRAWN: &str = "NOPERM The rights of the user have changed before the node that serves the slot was asked";

/// Returns the error for a node that does not let this one in, or lets it run no such command; `error` is the node's.
/// The client's own rights were checked here, so these are those of this node's login.
fn refused(by: SocketAddr, error: &[u8]) -> String {
    let error = String::from_utf8_lossy(error.strip_prefix(b"-").unwrap_or(error));
    format!("CLUSTERDOWN The node {by} refuses the primaryuser of this node: {}", error.trim_end())
}

/// The state machine.
#[derive(Default)]
pub struct Proxy {
    /// Login at other nodes.
    pub credentials: Credentials,
    /// Milliseconds after which a question is given up, unless its node works on it.
    pub timeout: Millis,
    links: OwnerLinks,
    /// Questions by number, which is the order in which they were asked.
    asked: ByNumber<Asked>,
    /// Number of the questions that are given up at a time.
    deadlines: BTreeMap<Millis, usize>,
    /// Postponed parts, by the time at which they are sent again.
    put_off: BTreeSet<(Millis, PartId)>,
    /// Questions that have not been answered, by client.
    queues: ByNumber<ClientQueue>,
    /// Time of the next check of nodes that work on parts for longer than the timeout.
    look_at: Millis,
    next: u64,
    unsent: Vec<ProxyLink>,
    orders: Vec<LinkOrder>,
    answers: Answers,
    /// Events of a connection that are being handled; kept for its capacity.
    came: Vec<LinkEvent>,
}

impl Proxy {
    /// Asks a client's next question. The answer follows those before it.
    pub fn ask(&mut self, by: ClientKey, question: Question, now: Millis) {
        let owner = question.only_owner();
        let Question { context, parts, join, writes, rights_since } = question;
        let last = self.queues.get(&by.client).and_then(|queue| self.asked.get(&queue.last));
        let behind = last.and_then(Asked::only_link);
        let (left, deadline) = (parts.len(), now.saturating_add(self.timeout));
        let parts = parts.into_iter().map(AskedPart::new).collect();
        let (is_withdrawn, answer, next) = (false, None, 0);
        let asked =
            Asked { by, context, join, writes, rights_since, parts, left, deadline, is_withdrawn, answer, next };
        let id = self.enqueue(asked, owner);
        if left == 0 {
            return self.finish(id);
        }
        (0..left).for_each(|part| self.begin((id, part), behind, now));
        let link = self.asked.get(&id).and_then(Asked::only_link);
        self.queues.entry(by.client).and_modify(|queue| queue.link = link);
    }

    /// Sends a client's next question over the connection of its earlier ones. False: it is not to be sent now, unless
    /// all of them will be answered before it over that connection, and it holds up no other client there.
    pub fn follow(&mut self, by: ClientKey, question: &Follower<'_>, now: Millis) -> bool {
        let Some(id) = self.link_to_follow(by.client, question.to, question.is_long) else { return false };
        let Some(link) = self.links.get_mut(id) else { return false };
        let is_ready = link.is_ready();
        let bytes = if is_ready { Vec::new() } else { question.bytes.to_vec() };
        let part = Part { is_long: question.is_long, ..Part::new(question.to, bytes) };
        let state = if is_ready { PartState::Sent(id) } else { PartState::Waiting(id) };
        let asked = Asked {
            by,
            context: link.place.context,
            join: Join::One,
            writes: question.writes,
            rights_since: question.rights_since,
            parts: smallvec![AskedPart { part, state, hops: 0 }],
            left: 1,
            deadline: now.saturating_add(self.timeout),
            is_withdrawn: false,
            answer: None,
            next: 0,
        };
        let number = self.next + 1;
        if is_ready {
            link.send((number, 0), &question.bytes, 1, false, now);
            self.note_unsent(id);
        } else {
            link.waiting.push_back(((number, 0), false));
        }
        self.enqueue(asked, Some(question.to)) == number
    }

    /// Returns the connection over which a question for that node may follow the client's earlier ones.
    fn link_to_follow(&self, client: u64, to: SocketAddr, is_long: bool) -> Option<ProxyLink> {
        let queue = self.queues.get(&client).filter(|queue| queue.len < AT_ONCE && queue.owner == Some(to))?;
        let place = &self.links.get(queue.link?)?.place;
        queue.link.filter(|_| place.to == to && (place.is_for_long || !is_long))
    }

    /// Puts a question behind the client's others, and returns its number.
    fn enqueue(&mut self, asked: Asked, owner: Option<SocketAddr>) -> u64 {
        self.next += 1;
        let id = self.next;
        let queue = self.queues.entry(asked.by.client).or_default();
        if queue.len > 0
            && let Some(last) = self.asked.get_mut(&queue.last)
        {
            last.next = id;
        }
        queue.push(id, owner);
        *self.deadlines.entry(asked.deadline).or_default() += 1;
        self.asked.insert(id, asked);
        id
    }

    /// Sends a part to the node that is expected to answer it. `behind`: the connection of the client's earlier
    /// questions.
    fn begin(&mut self, part: PartId, behind: Option<ProxyLink>, now: Millis) {
        let Some(asked) = self.asked.get_mut(&part.0).filter(|asked| asked.is_open()) else { return };
        let AskedPart { part: Part { to, asking, .. }, hops, .. } = &mut asked.parts[part.1];
        let (to, asking) = (*to, *asking);
        *hops = 0;
        self.send(part, Redirection { to, asking }, behind, now);
    }

    /// Checks the rights of all open questions again. `has_rights`: whether the client's rights are still those of this
    /// change. A part whose client has other rights is neither sent nor retried.
    pub fn judge(&mut self, mut has_rights: impl FnMut(ClientKey, u64) -> bool) {
        let open = self.asked.iter_mut().filter(|(_, asked)| asked.is_open());
        let lost = open.filter(|(_, asked)| !has_rights(asked.by, asked.rights_since));
        let mut parts = Vec::new();
        for (id, asked) in lost {
            asked.is_withdrawn = true;
            self.look_at = 0;
            parts.extend((0..asked.parts.len()).map(|part| (*id, part)));
        }
        parts.sort_unstable();
        parts.into_iter().for_each(|part| self.withdraw(part));
    }

    fn withdraw(&mut self, part: PartId) {
        let state =
            self.asked.get(&part.0).filter(|asked| asked.answer.is_none()).map(|asked| &asked.parts[part.1].state);
        if matches!(state, Some(PartState::Waiting(_) | PartState::PutOff(_))) {
            self.set_reply(part, format!("-{WITHDRAWN}\r\n").as_bytes());
        }
    }

    /// Returns whether a part was sent by rights that its client no longer has, and may still be carried out.
    pub fn has_withdrawn(&self) -> bool {
        self.asked.values().any(|asked| asked.is_withdrawn && asked.answer.is_none())
    }

    /// Returns whether no question is open.
    pub fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// Returns whether there are neither questions nor connections.
    pub fn is_unused(&self) -> bool {
        self.asked.is_empty() && self.links.is_empty() && self.answers.is_empty() && self.orders.is_empty()
    }

    /// Returns whether there are orders about sockets.
    pub fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    /// Takes the orders about sockets.
    pub fn take_orders(&mut self) -> Vec<LinkOrder> {
        std::mem::take(&mut self.orders)
    }

    /// Takes the connections that have got more bytes to send since the last call.
    pub fn take_unsent(&mut self) -> Vec<ProxyLink> {
        std::mem::take(&mut self.unsent)
    }

    /// Returns the bytes that a connection has to send.
    pub fn unsent(&self, id: ProxyLink) -> &[u8] {
        self.links.get(id).map(OwnerLink::unsent).unwrap_or_default()
    }

    /// Records that so many of them were taken.
    pub fn note_sent(&mut self, id: ProxyLink, bytes: usize) {
        if let Some(link) = self.links.get_mut(id) {
            link.note_sent(bytes);
        }
    }

    fn note_unsent(&mut self, id: ProxyLink) {
        if !self.unsent.contains(&id) {
            self.unsent.push(id);
        }
    }

    /// Takes the answers that are complete.
    pub fn take_answers(&mut self) -> Answers {
        std::mem::take(&mut self.answers)
    }

    /// Takes back the buffers of answers that the clients have been told.
    pub fn reuse(&mut self, mut answers: Answers) {
        if self.answers.is_empty() {
            answers.clear();
            self.answers = answers;
        }
    }

    /// Records that a requested connection is established.
    pub fn opened(&mut self, id: ProxyLink, now: Millis) {
        if let Some(link) = self.links.get_mut(id) {
            link.opened(&self.credentials, now);
            self.note_unsent(id);
        }
    }

    /// Takes a connection's bytes. `map`: resolves names of hosts.
    pub fn received(&mut self, id: ProxyLink, bytes: &[u8], map: &SlotMap, now: Millis) {
        let Some(link) = self.links.get_mut(id) else { return };
        let (from, input, mut came) = (link.place.to, link.receive(bytes, now), std::mem::take(&mut self.came));
        let taken = link.take_all(&input, &mut came);
        let Ok(taken) = taken else {
            self.orders.push(LinkOrder::Close(id));
            return self.lost(id, now);
        };
        for it in came.drain(..) {
            match it {
                LinkEvent::Ready => self.send_waiting(id, now),
                LinkEvent::Refused(error) => {
                    self.orders.push(LinkOrder::Close(id));
                    return self.end(id, &refused(from, &error), now);
                }
                LinkEvent::Reply(arrived) => self.replied(id, &arrived, (&input, from), map, now),
            }
        }
        came.shrink_to(CAME_KEPT);
        self.came = came;
        if let Some(link) = self.links.get_mut(id) {
            link.keep_rest(input, taken);
        }
    }

    /// Records that a connection has ended, or could not be made.
    pub fn lost(&mut self, id: ProxyLink, now: Millis) {
        self.end(id, UNREACHABLE, now);
    }

    /// Sends postponed parts again, and ends questions and connections whose time has expired. `is_silent`: whether the
    /// node at an address does not answer the bus either. A node that does is taken to work on its parts, however long
    /// that takes.
    pub fn tick(&mut self, now: Millis, is_silent: impl Fn(SocketAddr) -> bool) {
        while let Some((at, part)) = self.put_off.first().copied().filter(|(at, _)| *at <= now) {
            self.put_off.remove(&(at, part));
            self.begin(part, None, now);
        }
        if self.look_at <= now {
            self.end_overdue(now, &is_silent);
        }
        for id in self.links.over(now, self.timeout, is_silent) {
            self.orders.push(LinkOrder::Close(id));
            self.lost(id, now);
        }
    }

    fn end_overdue(&mut self, now: Millis, is_silent: impl Fn(SocketAddr) -> bool) {
        if self.deadlines.first_key_value().is_none_or(|(deadline, _)| *deadline > now) {
            self.look_at = 0;
            return;
        }
        let overdue = self.asked.iter().filter(|(_, asked)| asked.deadline <= now);
        let mut parts: Vec<PartId> =
            overdue.flat_map(|(id, asked)| (0..asked.parts.len()).map(|part| (*id, part))).collect();
        parts.sort_unstable();
        let (mut ended, mut is_any_left) = (Vec::new(), false);
        for part in parts {
            let is_left = self.is_under_way(part, &is_silent);
            is_any_left |= is_left;
            if !is_left {
                ended.push(part);
            }
        }
        ended.into_iter().for_each(|part| self.give_up(part, UNREACHABLE));
        self.look_at = if is_any_left { now + LOOK } else { 0 };
    }

    /// Returns whether a node that answers the bus works on the part.
    fn is_under_way(&self, part: PartId, is_silent: impl Fn(SocketAddr) -> bool) -> bool {
        let Some(asked) = self.asked.get(&part.0).filter(|asked| asked.is_open()) else { return false };
        let PartState::Sent(link) = &asked.parts[part.1].state else { return false };
        self.links.get(*link).is_some_and(|link| !is_silent(link.place.to))
    }

    /// Returns when [`Self::tick`] has work.
    pub fn next_time(&self) -> Option<Millis> {
        let deadline = self.deadlines.keys().next().map(|deadline| (*deadline).max(self.look_at));
        deadline.into_iter().chain(self.put_off.first().map(|(at, _)| *at)).min()
    }

    fn send(&mut self, part: PartId, to: Redirection, behind: Option<ProxyLink>, now: Millis) {
        let Some(asked) = self.asked.get_mut(&part.0) else { return };
        let AskedPart { part: it, state, .. } = &mut asked.parts[part.1];
        let place = Place { to: to.to, context: asked.context, is_for_long: it.is_long };
        let follows = |id: &ProxyLink| self.links.get(*id).is_some_and(|link| link.place.to == to.to);
        let id = behind.filter(follows).or_else(|| self.links.choose(&place, now)).unwrap_or_else(|| {
            self.next += 1;
            let id = ProxyLink(self.next);
            self.orders.push(LinkOrder::Connect(id, place.to));
            self.links.add(id, place, now);
            id
        });
        let Some(link) = self.links.get_mut(id) else { return };
        if link.is_ready() {
            link.send(part, &std::mem::take(&mut it.bytes), it.requests, to.asking, now);
            *state = PartState::Sent(id);
            self.note_unsent(id);
        } else {
            link.waiting.push_back((part, to.asking));
            *state = PartState::Waiting(id);
        }
    }

    fn send_waiting(&mut self, id: ProxyLink, now: Millis) {
        let Some(link) = self.links.get_mut(id) else { return };
        for (part, asking) in std::mem::take(&mut link.waiting) {
            // A client whose time had expired has got its error already.
            if let Some(asked) = self.asked.get_mut(&part.0).filter(|asked| asked.is_open()) {
                let AskedPart { part: it, state, .. } = &mut asked.parts[part.1];
                link.send(part, &std::mem::take(&mut it.bytes), it.requests, asking, now);
                *state = PartState::Sent(id);
            }
        }
        self.note_unsent(id);
    }

    /// Takes a part's reply, of a connection whose `input` has it. `from`: the node.
    fn replied(
        &mut self,
        link: ProxyLink,
        arrived: &Arrived,
        (input, from): (&[u8], SocketAddr),
        map: &SlotMap,
        now: Millis,
    ) {
        let part = arrived.id;
        let reply = arrived.instead.as_deref().unwrap_or(&input[arrived.at.clone()]);
        let Some(asked) = self.asked.get_mut(&part.0).filter(|asked| asked.answer.is_none()) else { return };
        let requests = || self.links.get(link).map(|link| link.requests(arrived.requests).to_vec()).unwrap_or_default();
        let AskedPart { part: it, state, hops } = &mut asked.parts[part.1];
        match redirection::parse(reply, from, map) {
            _ if asked.is_withdrawn => self.set_reply(part, reply),
            Some(redirection) if *hops < HOPS_MAX => {
                *hops += 1;
                it.bytes = requests();
                self.queues.entry(asked.by.client).and_modify(ClientQueue::part_ways);
                self.send(part, redirection, None, now);
            }
            None if redirection::is_put_off(reply) && it.has_several => {
                it.bytes = requests();
                *state = PartState::PutOff(reply.to_vec());
                self.put_off.insert((now.saturating_add(PUT_OFF), part));
            }
            _ if redirection::is_denied(reply) => {
                self.set_reply(part, format!("-{}\r\n", refused(from, reply)).as_bytes());
            }
            _ => self.set_reply(part, reply),
        }
    }

    /// Ends a connection. Parts that were not sent get the error `why`.
    fn end(&mut self, id: ProxyLink, why: &str, now: Millis) {
        let Some(link) = self.links.remove(id) else { return };
        let to = link.place.to;
        self.unsent.retain(|other| *other != id);
        for (part, requests) in link.unanswered() {
            let Some(asked) = self.asked.get_mut(&part.0).filter(|asked| asked.answer.is_none()) else { continue };
            let AskedPart { part: it, hops, .. } = &mut asked.parts[part.1];
            if asked.writes || asked.is_withdrawn || *hops >= HOPS_MAX {
                self.give_up(part, why);
            } else {
                *hops += 1;
                it.bytes = link.requests(requests).to_vec();
                let asking = it.asking;
                self.queues.entry(asked.by.client).and_modify(ClientQueue::part_ways);
                self.send(part, Redirection { to, asking }, None, now);
            }
        }
        link.waiting.iter().for_each(|(part, _)| self.give_up(*part, why));
    }

    /// Gives up a part that will have no reply. `why`: its error if it was not sent.
    fn give_up(&mut self, part: PartId, why: &str) {
        let Some(asked) = self.asked.get_mut(&part.0).filter(|asked| asked.answer.is_none()) else { return };
        let text = match &mut asked.parts[part.1].state {
            PartState::Waiting(_) => why,
            PartState::Sent(_) if asked.writes => OPEN,
            PartState::Sent(_) => UNANSWERED,
            PartState::PutOff(reply) => {
                let reply = std::mem::take(reply);
                return self.set_reply(part, &reply);
            }
            PartState::Replied(_) => return,
        };
        self.set_reply(part, format!("-{text}\r\n").as_bytes());
    }

    fn set_reply(&mut self, part: PartId, reply: &[u8]) {
        let Some(asked) = self.asked.get_mut(&part.0) else { return };
        if asked.is_plain() {
            return self.answer(part.0, reply);
        }
        asked.parts[part.1].state = PartState::Replied(reply.to_vec());
        asked.left -= 1;
        if asked.left == 0 {
            self.finish(part.0);
        }
    }

    /// Answers a question all of whose parts have their replies.
    fn finish(&mut self, id: u64) {
        let Some(asked) = self.asked.get_mut(&id) else { return };
        let answer = asked.joined();
        self.answer(id, &answer);
    }

    /// Answers the client, behind its earlier questions.
    fn answer(&mut self, id: u64, answer: &[u8]) {
        let Some(asked) = self.asked.get_mut(&id) else { return };
        let to = asked.by;
        let Some(queue) = self.queues.get_mut(&to.client) else { return };
        if queue.first != id {
            asked.answer = Some(answer.to_vec());
            queue.answered += 1;
            return queue.part_ways();
        }
        let (mut first, mut answer) = (id, Cow::Borrowed(answer));
        loop {
            let Some(Asked { deadline, next, .. }) = self.asked.remove(&first) else { break };
            queue.len -= 1;
            (queue.first, first) = (next, next);
            self.answers.push(to, &answer, queue.len == 0);
            if let Entry::Occupied(mut count) = self.deadlines.entry(deadline) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
            if queue.answered == 0 {
                break;
            }
            let Some(waits) = self.asked.get_mut(&first).and_then(|asked| asked.answer.take()) else { break };
            queue.answered -= 1;
            answer = Cow::Owned(waits);
        }
        if queue.len == 0 {
            self.queues.remove(&to.client);
        }
        if self.asked.is_empty() {
            self.asked.shrink_to(ASKED_KEPT);
            self.queues.shrink_to(ASKED_KEPT);
        }
    }
}

#[cfg(test)]
mod tests;
