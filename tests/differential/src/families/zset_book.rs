//! Sorted sets: the commands that the book protocol stands on, with ranges by index only.

use super::{Family, row};
use crate::words::{Word, collection_key, decimal, float, one_of, value};
use fastrand::Rng;

pub const FAMILY: Family = Family {
    name: "zset-book",
    words: WORDS,
    rows: &[
        row(10, "ZADD key (good_score member)+"),
        row(4, "ZADD key (score member)+"),
        row(3, "ZADD key [NX] [CH] (score member)+"),
        row(2, "ZADD key XX [CH] (score member)+"),
        row(5, "ZADD key XX [GT|LT] [CH] (score member)+"),
        row(4, "ZADD key INCR score member"),
        row(8, "ZADD key {NX|XX|GT|LT|CH|INCR} (score member)+"),
        row(2, "ZADD key {NX|XX|GT|LT|CH|INCR} [score]"),
        row(2, "ZADD key score member score"),
        row(6, "ZREM key member+"),
        row(8, "ZSCORE key member"),
        row(4, "ZCARD key"),
        row(8, "ZRANK key member [WITHSCORE]"),
        row(1, "ZRANK key member junk"),
        row(8, "ZRANGE key index index [WITHSCORES]"),
        row(6, "ZRANGE key 0 -1 WITHSCORES"),
        row(2, "ZRANGE key index index {WITHSCORES|LIMIT index index|junk}"),
        row(3, "OBJECT ENCODING key"),
        row(2, "TYPE key"),
    ],
    rules: &[],
};

const WORDS: &[Word] = &[("key", collection_key), ("score", score), ("good_score", good_score), ("member", member)];

pub(super) fn score(rng: &mut Rng) -> Vec<u8> {
    if rng.bool() { good_score(rng) } else { float(rng) }
}

/// Scores often equal each other, so that members decide the order. All are legal, or no long command would be.
pub(super) fn good_score(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..7 => decimal(rng.i8(-3..4)),
        7 => one_of(rng, &["inf", "-inf", "+inf", "-0", "0.1", "1e300", "1e-300", "-1.7976931348623157e308"]),
        _ => decimal((rng.f64() - 0.5) * 1e6),
    }
}

pub(super) fn member(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..5 => vec![rng.u8(b'a'..=b'h')],
        5 | 6 => decimal(format!("m{}", rng.u16(..300))),
        7 => decimal(rng.i32(-5..20)),
        8 => one_of(rng, &["", "A", "\0", "\u{ff}", "nan", "aa", "12345678901234567890"]),
        _ => value(rng),
    }
}
