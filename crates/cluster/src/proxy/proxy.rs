//! A worker's questions to other nodes for its clients.

use crate::Millis;
use crate::proxy::asked::{Answer, Asked, ClientKey, ClientQueue, PartState};
use crate::proxy::owner_link::{Came, Credentials, OwnerLink, PartId};
use crate::proxy::owner_links::{LinkOrder, OwnerLinks, Place, ProxyLink};
use crate::proxy::question::{Part, Question};
use crate::proxy::redirection::{self, Redirection};
use crate::slot_map::SlotMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

/// Number of times that a part is sent again: after a redirection, or when a connection broke and the part only reads.
const HOPS_MAX: u8 = 5;
/// Milliseconds after which a postponed part is sent again.
const PUT_OFF: Millis = 20;
/// Milliseconds between two checks of nodes that work on parts for longer than the timeout.
const LOOK: Millis = 100;
/// Greatest number of one client's questions in progress.
const AT_ONCE: usize = 256;

/// The part was not carried out.
const UNREACHABLE: &str = "CLUSTERDOWN The node that serves the slot cannot be reached";
const UNANSWERED: &str = "CLUSTERDOWN The node that serves the slot has not answered";
const OPEN: &str = "UNACKNOWLEDGED The node that serves the slot has not answered. The outcome is open: the command may \
                    have been carried out or not";
const WITHDRAWN: &str = "NOPERM The rights of the user have changed before the node that serves the slot was asked";
const REFUSED: &str = "CLUSTERDOWN The node that serves the slot does not let this node in: ";

/// The state machine.
#[derive(Default)]
pub struct Proxy {
    /// Login at other nodes.
    pub credentials: Credentials,
    /// Milliseconds after which a question is given up, unless its node works on it.
    pub timeout: Millis,
    links: OwnerLinks,
    /// Questions by number, which is the order in which they were asked.
    asked: BTreeMap<u64, Asked>,
    /// Postponed parts, by the time at which they are sent again.
    put_off: BTreeSet<(Millis, PartId)>,
    /// Questions that have not been answered, by client.
    queues: HashMap<u64, ClientQueue>,
    /// Time of the next check of nodes that work on parts for longer than the timeout.
    look_at: Millis,
    next: u64,
    unsent: BTreeSet<ProxyLink>,
    orders: Vec<LinkOrder>,
    answers: Vec<Answer>,
}

impl Proxy {
    /// Asks a client's next question. The answer follows those before it.
    pub fn ask(&mut self, by: ClientKey, question: Question, now: Millis) {
        self.next += 1;
        let last = self.queues.get(&by.client).and_then(|queue| self.asked.get(queue.ids.back()?));
        let (id, count, behind) = (self.next, question.parts.len(), last.and_then(Asked::only_link));
        let states = std::iter::repeat_with(|| PartState::Waiting(ProxyLink(0))).take(count).collect();
        let deadline = now.saturating_add(self.timeout);
        let hops = vec![0; count];
        let asked = Asked { by, question, states, hops, left: count, deadline, is_withdrawn: false, answer: None };
        self.queues.entry(by.client).or_default().push(id, asked.question.only_owner());
        self.asked.insert(id, asked);
        if count == 0 {
            return self.finish(id);
        }
        (0..count).for_each(|part| self.begin((id, part), behind, now));
    }

    /// Sends a part to the node that is expected to answer it. `behind`: the connection of the client's earlier
    /// questions.
    fn begin(&mut self, part: PartId, behind: Option<ProxyLink>, now: Millis) {
        let Some(asked) = self.asked.get_mut(&part.0).filter(|asked| asked.is_open()) else { return };
        let Part { to, asking, .. } = asked.question.parts[part.1];
        asked.hops[part.1] = 0;
        self.send(part, Redirection { to, asking }, behind, now);
    }

    /// Returns whether a client's next question may be asked now: all of its earlier questions will be answered before
    /// it over the same connection, and the question holds up no other client there.
    pub fn may_follow(&self, client: u64, question: &Question) -> bool {
        let Some(queue) = self.queues.get(&client).filter(|queue| queue.ids.len() < AT_ONCE) else { return false };
        let Some(owner) = question.only_owner().filter(|owner| queue.owner == Some(*owner)) else { return false };
        let last = queue.ids.back().and_then(|id| self.links.get(self.asked.get(id)?.only_link()?));
        last.is_some_and(|link| link.place.to == owner && (link.place.is_for_long || !question.parts[0].is_long))
    }

    /// Checks the rights of all open questions again. `has_rights`: whether the client's rights are still those of this
    /// change. A part whose client has other rights is neither sent nor retried.
    pub fn judge(&mut self, mut has_rights: impl FnMut(ClientKey, u64) -> bool) {
        let open = self.asked.iter_mut().filter(|(_, asked)| asked.is_open());
        let lost = open.filter(|(_, asked)| !has_rights(asked.by, asked.question.rights_since));
        let mut parts = Vec::new();
        for (id, asked) in lost {
            asked.is_withdrawn = true;
            self.look_at = 0;
            parts.extend((0..asked.states.len()).map(|part| (*id, part)));
        }
        parts.into_iter().for_each(|part| self.withdraw(part));
    }

    fn withdraw(&mut self, part: PartId) {
        let state = self.asked.get(&part.0).filter(|asked| asked.answer.is_none()).map(|asked| &asked.states[part.1]);
        if matches!(state, Some(PartState::Waiting(_) | PartState::PutOff(_))) {
            self.set_reply(part, format!("-{WITHDRAWN}\r\n").into_bytes());
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
    pub fn take_unsent(&mut self) -> BTreeSet<ProxyLink> {
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

    /// Takes the answers that are complete.
    pub fn take_answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    /// Records that a requested connection is established.
    pub fn opened(&mut self, id: ProxyLink, now: Millis) {
        if let Some(link) = self.links.get_mut(id) {
            link.opened(&self.credentials, now);
            self.unsent.insert(id);
        }
    }

    /// Takes a connection's bytes. `map`: resolves names of hosts.
    pub fn received(&mut self, id: ProxyLink, bytes: &[u8], map: &SlotMap, now: Millis) {
        let Some(link) = self.links.get_mut(id) else { return };
        link.receive(bytes, now);
        let from = link.place.to;
        let Ok(came) = link.take_all() else {
            self.orders.push(LinkOrder::Close(id));
            return self.lost(id, now);
        };
        for it in came {
            match it {
                Came::Ready => self.send_waiting(id, now),
                Came::Refused(error) => {
                    let text = String::from_utf8_lossy(error.strip_prefix(b"-").unwrap_or(&error)).into_owned();
                    self.orders.push(LinkOrder::Close(id));
                    return self.end(id, &format!("{REFUSED}{}", text.trim_end()), now);
                }
                Came::Reply(part, reply) => self.replied(part, reply, from, map, now),
            }
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
        let overdue = self.asked.iter().take_while(|(_, asked)| asked.deadline <= now);
        let parts = overdue.flat_map(|(id, asked)| (0..asked.states.len()).map(|part| (*id, part)));
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
        let PartState::Sent(link) = &asked.states[part.1] else { return false };
        self.links.get(*link).is_some_and(|link| !is_silent(link.place.to))
    }

    /// Returns when [`Self::tick`] has work.
    pub fn next_time(&self) -> Option<Millis> {
        let deadline = self.asked.values().next().map(|asked| asked.deadline.max(self.look_at));
        deadline.into_iter().chain(self.put_off.first().map(|(at, _)| *at)).min()
    }

    fn send(&mut self, part: PartId, to: Redirection, behind: Option<ProxyLink>, now: Millis) {
        let Some(asked) = self.asked.get_mut(&part.0) else { return };
        let is_for_long = asked.question.parts[part.1].is_long;
        let place = Place { to: to.to, context: asked.question.context.clone(), is_for_long };
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
            link.send(part, &asked.question.parts[part.1], to.asking, now);
            asked.states[part.1] = PartState::Sent(id);
            self.unsent.insert(id);
        } else {
            link.waiting.push_back((part, to.asking));
            asked.states[part.1] = PartState::Waiting(id);
        }
    }

    fn send_waiting(&mut self, id: ProxyLink, now: Millis) {
        let Some(link) = self.links.get_mut(id) else { return };
        for (part, asking) in std::mem::take(&mut link.waiting) {
            // A client whose time had expired has got its error already.
            if let Some(asked) = self.asked.get_mut(&part.0).filter(|asked| asked.is_open()) {
                link.send(part, &asked.question.parts[part.1], asking, now);
                asked.states[part.1] = PartState::Sent(id);
            }
        }
        self.unsent.insert(id);
    }

    fn replied(&mut self, part: PartId, reply: Vec<u8>, from: SocketAddr, map: &SlotMap, now: Millis) {
        let Some(asked) = self.asked.get_mut(&part.0).filter(|asked| asked.answer.is_none()) else { return };
        let hops = &mut asked.hops[part.1];
        match redirection::parse(&reply, from, map) {
            _ if asked.is_withdrawn => self.set_reply(part, reply),
            Some(redirection) if *hops < HOPS_MAX => {
                *hops += 1;
                self.queues.entry(asked.by.client).and_modify(ClientQueue::part_ways);
                self.send(part, redirection, None, now);
            }
            None if redirection::is_put_off(&reply) && asked.question.parts[part.1].has_several => {
                asked.states[part.1] = PartState::PutOff(reply);
                self.put_off.insert((now.saturating_add(PUT_OFF), part));
            }
            _ => self.set_reply(part, reply),
        }
    }

    /// Ends a connection. Parts that were not sent get the error `why`.
    fn end(&mut self, id: ProxyLink, why: &str, now: Millis) {
        let Some(link) = self.links.remove(id) else { return };
        let to = link.place.to;
        let unanswered: Vec<PartId> = link.unanswered().collect();
        self.unsent.remove(&id);
        for part in unanswered {
            let Some(asked) = self.asked.get_mut(&part.0).filter(|asked| asked.answer.is_none()) else { continue };
            let hops = &mut asked.hops[part.1];
            if asked.question.writes || asked.is_withdrawn || *hops >= HOPS_MAX {
                self.give_up(part, why);
            } else {
                *hops += 1;
                self.queues.entry(asked.by.client).and_modify(ClientQueue::part_ways);
                let asking = asked.question.parts[part.1].asking;
                self.send(part, Redirection { to, asking }, None, now);
            }
        }
        link.waiting.iter().for_each(|(part, _)| self.give_up(*part, why));
    }

    /// Gives up a part that will have no reply. `why`: its error if it was not sent.
    fn give_up(&mut self, part: PartId, why: &str) {
        let Some(asked) = self.asked.get_mut(&part.0).filter(|asked| asked.answer.is_none()) else { return };
        let text = match &mut asked.states[part.1] {
            PartState::Waiting(_) => why,
            PartState::Sent(_) if asked.question.writes => OPEN,
            PartState::Sent(_) => UNANSWERED,
            PartState::PutOff(reply) => {
                let reply = std::mem::take(reply);
                return self.set_reply(part, reply);
            }
            PartState::Replied(_) => return,
        };
        self.set_reply(part, format!("-{text}\r\n").into_bytes());
    }

    fn set_reply(&mut self, part: PartId, reply: Vec<u8>) {
        let Some(asked) = self.asked.get_mut(&part.0) else { return };
        asked.states[part.1] = PartState::Replied(reply);
        asked.left -= 1;
        if asked.left == 0 {
            self.finish(part.0);
        }
    }

    /// Answers the client, behind its earlier questions: all parts have their replies.
    fn finish(&mut self, id: u64) {
        let Some(asked) = self.asked.get_mut(&id) else { return };
        asked.conclude();
        let client = asked.by.client;
        let Some(queue) = self.queues.get_mut(&client) else { return };
        if queue.ids.front() != Some(&id) {
            return queue.part_ways();
        }
        while let Some(first) = queue.ids.front()
            && self.asked.get(first).is_none_or(|asked| asked.answer.is_some())
        {
            let done = self.asked.remove(first);
            queue.ids.pop_front();
            if let Some(Asked { by: to, answer: Some(bytes), .. }) = done {
                self.answers.push(Answer { to, bytes, is_last: queue.ids.is_empty() });
            }
        }
        if queue.ids.is_empty() {
            self.queues.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::question::Context;
    use crate::proxy::reply_join::Join;

    const A: &str = "10.0.0.1:7000";
    const B: &str = "10.0.0.2:7000";

    /// A worker with two clients, and the requests that it has sent to each node.
    struct World {
        proxy: Proxy,
        now: Millis,
        sent: Vec<String>,
    }

    impl World {
        fn new() -> World {
            World { proxy: Proxy { timeout: 1000, ..Proxy::default() }, now: 0, sent: Vec::new() }
        }

        fn ask(&mut self, client: u64, parts: &[(&str, &str)], join: Join, writes: bool) {
            let part = |(to, text): &(&str, &str)| Part {
                has_several: text.contains("several"),
                is_long: text.contains("long"),
                ..Part::new(to.parse().unwrap(), text.as_bytes().to_vec())
            };
            let parts = parts.iter().map(part).collect();
            let question = Question { context: Context::default(), parts, join, writes, rights_since: client };
            self.proxy.ask(ClientKey { token: client as usize, client }, question, self.now);
            self.settle();
        }

        /// Lets time pass; all nodes but these answer the bus.
        fn tick(&mut self, now: Millis, silent: &[&str]) {
            self.now = now;
            self.proxy.tick(now, |to| silent.iter().any(|node| node.parse() == Ok(to)));
            self.settle();
        }

        fn get(&mut self, client: u64, to: &str, text: &str) {
            self.ask(client, &[(to, text)], Join::One, false);
        }

        fn link(&self, to: &str) -> ProxyLink {
            self.proxy.links.first(to.parse().unwrap())
        }

        /// Opens connections and takes the bytes to send.
        fn settle(&mut self) {
            loop {
                for order in self.proxy.take_orders() {
                    match order {
                        LinkOrder::Connect(link, to) => {
                            self.sent.push(format!("connect {to}"));
                            self.proxy.opened(link, self.now);
                            self.take_sent();
                            self.sent.pop();
                            self.proxy.received(link, b"+OK\r\n", &SlotMap::default(), self.now);
                        }
                        LinkOrder::Close(_) => self.sent.push("close".to_owned()),
                    }
                }
                self.take_sent();
                if !self.proxy.has_orders() {
                    return;
                }
            }
        }

        fn take_sent(&mut self) {
            for link in self.proxy.take_unsent() {
                let text = String::from_utf8_lossy(self.proxy.unsent(link)).into_owned();
                self.proxy.note_sent(link, text.len());
                if let Some(link) = self.proxy.links.get(link).filter(|_| !text.is_empty()) {
                    self.sent.push(format!("{}: {}", link.place.to, text.replace("*1\r\n$6\r\nASKING\r\n", "ASKING ")));
                }
            }
        }

        fn reply(&mut self, from: &str, text: &str) {
            self.proxy.received(self.link(from), text.as_bytes(), &SlotMap::default(), self.now);
            self.settle();
        }

        fn lose(&mut self, to: &str) {
            self.proxy.lost(self.link(to), self.now);
            self.settle();
        }

        fn sent(&mut self) -> Vec<String> {
            std::mem::take(&mut self.sent)
        }

        fn answers(&mut self) -> Vec<String> {
            let answers = self.proxy.take_answers();
            let text = |it: &Answer| String::from_utf8_lossy(&it.bytes).replace("\r\n", "|");
            answers.iter().map(|it| format!("{} {}", it.to.client, text(it))).collect()
        }
    }

    #[test]
    fn clients_share_a_connection_and_get_their_own_replies() {
        let mut world = World::new();
        world.get(1, A, "a");
        world.get(2, A, "b");
        world.get(1, A, "c");
        assert_eq!(world.sent(), [format!("connect {A}"), format!("{A}: a"), format!("{A}: b"), format!("{A}: c")]);
        world.reply(A, ":1\r\n:2\r\n$1");
        assert_eq!(world.answers(), ["1 :1|", "2 :2|"]);
        world.reply(A, "\r\nx\r\n");
        assert_eq!(world.answers(), ["1 $1|x|"]);
        assert!(world.proxy.is_idle() && !world.proxy.is_unused());
    }

    #[test]
    fn answers_come_in_the_order_of_the_questions() {
        let mut world = World::new();
        world.get(1, A, "a");
        world.get(1, B, "b");
        world.reply(B, ":2\r\n");
        assert!(world.answers().is_empty(), "the first is not answered");
        world.reply(A, ":1\r\n");
        assert_eq!(world.answers(), ["1 :1|", "1 :2|"]);
    }

    #[test]
    fn a_question_follows_others_to_the_same_node_only() {
        let mut world = World::new();
        let follows = |world: &World, to: &str, is_long| {
            let part = Part { is_long, ..Part::new(to.parse().unwrap(), Vec::new()) };
            let (context, parts, join) = (Context::default(), vec![part], Join::One);
            world.proxy.may_follow(1, &Question { context, parts, join, writes: false, rights_since: 1 })
        };
        assert!(!follows(&world, A, false));
        world.get(1, A, "a");
        assert!(follows(&world, A, false) && !follows(&world, B, false));
        assert!(!follows(&world, A, true), "it would hold the short commands of other clients");
        world.reply(A, &format!("-MOVED 1 {B}\r\n"));
        assert!(!follows(&world, A, false), "what it would follow is at another place by now");
        world.reply(B, ":1\r\n");
        world.ask(1, &[(A, "a"), (B, "b")], Join::Sum, false);
        assert!(!follows(&world, A, false));
        world.reply(A, ":1\r\n");
        world.reply(B, ":1\r\n");
        world.get(1, A, "long");
        world.get(1, A, "short");
        assert!(follows(&world, A, true) && follows(&world, A, false), "they are on a connection for long ones");
    }

    #[test]
    fn redirections_are_followed_some_times() {
        let mut world = World::new();
        world.get(1, A, "a");
        world.sent();
        world.reply(A, &format!("-ASK 1 {B}\r\n"));
        assert_eq!(world.sent(), [format!("connect {B}"), format!("{B}: ASKING a")]);
        world.reply(B, "+OK\r\n:1\r\n");
        assert_eq!(world.answers(), ["1 :1|"]);
        world.get(1, A, "a");
        for at in 0..HOPS_MAX {
            let (here, there) = if at % 2 == 0 { (A, B) } else { (B, A) };
            world.reply(here, &format!("-MOVED 1 {there}\r\n"));
            assert!(world.answers().is_empty());
        }
        world.reply(B, &format!("-MOVED 1 {A}\r\n"));
        assert_eq!(world.answers(), [format!("1 -MOVED 1 {A}|")], "nobody has it");
        world.get(1, A, "a");
        world.reply(A, "-MOVED 1 nowhere:1\r\n");
        assert_eq!(world.answers(), ["1 -MOVED 1 nowhere:1|"]);
    }

    #[test]
    fn a_request_that_is_put_off_is_sent_anew_until_its_deadline() {
        const LATER: &str = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
        let mut world = World::new();
        world.ask(1, &[(A, "several")], Join::One, true);
        let last = world.proxy.asked.values().next().expect("a question").question.clone();
        assert!(!world.proxy.may_follow(1, &last), "what comes behind it might be carried out before it");
        // A part of it is at the other node by now.
        world.reply(A, &format!("-ASK 1 {B}\r\n"));
        world.reply(B, &format!("+OK\r\n{LATER}"));
        assert_eq!(world.proxy.next_time(), Some(PUT_OFF));
        world.sent();
        world.tick(PUT_OFF - 1, &[]);
        assert!(world.sent().is_empty());
        world.tick(PUT_OFF, &[]);
        assert_eq!(world.sent(), [format!("{A}: several")], "from the beginning");
        world.now = 990;
        world.reply(A, LATER);
        assert!(world.answers().is_empty());
        world.tick(1000, &[]);
        assert_eq!(world.answers(), [format!("1 {}", LATER.replace("\r\n", "|"))]);
        world.tick(1010, &[]);
        world.get(1, A, "one");
        world.sent();
        world.reply(A, LATER);
        assert_eq!(world.answers().len(), 1, "one key is not put off");
        assert!(world.sent().is_empty() && world.proxy.put_off.is_empty());
    }

    #[test]
    fn parts_are_joined_when_all_are_there() {
        let mut world = World::new();
        world.ask(1, &[(A, "a"), (B, "b"), (A, "c")], Join::Sum, true);
        world.reply(A, ":1\r\n:1\r\n");
        assert!(world.answers().is_empty());
        world.reply(B, ":1\r\n");
        assert_eq!(world.answers(), ["1 :3|"]);
        world.ask(1, &[], Join::Sum, true);
        assert_eq!(world.answers(), ["1 :0|"]);
    }

    #[test]
    fn a_read_is_sent_again_when_a_connection_breaks() {
        let mut world = World::new();
        world.get(1, A, "a");
        world.sent();
        world.lose(A);
        assert_eq!(world.sent(), [format!("connect {A}"), format!("{A}: a")]);
        world.reply(A, ":1\r\n");
        assert_eq!(world.answers(), ["1 :1|"]);
        world.ask(1, &[(A, "w")], Join::One, true);
        world.lose(A);
        assert_eq!(world.answers(), [format!("1 -{OPEN}|")]);
        // No connection can be made.
        world.proxy.ask(
            ClientKey { token: 1, client: 1 },
            Question {
                context: Context::default(),
                parts: vec![Part::new(A.parse().unwrap(), b"w".to_vec())],
                join: Join::One,
                writes: true,
                rights_since: 1,
            },
            0,
        );
        world.lose(A);
        assert_eq!(world.answers(), [format!("1 -{UNREACHABLE}|")]);
    }

    #[test]
    fn a_client_that_loses_rights_is_not_asked_for_again() {
        let mut world = World::new();
        world.ask(1, &[(A, "w")], Join::One, true);
        world.proxy.judge(|by, since| by.client != 1 && since == by.client);
        assert!(world.proxy.has_withdrawn());
        world.reply(A, "-MOVED 1 10.0.0.2:7000\r\n");
        assert_eq!(world.answers(), ["1 -MOVED 1 10.0.0.2:7000|"]);
        assert!(!world.proxy.has_withdrawn() && world.proxy.is_idle());
        world.ask(1, &[(A, "several")], Join::One, true);
        world.reply(A, "-TRYAGAIN x\r\n");
        world.proxy.judge(|_, _| false);
        assert_eq!(world.answers(), [format!("1 -{WITHDRAWN}|")]);
    }

    #[test]
    fn a_node_that_does_not_let_this_one_in_is_named_as_the_reason() {
        let mut world = World::new();
        world.proxy.credentials.password = b"secret".to_vec();
        let parts = vec![Part::new(A.parse().unwrap(), b"a".to_vec())];
        let (context, join) = (Context::default(), Join::One);
        let question = Question { context, parts, join, writes: true, rights_since: 1 };
        world.proxy.ask(ClientKey { token: 1, client: 1 }, question, 0);
        let link = world.link(A);
        world.proxy.opened(link, 0);
        world.proxy.received(link, b"-WRONGPASS no\r\n", &SlotMap::default(), 0);
        assert_eq!(world.answers(), [format!("1 -{REFUSED}WRONGPASS no|")]);
        assert!(world.proxy.links.is_empty());
    }

    #[test]
    fn a_reply_of_a_node_that_is_silent_is_not_waited_for() {
        let mut world = World::new();
        world.ask(1, &[(A, "a"), (B, "b")], Join::Sum, true);
        world.get(2, A, "r");
        world.reply(B, ":1\r\n");
        assert_eq!(world.proxy.next_time(), Some(1000));
        world.tick(999, &[A]);
        assert!(world.answers().is_empty());
        world.tick(1000, &[A]);
        assert_eq!(world.answers(), [format!("1 -{OPEN}|"), format!("2 -{UNANSWERED}|")]);
        // The reply is too late, and has no client.
        world.reply(A, ":1\r\n");
        world.get(2, A, "s");
        world.reply(A, ":7\r\n:8\r\n");
        assert_eq!(world.answers(), ["2 :8|"]);
        world.sent();
        world.now = 3000;
        world.get(1, A, "t");
        world.tick(4001, &[A]);
        assert_eq!(world.sent(), [format!("{A}: t"), "close".to_owned()], "it has been silent for too long");
        world.answers();
        world.tick(100_000, &[]);
        assert!(world.proxy.is_unused(), "{:?}", world.sent());
    }

    #[test]
    fn a_node_that_answers_the_bus_works_on_what_it_was_sent() {
        let mut world = World::new();
        world.ask(1, &[(A, "long")], Join::One, true);
        world.ask(2, &[(A, "x")], Join::One, true);
        world.tick(1000, &[B]);
        assert_eq!(world.proxy.next_time(), Some(1000 + LOOK));
        world.get(3, A, "y");
        world.tick(50_000, &[]);
        assert!(world.answers().is_empty());
        assert_eq!(world.sent().iter().filter(|it| it.starts_with("connect")).count(), 3, "late ones get nothing more");
        world.reply(A, ":7\r\n");
        assert_eq!(world.answers().len(), 1);
        // A client that has lost the rights is not waited for, nor is a silent node.
        world.proxy.judge(|by, _| by.client != 2);
        world.tick(50_001, &[]);
        assert!(!world.proxy.has_withdrawn());
        world.tick(50_001 + LOOK, &[A]);
        assert!(world.proxy.is_idle());
    }

    #[test]
    fn bytes_that_are_no_replies_end_the_connection() {
        let mut world = World::new();
        world.ask(1, &[(A, "a")], Join::One, true);
        world.reply(A, "what?\r\n");
        assert_eq!(world.answers(), [format!("1 -{OPEN}|")]);
        assert_eq!(world.sent().last().map(String::as_str), Some("close"));
    }
}
