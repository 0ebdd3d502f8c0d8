//! Certificates of authorities: the named ones, or else the system's.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::env;
use std::path::{Path, PathBuf};

/// The systems' files of them.
const SYSTEM: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Returns the certificates of a file and of a folder, or else the system's; none is an error, whose text names
/// `option`.
///
/// # Errors
/// A certificate cannot be read: a text for the user.
pub fn authorities(file: Option<&str>, folder: Option<&str>, option: &str) -> Result<RootCertStore, String> {
    let mut files: Vec<PathBuf> = file.iter().map(PathBuf::from).collect();
    let mut folder = folder.map(PathBuf::from);
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
    if roots.is_empty() { Err(format!("No certificate of an authority: see {option}")) } else { Ok(roots) }
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    all.collect::<Result<_, _>>().map_err(|error| error.to_string())
}
