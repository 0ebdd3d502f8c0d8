//! A RESP session: a connection with its state on the server.
//!
//! A new connection is greeted with AUTH, SELECT and HELLO as the options ask. A refusal is printed and the connection
//! kept, so that the user sees the server's answer to the command itself as well.
//!
//! The replies to some commands change the session, and the prompt shows it: SELECT (database), MULTI, EXEC and
//! DISCARD (transaction), SUBSCRIBE and the like (messages may arrive at any time), HELLO and RESET (protocol).

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Duration;

use resp::reply_value::Decoder;
use resp::{Value, encode_command};

use crate::options::{Options, Resp};
use crate::protocol_client::{Client, ClientFailure};
use crate::redirect::{REDIRECTIONS_MAX, Redirect};
use crate::reply_format::{self, OutputFormat};
use crate::transport::{Interrupts, Transport, TransportEvent, has_colors, print, reason};
use resp::address::Target;

/// Time between two attempts to restore a lost connection.
const RECONNECT_EVERY: Duration = Duration::from_secs(1);

/// Treatment of push messages that arrive before a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pushes {
    /// They are not the reply: they are printed or dropped, as the options say.
    Aside,
    /// They are the replies that are waited for.
    AreReplies,
}

/// Channels that the server says this connection is subscribed to. Shard channels are counted apart.
#[derive(Debug, Default)]
struct Subscriptions {
    channels: i64,
    shard_channels: i64,
}

#[derive(Debug)]
pub struct RespSession {
    options: Options,
    link: Option<Transport>,
    /// Bytes received and not yet decoded.
    received: Vec<u8>,
    decoder: Decoder,
    /// Present when a person can press Ctrl-C and continue.
    interrupts: Option<Interrupts>,
    /// The database of the current connection.
    database: i64,
    /// The database that a new connection selects.
    wanted_database: i64,
    /// In a transaction: the database before it.
    transaction: Option<i64>,
    resp3: bool,
    subscriptions: Subscriptions,
    /// Whether MONITOR runs: values that arrive are its lines.
    monitoring: bool,
    /// Whether SHUTDOWN was sent: the end of the connection is its success.
    shutting_down: bool,
}

impl RespSession {
    pub fn new(options: Options, interrupts: Option<Interrupts>) -> RespSession {
        RespSession {
            link: None,
            received: Vec::new(),
            decoder: Decoder::new(),
            interrupts,
            database: 0,
            wanted_database: options.database,
            transaction: None,
            resp3: false,
            subscriptions: Subscriptions::default(),
            monitoring: false,
            shutting_down: false,
            options,
        }
    }

    /// Greets a new connection; the inner error is the server's refusal, in its words.
    fn greet(&mut self) -> Result<Result<(), String>, ClientFailure> {
        if let Some(password) = self.options.password.clone() {
            let mut auth = vec![b"AUTH".to_vec()];
            auth.extend(self.options.user.clone());
            auth.push(password);
            if let Value::Error(text) = self.ask(&auth)? {
                return Ok(Err(format!("AUTH failed: {}", String::from_utf8_lossy(&text))));
            }
        }
        if let Err(refusal) = self.select_wanted()? {
            return Ok(Err(refusal));
        }
        if matches!(self.options.resp, Resp::Three | Resp::ThreeIfOffered) {
            if let Value::Error(text) = self.ask(&[b"HELLO".to_vec(), b"3".to_vec()])? {
                return Ok(Err(format!("HELLO 3 failed: {}", String::from_utf8_lossy(&text))));
            }
            self.resp3 = true;
        }
        Ok(Ok(()))
    }

    fn select_wanted(&mut self) -> Result<Result<(), String>, ClientFailure> {
        if self.database == self.wanted_database {
            return Ok(Ok(()));
        }
        let number = self.wanted_database.to_string();
        if let Value::Error(text) = self.ask(&[b"SELECT".to_vec(), number.clone().into_bytes()])? {
            return Ok(Err(format!("SELECT {number} failed: {}", String::from_utf8_lossy(&text))));
        }
        self.database = self.wanted_database;
        Ok(Ok(()))
    }

    /// Returns a session that is connected, and greeted as the options ask: a mode that works without a person stops at
    /// a refusal.
    pub fn open(options: Options) -> Result<RespSession, ClientFailure> {
        let mut session = RespSession::new(options, None);
        session.connect_and_greet()?.map_err(ClientFailure::ErrorReply)?;
        Ok(session)
    }

    fn connect_and_greet(&mut self) -> Result<Result<(), String>, ClientFailure> {
        self.forget();
        self.link = Some(Transport::connect(&self.options).map_err(|error| self.could_not_connect(&error))?);
        let greeted = self.greet();
        if greeted.is_err() {
            self.forget();
        }
        greeted
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the connection itself, for a caller that uses it without this session from then on.
    pub fn into_link(self) -> Option<Transport> {
        self.link
    }

    /// Sends a command and returns its reply, errors also.
    pub fn ask(&mut self, arguments: &[impl AsRef<[u8]>]) -> Result<Value, ClientFailure> {
        self.send(arguments)?;
        self.receive(Pushes::Aside)
    }

    /// Does the same, but restores a lost connection, however long that takes; a line says so meanwhile.
    pub fn ask_patiently(&mut self, arguments: &[impl AsRef<[u8]>]) -> Result<Value, ClientFailure> {
        let mut tries = 0;
        loop {
            let reply = self.ask(arguments);
            if !matches!(reply, Err(ClientFailure::Lost(_))) {
                if tries > 0 {
                    print(b"\r\x1b[0K");
                }
                return reply;
            }
            tries += 1;
            print(format!("\r\x1b[0KReconnecting... {tries}\r").as_bytes());
            // Without a connection the next attempt to ask fails, and the loop continues.
            let _ = self.connect(None);
            thread::sleep(RECONNECT_EVERY);
        }
    }

    /// Returns the next reply to a command sent before.
    pub fn next_reply(&mut self) -> Result<Value, ClientFailure> {
        self.receive(Pushes::Aside)
    }

    /// Sends all commands at once and returns their replies.
    pub fn ask_all(&mut self, commands: &[Vec<Vec<u8>>]) -> Result<Vec<Value>, ClientFailure> {
        let mut bytes = Vec::new();
        for command in commands {
            encode_command(&mut bytes, command);
        }
        let link = self.link.as_mut().ok_or_else(closed)?;
        link.send(&bytes).map_err(|error| ClientFailure::Lost(reason(&error)))?;
        commands.iter().map(|_| self.receive(Pushes::Aside)).collect()
    }

    /// Returns the reply to a command that the user did not type; none if it cannot be sent now, or is refused.
    fn ask_aside(&mut self, arguments: &[&str]) -> Option<Value> {
        if self.link.is_none() || self.subscriptions.any() || self.transaction.is_some() {
            return None;
        }
        match self.ask(arguments) {
            Ok(reply) => Some(reply).filter(|reply| !matches!(reply, Value::Error(_))),
            Err(_) => {
                self.forget();
                None
            }
        }
    }

    fn send(&mut self, arguments: &[impl AsRef<[u8]>]) -> Result<(), ClientFailure> {
        let mut bytes = Vec::new();
        encode_command(&mut bytes, arguments);
        let link = self.link.as_mut().ok_or_else(closed)?;
        link.send(&bytes).map_err(|error| ClientFailure::Lost(reason(&error)))
    }

    /// Returns the next value that is waited for.
    fn receive(&mut self, pushes: Pushes) -> Result<Value, ClientFailure> {
        loop {
            match self.decode()? {
                Some(value @ Value::Push(_)) if pushes == Pushes::Aside => {
                    if self.options.show_pushes {
                        print(&reply_format::push(&value, &self.options));
                    }
                }
                Some(value) => return Ok(value),
                None => self.fill()?,
            }
        }
    }

    fn decode(&mut self) -> Result<Option<Value>, ClientFailure> {
        match self.decoder.decode(&self.received) {
            Ok(Some((value, length))) => {
                self.received.drain(..length);
                Ok(Some(value))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(ClientFailure::Lost(error.to_string())),
        }
    }

    fn fill(&mut self) -> Result<(), ClientFailure> {
        let link = self.link.as_mut().ok_or_else(closed)?;
        let lost = |error: std::io::Error| ClientFailure::Lost(reason(&error));
        if link.wait(self.interrupts.as_mut(), None).map_err(lost)? == TransportEvent::Interrupt {
            return Err(ClientFailure::Interrupted);
        }
        match link.receive(&mut self.received).map_err(lost)? {
            0 => Err(closed()),
            _ => Ok(()),
        }
    }

    fn run_connected(&mut self, command: &Command<'_>, repeat: i64) -> Result<(), ClientFailure> {
        let mut done = 0;
        while repeat < 0 || done < repeat {
            done = done.saturating_add(1);
            self.send(command.arguments)?;
            if command.is("monitor") {
                return self.monitor();
            }
            let reply = self.receive_and_print(command)?;
            let reply = self.follow(command, reply)?;
            self.note(command, &reply)?;
            thread::sleep(self.options.interval);
        }
        Ok(())
    }

    /// Prints the replies to the command, and messages that arrive before them. Returns the last.
    fn receive_and_print(&mut self, command: &Command<'_>) -> Result<Value, ClientFailure> {
        let mut confirmations = command.confirmations();
        loop {
            let awaits_pushes = confirmations > 0 || self.is_subscribed();
            let value = self.receive(if awaits_pushes { Pushes::AreReplies } else { Pushes::Aside })?;
            if self.redirect(&value).is_some() {
                return Ok(value);
            }
            self.print_reply(&value, command.is_text() && self.transaction.is_none())?;
            if !awaits_pushes {
                return Ok(value);
            }
            match pubsub_message(&value, self.resp3) {
                Some((kind, count)) => {
                    self.subscriptions.note(kind, count);
                    if confirmations == 0 || !kind.eq_ignore_ascii_case(command.name()) {
                        continue;
                    }
                    confirmations -= 1;
                    if confirmations == 0 {
                        return Ok(value);
                    }
                }
                None if matches!(value, Value::Push(_)) => {}
                None => return Ok(value),
            }
        }
    }

    /// Follows a redirection: sends the command to the node that the reply names, if it names one.
    fn follow(&mut self, command: &Command<'_>, mut reply: Value) -> Result<Value, ClientFailure> {
        for _ in 0..REDIRECTIONS_MAX {
            let Some(redirect) = self.redirect(&reply) else { break };
            let host = redirect.host.or_else(|| match &self.options.target {
                Target::Tcp { host, .. } => Some(host.clone()),
                Target::Unix(_) => None,
            });
            let target = Target::Tcp { host: host.unwrap_or_else(|| "127.0.0.1".to_owned()), port: redirect.port };
            if self.interrupts.is_some() {
                print(format!("-> Redirected to slot [{}] located at {target}\n", redirect.slot).as_bytes());
            }
            self.options.target = target;
            if let Err(refusal) = self.connect_and_greet()? {
                // In another database, or as another user, the command would have another effect.
                eprintln!("{refusal}");
                return Err(ClientFailure::Lost(String::new()));
            }
            if redirect.asking {
                self.ask(&["ASKING"])?;
            }
            self.send(command.arguments)?;
            reply = self.receive_and_print(command)?;
        }
        if self.redirect(&reply).is_some() {
            self.print_reply(&reply, false)?;
        }
        Ok(reply)
    }

    fn redirect(&self, reply: &Value) -> Option<Redirect> {
        Redirect::of(reply).filter(|_| self.options.follow_redirects)
    }

    fn monitor(&mut self) -> Result<(), ClientFailure> {
        self.monitoring = true;
        loop {
            let value = self.receive(Pushes::Aside)?;
            self.print_reply(&value, false)?;
            if matches!(value, Value::Error(_)) {
                self.monitoring = false;
                return Ok(());
            }
        }
    }

    fn print_reply(&self, value: &Value, is_text: bool) -> Result<(), ClientFailure> {
        if let Value::Error(text) = value
            && self.options.errors_are_fatal
            && self.interrupts.is_none()
        {
            return Err(ClientFailure::ErrorReply(String::from_utf8_lossy(text).into_owned()));
        }
        if is_text {
            let mut out = Vec::new();
            reply_format::raw(&mut out, value, &self.options.element_delimiter);
            print(&out);
        } else {
            print(&reply_format::reply(value, &self.options));
        }
        Ok(())
    }

    /// Records how the reply changed the server's side of the session.
    fn note(&mut self, command: &Command<'_>, reply: &Value) -> Result<(), ClientFailure> {
        let refused = matches!(reply, Value::Error(_));
        let count = command.arguments.len();
        match (command.lower_name().as_str(), count) {
            ("select", 2) if !refused => {
                let number = String::from_utf8_lossy(&command.arguments[1]);
                self.move_to_database(number.trim().parse().unwrap_or(0));
            }
            ("auth", 2 | 3) => {
                if let Err(refusal) = self.select_wanted()? {
                    eprintln!("{refusal}");
                }
            }
            ("multi", 1) if !refused => self.transaction = Some(self.database),
            ("exec", 1) => {
                if let Some(before) = self.transaction.take()
                    && matches!(reply, Value::Error(_) | Value::Null)
                {
                    self.move_to_database(before);
                }
            }
            ("discard", 1) if !refused => {
                if let Some(before) = self.transaction.take() {
                    self.move_to_database(before);
                }
            }
            ("reset", 1) if !refused => {
                self.transaction = None;
                self.move_to_database(0);
                self.resp3 = false;
                self.subscriptions = Subscriptions::default();
            }
            ("hello", _) => match reply {
                Value::Map(_) => self.resp3 = true,
                Value::Array(_) => self.resp3 = false,
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }

    fn move_to_database(&mut self, number: i64) {
        self.database = number;
        self.wanted_database = number;
    }

    /// Drops the connection and its state on the server.
    fn forget(&mut self) {
        self.link = None;
        self.received.clear();
        self.decoder = Decoder::new();
        self.database = 0;
        self.transaction = None;
        self.resp3 = false;
        self.subscriptions = Subscriptions::default();
        self.monitoring = false;
    }

    fn could_not_connect(&self, error: &std::io::Error) -> ClientFailure {
        ClientFailure::Connect(format!("Could not connect to server at {}: {}", self.options.target, reason(error)))
    }

    /// Prints how to leave the stream of messages while none arrives.
    fn wait_for_message_or_input(&mut self, input: BorrowedFd<'_>) -> Result<TransportEvent, ClientFailure> {
        let on_terminal = self.options.output != OutputFormat::Raw && self.options.for_people;
        let in_color = on_terminal && has_colors();
        if on_terminal {
            let (bold, plain) = if in_color { ("\x1b[1;90m", "\x1b[0m") } else { ("", "") };
            print(
                format!("{bold}Reading messages... (press Ctrl-C to quit or any key to type command)\r{plain}")
                    .as_bytes(),
            );
        }
        let link = self.link.as_ref().ok_or_else(closed)?;
        let event = link.wait(self.interrupts.as_mut(), Some(input));
        if on_terminal {
            print(b"\x1b[K");
        }
        event.map_err(|error| ClientFailure::Lost(reason(&error)))
    }
}

impl Client for RespSession {
    /// Returns `127.0.0.1:6379[1](TX)> `: the database unless it is 0, and the state if there is any.
    fn prompt(&self) -> String {
        if self.link.is_none() {
            return "not connected> ".to_owned();
        }
        let mut prompt = match &self.options.target {
            Target::Unix(path) => format!("cinnabar {path}"),
            tcp => tcp.to_string(),
        };
        if self.database != 0 {
            prompt.push_str(&format!("[{}]", self.database));
        }
        if self.transaction.is_some() {
            prompt.push_str("(TX)");
        }
        if self.is_subscribed() {
            prompt.push_str("(subscribed mode)");
        }
        prompt + "> "
    }

    fn connect(&mut self, target: Option<Target>) -> Result<(), ClientFailure> {
        if let Some(target) = target {
            self.options.target = target;
        }
        if let Err(refusal) = self.connect_and_greet()? {
            eprintln!("{refusal}");
        }
        Ok(())
    }

    fn run(&mut self, arguments: &[Vec<u8>], repeat: i64) -> Result<(), ClientFailure> {
        if self.link.is_none() {
            self.connect(None)?;
        }
        let command = Command { arguments };
        self.shutting_down |= command.is("shutdown");
        match self.run_connected(&command, repeat) {
            Err(ClientFailure::Interrupted) if self.monitoring || self.is_subscribed() => self.connect(None),
            Err(ClientFailure::Lost(_)) if self.shutting_down => {
                self.forget();
                Ok(())
            }
            Err(failure) => {
                self.forget();
                Err(failure)
            }
            Ok(()) => Ok(()),
        }
    }

    fn command_docs(&mut self) -> Option<Value> {
        self.ask_aside(&["COMMAND", "DOCS"])
    }

    fn command_table(&mut self) -> Option<Value> {
        self.ask_aside(&["COMMAND"])
    }

    fn is_subscribed(&self) -> bool {
        self.subscriptions.any()
    }

    fn resp_session(&mut self) -> Option<&mut RespSession> {
        Some(self)
    }

    fn print_messages(&mut self, input: Option<BorrowedFd<'_>>) -> Result<(), ClientFailure> {
        while self.is_subscribed() {
            if let Some(value) = self.decode()? {
                print(&reply_format::reply(&value, &self.options));
                if let Some((kind, count)) = pubsub_message(&value, self.resp3) {
                    self.subscriptions.note(kind, count);
                }
                continue;
            }
            let event = match input {
                Some(input) => self.wait_for_message_or_input(input)?,
                None => TransportEvent::Server,
            };
            match event {
                TransportEvent::Server => self.fill()?,
                TransportEvent::Input => return Ok(()),
                TransportEvent::Interrupt => {
                    print(b"Closing current connection. Ready to reconnect to Cinnabar server... \n");
                    return self.connect(None);
                }
            }
        }
        Ok(())
    }
}

impl Subscriptions {
    fn any(&self) -> bool {
        self.channels.saturating_add(self.shard_channels) > 0
    }

    fn note(&mut self, kind: &[u8], count: i64) {
        match kind {
            b"subscribe" | b"psubscribe" | b"unsubscribe" | b"punsubscribe" => self.channels = count,
            b"ssubscribe" | b"sunsubscribe" => self.shard_channels = count,
            _ => {}
        }
    }
}

/// Returns kind and count of a message about subscriptions, or of one sent to a channel (whose third item is no count).
fn pubsub_message(value: &Value, resp3: bool) -> Option<(&[u8], i64)> {
    let items = match value {
        Value::Push(items) if resp3 => items,
        Value::Array(items) if !resp3 => items,
        _ => return None,
    };
    let [Value::Bulk(kind), _, third, ..] = &items[..] else {
        return None;
    };
    let is_known = kind.ends_with(b"message") || kind.ends_with(b"subscribe");
    let count = if let Value::Int(count) = third { *count } else { 0 };
    is_known.then_some((kind, count))
}

fn closed() -> ClientFailure {
    ClientFailure::Lost("Server closed the connection".to_owned())
}

/// A command's words, and the kind of replies that its name implies.
struct Command<'a> {
    arguments: &'a [Vec<u8>],
}

impl Command<'_> {
    fn name(&self) -> &[u8] {
        self.arguments.first().map_or(b"", |name| name)
    }

    fn lower_name(&self) -> String {
        String::from_utf8_lossy(self.name()).to_ascii_lowercase()
    }

    fn is(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name.as_bytes())
    }

    /// Returns how many messages confirm the command: one a channel, because only messages answer it.
    fn confirmations(&self) -> usize {
        let names = ["subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe"];
        if names.iter().any(|name| self.is(name)) { self.arguments.len().saturating_sub(1).max(1) } else { 0 }
    }

    /// Returns whether the reply is text for people, in lines of its own, printed as it is in every format.
    fn is_text(&self) -> bool {
        let second = self.arguments.get(1).map(|word| String::from_utf8_lossy(word).to_ascii_lowercase());
        let second = second.as_deref().unwrap_or("");
        matches!(
            (self.lower_name().as_str(), second, self.arguments.len()),
            ("info" | "lolwut", ..)
                | ("debug", "htstats" | "htstats-key" | "client-eviction", _)
                | ("memory", "malloc-stats" | "doctor", _)
                | ("cluster", "nodes" | "info", 2)
                | ("client", "list" | "info", _)
                | ("latency", "graph", 3)
                | ("latency", "doctor", 2)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn some_replies_are_text() {
        for (line, expected) in [
            ("INFO", true),
            ("info server", true),
            ("client LIST", true),
            ("client id", false),
            ("cluster nodes", true),
            ("cluster nodes x", false),
            ("latency doctor", true),
            ("latency graph", false),
            ("get info", false),
        ] {
            assert_eq!(Command { arguments: &arguments(line) }.is_text(), expected, "{line}");
        }
    }

    #[test]
    fn every_channel_is_confirmed() {
        for (line, expected) in [("subscribe a b", 2), ("UNSUBSCRIBE", 1), ("publish a b", 0), ("ssubscribe a", 1)] {
            assert_eq!(Command { arguments: &arguments(line) }.confirmations(), expected, "{line}");
        }
    }

    #[test]
    fn messages_are_arrays_in_resp2_and_pushes_in_resp3() {
        let items = vec![Value::Bulk(b"subscribe".to_vec()), Value::Bulk(b"c".to_vec()), Value::Int(3)];
        let (array, push) = (Value::Array(items.clone()), Value::Push(items));
        assert_eq!(pubsub_message(&array, false), Some((&b"subscribe"[..], 3)));
        assert_eq!(pubsub_message(&push, true), Some((&b"subscribe"[..], 3)));
        assert_eq!(pubsub_message(&array, true), None);
        assert_eq!(pubsub_message(&push, false), None);
        assert_eq!(pubsub_message(&Value::Array(vec![Value::Bulk(b"message".to_vec())]), false), None);
    }
}
