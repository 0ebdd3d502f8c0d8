//! The orders that repair a node's view of one slot, each sent to one node.

use resp::Value;

use super::cluster_view::{ClusterView, words};
use super::console::{Outcome, Reported};
use super::node::accepted;

/// Index, in the transaction below, of the command that takes the slot.
const TAKE: usize = 1;

/// Makes a node the owner of a slot, with an epoch that the others accept. `close`: the slot is stable from then on.
pub fn take_slot(view: &mut ClusterView<'_>, owner: usize, slot: u16, close: bool) -> Outcome {
    let text = slot.to_string();
    let mut commands = vec![words(&["MULTI"]), words(&["CLUSTER", "DELSLOTS", &text])];
    commands.push(words(&["CLUSTER", "ADDSLOTS", &text]));
    if close {
        commands.push(words(&["CLUSTER", "SETSLOT", &text, "STABLE"]));
    }
    commands.extend([words(&["CLUSTER", "BUMPEPOCH"]), words(&["EXEC"])]);
    let replies = view.nodes[owner].ask_all(&commands);
    let outcome =
        replies.and_then(|replies| match replies.into_iter().map(accepted).collect::<Result<Vec<_>, _>>()?.pop() {
            // The slot may have had no owner.
            Some(Value::Array(done)) => done.into_iter().nth(TAKE).map_or(Ok(Value::Null), accepted),
            _ => Err("the transaction was not executed".to_owned()),
        });
    outcome.map_err(|refusal| view.nodes[owner].tell_of_refusal(view.console, &refusal))?;
    view.nodes[owner].line.slots.insert(slot);
    Ok(())
}

/// Sends SETSLOT with the state and, if the state needs one, a node.
pub fn set_slot(view: &mut ClusterView<'_>, node: usize, slot: u16, state: &str, about: Option<usize>) -> Outcome {
    let mut command = vec!["CLUSTER".to_owned(), "SETSLOT".to_owned(), slot.to_string(), state.to_owned()];
    command.extend(about.map(|about| view.nodes[about].id().to_owned()));
    view.nodes[node].order(view.console, &command).map(|_| ())
}

/// Makes a node forget who owns a slot.
pub fn drop_slot(view: &mut ClusterView<'_>, node: usize, slot: u16) -> Outcome {
    let console = view.console;
    let Err(refusal) = view.nodes[node].ask(&["CLUSTER", "DELSLOTS", &slot.to_string()]) else { return Ok(()) };
    // A slot without an owner cannot be dropped, and need not be.
    match owner_in_eyes_of(view, node, slot) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(view.nodes[node].tell_of_refusal(console, &refusal)),
        Err(Reported) => Err(view.nodes[node].tell_of_refusal(console, &refusal)),
    }
}

/// Returns the id of the node that another node believes to own a slot.
pub fn owner_in_eyes_of(view: &mut ClusterView<'_>, node: usize, slot: u16) -> Outcome<Option<String>> {
    let Value::Array(ranges) = view.nodes[node].order(view.console, &["CLUSTER", "SLOTS"])? else { return Ok(None) };
    Ok(ranges.iter().find_map(|range| owner_of(range, slot)))
}

/// Returns the owner's id in an element of CLUSTER SLOTS, if that is about the slot.
fn owner_of(range: &Value, slot: u16) -> Option<String> {
    let Value::Array(items) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(owner), ..] = &items[..] else { return None };
    let Some(Value::Bulk(id)) = owner.get(2) else { return None };
    (*first..=*last).contains(&i64::from(slot)).then(|| String::from_utf8_lossy(id).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_found_by_range() {
        let id = Value::Bulk(b"ab".to_vec());
        let owner = Value::Array(vec![Value::Bulk(b"h".to_vec()), Value::Int(7), id, Value::Array(Vec::new())]);
        let range = Value::Array(vec![Value::Int(3), Value::Int(5), owner]);
        assert_eq!(owner_of(&range, 5).as_deref(), Some("ab"));
        assert_eq!(owner_of(&range, 6), None);
        assert_eq!(owner_of(&Value::Null, 5), None);
    }
}
