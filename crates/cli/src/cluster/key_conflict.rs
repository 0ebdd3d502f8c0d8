//! Keys that are on both nodes of a move: they may be overwritten if their values are the same, or if the user says so.

use resp::Value;

use super::cluster_view::ClusterView;

/// Digest of a key that does not exist.
const NO_KEY: &[u8] = b"0000000000000000000000000000000000000000";
const FORBIDDEN: &str = "ERR DEBUG command not allowed.";
const FORCE: &str = "You can relaunch the command with --cluster-replace option to force key overriding.\n";

/// Checks that the keys on the target may be overwritten; an error has been printed.
pub fn settle_conflict(view: &mut ClusterView<'_>, (from, to): (usize, usize), keys: &[Vec<u8>]) -> Result<(), String> {
    let console = view.console;
    console.warn("\n*** Target key exists\n");
    if !view.settings().replace {
        console.warn("*** Checking key values on both nodes...\n");
        let (source, target) = (digests(view, from, keys), digests(view, to, keys));
        let (source, target) = match (source, target) {
            (Ok(source), Ok(target)) => (source, target),
            (source, target) => {
                let refusals: Vec<String> = [source.err(), target.err()].into_iter().flatten().collect();
                console.error("*** Value check failed!\n");
                console.error(&advice(&refusals));
                return Err(refusals.join(", "));
            }
        };
        let different = different(keys, &source, &target);
        if !different.is_empty() {
            tell_of_difference(view, (from, to), &different);
            return Err(format!("{} key(s) have different values", different.len()));
        }
    }
    console.warn("*** Replacing target keys...\n");
    Ok(())
}

fn digests(view: &mut ClusterView<'_>, node: usize, keys: &[Vec<u8>]) -> Result<Vec<Value>, String> {
    let mut command = vec![b"DEBUG".to_vec(), b"DIGEST-VALUE".to_vec()];
    command.extend(keys.iter().cloned());
    let reply = view.nodes[node].ask(&command).and_then(|reply| match reply {
        Value::Array(digests) => Ok(digests),
        _ => Err("an unexpected reply to DEBUG DIGEST-VALUE".to_owned()),
    });
    if let Err(refusal) = &reply {
        view.nodes[node].tell_of_refusal(view.console, refusal);
    }
    reply
}

/// Returns the keys that both nodes have with different values.
fn different<'k>(keys: &'k [Vec<u8>], source: &[Value], target: &[Value]) -> Vec<&'k Vec<u8>> {
    let exists = |digest: &Value| !matches!(digest, Value::Simple(text) | Value::Bulk(text) if text == NO_KEY);
    let pairs = keys.iter().zip(source.iter().zip(target));
    let differing = pairs.filter(|(_, (source, target))| exists(source) && exists(target) && source != target);
    differing.map(|(key, _)| key).collect()
}

fn advice(refusals: &[String]) -> String {
    if refusals.iter().any(|refusal| refusal.starts_with(FORBIDDEN)) {
        let or = FORCE.replacen("You", "Or you", 1);
        format!("DEBUG command is not allowed.\nYou can turn on the enable-debug-command option.\n{or}")
    } else {
        format!("DEBUG DIGEST-VALUE command is not supported.\n{FORCE}")
    }
}

fn tell_of_difference(view: &ClusterView<'_>, (from, to): (usize, usize), keys: &[&Vec<u8>]) {
    let console = view.console;
    console.error(&format!(
        "*** Found {} key(s) in both source node and target node having different values.\n    Source node: {}\n    \
         Target node: {}\n    Keys(s):\n",
        keys.len(),
        view.nodes[from].address(),
        view.nodes[to].address()
    ));
    for key in keys {
        console.error(&format!("    - {}\n", String::from_utf8_lossy(key)));
    }
    console.error(
        "Please fix the above key(s) manually and try again or relaunch the command \nwith --cluster-replace option to \
         force key overriding.\n",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_one_node_lacks_do_not_differ() {
        let digest = |text: &str| Value::Simple(text.repeat(40).into_bytes());
        let keys = [b"a".to_vec(), b"b".to_vec(), b"c".to_vec(), b"d".to_vec()];
        let source = [digest("1"), digest("0"), digest("3"), digest("4")];
        let target = [digest("1"), digest("2"), digest("0"), digest("5")];
        assert_eq!(different(&keys, &source, &target), [&b"d".to_vec()]);
    }

    #[test]
    fn advice_fits_the_refusal() {
        assert!(
            advice(&["ERR DEBUG command not allowed. If".to_owned()]).contains("enable-debug-command option.\nOr you")
        );
        assert!(advice(&["ERR unknown".to_owned()]).starts_with("DEBUG DIGEST-VALUE command is not supported.\nYou"));
    }
}
