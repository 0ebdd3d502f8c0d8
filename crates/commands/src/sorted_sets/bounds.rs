//! The bounds of a range of a sorted set: by rank, by score or by member.
//!
//! All three become ranks first, in O(log n); the next steps are the same for all.

use crate::core::args::Args;
use engine::Error;
use std::ops::Range;
use structures::sorted_set::SortedSet;

/// The kind of a range's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Rank,
    Score,
    Lex,
}

/// The bounds of a range, the lower one first.
pub(crate) enum Bounds<'a> {
    /// Ranks from the end that the range is listed from; negative ones from the other end.
    Ranks(i64, i64),
    Scores(ScoreBound, ScoreBound),
    Members(LexBound<'a>, LexBound<'a>),
}

#[derive(Clone, Copy)]
pub(crate) struct ScoreBound {
    score: f64,
    exclusive: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum LexBound<'a> {
    Lowest,
    Highest,
    Inclusive(&'a [u8]),
    Exclusive(&'a [u8]),
}

impl<'a> Bounds<'a> {
    /// Parses the bounds at argument `index` and the one after it, in the order of the listing.
    pub(crate) fn parse(args: &'a Args<'_>, index: usize, by: By, reverse: bool) -> Result<Bounds<'a>, Error> {
        let (min, max) = if reverse { (index + 1, index) } else { (index, index + 1) };
        Ok(match by {
            By::Rank => Bounds::Ranks(args.int(index)?, args.int(index + 1)?),
            By::Score => Bounds::Scores(ScoreBound::parse(&args[min])?, ScoreBound::parse(&args[max])?),
            By::Lex => Bounds::Members(LexBound::parse(&args[min])?, LexBound::parse(&args[max])?),
        })
    }

    /// Returns the ranks, in ascending order, of the members within.
    pub(crate) fn ranks(&self, set: &SortedSet, reverse: bool) -> Range<usize> {
        match self {
            Bounds::Ranks(start, stop) => {
                let ranks = clamp_ranks(*start, *stop, set.len());
                if reverse { set.len() - ranks.end..set.len() - ranks.start } else { ranks }
            }
            Bounds::Scores(min, max) => {
                let start = min.lower(set);
                start..max.upper(set).max(start)
            }
            Bounds::Members(min, max) => lex_ranks(set, *min, *max, reverse),
        }
    }
}

impl ScoreBound {
    fn parse(text: &[u8]) -> Result<ScoreBound, Error> {
        let (exclusive, text) = match text {
            [b'(', score @ ..] => (true, score),
            score => (false, score),
        };
        // A C string ends at a zero byte, and an empty one is 0.
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let score = if text.is_empty() { Some(0.0) } else { resp::number::parse_f64_clamped(text) };
        match score {
            Some(score) => Ok(ScoreBound { score, exclusive }),
            None => Err(Error::MinOrMaxNotAFloat),
        }
    }

    /// Returns how many members come before a range that begins here.
    fn lower(self, set: &SortedSet) -> usize {
        if self.exclusive { set.rank_after_score(self.score) } else { set.rank_of_score(self.score) }
    }

    /// Returns how many members come before the end of a range that ends here.
    fn upper(self, set: &SortedSet) -> usize {
        if self.exclusive { set.rank_of_score(self.score) } else { set.rank_after_score(self.score) }
    }
}

impl<'a> LexBound<'a> {
    fn parse(text: &'a [u8]) -> Result<LexBound<'a>, Error> {
        match text {
            // A C string ends at a zero byte.
            [b'-'] | [b'-', 0, ..] => Ok(LexBound::Lowest),
            [b'+'] | [b'+', 0, ..] => Ok(LexBound::Highest),
            [b'[', member @ ..] => Ok(LexBound::Inclusive(member)),
            [b'(', member @ ..] => Ok(LexBound::Exclusive(member)),
            _ => Err(Error::MinOrMaxNotLex),
        }
    }

    /// Returns whether a range that begins here may have this member.
    fn admits_from_below(self, member: &[u8]) -> bool {
        match self {
            LexBound::Lowest => true,
            LexBound::Highest => false,
            LexBound::Inclusive(bound) => member >= bound,
            LexBound::Exclusive(bound) => member > bound,
        }
    }

    /// Returns whether a range that ends here may have this member.
    fn admits_from_above(self, member: &[u8]) -> bool {
        match self {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Inclusive(bound) => member <= bound,
            LexBound::Exclusive(bound) => member < bound,
        }
    }
}

/// Returns the members between two names. The bounds are meant for sets in which names ascend, as where all scores are
/// the same; other sets are searched as if they did. The result then depends on the way of searching, which for a small
/// set is Valkey's: from the end that is listed first.
fn lex_ranks(set: &SortedSet, min: LexBound<'_>, max: LexBound<'_>, reverse: bool) -> Range<usize> {
    let (above_min, below_max) = (|name: &[u8]| min.admits_from_below(name), |name: &[u8]| max.admits_from_above(name));
    if set.encoding() == "skiplist" {
        let start = set.partition_by_member(|name| !above_min(name));
        return start..set.partition_by_member(below_max).max(start);
    }
    let (mut names, len) = (set.iter().map(|(name, _)| name), set.len());
    let (Some(first), last) = (names.clone().next(), names.clone().next_back()) else { return 0..0 };
    if !below_max(first) || !last.is_some_and(above_min) {
        return 0..0;
    }
    if reverse {
        let Some(skipped) = names.by_ref().rev().position(below_max) else { return 0..0 };
        let end = len - skipped;
        let count = set.range(0..end).rev().take_while(|(name, _)| above_min(name)).count();
        return end - count..end;
    }
    let Some(start) = names.position(above_min) else { return 0..0 };
    start..start + set.range(start..len).take_while(|(name, _)| below_max(name)).count()
}

/// Returns ranks from `start` to `stop`, both included and negative from the end, as a range within `len`.
fn clamp_ranks(start: i64, stop: i64, len: usize) -> Range<usize> {
    let from_front = |rank: i64| if rank < 0 { rank.saturating_add(len as i64) } else { rank };
    let (start, stop) = (from_front(start).max(0), from_front(stop).min(len as i64 - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}
