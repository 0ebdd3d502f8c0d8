//! A connection that may be used becomes a client of a worker.

use crate::connection::socket::SocketStream;
use crate::listener::sockets::{Accepted, Port};
use crate::system::{clock, log};
use crate::workers::mailbox::{Login, WorkerMessage};
use crate::workers::shared::Shared;
use commands::core::acl_catalog::rule_context;
use engine::Engine;
use engine::clients::registry::ClientInfo;
use engine::config::Directive;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Reply to a client of another machine that may not enter.
const PROTECTED: &str = "-DENIED Cinnabar is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from external computers, you may adopt one of the following solutions: 1) Disable protected mode by sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting from the same host the server is running on, however MAKE SURE the server is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an authentication password for the default user. NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.\r\n";

/// Returns whether a peer may talk to this server at all. Protected mode lets in only peers on this machine (`local`):
/// over loopback, a Unix socket, or a proxy where both the proxy and its client are. Every listener asks this before it
/// obeys anything: for clients of all protocols and of a Sentinel in [`hand_out`], the admin plane before it looks at a
/// request.
pub fn may_enter(engine: &Engine, local: bool) -> bool {
    local
        || !engine.config().snapshot().flag(Directive::PROTECTED_MODE)
        || !engine.users().default_user(rule_context(engine)).needs_no_password()
}

/// Returns the line for the log about a server that listens beyond this machine while its default user needs no
/// password, and whether that is a danger.
pub fn open_door(engine: &Engine) -> Option<(bool, &'static str)> {
    let config = engine.config().snapshot();
    let is_beyond = config.addresses(Directive::BIND).iter().any(|name| !is_loopback(name));
    if !is_beyond || !engine.users().default_user(rule_context(engine)).needs_no_password() {
        return None;
    }
    Some(match config.flag(Directive::PROTECTED_MODE) {
        true => {
            (false, "No password is set: clients of other machines are refused (protected-mode). See docs/secure.md")
        }
        false => (
            true,
            "No password is set and protected-mode is off: whoever reaches this port may do everything. See docs/secure.md",
        ),
    })
}

/// Returns whether an address of `bind` is one of this machine alone.
fn is_loopback(name: &[u8]) -> bool {
    let name = std::str::from_utf8(name.strip_prefix(b"-").unwrap_or(name)).unwrap_or_default();
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Ends a connection that is not to be used with this text.
pub fn refuse(shared: &Shared, mut accepted: Accepted, text: &str) {
    shared.connections_rejected.fetch_add(1, Relaxed);
    let is_silent = match accepted.port {
        // The book protocol has no greeting and no error without a request.
        Port::Book => true,
        // A connection with TLS understands nothing before its handshake.
        Port::Tls => !matches!(accepted.stream, SocketStream::Tls(_)),
        Port::Resp => false,
    };
    if !is_silent {
        let _ = accepted.stream.write(text.as_bytes());
    }
}

/// Gives the connection to the worker with the fewest, if its peer may talk to the server.
pub fn hand_out(shared: &Shared, accepted: Accepted, login: Login) {
    if !may_enter(&shared.engine, accepted.local) {
        return refuse(shared, accepted, PROTECTED);
    }
    let Accepted { stream, addr, laddr, local, port } = accepted;
    shared.connections_received.fetch_add(1, Relaxed);
    log::verbose(format_args!("Accepted {addr}"));
    let worker = shared.assign();
    let clients = shared.engine.clients();
    let (id, now) = (clients.next_id(), clock::now().unix_ms());
    let info = Arc::new(ClientInfo::new(id, &addr, &laddr, stream.fd(), worker, now).with_local(local));
    info.is_tls.store(matches!(stream, SocketStream::Tls(_)), Relaxed);
    clients.add(&info);
    let stream = if port == Port::Book { stream.into_book() } else { stream };
    shared.post(worker, WorkerMessage::Connection { stream, info, login });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_closed_to_others() {
        let closed: [&[u8]; 5] = [b"127.0.0.1", b"-::1", b"127.8.0.1", b"localhost", b"::1"];
        assert!(closed.into_iter().all(is_loopback));
        let open: [&[u8]; 5] = [b"*", b"-::*", b"0.0.0.0", b"192.168.1.4", b"cache.example"];
        assert!(!open.into_iter().any(is_loopback));
    }
}
