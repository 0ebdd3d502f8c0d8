//! cinnabar-bad-clients: the effect of a thousand misbehaving clients on an honest one.
//!
//! ```text
//!   honest   one GET at a time, a thousand a second: alone first, then in the crowd
//!   crowd    slow readers       ask for 100 KB values all the time, read 1 KiB ten times a second
//!            deaf               send commands as fast as the socket takes them, and never read
//!            floods             the same, and read
//!            half-open          send a command byte by byte, or stop in the middle; some hang up there
//!            garbage            random bytes, again and again
//!            slow commands      sort, search and compute for long, one command after the other
//!            counts             announce 2,000,000,000 arguments, or a million and send 1,000, or one of 100 GB
//! ```
//!
//! `--beside` names another server, which is to be idle: the honest client asks it in turn too, and its waiting there
//! is the machine's share, not the server's. A client that is disconnected reconnects at once. The crowd is one thread
//! of the lowest priority, because on real machines it would be elsewhere: it is to take the server's time, not the
//! honest client's. At the end the crowd hangs up, and the server's memory is watched until it is back at its start.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used)]

use mio::net::TcpStream as Crowded;
use mio::{Events, Interest, Poll, Token};
use resp::encode_command;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::iter;
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const USAGE: &str = "usage: cinnabar-bad-clients [--clients N] [--seconds N] [--beside HOST:PORT] HOST:PORT...\n\
                     Shows how N clients with bad habits (1000, for 60 seconds) affect an honest client of a server.";
const LOWEST_PRIORITY: i32 = 19;
/// Interval of the honest client's requests.
const INTERVAL: Duration = Duration::from_millis(1);
/// Interval between a slow client's actions.
const SLOW: Duration = Duration::from_millis(100);
/// Bytes that a client of the crowd sends or reads at a time.
const BLOCK: usize = 16 << 10;
/// Elements of the list that slow commands sort.
const SORTED: usize = 50_000;
/// Time in which memory must be back.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let Some(options) = Options::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    for server in &options.servers {
        if let Err(error) = examine(*server, &options) {
            eprintln!("cinnabar-bad-clients: {server}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

struct Options {
    clients: usize,
    time: Duration,
    beside: Option<SocketAddr>,
    servers: Vec<SocketAddr>,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Option<Options> {
        let time = Duration::from_secs(60);
        let mut options = Options { clients: 1000, time, beside: None, servers: Vec::new() };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--clients" => options.clients = words.next()?.parse().ok()?,
                "--seconds" => options.time = Duration::from_secs(words.next()?.parse().ok()?),
                "--beside" => options.beside = Some(words.next()?.parse().ok()?),
                address => options.servers.push(address.parse().ok()?),
            }
        }
        (!options.servers.is_empty()).then_some(options)
    }
}

fn examine(server: SocketAddr, options: &Options) -> io::Result<()> {
    let mut honest = Honest::connect(server)?;
    honest.ask("SET big", &"x".repeat(100_000))?;
    let mut beside = options.beside.map(Honest::connect).transpose()?;
    for client in [&mut honest].into_iter().chain(&mut beside) {
        client.ask("SET small", &"x".repeat(100))?;
    }
    honest.ask("DEL", "slow")?;
    for start in (0..SORTED).step_by(1000) {
        let elements: Vec<String> = (start..start + 999).map(|n| (n * 7919 % SORTED).to_string()).collect();
        honest.ask(&format!("RPUSH slow {}", elements.join(" ")), "last")?;
    }
    let quiet = round_trips(&mut honest, beside.as_mut(), options.time / 6)?;
    let before = honest.memory()?;
    let (ends, work) = (Arc::new(AtomicBool::new(false)), Arc::new(Work::default()));
    let crowd = {
        let (ends, work, clients) = (Arc::clone(&ends), Arc::clone(&work), options.clients);
        std::thread::spawn(move || Crowd::new(server, clients)?.misbehave(&ends, &work))
    };
    std::thread::sleep(Duration::from_secs(1));
    let crowded = round_trips(&mut honest, beside.as_mut(), options.time)?;
    let during = honest.memory()?;
    ends.store(true, Relaxed);
    crowd.join().map_err(|_| io::Error::other("the crowd's thread has panicked"))??;
    let began = Instant::now();
    let mut after = honest.memory()?;
    while after.used * 10 > before.used * 12 && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
        after = honest.memory()?;
    }
    let took = began.elapsed();
    let shown = iter::once(server).chain(options.beside).zip(quiet.iter().zip(&crowded));
    for (address, (quiet, crowded)) in shown {
        let times = crowded.p99.as_secs_f64() / quiet.p99.as_secs_f64();
        let place = if address == server { "" } else { "  beside" };
        println!("{address}  alone:{place}  {quiet}");
        println!("{address}  crowd:{place}  {crowded}  p99 {times:.2} times");
    }
    println!(
        "{server}  memory: {before} before, {during} in the crowd, {after} after ({:.2}, in {took:.1?}); \
         sent {} MB, read {} MB, {} connections",
        after.used as f64 / before.used as f64,
        work.sent.load(Relaxed) >> 20,
        work.read.load(Relaxed) >> 20,
        work.connections.load(Relaxed),
    );
    Ok(())
}

/// The client that waits for its answers.
struct Honest {
    stream: BufReader<TcpStream>,
}

impl Honest {
    fn connect(server: SocketAddr) -> io::Result<Honest> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Honest { stream: BufReader::new(stream) })
    }

    /// Sends a command and a last argument; returns the reply's text, empty for replies of one line.
    fn ask(&mut self, command: &str, last: &str) -> io::Result<String> {
        let words: Vec<&str> = command.split(' ').chain([last]).collect();
        let mut request = Vec::new();
        encode_command(&mut request, &words);
        self.stream.get_mut().write_all(&request)?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let Some(len) = line.trim_end().strip_prefix('$').and_then(|text| text.parse::<usize>().ok()) else {
            let fine = line.starts_with(['+', ':']);
            return if fine { Ok(String::new()) } else { Err(io::Error::other(format!("{command}: {line:?}"))) };
        };
        let mut text = vec![0; len + 2];
        self.stream.read_exact(&mut text)?;
        text.truncate(len);
        String::from_utf8(text).map_err(io::Error::other)
    }

    fn round_trip(&mut self) -> io::Result<Duration> {
        let began = Instant::now();
        if self.ask("GET", "small")?.len() != 100 {
            return Err(io::Error::other("a wrong answer in the crowd"));
        }
        Ok(began.elapsed())
    }

    fn memory(&mut self) -> io::Result<Memory> {
        let info = self.ask("INFO", "memory")?;
        let field = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default();
            value.parse().unwrap_or(0)
        };
        Ok(Memory { used: field("used_memory"), resident: field("used_memory_rss") })
    }
}

/// Asks both, in turn, for so long.
fn round_trips(honest: &mut Honest, mut beside: Option<&mut Honest>, time: Duration) -> io::Result<Vec<Latency>> {
    let until = Instant::now() + time;
    let (mut took, mut took_beside) = (Vec::new(), Vec::new());
    while Instant::now() < until {
        let began = Instant::now();
        took.push(honest.round_trip()?);
        if let Some(beside) = &mut beside {
            took_beside.push(beside.round_trip()?);
        }
        std::thread::sleep(INTERVAL.saturating_sub(began.elapsed()));
    }
    Ok([took, took_beside].into_iter().filter(|took| !took.is_empty()).map(Latency::of).collect())
}

struct Latency {
    count: usize,
    p50: Duration,
    p99: Duration,
    p999: Duration,
    max: Duration,
}

impl Latency {
    fn of(mut took: Vec<Duration>) -> Latency {
        took.sort_unstable();
        let at = |share: f64| took.get((took.len() as f64 * share) as usize).copied().unwrap_or_default();
        Latency { count: took.len(), p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1.0 - f64::EPSILON) }
    }
}

impl std::fmt::Display for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Latency { count, p50, p99, p999, max } = self;
        write!(f, "{count} round trips, p50 {p50:.0?}, p99 {p99:.0?}, p99.9 {p999:.0?}, max {max:.0?}")
    }
}

struct Memory {
    used: u64,
    resident: u64,
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} MB ({:.1} resident)", self.used as f64 / 1e6, self.resident as f64 / 1e6)
    }
}

/// The crowd's counters.
#[derive(Default)]
struct Work {
    sent: AtomicU64,
    read: AtomicU64,
    connections: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Habit {
    SlowReader,
    Deaf,
    Flood,
    HalfOpen,
    Garbage,
    SlowCommands,
    Counts,
}

const HABITS: [Habit; 7] =
    [Habit::SlowReader, Habit::Deaf, Habit::Flood, Habit::HalfOpen, Habit::Garbage, Habit::SlowCommands, Habit::Counts];

/// A client of the crowd.
struct Client {
    stream: Crowded,
    habit: Habit,
    /// Number that distinguishes clients of one habit.
    number: usize,
    text: Arc<[u8]>,
    /// Bytes of `text` that are sent.
    at: usize,
    writable: bool,
}

impl Client {
    /// Reads the available bytes, at most `most`; false when the server has hung up.
    fn read(&mut self, buffer: &mut [u8], most: usize, work: &Work) -> bool {
        let mut read = 0;
        while read < most {
            let room = buffer.len().min(most - read);
            match self.stream.read(&mut buffer[..room]) {
                Ok(0) => return false,
                Ok(n) => read += n,
                Err(error) => {
                    work.read.fetch_add(read as u64, Relaxed);
                    return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected);
                }
            }
        }
        work.read.fetch_add(read as u64, Relaxed);
        true
    }

    /// Sends at most `most` bytes of the text, which begins again at its end; false when the server has hung up.
    fn write(&mut self, most: usize, work: &Work) -> bool {
        let part = &self.text[self.at..];
        match self.stream.write(&part[..part.len().min(most)]) {
            Ok(n) => {
                work.sent.fetch_add(n as u64, Relaxed);
                self.at = (self.at + n) % self.text.len();
                true
            }
            Err(error) => {
                self.writable = false;
                matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
            }
        }
    }

    /// Takes a slow client's action, ten times a second; false when it hangs up, or is hung up on.
    fn act_slowly(&mut self, buffer: &mut [u8], turn: usize, work: &Work) -> bool {
        match self.habit {
            Habit::SlowReader => self.read(buffer, 1 << 10, work) && (!self.writable || self.write(BLOCK, work)),
            Habit::HalfOpen if self.number.is_multiple_of(10) && (turn + self.number).is_multiple_of(50) => false,
            Habit::HalfOpen => self.number.is_multiple_of(3) || !self.writable || self.write(1, work),
            _ => true,
        }
    }

    fn acts_slowly(&self) -> bool {
        matches!(self.habit, Habit::SlowReader | Habit::HalfOpen)
    }

    fn reads(&self) -> bool {
        matches!(self.habit, Habit::Flood | Habit::Garbage | Habit::SlowCommands | Habit::Counts)
    }
}

struct Crowd {
    server: SocketAddr,
    poll: Poll,
    clients: Vec<Client>,
    buffer: Vec<u8>,
}

impl Crowd {
    fn new(server: SocketAddr, count: usize) -> io::Result<Crowd> {
        // The priority is that of this thread alone.
        rustix::process::setpriority_process(None, LOWEST_PRIORITY)?;
        let mut crowd = Crowd { server, poll: Poll::new()?, clients: Vec::new(), buffer: vec![0; 4 * BLOCK] };
        for index in 0..count {
            let (habit, number) = (HABITS[index % HABITS.len()], index / HABITS.len());
            let stream = crowd.connect(index)?;
            crowd.clients.push(Client { stream, habit, number, text: text(habit, number), at: 0, writable: false });
        }
        Ok(crowd)
    }

    fn connect(&self, index: usize) -> io::Result<Crowded> {
        let mut stream = Crowded::connect(self.server)?;
        self.poll.registry().register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
        Ok(stream)
    }

    /// Runs until the flag ends it.
    fn misbehave(mut self, ends: &AtomicBool, work: &Work) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut next = Instant::now();
        let mut turn = 0;
        while !ends.load(Relaxed) {
            let more = self.clients.iter().any(|client| client.writable && !client.acts_slowly());
            self.poll.poll(&mut events, Some(if more { Duration::ZERO } else { SLOW / 10 }))?;
            let mut gone = Vec::new();
            for event in &events {
                let client = &mut self.clients[event.token().0];
                client.writable |= event.is_writable();
                let fine = !event.is_readable() || !client.reads() || client.read(&mut self.buffer, 4 * BLOCK, work);
                if !fine || event.is_error() {
                    gone.push(event.token().0);
                }
            }
            for (index, client) in self.clients.iter_mut().enumerate() {
                if client.writable && !client.acts_slowly() && !client.write(BLOCK, work) {
                    gone.push(index);
                }
            }
            if next <= Instant::now() {
                (next, turn) = (Instant::now() + SLOW, turn + 1);
                for (index, client) in self.clients.iter_mut().enumerate() {
                    // A client that reads by events may have left bytes, for which no other event comes.
                    let fine = !client.reads() || client.read(&mut self.buffer, 64 * BLOCK, work);
                    if !fine || client.acts_slowly() && !client.act_slowly(&mut self.buffer, turn, work) {
                        gone.push(index);
                    }
                }
            }
            gone.sort_unstable();
            gone.dedup();
            for index in gone {
                work.connections.fetch_add(1, Relaxed);
                let stream = self.connect(index)?;
                let client = &mut self.clients[index];
                (client.stream, client.at, client.writable) = (stream, 0, false);
            }
        }
        Ok(())
    }
}

/// Returns the text that a client sends repeatedly.
fn text(habit: Habit, number: usize) -> Arc<[u8]> {
    let repeated = |text: &[u8]| text.repeat(BLOCK / text.len());
    let bytes = match (habit, number % 3) {
        (Habit::SlowReader, _) => b"GET big\r\n".repeat(8),
        (Habit::Deaf | Habit::Flood, 0) => repeated(b"PING\r\n"),
        (Habit::Deaf | Habit::Flood, 1) => repeated(b"*3\r\n$3\r\nSET\r\n$5\r\nflood\r\n$10\r\n0123456789\r\n"),
        (Habit::Deaf | Habit::Flood, _) => repeated(b"*2\r\n$3\r\nGET\r\n$5\r\nsmall\r\n"),
        (Habit::HalfOpen, _) => b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$40000000\r\nhalf".to_vec(),
        (Habit::Garbage, _) => {
            let mut state = number as u32 + 1;
            let random = move || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            std::iter::repeat_with(random).take(1 << 10).collect()
        }
        (Habit::SlowCommands, 0) => b"SORT slow ALPHA LIMIT 0 1\r\n".to_vec(),
        (Habit::SlowCommands, 1) => b"EVAL \"for i = 1, 1000000 do end\" 0\r\n".to_vec(),
        (Habit::SlowCommands, _) => b"LPOS slow nothing\r\n".to_vec(),
        (Habit::Counts, 0) => b"*2000000000\r\n$1\r\nx\r\n".to_vec(),
        (Habit::Counts, 1) => [&b"*1000000\r\n"[..], &b"$0\r\n\r\n".repeat(1000)].concat(),
        (Habit::Counts, _) => b"*2\r\n$3\r\nGET\r\n$99999999999\r\n".to_vec(),
    };
    bytes.into()
}
