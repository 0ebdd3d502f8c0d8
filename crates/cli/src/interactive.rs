//! Commands typed one after another, or read from a pipe one a line.
//!
//! On a terminal there is a prompt with line editing and history. Some words are for this program and not for the
//! server: `quit`, `exit`, `clear`, `connect host port`, `help`, `:set`, and a number before a command, which repeats
//! it. While the connection is subscribed to channels, messages are printed until a key is pressed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use resp::words;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::history::MemHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::completion::Completion;
use crate::help_text::help;
use crate::history::{HistoryFile, LINES_MAX, is_sensitive};
use crate::paste::Paste;
use crate::protocol_client::{Client, ClientFailure};
use crate::scripts::debug_session::{self, Beginning, ScriptDebugger};
use crate::transport::print;
use resp::address::Target;

/// A command that took this long or longer is followed by its time.
const SLOW: Duration = Duration::from_millis(500);

/// Reads and runs commands until the input ends. `show_times`: replies are for people. With a debugger its script runs
/// first, and commands go to it as long as the script is stopped.
pub fn run(client: &mut dyn Client, show_times: bool, mut debugger: Option<ScriptDebugger>) -> io::Result<ExitCode> {
    if let Err(failure) = client.connect(None) {
        eprintln!("{failure}");
        if debugger.is_some() {
            return Ok(ExitCode::FAILURE);
        }
    }
    if let (Some(debugger), Some(session)) = (&mut debugger, client.resp_session()) {
        match debugger.begin(session) {
            Ok(Beginning::Stands) => {}
            Ok(Beginning::Refused) => return Ok(ExitCode::SUCCESS),
            Err(failure) => {
                eprintln!("{failure}");
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    let mut lines = Lines::open()?;
    let complaints = lines.guide().read_preferences();
    print(complaints.as_bytes());
    loop {
        let debugged = debugger.as_ref().is_some_and(ScriptDebugger::stands);
        if lines.is_terminal() && !debugged {
            lines.guide().learn(client);
        }
        let prompt = if debugged { debug_session::PROMPT.to_owned() } else { client.prompt() };
        let Some(line) = lines.next(&prompt)? else {
            // The end of the input leaves a subscription first.
            if client.is_subscribed() && client.connect(None).is_ok() {
                continue;
            }
            return Ok(ExitCode::SUCCESS);
        };
        let step = run_line(client, &mut lines, debugger.as_mut(), &line, show_times);
        let step = step.and_then(|step| {
            if client.is_subscribed() {
                lines.wait_beside(|input| client.print_messages(input))?;
            }
            Ok(step)
        });
        match step {
            Ok(Step::Next) => {}
            Ok(Step::Quit) => return Ok(ExitCode::SUCCESS),
            Err(ClientFailure::Interrupted) => return Ok(ExitCode::FAILURE),
            Err(failure) => eprintln!("{failure}"),
        }
    }
}

enum Step {
    Next,
    Quit,
}

fn run_line(
    client: &mut dyn Client,
    lines: &mut Lines,
    mut debugger: Option<&mut ScriptDebugger>,
    line: &[u8],
    show_times: bool,
) -> Result<Step, ClientFailure> {
    let debugged = debugger.as_ref().is_some_and(|debugger| debugger.stands());
    let Some(arguments) = (if debugged { debug_session::words(line) } else { words::split(line) }) else {
        let rough_words: Vec<_> = line.split(u8::is_ascii_whitespace).map(<[u8]>::to_vec).collect();
        lines.remember(line, &rough_words);
        print(b"Invalid argument(s)\n");
        return Ok(Step::Next);
    };
    let Some(first) = arguments.first() else {
        return Ok(Step::Next);
    };
    let (repeat, command) = match repeat_prefix(&arguments) {
        Ok(split) => split,
        Err(InvalidRepeat) => {
            print(b"Invalid cinnabar-cli repeat command option value.\n");
            return Ok(Step::Next);
        }
    };
    lines.remember(line, command);
    let name = first.to_ascii_lowercase();
    if let (Some(debugger), Some(session)) = (debugger.as_deref_mut(), client.resp_session())
        && debugger.stands()
        && !matches!(name.as_slice(), b"quit" | b"exit" | b"restart" | b"clear")
    {
        debugger.obey(session, command, repeat)?;
        return Ok(Step::Next);
    }
    match (name.as_slice(), arguments.as_slice()) {
        (b"quit" | b"exit", _) => return Ok(Step::Quit),
        (b"restart", _) if debugger.is_some() => {
            print(b"\n");
            if let (Some(debugger), Some(session)) = (debugger, client.resp_session()) {
                return Ok(match debugger.begin(session)? {
                    Beginning::Stands => Step::Next,
                    Beginning::Refused => Step::Quit,
                });
            }
        }
        (b"restart", _) => print(b"Use 'restart' only in Lua debugging mode.\n"),
        (b"clear", [_]) => print(b"\x1b[H\x1b[2J"),
        (b"help" | b"?", [_, topic @ ..]) => print(help(lines.guide().learn(client), topic).as_bytes()),
        (b"connect", [_, host, port]) => {
            lines.guide().forget();
            client.connect(Some(target(host, port)?))?;
        }
        (b":get", [_, what]) => print(&answer(client, what)),
        ([b':', ..], _) => {
            if let Some(complaint) = lines.guide().set(&arguments, "") {
                print(complaint.as_bytes());
            }
        }
        _ => {
            let start = Instant::now();
            client.run(command, repeat)?;
            let elapsed = start.elapsed();
            if show_times && elapsed >= SLOW {
                print(format!("({:.2}s)\n", elapsed.as_secs_f64()).as_bytes());
            }
        }
    }
    Ok(Step::Next)
}

/// Returns the answer to `:get`.
fn answer(client: &dyn Client, what: &[u8]) -> Vec<u8> {
    match what {
        b"pubsub" if client.is_subscribed() => b"1\n".to_vec(),
        b"pubsub" => b"0\n".to_vec(),
        other => format!("unknown cinnabar-cli get option '{}'\n", String::from_utf8_lossy(other)).into_bytes(),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct InvalidRepeat;

/// Returns the count before a command, if its first word is a number, and the command.
fn repeat_prefix(arguments: &[Vec<u8>]) -> Result<(i64, &[Vec<u8>]), InvalidRepeat> {
    let [first, command @ ..] = arguments else {
        return Ok((1, arguments));
    };
    let digits = first.strip_prefix(b"-").or_else(|| first.strip_prefix(b"+")).unwrap_or(first);
    // An empty word counts as a number, which is 0, as it does for C's strtol.
    let is_number = first.is_empty() || !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if command.is_empty() || !is_number {
        return Ok((1, arguments));
    }
    let count = std::str::from_utf8(first).ok().and_then(|text| text.parse::<i64>().ok());
    match count {
        Some(count) if count > 0 => Ok((count, command)),
        _ => Err(InvalidRepeat),
    }
}

fn target(host: &[u8], port: &[u8]) -> Result<Target, ClientFailure> {
    let number = std::str::from_utf8(port).ok().and_then(|text| text.parse().ok());
    let port = number.ok_or_else(|| ClientFailure::Unsendable("Invalid server port.".to_owned()))?;
    Ok(Target::Tcp { host: String::from_utf8_lossy(host).into_owned(), port })
}

/// Source of lines.
enum Lines {
    Terminal { editor: Box<Editor<Completion, MemHistory>>, file: HistoryFile, paste: Paste },
    Pipe { reader: BufReader<File>, guide: Completion },
}

impl Lines {
    fn open() -> io::Result<Lines> {
        if !io::stdin().is_terminal() {
            let stdin = io::stdin().as_fd().try_clone_to_owned()?;
            return Ok(Lines::Pipe { reader: BufReader::new(File::from(stdin)), guide: Completion::new() });
        }
        let config = Config::builder().max_history_size(LINES_MAX).map_err(io::Error::other)?;
        // Tab cycles through the candidates.
        let config = config.completion_type(CompletionType::Circular).build();
        let history = MemHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history).map_err(io::Error::other)?;
        let file = HistoryFile::of_user();
        for line in file.load() {
            editor.add_history_entry(line).map_err(io::Error::other)?;
        }
        editor.set_helper(Some(Completion::new()));
        let paste = Paste::watch(&mut editor);
        Ok(Lines::Terminal { editor: Box::new(editor), file, paste })
    }

    /// Returns the next line without its end; None when there are no more, or after Ctrl-C.
    fn next(&mut self, prompt: &str) -> io::Result<Option<Vec<u8>>> {
        match self {
            Lines::Terminal { editor, .. } => Ok(editor.readline(prompt).ok().map(String::into_bytes)),
            Lines::Pipe { reader, .. } => {
                let mut line = Vec::new();
                if reader.read_until(b'\n', &mut line)? == 0 {
                    return Ok(None);
                }
                if line.ends_with(b"\n") {
                    line.pop();
                }
                Ok(Some(line))
            }
        }
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Lines::Terminal { .. })
    }

    fn guide(&mut self) -> &mut Completion {
        match self {
            Lines::Terminal { editor, .. } => editor.helper_mut().expect("set when the editor is made"),
            Lines::Pipe { guide, .. } => guide,
        }
    }

    /// Adds a typed line to the history; lines with passwords only for as long as the program runs.
    fn remember(&mut self, line: &[u8], command: &[Vec<u8>]) {
        if let Lines::Terminal { editor, file, .. } = self {
            let line = String::from_utf8_lossy(line);
            let is_new = editor.add_history_entry(line.as_ref()).unwrap_or(false);
            if is_new && !is_sensitive(command) {
                file.append(&line);
            }
        }
    }

    /// Runs `wait`, which ends when a line begins on the descriptor that it is given.
    fn wait_beside(
        &self,
        wait: impl FnOnce(Option<BorrowedFd<'_>>) -> Result<(), ClientFailure>,
    ) -> Result<(), ClientFailure> {
        let stdin = io::stdin();
        match self {
            // Bytes that were read ahead do not make the descriptor readable.
            Lines::Pipe { reader, .. } if !reader.buffer().is_empty() => Ok(()),
            Lines::Terminal { paste, .. } if paste.is_open() => Ok(()),
            Lines::Pipe { .. } => wait(Some(stdin.as_fd())),
            Lines::Terminal { .. } => {
                let _keys = KeyByKey::enter(stdin.as_fd());
                wait(Some(stdin.as_fd()))
            }
        }
    }
}

/// Guard during whose life the terminal delivers each key at once and does not show it.
pub struct KeyByKey<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
}

impl KeyByKey<'_> {
    pub fn enter(terminal: BorrowedFd<'_>) -> Option<KeyByKey<'_>> {
        let before = tcgetattr(terminal).ok()?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        tcsetattr(terminal, OptionalActions::Now, &modes).ok()?;
        Some(KeyByKey { terminal, before })
    }
}

impl Drop for KeyByKey<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_before_a_command_repeats_it() {
        let repeat = |line: &str| {
            let arguments = words::split(line.as_bytes()).unwrap();
            repeat_prefix(&arguments).map(|(count, command)| (count, command.len()))
        };
        assert_eq!(repeat("5 incr x"), Ok((5, 2)));
        assert_eq!(repeat("incr x"), Ok((1, 2)));
        assert_eq!(repeat("5"), Ok((1, 1)));
        assert_eq!(repeat("5x y"), Ok((1, 2)));
        assert_eq!(repeat("-1 get x"), Err(InvalidRepeat));
        assert_eq!(repeat("0 get x"), Err(InvalidRepeat));
        assert_eq!(repeat("\"\" get x"), Err(InvalidRepeat));
        assert_eq!(repeat("- get x"), Ok((1, 3)));
        assert_eq!(repeat("99999999999999999999 get x"), Err(InvalidRepeat));
    }
}
