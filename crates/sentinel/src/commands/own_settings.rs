//! SENTINEL CONFIG GET and SET: settings of the Sentinel itself.

use super::option_checks::{Refusal, check_words};
use crate::sentinel_settings::yes_or_no;
use crate::watch::Watch;
use resp::number::parse_i64;
use resp::reply::Reply;

pub(super) const OPTIONS: [&str; 7] = [
    "resolve-hostnames",
    "announce-hostnames",
    "announce-ip",
    "announce-port",
    "sentinel-user",
    "sentinel-pass",
    "loglevel",
];
const LEVELS: [&str; 5] = ["debug", "verbose", "notice", "warning", "nothing"];

/// Shows options that match patterns, in the order of the patterns, each option once.
pub(super) fn get(watch: &Watch, patterns: &[&[u8]], reply: &mut Reply) {
    let mut found: Vec<&str> = Vec::new();
    for pattern in patterns {
        for name in OPTIONS {
            if engine::glob::matches_ignoring_case(pattern, name.as_bytes()) && !found.contains(&name) {
                found.push(name);
            }
        }
    }
    reply.map(found.len());
    for name in found {
        reply.bulk(name.as_bytes());
        reply.bulk(&watch.settings().value(name, watch.host()));
    }
}

/// Sets options; all of them are checked before any takes effect. Returns whether connections to other Sentinels must
/// be made anew.
pub(super) fn set(watch: &mut Watch, words: &[&[u8]]) -> Result<bool, Refusal> {
    check_words(words, 3, "SENTINEL CONFIG SET")?;
    let mut seen: Vec<String> = Vec::new();
    let mut changes: Vec<(String, &[u8])> = Vec::new();
    for pair in words.chunks(2) {
        let option = String::from_utf8_lossy(pair[0]).into_owned();
        let lower = option.to_ascii_lowercase();
        if !OPTIONS.contains(&lower.as_str()) {
            return Err(format!("ERR Invalid argument '{option}' to SENTINEL CONFIG SET"));
        }
        if seen.contains(&lower) {
            return Err(format!("ERR Duplicate argument '{option}' to SENTINEL CONFIG SET"));
        }
        let Some(&value) = pair.get(1) else {
            return Err(format!("ERR Missing argument '{option}' value"));
        };
        if !is_valid(&lower, value) {
            let value = String::from_utf8_lossy(value);
            return Err(format!("ERR Invalid value '{value}' to SENTINEL CONFIG SET '{option}'"));
        }
        seen.push(lower.clone());
        changes.push((lower, value));
    }
    let mut must_reconnect = false;
    let (settings, host) = watch.settings_mut();
    for (option, value) in changes {
        must_reconnect |= settings.change(&option, value, host);
    }
    Ok(must_reconnect)
}

fn is_valid(option: &str, value: &[u8]) -> bool {
    let text = String::from_utf8_lossy(value).to_ascii_lowercase();
    match option {
        "resolve-hostnames" | "announce-hostnames" => yes_or_no(&text).is_some(),
        "announce-port" => parse_i64(value).is_some_and(|port| (0..=65535).contains(&port)),
        "loglevel" => LEVELS.contains(&text.as_str()),
        _ => true,
    }
}
