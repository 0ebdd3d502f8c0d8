//! Names in documents exist: files, folders and pages; and ARCHITECTURE.md is as short as a map has to be.

use crate::source::{Source, numbered, root};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The documents for people, and a folder with more of them.
const DOCUMENTS: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "fuzz/README.md"];
const FOLDER: &str = "docs";
/// Beginnings of the repository's paths.
const TOP: &[&str] = &["crates/", "tests/", "docs/", "fuzz/", ".ci/"];

const MAP: &str = "ARCHITECTURE.md";
const MAP_LINES_MAX: usize = 250;
const MAP_COLUMNS_MAX: usize = 120;

pub fn complaints() -> Vec<String> {
    paths().iter().flat_map(|path| complaints_of(path)).collect()
}

/// Returns the name of every document, and its text.
pub fn texts() -> Vec<(String, String)> {
    let read = |path: &PathBuf| Some((name(path), fs::read_to_string(path).ok()?));
    paths().iter().filter_map(read).collect()
}

fn paths() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = DOCUMENTS.iter().map(|path| root().join(path)).collect();
    markdown_below(&root().join(FOLDER), &mut paths);
    paths
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn markdown_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            markdown_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

fn complaints_of(path: &Path) -> Vec<String> {
    let name = name(path);
    let Ok(text) = fs::read_to_string(path) else { return vec![format!("there is no {name}")] };
    let mut found = too_long(&name, &text);
    found.extend(missing(&name, &text, |path| root().join(path).exists()));
    found
}

fn too_long(name: &str, text: &str) -> Vec<String> {
    if name != MAP {
        return Vec::new();
    }
    let lines = text.lines().count();
    let many = (lines > MAP_LINES_MAX)
        .then(|| format!("{name}: {lines} lines, {MAP_LINES_MAX} at most: move an idea to a page of docs/design"));
    let wide = text.lines().enumerate().filter(|(_, line)| line.chars().count() > MAP_COLUMNS_MAX);
    many.into_iter().chain(wide.map(|(at, _)| format!("{name}:{}: longer than {MAP_COLUMNS_MAX}", at + 1))).collect()
}

/// Returns the names in a document's text that do not exist: paths between backticks, and links to other pages.
fn missing(name: &str, text: &str, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let paths = between(text, '`', '`').into_iter().filter(|word| is_path(word)).map(PathBuf::from);
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let links = links.map(|link| link.split('#').next().unwrap_or_default());
    let links = links.filter(|link| !link.is_empty() && !link.contains("://")).map(|link| normal(&folder.join(link)));
    for path in paths.chain(links).filter(|path| !exists(path)) {
        found.push(format!("{name}: there is no {}: say where that is now", path.display()));
    }
    found
}

/// Whether this is a path of the repository, and of one thing.
fn is_path(word: &str) -> bool {
    TOP.iter().any(|top| word.starts_with(top)) && !word.contains([' ', '*', '<'])
}

/// Names in the comments of sources that do not exist: files and pages by their paths from the root.
pub fn missing_in_comments(source: &Source) -> Vec<String> {
    let missing = |word: &&str| is_path(word) && Path::new(word).extension().is_some() && !root().join(word).exists();
    let words = |line| str::split(line, |c: char| c.is_whitespace() || "`()[]<>,;:".contains(c));
    let named = numbered(&source.comments).flat_map(|(at, line)| words(line).map(move |word| (at, word)));
    let named = named.map(|(at, word)| (at, word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/')));
    let gone = named.filter(|(_, word)| missing(word));
    gone.map(|(at, word)| format!("{}:{at}: there is no {word}: say where that is now", source.path)).collect()
}

/// Returns the texts between two marks in each line.
fn between(text: &str, open: char, close: char) -> Vec<&str> {
    text.lines()
        .flat_map(|line| line.split(open).skip(1).step_by(2).filter_map(move |rest| rest.split(close).next()))
        .collect()
}

fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

#[test]
fn named_files_that_are_missing_are_found() {
    let text = "`crates/a.rs`, `crates/b.rs` and `b.rs`\n[x](../y.md#z), [w](w.md), [q](https://q/r) `crates/a b`\n";
    let exists = |path: &Path| ["crates/a.rs", "docs/w.md"].contains(&path.to_str().unwrap_or_default());
    let found = missing("docs/x.md", text, exists);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("crates/b.rs") && found[1].contains("no y.md"), "{found:?}");
}

#[test]
fn a_long_map_is_found() {
    assert_eq!(too_long(MAP, &"\n".repeat(MAP_LINES_MAX + 1)).len(), 1);
    assert_eq!(too_long(MAP, &format!("{}\n", "x".repeat(MAP_COLUMNS_MAX + 1))).len(), 1);
    assert_eq!(too_long("README.md", &"\n".repeat(MAP_LINES_MAX + 1)).len(), 0);
}
