//! The settings of new connections: the directives and the files that they name, read together.

use crate::tls::certificate::Certificate;
use crate::tls::key_files::{self, KeyFiles, path};
use crate::tls::session_cache::SessionCache;
use cinnabar_tls::ciphers;
use cinnabar_tls::peer_verifier::PeerVerifier;
use engine::config::{Config, Directive, os_message};
use engine::host::connections::{CertificateInfo, Certificates};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

/// Tickets that a client gets for its next connections.
const TICKETS: usize = 2;

/// One reading of directives and files. Connections retain the settings that they were made with.
pub struct TlsSettings {
    /// Settings of connections that come in.
    pub server: Arc<ServerConfig>,
    /// Settings of connections from other nodes to a cluster's bus: they must show a certificate, whatever clients
    /// must.
    pub bus: Option<Arc<ServerConfig>>,
    /// Settings of connections to other servers.
    pub client: Arc<ClientConfig>,
    /// Certificates for INFO.
    pub certificates: Certificates,
    /// State of the files when they were read.
    pub materials: Materials,
}

/// State of files, by which a change is found.
#[derive(Default, PartialEq)]
pub struct Materials {
    certificates: [Vec<CertificateDer<'static>>; 3],
    /// Number and time of the keys and of the folder.
    files: [Option<(u64, i64, i64)>; 3],
}

impl Materials {
    /// Reads the present state.
    pub fn read(config: &Config) -> Materials {
        let certificates = [Directive::TLS_CERT_FILE, Directive::TLS_CLIENT_CERT_FILE, Directive::TLS_CA_CERT_FILE];
        let others = [Directive::TLS_KEY_FILE, Directive::TLS_CLIENT_KEY_FILE, Directive::TLS_CA_CERT_DIR];
        let name = |directive| Some(config.text(directive)).filter(|name: &&[u8]| !name.is_empty());
        Materials {
            certificates: certificates
                .map(|file| name(file).and_then(|name| key_files::certificates(path(name)).ok()).unwrap_or_default()),
            files: others.map(|file| {
                let data = fs::metadata(path(name(file)?)).ok()?;
                Some((data.ino(), data.mtime(), data.mtime_nsec()))
            }),
        }
    }
}

/// Returns whether anything is to be encrypted.
pub fn is_wanted(config: &Config) -> bool {
    config.int(Directive::TLS_PORT) != 0
        || config.flag(Directive::TLS_REPLICATION)
        || config.flag(Directive::TLS_CLUSTER)
        || config.flag(Directive::TLS_ADMIN)
}

impl TlsSettings {
    /// Reads directives and files; an error is a line for the log.
    pub fn read(config: &Config) -> Result<TlsSettings, String> {
        // The state is read before the files: a change meanwhile is seen the next time.
        let materials = Materials::read(config);
        let text = |directive| String::from_utf8_lossy(config.text(directive)).into_owned();
        let (file, folder) = (config.text(Directive::TLS_CA_CERT_FILE), config.text(Directive::TLS_CA_CERT_DIR));
        let asks = config.choice(Directive::TLS_AUTH_CLIENTS);
        if config.text(Directive::TLS_CERT_FILE).is_empty() {
            return Err("No tls-cert-file configured!".to_owned());
        }
        if config.text(Directive::TLS_KEY_FILE).is_empty() {
            return Err("No tls-key-file configured!".to_owned());
        }
        let verifies = asks != "no" || config.flag(Directive::TLS_CLUSTER) || config.flag(Directive::TLS_REPLICATION);
        if verifies && file.is_empty() && folder.is_empty() {
            return Err("Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, \
                        tls-replication or tls-auth-clients are enabled!"
                .to_owned());
        }
        let versions = ciphers::protocols(&text(Directive::TLS_PROTOCOLS))?;
        let suites = ciphers::ciphers(&text(Directive::TLS_CIPHERSUITES), &text(Directive::TLS_CIPHERS))?;
        let provider = Arc::new(CryptoProvider { cipher_suites: suites, ..ring::default_provider() });
        let roots = Arc::new(key_files::authorities(file, folder)?);
        let certificate = Arc::new(key_files::certified_key(server_files(config), &provider)?);
        check_dh_parameters(config)?;
        let own = match client_files(config) {
            Some(files) => Some(Arc::new(key_files::certified_key(files, &provider)?)),
            None => None,
        };
        let certificates = Certificates {
            server: certificate.cert.first().and_then(|found| info(found)),
            client: own.as_ref().and_then(|own| own.cert.first()).and_then(|found| info(found)),
            authority: earliest(&key_files::authority_certificates(file, folder)?),
        };
        let shown = own.unwrap_or_else(|| Arc::clone(&certificate));
        let parts = Parts { provider, versions, roots };
        let bus = match config.flag(Directive::TLS_CLUSTER) {
            true => Some(Arc::new(parts.server(config, "yes", Arc::clone(&certificate))?)),
            false => None,
        };
        Ok(TlsSettings {
            bus,
            server: Arc::new(parts.server(config, asks, certificate)?),
            client: Arc::new(parts.client(shown)?),
            certificates,
            materials,
        })
    }
}

fn server_files(config: &Config) -> KeyFiles<'_> {
    KeyFiles {
        certificate: config.text(Directive::TLS_CERT_FILE),
        key: config.text(Directive::TLS_KEY_FILE),
        password: config.text(Directive::TLS_KEY_FILE_PASS),
    }
}

/// Returns the files for connections to other servers, if they have a certificate of their own.
fn client_files(config: &Config) -> Option<KeyFiles<'_>> {
    let certificate = config.text(Directive::TLS_CLIENT_CERT_FILE);
    let key = config.text(Directive::TLS_CLIENT_KEY_FILE);
    let password = config.text(Directive::TLS_CLIENT_KEY_FILE_PASS);
    (!certificate.is_empty() && !key.is_empty()).then_some(KeyFiles { certificate, key, password })
}

/// Checks the file of parameters, though no cipher here needs them.
fn check_dh_parameters(config: &Config) -> Result<(), String> {
    let name = config.text(Directive::TLS_DH_PARAMS_FILE);
    if name.is_empty() {
        return Ok(());
    }
    let shown = String::from_utf8_lossy(name);
    let text = fs::read(path(name)).map_err(|error| format!("Failed to load {shown}: {}", os_message(&error)))?;
    let is_one = String::from_utf8_lossy(&text).contains("-----BEGIN DH PARAMETERS-----");
    if is_one { Ok(()) } else { Err(format!("{shown}: failed to read DH params.")) }
}

fn info(certificate: &[u8]) -> Option<CertificateInfo> {
    let read = Certificate::read(certificate)?;
    Some(CertificateInfo { serial: read.serial(), expires_at: read.expires_at })
}

/// Returns the certificate that ends first.
fn earliest(certificates: &[CertificateDer<'_>]) -> Option<CertificateInfo> {
    certificates.iter().filter_map(|found| info(found)).min_by_key(|found| found.expires_at)
}

/// The parts that both directions have in common.
struct Parts {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    roots: Arc<RootCertStore>,
}

impl Parts {
    fn server(&self, config: &Config, asks: &str, certificate: Arc<CertifiedKey>) -> Result<ServerConfig, String> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&self.versions)
            .map_err(|error| format!("Failed to configure ciphers: {error}"))?;
        let builder = if asks == "no" {
            builder.with_no_client_auth()
        } else {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.roots), Arc::clone(&self.provider));
            let verifier = if asks == "optional" { verifier.allow_unauthenticated() } else { verifier };
            let verifier = verifier
                .build()
                .map_err(|error| format!("Failed to configure CA certificate(s) file/directory: {error}"))?;
            builder.with_client_cert_verifier(verifier)
        };
        let mut server = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certificate)));
        server.ignore_client_order = config.flag(Directive::TLS_PREFER_SERVER_CIPHERS);
        if config.flag(Directive::TLS_SESSION_CACHING) {
            let number = |directive| config.int(directive).max(0) as u64;
            let time = Duration::from_secs(number(Directive::TLS_SESSION_CACHE_TIMEOUT));
            let size = number(Directive::TLS_SESSION_CACHE_SIZE) as usize;
            server.session_storage = Arc::new(SessionCache::new(size, time));
            server.send_tls13_tickets = TICKETS;
        } else {
            server.session_storage = Arc::new(NoServerSessionStorage {});
            server.send_tls13_tickets = 0;
        }
        Ok(server)
    }

    fn client(&self, certificate: Arc<CertifiedKey>) -> Result<ClientConfig, String> {
        let verifier = PeerVerifier {
            roots: Some(Arc::clone(&self.roots)),
            algorithms: self.provider.signature_verification_algorithms,
        };
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&self.versions)
            .map_err(|error| format!("Failed to configure ciphers: {error}"))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certificate)));
        client.enable_sni = false;
        Ok(client)
    }
}
