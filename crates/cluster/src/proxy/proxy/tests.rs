//! Tests of the state machine: clients, nodes that answer, and what is sent to them.

use super::*;
use crate::proxy::proxy_request::Context;
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
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", "|");
        answers.iter().map(|(it, bytes)| format!("{} {}", it.to.client, text(bytes))).collect()
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
    assert_eq!(world.answers(), ["1 :1|:2|"]);
}

#[test]
fn a_question_follows_others_to_the_same_node_only() {
    let mut world = World::new();
    let follows =
        |world: &World, to: &str, is_long| world.proxy.link_to_follow(1, to.parse().unwrap(), is_long).is_some();
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
    let behind = world.proxy.link_to_follow(1, A.parse().unwrap(), false);
    assert_eq!(behind, None, "what comes behind it might be carried out before it");
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
    let refused = format!("1 -CLUSTERDOWN The node {A} refuses the primaryuser of this node: ");
    assert_eq!(world.answers(), [format!("{refused}WRONGPASS no|")]);
    assert!(world.proxy.links.is_empty());
    world.proxy.credentials = Credentials::default();
    world.get(1, A, "a");
    world.reply(A, "-NOPERM User replica has no permissions to run the 'get' command\r\n");
    let denied = "NOPERM User replica has no permissions to run the 'get' command";
    assert_eq!(world.answers(), [format!("{refused}{denied}|")], "the client's own rights were checked here");
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

/// Asks behind the client's earlier questions.
fn follow(world: &mut World, client: u64, to: &str, text: &str, writes: bool) -> bool {
    let by = ClientKey { token: client as usize, client };
    let bytes = text.as_bytes().into();
    let follower = Follower { to: to.parse().unwrap(), bytes, is_long: false, writes, rights_since: client };
    let follows = world.proxy.follow(by, &follower, world.now);
    world.settle();
    follows
}

#[test]
fn followers_are_sent_and_answered_in_their_order() {
    let mut world = World::new();
    assert!(!follow(&mut world, 1, A, "a", true), "there is nothing to follow");
    world.get(1, A, "a");
    world.get(2, A, "b");
    assert!(follow(&mut world, 1, A, "c", true) && !follow(&mut world, 1, B, "d", true));
    assert!(follow(&mut world, 2, A, "e", true) && follow(&mut world, 1, A, "f", true));
    let sent = world.sent();
    assert_eq!(sent[1..], ["a", "b", "c", "e", "f"].map(|text| format!("{A}: {text}")));
    world.reply(A, ":1\r\n:2\r\n:3\r\n:4\r\n");
    assert_eq!(world.answers(), ["1 :1|", "2 :2|", "1 :3|", "2 :4|"]);
    assert!(!follow(&mut world, 2, A, "g", true), "all of its questions are answered");
    world.reply(A, ":5\r\n");
    assert_eq!(world.answers(), ["1 :5|"]);
    assert!(world.proxy.is_idle() && world.proxy.queues.is_empty() && world.proxy.deadlines.is_empty());
}

#[test]
fn a_follower_is_asked_elsewhere_with_all_of_its_bytes() {
    let mut world = World::new();
    world.get(1, A, "a");
    assert!(follow(&mut world, 1, A, "second", false) && follow(&mut world, 1, A, "third", false));
    world.reply(A, ":1\r\n");
    world.sent();
    world.reply(A, &format!("-MOVED 1 {B}\r\n"));
    assert_eq!(world.sent(), [format!("connect {B}"), format!("{B}: second")]);
    assert!(!follow(&mut world, 1, A, "x", true), "it might be carried out before the second");
    world.lose(A);
    assert_eq!(world.sent(), [format!("connect {A}"), format!("{A}: third")]);
    world.reply(A, ":3\r\n");
    assert_eq!(world.answers(), ["1 :1|"]);
    world.reply(B, ":2\r\n");
    assert_eq!(world.answers(), ["1 :2|:3|"]);
}

#[test]
fn a_follower_waits_for_a_connection_that_is_being_made() {
    let mut world = World::new();
    let question = |text: &str| Question {
        context: Context::default(),
        parts: vec![Part::new(A.parse().unwrap(), text.as_bytes().to_vec())],
        join: Join::One,
        writes: true,
        rights_since: 1,
    };
    let by = ClientKey { token: 1, client: 1 };
    world.proxy.ask(by, question("a"), 0);
    let to = A.parse().unwrap();
    let follower = Follower { to, bytes: b"b"[..].into(), is_long: false, writes: true, rights_since: 1 };
    assert!(world.proxy.follow(by, &follower, 0));
    world.settle();
    assert_eq!(world.sent(), [format!("connect {A}"), format!("{A}: ab")]);
    world.reply(A, "+1\r\n+2\r\n");
    assert_eq!(world.answers(), ["1 +1|+2|"]);
}
