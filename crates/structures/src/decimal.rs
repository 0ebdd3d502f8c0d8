//! Integers that are written in the one canonical way: the packed forms keep such bytes as numbers, because the
//! digits can be made again from them.

/// Digits of the longest: -9223372036854775808.
const LONGEST: usize = 20;

/// Returns the integer whose decimal digits these bytes are, when there is no other spelling: no sign but `-`, no zero
/// in front, no `-0`, nothing out of the range.
#[inline]
pub fn parse(bytes: &[u8]) -> Option<i64> {
    if bytes.len() > LONGEST {
        return None;
    }
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0', ..] => return (digits.len() == 1 && !negative).then_some(0),
        _ => {}
    }
    let mut magnitude = 0u64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use proptest::prelude::*;

    #[test]
    fn only_canonical_digits_are_numbers() {
        for text in ["", "-", "-0", "01", "+1", "1 ", " 1", "1a", "-01", "9223372036854775808", "-9223372036854775809"]
        {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"99999999999999999999999999"), None);
        for n in [0, 7, -7, i64::MAX, i64::MIN] {
            assert_eq!(parse(n.to_string().as_bytes()), Some(n));
        }
    }

    proptest! {
        #[test]
        fn parsed_numbers_print_as_they_were(text in "-?[0-9]{0,21}", n: i64) {
            prop_assert_eq!(parse(n.to_string().as_bytes()), Some(n));
            match parse(text.as_bytes()) {
                Some(parsed) => prop_assert_eq!(parsed.to_string(), text),
                None => prop_assert!(text.parse::<i64>().map_or(true, |n| n.to_string() != text)),
            }
        }
    }
}
