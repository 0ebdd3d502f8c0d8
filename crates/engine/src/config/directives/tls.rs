//! TLS: certificates, ciphers, sessions.

use crate::config::apply::Apply::Server;
use crate::config::directive::{Directive, directives};
use crate::config::directive_entry::{DirectiveEntry, INT_MAX, PORT_MAX, choice, flag, integer, text};

directives! { after super::cluster::END;
    /// Whether clients of `tls-port` must show a certificate that an authority has signed.
    TLS_AUTH_CLIENTS = choice("tls-auth-clients", &["no", "yes", "optional"], "yes").applied(Server(|server| server.tls()));
    /// The field of a client's certificate that names its user: `CN`, or the first `URI` that is one's name.
    TLS_AUTH_CLIENTS_USER = choice("tls-auth-clients-user", &["CN", "URI", "off"], "off");
    /// Seconds after which certificates and keys are looked at again, and read if they have changed; 0 never does.
    TLS_AUTO_RELOAD_INTERVAL = integer("tls-auto-reload-interval", 0, 0, INT_MAX);
    /// A folder of certificates of authorities: all files there.
    TLS_CA_CERT_DIR = text("tls-ca-cert-dir", "").always_applied().applied(Server(|server| server.tls()));
    /// Certificates of authorities.
    TLS_CA_CERT_FILE = text("tls-ca-cert-file", "").always_applied().applied(Server(|server| server.tls()));
    /// The server's certificate.
    TLS_CERT_FILE = text("tls-cert-file", "").always_applied().applied(Server(|server| server.tls()));
    /// Ciphers of TLS 1.2, in OpenSSL's names and words; empty is all. Those that Cinnabar has not are an error.
    TLS_CIPHERS = text("tls-ciphers", "").applied(Server(|server| server.tls()));
    /// Ciphers of TLS 1.3, likewise.
    TLS_CIPHERSUITES = text("tls-ciphersuites", "").applied(Server(|server| server.tls()));
    /// The certificate shown to other servers.
    TLS_CLIENT_CERT_FILE = text("tls-client-cert-file", "").always_applied().applied(Server(|server| server.tls()));
    /// Its private key.
    TLS_CLIENT_KEY_FILE = text("tls-client-key-file", "").always_applied().applied(Server(|server| server.tls()));
    /// The password of that key, which must be in PKCS 8 then.
    TLS_CLIENT_KEY_FILE_PASS = text("tls-client-key-file-pass", "").sensitive().applied(Server(|server| server.tls()));
    /// TLS on the cluster's bus, and for MIGRATE.
    TLS_CLUSTER = flag("tls-cluster", false).applied(Server(|server| server.tls()));
    /// Diffie-Hellman parameters. They are not used: ciphers agree on keys by elliptic curves only.
    TLS_DH_PARAMS_FILE = text("tls-dh-params-file", "").always_applied().applied(Server(|server| server.tls()));
    /// The private key of the server's certificate.
    TLS_KEY_FILE = text("tls-key-file", "").always_applied().applied(Server(|server| server.tls()));
    /// The password of that key, which must be in PKCS 8 then.
    TLS_KEY_FILE_PASS = text("tls-key-file-pass", "").sensitive().applied(Server(|server| server.tls()));
    /// The port for clients with TLS; 0 switches it off.
    TLS_PORT = integer("tls-port", 0, 0, PORT_MAX).applied(Server(|server| server.tls_port()));
    /// The server's order of ciphers counts.
    TLS_PREFER_SERVER_CIPHERS = flag("tls-prefer-server-ciphers", false).applied(Server(|server| server.tls()));
    /// Versions of TLS that are allowed: `TLSv1.2`, `TLSv1.3`; empty is both.
    TLS_PROTOCOLS = text("tls-protocols", "").applied(Server(|server| server.tls()));
    /// TLS to the primary.
    TLS_REPLICATION = flag("tls-replication", false).applied(Server(|server| server.tls()));
    /// Sessions that are remembered at most; 0 is any number.
    TLS_SESSION_CACHE_SIZE = integer("tls-session-cache-size", 20480, 0, INT_MAX).applied(Server(|server| server.tls()));
    /// Seconds for which a session is remembered.
    TLS_SESSION_CACHE_TIMEOUT = integer("tls-session-cache-timeout", 300, 0, INT_MAX).applied(Server(|server| server.tls()));
    /// Remember sessions, so that they can be taken up again.
    TLS_SESSION_CACHING = flag("tls-session-caching", true).applied(Server(|server| server.tls()));
}
