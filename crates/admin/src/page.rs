//! The page: one document with its style and its script within it.
//!
//! Its parts lie in the folder `page`: a document with two marks, a style, and scripts that share one scope, each of
//! which may use those before it. They are put together once, without indentation and lines of comment. The policy that
//! goes with the page names the digests of its style and its script: a browser runs nothing else, wherever it may come
//! from.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// Bytes that the page has at most: it is all of the first load.
#[cfg(test)]
const SIZE_MAX: usize = 100_000;

const DOCUMENT: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPTS: &[&str] = &[
    include_str!("page/dom.js"),
    include_str!("page/format.js"),
    include_str!("page/server.js"),
    include_str!("page/chart.js"),
    include_str!("page/table.js"),
    include_str!("page/overview.js"),
    include_str!("page/latency.js"),
    include_str!("page/workers.js"),
    include_str!("page/clients.js"),
    include_str!("page/command_log.js"),
    include_str!("page/hot_keys.js"),
    include_str!("page/memory.js"),
    include_str!("page/value.js"),
    include_str!("page/keys.js"),
    include_str!("page/topology.js"),
    include_str!("page/reply.js"),
    include_str!("page/syntax.js"),
    include_str!("page/console.js"),
    include_str!("page/main.js"),
];

const STYLE_MARK: &str = "@style@";
const SCRIPT_MARK: &str = "@script@";

/// The answer to `/`.
pub(crate) struct Page {
    /// The document.
    pub html: String,
    /// `Content-Security-Policy`.
    pub policy: String,
}

/// The page, put together.
pub(crate) static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let (style, script) = (without_indentation(&[STYLE]), without_indentation(SCRIPTS));
    let html = DOCUMENT.replacen(STYLE_MARK, &style, 1).replacen(SCRIPT_MARK, &script, 1);
    let digest = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        digest(&script),
        digest(&style),
    );
    Page { html, policy }
});

/// Drops text that is only for people. No text of the scripts spans more than one line.
fn without_indentation(sources: &[&str]) -> String {
    let lines = sources.iter().flat_map(|source| source.lines()).map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_whole() {
        let html = &PAGE.html;
        assert!(html.len() < SIZE_MAX, "{} bytes", html.len());
        assert!(!html.contains(STYLE_MARK) && !html.contains(SCRIPT_MARK));
        assert_eq!((html.matches("<script").count(), html.matches("<style").count()), (1, 1));
        assert_eq!(html.matches("</script").count(), 1, "no script ends the script");
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_nothing_becomes_markup() {
        // The namespace of drawings is a name and no address.
        let page = PAGE.html.replace("http://www.w3.org/2000/svg", "");
        for word in ["http://", "https://", "@import", "url(", "innerHTML", "outerHTML", "insertAdjacent", "eval("] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn no_text_goes_over_more_than_one_line() {
        let lines = SCRIPTS.iter().flat_map(|script| script.lines()).filter(|line| !line.trim().starts_with("//"));
        for line in lines {
            // A mark that is part of a text or of an expression.
            let marks = line.matches('`').count() - line.matches("\"`\"").count();
            assert!(marks.is_multiple_of(2), "{line}");
        }
    }

    #[test]
    fn the_policy_names_what_is_there() {
        let within = |open: &str, close: &str| {
            let (_, rest) = PAGE.html.split_once(open).unwrap();
            rest.split_once(close).unwrap().0
        };
        for text in [within("<script type=\"module\">", "</script>"), within("<style>", "</style>")] {
            let digest = STANDARD.encode(Sha256::digest(text.as_bytes()));
            assert!(PAGE.policy.contains(&format!("'sha256-{digest}'")));
        }
    }
}
