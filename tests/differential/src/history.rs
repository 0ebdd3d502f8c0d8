//! A server's state equals its log: random commands run on one server, and its replay, its replicas and their replay
//! must hold the same afterwards, whatever the commands replied.
//!
//! ```text
//!   clients -> leader (subject) -> its append-only file -> a server that reads it
//!                    |
//!                    +-> follower (subject) -> its append-only file -> a server that reads it
//!                    +-> the real server, if there is one
//! ```
//!
//! The subject's command line must have `--appendonly yes --appendfsync no`, so that the file is written before replies
//! are sent. Rounds of an even seed have one client, so that they repeat; others have several at once.

use crate::client::{Client, command};
use crate::contents::{Contents, contents, differing};
use crate::generator::{Generator, Step};
use crate::grammar::Command;
use crate::report::Findings;
use crate::servers::Server;
use crate::shrink::shrink;
use crate::value::{Value, quoted};
use fastrand::Rng;
use std::io::{Error, Result};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Commands sent before their replies are read.
const BATCH: usize = 50;
/// Clients of a round that has several.
const CLIENTS: usize = 3;
/// The longest deadline that is not among those which a second look waits for.
const SHORT: Duration = Duration::from_millis(25);
/// Differences of a moment, as a deadline of a second passes.
const MOMENT: Duration = Duration::from_millis(1100);
/// Comparisons after which a difference is one: a deadline may pass within each.
const LOOKS: usize = 4;
/// So long a replica may take to follow, or a file to be rewritten.
const PATIENCE: Duration = Duration::from_secs(30);
/// Rounds after which the files are written anew.
const REWRITE_EVERY: usize = 10;
const TRIALS_MAX: usize = 400;
const SHRINK_MAX: Duration = Duration::from_secs(120);

/// The servers that share a history.
pub struct Group {
    /// Command line of the subject.
    line: String,
    leader: Server,
    follower: Server,
    peer: Option<Server>,
    rounds: usize,
}

/// Servers that do not hold what the leader holds, and the keys.
struct Apart {
    place: &'static str,
    keys: Vec<String>,
}

impl Group {
    /// Starts two subjects.
    pub fn start(line: &str, peer: Option<Server>) -> Result<Group> {
        let (leader, follower) = (Server::start(line)?, Server::start(line)?);
        Ok(Group { line: line.to_owned(), leader, follower, peer, rounds: 0 })
    }

    /// One subject follows the other; so does the peer, if there is one.
    fn follow(&self) -> Result<()> {
        for replica in [Some(&self.follower), self.peer.as_ref()].into_iter().flatten() {
            let mut client = Client::connect(replica.addr)?;
            client.call(&command(&format!("REPLICAOF 127.0.0.1 {}", self.leader.addr.port())))?;
            until(&mut client, "INFO replication", &["master_link_status:up"])?;
        }
        Ok(())
    }

    /// The server that says which of the newest commands there are: the peer, or the subject alone.
    pub fn judge(&self) -> &Server {
        self.peer.as_ref().unwrap_or(&self.follower)
    }

    pub fn subject(&self) -> &Server {
        &self.leader
    }

    /// Compares rounds until so many commands have run, or so many differences were found; prints them.
    pub fn compare(
        &mut self,
        generator: &Generator,
        ops: usize,
        first_seed: u64,
        keep_going: usize,
    ) -> Result<Findings> {
        self.follow()?;
        let began = Instant::now();
        let (mut findings, mut ran, mut apart_rounds) = (Findings::default(), 0, 0);
        for seed in first_seed.. {
            if ran >= ops || apart_rounds >= keep_going {
                break;
            }
            let steps = generator.history(seed, crate::ROUND_STEPS.min(ops - ran));
            ran += steps.iter().map(Vec::len).sum::<usize>();
            let round = self.round(&steps, seed, MOMENT);
            let found = round.map_err(|error| Error::new(error.kind(), format!("seed {seed}: {error}")))?;
            if let Some(apart) = found {
                apart_rounds += 1;
                findings.note_as(apart.place.to_owned());
                self.report(&steps, seed, apart);
            }
        }
        let peers = if self.peer.is_some() { " and the real server" } else { "" };
        println!(
            "\n{ran} commands in {:.1} s; replays, replica{peers}: {} rounds differ",
            began.elapsed().as_secs_f64(),
            apart_rounds
        );
        Ok(findings)
    }

    /// Runs the steps on empty servers and looks at all of them, again if there is a difference.
    fn round(&mut self, steps: &[Step], seed: u64, moment: Duration) -> Result<Option<Apart>> {
        self.begin()?;
        run(self.leader.addr, steps, seed)?;
        sleep(SHORT);
        let mut found = self.first_apart()?;
        for _ in 1..LOOKS {
            if found.is_none() {
                break;
            }
            sleep(moment);
            found = self.first_apart()?;
        }
        Ok(found)
    }

    fn begin(&mut self) -> Result<()> {
        let mut admin = Client::connect(self.leader.addr)?;
        for line in ["DEBUG SET-ACTIVE-EXPIRE 1", "FLUSHALL", "FUNCTION FLUSH"] {
            expect(&mut admin, line, "OK")?;
        }
        if self.rounds.is_multiple_of(REWRITE_EVERY) {
            for server in [&self.leader, &self.follower] {
                let mut client = Client::connect(server.addr)?;
                client.call(&command("BGREWRITEAOF"))?;
            }
        }
        self.rounds += 1;
        Ok(())
    }

    /// The first server that does not hold what the leader holds, once all have what was logged.
    fn first_apart(&self) -> Result<Option<Apart>> {
        let mut admin = Client::connect(self.leader.addr)?;
        let replicas = 1 + usize::from(self.peer.is_some());
        for line in ["SELECT 15", "SET marker 1", "DEL marker"] {
            admin.call(&command(line))?;
        }
        let wait = format!("WAIT {replicas} {}", PATIENCE.as_millis() / 4);
        let followed = admin.call(&command(&wait))?;
        if followed != Value::Integer(replicas as i64) {
            return Err(Error::other(format!("{wait} is answered {followed}")));
        }
        for server in [&self.leader, &self.follower] {
            let written = ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"];
            until(&mut Client::connect(server.addr)?, "INFO persistence", &written)?;
        }
        let of = |server: &Server| contents(&mut Client::connect(server.addr)?);
        let state = of(&self.leader)?;
        let apart = |place: &'static str, there: &Contents| {
            let keys = differing(&state, there);
            (!keys.is_empty()).then_some(Apart { place, keys })
        };
        if let Some(found) = apart("the replay", &of(&Server::start_from_files(&self.line, &self.leader)?)?) {
            return Ok(Some(found));
        }
        if let Some(found) = apart("the replica", &of(&self.follower)?) {
            return Ok(Some(found));
        }
        if let Some(peer) = &self.peer
            && let Some(found) = apart("the real server as a replica", &of(peer)?)
        {
            return Ok(Some(found));
        }
        Ok(apart("the replica's replay", &of(&Server::start_from_files(&self.line, &self.follower)?)?))
    }

    fn report(&mut self, steps: &[Step], seed: u64, found: Apart) {
        let (began, place) = (Instant::now(), found.place);
        let mut shown = found;
        let mut shows_it = |steps: &[Step]| {
            if began.elapsed() > SHRINK_MAX {
                return false;
            }
            match self.round(steps, seed, MOMENT / 8) {
                Ok(Some(apart)) if apart.place == place => {
                    shown = apart;
                    true
                }
                _ => false,
            }
        };
        let comes_again = shows_it(steps);
        println!("\nseed {seed}: {place} is not what the server is");
        let shortest = if comes_again { shrink(steps, TRIALS_MAX, shows_it) } else { Vec::new() };
        if !comes_again {
            println!("  (replayed, it did not come again)");
        }
        for command in shortest.iter().flatten() {
            let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
            println!("    {}", words.join(" "));
        }
        shown.keys.iter().take(4).for_each(|line| println!("  {line}"));
    }
}

/// Runs the steps, each by one client.
fn run(addr: std::net::SocketAddr, steps: &[Step], seed: u64) -> Result<()> {
    let mut rng = Rng::with_seed(seed);
    let count = if seed.is_multiple_of(2) { 1 } else { CLIENTS };
    let mut clients = (0..count).map(|_| Client::connect(addr)).collect::<Result<Vec<Client>>>()?;
    for batch in steps.chunks(BATCH) {
        let mut sent: Vec<Vec<&Command>> = vec![Vec::new(); count];
        for step in batch {
            let client = rng.usize(..count);
            clients[client].send(step);
            sent[client].extend(step);
        }
        for (client, sent) in clients.iter_mut().zip(sent) {
            for command in sent {
                let words = || command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
                client.receive().map_err(|error| Error::new(error.kind(), format!("{}: {error}", words())))?;
            }
        }
    }
    Ok(())
}

fn expect(client: &mut Client, line: &str, reply: &str) -> Result<()> {
    let got = client.call(&command(line))?;
    if got.text() == Some(reply.as_bytes()) { Ok(()) } else { Err(Error::other(format!("{line} is answered {got}"))) }
}

/// Asks again until the reply has all of these in it.
fn until(client: &mut Client, line: &str, wanted: &[&str]) -> Result<()> {
    let began = Instant::now();
    loop {
        let reply = client.call(&command(line))?;
        let text = String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned();
        if wanted.iter().all(|wanted| text.contains(wanted)) {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(Error::other(format!("{line} does not show {wanted:?}:\n{text}")));
        }
        sleep(Duration::from_millis(5));
    }
}
