//! Servers that share a history, and whether all hold what its leader holds.
//!
//! ```text
//!   clients -> leader (subject) -> its append-only file -> a server that reads it
//!      |             |
//!      |             +-> replica (subject) -> its append-only file -> a server that reads it
//!      |             +-> the real server, if there is one
//!      |
//!      +-> MIGRATE -> target (subject) -> its append-only file -> a server that reads it
//! ```
//!
//! When a real server leads, another real server and the subject are its replicas, and the subject has a replica that
//! is a subject, too. All must hold what the real replica does: real servers do not propagate all that they change.
//! Each replay must hold all that its own server does.

use crate::breaking::breaking_way_to;
use crate::client::{Client, command};
use crate::contents::{Contents, Eye, contents, differing};
use crate::families::phases;
use crate::grammar::Command;
use crate::servers::Server;
use crate::value::Value;
use std::io::{Error, Result};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// So long a replica may take to follow, or a file to be rewritten.
const PATIENCE: Duration = Duration::from_secs(30);
/// Rounds after which the files are written anew.
const REWRITE_EVERY: usize = 10;
/// A limit of memory lies so many bytes above what is used.
const ROOM: i64 = 3_000;

/// One of the servers.
struct Place {
    server: Server,
    name: &'static str,
    /// Name of its replay, if it is a subject.
    replay: Option<&'static str>,
    /// The place whose replica it is.
    follows: Option<usize>,
}

/// The servers that share a history.
pub struct Group {
    /// Command line of the subject.
    line: String,
    /// The leader is the first.
    places: Vec<Place>,
    /// The place that holds what all should.
    right: usize,
    /// Keys are moved to it.
    target: Server,
    /// Port of a way to the target that breaks.
    breaking: u16,
    rounds: usize,
}

/// A server that does not hold what it should, and the keys.
pub struct Apart {
    pub place: &'static str,
    pub keys: Vec<String>,
}

impl Group {
    /// Starts the subjects. The peer follows the first of them, or leads.
    pub fn start(line: &str, peer: Option<&str>, peer_leads: bool) -> Result<Group> {
        let place = |name, replay, follows| {
            Ok::<Place, Error>(Place { server: Server::start(line)?, name, replay: Some(replay), follows })
        };
        let real = |line, name, follows| {
            Ok::<Place, Error>(Place { server: Server::start(line)?, name, replay: None, follows })
        };
        let (places, right) = match peer {
            Some(peer) if peer_leads => {
                let replicas = [
                    real(peer, "the real server", None)?,
                    real(peer, "its real replica", Some(0))?,
                    place("the replica", "the replica's replay", Some(0))?,
                    place("the replica's replica", "the replay of the replica's replica", Some(2))?,
                ];
                (Vec::from(replicas), 1)
            }
            peer => {
                let leader = place("the server", "the replay", None)?;
                let replica = place("the replica", "the replica's replay", Some(0))?;
                let peer = peer.map(|peer| real(peer, "the real server", Some(0))).transpose()?;
                ([leader, replica].into_iter().chain(peer).collect(), 0)
            }
        };
        let target = Server::start(line)?;
        let breaking = breaking_way_to(target.addr, 1)?;
        Ok(Group { line: line.to_owned(), places, right, target, breaking, rounds: 0 })
    }

    /// Makes replicas of the servers that follow one.
    pub fn follow(&self) -> Result<()> {
        for place in &self.places {
            let Some(followed) = place.follows else { continue };
            let mut client = Client::connect(place.server.addr)?;
            let port = self.places[followed].server.addr.port();
            client.call(&command(&format!("REPLICAOF 127.0.0.1 {port}")))?;
            until(&mut client, "INFO replication", &["master_link_status:up"])?;
        }
        Ok(())
    }

    pub fn leader(&self) -> &Server {
        &self.places[0].server
    }

    /// Returns the server that decides which of the newest commands there are: its followers get the effects of these
    /// in words that each of them knows.
    pub fn judge(&self) -> &Server {
        self.leader()
    }

    pub fn subject(&self) -> &Server {
        &self.target
    }

    pub fn names(&self) -> String {
        let names = self.places.iter().flat_map(|place| [Some(place.name), place.replay]).flatten();
        names.chain(["the target's replay"]).collect::<Vec<_>>().join(", ")
    }

    /// Says how often the phases have shown: each number should be above zero after a few rounds.
    pub fn phases_shown(&self) -> Result<String> {
        let leader = info(&mut Client::connect(self.leader().addr)?, "stats")?;
        let target = info(&mut Client::connect(self.target.addr)?, "commandstats")?;
        let counted = |name: &str| leader.lines().find(|line| line.starts_with(name)).unwrap_or("none").to_owned();
        let counts = ["sync_full", "sync_partial_ok", "evicted_keys", "expired_keys"].map(counted).join(", ");
        let moved = target.lines().find_map(|line| line.strip_prefix("cmdstat_restore:")?.split(',').next());
        Ok(format!("{counts}, keys restored at the target: {}", moved.unwrap_or("none")))
    }

    /// Begins a round, with empty servers.
    pub fn begin(&mut self) -> Result<()> {
        for server in [self.leader(), &self.target] {
            let mut admin = Client::connect(server.addr)?;
            unlimit(&mut admin)?;
            for line in ["DEBUG SET-ACTIVE-EXPIRE 1", "FLUSHALL", "FUNCTION FLUSH"] {
                expect(&mut admin, line, "OK")?;
            }
        }
        if self.rounds.is_multiple_of(REWRITE_EVERY) {
            for server in self.subjects() {
                let mut client = Client::connect(server.addr)?;
                client.call(&command("BGREWRITEAOF"))?;
            }
        }
        self.rounds += 1;
        Ok(())
    }

    /// The command with what its words stand for.
    pub fn filled_in(&self, command: &Command, admin: &mut Client) -> Result<Command> {
        let fill = |word: &Vec<u8>| {
            Ok(match word.as_slice() {
                phases::TARGET => self.target.addr.port().to_string().into(),
                phases::BREAKING => self.breaking.to_string().into(),
                phases::CLOSED => b"1".to_vec(),
                phases::TIGHT => (used_memory(admin)? + ROOM).to_string().into(),
                _ => word.clone(),
            })
        };
        command.iter().map(fill).collect()
    }

    /// The first server that does not hold what it should, once all have what was logged.
    pub fn first_apart(&self) -> Result<Option<Apart>> {
        let mut admin = Client::connect(self.leader().addr)?;
        unlimit(&mut admin)?;
        let mark = fastrand::u64(..);
        for line in ["SELECT 15", &format!("SET marker <{mark}>")] {
            admin.call(&command(line))?;
        }
        for place in &self.places {
            let mut client = Client::connect(place.server.addr)?;
            client.call(&command("SELECT 15"))?;
            until(&mut client, "GET marker", &[&format!("<{mark}>")])?;
        }
        for server in self.subjects() {
            let written = ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"];
            until(&mut Client::connect(server.addr)?, "INFO persistence", &written)?;
        }
        let seen_by = |eye, server: &Server| contents(&mut Client::connect(server.addr)?, eye);
        let of = |server: &Server| seen_by(Eye::All, server);
        let replayed = |server: &Server| of(&Server::start_from_files(&self.line, server)?);
        let right = &self.places[self.right].server;
        for place in &self.places {
            let eye = match place.replay {
                _ if self.places[self.right].follows.is_some() => Eye::Told,
                Some(_) => Eye::All,
                None => Eye::Common,
            };
            let there = match place.follows {
                Some(_) => apart(place.name, &seen_by(eye, right)?, &seen_by(eye, &place.server)?),
                None => None,
            };
            let found = match place.replay {
                Some(name) if there.is_none() => apart(name, &of(&place.server)?, &replayed(&place.server)?),
                _ => there,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        let moved = of(&self.target)?;
        // Without a migration it holds no keys, only what is listed of functions.
        if moved.len() <= 1 {
            return Ok(None);
        }
        Ok(apart("the target's replay", &moved, &replayed(&self.target)?))
    }

    fn subjects(&self) -> impl Iterator<Item = &Server> {
        let places = self.places.iter().filter(|place| place.replay.is_some()).map(|place| &place.server);
        places.chain([&self.target])
    }
}

fn apart(place: &'static str, state: &Contents, there: &Contents) -> Option<Apart> {
    let keys = differing(state, there);
    (!keys.is_empty()).then_some(Apart { place, keys })
}

/// Takes back a limit of memory that a round has set.
fn unlimit(admin: &mut Client) -> Result<()> {
    expect(admin, "CONFIG SET maxmemory 0 maxmemory-policy noeviction", "OK")
}

fn info(client: &mut Client, section: &str) -> Result<String> {
    let reply = client.call(&command(&format!("INFO {section}")))?;
    Ok(String::from_utf8_lossy(reply.text().unwrap_or_default()).into_owned())
}

fn used_memory(admin: &mut Client) -> Result<i64> {
    let text = info(admin, "memory")?;
    let used = text.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok());
    used.ok_or_else(|| Error::other("INFO does not show used_memory"))
}

fn expect(client: &mut Client, line: &str, reply: &str) -> Result<()> {
    let got = client.call(&command(line))?;
    if got.text() == Some(reply.as_bytes()) { Ok(()) } else { Err(Error::other(format!("{line} is answered {got}"))) }
}

/// Asks again until the reply has all of these in it.
fn until(client: &mut Client, line: &str, wanted: &[&str]) -> Result<()> {
    let began = Instant::now();
    loop {
        let reply: Value = client.call(&command(line))?;
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
