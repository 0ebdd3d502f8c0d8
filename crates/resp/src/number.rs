//! Text into numbers, by the rules of the place that reads it.
//!
//! | function | as | leading blanks | `+` | leading zeros | hex, `inf` | out of range |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | [`parse_i64`] | Valkey's arguments and values | no | no | no | no | refused |
//! | [`parse_f64`] | Valkey's scores and increments | no | yes | yes | `inf` | refused |
//! | [`parse_f64_clamped`] | Valkey's bounds of scores | no | yes | yes | `inf` | infinity or zero |
//! | [`parse_i64_c`] | C's `strtoll`, base 10 | yes | yes | yes | no | clamped |
//! | [`parse_f64_c`] | C's `strtod` | yes | yes | yes | yes | infinity or zero |
//!
//! In all of them the whole text must be the number. The rules of C were checked against glibc, those of Valkey against
//! Valkey 9.
//!
//! Hexadecimal floats are rounded here, by `Unrounded`; the same rounding serves the extended floats of
//! [`long_double`](crate::long_double). Decimal ones are left to the standard library, which rounds correctly.

/// Parses an integer in the one form that printing it would give: no blanks, no `+`, no leading zeros, no `-0`.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [b'0'] => Some(0),
        [b'-', digits @ ..] => 0i64.checked_sub_unsigned(positive(digits)?),
        digits => i64::try_from(positive(digits)?).ok(),
    }
}

/// Digits that do not begin with zero.
#[inline]
fn positive(digits: &[u8]) -> Option<u64> {
    if !matches!(digits, [b'1'..=b'9', ..]) || digits.len() > 20 {
        return None;
    }
    if digits.len() < 20 {
        // 19 digits always fit, so nothing has to be checked on the way.
        return digits.iter().try_fold(0u64, |value, &byte| {
            let digit = byte.wrapping_sub(b'0');
            (digit < 10).then(|| value * 10 + u64::from(digit))
        });
    }
    digits.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Parses a float as Valkey reads scores: decimal, without leading blanks, not NaN, and neither overflowing nor
/// vanishing (`1e400` and `1e-400` are refused, `inf` and `5e-324` are not).
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let (negative, float) = Float::classify(text)?;
    let value = match float {
        Float::Nan | Float::Hex(_) => None,
        Float::Infinity => float.to_f64(),
        Float::Decimal(_) => float.to_f64().filter(|value| !value.is_infinite() && (*value != 0.0 || float.is_zero())),
    }?;
    Some(if negative { -value } else { value })
}

/// Parses a float as [`parse_f64`] does, but too large is infinity and too small is zero.
pub fn parse_f64_clamped(text: &[u8]) -> Option<f64> {
    let (negative, float) = Float::classify(text)?;
    let value = match float {
        Float::Nan | Float::Hex(_) => None,
        Float::Infinity | Float::Decimal(_) => float.to_f64(),
    }?;
    Some(if negative { -value } else { value })
}

/// Parses a float as C's `strtod` does: leading blanks are skipped, too large is infinity, too small is zero, `nan` is
/// NaN.
pub fn parse_f64_c(text: &[u8]) -> Option<f64> {
    let (negative, float) = Float::classify(skip_blanks(text))?;
    let value = float.to_f64()?;
    Some(if negative { -value } else { value })
}

/// Parses an integer as C's `strtoll` does in base 10: leading blanks are skipped, a number out of range becomes the
/// nearest bound.
pub fn parse_i64_c(text: &[u8]) -> Option<i64> {
    let (negative, digits) = sign(skip_blanks(text));
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0i64, |value, byte| {
        let digit = i64::from(byte.is_ascii_digit().then(|| byte - b'0')?);
        let signed = if negative { -digit } else { digit };
        Some(value.saturating_mul(10).saturating_add(signed))
    })
}

fn skip_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    &text[blanks..]
}

fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

/// A float in C's notation, its sign taken off.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Float<'t> {
    Infinity,
    Nan,
    /// Digits with at most one point among them, then perhaps `e` and an integer; not yet checked further.
    Decimal(&'t str),
    /// The value of the hexadecimal digits and the exponent.
    Hex(Unrounded),
}

impl<'t> Float<'t> {
    /// Distinguishes the notations. True: the number is negative.
    pub(crate) fn classify(text: &'t [u8]) -> Option<(bool, Float<'t>)> {
        let (negative, rest) = sign(text);
        let float = match rest {
            [b'0', b'x' | b'X', digits @ ..] => Float::Hex(hex_float(digits)?),
            // A letter from here on is refused by the decimal parser, but for the `e`.
            [b'0'..=b'9' | b'.', ..] => Float::Decimal(str::from_utf8(rest).ok()?),
            _ if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") => Float::Infinity,
            _ if rest.eq_ignore_ascii_case(b"nan") => Float::Nan,
            _ => return None,
        };
        Some((negative, float))
    }

    /// Returns the nearest double; None if the text is no number.
    fn to_f64(self) -> Option<f64> {
        match self {
            Float::Infinity => Some(f64::INFINITY),
            Float::Nan => Some(f64::NAN),
            Float::Decimal(text) => short_decimal(text.as_bytes()).or_else(|| text.parse().ok()),
            Float::Hex(unrounded) => Some(unrounded.to_f64()),
        }
    }

    /// Returns whether every digit is zero.
    fn is_zero(&self) -> bool {
        match self {
            Float::Infinity | Float::Nan | Float::Hex(_) => false,
            Float::Decimal(text) => {
                text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E')).all(|byte| matches!(byte, b'0' | b'.'))
            }
        }
    }
}

/// Parses a decimal of up to 15 digits without an exponent: both it without its point and the power of ten are doubles,
/// so their quotient is rounded once.
fn short_decimal(text: &[u8]) -> Option<f64> {
    const POWERS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    if text.len() > 16 {
        return None;
    }
    let (mut digits, mut count, mut point) = (0u64, 0, None);
    for byte in text {
        match byte {
            b'0'..=b'9' => (digits, count) = (digits * 10 + u64::from(byte - b'0'), count + 1),
            b'.' if point.is_none() => point = Some(count),
            _ => return None,
        }
    }
    let after = count - point.unwrap_or(count);
    (1..=15).contains(&count).then(|| digits as f64 / POWERS[after])
}

/// Reads the text behind `0x`: hexadecimal digits with at most one point, then perhaps `p` and a decimal exponent.
fn hex_float(text: &[u8]) -> Option<Unrounded> {
    let mut unrounded = Unrounded::default();
    let (mut digits, mut point) = (0, false);
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        match (*byte as char).to_digit(16) {
            Some(digit) => {
                digits += 1;
                // 124 bits are kept; a digit further right can only distinguish a tie from more than a tie.
                let kept = unrounded.mantissa < 1 << 120;
                if kept {
                    unrounded.mantissa = unrounded.mantissa << 4 | u128::from(digit);
                } else {
                    unrounded.sticky |= digit != 0;
                }
                unrounded.exponent += 4 * (i64::from(!kept) - i64::from(point));
            }
            None if *byte == b'.' && !point => point = true,
            None => break,
        }
        rest = tail;
    }
    if digits == 0 {
        return None;
    }
    match rest {
        [] => {}
        [b'p' | b'P', exponent @ ..] => {
            let exponent = parse_i64_c(exponent).filter(|_| !matches!(exponent, [b' ' | b'\t'..=b'\r', ..]))?;
            // The exponent is far beyond every format, and far from the end of the type.
            unrounded.exponent += exponent.clamp(-(1 << 40), 1 << 40);
        }
        _ => return None,
    }
    Some(unrounded)
}

/// The exact value `mantissa * 2^exponent`, or, if `sticky`, a little more than that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unrounded {
    pub(crate) mantissa: u128,
    pub(crate) exponent: i64,
    pub(crate) sticky: bool,
}

impl Unrounded {
    /// Rounds half to even, to a mantissa of at most `precision` (up to 64) bits and an exponent of `exponent_min` or
    /// more. The mantissa has all of its bits unless the exponent is the least one. A sticky value needs more than
    /// `precision` bits or an exponent under the least.
    pub(crate) fn round(self, precision: u32, exponent_min: i64) -> (u64, i64) {
        let Unrounded { mut mantissa, mut exponent, mut sticky } = self;
        if mantissa == 0 {
            return (0, exponent_min);
        }
        let bits = i64::from(128 - mantissa.leading_zeros());
        let drop = (bits - i64::from(precision)).max(exponent_min.saturating_sub(exponent));
        if drop <= 0 {
            let up = (-drop).min(i64::from(precision) - bits) as u32;
            return ((mantissa << up) as u64, exponent - i64::from(up));
        }
        if drop > bits {
            return (0, exponent_min);
        }
        let drop = drop as u32;
        let half = 1u128 << (drop - 1);
        let dropped = mantissa & (half | (half - 1));
        mantissa = mantissa.checked_shr(drop).unwrap_or(0);
        exponent += i64::from(drop);
        sticky |= dropped & (half - 1) != 0;
        if dropped & half != 0 && (sticky || mantissa & 1 == 1) {
            mantissa += 1;
            if mantissa >> precision != 0 {
                mantissa >>= 1;
                exponent += 1;
            }
        }
        (mantissa as u64, exponent)
    }

    /// Returns the nearest double.
    pub(crate) fn to_f64(self) -> f64 {
        let (mantissa, exponent) = self.round(53, -1074);
        let hidden = 1u64 << 52;
        if mantissa < hidden {
            return f64::from_bits(mantissa);
        }
        match u64::try_from(exponent + 1075) {
            Ok(biased @ ..2047) => f64::from_bits(biased << 52 | (mantissa - hidden)),
            _ => f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn strict_integers() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("18446744073709551616", None),
            ("99999999999999999999", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            ("-", None),
            ("1a", None),
        ] {
            assert_eq!(parse_i64(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn scores() {
        for (text, value) in [
            ("3.0", Some(3.0)),
            ("+4", Some(4.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("0x10", None),
            ("-0X1.8p+1", None),
            ("iNf", Some(f64::INFINITY)),
            ("-infinity", Some(f64::NEG_INFINITY)),
            ("5e-324", Some(5e-324)),
            ("0e999999999999", Some(0.0)),
            ("1e400", None),
            ("1e-400", None),
            ("nan", None),
            ("infin", None),
            (" 1", None),
            ("1 ", None),
            ("1e", None),
            ("1e+", None),
            (".", None),
            ("e5", None),
            ("0x", None),
            ("1_000", None),
            ("1.5.5", None),
            ("--1", None),
            ("", None),
        ] {
            assert_eq!(parse_f64(text.as_bytes()), value, "{text:?}");
        }
        assert!(parse_f64(b"-0").unwrap().is_sign_negative());
        assert_eq!(parse_f64_clamped(b"-1e400"), Some(f64::NEG_INFINITY));
        assert_eq!(parse_f64_clamped(b"1e-400"), Some(0.0));
        for text in ["0x10", "nan", " 1", "", "1e"] {
            assert_eq!(parse_f64_clamped(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn as_in_c() {
        assert_eq!(parse_f64_c(b" 7"), Some(7.0));
        assert_eq!(parse_f64_c(b"\t\n\x0b\x0c\r-1e3"), Some(-1000.0));
        assert_eq!(parse_f64_c(b"1e400"), Some(f64::INFINITY));
        assert_eq!(parse_f64_c(b"-1e-400"), Some(0.0));
        assert!(parse_f64_c(b"nan").unwrap().is_nan());
        assert_eq!(parse_f64_c(b"-0X1.8p+1"), Some(-3.0));
        assert_eq!(parse_f64_c(b"0x.8p0"), Some(0.5));
        for text in ["0x", "0x.", "0x1p", "0x1p 1"] {
            assert_eq!(parse_f64_c(text.as_bytes()), None, "{text:?}");
        }
        for text in ["1 ", "1.5x", "", " ", "- 1"] {
            assert_eq!(parse_f64_c(text.as_bytes()), None, "{text:?}");
            assert_eq!(parse_i64_c(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_i64_c(b" +007"), Some(7));
        assert_eq!(parse_i64_c(b"99999999999999999999999"), Some(i64::MAX));
        assert_eq!(parse_i64_c(b"-99999999999999999999999"), Some(i64::MIN));
        assert_eq!(parse_i64_c(b"1.0"), None);
    }

    #[test]
    fn hexadecimal_ties_round_to_even() {
        let ulp = 2f64.powi(-52);
        assert_eq!(parse_f64_c(b"0x1.00000000000008"), Some(1.0));
        assert_eq!(parse_f64_c(b"0x1.000000000000080000000000000000000000000001"), Some(1.0 + ulp));
        assert_eq!(parse_f64_c(b"0x1.00000000000018"), Some(1.0 + 2.0 * ulp));
        assert_eq!(parse_f64_c(b"0x1.fffffffffffff8p1023"), Some(f64::INFINITY));
        assert_eq!(parse_f64_c(b"0x1p-1074"), Some(5e-324));
        assert_eq!(parse_f64_c(b"0x1.8p-1075"), Some(5e-324));
        assert_eq!(parse_f64_c(b"0x1p-1075"), Some(0.0));
    }

    proptest! {
        #[test]
        fn integers_round_trip(value: i64) {
            prop_assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
            prop_assert_eq!(parse_i64_c(value.to_string().as_bytes()), Some(value));
        }

        #[test]
        fn any_text_is_an_integer_only_if_it_prints_so(text in "[-+0-9a]{0,22}") {
            let model = text.parse::<i64>().ok().filter(|value| value.to_string() == text);
            prop_assert_eq!(parse_i64(text.as_bytes()), model);
        }

        #[test]
        fn decimals_are_read_as_by_the_standard_library(text in "[0-9]{0,12}[.]?[0-9]{0,12}") {
            prop_assert_eq!(parse_f64_c(text.as_bytes()).map(f64::to_bits), text.parse().ok().map(f64::to_bits));
        }

        #[test]
        fn hexadecimal_doubles_round_trip(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let exponent = (bits >> 52) & 0x7ff;
            let fraction = bits & ((1 << 52) - 1);
            let (lead, exponent) = if exponent == 0 { (0, -1022) } else { (1, exponent as i64 - 1023) };
            let sign = if bits >> 63 == 1 { "-" } else { "" };
            let text = format!("{sign}0x{lead}.{fraction:013x}p{exponent}");
            prop_assert_eq!(parse_f64_c(text.as_bytes()).map(f64::to_bits), Some(bits));
        }
    }
}
