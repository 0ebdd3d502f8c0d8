//! Commands to the target and its answers.
//!
//! ```text
//!   to it      [AUTH ...] [SELECT db] command command ...
//!   from it    a line for each; -... refuses one, and before the commands all of them
//! ```
//!
//! Connections are kept for the next MIGRATE. A connection that was closed at the other end fails only when it is used,
//! so a command that gets no answer at all tries once more with a new one.

use super::Order;
use engine::config::Directive;
use engine::host::peer_connections::PeerConnection;
use engine::host::peers::Peer;
use engine::propagation::log_batch::put_command;
use engine::{Engine, Error, Word};
use std::io::{self, ErrorKind};
use std::time::Duration;

/// Bytes that are written within one timeout.
const CHUNK: usize = 64 * 1024;

/// Bytes of the longest line that such a server sends.
const LINE_MAX: usize = 64 * 1024;

/// The target's answers to the commands.
#[derive(Default)]
pub struct PeerAnswers {
    /// For each command, whether it was carried out; as many as were answered.
    pub done: Vec<bool>,
    /// The error for the client if not all were carried out.
    pub error: Option<Error>,
}

impl PeerAnswers {
    fn failed(error: Error) -> PeerAnswers {
        PeerAnswers { done: Vec::new(), error: Some(error) }
    }
}

/// The point at which the exchange broke off.
struct Broken {
    error: Error,
    timed_out: bool,
}

/// Sends `count` commands, as clients send them, and waits for their answers.
pub fn exchange(engine: &Engine, order: &Order, commands: &[u8], count: usize) -> PeerAnswers {
    let mut may_retry = true;
    loop {
        // A kept connection may be of a time when `tls-cluster` was another.
        let encrypts = engine.config().snapshot().flag(Directive::TLS_CLUSTER);
        let kept = engine.links().take(&order.address).filter(|link| link.peer.is_encrypted() == encrypts);
        let mut link = match kept.map_or_else(|| connect(engine, order), Ok) {
            Ok(link) => link,
            Err(error) => return PeerAnswers::failed(error),
        };
        let mut answers = PeerAnswers::default();
        match attempt(&mut link, order, commands, count, &mut answers) {
            Ok(()) => {
                link.db = answers.error.is_none().then_some(order.db);
                engine.links().keep(&order.address, link, engine.steady_now());
                return answers;
            }
            Err(broken) if answers.done.is_empty() && may_retry && !broken.timed_out => may_retry = false,
            Err(broken) => {
                answers.error.get_or_insert(broken.error);
                return answers;
            }
        }
    }
}

fn connect(engine: &Engine, order: &Order) -> Result<PeerConnection, Error> {
    let (host, port) = &order.address;
    match engine.host().connect(host, port, order.patience) {
        Ok(peer) => Ok(PeerConnection { peer, db: None }),
        // Valkey meets these errors when it writes.
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset) => {
            Err(Error::PeerUnwritable)
        }
        Err(_) => Err(Error::PeerUnreachable),
    }
}

fn attempt(
    link: &mut PeerConnection,
    order: &Order,
    commands: &[u8],
    count: usize,
    answers: &mut PeerAnswers,
) -> Result<(), Broken> {
    let (mut first, mut before) = (Vec::new(), 0);
    if !order.auth.is_empty() {
        let words: Vec<&[u8]> = std::iter::once(&b"AUTH"[..]).chain(order.auth.iter().map(Vec::as_slice)).collect();
        put_command(&mut first, words.into_iter());
        before += 1;
    }
    if link.db != Some(order.db) {
        put_command(&mut first, [&b"SELECT"[..], order.db.to_string().as_bytes()].into_iter());
        before += 1;
    }
    let (together, rest) = commands.split_at(commands.len().min(CHUNK));
    first.extend_from_slice(together);
    write(&mut *link.peer, order.patience, &first, rest).map_err(|error| broken(Error::PeerUnwritable, &error))?;
    let mut lines = Lines { peer: &mut *link.peer, read: Vec::new(), from: 0 };
    let mut refusal = None;
    for _ in 0..before {
        let line = lines.next().map_err(|error| broken(Error::PeerUnreadable, &error))?;
        refusal = refusal.or_else(|| refused(line));
    }
    for _ in 0..count {
        let line = lines.next().map_err(|error| broken(Error::PeerUnreadable, &error))?;
        let error = refusal.clone().or_else(|| refused(line));
        answers.done.push(error.is_none());
        if let Some(text) = error {
            answers.error.get_or_insert_with(|| Error::PeerRefused(Word::of(&text)));
        }
    }
    Ok(())
}

fn broken(told: Error, error: &io::Error) -> Broken {
    Broken { error: told, timed_out: matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) }
}

/// Returns the text of an error.
fn refused(line: &[u8]) -> Option<Vec<u8>> {
    line.strip_prefix(b"-").map(<[u8]>::to_vec)
}

fn write(peer: &mut dyn Peer, patience: Duration, first: &[u8], rest: &[u8]) -> io::Result<()> {
    peer.set_patience(patience)?;
    peer.write_all(first)?;
    rest.chunks(CHUNK).try_for_each(|chunk| peer.write_all(chunk))?;
    peer.flush()
}

/// The target's answers, line by line.
struct Lines<'p> {
    peer: &'p mut dyn Peer,
    read: Vec<u8>,
    /// Position of the next line.
    from: usize,
}

impl Lines<'_> {
    /// Returns the next line without its end.
    fn next(&mut self) -> io::Result<&[u8]> {
        let mut seen = self.from;
        loop {
            if let Some(length) = self.read[seen..].iter().position(|byte| *byte == b'\n') {
                let end = seen + length;
                let line = &self.read[self.from..end];
                self.from = end + 1;
                return Ok(line.strip_suffix(b"\r").unwrap_or(line));
            }
            self.read.drain(..std::mem::take(&mut self.from));
            seen = self.read.len();
            if seen > LINE_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            self.read.resize(seen + 4096, 0);
            let read = loop {
                match self.peer.read(&mut self.read[seen..]) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            self.read.truncate(seen + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::time::Duration;

    /// Reads out its bytes, some at a time.
    struct Script(Vec<Vec<u8>>);

    impl Read for Script {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let bytes = self.0.remove(0);
            to[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Peer for Script {
        fn set_patience(&mut self, _: Duration) -> io::Result<()> {
            Ok(())
        }
    }

    fn order(auth: &[&[u8]]) -> Order {
        let auth = auth.iter().map(|word| word.to_vec()).collect();
        let patience = Duration::from_millis(1);
        Order { address: Default::default(), db: 3, patience, copy: false, replace: false, asks: false, auth }
    }

    fn asked(db: Option<i64>, auth: &[&[u8]], count: usize, said: &[&str]) -> (Vec<bool>, String, bool) {
        let script = Script(said.iter().map(|part| part.as_bytes().to_vec()).collect());
        let (mut link, mut answers) = (PeerConnection { peer: Box::new(script), db }, PeerAnswers::default());
        let whole = attempt(&mut link, &order(auth), b"", count, &mut answers).is_ok();
        let error = answers.error.map_or_else(String::new, |error| error.to_string());
        (answers.done, error, whole)
    }

    #[test]
    fn answers_are_told_apart_by_their_lines() {
        let (ok, none) = (true, String::new());
        assert_eq!(asked(Some(3), &[], 2, &["+O", "K\r\n+OK\r", "\n"]), (vec![ok, ok], none.clone(), true));
        assert_eq!(asked(None, &[], 1, &["+OK\r\n+OK\r\n"]), (vec![ok], none.clone(), true));
        assert_eq!(asked(Some(3), &[b"p"], 2, &["+OK\r\n+OK\r\n"]), (vec![ok], none, false));
        let told = |text: &str| format!("ERR Target instance replied with error: {text}");
        let busy = asked(Some(3), &[], 3, &["+OK\r\n-BUSYKEY one\r\n", "+OK\r\n"]);
        assert_eq!(busy, (vec![ok, false, ok], told("BUSYKEY one"), true));
        let wrong = asked(Some(0), &[b"p"], 2, &["-WRONGPASS no\r\n-ERR DB\r\n+OK\r\n+OK\r\n"]);
        assert_eq!(wrong, (vec![false, false], told("WRONGPASS no"), true));
        assert!(asked(Some(3), &[], 1, &[&*"x".repeat(4096); 20]).0.is_empty());
    }
}
