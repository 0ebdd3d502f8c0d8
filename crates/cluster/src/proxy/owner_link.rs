//! One connection to another node: requests go out one after the other, replies come back in their order.
//!
//! ```text
//!   opening -> greeting: AUTH, HELLO, CLIENT CAPA, SELECT; no part is sent before all have succeeded -> ready
//! ```

use crate::Millis;
use crate::proxy::owner_links::Place;
use crate::proxy::proxy_request::Context;
use crate::proxy::redirection;
use resp::encode_command;
use resp::reply_scan::{NotResp, ReplyScan};
use std::collections::VecDeque;
use std::ops::Range;

/// Part of a question: the question's number, and the part's index.
pub(super) type PartId = (u64, usize);

/// This node's login at other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// User; empty: the default one.
    pub user: Vec<u8>,
    /// Password of the user; empty for none.
    pub password: Vec<u8>,
}

/// Capability that a connection announces first: the other node is to redirect, and not to answer for others.
pub const CAPABILITY: &str = "moved";

/// Bytes of the output buffer that are retained.
const OUTPUT_KEPT: usize = 64 << 10;

/// Event of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LinkEvent {
    /// The greeting has succeeded.
    Ready,
    /// The other node has refused the greeting with this error.
    Refused(Vec<u8>),
    /// A part's reply has arrived.
    Reply(Arrived),
}

/// A part's reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    pub id: PartId,
    /// Place of the reply among the bytes that have arrived.
    pub at: Range<usize>,
    /// Reply to an earlier request of the part that counts in the place of the last one's.
    pub instead: Option<Vec<u8>>,
    /// Place of the part's requests.
    pub requests: Requests,
}

/// Place of a part's requests among all bytes of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Requests {
    start: u64,
    len: usize,
}

enum State {
    Opening,
    /// For each expected reply: whether it may be the error of a node that does not know the request.
    Greeting(VecDeque<bool>),
    Ready,
}

/// A part that was sent.
struct Awaited {
    id: PartId,
    requests: Requests,
    /// Number of expected replies. The first is to ASKING, if that was sent before the part.
    left: usize,
    after_asking: bool,
    /// Reply that redirected, postponed or denied a request before the last one.
    sent_on: Option<Vec<u8>>,
}

pub(super) struct OwnerLink {
    pub place: Place,
    state: State,
    /// Parts that wait for the connection, and whether ASKING precedes them.
    pub waiting: VecDeque<(PartId, bool)>,
    awaited: VecDeque<Awaited>,
    /// Bytes to send; `gone` of them are sent, and stay for as long as they have no reply.
    output: Vec<u8>,
    gone: usize,
    /// Number of bytes that were before them.
    dropped: u64,
    input: Vec<u8>,
    scan: ReplyScan,
    /// Time of the last bytes received, or of the first request after all had been answered.
    pub active_at: Millis,
}

impl OwnerLink {
    pub fn new(place: Place, now: Millis) -> OwnerLink {
        OwnerLink {
            place,
            state: State::Opening,
            waiting: VecDeque::new(),
            awaited: VecDeque::new(),
            output: Vec::new(),
            gone: 0,
            dropped: 0,
            input: Vec::new(),
            scan: ReplyScan::default(),
            active_at: now,
        }
    }

    /// Records that the connection is established.
    pub fn opened(&mut self, credentials: &Credentials, now: Millis) {
        let mut expected = VecDeque::new();
        let mut say = |words: &[&[u8]], may_be_unknown: bool| {
            encode_command(&mut self.output, words);
            expected.push_back(may_be_unknown);
        };
        match credentials {
            Credentials { password, .. } if password.is_empty() => {}
            Credentials { user, password } if user.is_empty() => say(&[b"AUTH", password], false),
            Credentials { user, password } => say(&[b"AUTH", user, password], false),
        }
        let Context { resp3, db, no_touch } = self.place.context;
        say(&[b"CLIENT", b"CAPA", CAPABILITY.as_bytes()], true);
        if resp3 {
            say(&[b"HELLO", b"3"], false);
        }
        if db > 0 {
            say(&[b"SELECT", db.to_string().as_bytes()], false);
        }
        if no_touch {
            say(&[b"CLIENT", b"NO-TOUCH", b"ON"], false);
        }
        self.state = State::Greeting(expected);
        self.active_at = now;
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    /// Returns whether replies are outstanding.
    pub fn is_busy(&self) -> bool {
        !self.is_ready() || !self.awaited.is_empty()
    }

    /// Returns how many parts wait for the connection.
    pub fn load(&self) -> usize {
        self.waiting.len() + self.awaited.len()
    }

    /// Returns whether replies are outstanding, and no bytes have arrived for longer than this.
    pub fn is_late(&self, now: Millis, time: Millis) -> bool {
        self.is_busy() && now - self.active_at > time
    }

    /// Sends a part's requests over a ready connection.
    pub fn send(&mut self, id: PartId, requests: &[u8], count: usize, asking: bool, now: Millis) {
        if asking {
            encode_command(&mut self.output, &["ASKING"]);
        }
        let place = Requests { start: self.dropped + self.output.len() as u64, len: requests.len() };
        self.output.extend_from_slice(requests);
        if self.awaited.is_empty() {
            self.active_at = now;
        }
        let left = count + usize::from(asking);
        self.awaited.push_back(Awaited { id, requests: place, left, after_asking: asking, sent_on: None });
    }

    /// Returns a part's requests, which have no reply, or one that was just [taken](Self::take_all).
    pub fn requests(&self, Requests { start, len }: Requests) -> &[u8] {
        let start = start.checked_sub(self.dropped).and_then(|start| usize::try_from(start).ok());
        start.and_then(|start| self.output.get(start..)?.get(..len)).unwrap_or_default()
    }

    /// Returns the bytes to send.
    pub fn unsent(&self) -> &[u8] {
        self.output.get(self.gone..).unwrap_or_default()
    }

    /// Records that so many of them are sent.
    pub fn note_sent(&mut self, bytes: usize) {
        self.gone += bytes;
        self.drop_answered();
    }

    /// Drops requests that are sent and answered, once they are much or all.
    fn drop_answered(&mut self) {
        let first = self.awaited.front().map_or(u64::MAX, |awaited| awaited.requests.start - self.dropped);
        let over = self.gone.min(usize::try_from(first).unwrap_or(usize::MAX));
        if over < self.output.len() && (over < OUTPUT_KEPT || 2 * over < self.output.len()) {
            return;
        }
        self.output.drain(..over);
        self.gone -= over;
        self.dropped += over as u64;
        if self.output.is_empty() {
            self.output.shrink_to(OUTPUT_KEPT);
        }
    }

    /// Takes bytes, and returns all that have no event yet, for [`Self::take_all`].
    pub fn receive(&mut self, bytes: &[u8], now: Millis) -> Vec<u8> {
        self.active_at = now;
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        input
    }

    /// Adds all events of the bytes that have arrived, in order. [`Self::keep_rest`] follows when they are handled.
    ///
    /// # Errors
    /// Returns [`NotResp`] if the bytes are no replies, or replies to no request. Earlier replies are lost with the
    /// connection.
    pub fn take_all(&mut self, input: &[u8], came: &mut Vec<LinkEvent>) -> Result<usize, NotResp> {
        let mut start = 0;
        while let Some(len) = self.scan.end(&input[start..])? {
            let (reply, at) = (&input[start..start + len], start..start + len);
            start += len;
            // The connection has no subscriptions, so a message is no reply to any request.
            if reply.starts_with(b">") {
                continue;
            }
            match &mut self.state {
                State::Opening => return Err(NotResp),
                State::Greeting(expected) => {
                    let may_be_unknown = expected.pop_front().ok_or(NotResp)?;
                    if reply.starts_with(b"-") && !(may_be_unknown && reply.starts_with(b"-ERR ")) {
                        came.push(LinkEvent::Refused(reply.to_vec()));
                        break;
                    }
                    if expected.is_empty() {
                        self.state = State::Ready;
                        came.push(LinkEvent::Ready);
                    }
                }
                State::Ready => {
                    let awaited = self.awaited.front_mut().ok_or(NotResp)?;
                    awaited.left -= 1;
                    if std::mem::take(&mut awaited.after_asking) {
                        continue;
                    }
                    if awaited.left > 0 {
                        let is_refused = redirection::is_one(reply)
                            || redirection::is_put_off(reply)
                            || redirection::is_denied(reply);
                        if awaited.sent_on.is_none() && is_refused {
                            awaited.sent_on = Some(reply.to_vec());
                        }
                        continue;
                    }
                    let Some(Awaited { id, requests, sent_on, .. }) = self.awaited.pop_front() else { continue };
                    came.push(LinkEvent::Reply(Arrived { id, at, instead: sent_on, requests }));
                }
            }
        }
        Ok(start)
    }

    /// Takes back the bytes from `start` on, which have no event yet.
    pub fn keep_rest(&mut self, mut input: Vec<u8>, start: usize) {
        input.drain(..start);
        if input.is_empty() {
            input.shrink_to(OUTPUT_KEPT);
        }
        self.input = input;
        self.drop_answered();
    }

    /// Returns the parts that were sent and not answered, in order.
    pub fn unanswered(&self) -> impl Iterator<Item = (PartId, Requests)> {
        self.awaited.iter().map(|awaited| (awaited.id, awaited.requests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(context: Context, credentials: &Credentials) -> (OwnerLink, String) {
        let place = Place { to: "10.0.0.1:7000".parse().unwrap(), context, is_for_long: false };
        let mut link = OwnerLink::new(place, 0);
        link.opened(credentials, 0);
        let said = String::from_utf8(link.unsent().to_vec()).unwrap();
        link.note_sent(said.len());
        let words = said.split("\r\n").filter(|line| !line.starts_with(['*', '$'])).collect::<Vec<_>>().join(" ");
        (link, words.trim_end().to_owned())
    }

    /// Event of a connection, with the reply and the requests that it is for.
    #[derive(Debug, PartialEq, Eq)]
    enum Told {
        Ready,
        Refused(String),
        Reply(PartId, String, String),
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    fn take(link: &mut OwnerLink, bytes: &str) -> Vec<Told> {
        let (mut came, input) = (Vec::new(), link.receive(bytes.as_bytes(), 5));
        let start = link.take_all(&input, &mut came).unwrap();
        let told = came.into_iter().map(|it| match it {
            LinkEvent::Ready => Told::Ready,
            LinkEvent::Refused(error) => Told::Refused(text(&error)),
            LinkEvent::Reply(Arrived { id, at, instead, requests }) => {
                let reply = text(instead.as_deref().unwrap_or(&input[at]));
                Told::Reply(id, reply, text(link.requests(requests)))
            }
        });
        let told = told.collect();
        link.keep_rest(input, start);
        told
    }

    fn reply(id: PartId, reply: &str, requests: &str) -> Told {
        Told::Reply(id, reply.to_owned(), requests.to_owned())
    }

    #[test]
    fn a_link_greets_with_what_its_clients_have_in_common() {
        let credentials =
            |user: &[u8], password: &[u8]| Credentials { user: user.to_vec(), password: password.to_vec() };
        let plain = Context::default();
        assert_eq!(link(plain, &credentials(b"u", b"")).1, "CLIENT CAPA moved");
        assert_eq!(link(plain, &credentials(b"", b"p")).1, "AUTH p CLIENT CAPA moved");
        let context = Context { resp3: true, db: 3, no_touch: true };
        let (mut link, said) = link(context, &credentials(b"u", b"p"));
        assert_eq!(said, "AUTH u p CLIENT CAPA moved HELLO 3 SELECT 3 CLIENT NO-TOUCH ON");
        assert!(take(&mut link, "+OK\r\n-ERR no CAPA\r\n%1\r\n+a\r\n+b\r\n+OK\r\n").is_empty() && !link.is_ready());
        assert_eq!(take(&mut link, "+OK\r\n"), [Told::Ready]);
        assert!(link.is_ready() && !link.is_busy());
    }

    #[test]
    fn a_refused_greeting_is_told() {
        let (mut link, _) = link(Context { db: 3, ..Context::default() }, &Credentials::default());
        let refused = take(&mut link, "+OK\r\n-ERR DB index is out of range\r\n");
        assert_eq!(refused, [Told::Refused("-ERR DB index is out of range\r\n".to_owned())]);
        assert!(!link.is_ready());
    }

    #[test]
    fn a_node_may_not_know_the_capability_but_must_not_deny_it() {
        for error in ["-NOPERM no rights for 'client|capa'\r\n", "-NOAUTH Authentication required.\r\n"] {
            let (mut link, _) = link(Context::default(), &Credentials::default());
            assert_eq!(take(&mut link, error), [Told::Refused(error.to_owned())]);
            assert!(!link.is_ready());
        }
    }

    fn ready() -> OwnerLink {
        let (mut link, _) = link(Context::default(), &Credentials::default());
        take(&mut link, "+OK\r\n");
        link
    }

    #[test]
    fn replies_belong_to_requests_in_their_order() {
        let mut link = ready();
        link.send((1, 0), b"a", 1, false, 3);
        link.send((2, 0), b"b", 1, true, 4);
        link.send((3, 1), b"mce", 3, false, 4);
        link.note_sent(1);
        assert_eq!(link.unsent(), b"*1\r\n$6\r\nASKING\r\nbmce");
        link.note_sent(link.unsent().len());
        assert!(link.unsent().is_empty());
        assert_eq!(link.unanswered().map(|(id, _)| id).collect::<Vec<_>>(), [(1, 0), (2, 0), (3, 1)]);
        assert_eq!(take(&mut link, ">1\r\n+x\r\n$1\r\n"), []);
        let replies = take(&mut link, "x\r\n+OK\r\n:7\r\n+OK\r\n+QUEUED\r\n");
        assert_eq!(replies, [reply((1, 0), "$1\r\nx\r\n", "a"), reply((2, 0), ":7\r\n", "b")]);
        assert_eq!(take(&mut link, "*1\r\n:8\r\n"), [reply((3, 1), "*1\r\n:8\r\n", "mce")]);
        let input = link.receive(b"+OK\r\n", 6);
        assert_eq!(link.take_all(&input, &mut Vec::new()), Err(NotResp), "nothing was asked");
    }

    #[test]
    fn a_transaction_is_sent_on_as_its_first_command_is() {
        let mut link = ready();
        link.send((1, 0), b"mce", 3, false, 3);
        let moved = "-MOVED 1 10.0.0.2:7000\r\n";
        let told = take(&mut link, &format!("+OK\r\n{moved}-EXECABORT because\r\n"));
        assert_eq!(told, [reply((1, 0), moved, "mce")]);
        link.send((2, 0), b"mcce", 4, false, 3);
        let told = take(&mut link, "+OK\r\n+QUEUED\r\n-TRYAGAIN later\r\n-EXECABORT because\r\n");
        assert_eq!(told, [reply((2, 0), "-TRYAGAIN later\r\n", "mcce")]);
        link.send((3, 0), b"mce", 3, false, 3);
        let told = take(&mut link, "+OK\r\n-NOPERM no\r\n-EXECABORT because\r\n");
        assert_eq!(told, [reply((3, 0), "-NOPERM no\r\n", "mce")]);
    }

    #[test]
    fn requests_stay_until_they_are_answered() {
        let mut link = ready();
        let long = vec![b'x'; OUTPUT_KEPT];
        link.send((1, 0), &long, 1, false, 3);
        link.send((2, 0), b"second", 1, false, 3);
        link.send((3, 0), b"third", 1, false, 3);
        link.note_sent(link.unsent().len() - 2);
        assert_eq!(link.unsent(), b"rd");
        assert_eq!(take(&mut link, "+1\r\n"), [reply((1, 0), "+1\r\n", &text(&long))]);
        assert_eq!(link.output, b"secondthird", "the long one is gone");
        assert_eq!(take(&mut link, "+2\r\n"), [reply((2, 0), "+2\r\n", "second")]);
        assert_eq!(link.unsent(), b"rd");
        link.note_sent(2);
        let (_, third) = link.unanswered().next().unwrap();
        assert_eq!(link.requests(third), b"third");
        assert_eq!(take(&mut link, "+3\r\n"), [reply((3, 0), "+3\r\n", "third")]);
        assert!(link.output.is_empty());
    }
}
