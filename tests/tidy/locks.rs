//! Every lock and every wait for another thread stands in the table of docs/design/locks.md, and nothing else does. A
//! lock of the standard library, whose order no build checks, is one with which a thread takes no other lock.

use crate::source::{Source, is_word, root};
use std::collections::BTreeSet;
use std::fs;

const TABLE: &str = "docs/design/locks.md";
/// Beginning of the table's lines; the next word is the crate's, and the path continues below its `src`.
const ROW: &str = "| `";
/// Programs that have no locks of the server's.
const OTHER_CRATES: &[&str] = &["bench", "benchmark", "cli"];
/// The folder that makes locks of locks.
const MAKERS: &str = "crates/engine/src/locks/";
const KINDS: &[&str] = &["Mutex<", "RwLock<", "LockSet<"];
/// Calls that end when another thread does something.
const WAITS: &[&str] = &[".recv()", ".recv_timeout(", ".wait_timeout(", ".changed.wait(", ".moved.wait(", ".join()"];

/// How the last column of a lock begins with which no thread takes another one.
const INNERMOST: &[&str] = &["-", "its condition variable", "the disk"];

/// Complains of locks and waits that the table lacks, and of lines for removed ones.
pub fn complaints(sources: &[Source]) -> Vec<String> {
    let text = fs::read_to_string(root().join(TABLE)).unwrap_or_default();
    let rows: BTreeSet<String> = text.lines().filter_map(row).collect();
    let found: BTreeSet<String> = sources.iter().flat_map(of_source).collect();
    let unchecked: BTreeSet<String> = sources.iter().flat_map(unchecked).collect();
    let bad = text.lines().filter_map(|line| {
        let name = row(line).filter(|name| unchecked.contains(name))?;
        let meanwhile = line.split('|').nth(3).map_or("", str::trim);
        let is_innermost = INNERMOST.iter().any(|word| meanwhile.starts_with(word));
        (!is_innermost).then(|| format!("{name} is a lock whose order is not checked, but is held over: {meanwhile}"))
    });
    let missing = found.difference(&rows).map(|name| format!("{TABLE} has no line for {name}"));
    let gone = rows.difference(&found).map(|name| format!("{TABLE} has a line for {name}, which the code has not"));
    missing.chain(gone).chain(bad).collect()
}

/// Returns what a line of the table is about: two words between backticks.
fn row(line: &str) -> Option<String> {
    let mut words = line.strip_prefix(ROW)?.split('`');
    let (file, name) = (words.next()?, words.nth(1)?);
    file.contains('/').then(|| format!("{file} {name}"))
}

fn of_source(source: &Source) -> Vec<String> {
    let Some(file) = short_name(&source.path) else { return Vec::new() };
    let ours = without_tests(source);
    let mut found: Vec<String> = ours.lines().filter_map(declared).map(|name| format!("{file} {name}")).collect();
    if ours.lines().any(|line| WAITS.iter().any(|wait| line.contains(wait))) {
        found.push(format!("{file} waits"));
    }
    found
}

fn without_tests(source: &Source) -> &str {
    if source.path.ends_with("_tests.rs") {
        return "";
    }
    let ours = source.code.split("\n#[cfg(test)]").next().unwrap_or_default();
    ours.split("\n#[cfg(all(test").next().unwrap_or_default()
}

/// Returns the locks of a file that are the standard library's.
fn unchecked(source: &Source) -> Vec<String> {
    let Some(file) = short_name(&source.path) else { return Vec::new() };
    let ours = without_tests(source);
    let has = |line: &str, kind: &str| line.split(|c| !is_word(c)).any(|word| word == kind);
    let imports = |kind: &str| ours.lines().any(|line| line.starts_with("use std::sync::") && has(line, kind));
    let kinds: Vec<&str> = ["Mutex", "RwLock"].into_iter().filter(|kind| imports(kind)).collect();
    let is_one = |line: &&str| line.contains("std::sync::Mutex<") || kinds.iter().any(|kind| has(line, kind));
    ours.lines().filter(is_one).filter_map(declared).map(|name| format!("{file} {name}")).collect()
}

/// Returns `engine/status/pause` for the path of that file, and none for files that tests have for themselves.
fn short_name(path: &str) -> Option<String> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let is_left_out = OTHER_CRATES.contains(&name)
        || rest.starts_with("bin/")
        || rest.ends_with("testing.rs")
        || rest.ends_with("tests.rs");
    let rest = rest.strip_suffix(".rs").filter(|_| !is_left_out && !path.starts_with(MAKERS))?;
    Some(format!("{name}/{rest}"))
}

/// Returns the field, static or type that a line declares with a lock in it.
fn declared(line: &str) -> Option<&str> {
    let at = KINDS.iter().filter_map(|kind| line.find(kind)).min()?;
    let is_borrowed = line[..at].contains('&') || line.trim_start().starts_with("use ");
    let before = line[..at].trim_start();
    let before = ["pub(crate) ", "pub(super) ", "pub "].iter().fold(before, |rest, word| rest.trim_start_matches(word));
    let keyword = before.split(' ').next().unwrap_or_default();
    let name = match keyword {
        "struct" | "static" | "type" => before[keyword.len()..].trim_start(),
        "fn" | "let" | "impl" | "for" => return None,
        _ if before.contains(':') => before,
        _ => return None,
    };
    let name = name.split(|c| !is_word(c)).next().filter(|name| !name.is_empty());
    name.filter(|_| !is_borrowed)
}

#[cfg(test)]
mod tests {
    use super::{declared, of_source, row, unchecked};
    use crate::source::Source;

    #[test]
    fn declarations_of_locks_are_found() {
        assert_eq!(declared("    pub applying: Mutex<()>,"), Some("applying"));
        assert_eq!(declared("    pub(super) marks: Arc<Mutex<Marks>>,"), Some("marks"));
        assert_eq!(declared("pub struct Rates(Mutex<Totals>);"), Some("Rates"));
        assert_eq!(declared("static BASE: Mutex<Option<i32>> = Mutex::new(None);"), Some("BASE"));
        assert_eq!(declared("    patterns: CachePadded<RwLock<Patterns>>,"), Some("patterns"));
        assert_eq!(declared("fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {"), None);
        assert_eq!(declared("    let state = Mutex::new(1);"), None);
    }

    #[test]
    fn waits_are_those_for_threads() {
        let of = |text: &str| of_source(&Source::new("crates/engine/src/a/b.rs", text));
        assert_eq!(of("fn f() { let word = answer.recv(); }"), ["engine/a/b waits"]);
        assert!(of("fn f() { words.join(\", \"); }\n#[cfg(test)]\nmod tests { fn f() { thread.join(); } }").is_empty());
    }

    #[test]
    fn locks_of_the_standard_library_are_known() {
        let of = |text: &str| unchecked(&Source::new("crates/engine/src/a/b.rs", text));
        assert_eq!(of("use std::sync::{Arc, Mutex};\nstruct A {\n    b: Mutex<u8>,\n}"), ["engine/a/b b"]);
        assert_eq!(of("struct A {\n    c: Arc<std::sync::Mutex<u8>>,\n}"), ["engine/a/b c"]);
        assert!(of("use crate::locks::sync::Mutex;\nuse std::sync::Arc;\nstruct A {\n    b: Mutex<u8>,\n}").is_empty());
    }

    #[test]
    fn a_line_of_the_table_names_a_file_and_a_lock() {
        assert_eq!(
            row("| `engine/status/pause` `causes` | anybody | nothing |"),
            Some("engine/status/pause causes".into())
        );
        assert_eq!(row("| `one` | `two` | three |"), None);
    }
}
