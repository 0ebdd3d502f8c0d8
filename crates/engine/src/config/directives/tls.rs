//! TLS: certificates, ciphers, sessions.

use crate::config::directive::{Directive, directives};
use crate::config::directive_entry::{DirectiveEntry, INT_MAX, PORT_MAX, Unmet, choice, flag, integer, text};

const NO_TLS: &str = "Cinnabar has no TLS";

directives! { after super::cluster::END;
    /// Whether clients must show a certificate.
    TLS_AUTH_CLIENTS = choice("tls-auth-clients", &["no", "yes", "optional"], "yes").unsupported(NO_TLS).unmet(Unmet::Refused);
    /// The field of a client's certificate that names its user.
    TLS_AUTH_CLIENTS_USER = choice("tls-auth-clients-user", &["CN", "URI", "off"], "off").unsupported(NO_TLS).unmet(Unmet::Refused);
    /// Seconds after which certificates are read again.
    TLS_AUTO_RELOAD_INTERVAL = integer("tls-auto-reload-interval", 0, 0, INT_MAX).unsupported(NO_TLS).unmet(Unmet::Refused);
    /// A folder of certificates of authorities.
    TLS_CA_CERT_DIR = text("tls-ca-cert-dir", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused);
    /// Certificates of authorities.
    TLS_CA_CERT_FILE = text("tls-ca-cert-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused);
    /// The server's certificate.
    TLS_CERT_FILE = text("tls-cert-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused);
    /// Ciphers up to TLS 1.2.
    TLS_CIPHERS = text("tls-ciphers", "").unsupported(NO_TLS).unmet(Unmet::Refused);
    /// Ciphers of TLS 1.3.
    TLS_CIPHERSUITES = text("tls-ciphersuites", "").unsupported(NO_TLS).unmet(Unmet::Refused);
    /// The certificate shown to other servers.
    TLS_CLIENT_CERT_FILE = text("tls-client-cert-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused);
    /// Its private key.
    TLS_CLIENT_KEY_FILE = text("tls-client-key-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused);
    /// The password of that key.
    TLS_CLIENT_KEY_FILE_PASS = text("tls-client-key-file-pass", "").sensitive().unsupported(NO_TLS).unmet(Unmet::Refused);
    /// TLS on the cluster's bus.
    TLS_CLUSTER = flag("tls-cluster", false).unsupported(NO_TLS).unmet(Unmet::Refused);
    /// Diffie-Hellman parameters.
    TLS_DH_PARAMS_FILE = text("tls-dh-params-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused);
    /// The private key of the server's certificate.
    TLS_KEY_FILE = text("tls-key-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused);
    /// The password of that key.
    TLS_KEY_FILE_PASS = text("tls-key-file-pass", "").sensitive().unsupported(NO_TLS).unmet(Unmet::Refused);
    /// The port for TLS clients.
    TLS_PORT = integer("tls-port", 0, 0, PORT_MAX).unsupported(NO_TLS).unmet(Unmet::Refused);
    /// The server's order of ciphers counts.
    TLS_PREFER_SERVER_CIPHERS = flag("tls-prefer-server-ciphers", false).unsupported(NO_TLS).unmet(Unmet::Refused);
    /// Versions of TLS that are allowed.
    TLS_PROTOCOLS = text("tls-protocols", "").unsupported(NO_TLS).unmet(Unmet::Refused);
    /// TLS to the primary.
    TLS_REPLICATION = flag("tls-replication", false).unsupported(NO_TLS).unmet(Unmet::Refused);
    /// Sessions that are remembered.
    TLS_SESSION_CACHE_SIZE = integer("tls-session-cache-size", 20480, 0, INT_MAX).unsupported(NO_TLS).unmet(Unmet::Refused);
    /// Seconds for which a session is remembered.
    TLS_SESSION_CACHE_TIMEOUT = integer("tls-session-cache-timeout", 300, 0, INT_MAX).unsupported(NO_TLS).unmet(Unmet::Refused);
    /// Remember sessions, so that they can be taken up again.
    TLS_SESSION_CACHING = flag("tls-session-caching", true).unsupported(NO_TLS).unmet(Unmet::Refused);
}
