//! A client's options, as valkey-cli has them, and the settings made from them.

use crate::authorities::{authorities, certificates};
use crate::ciphers::ciphers;
use crate::peer_verifier::PeerVerifier;
use rustls::ClientConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

/// A command line's options of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// `--tls`: without it the other options have no effect.
    pub enabled: bool,
    /// `--sni`: the name that is sent to the server.
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

impl ClientOptions {
    /// Returns the host's name that is sent to the server: `--sni`, or none.
    ///
    /// # Errors
    /// The text is no name.
    pub fn server_name(&self) -> Result<ServerName<'static>, String> {
        match &self.sni {
            Some(name) => ServerName::try_from(name.clone()).map_err(|_| format!("Invalid server name '{name}'")),
            None => Ok(ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED))),
        }
    }

    /// Returns the settings of connections.
    ///
    /// # Errors
    /// A file cannot be read, or a cipher is not supported: a text for the user.
    pub fn settings(&self) -> Result<Arc<ClientConfig>, String> {
        let text = |option: &Option<String>| option.clone().unwrap_or_default();
        let suites = ciphers(&text(&self.ciphersuites), &text(&self.ciphers))?;
        let provider = Arc::new(CryptoProvider { cipher_suites: suites, ..ring::default_provider() });
        let algorithms = provider.signature_verification_algorithms;
        let roots = if self.insecure {
            None
        } else {
            let (file, folder) = (self.authorities.as_deref(), self.authority_folder.as_deref());
            Some(Arc::new(authorities(file, folder, "--cacert")?))
        };
        let verifier = Arc::new(PeerVerifier { roots, algorithms });
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_options_are_refused() {
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
