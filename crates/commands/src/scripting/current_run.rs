//! The work of this thread, as the natives of its interpreter reach it: a script with its commands, or the text of a
//! library that is loaded.

use super::lua_memory::{self, room_to_grow};
use crate::core::args::Args;
use crate::core::command::CommandEntry;
use engine::propagation::change_log::Readers;
use engine::time::Nanos;
use mlua::{Either, Lua, MultiValue, Value};
use resp::Protocol;
use scoped_tls_hkt::scoped_thread_local;
use std::cell::Cell;
use std::time::{Duration, Instant};

scoped_thread_local! {
    /// Run of the script that this thread executes.
    pub(super) static mut RUN: for<'a> &'a mut (dyn Commands + 'a)
}

/// A command's reply as its script gets it: a text goes to Lua without a detour.
pub(super) type Answer = Either<String, Value>;

/// Services of a run for its script.
pub(super) trait Commands {
    /// Runs a command. Returns its error as a value, too, unless `raise` asks for a failure.
    fn call(&mut self, lua: &Lua, words: &MultiValue, raise: bool) -> Result<Answer, mlua::Error>;

    /// Sets the protocol of the replies that the script sees.
    fn set_protocol(&mut self, protocol: Protocol);

    /// Whether its client's user may run this command.
    fn may_call(&mut self, entry: &CommandEntry, args: &Args<'_>) -> bool;

    /// Sets the readers of the log that receive the changes of its commands.
    fn set_logging(&mut self, readers: Option<Readers>);

    /// Writes a line to the server's log.
    fn log(&mut self, level: i64, line: &str);

    /// Records that the code which began the script has caught its error: nothing more has to be ended.
    fn is_over(&mut self);

    /// Returns the host's clock, and how long others wait silently, in nanoseconds.
    fn clock(&self) -> (Nanos, u64);

    /// Sends bytes to the script's client and waits for its next request; returns None when there will be none.
    fn converse(&mut self, bytes: Vec<u8>) -> Option<Vec<Vec<u8>>>;

    /// Whether the script must end, whatever errors it catches.
    fn is_ending(&self) -> bool;

    /// Looks at the clock and for requests to end the script; an error ends it. Returns the nanoseconds since the last
    /// look.
    fn check_time(&mut self) -> Result<u64, mlua::Error>;
}

/// Knowledge of the keys that a script touches, from its text or its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The script has not run to its end yet.
    Unknown,
    /// The script touched only keys that it was given, in its runs so far.
    Declared,
    /// The script touches only keys that it is given, as its text shows.
    Confined,
    /// The script touches other keys too.
    Beyond,
}

/// Appends a Lua value as a command's argument; false if it cannot be one.
///
/// # Errors
/// There is not enough memory.
pub(super) fn append(bytes: &mut Vec<u8>, value: &Value) -> mlua::Result<bool> {
    match value {
        Value::String(text) => {
            let text = text.as_bytes();
            room_to_grow(bytes, text.len())?;
            bytes.extend_from_slice(&text);
        }
        Value::Integer(number) if number.unsigned_abs() > WHOLE_MAX => append_number(bytes, *number as f64),
        Value::Integer(number) => bytes.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes()),
        // The number is an integer; a zero has no sign then.
        Value::Number(number) if *number == 0.0 => bytes.push(b'0'),
        Value::Number(number) => append_number(bytes, *number),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Highest whole number of which all digits are written.
const WHOLE_MAX: u64 = 1 << 62;

/// Appends a number as other servers write it for commands.
fn append_number(bytes: &mut Vec<u8>, number: f64) {
    if number.abs() <= WHOLE_MAX as f64 && number.fract() == 0.0 {
        return bytes.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
    }
    if number.is_nan() && number.is_sign_negative() {
        bytes.push(b'-');
    }
    bytes.extend_from_slice(&resp::double::format_by_digits(number));
}

/// Time limit of the text of a library that a client sends.
pub(super) const LOAD_TIMEOUT: Duration = Duration::from_millis(500);

thread_local! {
    /// Deadline of the text of the library that is being loaded. None: no library is loaded, or it has no time limit.
    static LOAD_ENDS: Cell<Option<Instant>> = const { Cell::new(None) };
}

pub(super) fn begin_load(timeout: Duration) {
    LOAD_ENDS.set(Instant::now().checked_add(timeout));
}

pub(super) fn end_load() {
    LOAD_ENDS.set(None);
}

/// Whether the library that is being loaded has had its time.
pub(super) fn is_load_late() -> bool {
    LOAD_ENDS.get().is_some_and(|at| at < Instant::now())
}

/// Whether the running code must end, whatever errors it catches.
pub(super) fn is_ending() -> bool {
    lua_memory::is_short() || if RUN.is_set() { RUN.with(|run| run.is_ending()) } else { is_load_late() }
}

/// Records that the error of the running code has been caught where the code began: it need not be ended any more.
pub(super) fn error_caught() {
    lua_memory::end_shortage();
    if RUN.is_set() {
        RUN.with(|run| run.is_over());
    } else {
        LOAD_ENDS.set(LOAD_ENDS.get().map(|at| at + LOAD_TIMEOUT));
    }
}
