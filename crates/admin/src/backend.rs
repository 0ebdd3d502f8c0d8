//! The interface of the admin plane to the server around it. Every method returns at once: none may wait for a worker,
//! or for a lock that a worker may hold for long.

use crate::family::Family;
use crate::live::Live;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The server behind the plane.
pub trait Backend: Send + Sync + 'static {
    /// Returns whether this address may request more than probes, whatever its credentials.
    fn admits(&self, address: SocketAddr) -> bool;

    /// Returns whether the caller may see the metrics, and the page.
    fn authorize(&self, caller: &Caller) -> Access;

    /// Returns all metrics, as they are now.
    fn families(&self) -> Vec<Family>;

    /// Returns the numbers of the page, as they are now. `user`: the user who views it.
    fn live(&self, user: Option<&[u8]>) -> Live;

    /// Connects a new client of the server, authenticated as `user` from the beginning; without one it is as at the
    /// ports for clients. The caller speaks RESP at the returned end.
    ///
    /// # Errors
    /// The limit of clients is reached: the reason, in one line.
    fn connect(&self, caller: &Caller, user: Option<&[u8]>) -> Result<UnixStream, String>;

    /// Returns the reason that a connection which ends with its reply cannot serve this command; None if it can.
    fn unsuitable(&self, command: &[Vec<u8>]) -> Option<String>;

    /// Returns names under which the page is reached, beside `localhost` and addresses.
    fn host_names(&self) -> Vec<String>;

    /// Returns the reasons that clients must not be sent to the server; empty if they may.
    fn not_ready(&self) -> Vec<String>;

    /// Returns the settings of encryption; None where connections are not encrypted.
    ///
    /// # Errors
    /// Connections are to be encrypted, and the settings are missing.
    fn tls(&self) -> io::Result<Option<Arc<ServerConfig>>>;

    /// Writes a line to the log.
    fn warn(&self, line: &str);
}

/// A user's name and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The name; empty for the default user's.
    pub name: Vec<u8>,
    /// The password.
    pub password: Vec<u8>,
}

/// The sender of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its address.
    pub address: SocketAddr,
    /// The local end of its connection.
    pub local_address: SocketAddr,
    /// The certificate that it has shown, signed by an authority.
    pub certificate: Option<CertificateDer<'static>>,
    /// The credentials that it sent, if any.
    pub credentials: Option<Credentials>,
}

/// The result of a permission check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Permitted, as this user; without a user where only a certificate's authority vouches for the caller.
    Granted {
        /// The user's name.
        user: Option<Vec<u8>>,
    },
    /// Refused without credentials, or with that password.
    Unknown,
    /// Refused for this user.
    Forbidden,
}
