//! The client of the server that runs the page's commands.
//!
//! It is a connection within the process: one end is the plane's, the other becomes a worker's client as if it had come
//! in at a port, with the address of the browser, and counts towards `maxclients`. The user's rights, monitors and
//! counters apply as to any client.

use crate::connection::socket::SocketStream;
use crate::listener::acceptor::Acceptor;
use crate::listener::sockets::{Accepted, Port};
use crate::workers::mailbox::Login;
use crate::workers::shared::Shared;
use cinnabar_admin::Caller;
use commands::core::command::{BLOCKING, CommandEntry};
use commands::core::command_table::CommandTable;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

/// Commands that do not end with their reply, or that change the connection's user or protocol.
const UNSUITABLE: &[&str] = &[
    "auth",
    "client|reply",
    "client|tracking",
    "hello",
    "monitor",
    "psubscribe",
    "psync",
    "punsubscribe",
    "quit",
    "replconf",
    "reset",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "sync",
    "unsubscribe",
];

/// Connects a client for this caller. An error gives the reason why there is none.
pub fn connect(
    shared: &Shared,
    acceptor: &Acceptor,
    caller: &Caller,
    user: Option<&[u8]>,
) -> Result<UnixStream, String> {
    let (page, server) = UnixStream::pair().map_err(|error| error.to_string())?;
    server.set_nonblocking(true).map_err(|error| error.to_string())?;
    let accepted = Accepted {
        stream: SocketStream::Unix(mio::net::UnixStream::from_std(server)),
        addr: caller.address.to_string(),
        laddr: caller.local_address.to_string(),
        local: is_local(caller.address),
        port: Port::Resp,
    };
    let login = user.map_or_else(Login::nobody, |name| Login::User(name.to_vec()));
    acceptor.take_in(shared, accepted, login)?;
    Ok(page)
}

/// Returns whether a caller's address is this machine's, as at the ports for clients.
pub fn is_local(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Returns why a connection that ends with the reply does not suit this command. The server refuses an unknown command.
pub fn unsuitable(command: &[Vec<u8>]) -> Option<String> {
    let (name, rest) = command.split_first()?;
    let entry = CommandTable::get().find(name)?;
    let entry = rest.first().and_then(|word| entry.subcommand(word)).unwrap_or(entry);
    let shown = entry.full_name.replace('|', " ").to_uppercase();
    if UNSUITABLE.contains(&&*entry.full_name) {
        return Some(format!(
            "{shown} is for connections that last. Here each line has one of its own: use cinnabar-cli."
        ));
    }
    waits(entry, rest).then(|| format!("{shown} may wait for long, which cannot be done here: use cinnabar-cli."))
}

/// Returns whether the command waits. Some wait only if their arguments ask for it.
fn waits(entry: &CommandEntry, arguments: &[Vec<u8>]) -> bool {
    let is_asked = || arguments.iter().any(|word| word.eq_ignore_ascii_case(b"block"));
    entry.command.flags.has(BLOCKING) && (!["xread", "xreadgroup"].contains(&&*entry.full_name) || is_asked())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_do_not_end_with_their_reply_are_refused() {
        commands::install(&[]);
        let of = |line: &str| unsuitable(&line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        for line in
            ["get k", "XREAD STREAMS s 0", "client list", "publish a b", "multi", "nope", "client nope", "config"]
        {
            assert_eq!(of(line), None, "{line}");
        }
        for line in
            ["blpop k 0", "xread BLOCK 0 streams s $", "Subscribe a", "monitor", "client tracking on", "wait 1 0"]
        {
            assert!(of(line).is_some(), "{line}");
        }
        assert!(
            of("client reply off").is_some_and(|why| why.starts_with("CLIENT REPLY is for connections that last."))
        );
        assert!(UNSUITABLE.iter().all(|name| {
            let (name, sub) = name.split_once('|').unwrap_or((name, ""));
            let entry = CommandTable::get().find(name.as_bytes()).unwrap();
            sub.is_empty() || entry.subcommand(sub.as_bytes()).is_some()
        }));
    }
}
