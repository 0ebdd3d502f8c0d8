//! What the admin plane asks of the server around it. All of it is answered at once: nothing there may wait for a
//! worker, or for a lock that one may hold for long.

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
    /// Whether this address may ask for more than probes, whatever it says who it is.
    fn admits(&self, address: SocketAddr) -> bool;

    /// Whether the caller may see the metrics, and the page.
    fn authorize(&self, caller: &Caller) -> Access;

    /// All metrics, as they are now.
    fn families(&self) -> Vec<Family>;

    /// The numbers of the page, as they are now. `user`: who looks at it.
    fn live(&self, user: Option<&[u8]>) -> Live;

    /// A new client of the server, who is `user` from its beginning on; without one it is as at the ports for clients.
    /// Who has the other end speaks RESP.
    ///
    /// # Errors
    /// There can be no client more: why, in one line.
    fn connect(&self, caller: &Caller, user: Option<&[u8]>) -> Result<UnixStream, String>;

    /// Why this command is nothing for a connection that ends with its reply; None if it is.
    fn unsuitable(&self, command: &[Vec<u8>]) -> Option<String>;

    /// Names under which the page is reached, beside `localhost` and addresses.
    fn host_names(&self) -> Vec<String>;

    /// Why the server is not to be sent clients; nothing if it may.
    fn not_ready(&self) -> Vec<String>;

    /// What connections are encrypted with; None where they are not.
    ///
    /// # Errors
    /// They are to be, and there is nothing to do it with.
    fn tls(&self) -> io::Result<Option<Arc<ServerConfig>>>;

    /// A line for the log.
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

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// From where.
    pub address: SocketAddr,
    /// The end of its connection that is here.
    pub local_address: SocketAddr,
    /// The certificate that it has shown, which an authority has signed.
    pub certificate: Option<CertificateDer<'static>>,
    /// What it says who it is, if it does.
    pub credentials: Option<Credentials>,
}

/// Whether a caller may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Yes, as this user; as none where only a certificate's authority vouches for the caller.
    Granted {
        /// The user's name.
        user: Option<Vec<u8>>,
    },
    /// Not without saying who it is, or not with that password.
    Unknown,
    /// Not as who it is.
    Forbidden,
}
