//! One connection: a handshake where there is TLS, one request, one answer, and the end.
//!
//! A connection has a few seconds for all of it, a request a few kilobytes of head, and its body is not read. So what a
//! connection takes up is known, whatever its peer does.

use crate::backend::{Access, Backend, Caller};
use crate::negotiation::{self, Format};
use crate::{open_metrics, prometheus};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, VARY, WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// Bytes and headers of a request's head, at most. The bytes are the fewest that the library takes.
const HEAD_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// What `/` says.
const CONTENTS: &str = "/metrics\n/healthz\n/readyz\n";

/// Answers the request of a connection. What goes wrong with it is its peer's affair.
pub(crate) async fn serve(socket: TcpStream, address: IpAddr, backend: &Arc<dyn Backend>) {
    // An answer's last part does not wait for more: there is none.
    let _ = socket.set_nodelay(true);
    match backend.tls() {
        Ok(None) => converse(socket, address, None, backend).await,
        Ok(Some(settings)) => {
            if let Ok(stream) = TlsAcceptor::from(settings).accept(socket).await {
                let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).cloned();
                let certificate = shown.map(CertificateDer::into_owned);
                converse(stream, address, certificate, backend).await;
            }
        }
        Err(error) => backend.warn(&format!("The admin port cannot encrypt: {error}")),
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    address: IpAddr,
    certificate: Option<CertificateDer<'static>>,
    backend: &Arc<dyn Backend>,
) {
    let answer = |request: Request<Incoming>| {
        let response = route(&request, address, certificate.clone(), &**backend);
        async move { Ok::<_, Infallible>(response) }
    };
    let mut protocol = http1::Builder::new();
    protocol.keep_alive(false).max_buf_size(HEAD_MAX).max_headers(HEADERS_MAX).header_read_timeout(None);
    // An error has been answered, or there is nobody to answer.
    let _ = protocol.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

/// What comes of a request.
fn route<B>(
    request: &Request<B>,
    address: IpAddr,
    certificate: Option<CertificateDer<'static>>,
    backend: &dyn Backend,
) -> Response<Full<Bytes>> {
    let answer: fn(&Request<B>, &dyn Backend) -> Response<Full<Bytes>> = match request.uri().path() {
        "/" => |_, _| plain(StatusCode::OK, CONTENTS),
        "/healthz" => |_, _| plain(StatusCode::OK, "ok\n"),
        "/readyz" => |_, backend| readiness(backend),
        "/metrics" => metrics,
        _ => return plain(StatusCode::NOT_FOUND, "not found\n"),
    };
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return with(plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n"), ALLOW, "GET, HEAD");
    }
    if request.uri().path() == "/metrics" {
        let credentials = request.headers().get(AUTHORIZATION).map(|value| negotiation::credentials(value.as_bytes()));
        // What cannot be read is no way in, even where none is needed.
        let access = match credentials {
            Some(None) => Access::Unknown,
            given => backend.authorize(&Caller { address, certificate, credentials: given.flatten() }),
        };
        match access {
            Access::Granted => {}
            Access::Unknown => {
                let asked = plain(StatusCode::UNAUTHORIZED, "a user with a password is needed\n");
                return with(asked, WWW_AUTHENTICATE, "Basic realm=\"cinnabar\", charset=\"UTF-8\"");
            }
            Access::Forbidden => return plain(StatusCode::FORBIDDEN, "the user may not run INFO\n"),
        }
    }
    answer(request, backend)
}

fn metrics<B>(request: &Request<B>, backend: &dyn Backend) -> Response<Full<Bytes>> {
    let accept = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let accept: Vec<&str> = accept.collect();
    let families = backend.families();
    let response = match negotiation::format(&accept.join(",")) {
        Format::Prometheus => said(StatusCode::OK, prometheus::CONTENT_TYPE, prometheus::text(&families)),
        Format::OpenMetrics => said(StatusCode::OK, open_metrics::CONTENT_TYPE, open_metrics::text(&families)),
    };
    with(response, VARY, "Accept")
}

fn readiness(backend: &dyn Backend) -> Response<Full<Bytes>> {
    let reasons = backend.not_ready();
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = serde_json::json!({ "ready": reasons.is_empty(), "reasons": reasons });
    said(status, JSON, format!("{body}\n"))
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    said(status, TEXT, text.to_owned())
}

fn said(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    with(with(response, CONTENT_TYPE, kind), CACHE_CONTROL, "no-store")
}

fn with(mut response: Response<Full<Bytes>>, name: HeaderName, value: &'static str) -> Response<Full<Bytes>> {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Credentials;
    use crate::family::{Family, Kind};
    use http_body_util::BodyExt;
    use rustls::ServerConfig;
    use std::io;
    use std::net::Ipv4Addr;

    /// Knows one user, and says why it is not ready.
    struct Known(Vec<String>);

    impl Backend for Known {
        fn authorize(&self, caller: &Caller) -> Access {
            match &caller.credentials {
                Some(Credentials { name, password }) if name == b"a" && password == b"b" => Access::Granted,
                Some(Credentials { name, .. }) if name == b"weak" => Access::Forbidden,
                _ => Access::Unknown,
            }
        }

        fn families(&self) -> Vec<Family> {
            vec![Family::number("up", Kind::Gauge, "Up.", 1.0)]
        }

        fn not_ready(&self) -> Vec<String> {
            self.0.clone()
        }

        fn tls(&self) -> io::Result<Option<Arc<ServerConfig>>> {
            Ok(None)
        }

        fn warn(&self, _: &str) {}
    }

    /// Status, kind and body of the answer.
    fn ask(method: &str, path: &str, headers: &[(&str, &str)], reasons: &[&str]) -> (u16, String, String) {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let backend = Known(reasons.iter().map(|reason| (*reason).to_owned()).collect());
        let response = route(&request.body(()).unwrap(), Ipv4Addr::LOCALHOST.into(), None, &backend);
        let (head, body) = response.into_parts();
        let kind = head.headers[CONTENT_TYPE].to_str().unwrap().to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = runtime.block_on(body.collect()).unwrap().to_bytes();
        (head.status.as_u16(), kind, String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn probes_need_nobody() {
        assert_eq!(ask("GET", "/healthz", &[], &["loading"]), (200, TEXT.to_owned(), "ok\n".to_owned()));
        let (status, kind, body) = ask("GET", "/readyz?verbose", &[], &[]);
        assert_eq!((status, &*kind, &*body), (200, JSON, "{\"ready\":true,\"reasons\":[]}\n"));
        let (status, _, body) = ask("HEAD", "/readyz", &[], &["loading", "disk"]);
        assert_eq!((status, &*body), (503, "{\"ready\":false,\"reasons\":[\"loading\",\"disk\"]}\n"));
    }

    #[test]
    fn metrics_are_for_who_may_see_them() {
        let of = |authorization: &str| ask("GET", "/metrics", &[("authorization", authorization)], &[]).0;
        assert_eq!(ask("GET", "/metrics", &[], &[]).0, 401);
        assert_eq!((of("Basic YTpi"), of("Basic d2Vhazp4"), of("Basic YTp4"), of("Bearer x")), (200, 403, 401, 401));
    }

    #[test]
    fn the_format_is_the_one_that_is_asked_for() {
        let as_a = ("authorization", "Basic YTpi");
        let (_, kind, body) = ask("GET", "/metrics", &[as_a], &[]);
        assert_eq!((&*kind, &*body), (prometheus::CONTENT_TYPE, "# HELP up Up.\n# TYPE up gauge\nup 1\n"));
        let accepts = [as_a, ("accept", "text/plain;q=0.1"), ("accept", "application/openmetrics-text;q=0.2")];
        let (_, kind, body) = ask("GET", "/metrics", &accepts, &[]);
        assert_eq!((&*kind, body.ends_with("# EOF\n")), (open_metrics::CONTENT_TYPE, true));
    }

    #[test]
    fn what_is_not_there_is_said() {
        assert_eq!((ask("GET", "/nope", &[], &[]).0, ask("POST", "/metrics", &[], &[]).0), (404, 405));
        assert_eq!(ask("GET", "/", &[], &[]), (200, TEXT.to_owned(), CONTENTS.to_owned()));
    }
}
