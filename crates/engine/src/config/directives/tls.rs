//! TLS: certificates, ciphers, sessions.

use crate::config::apply::Apply;
use crate::config::directive::{Directive, directives};
use crate::config::directive_entry::{DirectiveEntry, INT_MAX, PORT_MAX, choice, flag, integer, text};

/// Directives and files are read together, once for all that are set at a time.
const TLS: Apply = Apply::Server(|server| server.tls());

directives! { after super::cluster::END;
    /// TLS on `admin-port`, with the certificates of `tls-port`.
    TLS_ADMIN = flag("tls-admin", false).immutable().confirmed();
    /// Whether clients of `tls-port` must show a certificate that an authority has signed.
    TLS_AUTH_CLIENTS = choice("tls-auth-clients", &["no", "yes", "optional"], "yes").applied(TLS);
    /// The field of a client's certificate that names its user: `CN`, or the first `URI` that is one's name.
    TLS_AUTH_CLIENTS_USER = choice("tls-auth-clients-user", &["CN", "URI", "off"], "off");
    /// Seconds after which certificates and keys are looked at again, and read if they have changed; 0 never does.
    TLS_AUTO_RELOAD_INTERVAL = integer("tls-auto-reload-interval", 0, 0, INT_MAX);
    /// A folder of certificates of authorities: all files there.
    TLS_CA_CERT_DIR = text("tls-ca-cert-dir", "").always_applied().applied(TLS);
    /// Certificates of authorities.
    TLS_CA_CERT_FILE = text("tls-ca-cert-file", "").always_applied().applied(TLS);
    /// The server's certificate.
    TLS_CERT_FILE = text("tls-cert-file", "").always_applied().applied(TLS);
    /// Ciphers of TLS 1.2, in OpenSSL's names and words; empty is all. A cipher that Cinnabar does not have is an
    /// error.
    TLS_CIPHERS = text("tls-ciphers", "").applied(TLS);
    /// Ciphers of TLS 1.3, likewise.
    TLS_CIPHERSUITES = text("tls-ciphersuites", "").applied(TLS);
    /// The certificate shown to other servers.
    TLS_CLIENT_CERT_FILE = text("tls-client-cert-file", "").always_applied().applied(TLS);
    /// Its private key.
    TLS_CLIENT_KEY_FILE = text("tls-client-key-file", "").always_applied().applied(TLS);
    /// The password of that key, which must be in PKCS 8 then.
    TLS_CLIENT_KEY_FILE_PASS = text("tls-client-key-file-pass", "").sensitive().applied(TLS);
    /// TLS on the cluster's bus, and for MIGRATE.
    TLS_CLUSTER = flag("tls-cluster", false).applied(TLS);
    /// Diffie-Hellman parameters. They are not used: ciphers agree on keys by elliptic curves only.
    TLS_DH_PARAMS_FILE = text("tls-dh-params-file", "").always_applied().applied(TLS);
    /// The private key of the server's certificate.
    TLS_KEY_FILE = text("tls-key-file", "").always_applied().applied(TLS);
    /// The password of that key, which must be in PKCS 8 then.
    TLS_KEY_FILE_PASS = text("tls-key-file-pass", "").sensitive().applied(TLS);
    /// The port for clients with TLS; 0 switches it off.
    TLS_PORT = integer("tls-port", 0, 0, PORT_MAX).applied(Apply::Server(|server| server.tls_port()));
    /// The server's order of ciphers counts.
    TLS_PREFER_SERVER_CIPHERS = flag("tls-prefer-server-ciphers", false).applied(TLS);
    /// Versions of TLS that are allowed: `TLSv1.2`, `TLSv1.3`; empty is both.
    TLS_PROTOCOLS = text("tls-protocols", "").applied(TLS);
    /// TLS to the primary.
    TLS_REPLICATION = flag("tls-replication", false).applied(TLS);
    /// Sessions that are remembered at most; 0 is any number.
    TLS_SESSION_CACHE_SIZE = integer("tls-session-cache-size", 20480, 0, INT_MAX).applied(TLS);
    /// Seconds for which a session is remembered.
    TLS_SESSION_CACHE_TIMEOUT = integer("tls-session-cache-timeout", 300, 0, INT_MAX).applied(TLS);
    /// Remember sessions, so that they can be taken up again.
    TLS_SESSION_CACHING = flag("tls-session-caching", true).applied(TLS);
}
