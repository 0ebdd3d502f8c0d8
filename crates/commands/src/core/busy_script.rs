//! What clients are told while a script keeps the server busy.

use engine::{Engine, Error};
use std::borrow::Cow;

/// What clients are told while some script runs for too long.
pub(crate) fn busy(engine: &Engine) -> Error {
    busy_error(engine.scripts().busy().first().is_some_and(|running| running.run.is_function()))
}

/// What clients are told while a script runs for too long.
pub(crate) fn busy_error(by_function: bool) -> Error {
    if by_function { Error::BusyFunction } else { Error::BusyScript }
}

/// What a client reads of an error where nothing is run again: that a script keeps the server busy, for what would wait
/// for it.
#[cold]
pub(crate) fn text<'e>(engine: &Engine, error: &'e Error) -> Cow<'e, [u8]> {
    error.text().unwrap_or_else(|| Cow::Owned(busy(engine).text().unwrap_or_default().into_owned()))
}
