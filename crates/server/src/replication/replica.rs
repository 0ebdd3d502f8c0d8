//! A replica in its primary's thread: a socket, its offsets, the bytes that are still to be sent.

use crate::connection::socket::{Readiness, Socket, SocketStream};
use crate::workers::replication_messages::NewReplica;
use commands::core::command_table::CommandTable;
use commands::replication::replica_error::StrayCommand;
use engine::clients::registry::{BufferSizes, ClientInfo};
use engine::status::replication_status::{ReplicaInfo, ReplicaState};
use engine::time::SteadyMs;
use mio::{Registry, Token};
use replication::backlog::Backlog;
use replication::replica_handshake::{Acks, Handshake, Lag};
use resp::number::parse_i64;
use resp::{Progress, RequestLimits, RequestParser};
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Pieces that are sent together.
const PIECES: usize = 16;
/// Bytes that a replica may have sent of a command that has no end.
const INPUT_MAX: usize = 64 << 10;

/// Phase of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The replica was offered a snapshot over another connection, and asks for the stream behind it then.
    Offered,
    /// The replica waits for a snapshot.
    Waiting,
    /// The replica waits for this snapshot, or gets it.
    InSync(u64),
    /// The replica has the snapshot, and does not get the stream before it has acknowledged that.
    AwaitsAck,
    /// This connection got the snapshot for another one, which has not asked for the stream behind it yet.
    Transmitted,
    /// This connection brought the snapshot and nothing else, and the replica closes it. If this server closed it
    /// before the replica has read all, the unread bytes would be lost.
    Leaving,
    /// The replica gets the stream, and the snapshot before it over another connection.
    BesideLoad,
    /// The replica gets the stream.
    Online,
}

/// A word of a replica.
pub enum Heard {
    Nothing,
    /// Empty lines: it is there, and loads its snapshot.
    Alive,
    /// Acknowledged offsets.
    Acked,
    /// The client whose connection gets its snapshot.
    Names(i64),
    /// A history that it has, and the first byte that it lacks.
    Asked(Vec<u8>, i64),
}

/// Reason why a replica's connection ends.
pub enum Ended {
    /// The replica has closed it, or it broke, or the input is no command.
    Gone,
    /// The input is nothing that a replica sends.
    Spoke(StrayCommand),
}

/// See the module's documentation.
pub struct Replica {
    pub info: Arc<ClientInfo>,
    pub shown: Arc<ReplicaInfo>,
    pub handshake: Handshake,
    /// Whether the replica acknowledges: it came with PSYNC.
    pub acknowledges: bool,
    pub phase: Phase,
    /// Offset up to which the stream was sent, or where it will begin.
    pub position: u64,
    pub acks: Acks,
    /// Whether it has acknowledged something since the last look.
    pub has_acked: bool,
    pub lag: Lag,
    /// Time since which it waits.
    pub since: SteadyMs,
    /// Client whose connection gets its snapshot.
    pub rdb_client: Option<u64>,
    /// Whether the thread that sends the snapshot has its socket.
    is_away: bool,
    socket: Option<Socket>,
    /// Bytes that go before the stream.
    own: Vec<u8>,
    input: Vec<u8>,
    parser: RequestParser,
    /// Whether the socket took all that was offered.
    writable: bool,
}

impl Replica {
    /// Creates the state of a replica that has just come.
    pub fn new(new: NewReplica, now: SteadyMs) -> Replica {
        let NewReplica { stream, info, request, input } = new;
        let handshake = request.handshake;
        let ip = handshake.host(&info.addr).into_owned();
        let shown = ReplicaInfo::new(info.id, ip, &handshake, now);
        Replica {
            info,
            shown: Arc::new(shown),
            handshake,
            acknowledges: request.asked.is_some(),
            phase: Phase::Waiting,
            position: 0,
            acks: Acks::default(),
            has_acked: false,
            lag: Lag::default(),
            since: now,
            rdb_client: None,
            is_away: false,
            socket: Some(Socket::new(stream)),
            own: Vec::new(),
            input,
            parser: RequestParser::new(),
            writable: true,
        }
    }

    /// Returns its name in the log.
    pub fn name(&self) -> String {
        self.handshake.name(&self.info.addr)
    }

    /// Registers its socket with the poll under this token.
    pub fn register(&mut self, registry: &Registry, token: usize) -> io::Result<()> {
        match &mut self.socket {
            Some(socket) => socket.stream().register(registry, Token(token)),
            None => Ok(()),
        }
    }

    /// Takes the socket, and the bytes that are to be sent before the snapshot.
    pub fn take_stream(&mut self, registry: &Registry) -> Option<(SocketStream, Vec<u8>)> {
        let mut stream = self.socket.take()?.into_stream();
        stream.deregister(registry).ok()?;
        self.is_away = true;
        Some((stream, std::mem::take(&mut self.own)))
    }

    /// Gives the socket back.
    pub fn put_stream(&mut self, stream: SocketStream) {
        self.socket = Some(Socket::new(stream));
        (self.is_away, self.writable) = (false, true);
    }

    /// Ends sending. False: the replica has closed the connection already.
    pub fn end_sending(&mut self, now: SteadyMs) -> bool {
        (self.phase, self.since) = (Phase::Leaving, now);
        self.socket.as_mut().is_some_and(|socket| socket.stream().end_writing().is_ok())
    }

    /// Drops the socket, which is of no use any more.
    pub fn drop_socket(&mut self) {
        self.socket = None;
    }

    /// Returns whether the thread that sends the snapshot has the socket.
    pub fn is_away(&self) -> bool {
        self.is_away
    }

    /// Returns whether the replica, or the connection for which it gets a snapshot, still needs the stream from its
    /// position.
    pub fn needs_stream(&self) -> bool {
        match self.phase {
            Phase::Waiting | Phase::Offered | Phase::Leaving => false,
            Phase::InSync(_) | Phase::AwaitsAck | Phase::Transmitted | Phase::BesideLoad | Phase::Online => {
                !self.handshake.rdb_only || self.shown.awaits_psync.load(Relaxed)
            }
        }
    }

    /// Returns whether the stream goes over its socket.
    fn is_streamed(&self) -> bool {
        matches!(self.phase, Phase::Online | Phase::BesideLoad)
    }

    /// Sends this before the stream.
    pub fn say(&mut self, bytes: &[u8]) {
        self.own.extend_from_slice(bytes);
    }

    /// Records an event of the poll.
    pub fn note(&mut self, readiness: Readiness, is_writable: bool) {
        if let Some(socket) = &mut self.socket {
            socket.note(readiness, true);
        }
        self.writable |= is_writable;
    }

    /// Sends it the stream from now on, while its snapshot goes over another connection.
    pub fn load_beside(&mut self, now: SteadyMs) {
        self.phase = Phase::BesideLoad;
        self.shown.set_state(ReplicaState::BgTransfer);
        self.shown.acked_at.store(now.0, Relaxed);
    }

    /// Sends it the stream from now on.
    pub fn go_online(&mut self, now: SteadyMs) {
        self.phase = Phase::Online;
        self.shown.set_state(ReplicaState::Online);
        self.shown.acked_at.store(now.0, Relaxed);
    }

    /// Returns the bytes of the stream that are still to be sent.
    pub fn pending(&self, backlog: Option<&Backlog>) -> u64 {
        let behind = backlog.map_or(0, |backlog| backlog.end().saturating_sub(self.position));
        self.own.len() as u64 + if self.needs_stream() { behind } else { 0 }
    }

    /// Sends as much as its socket takes. Returns the number of bytes.
    pub fn send(&mut self, backlog: Option<&Backlog>) -> Result<u64, Ended> {
        let (mut sent, is_streamed) = (0, self.is_streamed());
        let Some(socket) = &mut self.socket else { return Ok(0) };
        while self.writable {
            let written = if !self.own.is_empty() {
                let written = socket.stream().write(&self.own).map_err(|_| Ended::Gone)?;
                self.own.drain(..written.unwrap_or(0));
                written
            } else if let Some(backlog) = backlog.filter(|_| is_streamed) {
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
        self.info.output_bytes.fetch_add(sent, Relaxed);
        Ok(sent)
    }

    /// Publishes its memory: input, and bytes that are still to be sent.
    pub fn show(&self, pending: u64) {
        let (query, pending) = (self.input.len(), usize::try_from(pending).unwrap_or(usize::MAX));
        let held = self.own.len() + self.input.capacity() + size_of::<Replica>();
        let (reply_bytes, reply_chunks) = (pending, usize::from(pending > 0));
        self.info.buffers.show(BufferSizes { query, reply_bytes, reply_chunks, ..BufferSizes::default() });
        self.info.memory.store(held, Relaxed);
        self.shown.pending.store(pending as u64, Relaxed);
    }

    /// Reads input that has come.
    pub fn read(&mut self) -> Result<(), Ended> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        let mut buffer = [0; 4096];
        while socket.is_readable() {
            let read = socket.read(&mut buffer).map_err(|_| Ended::Gone)?;
            self.info.input_bytes.fetch_add(read as u64, Relaxed);
            self.input.extend_from_slice(&buffer[..read]);
            if socket.has_ended() {
                return Err(Ended::Gone);
            }
            if self.input.len() > INPUT_MAX {
                return Err(Ended::Gone);
            }
        }
        Ok(())
    }

    /// Takes its words, up to the first request that is to be answered; acknowledgements are taken together.
    pub fn next_word(&mut self) -> Result<Heard, Ended> {
        let (limits, mut acked) = (RequestLimits::default(), Heard::Nothing);
        if self.socket.is_none() {
            return Ok(acked);
        }
        loop {
            let mut spans = Vec::new();
            match self.parser.parse(&self.input, &limits, &mut spans) {
                Ok(Progress::Command { consumed, owned }) => {
                    let words: Vec<&[u8]> = spans.iter().map(|span| span.of(&self.input)).collect();
                    note_command(&self.info, &words);
                    let is_offered = self.phase == Phase::Offered;
                    let heard = match owned.is_empty() {
                        true => take_words(&words, &mut self.acks, is_offered)?,
                        false => Heard::Nothing,
                    };
                    self.input.drain(..consumed);
                    match heard {
                        Heard::Nothing | Heard::Alive => {}
                        Heard::Acked => acked = Heard::Acked,
                        Heard::Names(_) | Heard::Asked(..) => return Ok(heard),
                    }
                }
                Ok(Progress::Empty { consumed }) => {
                    self.input.drain(..consumed);
                    if matches!(acked, Heard::Nothing) {
                        acked = Heard::Alive;
                    }
                }
                Ok(Progress::Incomplete) => return Ok(acked),
                Ok(Progress::Large { .. }) => return Err(Ended::Gone),
                Err(_) => return Err(Ended::Gone),
            }
        }
    }
}

/// Shows others the command, and that it came.
fn note_command(info: &ClientInfo, words: &[&[u8]]) {
    let entry = words.first().and_then(|name| CommandTable::get().find(name));
    info.last_command.store(entry.map_or(0, |entry| entry.id + 1), Relaxed);
    info.commands.fetch_add(1, Relaxed);
}

/// Returns the word of a command. `is_offered`: the command may ask for the stream behind a snapshot.
fn take_words(words: &[&[u8]], acks: &mut Acks, is_offered: bool) -> Result<Heard, Ended> {
    let is = |index: usize, word: &str| words.get(index).is_some_and(|it| it.eq_ignore_ascii_case(word.as_bytes()));
    let number = |index: usize| words.get(index).and_then(|word| parse_i64(word));
    if is(0, "replconf") && is(1, "ack") {
        return Ok(if acks.take(words[2..].iter().copied()) { Heard::Acked } else { Heard::Nothing });
    }
    if is(0, "replconf") && is(1, "getack") {
        return Ok(Heard::Nothing);
    }
    if is_offered {
        match (is(0, "replconf") && is(1, "set-rdb-client-id"), is(0, "psync"), number(2)) {
            (true, _, Some(client)) => return Ok(Heard::Names(client)),
            (_, true, Some(next)) => return Ok(Heard::Asked(words[1].to_vec(), next)),
            _ => {}
        }
    }
    Err(Ended::Spoke(StrayCommand::of(words)))
}
