//! SENTINEL CONFIG GET and SET: settings of the Sentinel itself.

use super::{Outcome, check_words};
use crate::config_load::yes_or_no;
use crate::sentinel::Sentinel;
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

impl Sentinel {
    pub(super) fn config(&mut self, what: &[u8], words: &[&[u8]], reply: &mut Reply) -> Outcome {
        match what.to_ascii_lowercase().as_slice() {
            b"set" if words.len() > 1 => self.config_set(words, reply),
            b"get" if !words.is_empty() => {
                self.config_get(words, reply);
                Ok(())
            }
            _ => Err("ERR Only SENTINEL CONFIG GET <param> [<param> <param> ...] / SET <param> <value> [<param> \
                      <value> ...] are supported."
                .to_string()),
        }
    }

    fn config_get(&self, patterns: &[&[u8]], reply: &mut Reply) {
        // The order is that of the patterns, each option once.
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
            reply.bulk(&self.config_value(name));
        }
    }

    fn config_value(&self, name: &str) -> Vec<u8> {
        let settings = &self.settings;
        let yes_no = |yes: bool| if yes { b"yes".to_vec() } else { b"no".to_vec() };
        match name {
            "resolve-hostnames" => yes_no(settings.resolve_hostnames),
            "announce-hostnames" => yes_no(settings.announce_hostnames),
            "announce-ip" => settings.announce_ip.clone().unwrap_or_default().into_bytes(),
            "announce-port" => settings.announce_port.to_string().into_bytes(),
            "sentinel-user" => settings.auth_user.clone().unwrap_or_default(),
            "sentinel-pass" => settings.auth_pass.clone().unwrap_or_default(),
            _ => self.host.log_level().into_bytes(),
        }
    }

    /// Sets options; all of them are checked before any takes effect.
    fn config_set(&mut self, words: &[&[u8]], reply: &mut Reply) -> Outcome {
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
        let mut drop_connections = false;
        for (option, value) in changes {
            drop_connections |= self.change(&option, value);
        }
        let saved = self.save_and_reply(reply);
        if drop_connections {
            self.drop_sentinel_connections();
        }
        saved
    }

    /// Changes an option; returns whether connections to other Sentinels must be made anew.
    fn change(&mut self, option: &str, value: &[u8]) -> bool {
        let text = String::from_utf8_lossy(value).into_owned();
        let given = (!value.is_empty()).then(|| value.to_vec());
        let settings = &mut self.settings;
        match option {
            "resolve-hostnames" => settings.resolve_hostnames = yes_or_no(&text).unwrap_or_default(),
            "announce-hostnames" => settings.announce_hostnames = yes_or_no(&text).unwrap_or_default(),
            "announce-ip" => settings.announce_ip = Some(text).filter(|text| !text.is_empty()),
            "announce-port" => settings.announce_port = parse_i64(value).unwrap_or_default(),
            "loglevel" => self.host.set_log_level(&text.to_ascii_lowercase()),
            "sentinel-user" => {
                settings.auth_user = given;
                return true;
            }
            _ => {
                settings.auth_pass = given;
                return true;
            }
        }
        false
    }
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
