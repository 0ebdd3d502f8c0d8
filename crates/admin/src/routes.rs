//! The answer to a request: permissions, and the form of the answer.
//!
//! | route | method | for |
//! |---|---|---|
//! | `/healthz`, `/readyz` | GET | anybody |
//! | all others | | addresses that protected mode lets in |
//! | `/metrics` | GET | who may run INFO |
//! | `/` | GET | the same, at this server's own name |
//! | `/login` | GET | the same, by name and password even where none is needed; leads to `/` |
//! | `/live` | GET | the same, and from the page |
//! | `/command` | POST | the same, and JSON |

use crate::answers::{Answer, JSON, failed, page, plain, said, with};
use crate::backend::{Access, Backend, Caller};
use crate::command_permits::Failure;
use crate::http_connection::Site;
use crate::negotiation::{self, Format};
use crate::origin_check::{is_own_host, is_same_origin};
use crate::{open_metrics, prometheus};
use hyper::body::Body;
use hyper::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, LOCATION, VARY, WWW_AUTHENTICATE};
use hyper::{HeaderMap, Method, Request, StatusCode};
use rustls::pki_types::CertificateDer;
use serde_json::json;
use std::net::SocketAddr;

const PROTECTED: &str = "protected mode: without a password for the default user only probes are answered from other \
    machines; set one, or protected-mode no\n";

/// Returns whether the request is a probe, which is answered at once and from a few flags alone.
pub(crate) fn is_probe<B>(request: &Request<B>) -> bool {
    Route::of(request.uri().path()).is_some_and(Route::is_probe)
}

/// The way in which a request has come.
pub(crate) struct Arrival {
    pub address: SocketAddr,
    pub local_address: SocketAddr,
    pub certificate: Option<CertificateDer<'static>>,
    pub is_encrypted: bool,
}

/// The routes of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Page,
    Login,
    Live,
    Command,
    Metrics,
    Health,
    Readiness,
}

impl Route {
    fn of(path: &str) -> Option<Route> {
        Some(match path {
            "/" => Route::Page,
            "/login" => Route::Login,
            "/live" => Route::Live,
            "/command" => Route::Command,
            "/metrics" => Route::Metrics,
            "/healthz" => Route::Health,
            "/readyz" => Route::Readiness,
            _ => return None,
        })
    }

    fn takes(self, method: &Method) -> bool {
        match self {
            Route::Command => method == Method::POST,
            _ => method == Method::GET || method == Method::HEAD,
        }
    }

    /// Returns whether the route is for orchestrators, which may come from anywhere and have no user.
    fn is_probe(self) -> bool {
        matches!(self, Route::Health | Route::Readiness)
    }

    /// Returns whether the route is for browsers, which send their user's credentials for whichever page asks.
    fn is_of_page(self) -> bool {
        matches!(self, Route::Page | Route::Login | Route::Live | Route::Command)
    }
}

/// Answers a request.
pub(crate) async fn answer<B: Body<Error: Into<Failure>>>(
    request: Request<B>,
    arrival: &Arrival,
    site: &Site,
) -> Answer {
    let backend = &*site.backend;
    let (head, body) = request.into_parts();
    let route = Route::of(head.uri.path());
    if !route.is_some_and(Route::is_probe) && !backend.admits(arrival.address) {
        return plain(StatusCode::FORBIDDEN, PROTECTED);
    }
    let Some(route) = route else { return plain(StatusCode::NOT_FOUND, "not found\n") };
    if !route.takes(&head.method) {
        let allowed = if route == Route::Command { "POST" } else { "GET, HEAD" };
        return with(plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n"), ALLOW, allowed);
    }
    match route {
        Route::Health => return plain(StatusCode::OK, "ok\n"),
        Route::Readiness => return readiness(backend),
        _ => {}
    }
    if let Some(refusal) = refusal(route, &head.headers, arrival, backend) {
        return refusal;
    }
    let (caller, user) = match granted(route, &head.headers, arrival, backend) {
        Ok(granted) => granted,
        Err(refusal) => return *refusal,
    };
    match route {
        Route::Metrics => metrics(&head.headers, backend),
        Route::Live => said(StatusCode::OK, JSON, format!("{}\n", backend.live(user.as_deref()).json())),
        Route::Command => site.handle.answer(body, &caller, user.as_deref(), backend).await,
        Route::Login => with(plain(StatusCode::SEE_OTHER, "the page is at /\n"), LOCATION, "/"),
        _ => page(),
    }
}

/// Returns the reason to believe that another page made the browser ask.
fn refusal(route: Route, headers: &HeaderMap, arrival: &Arrival, backend: &dyn Backend) -> Option<Answer> {
    if !route.is_of_page() {
        return None;
    }
    if !is_own_host(headers, arrival.is_encrypted, &backend.host_names()) {
        let text = "this name is not the server's: ask by its address, or tell it the name with admin-host-names\n";
        return Some(plain(StatusCode::MISDIRECTED_REQUEST, text));
    }
    // Links to the page may be anywhere.
    if !matches!(route, Route::Page | Route::Login) && !is_same_origin(headers) {
        return Some(failed(StatusCode::FORBIDDEN, "another page asks for this"));
    }
    let is_json = |kind: &str| kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(JSON));
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if route == Route::Command && !kind.is_some_and(is_json) {
        return Some(failed(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body has to be application/json"));
    }
    None
}

/// Returns the caller's user, if the caller may.
fn granted(
    route: Route,
    headers: &HeaderMap,
    arrival: &Arrival,
    backend: &dyn Backend,
) -> Result<(Caller, Option<Vec<u8>>), Box<Answer>> {
    let credentials = headers.get(AUTHORIZATION).map(|value| negotiation::credentials(value.as_bytes()));
    // Unreadable credentials are refused, even where none are needed.
    let is_unusable = credentials == Some(None) || (route == Route::Login && credentials.is_none());
    let caller = Caller {
        address: arrival.address,
        local_address: arrival.local_address,
        certificate: arrival.certificate.clone(),
        credentials: credentials.flatten(),
    };
    let access = if is_unusable { Access::Unknown } else { backend.authorize(&caller) };
    match access {
        Access::Granted { user } => Ok((caller, user)),
        Access::Unknown => {
            let asked = plain(StatusCode::UNAUTHORIZED, "a user with a password is needed\n");
            Err(Box::new(with(asked, WWW_AUTHENTICATE, "Basic realm=\"cinnabar\", charset=\"UTF-8\"")))
        }
        Access::Forbidden => Err(Box::new(plain(StatusCode::FORBIDDEN, "the user may not run INFO\n"))),
    }
}

fn metrics(headers: &HeaderMap, backend: &dyn Backend) -> Answer {
    let accept: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let families = backend.families();
    let response = match negotiation::format(&accept.join(",")) {
        Format::Prometheus => said(StatusCode::OK, prometheus::CONTENT_TYPE, prometheus::text(&families)),
        Format::OpenMetrics => said(StatusCode::OK, open_metrics::CONTENT_TYPE, open_metrics::text(&families)),
    };
    with(response, VARY, "Accept")
}

fn readiness(backend: &dyn Backend) -> Answer {
    let reasons = backend.not_ready();
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({ "ready": reasons.is_empty(), "reasons": reasons });
    said(status, JSON, format!("{body}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::TEXT;
    use crate::backend::Credentials;
    use crate::command_permits::{BODY_MAX, CommandPermits};
    use crate::family::{Family, Kind};
    use crate::live::Live;
    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};
    use rustls::ServerConfig;
    use std::io::{self, Read, Write};
    use std::net::Ipv4Addr;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::thread;

    /// A backend that has one user, returns the reasons that it is not ready, and replies +OK to a greeting and a PING.
    struct Known(Vec<String>);

    impl Backend for Known {
        fn admits(&self, address: SocketAddr) -> bool {
            address.ip().is_loopback()
        }

        fn authorize(&self, caller: &Caller) -> Access {
            match &caller.credentials {
                Some(Credentials { name, password }) if name == b"a" && password == b"b" => {
                    Access::Granted { user: Some(name.clone()) }
                }
                Some(Credentials { name, .. }) if name == b"weak" => Access::Forbidden,
                _ => Access::Unknown,
            }
        }

        fn families(&self) -> Vec<Family> {
            vec![Family::number("up", Kind::Gauge, "Up.", 1.0)]
        }

        fn live(&self, user: Option<&[u8]>) -> Live {
            Live { user: user.map(|name| String::from_utf8_lossy(name).into_owned()), ..Live::default() }
        }

        fn connect(&self, _: &Caller, user: Option<&[u8]>) -> Result<UnixStream, String> {
            assert_eq!(user, Some(&b"a"[..]));
            if !self.0.is_empty() {
                return Err("full".to_owned());
            }
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            thread::spawn(move || {
                for request in ["*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", "*1\r\n$4\r\nPING\r\n"] {
                    theirs.read_exact(&mut vec![0; request.len()]).unwrap();
                    theirs.write_all(b"+OK\r\n").unwrap();
                }
                // The loop runs until the other end has enough.
                let _ = theirs.read_to_end(&mut Vec::new());
            });
            Ok(ours)
        }

        fn unsuitable(&self, command: &[Vec<u8>]) -> Option<String> {
            (command[0] == b"BLPOP").then(|| "it waits".to_owned())
        }

        fn host_names(&self) -> Vec<String> {
            vec!["db1".to_owned()]
        }

        fn not_ready(&self) -> Vec<String> {
            self.0.clone()
        }

        fn tls(&self) -> io::Result<Option<Arc<ServerConfig>>> {
            Ok(None)
        }

        fn warn(&self, _: &str) {}
    }

    const AS_A: (&str, &str) = ("authorization", "Basic YTpi");
    const HOST: (&str, &str) = ("host", "127.0.0.1:9121");
    const AS_JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
    const PING: &str = r#"{"commands":[["PING"]]}"#;

    /// Returns head and body of the answer to a request with this body.
    fn send(
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        reasons: &[&str],
        body: &str,
    ) -> (hyper::http::response::Parts, String) {
        send_from(Ipv4Addr::LOCALHOST, method, path, headers, reasons, body)
    }

    fn send_from(
        ip: Ipv4Addr,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        reasons: &[&str],
        body: &str,
    ) -> (hyper::http::response::Parts, String) {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let backend = Known(reasons.iter().map(|reason| (*reason).to_owned()).collect());
        let site = Site { backend: Arc::new(backend), handle: CommandPermits::new() };
        let address = SocketAddr::from((ip, 1));
        let arrival = Arrival { address, local_address: address, certificate: None, is_encrypted: false };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().unwrap();
        runtime.block_on(async {
            let body = Full::new(Bytes::from(body.to_owned()));
            let (head, body) = answer(request.body(body).unwrap(), &arrival, &site).await.into_parts();
            (head, String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap())
        })
    }

    /// Returns status, type and body of the answer.
    fn ask(method: &str, path: &str, headers: &[(&str, &str)], reasons: &[&str]) -> (u16, String, String) {
        let (head, body) = send(method, path, headers, reasons, "");
        let kind = head.headers[CONTENT_TYPE].to_str().unwrap().to_owned();
        assert_eq!(head.headers["x-content-type-options"], "nosniff");
        assert_eq!(head.headers["cache-control"], "no-store");
        (head.status.as_u16(), kind, body)
    }

    fn command(headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let (head, body) = send("POST", "/command", &[&[AS_A][..], headers].concat(), &[], body);
        (head.status.as_u16(), body)
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
    fn only_probes_are_answered_where_protected_mode_lets_nobody_in() {
        let far = Ipv4Addr::new(10, 0, 0, 1);
        for (method, path, status) in [
            ("GET", "/healthz", 200),
            ("GET", "/readyz", 200),
            ("POST", "/healthz", 405),
            ("GET", "/metrics", 403),
            ("GET", "/", 403),
            ("GET", "/live", 403),
            ("GET", "/login", 403),
            ("GET", "/nope", 403),
        ] {
            assert_eq!(send_from(far, method, path, &[HOST, AS_A], &[], "").0.status.as_u16(), status, "{path}");
        }
        let (head, body) = send_from(far, "POST", "/command", &[HOST, AS_A, AS_JSON], &[], PING);
        assert!(head.status == StatusCode::FORBIDDEN && body.starts_with("protected mode"), "{body}");
    }

    #[test]
    fn metrics_and_the_page_are_for_who_may_see_them() {
        for path in ["/metrics", "/", "/live"] {
            let of = |authorization: &str| ask("GET", path, &[HOST, ("authorization", authorization)], &[]).0;
            assert_eq!(ask("GET", path, &[HOST], &[]).0, 401);
            assert_eq!(
                (of("Basic YTpi"), of("Basic d2Vhazp4"), of("Basic YTp4"), of("Bearer x")),
                (200, 403, 401, 401)
            );
        }
        let (_, _, body) = ask("GET", "/live", &[HOST, AS_A], &[]);
        assert!(body.contains("\"user\":\"a\""), "{body}");
    }

    #[test]
    fn the_format_is_the_one_that_is_asked_for() {
        let (_, kind, body) = ask("GET", "/metrics", &[AS_A], &[]);
        assert_eq!((&*kind, &*body), (prometheus::CONTENT_TYPE, "# HELP up Up.\n# TYPE up gauge\nup 1\n"));
        let accepts = [AS_A, ("accept", "text/plain;q=0.1"), ("accept", "application/openmetrics-text;q=0.2")];
        let (_, kind, body) = ask("GET", "/metrics", &accepts, &[]);
        assert_eq!((&*kind, body.ends_with("# EOF\n")), (open_metrics::CONTENT_TYPE, true));
    }

    #[test]
    fn unknown_pages_and_methods_get_a_status_that_says_so() {
        assert_eq!((ask("GET", "/nope", &[], &[]).0, ask("POST", "/metrics", &[], &[]).0), (404, 405));
        let (head, _) = send("GET", "/command", &[HOST, AS_A], &[], "");
        assert_eq!((head.status.as_u16(), &head.headers[ALLOW]), (405, &"POST".parse().unwrap()));
        assert_eq!(ask("OPTIONS", "/command", &[HOST, AS_A], &[]).0, 405, "no other page is let in");
    }

    #[test]
    fn the_page_comes_with_its_policy() {
        let (head, body) = send("GET", "/", &[HOST, AS_A], &[], "");
        let policy = head.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(body.starts_with("<!doctype html>"));
    }

    #[test]
    fn a_login_asks_for_a_password_and_leads_to_the_page() {
        assert_eq!(ask("GET", "/login", &[HOST], &[]).0, 401);
        let (head, _) = send("GET", "/login", &[HOST, AS_A], &[], "");
        assert_eq!((head.status.as_u16(), &head.headers[LOCATION]), (303, &"/".parse().unwrap()));
    }

    #[test]
    fn commands_are_run_as_the_user_of_the_page() {
        let (status, body) = command(&[HOST, AS_JSON, ("origin", "http://127.0.0.1:9121")], PING);
        assert_eq!((status, &*body), (200, "{\"replies\":[{\"status\":\"OK\"}]}\n"));
        assert_eq!(command(&[("host", "db1"), AS_JSON], PING).0, 200, "a name that is configured");
        let (head, body) = send("POST", "/command", &[HOST, AS_A, AS_JSON], &["full"], PING);
        assert_eq!((head.status.as_u16(), &*body), (503, "{\"error\":\"full\",\"replies\":[]}\n"));
    }

    #[test]
    fn commands_of_others_are_refused() {
        let form = ("content-type", "application/x-www-form-urlencoded");
        for (headers, status) in [
            (&[HOST][..], 415),
            (&[HOST, form], 415),
            (&[HOST, ("content-type", "text/plain")], 415),
            (&[("host", "evil.org"), AS_JSON], 421),
            (&[AS_JSON], 421),
            (&[HOST, AS_JSON, ("origin", "http://evil.org")], 403),
            (&[HOST, AS_JSON, ("origin", "null")], 403),
            (&[HOST, AS_JSON, ("sec-fetch-site", "cross-site")], 403),
            (&[HOST, AS_JSON, ("sec-fetch-site", "same-site")], 403),
        ] {
            assert_eq!(command(headers, PING).0, status, "{headers:?}");
        }
        for path in ["/", "/live"] {
            assert_eq!(ask("GET", path, &[AS_A, ("host", "evil.org")], &[]).0, 421);
        }
        let from_elsewhere = [HOST, AS_A, ("sec-fetch-site", "cross-site")];
        assert_eq!((ask("GET", "/", &from_elsewhere, &[]).0, ask("GET", "/live", &from_elsewhere, &[]).0), (200, 403));
        assert_eq!(send("POST", "/command", &[HOST, AS_JSON], &[], PING).0.status.as_u16(), 401);
    }

    #[test]
    fn bodies_are_bounded_and_understood() {
        let large = format!(r#"{{"commands":[["ECHO","{}"]]}}"#, "x".repeat(BODY_MAX));
        for (body, status) in
            [("", 400), ("{", 400), (&*large, 413), (r#"{"commands":[["PING"],["BLPOP","k","0"]]}"#, 422)]
        {
            assert_eq!(command(&[HOST, AS_JSON], body).0, status, "{body:.40}");
        }
    }
}
