//! The file that holds the lines that were typed, the oldest first.
//!
//! Lines that carry a password stay out of it. Only the owner may read the file. A file that cannot be read or written
//! changes nothing else.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Lines that a new session recalls.
pub const LINES_MAX: usize = 1000;

#[derive(Debug)]
pub struct HistoryFile {
    path: Option<PathBuf>,
}

impl HistoryFile {
    /// Returns the file that VALKEYCLI_HISTFILE or REDISCLI_HISTFILE names; else `~/.cinnabarcli_history`, or no file
    /// without a home.
    pub fn of_user() -> HistoryFile {
        let named = std::env::var_os("VALKEYCLI_HISTFILE").or_else(|| std::env::var_os("REDISCLI_HISTFILE"));
        if let Some(path) = named.filter(|path| !path.is_empty()) {
            return HistoryFile { path: Some(PathBuf::from(path)) };
        }
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        HistoryFile { path: home.map(|home| PathBuf::from(home).join(".cinnabarcli_history")) }
    }

    /// Returns the last lines. A file that has grown to twice as many is cut to these.
    pub fn load(&self) -> Vec<String> {
        let Some(bytes) = self.path.as_ref().and_then(|path| fs::read(path).ok()) else {
            return Vec::new();
        };
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let recent = lines.get(lines.len().saturating_sub(LINES_MAX)..).unwrap_or_default().to_vec();
        if lines.len() >= 2 * LINES_MAX {
            self.write(&recent, |options| options.truncate(true));
        }
        recent
    }

    pub fn append(&self, line: &str) {
        self.write(&[line.to_owned()], |options| options.append(true));
    }

    fn write(&self, lines: &[String], mode: fn(&mut OpenOptions) -> &mut OpenOptions) {
        let Some(path) = &self.path else {
            return;
        };
        let mut text = lines.join("\n");
        text.push('\n');
        let mut options = OpenOptions::new();
        options.create(true).write(true).mode(0o600);
        // A history that cannot be written is no reason to disturb the user.
        let _ = mode(&mut options).open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    }
}

/// Returns whether a command carries a password or the like.
pub fn is_sensitive(arguments: &[Vec<u8>]) -> bool {
    let words: Vec<_> = arguments.iter().map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_secret = |word: &&str| SECRETS.contains(word) || SECRET_ENDS.iter().any(|end| word.ends_with(end));
    match &words[..] {
        ["auth", ..] | ["acl", "deluser" | "setuser" | "getuser" | "dryrun", ..] => true,
        ["config" | "sentinel", "get", ..] => false,
        ["config" | "sentinel" | "hello" | "migrate" | "failover" | "replconf" | "cluster", rest @ ..] => {
            rest.iter().any(is_secret)
        }
        _ => false,
    }
}

/// Names of options and directives that a secret follows, besides those with one of these ends.
const SECRETS: [&str; 6] = ["auth2", "masteruser", "primaryuser", "auth-user", "sentinel-user", "otlp-headers"];
const SECRET_ENDS: [&str; 3] = ["auth", "pass", "password"];

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn lines_come_back_and_the_file_stays_short_and_private() {
        let path = std::env::temp_dir().join(format!("cinnabar-cli-history-{}", std::process::id()));
        let history = HistoryFile { path: Some(path.clone()) };
        assert!(history.load().is_empty());
        for number in 0..2 * LINES_MAX {
            history.append(&format!("get {number}"));
        }
        let lines = history.load();
        assert_eq!(lines.len(), LINES_MAX);
        assert_eq!(lines.last().map(String::as_str), Some("get 1999"));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), LINES_MAX);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn passwords_are_noticed() {
        let words = |line: &str| resp::words::split(line.as_bytes()).unwrap();
        for line in [
            "AUTH x",
            "acl SETUSER a >b",
            "acl dryrun acl setuser a >b",
            "hello 3 AUTH a b",
            "hello auth a b",
            "config set maxmemory 1 requirepass x",
            "config set otlp-headers k=v",
            "migrate h 1 k 0 9 AUTH2 a b",
            "failover to h 1 auth x",
            "sentinel set a auth-pass x",
            "sentinel config set sentinel-pass x",
        ] {
            assert!(is_sensitive(&words(line)), "{line}");
        }
        for line in ["get auth", "acl list", "hello 3", "config get requirepass", ""] {
            assert!(!is_sensitive(&words(line)), "{line}");
        }
    }
}
