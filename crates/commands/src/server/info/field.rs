//! A field of INFO: its name, how it is read, and its metric.
//!
//! ```text
//! field("used_memory", |s| s.memory().allocated.into()).gauge("memory_used_bytes", "Memory that is allocated.")
//!        name in INFO   value, from a source              metric, without `redis_`; its help
//! ```
//!
//! INFO's text, the metrics and the page read the same fields.

use crate::server::info::absent;
use crate::server::info::info_source::Source;
use std::fmt::{self, Display, Write};

/// A value, with a form as text, and for most fields one as a number.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The field is not shown.
    None,
    /// A number that may be negative.
    Int(i64),
    /// A number.
    Unsigned(u64),
    /// A number with so many decimals.
    Decimal(f64, usize),
    /// A part of one, shown in percent.
    Percent(f64),
    /// Bytes in the form for people.
    Human(u64),
    /// Whether something is well, and the words for no and yes.
    State(bool, [&'static str; 2]),
    /// A word that is known before.
    Word(&'static str),
    /// Any other text.
    Text(String),
    /// `name=value,name=value`
    Parts(Vec<(&'static str, Value)>),
}

impl Value {
    /// Returns the value of a field that is shown under a condition.
    pub fn when(is_shown: bool, value: impl FnOnce() -> Value) -> Value {
        if is_shown { value() } else { Value::None }
    }

    /// Returns the value of a field that is shown for something that may be absent.
    pub fn of<T>(present: Option<T>, value: impl FnOnce(T) -> Value) -> Value {
        present.map_or(Value::None, value)
    }

    /// Returns whether something went well, in the words of INFO.
    pub fn well(is_well: bool) -> Value {
        Value::State(is_well, ["err", "ok"])
    }

    /// Returns the value as a number. None for a text.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Int(number) => Some(*number as f64),
            Value::Unsigned(number) => Some(*number as f64),
            Value::Decimal(number, _) => Some(*number),
            Value::State(is_well, _) => Some(f64::from(u8::from(*is_well))),
            _ => None,
        }
    }

    /// Returns one of its parts.
    pub fn part(&self, name: &str) -> Option<&Value> {
        let Value::Parts(parts) = self else { return None };
        parts.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Appends its text.
    pub fn write(&self, text: &mut String) {
        let written = match self {
            Value::None => Ok(()),
            Value::Int(number) => {
                if *number < 0 {
                    text.push('-');
                }
                write_digits(text, number.unsigned_abs());
                Ok(())
            }
            Value::Unsigned(number) => {
                write_digits(text, *number);
                Ok(())
            }
            Value::Decimal(number, decimals) => write_decimal(text, *number, *decimals),
            Value::Percent(part) => write!(text, "{:.2}%", part * 100.0),
            Value::Human(bytes) => human(text, *bytes),
            Value::State(is_well, words) => text.write_str(words[usize::from(*is_well)]),
            Value::Word(word) => text.write_str(word),
            Value::Text(own) => text.write_str(own),
            Value::Parts(parts) => {
                for (index, (name, value)) in parts.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    text.push_str(name);
                    text.push('=');
                    value.write(text);
                }
                Ok(())
            }
        };
        // A String takes everything.
        debug_assert!(written.is_ok());
    }
}

impl Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        out.write_str(&text)
    }
}

fn write_digits(text: &mut String, mut number: u64) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
}

/// Scaled numbers from which on a double does not hold enough of the fraction.
const PRECISE: f64 = 1e9;
/// Distance from the middle between two decimals within which the product may be on the wrong side.
const UNSURE: f64 = 1e-6;

/// Appends a number as the standard library rounds it: most are far enough from the middle between two decimals that a
/// product tells, the others are left to the library.
fn write_decimal(text: &mut String, number: f64, decimals: usize) -> fmt::Result {
    let scale = 10u64.pow(decimals as u32);
    let scaled = number * scale as f64;
    let is_sure = (scaled.fract() - 0.5).abs() > UNSURE;
    if number.is_sign_negative() || !(scaled < PRECISE && is_sure) {
        return write!(text, "{number:.decimals$}");
    }
    let rounded = scaled.round() as u64;
    write_digits(text, rounded / scale);
    text.push('.');
    // A leading one holds the zeros.
    let start = text.len();
    write_digits(text, scale + rounded % scale);
    text.remove(start);
    Ok(())
}

/// `1.18M`: bytes in the largest unit that leaves at least one.
fn human(text: &mut String, bytes: u64) -> fmt::Result {
    if bytes < 1 << 10 {
        return write!(text, "{bytes}B");
    }
    let (shift, unit) = match bytes {
        n if n < 1 << 20 => (10, 'K'),
        n if n < 1 << 30 => (20, 'M'),
        n if n < 1 << 40 => (30, 'G'),
        n if n < 1 << 50 => (40, 'T'),
        _ => (50, 'P'),
    };
    write!(text, "{:.2}{unit}", bytes as f64 / (1u64 << shift) as f64)
}

/// Returns bytes in the form for people.
pub fn human_bytes(bytes: u64) -> String {
    Value::Human(bytes).to_string()
}

macro_rules! from {
    ($($from:ty: $value:ident => $to:expr;)*) => {
        $(impl From<$from> for Value {
            fn from($value: $from) -> Value {
                $to
            }
        })*
    };
}

from! {
    i32: number => Value::Int(number.into());
    i64: number => Value::Int(number);
    u16: number => Value::Unsigned(number.into());
    u32: number => Value::Unsigned(number.into());
    u64: number => Value::Unsigned(number);
    usize: number => Value::Unsigned(number as u64);
    bool: flag => Value::Unsigned(flag.into());
    &'static str: word => Value::Word(word);
    String: text => Value::Text(text);
}

/// Receiver of fields whose number is not known before.
pub type Put<'p> = &'p mut dyn FnMut(&str, Value);

/// Kind of a metric: a number that only grows is a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows, until it is reset.
    Counter,
    /// A number that rises and falls.
    Gauge,
}

/// Metric of a field. Its name is the one that dashboards and alerts for redis_exporter have, and so is its unit,
/// whatever they would be called today.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Name without `redis_`.
    pub name: &'static str,
    /// Whether it only grows.
    pub kind: Kind,
    /// Size of the field's unit in the metric's.
    pub scale: f64,
    /// Description for people.
    pub help: &'static str,
}

/// How a field is read.
pub(super) enum Read {
    One(fn(&Source<'_>) -> Value),
    /// The constant of a feature that this server lacks, from the [table](absent::FIELDS).
    Absent,
    /// As many fields as there are of a kind, with names that begin with the name of this one.
    Many(fn(&Source<'_>, Put<'_>)),
}

/// One line of a section, or several of one kind.
pub(super) struct Field {
    pub name: &'static str,
    pub read: Read,
    pub metric: Option<Metric>,
}

pub(super) const fn field(name: &'static str, value: fn(&Source<'_>) -> Value) -> Field {
    Field { name, read: Read::One(value), metric: None }
}

pub(super) const fn absent(name: &'static str) -> Field {
    Field { name, read: Read::Absent, metric: None }
}

pub(super) const fn many(name: &'static str, put: fn(&Source<'_>, Put<'_>)) -> Field {
    Field { name, read: Read::Many(put), metric: None }
}

impl Field {
    pub const fn gauge(self, name: &'static str, help: &'static str) -> Field {
        self.with(Metric { name, kind: Kind::Gauge, scale: 1.0, help })
    }

    pub const fn counter(self, name: &'static str, help: &'static str) -> Field {
        self.with(Metric { name, kind: Kind::Counter, scale: 1.0, help })
    }

    /// A gauge of seconds for a field of microseconds.
    pub const fn micros(self, name: &'static str, help: &'static str) -> Field {
        self.with(Metric { name, kind: Kind::Gauge, scale: 1e-6, help })
    }

    const fn with(self, metric: Metric) -> Field {
        Field { name: self.name, read: self.read, metric: Some(metric) }
    }

    /// Visits the field, or all of its kind.
    pub fn each(&self, source: &Source<'_>, visit: &mut dyn FnMut(&str, Value)) {
        match self.read {
            Read::One(value) => match value(source) {
                Value::None => {}
                value => visit(self.name, value),
            },
            Read::Absent => visit(self.name, absent::constant(self.name)),
            Read::Many(put) => put(source, visit),
        }
    }
}

/// Appends a line.
pub(super) fn write_line(text: &mut String, name: &str, value: &Value) {
    text.push_str(name);
    text.push(':');
    value.write(text);
    text.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_people_read_them() {
        for (bytes, text) in
            [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (1_233_056, "1.18M"), (u64::MAX, "16384.00P")]
        {
            assert_eq!(human_bytes(bytes), text);
        }
    }

    #[test]
    fn decimals_are_rounded_as_the_library_does() {
        let random = |_| fastrand::f64() * 10f64.powi(fastrand::i32(-4..14));
        let middles = (0..1000).map(|n| f64::from(n) / 8.0 + 0.005);
        let special = [0.0, -0.0, -1.5, 0.125, 0.375, 0.995, 999.995, 1e300, f64::NAN, f64::INFINITY];
        for number in (0..20_000).map(random).chain(middles).chain(special) {
            for decimals in [2, 3, 6] {
                let shown = Value::Decimal(number, decimals).to_string();
                assert_eq!(shown, format!("{number:.decimals$}"), "{number:e}");
            }
        }
    }

    #[test]
    fn values_have_a_text_and_a_number() {
        let parts = Value::Parts(vec![("a", 1u64.into()), ("b", "x".into())]);
        for (value, text, number) in [
            (Value::Int(i64::MIN), "-9223372036854775808", Some(i64::MIN as f64)),
            (u64::MAX.into(), "18446744073709551615", Some(u64::MAX as f64)),
            (0u64.into(), "0", Some(0.0)),
            (true.into(), "1", Some(1.0)),
            (Value::Decimal(1.0, 6), "1.000000", Some(1.0)),
            (Value::Percent(0.5), "50.00%", None),
            (Value::well(false), "err", Some(0.0)),
            (Value::State(true, ["down", "up"]), "up", Some(1.0)),
            (parts, "a=1,b=x", None),
        ] {
            assert_eq!((value.to_string().as_str(), value.number()), (text, number));
        }
    }
}
