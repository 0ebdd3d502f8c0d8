//! Rooms are stacked: inside a crate, imports go downwards only, files are in no large circle, and a folder is not too
//! full.

use crate::exceptions::{CIRCLES, CROWDED, ROOMS, UPWARD};
use crate::graph::Graph;
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Files that may lead to each other.
const CIRCLE_MAX: usize = 3;
/// The room of `lib.rs` and `main.rs`.
const ROOT: &str = "root";
/// Files in a folder.
const ROOM_FILES_MAX: usize = 25;

/// Imports that go upwards.
pub fn upward(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, rooms) in ROOMS {
        let graph = Graph::of(&folder(name), sources);
        complaints.extend(rooms_missing(name, rooms, &graph));
        let found = upward_edges(name, rooms, &graph);
        for ((from, to), places) in &found {
            let allowed = UPWARD.iter().find(|(c, f, t, ..)| c == name && f == from && t == to).map_or(0, |e| e.3);
            if places.len() > allowed {
                complaints.push(format!(
                    "crates/{name}: `{from}` lies below `{to}` and must not import it ({} files, {allowed} allowed):\n    {}",
                    places.len(),
                    places.join("\n    ")
                ));
            } else if places.len() < allowed {
                complaints.push(lower("UPWARD", &format!("{name}: {from} -> {to}"), places.len()));
            }
        }
        let gone = UPWARD.iter().filter(|(c, f, t, ..)| c == name && !found.contains_key(&(*f, *t)));
        complaints.extend(gone.map(|(_, f, t, ..)| lower("UPWARD", &format!("{name}: {f} -> {t}"), 0)));
    }
    complaints
}

/// Files that lead to each other, too many.
pub fn circles(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for name in crates(sources) {
        let graph = Graph::of(&folder(name), sources);
        let largest = graph.circles().into_iter().max_by_key(BTreeSet::len).unwrap_or_default();
        let allowed = CIRCLES.iter().find(|(c, ..)| *c == name).map(|(_, files, _)| *files);
        if largest.len() > allowed.unwrap_or(CIRCLE_MAX) {
            complaints.push(describe(name, &graph, &largest));
        } else if allowed.is_some_and(|files| largest.len() < files) {
            complaints.push(lower("CIRCLES", name, largest.len()));
        }
    }
    complaints
}

/// Folders that hold too much.
pub fn crowded(sources: &[Source]) -> Vec<String> {
    let mut rooms: BTreeMap<&str, usize> = BTreeMap::new();
    for source in sources.iter().filter(|s| s.path.contains("/src/")) {
        let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *rooms.entry(folder).or_default() += 1;
    }
    let allowed = |room: &str| CROWDED.iter().find(|(r, ..)| *r == room).map_or(ROOM_FILES_MAX, |(_, files, _)| *files);
    let over = rooms.iter().filter(|(room, files)| **files > allowed(room));
    let over = over
        .map(|(room, files)| format!("{room}: {files} files, {ROOM_FILES_MAX} at most: a room is one idea, split it"));
    let files = |room: &str| rooms.get(room).copied().unwrap_or_default();
    let shrunk = CROWDED.iter().filter(|(room, most, _)| files(room) < *most);
    over.chain(shrunk.map(|(room, ..)| lower("CROWDED", room, files(room)))).collect()
}

fn lower(table: &str, entry: &str, now: usize) -> String {
    format!("{entry} is {now} now: say so in {table} of tests/tidy/exceptions.rs, or remove the line")
}

fn folder(name: &str) -> String {
    format!("crates/{name}/src/")
}

fn crates(sources: &[Source]) -> BTreeSet<&str> {
    sources.iter().filter_map(|s| s.path.strip_prefix("crates/")?.split_once("/src/").map(|(name, _)| name)).collect()
}

/// The room of a file: the first part of its path. The crate's root is a room, too: the topmost.
fn room<'a>(name: &str, source: &'a Source) -> &'a str {
    let inside = source.path.strip_prefix(&folder(name)).unwrap_or(&source.path);
    let room = inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs");
    if ["lib", "main"].contains(&room) { ROOT } else { room }
}

fn rooms_missing(name: &str, rooms: &[&str], graph: &Graph) -> Vec<String> {
    let present: BTreeSet<&str> = graph.files.iter().map(|s| room(name, s)).collect();
    let listed: BTreeSet<&str> = rooms.iter().copied().collect();
    let say =
        |room: &&str, what: &str| format!("crates/{name}: room `{room}` {what} ROOMS of tests/tidy/exceptions.rs");
    let missing = present.difference(&listed).map(|r| say(r, "must have its place in"));
    missing.chain(listed.difference(&present).map(|r| say(r, "is gone: remove it from"))).collect()
}

/// By the rooms that they go from and to: the places, one a pair of files.
fn upward_edges<'a>(
    name: &str,
    rooms: &[&'static str],
    graph: &Graph<'a>,
) -> BTreeMap<(&'static str, &'static str), Vec<String>> {
    let height = |file: usize| rooms.iter().position(|r| *r == room(name, graph.files[file]));
    let mut found: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for ((from, to), reference) in &graph.edges {
        let (Some(low), Some(high)) = (height(*from), height(*to)) else {
            continue;
        };
        if low < high {
            let place = format!("{}:{}: {}", graph.files[*from].path, reference.line, reference.written);
            found.entry((rooms[low], rooms[high])).or_default().push(place);
        }
    }
    found
}

fn describe(name: &str, graph: &Graph, circle: &BTreeSet<usize>) -> String {
    let mut lines = vec![format!(
        "crates/{name}: {} files lead to each other, {CIRCLE_MAX} at most: take out what they all need",
        circle.len()
    )];
    let inside = graph.edges.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
    lines.extend(inside.map(|((from, to), reference)| {
        let short = |file: &usize| graph.files[*file].path.trim_start_matches(&folder(name)).to_owned();
        format!("    {}:{} -> {} ({})", short(from), reference.line, short(to), reference.written)
    }));
    lines.join("\n")
}

#[test]
fn upward_imports_are_found() {
    let sources = crate::graph::crate_of(&[
        ("lib.rs", "mod low; mod high;"),
        ("low.rs", "pub struct Low(crate::high::High);"),
        ("high.rs", "use crate::low::Low; pub struct High;"),
    ]);
    let graph = Graph::of("crates/x/src/", &sources);
    let found = upward_edges("x", &["low", "high"], &graph);
    assert_eq!(found[&("low", "high")], ["crates/x/src/low.rs:1: crate::high::High"]);
    assert_eq!(found.len(), 1);
    assert_eq!(rooms_missing("x", &["low", "root", "old"], &graph).len(), 2);
}
