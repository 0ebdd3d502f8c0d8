//! The stream of a primary: `--rdb`, `--functions-rdb` and `--replica`.
//!
//! ```text
//!   REPLCONF ... - SYNC -> \n \n ... $length or $EOF:mark - snapshot -+- the connection ends        --rdb
//!                                                                     +- REPLCONF ACK 0 - commands  --replica
//! ```
//!
//! Messages go to standard error, so that the snapshot or the commands may go to standard output. The texts are those
//! of valkey-cli.

use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use replication::snapshot_frame::{Frame, FramePart};
use resp::reply_value::Decoder;
use resp::{Value, encode_command};

use crate::protocol_client::ClientFailure;
use crate::reply_format;
use crate::resp_session::RespSession;
use crate::transport::{Transport, print, reason};

/// The longest line before a snapshot.
const LINE_MAX: usize = 4096;
/// Time that a replica waits before it acknowledges the snapshot's end.
const BEFORE_ACK: Duration = Duration::from_secs(1);

/// Writes a snapshot to a file, or to standard output if its name is `-`.
pub fn dump(mut session: RespSession, file: &str, functions_only: bool) -> Result<ExitCode, ClientFailure> {
    say(&mut session, "capa", "eof")?;
    say(&mut session, "rdb-only", "1")?;
    if functions_only && !say(&mut session, "rdb-filter-only", "functions")? {
        return Err(failure("Failed requesting functions only RDB from server, aborting"));
    }
    save(session, file)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a snapshot without announcing this program's capabilities to the primary.
pub fn save(session: RespSession, file: &str) -> Result<(), ClientFailure> {
    let (mut feed, frame) = Feed::ask(session)?;
    match frame.size() {
        Some(bytes) => eprintln!("SYNC sent to primary, writing {bytes} bytes to '{file}'"),
        None => eprintln!("SYNC sent to primary, writing bytes of bulk transfer until EOF marker to '{file}'"),
    }
    let is_marked = frame.size().is_none();
    let written = if file == "-" {
        feed.take_snapshot(frame, &mut io::stdout().lock())?
    } else {
        let mut to =
            File::create(file).map_err(|error| failure(&format!("Error opening '{file}': {}", reason(&error))))?;
        let written = feed.take_snapshot(frame, &mut to)?;
        // The primary need not wait for the disk.
        drop(feed);
        to.sync_all().map_err(|error| failure(&format!("Fail to fsync '{file}': {}", reason(&error))))?;
        written
    };
    if is_marked {
        eprintln!("Transfer finished with success after {written} bytes");
    } else {
        eprintln!("Transfer finished with success.");
    }
    Ok(())
}

/// Prints the commands that a primary sends, until the connection ends.
pub fn follow(mut session: RespSession) -> Result<ExitCode, ClientFailure> {
    say(&mut session, "capa", "eof")?;
    say(&mut session, "rdb-filter-only", "")?;
    let (mut feed, frame) = Feed::ask(session)?;
    let is_marked = frame.size().is_none();
    match frame.size() {
        Some(bytes) => eprintln!("Full resync with primary, discarding {bytes} bytes of bulk transfer..."),
        None => eprintln!("Full resync with primary, discarding bytes of bulk transfer until EOF marker..."),
    }
    let bytes = feed.take_snapshot(frame, &mut io::sink())?;
    if is_marked {
        eprintln!("Full resync done after {bytes} bytes. Logging commands from primary.");
        thread::sleep(BEFORE_ACK);
        eprintln!("sending REPLCONF ACK 0");
        let mut ack = Vec::new();
        encode_command(&mut ack, &["REPLCONF", "ACK", "0"]);
        feed.link.send(&ack).map_err(|error| ClientFailure::Lost(reason(&error)))?;
    } else {
        eprintln!("Full resync done. Logging commands from primary.");
    }
    feed.print_commands()
}

/// Announces something about this program; returns whether the server knows the option.
fn say(session: &mut RespSession, name: &str, value: &str) -> Result<bool, ClientFailure> {
    eprintln!("sending REPLCONF {name} {value}");
    let reply = session.ask(&["REPLCONF", name, value])?;
    if let Value::Error(text) = &reply {
        eprintln!("REPLCONF {name} error: {}", String::from_utf8_lossy(text));
    }
    Ok(!matches!(reply, Value::Error(_)))
}

fn failure(text: &str) -> ClientFailure {
    ClientFailure::ErrorReply(text.to_owned())
}

/// Stream of a primary.
struct Feed {
    link: Transport,
    /// Bytes received and not yet used.
    received: Vec<u8>,
}

impl Feed {
    /// Asks for a snapshot: returns how its end is recognized.
    fn ask(session: RespSession) -> Result<(Feed, Frame), ClientFailure> {
        let link = session.into_link().ok_or_else(|| ClientFailure::Lost("not connected".to_owned()))?;
        let mut feed = Feed { link, received: Vec::new() };
        feed.link.send(b"SYNC\r\n").map_err(|_| failure("Error writing to primary"))?;
        let line = feed.line()?;
        if line.starts_with(b"-") {
            let text = String::from_utf8_lossy(&line);
            return Err(failure(&format!("SYNC with primary failed: {}", text.trim_end())));
        }
        let frame = line.strip_prefix(b"$").and_then(Frame::parse);
        frame.map(|frame| (feed, frame)).ok_or_else(|| failure("Error reading bulk length while SYNCing"))
    }

    /// Returns a line that is not empty: empty ones keep the connection alive.
    fn line(&mut self) -> Result<Vec<u8>, ClientFailure> {
        loop {
            if let Some(line) = take_line(&mut self.received) {
                return Ok(line);
            }
            if self.received.len() > LINE_MAX || self.fill()? == 0 {
                return Err(failure("Error reading bulk length while SYNCing"));
            }
        }
    }

    fn fill(&mut self) -> Result<usize, ClientFailure> {
        self.link.receive(&mut self.received).map_err(|error| ClientFailure::Lost(reason(&error)))
    }

    /// Writes the snapshot; returns its number of bytes.
    fn take_snapshot(&mut self, mut frame: Frame, to: &mut dyn Write) -> Result<u64, ClientFailure> {
        let failed = |error: io::Error| failure(&format!("Error writing data to file: {}", reason(&error)));
        let mut written = 0;
        loop {
            let (taken, part) = frame.take(&self.received);
            let (has_ended, is_incomplete) = (part == FramePart::End, part == FramePart::Incomplete);
            if let FramePart::Data(data) = part {
                to.write_all(data).map_err(failed)?;
                written += data.len() as u64;
            }
            self.received.drain(..taken);
            if has_ended {
                to.flush().map_err(failed)?;
                return Ok(written);
            }
            if is_incomplete && self.fill()? == 0 {
                return Err(failure("I/O Error reading RDB payload from socket"));
            }
        }
    }

    fn print_commands(mut self) -> Result<ExitCode, ClientFailure> {
        let mut decoder = Decoder::new();
        loop {
            while let Some((command, length)) =
                decoder.decode(&self.received).map_err(|error| ClientFailure::Lost(error.to_string()))?
            {
                self.received.drain(..length);
                let mut line = Vec::new();
                reply_format::csv(&mut line, &command);
                line.push(b'\n');
                print(&line);
            }
            if self.fill()? == 0 {
                return Err(ClientFailure::Lost("Server closed the connection".to_owned()));
            }
        }
    }
}

/// Removes a line that is not empty, with the bytes before it.
fn take_line(received: &mut Vec<u8>) -> Option<Vec<u8>> {
    while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = received.drain(..=end).collect();
        let line = line.trim_ascii_end();
        if !line.is_empty() {
            return Some(line.to_vec());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_after_those_that_only_keep_the_connection() {
        let mut received = b"\n\n".to_vec();
        assert_eq!(take_line(&mut received), None);
        received.extend(b"\n$EOF:x");
        assert_eq!(take_line(&mut received), None);
        received.extend(b"y\r\nREDIS");
        assert_eq!(take_line(&mut received), Some(b"$EOF:xy".to_vec()));
        assert_eq!(received, b"REDIS");
    }
}
