//! `info`, `check` and `call` for programs: one JSON document, or one a node.

use resp::Value;
use resp::json::{integer, object, text};

use super::cluster_view::ClusterView;
use super::console::Outcome;
use crate::options::Options;
use crate::reply_format;
use crate::transport::print;

/// Prints the nodes, how much they hold, and the result of a check; None: nothing was checked.
pub fn print_cluster(view: &mut ClusterView<'_>, is_well: Option<bool>) -> Outcome {
    let mut nodes = Vec::new();
    for at in 0..view.nodes.len() {
        nodes.push(node(view, at)?);
    }
    let mut report = vec![("nodes", Value::Array(nodes))];
    if let Some(is_well) = is_well {
        let problems = view.problems.iter().chain(&view.conflicts).map(|problem| text(problem)).collect();
        report.extend([("ok", Value::Bool(is_well)), ("problems", Value::Array(problems))]);
    }
    print(&reply_format::reply(&object(report), view.options));
    Ok(())
}

fn node(view: &mut ClusterView<'_>, at: usize) -> Outcome<Value> {
    let console = view.console;
    let node = &mut view.nodes[at];
    let keys = node.order(console, &["DBSIZE"])?;
    let line = &node.line;
    Ok(object([
        ("id", text(&line.id)),
        ("address", text(&line.address())),
        ("role", text(if line.is_replica() { "replica" } else { "primary" })),
        ("primary", line.primary.as_deref().map_or(Value::Null, text)),
        ("flags", text(&line.flags_text())),
        ("slots", text(&line.slots.to_string())),
        ("slot_count", integer(line.slots.len() as u64)),
        ("replicas", integer(node.replicas as u64)),
        ("keys", keys),
    ]))
}

/// Prints a node's reply on a line of its own.
pub fn print_reply(options: &Options, address: &str, reply: Result<Value, String>) {
    let answer = match reply {
        Ok(Value::Error(error)) => ("error", Value::Bulk(error)),
        Ok(reply) => ("reply", reply),
        Err(failure) => ("error", text(&failure)),
    };
    print(&reply_format::reply(&object([("node", text(address)), answer]), options));
}
