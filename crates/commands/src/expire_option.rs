//! EX, PX, EXAT, PXAT: when a key is to run out, as SET, GETEX and their kin take it.

use crate::args::Args;
use crate::cx::Cx;
use engine::Error;

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
        let (seconds, absolute) = match args[index].to_ascii_lowercase().as_slice() {
            b"ex" => (true, false),
            b"px" => (false, false),
            b"exat" => (true, true),
            b"pxat" => (false, true),
            _ => return None,
        };
        (index + 1 < args.len()).then_some(ExpireOption { seconds, absolute, index: index + 1 })
    }

    /// A notation given by the command's name (SETEX, PSETEX).
    pub fn relative(seconds: bool, index: usize) -> ExpireOption {
        ExpireOption { seconds, absolute: false, index }
    }

    /// The deadline in Unix milliseconds; a number that is not positive or too large is refused.
    pub fn deadline(self, cx: &Cx<'_>, args: &Args<'_>) -> Result<i64, Error> {
        let number = args.int(self.index)?;
        let invalid = || Error::invalid_expire(cx.row.name);
        if number <= 0 {
            return Err(invalid());
        }
        let unit = if self.seconds { 1000 } else { 1 };
        let base = if self.absolute { 0 } else { cx.now_ms() };
        number.checked_mul(unit).and_then(|ms| ms.checked_add(base)).ok_or_else(invalid)
    }
}

/// `PXAT <deadline>` as words of a log record.
pub fn pxat(deadline: i64) -> [Vec<u8>; 2] {
    [b"PXAT".to_vec(), deadline.to_string().into_bytes()]
}
