//! `info`, `check` and `fix`: contents of nodes, their agreement, and that each slot is stable and has one owner.

use resp::Value;
use std::collections::BTreeSet;

use super::cluster_view::ClusterView;
use super::console::{Outcome, Reported};
use super::fix_coverage::fix_coverage;
use super::fix_open_slot::fix_open_slot;
use super::fix_owners::fix_owners;
use super::join::is_consistent;
use super::planning::slots::{SLOTS, Slots};

/// How a cluster is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Nodes are not listed.
    Quiet,
    Full,
    /// Problems that are found are fixed, too.
    Fix,
}

/// Prints how much each primary holds. Stops at a primary that does not answer.
pub fn show_info(view: &mut ClusterView<'_>) {
    // The error has already been printed.
    let _ = show_sizes(view);
}

fn show_sizes(view: &mut ClusterView<'_>) -> Outcome {
    let (console, primaries) = (view.console, view.primaries());
    let mut keys = 0;
    for at in &primaries {
        let id = view.nodes[*at].id().to_owned();
        let replicas = view.nodes.iter().filter(|node| node.line.primary.as_deref() == Some(&id)).count();
        let node = &mut view.nodes[*at];
        let count = match node.order(console, &["DBSIZE"])? {
            Value::Int(count) => count,
            _ => return Err(node.tell_of_refusal(console, "")),
        };
        let (address, slots) = (node.address(), node.line.slots.len());
        let short = id.get(..8).unwrap_or(&id);
        console.plain(&format!("{address} ({short}...) -> {count} keys | {slots} slots | {replicas} replicas.\n"));
        keys += count;
    }
    console.ok(&format!("[OK] {keys} keys in {} primaries.\n", primaries.len()));
    console.plain(&format!("{:.2} keys per slot on average.\n", keys as f32 / f32::from(SLOTS)));
    Ok(())
}

/// Returns whether the cluster is well, or was fixed. Problems that forbid moving slots are recorded in `problems`.
pub fn check(view: &mut ClusterView<'_>, extent: Extent) -> Outcome<bool> {
    let console = view.console;
    view.mends = extent == Extent::Fix;
    let Some(first) = view.nodes.first() else { return Ok(false) };
    console.info(&format!(">>> Performing Cluster Check (using node {})\n", first.address()));
    if extent != Extent::Quiet {
        view.show_nodes();
    }
    let mut is_well = true;
    if is_consistent(view) {
        console.ok("[OK] All nodes agree about slots configuration.\n");
    } else {
        is_well = problem(view, "[ERR] Nodes don't agree about configuration!");
    }
    console.info(">>> Check for open slots...\n");
    let open = open_slots(view);
    if !open.is_empty() {
        is_well = tend_open_slots(view, &open, extent)?;
    }
    console.info(">>> Check slots coverage...\n");
    let uncovered = uncovered_slots(view);
    if uncovered.is_empty() {
        console.ok(&format!("[OK] All {SLOTS} slots covered.\n"));
    } else {
        is_well = problem(view, &format!("[ERR] Not all {SLOTS} slots are covered by nodes.\n"));
        if extent == Extent::Fix {
            refuse_without_primaries(view, "slots coverage")?;
            is_well = fix_coverage(view, &uncovered).is_ok_and(|fixed| fixed > 0);
        }
    }
    if view.settings().search_multiple_owners {
        is_well &= check_owners(view, extent)?;
    }
    Ok(is_well)
}

/// Prints a problem and records it.
fn problem(view: &mut ClusterView<'_>, text: &str) -> bool {
    view.problems.push(text.trim_end().to_owned());
    view.console.error(&format!("{text}\n"));
    false
}

/// Returns the slots that some node moves, and prints each such node.
fn open_slots(view: &mut ClusterView<'_>) -> BTreeSet<u16> {
    let mut open = BTreeSet::new();
    let mut texts = Vec::new();
    for node in &view.nodes {
        for (state, moving) in [("migrating", &node.line.migrating), ("importing", &node.line.importing)] {
            let slots: Vec<u16> = moving.iter().map(|(slot, _)| *slot).collect();
            if !slots.is_empty() {
                let address = node.address();
                texts.push(format!("[WARNING] Node {address} has slots in {state} state {}.", list(&slots)));
            }
            open.extend(slots);
        }
    }
    for text in texts {
        problem(view, &text);
    }
    open
}

fn list<'s>(slots: impl IntoIterator<Item = &'s u16>) -> String {
    slots.into_iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

fn tend_open_slots(view: &mut ClusterView<'_>, open: &BTreeSet<u16>, extent: Extent) -> Outcome<bool> {
    view.console.error(&format!("[WARNING] The following slots are open: {}.\n", list(open)));
    if extent != Extent::Fix {
        return Ok(false);
    }
    refuse_without_primaries(view, "open slots")?;
    Ok(open.iter().all(|slot| fix_open_slot(view, *slot).is_ok()))
}

/// Refuses when a primary is unreachable: its slots look unowned, and are left alone unless the user insists.
fn refuse_without_primaries(view: &ClusterView<'_>, what: &str) -> Outcome {
    let count = view.unreachable_primaries;
    if count == 0 || view.settings().fix_with_unreachable_primaries {
        return Ok(());
    }
    view.console.warn(&format!(
        "*** Fixing {what} with {count} unreachable primaries is dangerous: cinnabar-cli will assume that slots about \
         primaries that are not reachable are not covered, and will try to reassign them to the reachable nodes. This \
         can cause data loss and is rarely what you want to do. If you really want to proceed use the \
         --cluster-fix-with-unreachable-primaries option.\n"
    ));
    Err(Reported)
}

fn uncovered_slots(view: &ClusterView<'_>) -> Slots {
    (0..SLOTS).filter(|slot| !view.nodes.iter().any(|node| node.line.slots.contains(*slot))).collect()
}

/// Looks for slots that several primaries own or hold keys of.
fn check_owners(view: &mut ClusterView<'_>, extent: Extent) -> Outcome<bool> {
    let console = view.console;
    console.info(">>> Check for multiple slot owners...\n");
    let mut owners: Vec<Vec<usize>> = vec![Vec::new(); usize::from(SLOTS)];
    for at in view.primaries() {
        let foreign: Vec<u16> = (0..SLOTS).filter(|slot| !view.nodes[at].line.slots.contains(*slot)).collect();
        let keys = view.keys_in_slots(at, &foreign)?;
        let with_keys = foreign.into_iter().zip(keys).filter(|(_, keys)| *keys > 0).map(|(slot, _)| slot);
        for slot in view.nodes[at].line.slots.iter().chain(with_keys) {
            owners[usize::from(slot)].push(at);
        }
    }
    let (mut is_well, mut left) = (true, 0);
    for (slot, owners) in (0..SLOTS).zip(owners).filter(|(_, owners)| owners.len() > 1) {
        is_well = false;
        let text = format!("[WARNING] Slot {slot} has {} owners:", owners.len());
        console.error(&format!("{text}\n"));
        view.conflicts.push(text);
        for owner in &owners {
            console.error(&format!("    {}\n", view.nodes[*owner].address()));
        }
        left += 1;
        if extent == Extent::Fix {
            is_well = fix_owners(view, slot, &owners).is_ok();
            if !is_well {
                console.error(&format!("Failed to fix multiple owners for slot {slot}\n"));
                break;
            }
            left -= 1;
        }
    }
    if left == 0 {
        console.ok("[OK] No multiple owners found.\n");
    }
    Ok(is_well)
}
