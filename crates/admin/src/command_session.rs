//! The commands of one request, as a client of the server.
//!
//! ```text
//!   HELLO 3, SELECT db  ->  both are OK?  ->  all commands at once  ->  their replies
//! ```
//!
//! The connection is one as at any port: the rules for clients hold for these commands. It ends with the request, and
//! so does a reply that is too large, or one that does not come.

use crate::command_request::CommandRequest;
use resp::Value;
use resp::reply_value::{Decoder, encode_command};
use std::io;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Bytes of all replies of a request.
pub(crate) const REPLIES_MAX: usize = 2 << 20;

/// Bytes that are read at a time.
const READ_MAX: usize = 16 << 10;

/// The replies that arrived, and the reason that others did not.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub replies: Vec<Value>,
    pub failure: Option<String>,
}

/// A conversation with the server.
struct Conversation {
    stream: UnixStream,
    decoder: Decoder,
    came: Vec<u8>,
    /// Bytes of replies that may still come.
    left: usize,
}

/// Runs the commands of a request. `outcome` has the replies so far at any time.
pub(crate) async fn run(stream: std::os::unix::net::UnixStream, request: &CommandRequest, outcome: &mut Outcome) {
    let failure = match converse(stream, request, &mut outcome.replies).await {
        Ok(refused) => refused,
        Err(error) => Some(error.to_string()),
    };
    outcome.failure = failure;
}

/// Runs the conversation; returns the server's refusal of its beginning, if there is one.
async fn converse(
    stream: std::os::unix::net::UnixStream,
    request: &CommandRequest,
    replies: &mut Vec<Value>,
) -> io::Result<Option<String>> {
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    let mut conversation =
        Conversation { stream, decoder: Decoder::new(), came: Vec::new(), left: REPLIES_MAX + READ_MAX };
    let mut bytes = Vec::new();
    encode_command(&mut bytes, &["HELLO", "3"]);
    if request.db > 0 {
        encode_command(&mut bytes, &["SELECT", &request.db.to_string()]);
    }
    let mut greetings = Vec::new();
    conversation.exchange(&bytes, 1 + usize::from(request.db > 0), &mut greetings).await?;
    // Commands for another database than the requested one are worse than none. HELLO may fail: then so do all
    // commands.
    if let (true, Some(Value::Error(line))) = (request.db > 0, greetings.last()) {
        return Ok(Some(String::from_utf8_lossy(line).into_owned()));
    }
    bytes.clear();
    request.commands.iter().for_each(|command| encode_command(&mut bytes, command));
    conversation.left = REPLIES_MAX;
    conversation.exchange(&bytes, request.commands.len(), replies).await?;
    Ok(None)
}

impl Conversation {
    /// Sends these bytes, and reads so many replies meanwhile.
    async fn exchange(&mut self, mut bytes: &[u8], count: usize, replies: &mut Vec<Value>) -> io::Result<()> {
        while replies.len() < count {
            let interest = if bytes.is_empty() { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
            let ready = self.stream.ready(interest).await?;
            if ready.is_writable() && !bytes.is_empty() {
                bytes = &bytes[would_block(self.stream.try_write(bytes))?.unwrap_or(0)..];
            }
            if ready.is_readable() {
                self.read(count, replies)?;
            }
        }
        Ok(())
    }

    fn read(&mut self, count: usize, replies: &mut Vec<Value>) -> io::Result<()> {
        let mut part = [0; READ_MAX];
        let Some(length) = would_block(self.stream.try_read(&mut part))? else { return Ok(()) };
        if length == 0 {
            return Err(io::Error::other("the server has closed the connection"));
        }
        self.left = self.left.checked_sub(length).ok_or_else(|| io::Error::other("the replies are too large"))?;
        self.came.extend_from_slice(&part[..length]);
        while replies.len() < count {
            let Some((value, length)) = self.decoder.decode(&self.came).map_err(io::Error::other)? else { break };
            self.came.drain(..length);
            // Messages between replies are for connections that last.
            if !matches!(value, Value::Push(_)) {
                replies.push(value);
            }
        }
        Ok(())
    }
}

fn would_block(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        done => done.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::thread;

    /// Returns the outcome of a request whose server first waits for some bytes, and then sends this answer; and the
    /// bytes that the server received.
    fn against(request: &CommandRequest, answers: Vec<(usize, Vec<u8>)>) -> (Outcome, Vec<u8>) {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let server = thread::spawn(move || {
            let mut heard = Vec::new();
            for (length, answer) in answers {
                let mut part = vec![0; length];
                if theirs.read_exact(&mut part).is_err() {
                    break;
                }
                heard.extend(part);
                // The peer closes once it has read enough.
                let _ = theirs.write_all(&answer);
            }
            heard
        });
        let mut outcome = Outcome::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(run(ours, request, &mut outcome));
        (outcome, server.join().unwrap())
    }

    fn request(db: u32, commands: &[&[&str]]) -> CommandRequest {
        let words = |command: &&[&str]| command.iter().map(|word| word.as_bytes().to_vec()).collect();
        CommandRequest { db, commands: commands.iter().map(words).collect() }
    }

    const HELLO: &[u8] = b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n";
    const SELECT: &[u8] = b"*2\r\n$6\r\nSELECT\r\n$1\r\n7\r\n";
    const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

    #[test]
    fn commands_come_after_the_database() {
        let all = request(7, &[&["PING"], &["PING"]]);
        let begin = HELLO.len() + SELECT.len();
        let answers = vec![(begin, b"%0\r\n+OK\r\n".to_vec()), (2 * PING.len(), b"+A\r\n>1\r\n:1\r\n+B\r\n".to_vec())];
        let (outcome, heard) = against(&all, answers);
        assert_eq!(outcome.replies, [Value::Simple(b"A".to_vec()), Value::Simple(b"B".to_vec())]);
        assert_eq!((outcome.failure, heard), (None, [HELLO, SELECT, PING, PING].concat()));
        let (outcome, heard) = against(&all, vec![(begin, b"%0\r\n-ERR no\r\n".to_vec()), (1, Vec::new())]);
        assert_eq!((outcome.failure.as_deref(), outcome.replies.len()), (Some("ERR no"), 0));
        assert_eq!(heard.len(), begin, "no command was sent");
    }

    #[test]
    fn replies_before_a_failure_are_kept() {
        let both = request(0, &[&["PING"], &["PING"]]);
        let hello = || (HELLO.len(), b"%0\r\n".to_vec());
        for (said, kept, failure) in [
            (b"+A\r\n".to_vec(), 1, "closed"),
            (b"+A\r\n?\r\n".to_vec(), 1, "Protocol error"),
            ([&b"+A\r\n$99999999\r\n"[..], &vec![b'x'; REPLIES_MAX + READ_MAX]].concat(), 1, "too large"),
        ] {
            let (outcome, _) = against(&both, vec![hello(), (2 * PING.len(), said)]);
            assert_eq!(outcome.replies.len(), kept, "{failure}");
            assert!(outcome.failure.as_ref().is_some_and(|text| text.contains(failure)), "{:?}", outcome.failure);
        }
    }

    #[test]
    fn large_requests_and_replies_pass_each_other() {
        let word = "x".repeat(400_000);
        let echo = request(0, &[&["ECHO", &word], &["ECHO", &word]]);
        let reply = format!("$400000\r\n{word}\r\n").into_bytes();
        let length = b"*2\r\n$4\r\nECHO\r\n$400000\r\n\r\n".len() + word.len();
        let answers = vec![(HELLO.len(), b"%0\r\n".to_vec()), (length, reply.clone()), (length, reply)];
        let (outcome, _) = against(&echo, answers);
        assert_eq!((outcome.replies.len(), outcome.failure), (2, None));
    }
}
