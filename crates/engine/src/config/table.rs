//! Rows by directive and by name.

use std::sync::LazyLock;

use super::directive::Directive;
use super::row::Row;
use super::rows::AREAS;

/// A row, and the name under which it was found: its own or its alias.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub row: &'static Row,
    pub name: &'static str,
}

/// All rows, at the position of their directive.
static ROWS: LazyLock<Box<[&'static Row]>> = LazyLock::new(|| {
    let mut rows: Vec<&'static Row> = AREAS.iter().flat_map(|area| area.iter()).collect();
    rows.sort_by_key(|row| row.directive);
    rows.into()
});

/// All names and aliases in alphabetical order.
static NAMES: LazyLock<Box<[Found]>> = LazyLock::new(|| {
    let own = ROWS.iter().map(|row| Found { row, name: row.name });
    let aliases = ROWS.iter().filter_map(|row| Some(Found { row, name: row.alias? }));
    let mut names: Vec<Found> = own.chain(aliases).collect();
    names.sort_by_key(|found| found.name);
    names.into()
});

pub fn rows() -> &'static [&'static Row] {
    &ROWS
}

pub fn row(directive: Directive) -> &'static Row {
    ROWS[directive.index()]
}

pub fn names() -> &'static [Found] {
    &NAMES
}

/// By name or alias, in any case.
pub fn find(name: &[u8]) -> Option<Found> {
    let name = name.to_ascii_lowercase();
    let at = NAMES.binary_search_by(|found| found.name.as_bytes().cmp(&name)).ok()?;
    Some(NAMES[at])
}

/// Whether the value after `name` must be kept out of logs.
pub fn is_sensitive(name: &[u8]) -> bool {
    find(name).is_some_and(|found| found.row.sensitive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::row::Kind;

    #[test]
    fn one_row_a_directive_in_its_place() {
        assert_eq!(rows().len(), Directive::COUNT);
        for (at, row) in rows().iter().enumerate() {
            assert_eq!(row.directive.index(), at, "{}", row.name);
        }
    }

    #[test]
    fn names_are_unique_and_sorted_within_their_area() {
        for pair in names().windows(2) {
            assert_ne!(pair[0].name, pair[1].name);
        }
        for area in AREAS {
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
            assert!(std::ptr::eq(find(found.name.to_uppercase().as_bytes()).unwrap().row, found.row));
        }
    }

    #[test]
    fn every_default_reads_and_prints_as_itself() {
        for row in rows() {
            let value = row.default_value();
            let printed = row.print(&value);
            if matches!(row.kind, Kind::ReplicaOf) {
                assert!(printed.is_empty());
                continue;
            }
            let words = super::super::value::words_of(row, &printed);
            assert_eq!(row.parse(&words, &value).as_ref(), Ok(&value), "{}", row.name);
        }
    }

    #[test]
    fn every_known_directive_is_here_with_its_default() {
        let reference = include_str!("rows/reference.tsv");
        assert_eq!(reference.lines().count(), 237);
        for line in reference.lines() {
            let (name, default) = line.split_once('\t').unwrap();
            let found = find(name.as_bytes()).unwrap_or_else(|| panic!("no row for {name}"));
            let printed = found.row.print(&found.row.default_value());
            assert_eq!(String::from_utf8_lossy(&printed), default, "{name}");
            assert!(!found.row.hidden, "{name}");
        }
    }
}
