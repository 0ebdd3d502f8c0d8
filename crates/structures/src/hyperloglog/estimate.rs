//! From registers to a number: the improved raw estimator, which needs no tables and no case for small counts.

use super::header::{REGISTERS, RUN_BITS};

/// 1 / (2 ln 2)
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// Returns the estimate for a sketch of which `histogram[v]` registers hold `v`.
pub(super) fn cardinality(histogram: &[u32; 64]) -> u64 {
    let m = REGISTERS as f64;
    let mut z = m * tau((m - f64::from(histogram[RUN_BITS + 1])) / m);
    for value in (1..=RUN_BITS).rev() {
        z = (z + f64::from(histogram[value])) * 0.5;
    }
    z += m * sigma(f64::from(histogram[0]) / m);
    (ALPHA * m * m / z).round() as u64
}

/// Returns the correction for registers that are full.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// Returns the correction for registers that are empty.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_none() {
        let mut histogram = [0; 64];
        histogram[0] = REGISTERS as u32;
        assert_eq!(cardinality(&histogram), 0);
    }

    #[test]
    fn full_registers_are_a_large_number() {
        let mut histogram = [0; 64];
        histogram[RUN_BITS + 1] = REGISTERS as u32;
        assert!(cardinality(&histogram) > 1 << 60);
    }
}
