//! OpenTelemetry's protocol (OTLP) as JSON: the body of a request to `/v1/metrics`.
//!
//! All sums and distributions are cumulative, from the start of the process on. Counts are texts and sizes are numbers,
//! in the protocol's JSON.

use crate::family::{Family, Histogram, Kind, Sample, Summary, Value as Number};
use serde_json::{Map, Value, json};

/// Start and end of counting, in nanoseconds of Unix time.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The time when the process began to count.
    pub start: u64,
    /// Now.
    pub now: u64,
}

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`
const CUMULATIVE: u8 = 2;

/// Returns the request with these families. `resource`: the attributes of the process, by the names of OpenTelemetry's
/// conventions.
pub fn request(families: &[Family], resource: &[(&'static str, String)], times: Times) -> Value {
    let metrics: Vec<Value> =
        families.iter().filter(|family| !family.samples.is_empty()).map(|family| metric(family, times)).collect();
    json!({
        "resourceMetrics": [{
            "resource": { "attributes": attributes(resource) },
            "scopeMetrics": [{ "scope": { "name": "cinnabar" }, "metrics": metrics }],
        }],
    })
}

fn metric(family: &Family, times: Times) -> Value {
    let points: Vec<Value> = family.samples.iter().map(|sample| point(sample, times)).collect();
    let data = match family.kind {
        Kind::Counter => json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true }),
        Kind::Histogram => json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE }),
        Kind::Gauge | Kind::Summary => json!({ "dataPoints": points }),
    };
    let kind = match family.kind {
        Kind::Counter => "sum",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        Kind::Summary => "summary",
    };
    let unit = match family.unit() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "1",
    };
    let mut metric = Map::new();
    metric.insert("name".to_owned(), json!(family.name));
    metric.insert("description".to_owned(), json!(family.help));
    metric.insert("unit".to_owned(), json!(unit));
    metric.insert(kind.to_owned(), data);
    Value::Object(metric)
}

fn point(sample: &Sample, times: Times) -> Value {
    let mut point = match &sample.value {
        // JSON has no number for NaN and infinities.
        Number::Number(number) if number.is_finite() => json!({ "asDouble": number }),
        Number::Number(number) => json!({ "asDouble": number.to_string() }),
        Number::Histogram(histogram) => buckets(histogram),
        Number::Summary(summary) => quantiles(summary),
    };
    point["attributes"] = attributes(&sample.labels);
    point["startTimeUnixNano"] = json!(times.start.to_string());
    point["timeUnixNano"] = json!(times.now.to_string());
    point
}

/// Returns buckets, which in this format contain only the values between their limits.
fn buckets(histogram: &Histogram) -> Value {
    let limits: Vec<f64> = histogram.buckets.iter().map(|(limit, _)| *limit).collect();
    let up_to = histogram.buckets.iter().map(|(_, count)| *count).chain([histogram.count]);
    let mut below = 0;
    let counts: Vec<String> = up_to
        .map(|count| {
            let within = count.saturating_sub(below);
            below = count;
            within.to_string()
        })
        .collect();
    let Histogram { count, sum, .. } = histogram;
    json!({ "count": count.to_string(), "sum": sum, "bucketCounts": counts, "explicitBounds": limits })
}

/// Returns quantiles, which in this format are always parts of 1.
fn quantiles(summary: &Summary) -> Value {
    let is_percent = summary.quantiles.iter().any(|(part, _)| *part > 1.0);
    let scale = if is_percent { 100.0 } else { 1.0 };
    let quantile = |(part, size): &(f64, f64)| json!({ "quantile": part / scale, "value": size });
    let quantiles: Vec<Value> = summary.quantiles.iter().map(quantile).collect();
    json!({ "count": summary.count.to_string(), "sum": summary.sum, "quantileValues": quantiles })
}

fn attributes(labels: &[(&'static str, String)]) -> Value {
    labels.iter().map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_as_the_protocol_has_it() {
        let mut counter = Family::new("c_bytes_total", Kind::Counter, "C.");
        counter.add(vec![("cmd", "get".to_owned())], 3.0);
        let mut histogram = Family::new("h_seconds", Kind::Histogram, "H.");
        let buckets = vec![(0.5, 1), (1.0, 4)];
        histogram.add_histogram(Vec::new(), Histogram { buckets, count: 6, sum: 9.5 });
        let mut summary = Family::new("s", Kind::Summary, "S.");
        summary.add_summary(Vec::new(), Summary { quantiles: vec![(99.0, 7.0)], count: 2, sum: 8.0 });
        let families = [counter, histogram, Family::new("none", Kind::Gauge, ""), summary];
        let request = request(&families, &[("service.name", "x".to_owned())], Times { start: 5, now: 7 });
        let of = &request["resourceMetrics"][0];
        assert_eq!(of["resource"]["attributes"][0], json!({"key": "service.name", "value": {"stringValue": "x"}}));
        let metrics = of["scopeMetrics"][0]["metrics"].as_array().unwrap();
        assert_eq!(
            metrics[0],
            json!({"name": "c_bytes_total", "description": "C.", "unit": "By", "sum": {
                "isMonotonic": true, "aggregationTemporality": 2, "dataPoints": [{
                    "asDouble": 3.0, "attributes": [{"key": "cmd", "value": {"stringValue": "get"}}],
                    "startTimeUnixNano": "5", "timeUnixNano": "7",
                }],
            }})
        );
        let point = &metrics[1]["histogram"]["dataPoints"][0];
        assert_eq!((&point["bucketCounts"], &point["explicitBounds"]), (&json!(["1", "3", "2"]), &json!([0.5, 1.0])));
        assert_eq!((&point["count"], &point["sum"], &metrics[1]["unit"]), (&json!("6"), &json!(9.5), &json!("s")));
        let point = &metrics[2]["summary"]["dataPoints"][0];
        assert_eq!(point["quantileValues"], json!([{"quantile": 0.99, "value": 7.0}]));
        assert_eq!(metrics.len(), 3);
    }
}
