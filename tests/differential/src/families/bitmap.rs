//! Bitmaps: the whole group.

use super::{Family, newest, row};
use crate::words::{Word, decimal, int, one_of};
use fastrand::Rng;

pub const FAMILY: Family = Family {
    name: "bitmap",
    words: WORDS,
    rows: &[
        row(3, "SET key value"),
        row(10, "SETBIT key bit_offset bit"),
        row(8, "GETBIT key bit_offset"),
        row(3, "BITCOUNT key"),
        row(6, "BITCOUNT key index index [BIT|BYTE]"),
        row(2, "BITCOUNT key index [index junk]"),
        row(3, "BITPOS key bit"),
        row(8, "BITPOS key bit index [index [BIT|BYTE]]"),
        row(2, "BITPOS key bit index junk"),
        row(8, "BITOP (AND|OR|XOR|NOT) key key+"),
        row(2, "BITOP NOT key key"),
        row(1, "BITOP junk key key"),
        row(10, "BITFIELD key {GET field field_at|SET field field_at int|INCRBY field field_at int|OVERFLOW overflow}"),
        row(4, "BITFIELD key OVERFLOW (WRAP|SAT|FAIL) (INCRBY field field_at int|SET field field_at int)+"),
        row(3, "BITFIELD key {GET field|SET field field_at|junk}"),
        row(4, "BITFIELD_RO key {GET field field_at}"),
        row(2, "BITFIELD_RO key {GET field field_at|SET field field_at int|OVERFLOW overflow}"),
        row(3, "GET key"),
        newest(5, "BITOP (DIFF|DIFF1|ANDOR) key key+", "BITOP DIFF probe a b"),
        newest(3, "BITOP ONE key key+", "BITOP ONE probe a b"),
    ],
    rules: &[],
};

const WORDS: &[Word] =
    &[("bit", bit), ("bit_offset", bit_offset), ("field", field), ("field_at", field_at), ("overflow", overflow)];

fn bit(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..9 => decimal(rng.u8(..2)),
        _ => one_of(rng, &["2", "-1", "", "01", "a", "10", "4294967296"]),
    }
}

/// The far ones make strings of up to 16 MiB, so they are rare.
fn bit_offset(rng: &mut Rng) -> Vec<u8> {
    match rng.u16(..1000) {
        0..800 => decimal(rng.u16(..300)),
        800..900 => decimal(rng.u16(..)),
        900..902 => decimal(rng.u32(1 << 20..=1 << 27)),
        902..903 => decimal(1 << 27),
        903..950 => one_of(
            rng,
            &[
                "-1",
                "4294967296",
                "4294967297",
                "34359738368",
                "9223372036854775807",
                "9223372036854775808",
                "18446744073709551615",
            ],
        ),
        950..970 => one_of(rng, &["#1", "", "1.5", "01", " 1", "+1"]),
        _ => int(rng),
    }
}

fn field(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0..5 => one_of(rng, &["u8", "i8", "u4", "i5", "u1", "i1", "u16", "i16", "i32", "u32", "i64", "u63"]),
        5..9 => {
            let sign = if rng.bool() { 'u' } else { 'i' };
            decimal(format!("{sign}{}", rng.u8(1..=63)))
        }
        _ => one_of(
            rng,
            &[
                "u64",
                "i65",
                "u0",
                "i0",
                "x8",
                "8",
                "",
                "i",
                "u",
                "i08",
                "U8",
                "I8",
                "u-1",
                "i 8",
                "u8x",
                "i9999999999999999999",
            ],
        ),
    }
}

fn field_at(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..20) {
        0..12 => decimal(rng.u8(..100)),
        12..17 => decimal(format!("#{}", rng.u8(..20))),
        17 => one_of(rng, &["-1", "#-1", "#", "##1", "", "#1.5", "a", "# 1", "#01", "01"]),
        18 => one_of(
            rng,
            &[
                "4294967296",
                "#4294967296",
                "9223372036854775807",
                "#9223372036854775807",
                "#288230376151711744",
                "#1152921504606846976",
            ],
        ),
        _ => int(rng),
    }
}

fn overflow(rng: &mut Rng) -> Vec<u8> {
    one_of(rng, &["WRAP", "SAT", "FAIL", "wrap", "Sat", "fail", "NONE", ""])
}
