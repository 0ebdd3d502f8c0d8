//! A request's headers about the wanted answer, and about the caller.

use crate::backend::Credentials;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The formats of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's text.
    Prometheus,
    /// OpenMetrics.
    OpenMetrics,
}

/// Returns the format that `Accept` asks for: OpenMetrics only where it is named, and wanted no less than text.
pub fn format(accept: &str) -> Format {
    let wanted = |names: &[&str]| {
        accept
            .split(',')
            .map(media_range)
            .filter(|(name, _)| names.iter().any(|known| name.eq_ignore_ascii_case(known)))
            .map(|(_, quality)| quality)
            .fold(0.0, f64::max)
    };
    let open = wanted(&["application/openmetrics-text"]);
    let text = wanted(&["text/plain", "text/*", "*/*"]);
    if open > 0.0 && open >= text { Format::OpenMetrics } else { Format::Prometheus }
}

/// Splits `text/plain; version=0.0.4; q=0.5` into the name and the weight.
fn media_range(range: &str) -> (&str, f64) {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let quality = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    (name, quality.map_or(1.0, |quality| quality.trim().parse().unwrap_or(0.0)))
}

/// Returns the name and password of `Authorization: Basic`; None for any other content.
pub fn credentials(authorization: &[u8]) -> Option<Credentials> {
    let (scheme, rest) = authorization.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let decoded = STANDARD.decode(rest.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(Credentials { name: decoded[..colon].to_vec(), password: decoded[colon + 1..].to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_for_who_names_it() {
        use Format::{OpenMetrics, Prometheus};
        for (accept, format_of) in [
            ("", Prometheus),
            ("*/*", Prometheus),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Prometheus),
            ("application/openmetrics-text", OpenMetrics),
            ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", OpenMetrics),
            ("application/openmetrics-text; version=1.0.0; q=0.2, text/plain; q=0.5", Prometheus),
            ("application/openmetrics-text;q=0", Prometheus),
            ("application/openmetrics-text;q=much", Prometheus),
            ("Application/OpenMetrics-Text;Q=0.4 , text/plain;q=0.4", OpenMetrics),
        ] {
            assert_eq!(format(accept), format_of, "{accept}");
        }
    }

    #[test]
    fn names_and_passwords() {
        let of = |text: &str| credentials(text.as_bytes());
        let is = |name: &str, password: &str| Some(Credentials { name: name.into(), password: password.into() });
        assert_eq!(of("Basic YTpi"), is("a", "b"));
        assert_eq!(of("basic  YTpiOmM="), is("a", "b:c"));
        assert_eq!(of("Basic Og=="), is("", ""));
        for wrong in ["", "Basic", "Basic ", "Basic YQ==", "Basic ???", "Bearer YTpi", "Basicä"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
