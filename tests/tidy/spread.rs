//! A type's methods stand in few files: a type that is spread over many is several parts.

use crate::exceptions::SPREAD;
use crate::facts::Kind;
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Files of a crate with an `impl` of a type, those of traits left out.
const IMPL_FILES_MAX: usize = 5;

/// Types whose `impl` is in too many files.
pub fn complaints(sources: &[Source]) -> Vec<String> {
    let mut spread: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    let mut defined: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for source in sources {
        let Some((name, _)) = source.path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")) else {
            continue;
        };
        for of in &source.facts.impls {
            spread.entry((name, of)).or_default().insert(&source.path);
        }
        for of in source.facts.names.iter().filter(|of| of.kind == Kind::Type) {
            *defined.entry((name, &of.name)).or_default() += 1;
        }
    }
    // Types of one name in several files are types of their own.
    spread.retain(|of, _| defined.get(of).is_none_or(|times| *times == 1));
    compared(&spread.iter().map(|(of, files)| (*of, files.len())).collect(), SPREAD)
}

/// Files of tests within a crate's sources that are not named as tests. Helpers of tests are called `testing`, or
/// `test_` and what they are for.
pub fn unnamed_tests(source: &Source) -> Vec<String> {
    let is_named = |module: &str| module.ends_with("tests") || module == "testing" || module.starts_with("test_");
    let modules = source.facts.test_files.iter().filter(|_| source.path.contains("/src/"));
    let name = |module: &String| module.rsplit('/').next().unwrap_or(module).to_owned();
    let unnamed = modules.map(name).filter(|module| !is_named(module));
    unnamed.map(|module| format!("{}: call the tests `{module}_tests`", source.path)).collect()
}

/// Returns the types beyond the rule and their exceptions, and exceptions that are larger than they need to be.
fn compared(spread: &BTreeMap<(&str, &str), usize>, exceptions: &[(&str, &str, usize, &str)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for ((name, of), files) in spread {
        let allowed = exceptions.iter().find(|(c, t, ..)| c == name && t == of).map_or(IMPL_FILES_MAX, |e| e.2);
        if *files > allowed {
            complaints
                .push(format!("crates/{name}: the `impl` of {of} is in {files} files, {allowed} at most: make parts"));
        }
    }
    for (name, of, allowed, _) in exceptions {
        let files = spread.get(&(*name, *of)).copied().unwrap_or(0);
        if files < *allowed {
            complaints.push(format!("SPREAD: {name}: {of} is in {files} files: the exception only shrinks"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_is_as_large_as_it_has_to_be() {
        let told = |files: usize, exceptions: &[(&str, &str, usize, &str)]| {
            compared(&BTreeMap::from([(("a", "T"), files)]), exceptions).len()
        };
        assert_eq!((told(5, &[]), told(6, &[]), told(6, &[("a", "T", 6, "why")])), (0, 1, 0));
        assert_eq!((told(7, &[("a", "T", 6, "why")]), told(6, &[("a", "T", 7, "why")])), (1, 1));
    }
}
