//! TLS: certificates, ciphers, sessions.

use crate::config::directive::Directive::*;
use crate::config::row::{INT_MAX, PORT_MAX, Row, choice, flag, integer, text};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    choice(TlsAuthClients, "tls-auth-clients", &["no", "yes", "optional"], "yes"),
    choice(TlsAuthClientsUser, "tls-auth-clients-user", &["CN", "URI", "off"], "off"),
    integer(TlsAutoReloadInterval, "tls-auto-reload-interval", 0, 0, INT_MAX),
    text(TlsCaCertDir, "tls-ca-cert-dir", "").always_applied(),
    text(TlsCaCertFile, "tls-ca-cert-file", "").always_applied(),
    text(TlsCertFile, "tls-cert-file", "").always_applied(),
    text(TlsCiphers, "tls-ciphers", ""),
    text(TlsCiphersuites, "tls-ciphersuites", ""),
    text(TlsClientCertFile, "tls-client-cert-file", "").always_applied(),
    text(TlsClientKeyFile, "tls-client-key-file", "").always_applied(),
    text(TlsClientKeyFilePass, "tls-client-key-file-pass", "").sensitive(),
    flag(TlsCluster, "tls-cluster", false),
    text(TlsDhParamsFile, "tls-dh-params-file", "").always_applied(),
    text(TlsKeyFile, "tls-key-file", "").always_applied(),
    text(TlsKeyFilePass, "tls-key-file-pass", "").sensitive(),
    integer(TlsPort, "tls-port", 0, 0, PORT_MAX),
    flag(TlsPreferServerCiphers, "tls-prefer-server-ciphers", false),
    text(TlsProtocols, "tls-protocols", ""),
    flag(TlsReplication, "tls-replication", false),
    integer(TlsSessionCacheSize, "tls-session-cache-size", 20480, 0, INT_MAX),
    integer(TlsSessionCacheTimeout, "tls-session-cache-timeout", 300, 0, INT_MAX),
    flag(TlsSessionCaching, "tls-session-caching", true),
];
