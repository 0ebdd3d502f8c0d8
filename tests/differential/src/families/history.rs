//! For histories alone: keys and fields whose time ends within a round, ids and idle times that the clock makes,
//! clients that wait, values that are restored, and the newest commands of streams. Replies are not compared.

use super::{Family, newest, row};
use crate::words::{Word, collection_key, decimal, one_of};
use fastrand::Rng;

pub const FAMILY: Family = Family {
    name: "history",
    words: WORDS,
    rows: &[
        row(16, "(PEXPIRE|PEXPIREAT) (key|x) soon {NX|XX|GT|LT}"),
        row(16, "SET key few PX soon [GET|KEEPTTL]"),
        row(8, "GETEX key (PX soon|PERSIST|EXAT 1|PXAT 1)"),
        row(6, "EXPIRE key (0|-1) ; EXISTS key"),
        row(6, "DEBUG SLEEP 0.003"),
        row(2, "(FLUSHALL|FLUSHDB|BGREWRITEAOF)"),
        row(4, "DEBUG SET-ACTIVE-EXPIRE (0|1)"),
        row(4, "(RANDOMKEY|DBSIZE|TOUCH key key|EXISTS key key)"),
        row(6, "SPOP key [few]"),
        row(4, "HRANDFIELD key few"),
        row(4, "PFCOUNT key [key]"),
        row(6, "SORT key {BY nosort|ALPHA|DESC|LIMIT 0 few} STORE key"),
        row(8, "RESTORE key (0|soon|100000000) (dumped|no_sum) {REPLACE|ABSTTL|IDLETIME few|FREQ few}"),
        row(4, "SETRANGE key (0|few) (nothing|a)"),
        row(4, "APPEND key nothing"),
        row(6, "BITFIELD key OVERFLOW FAIL SET two_bits (0|300) 9 INCRBY two_bits (0|500) 9"),
        row(4, "SETBIT key few (0|1)"),
        row(6, "GEOSEARCHSTORE key key FROMLONLAT 0 0 BYRADIUS few km [STOREDIST]"),
        row(6, "(BLPOP|BRPOP|BZPOPMIN|BZPOPMAX) key key 0.002"),
        row(6, "(BLMOVE key key LEFT RIGHT|BRPOPLPUSH key key) 0.002"),
        row(6, "(BLMPOP|BZMPOP) 0.002 2 key key (LEFT|MIN) [COUNT few]"),
        row(24, "MULTI ; XREADGROUP GROUP group consumer STREAMS x (>|0) ; XADD x * f few ; XTRIM x MAXLEN few ; EXEC"),
        row(80, "XADD x {NOMKSTREAM|MAXLEN ~ few|MAXLEN few|MINID ~ 5} (*|7-*|id) f few"),
        row(32, "XGROUP CREATE x group (0|$|id) [MKSTREAM] [ENTRIESREAD few]"),
        row(16, "XGROUP SETID x group (0|$|id) [ENTRIESREAD few]"),
        row(16, "XGROUP (CREATECONSUMER|DELCONSUMER) x group consumer"),
        row(8, "XGROUP DESTROY x group"),
        row(80, "XREADGROUP GROUP group consumer [COUNT few] [BLOCK 1] [NOACK] STREAMS x (>|0|id)"),
        row(32, "XREADGROUP GROUP group consumer [COUNT few] [BLOCK 1] STREAMS x x (>|0) (>|0)"),
        row(64, "XCLAIM x group consumer short id+ {IDLE short|TIME 5|RETRYCOUNT few|FORCE|JUSTID|LASTID id}"),
        row(64, "XAUTOCLAIM x group consumer short (0|id) {COUNT few|JUSTID}"),
        row(32, "XACK x group id+"),
        row(32, "XDEL x id+"),
        row(24, "XSETID x id {ENTRIESADDED few|MAXDELETEDID id}"),
        row(16, "XREVRANGE x + - COUNT 1 ; XINFO STREAM x FULL"),
        row(4, "COPY (x|key) (x|key) {DB db|REPLACE}"),
        row(8, "(MOVE x db|RENAME x x|DEL x)"),
        newest(12, "(HEXPIRE|HPEXPIRE) key (0|1|soon) [NX|XX|GT|LT] FIELDS 2 field field", FIELDS),
        newest(12, "HSETEX key {FNX|FXX|NX|XX} (PX soon|EX 1|PXAT 1|KEEPTTL) FIELDS 2 field few field few", FIELDS),
        newest(12, "HGETEX key (PX soon|PXAT 1|EXAT 1|PERSIST) FIELDS 2 field field", FIELDS),
        newest(6, "HSET key field few ; HPEXPIRE key soon FIELDS 1 field ; HINCRBY key field 1", FIELDS),
        newest(4, "HSETNX key field few ; HINCRBYFLOAT key field (0.5|x)", FIELDS),
        newest(32, "XDELEX x [KEEPREF|DELREF|ACKED] IDS 2 id id", "XDELEX probe IDS 1 1-1"),
        newest(32, "XACKDEL x group [KEEPREF|DELREF|ACKED] IDS 2 id id", "XDELEX probe IDS 1 1-1"),
        newest(24, "XTRIM x MAXLEN [~] few (KEEPREF|DELREF|ACKED)", "XDELEX probe IDS 1 1-1"),
        newest(24, "XADD x MAXLEN [~] few (KEEPREF|DELREF|ACKED) * f few", "XDELEX probe IDS 1 1-1"),
        newest(
            24,
            "XNACK x group (SILENT|FAIL|FATAL) IDS 2 id id {RETRYCOUNT few|FORCE}",
            "XCFGSET probe IDMP-MAXSIZE 5",
        ),
        newest(
            64,
            "XREADGROUP GROUP group consumer [COUNT few] CLAIM short STREAMS x >",
            "XCFGSET probe IDMP-MAXSIZE 5",
        ),
        newest(12, "SET key few (IFNE|IFEQ) few {GET|PX soon|KEEPTTL}", "DIGEST probe"),
        newest(8, "(DELEX key IFNE few|DELIFEQ key few|INCREX key BYINT few UBOUND few SATURATE)", "DIGEST probe"),
        newest(8, "MSETEX 2 key few key few [NX|XX] [PX soon|KEEPTTL]", "DIGEST probe"),
        newest(8, "BITOP (DIFF|DIFF1|ANDOR|ONE) key key key", "BITOP DIFF probe a b"),
        newest(
            12,
            "LMOVEM key key (LEFT|RIGHT) (LEFT|RIGHT) (COUNT|EXACTLY) few (OBO|BULK)",
            "LMOVEM probe a LEFT LEFT",
        ),
        newest(6, "BLMOVEM key key (LEFT|RIGHT) (LEFT|RIGHT) 0.002 COUNT few (OBO|BULK)", "LMOVEM probe a LEFT LEFT"),
        newest(6, "(ZUNIONSTORE|ZINTERSTORE) key 2 key key AGGREGATE COUNT", "DIGEST probe"),
        newest(4, "GEOSEARCHSTORE key key BYPOLYGON 3 0 0 0 80 80 0 [STOREDIST]", "DIGEST probe"),
        newest(2, "(DELPREFIX prefix|DELPATTERN pattern)", "DIGEST probe"),
        newest(
            16,
            "XADD x (IDMP few few|IDMPAUTO few) * f few ; XCFGSET x IDMP-MAXSIZE 5",
            "XCFGSET probe IDMP-MAXSIZE 5",
        ),
    ],
    rules: &[],
};

const FIELDS: &str = "HTTL probe FIELDS 1 f";

const WORDS: &[Word] = &[
    ("key", collection_key),
    ("x", |rng| one_of(rng, &["x0", "x1", "c0"])),
    ("soon", |rng| one_of(rng, &["1", "1", "2", "5", "20"])),
    ("few", |rng| decimal(rng.i32(0..8))),
    ("short", |rng| one_of(rng, &["0", "0", "0", "1", "2", "10"])),
    ("id", id),
    ("group", |rng| one_of(rng, &["g", "h"])),
    ("consumer", |rng| one_of(rng, &["one", "two", "three"])),
    ("field", |rng| vec![rng.u8(b'a'..=b'h')]),
    ("nosort", |_| b"nosort".to_vec()),
    ("nothing", |_| Vec::new()),
    ("a", |_| b"a".to_vec()),
    ("prefix", |_| b"c1".to_vec()),
    ("pattern", |_| b"c?".to_vec()),
    ("f", |_| b"f".to_vec()),
    ("two_bits", |_| b"u2".to_vec()),
    ("km", |_| b"km".to_vec()),
    ("dumped", |_| [ABC, SUM].concat()),
    ("no_sum", |_| [ABC, &[0; 8]].concat()),
];

/// A string as DUMP gives it, and its checksum.
const ABC: &[u8] = b"\x00\x03abc\x0b\x00";
const SUM: &[u8] = b"\xb0s\x8dN\xbc\xedKk";

fn id(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..20) {
        0..14 => decimal(format!("7-{}", rng.u8(..40))),
        14..19 => decimal(format!("{}-{}", rng.u8(..9), rng.u8(..4))),
        _ => b"9999999999999-1".to_vec(),
    }
}
