//! Metrics as plain data, from which the formats are written.
//!
//! ```text
//! Family  redis_commands_total, counter, "Calls of each command."
//!   Sample  cmd="get"   21
//!   Sample  cmd="set"   61
//! ```
//!
//! A name ends in its unit (`_seconds`, `_bytes`), and a counter's in `_total`, but for names of foreign origin.

use std::borrow::Cow;

/// The kind of a family's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers that only grow, until they begin anew.
    Counter,
    /// Numbers that go up and down.
    Gauge,
    /// Counts by size.
    Histogram,
    /// Sizes that a part of all does not exceed.
    Summary,
}

/// All samples of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Letters, digits and `_`.
    pub name: Cow<'static, str>,
    /// One sentence.
    pub help: Cow<'static, str>,
    /// The kind of its numbers.
    pub kind: Kind,
    /// Samples, which differ in their labels.
    pub samples: Vec<Sample>,
}

/// Names and values.
pub type Labels = Vec<(&'static str, String)>;

/// One number, or one distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Labels that distinguish it from others of its family.
    pub labels: Labels,
    /// The value, of the family's kind.
    pub value: Value,
}

/// A value: see [`Kind`].
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The value of a counter or a gauge.
    Number(f64),
    /// The value of a histogram.
    Histogram(Histogram),
    /// The value of a summary.
    Summary(Summary),
}

/// Counts by size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Sizes that rise, each with the count of values at most as large. The last of them need not be all.
    pub buckets: Vec<(f64, u64)>,
    /// The count of values.
    pub count: u64,
    /// The sum of all sizes.
    pub sum: f64,
}

/// Sizes that a part of all does not exceed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Parts as they are labelled (0.99, or 99 where percent are meant), with the size.
    pub quantiles: Vec<(f64, f64)>,
    /// The count of values.
    pub count: u64,
    /// The sum of all sizes.
    pub sum: f64,
}

impl Family {
    /// Returns a family without samples.
    pub fn new(name: impl Into<Cow<'static, str>>, kind: Kind, help: impl Into<Cow<'static, str>>) -> Family {
        Family { name: name.into(), help: help.into(), kind, samples: Vec::new() }
    }

    /// Returns a family of one number.
    pub fn number(
        name: impl Into<Cow<'static, str>>,
        kind: Kind,
        help: impl Into<Cow<'static, str>>,
        value: f64,
    ) -> Family {
        let mut family = Family::new(name, kind, help);
        family.add(Vec::new(), value);
        family
    }

    /// Adds a number.
    pub fn add(&mut self, labels: Labels, value: f64) {
        self.samples.push(Sample { labels, value: Value::Number(value) });
    }

    /// Adds a distribution.
    pub fn add_histogram(&mut self, labels: Labels, histogram: Histogram) {
        self.samples.push(Sample { labels, value: Value::Histogram(histogram) });
    }

    /// Adds a summary.
    pub fn add_summary(&mut self, labels: Labels, summary: Summary) {
        self.samples.push(Sample { labels, value: Value::Summary(summary) });
    }

    /// Returns the name without the `_total` of a counter.
    pub fn stem(&self) -> &str {
        match self.kind {
            Kind::Counter => self.name.strip_suffix("_total").unwrap_or(&self.name),
            _ => &self.name,
        }
    }

    /// Returns the unit in which its name ends, if it is a base unit.
    pub fn unit(&self) -> Option<&'static str> {
        ["seconds", "bytes", "ratio"]
            .into_iter()
            .find(|unit| self.stem().strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_in_their_units() {
        let of = |name: &'static str, kind| Family::new(name, kind, "").unit();
        assert_eq!(of("a_seconds_total", Kind::Counter), Some("seconds"));
        assert_eq!(of("a_bytes", Kind::Gauge), Some("bytes"));
        assert_eq!((of("a_seconds_total", Kind::Gauge), of("seconds", Kind::Gauge)), (None, None));
        assert_eq!(Family::new("a_total", Kind::Counter, "").stem(), "a");
    }
}
