//! Entries by directive and by name.

use std::sync::LazyLock;

use super::directive::Directive;
use super::directive_entry::DirectiveEntry;
use super::directives::{AREAS, COUNT};

/// An entry, and the name under which it was found: its own or its alias.
#[derive(Clone, Copy, Debug)]
pub struct FoundDirective {
    /// The entry.
    pub entry: &'static DirectiveEntry,
    /// The name or alias that matched.
    pub name: &'static str,
}

/// All entries, at the position of their directive.
static ENTRIES: [&DirectiveEntry; COUNT] = {
    let mut entries = [&AREAS[0].1[0]; COUNT];
    let (mut area, mut count) = (0, 0);
    while area < AREAS.len() {
        let mut at = 0;
        while at < AREAS[area].1.len() {
            entries[count] = &AREAS[area].1[at];
            count += 1;
            at += 1;
        }
        area += 1;
    }
    entries
};

/// All names and aliases in alphabetical order.
static NAMES: LazyLock<Box<[FoundDirective]>> = LazyLock::new(|| {
    let own = ENTRIES.iter().map(|entry| FoundDirective { entry, name: entry.name });
    let aliases = ENTRIES.iter().filter_map(|entry| Some(FoundDirective { entry, name: entry.alias? }));
    let mut names: Vec<FoundDirective> = own.chain(aliases).collect();
    names.sort_by_key(|found| found.name);
    names.into()
});

/// Returns all entries, in the order of the directives' numbers.
pub fn entries() -> &'static [&'static DirectiveEntry] {
    &ENTRIES
}

/// Returns the entry of this directive.
pub fn entry(directive: Directive) -> &'static DirectiveEntry {
    ENTRIES[directive.index()]
}

/// Returns all names and aliases in alphabetical order.
pub fn names() -> &'static [FoundDirective] {
    &NAMES
}

/// Finds an entry by name or alias, in any case.
pub fn find(name: &[u8]) -> Option<FoundDirective> {
    let name = name.to_ascii_lowercase();
    let at = NAMES.binary_search_by(|found| found.name.as_bytes().cmp(&name)).ok()?;
    Some(NAMES[at])
}

/// Whether the value after `name` must be kept out of logs.
pub fn is_sensitive(name: &[u8]) -> bool {
    find(name).is_some_and(|found| found.entry.sensitive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::directive_entry::DirectiveKind;

    #[test]
    fn one_entry_a_directive_in_its_place() {
        for (at, entry) in entries().iter().enumerate() {
            assert_eq!(entry.directive.index(), at, "{}", entry.name);
        }
    }

    #[test]
    fn names_are_unique_and_sorted_within_their_area() {
        for pair in names().windows(2) {
            assert_ne!(pair[0].name, pair[1].name);
        }
        for (_, area) in AREAS {
            for pair in area.windows(2) {
                assert!(pair[0].name < pair[1].name, "{} after {}", pair[1].name, pair[0].name);
            }
        }
    }

    #[test]
    fn names_are_lower_case_words() {
        for found in names() {
            let legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'_';
            assert!(found.name.bytes().all(legal), "{}", found.name);
            assert!(std::ptr::eq(find(found.name.to_uppercase().as_bytes()).unwrap().entry, found.entry));
        }
    }

    #[test]
    fn every_default_reads_and_prints_as_itself() {
        for entry in entries() {
            let value = entry.default_value();
            let printed = entry.print(&value);
            if matches!(entry.kind, DirectiveKind::ReplicaOf) {
                assert!(printed.is_empty());
                continue;
            }
            let words = super::super::directive_value::words_of(entry, &printed);
            assert_eq!(entry.parse(&words, &value).as_ref(), Ok(&value), "{}", entry.name);
        }
    }

    #[test]
    fn every_known_directive_is_here_with_its_default() {
        let reference = include_str!("directives/reference.tsv");
        assert_eq!(reference.lines().count(), 237);
        for line in reference.lines() {
            let (name, default) = line.split_once('\t').unwrap();
            let found = find(name.as_bytes()).unwrap_or_else(|| panic!("no entry for {name}"));
            let printed = found.entry.print(&found.entry.default_value());
            assert_eq!(String::from_utf8_lossy(&printed), default, "{name}");
            assert!(!found.entry.hidden, "{name}");
        }
    }
}
