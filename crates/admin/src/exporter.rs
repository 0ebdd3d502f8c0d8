//! Sends metrics to a collector now and then, as OTLP over HTTP.
//!
//! A request that fails is not repeated: the next one tells all that it would have told. The log hears of the first of
//! several failures, and of the end of them.

use crate::backend::Backend;
use crate::otlp::{self, Times};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// How long a request may take.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read.
const ANSWER_MAX: usize = 64 << 10;
/// The port for OTLP over HTTP.
const PORT: u16 = 4318;
/// Where metrics are taken, if the endpoint does not say.
const PATH: &str = "/v1/metrics";

/// Where metrics are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    path: String,
}

impl Endpoint {
    /// Of `http://host[:port][/path]`.
    pub fn parse(text: &str) -> Option<Endpoint> {
        let uri: Uri = text.parse().ok()?;
        if uri.scheme_str() != Some("http") || uri.authority()?.as_str().contains('@') {
            return None;
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Some(Endpoint {
            host: uri.host()?.to_owned(),
            port: uri.port_u16().unwrap_or(PORT),
            path: if path == "/" { PATH.to_owned() } else { path.to_owned() },
        })
    }
}

/// What is sent where, and how often.
#[derive(Clone, Debug)]
pub struct Export {
    /// To whom.
    pub endpoint: Endpoint,
    /// The time between two.
    pub interval: Duration,
    /// What the process is, by the names of OpenTelemetry's conventions.
    pub resource: Vec<(&'static str, String)>,
    /// Nanoseconds of Unix time at which the process began to count.
    pub start: u64,
}

/// Sends until the runtime ends.
pub(crate) async fn run(export: Export, backend: Arc<dyn Backend>) {
    let mut ticks = interval(export.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut fails = false;
    loop {
        ticks.tick().await;
        let sent = timeout(REQUEST_TIME, send(&export, &*backend)).await;
        let failure = sent.unwrap_or_else(|_| Err("it does not answer".to_owned())).err();
        let Endpoint { host, port, .. } = &export.endpoint;
        match &failure {
            Some(why) if !fails => backend.warn(&format!("Metrics cannot be sent to {host}:{port}: {why}")),
            None if fails => backend.warn(&format!("Metrics are sent to {host}:{port} again")),
            _ => {}
        }
        fails = failure.is_some();
    }
}

async fn send(export: &Export, backend: &dyn Backend) -> Result<(), String> {
    let Endpoint { host, port, path } = &export.endpoint;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let times = Times { start: export.start, now: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX) };
    let body = otlp::request(&backend.families(), &export.resource, times).to_string();
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    // An IPv6 address stands in brackets in the text of an endpoint.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let socket = TcpStream::connect((name, *port)).await.map_err(|error| failed(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.map_err(|error| failed(&error))?;
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(HOST, format!("{host}:{port}"))
        .header(USER_AGENT, "cinnabar")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| failed(&error))?;
    // It ends with the sender.
    tokio::spawn(async move { _ = connection.await });
    let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
    let status = response.status();
    // Until its end, so that the collector is not cut off.
    let _ = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
    if status.is_success() { Ok(()) } else { Err(format!("it answers {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        let is = |host: &str, port, path: &str| Some(Endpoint { host: host.to_owned(), port, path: path.to_owned() });
        for (text, endpoint) in [
            ("http://collector", is("collector", 4318, "/v1/metrics")),
            ("http://collector:80/", is("collector", 80, "/v1/metrics")),
            ("http://[::1]:1/otlp/v1/metrics?a=b", is("[::1]", 1, "/otlp/v1/metrics?a=b")),
            ("https://collector", None),
            ("http://user@collector", None),
            ("collector:4318", None),
            ("", None),
        ] {
            assert_eq!(Endpoint::parse(text), endpoint, "{text}");
        }
    }
}
