//! OpenMetrics, version 1.0.0: the same lines of values, with stricter descriptions.
//!
//! - A counter's family has its name without `_total`, which all of its samples have. A counter of foreign origin
//!   without it is of an unknown type.
//! - A unit is named where the name ends in it.
//! - A summary's parts are parts of 1. A summary whose parts are percent has them as gauges, and its sums as such
//!   beside it.
//! - The text ends with `# EOF`.

use crate::family::{Family, Kind, Value};
use crate::prometheus::{escaped, line, write_samples};
use std::fmt::Write;

/// The format's name in `Content-Type`.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns all families that have samples, one after the other.
pub fn text(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        match family.kind {
            Kind::Summary if has_percentiles(family) => percentiles(&mut text, family),
            _ => {
                begin(&mut text, family.stem(), word(family), family.unit(), &family.help);
                write_samples(&mut text, &family.name, family);
            }
        }
    }
    text.push_str("# EOF\n");
    text
}

fn word(family: &Family) -> &'static str {
    match family.kind {
        Kind::Counter if family.name.ends_with("_total") => "counter",
        Kind::Counter => "unknown",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        Kind::Summary => "summary",
    }
}

fn begin(text: &mut String, name: &str, kind: &str, unit: Option<&str>, help: &str) {
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if let Some(unit) = unit {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
    let _ = writeln!(text, "# HELP {name} {}", escaped(help, true));
}

fn has_percentiles(family: &Family) -> bool {
    let is_part = |part: f64| (0.0..=1.0).contains(&part);
    family.samples.iter().any(|sample| match &sample.value {
        Value::Summary(summary) => summary.quantiles.iter().any(|(part, _)| !is_part(*part)),
        _ => false,
    })
}

/// Writes a summary as gauges that have the names and labels which it has in the other format.
fn percentiles(text: &mut String, family: &Family) {
    let name = &*family.name;
    let summaries = || {
        family.samples.iter().filter_map(|sample| match &sample.value {
            Value::Summary(summary) => Some((&sample.labels, summary)),
            _ => None,
        })
    };
    begin(text, name, "gauge", None, &family.help);
    for (labels, summary) in summaries() {
        for (part, size) in &summary.quantiles {
            line(text, name, "", labels, Some(("quantile", *part)), *size);
        }
    }
    begin(text, &format!("{name}_sum"), "gauge", None, &family.help);
    summaries().for_each(|(labels, summary)| line(text, name, "_sum", labels, None, summary.sum));
    begin(text, &format!("{name}_count"), "gauge", None, &family.help);
    summaries().for_each(|(labels, summary)| line(text, name, "_count", labels, None, summary.count as f64));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Summary;

    #[test]
    fn counters_units_and_the_end() {
        let counter = Family::number("a_seconds_total", Kind::Counter, "A \"counter\".", 1.5);
        let unknown = Family::number("total_replies", Kind::Counter, "Named by others.", 2.0);
        assert_eq!(
            text(&[counter, unknown]),
            "# TYPE a_seconds counter\n\
             # UNIT a_seconds seconds\n\
             # HELP a_seconds A \\\"counter\\\".\n\
             a_seconds_total 1.5\n\
             # TYPE total_replies unknown\n\
             # HELP total_replies Named by others.\n\
             total_replies 2\n\
             # EOF\n"
        );
        assert_eq!(text(&[]), "# EOF\n");
    }

    #[test]
    fn percentiles_are_gauges() {
        let mut family = Family::new("l_usec", Kind::Summary, "L.");
        for name in ["get", "set"] {
            let summary = Summary { quantiles: vec![(50.0, 1.0), (99.9, 2.0)], count: 3, sum: 4.0 };
            family.add_summary(vec![("cmd", name.to_owned())], summary);
        }
        assert_eq!(
            text(&[family]),
            "# TYPE l_usec gauge\n# HELP l_usec L.\n\
             l_usec{cmd=\"get\",quantile=\"50\"} 1\nl_usec{cmd=\"get\",quantile=\"99.9\"} 2\n\
             l_usec{cmd=\"set\",quantile=\"50\"} 1\nl_usec{cmd=\"set\",quantile=\"99.9\"} 2\n\
             # TYPE l_usec_sum gauge\n# HELP l_usec_sum L.\n\
             l_usec_sum{cmd=\"get\"} 4\nl_usec_sum{cmd=\"set\"} 4\n\
             # TYPE l_usec_count gauge\n# HELP l_usec_count L.\n\
             l_usec_count{cmd=\"get\"} 3\nl_usec_count{cmd=\"set\"} 3\n\
             # EOF\n"
        );
    }
}
