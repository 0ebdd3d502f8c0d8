//! One client of random commands: a connection that is opened again where the server closes it.
//!
//! A connection that receives messages gets replies that answer nothing. There a PING with a word of its own follows
//! each command, and its echo ends the replies.

use super::command_maker::{Vocabulary, Words};
use super::fuzz_log::FuzzLog;
use super::fuzz_options::{FuzzLevel, FuzzMode};
use super::{Tally, place, spoiler};
use crate::options::Options;
use crate::setup;
use crate::setup::server_link::{LinkError, ServerLink};
use fastrand::Rng;
use resp::Value;
use std::io::ErrorKind;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// End of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Ended,
    Failed,
}

/// Time after which a reply counts as missing.
const PATIENCE: Duration = Duration::from_secs(15);
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Errors that a client keeps for its summary.
const ERRORS_KEPT: usize = 100;
/// Bytes of a reply, and of a word of a command, that are shown.
const REPLY_SHOWN: usize = 100;
const WORD_SHOWN: usize = 50;
const ECHO: &[u8] = b"end-of-replies";

/// See the module's documentation.
pub struct FuzzClient<'r> {
    options: &'r Options,
    vocabulary: &'r Vocabulary,
    tally: &'r Tally,
    log: FuzzLog,
    /// Its number, from 1.
    number: usize,
    rng: Rng,
    /// Messages may arrive.
    is_subscribed: bool,
    is_queueing: bool,
    errors: u64,
    latest_errors: Vec<(String, String)>,
}

impl<'r> FuzzClient<'r> {
    pub fn new(
        options: &'r Options,
        vocabulary: &'r Vocabulary,
        tally: &'r Tally,
        log: FuzzLog,
        number: usize,
        seed: u64,
    ) -> FuzzClient<'r> {
        FuzzClient {
            options,
            vocabulary,
            tally,
            log,
            number: number + 1,
            rng: Rng::with_seed(seed.wrapping_add(number as u64)),
            is_subscribed: false,
            is_queueing: false,
            errors: 0,
            latest_errors: Vec::new(),
        }
    }

    /// Sends so many commands.
    pub fn run(mut self, commands: u64) -> Outcome {
        let (log, number) = (self.log, self.number);
        log.debug(format_args!("[thread {number}] Connecting to {}...", place(self.options)));
        let Some(mut link) = self.connect() else { return Outcome::Failed };
        log.debug(format_args!("[Thread {number}] Connected successfully"));
        log.debug(format_args!("[Thread {number}] Starting fuzzing session (max {commands} commands)..."));
        let mut outcome = Outcome::Ended;
        for _ in 0..commands {
            if self.tally.is_over.load(Relaxed) {
                break;
            }
            let words = self.next_command();
            if let Err(failure) = self.exchange(&mut link, &words) {
                match self.recover(failure, &words) {
                    Some(anew) => link = anew,
                    None => {
                        let is_over = self.tally.is_over.load(Relaxed);
                        outcome = if is_over { Outcome::Ended } else { Outcome::Failed };
                        break;
                    }
                }
            }
        }
        self.summarize();
        outcome
    }

    fn next_command(&mut self) -> Words {
        if self.is_subscribed {
            return self.vocabulary.command_while_subscribed(&mut self.rng);
        }
        loop {
            let mut words = self.vocabulary.command(&mut self.rng);
            if self.options.fuzz.modes.contains(&FuzzMode::Malformed) {
                spoiler::spoil(&mut words, &mut self.rng);
            }
            // Messages among the replies of a transaction would belong to no command.
            if !(self.is_queueing && name_of(&words).ends_with("SUBSCRIBE")) {
                return words;
            }
        }
    }

    /// Opens a connection and greets.
    fn connect(&mut self) -> Option<ServerLink> {
        let (log, number) = (self.log, self.number);
        let nodes = setup::servers(self.options);
        let node = &nodes[number % nodes.len()];
        let opened = setup::encryption(node).and_then(|encryption| {
            ServerLink::open(node, encryption, Some(PATIENCE)).map_err(|error| setup::reason(&error))
        });
        let greeted = opened.and_then(|mut link| {
            let greeting = setup::greeting(node, false);
            link.send(&greeting).map_err(|error| setup::reason(&error))?;
            for _ in &greeting {
                link.receive().map_err(|_| "Server closed the connection".to_owned())?;
            }
            Ok(link)
        });
        (self.is_subscribed, self.is_queueing) = (false, false);
        greeted.inspect_err(|error| log.error(format_args!("[Thread {number}] Connection error: {error}"))).ok()
    }

    fn reconnect(&mut self) -> Option<ServerLink> {
        let (log, number) = (self.log, self.number);
        let address = place(self.options);
        log.debug(format_args!("[Thread {number}] Attempting to reconnect to {address} with backoff..."));
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=ATTEMPTS {
            if let Some(link) = self.connect() {
                log.debug(format_args!("[Thread {number}] Successfully reconnected after {attempt} attempts"));
                return Some(link);
            }
            log.info(format_args!(
                "[Thread {number}] Reconnection attempt {attempt} failed, retrying in {} ms...",
                pause.as_millis()
            ));
            thread::sleep(pause);
            pause *= 2;
        }
        log.error(format_args!("[Thread {number}] Failed to reconnect after {ATTEMPTS} attempts"));
        None
    }

    /// Sends a command, reads its reply and counts it.
    fn exchange(&mut self, link: &mut ServerLink, words: &Words) -> Result<(), LinkError> {
        if self.log.shows(FuzzLevel::Debug) {
            self.log.debug(format_args!("send Command: {} ", shown(words)));
        }
        let name = name_of(words);
        let begun = Instant::now();
        self.tally.sent.fetch_add(1, Relaxed);
        let subscribes = name.ends_with("SUBSCRIBE");
        let reply = if self.is_subscribed || subscribes {
            self.exchange_with_echo(link, words, begun)?
        } else {
            link.send([words]).map_err(LinkError::Io)?;
            receive(link, begun)?
        };
        match (name.as_str(), &reply) {
            (_, Value::Error(_)) if name != "EXEC" => {}
            ("MULTI", _) => self.is_queueing = true,
            ("EXEC" | "DISCARD", _) => self.is_queueing = false,
            ("RESET", _) => (self.is_queueing, self.is_subscribed) = (false, false),
            _ if subscribes && !self.is_queueing => self.is_subscribed = true,
            _ => {}
        }
        self.count(words, &name, &reply);
        Ok(())
    }

    /// Sends a command and a PING, and reads replies up to the latter's: no other ends with its word.
    fn exchange_with_echo(&mut self, link: &mut ServerLink, words: &Words, begun: Instant) -> Result<Value, LinkError> {
        let echo = vec![b"PING".to_vec(), ECHO.to_vec()];
        link.send([words, &echo]).map_err(LinkError::Io)?;
        let mut first = None;
        loop {
            let reply = receive(link, begun)?;
            match &reply {
                // Out of the mode that has messages only, the echo stands alone.
                Value::Bulk(word) if word == ECHO => {
                    self.is_subscribed = false;
                    return Ok(first.unwrap_or(Value::Null));
                }
                Value::Array(items) if items.last().is_some_and(|word| *word == Value::Bulk(ECHO.to_vec())) => {
                    self.is_subscribed = true;
                    return Ok(first.unwrap_or(Value::Null));
                }
                _ => _ = first.get_or_insert(reply),
            }
        }
    }

    fn count(&mut self, words: &Words, name: &str, reply: &Value) {
        if self.log.shows(FuzzLevel::Debug) {
            self.log.debug(format_args!("{name}: -> {}", described(reply)));
        }
        let text = match reply {
            Value::Error(text) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        };
        if !(text.contains("syntax error") || text.contains("wrong number of arguments")) {
            self.tally.succeeded.fetch_add(1, Relaxed);
            return;
        }
        self.tally.failed.fetch_add(1, Relaxed);
        self.errors += 1;
        if self.latest_errors.len() == ERRORS_KEPT {
            self.latest_errors.remove(0);
        }
        self.latest_errors.push((text, shown(words)));
    }

    /// Returns another connection, or None if the client cannot continue.
    fn recover(&mut self, failure: LinkError, words: &Words) -> Option<ServerLink> {
        let (log, number) = (self.log, self.number);
        match failure {
            LinkError::Protocol(error) => {
                self.tally.malformed.fetch_add(1, Relaxed);
                self.tally.is_over.store(true, Relaxed);
                log.error(format_args!("[Thread {number}] CRITICAL ERROR - MALFORMED REPLY DETECTED"));
                log.error(format_args!("[Thread {number}] Error: {error}"));
                log.error(format_args!("[Thread {number}] Command that caused malformed reply: {}", shown(words)));
                log.error(format_args!("[Thread {number}] ABORTING ALL THREADS due to malformed reply"));
                None
            }
            LinkError::Io(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let seconds = PATIENCE.as_secs();
                log.error(format_args!(
                    "[Thread {number}] TIMEOUT: Command timed out after {seconds}.0 seconds (max {seconds} seconds) - \
                     Command: {}",
                    shown(words)
                ));
                log.error(format_args!("[Thread {number}] ABORTING THREAD due to timeout"));
                log.error(format_args!("[Thread {number}] Thread aborted due to timeout error"));
                None
            }
            // A command that ends its connection has no reply.
            LinkError::Io(_) | LinkError::Closed => {
                self.tally.succeeded.fetch_add(1, Relaxed);
                self.reconnect()
            }
        }
    }

    fn summarize(&self) {
        let (log, number, kept) = (self.log, self.number, self.latest_errors.len());
        if kept == 0 || !log.shows(FuzzLevel::Debug) {
            return;
        }
        log.error(format_args!("[Thread {number}] === ERROR SUMMARY ==="));
        log.error(format_args!("[Thread {number}] Total errors: {}", self.errors));
        if self.errors > kept as u64 {
            log.error(format_args!("[Thread {number}] Showing last {kept} errors:"));
        }
        for (position, (text, command)) in self.latest_errors.iter().enumerate() {
            log.error(format_args!("[Thread {number}] Error {}: Command error: {text}", position + 1));
            log.error(format_args!("[Thread {number}]   Command: {command}"));
        }
        log.error(format_args!("[Thread {number}] === END ERROR SUMMARY ==="));
    }
}

/// Returns the next reply; messages that belong to no command are skipped.
fn receive(link: &mut ServerLink, begun: Instant) -> Result<Value, LinkError> {
    loop {
        let value = link.receive()?;
        if !matches!(value, Value::Push(_)) {
            return Ok(value);
        }
        // Messages do not prolong a wait.
        if begun.elapsed() > PATIENCE {
            return Err(LinkError::Io(ErrorKind::TimedOut.into()));
        }
    }
}

fn name_of(words: &Words) -> String {
    words.first().map(|word| String::from_utf8_lossy(word).to_uppercase()).unwrap_or_default()
}

/// Returns a command for people.
fn shown(words: &Words) -> String {
    let word = |word: &Vec<u8>| match word.as_slice() {
        b"" => "\"\"".to_owned(),
        long if long.len() > WORD_SHOWN => String::from_utf8_lossy(&long[..WORD_SHOWN]).into_owned() + "...",
        word => String::from_utf8_lossy(word).into_owned(),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn described(reply: &Value) -> String {
    let cut = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(REPLY_SHOWN)]).into_owned();
    match reply {
        Value::Null => "(nil)".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Simple(text) | Value::Error(text) | Value::Bulk(text) | Value::Verbatim(_, text) => cut(text),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => format!("(array of {} elements)", items.len()),
        Value::Map(pairs) => format!("(map of {} elements)", pairs.len()),
        Value::Bool(truth) => truth.to_string(),
        Value::Double(text) | Value::BigNumber(text) => text.clone(),
        Value::Attribute(_, value) => described(value),
    }
}
