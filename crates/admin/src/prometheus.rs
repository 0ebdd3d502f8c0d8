//! Prometheus's text format, version 0.0.4.
//!
//! ```text
//! # HELP redis_commands_total Calls of each command.
//! # TYPE redis_commands_total counter
//! redis_commands_total{cmd="get"} 21
//! ```

use crate::family::{Family, Kind, Labels, Value};
use std::fmt::Write;

/// The format's name in `Content-Type`.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns all families that have samples, one after the other.
pub fn text(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let name = &*family.name;
        let _ = writeln!(text, "# HELP {name} {}", escaped(&family.help, false));
        let _ = writeln!(text, "# TYPE {name} {}", word(family));
        write_samples(&mut text, name, family);
    }
    text
}

fn word(family: &Family) -> &'static str {
    match family.kind {
        Kind::Counter if family.name.ends_with("_total") => "counter",
        // Clients' libraries would add `_total` to a foreign name without it.
        Kind::Counter => "untyped",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        Kind::Summary => "summary",
    }
}

/// Writes the lines with values, which both formats have alike.
pub(crate) fn write_samples(text: &mut String, name: &str, family: &Family) {
    for sample in &family.samples {
        let labels = &sample.labels;
        match &sample.value {
            Value::Number(number) => line(text, name, "", labels, None, *number),
            Value::Histogram(histogram) => {
                for (limit, count) in &histogram.buckets {
                    line(text, name, "_bucket", labels, Some(("le", *limit)), *count as f64);
                }
                line(text, name, "_bucket", labels, Some(("le", f64::INFINITY)), histogram.count as f64);
                line(text, name, "_sum", labels, None, histogram.sum);
                line(text, name, "_count", labels, None, histogram.count as f64);
            }
            Value::Summary(summary) => {
                for (part, size) in &summary.quantiles {
                    line(text, name, "", labels, Some(("quantile", *part)), *size);
                }
                line(text, name, "_sum", labels, None, summary.sum);
                line(text, name, "_count", labels, None, summary.count as f64);
            }
        }
    }
}

/// Writes `name_suffix{a="b",le="0.5"} 3`.
pub(crate) fn line(
    text: &mut String,
    name: &str,
    suffix: &str,
    labels: &Labels,
    last: Option<(&str, f64)>,
    value: f64,
) {
    text.push_str(name);
    text.push_str(suffix);
    let mut separator = '{';
    for (label, value) in labels {
        let _ = write!(text, "{separator}{label}=\"{}\"", escaped(value, true));
        separator = ',';
    }
    if let Some((label, limit)) = last {
        let _ = write!(text, "{separator}{label}=\"{}\"", number(limit));
        separator = ',';
    }
    if separator == ',' {
        text.push('}');
    }
    let _ = writeln!(text, " {}", number(value));
}

/// Returns a number in the form of both formats.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value == f64::INFINITY => "+Inf".to_owned(),
        value if value == f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

/// Escapes a text for one line, and for quotes where it is in quotes.
pub(crate) fn escaped(text: &str, in_quotes: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '"' if in_quotes => escaped.push_str("\\\""),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{Histogram, Summary};

    #[test]
    fn numbers_distributions_and_labels() {
        let mut counter = Family::new("a_total", Kind::Counter, "What \"a\"\nis\\was.");
        counter.add(vec![("cmd", "x\"\\\ny".to_owned()), ("n", "1".to_owned())], 3.0);
        let mut histogram = Family::new("h_seconds", Kind::Histogram, "H.");
        histogram.add_histogram(Vec::new(), Histogram { buckets: vec![(0.5, 1), (1.0, 4)], count: 5, sum: 2.25 });
        let mut summary = Family::new("s", Kind::Summary, "S.");
        let quantiles = vec![(0.99, 7.0)];
        summary.add_summary(vec![("a", "b".to_owned())], Summary { quantiles, count: 2, sum: 9.0 });
        let none = Family::new("none", Kind::Gauge, "Nothing.");
        let replies = Family::number("total_replies", Kind::Counter, "Named by others.", 2.0);
        let nan = Family::number("nan", Kind::Gauge, "No number.", f64::NAN);
        assert_eq!(
            text(&[counter, histogram, none, summary, replies, nan]),
            "# HELP a_total What \"a\"\\nis\\\\was.\n\
             # TYPE a_total counter\n\
             a_total{cmd=\"x\\\"\\\\\\ny\",n=\"1\"} 3\n\
             # HELP h_seconds H.\n\
             # TYPE h_seconds histogram\n\
             h_seconds_bucket{le=\"0.5\"} 1\n\
             h_seconds_bucket{le=\"1\"} 4\n\
             h_seconds_bucket{le=\"+Inf\"} 5\n\
             h_seconds_sum 2.25\n\
             h_seconds_count 5\n\
             # HELP s S.\n\
             # TYPE s summary\n\
             s{a=\"b\",quantile=\"0.99\"} 7\n\
             s_sum{a=\"b\"} 9\n\
             s_count{a=\"b\"} 2\n\
             # HELP total_replies Named by others.\n\
             # TYPE total_replies untyped\n\
             total_replies 2\n\
             # HELP nan No number.\n\
             # TYPE nan gauge\n\
             nan NaN\n"
        );
    }
}
