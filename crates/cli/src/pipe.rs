//! `--pipe`: requests from standard input, sent as they are, and a count of the replies.
//!
//! A thread copies the input to the server while this one reads replies, so that neither side waits for the other.
//! After the input the thread sends an ECHO of twenty random bytes, which identify its reply as the last:
//!
//! ```text
//! stdin ... EOF, then  \r\n *2 $4 ECHO $20 <mark>      the line end completes an inline request
//! ```
//!
//! Error replies are printed on standard error and counted. The texts are those of valkey-cli.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use resp::reply_value::Decoder;
use resp::{Value, encode_command};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::protocol_client::ClientFailure;
use crate::resp_session::RespSession;
use crate::transport::{Transport, print, reason};

const MARK_SIZE: usize = 20;

/// Counts of the server's replies.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    replies: u64,
    errors: u64,
}

/// Sends the input; returns whether no request failed.
pub fn run(session: RespSession) -> Result<bool, ClientFailure> {
    let timeout = Some(session.options().pipe_timeout).filter(|timeout| !timeout.is_zero());
    let lost = |error: io::Error| ClientFailure::Lost(reason(&error));
    let mut link = session.into_link().ok_or_else(|| ClientFailure::Lost("not connected".to_owned()))?;
    let mut writer = link.try_clone().map_err(lost)?;
    let mark = mark();
    let (all_sent, sent) = UnixStream::pair().map_err(lost)?;
    thread::spawn(move || {
        // Dropping `sent` is the message; the reading side notices a broken connection by itself.
        let _sent = sent;
        let _ = copy_input(&mut writer, &mark);
    });
    let mut count = Count::default();
    let finished = read_replies(&mut link, &all_sent, &mark, timeout, &mut count)?;
    if finished {
        print(b"Last reply received from server.\n");
    } else {
        count.errors += 1;
        eprintln!("No replies for {} seconds: exiting.", timeout.unwrap_or_default().as_secs());
    }
    print(format!("errors: {}, replies: {}\n", count.errors, count.replies).as_bytes());
    Ok(count.errors == 0)
}

fn copy_input(link: &mut Transport, mark: &[u8; MARK_SIZE]) -> io::Result<()> {
    let mut stdin = io::stdin().lock();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        match stdin.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => link.send(&chunk[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let mut last = b"\r\n".to_vec();
    encode_command(&mut last, &[&b"ECHO"[..], mark]);
    link.send(&last)
}

/// Reads until the mark is echoed; false when nothing arrived for `timeout` after all was sent.
fn read_replies(
    link: &mut Transport,
    all_sent: &UnixStream,
    mark: &[u8],
    timeout: Option<Duration>,
    count: &mut Count,
) -> Result<bool, ClientFailure> {
    let mut decoder = Decoder::new();
    let (mut received, mut is_all_sent) = (Vec::new(), false);
    loop {
        let limit = timeout.filter(|_| is_all_sent);
        let (from_server, sent) = wait(link, (!is_all_sent).then_some(all_sent), limit)
            .map_err(|error| ClientFailure::Lost(reason(&error)))?;
        if sent {
            is_all_sent = true;
            print(b"All data transferred. Waiting for the last reply...\n");
        }
        if from_server {
            let size = link.receive(&mut received).map_err(|error| ClientFailure::Lost(reason(&error)))?;
            if size == 0 {
                return Err(ClientFailure::Lost("Server closed the connection".to_owned()));
            }
            let is_last = take_replies(&mut decoder, &mut received, mark, count)?;
            // The mark is sent after all data, though its reply may arrive before the writer's end is seen.
            if is_last && !is_all_sent {
                print(b"All data transferred. Waiting for the last reply...\n");
            }
            if is_last {
                return Ok(true);
            }
        } else if !sent {
            return Ok(false);
        }
    }
}

/// Returns whether the server and the writer have an event; neither after `limit`.
fn wait(link: &Transport, all_sent: Option<&UnixStream>, limit: Option<Duration>) -> io::Result<(bool, bool)> {
    if link.has_received() {
        return Ok((true, false));
    }
    let limit = limit.map(|limit| Timespec { tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: 0 });
    let mut descriptors = vec![PollFd::from_borrowed_fd(link.descriptor(), PollFlags::IN)];
    descriptors.extend(all_sent.map(|sent| PollFd::from_borrowed_fd(sent.as_fd(), PollFlags::IN)));
    loop {
        match poll(&mut descriptors, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                let is_ready = |index: usize| descriptors.get(index).is_some_and(|found| !found.revents().is_empty());
                return Ok((is_ready(0), is_ready(1)));
            }
        }
    }
}

/// Counts the complete replies in `received` and removes them; returns whether the last was the mark.
fn take_replies(
    decoder: &mut Decoder,
    received: &mut Vec<u8>,
    mark: &[u8],
    count: &mut Count,
) -> Result<bool, ClientFailure> {
    let mut used = 0;
    while let Some((value, length)) =
        decoder.decode(&received[used..]).map_err(|error| ClientFailure::Lost(error.to_string()))?
    {
        used += length;
        match value {
            Value::Bulk(text) if text == mark => return Ok(true),
            Value::Error(text) => {
                eprintln!("{}", String::from_utf8_lossy(&text));
                count.errors += 1;
            }
            _ => {}
        }
        count.replies += 1;
    }
    received.drain(..used);
    Ok(false)
}

/// Returns bytes that no other reply has.
fn mark() -> [u8; MARK_SIZE] {
    let mut bytes = [0; MARK_SIZE];
    let random = std::collections::hash_map::RandomState::new();
    for (index, byte) in bytes.iter_mut().enumerate() {
        let hash = std::hash::BuildHasher::hash_one(&random, index);
        *byte = b'a' + (hash % 26) as u8;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_counted_up_to_the_mark() {
        let (mut decoder, mut count) = (Decoder::new(), Count::default());
        let mut received = b"+OK\r\n:1\r\n$3\r\nab".to_vec();
        assert_eq!(take_replies(&mut decoder, &mut received, b"mark", &mut count), Ok(false));
        assert_eq!((&count, received.as_slice()), (&Count { replies: 2, errors: 0 }, &b"$3\r\nab"[..]));
        received.extend(b"c\r\n-ERR x\r\n$4\r\nmark\r\n");
        assert_eq!(take_replies(&mut decoder, &mut received, b"mark", &mut count), Ok(true));
        assert_eq!(count, Count { replies: 4, errors: 1 });
        let mut nonsense = b"@\r\n".to_vec();
        assert!(take_replies(&mut Decoder::new(), &mut nonsense, b"mark", &mut count).is_err());
    }

    #[test]
    fn marks_differ() {
        assert_ne!(mark(), mark());
        assert!(mark().iter().all(u8::is_ascii_lowercase));
    }
}
