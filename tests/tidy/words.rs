//! The field's words: given-up words are refused, and no two things have one name.

use crate::exceptions::SAME_FILES;
use crate::facts::{Kind, Name};
use crate::source::{Source, numbered};
use std::collections::BTreeMap;

/// Place in which a word was given up.
#[derive(PartialEq, Clone, Copy)]
pub enum Where {
    /// As the name of a type.
    Types,
    /// As the whole name of a function or method.
    Functions,
    /// As the name of a file or module.
    Files,
    /// In comments, capitals or not.
    Comments,
}

use Where::{Comments, Files, Functions, Types};

/// Words that were given up: word, where, the field's word. A file's word counts in these crates; all of them where
/// none is named.
const GIVEN_UP: &[(&str, Where, &str)] = &[
    ("stranger", Files, "http_guard"),
    ("familiar", Files, "command_cache"),
    ("steady", Files, "batch"),
    ("quiet", Files, "batch"),
    ("ahead", Files, "prefetch"),
    ("others", Files, "worker_barrier"),
    ("pieces", Files, "chunked_reply"),
    ("measure", Files, "instrument"),
    ("cx", Files, "context"),
    ("introspect", Files, "command_command"),
    ("cut", Files, "snapshot"),
    ("kept", Files, "before_images, durable_replies"),
    ("saves", Files, "persistence_status"),
    ("held", Files, "held_locks"),
    ("leftovers", Files, "deferred"),
    ("listing", Files, "streamed_reply"),
    ("overview", Files, "keyspace_stats"),
    ("packing", Files, "encoding_limits"),
    ("access", Files, "lru"),
    ("audience", Files, "pubsub"),
    ("links", Files, "peer_connections"),
    ("blocked", Files, "waiters"),
    ("turn", Files, "tick"),
    ("window", Files, "batch"),
    ("heavy", Files, "fairness"),
    ("moderation", Files, "coalescing"),
    ("meanwhile", Files, "the name of what is done meanwhile"),
    ("pushes", Files, "push"),
    ("outbox", Files, "output_buffer"),
    ("abroad", Files, "blocking_pool"),
    ("front", Files, "signals"),
    ("missing", Files, "unsupported"),
    ("warm", Files, "prefault"),
    ("reaper", Files, "lazy_free"),
    ("thin", Files, "thin_bytes"),
    ("deadlines", Files, "ttl_index"),
    ("sweep", Files, "snapshot_sweep"),
    ("walk", Files, "snapshot_iterator"),
    ("wide", Files, "simd"),
    ("bare", Files, "forward_only"),
    ("production", Files, "idempotency"),
    ("handle", Files, "tagged_pointer"),
    ("survey", Files, "big_keys"),
    ("guide", Files, "completion"),
    ("link", Files, "transport"),
    ("bad_habits", Files, "bad_clients"),
    ("smoke", Files, "compat"),
    ("places", Files, "points"),
    ("Ceiling", Types, "MemoryLimit"),
    ("Hindrance", Types, "DenyReasons"),
    ("Patience", Types, "LockTimeout"),
    ("Audience", Types, "PubSub"),
    ("Letter", Types, "WorkerMessage"),
    ("Errand", Types, "Task"),
    ("Crew", Types, "Pool"),
    ("Bell", Types, "Notifier"),
    ("Familiar", Types, "CommandCache"),
    ("Head", Types, "RequestPrefix"),
    ("Moderation", Types, "Coalescer"),
    ("Chance", Types, "Claim"),
    ("Rest", Types, "ValueCursor"),
    ("Spot", Types, "SlotRef"),
    ("OneStep", Types, "InPlaceEdit"),
    ("Own", Types, "OwnedArgs"),
    ("Alone", Types, "NullHost"),
    ("Leftover", Types, "Deferred"),
    ("Cx", Types, "Context"),
    ("Thin", Types, "ThinBytes"),
    ("Deadlines", Types, "TtlIndex"),
    ("Sweep", Types, "SnapshotSweep"),
    ("Walk", Types, "SnapshotIterator"),
    ("Wide", Types, "Simd"),
    ("Bare", Types, "ForwardOnly"),
    ("Production", Types, "Idempotency"),
    ("Handle", Types, "TaggedPointer"),
    ("Survey", Types, "BigKeys"),
    ("Guide", Types, "Completion"),
    ("Link", Types, "Transport"),
    ("Cut", Types, "Capture, Snapshot"),
    ("Saves", Types, "PersistenceStatus"),
    ("Packing", Types, "EncodingLimits"),
    ("Listing", Types, "StreamedReply"),
    ("Blocked", Types, "WaitQueues, BlockedClient"),
    ("Links", Types, "PeerConnections"),
    ("Held", Types, "HeldLocks"),
    ("look", Functions, "lookup_no_touch, watch"),
    ("inspect", Functions, "lookup_no_notify"),
    ("stop_time", Functions, "disable_expiry"),
    ("come", Functions, "attach"),
    ("leave", Functions, "detach"),
    ("carry_out", Functions, "publish"),
    ("put_off", Functions, "retry_later"),
    ("is_stuffed", Functions, "output_full"),
    ("must_rest", Functions, "throttled"),
    ("comes_last", Functions, "deprioritized"),
    ("say_goodbye", Functions, "flush_on_shutdown"),
    ("tired", Functions, "over_budget"),
    ("somebody", Comments, "a client, a thread, another"),
    ("whoever", Comments, "a client, a thread, what"),
    ("he", Comments, "it"),
    ("him", Comments, "it"),
    ("his", Comments, "its"),
    ("runs out", Comments, "expires"),
    ("run out", Comments, "expire"),
    ("is over", Comments, "has expired, has ended"),
    ("in pieces", Comments, "chunked, in chunks"),
    ("leftover", Comments, "deferred work, what is left"),
];

/// Every place of each word that was given up.
pub fn given_up(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (word, place, proposal) in GIVEN_UP {
        let found: Vec<String> = sources.iter().flat_map(|s| places(s, word, *place)).collect();
        if !found.is_empty() {
            complaints.push(format!("`{word}` was given up: say {proposal}\n    {}", found.join("\n    ")));
        }
    }
    complaints
}

fn places(source: &Source, word: &str, place: Where) -> Vec<String> {
    let is_tidy = source.path.starts_with("tests/tidy");
    let named = |kind: Kind| {
        let same = move |n: &&Name| n.kind == kind && n.name == word && !n.in_test;
        source.facts.names.iter().filter(same).map(|n| format!("{}:{}", source.path, n.line))
    };
    match place {
        _ if is_tidy => Vec::new(),
        Types => named(Kind::Type).collect(),
        Functions => named(Kind::Function).collect(),
        Files => (source.name() == format!("{word}.rs")).then(|| source.path.clone()).into_iter().collect(),
        Comments => {
            let lines = numbered(&source.comments).filter(|(_, line)| says(line, word));
            lines.map(|(number, _)| format!("{}:{number}", source.path)).collect()
        }
    }
}

/// Whether a line of a comment has the word, not as code.
fn says(line: &str, word: &str) -> bool {
    let line = line.to_lowercase();
    let prose = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    prose.match_indices(word).any(|(at, _)| {
        let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        !prose[..at].chars().next_back().is_some_and(part) && !prose[at + word.len()..].chars().next().is_some_and(part)
    })
}

/// Words that open no sentence of a comment: the noun that acts does.
const OPENERS: &[&str] = &["What", "Who", "Whom", "Whose", "Of", "Those", "Nobody"];

/// Sentences of comments that open with another word than the noun that acts.
pub fn openers(source: &Source) -> Vec<String> {
    let opens = |text: &str| OPENERS.contains(&text.split(' ').next().unwrap_or_default());
    let is_bad = |line: &str| {
        let text = line.trim_start().trim_start_matches(['/', '!']).trim_start();
        opens(text) || text.match_indices(". ").any(|(at, end)| opens(&text[at + end.len()..]))
    };
    let lines = numbered(&source.comments).filter(|(_, line)| is_bad(line));
    lines
        .map(|(number, line)| format!("{}:{number}: begin with the noun that acts: {}", source.path, line.trim()))
        .collect()
}

/// Further words that open no name of a test.
const NAME_OPENERS: &[&str] = &["Where", "Whoever", "Whatever", "It", "They"];

/// Tests whose names open with another word than the noun that acts.
pub fn openers_of_tests(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.code.lines().map(str::trim).collect();
    let is_test = |line: usize| {
        let above = lines[..line - 1].iter().rev();
        above.take_while(|line| line.is_empty() || line.starts_with('#')).any(|line| *line == "#[test]")
    };
    let opens = |name: &str| {
        let first = name.split('_').next().unwrap_or_default();
        OPENERS.iter().chain(NAME_OPENERS).any(|word| word.eq_ignore_ascii_case(first))
    };
    let tests = source.facts.functions.iter().filter(|f| opens(&f.name) && is_test(f.line));
    tests.map(|f| format!("{}:{}: begin with the noun that acts: {}", source.path, f.line, f.name)).collect()
}

/// Files of one name that are not one thing.
pub fn same_files(sources: &[Source]) -> Vec<String> {
    let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for source in sources.iter().filter(|s| s.path.starts_with("crates/") && s.path.contains("/src/")) {
        by_name.entry(source.name()).or_default().push(&source.path);
    }
    let mut complaints = Vec::new();
    for (name, paths) in &by_name {
        let allowed = SAME_FILES.iter().any(|(n, _)| n == name);
        if paths.len() > 1 && !allowed {
            complaints.push(format!(
                "{name} is the name of {} files: say what each is, or why they are one thing in SAME_FILES of \
                 tests/tidy/exceptions.rs\n    {}",
                paths.len(),
                paths.join("\n    ")
            ));
        }
    }
    let gone = SAME_FILES.iter().filter(|(name, _)| by_name.get(name).is_none_or(|paths| paths.len() < 2));
    complaints.extend(gone.map(|(name, _)| format!("{name} is the name of one file: remove it from SAME_FILES")));
    complaints
}

#[test]
fn words_are_found_where_they_were_given_up() {
    let source = Source::new(
        "crates/x/src/warm.rs",
        "// He waits, `he` does not; the-he.\nstruct Spot; fn come() {}\n#[cfg(test)] mod tests { fn come() {} struct Spot; }",
    );
    let count = |word, place| places(&source, word, place).len();
    assert_eq!(count("warm", Files), 1);
    assert_eq!(count("he", Comments), 1);
    assert_eq!(count("Spot", Types), 1);
    assert_eq!(count("come", Functions), 1);
    assert_eq!(count("Come", Types), 0);
}

#[test]
fn sentences_that_open_badly_are_found() {
    let opens =
        |comment: &str| !openers(&Source::new("crates/x/src/a.rs", &format!("{comment}\nstruct S;"))).is_empty();
    assert!(opens("/// What is left.") && opens("// A key. Of it nothing stays."));
    assert!(!opens("/// The rest, of which nobody knows what it is.") && !opens("/// Office. Offset."));
}

#[test]
fn tests_whose_names_open_badly_are_found() {
    let found = |text: &str| openers_of_tests(&Source::new("crates/x/src/a.rs", text)).len();
    assert_eq!(found("#[test]\n// Why.\n#[ignore]\nfn what_is_left_stays() {}\n#[test]\nfn it_ends() {}"), 2);
    assert_eq!(found("proptest! {\n    #[test]\n    fn those_come_back(n: u8) {}\n}"), 1);
    assert_eq!(found("#[test]\nfn items_end() {\n    fn of_user() {}\n}\nfn of_all() {}"), 0);
}
