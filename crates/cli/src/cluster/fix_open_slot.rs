//! Closes a slot that was left moving: it gets one owner, and all its keys are moved there.

use super::cluster_view::ClusterView;
use super::console::Outcome;
use super::fix_orders::{drop_slot, set_slot, take_slot};
use super::move_progress::MoveProgress;
use super::planning::open_slot::{Claimant, OpenSlot, Remedy, with_most_keys};
use super::slot_move::{MoveKind, move_slot, tell_of_failure};

pub fn fix_open_slot(view: &mut ClusterView<'_>, slot: u16) -> Outcome {
    let console = view.console;
    console.info(&format!(">>> Fixing open slot {slot}\n"));
    let mut keys = Vec::new();
    for node in view.primaries() {
        keys.push((node, view.keys_in_slots(node, &[slot])?.first().copied().unwrap_or(0)));
    }
    let mut open = OpenSlot::survey(slot, &claimants(view, &keys));
    let (migrating, importing) = tell_of_claims(view, slot, &open);
    let owner = match open.owner {
        Some(owner) => owner,
        None => choose_owner(view, slot, &mut open, &keys)?,
    };
    for node in open.owners.clone() {
        if node != owner {
            drop_slot(view, node, slot)?;
            view.nodes[node].line.slots.remove(slot);
            set_slot(view, node, slot, "node", Some(owner))?;
            set_slot(view, node, slot, "importing", Some(owner))?;
            open.set_importing(node);
        }
    }
    let remedy = open.remedy(slot, &claimants(view, &keys));
    if remedy == Remedy::None {
        let owner = view.nodes[owner].address();
        return console.refuse(&format!(
            "[ERR] Sorry, cinnabar-cli can't fix this slot yet (work in progress). Slot is set as migrating in \
             {migrating}, as importing in {importing}, owner is {owner}\n"
        ));
    }
    apply(view, slot, &open, owner, remedy)
}

fn claimants<'v>(view: &'v ClusterView<'_>, keys: &[(usize, u64)]) -> Vec<Claimant<'v>> {
    keys.iter().map(|(node, keys)| Claimant { node: *node, line: &view.nodes[*node].line, keys: *keys }).collect()
}

/// Prints which nodes claim the slot; returns the addresses of those that migrate and of those that import it.
fn tell_of_claims(view: &ClusterView<'_>, slot: u16, open: &OpenSlot) -> (String, String) {
    let (console, address) = (view.console, |node: &usize| view.nodes[*node].address());
    for node in &open.keys_without_ownership {
        console.warn(&format!("*** Found keys about slot {slot} in non-owner node {}!\n", address(node)));
    }
    for node in &open.keys_without_reason {
        console.warn(&format!("*** Found keys about slot {slot} in node {}!\n", address(node)));
    }
    let list = |nodes: &[usize]| nodes.iter().map(address).collect::<Vec<_>>().join(",");
    let (migrating, importing) = (list(&open.migrating), list(&open.importing));
    for (state, nodes) in [("migrating", &migrating), ("importing", &importing)] {
        if !nodes.is_empty() {
            console.plain(&format!("Set as {state} in: {nodes}\n"));
        }
    }
    (migrating, importing)
}

/// Makes the node with most keys the owner.
fn choose_owner(view: &mut ClusterView<'_>, slot: u16, open: &mut OpenSlot, keys: &[(usize, u64)]) -> Outcome<usize> {
    let console = view.console;
    console.info(">>> No single clear owner for the slot, selecting an owner by # of keys...\n");
    let Some(owner) = with_most_keys(&claimants(view, keys)) else {
        return console.refuse("[ERR] Can't select a slot owner. Impossible to fix.\n");
    };
    console.warn(&format!("*** Configuring {} as the slot owner\n", view.nodes[owner].address()));
    set_slot(view, owner, slot, "STABLE", None)?;
    take_slot(view, owner, slot, false)?;
    open.set_owner(owner);
    Ok(owner)
}

fn apply(view: &mut ClusterView<'_>, slot: u16, open: &OpenSlot, owner: usize, remedy: Remedy) -> Outcome {
    let console = view.console;
    let address = |view: &ClusterView<'_>, node: usize| view.nodes[node].address();
    match remedy {
        Remedy::FinishMove { from, to } => {
            let (source, target) = (address(view, from), address(view, to));
            console.info(&format!(">>> Case 1: Moving slot {slot} from {source} to {target}\n"));
            finish_move(view, slot, (from, to), MoveKind::Whole)?;
        }
        Remedy::GatherAtOwner => {
            let target = address(view, owner);
            console.info(&format!(">>> Case 2: Moving all the {slot} slot keys to its owner {target}\n"));
            gather(view, slot, open, owner)?;
        }
        Remedy::FinishMoveAndClose { from, to } => {
            let (source, target) = (address(view, from), address(view, to));
            console.info(&format!(
                ">>> Case 3: Moving slot {slot} from {source} to {target} and closing it on all the other importing \
                 nodes.\n"
            ));
            finish_move(view, slot, (from, to), MoveKind::Whole)?;
            for node in open.importing.iter().filter(|node| **node != to) {
                set_slot(view, *node, slot, "STABLE", None)?;
            }
        }
        Remedy::CloseEverywhere { migrating } => {
            console.info(&format!(">>> Case 3: Closing slot {slot} on both migrating and importing nodes.\n"));
            for node in [migrating].iter().chain(&open.importing) {
                set_slot(view, *node, slot, "STABLE", None)?;
            }
        }
        Remedy::Close(node) => {
            console.info(&format!(">>> Case 4: Closing slot {slot} on {}\n", address(view, node)));
            set_slot(view, node, slot, "STABLE", None)?;
        }
        Remedy::None => {}
    }
    Ok(())
}

fn gather(view: &mut ClusterView<'_>, slot: u16, open: &OpenSlot, owner: usize) -> Outcome {
    for node in open.importing.iter().copied().filter(|node| *node != owner) {
        finish_move(view, slot, (node, owner), MoveKind::KeysOnly)?;
        view.console.info(&format!(">>> Setting {slot} as STABLE in {}\n", view.nodes[node].address()));
        set_slot(view, node, slot, "STABLE", None)?;
    }
    // Only keys were moved: the other primaries do not know the slot's owner yet.
    for node in view.primaries().into_iter().filter(|node| *node != owner) {
        set_slot(view, node, slot, "NODE", Some(owner))?;
    }
    Ok(())
}

fn finish_move(view: &mut ClusterView<'_>, slot: u16, ends: (usize, usize), kind: MoveKind) -> Outcome {
    let moved = move_slot(view, ends, slot, kind, &mut MoveProgress::marks());
    moved.map_err(|failure| tell_of_failure(view, failure))
}
