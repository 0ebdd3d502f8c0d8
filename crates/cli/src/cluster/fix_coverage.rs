//! Assigns slots without an owner: each goes to a node that has keys of it or, without any, to a random one.

use resp::Value;

use super::ask_user::confirm;
use super::cluster_view::{ClusterView, words};
use super::console::Outcome;
use super::fix_orders::{set_slot, take_slot};
use super::move_progress::MoveProgress;
use super::planning::open_slot::{Claimant, with_most_keys};
use super::planning::slots::Slots;
use super::slot_move::{MoveKind, move_slot, tell_of_failure};

/// Commands sent in one go.
const BATCH: usize = 1024;

/// Returns how many slots have an owner now. The user confirms each kind of them, whatever `--cluster-yes` says.
pub fn fix_coverage(view: &mut ClusterView<'_>, uncovered: &Slots) -> Outcome<usize> {
    let console = view.console;
    console.info(">>> Fixing slots coverage...\n");
    let holders = holders(view, uncovered)?;
    let of = |count: fn(usize) -> bool| -> Vec<(u16, Vec<usize>)> {
        holders.iter().filter(|(_, nodes)| count(nodes.len())).cloned().collect()
    };
    let (none, one, several) = (of(|count| count == 0), of(|count| count == 1), of(|count| count > 1));
    let mut fixed = 0;
    let question = "Fix these slots by covering with a random node?";
    if is_wanted(view, &none, "The following uncovered slots have no keys across the cluster:", question) {
        let primaries = view.primaries();
        for (slot, _) in none {
            let Some(owner) = fastrand::choice(&primaries).copied() else { break };
            fixed += cover(view, slot, owner)?;
        }
    }
    let question = "Fix these slots by covering with those nodes?";
    if is_wanted(view, &one, "The following uncovered slots have keys in just one node:", question) {
        for (slot, nodes) in one {
            fixed += cover(view, slot, nodes[0])?;
        }
    }
    let question = "Fix these slots by moving keys into a single node?";
    if is_wanted(view, &several, "The following uncovered slots have keys in multiple nodes:", question) {
        for (slot, nodes) in several {
            gather(view, slot, &nodes)?;
            fixed += 1;
        }
    }
    Ok(fixed)
}

/// Returns, for each slot, the primaries that have keys of it.
fn holders(view: &mut ClusterView<'_>, slots: &Slots) -> Outcome<Vec<(u16, Vec<usize>)>> {
    let mut holders: Vec<(u16, Vec<usize>)> = slots.iter().map(|slot| (slot, Vec::new())).collect();
    for at in view.primaries() {
        for some in holders.chunks_mut(BATCH) {
            let commands = some.iter().map(|(slot, _)| words(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1"]));
            let replies = view.nodes[at].ask_all(&commands.collect::<Vec<_>>());
            let replies = replies.map_err(|lost| view.nodes[at].tell_of_refusal(view.console, &lost))?;
            for ((_, nodes), reply) in some.iter_mut().zip(replies) {
                match reply {
                    Value::Array(keys) if !keys.is_empty() => nodes.push(at),
                    Value::Error(text) => {
                        let text = String::from_utf8_lossy(&text);
                        return Err(view.nodes[at].tell_of_refusal(view.console, &text));
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(holders)
}

fn is_wanted(view: &ClusterView<'_>, slots: &[(u16, Vec<usize>)], introduction: &str, question: &str) -> bool {
    if slots.is_empty() {
        return false;
    }
    let set: Slots = slots.iter().map(|(slot, _)| *slot).collect();
    view.console.plain(&format!("{introduction}\n{set}\n"));
    confirm(view.console, question)
}

fn cover(view: &mut ClusterView<'_>, slot: u16, owner: usize) -> Outcome<usize> {
    view.console.info(&format!(">>> Covering slot {slot} with {}\n", view.nodes[owner].address()));
    take_slot(view, owner, slot, false)?;
    Ok(1)
}

/// Moves the keys of a slot to the node that has most of them.
fn gather(view: &mut ClusterView<'_>, slot: u16, nodes: &[usize]) -> Outcome {
    let mut keys = Vec::new();
    for node in nodes {
        keys.extend(view.keys_in_slots(*node, &[slot])?);
    }
    let claimants =
        nodes.iter().zip(keys).map(|(node, keys)| Claimant { node: *node, line: &view.nodes[*node].line, keys });
    let Some(owner) = with_most_keys(&claimants.collect::<Vec<_>>()) else { return Ok(()) };
    view.console.info(&format!(">>> Covering slot {slot} moving keys to {}\n", view.nodes[owner].address()));
    take_slot(view, owner, slot, true)?;
    for node in nodes.iter().copied().filter(|node| *node != owner) {
        set_slot(view, node, slot, "NODE", Some(owner))?;
        // An importing node executes MIGRATE's commands instead of redirecting them.
        set_slot(view, node, slot, "IMPORTING", Some(owner))?;
        let moved = move_slot(view, (node, owner), slot, MoveKind::KeysOnly, &mut MoveProgress::marks());
        moved.map_err(|failure| tell_of_failure(view, failure))?;
        set_slot(view, node, slot, "STABLE", None)?;
    }
    Ok(())
}
