//! A replica's side of a link to its primary.
//!
//! ```text
//!   PING - AUTH - REPLCONF ... - PSYNC id next -+- +CONTINUE ------------------------------+- stream
//!                                               +- +FULLRESYNC id offset - $length - data -+
//!                                               +- an error: the primary knows only SYNC, and sends no name
//!                                               +- +DUALCHANNELSYNC, +RDBCHANNELSYNC client: the snapshot comes over
//!                                                  a connection of its own
//! ```
//!
//! Two connections, each a link, in Valkey's way and in Redis's way:
//!
//! ```text
//!   the snapshot's   AUTH - REPLCONF rdb-channel 1 ... - SYNC - $ENDOFF:offset id db client - $EOF:mark - data
//!   the stream's                                                `- REPLCONF set-rdb-client-id client - PSYNC - stream
//!
//!   the snapshot's   AUTH - REPLCONF rdb-channel 1 main-ch-client-id client ... - PSYNC ? -1 - +FULLRESYNC id offset
//!   the stream's                                                                               `- stream
//! ```
//!
//! Bytes and times come in; [`PrimaryLink::take_output`] returns the bytes to send, and [`Arrived`] is the data that
//! has arrived. The socket's owner calls [`PrimaryLink::take`] with all bytes that were not taken yet, and
//! [`PrimaryLink::tick`] now and then.

use crate::ack_schedule::{AckSchedule, PERIOD, ack_command};
use crate::in_sync_set::Term;
use crate::link_event::{Arrived, LinkError, Position, SnapshotEnd};
pub use crate::link_settings::LinkSettings;
use crate::replid::{ID_LEN, ReplicationId};
use crate::snapshot_frame::{Frame, FramePart};
use crate::stream_parser::Units;

/// Greatest length of a primary's line.
const LINE_MAX: usize = 1024;

#[derive(Debug)]
enum State {
    Ping,
    /// Answers to wait for, in order, before PSYNC is sent.
    Options(std::vec::IntoIter<Question>),
    Psync,
    /// Another connection asks for the snapshot.
    Apart,
    /// The replica sends the primary that connection's name.
    Associating,
    /// The snapshot's connection waits for the snapshot's end in the stream.
    EndOffset,
    Header {
        /// Whether this line is the answer to SYNC.
        sync: bool,
    },
    Snapshot(Frame),
    /// The snapshot has arrived; the stream begins once the snapshot is in place.
    Loading,
    Stream(Units),
}

/// Request before PSYNC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Auth,
    Option,
    /// Without this option there is no snapshot over this connection.
    Needed,
}

/// A link, from its connection to its end.
#[derive(Debug)]
pub struct PrimaryLink {
    settings: LinkSettings,
    position: Option<Position>,
    state: State,
    output: Vec<u8>,
    last_input: u64,
    acks: AckSchedule,
    /// Whether PSYNC is the end of a failover that the primary asked for.
    is_failover: bool,
    /// Whether the stream arrives over another link, and continues where this link will say.
    is_for_snapshot: bool,
    /// Latest term that the primary knows, once it has answered PSYNC; None: the primary knows no terms.
    pub term: Option<Term>,
}

impl PrimaryLink {
    /// Creates a link that has just been connected, of a replica with this data.
    pub fn new(settings: LinkSettings, position: Option<Position>, now: u64) -> PrimaryLink {
        let (state, output) = (State::Ping, command(&[b"PING"]));
        let (is_failover, is_for_snapshot, term) = (false, false, None);
        PrimaryLink {
            settings,
            position,
            state,
            output,
            last_input: now,
            acks: AckSchedule::default(),
            is_failover,
            is_for_snapshot,
            term,
        }
    }

    /// Creates a link that brings only a snapshot; the stream arrives over the link that the primary calls `main`.
    pub fn for_snapshot(settings: LinkSettings, main: Option<u64>, now: u64) -> PrimaryLink {
        let mut link = PrimaryLink::new(settings, None, now);
        link.output.clear();
        let port = link.settings.port.to_string();
        let mut asked = Vec::from_iter(link.authenticate());
        let version = ["version", link.settings.version];
        if main.is_some() {
            // Redis does not know the option `version`.
            link.output.extend(command(&[b"REPLCONF", b"version", version[1].as_bytes()]));
            asked.push(Question::Option);
        }
        let client = main.map(|client| client.to_string());
        let last = client.as_ref().map_or(version, |client| ["main-ch-client-id", client]);
        let words = ["REPLCONF", "capa", "eof", "rdb-only", "1", "rdb-channel", "1", "listening-port", &port];
        let words: Vec<&[u8]> = words.into_iter().chain(last).map(str::as_bytes).collect();
        link.output.extend(command(&words));
        asked.push(Question::Needed);
        if !link.settings.announce_ip.is_empty() {
            link.output.extend(command(&[b"REPLCONF", b"ip-address", &link.settings.announce_ip]));
            asked.push(Question::Needed);
        }
        link.state = State::Options(asked.into_iter());
        link.is_for_snapshot = main.is_none();
        link
    }

    /// Asks for the stream behind a snapshot that ends there and arrives over the other connection.
    pub fn associate(&mut self, end: &SnapshotEnd) {
        self.position = Some(end.position);
        let Some(client) = end.client else { return self.begin_stream() };
        let client = client.to_string();
        self.output.extend(command(&[b"REPLCONF", b"set-rdb-client-id", client.as_bytes()]));
        self.state = State::Associating;
    }

    /// Makes PSYNC order the primary to follow this server from then on.
    pub fn set_failover(&mut self) {
        self.is_failover = true;
    }

    /// Returns whether the primary was asked to take over and has not answered.
    pub fn awaits_failover(&self) -> bool {
        self.is_failover && matches!(self.state, State::Psync)
    }

    /// Takes the bytes to send.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Returns whether the stream has begun.
    pub fn is_streaming(&self) -> bool {
        matches!(self.state, State::Stream(_))
    }

    /// Returns whether INFO and ROLE show the link as in its handshake.
    pub fn is_in_handshake(&self) -> bool {
        matches!(self.state, State::Ping | State::Options(_) | State::Psync)
    }

    /// Returns the length that the input will have at the end of an argument of the stream; 0: none is on its way.
    pub fn expected(&self) -> usize {
        if let State::Stream(units) = &self.state { units.expected() } else { 0 }
    }

    /// Takes the next part of `input`: returns its length, and the part. The caller passes bytes that were not taken
    /// again.
    ///
    /// # Errors
    /// Returns the reason for which the link cannot be used any more.
    pub fn take<'b>(&mut self, input: &'b [u8], now: u64) -> Result<(usize, Arrived<'b>), LinkError> {
        match &mut self.state {
            State::Loading => Ok((0, Arrived::Nothing)),
            State::Snapshot(frame) => {
                let (taken, part) = frame.take(input);
                if taken > 0 {
                    self.last_input = now;
                }
                match part {
                    FramePart::Data(data) => Ok((taken, Arrived::Data(data))),
                    FramePart::Incomplete => Ok((taken, Arrived::Nothing)),
                    FramePart::End => {
                        self.state = State::Loading;
                        Ok((taken, Arrived::SnapshotEnd))
                    }
                }
            }
            State::Stream(units) => Ok(units.next_of(input)?.arrived(input)),
            State::Ping
            | State::Options(_)
            | State::Psync
            | State::Apart
            | State::Associating
            | State::EndOffset
            | State::Header { .. } => {
                // Some primaries send this byte only to keep the link alive.
                if input.first() == Some(&0) {
                    return Ok((1, Arrived::Nothing));
                }
                let Some(end) = input.iter().take(LINE_MAX).position(|byte| *byte == b'\n') else {
                    let text = || LinkError::Unexpected("a line", String::from("too long"));
                    return if input.len() >= LINE_MAX { Err(text()) } else { Ok((0, Arrived::Nothing)) };
                };
                self.last_input = now;
                let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
                if line.is_empty() {
                    return Ok((end + 1, Arrived::Nothing));
                }
                Ok((end + 1, self.line(line)?))
            }
        }
    }

    fn line<'b>(&mut self, line: &[u8]) -> Result<Arrived<'b>, LinkError> {
        let text = || String::from_utf8_lossy(line).into_owned();
        match &mut self.state {
            State::Ping => {
                let refusals = [&b"-NOAUTH"[..], b"-NOPERM", b"-ERR operation not permitted"];
                if line[0] != b'+' && !refusals.iter().any(|refusal| line.starts_with(refusal)) {
                    return Err(LinkError::Unexpected("PING", text()));
                }
                self.ask();
            }
            State::Options(left) => match left.next() {
                Some(Question::Auth) if line[0] == b'-' => return Err(LinkError::Auth(text())),
                Some(Question::Needed) if line[0] == b'-' => return Err(LinkError::Unexpected("REPLCONF", text())),
                _ if left.len() > 0 => {}
                _ if self.is_for_snapshot => {
                    self.output.extend(command(&[b"SYNC"]));
                    self.state = State::EndOffset;
                }
                _ => self.psync(),
            },
            State::Apart => return Err(LinkError::Unexpected("nothing", text())),
            State::Associating if line[0] == b'-' => return Err(LinkError::Unexpected("REPLCONF", text())),
            State::Associating => self.psync(),
            State::EndOffset => return self.end_offset(line),
            State::Psync => return self.psync_answer(line),
            State::Header { .. } => return self.header(line),
            State::Snapshot(_) | State::Loading | State::Stream(_) => {}
        }
        Ok(Arrived::Nothing)
    }

    /// Sends all options that a primary may want.
    fn ask(&mut self) {
        let mut asked = Vec::from_iter(self.authenticate());
        let settings = &self.settings;
        let mut ask = |question, words: &[&[u8]]| {
            self.output.extend(command(words));
            asked.push(question);
        };
        let port = settings.port.to_string();
        ask(Question::Option, &[b"REPLCONF", b"listening-port", port.as_bytes()]);
        if !settings.announce_ip.is_empty() {
            ask(Question::Option, &[b"REPLCONF", b"ip-address", &settings.announce_ip]);
        }
        let mut words: Vec<&[u8]> = vec![b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"];
        if settings.dual_channel {
            words.extend([&b"capa"[..], b"dual-channel", b"capa", b"rdb-channel-repl"]);
        }
        for word in settings.introduction.split_ascii_whitespace() {
            words.extend([&b"capa"[..], word.as_bytes()]);
        }
        ask(Question::Option, &words);
        ask(Question::Option, &[b"REPLCONF", b"version", settings.version.as_bytes()]);
        if let Some(node) = &settings.node {
            ask(Question::Option, &[b"REPLCONF", b"set-cluster-node-id", node.as_bytes()]);
        }
        self.state = State::Options(asked.into_iter());
    }

    /// Sends the user and the password, if the primary wants them.
    fn authenticate(&mut self) -> Option<Question> {
        let LinkSettings { user, password, .. } = &self.settings;
        if password.is_empty() {
            return None;
        }
        let words: &[&[u8]] = if user.is_empty() { &[b"AUTH", password] } else { &[b"AUTH", user, password] };
        self.output.extend(command(words));
        Some(Question::Auth)
    }

    fn psync(&mut self) {
        let next = self.position.map_or_else(|| "-1".to_owned(), |position| (position.offset + 1).to_string());
        let id = self.position.as_ref().map_or("?", |position| position.id.as_str());
        let mut words: Vec<&[u8]> = vec![b"PSYNC", id.as_bytes(), next.as_bytes()];
        if self.is_failover {
            words.push(b"FAILOVER");
        }
        self.output.extend(command(&words));
        self.state = State::Psync;
    }

    fn psync_answer<'b>(&mut self, line: &[u8]) -> Result<Arrived<'b>, LinkError> {
        let text = || String::from_utf8_lossy(line).into_owned();
        let unexpected = |what| LinkError::Unexpected(what, text());
        self.term = Term::of_answer(line);
        if let Some(rest) = line.strip_prefix(b"+FULLRESYNC") {
            let mut words = rest.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
            let id = words.next().and_then(ReplicationId::parse);
            let offset = words.next().and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
            self.state = State::Header { sync: false };
            self.position = id.zip(offset).map(|(id, offset)| Position { id, offset });
            return Ok(self.position.map_or(Arrived::Unnamed, Arrived::FullSync));
        }
        if let Some(rest) = line.strip_prefix(b"+CONTINUE") {
            let id = rest.strip_prefix(b" ").and_then(|id| ReplicationId::parse(&id[..id.len().min(ID_LEN)]));
            if let (Some(id), Some(position)) = (id, &mut self.position) {
                position.id = id;
            }
            if self.position.is_none() {
                return Err(LinkError::Unexpected("PSYNC", text()));
            }
            self.begin_stream();
            return Ok(Arrived::Continue(id));
        }
        if line.starts_with(b"+DUALCHANNELSYNC") && self.settings.dual_channel {
            self.state = State::Apart;
            return Ok(Arrived::DualChannel(None));
        }
        if let Some(rest) = line.strip_prefix(b"+RDBCHANNELSYNC ").filter(|_| self.settings.dual_channel) {
            let client = std::str::from_utf8(rest).ok().and_then(|client| client.trim_ascii().parse().ok());
            self.state = State::Apart;
            return client.map(|client| Arrived::DualChannel(Some(client))).ok_or_else(|| unexpected("PSYNC"));
        }
        if self.is_failover {
            return Err(LinkError::FailoverRefused(text()));
        }
        if line.starts_with(b"-NOMASTERLINK") || line.starts_with(b"-LOADING") {
            return Err(LinkError::Later(text()));
        }
        if line[0] != b'-' {
            return Err(LinkError::Unexpected("PSYNC", text()));
        }
        self.output.extend(command(&[b"SYNC"]));
        (self.state, self.position) = (State::Header { sync: true }, None);
        Ok(Arrived::Unnamed)
    }

    fn end_offset<'b>(&mut self, line: &[u8]) -> Result<Arrived<'b>, LinkError> {
        let text = || String::from_utf8_lossy(line).into_owned();
        if line[0] == b'-' {
            return Err(LinkError::Aborted(text()));
        }
        let end = line.strip_prefix(b"$ENDOFF:").and_then(SnapshotEnd::parse);
        let end = end.ok_or_else(|| LinkError::Unexpected("SYNC", text()))?;
        self.position = Some(end.position);
        self.state = State::Header { sync: true };
        Ok(Arrived::EndOffset(end))
    }

    fn header<'b>(&mut self, line: &[u8]) -> Result<Arrived<'b>, LinkError> {
        let text = || String::from_utf8_lossy(line).into_owned();
        if line[0] == b'-' {
            return Err(LinkError::Aborted(text()));
        }
        let frame = line.strip_prefix(b"$").and_then(Frame::parse);
        let frame = frame.ok_or_else(|| LinkError::Unexpected("SYNC", text()))?;
        let len = frame.size();
        self.state = State::Snapshot(frame);
        Ok(Arrived::Snapshot(len))
    }

    /// Begins the stream: the snapshot is in place.
    pub fn begin_stream(&mut self) {
        self.state = State::Stream(Units::default());
        self.acks.begin();
    }

    /// Returns the place of the data before the first byte of the stream; None if the history has no name.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Records that bytes have arrived from the primary.
    pub fn note_input(&mut self, now: u64) {
        self.last_input = now;
    }

    /// Returns when bytes arrived last.
    pub fn last_input(&self) -> u64 {
        self.last_input
    }

    /// Acknowledges an offset; `durable`: the part that is on the replica's disk, if it has a log.
    pub fn ack(&mut self, offset: u64, durable: Option<u64>, now: u64) {
        self.acks.note(offset, now);
        self.output.extend(ack_command(offset, durable));
    }

    /// Returns the milliseconds until an acknowledgement of `offset` is due.
    pub fn owes_ack_in(&self, offset: u64, now: u64) -> u64 {
        if self.is_streaming() { self.acks.due_in(offset, now) } else { PERIOD }
    }

    /// Sets the greatest silence of the primary, in milliseconds.
    pub fn set_timeout(&mut self, timeout: u64) {
        self.settings.timeout = timeout;
    }

    /// Checks that the primary is not silent for too long.
    ///
    /// # Errors
    /// Returns [`LinkError::Timeout`].
    pub fn tick(&self, now: u64) -> Result<(), LinkError> {
        let what = match self.state {
            State::Stream(_) => "PRIMARY timeout: no data nor PING received...",
            State::Header { sync: true } => "receiving the answer to SYNC from PRIMARY",
            State::Header { sync: false } | State::Snapshot(_) => "receiving bulk data from PRIMARY...",
            State::EndOffset => "receiving the answer to SYNC from PRIMARY",
            // The other connection watches for its own silence.
            State::Loading | State::Apart => return Ok(()),
            State::Ping | State::Options(_) | State::Psync | State::Associating => "connecting to the PRIMARY...",
        };
        if now.saturating_sub(self.last_input) > self.settings.timeout { Err(LinkError::Timeout(what)) } else { Ok(()) }
    }
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    resp::encode_command(&mut bytes, words);
    bytes
}

/// Fuzz hook: a primary's bytes, in any chunks, are taken or refused, and no byte is taken twice.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    let position = Position { id: ReplicationId::of(1, 1), offset: 7 };
    let (piece, data) = data.split_first().map_or((1, data), |(first, rest)| (usize::from(*first) + 1, rest));
    let settings = LinkSettings { version: "9.0.0", timeout: 1000, ..LinkSettings::default() };
    let mut link = PrimaryLink::new(settings, (piece % 2 == 0).then_some(position), 0);
    let (mut start, mut end) = (0, 0);
    while end < data.len() {
        end = (end + piece).min(data.len());
        loop {
            let Ok((taken, arrived)) = link.take(&data[start..end], 1) else { return };
            assert!(taken <= end - start, "what is taken is there");
            start += taken;
            match arrived {
                Arrived::SnapshotEnd => link.begin_stream(),
                Arrived::Nothing if taken == 0 => break,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_sync_set::InSyncSet;
    use proptest::prelude::*;

    const ID: &str = "0123456789012345678901234567890123456789";
    const OTHER: &str = "abcdefabcdefabcdefabcdefabcdefabcdefabcd";

    fn settings() -> LinkSettings {
        LinkSettings { port: 7000, version: "9.0.0", timeout: 60_000, ..LinkSettings::default() }
    }

    fn position() -> Position {
        Position { id: ReplicationId::parse(ID.as_bytes()).unwrap(), offset: 100 }
    }

    /// Returns the words that the link sends.
    fn sent(link: &mut PrimaryLink) -> String {
        let output = String::from_utf8(link.take_output()).unwrap();
        let words: Vec<&str> = output.split("\r\n").filter(|line| !line.starts_with(['*', '$'])).collect();
        words.join(" ").trim().to_owned()
    }

    /// Takes all of the input, and returns the noteworthy parts as text.
    fn feed(link: &mut PrimaryLink, mut input: &[u8]) -> Result<Vec<String>, LinkError> {
        let mut told = Vec::new();
        loop {
            let (taken, arrived) = link.take(input, 0)?;
            input = &input[taken..];
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            told.push(match arrived {
                Arrived::Nothing if taken == 0 => break,
                Arrived::Nothing => continue,
                Arrived::Unnamed => "unnamed".to_owned(),
                Arrived::FullSync(position) => format!("full {} {}", position.id, position.offset),
                Arrived::Continue(id) => format!("continue {}", id.map_or(String::new(), |id| id.to_string())),
                Arrived::DualChannel(client) => format!("dual channel {client:?}"),
                Arrived::EndOffset(end) => format!("end {} {} {:?}", end.position.offset, end.db, end.client),
                Arrived::Snapshot(len) => format!("snapshot {len:?}"),
                Arrived::Data(data) => format!("data {}", text(data)),
                Arrived::SnapshotEnd => "end".to_owned(),
                Arrived::Commands(bytes) => format!("commands {}", bytes.len()),
                Arrived::GetAck(bytes) => format!("getack {}", bytes.len()),
                Arrived::InSync(bytes) => InSyncSet::of_command(bytes).map_or(String::new(), |set| set.to_string()),
            });
        }
        Ok(told)
    }

    /// Creates a link that has sent PSYNC.
    fn asking(position: Option<Position>) -> PrimaryLink {
        let mut link = PrimaryLink::new(settings(), position, 0);
        assert_eq!(sent(&mut link), "PING");
        feed(&mut link, b"+PONG\r\n").unwrap();
        let said = sent(&mut link);
        assert_eq!(said, "REPLCONF listening-port 7000 REPLCONF capa eof capa psync2 REPLCONF version 9.0.0");
        // The link ignores errors of primaries that do not know an option.
        feed(&mut link, b"+OK\r\n-ERR what\r\n+OK\r\n").unwrap();
        link
    }

    #[test]
    fn a_handshake_says_who_the_replica_is() {
        let settings = LinkSettings {
            user: b"u".to_vec(),
            password: b"p".to_vec(),
            announce_ip: b"10.0.0.1".to_vec(),
            introduction: "in-sync:x".to_owned(),
            ..settings()
        };
        let mut link = PrimaryLink::new(settings.clone(), None, 0);
        link.take_output();
        feed(&mut link, b"-NOAUTH Authentication required.\r\n").unwrap();
        assert_eq!(
            sent(&mut link),
            "AUTH u p REPLCONF listening-port 7000 REPLCONF ip-address 10.0.0.1 REPLCONF capa eof capa psync2 \
             capa in-sync:x REPLCONF version 9.0.0"
        );
        feed(&mut link, b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n").unwrap();
        assert_eq!(sent(&mut link), "");
        feed(&mut link, b"+OK\r\n").unwrap();
        assert_eq!(sent(&mut link), "PSYNC ? -1");
        let mut link = PrimaryLink::new(settings, None, 0);
        feed(&mut link, b"+PONG\r\n").unwrap();
        assert!(matches!(feed(&mut link, b"-WRONGPASS\r\n"), Err(LinkError::Auth(_))));
        let mut link = PrimaryLink::new(LinkSettings::default(), None, 0);
        assert!(matches!(feed(&mut link, b"-ERR nothing\r\n"), Err(LinkError::Unexpected("PING", _))));
        assert!(matches!(feed(&mut link, &[b'x'; LINE_MAX]), Err(LinkError::Unexpected("a line", _))));
    }

    #[test]
    fn a_snapshot_comes_by_its_length_or_up_to_its_mark() {
        let mut link = asking(None);
        assert_eq!(sent(&mut link), "PSYNC ? -1");
        let text = format!("\n+FULLRESYNC {ID} 14\r\n\n\n$3\r\nabc*1\r\n");
        assert_eq!(
            feed(&mut link, text.as_bytes()).unwrap(),
            [format!("full {ID} 14"), "snapshot Some(3)".into(), "data abc".into(), "end".into()]
        );
        assert_eq!(link.position().map(|position| position.offset), Some(14));
        link.begin_stream();
        assert_eq!(feed(&mut link, b"*1\r\n$4\r\nPING\r\n").unwrap(), ["commands 14"]);
        let mut link = asking(None);
        let text = format!("+FULLRESYNC {ID} 14\r\n$EOF:{OTHER}\r\nabc{OTHER}");
        let told = feed(&mut link, text.as_bytes()).unwrap();
        assert_eq!(told, [format!("full {ID} 14"), "snapshot None".into(), "data abc".into(), "end".into()]);
    }

    #[test]
    fn a_primary_may_go_on_with_the_stream_or_with_another_name() {
        for (answer, id) in [("+CONTINUE\r\n".to_owned(), ID), (format!("+CONTINUE {OTHER}\r\n"), OTHER)] {
            let mut link = asking(Some(position()));
            assert_eq!(sent(&mut link), format!("PSYNC {ID} 101"));
            assert_eq!(feed(&mut link, answer.as_bytes()).unwrap().len(), 1);
            assert!(link.is_streaming() && link.position().is_some_and(|known| known.id.as_str() == id));
        }
        assert!(feed(&mut asking(None), b"+CONTINUE\r\n").is_err());
    }

    #[test]
    fn a_primary_that_cannot_be_followed_is_asked_later_or_in_the_old_way() {
        for answer in ["-NOMASTERLINK Can't SYNC\r\n", "-LOADING wait\r\n"] {
            assert!(matches!(feed(&mut asking(None), answer.as_bytes()), Err(LinkError::Later(_))), "{answer}");
        }
        let mut link = asking(Some(position()));
        assert_eq!(feed(&mut link, b"-ERR unknown command\r\n").unwrap(), ["unnamed"]);
        assert!(sent(&mut link).ends_with("SYNC") && link.position().is_none());
        assert_eq!(feed(&mut link, b"$2\r\nab").unwrap(), ["snapshot Some(2)", "data ab", "end"]);
        let mut link = asking(None);
        assert!(matches!(feed(&mut link, b"+FULLRESYNC\r\n-ERR no\r\n"), Err(LinkError::Aborted(_))));
        assert!(matches!(feed(&mut asking(None), b"+WHAT\r\n"), Err(LinkError::Unexpected("PSYNC", _))));
        assert!(matches!(feed(&mut asking(None), b"+FULLRESYNC\r\n!3\r\n"), Err(LinkError::Unexpected("SYNC", _))));
    }

    #[test]
    fn a_snapshot_may_come_over_a_connection_of_its_own() {
        let settings = LinkSettings { dual_channel: true, password: b"p".to_vec(), ..settings() };
        let mut main = PrimaryLink::new(settings.clone(), Some(position()), 0);
        feed(&mut main, b"+PONG\r\n").unwrap();
        assert!(sent(&mut main).contains("capa eof capa psync2 capa dual-channel capa rdb-channel-repl"));
        feed(&mut main, b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n").unwrap();
        sent(&mut main);
        assert_eq!(feed(&mut main, b"+DUALCHANNELSYNC\r\n").unwrap(), ["dual channel None"]);
        let mut snapshot = PrimaryLink::for_snapshot(settings.clone(), None, 0);
        assert_eq!(
            sent(&mut snapshot),
            "AUTH p REPLCONF capa eof rdb-only 1 rdb-channel 1 listening-port 7000 version 9.0.0"
        );
        feed(&mut snapshot, b"+OK\r\n+OK\r\n").unwrap();
        assert_eq!(sent(&mut snapshot), "SYNC");
        let line = format!("$ENDOFF:500 {OTHER} -1 17\r\n");
        let (_, arrived) = snapshot.take(line.as_bytes(), 0).unwrap();
        let Arrived::EndOffset(end) = arrived else { panic!("{arrived:?}") };
        assert!((end.db, end.client, end.position.offset) == (0, Some(17), 500) && end.position.id.as_str() == OTHER);
        main.associate(&end);
        assert_eq!(sent(&mut main), "REPLCONF set-rdb-client-id 17");
        feed(&mut main, b"+OK\r\n").unwrap();
        assert_eq!(sent(&mut main), format!("PSYNC {OTHER} 501"));
        assert_eq!(feed(&mut main, format!("+CONTINUE {OTHER}\r\n").as_bytes()).unwrap().len(), 1);
        assert!(main.is_streaming());
        let told = feed(&mut snapshot, format!("\n$EOF:{ID}\r\nabc{ID}").as_bytes()).unwrap();
        assert_eq!(told, ["snapshot None", "data abc", "end"]);
        let mut refused = PrimaryLink::for_snapshot(settings, None, 0);
        feed(&mut refused, b"+OK\r\n").unwrap();
        assert!(feed(&mut refused, b"-ERR no such option\r\n").is_err());
        for line in ["$ENDOFF:1 x 0 1", "$ENDOFF:-1", "$5", "-ERR no"] {
            let mut link = PrimaryLink::for_snapshot(super::tests::settings(), None, 0);
            feed(&mut link, b"+OK\r\n").unwrap();
            assert!(feed(&mut link, format!("{line}\r\n").as_bytes()).is_err(), "{line}");
        }
        // A primary does not offer a second connection to a replica that has not announced the capability.
        assert!(feed(&mut asking(None), b"+DUALCHANNELSYNC\r\n").is_err());
    }

    #[test]
    fn a_redis_begins_the_stream_by_itself_when_the_snapshot_does() {
        let settings = LinkSettings { dual_channel: true, ..settings() };
        let mut main = PrimaryLink::new(settings.clone(), None, 0);
        feed(&mut main, b"+PONG\r\n+OK\r\n+OK\r\n+OK\r\n").unwrap();
        assert_eq!(feed(&mut main, b"+RDBCHANNELSYNC 5\r\n").unwrap(), ["dual channel Some(5)"]);
        let mut snapshot = PrimaryLink::for_snapshot(settings.clone(), Some(5), 0);
        let asked = sent(&mut snapshot);
        assert!(asked.starts_with("REPLCONF version 9.0.0 REPLCONF capa eof"), "{asked}");
        assert!(asked.ends_with("rdb-channel 1 listening-port 7000 main-ch-client-id 5"), "{asked}");
        feed(&mut snapshot, b"-ERR no such option\r\n+OK\r\n").unwrap();
        assert_eq!(sent(&mut snapshot), "PSYNC ? -1");
        let line = format!("+FULLRESYNC {OTHER} 500\r\n");
        let (_, arrived) = snapshot.take(line.as_bytes(), 0).unwrap();
        let Arrived::FullSync(position) = arrived else { panic!("{arrived:?}") };
        sent(&mut main);
        main.associate(&SnapshotEnd { position, db: 0, client: None });
        assert!(main.is_streaming() && sent(&mut main).is_empty() && main.position() == Some(position));
        let told = feed(&mut snapshot, format!("$EOF:{ID}\r\nabc{ID}").as_bytes()).unwrap();
        assert_eq!(told, ["snapshot None", "data abc", "end"]);
        let mut link = PrimaryLink::new(settings, None, 0);
        feed(&mut link, b"+PONG\r\n+OK\r\n+OK\r\n+OK\r\n").unwrap();
        assert!(feed(&mut link, b"+RDBCHANNELSYNC x\r\n").is_err());
    }

    #[test]
    fn a_primary_tells_its_term_and_its_set() {
        let mut link = asking(Some(position()));
        let set = format!("in-sync 3:{ID} 7 1/{OTHER}");
        let text = format!("+CONTINUE in-sync:3:{ID}\r\nPING\r\n*2\r\n$4\r\nPING\r\n${}\r\n{set}\r\n", set.len());
        assert_eq!(feed(&mut link, text.as_bytes()).unwrap()[1..], ["commands 6".to_owned(), set]);
        assert_eq!(link.term.map(|term| term.number), Some(3));
    }

    #[test]
    fn a_replica_is_asked_to_take_over_and_may_refuse() {
        for answer in ["+CONTINUE\r\n", "-LOADING wait\r\n", "-NOPERM no\r\n", "+WHAT\r\n"] {
            let mut link = PrimaryLink::new(settings(), Some(position()), 0);
            link.set_failover();
            feed(&mut link, b"+PONG\r\n+OK\r\n+OK\r\n+OK\r\n").unwrap();
            assert!(sent(&mut link).ends_with(&format!("PSYNC {ID} 101 FAILOVER")) && link.awaits_failover());
            let refused = matches!(feed(&mut link, answer.as_bytes()), Err(LinkError::FailoverRefused(_)));
            assert_eq!((refused, link.awaits_failover()), (answer != "+CONTINUE\r\n", refused), "{answer}");
        }
    }

    #[test]
    fn acknowledgements_go_out_each_second_and_silence_ends_the_link() {
        let mut link = asking(Some(position()));
        assert!(link.owes_ack_in(100, 0) > 0 && link.tick(60_000).is_ok() && link.tick(60_001).is_err());
        feed(&mut link, b"+CONTINUE\r\n").unwrap();
        link.take_output();
        assert_eq!(link.owes_ack_in(100, 0), 0);
        link.ack(100, Some(90), 0);
        assert_eq!(sent(&mut link), "REPLCONF ACK 100 FACK 90");
        assert_eq!(link.owes_ack_in(100, 0), PERIOD);
        link.note_input(70_000);
        assert!(link.tick(130_000).is_ok() && link.tick(130_001).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused(data in prop::collection::vec(any::<u8>(), 0..400)) {
            fuzz(&data);
            let mut after = format!("\x03+PONG\r\n+OK\r\n+OK\r\n+OK\r\n+FULLRESYNC {ID} 1\r\n$2\r\nab").into_bytes();
            after.extend_from_slice(&data);
            fuzz(&after);
        }
    }
}
