//! A chunked command: it is done step by step, and others are served in between.

use commands::Work;
use commands::core::command::Command;

/// A command that has not ended, and its arguments.
pub struct ChunkedCommand {
    /// Rest of the command's work.
    pub work: Work,
    /// Command that it began as.
    pub command: &'static Command,
    /// Bytes of its reply so far.
    pub replied: usize,
    /// How often the node's slot map had not held any more when it began.
    pub lapses: u64,
}

/// A connection's chunked command, if there is one.
#[derive(Default)]
pub struct Chunked {
    running: Option<ChunkedCommand>,
    /// Whether the client has enough to read for now.
    throttled: bool,
}

impl Chunked {
    /// Returns whether there is a chunked command.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Continues a command that has not ended with another step.
    pub fn go_on(&mut self, command: ChunkedCommand) {
        self.running = Some(command);
        self.throttled = false;
    }

    /// Takes the command for a step, or for good.
    pub fn take(&mut self) -> Option<ChunkedCommand> {
        self.running.take()
    }

    /// Pauses the command until its client has read something.
    pub fn throttle(&mut self) {
        self.throttled = self.is_running();
    }

    /// Wakes the command since its client has read something. True if the command waited for that.
    #[inline]
    pub fn wake(&mut self) -> bool {
        self.is_running() && std::mem::take(&mut self.throttled)
    }

    /// Returns the bytes of the command's reply so far: limits count its steps as one reply.
    #[inline]
    pub fn replied(&self) -> usize {
        self.running.as_ref().map_or(0, |command| command.replied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commands::{Context, Resumable};

    struct Nothing;

    impl Resumable for Nothing {
        fn step(&mut self, _cx: &mut Context<'_>) -> bool {
            false
        }
    }

    fn command(replied: usize) -> ChunkedCommand {
        ChunkedCommand { work: Box::new(Box::new(Nothing)), command: &Command::DEFAULT, replied, lapses: 0 }
    }

    #[test]
    fn a_throttled_command_goes_on_once() {
        let mut chunked = Chunked::default();
        chunked.throttle();
        assert!(!chunked.wake() && !chunked.is_running(), "there is none");
        chunked.go_on(command(0));
        assert!(!chunked.wake(), "it was not throttled");
        chunked.throttle();
        assert!(chunked.wake() && !chunked.wake());
    }

    #[test]
    fn replied_bytes_of_a_chunked_command_count_until_its_end() {
        let mut chunked = Chunked::default();
        chunked.go_on(command(7));
        assert_eq!(chunked.replied(), 7);
        chunked.throttle();
        let mut running = chunked.take().unwrap();
        assert!(!chunked.is_running() && chunked.replied() == 0 && !chunked.wake());
        running.replied += 5;
        chunked.go_on(running);
        assert!(chunked.replied() == 12 && !chunked.wake(), "a step ends the throttling");
    }
}
