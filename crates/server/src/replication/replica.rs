//! A replica as its primary's thread has it: a socket, how far it is, what is still to be sent.

use crate::connection::socket::{Readiness, Socket, SocketStream};
use crate::workers::replication_handle::NewReplica;
use engine::clients::registry::ClientInfo;
use engine::status::replication_status::{ReplicaInfo, ReplicaState};
use engine::time::UnixMs;
use mio::{Registry, Token};
use replication::backlog::Backlog;
use replication::follower::{Acks, Handshake, Lag};
use resp::{Progress, RequestLimits, RequestParser};
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Pieces that are sent together.
const PIECES: usize = 16;
/// Bytes that a replica may have sent of a command that has no end.
const INPUT_MAX: usize = 64 << 10;

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for a snapshot.
    Waiting,
    /// It waits for this one, or gets it.
    InSync(u64),
    /// It has it, and does not get the stream before it has said so.
    AwaitsAck,
    /// It gets the stream.
    Online,
}

/// Why a replica's connection ends.
pub enum Ended {
    /// It has closed it, or it broke.
    Gone,
    /// It has said what no replica says.
    Spoke(String),
}

/// See the module's documentation.
pub struct Replica {
    pub info: Arc<ClientInfo>,
    pub shown: Arc<ReplicaInfo>,
    pub handshake: Handshake,
    /// It tells how far it is: it came with PSYNC.
    pub acknowledges: bool,
    pub phase: Phase,
    /// Up to where the stream was sent, or where it will begin.
    pub position: u64,
    pub acks: Acks,
    pub lag: Lag,
    /// Since when it waits.
    pub since: UnixMs,
    /// It is to end while another thread has its socket.
    pub cancelled: Arc<AtomicBool>,
    /// None: the thread that sends the snapshot has it.
    socket: Option<Socket>,
    /// Bytes that go before the stream.
    own: Vec<u8>,
    input: Vec<u8>,
    parser: RequestParser,
    /// The socket took all that was offered.
    writable: bool,
}

impl Replica {
    /// One that has just come.
    pub fn new(new: NewReplica, now: UnixMs) -> Replica {
        let NewReplica { stream, info, request, input } = new;
        let handshake = request.handshake;
        let ip = match &handshake.ip {
            Some(ip) => String::from_utf8_lossy(ip).into_owned(),
            None => info.addr.rsplit_once(':').map_or(&*info.addr, |(ip, _)| ip.trim_matches(['[', ']'])).to_owned(),
        };
        let kind = if handshake.rdb_channel { "rdb-channel" } else { "replica" };
        let shown = ReplicaInfo::new(info.id, ip, handshake.port, kind, handshake.rdb_only, now);
        Replica {
            info,
            shown: Arc::new(shown),
            handshake,
            acknowledges: request.asked.is_some(),
            phase: Phase::Waiting,
            position: 0,
            acks: Acks::default(),
            lag: Lag::default(),
            since: now,
            cancelled: Arc::default(),
            socket: Some(Socket::new(stream)),
            own: Vec::new(),
            input,
            parser: RequestParser::new(),
            writable: true,
        }
    }

    /// As the log names it.
    pub fn name(&self) -> String {
        match self.shown.port {
            0 => format!("client id #{}", self.info.id),
            port => format!("{}:{port}", self.shown.ip),
        }
    }

    /// The poll tells of its socket under this token.
    pub fn register(&mut self, registry: &Registry, token: usize) -> io::Result<()> {
        match &mut self.socket {
            Some(socket) => socket.stream().register(registry, Token(token)),
            None => Ok(()),
        }
    }

    /// Takes the socket out, and what is to be sent before the snapshot.
    pub fn take_stream(&mut self, registry: &Registry) -> Option<(SocketStream, Vec<u8>)> {
        let mut stream = self.socket.take()?.into_stream();
        stream.deregister(registry).ok()?;
        Some((stream, std::mem::take(&mut self.own)))
    }

    /// Gives it back.
    pub fn put_stream(&mut self, stream: SocketStream) {
        self.socket = Some(Socket::new(stream));
        self.writable = true;
    }

    /// Whether the thread that sends the snapshot has it.
    pub fn is_away(&self) -> bool {
        self.socket.is_none()
    }

    /// Sends this before the stream.
    pub fn say(&mut self, bytes: &[u8]) {
        self.own.extend_from_slice(bytes);
    }

    /// The poll has told something.
    pub fn note(&mut self, readiness: Readiness, is_writable: bool) {
        if let Some(socket) = &mut self.socket {
            socket.note(readiness, true);
        }
        self.writable |= is_writable;
    }

    /// It gets the stream from now on.
    pub fn go_online(&mut self, now: UnixMs) {
        self.phase = Phase::Online;
        self.shown.set_state(ReplicaState::Online);
        self.shown.acked_at.store(now.0, Relaxed);
    }

    /// Bytes of the stream that it has still to be sent.
    pub fn pending(&self, backlog: Option<&Backlog>) -> u64 {
        let behind = backlog.map_or(0, |backlog| backlog.end().saturating_sub(self.position));
        let gets_stream = !self.handshake.rdb_only && self.phase != Phase::Waiting;
        self.own.len() as u64 + if gets_stream { behind } else { 0 }
    }

    /// Sends what its socket takes; how many bytes that were.
    pub fn send(&mut self, backlog: Option<&Backlog>) -> Result<u64, Ended> {
        let mut sent = 0;
        let Some(socket) = &mut self.socket else { return Ok(0) };
        while self.writable {
            let written = if !self.own.is_empty() {
                let written = socket.stream().write(&self.own).map_err(|_| Ended::Gone)?;
                self.own.drain(..written.unwrap_or(0));
                written
            } else if let Some(backlog) = backlog.filter(|_| self.phase == Phase::Online) {
                let mut pieces = [IoSlice::new(&[]); PIECES];
                let mut count = 0;
                for (piece, bytes) in pieces.iter_mut().zip(backlog.after(self.position)) {
                    *piece = IoSlice::new(bytes);
                    count += usize::from(!bytes.is_empty());
                }
                if count == 0 {
                    break;
                }
                let written = socket.stream().write_vectored(&pieces[..count]).map_err(|_| Ended::Gone)?;
                self.position += written.unwrap_or(0) as u64;
                written
            } else {
                break;
            };
            match written {
                None | Some(0) => self.writable = false,
                Some(bytes) => sent += bytes as u64,
            }
        }
        Ok(sent)
    }

    /// Reads what it says; whether it has acknowledged something.
    pub fn listen(&mut self) -> Result<bool, Ended> {
        let Some(socket) = &mut self.socket else { return Ok(false) };
        let (mut buffer, mut acked) = ([0; 4096], false);
        while socket.is_readable() {
            let read = socket.read(&mut buffer).map_err(|_| Ended::Gone)?;
            self.input.extend_from_slice(&buffer[..read]);
            if socket.has_ended() {
                return Err(Ended::Gone);
            }
            if self.input.len() > INPUT_MAX {
                return Err(Ended::Spoke("too much".to_owned()));
            }
        }
        let limits = RequestLimits::default();
        loop {
            let mut spans = Vec::new();
            match self.parser.parse(&self.input, &limits, &mut spans) {
                Ok(Progress::Command { consumed, owned }) => {
                    let words: Vec<&[u8]> = spans.iter().map(|span| span.of(&self.input)).collect();
                    acked |= owned.is_empty() && take_words(&words, &mut self.acks)?;
                    self.input.drain(..consumed);
                }
                Ok(Progress::Empty { consumed }) => _ = self.input.drain(..consumed),
                Ok(Progress::Incomplete) => return Ok(acked),
                Ok(Progress::Large { .. }) => return Err(Ended::Spoke("too much".to_owned())),
                Err(error) => return Err(Ended::Spoke(error.to_string())),
            }
        }
    }
}

/// Whether this was an acknowledgement.
fn take_words(words: &[&[u8]], acks: &mut Acks) -> Result<bool, Ended> {
    let is = |index: usize, word: &str| words.get(index).is_some_and(|it| it.eq_ignore_ascii_case(word.as_bytes()));
    if is(0, "replconf") && is(1, "ack") {
        return Ok(acks.take(words[2..].iter().copied()));
    }
    let name = words.first().map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
    if is(0, "replconf") && is(1, "getack") { Ok(false) } else { Err(Ended::Spoke(name)) }
}
