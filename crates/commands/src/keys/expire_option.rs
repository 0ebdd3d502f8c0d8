//! EX, PX, EXAT, PXAT: the time of a key's expiry, as SET, GETEX and their kin take it.

use crate::core::args::Args;
use crate::core::context::Context;
use engine::Error;
use engine::keyspace::edit::Ttl;
use engine::time::UnixMs;

/// An expiry in one of the four notations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpireOption {
    seconds: bool,
    absolute: bool,
    /// The argument that holds the number.
    index: usize,
}

impl ExpireOption {
    /// Parses the notation that the word at `index` names, if a number follows it.
    pub fn parse(args: &Args<'_>, index: usize) -> Option<ExpireOption> {
        const NOTATIONS: [(&str, bool, bool); 4] =
            [("ex", true, false), ("px", false, false), ("exat", true, true), ("pxat", false, true)];
        let (_, seconds, absolute) = NOTATIONS.into_iter().find(|(word, ..)| args.is(index, word))?;
        (index + 1 < args.len()).then_some(ExpireOption { seconds, absolute, index: index + 1 })
    }

    fn same_notation(self, other: ExpireOption) -> bool {
        (self.seconds, self.absolute) == (other.seconds, other.absolute)
    }

    /// Returns a notation given by the command's name (SETEX, PSETEX).
    pub fn relative(seconds: bool, index: usize) -> ExpireOption {
        ExpireOption { seconds, absolute: false, index }
    }

    /// Returns the expiry; a number that is not positive or too large is refused.
    pub fn expiry(self, cx: &Context<'_>, args: &Args<'_>) -> Result<UnixMs, Error> {
        self.expiry_from(cx, args, 1)
    }

    /// Returns the expiry, if the number is at least `least`.
    fn expiry_from(self, cx: &Context<'_>, args: &Args<'_>, least: i64) -> Result<UnixMs, Error> {
        let number = args.int(self.index)?;
        let invalid = || Error::InvalidExpire(cx.command.name);
        if number < least {
            return Err(invalid());
        }
        let unit = if self.seconds { 1000 } else { 1 };
        let base = if self.absolute { 0 } else { cx.now_ms().0 };
        number.checked_mul(unit).and_then(|ms| ms.checked_add(base)).map(UnixMs).ok_or_else(invalid)
    }
}

/// A command's options about a key's expiry: one of these may be given, also repeatedly, and the last time counts.
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
    /// Takes the option at `index` and returns how many arguments it has. None: it is no such option, or contradicts
    /// one before it. The word of `extra` is accepted besides the four notations.
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

    /// Returns the expiry, if one is given.
    pub fn expiry(self, cx: &Context<'_>, args: &Args<'_>) -> Result<Option<UnixMs>, Error> {
        match self {
            Lifetime::Until(expire) => expire.expiry(cx, args).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the expiry for fields of hashes, where 0 is a number like others: an expiry that has passed.
    pub fn expiry_or_past(self, cx: &Context<'_>, args: &Args<'_>) -> Result<Option<UnixMs>, Error> {
        match self {
            Lifetime::Until(expire) => expire.expiry_from(cx, args, 0).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns whether it means the same whenever it is read, and is written in the log's form.
    pub fn is_absolute_ms(self) -> bool {
        matches!(self, Lifetime::Until(ExpireOption { seconds: false, absolute: true, .. }))
    }

    /// Returns it in the form of an edit.
    pub fn ttl(self, expiry: Option<UnixMs>) -> Ttl {
        match (self, expiry) {
            (_, Some(at)) => Ttl::At(at),
            (Lifetime::Keep, None) => Ttl::Keep,
            _ => Ttl::Clear,
        }
    }
}

/// Returns `PXAT <expiry>` as words of a log record.
pub fn pxat(expiry: UnixMs) -> [Vec<u8>; 2] {
    [b"PXAT".to_vec(), expiry.0.to_string().into_bytes()]
}
