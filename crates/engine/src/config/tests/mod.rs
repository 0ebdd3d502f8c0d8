//! The configuration as its users see it: set, read back, rewritten, loaded again.
//!
//! Texts were compared with a Valkey server for every directive and some forty values each; what is kept here is one
//! legal and one illegal value of each, and every text once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use super::directive_entry::{DirectiveEntry, DirectiveKind, Unit, Unmet};
use super::*;

mod files;
mod running;

/// Files in memory, commands GET and SET, and a record of the hooks that ran.
#[derive(Default)]
struct FakeHost {
    files: BTreeMap<Vec<u8>, Vec<u8>>,
    stdin: Vec<u8>,
    /// Directives whose hook refuses.
    refused: Vec<Directive>,
    /// Hooks with the value that they saw.
    applied: RefCell<Vec<(Directive, DirectiveValue)>>,
}

impl FakeHost {
    fn with_files(files: &[(&str, &str)]) -> FakeHost {
        let bytes = |text: &str| text.as_bytes().to_vec();
        FakeHost { files: files.iter().map(|(path, text)| (bytes(path), bytes(text))).collect(), ..FakeHost::default() }
    }

    fn refusing(directive: Directive) -> FakeHost {
        FakeHost { refused: vec![directive], ..FakeHost::default() }
    }
}

impl ConfigFiles for FakeHost {
    fn read_file(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| io::Error::from_raw_os_error(2))
    }

    fn read_stdin(&self) -> io::Result<Vec<u8>> {
        Ok(self.stdin.clone())
    }

    fn glob(&self, pattern: &[u8]) -> Vec<Vec<u8>> {
        self.files.keys().filter(|path| crate::glob::matches(pattern, path)).cloned().collect()
    }

    fn change_dir(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        match path {
            b"." => Ok(b"/start".to_vec()),
            b"/missing" => Err(io::Error::from_raw_os_error(2)),
            _ => Ok(path.to_vec()),
        }
    }

    fn can_append(&self, path: &[u8]) -> io::Result<()> {
        if path.starts_with(b"/missing") { Err(io::Error::from_raw_os_error(2)) } else { Ok(()) }
    }

    fn command_exists(&self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(b"get") || name.eq_ignore_ascii_case(b"set")
    }

    fn check_user(&self, words: &[Vec<u8>], _: &[Vec<Vec<u8>>]) -> Result<(), (usize, String)> {
        match words.iter().position(|word| word == b"wrong") {
            Some(at) => Err((at, "Syntax error".to_string())),
            None => Ok(()),
        }
    }
}

impl ApplyHooks for FakeHost {
    fn apply(&self, changed: Directive, config: &Config) -> Result<(), String> {
        self.applied.borrow_mut().push((changed, config.value(changed).clone()));
        let refuse = self.refused.contains(&changed)
            && *config.value(changed) != directive_table::entry(changed).default_value();
        if refuse { Err("Unable to do so.".to_string()) } else { Ok(()) }
    }

    fn change_dir(&self, path: &[u8]) -> Result<Vec<u8>, String> {
        ConfigFiles::change_dir(self, path).map_err(|error| config_file::os_message(&error))
    }
}

const ANYONE: ConfigCaller = ConfigCaller { local: false, loading: false };

fn load_text(text: &[u8]) -> Result<LoadedConfig, LoadError> {
    let files = [(b"conf".to_vec(), text.to_vec())].into();
    let command_line = CommandLine { config_file: Some(b"conf".to_vec()), ..CommandLine::default() };
    load(&command_line, &FakeHost { files, ..FakeHost::default() })
}

fn store(text: &str) -> ConfigStore {
    ConfigStore::new(load_text(text.as_bytes()).expect("a legal configuration").config)
}

fn set(store: &ConfigStore, pairs: &[(&str, &str)]) -> Result<(), String> {
    set_with(store, pairs, ANYONE, &FakeHost::default())
}

fn set_with(store: &ConfigStore, pairs: &[(&str, &str)], caller: ConfigCaller, host: &FakeHost) -> Result<(), String> {
    let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    store.set(&pairs, caller, host).map_err(|error| match error {
        SetError::Loading => "LOADING".to_string(),
        SetError::Unknown(name) => format!("no {}", name.escape_ascii()),
        SetError::Refused(text) => text,
    })
}

fn get(store: &ConfigStore, name: &str) -> String {
    let found = store.get(&[name.as_bytes()]);
    assert_eq!(found.len(), 1, "{name}");
    String::from_utf8_lossy(&found[0].1).into_owned()
}

fn names(store: &ConfigStore, patterns: &[&str]) -> Vec<String> {
    let patterns: Vec<&[u8]> = patterns.iter().map(|pattern| pattern.as_bytes()).collect();
    let names = store.get(&patterns).into_iter().map(|(name, _)| String::from_utf8_lossy(&name).into_owned());
    names.collect()
}

/// A value other than the default, printed as it is written.
fn legal(entry: &DirectiveEntry) -> String {
    let text = match entry.name {
        "cluster-announce-client-ipv4" => "10.0.0.1",
        "cluster-announce-client-ipv6" => "::1",
        "locale-collate" => "C.UTF-8",
        "proc-title-template" => "{title} {{x} {port}",
        _ => match entry.kind {
            DirectiveKind::Flag if entry.default_value() == DirectiveValue::Flag(true) => "no",
            DirectiveKind::Flag => "yes",
            DirectiveKind::Integer { max, unit, .. } => {
                let (_, max) = entry.clamp.unwrap_or((0, max));
                return if unit == Unit::Octal { format!("{max:o}") } else { max.to_string() };
            }
            DirectiveKind::Choice(names) => {
                let default = entry.print(&entry.default_value());
                return names.iter().rev().find(|name| name.as_bytes() != default).unwrap().to_string();
            }
            DirectiveKind::Choices(names) if names.contains(&"port") => "port unixsocket",
            DirectiveKind::Choices(_) => "nosave force",
            DirectiveKind::Text if entry.check.is_some() => "some-name",
            DirectiveKind::Text => "some \"thing\"\n\\",
            DirectiveKind::Save => "60 5 3600 0",
            DirectiveKind::Bind => "127.0.0.2 -::1",
            DirectiveKind::OutputBufferLimits => "normal 0 0 0 slave 1073741824 1000 5 pubsub 33554432 8388608 60",
            DirectiveKind::OomScoreAdjValues => "-1 2 2000",
            DirectiveKind::KeyspaceEvents => "xK",
            DirectiveKind::Percentiles => "12.5 99.99",
            DirectiveKind::ReplicaOf => "host 6380",
            DirectiveKind::Dir => "/elsewhere",
        },
    };
    text.to_string()
}

/// A value that is refused, and why; `None` where every value is legal.
fn illegal(entry: &DirectiveEntry) -> Option<(String, String)> {
    let known = match entry.name {
        "appenddirname" => ("a/b", "appenddirname can't be a path, just a dirname"),
        "appendfilename" => ("", "appendfilename can't be empty"),
        "cluster-announce-client-ipv4" => ("1.2.3", "Invalid IPv4 address"),
        "cluster-announce-client-ipv6" => ("1.2.3.4", "Invalid IPv6 address"),
        "cluster-announce-hostname" => ("a_b", "Hostnames may only contain alphanumeric characters, hyphens or dots"),
        "cluster-announce-human-nodename" => ("a,b", "Announced human node name contained invalid character"),
        "cluster-announce-ip" => ("a b", "cluster-announce-ip contains invalid character"),
        "cluster-config-file" => ("", "cluster-config-file can't be empty"),
        "dbfilename" => ("a/b", "dbfilename can't be a path, just a filename"),
        "locale-collate" => ("abc", "Invalid locale name"),
        "proc-title-template" => ("{nothing}", "template format is invalid or contains unknown variables"),
        _ => match entry.kind {
            DirectiveKind::Flag => ("1", "argument must be 'yes' or 'no'"),
            DirectiveKind::Integer { min, max, unit } => return Some(illegal_integer(min, max, unit)),
            DirectiveKind::Choice(names) | DirectiveKind::Choices(names) => {
                let text = format!("argument(s) must be one of the following: {}", names.join(", "));
                return Some(("no-such".to_string(), text));
            }
            DirectiveKind::Text => {
                assert!(entry.check.is_none(), "{} has a check: say what it refuses", entry.name);
                return None;
            }
            DirectiveKind::Save => ("60", "Invalid save parameters"),
            DirectiveKind::Bind => {
                return Some(("a ".repeat(16) + "a", "Too many bind addresses specified.".to_string()));
            }
            DirectiveKind::OutputBufferLimits => {
                ("normal 0 0", "Wrong number of arguments in buffer limit configuration.")
            }
            DirectiveKind::OomScoreAdjValues => {
                ("1 2 2001", "Invalid oom-score-adj-values, elements must be between -2000 and 2000.")
            }
            DirectiveKind::KeyspaceEvents => ("K?", "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."),
            DirectiveKind::Percentiles => {
                ("50 100.1", "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
            }
            DirectiveKind::ReplicaOf => ("host 65536", "Invalid primary port"),
            DirectiveKind::Dir => ("/missing", "No such file or directory"),
        },
    };
    Some((known.0.to_string(), known.1.to_string()))
}

fn illegal_integer(min: i64, max: i64, unit: Unit) -> (String, String) {
    let (value, text) = match unit {
        Unit::Plain if min == i64::MIN => {
            ("9223372036854775808".to_string(), "argument couldn't be parsed into an integer".to_string())
        }
        Unit::Plain => ((min - 1).to_string(), format!("argument must be between {min} and {max} inclusive")),
        Unit::Octal => ("1000".to_string(), "argument must be between 0 and 777 inclusive".to_string()),
        Unit::Memory => {
            ("9223372036854775808".to_string(), format!("argument must be between {min} and {max} inclusive"))
        }
        Unit::SignedMemory => ("-2".to_string(), format!("argument must be between {min} and {max} inclusive")),
        Unit::UnsignedMemory => ("-1".to_string(), "argument must be a memory value".to_string()),
        Unit::MemoryOrPercent => ("101%".to_string(), "percentage argument must be less or equal to 100".to_string()),
    };
    (value, text)
}

#[test]
fn every_directive_can_be_set_while_running_unless_it_is_immutable() {
    for found in directive_table::names() {
        let (entry, name) = (found.entry, found.name);
        let store = store("enable-protected-configs yes");
        let before = get(&store, name);
        let value = legal(entry);
        assert_ne!(before, value, "{name}");
        if entry.immutable {
            let text =
                format!("CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config");
            assert_eq!(set(&store, &[(name, &value)]), Err(text));
            assert_eq!(get(&store, name), before);
            continue;
        }
        let parsed = entry.parse(&directive_value::words_of(entry, value.as_bytes()), &entry.default_value()).unwrap();
        if let Some(reason) = entry.objection(&parsed) {
            let text = format!("CONFIG SET failed (possibly related to argument '{name}') - {reason}");
            assert_eq!(set(&store, &[(name, &value)]), Err(text));
            assert_eq!(get(&store, name), before);
            continue;
        }
        assert_eq!(set(&store, &[(name, &value)]), Ok(()), "{name}");
        assert_eq!(get(&store, name), value, "{name}");
        if let Some((value_refused, why)) = illegal(entry) {
            let text = format!("CONFIG SET failed (possibly related to argument '{name}') - {why}");
            assert_eq!(set(&store, &[(name, &value_refused)]), Err(text));
            assert_eq!(get(&store, name), value, "{name}");
        }
    }
}

#[test]
fn every_directive_survives_rewrite_and_restart() {
    for found in directive_table::names() {
        let (entry, name) = (found.entry, found.name);
        // No file with another value than the default of these is read.
        if entry.unsupported.is_some_and(|unsupported| unsupported.unmet == Unmet::Refused) {
            continue;
        }
        let mut text = format!("{name} ").into_bytes();
        resp::words::quote(&mut text, legal(entry).as_bytes());
        let loaded = load_text(&text).unwrap_or_else(|error| panic!("{name}: {error:?}")).config;
        for old in [text.as_slice(), b"", b"# nothing yet\n\n"] {
            for all in [false, true] {
                let new = rewrite(RewriteInput { old, config: &loaded, users: &[], modules: &[], all });
                let again = load_text(&new).unwrap_or_else(|error| panic!("{name}: {error:?}")).config;
                for other in directive_table::entries() {
                    assert_eq!(
                        again.written(other.directive),
                        loaded.written(other.directive),
                        "{name}: {}",
                        other.name
                    );
                }
            }
        }
        if let Some((value, why)) = illegal(entry) {
            let mut text = format!("# first\n{name} ").into_bytes();
            resp::words::quote(&mut text, value.as_bytes());
            let line = text[b"# first\n".len()..].to_vec();
            let error = load_text(&text).expect_err(name);
            assert_eq!(error, LoadError::Text { line: Some((2, line)), message: why }, "{name}");
        }
    }
}

#[test]
fn typed_reads_know_the_kind_of_every_directive() {
    let config = Config::default();
    for entry in directive_table::entries() {
        match entry.kind {
            DirectiveKind::Flag => {
                assert_eq!(DirectiveValue::Flag(config.flag(entry.directive)), entry.default_value())
            }
            DirectiveKind::Integer { .. } => {
                assert_eq!(DirectiveValue::Integer(config.int(entry.directive)), entry.default_value())
            }
            DirectiveKind::Choice(_) => {
                assert_eq!(config.choice(entry.directive).as_bytes(), entry.print(&entry.default_value()))
            }
            DirectiveKind::Choices(names) => {
                assert!(names.iter().all(|name| !config.has_choice(entry.directive, name)))
            }
            DirectiveKind::Text | DirectiveKind::Dir => {
                assert_eq!(config.text(entry.directive), entry.print(&entry.default_value()))
            }
            DirectiveKind::Save => assert_eq!(config.save_points()[0], SavePoint { seconds: 3600, changes: 1 }),
            DirectiveKind::Bind => assert_eq!(config.bind_addresses().len(), 2),
            DirectiveKind::OutputBufferLimits => {
                assert_eq!(config.output_buffer_limit(ClientClass::PubSub).hard_bytes, 32 << 20);
            }
            DirectiveKind::OomScoreAdjValues => assert_eq!(config.oom_score_adj_values(), [0, 200, 800]),
            DirectiveKind::KeyspaceEvents => assert_eq!(config.keyspace_events(), 0),
            DirectiveKind::Percentiles => assert_eq!(config.percentiles(), [50.0, 99.0, 99.9]),
            DirectiveKind::ReplicaOf => assert_eq!(config.upstream(), None),
        }
    }
}
