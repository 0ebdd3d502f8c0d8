//! Replays steps on both servers and finds the first command on which they differ.
//!
//! Every replay begins with fresh connections and empty databases, so that the same steps always mean the same: the
//! shrinker depends on it.

use crate::client::{Client, command};
use crate::compare::{Rule, agree, rule_of};
use crate::effects::{Allowed, Observers, first_difference};
use crate::events::Listener;
use crate::families::acl::CLEAN;
use crate::generator::Step;
use crate::grammar::Command;
use crate::servers::Server;
use crate::value::Value;
use std::io::{Error, Result};
use std::net::SocketAddr;

/// Commands sent before their replies are read.
const BATCH: usize = 50;
/// Calls that a full iteration of so few keys may take.
const SCAN_CALLS_MAX: usize = 10_000;

/// The protocol that connections speak at the beginning of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Resp2,
    Resp3,
}

/// The first command on which the servers differ.
pub struct Difference {
    pub step: usize,
    pub command: Command,
    pub peer: Value,
    pub subject: Value,
    /// Name of the effect that differs; None: the replies differ.
    pub effect: Option<String>,
}

impl Difference {
    /// Whether a reply was lost, so that no further ones can arrive.
    fn is_loss(&self) -> bool {
        matches!(self.peer, Value::Lost(_)) || matches!(self.subject, Value::Lost(_))
    }
}

pub struct Pair {
    pub peer: Server,
    pub subject: Server,
    /// Comparisons so far, the shrinker's trials included.
    pub counts: Counts,
    /// Events of keys are compared as well as replies.
    pub compares_events: bool,
    /// Effects of commands besides replies are compared as well.
    pub compares_effects: Option<Look>,
}

/// How the effects of commands are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Observers that do not change the server's behaviour look, after some commands.
    Afar,
    /// By clients that watch and track keys too, after each command.
    Close,
}

/// Commands between two looks at their effects.
const PIPELINE: usize = 8;

#[derive(Default)]
pub struct Counts {
    pub commands: usize,
    pub errors: usize,
}

impl Pair {
    pub fn new(peer: Server, subject: Server) -> Pair {
        Pair { peer, subject, counts: Counts::default(), compares_events: false, compares_effects: None }
    }

    /// Replays up to the first difference that is not to be passed over; one that lost a connection always ends it. An
    /// error means that a server could not be reached or reset; what happens later is a difference.
    pub fn replay(
        &mut self,
        steps: &[Step],
        protocol: Protocol,
        mut passes_over: impl FnMut(&Difference) -> bool,
    ) -> Result<Option<Difference>> {
        let mut peer = fresh_client(&mut self.peer, protocol)?;
        let mut subject = fresh_client(&mut self.subject, protocol)?;
        let mut listeners = match self.compares_events {
            true => Some((Listener::connect(self.peer.addr)?, Listener::connect(self.subject.addr)?)),
            false => None,
        };
        let mut observers = match self.compares_effects {
            Some(look) => Some((
                Observers::connect(self.peer.addr, &peer, look == Look::Close)?,
                Observers::connect(self.subject.addr, &subject, look == Look::Close)?,
            )),
            None => None,
        };
        let closely = self.compares_effects == Some(Look::Close);
        let alone = |command: &Command| self.compares_events || goes_alone(command);
        let batch_max = if observers.is_some() { PIPELINE } else { BATCH };
        let mut commands = steps.iter().enumerate().flat_map(|(i, step)| step.iter().map(move |c| (i, c))).peekable();
        loop {
            let mut batch: Vec<(usize, &Command)> = Vec::new();
            while let Some((step, _)) = commands.peek() {
                // A step stays together where observers look after each step.
                let is_of_last = batch.last().is_some_and(|(last, _)| last == step);
                let is_full = if closely { !batch.is_empty() } else { batch.len() >= batch_max };
                if is_full && !(is_of_last && observers.is_some()) {
                    break;
                }
                batch.extend(commands.next());
            }
            let Some(last) = batch.last().copied() else { return Ok(None) };
            for group in batch.chunk_by(|(_, a), (_, b)| !alone(a) && !alone(b)) {
                let (peer_replies, subject_replies) = run(&mut peer, &mut subject, group);
                let replies = peer_replies.into_iter().zip(subject_replies);
                for ((step, command), (mut peer, mut subject)) in group.iter().zip(replies) {
                    self.counts.commands += 1;
                    self.counts.errors += usize::from(peer.is_error());
                    if agree(rule_of(command), &peer, &subject) {
                        let Some((by_peer, by_subject)) = &mut listeners else { continue };
                        // A scan meets expired keys in an order of its own.
                        let in_order = rule_of(command) != Rule::Scan;
                        (peer, subject) = (by_peer.heard(in_order), by_subject.heard(in_order));
                        if agree(Rule::Exact, &peer, &subject) {
                            continue;
                        }
                    }
                    let (step, command) = (*step, (*command).clone());
                    let difference = Difference { step, command, peer, subject, effect: None };
                    if !passes_over(&difference) || difference.is_loss() {
                        return Ok(Some(difference));
                    }
                }
            }
            let Some((of_peer, of_subject)) = &mut observers else { continue };
            let (peer, subject) = (of_peer.seen(), of_subject.seen());
            let allowed = Allowed::after(batch.iter().map(|(_, command)| *command));
            if let Some((effect, peer, subject)) = first_difference(&peer, &subject, allowed) {
                let (step, command, effect) = (last.0, last.1.clone(), Some(effect));
                let difference = Difference { step, command, peer, subject, effect };
                if !passes_over(&difference) || difference.is_loss() {
                    return Ok(Some(difference));
                }
            }
        }
    }
}

/// Whether a command cannot be sent together with others: an iteration needs replies to continue, and Valkey loses the
/// error reply of an authentication that fails (HELLO AUTH) behind a command whose reply was not sent yet. The
/// subject's time stands still for as long as it looks ahead, so a command behind DEBUG SLEEP must not arrive with it.
fn goes_alone(command: &Command) -> bool {
    let passes_time = command.first().is_some_and(|name| name.eq_ignore_ascii_case(b"DEBUG"));
    matches!(rule_of(command), Rule::Scan | Rule::Hello) || passes_time
}

/// Runs commands that are either one SCAN or none, on both servers at once.
fn run(peer: &mut Client, subject: &mut Client, group: &[(usize, &Command)]) -> (Vec<Value>, Vec<Value>) {
    if let [(_, command)] = group
        && rule_of(command) == Rule::Scan
    {
        return (vec![scan_all(peer, command)], vec![scan_all(subject, command)]);
    }
    peer.send(group.iter().map(|(_, command)| *command));
    subject.send(group.iter().map(|(_, command)| *command));
    let receive = |client: &mut Client| {
        group.iter().map(|_| client.receive().unwrap_or_else(|error| Value::Lost(error.to_string()))).collect()
    };
    (receive(peer), receive(subject))
}

/// Follows a SCAN from its cursor to the end: the keys without order and repetitions, or the reply that was no page.
fn scan_all(client: &mut Client, scan: &Command) -> Value {
    let mut scan = scan.clone();
    let mut keys = Vec::new();
    for _ in 0..SCAN_CALLS_MAX {
        let reply = match client.call(&scan) {
            Ok(reply) => reply,
            Err(error) => return Value::Lost(error.to_string()),
        };
        let (cursor, page) = match reply.elements() {
            Some([Value::Bulk(cursor), Value::Array(page)]) => (cursor.clone(), page),
            _ => return reply,
        };
        keys.extend_from_slice(page);
        if cursor == b"0" {
            keys.sort();
            keys.dedup();
            return Value::Array(keys);
        }
        scan[1] = cursor;
    }
    Value::Lost(format!("the iteration did not end in {SCAN_CALLS_MAX} calls"))
}

/// A new connection to a server that lives and is empty.
fn fresh_client(server: &mut Server, protocol: Protocol) -> Result<Client> {
    empty_client(server.addr, protocol).or_else(|_| {
        server.revive()?;
        empty_client(server.addr, protocol)
    })
}

fn empty_client(addr: SocketAddr, protocol: Protocol) -> Result<Client> {
    let mut client = Client::connect(addr)?;
    let hello = match protocol {
        Protocol::Resp2 => "HELLO 2",
        Protocol::Resp3 => "HELLO 3",
    };
    for line in [hello, "FLUSHALL"].into_iter().chain(CLEAN) {
        let reply = client.call(&command(line))?;
        if reply.is_error() {
            return Err(Error::other(format!("the server at {addr} answers {line}: {reply}")));
        }
    }
    Ok(client)
}
