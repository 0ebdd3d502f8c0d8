//! Effects of directives on the process: of those that are read, and those that are unsupported.

use crate::dialogue::{ask, ask_integer, dialogue};
use crate::harness::{Folder, Server, eventually, run_to_end};
use std::fs;

/// The processors that each thread with this name may run on.
fn processors(server: &Server, name: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("the server's threads").flatten();
    let status = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let named = status.filter(|status| status.starts_with(&format!("Name:\t{name}")));
    let line = |status: String| {
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|list| list.trim().to_owned())
    };
    named.filter_map(line).collect()
}

#[test]
fn threads_stay_on_the_processors_that_they_are_given() {
    let free = Server::start(&[]);
    let all = processors(&free, "worker-0").pop().expect("a worker");
    let last = all.rsplit([',', '-']).next().expect("a processor").to_owned();
    let first = all.split([',', '-']).next().expect("a processor").to_owned();
    let server = Server::start(&["--server-cpulist", &first, "--bio_cpulist", &last, "--appendonly", "yes"]);
    // A thread asks for its processors when it runs first.
    assert!(eventually(|| processors(&server, "worker-") == [first.clone(), first.clone()]));
    for name in ["lazy-free-", "aof"] {
        assert!(eventually(|| processors(&server, name).iter().all(|list| *list == last)), "{name}");
        assert!(!processors(&server, name).is_empty(), "{name}");
    }
    assert!(processors(&free, "lazy-free-").iter().all(|list| *list == all));
}

#[test]
fn del_leaves_freeing_to_others_if_it_may() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let members: Vec<String> = (0..5000).map(|member| format!("member-{member}")).collect();
    let mut freed_after = |command: &str| {
        redis::cmd("SADD").arg("s").arg(&members).query::<i64>(&mut client).expect("added");
        dialogue(&mut client, &[("CONFIG RESETSTAT", "OK"), (command, "1")]);
        let count = |client: &mut redis::Connection, field: &str| {
            let info: String = redis::cmd("INFO").arg("memory").query(client).expect("INFO");
            info.lines().find_map(|line| line.strip_prefix(field)).and_then(|count| count.parse::<i64>().ok())
        };
        assert!(eventually(|| count(&mut client, "lazyfree_pending_objects:") == Some(0)));
        count(&mut client, "lazyfreed_objects:").expect("a number")
    };
    assert_eq!([freed_after("DEL s"), freed_after("UNLINK s")], [1, 1]);
    dialogue(&mut server.client(), &[("CONFIG SET lazyfree-lazy-user-del no", "OK")]);
    assert_eq!([freed_after("DEL s"), freed_after("UNLINK s")], [0, 1]);
}

#[test]
fn there_is_no_start_without_what_a_promise_needs() {
    let folder = Folder::new();
    let log = folder.path().join("log");
    for (options, reason) in [
        (
            &["--cluster-enabled", "yes", "--cluster-port", "17001", "--tls-cluster", "yes"][..],
            "Failed to configure TLS. Check logs for more info.",
        ),
        (&["--loadmodule", "/missing.so"], "Can't load module from /missing.so: server aborting"),
    ] {
        let (log, dir) = (log.to_string_lossy(), folder.path().to_string_lossy());
        let arguments = [&["--port", "0", "--logfile", &log, "--dir", &dir][..], options].concat();
        let (status, _) = run_to_end(&folder, &arguments);
        assert!(!status.success(), "{options:?}");
        let text = folder.read("log");
        assert!(text.ends_with(&format!(" # {reason}\n")), "{text}");
    }
}

#[test]
fn a_directive_that_prevents_the_start_is_reported_with_its_line() {
    let folder = Folder::new();
    let log = folder.path().join("log");
    let file = folder.write("the.conf", &format!("port 0\nlogfile {}\nactivedefrag yes\n", log.display()));
    let (status, stderr) = run_to_end(&folder, &[&file.to_string_lossy()]);
    assert!(!status.success());
    let report = "at line 3\n>>> 'activedefrag yes'\nActive defragmentation cannot be enabled: Cinnabar has none. \
                  Remove the line.\n";
    assert!(stderr.ends_with(report), "{stderr}");
}

/// A directive that nothing here acts on, and why.
const LOOK_AHEAD: &str = "prefetch-batch-max-size";
const NO_DEFRAGMENTATION: &str = "-ERR CONFIG SET failed (possibly related to argument 'activedefrag') - Active defragmentation cannot be enabled: Cinnabar has none";
const OWN_WAY: &str = "Cinnabar looks ahead as far as requests have arrived";

#[test]
fn directives_without_effect_are_named_and_kept() {
    let mut server = Server::start_with(|folder, port| {
        let text = format!(
            "port {port}\n{LOOK_AHEAD} 5\ncrash-memcheck-enabled no\nactive-defrag-cycle-us 7\nlocale-collate C\n"
        );
        let file = folder.write("the.conf", &text);
        vec![file.to_string_lossy().into_owned()]
    });
    let log = server.folder.read("stdout");
    let line = "These directives of the configuration have no effect: ";
    assert_eq!(log.matches(line).count(), 1, "{log}");
    for part in ["active-defrag-cycle-us (", LOOK_AHEAD, &format!("({OWN_WAY})"), "locale-collate ("] {
        assert!(log.contains(part), "{log}");
    }
    dialogue(
        &mut server.client(),
        &[
            (&format!("CONFIG GET {LOOK_AHEAD}"), &format!("[\"{LOOK_AHEAD}\", \"5\"]")),
            (&format!("CONFIG SET {LOOK_AHEAD} 16"), "OK"),
            ("CONFIG SET activedefrag yes", NO_DEFRAGMENTATION),
            ("CONFIG SET locale-collate POSIX", "OK"),
            ("CONFIG REWRITE", "OK"),
        ],
    );
    let file = server.folder.read("the.conf");
    assert!(
        file.contains(&format!(
            "\n{LOOK_AHEAD} 16\ncrash-memcheck-enabled no\nactive-defrag-cycle-us 7\nlocale-collate \"POSIX\"\n"
        )),
        "{file}"
    );
    server.crash();
    assert_eq!(ask(&mut server.client(), "CONFIG GET crash-memcheck-enabled"), "[\"crash-memcheck-enabled\", \"no\"]");
    assert!(ask_integer(&mut server.client(), "DBSIZE") == 0);
}
