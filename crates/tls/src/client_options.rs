//! A client's options, as valkey-cli has them, and the settings that they make.

use crate::ciphers::ciphers;
use crate::peer_verifier::{Anyone, PeerVerifier};
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore};
use std::env;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is said of TLS on a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// `--tls`: without it the others count for nothing.
    pub enabled: bool,
    /// `--sni`: the name that the server is told.
    pub sni: Option<String>,
    /// `--cacert`: certificates of authorities.
    pub authorities: Option<String>,
    /// `--cacertdir`: a folder of them.
    pub authority_folder: Option<String>,
    /// `--insecure`: any server will do.
    pub insecure: bool,
    /// `--cert`: the certificate that the server sees.
    pub certificate: Option<String>,
    /// `--key`: its private key.
    pub key: Option<String>,
    /// `--tls-ciphers`.
    pub ciphers: Option<String>,
    /// `--tls-ciphersuites`.
    pub ciphersuites: Option<String>,
}

/// Where systems keep the certificates of authorities.
const SYSTEM: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

impl ClientOptions {
    /// Whom the connection is to, as the server is told: `--sni`, or nobody.
    ///
    /// # Errors
    /// It is no name.
    pub fn server_name(&self) -> Result<ServerName<'static>, String> {
        match &self.sni {
            Some(name) => ServerName::try_from(name.clone()).map_err(|_| format!("Invalid server name '{name}'")),
            None => Ok(ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED))),
        }
    }

    /// The settings of connections.
    ///
    /// # Errors
    /// A file cannot be read, or a cipher is not there: a text for the user.
    pub fn settings(&self) -> Result<Arc<ClientConfig>, String> {
        let text = |option: &Option<String>| option.clone().unwrap_or_default();
        let suites = ciphers(&text(&self.ciphersuites), &text(&self.ciphers))?;
        let provider = Arc::new(CryptoProvider { cipher_suites: suites, ..ring::default_provider() });
        let algorithms = provider.signature_verification_algorithms;
        let verifier: Arc<dyn ServerCertVerifier> = if self.insecure {
            Arc::new(Anyone { algorithms })
        } else {
            Arc::new(PeerVerifier { roots: Arc::new(self.roots()?), algorithms })
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let settings = match (&self.certificate, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => {
                let failed = |name: &str, why: String| format!("Failed to load '{name}': {why}");
                let chain = certificates(Path::new(certificate)).map_err(|why| failed(certificate, why))?;
                let loaded = PrivateKeyDer::from_pem_file(key).map_err(|why| failed(key, why.to_string()))?;
                builder.with_client_auth_cert(chain, loaded).map_err(|error| failed(certificate, error.to_string()))?
            }
            _ => return Err("--cert and --key must be given together".to_owned()),
        };
        Ok(Arc::new(settings))
    }

    /// The authorities that are named, or else the system's.
    fn roots(&self) -> Result<RootCertStore, String> {
        let mut files: Vec<PathBuf> = self.authorities.iter().map(PathBuf::from).collect();
        let mut folder = self.authority_folder.as_ref().map(PathBuf::from);
        if files.is_empty() && folder.is_none() {
            let named = env::var_os("SSL_CERT_FILE").map(PathBuf::from);
            let present = || SYSTEM.iter().map(PathBuf::from).find(|path| path.exists());
            files.extend(named.or_else(present));
            folder = env::var_os("SSL_CERT_DIR").map(PathBuf::from);
        }
        let mut roots = RootCertStore::empty();
        for file in &files {
            let found = certificates(file).map_err(|why| format!("Failed to load '{}': {why}", file.display()))?;
            roots.add_parsable_certificates(found);
        }
        if let Some(folder) = folder {
            let entries = folder.read_dir().map_err(|why| format!("Failed to read '{}': {why}", folder.display()))?;
            for found in entries.flatten().filter_map(|entry| certificates(&entry.path()).ok()) {
                roots.add_parsable_certificates(found);
            }
        }
        if roots.is_empty() { Err("No certificate of an authority: see --cacert".to_owned()) } else { Ok(roots) }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    all.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_said() {
        let with = |change: fn(&mut ClientOptions)| {
            let mut options = ClientOptions { enabled: true, insecure: true, ..ClientOptions::default() };
            change(&mut options);
            options.settings().map(drop)
        };
        assert_eq!(with(|_| {}), Ok(()));
        assert_eq!(with(|it| it.key = Some("/k".into())), Err("--cert and --key must be given together".to_owned()));
        assert!(with(|it| it.ciphers = Some("RC4".into())).is_err());
        assert!(with(|it| (it.insecure, it.authorities) = (false, Some("/no/such/file".into()))).is_err());
        let named = ClientOptions { sni: Some("db.example".into()), ..ClientOptions::default() };
        assert_eq!(named.server_name().map(|name| name.to_str().into_owned()), Ok("db.example".to_owned()));
        assert!(ClientOptions { sni: Some("a b".into()), ..ClientOptions::default() }.server_name().is_err());
    }
}
