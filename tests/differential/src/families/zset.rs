//! Sorted sets: ranges of all kinds, pops, unions and the like.
//!
//! A range by name is not defined for a set with different scores; so such ranges have keys of their own, in
//! which all scores are 0.

use super::zset_book::{good_score, member, score};
use super::{Family, optional, row};
use crate::compare::Rule;
use crate::words::{Word, collection_key, decimal, index, int, one_of};
use fastrand::Rng;

pub const FAMILY: Family = Family {
    name: "zset",
    words: WORDS,
    rows: &[
        row(20, "ZADD key (good_score member)+"),
        row(8, "ZADD lex (zero word)+"),
        optional(6, "SADD sets (small|member)+", "SADD"),
        row(4, "ZINCRBY key score member"),
        row(4, "ZREM key member+"),
        row(3, "DEL key"),
        row(4, "ZMSCORE key member+"),
        row(6, "ZREVRANK key member [WITHSCORE]"),
        row(8, "ZCOUNT key score_bound score_bound"),
        row(8, "ZRANGE key score_bound score_bound BYSCORE {REV|LIMIT limit limit|WITHSCORES}"),
        row(4, "ZRANGE key index index {REV|WITHSCORES|LIMIT limit limit|BYSCORE|BYLEX|junk}"),
        row(5, "ZRANGEBYSCORE key score_bound score_bound {WITHSCORES|LIMIT limit limit}"),
        row(5, "ZREVRANGEBYSCORE key score_bound score_bound {WITHSCORES|LIMIT limit limit}"),
        row(5, "ZREVRANGE key index index {WITHSCORES}"),
        row(1, "ZREVRANGE key index index (REV|LIMIT limit limit|junk)"),
        row(8, "ZRANGE lex lex_bound lex_bound BYLEX {REV|LIMIT limit limit}"),
        row(1, "ZRANGE lex lex_bound lex_bound BYLEX {REV|LIMIT limit limit|WITHSCORES|junk}"),
        row(5, "ZRANGEBYLEX lex lex_bound lex_bound {LIMIT limit limit}"),
        row(5, "ZREVRANGEBYLEX lex lex_bound lex_bound {LIMIT limit limit}"),
        row(6, "ZLEXCOUNT lex lex_bound lex_bound"),
        row(2, "ZREMRANGEBYRANK key index index"),
        row(3, "ZREMRANGEBYRANK key small small"),
        row(2, "ZREMRANGEBYSCORE key score_bound score_bound"),
        row(2, "ZREMRANGEBYLEX lex lex_bound lex_bound"),
        row(4, "ZRANGESTORE key key index index {REV}"),
        row(4, "ZRANGESTORE key key score_bound score_bound BYSCORE {REV|LIMIT limit limit}"),
        row(2, "ZRANGESTORE lex lex lex_bound lex_bound BYLEX {REV|LIMIT limit limit}"),
        row(1, "ZRANGESTORE key key index index {BYSCORE|BYLEX|REV|WITHSCORES|LIMIT limit limit|junk}"),
        row(6, "(ZUNION|ZINTER) 2 input input {WEIGHTS score score|AGGREGATE (SUM|MIN|MAX)|WITHSCORES}"),
        row(3, "(ZUNION|ZINTER) 3 input input input {WEIGHTS 1 2 -1|AGGREGATE (SUM|MIN|MAX)|WITHSCORES}"),
        row(4, "ZDIFF 2 input input [WITHSCORES]"),
        row(2, "ZDIFF 3 input input input {WITHSCORES|WEIGHTS 1 2 3}"),
        row(5, "(ZUNIONSTORE|ZINTERSTORE) key 2 input input {WEIGHTS score score|AGGREGATE (SUM|MIN|MAX)}"),
        row(3, "ZDIFFSTORE key 2 input input"),
        row(1, "(ZUNIONSTORE|ZINTERSTORE|ZDIFFSTORE) key numkeys input [input] {WITHSCORES|WEIGHTS 1|AGGREGATE junk}"),
        row(5, "ZINTERCARD 2 input input [LIMIT limit]"),
        row(1, "(ZUNION|ZINTER|ZDIFF|ZINTERCARD) numkeys input [input] {LIMIT limit|WITHSCORES|WEIGHTS junk|junk}"),
        row(4, "(ZPOPMIN|ZPOPMAX) key [limit]"),
        row(3, "ZMPOP 2 key key (MIN|MAX) [COUNT small]"),
        row(1, "ZMPOP numkeys key [key] (MIN|MAX|junk) {COUNT limit}"),
        row(2, "ZADD filled 1 A 2 B 3 C ; (BZPOPMIN|BZPOPMAX) filled key 0.01"),
        row(2, "ZADD filled 1 A 2 B 3 C ; BZMPOP 0.01 2 filled key (MIN|MAX) [COUNT small]"),
        row(3, "ZRANDMEMBER key 1000 [WITHSCORES]"),
        row(1, "ZRANDMEMBER none [limit [WITHSCORES]]"),
        row(2, "DEL one ; ZADD one 1 A ; ZRANDMEMBER one [small [WITHSCORES]]"),
        row(1, "ZRANDMEMBER none (0|junk|-9223372036854775808|4611686018427387904 WITHSCORES)"),
        row(3, "DEL one ; ZADD one (good_score member)+ ; ZSCAN one 0 COUNT 1000 {MATCH pattern|NOSCORES}"),
        row(1, "ZSCAN key (0|junk) (COUNT junk|NOVALUES|junk|COUNT 0)"),
        row(3, "OBJECT ENCODING key"),
        row(3, "DEBUG DIGEST-VALUE key"),
    ],
    rules: &[("ZRANDMEMBER", Rule::Unordered), ("ZSCAN", Rule::Nested)],
};

const WORDS: &[Word] = &[
    ("key", collection_key),
    ("lex", |rng| one_of(rng, &["lex:1", "lex:2"])),
    ("sets", |rng| one_of(rng, &["sets:1", "sets:2"])),
    ("input", input),
    ("filled", |_| b"filled".to_vec()),
    ("one", |_| b"one".to_vec()),
    ("none", |_| b"none".to_vec()),
    ("word", word),
    ("zero", |_| b"0".to_vec()),
    ("small", |rng| decimal(rng.i8(-3..9))),
    ("limit", limit),
    ("numkeys", |rng| one_of(rng, &["0", "1", "2", "3", "-1", "x", "9223372036854775807"])),
    ("score", score),
    ("good_score", good_score),
    ("member", member),
    ("score_bound", score_bound),
    ("lex_bound", lex_bound),
    ("pattern", |rng| one_of(rng, &["*", "a*", "[a-d]", "m*", "nothing", "?"])),
];

fn input(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0 => one_of(rng, &["sets:1", "sets:2"]),
        1 => one_of(rng, &["lex:1", "lex:2"]),
        _ => collection_key(rng),
    }
}

/// A member that is no score, so that commands which are cut short are none either.
fn word(rng: &mut Rng) -> Vec<u8> {
    [b"x", &member(rng)[..]].concat()
}

fn limit(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..8 => decimal(rng.i8(-2..10)),
        8 => index(rng),
        _ => int(rng),
    }
}

fn score_bound(rng: &mut Rng) -> Vec<u8> {
    let bound = match rng.u8(..10) {
        0..7 => good_score(rng),
        7 | 8 => one_of(rng, &["-inf", "+inf", "inf"]),
        _ => score(rng),
    };
    if rng.u8(..4) == 0 { [b"(", &bound[..]].concat() } else { bound }
}

fn lex_bound(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..12) {
        0 | 1 => b"-".to_vec(),
        2 | 3 => b"+".to_vec(),
        4..8 => [b"[", &word(rng)[..]].concat(),
        8..11 => [b"(", &word(rng)[..]].concat(),
        _ => one_of(rng, &["", "a", "++", "-a", "(", "[", "5"]),
    }
}
