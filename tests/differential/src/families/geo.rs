//! Geo: places in and about a town, and at the edges of the map.
//!
//! The order of replied places that are equally far is not defined; so drawn places never are, distances are stored
//! where no search runs, and the edges of the map have a key of their own.

use super::{Family, newest, row};
use crate::words::{Word, decimal, float, one_of, value};
use fastrand::Rng;

pub const FAMILY: Family = Family {
    name: "geo",
    words: WORDS,
    rows: &[
        row(24, "GEOADD key (lon lat member)+"),
        row(3, "GEOADD key {NX|XX|CH} (lon lat member)+"),
        row(1, "GEOADD key {NX|XX|CH|junk} (coordinate coordinate member)+"),
        row(6, "GEOPOS key member+"),
        row(6, "GEOHASH key member+"),
        row(8, "GEODIST key member member [unit]"),
        row(
            16,
            "GEOSEARCH key (FROMMEMBER member|FROMLONLAT lon lat) (BYRADIUS radius unit|BYBOX radius radius unit) [ASC|DESC] [COUNT count] {WITHCOORD|WITHDIST|WITHHASH}",
        ),
        row(
            2,
            "GEOSEARCH key {(FROMMEMBER member|FROMLONLAT lon lat)|(BYRADIUS radius unit|BYBOX radius radius unit)|ASC|DESC|COUNT count ANY|COUNT count|WITHCOORD|WITHDIST|WITHHASH|junk}",
        ),
        row(
            8,
            "GEOSEARCHSTORE stored key (FROMMEMBER member|FROMLONLAT lon lat) (BYRADIUS radius unit|BYBOX radius radius unit) [ASC|DESC] [COUNT count] [STOREDIST]",
        ),
        row(
            1,
            "GEOSEARCHSTORE stored key {(FROMMEMBER member|FROMLONLAT lon lat)|(BYRADIUS radius unit|BYBOX radius radius unit)|ASC|COUNT count|STOREDIST|WITHDIST|junk}",
        ),
        row(5, "(GEORADIUS|GEORADIUS_RO) key lon lat radius unit [COUNT count] {ASC|DESC|WITHCOORD|WITHDIST|WITHHASH}"),
        row(5, "(GEORADIUSBYMEMBER|GEORADIUSBYMEMBER_RO) key member radius unit {ASC|DESC|WITHDIST|COUNT count}"),
        row(3, "GEORADIUS key lon lat radius unit {ASC|COUNT count} (STORE|STOREDIST) stored"),
        row(3, "GEORADIUSBYMEMBER key member radius unit {DESC|COUNT count} (STORE|STOREDIST) stored"),
        row(
            1,
            "(GEORADIUS|GEORADIUS_RO) key coordinate coordinate radius unit {STORE stored|WITHDIST|COUNT count ANY|junk}",
        ),
        row(6, "ZRANGE (key|stored) 0 -1 WITHSCORES"),
        row(2, "GEOADD edge {CH} (limit limit member)+"),
        row(2, "GEORADIUSBYMEMBER edge member (1|radius) unit COUNT 1"),
        row(2, "(GEOPOS|GEOHASH) edge member+ ; GEODIST edge member member ; ZRANGE edge 0 -1 WITHSCORES"),
        row(
            2,
            "DEL edge ; GEOADD edge limit limit 1 ; GEOSEARCH edge FROMLONLAT lon lat BYRADIUS radius unit ; GEOSEARCH edge FROMMEMBER 1 BYBOX radius radius unit",
        ),
        row(3, "ZREM key member"),
        row(1, "DEL key"),
        row(1, "SET wrong value"),
        row(1, "DEBUG DIGEST-VALUE key"),
        newest(8, "GEOSEARCH key BYPOLYGON 3 lon lat lon lat lon lat {ASC|COUNT count|WITHDIST}", PROBE),
        newest(3, "GEOSEARCH key BYPOLYGON 5 lon lat lon lat lon lat lon lat lon lat {DESC|WITHCOORD|WITHHASH}", PROBE),
        newest(
            1,
            "GEOSEARCH key {(FROMMEMBER member|FROMLONLAT lon lat)|(BYRADIUS radius unit|BYBOX radius radius unit)|BYPOLYGON count lon lat lon lat lon lat|junk}",
            PROBE,
        ),
        newest(2, "GEOSEARCHSTORE stored key BYPOLYGON 3 lon lat lon lat lon lat [STOREDIST]", PROBE),
    ],
    rules: &[],
};

const PROBE: &str = "GEOSEARCH probe BYPOLYGON 3 1 1 2 2 3 1";

const WORDS: &[Word] = &[
    // Keys of other families are left out, whose sorted sets have members that are equally far.
    ("key", |rng| if rng.u8(..20) == 0 { b"wrong".to_vec() } else { one_of(rng, &["town:1", "town:2", "town:3"]) }),
    ("wrong", |_| b"wrong".to_vec()),
    ("stored", |_| b"stored".to_vec()),
    ("edge", |_| b"edge".to_vec()),
    ("limit", |rng| one_of(rng, &EDGES)),
    ("lon", |rng| coordinate(rng, 2.35, 180.0)),
    ("lat", |rng| coordinate(rng, 48.85, 85.05)),
    ("coordinate", |rng| if rng.bool() { float(rng) } else { one_of(rng, &EDGES) }),
    ("member", member),
    ("unit", unit),
    ("radius", radius),
    ("count", |rng| if rng.u8(..8) == 0 { one_of(rng, &["0", "-1", "x", "4"]) } else { decimal(rng.u8(1..9)) }),
];

const EDGES: [&str; 10] =
    ["180", "-180", "180.0001", "85.05112878", "-85.05112878", "85.0512", "90", "0", "-0.0", "1e-9"];

/// Within some kilometers of a place most of the time.
fn coordinate(rng: &mut Rng, about: f64, edge: f64) -> Vec<u8> {
    match rng.u8(..20) {
        0..15 => decimal(about + (rng.f64() - 0.5) / 5.0),
        _ => decimal((rng.f64() * 2.0 - 1.0) * edge),
    }
}

fn member(rng: &mut Rng) -> Vec<u8> {
    if rng.u8(..30) == 0 { value(rng) } else { vec![rng.u8(b'a'..=b'z')] }
}

fn unit(rng: &mut Rng) -> Vec<u8> {
    if rng.u8(..20) == 0 { one_of(rng, &["", "mm", "Km"]) } else { one_of(rng, &["m", "km", "ft", "mi", "KM"]) }
}

fn radius(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..12) {
        0 => float(rng),
        1 => one_of(rng, &["0", "-1", "1e9", "40000", "1e-5"]),
        2..6 => decimal(rng.u32(..30_000)),
        _ => decimal(f64::from(rng.u32(..200_000)) / 1000.0),
    }
}
