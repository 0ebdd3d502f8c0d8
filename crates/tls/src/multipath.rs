//! TCP connections that may go over several paths (MPTCP, `--mptcp` of the tools), where the system and the server have
//! it.

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Connects within the time, if there is one.
///
/// # Errors
/// The system's error: it may lack MPTCP, and the server may be unreachable.
pub fn connect_multipath(address: SocketAddr, timeout: Option<Duration>) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::MPTCP))?;
    // The time for sending is that for connecting, too.
    set_socket_timeout(&socket, Timeout::Send, timeout)?;
    connect(&socket, &address)?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(TcpStream::from(socket))
}
