//! The debugger of scripts: SCRIPT DEBUG SYNC or YES, and then EVAL.
//!
//! ```text
//!   EVAL - stops before line 1 -> lines of text, as an array of simple strings
//!   next request - a command of the debugger (step, break 3, print KEYS, redis get k) -> lines of text
//!   ...
//!   the script has ended -> "<endsession>" with the rest of the lines, the script's reply; the connection closes
//! ```
//!
//! The thread of the script waits for its client, and so does every command that needs one of the script's locks: the
//! synchronous mode is known for this. In the other mode the locks are those of [a copy](super::private_copy). A client
//! that has disconnected lets its script run to its end.
//!
//! A message of one line is the same as Valkey's, which front ends look for.

use super::current_run::RUN;
use super::failure::{self, Failure};
use super::human;
use super::lua_host;
use super::lua_memory::{Side, in_lua};
use crate::core::args::Args;
use crate::core::command::CommandEntry;
use crate::core::command_table::unknown_command;
use engine::time::Nanos;
use engine::{Error, Word};
use mlua::chunk::ChunkMode;
use mlua::debug::{Debug, DebugEvent};
use mlua::{HookTriggers, Lua, MultiValue, Value, VmState};
use std::cell::RefCell;

thread_local! {
    static DEBUGGER: RefCell<Option<Debugger>> = const { RefCell::new(None) };
}

/// Instructions between two looks at the clock while nothing stops the script.
const LOOK_EVERY: u32 = 100_000;
const BREAKPOINTS_MAX: usize = 64;
/// Lines before and after the current one in a list.
const CONTEXT: usize = 5;
/// Length in bytes above which texts are cut; and the least that a client can choose.
const LIMIT: usize = 256;
const LIMIT_MIN: usize = 60;

struct Debugger {
    lines: Vec<Vec<u8>>,
    breakpoints: Vec<usize>,
    /// Stops at the next line.
    steps: bool,
    /// The script asked for a stop (`server.breakpoint()`).
    asked: bool,
    /// The line that runs next.
    line: usize,
    /// Length above which texts are cut; 0: they are not cut.
    limit: usize,
    hinted: bool,
    /// The client has disconnected.
    alone: bool,
    /// The host's clock when the script resumed last.
    since: Nanos,
    said: Vec<Vec<u8>>,
}

/// Begins a session for a script of this text.
pub(super) fn begin(lua: &Lua, text: &[u8]) -> mlua::Result<()> {
    let lines = text.trim_ascii_end().split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    DEBUGGER.set(Some(Debugger {
        lines,
        breakpoints: Vec::new(),
        steps: true,
        asked: false,
        line: 0,
        limit: LIMIT,
        hinted: false,
        alone: false,
        since: RUN_CLOCK,
        said: Vec::new(),
    }));
    lua.set_global_hook(HookTriggers::EVERY_LINE.every_nth_instruction(LOOK_EVERY), check_time)
}

/// A clock that was never read.
const RUN_CLOCK: Nanos = Nanos(u64::MAX);

/// Output of the debugger for a script that cannot run.
pub(super) const NOTHING_TO_SAY: &[u8] = b"*1\r\n+<endsession>\r\n";

/// Ends the session; returns the bytes to send before the script's reply.
pub(super) fn end() -> Vec<u8> {
    DEBUGGER.take().map_or_else(Vec::new, |mut debugger| {
        debugger.say(b"<endsession>");
        debugger.take_said()
    })
}

/// `server.breakpoint()`: requests a stop. Returns whether a client debugs the script.
pub(super) fn ask() -> bool {
    with(|debugger| debugger.asked = true).is_some()
}

/// `server.debug()`
pub(super) fn show(lua: &Lua, words: &MultiValue) {
    with(|debugger| {
        let words: Vec<Vec<u8>> = words.iter().map(|word| human::of_value(lua, word)).collect();
        let line = format!("<debug> line {}: ", debugger.line);
        debugger.say(&[line.as_bytes(), &words.join(&b", "[..])].concat());
    });
}

/// Shows a command that the script calls, if its client sees every step.
pub(super) fn note_command<'a>(words: impl ExactSizeIterator<Item = &'a [u8]>) {
    const SHOWN: usize = 10;
    with(|debugger| {
        if debugger.steps {
            let mut line = b"<command>".to_vec();
            let more = words.len().saturating_sub(SHOWN);
            for word in words.take(SHOWN) {
                line.push(b' ');
                line.extend_from_slice(word);
            }
            line.truncate(engine::before_nul(&line).len());
            if more > 0 {
                line.extend_from_slice(format!(" ... ({more} more)").as_bytes());
            }
            debugger.say(&line);
        }
    });
}

/// Shows the reply of the command: RESP. A script gets an error reply as an error, which stands in a second line.
pub(super) fn note_reply(reply: &[u8]) {
    with(|debugger| {
        if debugger.steps {
            debugger.say_cut(&[b"<reply> ", &human::of_reply(reply)[..]].concat());
        }
    });
    if reply.starts_with(b"-") {
        note_error(reply);
    }
}

/// Shows the reply of a command that was refused, as a client would get it, and the error for the script.
pub(super) fn note_refusal(error: &Error, entry: Option<&CommandEntry>, args: &Args<'_>) {
    let own = |error: &Error| error.text().unwrap_or_default().into_owned();
    let name = entry.map_or("", |entry| &*entry.full_name);
    let whole = own(error);
    let text = whole.strip_prefix(b"ERR ").unwrap_or(&whole);
    // The error ends as a line does where it is made of the reply.
    let (reply, shown) = match error {
        Error::ScriptUnknownCommand => (own(&unknown_command(args)), text.to_vec()),
        Error::ScriptWrongArity => (own(&Error::WrongArity(Word::of(name))), text.to_vec()),
        Error::NotFromScript => {
            (format!("ERR command '{name}' is not allowed on script mode").into_bytes(), text.to_vec())
        }
        Error::ScriptDenied(reason) => ([b"NOPERM ", reason.as_ref()].concat(), [text, LINE_END].concat()),
        _ => (whole.clone(), [b"-", &whole[..], LINE_END].concat()),
    };
    let reply = [b"-", &reply[..], LINE_END].concat();
    with(|debugger| {
        if debugger.steps {
            debugger.say_cut(&[b"<reply> ", &human::of_reply(&reply)[..]].concat());
        }
    });
    note_error(&shown);
}

const LINE_END: &[u8] = b"\r\n";

/// Shows an error as the script gets it, with or without its code.
pub(super) fn note_error(text: &[u8]) {
    with(|debugger| {
        if debugger.steps {
            debugger.say(&[b"<error> ", text].concat());
        }
    });
}

fn with<R>(work: impl FnOnce(&mut Debugger) -> R) -> Option<R> {
    DEBUGGER.with_borrow_mut(|debugger| debugger.as_mut().map(work))
}

/// Stops where a stop is due; called before a line, or after many instructions.
fn check_time(lua: &Lua, frame: &Debug<'_>) -> mlua::Result<VmState> {
    let _side = Side::rust();
    let counts = frame.event() == DebugEvent::Count;
    let ours = frame.source().short_src.is_some_and(|name| name.contains("user_script"));
    let (now, patience) = RUN.with(|run| run.clock());
    let line = frame.current_line().unwrap_or_default();
    let stop = with(|debugger| debugger.why_stop(counts, ours, line, now, patience)).flatten();
    if let Some(reason) = stop {
        converse(lua, reason, counts)?;
        let (now, _) = RUN.with(|run| run.clock());
        with(|debugger| debugger.since = now);
    }
    Ok(VmState::Continue)
}

/// Effect of a command of the debugger on the script.
enum Next {
    Stay,
    Go,
    Abort,
}

/// Runs the client's commands until the script resumes.
fn converse(lua: &Lua, reason: &str, has_looped: bool) -> mlua::Result<()> {
    with(|debugger| {
        debugger.say(format!("* Stopped at {}, stop reason = {reason}", debugger.line).as_bytes());
        debugger.say_line(debugger.line);
    });
    loop {
        let said = with(Debugger::take_said).unwrap_or_default();
        let Some(words) = RUN.with(|run| run.converse(said)) else {
            with(Debugger::end_session);
            // No client is left that could end a loop.
            let text = "ERR timeout during Lua debugging with client closing connection";
            return if has_looped { Err(failure::error(text)) } else { Ok(()) };
        };
        match obey(lua, &words) {
            Next::Stay => {}
            Next::Go => return Ok(()),
            Next::Abort => return Err(failure::error("ERR script aborted for user request")),
        }
    }
}

fn obey(lua: &Lua, words: &[Vec<u8>]) -> Next {
    let Some((name, rest)) = words.split_first() else { return Next::Stay };
    let name = name.to_ascii_lowercase();
    match (&name[..], rest) {
        (b"s" | b"step" | b"n" | b"next", []) => {
            with(|debugger| debugger.steps = true);
            return Next::Go;
        }
        (b"c" | b"continue", []) => return Next::Go,
        (b"a" | b"abort", []) => return Next::Abort,
        (b"e" | b"eval", [_, ..]) => evaluate(lua, &rest.join(&b' ')),
        (b"r" | b"redis" | b"v" | b"valkey" | b"server", [_, ..]) => call(lua, rest),
        (b"p" | b"print", []) => print_all(lua),
        (b"p" | b"print", [name]) => print(lua, name),
        (b"t" | b"trace", []) => trace(lua),
        _ => return with(|debugger| debugger.obey(&name, rest)).unwrap_or(Next::Stay),
    }
    Next::Stay
}

/// Runs a text, as an expression if it is one.
fn evaluate(lua: &Lua, text: &[u8]) {
    let load = |text: &[u8]| in_lua(|| lua.load(text).set_name("@ldb_eval").set_mode(ChunkMode::Text).into_function());
    let function = load(&[b"return ", text].concat()).or_else(|_| load(text));
    let line = match function.and_then(|function| in_lua(|| function.call::<Value>(()))) {
        Ok(value) => [b"<retval> ", &human::of_value(lua, &value)[..]].concat(),
        Err(error) => [b"<error> ", &text_of(&error)[..]].concat(),
    };
    with(|debugger| debugger.say_cut(&line));
}

/// Runs a command as the script would, and shows it.
fn call(lua: &Lua, words: &[Vec<u8>]) {
    let stepped = with(|debugger| std::mem::replace(&mut debugger.steps, true));
    let words: mlua::Result<MultiValue> = words.iter().map(|word| lua.create_string(word).map(Value::String)).collect();
    if let Ok(words) = words {
        // The call shows its reply.
        let _ = RUN.with(|run| run.call(lua, &words, false).map(drop));
    }
    with(|debugger| debugger.steps = stepped.unwrap_or_default());
}

fn text_of(error: &mlua::Error) -> Vec<u8> {
    match error.downcast_ref::<Failure>() {
        Some(Failure::Reply { text, .. } | Failure::Message(text)) => {
            text.strip_prefix(b"ERR ").unwrap_or(text).to_vec()
        }
        None => {
            let text = match error {
                mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => message.clone(),
                other => other.to_string(),
            };
            text.lines().next().unwrap_or_default().into()
        }
    }
}

/// Levels of the stack that are the script's, from the innermost out.
fn levels_of_script(lua: &Lua) -> Vec<usize> {
    let is_ours = |frame: &Debug<'_>| frame.source().short_src.is_some_and(|name| name.contains("user_script"));
    let ours = |level| lua.inspect_stack(level, |frame| is_ours(frame).then_some(level));
    (0..).map_while(ours).flatten().collect()
}

/// The local variables of the innermost function.
fn print_all(lua: &Lua) {
    let level = levels_of_script(lua).first().copied();
    let locals = level.map_or_else(Vec::new, |level| lua_host::locals(lua, level));
    if locals.is_empty() {
        with(|debugger| debugger.say(b"No local variables in the current context."));
    }
    for (name, value) in locals {
        let line = [b"<value> ", &name[..], b" = ", &human::of_value(lua, &value)].concat();
        with(|debugger| debugger.say_cut(&line));
    }
}

/// The variable that the script sees by this name, or one of a function that called it.
#[allow(clippy::disallowed_methods, reason = "a metamethod may run, in Lua")]
fn print(lua: &Lua, name: &[u8]) {
    let levels = levels_of_script(lua);
    let locals = levels.into_iter().flat_map(|level| lua_host::locals(lua, level));
    let local = locals.into_iter().find_map(|(known, value)| (known == name).then_some(value));
    let value = local.or_else(|| {
        let global = matches!(name, b"KEYS" | b"ARGV").then(|| lua.create_string(name))?.ok()?;
        in_lua(|| lua.globals().get::<Value>(global)).ok()
    });
    with(|debugger| match value {
        Some(value) => debugger.say_cut(&[b"<value> ", &human::of_value(lua, &value)[..]].concat()),
        None => debugger.say(b"No such variable."),
    });
}

/// Lists the functions that the script is in, from the innermost out.
fn trace(lua: &Lua) {
    for level in 0.. {
        let frame = lua.inspect_stack(level, |frame| {
            let ours = frame.source().short_src.is_some_and(|name| name.contains("user_script"));
            let name = frame.names().name.map_or_else(|| "top level".to_owned(), |name| name.into_owned());
            ours.then(|| (name, frame.current_line().unwrap_or_default()))
        });
        let Some(frame) = frame else { break };
        if let Some((name, line)) = frame {
            let word = if level == 0 { "In" } else { "From" };
            with(|debugger| {
                debugger.say(format!("{word} {name}:").as_bytes());
                debugger.say_line(line);
            });
        }
    }
}

const HELP: [&str; 17] = [
    "Commands of the debugger; the letters in brackets are enough:",
    "[h]elp               This text.",
    "[s]tep, [n]ext       Run this line and stop before the next one.",
    "[c]ontinue           Run to the next breakpoint.",
    "[l]ist [line [n]]    Show the lines around this one, or n before and after a line (0: this one).",
    "[w]hole              Show the whole script.",
    "[p]rint              Show the local variables of the function that runs.",
    "[p]rint NAME         Show a local variable, KEYS or ARGV.",
    "[b]reak              Show the breakpoints.",
    "[b]reak LINE|-LINE|0 Set one, remove one, remove all.",
    "[t]race              Show where the script is and who called that.",
    "[e]val CODE          Run Lua code outside of the script's functions.",
    "[v]alkey COMMAND     Run a command; also: server, [r]edis.",
    "[max]len             Show after how many bytes texts are cut.",
    "[max]len N           Cut them after so many bytes; 0: never.",
    "[a]bort              End the script. In the synchronous mode what it changed stays changed.",
    "A script stops itself with server.breakpoint() and says something here with server.debug().",
];

/// The reply to words that are no command.
const UNKNOWN: &[u8] = b"<error> Unknown debugger command or wrong number of arguments.";

impl Debugger {
    fn why_stop(&mut self, counts: bool, ours: bool, line: usize, now: Nanos, patience: u64) -> Option<&'static str> {
        if self.since == RUN_CLOCK {
            self.since = now;
        }
        if !ours || self.alone && !counts {
            return None;
        }
        self.line = line;
        let is_point = self.asked || self.breakpoints.contains(&line);
        let has_looped = counts && patience > 0 && now.since(self.since) > patience;
        if counts && !has_looped || !counts && !self.steps && !is_point {
            return None;
        }
        let asked = std::mem::take(&mut self.asked);
        self.steps = false;
        Some(match () {
            () if counts => "timeout reached, infinite loop?",
            () if asked => "server.breakpoint() called",
            () if is_point => "break point",
            () => "step over",
        })
    }

    fn end_session(&mut self) {
        self.alone = true;
        self.steps = false;
        self.breakpoints.clear();
    }

    fn say(&mut self, line: &[u8]) {
        if !self.alone {
            self.said.push(line.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect());
        }
    }

    fn say_cut(&mut self, line: &[u8]) {
        if self.limit == 0 || line.len() <= self.limit {
            return self.say(line);
        }
        self.say(&[&line[..self.limit], b" ..."].concat());
        if !std::mem::replace(&mut self.hinted, true) {
            self.say(b"<hint> This text was cut; 'maxlen 0' shows all of the next ones.");
        }
    }

    fn say_line(&mut self, number: usize) {
        let mark = match (number == self.line, self.breakpoints.contains(&number)) {
            (true, true) => "->#",
            (true, false) => "-> ",
            (false, true) => "  #",
            (false, false) => "   ",
        };
        let text = number.checked_sub(1).and_then(|index| self.lines.get(index)).cloned();
        let text = text.unwrap_or_else(|| b"<out of range source code line>".to_vec());
        self.say(&[format!("{mark}{number:<3} ").as_bytes(), &text].concat());
    }

    fn say_lines(&mut self, around: usize, context: usize) {
        let last = self.lines.len().min(around.saturating_add(context));
        (around.saturating_sub(context).max(1)..=last).for_each(|number| self.say_line(number));
    }

    /// Returns all lines so far, as an array of simple strings.
    fn take_said(&mut self) -> Vec<u8> {
        let said = std::mem::take(&mut self.said);
        let mut bytes = format!("*{}\r\n", said.len()).into_bytes();
        for line in said {
            bytes.push(b'+');
            bytes.extend_from_slice(&line);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }

    /// Runs the commands that neither run code nor resume the script.
    fn obey(&mut self, name: &[u8], rest: &[Vec<u8>]) -> Next {
        let integer = |index: usize| std::str::from_utf8(rest.get(index)?).ok()?.trim().parse::<i64>().ok();
        // A word that is no number is 0.
        let number = |index: usize| rest.get(index).map(|_| integer(index).unwrap_or(0));
        match (name, rest.len()) {
            (b"h" | b"help", 0) => HELP.iter().for_each(|line| self.say(line.as_bytes())),
            (b"l" | b"list", 0..=2) => {
                let around = number(0).and_then(|line| usize::try_from(line).ok()).filter(|line| *line > 0);
                let context = number(1).and_then(|lines| usize::try_from(lines).ok()).unwrap_or(CONTEXT);
                self.say_lines(around.unwrap_or(self.line), context);
            }
            (b"w" | b"whole", 0) => self.say_lines(1, usize::MAX),
            (b"b" | b"break", 0) => self.say_breakpoints(),
            (b"b" | b"break", 1) => match integer(0) {
                Some(line) => self.set_breakpoint(line),
                None => self.say(&[b"Invalid argument:'", &rest[0][..], b"'"].concat()),
            },
            (b"max" | b"maxlen", 0) => self.say(format!("Current maxlen is {}", self.limit).as_bytes()),
            (b"max" | b"maxlen", 1) => match integer(0).map(usize::try_from) {
                Some(limit) => self.set_limit(limit.unwrap_or(0)),
                None => self.say(b"<error> Invalid maxlen value."),
            },
            _ => self.say(UNKNOWN),
        }
        Next::Stay
    }

    fn set_limit(&mut self, limit: usize) {
        self.limit = if limit == 0 { 0 } else { limit.max(LIMIT_MIN) };
        // A client that chooses knows how.
        self.hinted = true;
        match self.limit {
            0 => self.say(b"<value> replies are not truncated."),
            limit => self.say(format!("<value> replies are truncated at {limit} bytes.").as_bytes()),
        }
    }

    fn say_breakpoints(&mut self) {
        if self.breakpoints.is_empty() {
            return self.say(b"No breakpoints set. Use 'b <line>' to add one.");
        }
        self.say(format!("{} breakpoints set:", self.breakpoints.len()).as_bytes());
        self.breakpoints.clone().into_iter().for_each(|line| self.say_line(line));
    }

    fn set_breakpoint(&mut self, line: i64) {
        let number = usize::try_from(line.unsigned_abs()).unwrap_or(0);
        match line {
            0 => {
                self.breakpoints.clear();
                self.say(b"All breakpoints removed.");
            }
            ..0 => match self.breakpoints.iter().position(|known| *known == number) {
                Some(at) => {
                    self.breakpoints.remove(at);
                    self.say(b"Breakpoint removed.");
                }
                None => self.say(b"No breakpoint in the specified line."),
            },
            _ if number > self.lines.len() => self.say(b"Wrong line number."),
            _ if self.breakpoints.len() >= BREAKPOINTS_MAX => self.say(b"Too many breakpoints set."),
            _ => {
                if !self.breakpoints.contains(&number) {
                    self.breakpoints.push(number);
                }
                self.say_lines(number, 1);
            }
        }
    }
}
