//! LCS: the longest common subsequence of two strings.
//!
//! The textbook's table holds the length `L(i, j)` for the first `i` bytes of one string and the first `j`
//! of the other. In a row it grows by 0 or 1 from one column to the next, so a row is kept as one bit a
//! column, and 64 columns are computed at a time by an addition (Crochemore et al. 2001, Hyyrö 2004):
//!
//! ```text
//! bit j of row i:  1 where L(i, j+1) = L(i, j), 0 where it is one more
//! row(i+1)      =  (row(i) + (row(i) & match)) | (row(i) & !match)      match: bit j says b[j] == a[i]
//! ```
//!
//! The way back through the table needs to know which of `L(i-1, j)` and `L(i, j-1)` is larger. If the bytes differ,
//! `L(i, j)` is the maximum of both, so the row's own bit decides: 0 means that the left one is smaller, and that the
//! maximum is the upper one.

use crate::core::args::Args;
use crate::core::command::{Command, Group, READONLY, key};
use crate::core::context::Context;
use crate::strings::substring::max_length;
use engine::Error;
use engine::data::value::Str;
use resp::Reply;

pub const COMMANDS: &[Command] = &[Command {
    name: "lcs",
    group: Group::String,
    since: "7.0.0",
    arity: -3,
    flags: READONLY,
    keys: &[key(1).ro().access().to(1, 1)],
    syntax: "key1:key key2:key0 [LEN] [IDX] [MINMATCHLEN min-match-len:int] [WITHMATCHLEN]",
    summary: "Finds the longest common substring.",
    complexity: "O(N*M) where N and M are the lengths of s1 and s2, respectively",
    run: lcs,
    ..Command::DEFAULT
}];

#[derive(Default)]
struct Options {
    len: bool,
    idx: bool,
    with_match_len: bool,
    min_match_len: i64,
}

impl Options {
    fn parse(args: &Args<'_>) -> Result<Options, Error> {
        let mut options = Options::default();
        let mut index = 3;
        while index < args.len() {
            if args.is(index, "idx") {
                options.idx = true;
            } else if args.is(index, "len") {
                options.len = true;
            } else if args.is(index, "withmatchlen") {
                options.with_match_len = true;
            } else if args.is(index, "minmatchlen") && index + 1 < args.len() {
                index += 1;
                options.min_match_len = args.int(index)?;
            } else {
                return Err(Error::Syntax);
            }
            index += 1;
        }
        if options.len && options.idx { Err(Error::LcsLenAndIdx) } else { Ok(options) }
    }
}

fn lcs(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    // The keys are read one at a time: the first string is copied to be compared with the second.
    let mut string = |index| {
        let key = cx.key(args, index);
        let value = cx.keys.string(key).map_err(|_| Error::LcsNotStrings)?;
        Ok::<_, Error>(value.map(Str::to_vec).unwrap_or_default())
    };
    // Both are looked up before either gives an error.
    let (a, b) = (string(1), string(2));
    let (a, b) = (a?, b?);
    let options = Options::parse(args)?;
    // The limit is that of a table of 32-bit lengths, whatever the memory here.
    let cells = (a.len() as u64 + 1).saturating_mul(b.len() as u64 + 1);
    if cells.saturating_mul(4) > max_length(cx.engine, cx.keys.origin().caller) as u64 {
        return Err(Error::LcsTooLarge);
    }
    if options.len {
        cx.reply.int(Table::length(&a, &b) as i64);
        return Ok(());
    }
    let table = Table::new(&a, &b);
    if options.idx {
        reply_matches(cx.reply, &table, &options);
    } else {
        cx.reply.bulk(&table.subsequence());
    }
    Ok(())
}

fn reply_matches(reply: &mut Reply, table: &Table<'_>, options: &Options) {
    reply.map(2);
    reply.bulk(b"matches");
    let mark = reply.begin_array();
    let mut count = 0;
    table.runs(|run| {
        if (run.len as i64) < options.min_match_len {
            return;
        }
        reply.array(2 + usize::from(options.with_match_len));
        for start in [run.a, run.b] {
            reply.array(2);
            reply.int(start as i64);
            reply.int((start + run.len) as i64 - 1);
        }
        if options.with_match_len {
            reply.int(run.len as i64);
        }
        count += 1;
    });
    reply.end_array(mark, count);
    reply.bulk(b"len");
    reply.int(table.len as i64);
}

/// A run of bytes that both strings have: its beginning in each, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    a: usize,
    b: usize,
    len: usize,
}

/// The rows for two strings.
struct Table<'s> {
    a: &'s [u8],
    b: &'s [u8],
    /// Words in a row.
    words: usize,
    /// Row 1 to `a.len()`.
    rows: Vec<u64>,
    /// Length of the longest common subsequence.
    len: usize,
}

impl<'s> Table<'s> {
    fn new(a: &'s [u8], b: &'s [u8]) -> Self {
        let words = b.len().div_ceil(64);
        let mut rows = Vec::with_capacity(words * a.len());
        let len = each_row(a, b, |row| rows.extend_from_slice(row));
        Table { a, b, words, rows, len }
    }

    /// Returns the length alone, for which one row is enough.
    fn length(a: &[u8], b: &[u8]) -> usize {
        each_row(a, b, |_| {})
    }

    /// Returns whether `L(i, j)` is one more than `L(i, j - 1)`.
    fn grows(&self, i: usize, j: usize) -> bool {
        let (row, column) = (i - 1, j - 1);
        self.rows[row * self.words + column / 64] >> (column % 64) & 1 == 0
    }

    /// Visits the pairs of positions that make up the subsequence, from the last to the first; false marks a
    /// step at which the strings differ.
    fn walk(&self, mut visit: impl FnMut(usize, usize, bool)) {
        let (mut i, mut j) = (self.a.len(), self.b.len());
        while i > 0 && j > 0 {
            let equal = self.a[i - 1] == self.b[j - 1];
            visit(i - 1, j - 1, equal);
            if equal {
                (i, j) = (i - 1, j - 1);
            } else if self.grows(i, j) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }

    fn subsequence(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        self.walk(|i, _, equal| {
            if equal {
                bytes.push(self.a[i]);
            }
        });
        bytes.reverse();
        bytes
    }

    /// Visits the runs of the subsequence, from the last to the first.
    fn runs(&self, mut visit: impl FnMut(Run)) {
        let mut run: Option<Run> = None;
        self.walk(|i, j, equal| {
            if equal {
                let len = run.map_or(0, |run| run.len) + 1;
                run = Some(Run { a: i, b: j, len });
            } else if let Some(run) = run.take() {
                visit(run);
            }
        });
        if let Some(run) = run {
            visit(run);
        }
    }
}

/// Computes row after row and returns the length of the longest common subsequence.
fn each_row(a: &[u8], b: &[u8], mut visit: impl FnMut(&[u64])) -> usize {
    let words = b.len().div_ceil(64);
    let (masks, mask_of) = match_masks(a, b, words);
    let mut row = vec![u64::MAX; words];
    for byte in a {
        let matches = &masks[mask_of[usize::from(*byte)] * words..][..words];
        let mut carry = false;
        for (bits, mask) in row.iter_mut().zip(matches) {
            let hit = *bits & mask;
            let (sum, over) = bits.overflowing_add(hit);
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            carry = over | over_again;
            *bits = sum | (*bits & !mask);
        }
        visit(&row);
    }
    // Columns after the last match nothing and stay ones, whatever carry reaches them.
    row.iter().map(|bits| bits.count_zeros() as usize).sum()
}

/// Returns, for each byte of `a`, its places in `b`: a bit a column. The second array has the number of a byte's mask.
/// There are no more masks than `a` has bytes, so all of them fit into the size of the table.
fn match_masks(a: &[u8], b: &[u8], words: usize) -> (Vec<u64>, [usize; 256]) {
    const NONE: usize = usize::MAX;
    let mut mask_of = [NONE; 256];
    let mut count = 0;
    for byte in a {
        let mask = &mut mask_of[usize::from(*byte)];
        if *mask == NONE {
            *mask = count;
            count += 1;
        }
    }
    let mut masks = vec![0u64; count * words];
    for (column, byte) in b.iter().enumerate() {
        let mask = mask_of[usize::from(*byte)];
        if mask != NONE {
            masks[mask * words + column / 64] |= 1 << (column % 64);
        }
    }
    (masks, mask_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Client;
    use proptest::prelude::*;

    #[test]
    fn options() {
        let mut client = Client::new();
        for (command, reply) in [
            ("MSET a ohmytext b mynewtext", "+OK"),
            ("LCS a b", "mytext"),
            ("LCS a b LEN", ":6"),
            ("LCS a b IDX", "[matches [[[:4 :7] [:5 :8]] [[:2 :3] [:0 :1]]] len :6]"),
            ("LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN", "[matches [[[:4 :7] [:5 :8] :4]] len :6]"),
            ("LCS a none IDX MINMATCHLEN -1", "[matches [] len :0]"),
            ("LCS none a", ""),
            ("LCS a b LEN IDX", "-ERR If you want both the length and indexes, please just use IDX."),
            ("LCS a b MINMATCHLEN", "-ERR syntax error"),
            ("LCS a b MINMATCHLEN x", "-ERR value is not an integer or out of range"),
            ("ZADD z 1 m", ":1"),
            ("LCS a z FOO", "-ERR The specified keys must contain string values"),
            ("SETRANGE a 20000 x", ":20001"),
            ("LCS a a", "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"),
        ] {
            client.is(command, reply);
        }
    }

    /// Returns the textbook's table.
    fn lengths(a: &[u8], b: &[u8]) -> Vec<Vec<usize>> {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                table[i][j] =
                    if a[i - 1] == b[j - 1] { table[i - 1][j - 1] + 1 } else { table[i - 1][j].max(table[i][j - 1]) };
            }
        }
        table
    }

    /// Returns the textbook's way back, which leaves the first string only where that is strictly better.
    fn model(a: &[u8], b: &[u8]) -> Vec<(usize, usize)> {
        let table = lengths(a, b);
        let (mut i, mut j, mut pairs) = (a.len(), b.len(), Vec::new());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                pairs.push((i, j));
            } else if table[i - 1][j] > table[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        pairs
    }

    proptest! {
        #[test]
        fn agrees_with_the_textbook(a in "[a-d]{0,150}", b in "[a-d]{0,150}") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let pairs = model(a, b);
            let table = Table::new(a, b);
            prop_assert_eq!(table.len, pairs.len());
            prop_assert_eq!(Table::length(a, b), pairs.len());
            let common: Vec<u8> = pairs.iter().rev().map(|(i, _)| a[*i]).collect();
            prop_assert_eq!(table.subsequence(), common);
            let mut in_runs = Vec::new();
            table.runs(|run| in_runs.extend((0..run.len).rev().map(|n| (run.a + n, run.b + n))));
            prop_assert_eq!(in_runs, pairs);
        }
    }
}
