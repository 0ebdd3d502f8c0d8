//! The bounds of a range of a sorted set: by rank, by score or by member.
//!
//! All three become ranks first, in O(log n); what happens then is the same for all.

use crate::args::Args;
use engine::Error;
use std::ops::Range;
use structures::sorted_set::SortedSet;

const NOT_A_LEX_BOUND: Error = Error::text("ERR min or max not valid string range item");

/// What the bounds of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Rank,
    Score,
    Lex,
}

/// The bounds of a range, the lower one first.
pub(crate) enum Bounds<'a> {
    /// From the end that the range is listed from; negative ones from the other end.
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
    /// The bounds at argument `index` and the one after it, in the order of the listing.
    pub(crate) fn parse(args: &'a Args<'_>, index: usize, by: By, reverse: bool) -> Result<Bounds<'a>, Error> {
        let (min, max) = if reverse { (index + 1, index) } else { (index, index + 1) };
        Ok(match by {
            By::Rank => Bounds::Ranks(args.int(index)?, args.int(index + 1)?),
            By::Score => Bounds::Scores(ScoreBound::parse(&args[min])?, ScoreBound::parse(&args[max])?),
            By::Lex => Bounds::Members(LexBound::parse(&args[min])?, LexBound::parse(&args[max])?),
        })
    }

    /// The ranks, in ascending order, of the members within.
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
            Bounds::Members(min, max) => {
                let start = min.lower(set);
                start..max.upper(set).max(start)
            }
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
        let score = if text.is_empty() { Some(0.0) } else { resp::number::parse_f64_c(text) };
        match score {
            Some(score) if !score.is_nan() => Ok(ScoreBound { score, exclusive }),
            _ => Err(Error::MIN_OR_MAX_NOT_A_FLOAT),
        }
    }

    /// How many members come before a range that begins here.
    fn lower(self, set: &SortedSet) -> usize {
        if self.exclusive { set.rank_after_score(self.score) } else { set.rank_of_score(self.score) }
    }

    /// How many members come before the end of a range that ends here.
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
            _ => Err(NOT_A_LEX_BOUND),
        }
    }

    /// How many members come before a range that begins here.
    fn lower(self, set: &SortedSet) -> usize {
        match self {
            LexBound::Lowest => 0,
            LexBound::Highest => set.len(),
            LexBound::Inclusive(member) => ranks_of_member(set, member).start,
            LexBound::Exclusive(member) => ranks_of_member(set, member).end,
        }
    }

    /// How many members come before the end of a range that ends here.
    fn upper(self, set: &SortedSet) -> usize {
        match self {
            LexBound::Lowest => 0,
            LexBound::Highest => set.len(),
            LexBound::Inclusive(member) => ranks_of_member(set, member).end,
            LexBound::Exclusive(member) => ranks_of_member(set, member).start,
        }
    }
}

/// Where a member is or would be in a set that is in order of members, because all scores are the same.
fn ranks_of_member(set: &SortedSet, member: &[u8]) -> Range<usize> {
    let Some((_, score)) = set.range(0..1).next() else { return 0..0 };
    let start = set.rank_of_bound(score, member);
    let present = set.range(start..start + 1).next().is_some_and(|(found, _)| found == member);
    start..start + usize::from(present)
}

/// Ranks from `start` to `stop`, both included and negative from the end, as a range within `len`.
fn clamp_ranks(start: i64, stop: i64, len: usize) -> Range<usize> {
    let from_front = |rank: i64| if rank < 0 { rank.saturating_add(len as i64) } else { rank };
    let (start, stop) = (from_front(start).max(0), from_front(stop).min(len as i64 - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}
