//! A snapshot for replicas: one thread writes it, and each replica has one that sends it.
//!
//! ```text
//!   primary's thread      wants one . . . . . . . . . gets its beginning: +FULLRESYNC . . . . . has the sockets again
//!   snapshot's thread          begins under all locks - written to the fan-out, or to a file
//!   a replica's thread                                  $EOF: or $length, the bytes, the mark
//! ```
//!
//! The moment of the snapshot is recorded under its locks, before anything is appended to the log after it. So the
//! thread that frames the log stops there, and knows the stream's offset of that moment.

use crate::connection::socket::SocketStream;
use crate::system::log;
use crate::workers::replication_messages::{ReplicationMessage, SnapshotAt, SyncEvent};
use crate::workers::shared::Shared;
use commands::persistence::history_fields::begin_between_commands;
use commands::replication::snapshot_options::{options, reads_element_expiries};
use crossbeam_channel::bounded;
use engine::clients::registry::ClientInfo;
use engine::host::files::Scratch;
use engine::locks::sync::assert_unlocked;
use engine::status::replication_status::ReplicationStatus;
use mio::{Events, Poll, Token};
use persistence::fan_out::{FanOut, NextBlock, Taker};
use replication::replica_handshake::Handshake;
use signal_hook::consts::SIGSTOP;
use signal_hook::low_level::raise;
use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Plan of a snapshot.
pub struct SnapshotPlan {
    pub sync: u64,
    /// Handshake that all replicas of the snapshot have in common.
    pub handshake: Handshake,
    /// Receiver of the bytes; None: a file.
    pub fan_out: Option<FanOut>,
    pub opens_reader: bool,
}

/// Starts the thread.
pub fn begin(shared: &Arc<Shared>, plan: SnapshotPlan) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let work = move || {
        let (sync, engine) = (plan.sync, &shared.engine);
        let (snapshots, saves) = (&engine.replication().snapshots, engine.persistence_status());
        let began = engine.steady_now();
        snapshots.begin(began);
        saves.forks.fetch_add(1, Relaxed);
        let written = write(&shared, plan);
        saves.note_duration(began, engine.steady_now());
        snapshots.end();
        if let Err(reason) = written {
            post(&shared, SyncEvent::Failed { sync, reason });
        }
    };
    thread::Builder::new().name("snapshot".to_owned()).spawn(work)
}

fn post(shared: &Shared, event: SyncEvent) {
    shared.replication.post(ReplicationMessage::Sync(event));
}

fn write(shared: &Shared, plan: SnapshotPlan) -> Result<(), String> {
    let (engine, status) = (&*shared.engine, shared.engine.replication());
    let SnapshotPlan { sync, handshake, fan_out, opens_reader } = plan;
    let options = options(engine, &handshake);
    let failed = |error: io::Error| error.to_string();
    let mut stop = None;
    let note = || stop = (!status.is_replica()).then(|| shared.snapshot_offsets.note(engine, opens_reader));
    let (mut file, applying) = begin_between_commands(engine, &options, note, || false).map_err(failed)?;
    let leads = stop.is_some();
    // A server's own stream selects the database anew after a snapshot; another one's continues.
    let db = if leads { 0 } else { status.link().stream_db };
    let at = stop.map_or_else(|| SnapshotAt::Stream(status.history().id, status.offset(), db), SnapshotAt::Log);
    drop(applying);
    if file.has_element_expiries() && options.data && !reads_element_expiries(&handshake, &options) {
        return Err(
            "there are hashes whose fields have expiries, which the replica's RDB version has no form for".to_owned()
        );
    }
    let (proceed, answer) = bounded(1);
    post(shared, SyncEvent::Begun { sync, at, proceed });
    assert_unlocked();
    let Ok((id, offset)) = answer.recv() else { return Ok(()) };
    for (name, value) in [("repl-stream-db", db.to_string()), ("repl-id", id.to_string())] {
        file.add_field(name, value);
    }
    file.add_field("repl-offset", offset.to_string());
    // The slots are read at the snapshot's moment or after it: later changes of them are in the stream.
    let open_slots = engine.host().open_slots();
    if !open_slots.is_empty() {
        file.add_field("cluster-slot-states", open_slots);
    }
    match fan_out {
        Some(mut fan_out) => {
            file.write(&mut fan_out).map_err(failed)?;
            fan_out.finish().map_err(failed)
        }
        None => {
            let mut to = ScratchEnd { file: engine.host().scratch_file().map_err(failed)?, len: 0 };
            file.write(&mut to).map_err(failed)?;
            let ScratchEnd { file, len } = to;
            post(shared, SyncEvent::InFile { sync, file: Arc::new(std::sync::Mutex::new(file)), len });
            Ok(())
        }
    }
}

/// Stops the process until it is continued from outside, if a client has asked for that.
pub fn stop_if_told(status: &ReplicationStatus) {
    if status.stops_after_fork.load(Relaxed) && raise(SIGSTOP).is_err() {
        log::warning("The process cannot stop itself.");
    }
}

/// Stops the process, if a client has asked for that, when these threads have ended, which continue a snapshot as a
/// child of the process would. Until then the others do nothing.
pub fn stop_beside_if_told(shared: &Shared, threads: Vec<JoinHandle<()>>) {
    let status = shared.engine.replication();
    if !status.stops_after_fork.load(Relaxed) {
        return;
    }
    let _alarm = shared.put_to_sleep();
    assert_unlocked();
    for thread in threads {
        // A thread that has panicked has ended.
        let _ = thread.join();
    }
    stop_if_told(status);
}

/// The end of a file without a name.
struct ScratchEnd {
    file: Box<dyn Scratch>,
    len: u64,
}

impl Write for ScratchEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.append_at(self.len, bytes)?;
        self.len += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Source of the bytes for a replica's thread.
pub enum SnapshotSource {
    /// The bytes while they are written.
    FanOut(Taker),
    /// A file of so many bytes.
    File(Arc<std::sync::Mutex<Box<dyn Scratch>>>, u64),
}

/// A replica that is sent a snapshot.
pub struct Transfer {
    pub token: usize,
    pub info: Arc<ClientInfo>,
    pub stream: SocketStream,
    /// Bytes that are sent before the snapshot.
    pub head: Vec<u8>,
    pub source: SnapshotSource,
    /// Time for which the replica may take nothing.
    pub patience: Duration,
}

/// Starts the thread.
pub fn send(shared: &Arc<Shared>, transfer: Transfer) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let work = move || {
        let Transfer { token, info, stream, head, source, patience } = transfer;
        let client = info.id;
        let (result, stream) = match PatientStream::new(stream, patience, info) {
            Err(error) => (Err(error), None),
            Ok(mut to) => {
                let result = to.write_all(&head).and_then(|()| pour(source, &mut to));
                (result, to.into_stream().ok())
            }
        };
        post(&shared, SyncEvent::Sent { token, client, stream, result });
    };
    thread::Builder::new().name("replica-sync".to_owned()).spawn(work)
}

/// Bytes of a file that are sent at a time.
const PART: usize = 64 << 10;

fn pour(source: SnapshotSource, to: &mut PatientStream) -> io::Result<u64> {
    match source {
        SnapshotSource::FanOut(mut taker) => {
            let mark = engine::status::replication_status::new_id();
            write!(to, "$EOF:{mark}\r\n")?;
            let mut sent = 0;
            loop {
                match taker.block_within(LOOK)? {
                    NextBlock::Block(block) => {
                        to.write_all(&block)?;
                        sent += block.len() as u64;
                    }
                    NextBlock::Later => to.see_peer()?,
                    NextBlock::End => break,
                }
            }
            write!(to, "{mark}")?;
            to.flush()?;
            Ok(sent)
        }
        SnapshotSource::File(file, len) => {
            write!(to, "${len}\r\n")?;
            let (mut part, mut sent) = (vec![0; PART], 0);
            while sent < len {
                let part = &mut part[..PART.min((len - sent) as usize)];
                file.lock().unwrap_or_else(PoisonError::into_inner).read_at(sent, part)?;
                to.write_all(part)?;
                sent += part.len() as u64;
            }
            to.flush()?;
            Ok(sent)
        }
    }
}

/// A socket for which a thread waits, for a while.
struct PatientStream {
    stream: SocketStream,
    poll: Poll,
    events: Events,
    patience: Duration,
    info: Arc<ClientInfo>,
    /// Whether the peer has closed its side.
    is_closed: bool,
}

/// Interval of checks whether the transfer is to end.
const LOOK: Duration = Duration::from_millis(100);

impl PatientStream {
    fn new(mut stream: SocketStream, patience: Duration, info: Arc<ClientInfo>) -> io::Result<PatientStream> {
        let poll = Poll::new()?;
        stream.register(poll.registry(), Token(0))?;
        Ok(PatientStream { stream, poll, events: Events::with_capacity(4), patience, info, is_closed: false })
    }

    fn into_stream(mut self) -> io::Result<SocketStream> {
        self.stream.deregister(self.poll.registry())?;
        Ok(self.stream)
    }

    fn wait(&mut self, since: Instant) -> io::Result<()> {
        if since.elapsed() > self.patience {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.watch(LOOK)
    }

    /// Checks whether there is still a replica that wants the snapshot, while there is nothing to send.
    fn see_peer(&mut self) -> io::Result<()> {
        self.watch(Duration::ZERO)?;
        if self.is_closed { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }

    /// Ends the transfer if the replica's client has ended.
    fn check_cancelled(&self) -> io::Result<()> {
        if self.info.has_ended() { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    fn watch(&mut self, time: Duration) -> io::Result<()> {
        self.check_cancelled()?;
        match self.poll.poll(&mut self.events, Some(time)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        self.is_closed |= self.events.iter().any(|event| event.is_read_closed() || event.is_error());
        Ok(())
    }
}

impl Write for PatientStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A socket that takes all at once is never waited for.
        self.check_cancelled()?;
        let since = Instant::now();
        loop {
            match self.stream.write(bytes)? {
                Some(written) => return Ok(written),
                None => self.wait(since)?,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let since = Instant::now();
        loop {
            let is_through = match &mut self.stream {
                SocketStream::Tls(stream) => stream.flush()?,
                _ => true,
            };
            if is_through {
                return Ok(());
            }
            self.wait(since)?;
        }
    }
}
