//! Commands to a server besides the load: each connection's greeting, and queries over a connection of their own.

pub mod server_link;

use crate::cluster_slots::{self, Node};
use crate::load_generator::{Encryption, RunFailure};
use crate::options::Options;
use resp::Value;
use server_link::{LinkError, ServerLink};

/// A server's `save` and `appendonly`.
pub type Durability = (String, String);

/// Returns the commands that every connection sends first; a replica gets READONLY.
pub fn greeting(options: &Options, is_replica: bool) -> Vec<Vec<Vec<u8>>> {
    let command = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect();
    let mut commands = Vec::new();
    match (&options.user, &options.password) {
        (Some(user), Some(password)) => commands.push(command(&[&b"AUTH"[..], user, password])),
        (None, Some(password)) => commands.push(command(&[&b"AUTH"[..], password])),
        _ => {}
    }
    if options.resp3 {
        commands.push(command(&[&b"HELLO"[..], b"3"]));
    }
    if options.tracking {
        commands.push(command(&[&b"CLIENT"[..], b"TRACKING", b"ON"]));
    }
    if options.database != 0 {
        commands.push(command(&[&b"SELECT"[..], options.database.to_string().as_bytes()]));
    }
    if is_replica {
        commands.push(command(&[b"READONLY"]));
    }
    commands
}

/// Returns the encryption of connections, if there is one.
pub fn encryption(options: &Options) -> Result<Option<Encryption>, String> {
    let tls = &options.tls;
    Ok(if tls.enabled { Some((tls.settings()?, tls.server_name()?)) } else { None })
}

/// Returns the server's durability; None if the server refuses to report it. A server that cannot be reached is an
/// error.
pub fn ask_configuration(options: &Options) -> Result<Option<Durability>, String> {
    let get = |name: &str| [&b"CONFIG"[..], b"GET", name.as_bytes()].map(<[u8]>::to_vec).to_vec();
    let answers = ask(options, &[get("save"), get("appendonly")])?;
    if let Some(Value::Error(text)) = answers.first()
        && text.starts_with(b"NOAUTH")
    {
        return Err(replied(options, text));
    }
    let value = |answer: &Value| match answer {
        Value::Array(items) | Value::Push(items) => items.get(1).and_then(text_of),
        Value::Map(pairs) => pairs.first().and_then(|(_, value)| text_of(value)),
        _ => None,
    };
    Ok(answers.first().and_then(value).zip(answers.get(1).and_then(value)))
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

/// Sends commands over a connection of their own and returns the replies.
pub fn ask(options: &Options, commands: &[Vec<Vec<u8>>]) -> Result<Vec<Value>, String> {
    let cannot =
        |error: std::io::Error| format!("Could not connect to server at {}: {}", options.target, reason(&error));
    let mut link = ServerLink::open(options, encryption(options)?, None).map_err(cannot)?;
    let greeting = greeting(options, false);
    link.send(greeting.iter().chain(commands)).map_err(cannot)?;
    let mut answers = Vec::new();
    while answers.len() < greeting.len() + commands.len() {
        let value = link.receive().map_err(|error| match error {
            LinkError::Io(error) => cannot(error),
            LinkError::Closed => format!("{} closed the connection", options.target),
            LinkError::Protocol(error) => error.to_string(),
        })?;
        if let Value::Error(text) = &value
            && answers.len() < greeting.len()
        {
            return Err(replied(options, text));
        }
        answers.push(value);
    }
    Ok(answers.split_off(greeting.len()))
}

/// Returns the nodes of the server's cluster that the options select.
pub fn ask_nodes(options: &Options) -> Result<Vec<Node>, String> {
    let answers = ask(options, &[vec![b"CLUSTER".to_vec(), b"SLOTS".to_vec()]])?;
    cluster_slots::nodes(answers.first(), &options.target, options.read_from)
}

/// Returns the servers that are loaded, as options for each of them.
pub fn servers(options: &Options) -> Vec<Options> {
    match &options.nodes[..] {
        [] => vec![options.clone()],
        nodes => nodes.iter().map(|node| options.against(&node.target)).collect(),
    }
}

fn replied(options: &Options, text: &[u8]) -> String {
    format!("Node {} replied with error:\n{}", options.target, String::from_utf8_lossy(text))
}

/// Returns the reason why a run ended early, for the user.
pub fn explain(failure: RunFailure, options: &Options) -> String {
    match failure {
        RunFailure::Connect(error) => format!("Could not connect to server at {}: {}", options.target, reason(&error)),
        RunFailure::Lost(error) => format!("Error: connection to {}: {}", options.target, reason(&error)),
        RunFailure::Server(text) => format!("Error from server: {text}"),
        RunFailure::Node(address, text) => format!("Error from server {address}: {text}"),
        RunFailure::Protocol => format!("Error: {} does not speak RESP", options.target),
    }
}

/// Returns the system's text of an error, without Rust's additions.
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.strip_prefix("failed to lookup address information: ").unwrap_or(text).to_owned()
}
