//! Certificates and keys in files.

use crate::tls::certificate::Certificate;
use engine::config::os_message;
use pkcs8::der::SecretDocument;
use pkcs8::{EncryptedPrivateKeyInfo, der::Decode};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where a certificate and its key are.
#[derive(Clone, Copy)]
pub struct KeyFiles<'c> {
    pub certificate: &'c [u8],
    pub key: &'c [u8],
    pub password: &'c [u8],
}

/// A path as the configuration has it.
pub fn path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// All certificates of a file in PEM.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = fs::read(path).map_err(|error| os_message(&error))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    all.map_err(|error| error.to_string())
}

/// A certificate with its key, ready to be shown.
pub fn certified_key(files: KeyFiles<'_>, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let of_file = |what: &str, name: &[u8], why: String| {
        format!("Failed to load {what}: {}: {why}", String::from_utf8_lossy(name))
    };
    let chain = certificates(path(files.certificate))
        .and_then(|chain| if chain.is_empty() { Err("no certificate is there".to_owned()) } else { Ok(chain) })
        .map_err(|why| of_file("certificate", files.certificate, why))?;
    let key = fs::read(path(files.key)).map_err(|error| os_message(&error));
    let key = key.and_then(|text| private_key(&text, files.password));
    let certified = key.and_then(|key| CertifiedKey::from_der(chain, key, provider).map_err(|error| error.to_string()));
    certified.map_err(|why| of_file("private key", files.key, why))
}

const ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";

/// A key in PEM, which may need a password.
fn private_key(text: &[u8], password: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let lines = String::from_utf8_lossy(text);
    if let Some(at) = lines.find(ENCRYPTED) {
        if password.is_empty() {
            return Err("it is encrypted, and there is no password".to_owned());
        }
        let (_, sealed) = SecretDocument::from_pem(&lines[at..]).map_err(|error| error.to_string())?;
        let opened = EncryptedPrivateKeyInfo::from_der(sealed.as_bytes())
            .map_err(|error| error.to_string())?
            .decrypt(password)
            .map_err(|_| "the password is wrong, or its encryption is not known here".to_owned())?;
        return Ok(PrivatePkcs8KeyDer::from(opened.as_bytes().to_vec()).into());
    }
    if lines.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(
            "keys are not read in the old encrypted form: 'openssl pkcs8 -topk8' writes the newer one".to_owned()
        );
    }
    PrivateKeyDer::from_pem_slice(text).map_err(|error| error.to_string())
}

/// The authorities of a file and of all files in a folder; either may be empty.
pub fn authorities(file: &[u8], folder: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let failed = |why: String| format!("Failed to configure CA certificate(s) file/directory: {why}");
    for certificate in authority_certificates(file, folder).map_err(failed)? {
        roots.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    if roots.is_empty() && !file.is_empty() {
        return Err(failed("no certificate is there".to_owned()));
    }
    Ok(roots)
}

/// Their certificates. What is no certificate in a folder is passed over.
pub fn authority_certificates(file: &[u8], folder: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut all = Vec::new();
    if !file.is_empty() {
        all = certificates(path(file))?;
    }
    if !folder.is_empty() {
        let entries = fs::read_dir(path(folder)).map_err(|error| os_message(&error))?;
        let mut names: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        names.sort();
        for found in names.iter().filter_map(|name| certificates(name).ok()).flatten() {
            // A folder has links to its files.
            if !all.contains(&found) && Certificate::read(&found).is_some() {
                all.push(found);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pkcs8::pkcs5::pbes2;
    use pkcs8::{LineEnding, PrivateKeyInfo};
    use rcgen::KeyPair;

    #[test]
    fn keys_may_have_a_password() {
        let key = KeyPair::generate().unwrap();
        let plain = private_key(key.serialize_pem().as_bytes(), b"").unwrap();
        let way = pbes2::Parameters::pbkdf2_sha256_aes256cbc(10, b"saltsalt", &[7; 16]).unwrap();
        let der = key.serialize_der();
        let sealed = PrivateKeyInfo::try_from(&der[..]).unwrap().encrypt_with_params(way, "1234").unwrap();
        let pem = sealed.to_pem("ENCRYPTED PRIVATE KEY", LineEnding::LF).unwrap();
        let text = format!("Bag Attributes\n{}", *pem);
        assert_eq!(private_key(text.as_bytes(), b"1234").unwrap(), plain);
        assert!(private_key(text.as_bytes(), b"").unwrap_err().contains("no password"));
        assert!(private_key(text.as_bytes(), b"12345").unwrap_err().contains("wrong"));
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n";
        assert!(private_key(old.as_bytes(), b"1").unwrap_err().contains("openssl pkcs8"));
        assert!(private_key(b"nothing", b"").is_err());
    }
}
