//! Moments, each with its unit in its type: Unix time in milliseconds and in microseconds, and a clock that never goes
//! back in milliseconds and in nanoseconds.
//!
//! Only moments have types. Durations, and the numbers inside of structures, are integers with their unit in their
//! name or documentation.

/// Unix time in milliseconds: the unit of expiries. Negative before 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct UnixMs(pub i64);

impl UnixMs {
    /// Returns this moment in whole seconds.
    #[inline(always)]
    pub fn seconds(self) -> i64 {
        self.0 / 1000
    }

    /// Returns this moment in microseconds.
    #[inline(always)]
    pub fn us(self) -> UnixUs {
        UnixUs(self.0.saturating_mul(1000))
    }

    /// Returns the moment so many milliseconds later, as far as the unit reaches.
    #[inline(always)]
    pub fn after(self, ms: i64) -> UnixMs {
        UnixMs(self.0.saturating_add(ms))
    }

    /// Returns the milliseconds since an earlier moment; negative if that is later.
    #[inline(always)]
    pub fn since(self, earlier: UnixMs) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Unix time in microseconds: the unit of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct UnixUs(pub i64);

impl UnixUs {
    /// Returns this moment in whole milliseconds.
    #[inline(always)]
    pub fn ms(self) -> UnixMs {
        UnixMs(self.0 / 1000)
    }

    /// Returns this moment in whole seconds.
    #[inline(always)]
    pub fn seconds(self) -> i64 {
        self.0 / 1_000_000
    }

    /// Microseconds since an earlier moment; negative if that is later.
    #[inline(always)]
    pub fn since(self, earlier: UnixUs) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A moment of a clock that never goes back: milliseconds since some moment of this process's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct SteadyMs(pub i64);

impl SteadyMs {
    /// Returns the moment so many milliseconds later, as far as the unit reaches.
    #[inline(always)]
    pub fn after(self, ms: i64) -> SteadyMs {
        SteadyMs(self.0.saturating_add(ms))
    }

    /// Returns the milliseconds since an earlier moment; negative if that is later.
    #[inline(always)]
    pub fn since(self, earlier: SteadyMs) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A moment of a clock that never goes back: microseconds since some moment of this process's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct SteadyUs(pub i64);

impl SteadyUs {
    /// Returns this moment in whole milliseconds.
    #[inline(always)]
    pub fn ms(self) -> SteadyMs {
        SteadyMs(self.0 / 1000)
    }

    /// Microseconds since an earlier moment; negative if that is later.
    #[inline(always)]
    pub fn since(self, earlier: SteadyUs) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A moment of a clock that never goes back: nanoseconds since some moment of this process's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Returns the nanoseconds since an earlier moment; 0 if that is later.
    #[inline(always)]
    pub fn since(self, earlier: Nanos) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns this moment in whole milliseconds.
    #[inline(always)]
    pub fn ms(self) -> SteadyMs {
        SteadyMs((self.0 / 1_000_000).cast_signed())
    }

    /// Returns this moment in whole microseconds.
    #[inline(always)]
    pub fn us(self) -> SteadyUs {
        SteadyUs((self.0 / 1000).cast_signed())
    }

    /// Returns the moment so many nanoseconds later.
    #[inline(always)]
    pub fn after(self, nanos: u64) -> Nanos {
        Nanos(self.0.saturating_add(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_converted_towards_zero() {
        let now = UnixUs(12_345_678);
        assert_eq!((now.ms(), now.seconds()), (UnixMs(12_345), 12));
        assert_eq!((now.ms().seconds(), now.ms().us()), (12, UnixUs(12_345_000)));
        assert_eq!(UnixUs(-1).ms(), UnixMs(0), "the last moment before 1970");
        assert_eq!(UnixMs(i64::MAX).us(), UnixUs(i64::MAX), "as far as the unit reaches");
    }

    #[test]
    fn later_moments_are_a_while_away() {
        assert_eq!((UnixMs(7).since(UnixMs(5)), UnixMs(5).since(UnixMs(7))), (2, -2));
        assert_eq!((UnixMs(5).after(2), UnixMs(i64::MAX).after(1)), (UnixMs(7), UnixMs(i64::MAX)));
        assert_eq!(UnixUs(7).since(UnixUs(5)), 2);
        assert_eq!((Nanos(7_999_999).ms(), SteadyMs(5).since(SteadyMs(7))), (SteadyMs(7), -2));
        assert_eq!((Nanos(7).since(Nanos(5)), Nanos(5).since(Nanos(7)), Nanos(5).after(2)), (2, 0, Nanos(7)));
    }
}
