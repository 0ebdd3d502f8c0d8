//! Moves a slot from one node to another: the slot is opened, its keys are sent by MIGRATE, and all nodes learn the
//! owner.
//!
//! ```text
//! SETSLOT IMPORTING (target) - MIGRATING (source) - GETKEYSINSLOT, MIGRATE ... - SETSLOT NODE (target, source, others)
//! ```
//!
//! The target learns it first: if it fails after that, no other node redirects clients to a node without the slot.

use resp::Value;

use super::cluster_view::ClusterView;
use super::console::Reported;
use super::fix_orders::owner_in_eyes_of;
use super::key_conflict::settle_conflict;
use super::move_progress::MoveProgress;
use crate::options::Options;

/// Errors of SETSLOT on a source that has just given its last slot away: it follows the target now, or its replicas
/// follow another primary.
const SOURCE_HAS_CHANGED: [&str; 4] = [
    "ERR Please use SETSLOT only with masters.",
    "ERR Please use SETSLOT only with primaries.",
    "UNBLOCKED",
    "NOREPLICAS",
];

/// Extent of a move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MoveKind {
    /// The slot with its keys.
    Whole,
    /// Keys only: nodes already know the slot's owner.
    KeysOnly,
}

/// Reason why a slot did not move.
#[derive(Debug)]
pub struct MoveFailure {
    pub text: String,
    /// The node that refused; None if the error has been printed.
    pub node: Option<usize>,
}

/// Prints a failure that has not been printed yet.
pub fn tell_of_failure(view: &ClusterView<'_>, failure: MoveFailure) -> Reported {
    if let Some(node) = failure.node {
        view.nodes[node].tell_of_refusal(view.console, &failure.text);
    }
    Reported
}

pub fn move_slot(
    view: &mut ClusterView<'_>,
    (from, to): (usize, usize),
    slot: u16,
    kind: MoveKind,
    progress: &mut MoveProgress,
) -> Result<(), MoveFailure> {
    progress.begin(&format!("Moving slot {slot} from {} to {}", view.nodes[from].address(), view.nodes[to].address()));
    if kind == MoveKind::Whole {
        set_slot(view, to, slot, "importing", from)?;
        set_slot(view, from, slot, "migrating", to)?;
    }
    let moved = move_keys(view, (from, to), slot, progress);
    progress.end_of_keys();
    moved?;
    if kind == MoveKind::Whole {
        tell_everybody(view, (from, to), slot)?;
    }
    view.nodes[from].line.slots.remove(slot);
    view.nodes[to].line.slots.insert(slot);
    Ok(())
}

fn tell_everybody(view: &mut ClusterView<'_>, (from, to): (usize, usize), slot: u16) -> Result<(), MoveFailure> {
    set_slot(view, to, slot, "node", to)?;
    match set_slot(view, from, slot, "node", to) {
        Err(failure) if !SOURCE_HAS_CHANGED.iter().any(|text| failure.text.starts_with(text)) => return Err(failure),
        _ => {}
    }
    for node in view.primaries().into_iter().filter(|node| ![from, to].contains(node)) {
        set_slot(view, node, slot, "node", to)?;
    }
    Ok(())
}

fn set_slot(view: &mut ClusterView<'_>, node: usize, slot: u16, state: &str, about: usize) -> Result<(), MoveFailure> {
    let id = view.nodes[about].id().to_owned();
    let reply = view.nodes[node].ask(&["CLUSTER", "SETSLOT", &slot.to_string(), state, &id]);
    reply.map(|_| ()).map_err(|text| MoveFailure { text, node: Some(node) })
}

/// Moves the keys of all databases.
fn move_keys(
    view: &mut ClusterView<'_>,
    (from, to): (usize, usize),
    slot: u16,
    progress: &mut MoveProgress,
) -> Result<(), MoveFailure> {
    for database in 0..databases(view, from) {
        select(view, from, database)?;
        loop {
            let keys = keys_of(view, from, slot)?;
            if keys.is_empty() {
                break;
            }
            move_some(view, (from, to), slot, &keys)?;
            progress.keys(keys.len());
        }
    }
    select(view, from, 0)
}

/// Returns a node's number of databases: 1 if it does not report it, as versions with one database in a cluster do not.
fn databases(view: &mut ClusterView<'_>, node: usize) -> u32 {
    let node = &mut view.nodes[node];
    if let Some(known) = node.databases {
        return known;
    }
    let count = match node.ask(&["CONFIG", "GET", "cluster-databases"]) {
        Ok(Value::Array(items)) => match items.get(1) {
            Some(Value::Bulk(count)) => String::from_utf8_lossy(count).parse().unwrap_or(1),
            _ => 1,
        },
        Ok(_) => 1,
        Err(refusal) => {
            eprintln!("CONFIG GET cluster-databases fails: {refusal}, use default value 1 instead");
            1
        }
    };
    node.databases = Some(count);
    count
}

fn select(view: &mut ClusterView<'_>, node: usize, database: u32) -> Result<(), MoveFailure> {
    let node = &mut view.nodes[node];
    if node.database != database {
        if let Err(refusal) = node.ask(&["SELECT", &database.to_string()]) {
            let text = format!("SELECT {database} failed: {refusal}");
            eprintln!("{text}");
            return Err(MoveFailure { text, node: None });
        }
        node.database = database;
    }
    Ok(())
}

/// Returns some keys of a slot.
fn keys_of(view: &mut ClusterView<'_>, node: usize, slot: u16) -> Result<Vec<Vec<u8>>, MoveFailure> {
    let pipeline = view.settings().pipeline.to_string();
    let reply = view.nodes[node].ask(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), &pipeline]);
    match reply {
        Ok(Value::Array(keys)) => {
            Ok(keys.into_iter().filter_map(|key| if let Value::Bulk(key) = key { Some(key) } else { None }).collect())
        }
        Ok(_) => Ok(Vec::new()),
        Err(text) => {
            view.nodes[node].tell_of_refusal(view.console, &text);
            Err(MoveFailure { text, node: None })
        }
    }
}

/// Moves keys. Keys that exist on the target are overwritten if they are equal or the user wants that.
fn move_some(
    view: &mut ClusterView<'_>,
    (from, to): (usize, usize),
    slot: u16,
    keys: &[Vec<u8>],
) -> Result<(), MoveFailure> {
    let Err(refusal) = migrate(view, (from, to), keys, false) else { return Ok(()) };
    let is_busy = refusal.contains("BUSYKEY");
    let is_unserved = !is_busy && matches!(owner_in_eyes_of(view, from, slot), Ok(None));
    let refusal = if is_busy {
        settle_conflict(view, (from, to), keys).map_err(|text| MoveFailure { text, node: None })?;
        migrate(view, (from, to), keys, true).err()
    } else if is_unserved {
        if view.mends {
            let target = view.nodes[to].address();
            view.console.warn(&format!("*** Slot was not served, setting owner to node {target}.\n"));
            set_slot(view, from, slot, "node", to)?;
        }
        migrate(view, (from, to), keys, false).err()
    } else {
        Some(refusal)
    };
    let Some(text) = refusal else { return Ok(()) };
    view.console.plain("\n");
    view.nodes[from].tell_of_refusal(view.console, &text);
    Err(MoveFailure { text, node: None })
}

fn migrate(
    view: &mut ClusterView<'_>,
    (from, to): (usize, usize),
    keys: &[Vec<u8>],
    replace: bool,
) -> Result<(), String> {
    let (target, database) = (&view.nodes[to].line, view.nodes[from].database);
    let command = migrate_command(view.options, (&target.host, target.port), database, replace, keys);
    view.nodes[from].ask(&command).map(|_| ())
}

fn migrate_command(
    options: &Options,
    (host, port): (&str, u16),
    database: u32,
    replace: bool,
    keys: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let mut command: Vec<Vec<u8>> = vec!["MIGRATE".into(), host.into(), port.to_string().into_bytes(), "".into()];
    command.extend([database.to_string().into_bytes(), options.cluster.timeout.to_string().into_bytes()]);
    if replace {
        command.push("REPLACE".into());
    }
    command.extend(login_words(options));
    command.push("KEYS".into());
    command.extend(keys.iter().cloned());
    command
}

/// Returns the words that make MIGRATE log in to the target.
pub fn login_words(options: &Options) -> Vec<Vec<u8>> {
    match (&options.user, &options.password) {
        (Some(user), Some(password)) => vec!["AUTH2".into(), user.clone(), password.clone()],
        (None, Some(password)) => vec!["AUTH".into(), password.clone()],
        (_, None) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{Request, Surroundings, parse};

    #[test]
    fn keys_are_sent_with_the_login_of_the_cluster() {
        let command = |line: &str| {
            let line: Vec<_> = line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect();
            let Ok(Request::Run(options)) = parse(&line, Surroundings::default()) else { panic!("a valid line") };
            let keys = [b"k".to_vec(), b"l\0".to_vec()];
            let words = migrate_command(&options, ("h", 7), 2, line.is_empty(), &keys);
            String::from_utf8(words.join(&b' ')).unwrap()
        };
        assert_eq!(command(""), "MIGRATE h 7  2 60000 REPLACE KEYS k l\0");
        assert_eq!(command("-a x --cluster-timeout 5"), "MIGRATE h 7  2 5 AUTH x KEYS k l\0");
        assert_eq!(command("-a x --user u"), "MIGRATE h 7  2 60000 AUTH2 u x KEYS k l\0");
    }
}
