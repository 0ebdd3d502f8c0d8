//! TLS: certificates, ciphers, sessions.

use crate::config::directive::{Directive, directives};
use crate::config::entry::{Entry, INT_MAX, PORT_MAX, Unmet, choice, flag, integer, text};

const NO_TLS: &str = "Cinnabar has no TLS";

directives! { after super::cluster::END;
    TLS_AUTH_CLIENTS = choice("tls-auth-clients", &["no", "yes", "optional"], "yes").unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_AUTH_CLIENTS_USER = choice("tls-auth-clients-user", &["CN", "URI", "off"], "off").unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_AUTO_RELOAD_INTERVAL = integer("tls-auto-reload-interval", 0, 0, INT_MAX).unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_CA_CERT_DIR = text("tls-ca-cert-dir", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_CA_CERT_FILE = text("tls-ca-cert-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_CERT_FILE = text("tls-cert-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_CIPHERS = text("tls-ciphers", "").unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_CIPHERSUITES = text("tls-ciphersuites", "").unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_CLIENT_CERT_FILE = text("tls-client-cert-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_CLIENT_KEY_FILE = text("tls-client-key-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_CLIENT_KEY_FILE_PASS = text("tls-client-key-file-pass", "").sensitive().unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_CLUSTER = flag("tls-cluster", false).unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_DH_PARAMS_FILE = text("tls-dh-params-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_KEY_FILE = text("tls-key-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_KEY_FILE_PASS = text("tls-key-file-pass", "").sensitive().unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_PORT = integer("tls-port", 0, 0, PORT_MAX).unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_PREFER_SERVER_CIPHERS = flag("tls-prefer-server-ciphers", false).unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_PROTOCOLS = text("tls-protocols", "").unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_REPLICATION = flag("tls-replication", false).unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_SESSION_CACHE_SIZE = integer("tls-session-cache-size", 20480, 0, INT_MAX).unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_SESSION_CACHE_TIMEOUT = integer("tls-session-cache-timeout", 300, 0, INT_MAX).unsupported(NO_TLS).unmet(Unmet::Refused);
    TLS_SESSION_CACHING = flag("tls-session-caching", true).unsupported(NO_TLS).unmet(Unmet::Refused);
}
