//! TLS: certificates, ciphers, sessions.

use crate::config::directive::Directive::*;
use crate::config::row::{INT_MAX, PORT_MAX, Row, Unmet, choice, flag, integer, text};

const NO_TLS: &str = "Cinnabar has no TLS";

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    choice(TlsAuthClients, "tls-auth-clients", &["no", "yes", "optional"], "yes").unsupported(NO_TLS).unmet(Unmet::Refused),
    choice(TlsAuthClientsUser, "tls-auth-clients-user", &["CN", "URI", "off"], "off").unsupported(NO_TLS).unmet(Unmet::Refused),
    integer(TlsAutoReloadInterval, "tls-auto-reload-interval", 0, 0, INT_MAX).unsupported(NO_TLS).unmet(Unmet::Refused),
    text(TlsCaCertDir, "tls-ca-cert-dir", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused),
    text(TlsCaCertFile, "tls-ca-cert-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused),
    text(TlsCertFile, "tls-cert-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused),
    text(TlsCiphers, "tls-ciphers", "").unsupported(NO_TLS).unmet(Unmet::Refused),
    text(TlsCiphersuites, "tls-ciphersuites", "").unsupported(NO_TLS).unmet(Unmet::Refused),
    text(TlsClientCertFile, "tls-client-cert-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused),
    text(TlsClientKeyFile, "tls-client-key-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused),
    text(TlsClientKeyFilePass, "tls-client-key-file-pass", "").sensitive().unsupported(NO_TLS).unmet(Unmet::Refused),
    flag(TlsCluster, "tls-cluster", false).unsupported(NO_TLS).unmet(Unmet::Refused),
    text(TlsDhParamsFile, "tls-dh-params-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused),
    text(TlsKeyFile, "tls-key-file", "").always_applied().unsupported(NO_TLS).unmet(Unmet::Refused),
    text(TlsKeyFilePass, "tls-key-file-pass", "").sensitive().unsupported(NO_TLS).unmet(Unmet::Refused),
    integer(TlsPort, "tls-port", 0, 0, PORT_MAX).unsupported(NO_TLS).unmet(Unmet::Refused),
    flag(TlsPreferServerCiphers, "tls-prefer-server-ciphers", false).unsupported(NO_TLS).unmet(Unmet::Refused),
    text(TlsProtocols, "tls-protocols", "").unsupported(NO_TLS).unmet(Unmet::Refused),
    flag(TlsReplication, "tls-replication", false).unsupported(NO_TLS).unmet(Unmet::Refused),
    integer(TlsSessionCacheSize, "tls-session-cache-size", 20480, 0, INT_MAX).unsupported(NO_TLS).unmet(Unmet::Refused),
    integer(TlsSessionCacheTimeout, "tls-session-cache-timeout", 300, 0, INT_MAX).unsupported(NO_TLS).unmet(Unmet::Refused),
    flag(TlsSessionCaching, "tls-session-caching", true).unsupported(NO_TLS).unmet(Unmet::Refused),
];
