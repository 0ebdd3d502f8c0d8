//! Listening sockets: the ports for TCP, TLS and the book protocol on every bound address, a Unix socket.

use crate::connection::socket::SocketStream;
use crate::system::log;
use engine::config::{Config, Directive, os_message};
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use nix::unistd::Group;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::fs::Permissions;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{PermissionsExt, chown};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of replies that the kernel takes before their turn to be sent comes. By itself it would take 4 MiB from every
/// connection whose peer does not read; a few hundred of these bring all of the machine's TCP to its limit of memory,
/// at which even the word that a peer is gone is dropped.
const UNSENT_MAX: u32 = 128 << 10;

/// Protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    Resp,
    Tls,
    Book,
}

impl Port {
    /// All ports.
    pub const ALL: [Port; 3] = [Port::Resp, Port::Tls, Port::Book];

    fn directive(self) -> Directive {
        match self {
            Port::Resp => Directive::PORT,
            Port::Tls => Directive::TLS_PORT,
            Port::Book => Directive::BOOK_PORT,
        }
    }
}

/// A socket that accepts connections.
pub enum Listener {
    Tcp { socket: TcpListener, port: Port, address: SocketAddr },
    Unix { socket: UnixListener, path: String },
}

/// A connection that was just accepted, with the addresses of both ends as CLIENT LIST prints them.
pub struct Accepted {
    pub stream: SocketStream,
    pub addr: String,
    pub laddr: String,
    /// Whether the peer is on this machine: over loopback or a Unix socket.
    pub local: bool,
    pub port: Port,
}

impl Listener {
    /// Returns its name in the log.
    pub fn kind(&self) -> &'static str {
        match self {
            Listener::Tcp { port: Port::Resp, .. } => "tcp",
            Listener::Tcp { port: Port::Tls, .. } => "tls",
            Listener::Tcp { port: Port::Book, .. } => "book",
            Listener::Unix { .. } => "unix",
        }
    }

    /// Returns the protocol of the port.
    pub fn port(&self) -> Port {
        match self {
            Listener::Tcp { port, .. } => *port,
            Listener::Unix { .. } => Port::Resp,
        }
    }

    /// Returns its name in `proxy-protocol`.
    pub fn directive(&self) -> &'static str {
        match self {
            Listener::Tcp { port: Port::Resp, .. } => "port",
            Listener::Tcp { port: Port::Tls, .. } => "tls-port",
            Listener::Tcp { port: Port::Book, .. } => "book-port",
            Listener::Unix { .. } => "unixsocket",
        }
    }

    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp { socket, .. } => registry.register(socket, token, Interest::READABLE),
            Listener::Unix { socket, .. } => registry.register(socket, token, Interest::READABLE),
        }
    }

    /// Sets the keepalive, which connections have from their listener. Options are wishes: a connection without them
    /// still works.
    pub fn set_keepalive(&self, config: &Config) {
        if let Listener::Tcp { socket, .. } = self {
            let _ = keep_alive(&SockRef::from(socket), keepalive(config));
        }
    }

    /// Returns the next connection; None when no client waits.
    pub fn accept(&self) -> io::Result<Option<Accepted>> {
        let accepted = match self {
            Listener::Tcp { socket, port, address } => socket.accept().and_then(|(stream, peer)| {
                let laddr = if address.ip().is_unspecified() { stream.local_addr()? } else { *address }.to_string();
                let local = peer.ip().to_canonical().is_loopback();
                let addr = canonical(peer).to_string();
                Ok(Accepted { stream: SocketStream::Tcp(stream), addr, laddr, local, port: *port })
            }),
            Listener::Unix { socket, path } => socket.accept().map(|(stream, _)| {
                let addr = format!("{path}:0");
                let laddr = addr.clone();
                Accepted { stream: SocketStream::Unix(stream), laddr, addr, local: true, port: Port::Resp }
            }),
        };
        match accepted {
            Ok(accepted) => Ok(Some(accepted)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix { path, .. } = self {
            log::notice("Removing the unix socket file.");
            // The path may be gone already; then there is nothing to clean up.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Returns an IPv4 peer of an IPv6 socket as IPv4.
fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}

/// Returns the seconds after which a silent peer is asked whether it is there; 0: never.
fn keepalive(config: &Config) -> u64 {
    config.int(Directive::TCP_KEEPALIVE).max(0) as u64
}

fn keep_alive(socket: &Socket, seconds: u64) -> io::Result<()> {
    if seconds == 0 {
        return socket.set_keepalive(false);
    }
    let third = Duration::from_secs((seconds / 3).max(1));
    let times = TcpKeepalive::new().with_time(Duration::from_secs(seconds)).with_interval(third).with_retries(3);
    socket.set_tcp_keepalive(&times)
}

/// Opens all sockets of the configuration. An address with a leading `-` may be missing.
pub fn open(config: &Config) -> Result<Vec<Listener>, String> {
    let mut listeners = Vec::new();
    for port in Port::ALL {
        listeners.extend(open_tcp_port(config, port)?);
    }
    let path = String::from_utf8_lossy(config.text(Directive::UNIXSOCKET)).into_owned();
    if !path.is_empty() {
        let socket = open_unix(&path, config).map_err(|error| format!("Failed opening Unix socket: {error}"))?;
        listeners.push(Listener::Unix { socket, path });
    }
    if listeners.is_empty() {
        return Err("Configured to not listen anywhere, exiting.".to_owned());
    }
    Ok(listeners)
}

/// Opens the port of one protocol on every bound address.
pub fn open_tcp_port(config: &Config, port: Port) -> Result<Vec<Listener>, String> {
    let mut listeners = Vec::new();
    let number = config.int(port.directive()) as u16;
    if number != 0 {
        open_port(config, number, port, &mut listeners)?;
    }
    Ok(listeners)
}

fn backlog(config: &Config) -> i32 {
    i32::try_from(config.int(Directive::TCP_BACKLOG)).unwrap_or(i32::MAX)
}

fn open_port(config: &Config, number: u16, port: Port, to: &mut Vec<Listener>) -> Result<(), String> {
    let kind = if port == Port::Tls { "tls" } else { "tcp" };
    let sockets = open_addresses(config, number, kind)?;
    to.extend(sockets.into_iter().map(|(socket, address)| Listener::Tcp { socket, port, address }));
    Ok(())
}

/// Opens the port of a cluster's bus on every bound address.
pub fn open_bus(config: &Config, number: u16) -> Result<Vec<TcpListener>, String> {
    Ok(open_addresses(config, number, "cluster")?.into_iter().map(|(socket, _)| socket).collect())
}

/// Opens the admin plane's port on its own addresses.
pub fn open_admin(config: &Config, number: u16) -> Result<Vec<std::net::TcpListener>, String> {
    let addresses = config.addresses(Directive::ADMIN_BIND);
    Ok(open_all(config, addresses, number, "admin")?.into_iter().map(|(socket, _)| socket.into()).collect())
}

fn open_addresses(config: &Config, number: u16, kind: &str) -> Result<Vec<(TcpListener, SocketAddr)>, String> {
    let opened = open_all(config, config.bind_addresses(), number, kind)?;
    Ok(opened.into_iter().map(|(socket, address)| (TcpListener::from_std(socket.into()), address)).collect())
}

fn open_all(
    config: &Config,
    addresses: &[Arc<[u8]>],
    number: u16,
    kind: &str,
) -> Result<Vec<(Socket, SocketAddr)>, String> {
    let mut opened = Vec::new();
    for address in addresses {
        let text = String::from_utf8_lossy(address).into_owned();
        let (optional, name) = match text.strip_prefix('-') {
            Some(name) => (true, name),
            None => (false, &text[..]),
        };
        let open = |address| Ok((open_tcp(address, config)?, address));
        match resolve(name, number).and_then(open) {
            Ok(open) => opened.push(open),
            Err(error) => {
                log::warning(format_args!(
                    "Warning: Could not create server {} listening socket {name}:{number}: {}",
                    kind.to_ascii_uppercase(),
                    reason(&error)
                ));
                if optional && is_missing(&error) {
                    continue;
                }
                return Err(format!("Failed listening on port {number} ({kind}), aborting."));
            }
        }
    }
    // Every address was optional, and none is there.
    if opened.is_empty() && !addresses.is_empty() {
        return Err(format!("Failed listening on port {number} ({kind}), aborting."));
    }
    Ok(opened)
}

/// Returns whether the protocol or the address does not exist on this machine.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
        || matches!(error.raw_os_error(), Some(97 | 93 | 94 | 22))
}

fn resolve(name: &str, port: u16) -> io::Result<SocketAddr> {
    match name {
        "*" => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)),
        "::*" => Ok(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)),
        _ => (name, port).to_socket_addrs()?.next().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into()),
    }
}

fn open_tcp(address: SocketAddr, config: &Config) -> io::Result<Socket> {
    let protocol = if config.flag(Directive::MPTCP) { Protocol::MPTCP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    // Connections have these options from their listener. They are wishes too.
    let _ = socket.set_tcp_notsent_lowat(UNSENT_MAX);
    let _ = socket.set_tcp_nodelay(true);
    let _ = keep_alive(&socket, keepalive(config));
    let mark = config.int(Directive::SOCKET_MARK_ID) as u32;
    if mark != 0 {
        let _ = socket.set_mark(mark);
    }
    socket.listen(backlog(config))?;
    Ok(socket)
}

/// Returns the system's text alone: without the additions of the standard library, and without the operation.
fn reason(error: &io::Error) -> String {
    let text = os_message(error);
    text.strip_prefix("failed to lookup address information: ").map_or_else(|| text.clone(), str::to_owned)
}

fn open_unix(path: &str, config: &Config) -> Result<UnixListener, String> {
    let mode = config.int(Directive::UNIXSOCKETPERM) as u32;
    let group = String::from_utf8_lossy(config.text(Directive::UNIXSOCKETGROUP)).into_owned();
    // The file of an earlier server would be in the way.
    let _ = std::fs::remove_file(path);
    let step = |name: &'static str| move |error: io::Error| format!("{name}: {}", os_message(&error));
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(step("creating socket"))?;
    socket.set_nonblocking(true).map_err(step("fcntl"))?;
    socket.bind(&SockAddr::unix(path).map_err(step("bind"))?).map_err(step("bind"))?;
    if mode != 0 {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(step("chmod"))?;
    }
    if !group.is_empty() {
        give_to_group(path, &group)?;
    }
    socket.listen(backlog(config)).map_err(step("listen"))?;
    Ok(UnixListener::from_std(socket.into()))
}

/// Gives the file to a group, by name or by number.
fn give_to_group(path: &str, name: &str) -> Result<(), String> {
    let failed = |what: &str| format!("getgrnam error for group '{name}': {what}");
    let id = match Group::from_name(name).map_err(|error| failed(error.desc()))? {
        Some(group) => group.gid.as_raw(),
        None => name.parse().map_err(|_| failed("there is none"))?,
    };
    chown(path, None, Some(id)).map_err(|error| format!("chown error for group '{name}': {}", os_message(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_connections_leave_little_with_the_kernel() {
        let socket = open_tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &Config::default()).unwrap();
        let socket = TcpListener::from_std(socket.into());
        let address = socket.local_addr().unwrap();
        let listener = Listener::Tcp { socket, port: Port::Resp, address };
        let _client = std::net::TcpStream::connect(address).unwrap();
        let accepted = std::iter::repeat_with(|| listener.accept().unwrap()).flatten().next().unwrap();
        let SocketStream::Tcp(stream) = &accepted.stream else { panic!("not TCP") };
        assert_eq!(SockRef::from(stream).tcp_notsent_lowat().unwrap(), UNSENT_MAX);
    }
}
