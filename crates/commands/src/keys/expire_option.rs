//! EX, PX, EXAT, PXAT: when a key is to run out, as SET, GETEX and their kin take it.

use crate::core::args::Args;
use crate::core::context::Cx;
use engine::Error;
use engine::keyspace::edit::Ttl;

/// A deadline in one of the four notations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpireOption {
    seconds: bool,
    absolute: bool,
    /// The argument that holds the number.
    index: usize,
}

impl ExpireOption {
    /// The notation that the word at `index` names, when a number follows it.
    pub fn parse(args: &Args<'_>, index: usize) -> Option<ExpireOption> {
        const NOTATIONS: [(&str, bool, bool); 4] =
            [("ex", true, false), ("px", false, false), ("exat", true, true), ("pxat", false, true)];
        let (_, seconds, absolute) = NOTATIONS.into_iter().find(|(word, ..)| args.is(index, word))?;
        (index + 1 < args.len()).then_some(ExpireOption { seconds, absolute, index: index + 1 })
    }

    fn same_notation(self, other: ExpireOption) -> bool {
        (self.seconds, self.absolute) == (other.seconds, other.absolute)
    }

    /// A notation given by the command's name (SETEX, PSETEX).
    pub fn relative(seconds: bool, index: usize) -> ExpireOption {
        ExpireOption { seconds, absolute: false, index }
    }

    /// The deadline in Unix milliseconds; a number that is not positive or too large is refused.
    pub fn deadline(self, cx: &Cx<'_>, args: &Args<'_>) -> Result<i64, Error> {
        self.deadline_from(cx, args, 1)
    }

    /// The same where numbers from `least` on are taken.
    fn deadline_from(self, cx: &Cx<'_>, args: &Args<'_>, least: i64) -> Result<i64, Error> {
        let number = args.int(self.index)?;
        let invalid = || Error::InvalidExpire(cx.command.name);
        if number < least {
            return Err(invalid());
        }
        let unit = if self.seconds { 1000 } else { 1 };
        let base = if self.absolute { 0 } else { cx.now_ms() };
        number.checked_mul(unit).and_then(|ms| ms.checked_add(base)).ok_or_else(invalid)
    }
}

/// What a command's options say of a key's deadline: one of these may be said, also repeatedly, and the last
/// time counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    #[default]
    Unsaid,
    /// KEEPTTL
    Keep,
    /// PERSIST
    Persist,
    Until(ExpireOption),
}

impl Lifetime {
    /// Takes in the option at `index` and returns how many arguments it has. None: it is no such option, or
    /// contradicts one before it. The word of `extra` is understood besides the four notations.
    pub fn accept(&mut self, args: &Args<'_>, index: usize, extra: Lifetime) -> Option<usize> {
        let said = match extra {
            Lifetime::Keep if args.is(index, "keepttl") => Lifetime::Keep,
            Lifetime::Persist if args.is(index, "persist") => Lifetime::Persist,
            _ => Lifetime::Until(ExpireOption::parse(args, index)?),
        };
        let agrees = match (*self, said) {
            (Lifetime::Unsaid, _) => true,
            (Lifetime::Until(before), Lifetime::Until(now)) => before.same_notation(now),
            (before, now) => before == now,
        };
        *self = said;
        agrees.then_some(if matches!(said, Lifetime::Until(_)) { 2 } else { 1 })
    }

    /// The deadline in Unix milliseconds, if one is given.
    pub fn deadline(self, cx: &Cx<'_>, args: &Args<'_>) -> Result<Option<i64>, Error> {
        match self {
            Lifetime::Until(expire) => expire.deadline(cx, args).map(Some),
            _ => Ok(None),
        }
    }

    /// The same for fields of hashes, where 0 is a number like others: a deadline that has passed.
    pub fn deadline_or_past(self, cx: &Cx<'_>, args: &Args<'_>) -> Result<Option<i64>, Error> {
        match self {
            Lifetime::Until(expire) => expire.deadline_from(cx, args, 0).map(Some),
            _ => Ok(None),
        }
    }

    /// The same as an edit wants it.
    pub fn ttl(self, deadline: Option<i64>) -> Ttl {
        match (self, deadline) {
            (_, Some(at)) => Ttl::At(at),
            (Lifetime::Keep, None) => Ttl::Keep,
            _ => Ttl::Clear,
        }
    }
}

/// `PXAT <deadline>` as words of a log record.
pub fn pxat(deadline: i64) -> [Vec<u8>; 2] {
    [b"PXAT".to_vec(), deadline.to_string().into_bytes()]
}
