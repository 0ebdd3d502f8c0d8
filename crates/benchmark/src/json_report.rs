//! Results of runs as one JSON document.

use crate::cases::Case;
use crate::comparison::PERCENTILES;
use crate::measured_run::Measured;
use crate::options::{Extent, Options};
use crate::report;
use hdrhistogram::Histogram;
use resp::Value;
use resp::json::{self, decimal, integer, object, text};

/// Returns the document for the cases of one server.
pub fn measured(options: &Options, cases: &[(&Case, Measured)]) -> String {
    let tests = cases.iter().map(|(case, measured)| {
        let mut fields = vec![("title", text(&case.title)), ("rps", decimal(measured.rate(), 2))];
        fields.extend(latency_fields(measured));
        if options.open_rate.is_some() {
            fields.push(("sent_late_ms_max", decimal(measured.lateness.as_secs_f64() * 1000.0, 3)));
        }
        if case.operations.len() > 1 {
            let operations = case.operations.iter().zip(&measured.operations).map(|(operation, latencies)| {
                object([
                    ("name", text(&operation.name)),
                    ("weight", integer(operation.weight)),
                    ("requests", integer(latencies.len())),
                    ("latency_ms", summary(latencies)),
                ])
            });
            fields.push(("operations", Value::Array(operations.collect())));
        }
        object(fields)
    });
    document(options, tests.collect())
}

/// Returns how much was measured, and how long it took each.
pub fn latency_fields(measured: &Measured) -> [(&'static str, Value); 4] {
    [
        ("requests", integer(measured.latencies.len())),
        ("seconds", decimal(measured.took.as_secs_f64(), 3)),
        ("latency_ms", summary(&measured.latencies)),
        ("percentiles", percentiles(&measured.latencies)),
    ]
}

fn milliseconds(microseconds: u64) -> Value {
    decimal(report::milliseconds(microseconds), 3)
}

fn summary(latencies: &Histogram<u64>) -> Value {
    let percentile =
        |(name, percent): (&'static str, f64)| (name, milliseconds(latencies.value_at_percentile(percent)));
    let ends = [("avg", decimal(latencies.mean() / 1000.0, 3)), ("min", milliseconds(latencies.min()))];
    object(ends.into_iter().chain(PERCENTILES.map(percentile)).chain([("max", milliseconds(latencies.max()))]))
}

/// Returns pairs of a percentile and its milliseconds, five for each halving of the rest.
fn percentiles(latencies: &Histogram<u64>) -> Value {
    let pair = |percent: f64, value: u64| Value::Array(vec![decimal(percent, 5), milliseconds(value)]);
    let steps =
        latencies.iter_quantiles(5).map(|step| pair(step.quantile_iterated_to() * 100.0, step.value_iterated_to()));
    Value::Array(steps.collect())
}

/// Returns the document around the tests: how the load was made.
pub fn document(options: &Options, tests: Vec<Value>) -> String {
    let or_null = |number: Option<u64>| number.map_or(Value::Null, integer);
    let (requests, seconds) = match options.extent {
        Extent::Requests(count) => (Some(count), None),
        Extent::Duration(duration) => (None, Some(duration.as_secs())),
    };
    let report = object([
        ("program", text(concat!("cinnabar-benchmark ", env!("CARGO_PKG_VERSION")))),
        ("server", text(&options.target.to_string())),
        ("clients", integer(options.clients as u64)),
        ("threads", integer(options.threads.unwrap_or(1) as u64)),
        ("pipeline", integer(options.pipeline as u64)),
        ("requests", or_null(requests)),
        ("duration_seconds", or_null(seconds)),
        ("data_size", integer(options.data_size as u64)),
        ("range", or_null(options.range)),
        ("zipf", options.zipf.map_or(Value::Null, |theta| decimal(theta, 4))),
        ("rate", or_null(options.open_rate.or(options.rate))),
        ("open_loop", Value::Bool(options.open_rate.is_some())),
        ("tests", Value::Array(tests)),
    ]);
    let mut out = Vec::new();
    json::write(&mut out, &report, json::string);
    String::from_utf8_lossy(&out).into_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{CommandSequence, Operation};

    #[test]
    fn a_report_names_its_figures() {
        let operation = |name: &str| Operation { name: name.into(), weight: 2, sequence: CommandSequence::default() };
        let case = Case { title: "a \"b\"".into(), operations: vec![operation("GET"), operation("SET")] };
        let mut all = Measured::nothing(2);
        all.took = std::time::Duration::from_secs(2);
        for value in 1..=1000 {
            all.latencies.record(value).unwrap();
            all.operations[0].record(value).unwrap();
        }
        let options = Options { open_rate: Some(500), zipf: Some(0.99), ..Options::default() };
        let report = measured(&options, &[(&case, all)]);
        for part in [
            "\"server\":\"127.0.0.1:6379\",\"clients\":50,",
            "\"zipf\":0.9900,\"rate\":500,\"open_loop\":true,\"tests\":[{\"title\":\"a \\\"b\\\"\",\"rps\":500.00,",
            "\"latency_ms\":{\"avg\":0.500,\"min\":0.001,\"p50\":0.500,\"p95\":0.950,\"p99\":0.990,\"p99.9\":1.000,",
            "\"percentiles\":[[0.00000,0.001],",
            "\"operations\":[{\"name\":\"GET\",\"weight\":2,\"requests\":1000,\"latency_ms\":{",
            "{\"name\":\"SET\",\"weight\":2,\"requests\":0,\"latency_ms\":{\"avg\":0.000,",
        ] {
            assert!(report.contains(part), "{part} in {report}");
        }
        assert!(report.ends_with("}]}]}\n"), "{report}");
    }
}
