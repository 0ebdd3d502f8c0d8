//! `call` and `set-timeout`: the same command for every node.

use resp::Value;

use super::cluster_report;
use super::cluster_view::{ClusterView, Include, address_of};
use super::console::{Console, Outcome, give_up};
use crate::options::Options;
use crate::reply_format;

/// Milliseconds within which no network is dependable.
const TIMEOUT_MIN: i64 = 100;

pub fn call(options: &Options, console: Console) -> Outcome {
    let (known, command) = options.cluster.arguments.split_at(1);
    let mut view = ClusterView::load(options, console, address_of(known)?, Include::Reachable)?;
    let words: Vec<_> = command.iter().map(|word| String::from_utf8_lossy(word)).collect();
    console.info(">>> Calling");
    console.plain(&format!(" {}\n", words.join(" ")));
    for node in &mut view.nodes {
        let is_left_out =
            if node.is_primary() { options.cluster.only_replicas } else { options.cluster.only_primaries };
        if is_left_out {
            continue;
        }
        if options.output.is_json() {
            let reply = node.ask_all(&[command.to_vec()]).map(|mut replies| replies.pop().unwrap_or(Value::Null));
            cluster_report::print_reply(options, &node.address(), reply);
            continue;
        }
        let mut reply = Vec::new();
        match node.ask_all(&[command.to_vec()]) {
            Ok(replies) => {
                for value in replies {
                    reply_format::raw(&mut reply, &value, &options.element_delimiter);
                }
            }
            Err(_) => reply.extend(b"Failed!"),
        }
        let mut line = format!("{}: ", node.address()).into_bytes();
        line.extend(reply);
        line.push(b'\n');
        crate::transport::print(&line);
    }
    Ok(())
}

pub fn set_timeout(options: &Options, console: Console) -> Outcome {
    let (known, timeout) = options.cluster.arguments.split_at(1);
    let (address, timeout) = (address_of(known)?, String::from_utf8_lossy(&timeout.concat()).into_owned());
    if !timeout.parse().is_ok_and(|timeout: i64| timeout >= TIMEOUT_MIN) {
        return give_up("Setting a node timeout of less than 100 milliseconds is a bad idea.");
    }
    let mut view = ClusterView::load(options, console, address, Include::Reachable)?;
    console.info(">>> Reconfiguring node timeout in every cluster node...\n");
    let (mut well, mut refused) = (0, 0);
    for node in &mut view.nodes {
        let set = node.ask(&["CONFIG", "SET", "cluster-node-timeout", &timeout]);
        match set.and_then(|_| node.ask(&["CONFIG", "REWRITE"])) {
            Ok(_) => {
                console.warn(&format!("*** New timeout set for {}\n", node.address()));
                well += 1;
            }
            Err(why) => {
                console.error(&format!("ERR setting node-timeout for {}: {why}\n", node.address()));
                refused += 1;
            }
        }
    }
    console.info(&format!(">>> New node timeout set. {well} OK, {refused} ERR.\n"));
    Ok(())
}
