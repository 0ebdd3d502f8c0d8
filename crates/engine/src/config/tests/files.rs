//! Text to configuration and back: loading, its mistakes, and CONFIG REWRITE.

use proptest::prelude::*;

use super::super::directive_value::words_of;
use super::*;

#[test]
fn threads_follow_io_threads_unless_they_are_given() {
    for (text, threads, io_threads) in [
        ("", "0", "1"),
        ("io-threads 4", "4", "4"),
        ("io-threads 1", "1", "1"),
        ("io-threads 4\nthreads 2", "2", "4"),
        ("threads 0\nio-threads 4", "0", "4"),
    ] {
        let store = store(text);
        assert_eq!((get(&store, "threads").as_str(), get(&store, "io-threads").as_str()), (threads, io_threads));
    }
}

#[test]
fn save_lines_add_up_and_replace_the_default() {
    for (text, value) in [
        ("", "3600 1 300 100 60 10000"),
        ("save 900 1\nsave 300 10", "900 1 300 10"),
        ("save 900 1\nsave \"\"", ""),
        ("save \"\"\nsave 900 1", "900 1"),
        ("save \"900 1 300 10\"", "900 1 300 10"),
    ] {
        assert_eq!(get(&store(text), "save"), value, "{text}");
    }
}

#[test]
fn mistakes_are_reported_with_their_line() {
    const NO_DEFRAGMENTATION: &str = "Active defragmentation cannot be enabled: Cinnabar has none. Remove the line.";
    for (text, number, line, message) in [
        ("port 1\n  foo bar \n", 2, "foo bar", "Bad directive or wrong number of arguments"),
        ("port \"1", 1, "port \"1", "Unbalanced quotes in configuration line"),
        ("port", 1, "port", "wrong number of arguments"),
        ("\n\nPORT 1 2", 3, "PORT 1 2", "wrong number of arguments"),
        ("include", 1, "include", "Bad directive or wrong number of arguments"),
        ("foo.bar", 1, "foo.bar", "Module config specified without value"),
        ("sentinel x", 1, "sentinel x", "sentinel directive while not in sentinel mode"),
        ("rename-command nope x", 1, "rename-command nope x", "No such command in rename-command"),
        ("rename-command get SET", 1, "rename-command get SET", "Target command name already exists"),
        ("user a wrong", 1, "user a wrong", "Error in user declaration 'wrong': Syntax error"),
        ("replicaof a", 1, "replicaof a", "wrong number of arguments"),
        ("activedefrag no\nActiveDefrag yes", 2, "ActiveDefrag yes", NO_DEFRAGMENTATION),
        ("rdma-port 1", 1, "rdma-port 1", "No RDMA building support. Remove the line."),
        ("slaveof", 1, "slaveof", "wrong number of arguments"),
        (
            "shutdown-on-sigint save nosave",
            1,
            "shutdown-on-sigint save nosave",
            "shutdown options SAVE and NOSAVE can't be used simultaneously",
        ),
    ] {
        let error = load_text(text.as_bytes()).expect_err(text);
        let line = Some((number, line.as_bytes().to_vec()));
        assert_eq!(error, LoadError::Text { line, message: message.to_string() }, "{text}");
    }
    for (text, message) in [
        ("logfile /missing/x", "Can't open the log file: No such file or directory"),
        ("cluster-enabled yes\nreplicaof a 1", "replicaof directive not allowed in cluster mode"),
    ] {
        let error = load_text(text.as_bytes()).expect_err(text);
        assert_eq!(error, LoadError::Text { line: None, message: message.to_string() }, "{text}");
    }
    assert_eq!(
        load_text(b"\nfoo").unwrap_err().report("9.9.9"),
        b"\n*** FATAL CONFIG FILE ERROR (Version 9.9.9) ***\nReading the configuration file, at line 2\n\
         >>> 'foo'\nBad directive or wrong number of arguments\n"
    );
}

#[test]
fn sources_come_in_order() {
    let mut host = FakeHost::with_files(&[("conf", "timeout 1\nhz 11\nport 1")]);
    host.stdin = b"\nhz 12\nport 2".to_vec();
    let command_line = CommandLine {
        config_file: Some(b"conf".to_vec()),
        read_stdin: true,
        options: b"port \"3\" ".to_vec(),
        sentinel: false,
    };
    let config = load(&command_line, &host).unwrap().config;
    let read = |directive| config.int(directive);
    assert_eq!([Directive::TIMEOUT, Directive::HZ, Directive::PORT].map(read), [1, 12, 3]);
}

#[test]
fn includes_reach_single_files_and_patterns() {
    let host = FakeHost::with_files(&[
        ("conf", "include d/*.conf\ninclude none/*.conf\ninclude other\nport 5"),
        ("d/1.conf", "timeout 1"),
        ("d/2.conf", "\ntimeout 2"),
        ("other", "hz 20\nport 4"),
        ("missing", "include nowhere"),
        ("loop", "include loop"),
    ]);
    let from = |path: &str| {
        load(&CommandLine { config_file: Some(path.as_bytes().to_vec()), ..CommandLine::default() }, &host)
    };
    let config = from("conf").unwrap().config;
    let read = |directive| config.int(directive);
    assert_eq!([Directive::TIMEOUT, Directive::HZ, Directive::PORT].map(read), [2, 20, 5]);
    let message = "Fatal error, can't open config file 'nowhere': No such file or directory".to_string();
    assert_eq!(from("missing").unwrap_err(), LoadError::File { message });
    let line = Some((1, b"include loop".to_vec()));
    let message = "Too many nested includes".to_string();
    assert_eq!(from("loop").unwrap_err(), LoadError::Text { line, message });
}

#[test]
fn lines_that_are_no_values_are_handed_on() {
    let text = "rename-command get a\nrename-command A \"\"\nrename-command set get\nuser bob on\n\
                loadmodule /m.so x y\nm.level 1 2\nlua-replicate-commands yes\nsentinel";
    let loaded = load_text(text.as_bytes()).unwrap();
    let shown = |words: &[Vec<u8>]| String::from_utf8(words.join(&b' ')).unwrap();
    let renames: Vec<String> = loaded.renames.iter().map(|(from, to)| shown(&[from.clone(), to.clone()])).collect();
    assert_eq!(renames, ["get a", "A ", "set get"]);
    assert_eq!(loaded.users.iter().map(|words| shown(words)).collect::<Vec<_>>(), ["user bob on"]);
    assert_eq!(loaded.modules.iter().map(|words| shown(words)).collect::<Vec<_>>(), ["/m.so x y"]);
    assert_eq!(loaded.module_settings, [(b"m.level".to_vec(), b"1 2".to_vec())]);
}

#[test]
fn rewrite_keeps_comments_and_order() {
    let old = "# top\nslave-priority 5\n\n\n  port 1  \nsave 900 1\nsave 300 10\ninclude x\nunknown 1\n\
               client-output-buffer-limit slave 1 1 1\nbind * -::*\nuser old on\ntimeout 0\ntimeout 0\nrequirepass \"\"\n";
    let text = "slave-priority 5\nport 1\nsave 900 1\nsave 300 10\nclient-output-buffer-limit slave 1 1 1\n\
                maxmemory 3145728\nmaxmemory-clients 5%\nunixsocketperm 700";
    let config = load_text(text.as_bytes()).unwrap().config;
    let users = [b"default on nopass".to_vec(), b"bob off".to_vec()];
    let input = RewriteInput { old: old.as_bytes(), config: &config, users: &users, modules: &[], all: false };
    let new = rewrite(input);
    let expected = "# top\nreplica-priority 5\n\nport 1\nsave 900 1 300 10\n\ninclude x\n# ??? unknown 1\n\
                    client-output-buffer-limit normal 0 0 0\n\nuser default on nopass\ntimeout 0\n\n\
                    # Generated by CONFIG REWRITE\nunixsocketperm 700\nclient-output-buffer-limit replica 1 1 1\n\
                    maxmemory-clients 5%\nmaxmemory 3mb\ndir \"/start\"\nlatency-tracking-info-percentiles 50 99 99.9\n\
                    user bob off\n";
    assert_eq!(String::from_utf8(new.clone()).unwrap(), expected);
    // A text that ends with a line break keeps the empty line behind it; from then on nothing changes.
    let again = rewrite(RewriteInput { old: &new, ..input });
    let settled = String::from_utf8(again.clone()).unwrap();
    assert_eq!(settled, expected.to_string() + "\n");
    assert_eq!(rewrite(RewriteInput { old: &again, ..input }), again);
}

#[test]
fn rewrite_has_no_threads_where_io_threads_says_it() {
    let line_of = |text: &str, old: &str| {
        let config = load_text(text.as_bytes()).unwrap().config;
        let new = rewrite(RewriteInput { old: old.as_bytes(), config: &config, users: &[], modules: &[], all: false });
        assert_eq!(
            load_text(&new).unwrap().config.value(Directive::THREADS),
            config.value(Directive::THREADS),
            "{text}"
        );
        String::from_utf8(new).unwrap().lines().filter(|line| line.contains("threads")).collect::<Vec<_>>().join(", ")
    };
    for (text, lines) in [
        ("io-threads 4", "io-threads 4"),
        ("io-threads 1", "io-threads 1"),
        ("threads 4", "threads 4"),
        ("threads 4\nio-threads 4", "threads 4, io-threads 4"),
        ("threads 0\nio-threads 4", "threads 0, io-threads 4"),
    ] {
        assert_eq!(line_of(text, text), lines, "{text}");
    }
    // From the command line.
    assert_eq!(line_of("io-threads 4", ""), "io-threads 4");
    assert_eq!(line_of("io-threads 1", ""), "threads 1");
    assert_eq!(line_of("threads 0\nio-threads 4", ""), "io-threads 4, threads 0");
}

#[test]
fn rewrite_leaves_a_primary_to_the_cluster() {
    let mut config = load_text(b"cluster-enabled yes").unwrap().config;
    let upstream = Some(Upstream { host: b"10.0.0.1".as_slice().into(), port: 7000 });
    config.replace(Directive::REPLICAOF, DirectiveValue::ReplicaOf(upstream));
    let new = rewrite(RewriteInput { old: b"", config: &config, users: &[], modules: &[], all: false });
    assert!(!String::from_utf8(new.clone()).unwrap().contains("replicaof") && load_text(&new).is_ok());
}

#[test]
fn rewrite_leaves_users_to_their_file() {
    let config = load_text(b"aclfile users.acl").unwrap().config;
    let users = [b"default on nopass".to_vec()];
    let new = rewrite(RewriteInput { old: b"user bob on\n", config: &config, users: &users, modules: &[], all: false });
    assert!(!String::from_utf8(new).unwrap().contains("user "));
}

proptest! {
    #[test]
    fn any_text_loads_or_is_refused(lines in proptest::collection::vec((0..directive_table::names().len(), "[ \"'\\\\a-z0-9%.:]{0,12}"), 0..8)) {
        let names = directive_table::names();
        let text: String = lines.iter().map(|(at, value)| format!("{} {value}\n", names[*at].name)).collect();
        if let Ok(loaded) = load_text(text.as_bytes()) {
            let new = rewrite(RewriteInput { old: text.as_bytes(), config: &loaded.config, users: &[], modules: &[], all: false });
            let again = load_text(&new).expect("a rewritten configuration is legal");
            for entry in directive_table::entries() {
                prop_assert_eq!(again.config.value(entry.directive), loaded.config.value(entry.directive), "{}", entry.name);
            }
        }
    }

    #[test]
    fn printed_values_read_back(at in 0..directive_table::entries().len(), text in proptest::collection::vec(any::<u8>(), 0..12)) {
        let entry = directive_table::entries()[at];
        let default = entry.default_value();
        if let Ok(value) = entry.parse(&words_of(entry, &text), &default) {
            let printed = entry.print(&value);
            // No primary is not written, and percentiles are printed rounded.
            let inexact = matches!(entry.kind, DirectiveKind::ReplicaOf) && printed.is_empty() || matches!(entry.kind, DirectiveKind::Percentiles);
            if !inexact {
                prop_assert_eq!(entry.parse(&words_of(entry, &printed), &default), Ok(value));
            }
        }
    }
}

#[test]
fn a_sentinels_lines_are_read_and_rewritten() {
    let text = "# mine\nsentinel known-slave a 1.1.1.1 1\nSENTINEL monitor a 1.1.1.2 1 2\nsentinel auth-pass a x\n";
    let host = FakeHost::with_files(&[("conf", text)]);
    let command_line = CommandLine { config_file: Some(b"conf".to_vec()), sentinel: true, ..CommandLine::default() };
    let loaded = load(&command_line, &host).unwrap();
    assert_eq!((loaded.config.int(Directive::PORT), loaded.config.flag(Directive::PROTECTED_MODE)), (26379, false));
    let words: Vec<(usize, &[u8])> = loaded.sentinel.iter().map(|it| (it.number, &it.words[0][..])).collect();
    assert_eq!(words, [(2, &b"known-slave"[..]), (3, b"monitor"), (4, b"auth-pass")]);
    let line = |option, line: &str, needed| (option, line.as_bytes().to_vec(), needed);
    let lines = [
        line("sentinel myid", "sentinel myid 1", true),
        line("sentinel resolve-hostnames", "sentinel resolve-hostnames no", false),
        line("sentinel monitor", "sentinel monitor a 1.1.1.1 1 2", true),
        line("sentinel known-replica", "sentinel known-replica a 1.1.1.2 1", true),
    ];
    let rewritten = ["sentinel myid", "sentinel monitor", "sentinel known-replica", "sentinel auth-pass"];
    let state = SentinelState { lines: &lines, rewritten: &rewritten, alone: false };
    let input = RewriteInput { old: text.as_bytes(), config: &loaded.config, users: &[], modules: &[], all: false };
    let new = String::from_utf8(rewrite_with_sentinel(input, state)).unwrap();
    let wanted =
        "# mine\nsentinel known-replica a 1.1.1.2 1\nsentinel monitor a 1.1.1.1 1 2\n\n# Generated by CONFIG REWRITE\n";
    assert!(new.starts_with(wanted), "{new}");
    assert!(new.contains("port 26379\n") && new.ends_with("sentinel myid 1\n") && !new.contains("save"), "{new}");
}

#[test]
fn a_sentinel_within_a_server_writes_its_lines_only() {
    let text = "maxmemory 1\nsentinel monitor a 1.1.1.2 1 2\nsentinel-port 2\n";
    let load_text = |text: &str| {
        let host = FakeHost::with_files(&[("conf", text)]);
        load(&CommandLine { config_file: Some(b"conf".to_vec()), ..CommandLine::default() }, &host)
    };
    let loaded = load_text(text).unwrap();
    assert_eq!((loaded.config.int(Directive::PORT), loaded.sentinel.len()), (6379, 1));
    let refused = load_text("port 1\nsentinel monitor a 1.1.1.2 1 2\n").unwrap_err();
    let line = Some((2, b"sentinel monitor a 1.1.1.2 1 2".to_vec()));
    assert_eq!(refused, LoadError::Text { line, message: "sentinel directive while not in sentinel mode".to_string() });
    let lines = [("sentinel monitor", b"sentinel monitor a 1.1.1.3 1 2".to_vec(), true)];
    let state = SentinelState { lines: &lines, rewritten: &["sentinel monitor"], alone: true };
    let config = Config::default();
    let input = RewriteInput { old: text.as_bytes(), config: &config, users: &[], modules: &[], all: false };
    let new = String::from_utf8(rewrite_with_sentinel(input, state)).unwrap();
    assert_eq!(new, "maxmemory 1\nsentinel monitor a 1.1.1.3 1 2\nsentinel-port 2\n\n");
    let new = String::from_utf8(rewrite(RewriteInput { old: new.as_bytes(), ..input })).unwrap();
    assert!(new.contains("sentinel monitor a 1.1.1.3 1 2\n"), "{new}");
}
