//! The common parts of SCAN, SSCAN, HSCAN and ZSCAN: their words, and the steps of the last three through a collection.

use crate::core::args::Args;
use engine::data::value_type::{self, ValueType};
use engine::{Error, Word, glob};
use resp::Reply;

/// The kind of a scan. Some words are for one kind only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scanned {
    Keys,
    Set,
    Hash,
    SortedSet,
}

/// The words after the cursor.
#[derive(Debug)]
pub(crate) struct ScanWords<'a> {
    /// MATCH, unless it accepts everything.
    pub pattern: Option<&'a [u8]>,
    pub count: usize,
    /// TYPE.
    pub kind: Option<&'static ValueType>,
    /// NOVALUES or NOSCORES.
    pub names_only: bool,
}

impl<'a> ScanWords<'a> {
    /// Parses the words from the argument `index` on.
    pub fn parse(args: &'a Args<'_>, mut index: usize, scanned: Scanned) -> Result<Self, Error> {
        let mut words = ScanWords { pattern: None, count: 10, kind: None, names_only: false };
        while index < args.len() {
            let more = index + 1 < args.len();
            if more && args.is(index, "count") {
                let count = usize::try_from(args.int(index + 1)?).ok();
                words.count = count.filter(|n| *n > 0).ok_or(Error::Syntax)?;
                index += 1;
            } else if more && args.is(index, "match") {
                words.pattern = pattern(&args[index + 1]);
                index += 1;
            } else if more && scanned == Scanned::Keys && args.is(index, "type") {
                words.kind = Some(kind(&args[index + 1])?);
                index += 1;
            } else if args.is(index, "novalues") {
                if scanned != Scanned::Hash {
                    return Err(Error::NovaluesWithoutHash);
                }
                words.names_only = true;
            } else if args.is(index, "noscores") {
                if scanned != Scanned::SortedSet {
                    return Err(Error::NoscoresWithoutSortedSet);
                }
                words.names_only = true;
            } else {
                return Err(Error::Syntax);
            }
            index += 1;
        }
        Ok(words)
    }

    /// Returns whether an element of this name is shown.
    pub fn show(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }
}

/// Returns a pattern, unless it accepts everything.
pub(crate) fn pattern(pattern: &[u8]) -> Option<&[u8]> {
    Some(pattern).filter(|pattern| *pattern != b"*")
}

/// Returns the type that TYPE names.
fn kind(name: &[u8]) -> Result<&'static ValueType, Error> {
    value_type::named(name).ok_or_else(|| Error::UnknownType(Word::up_to_nul(name)))
}

/// Parses a cursor, which is unsigned. As in Valkey, which reads cursors by the rules of C, they end at a zero byte; in
/// a cursor that is no canonical number leading blanks and a sign are accepted, and a minus counts from the end.
pub(crate) fn parse_cursor(text: &[u8]) -> Result<u64, Error> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if resp::number::parse_i64(text).is_some_and(|n| n < 0) {
        return Err(Error::InvalidCursor);
    }
    let text = text.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let cursor = digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    });
    let cursor = cursor.filter(|_| !digits.is_empty()).ok_or(Error::InvalidCursor)?;
    Ok(if negative { cursor.wrapping_neg() } else { cursor })
}

/// Places of a collection's table that are looked at for each requested element; a table that was emptied has few
/// elements in many places.
const PLACES_PER_ELEMENT: usize = 10;

/// The results of one scan's steps.
pub(crate) struct ScanResult {
    /// The shown items.
    pub items: Reply,
    /// The number of items.
    pub shown: usize,
    /// The number of elements on the way.
    pub seen: usize,
}

/// Replies a scan of a collection from `cursor` on. `step` looks at one place of its table, and returns the next one.
pub(crate) fn reply_elements(
    reply: &mut Reply,
    cursor: u64,
    count: usize,
    mut step: impl FnMut(u64, &mut ScanResult) -> Option<u64>,
) {
    let mut found = ScanResult { items: Reply::new(Vec::new(), reply.protocol()), shown: 0, seen: 0 };
    let (mut at, mut places) = (Some(cursor), count.saturating_mul(PLACES_PER_ELEMENT));
    while let Some(position) = at
        && found.seen < count
        && places > 0
    {
        places -= 1;
        at = step(position, &mut found);
    }
    reply.array(2);
    reply.bulk(at.unwrap_or(0).to_string().as_bytes());
    reply.array(found.shown);
    reply.raw(found.items.as_slice());
}

/// Replies a scan of a key that is not there.
pub(crate) fn reply_nothing(reply: &mut Reply) {
    reply.array(2);
    reply.bulk(b"0");
    reply.array(0);
}
