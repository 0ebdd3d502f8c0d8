//! The classes of keyspace events: one bit each, one letter each in `notify-keyspace-events`.

/// Events go to `__keyspace@<db>__:<key>`.
pub const KEYSPACE: u32 = 1 << 0;
/// Events go to `__keyevent@<db>__:<event>`.
pub const KEYEVENT: u32 = 1 << 1;
/// `g`: commands that work on any type: DEL, EXPIRE, RENAME.
pub const GENERIC: u32 = 1 << 2;
/// `$`: changes of strings.
pub const STRING: u32 = 1 << 3;
/// `l`: changes of lists.
pub const LIST: u32 = 1 << 4;
/// `s`: changes of sets.
pub const SET: u32 = 1 << 5;
/// `h`: changes of hashes.
pub const HASH: u32 = 1 << 6;
/// `z`: changes of sorted sets.
pub const ZSET: u32 = 1 << 7;
/// `x`: keys that have expired.
pub const EXPIRED: u32 = 1 << 8;
/// `e`: keys that were evicted.
pub const EVICTED: u32 = 1 << 9;
/// `t`: changes of streams.
pub const STREAM: u32 = 1 << 10;
/// `m`: a read that found no key.
pub const KEY_MISS: u32 = 1 << 11;
/// `d`: changes of values whose type other servers have from a module.
pub const MODULE: u32 = 1 << 13;
/// `n`: keys that are new.
pub const NEW: u32 = 1 << 14;
/// The classes of the letter `A`: everything but misses and new keys, which are too many to be asked for by accident.
pub const ALL: u32 = GENERIC | STRING | LIST | SET | HASH | ZSET | EXPIRED | EVICTED | STREAM | MODULE;

/// Letters in the order in which they are printed, without `A`.
const CLASSES: [(char, u32); 11] = [
    ('g', GENERIC),
    ('$', STRING),
    ('l', LIST),
    ('s', SET),
    ('h', HASH),
    ('z', ZSET),
    ('x', EXPIRED),
    ('e', EVICTED),
    ('t', STREAM),
    ('d', MODULE),
    ('n', NEW),
];
const TARGETS: [(char, u32); 3] = [('K', KEYSPACE), ('E', KEYEVENT), ('m', KEY_MISS)];

/// Reads letters; `None` for a letter that is no class.
pub fn parse(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0, |flags, &c| {
        if c == b'A' {
            return Some(flags | ALL);
        }
        let (_, flag) = CLASSES.iter().chain(&TARGETS).find(|(letter, _)| *letter == char::from(c))?;
        Some(flags | flag)
    })
}

/// Prints the flags as the shortest text. With all classes set, new keys are not shown.
pub fn print(flags: u32) -> String {
    let mut text = String::new();
    let letters = |table: &[(char, u32)]| -> String {
        table.iter().filter(|(_, flag)| flags & flag != 0).map(|(letter, _)| *letter).collect()
    };
    if flags & ALL == ALL {
        text.push('A');
    } else {
        text.push_str(&letters(&CLASSES));
    }
    text.push_str(&letters(&TARGETS));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_prints() {
        for (text, printed) in
            [("KEA", "AKE"), ("Km$lshzxetdn", "$lshzxetdnKm"), ("Kmn$", "$nKm"), ("", ""), ("g$lshzxetdE", "AE")]
        {
            assert_eq!(parse(text.as_bytes()).map(print).as_deref(), Some(printed));
        }
        assert_eq!(parse(b"Kq"), None);
    }
}
