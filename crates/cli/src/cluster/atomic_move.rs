//! Moves slots by CLUSTER MIGRATESLOTS: the source sends them with their keys, and is polled for its progress.

use resp::Value;
use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use super::cluster_view::ClusterView;
use super::move_progress::MoveProgress;
use super::planning::slots::ranges_text;

/// How often the source is asked.
const EVERY: Duration = Duration::from_millis(100);

/// Progress of a migration, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
enum MigrationState {
    Running,
    Succeeded,
    Failed(String),
}

pub fn move_ranges(
    view: &mut ClusterView<'_>,
    (from, to): (usize, usize),
    ranges: &[RangeInclusive<u16>],
    progress: &mut MoveProgress,
) -> Result<(), String> {
    let text = ranges_text(ranges);
    let (source, target) = (view.nodes[from].address(), view.nodes[to].address());
    progress.begin(&format!("Moving slot range {text} from {source} to {target} via atomic slot migration"));
    let mut command: Vec<String> = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"].map(str::to_owned).into();
    command.extend(ranges.iter().flat_map(|range| [range.start().to_string(), range.end().to_string()]));
    command.extend(["NODE".to_owned(), view.nodes[to].id().to_owned()]);
    view.nodes[from].ask(&command)?;
    loop {
        match state_of(&view.nodes[from].ask(&["CLUSTER", "GETSLOTMIGRATIONS"])?, &text) {
            MigrationState::Succeeded => break,
            MigrationState::Failed(why) => return Err(why),
            MigrationState::Running => {}
        }
        progress.tick();
        thread::sleep(EVERY);
    }
    for slot in ranges.iter().cloned().flatten() {
        view.nodes[from].line.slots.remove(slot);
        view.nodes[to].line.slots.insert(slot);
    }
    Ok(())
}

/// Returns the state of the migration of these ranges, the newest of several.
fn state_of(reply: &Value, ranges: &str) -> MigrationState {
    let failed = |text: &str| MigrationState::Failed(text.to_owned());
    let Value::Array(migrations) = reply else {
        return failed("Expected array as reply to CLUSTER GETSLOTMIGRATIONS");
    };
    let Some(found) = migrations.iter().find(|migration| field(migration, "slot_ranges") == Some(ranges.as_bytes()))
    else {
        return failed("Slot migration not found in GETSLOTMIGRATIONS");
    };
    match field(found, "state") {
        Some(b"success") => MigrationState::Succeeded,
        Some(b"cancelled") => failed("Slot migration was cancelled"),
        Some(b"failed") => failed(&String::from_utf8_lossy(field(found, "message").unwrap_or_default())),
        _ => MigrationState::Running,
    }
}

/// Returns a text of a map, or of an array of names and values.
fn field<'v>(entry: &'v Value, name: &str) -> Option<&'v [u8]> {
    let is_named = |key: &Value| matches!(key, Value::Bulk(key) if key.eq_ignore_ascii_case(name.as_bytes()));
    let value = match entry {
        Value::Map(pairs) => pairs.iter().find(|(key, _)| is_named(key)).map(|(_, value)| value)?,
        Value::Array(items) => {
            let pairs = items.chunks_exact(2);
            pairs.filter(|pair| is_named(&pair[0])).map(|pair| &pair[1]).next()?
        }
        _ => return None,
    };
    if let Value::Bulk(text) = value { Some(text) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_found_by_their_ranges() {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let entry = |ranges: &str, state: &str, message: &str| {
            let texts = ["name", "x", "slot_ranges", ranges, "state", state, "message", message];
            Value::Array(texts.map(bulk).into())
        };
        let failed = |text: &str| MigrationState::Failed(text.to_owned());
        let reply = Value::Array(vec![
            entry("0-1 3-3", "snapshotting", ""),
            entry("5-5", "success", ""),
            entry("6-6", "failed", "why"),
            entry("7-7", "cancelled", ""),
        ]);
        assert_eq!(state_of(&reply, "0-1 3-3"), MigrationState::Running);
        assert_eq!(state_of(&reply, "5-5"), MigrationState::Succeeded);
        assert_eq!(state_of(&reply, "6-6"), failed("why"));
        assert_eq!(state_of(&reply, "7-7"), failed("Slot migration was cancelled"));
        assert_eq!(state_of(&reply, "8-8"), failed("Slot migration not found in GETSLOTMIGRATIONS"));
        assert!(matches!(state_of(&Value::Null, "8-8"), MigrationState::Failed(_)));
        let map =
            Value::Array(vec![Value::Map(vec![(bulk("state"), bulk("success")), (bulk("slot_ranges"), bulk("9-9"))])]);
        assert_eq!(state_of(&map, "9-9"), MigrationState::Succeeded);
    }
}
