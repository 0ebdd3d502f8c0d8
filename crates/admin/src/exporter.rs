//! Sends metrics to a collector now and then, as OTLP over HTTP.
//!
//! A request that fails is not repeated: the next one carries everything that it would have carried. The log receives
//! the first of several failures, and their end.

use crate::backend::Backend;
use crate::otlp::{self, Times};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsConnector;

/// Time of a request.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read.
const ANSWER_MAX: usize = 64 << 10;
/// The port for OTLP over HTTP, and that of `https`, if the endpoint names none.
const PORT: u16 = 4318;
const HTTPS_PORT: u16 = 443;
/// The path for metrics, if the endpoint names none.
const PATH: &str = "/v1/metrics";

/// The collector's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// TLS is used.
    pub is_encrypted: bool,
    host: String,
    port: u16,
    path: String,
}

impl Endpoint {
    /// Parses `http[s]://host[:port][/path]`.
    pub fn parse(text: &str) -> Option<Endpoint> {
        let uri: Uri = text.parse().ok()?;
        let is_encrypted = uri.scheme_str() == Some("https");
        if !(is_encrypted || uri.scheme_str() == Some("http")) || uri.authority()?.as_str().contains('@') {
            return None;
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Some(Endpoint {
            is_encrypted,
            host: uri.host()?.to_owned(),
            port: uri.port_u16().unwrap_or(if is_encrypted { HTTPS_PORT } else { PORT }),
            path: if path == "/" { PATH.to_owned() } else { path.to_owned() },
        })
    }
}

/// Parses lines of a request's head, in the form of OpenTelemetry's environment variables: `name=value,name=value`,
/// where values may have bytes as `%2C`. None: it is no such list.
pub fn parse_headers(text: &str) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let header = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let mut value = HeaderValue::from_bytes(&percent_decoded(value.trim())?).ok()?;
        value.set_sensitive(true);
        Some((name.trim().parse().ok()?, value))
    };
    parts.map(header).collect()
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut decoded) = (text.bytes(), Vec::new());
    while let Some(byte) = bytes.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        decoded.push(match byte {
            b'%' => (digit(bytes.next())? * 16 + digit(bytes.next())?) as u8,
            byte => byte,
        });
    }
    Some(decoded)
}

/// The settings of the export.
#[derive(Clone, Debug)]
pub struct Export {
    /// The collector.
    pub endpoint: Endpoint,
    /// The settings of TLS.
    pub tls: Option<Arc<ClientConfig>>,
    /// Additional headers of each request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The time between two requests.
    pub interval: Duration,
    /// The attributes of the process, by the names of OpenTelemetry's conventions.
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
    let Endpoint { host, port, .. } = &export.endpoint;
    // An IPv6 address stands in brackets in the text of an endpoint.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let failed = |error: io::Error| error.to_string();
    let socket = TcpStream::connect((name, *port)).await.map_err(failed)?;
    let Some(tls) = &export.tls else { return send_over(socket, export, backend).await };
    let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let socket = TlsConnector::from(Arc::clone(tls)).connect(name, socket).await.map_err(failed)?;
    send_over(socket, export, backend).await
}

async fn send_over(
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    export: &Export,
    backend: &dyn Backend,
) -> Result<(), String> {
    let Endpoint { host, port, path, .. } = &export.endpoint;
    #[expect(clippy::disallowed_methods, reason = "collectors are told the time of day")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let times = Times { start: export.start, now: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX) };
    let body = otlp::request(&backend.families(), &export.resource, times).to_string();
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.map_err(|error| failed(&error))?;
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(HOST, format!("{host}:{port}"))
        .header(USER_AGENT, "cinnabar")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| failed(&error))?;
    request.headers_mut().extend(export.headers.iter().cloned());
    // The task ends with the sender.
    tokio::spawn(async move { _ = connection.await });
    let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
    let status = response.status();
    // The answer is read to its end, so that the collector is not cut off.
    let _ = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
    if status.is_success() { Ok(()) } else { Err(format!("it answers {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        let is = |host: &str, port, path: &str| {
            let is_encrypted = port == HTTPS_PORT;
            Some(Endpoint { is_encrypted, host: host.to_owned(), port, path: path.to_owned() })
        };
        for (text, endpoint) in [
            ("http://collector", is("collector", 4318, "/v1/metrics")),
            ("http://collector:80/", is("collector", 80, "/v1/metrics")),
            ("http://[::1]:1/otlp/v1/metrics?a=b", is("[::1]", 1, "/otlp/v1/metrics?a=b")),
            ("https://collector/v1/otlp", is("collector", 443, "/v1/otlp")),
            ("ftp://collector", None),
            ("http://user@collector", None),
            ("collector:4318", None),
            ("", None),
        ] {
            assert_eq!(Endpoint::parse(text), endpoint, "{text}");
        }
    }

    #[test]
    fn headers_are_a_list() {
        let parsed = |text: &str| {
            let shown = |(name, value): (HeaderName, HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
            Some(parse_headers(text)?.into_iter().map(shown).collect::<Vec<_>>())
        };
        assert_eq!(parsed(""), Some(vec![]));
        assert_eq!(parsed("Api-Key=a=b%2C , x=y,"), Some(vec!["api-key: a=b,".to_owned(), "x: y".to_owned()]));
        for wrong in ["key", "a b=c", "k=%2", "k=%zz", "k=a%0Ab", "k=\u{1}"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
