//! The arguments of the command that a worker runs, as the report of a crash shows them.
//!
//! In: [addresses](engine::stats::running_command) that the worker has left. The bytes are read from `/proc/self/mem`,
//! so an address that is not mapped is an error of that read, and not another fault. Out: lines, in which secrets are
//! hidden, and with `hide-user-data-from-log` all arguments but the command's name.

use commands::Args;
use commands::core::command_table::lookup;
use commands::core::redact::{REDACTED, is_secret};
use engine::stats::running_command::{ArgsPlace, Place, RunningArgs};
use resp::words::quote;
use resp::{Progress, RequestLimits, RequestParser, Span};
use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of an argument that are shown.
const SHOWN: usize = 128;
/// Arguments that are shown.
const ARGS_MAX: usize = 1024;
/// Bytes of a request that are looked at.
const REQUEST_MAX: usize = 1 << 20;

/// The memory of this process, as the system shows it.
pub struct Memory(File);

impl Memory {
    /// Opens it, if the system allows it.
    pub fn open() -> Option<Memory> {
        File::open("/proc/self/mem").ok().map(Memory)
    }

    /// Reads up to `max` bytes of the place.
    fn read(&self, place: Place, max: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; place.len.min(max)];
        self.0.read_exact_at(&mut bytes, place.start as u64).ok()?;
        Some(bytes)
    }
}

/// The front of an argument, and its length.
struct Word {
    front: Vec<u8>,
    len: usize,
}

/// Arguments, of which there may be more than are shown.
pub struct Words {
    words: Vec<Word>,
    count: usize,
}

impl Words {
    /// Reads the arguments of a worker's command.
    pub fn of_running(memory: &Memory, args: &RunningArgs) -> Option<Words> {
        match args {
            RunningArgs::Request(place) => Words::of_request(memory, *place),
            RunningArgs::Args(place) => Words::at(memory, place),
        }
    }

    fn of_request(memory: &Memory, place: Place) -> Option<Words> {
        let bytes = memory.read(place, REQUEST_MAX)?;
        let mut spans = Vec::new();
        let Ok(Progress::Command { .. }) = RequestParser::new().parse(&bytes, &RequestLimits::default(), &mut spans)
        else {
            return None;
        };
        Some(Words::found(spans.len(), spans.iter().map(|span| Word::new(span.of(&bytes), span.len))))
    }

    /// Reads arguments that are known one by one.
    pub fn at(memory: &Memory, place: &ArgsPlace) -> Option<Words> {
        let spans = spans(memory, place.spans)?;
        let words: Option<Vec<Word>> =
            spans.iter().enumerate().map(|(index, span)| Word::read(memory, place, index, span)).collect();
        Some(Words::found(place.spans.len, words?.into_iter()))
    }

    fn found(count: usize, words: impl Iterator<Item = Word>) -> Words {
        Words { words: words.take(ARGS_MAX).collect(), count }
    }

    /// Returns the lines, each with its end.
    pub fn lines(&self, hides: bool) -> String {
        let args: Args<'_> = self.words.iter().map(|word| &word.front[..]).collect();
        let entry = lookup(&args);
        let mut text = format!("argc: {}\n", self.count);
        for (index, Word { front, len }) in self.words.iter().enumerate() {
            let shown = match index {
                1.. if hides => format!("{len} bytes"),
                // Nothing is known of the arguments of an unknown command.
                1.. if entry.is_none_or(|entry| is_secret(entry, &args, index)) => quoted(REDACTED),
                _ => quoted(front),
            };
            writeln!(text, "argv[{index}]: {shown}").expect("a String takes everything");
        }
        if self.count > self.words.len() {
            writeln!(text, "... ({} more arguments)", self.count - self.words.len())
                .expect("a String takes everything");
        }
        text
    }
}

impl Word {
    fn new(bytes: &[u8], len: usize) -> Word {
        Word { front: bytes[..bytes.len().min(SHOWN)].to_vec(), len }
    }

    fn read(memory: &Memory, args: &ArgsPlace, index: usize, span: &Span) -> Option<Word> {
        let own = args.large.iter().find(|(large, place)| *large == index && place.len > 0).map(|(_, place)| *place);
        let place = own.unwrap_or(Place { start: args.bytes.start.checked_add(span.start)?, len: span.len });
        let is_within = own.is_some() || span.start.checked_add(span.len)? <= args.bytes.len;
        is_within.then_some(())?;
        Some(Word { front: memory.read(place, SHOWN)?, len: place.len })
    }
}

/// Reads spans: two numbers each.
fn spans(memory: &Memory, place: Place) -> Option<Vec<Span>> {
    let bytes =
        memory.read(Place { len: place.len.checked_mul(size_of::<Span>())?, ..place }, ARGS_MAX * size_of::<Span>())?;
    let (numbers, _) = bytes.as_chunks::<{ size_of::<usize>() }>();
    let (pairs, _) = numbers.as_chunks::<2>();
    Some(pairs.iter().map(|pair| pair.map(usize::from_ne_bytes)).map(|[start, len]| Span { start, len }).collect())
}

fn quoted(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    quote(&mut text, bytes);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::stats::running_command::RunningCommand;

    fn lines(running: &RunningCommand, hides: bool) -> Option<String> {
        commands::install(&[]);
        let memory = Memory::open().expect("the process reads its own memory");
        let args = running.visit().and_then(|visit| visit.args).expect("a command");
        Words::of_running(&memory, &args).map(|words| words.lines(hides))
    }

    #[test]
    fn arguments_are_found_wherever_they_lie() {
        let running = RunningCommand::default();
        running.begin_visit(1);
        let input = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*3\r\n$3\r\nSET\r\n$1\r\n\"\r\n$2\r\n\x00z\r\n*1\r\n$4\r\nPI";
        running.begin_requests(input);
        running.begin_request(&input[20..]);
        let shown = "argc: 3\nargv[0]: \"SET\"\nargv[1]: \"\\\"\"\nargv[2]: \"\\x00z\"\n";
        assert_eq!(lines(&running, false).as_deref(), Some(shown));
        let hidden = "argc: 3\nargv[0]: \"SET\"\nargv[1]: 1 bytes\nargv[2]: 2 bytes\n";
        assert_eq!(lines(&running, true).as_deref(), Some(hidden));
        running.begin_request(&input[input.len() - 7..]);
        assert_eq!(lines(&running, false), None, "not a request");
        let large = "x".repeat(1000);
        let mut args: Args<'_> = (&["set", "k", ""][..]).into();
        args.own(2, large.clone().into_bytes());
        args.publish(&running);
        let shown = format!("argc: 3\nargv[0]: \"set\"\nargv[1]: \"k\"\nargv[2]: \"{}\"\n", &large[..SHOWN]);
        assert_eq!(lines(&running, false), Some(shown));
        let many: Vec<&str> = std::iter::repeat_n("del", ARGS_MAX + 7).collect();
        let args: Args<'_> = (&many[..]).into();
        args.publish(&running);
        assert!(lines(&running, false).expect("lines").ends_with("argv[1023]: \"del\"\n... (7 more arguments)\n"));
    }

    #[test]
    fn secrets_and_arguments_of_unknown_commands_are_hidden() {
        let running = RunningCommand::default();
        running.begin_visit(1);
        for words in [&["AUTH", "someone", "opensesame"][..], &["nonsense", "opensesame"]] {
            let args: Args<'_> = words.into();
            args.publish(&running);
            let shown = lines(&running, false).expect("lines");
            assert!(shown.contains("(redacted)") && !shown.contains("opensesame"), "{shown}");
        }
    }

    #[test]
    fn addresses_without_memory_show_nothing() {
        let running = RunningCommand::default();
        running.begin_visit(1);
        let (nowhere, here) = (Place { start: 8, len: 3 }, [Span { start: 0, len: 3 }]);
        running.begin_command(nowhere, Place::of(&here));
        assert_eq!(lines(&running, false), None);
        running.begin_command(Place { len: 2, ..Place::of(&[0; 3]) }, Place::of(&here));
        assert_eq!(lines(&running, false), None, "beyond the end");
        running.begin_command(nowhere, Place { start: usize::MAX - 3, len: usize::MAX });
        assert_eq!(lines(&running, false), None);
        running.begin_command(nowhere, Place { start: 16, len: 5 });
        assert_eq!(lines(&running, false), None);
    }
}
