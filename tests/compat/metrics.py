#!/usr/bin/env python3
"""Prometheus's client library reads /metrics in both formats, OpenTelemetry's what a collector is sent, and names are as
Prometheus advises.

    tests/compat/metrics.py --server target/release/cinnabar-server

Needs prometheus_client and opentelemetry-proto. The second part is what `promtool check metrics` looks for. Names that begin with `redis_` are
those of redis_exporter, which break some of these rules: for them only what a reader could stumble over counts.
"""

import argparse
import http.server
import re
import sys
import tempfile
import threading
import urllib.request

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

import wire

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
UNITS = {
    "milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "days", "kilobytes", "megabytes", "gigabytes",
    "bits", "percent", "percentage",
}
ABBREVIATIONS = {"s", "sec", "ms", "us", "usec", "ns", "b", "kb", "mb", "gb", "pct"}
TYPES = {"counter", "gauge", "histogram", "summary"}


def complaints(family, text):
    """Yields the errors of a family."""
    name, words = family.name, family.name.split("_")
    full = name + "_total" if family.type == "counter" else name
    if not family.documentation:
        yield "no help"
    if f"# TYPE {full} " not in text:
        yield "no type"
    seen = set()
    for sample in family.samples:
        key = (sample.name, tuple(sorted(sample.labels.items())))
        if key in seen:
            yield f"{key} is there twice"
        seen.add(key)
    if name.startswith("redis_"):
        return
    if not name.startswith("cinnabar_"):
        yield "no prefix"
    if family.type == "counter" and not any(s.name.endswith("_total") for s in family.samples):
        yield "a counter without _total"
    if family.type != "counter" and name.endswith("_total"):
        yield "_total, and no counter"
    if family.type not in ("histogram", "summary") and re.search(r"_(bucket|count|sum)$", name):
        yield "a suffix of distributions"
    if family.type == "unknown":
        yield "no known type"
    yield from (f"unit {word}" for word in words if word in UNITS | ABBREVIATIONS)
    yield from (f"type {word} in the name" for word in words if word in TYPES)
    if name != name.lower() or ":" in name:
        yield "capitals or colons"


def fetch(port, accept):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


class Collector(http.server.BaseHTTPRequestHandler):
    """Keeps the last request."""

    def do_POST(self):
        self.server.body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.path = self.path
        self.send_response(200)
        self.end_headers()
        self.server.has_come.set()

    def log_message(self, *_):
        pass


def collector():
    """Starts a collector; returns it and its address."""
    listening = http.server.HTTPServer(("127.0.0.1", 0), Collector)
    listening.has_come = threading.Event()
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    return listening, f"http://127.0.0.1:{listening.server_port}"


def sent(body):
    """Returns the metrics of a request, by name with their kinds. Fields that the protocol does not know are errors."""
    request = json_format.Parse(body, ExportMetricsServiceRequest())
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    for metric in metrics:
        for point in metric.histogram.data_points:
            assert len(point.bucket_counts) == len(point.explicit_bounds) + 1, metric.name
            assert sum(point.bucket_counts) == point.count, metric.name
    return {metric.name: metric.WhichOneof("data") for metric in metrics}


def samples(families):
    return {(s.name, tuple(sorted(s.labels.items()))) for family in families for s in family.samples}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--server", required=True)
    server = options.parse_args().server
    admin = wire.free_port()
    with tempfile.TemporaryDirectory() as scratch:
        listening, endpoint = collector()
        options = ["--admin-port", str(admin), "--appendonly", "yes", "--otlp-endpoint", endpoint, "--otlp-interval", "1"]
        process, client = wire.start(server, scratch, options)
        try:
            for words in ("SET k v", "GET k", "SET e v EX 100", "INCR k", "HSET h f v", "CONFIG GET maxmemory"):
                client(*words.split())
            kind, text = fetch(admin, "text/plain")
            open_kind, open_text = fetch(admin, OPEN_METRICS)
            # The next one has what the other two have.
            listening.has_come.clear()
            assert listening.has_come.wait(wire.PATIENCE), "nothing was sent to the collector"
        finally:
            process.terminate()
            process.wait(wire.PATIENCE)
    assert kind.startswith("text/plain; version=0.0.4"), kind
    assert open_kind.startswith("application/openmetrics-text; version=1.0.0"), open_kind
    families, open_families = list(parse_text(text)), list(parse_open_metrics(open_text))
    wrong = [f"{family.name}: {what}" for family in families for what in complaints(family, text)]
    wrong += [f"in one format only: {sample}" for sample in sorted(samples(families) ^ samples(open_families))]
    assert listening.path == "/v1/metrics", listening.path
    kinds = {"counter": "sum", "unknown": "sum"}
    wanted = {f.name + ("_total" if f.type == "counter" else ""): kinds.get(f.type, f.type) for f in families}
    wrong += [f"to the collector: {name} {kind}" for name, kind in sorted(wanted.items() ^ sent(listening.body).items())]
    print("\n".join(wrong) or f"{len(families)} families, {len(samples(families))} samples")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
