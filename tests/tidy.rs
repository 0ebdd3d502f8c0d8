//! Style as a test: rules of the house that a compiler does not check.
//!
//! Every rule is one small function from sources to complaints; a complaint names the remedy. Exceptions from a rule
//! are a table of `tidy/exceptions.rs`, a line each with its reason, and a line that is no longer needed is a complaint
//! too: the tables only shrink.
#![forbid(unsafe_code)]

#[path = "tidy/cargo_lines.rs"]
mod cargo_lines;
#[path = "tidy/directives.rs"]
mod directives;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/exceptions.rs"]
mod exceptions;
#[path = "tidy/facts.rs"]
mod facts;
#[path = "tidy/graph.rs"]
mod graph;
#[path = "tidy/locks.rs"]
mod locks;
#[path = "tidy/manifests.rs"]
mod manifests;
#[path = "tidy/rooms.rs"]
mod rooms;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/spread.rs"]
mod spread;
#[path = "tidy/style.rs"]
mod style;
#[path = "tidy/words.rs"]
mod words;

use exceptions::{LAYERS, LONG_FILES, LONG_FUNCTIONS, UNSAFE_FILES};
use source::{Source, root, sources};
use std::fs;

#[test]
fn every_file_opens_with_a_doc_comment() {
    expect_none(each_source(style::missing_doc_comment));
}

#[test]
fn files_stay_readable() {
    expect_none(style::long_files(sources(), LONG_FILES));
}

#[test]
fn functions_stay_readable() {
    expect_none(style::long_functions(sources(), LONG_FUNCTIONS));
}

#[test]
fn nothing_is_left_half_done() {
    expect_none(each_source(style::leftovers));
}

#[test]
fn comments_need_no_ticket_tracker() {
    expect_none(each_source(style::ticket_numbers));
}

#[test]
fn comments_are_no_wider_than_code() {
    expect_none(each_source(style::wide_comments));
}

#[test]
fn unsafe_lives_in_few_named_files() {
    let (architecture, sources) = (read_architecture(), sources());
    let mut complaints: Vec<String> = sources.iter().flat_map(|s| style::unsafe_elsewhere(s, UNSAFE_FILES)).collect();
    for path in UNSAFE_FILES {
        if !architecture.contains(path) {
            complaints.push(format!("{path} may use unsafe: ARCHITECTURE.md must name it and say what for"));
        }
        if !sources.iter().any(|s| s.path == *path && !s.facts.unsafes.is_empty()) {
            complaints.push(format!("{path} has no unsafe, or is gone: remove it from UNSAFE_FILES"));
        }
    }
    expect_none(complaints);
}

#[test]
fn every_unsafe_has_its_proof() {
    expect_none(each_source(style::unsafe_without_proof));
}

#[test]
fn crates_import_downwards() {
    expect_none(manifests::upward(&manifests::packages(), LAYERS));
}

#[test]
fn rooms_import_downwards() {
    expect_none(rooms::upward(sources()));
}

#[test]
fn files_are_in_no_large_circle() {
    expect_none(rooms::circles(sources()));
}

#[test]
fn a_types_methods_stand_in_few_files() {
    expect_none(spread::complaints(sources()));
}

#[test]
fn modules_of_tests_are_named_as_tests() {
    expect_none(each_source(spread::unnamed_tests));
}

#[test]
fn rooms_are_not_crowded() {
    expect_none(rooms::crowded(sources()));
}

#[test]
fn sentences_begin_with_the_noun_that_acts() {
    expect_none(each_source(words::openers));
    expect_none(each_source(words::openers_of_tests));
}

#[test]
fn words_are_the_fields() {
    expect_none(words::given_up(sources()));
}

#[test]
fn one_name_is_one_file() {
    expect_none(words::same_files(sources()));
}

#[test]
fn architecture_names_every_crate() {
    expect_none(manifests::architecture_names_every_crate(&read_architecture()));
}

#[test]
fn architecture_says_why_each_dependency_is_there() {
    expect_none(manifests::dependency_table(&manifests::packages(), &read_architecture()));
}

#[test]
fn documents_name_what_exists() {
    expect_none(documents::complaints());
    expect_none(each_source(documents::missing_in_comments));
}

#[test]
fn cargo_lines_of_documents_can_be_run() {
    expect_none(cargo_lines::complaints());
}

#[test]
fn every_lock_and_every_wait_is_in_the_table() {
    expect_none(locks::complaints(sources()));
}

#[test]
fn every_directive_is_read_or_unsupported() {
    expect_none(directives::complaints(sources()));
}

// ---- what every rule uses -----------------------------------------------------------------------------------------

fn read_architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md at the root of the repository")
}

fn each_source(rule: impl Fn(&Source) -> Vec<String>) -> Vec<String> {
    sources().iter().flat_map(rule).collect()
}

fn expect_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
