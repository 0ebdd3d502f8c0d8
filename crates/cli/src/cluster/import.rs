//! `import`: moves the keys of a server that is no cluster to the nodes that own their slots.

use resp::Value;

use super::check_cluster::{self, Extent};
use super::cluster_view::{ClusterView, Include, address_of, words};
use super::console::{Console, Outcome, Reported, give_up};
use super::move_progress::MoveProgress;
use super::node::{accepted, info_field, open};
use super::planning::node_lines::read_address;
use super::slot_move::login_words;
use crate::options::Options;
use crate::resp_session::RespSession;

/// COUNT of the walk over the server's keys.
const STEP: &str = "1000";

pub fn run(options: &Options, console: Console) -> Outcome {
    let (host, port) = address_of(&options.cluster.arguments)?;
    let Some(from) = &options.cluster.from else {
        return give_up("[ERR] Option '--cluster-from' is required for subcommand 'import'.");
    };
    let Some((from_host, from_port, _)) = read_address(from).filter(|(host, port, _)| !host.is_empty() && *port != 0)
    else {
        return give_up("[ERR] Invalid --cluster-from host. You need to pass a valid address (ie. 120.0.0.1:7000).");
    };
    let server = format!("{from_host}:{from_port}");
    console.info(&format!(">>> Importing data from {server} to cluster {host}:{port}\n"));
    let mut view = ClusterView::load(options, console, (host, port), Include::Reachable)?;
    if !check_cluster::check(&mut view, Extent::Full)? {
        return Err(Reported);
    }
    let mut source = connect(options, &from_host, from_port)?;
    import(&mut view, &mut source).or_else(|why| match why {
        Problem::OfServer(text) => console.refuse(&format!("Source {server} replied with error:\n{text}\n")),
        Problem::Other(text) => console.refuse(&text),
    })
}

/// Reason why keys do not move.
enum Problem {
    OfServer(String),
    Other(String),
}

/// Connects without TLS: a server that sends its keys to the cluster without TLS accepts none either.
fn connect(options: &Options, host: &str, port: u16) -> Outcome<RespSession> {
    let mut plain = options.clone();
    plain.tls.enabled = false;
    let mut source = match open(&plain, host, port) {
        Ok(source) => source,
        Err(failure) => return give_up(&format!("{failure}.")),
    };
    let Some(password) = options.cluster.from_password.clone() else { return Ok(source) };
    let mut auth = vec![b"AUTH".to_vec()];
    auth.extend(options.cluster.from_user.clone());
    auth.push(password);
    match ask(&mut source, &auth) {
        Ok(_) => Ok(source),
        Err(why) => give_up(&format!("AUTH failed: {why}")),
    }
}

fn ask(source: &mut RespSession, command: &[impl AsRef<[u8]>]) -> Result<Value, String> {
    accepted(source.ask(command).map_err(|failure| failure.to_string())?)
}

fn import(view: &mut ClusterView<'_>, source: &mut RespSession) -> Result<(), Problem> {
    let console = view.console;
    let info = match ask(source, &["INFO"]).map_err(Problem::OfServer)? {
        Value::Bulk(text) | Value::Verbatim(_, text) => String::from_utf8_lossy(&text).into_owned(),
        _ => String::new(),
    };
    if info_field(&info, "cluster_enabled").is_some_and(|enabled| enabled != 0) {
        return Err(Problem::Other("[ERR] The source node should not be a cluster node.\n".to_owned()));
    }
    let Value::Int(total) = ask(source, &["DBSIZE"]).map_err(Problem::OfServer)? else {
        return Err(Problem::OfServer("an unexpected reply to DBSIZE".to_owned()));
    };
    console.warn(&format!("*** Importing {total} keys from DB 0\n"));
    let mut bar = console.for_people.then(|| MoveProgress::bar(usize::try_from(total).unwrap_or(0), "keys"));
    let sent = send_all(view, source, &mut bar);
    if let Some(bar) = &mut bar {
        bar.finish();
    }
    sent
}

fn send_all(
    view: &mut ClusterView<'_>,
    source: &mut RespSession,
    bar: &mut Option<MoveProgress>,
) -> Result<(), Problem> {
    let mut cursor = b"0".to_vec();
    loop {
        let reply = ask(source, &[&b"SCAN"[..], &cursor, b"COUNT", STEP.as_bytes()]).map_err(Problem::OfServer)?;
        let (next, keys) = step_of(reply).ok_or_else(|| Problem::OfServer("an unexpected reply to SCAN".to_owned()))?;
        let owners = owners(view, &keys)?;
        for (key, owner) in keys.iter().zip(owners) {
            send(view, source, key, owner, bar)?;
        }
        if next == b"0" {
            return Ok(());
        }
        cursor = next;
    }
}

/// Returns the next cursor and the keys.
fn step_of(reply: Value) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let Value::Array(items) = reply else { return None };
    let Ok([Value::Bulk(cursor), Value::Array(keys)]) = <[Value; 2]>::try_from(items) else { return None };
    let keys = keys.into_iter().map(|key| if let Value::Bulk(key) = key { Some(key) } else { None });
    Some((cursor, keys.collect::<Option<_>>()?))
}

/// Returns the nodes that own the slots of keys; the cluster itself computes the slots.
fn owners(view: &mut ClusterView<'_>, keys: &[Vec<u8>]) -> Result<Vec<usize>, Problem> {
    let commands = keys.iter().map(|key| [words(&["CLUSTER", "KEYSLOT"]), vec![key.clone()]].concat());
    let slots = view.nodes[0].ask_all(&commands.collect::<Vec<_>>()).map_err(Problem::Other)?;
    let primaries = view.primaries();
    let owner = |slot: Value| {
        let Value::Int(slot) = slot else { return Err(Problem::Other("an unexpected reply to KEYSLOT\n".to_owned())) };
        let owns = |node: &&usize| u16::try_from(slot).is_ok_and(|slot| view.nodes[**node].line.slots.contains(slot));
        primaries.iter().find(owns).copied().ok_or_else(|| Problem::Other(format!("[ERR] Nobody owns slot {slot}\n")))
    };
    slots.into_iter().map(owner).collect()
}

fn send(
    view: &ClusterView<'_>,
    source: &mut RespSession,
    key: &[u8],
    owner: usize,
    bar: &mut Option<MoveProgress>,
) -> Result<(), Problem> {
    let target = &view.nodes[owner].line;
    if bar.is_none() {
        let mut text = b"Migrating ".to_vec();
        text.extend(key);
        text.extend(format!(" to {}: ", target.address()).bytes());
        crate::transport::print(&text);
    }
    let settings = view.settings();
    let (port, timeout) = (target.port.to_string(), settings.timeout.to_string());
    let mut command = words(&["MIGRATE", &target.host, &port, "", "0", &timeout]);
    key.clone_into(&mut command[3]);
    command.extend(login_words(view.options));
    command.extend([(settings.copy, "COPY"), (settings.replace, "REPLACE")].iter().filter(|(on, _)| *on).map(word));
    ask(source, &command).map_err(Problem::OfServer)?;
    match bar {
        Some(bar) => bar.done(1),
        None => view.console.ok("OK\n"),
    }
    Ok(())
}

fn word((_, word): &(bool, &str)) -> Vec<u8> {
    word.as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read() {
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        let keys = Value::Array(vec![bulk("a"), bulk("b")]);
        assert_eq!(
            step_of(Value::Array(vec![bulk("7"), keys])),
            Some((b"7".to_vec(), vec![b"a".to_vec(), b"b".to_vec()]))
        );
        assert_eq!(step_of(Value::Array(vec![bulk("7")])), None);
        assert_eq!(step_of(Value::Array(vec![bulk("7"), Value::Array(vec![Value::Null])])), None);
    }
}
