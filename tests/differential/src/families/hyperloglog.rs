//! HyperLogLog: sketches to the byte, whole ones and such as were written into.

use super::{Family, row};
use crate::words::{COLLECTIONS, Word, decimal, key, one_of, value};
use fastrand::Rng;

pub const FAMILY: Family = Family {
    name: "hyperloglog",
    words: WORDS,
    rows: &[
        row(20, "PFADD sketch element+"),
        row(6, "PFADD sketch element+ element+ element+ element+ element+ element+"),
        row(2, "PFADD sketch"),
        row(10, "PFCOUNT sketch"),
        row(8, "PFCOUNT sketch+"),
        row(10, "PFMERGE sketch sketch+"),
        row(1, "PFMERGE sketch"),
        row(8, "GET sketch"),
        row(3, "STRLEN sketch"),
        row(3, "PFDEBUG ENCODING sketch"),
        row(2, "PFDEBUG TODENSE sketch"),
        row(3, "PFADD whole element+ ; PFDEBUG DECODE whole"),
        row(1, "DEL whole"),
        row(1, "PFDEBUG GETREG sketch"),
        row(1, "PFDEBUG (junk|GETREG) (sketch|none)"),
        row(1, "PFDEBUG SIMD (ON|OFF)"),
        row(2, "SET sketch header"),
        row(2, "SETRANGE sketch header_at (byte|header)"),
        row(1, "APPEND sketch byte"),
        row(2, "DEL sketch"),
        row(2, "COPY sketch sketch REPLACE"),
        row(1, "CONFIG SET most_bytes (0|40|300|3000)"),
        row(2, "DEBUG DIGEST-VALUE sketch"),
    ],
    rules: &[],
};

const WORDS: &[Word] = &[
    ("sketch", sketch),
    ("none", |_| b"none".to_vec()),
    // The peer decodes the bytes behind those that make no sense as well.
    ("whole", |_| b"whole".to_vec()),
    ("most_bytes", |_| b"hll-sparse-max-bytes".to_vec()),
    ("element", |rng| if rng.u8(..8) == 0 { value(rng) } else { decimal(rng.u32(..5_000)) }),
    ("header", |rng| one_of(rng, &["HYLL", "HYLL\u{1}", "HYLL\0\0\0\0\0\0\0\0\0\0\0\0", "HYL", "hyll", ""])),
    ("header_at", |rng| decimal(rng.u8(..16))),
    ("byte", |rng| vec![rng.u8(..)]),
];

fn sketch(rng: &mut Rng) -> Vec<u8> {
    if rng.u8(..12) == 0 { key(rng) } else { COLLECTIONS[rng.usize(..COLLECTIONS.len())].to_vec() }
}
