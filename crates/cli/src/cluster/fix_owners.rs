//! Resolves a slot that several primaries have: the one with most keys keeps it and gets the others' keys.

use super::cluster_view::ClusterView;
use super::console::Outcome;
use super::fix_orders::{drop_slot, set_slot, take_slot};
use super::move_progress::MoveProgress;
use super::planning::open_slot::{Claimant, with_most_keys};
use super::slot_move::{MoveKind, move_slot, tell_of_failure};

pub fn fix_owners(view: &mut ClusterView<'_>, slot: u16, owners: &[usize]) -> Outcome {
    let console = view.console;
    console.info(&format!(">>> Fixing multiple owners for slot {slot}...\n"));
    let primaries = view.primaries();
    let mut keys = Vec::new();
    for node in &primaries {
        keys.push(view.keys_in_slots(*node, &[slot])?.first().copied().unwrap_or(0));
    }
    let claimant = |(node, keys): (&usize, &u64)| Claimant { node: *node, line: &view.nodes[*node].line, keys: *keys };
    let claimants = primaries.iter().zip(&keys).filter(|(node, _)| owners.contains(node)).map(claimant);
    let Some(owner) = with_most_keys(&claimants.collect::<Vec<_>>()) else { return Ok(()) };
    console.info(&format!(">>> Setting slot {slot} owner: {}\n", view.nodes[owner].address()));
    take_slot(view, owner, slot, false)?;
    for (node, keys) in primaries.into_iter().zip(keys).filter(|(node, _)| *node != owner) {
        // If the node refuses, the next order fails and prints why.
        let _ = drop_slot(view, node, slot);
        set_slot(view, node, slot, "node", Some(owner))?;
        if keys > 0 {
            let moved = move_slot(view, (node, owner), slot, MoveKind::KeysOnly, &mut MoveProgress::marks());
            moved.map_err(|failure| tell_of_failure(view, failure))?;
        }
        view.nodes[node].line.slots.remove(slot);
    }
    Ok(())
}
