//! Commands that must not be sent though the grammar can draw them.
//!
//! Four kinds: what would allocate more memory than the machine should spend on a test, deadlines that fall due while
//! the test runs (the two servers would rightly differ), SCAN from a cursor that the server did not give out, and an
//! index that the peer wraps around. Options may have been dropped, doubled and moved, so this looks at every place
//! where one could stand and errs towards refusing: a refused command is drawn again.

use crate::grammar::Command;
use crate::words::{ABSOLUTE_SECS, RELATIVE_SECS_MIN};

/// The longest string that one command may make, in bytes.
const STRING_MAX: i64 = 1 << 24;
/// The most fields or members that one command may draw.
const DRAWS_MAX: i64 = 1 << 16;
/// `proto-max-bulk-len`: beyond it servers refuse to make a string.
const REFUSED_FROM: i64 = 1 << 29;

pub fn is_hazardous(command: &Command) -> bool {
    let Some((name, args)) = command.split_first() else {
        return false;
    };
    let name = name.to_ascii_uppercase();
    allocates_too_much(&name, args)
        || expires_soon(&name, args)
        || scans_from_elsewhere(&name, args)
        || wraps(&name, args)
}

/// Commands that are not sent though replies are not compared and deadlines may fall due.
pub fn is_harmful(command: &Command) -> bool {
    let Some((name, args)) = command.split_first() else { return false };
    let blocks = || {
        command.windows(2).any(|pair| {
            pair[0].eq_ignore_ascii_case(b"BLOCK") && integer(Some(&pair[1])).is_some_and(|ms| ms == 0 || ms > 10)
        })
    };
    // Servers of other settings keep sketches in another form, which GET shows.
    let shows_settings = command.iter().any(|arg| arg.eq_ignore_ascii_case(b"hll-sparse-max-bytes"));
    let sleeps = name.eq_ignore_ascii_case(b"DEBUG")
        && args.first().is_some_and(|word| word.eq_ignore_ascii_case(b"SLEEP"))
        && !args.get(1).is_some_and(|seconds| seconds.starts_with(b"0.00"));
    sleeps || shows_settings || allocates_too_much(&name.to_ascii_uppercase(), args) || waits_long(command) || blocks()
}

/// Whether the command changes a key of a real server without a record for its log or its replicas: BITFIELD makes a
/// string longer for a value that does not fit and is not stored.
pub fn is_untold(command: &Command) -> bool {
    let has = |word: &[u8]| command.iter().any(|arg| arg.eq_ignore_ascii_case(word));
    has(b"BITFIELD") && has(b"FAIL")
}

/// Blocks for more than a moment. In a transaction nothing does.
fn waits_long(command: &[Vec<u8>]) -> bool {
    let Some((name, args)) = command.split_first() else { return false };
    let timeout = match name.to_ascii_uppercase().as_slice() {
        b"BLPOP" | b"BRPOP" | b"BZPOPMIN" | b"BZPOPMAX" | b"BLMOVE" | b"BRPOPLPUSH" => args.last(),
        b"BLMPOP" | b"BZMPOP" => args.first(),
        _ => None,
    };
    let text = timeout.and_then(|timeout| std::str::from_utf8(timeout).ok());
    // Servers read hexadecimal numbers, too.
    let is_hex = text.is_some_and(|text| text.contains(['x', 'X']));
    is_hex || text.and_then(|text| text.parse::<f64>().ok()).is_some_and(|timeout| timeout == 0.0 || timeout > 1.0)
}

/// Whether the reply is random, or lists all that a server can do. Such commands arise when arguments are dropped.
pub fn is_incomparable(command: &Command) -> bool {
    let name = command.join(&b' ').to_ascii_uppercase();
    matches!(name.as_slice(), b"RANDOMKEY" | b"COMMAND" | b"COMMAND INFO" | b"COMMAND COUNT" | b"COMMAND LIST")
        || shows_some(command)
        || tells_the_time(command)
        || is_answered_twice(command)
        || waits_long(command)
}

/// Valkey answers PFDEBUG SIMD twice when its argument is neither ON nor OFF.
fn is_answered_twice(command: &Command) -> bool {
    let is = |at: usize, word: &[u8]| command.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word));
    is(0, b"PFDEBUG") && is(1, b"SIMD") && !is(2, b"ON") && !is(2, b"OFF")
}

/// Waits for long, has an id made from the time, or asks what has been pending for some part of the test.
fn tells_the_time(command: &Command) -> bool {
    const TEST_MAX_MS: i64 = 100_000_000;
    let idle = |arg: Option<&Vec<u8>>| integer(arg).is_some_and(|idle| (1..TEST_MAX_MS).contains(&idle));
    let after = |option: &[u8]| {
        let at = command.iter().position(|arg| arg.eq_ignore_ascii_case(option));
        at.and_then(|at| command.get(at + 1))
    };
    match command.first().map(|name| name.to_ascii_uppercase()).as_deref() {
        Some(b"XADD") => command.iter().any(|arg| arg == b"*"),
        Some(b"XREAD" | b"XREADGROUP") => integer(after(b"BLOCK")).is_some_and(|ms| ms == 0 || ms > 10),
        Some(b"XCLAIM" | b"XAUTOCLAIM") => idle(command.get(4)) || integer(after(b"IDLE")).is_some_and(|ms| ms > 1000),
        Some(b"XPENDING") => idle(after(b"IDLE")),
        _ => false,
    }
}

/// Draws fields or members from a key that may hold several, and not all of them; or scans a part.
fn shows_some(command: &Command) -> bool {
    const ALL_THERE_ARE: i64 = 1000;
    let few = |count: Option<&Vec<u8>>| integer(count).is_none_or(|count| count != 0 && count < ALL_THERE_ARE);
    let one_or_none = command.get(1).is_none_or(|key| key == b"one" || key == b"none");
    match command.first().map(|name| name.to_ascii_uppercase()).as_deref() {
        Some(b"HRANDFIELD" | b"ZRANDMEMBER" | b"SRANDMEMBER" | b"SPOP") => !one_or_none && few(command.get(2)),
        Some(b"HSCAN" | b"SSCAN") => {
            !one_or_none && (few(command.get(4)) || command.get(2).is_none_or(|at| at != b"0"))
        }
        _ => false,
    }
}

/// An index of which the peer looks at the lower 32 bits only.
fn wraps(name: &[u8], args: &[Vec<u8>]) -> bool {
    name == b"LSET" && integer(args.get(1)).is_some_and(|index| i32::try_from(index).is_err())
}

fn allocates_too_much(name: &[u8], args: &[Vec<u8>]) -> bool {
    let bytes = STRING_MAX..=REFUSED_FROM;
    let bits = STRING_MAX * 8 + 1..=REFUSED_FROM * 8;
    match name {
        // Draws with repetitions; the least integer is refused.
        b"HRANDFIELD" | b"SRANDMEMBER" | b"ZRANDMEMBER" => {
            integer(args.get(1)).is_some_and(|count| count < -DRAWS_MAX && count != i64::MIN)
        }
        b"SETRANGE" => integer(args.get(1)).is_some_and(|offset| bytes.contains(&offset)),
        b"SETBIT" => integer(args.get(1)).is_some_and(|offset| bits.contains(&offset)),
        b"BITFIELD" => args.iter().any(|arg| match arg.strip_prefix(b"#") {
            // `#n` counts fields of 1 to 64 bits.
            Some(fields) => integer(Some(fields)).is_some_and(|n| (*bits.start() / 64..=*bits.end()).contains(&n)),
            None => integer(Some(arg)).is_some_and(|offset| bits.contains(&offset)),
        }),
        _ => false,
    }
}

fn expires_soon(name: &[u8], args: &[Vec<u8>]) -> bool {
    let by_position = match name {
        b"EXPIRE" | b"SETEX" => soon(args.get(1), 1, false),
        b"PEXPIRE" | b"PSETEX" => soon(args.get(1), 1000, false),
        b"EXPIREAT" => soon(args.get(1), 1, true),
        b"PEXPIREAT" => soon(args.get(1), 1000, true),
        _ => false,
    };
    let by_option = || {
        args.windows(2).any(|pair| match pair[0].to_ascii_uppercase().as_slice() {
            b"EX" => soon(Some(&pair[1]), 1, false),
            b"PX" => soon(Some(&pair[1]), 1000, false),
            b"EXAT" => soon(Some(&pair[1]), 1, true),
            b"PXAT" => soon(Some(&pair[1]), 1000, true),
            _ => false,
        })
    };
    by_position || by_option()
}

/// Whether a deadline lies between now and a day from now. The present time does not matter: absolute deadlines must be
/// before 2001, or from 2100 on.
fn soon(deadline: Option<&Vec<u8>>, per_sec: i64, absolute: bool) -> bool {
    let range =
        if absolute { 1_000_000_000 * per_sec..ABSOLUTE_SECS.start * per_sec } else { 1..RELATIVE_SECS_MIN * per_sec };
    integer(deadline).is_some_and(|n| range.contains(&n))
}

fn scans_from_elsewhere(name: &[u8], args: &[Vec<u8>]) -> bool {
    let is_safe = |cursor: &Vec<u8>| cursor == b"0" || cursor.iter().any(u8::is_ascii_alphabetic);
    name == b"SCAN" && !args.first().is_none_or(is_safe)
}

/// The integer that a lenient reader could see in an argument.
fn integer(arg: Option<impl AsRef<[u8]>>) -> Option<i64> {
    std::str::from_utf8(arg?.as_ref()).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hazardous(command: &str) -> bool {
        is_hazardous(&command.split(' ').map(|arg| arg.as_bytes().to_vec()).collect())
    }

    #[test]
    fn large_strings_are_hazards_and_refused_ones_are_not() {
        for (command, expected) in [
            ("setbit k 134217728 1", false),
            ("SETBIT k 134217729 1", true),
            ("SETBIT k 4294967295 1", true),
            ("SETBIT k 4294967297 1", false),
            ("SETRANGE k 30000000 x", true),
            ("SETRANGE k 9223372036854775807 x", false),
            ("BITFIELD k SET u8 #4000000000 1", true),
            ("BITFIELD k GET u8 0 SET u8 2000000000 1", true),
            ("BITFIELD k SET u8 #100 1", false),
            ("GETRANGE k 0 2000000000", false),
            ("SRANDMEMBER k -65536", false),
            ("SRANDMEMBER k -9223372036854775807", true),
            ("SRANDMEMBER k -9223372036854775808", false),
        ] {
            assert_eq!(hazardous(command), expected, "{command}");
        }
    }

    #[test]
    fn expiries_within_a_day_are_hazards() {
        for (command, expected) in [
            ("EXPIRE k 10", true),
            ("EXPIRE k -10", false),
            ("EXPIRE k 100000 GT", false),
            ("PEXPIRE k 100000", true),
            ("expireat k 1767225600", true),
            ("EXPIREAT k 4102444800", false),
            ("PEXPIREAT k 4102444800", false),
            ("PEXPIREAT k 1767225600000", true),
            ("SET k v NX px 5", true),
            ("GETEX k EXAT 1", false),
        ] {
            assert_eq!(hazardous(command), expected, "{command}");
        }
    }

    #[test]
    fn random_replies_are_incomparable() {
        let incomparable = |text: &str| is_incomparable(&text.split(' ').map(|arg| arg.into()).collect());
        assert!(incomparable("randomKey") && incomparable("COMMAND Info"));
        assert!(!incomparable("RANDOMKEY x") && !incomparable("COMMAND INFO GET"));
    }

    #[test]
    fn commands_that_depend_on_the_moment_are_incomparable() {
        for (command, expected) in [
            ("XADD k * a 1", true),
            ("BLPOP k 0x10", true),
            ("BLPOP k 0.01", false),
            ("XADD k 7-* a 1", false),
            ("XREAD BLOCK 0 STREAMS k $", true),
            ("XREAD BLOCK 1 STREAMS k $", false),
            ("XCLAIM k g c 5 7-1", true),
            ("XCLAIM k g c 0 7-1 IDLE 7", false),
            ("XPENDING k g IDLE 50 - + 9", true),
            ("pfdebug simd junk", true),
            ("PFDEBUG SIMD on", false),
        ] {
            let words = command.split(' ').map(|arg| arg.into()).collect();
            assert_eq!(is_incomparable(&words), expected, "{command}");
        }
    }

    #[test]
    fn scans_begin_at_the_beginning() {
        assert!(hazardous("SCAN 5") && hazardous("scan -1 COUNT 3"));
        assert!(!hazardous("SCAN 0 COUNT 3") && !hazardous("SCAN abc") && !hazardous("SCAN"));
    }
}
