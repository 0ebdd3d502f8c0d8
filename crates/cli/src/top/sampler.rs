//! A thread that asks the server, so that keys are answered while a reply is pending.
//!
//! Each order has one outcome; a byte on a socket pair wakes the loop that polls. A lost connection is restored at the
//! next order.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

use resp::Value;

use super::server_sample::{QUESTIONS, ServerSample};
use crate::options::Options;
use crate::protocol_client::ClientFailure;
use crate::resp_session::RespSession;

/// An order to the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Sample,
    StartHotKeys,
    /// Ends the tracking that was started, and discards its result.
    StopHotKeys,
}

/// Outcome of an order.
#[derive(Debug)]
pub enum Outcome {
    Sampled(Box<ServerSample>),
    /// Tracking of hot keys began, or ended.
    Tracking(bool),
    Failed(String),
}

#[derive(Debug)]
pub struct Sampler {
    orders: Sender<Order>,
    outcomes: Receiver<Outcome>,
    wake: UnixStream,
}

const START: &[&[&str]] = &[&["HOTKEYS", "START", "METRICS", "2", "CPU", "NET", "COUNT", "32"]];
const STOP: &[&[&str]] = &[&["HOTKEYS", "STOP"], &["HOTKEYS", "RESET"]];

impl Sampler {
    /// Starts the thread, which owns the session from then on.
    pub fn start(session: RespSession) -> std::io::Result<Sampler> {
        let (orders, taken) = mpsc::channel();
        let (done, outcomes) = mpsc::channel();
        let (wake, mut waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let options = session.options().clone();
        thread::spawn(move || {
            let (mut session, start) = (Some(session), Instant::now());
            for order in taken {
                let outcome = carried_out(&mut session, &options, order, start).unwrap_or_else(|failure| {
                    session = None;
                    Outcome::Failed(failure.to_string())
                });
                // The program ends: nothing waits for the outcome.
                if done.send(outcome).is_err() || waker.write_all(&[1]).is_err() {
                    return;
                }
            }
        });
        Ok(Sampler { orders, outcomes, wake })
    }

    pub fn order(&self, order: Order) {
        // A thread that has ended has reported why.
        let _ = self.orders.send(order);
    }

    /// Returns a descriptor that is readable when there are outcomes.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Returns the outcomes that are there.
    pub fn outcomes(&mut self) -> Vec<Outcome> {
        let mut bytes = [0; 64];
        while matches!(std::io::Read::read(&mut self.wake, &mut bytes), Ok(count) if count > 0) {}
        self.outcomes.try_iter().collect()
    }

    /// Returns the next outcome, if it arrives within so much time.
    pub fn wait(&self, time: std::time::Duration) -> Option<Outcome> {
        self.outcomes.recv_timeout(time).ok()
    }
}

fn carried_out(
    session: &mut Option<RespSession>,
    options: &Options,
    order: Order,
    start: Instant,
) -> Result<Outcome, ClientFailure> {
    let connected = match session {
        Some(session) => session,
        None => session.insert(RespSession::open(options.clone())?),
    };
    let questions = match order {
        Order::Sample => &QUESTIONS[..],
        Order::StartHotKeys => START,
        Order::StopHotKeys => STOP,
    };
    let commands = questions.iter().map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect());
    let replies = connected.ask_all(&commands.collect::<Vec<_>>())?;
    let refused = replies.first().and_then(|reply| match reply {
        Value::Error(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    });
    Ok(match (order, refused) {
        (Order::Sample, _) => match ServerSample::read(start.elapsed(), &replies) {
            Some(sample) => Outcome::Sampled(Box::new(sample)),
            None => Outcome::Failed(format!("INFO: {}", refused_or_odd(&replies))),
        },
        (_, Some(text)) => Outcome::Failed(format!("HOTKEYS: {text}")),
        (Order::StartHotKeys, None) => Outcome::Tracking(true),
        (Order::StopHotKeys, None) => Outcome::Tracking(false),
    })
}

fn refused_or_odd(replies: &[Value]) -> String {
    match replies.first() {
        Some(Value::Error(text)) => String::from_utf8_lossy(text).into_owned(),
        _ => "an unexpected reply".to_owned(),
    }
}
