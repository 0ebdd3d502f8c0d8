//! `reshard` and `rebalance`: moves slots, as many as the user says or as even weights out.

use super::ask_user::{ask, is_yes};
use super::atomic_move::move_ranges;
use super::check_cluster::{self, Extent};
use super::cluster_view::{ClusterView, Include, address_of, describe};
use super::console::{Console, Outcome, Reported, give_up};
use super::move_progress::MoveProgress;
use super::planning::balance::{Move, Share, balances, by_balance, moves};
use super::planning::reshard_table::{Gift, Giver, reshard_table};
use super::planning::slots::{SLOTS, ranges_text};
use super::slot_move::{MoveKind, move_slot};
use crate::options::Options;

pub fn reshard(options: &Options, console: Console) -> Outcome {
    let address = address_of(&options.cluster.arguments)?;
    let mut view = ClusterView::load(options, console, address, Include::Reachable)?;
    check_cluster::check(&mut view, Extent::Full)?;
    if !view.problems.is_empty() {
        return give_up("*** Please fix your cluster problems before resharding");
    }
    let count = match options.cluster.slots {
        Some(count) => count,
        None => ask_for_count(console)?,
    };
    let target = target(&view)?;
    let sources = sources(&view, target)?;
    if sources.is_empty() {
        return give_up("*** No source nodes given, operation aborted.");
    }
    let table = planned(&view, &sources, target, count);
    let question = "Do you want to proceed with the proposed reshard plan (yes/no)? ";
    if !(options.cluster.yes || is_yes(console, question)) {
        return Err(Reported);
    }
    let slots = table.iter().flat_map(Gift::slots).count();
    let mut progress = if console.for_people { MoveProgress::bar(slots, "slots") } else { MoveProgress::marks() };
    let moved = apply(&mut view, &table, target, &mut progress);
    progress.finish();
    moved.or_else(|text| console.refuse(&text))
}

fn ask_for_count(console: Console) -> Outcome<usize> {
    loop {
        let question = format!("How many slots do you want to move (from 1 to {SLOTS})? ");
        let answer = ask(console, &question).ok_or(Reported)?;
        match answer.trim().parse() {
            Ok(count) if (1..=usize::from(SLOTS)).contains(&count) => return Ok(count),
            _ => {}
        }
    }
}

fn target(view: &ClusterView<'_>) -> Outcome<usize> {
    let mut id = view.settings().to.clone().unwrap_or_default();
    while id.is_empty() {
        id = ask(view.console, "What is the receiving node ID? ").ok_or(Reported)?;
    }
    primary(view, &id)
}

/// Returns a primary by its id.
fn primary(view: &ClusterView<'_>, id: &str) -> Outcome<usize> {
    match view.by_id(id).filter(|node| view.nodes[*node].is_primary()) {
        Some(node) => Ok(node),
        None => view
            .console
            .refuse(&format!("*** The specified node ({id}) is not known or not a primary, please retry.\n")),
    }
}

/// Returns the nodes that give slots: those that are named, or all other primaries.
fn sources(view: &ClusterView<'_>, target: usize) -> Outcome<Vec<usize>> {
    let mut sources = Vec::new();
    let mut named = view.settings().from.as_deref().map(|from| from.split(',').filter(|id| !id.is_empty()));
    if named.is_none() {
        view.console.plain(
            "Please enter all the source node IDs.\n  Type 'all' to use all the nodes as source nodes for the hash \
             slots.\n  Type 'done' once you entered all the source nodes IDs.\n",
        );
    }
    loop {
        let id = match &mut named {
            Some(named) => named.next().map_or_else(|| "done".to_owned(), str::to_owned),
            None => ask(view.console, &format!("Source node #{}: ", sources.len() + 1)).ok_or(Reported)?,
        };
        match id.as_str() {
            "done" => return Ok(sources),
            "all" => return Ok(view.primaries().into_iter().filter(|node| *node != target).collect()),
            id => match primary(view, id)? {
                node if node == target => {
                    view.console.error("*** It is not possible to use the target node as source node.\n");
                }
                node => sources.push(node),
            },
        }
    }
}

/// Plans the moves, and shows them.
fn planned(view: &ClusterView<'_>, sources: &[usize], target: usize, count: usize) -> Vec<Gift> {
    let console = view.console;
    console.plain(&format!("\nReady to move {count} slots.\n  Source nodes:\n"));
    for source in sources {
        console.plain(&(describe(&view.nodes[*source], "    ") + "\n"));
    }
    console.plain(&format!("  Destination node:\n{}\n", describe(&view.nodes[target], "    ")));
    let giver = |node: &usize| {
        let slots = &view.nodes[*node].line.slots;
        Giver { node: *node, slots, counted: slots.len() }
    };
    let table = reshard_table(sources.iter().map(giver).collect(), count);
    console.plain("  Resharding plan:\n");
    for gift in &table {
        let (ranges, id) = (ranges_text(&gift.ranges), view.nodes[gift.node].id());
        console.plain(&format!("    Moving slot range {ranges} from {id}\n"));
    }
    table
}

/// Executes a table of moves; the error is a line for the user.
fn apply(view: &mut ClusterView<'_>, table: &[Gift], to: usize, progress: &mut MoveProgress) -> Result<(), String> {
    for gift in table {
        if view.settings().atomic {
            let moved = move_ranges(view, (gift.node, to), &gift.ranges, progress);
            moved.map_err(|why| format!("Atomic slot migration failed: {why}\n"))?;
            progress.done(gift.slots().count());
            continue;
        }
        for slot in gift.slots() {
            let moved = move_slot(view, (gift.node, to), slot, MoveKind::Whole, progress);
            moved.map_err(|failure| format!("clusterManagerMoveSlot failed: {}\n", failure.text))?;
            progress.done(1);
        }
    }
    Ok(())
}

pub fn rebalance(options: &Options, console: Console) -> Outcome {
    let address = address_of(&options.cluster.arguments)?;
    let mut view = ClusterView::load(options, console, address, Include::Reachable)?;
    let weights = weights(&view)?;
    let takes_part = |node: &usize| options.cluster.use_empty_primaries || !view.nodes[*node].line.slots.is_empty();
    let involved: Vec<usize> = view.primaries().into_iter().filter(takes_part).collect();
    check_cluster::check(&mut view, Extent::Quiet)?;
    if !view.problems.is_empty() {
        return console.refuse("*** Please fix your cluster problems before rebalancing\n");
    }
    let share = |node: &usize| Share { slots: view.nodes[*node].line.slots.clone(), weight: weights[*node] };
    let shares: Vec<Share> = involved.iter().map(share).collect();
    let total: f32 = shares.iter().map(|share| share.weight).sum();
    if total <= 0.0 {
        return console.refuse("*** No node has a weight: the slots can go nowhere.\n");
    }
    let threshold = options.cluster.threshold;
    let Some(balances) = balances(&shares, threshold) else {
        console.warn(&format!("*** No rebalancing needed! All nodes are within the {threshold:.2}% threshold.\n"));
        return Ok(());
    };
    console.info(&format!(">>> Rebalancing across {} nodes. Total weight = {total:.2}\n", involved.len()));
    if options.verbose {
        for at in by_balance(&balances) {
            let address = view.nodes[involved[at]].address();
            console.plain(&format!("{address} balance is {} slots\n", balances[at]));
        }
    }
    moves(&shares, &balances).iter().try_for_each(|planned| rebalance_step(&mut view, &involved, planned))
}

/// Returns the weight of each node: 1, unless the user says another.
fn weights(view: &ClusterView<'_>) -> Outcome<Vec<f32>> {
    let mut weights = vec![1.0; view.nodes.len()];
    for text in &view.settings().weights {
        let (name, weight) = text.split_once('=').unwrap_or((text, ""));
        let Some(weight) = weight.parse().ok().filter(|weight: &f32| weight.is_finite() && *weight >= 0.0) else {
            return view.console.refuse(&format!("*** invalid input {text}\n"));
        };
        let prefix = name.to_ascii_lowercase();
        let Some(node) = view.nodes.iter().position(|node| node.id().starts_with(&prefix)) else {
            return view.console.refuse(&format!("*** No such primary node {name}\n"));
        };
        weights[node] = weight;
    }
    Ok(weights)
}

fn rebalance_step(view: &mut ClusterView<'_>, involved: &[usize], planned: &Move) -> Outcome {
    let console = view.console;
    let (from, to) = (involved[planned.from], involved[planned.to]);
    let (source, target) = (view.nodes[from].address(), view.nodes[to].address());
    console.plain(&format!("Moving {} slots from {source} to {target}\n", planned.count));
    let mut progress =
        if console.for_people { MoveProgress::bar(planned.count, "slots") } else { MoveProgress::quiet_marks() };
    let moved = if view.settings().simulate {
        progress.done(planned.count);
        Ok(())
    } else {
        let gift = Gift { node: from, ranges: planned.ranges.clone() };
        apply(view, &[gift], to, &mut progress)
    };
    progress.finish();
    if !console.for_people {
        console.plain("\n");
    }
    moved.or_else(|text| console.refuse(&text))
}
