//! A client without a server, for the tests of commands: one line in, one line out.

use crate::core::args::Args;
use crate::core::command::Command;
use crate::core::context::{Flow, Now, Work};
use crate::core::dispatch;
use crate::core::session::Session;
use engine::clients::waiters::{Delivery, Ticket};
use engine::config::{ApplyHooks, Config, ConfigCaller, Directive};
use engine::data::event_class::EventClass;
use engine::keyspace::caller::Caller;
use engine::propagation::effects::{EffectSink, Event, Garbage, Record};
use engine::testing::MemoryLog;
use engine::time::{UnixMs, UnixUs};
use engine::{Engine, Host, Options};
use resp::Reply;
use resp::reply_value::{Decoder, Value};
use std::sync::{Arc, Mutex};

/// Remembers events for the test.
#[derive(Default)]
struct Listener {
    events: Mutex<Vec<Event>>,
    delivered: Mutex<Vec<Vec<u8>>>,
}

impl Delivery for Listener {
    fn deliver(&self, _: &Arc<Ticket>, reply: Vec<u8>) {
        self.delivered.lock().expect("no test panics here").push(reply);
    }
}

impl EffectSink for Listener {
    fn free(&self, garbage: Vec<Garbage>) {
        drop(garbage);
    }

    fn events(&self, events: Vec<Event>) {
        self.events.lock().expect("no test panics here").extend(events);
    }
}

engine::host_defaults!(Listener: Clock, Memory, Files, Threads, Peers, Process, Log, Connections);

/// Hooks of directives that only change.
struct NoHooks;

impl ApplyHooks for NoHooks {
    fn apply(&self, _: Directive, _: &Config) -> Result<(), String> {
        Ok(())
    }

    fn change_dir(&self, path: &[u8]) -> Result<Vec<u8>, String> {
        Ok(path.to_vec())
    }
}

/// Sets a directive without a command.
pub fn configure(engine: &Engine, name: &str, value: &str) {
    let caller = ConfigCaller { local: true, loading: false };
    engine.config().set(&[(name.as_bytes(), value.as_bytes())], caller, &NoHooks).expect("a legal value");
}

/// A client of an engine of its own, with a clock that stands still until it is moved.
pub struct Client {
    engine: Arc<Engine>,
    session: Session,
    host: Arc<Listener>,
    now: Now,
}

impl Client {
    pub fn new() -> Client {
        crate::install(&[]);
        let host = Arc::new(Listener::default());
        let options = Options { shards: 8, databases: 16, hash_seed: 7, workers: 1, counts_slots: true };
        let engine = Arc::new(Engine::new(&options, Arc::clone(&host) as Arc<dyn Host>));
        let client =
            Client { engine, session: Session::local(), host, now: Now { unix_us: UnixUs(1_700_000_000_000_000) } };
        // There are no files.
        client.configure("save", "");
        client
    }

    /// Sets a directive without a command.
    pub fn configure(&self, name: &str, value: &str) {
        configure(&self.engine, name, value);
    }

    /// Creates a client that sees all events but those that reads cause.
    pub fn with_events() -> Client {
        let client = Client::new();
        client.engine.set_event_mask(!EventClass::KEY_MISS.0);
        client
    }

    /// Creates another client of the same engine.
    pub fn beside(&self) -> Client {
        Client {
            engine: Arc::clone(&self.engine),
            session: Session::local(),
            host: Arc::clone(&self.host),
            now: self.now,
        }
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn shared_engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    pub fn now(&self) -> Now {
        self.now
    }

    pub fn now_ms(&self) -> UnixMs {
        self.now.unix_ms()
    }

    /// Returns the engine's change log from now on.
    pub fn log(&self) -> MemoryLog {
        MemoryLog::of(&self.engine)
    }

    /// Lets time pass, in milliseconds.
    pub fn later(&mut self, ms: i64) -> &mut Client {
        self.now.unix_us.0 += ms * 1000;
        self
    }

    pub fn select(&mut self, db: u32) -> &mut Client {
        self.session.db = db;
        self
    }

    /// Runs a command of words without blanks (`""` is the empty word) and shows its reply: `+status`,
    /// `-error`, `:1`, `nil`, `[a b]`, strings as they are.
    pub fn run(&mut self, line: &str) -> String {
        show(&self.value(line))
    }

    /// Runs a command of words that may have blanks.
    pub fn run_words(&mut self, words: &[&str]) -> String {
        show(&self.value_of(words.iter().map(|word| word.as_bytes()).collect()))
    }

    /// Runs the records of a log once more, as a server does that starts.
    pub fn replay(&mut self, log: &MemoryLog) -> &mut Client {
        self.apply(log.take())
    }

    /// Runs commands of a log, each in its database.
    pub fn apply(&mut self, records: Vec<(u32, Record)>) -> &mut Client {
        let caller = std::mem::replace(&mut self.session.caller, Caller::Replay);
        for (db, record) in records {
            self.session.db = db;
            let mut args: Args<'_> = record.iter().map(Vec::as_slice).collect();
            dispatch::replay(&self.engine, &mut self.session, &mut args, self.now, &mut Reply::default());
        }
        self.session.caller = caller;
        self.select(0)
    }

    /// Returns the reply that [`run`](Self::run) shows, as a value.
    pub fn value(&mut self, line: &str) -> Value {
        let words = line.split(' ').map(|word| if word == "\"\"" { "" } else { word });
        self.value_of(words.map(str::as_bytes).collect())
    }

    /// Runs a command of words of any bytes, and returns its reply as a value.
    pub fn value_of(&mut self, mut args: Args<'_>) -> Value {
        let mut reply = Reply::default();
        dispatch::execute(&self.engine, &mut self.session, &mut args, self.now, &mut reply);
        decoded(reply)
    }

    /// Begins a chunked command.
    pub fn begin(&mut self, words: &[&str]) -> RunningCommand<'_> {
        let mut args: Args<'_> = words.iter().map(|word| word.as_bytes()).collect();
        let mut reply = Reply::default();
        let prepared = dispatch::prepare(&self.engine, &args);
        let command = prepared.entry().expect("a known command").command;
        match dispatch::run(&self.engine, &mut self.session, &prepared, &mut args, self.now, &mut reply) {
            Flow::More(work) => RunningCommand { client: self, command, work, reply },
            _ => panic!("{words:?} is no command of several pieces"),
        }
    }

    /// Runs a command that waits.
    pub fn begin_wait(&mut self, line: &str) -> Arc<Ticket> {
        let (mut args, mut reply): (Args<'_>, _) = (line.split(' ').map(str::as_bytes).collect(), Reply::default());
        let prepared = dispatch::prepare(&self.engine, &args);
        match dispatch::run(&self.engine, &mut self.session, &prepared, &mut args, self.now, &mut reply) {
            Flow::Wait(ticket) => ticket,
            _ => panic!("{line} does not wait"),
        }
    }

    /// Runs a command and compares the reply as [`run`](Self::run) shows it.
    #[track_caller]
    pub fn is(&mut self, line: &str, expected: &str) -> &mut Client {
        assert_eq!(self.run(line), expected, "{line}");
        self
    }

    /// Replies since the last call to commands that have waited.
    pub fn delivered(&self) -> Vec<String> {
        let delivered = std::mem::take(&mut *self.host.delivered.lock().expect("no test panics here"));
        delivered.into_iter().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
    }

    /// Events since the last call, as `database name key`.
    pub fn events(&self) -> Vec<String> {
        let events = std::mem::take(&mut *self.host.events.lock().expect("no test panics here"));
        let show = |event: &Event| format!("{} {} {}", event.db, event.name, String::from_utf8_lossy(&event.key));
        events.iter().map(show).collect()
    }
}

/// A chunked command, under way.
pub struct RunningCommand<'c> {
    client: &'c mut Client,
    command: &'static Command,
    work: Work,
    reply: Reply,
}

impl RunningCommand<'_> {
    /// Does one piece; true when it was the last.
    pub fn step(&mut self) -> bool {
        let Client { engine, session, now, .. } = &mut *self.client;
        dispatch::step(engine, session, self.command, &mut **self.work, *now, &mut self.reply)
    }

    /// Returns whether the client's connection is to end without a reply.
    pub fn is_cut_off(&self) -> bool {
        self.client.session.is_cut_off
    }

    /// Runs the command to its end and shows the reply.
    pub fn end(mut self) -> String {
        while !self.step() {}
        show(&decoded(self.reply))
    }
}

fn decoded(mut reply: Reply) -> Value {
    let bytes = reply.take();
    let (value, used) = Decoder::new().decode(&bytes).expect("a valid reply").expect("a whole reply");
    assert_eq!(used, bytes.len(), "one reply a command");
    value
}

fn show(value: &Value) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match value {
        Value::Simple(bytes) => format!("+{}", text(bytes)),
        Value::Error(bytes) => format!("-{}", text(bytes)),
        Value::Int(n) => format!(":{n}"),
        Value::Bulk(bytes) => text(bytes),
        Value::Null => "nil".into(),
        Value::Double(text) => format!(",{text}"),
        Value::Array(items) | Value::Set(items) => {
            format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(" "))
        }
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| format!("{}={}", show(key), show(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(" "))
        }
        other => format!("{other:?}"),
    }
}
