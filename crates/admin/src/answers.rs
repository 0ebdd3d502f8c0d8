//! Answers in the form of HTTP.

use crate::page::PAGE;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde_json::json;

/// An answer whose body is complete.
pub(crate) type Answer = Response<Full<Bytes>>;

pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Returns an answer of one line of text.
pub(crate) fn plain(status: StatusCode, text: &'static str) -> Answer {
    said(status, TEXT, text.to_owned())
}

/// Returns an answer that no cache stores, and whose type browsers do not guess.
pub(crate) fn said(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    for (name, value) in [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")] {
        response = with(response, name, value);
    }
    response
}

/// Returns the message of a failure, for programs.
pub(crate) fn failed(status: StatusCode, why: &str) -> Answer {
    said(status, JSON, format!("{}\n", json!({ "error": why })))
}

/// Adds a header.
pub(crate) fn with(mut response: Answer, name: HeaderName, value: &'static str) -> Answer {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

/// Returns the page, which no other page may embed or keep a handle of.
pub(crate) fn page() -> Answer {
    let mut response = said(StatusCode::OK, HTML, PAGE.html.clone());
    if let Ok(policy) = HeaderValue::from_str(&PAGE.policy) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    let response = with(response, OPENER_POLICY, "same-origin");
    let response = with(response, RESOURCE_POLICY, "same-origin");
    with(response, REFERRER_POLICY, "same-origin")
}
