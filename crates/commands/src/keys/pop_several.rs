//! Arguments of commands that pop from the first of several keys: `numkeys key... <end> [COUNT count]`.

use crate::core::args::Args;
use engine::Error;
use resp::number::parse_i64;
use std::ops::Range;

/// The arguments, with the end of type `E` at which elements are taken.
pub struct PopSeveral<E> {
    /// Indices of the keys.
    pub keys: Range<usize>,
    /// End that gives.
    pub end: E,
    /// Most elements to take.
    pub count: usize,
}

impl<E> PopSeveral<E> {
    /// Parses the arguments. `at`: argument of the number of keys; `end_at` reads the end at an argument.
    ///
    /// # Errors
    /// [`Error::NoKeysNumbered`], [`Error::CountNotAboveZero`], or [`Error::Syntax`] for all else.
    pub fn parse(
        args: &Args<'_>,
        at: usize,
        end_at: impl FnOnce(&Args<'_>, usize) -> Result<E, Error>,
    ) -> Result<PopSeveral<E>, Error> {
        let positive = |index: usize, error| {
            let number = parse_i64(&args[index]).and_then(|number| usize::try_from(number).ok());
            number.filter(|number| *number > 0).ok_or(error)
        };
        let numkeys = positive(at, Error::NoKeysNumbered)?;
        let after_keys = (at + 1).checked_add(numkeys).filter(|index| *index < args.len()).ok_or(Error::Syntax)?;
        let end = end_at(args, after_keys)?;
        let count = match args.len() - after_keys - 1 {
            0 => 1,
            rest if rest >= 2 && args.is(after_keys + 1, "count") => {
                let count = positive(after_keys + 2, Error::CountNotAboveZero)?;
                if rest > 2 {
                    return Err(Error::Syntax);
                }
                count
            }
            _ => return Err(Error::Syntax),
        };
        Ok(PopSeveral { keys: at + 1..after_keys, end, count })
    }
}
