//! CONFIG GET and CONFIG SET: patterns, atomicity, hooks, flags.

use super::*;
use crate::locks::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

#[test]
fn get_takes_names_and_patterns() {
    let store = store("min-slaves-to-write 7");
    assert_eq!(names(&store, &["PORT", "port"]), ["PORT"]);
    assert_eq!(names(&store, &["nothing"]), [""; 0]);
    assert_eq!(
        names(&store, &["min-slaves-t*", "min-replicas-to-write", "maxmemory-[ps]*"]),
        ["min-slaves-to-write", "min-replicas-to-write", "maxmemory-policy", "maxmemory-samples"]
    );
    assert_eq!(names(&store, &["watchdog*"]), [""; 0]);
    assert_eq!(names(&store, &["watchdog-period"]), ["watchdog-period"]);
    // A name without wildcards is not a pattern, even when it has an escape.
    assert_eq!(names(&store, &["p\\ort"]), [""; 0]);
    assert_eq!(get(&store, "min-replicas-to-write"), "7");
}

#[test]
fn set_is_all_or_nothing() {
    let store = store("");
    let generation = store.generation();
    for (pairs, text) in [
        (
            vec![("timeout", "5"), ("hz", "x")],
            "CONFIG SET failed (possibly related to argument 'hz') - argument couldn't be parsed into an integer",
        ),
        (
            vec![("timeout", "5"), ("TIMEOUT", "6")],
            "CONFIG SET failed (possibly related to argument 'TIMEOUT') - duplicate parameter",
        ),
        (vec![("timeout", "5"), ("Nothing", "1"), ("port", "x")], "no Nothing"),
        (
            vec![("timeout", "5"), ("dir", "/tmp")],
            "CONFIG SET failed (possibly related to argument 'dir') - can't set protected config",
        ),
    ] {
        assert_eq!(set(&store, &pairs), Err(text.to_string()));
        assert_eq!(get(&store, "timeout"), "0");
    }
    assert_eq!(store.generation(), generation);
    assert_eq!(set(&store, &[("timeout", "5"), ("min-slaves-to-write", "5"), ("min-replicas-to-write", "6")]), Ok(()));
    assert_eq!((get(&store, "timeout").as_str(), get(&store, "min-slaves-to-write").as_str()), ("5", "6"));
    assert!(store.generation() > generation);
}

#[test]
fn a_refusing_hook_takes_everything_back() {
    let store = store("enable-protected-configs local");
    let host = FakeHost::refusing(Directive::PORT);
    let pairs = [("maxclients", "50"), ("dir", "/tmp"), ("port", "7000"), ("timeout", "9")];
    let caller = ConfigCaller { local: true, loading: false };
    let text = "CONFIG SET failed (possibly related to argument 'port') - Unable to do so.".to_string();
    assert_eq!(set_with(&store, &pairs, caller, &host), Err(text));
    for (name, value) in [("maxclients", "10000"), ("dir", "/start"), ("port", "6379"), ("timeout", "0")] {
        assert_eq!(get(&store, name), value);
    }
    let seen: Vec<_> =
        host.applied.borrow().iter().filter(|(directive, _)| *directive == Directive::PORT).cloned().collect();
    assert_eq!(
        seen,
        [(Directive::PORT, DirectiveValue::Integer(7000)), (Directive::PORT, DirectiveValue::Integer(6379))]
    );
    assert_eq!(host.applied.borrow().last(), Some(&(Directive::PORT, DirectiveValue::Integer(6379))));
    assert!(!host.applied.borrow().iter().any(|(directive, _)| *directive == Directive::TIMEOUT));
}

#[test]
fn hooks_run_for_what_changed() {
    let store = store("");
    let host = FakeHost::default();
    let pairs = [("timeout", "0"), ("tls-cert-file", ""), ("hz", "20")];
    assert_eq!(set_with(&store, &pairs, ANYONE, &host), Ok(()));
    let ran: Vec<Directive> = host.applied.borrow().iter().map(|(directive, _)| *directive).collect();
    assert_eq!(ran, [Directive::TLS_CERT_FILE, Directive::HZ]);
}

#[test]
fn immutable_directives_that_only_this_server_has_confirm_their_value() {
    let store = store("");
    let refused = |name: &str| {
        Err(format!("CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config"))
    };
    assert_eq!(set(&store, &[("admin-port", "0")]), Ok(()));
    assert_eq!(set(&store, &[("admin-port", "1")]), refused("admin-port"));
    assert_eq!(set(&store, &[("mptcp", "no")]), refused("mptcp"));
}

#[test]
fn io_threads_are_threads_too_unless_both_are_given() {
    let store = store("");
    let both = |store: &ConfigStore| (get(store, "threads"), get(store, "io-threads"));
    let host = FakeHost::default();
    // The value that it has already may be news for the other.
    assert_eq!(set_with(&store, &[("io-threads", "1")], ANYONE, &host), Ok(()));
    assert_eq!(both(&store), ("1".to_owned(), "1".to_owned()));
    assert_eq!(host.applied.borrow().len(), 1);
    assert_eq!(set(&store, &[("threads", "3")]), Ok(()));
    assert_eq!(both(&store), ("3".to_owned(), "1".to_owned()));
    for pairs in [[("io-threads", "5"), ("threads", "7")], [("threads", "7"), ("io-threads", "5")]] {
        assert_eq!(set(&store, &pairs), Ok(()));
        assert_eq!(both(&store), ("7".to_owned(), "5".to_owned()));
    }
}

#[test]
fn loading_denies_what_would_disturb_it() {
    let store = store("enable-protected-configs yes");
    let loading = ConfigCaller { local: false, loading: true };
    let host = FakeHost::default();
    assert_eq!(set_with(&store, &[("appendonly", "yes")], loading, &host), Err("LOADING".to_string()));
    assert_eq!(set_with(&store, &[("timeout", "5")], loading, &host), Ok(()));
}

#[test]
fn the_server_can_change_what_is_reported() {
    let store = store("");
    let generation = store.generation();
    store.update(|edit| {
        edit.set_int(Directive::MAXCLIENTS, 5);
        edit.set_text(Directive::PIDFILE, b"/run/x.pid");
        edit.set_flag(Directive::DAEMONIZE, true);
    });
    assert_eq!(store.generation(), generation + 1);
    for (name, value) in [("maxclients", "5"), ("pidfile", "/run/x.pid"), ("daemonize", "yes")] {
        assert_eq!(get(&store, name), value);
    }
}

#[test]
fn unsupported_directives_are_refused_or_shown() {
    let text = "active-defrag-cycle-us 7\nenable-debug-assert yes\nlocale-collate C\ntimeout 3";
    let store = store(text);
    let unmet = |store: &ConfigStore| {
        let mut names: Vec<_> = store.snapshot().unmet().map(|(entry, _)| entry.name).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(unmet(&store), ["active-defrag-cycle-us", "enable-debug-assert", "locale-collate"]);
    for (name, shown) in
        [("active-defrag-cycle-us", "7"), ("enable-debug-assert", "no"), ("locale-collate", "C"), ("timeout", "3")]
    {
        assert_eq!(get(&store, name), shown);
    }
    let rewritten = |store: &ConfigStore| {
        let config = store.snapshot();
        let input = RewriteInput { old: text.as_bytes(), config: &config, users: &[], modules: &[], all: false };
        String::from_utf8(rewrite(input)).unwrap()
    };
    let kept = "active-defrag-cycle-us 7\nenable-debug-assert yes\nlocale-collate \"C\"\ntimeout 3\n";
    assert!(rewritten(&store).starts_with(kept), "{}", rewritten(&store));
    let refused =
        |name: &str, reason: &str| Err(format!("CONFIG SET failed (possibly related to argument '{name}') - {reason}"));
    let reason = "Active defragmentation cannot be enabled: Cinnabar has none";
    assert_eq!(set(&store, &[("activedefrag", "yes")]), refused("activedefrag", reason));
    let pairs = [
        ("activedefrag", "no"),
        ("active-defrag-cycle-us", "500"),
        ("crash-memcheck-enabled", "no"),
        ("locale-collate", "POSIX"),
    ];
    assert_eq!(set(&store, &pairs), Ok(()));
    assert_eq!(unmet(&store), ["enable-debug-assert", "locale-collate"]);
    let kept = "active-defrag-cycle-us 500\nenable-debug-assert yes\nlocale-collate \"POSIX\"\ntimeout 3\n";
    assert!(rewritten(&store).starts_with(kept), "{}", rewritten(&store));
}

#[test]
fn secrets_are_known_by_any_name() {
    for (name, secret) in [("requirepass", true), ("MasterAuth", true), ("tls-key-file-pass", true), ("port", false)] {
        assert_eq!(is_sensitive(name.as_bytes()), secret, "{name}");
    }
}

/// Hooks beside which another thread derives something from the configuration.
struct Beside {
    store: Arc<ConfigStore>,
    derived: Arc<OnceLock<bool>>,
}

impl ApplyHooks for Beside {
    fn apply(&self, _: Directive, _: &Config) -> Result<(), String> {
        let (store, derived, begins) = (Arc::clone(&self.store), Arc::clone(&self.derived), Arc::default());
        let begun = Arc::<AtomicBool>::clone(&begins);
        thread::spawn(move || {
            begun.store(true, Relaxed);
            derived.set(store.settled(|config| config.flag(Directive::APPENDONLY))).expect("the hook runs once");
        });
        while !begins.load(Relaxed) {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(20));
        Ok(())
    }

    fn change_dir(&self, _: &[u8]) -> Result<Vec<u8>, String> {
        unreachable!("nobody changes it")
    }
}

#[test]
fn a_thread_beside_hooks_derives_from_the_configuration_that_they_bring() {
    let store = Arc::new(store(""));
    let hooks = Beside { store: Arc::clone(&store), derived: Arc::default() };
    store.set(&[(b"appendonly", b"yes")], ANYONE, &hooks).expect("it is legal");
    while hooks.derived.get().is_none() {
        thread::yield_now();
    }
    assert_eq!(hooks.derived.get(), Some(&true));
}

#[test]
fn stores_of_two_owners_have_locks_of_two_classes() {
    let (server, within, turn) = (store(""), ConfigStore::new(Config::default()), Mutex::new(0i8));
    server.settled(|_| drop(turn.lock()));
    let _turn = turn.lock();
    within.settled(|_| ());
}
