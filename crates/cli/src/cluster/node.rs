//! One node: how it describes itself, and a connection to it.

use resp::Value;
use resp::address::Target;

use super::console::{Console, Outcome, Reported, give_up};
use super::planning::node_lines::{NodeLine, read_lines};
use crate::options::{Options, Resp};
use crate::protocol_client::ClientFailure;
use crate::resp_session::RespSession;

/// A node that takes part in an operation.
#[derive(Debug)]
pub struct Node {
    /// The node's own line of CLUSTER NODES, or another node's about it.
    pub line: NodeLine,
    session: Option<RespSession>,
    /// Number of other nodes that name it as their primary.
    pub replicas: usize,
    /// Number of its databases, once that was asked.
    pub databases: Option<u32>,
    /// Database that its connection has selected.
    pub database: u32,
}

impl Node {
    /// Returns a node of which only the address is known.
    pub fn at(host: &str, port: u16) -> Node {
        Node::told_of(NodeLine { host: host.to_owned(), port, ..NodeLine::default() })
    }

    /// Returns a node that another node described.
    pub fn told_of(line: NodeLine) -> Node {
        Node { line, session: None, replicas: 0, databases: None, database: 0 }
    }

    pub fn address(&self) -> String {
        self.line.address()
    }

    pub fn id(&self) -> &str {
        &self.line.id
    }

    pub fn is_primary(&self) -> bool {
        self.line.primary.is_none()
    }

    pub fn is_connected(&self) -> bool {
        self.session.is_some()
    }

    pub fn take_session(&mut self) -> Option<RespSession> {
        self.session.take()
    }

    /// Connects and logs in.
    pub fn connect(&mut self, options: &Options, console: Console) -> Outcome {
        match open(options, &self.line.host, self.line.port) {
            Ok(session) => self.session = Some(session),
            Err(failure) => return give_up(&failure.to_string()),
        }
        let login = self.log_in(options, console);
        if login.is_ok() {
            self.ask_for_itself();
        }
        login
    }

    fn log_in(&mut self, options: &Options, console: Console) -> Outcome {
        let Some(password) = &options.password else { return Ok(()) };
        let mut auth = vec![b"AUTH".to_vec()];
        auth.extend(options.user.clone());
        auth.push(password.clone());
        let login = self.order(console, &auth).map(|_| ());
        if login.is_err() {
            self.session = None;
        }
        login
    }

    /// Asks for replies about the node alone: one with `cluster-proxy` answers for its cluster otherwise. Other nodes
    /// ignore the word, or do not know the command.
    fn ask_for_itself(&mut self) {
        _ = self.ask(&["CLIENT", "CAPA", "moved"]);
    }

    /// Returns the reply to a command; the error is the node's refusal, or why there is no reply.
    pub fn ask(&mut self, command: &[impl AsRef<[u8]>]) -> Result<Value, String> {
        let session = self.session.as_mut().ok_or("not connected")?;
        accepted(session.ask(command).map_err(|failure| failure.to_string())?)
    }

    /// Returns the replies to commands, errors among them.
    pub fn ask_all(&mut self, commands: &[Vec<Vec<u8>>]) -> Result<Vec<Value>, String> {
        let session = self.session.as_mut().ok_or("not connected")?;
        session.ask_all(commands).map_err(|failure| failure.to_string())
    }

    /// Returns the reply to a command that must succeed: prints the error if it does not.
    pub fn order(&mut self, console: Console, command: &[impl AsRef<[u8]>]) -> Outcome<Value> {
        self.ask(command).map_err(|refusal| self.tell_of_refusal(console, &refusal))
    }

    pub fn tell_of_refusal(&self, console: Console, refusal: &str) -> Reported {
        console.error(&format!("Node {} replied with error:\n{refusal}\n", self.address()));
        Reported
    }

    /// Returns a text that answers a command.
    pub fn text(&mut self, command: &[&str]) -> Result<String, String> {
        match self.ask(command)? {
            Value::Bulk(text) | Value::Verbatim(_, text) | Value::Simple(text) => {
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
            _ => Err(format!("an unexpected reply to {}", command.join(" "))),
        }
    }

    /// Returns all nodes that it knows; the error is None if the reply cannot be read.
    pub fn known_nodes(&mut self) -> Result<Vec<NodeLine>, Option<String>> {
        read_lines(&self.text(&["CLUSTER", "NODES"])?).ok_or(None)
    }

    /// Reads the node's own line, its address apart, and returns the lines of the others. The error is None if the
    /// reply cannot be read.
    pub fn load(&mut self) -> Result<Vec<NodeLine>, Option<String>> {
        let (own, others): (Vec<_>, Vec<_>) = self.known_nodes()?.into_iter().partition(|line| line.has_flag("myself"));
        if let Some(own) = own.into_iter().next() {
            let (host, port) = (std::mem::take(&mut self.line.host), self.line.port);
            self.line = NodeLine { host, port, ..own };
        }
        Ok(others)
    }

    /// Does the same, and prints an error.
    pub fn load_or_tell(&mut self, console: Console) -> Outcome<Vec<NodeLine>> {
        self.load().map_err(|error| match error {
            Some(refusal) => self.tell_of_refusal(console, &refusal),
            None => {
                eprintln!("Error: invalid CLUSTER NODES reply");
                Reported
            }
        })
    }

    /// Checks that it is a node of a cluster, and prints an error if it is not.
    pub fn expect_cluster(&mut self, console: Console) -> Outcome {
        let info = self.text(&["INFO"]);
        let problem = match &info {
            Ok(info) if info_field(info, "cluster_enabled") == Some(1) => return Ok(()),
            Ok(_) => "is not configured as a cluster node.",
            Err(refusal) => refusal.as_str(),
        };
        console.refuse(&format!("[ERR] Node {} {problem}\n", self.address()))
    }

    /// Checks that it has no keys and knows no other node, and prints an error otherwise.
    pub fn expect_empty(&mut self, console: Console) -> Outcome {
        let emptiness = self.is_empty();
        let problem = match &emptiness {
            Ok(true) => return Ok(()),
            Ok(false) => {
                "is not empty. Either the node already knows other nodes (check with CLUSTER NODES) or contains some \
                 key in database 0."
            }
            Err(refusal) => refusal.as_str(),
        };
        console.refuse(&format!("[ERR] Node {} {problem}\n", self.address()))
    }

    fn is_empty(&mut self) -> Result<bool, String> {
        if self.text(&["INFO"])?.contains("db0:") {
            return Ok(false);
        }
        Ok(info_field(&self.text(&["CLUSTER", "INFO"])?, "cluster_known_nodes") == Some(1))
    }
}

/// Opens a connection to a node, before it logs in.
pub fn open(options: &Options, host: &str, port: u16) -> Result<RespSession, ClientFailure> {
    let target = Target::Tcp { host: host.to_owned(), port };
    let options = Options {
        target,
        user: None,
        password: None,
        database: 0,
        resp: Resp::AsConnected,
        show_pushes: false,
        ..options.clone()
    };
    RespSession::open(options)
}

/// Returns a reply that is no error.
pub fn accepted(reply: Value) -> Result<Value, String> {
    match reply {
        Value::Error(text) => Err(String::from_utf8_lossy(&text).into_owned()),
        reply => Ok(reply),
    }
}

/// Returns a number in a text of `name:value` lines.
pub fn info_field(text: &str, name: &str) -> Option<i64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_whole_names() {
        let text = "cluster_enabled:1\r\nxcluster_known_nodes:2\r\ncluster_known_nodes:6\r\n";
        assert_eq!(info_field(text, "cluster_enabled"), Some(1));
        assert_eq!(info_field(text, "cluster_known_nodes"), Some(6));
        assert_eq!(info_field(text, "cluster"), None);
    }
}
