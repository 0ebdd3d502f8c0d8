//! Doubles as Valkey prints them: ZSCORE, scores in replies, RESP3 doubles.
//!
//! Whole numbers up to half the range of an i64 are printed as integers. Everything else goes through Grisu2 (Florian
//! Loitsch, "Printing Floating-Point Numbers Quickly and Accurately with Integers", 2010), the algorithm behind
//! Valkey's printer, and not through a printer that is always shortest: in about one number of a thousand Grisu2 gives
//! a digit more or another last digit, and clients compare bytes.
//!
//! The idea: the neighbours of a double bound an interval in which every number reads back as that double. Scaled by a
//! tabulated power of ten, the interval lies where its digits can be taken off with integer arithmetic; digits are
//! produced from the upper bound until the rest falls inside the interval. 64-bit arithmetic makes the bounds uncertain
//! by one unit, so they are drawn in by one, and that is the reason for an occasional extra digit.
//!
//! Layout of the digits `d` with the decimal point `k` places to the right of the last one:
//!
//! ```text
//!   0 <= k, fewer than 7 zeros to add        ddd000
//!   k < 0, k > -7 or close to 1              d.dd    0.00ddd
//!   else                                     d.dde+30   d.dde-7
//! ```

use std::ops::Deref;

/// Longest text: sign, 17 digits, point, `e-324`.
const TEXT_MAX: usize = 32;

/// The text of a double, on the stack.
#[derive(Clone, Copy)]
pub struct DoubleText {
    bytes: [u8; TEXT_MAX],
    len: u8,
}

impl DoubleText {
    fn new() -> DoubleText {
        DoubleText { bytes: [b'0'; TEXT_MAX], len: 0 }
    }

    fn push(&mut self, text: &[u8]) {
        let start = usize::from(self.len);
        self.bytes[start..start + text.len()].copy_from_slice(text);
        self.len += text.len() as u8;
    }

    /// Returns the text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl Deref for DoubleText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// Prints a double as Valkey does: `3`, `0.1`, `1e+21`, `inf`, `-inf`, `nan`, `-0`.
pub fn format_double(value: f64) -> DoubleText {
    match as_integer(value) {
        Some(whole) if value != 0.0 => {
            let mut text = DoubleText::new();
            text.push(itoa::Buffer::new().format(whole).as_bytes());
            text
        }
        _ => format_by_digits(value),
    }
}

/// Prints a double as [`format_double`] does, but large whole numbers as other ones: `1e+18`. Digests of data sets use
/// this form for scores.
pub fn format_by_digits(value: f64) -> DoubleText {
    let mut text = DoubleText::new();
    if value.is_nan() {
        text.push(b"nan");
    } else if value.is_infinite() {
        text.push(if value > 0.0 { b"inf" } else { b"-inf" });
    } else if value == 0.0 {
        text.push(if value.is_sign_negative() { b"-0" } else { b"0" });
    } else {
        let digits = grisu2(value.abs());
        if value < 0.0 {
            text.push(b"-");
        }
        lay_out(&mut text, &digits, value < 0.0);
    }
    text
}

/// Prints a double with 17 significant digits, as C does for `%.17g`: `0.10000000000000001`, `1e+18`. ZSCAN uses this
/// form for scores.
pub fn format_17_digits(value: f64) -> String {
    if !value.is_finite() || value == 0.0 {
        return format_by_digits(value).as_str().to_owned();
    }
    if let Some(whole) = as_integer(value).filter(|whole| whole.unsigned_abs() < 10u64.pow(17)) {
        return itoa::Buffer::new().format(whole).to_owned();
    }
    let scientific = format!("{value:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    if !(-4..17).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    // The same digits, with the point where the exponent has it: a whole number was printed above.
    let (minus, digits) = mantissa.strip_prefix('-').map_or(("", mantissa), |digits| ("-", digits));
    let digits = digits.replacen('.', "", 1);
    match usize::try_from(exponent) {
        Ok(exponent) if exponent + 1 < digits.len() => {
            let (before, behind) = digits.split_at(exponent + 1);
            format!("{minus}{before}.{behind}")
        }
        Ok(exponent) => format!("{minus}{digits:0<width$}", width = exponent + 1),
        Err(_) => format!("{minus}0.{digits:0>width$}", width = digits.len() + exponent.unsigned_abs() as usize - 1),
    }
}

/// Returns the integer that equals a double, if it is within half the range of an i64.
fn as_integer(value: f64) -> Option<i64> {
    const BOUND: f64 = (i64::MAX / 2) as f64;
    let whole = value as i64;
    (value.abs() <= BOUND && whole as f64 == value).then_some(whole)
}

/// Decimal digits and the power of ten of the last one.
struct Digits {
    digits: [u8; 20],
    len: usize,
    exponent: i32,
}

impl Digits {
    fn as_slice(&self) -> &[u8] {
        &self.digits[..self.len]
    }
}

fn lay_out(text: &mut DoubleText, number: &Digits, negative: bool) {
    const ZEROS: [u8; 8] = [b'0'; 8];
    let (digits, k) = (number.as_slice(), number.exponent);
    // The exponent in scientific notation.
    let scientific = k + digits.len() as i32 - 1;
    let magnitude = scientific.unsigned_abs() as usize;
    if k >= 0 && magnitude < digits.len() + 7 {
        text.push(digits);
        text.push(&ZEROS[..k as usize]);
    } else if k < 0 && (k > -7 || magnitude < 4) {
        match usize::try_from(scientific) {
            Ok(before_point) => {
                text.push(&digits[..=before_point]);
                text.push(b".");
                text.push(&digits[before_point + 1..]);
            }
            Err(_) => {
                text.push(b"0.");
                text.push(&ZEROS[..magnitude - 1]);
                text.push(digits);
            }
        }
    } else {
        let digits = &digits[..digits.len().min(18 - usize::from(negative))];
        text.push(&digits[..1]);
        if digits.len() > 1 {
            text.push(b".");
            text.push(&digits[1..]);
        }
        text.push(if scientific < 0 { b"e-" } else { b"e+" });
        text.push(itoa::Buffer::new().format(magnitude).as_bytes());
    }
}

/// `mantissa * 2^exponent`.
#[derive(Clone, Copy)]
struct Scaled {
    mantissa: u64,
    exponent: i32,
}

impl Scaled {
    fn normalized(self) -> Scaled {
        let shift = self.mantissa.leading_zeros();
        Scaled { mantissa: self.mantissa << shift, exponent: self.exponent - shift as i32 }
    }

    /// Returns the upper half of the product, rounded.
    fn times(self, other: Scaled) -> Scaled {
        let product = u128::from(self.mantissa) * u128::from(other.mantissa);
        let mantissa = ((product + (1 << 63)) >> 64) as u64;
        Scaled { mantissa, exponent: self.exponent + other.exponent + 64 }
    }
}

/// Returns the digits of a positive, finite double.
fn grisu2(value: f64) -> Digits {
    const HIDDEN: u64 = 1 << 52;
    let bits = value.to_bits();
    let (fraction, biased) = (bits & (HIDDEN - 1), (bits >> 52) as i32);
    let exact = match biased {
        0 => Scaled { mantissa: fraction, exponent: -1074 },
        _ => Scaled { mantissa: fraction | HIDDEN, exponent: biased - 1075 },
    };

    // The bound is halfway to the neighbours. The lower one is half as far at a power of two.
    let upper = Scaled { mantissa: exact.mantissa * 2 + 1, exponent: exact.exponent - 1 }.normalized();
    let narrow = if exact.mantissa == HIDDEN { 2 } else { 1 };
    let lower = Scaled { mantissa: (exact.mantissa << narrow) - 1, exponent: exact.exponent - narrow };
    let lower = Scaled { mantissa: lower.mantissa << (lower.exponent - upper.exponent), exponent: upper.exponent };

    let (power, decimal) = cached_power(upper.exponent);
    let number = exact.normalized().times(power);
    let mut upper = upper.times(power);
    let mut lower = lower.times(power);
    upper.mantissa -= 1;
    lower.mantissa += 1;
    take_digits(number, lower, upper, -decimal)
}

/// Powers of ten of 32 bits.
const TENS: [u32; 10] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// Takes digits off the upper bound until the rest lies within the interval.
fn take_digits(number: Scaled, lower: Scaled, upper: Scaled, exponent: i32) -> Digits {
    let mut out = Digits { digits: [0; 20], len: 0, exponent };
    let mut delta = upper.mantissa - lower.mantissa;
    let mut distance = upper.mantissa - number.mantissa;
    let shift = (-upper.exponent) as u32;
    let one = 1u64 << shift;
    // Scaling leaves at most 32 bits before the point.
    let mut whole = (upper.mantissa >> shift) as u32;
    let mut fraction = upper.mantissa & (one - 1);

    for (place, unit) in TENS.into_iter().enumerate().rev() {
        let digit = (whole / unit) as u8;
        whole %= unit;
        if digit != 0 || out.len != 0 {
            out.push(digit);
        }
        let rest = (u64::from(whole) << shift) + fraction;
        if rest <= delta {
            out.exponent += place as i32;
            out.approach(delta, rest, u64::from(unit) << shift, distance);
            return out;
        }
    }
    loop {
        fraction *= 10;
        // The factors wrap, as in 64-bit arithmetic everywhere, only when the comparison below no longer depends on
        // them.
        delta = delta.wrapping_mul(10);
        distance = distance.wrapping_mul(10);
        out.exponent -= 1;
        let digit = (fraction >> shift) as u8;
        if digit != 0 || out.len != 0 {
            out.push(digit);
        }
        fraction &= one - 1;
        if fraction < delta {
            out.approach(delta, fraction, one, distance);
            return out;
        }
    }
}

impl Digits {
    fn push(&mut self, digit: u8) {
        self.digits[self.len] = b'0' + digit;
        self.len += 1;
    }

    /// Lowers the last digit while that brings the result, `rest` under the upper bound, closer to the number itself,
    /// `distance` under it, and leaves it within `delta`. `unit` is the value of one step of the last digit.
    fn approach(&mut self, delta: u64, mut rest: u64, unit: u64, distance: u64) {
        while rest < distance
            && delta - rest >= unit
            && (rest + unit < distance || distance - rest > rest + unit - distance)
        {
            self.digits[self.len - 1] -= 1;
            rest += unit;
        }
    }
}

/// Returns the tabulated power of ten that brings a number with this binary exponent to one between -60 and -32, and
/// its decimal exponent.
fn cached_power(exponent: i32) -> (Scaled, i32) {
    const LOG10_2: f64 = 0.30102999566398114;
    let estimate = (-f64::from(exponent + POWERS.len() as i32) * LOG10_2) as i32;
    let mut index = ((estimate - POWERS_FIRST) / POWERS_STEP) as usize;
    loop {
        let (mantissa, binary) = POWERS[index];
        match exponent + binary + 64 {
            ..-60 => index += 1,
            -31.. => index -= 1,
            _ => {
                return (Scaled { mantissa, exponent: binary }, POWERS_FIRST + POWERS_STEP * index as i32);
            }
        }
    }
}

/// Decimal exponent of the first tabulated power, and from each to the next.
const POWERS_FIRST: i32 = -348;
const POWERS_STEP: i32 = 8;

/// 10^-348, 10^-340 ... 10^340 as 64-bit mantissas, rounded to nearest, and binary exponents.
#[rustfmt::skip]
const POWERS: [(u64, i32); 87] = [
    (0xfa8fd5a0081c0288, -1220), (0xbaaee17fa23ebf76, -1193), (0x8b16fb203055ac76, -1166),
    (0xcf42894a5dce35ea, -1140), (0x9a6bb0aa55653b2d, -1113), (0xe61acf033d1a45df, -1087),
    (0xab70fe17c79ac6ca, -1060), (0xff77b1fcbebcdc4f, -1034), (0xbe5691ef416bd60c, -1007),
    (0x8dd01fad907ffc3c, -980), (0xd3515c2831559a83, -954), (0x9d71ac8fada6c9b5, -927),
    (0xea9c227723ee8bcb, -901), (0xaecc49914078536d, -874), (0x823c12795db6ce57, -847),
    (0xc21094364dfb5637, -821), (0x9096ea6f3848984f, -794), (0xd77485cb25823ac7, -768),
    (0xa086cfcd97bf97f4, -741), (0xef340a98172aace5, -715), (0xb23867fb2a35b28e, -688),
    (0x84c8d4dfd2c63f3b, -661), (0xc5dd44271ad3cdba, -635), (0x936b9fcebb25c996, -608),
    (0xdbac6c247d62a584, -582), (0xa3ab66580d5fdaf6, -555), (0xf3e2f893dec3f126, -529),
    (0xb5b5ada8aaff80b8, -502), (0x87625f056c7c4a8b, -475), (0xc9bcff6034c13053, -449),
    (0x964e858c91ba2655, -422), (0xdff9772470297ebd, -396), (0xa6dfbd9fb8e5b88f, -369),
    (0xf8a95fcf88747d94, -343), (0xb94470938fa89bcf, -316), (0x8a08f0f8bf0f156b, -289),
    (0xcdb02555653131b6, -263), (0x993fe2c6d07b7fac, -236), (0xe45c10c42a2b3b06, -210),
    (0xaa242499697392d3, -183), (0xfd87b5f28300ca0e, -157), (0xbce5086492111aeb, -130),
    (0x8cbccc096f5088cc, -103), (0xd1b71758e219652c, -77), (0x9c40000000000000, -50),
    (0xe8d4a51000000000, -24), (0xad78ebc5ac620000, 3), (0x813f3978f8940984, 30),
    (0xc097ce7bc90715b3, 56), (0x8f7e32ce7bea5c70, 83), (0xd5d238a4abe98068, 109),
    (0x9f4f2726179a2245, 136), (0xed63a231d4c4fb27, 162), (0xb0de65388cc8ada8, 189),
    (0x83c7088e1aab65db, 216), (0xc45d1df942711d9a, 242), (0x924d692ca61be758, 269),
    (0xda01ee641a708dea, 295), (0xa26da3999aef774a, 322), (0xf209787bb47d6b85, 348),
    (0xb454e4a179dd1877, 375), (0x865b86925b9bc5c2, 402), (0xc83553c5c8965d3d, 428),
    (0x952ab45cfa97a0b3, 455), (0xde469fbd99a05fe3, 481), (0xa59bc234db398c25, 508),
    (0xf6c69a72a3989f5c, 534), (0xb7dcbf5354e9bece, 561), (0x88fcf317f22241e2, 588),
    (0xcc20ce9bd35c78a5, 614), (0x98165af37b2153df, 641), (0xe2a0b5dc971f303a, 667),
    (0xa8d9d1535ce3b396, 694), (0xfb9b7cd9a4a7443c, 720), (0xbb764c4ca7a44410, 747),
    (0x8bab8eefb6409c1a, 774), (0xd01fef10a657842c, 800), (0x9b10a4e5e9913129, 827),
    (0xe7109bfba19c0c9d, 853), (0xac2820d9623bf429, 880), (0x80444b5e7aa7cf85, 907),
    (0xbf21e44003acdd2d, 933), (0x8e679c2f5e44ff8f, 960), (0xd433179d9c8cb841, 986),
    (0x9e19db92b4e31ba9, 1013), (0xeb96bf6ebadf77d9, 1039), (0xaf87023b9bf0ee6b, 1066),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seventeen_digits_are_those_of_c() {
        for (value, text) in [
            (0.1, "0.10000000000000001"),
            (-188186.3554301263, "-188186.35543012631"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (1.5, "1.5"),
            (-0.5, "-0.5"),
            (123456789012345.67, "123456789012345.67"),
            (-0.00012345678901234567, "-0.00012345678901234567"),
            (9.999999999999998e+16, "99999999999999984"),
            (1.2345678901234567e+19, "1.2345678901234567e+19"),
            (0.001953125, "0.001953125"),
            (0.00025, "0.00025000000000000001"),
            (3.0, "3"),
            (-0.0, "-0"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(format_17_digits(value), text);
        }
    }
    use proptest::prelude::*;

    #[test]
    fn as_valkey_prints_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (0.1, "0.1"),
            (-1.5, "-1.5"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (1e21, "1e+21"),
            (1e-7, "1e-7"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (4611686018427387904.0, "4611686018427387904"),
            (1e19, "1e+19"),
            (0.001, "0.001"),
            (1.0 / 3.0, "0.3333333333333333"),
        ] {
            assert_eq!(format_double(value).as_str(), text, "{value:e}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn every_text_reads_back(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(!value.is_nan());
            prop_assert_eq!(format_double(value).as_str().parse::<f64>().unwrap().to_bits(), bits);
        }
    }
}
