//! Errors for clients while a script keeps the server busy.

use engine::{Engine, Error};
use std::borrow::Cow;

/// Returns the error for clients while some script runs for too long.
pub fn busy(engine: &Engine) -> Error {
    busy_error(engine.scripts().busy().first().is_some_and(|running| running.run.is_function()))
}

/// Returns the error for clients while a script runs for too long.
pub fn busy_error(by_function: bool) -> Error {
    if by_function { Error::BusyFunction } else { Error::BusyScript }
}

/// Returns an error's text where no command is run again: a command that would wait gets the error of a busy server.
#[cold]
pub fn text<'e>(engine: &Engine, error: &'e Error) -> Cow<'e, [u8]> {
    error.text().unwrap_or_else(|| Cow::Owned(busy(engine).text().unwrap_or_default().into_owned()))
}
