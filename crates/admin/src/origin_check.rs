//! Whether a request for the page comes from the page, or from the user by hand.
//!
//! Browsers send a user's typed name and password with every request to this server, whichever page makes it, and any
//! page may have a name whose address becomes this server's (DNS rebinding). So two things are checked:
//!
//! **The host that the browser believes to talk to.** Only names under control of others can be rebound. An address
//! cannot, `localhost` cannot, and a name that the configuration has is the owner's. With TLS the certificate has
//! proved the name to the browser.
//!
//! **The page that asks.** `Sec-Fetch-Site` and `Origin` are set by browsers alone, and no page can change them. A
//! program that is no browser sends neither, and only its user can make it send requests.

use hyper::HeaderMap;
use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::http::uri::Authority;
use std::net::{Ipv4Addr, Ipv6Addr};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns whether the requested host is certainly this server's. `names`: the names in the configuration.
pub(crate) fn is_own_host(headers: &HeaderMap, is_encrypted: bool, names: &[String]) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(authority) = Authority::try_from(host.as_bytes()) else { return false };
    is_encrypted || is_own_name(authority.host(), names)
}

fn is_own_name(host: &str, names: &[String]) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host.parse::<Ipv4Addr>().is_ok()
        || host == "localhost"
        || host.ends_with(".localhost")
        || names.iter().any(|name| name.eq_ignore_ascii_case(&host))
}

/// Returns whether no other page has made the request.
pub(crate) fn is_same_origin(headers: &HeaderMap) -> bool {
    let site_is_fine = headers.get_all(SEC_FETCH_SITE).iter().all(|site| site == "same-origin" || site == "none");
    let host = headers.get(HOST).map_or(&[][..], |host| host.as_bytes());
    let is_own = |origin: &[u8]| {
        let rest = origin.strip_prefix(b"https://").or(origin.strip_prefix(b"http://"));
        rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
    };
    site_is_fine && headers.get_all(ORIGIN).iter().all(|origin| is_own(origin.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn addresses_localhost_and_configured_names_are_ours() {
        let names = ["db1.example.org".to_owned()];
        for (host, is_own) in [
            ("127.0.0.1", true),
            ("127.0.0.1:9121", true),
            ("10.0.0.7:9121", true),
            ("[::1]:9121", true),
            ("localhost:9121", true),
            ("LOCALHOST.", true),
            ("a.localhost:9121", true),
            ("DB1.example.org:9121", true),
            ("evil.example.org:9121", false),
            ("127.0.0.1.evil.org", false),
            ("localhost.evil.org", false),
            ("notlocalhost", false),
            ("[::1", false),
            ("[evil.org]:9121", false),
            ("", false),
            ("a b", false),
        ] {
            assert_eq!(is_own_host(&headers(&[("host", host)]), false, &names), is_own, "{host}");
        }
        assert!(!is_own_host(&HeaderMap::new(), false, &names), "no host");
        let mut twice = headers(&[("host", "127.0.0.1")]);
        twice.append(HOST, HeaderValue::from_static("evil.org"));
        assert!(!is_own_host(&twice, false, &names));
        assert!(is_own_host(&headers(&[("host", "any.org")]), true, &names), "the certificate says so");
    }

    #[test]
    fn other_pages_are_told_apart() {
        let from = |pairs: &[(&'static str, &'static str)]| {
            let host = [("host", "127.0.0.1:9121")];
            is_same_origin(&headers(&[&host[..], pairs].concat()))
        };
        assert!(from(&[]), "no browser");
        assert!(from(&[("origin", "http://127.0.0.1:9121"), ("sec-fetch-site", "same-origin")]));
        assert!(from(&[("origin", "https://127.0.0.1:9121")]), "behind what encrypts");
        assert!(from(&[("sec-fetch-site", "none")]), "typed by the user");
        for wrong in [
            ("origin", "null"),
            ("origin", "http://evil.org"),
            ("origin", "http://127.0.0.1"),
            ("origin", "http://127.0.0.1:80"),
            ("origin", "127.0.0.1:9121"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert!(!from(&[wrong]), "{wrong:?}");
        }
        assert!(!from(&[("origin", "http://127.0.0.1:9121"), ("sec-fetch-site", "cross-site")]));
    }
}
