//! The extended arithmetic of INCRBYFLOAT and HINCRBYFLOAT.
//!
//! Valkey adds there in C's `long double`, on x86-64 the 80-bit format of the x87: a sign, a 64-bit mantissa without a
//! hidden bit and a 15-bit exponent. It prints the sum with 17 decimals and without the zeros at the end, and clients
//! see the difference: 3.0 + 1.1 is 4.1 there, not 4.0999999999999996. This is that format in software:
//!
//! ```text
//!   value = (-1)^negative * mantissa * 2^exponent,   mantissa 64 bits,   -16445 <= exponent <= 16320
//! ```
//!
//! A finite number has its mantissa's top bit set, or the least exponent. Every operation is exact and then rounded
//! once, half to even, as the C library and the x87 do. The few numbers that do not fit 128 bits on the way go through
//! a plain big integer: this is for exactness, speed matters only for ordinary numbers, and those need one or two of
//! its limbs.

use crate::number::{Float, Unrounded};
use std::cmp::Ordering;
use std::ops::Neg;

const PRECISION: u32 = 64;
const EXPONENT_MIN: i64 = -16445;
const EXPONENT_MAX: i64 = 16320;
/// Texts from this length on are refused, in bytes.
const TEXT_MAX: usize = 5 * 1024;
/// Decimals printed.
const DECIMALS: u32 = 17;

/// An extended float: finite or infinite, never NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    magnitude: Magnitude,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Magnitude {
    Finite { mantissa: u64, exponent: i64 },
    Infinite,
}

impl From<i64> for LongDouble {
    fn from(value: i64) -> LongDouble {
        let exact = Unrounded { mantissa: u128::from(value.unsigned_abs()), ..Unrounded::default() };
        LongDouble { negative: value < 0, magnitude: Magnitude::round(exact) }
    }
}

impl Neg for LongDouble {
    type Output = LongDouble;

    fn neg(self) -> LongDouble {
        LongDouble { negative: !self.negative, ..self }
    }
}

impl LongDouble {
    /// Parses the texts that C's `strtold` takes, under the rules of [`parse_f64`](crate::number::parse_f64): no
    /// leading blanks, not NaN, neither overflowing nor vanishing. `inf` is accepted. None also from 5 KiB on.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() >= TEXT_MAX {
            return None;
        }
        let (negative, float) = Float::classify(text)?;
        let magnitude = match float {
            Float::Nan => return None,
            Float::Infinity => Magnitude::Infinite,
            Float::Hex(exact) => Magnitude::round(exact).in_range(exact.mantissa == 0)?,
            Float::Decimal(text) => Magnitude::from_decimal(text)?,
        };
        Some(LongDouble { negative, magnitude })
    }

    /// Returns the sum; None if it is infinite or not a number.
    pub fn checked_add(self, other: LongDouble) -> Option<LongDouble> {
        let (Magnitude::Finite { .. }, Magnitude::Finite { .. }) = (self.magnitude, other.magnitude) else {
            return None;
        };
        let (large, small) = if self.magnitude >= other.magnitude { (self, other) } else { (other, self) };
        let (exact, zero) = large.magnitude.combine(small.magnitude, large.negative != small.negative);
        let magnitude = Magnitude::round(exact);
        // A sum of opposites is +0, a sum of two zeros of one sign keeps the sign.
        let negative = large.negative && (!zero || small.negative);
        (magnitude != Magnitude::Infinite).then_some(LongDouble { negative, magnitude })
    }

    /// Returns the difference; None if it is infinite or not a number.
    pub fn checked_sub(self, other: LongDouble) -> Option<LongDouble> {
        self.checked_add(-other)
    }

    /// Returns the largest of all finite numbers, or its opposite.
    pub fn extreme(negative: bool) -> LongDouble {
        LongDouble { negative, magnitude: Magnitude::Finite { mantissa: u64::MAX, exponent: EXPONENT_MAX } }
    }

    /// Returns whether the number is below zero, or the zero that other printers give a minus.
    pub fn is_negative(self) -> bool {
        self.negative
    }

    /// Returns whether the number is an infinity.
    pub fn is_infinite(self) -> bool {
        self.magnitude == Magnitude::Infinite
    }

    /// Compares the two; both zeros are equal.
    pub fn compare(self, other: LongDouble) -> Ordering {
        let is_zero = |number: LongDouble| matches!(number.magnitude, Magnitude::Finite { mantissa: 0, .. });
        match (self.negative, other.negative) {
            _ if is_zero(self) && is_zero(other) => Ordering::Equal,
            (false, false) => self.magnitude.key().cmp(&other.magnitude.key()),
            (true, true) => other.magnitude.key().cmp(&self.magnitude.key()),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }

    /// Prints 17 decimals and takes the zeros at the end away, and with them the point; never `-0`.
    pub fn to_text(self) -> String {
        let digits = match self.magnitude {
            Magnitude::Infinite => "inf".to_owned(),
            Magnitude::Finite { mantissa, exponent } if exponent >= 0 => {
                let mut integer = BigUint::from(mantissa);
                integer.shift_left(exponent as usize);
                integer.to_decimal()
            }
            Magnitude::Finite { mantissa, exponent } => fixed(mantissa, exponent.unsigned_abs()),
        };
        if self.negative && digits != "0" { format!("-{digits}") } else { digits }
    }
}

/// Prints `mantissa / 2^shift`, rounded to [`DECIMALS`], without zeros at the end.
fn fixed(mantissa: u64, shift: u64) -> String {
    const SCALE: u128 = 10u128.pow(DECIMALS);
    let scaled = u128::from(mantissa) * SCALE; // 64 and 57 bits
    let rounded = if shift < 128 {
        let half = 1u128 << (shift - 1);
        let (quotient, rest) = (scaled.checked_shr(shift as u32).unwrap_or(0), scaled & (half | (half - 1)));
        quotient + u128::from(rest > half || (rest == half && quotient & 1 == 1))
    } else {
        0
    };
    let text = format!("{}.{:017}", rounded / SCALE, rounded % SCALE);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl PartialOrd for Magnitude {
    fn partial_cmp(&self, other: &Magnitude) -> Option<Ordering> {
        Some(self.key().cmp(&other.key()))
    }
}

impl Magnitude {
    /// Returns a key that orders magnitudes: a number with the least exponent may have leading zeros, all others are
    /// normalized.
    fn key(&self) -> (bool, i64, u64) {
        match *self {
            Magnitude::Finite { mantissa, exponent } => (false, exponent, mantissa),
            Magnitude::Infinite => (true, 0, 0),
        }
    }

    fn round(exact: Unrounded) -> Magnitude {
        let (mantissa, exponent) = exact.round(PRECISION, EXPONENT_MIN);
        if exponent > EXPONENT_MAX { Magnitude::Infinite } else { Magnitude::Finite { mantissa, exponent } }
    }

    /// Returns the magnitude; None if a text that was finite became infinite, or one that was not zero became zero.
    fn in_range(self, text_is_zero: bool) -> Option<Magnitude> {
        match self {
            Magnitude::Infinite => None,
            Magnitude::Finite { mantissa: 0, .. } if !text_is_zero => None,
            _ => Some(self),
        }
    }

    /// Returns `self` plus or minus `other`, which is not the larger. True: the result is exactly zero.
    fn combine(self, other: Magnitude, subtract: bool) -> (Unrounded, bool) {
        let (Magnitude::Finite { mantissa: a, exponent }, Magnitude::Finite { mantissa: b, exponent: low }) =
            (self, other)
        else {
            return (Unrounded::default(), false);
        };
        // 62 guard bits: the bits shifted out below them are less than half a unit after any cancellation.
        const GUARD: i64 = 62;
        let large = u128::from(a) << GUARD;
        let shift = exponent - low;
        let small = u128::from(b) << GUARD;
        let (aligned, lost) = match u32::try_from(shift) {
            Ok(shift @ 0..128) => (small >> shift, small & ((1u128 << shift) - 1) != 0),
            _ => (0, b != 0),
        };
        let mantissa = match subtract {
            false => large + aligned,
            // The lost bits are still to be subtracted: one unit less, and a little more than that remains.
            true => large - aligned - u128::from(lost),
        };
        let exact = Unrounded { mantissa, exponent: exponent - GUARD, sticky: lost };
        (exact, mantissa == 0)
    }

    /// Returns the nearest magnitude to a text of digits with at most one point, then perhaps `e` and an integer.
    fn from_decimal(text: &str) -> Option<Magnitude> {
        // The standard library knows the grammar.
        text.parse::<f64>().ok()?;
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let exponent = crate::number::parse_i64_c(exponent.as_bytes())?.clamp(-1_000_000, 1_000_000);
        let exponent = exponent - fraction.len() as i64;

        let digits: String = [whole, fraction].concat();
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Some(Magnitude::Finite { mantissa: 0, exponent: EXPONENT_MIN });
        }
        // Beyond these the number is out of range by many orders, and its integer would be large.
        let top = exponent + digits.len() as i64;
        if !(-5000..=5000).contains(&top) {
            return None;
        }
        let mut integer = BigUint::from_decimal(digits);
        let exact = if exponent >= 0 {
            integer.multiply_power_of_5(exponent as u32);
            integer.leading(exponent, false)
        } else {
            // The quotient gets 128 bits.
            let power = exponent.unsigned_abs() as u32;
            let shift = (power as usize * 7 / 3 + 192).saturating_sub(integer.bits());
            integer.shift_left(shift);
            let inexact = integer.divide_power_of_5(power);
            integer.leading(exponent - shift as i64, inexact)
        };
        Magnitude::round(exact).in_range(false)
    }
}

/// An unsigned integer of any size: limbs of 64 bits, the least first, none at the end that are zero.
struct BigUint(Vec<u64>);

/// The largest powers of ten and five in a limb.
const DECIMAL_LIMB: (u64, usize) = (10u64.pow(19), 19);
const FIVES_LIMB: (u64, u32) = (5u64.pow(27), 27);

impl From<u64> for BigUint {
    fn from(value: u64) -> BigUint {
        BigUint(if value == 0 { Vec::new() } else { vec![value] })
    }
}

impl BigUint {
    fn from_decimal(digits: &str) -> BigUint {
        let mut integer = BigUint(Vec::new());
        for chunk in digits.as_bytes().chunks(DECIMAL_LIMB.1) {
            let value = chunk.iter().fold(0u64, |value, byte| value * 10 + u64::from(byte - b'0'));
            integer.multiply_add(10u64.pow(chunk.len() as u32), value);
        }
        integer
    }

    fn to_decimal(&self) -> String {
        let mut rest = BigUint(self.0.clone());
        let mut chunks = Vec::new();
        while !rest.0.is_empty() {
            chunks.push(rest.divide(DECIMAL_LIMB.0));
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        for chunk in chunks.iter().rev() {
            text.push_str(&format!("{chunk:019}"));
        }
        text
    }

    fn bits(&self) -> usize {
        self.0.last().map_or(0, |top| self.0.len() * 64 - top.leading_zeros() as usize)
    }

    fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = u128::from(addend);
        for limb in &mut self.0 {
            let product = u128::from(*limb) * u128::from(factor) + carry;
            *limb = product as u64;
            carry = product >> 64;
        }
        if carry != 0 {
            self.0.push(carry as u64);
        }
    }

    /// Divides and returns the remainder.
    fn divide(&mut self, divisor: u64) -> u64 {
        let mut rest = 0u128;
        for limb in self.0.iter_mut().rev() {
            let value = rest << 64 | u128::from(*limb);
            *limb = (value / u128::from(divisor)) as u64;
            rest = value % u128::from(divisor);
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        rest as u64
    }

    fn multiply_power_of_5(&mut self, power: u32) {
        for _ in 0..power / FIVES_LIMB.1 {
            self.multiply_add(FIVES_LIMB.0, 0);
        }
        self.multiply_add(5u64.pow(power % FIVES_LIMB.1), 0);
    }

    /// Divides, rounding down. Returns whether there was a remainder.
    fn divide_power_of_5(&mut self, power: u32) -> bool {
        let mut inexact = false;
        for _ in 0..power / FIVES_LIMB.1 {
            inexact |= self.divide(FIVES_LIMB.0) != 0;
        }
        self.divide(5u64.pow(power % FIVES_LIMB.1)) != 0 || inexact
    }

    fn shift_left(&mut self, shift: usize) {
        if !shift.is_multiple_of(64) {
            self.multiply_add(1 << (shift % 64), 0);
        }
        if !self.0.is_empty() {
            self.0.splice(0..0, std::iter::repeat_n(0, shift / 64));
        }
    }

    /// Returns the upper 65 to 128 bits, for `self * 2^exponent` and a little more if `inexact`.
    fn leading(&self, exponent: i64, inexact: bool) -> Unrounded {
        let skipped = self.0.len().saturating_sub(2);
        let mantissa = self.0[skipped..].iter().rev().fold(0u128, |value, limb| value << 64 | u128::from(*limb));
        let sticky = inexact || self.0[..skipped].iter().any(|limb| *limb != 0);
        Unrounded { mantissa, exponent: exponent + 64 * skipped as i64, sticky }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        LongDouble::parse(a.as_bytes())?.checked_add(LongDouble::parse(b.as_bytes())?).map(LongDouble::to_text)
    }

    #[test]
    fn as_valkey_adds_and_prints() {
        for (a, b, text) in [
            ("3.0", "1.1", "4.1"),
            ("0.1", "0.2", "0.3"),
            ("10.5", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("-1", "0.5", "-0.5"),
            ("1", "-1", "0"),
            ("-0", "-0", "0"),
            ("1e-20", "0", "0"),
            ("-1e-20", "0", "0"),
            ("0x10", "0x.8", "16.5"),
            ("17179869184", "1.5", "17179869185.5"),
            ("1e21", "1", "1000000000000000000000"),
            ("1", "0.00000000000000001", "1.00000000000000001"),
            ("18446744073709551615", "0.5", "18446744073709551616"),
            ("18446744073709551614", "0.5", "18446744073709551614"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(text), "{a} + {b}");
        }
        let top = sum("1.18973149535723176502e4932", "0").unwrap();
        assert!(top.starts_with("118973149535723176502126385303097020516906332229") && top.len() == 4933);
    }

    #[test]
    fn numbers_are_compared_as_they_are_ordered() {
        let parse = |text: &str| LongDouble::parse(text.as_bytes()).unwrap();
        let rising = ["-inf", "-1e4000", "-2", "-1.5", "-1e-4000", "0", "1e-4000", "1.5", "2", "1e4000", "inf"];
        for (left, a) in rising.iter().enumerate() {
            for (right, b) in rising.iter().enumerate() {
                assert_eq!(parse(a).compare(parse(b)), left.cmp(&right), "{a} and {b}");
            }
        }
        assert_eq!(parse("-0").compare(parse("0")), Ordering::Equal);
        assert_eq!(parse("inf").compare(LongDouble::extreme(false)), Ordering::Greater);
        assert_eq!(LongDouble::extreme(false).checked_sub(LongDouble::extreme(true)), None);
        assert_eq!(parse("2.5").checked_sub(parse("4")).map(LongDouble::to_text).as_deref(), Some("-1.5"));
    }

    #[test]
    fn refused() {
        for text in ["", "nan", " 1", "1 ", "1e5000", "1e-5000", "1e999999999999", "1e", "x", "0x1p99999"] {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(sum("inf", "1"), None);
        assert_eq!(sum("inf", "-inf"), None);
        assert_eq!(sum("1.1e4932", "1.1e4932"), None);
        assert!(LongDouble::parse(&[b'1'; TEXT_MAX]).is_none());
        assert!(LongDouble::parse(b"3.7e-4951").is_some(), "the least denormal");
        assert_eq!(LongDouble::parse(b"0e-99999"), Some(LongDouble::from(0)));
    }

    #[test]
    fn subtraction_with_lost_bits_rounds_once() {
        // 2^64 - 2^-70 is nearer to 2^64 than to the number below it.
        assert_eq!(sum("0x1p64", "-0x1p-70").as_deref(), Some("18446744073709551616"));
        // Half a unit below a power of two is a tie, and a little more than half rounds down.
        assert_eq!(sum("0x1p64", "-0x1p-1").as_deref(), Some("18446744073709551616"));
        assert_eq!(sum("0x1p64", "-0x1.0000000000000002p-1").as_deref(), Some("18446744073709551615"));
    }

    proptest! {
        #[test]
        fn integers_add_exactly(a in -(1i64 << 62)..1 << 62, b in -(1i64 << 62)..1 << 62) {
            let total = LongDouble::from(a).checked_add(LongDouble::from(b)).unwrap();
            prop_assert_eq!(total.to_text(), (a + b).to_string());
        }

        #[test]
        fn decimals_of_18_digits_print_as_written(whole in 0u32..10, fraction in 0u64..10u64.pow(17)) {
            let text = format!("{whole}.{fraction:017}");
            let short = text.trim_end_matches('0').trim_end_matches('.');
            prop_assert_eq!(LongDouble::parse(text.as_bytes()).unwrap().to_text(), short);
        }

        #[test]
        fn the_exponent_only_moves_the_point(digits in 1u64.., power in 0usize..2000) {
            let plain = LongDouble::parse(format!("{digits}{}", "0".repeat(power)).as_bytes());
            let scientific = LongDouble::parse(format!("{digits}e{power}").as_bytes());
            let fraction = LongDouble::parse(format!("0.{}{digits}e{}", "0".repeat(power), power * 2 + digits.to_string().len()).as_bytes());
            prop_assert_eq!(plain, scientific);
            prop_assert_eq!(plain, fraction);
        }
    }
}
