//! What the admin plane asks of the server around it. All of it is answered at once: nothing there may wait for a
//! worker, or for a lock that one may hold for long.

use crate::family::Family;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// The server behind the plane.
pub trait Backend: Send + Sync + 'static {
    /// Whether the caller may see the metrics.
    fn authorize(&self, caller: &Caller) -> Access;

    /// All metrics, as they are now.
    fn families(&self) -> Vec<Family>;

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
    pub address: IpAddr,
    /// The certificate that it has shown, which an authority has signed.
    pub certificate: Option<CertificateDer<'static>>,
    /// What it says who it is, if it does.
    pub credentials: Option<Credentials>,
}

/// Whether a caller may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Yes.
    Granted,
    /// Not without saying who it is, or not with that password.
    Unknown,
    /// Not as who it is.
    Forbidden,
}
