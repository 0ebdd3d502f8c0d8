//! References between the files of a crate as a graph, from the paths and imports that they write.
//!
//! A path leads to the file that defines its last name: a module that only re-exports it (`use`) is followed. An import
//! of a module is no reference to its file: the paths through it are.

use crate::facts::{Import, Module};
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Passing on goes through so many modules at most.
const HOPS_MAX: usize = 12;

/// A crate's files and what they refer to.
pub struct Graph<'a> {
    pub files: Vec<&'a Source>,
    /// By index of the file that refers and the one that is referred to.
    pub edges: BTreeMap<(usize, usize), Reference>,
}

/// The first of the places where a file refers to another.
#[derive(Clone)]
pub struct Reference {
    pub line: usize,
    pub written: String,
}

struct Place<'a> {
    file: usize,
    module: &'a Module,
}

type Modules<'a> = BTreeMap<Vec<String>, Place<'a>>;

impl<'a> Graph<'a> {
    /// Returns the graph of the crate whose sources lie in `folder`, such as `crates/engine/src/`. Programs in `bin`
    /// are crates of their own, and tests are left out.
    pub fn of(folder: &str, sources: &'a [Source]) -> Graph<'a> {
        let inside = |s: &&Source| s.path.strip_prefix(folder).is_some_and(|rest| !rest.starts_with("bin/"));
        let tests = test_paths(folder, sources);
        let files: Vec<&Source> = sources
            .iter()
            .filter(inside)
            .filter(|s| !tests.iter().any(|t| module_path(folder, &s.path).starts_with(t)))
            .collect();
        let mut modules = Modules::new();
        for (file, source) in files.iter().enumerate() {
            for module in &source.facts.modules {
                let path = [module_path(folder, &source.path), module.path.clone()].concat();
                modules.insert(path, Place { file, module });
            }
        }
        let mut graph = Graph { files, edges: BTreeMap::new() };
        for (path, place) in &modules {
            graph.add_edges(&modules, path, place);
        }
        graph
    }

    fn add_edges(&mut self, modules: &Modules, path: &[String], place: &Place) {
        let is_facade = self.files[place.file].name() == "mod.rs" || path.is_empty();
        let passed_on = |import: &&Import| is_facade && import.is_public;
        let imports = place.module.imports.iter().filter(|import| !passed_on(import)).map(|import| &import.path);
        for written in imports.chain(&place.module.paths) {
            let Some(to) = resolve(modules, path, &written.segments, HOPS_MAX) else {
                continue;
            };
            if to != place.file {
                let reference = Reference { line: written.line, written: written.segments.join("::") };
                self.edges.entry((place.file, to)).or_insert(reference);
            }
        }
    }

    /// The circles: sets of more than one file that all lead to each other.
    pub fn circles(&self) -> Vec<BTreeSet<usize>> {
        let reach: Vec<BTreeSet<usize>> = (0..self.files.len()).map(|file| self.reachable(file)).collect();
        let mut found: Vec<BTreeSet<usize>> = Vec::new();
        for file in 0..self.files.len() {
            let circle: BTreeSet<usize> = reach[file].iter().copied().filter(|to| reach[*to].contains(&file)).collect();
            if circle.len() > 1 && !found.contains(&circle) {
                found.push(circle);
            }
        }
        found
    }

    fn reachable(&self, from: usize) -> BTreeSet<usize> {
        let (mut found, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(file) = next.pop() {
            for to in self.edges.range((file, 0)..(file + 1, 0)).map(|((_, to), _)| *to) {
                if found.insert(to) {
                    next.push(to);
                }
            }
        }
        found
    }
}

/// Modules whose files are built for tests only.
fn test_paths(folder: &str, sources: &[Source]) -> Vec<Vec<String>> {
    let declared = sources.iter().filter(|s| s.path.starts_with(folder)).flat_map(|s| {
        let own = module_path(folder, &s.path);
        s.facts.test_files.iter().map(move |t| [own.clone(), t.split('/').map(str::to_owned).collect()].concat())
    });
    declared.collect()
}

/// `keyspace/mod.rs` and `keyspace.rs` are `keyspace`; the root is empty.
fn module_path(folder: &str, path: &str) -> Vec<String> {
    let inside = path.strip_prefix(folder).unwrap_or(path).trim_end_matches(".rs");
    let mut segments: Vec<String> = inside.split('/').map(str::to_owned).collect();
    let is_root = segments.len() == 1 && ["lib", "main"].contains(&segments[0].as_str());
    if is_root || segments.last().is_some_and(|last| last == "mod") {
        segments.pop();
    }
    segments
}

/// The file with what `segments`, written in module `at`, names; None for what is of another crate, or a module.
fn resolve(modules: &Modules, at: &[String], segments: &[String], hops: usize) -> Option<usize> {
    let hops = hops.checked_sub(1)?;
    let (first, rest) = segments.split_first()?;
    match first.as_str() {
        "crate" => walk(modules, Vec::new(), rest, hops),
        "self" => walk(modules, at.to_vec(), rest, hops),
        "super" => {
            let above = at.split_last()?.1;
            let is_climbing = rest.first().is_some_and(|next| next == "super");
            if is_climbing { resolve(modules, above, rest, hops) } else { walk(modules, above.to_vec(), rest, hops) }
        }
        _ => {
            let place = modules.get(at)?;
            let child = [at, std::slice::from_ref(first)].concat();
            let import = place.module.imports.iter().find(|import| import.name.as_ref() == Some(first));
            match import {
                _ if modules.contains_key(&child) => walk(modules, child, rest, hops),
                Some(import) if import.path.segments != segments => {
                    let whole = [&import.path.segments[..], rest].concat();
                    resolve(modules, at, &whole, hops)
                }
                _ => None,
            }
        }
    }
}

/// Goes on from module `at`.
fn walk(modules: &Modules, mut at: Vec<String>, segments: &[String], hops: usize) -> Option<usize> {
    for (index, segment) in segments.iter().enumerate() {
        let child = [&at[..], std::slice::from_ref(segment)].concat();
        if modules.contains_key(&child) {
            at = child;
            continue;
        }
        let place = modules.get(&at)?;
        if place.module.defined.contains(segment) {
            return Some(place.file);
        }
        let rest = &segments[index + 1..];
        let imports = || place.module.imports.iter();
        if let Some(import) = imports().find(|import| import.name.as_ref() == Some(segment)) {
            return resolve(modules, &at, &[&import.path.segments[..], rest].concat(), hops);
        }
        let through = imports().filter(|import| import.name.is_none()).find_map(|import| {
            let whole = [&import.path.segments[..], &segments[index..]].concat();
            let found = resolve(modules, &at, &whole, hops);
            found.filter(|file| *file != place.file)
        });
        return through.or(Some(place.file));
    }
    None
}

/// A crate of these files.
#[cfg(test)]
pub fn crate_of(files: &[(&str, &str)]) -> Vec<Source> {
    files.iter().map(|(path, text)| Source::new(&format!("crates/x/src/{path}"), text)).collect()
}

#[test]
fn paths_lead_to_the_file_that_defines() {
    let sources = crate_of(&[
        ("lib.rs", "mod low; mod high; pub use high::top::Top;"),
        ("low/mod.rs", "mod a; pub use a::{A, *}; pub(crate) use b::B; mod b; #[cfg(test)] mod tests;"),
        ("low/a.rs", "pub struct A; pub fn free() {}"),
        ("low/b.rs", "use super::A; pub struct B; #[cfg(test)] mod tests { use crate::high::Other; }"),
        ("low/tests.rs", "use crate::high::Other;"),
        (
            "high/mod.rs",
            "pub mod top; use crate::low; fn f() { low::free() } macro_rules! m { () => { crate::low::B } }",
        ),
        ("high/top.rs", "use std::fmt; use crate::low::{self, A as Renamed}; pub struct Top(low::B, fmt::Error);"),
    ]);
    let graph = Graph::of("crates/x/src/", &sources);
    let name = |file: usize| graph.files[file].path.trim_start_matches("crates/x/src/");
    let edges: BTreeSet<(&str, &str)> = graph.edges.keys().map(|(from, to)| (name(*from), name(*to))).collect();
    let expected = [
        ("high/mod.rs", "low/a.rs"),
        ("high/mod.rs", "low/b.rs"),
        ("high/top.rs", "low/a.rs"),
        ("high/top.rs", "low/b.rs"),
        ("low/b.rs", "low/a.rs"),
    ];
    assert_eq!(edges, BTreeSet::from(expected));
}

#[test]
fn circles_are_found() {
    let sources = crate_of(&[
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "use crate::a::A; pub struct C;"),
        ("d.rs", "use crate::a::A; pub struct D;"),
    ]);
    let graph = Graph::of("crates/x/src/", &sources);
    assert_eq!(graph.circles(), [BTreeSet::from([0, 1, 2])]);
}
